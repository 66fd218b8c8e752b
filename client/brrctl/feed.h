/* feed: an EDF or BDF that is still being written: standard input, a pipe, or a file that grows. Whole records are handed on as
 * they come; of one that is half there the rest is waited for. A pipe ends with its writer; a file when nothing was added for a
 * while, and both with the first SIGINT or SIGTERM (the second one kills, as usual). One feed per process, one thread. */
#ifndef BRR_CLIENT_BRRCTL_FEED_H
#define BRR_CLIENT_BRRCTL_FEED_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/edf.h"

struct feed;
/* Opens path ("-" = standard input) and waits for its header. idle_s: end when no byte came for so long, 0 = never.
 * INVALID: no EDF, or it ended inside its header; DEADLINE: no header in idle_s; CANCELLED: by a signal. */
int feed_open(const char *path, double idle_s, struct feed **ret, struct err *err);
/* NULL is fine. */
void feed_close(struct feed *feed);
/* The header, and the records handed on last (edf_read_signals). Lives as long as the feed. */
const struct edf *feed_edf(const struct feed *feed);
/* Whether new records mean that time passes: a file that grows. A pipe may as well playback. */
bool feed_is_live(const struct feed *feed);

/* The next records: how many (the ones before are gone), 0 when none came within a few hundredths of a second, -1 at the end.
 * DATA_LOSS: the file became shorter. */
int feed_next(struct feed *feed, int64_t *ret_records, struct err *err);
/* What ended it: "input", "idle" or "interrupted"; "" before that. */
const char *feed_ended(const struct feed *feed);
/* Bytes of an unfinished last record, left out. */
int64_t feed_left_bytes(const struct feed *feed);

#endif
