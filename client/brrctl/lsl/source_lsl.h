/* source_lsl: a stream of the Lab Streaming Layer as a source of samples. A watchdog of its own looks after senders that fall
 * silent, are killed or come back: the library reports none of these reliably. One source per process, one thread. */
#pragma once
#include "client/brrctl/detect/source.h"

struct source_lsl_config {
    const char *name; /* of the stream, its source_id or its uid */
    const char *unit; /* "uV", "mV" or "V" of all channels; NULL: as the stream says */
    double wait_s;    /* for the stream to appear */
    double idle_s;    /* end after so many seconds without samples; 0 = never */
};
/* NOT_FOUND: no such stream, or no liblsl; INVALID: several, or a stream without a rate. Ends with the first SIGINT or SIGTERM. */
int source_open_lsl(const struct source_lsl_config *config, struct source **ret, struct err *err);
