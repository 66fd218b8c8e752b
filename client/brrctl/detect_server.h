/* detect_server: detect store://NAME/prefix, a detect job on the daemon's machine, where the recordings are, whose events files are
 * written here; and detect job:ID, the same of a job that was queued before. */
#ifndef BRR_CLIENT_BRRCTL_DETECT_SERVER_H
#define BRR_CLIENT_BRRCTL_DETECT_SERVER_H
#include "client/brrctl/arguments.h"

/* Whole, with progress, table or JSON; gives an exit code. */
int detect_on_server(const struct arguments *o);

#endif
