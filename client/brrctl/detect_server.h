/* detect_server: detect store://NAME/prefix as a detect job on the daemon's machine, where the recordings are, with the event files
 * written here; and detect job:ID, the same for a job queued earlier. */
#ifndef BRR_CLIENT_BRRCTL_DETECT_SERVER_H
#define BRR_CLIENT_BRRCTL_DETECT_SERVER_H
#include "client/brrctl/arguments.h"

/* The whole command, with progress, table or JSON; returns an exit code. */
int detect_on_server(const struct arguments *o);

#endif
