/* feed: an EDF or BDF that is still being written: standard input, a pipe, or a growing file. Whole records are returned as they
 * arrive; an incomplete record waits for its rest. A pipe ends with its writer; a file when nothing was added for a while; both
 * with the first SIGINT or SIGTERM (the second one kills, as usual). One feed per process, one thread. */
#pragma once

#include "formats/eegfile.h"

struct feed;
/* Opens path ("-" = standard input) and waits for its header. idle_s: end when no byte arrived for this long, 0 = never. unit: as
 * edf_assume_unit. INVALID: not EDF, or it ended inside its header; DEADLINE: no header in idle_s; CANCELLED: by a signal. */
int feed_open(const char *path, double idle_s, const char *unit, struct feed **ret, struct err *err);
/* takes NULL */
void feed_close(struct feed *feed);
/* The header, and the records returned last (edf_read_signals). Valid as long as the feed. */
const struct eegfile *feed_edf(const struct feed *feed);

/* Returns the number of new records (earlier ones become invalid), 0 when none arrived within a few hundredths of a second, -1 at
 * the end. DATA_LOSS: the file became shorter. */
int feed_next(struct feed *feed, int64_t *ret_records, struct err *err);
/* The reason it ended: "input", "idle" or "interrupted"; "" before. */
const char *feed_ended(const struct feed *feed);
/* Bytes of an incomplete last record, which is left out. */
int64_t feed_left_bytes(const struct feed *feed);
