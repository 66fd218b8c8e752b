/* run_command: `brrd run`: one job from its file to its end in this process, without sockets, clients or a database. It is what
 * batch systems start: it saves and ends when it is told to, and goes on where it ended when it is started again. */
#ifndef BRR_DAEMON_RUN_COMMAND_H
#define BRR_DAEMON_RUN_COMMAND_H

enum { RUN_DONE = 0, RUN_FAILED = 1, RUN_USAGE = 2, RUN_AGAIN = 75 /* EX_TEMPFAIL: saved; start it again to go on */ };

/* argv[0] is "run". Returns the exit code. */
int run_command(int argc, char **argv);

#endif
