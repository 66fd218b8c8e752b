/* run_command: `brrd run`: one job from its file to its end in this process, without sockets, clients or a database. Batch
 * systems start it. At SIGTERM or SIGUSR1 the job saves a checkpoint and the process ends; started again, the job goes on from
 * there. */
#pragma once

enum { RUN_DONE = 0, RUN_FAILED = 1, RUN_USAGE = 2, RUN_AGAIN = 75 /* EX_TEMPFAIL: saved; start it again to go on */ };

/* argv[0] is "run". Returns the exit code. */
int run_command(int argc, char **argv);
/* The value of this option where argv[*i] is "--name=VALUE", or "--name" before VALUE, to which *i then moves; NULL: it
 * is another word. */
const char *run_command_value(int argc, char **argv, int *i, const char *option);
