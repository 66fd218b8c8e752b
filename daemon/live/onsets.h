/* onsets: the EEG around the onsets of alarms, a file for each in the folder ONSETS_FOLDER below paths.results (files 0600),
 * written by a thread of its own, so that a slow, full or silent volume delays nobody. A file has the minute before the onset at
 * once, and is written again each ONSETS_STEP_S until it has the minute after it. Bounded: ONSETS_WAITING onsets are followed,
 * ONSETS_OF_STREAM of a stream; further ones are counted and logged. Files older than keep_ms go when the journal's entries do;
 * above max_bytes the oldest of the bed that has most files, of the caller who has most, goes first. onsets_add is for the loop
 * thread. */
#pragma once
#include "daemon/journal/onset_files.h"
#include "daemon/viewer/eegring_edf.h"

enum { ONSETS_WAITING = 1024, ONSETS_OF_STREAM = 8, ONSETS_STEP_S = 20, ONSETS_APART_S = 30 };

struct onsets_config {
    const char *results;     /* paths.results */
    int64_t max_bytes;       /* of all files; 0: none is written, and those that are there go by their age alone */
    int64_t keep_ms;         /* -1 = for ever */
    struct metrics *metrics; /* may be NULL */
};
struct onsets;
int onsets_start(const struct onsets_config *config, struct onsets **ret, struct err *err);
/* Writes what is there of the onsets that are followed; gives up after a few seconds when the volume does not answer, and the
 * thread ends with the process then. NULL is fine. */
void onsets_stop(struct onsets *o);
/* A live alarm went on in a stream that keeps this EEG (takes a reference); NULL of either: nothing is kept. Never waits. The
 * same onset again, as after a restart, replaces a file only by a longer one. An alarm that is on again has a file for each onset,
 * unless one of ONSETS_APART_S before is still followed. */
void onsets_add(struct onsets *o, const struct journal_entry *e, struct eegring *eeg);
