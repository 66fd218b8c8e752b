/* burst: what the files of `brrctl burst` share. One function per verb; each gets the words after `burst`, the verb among them, and
 * returns an exit code. */
#ifndef BRR_CLIENT_BRRCTL_BURST_H
#define BRR_CLIENT_BRRCTL_BURST_H
#include "client/brrctl/arguments.h"

/* burst_files.c: network files, without a daemon. */
int burst_generate(const struct arguments *o);
int burst_info(const struct arguments *o);

#endif
