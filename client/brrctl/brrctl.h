/* brrctl: what the command families share: options, the connection, exit codes. One file per family; rows in main.c. */
#ifndef BRR_CLIENT_BRRCTL_BRRCTL_H
#define BRR_CLIENT_BRRCTL_BRRCTL_H
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "client/conn.h"

/* Exit codes that scripts can use. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_FOUND = 3, EXIT_UNAVAILABLE = 4 };

struct options {
    const char *args[64];
    int n_args;
    const char *set[64];
    int n_set;
    bool json, watch;
    const char *name, *id_file;
};

/* Each returns an exit code. */
int cmd_submit(const struct options *o);
int cmd_jobs(const struct options *o);
int cmd_job(const struct options *o);
int cmd_watch(const struct options *o);
int cmd_logs(const struct options *o);
int cmd_cancel(const struct options *o);
int cmd_resume(const struct options *o);
int cmd_version(const struct options *o);
int cmd_devices(const struct options *o);
int cmd_score(const struct options *o);

/* Print "brrctl: …" and give the exit code of an error. */
int brrctl_fail(const struct err *err);
/* Connection to BRR_ENDPOINT; NULL after printing why. */
struct conn *brrctl_connect(int *ret_exit);

#endif
