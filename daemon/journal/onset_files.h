/* onset_files: the folder ONSETS_FOLDER below paths.results with the EEG of alarms (live/onsets.h), a file (0600) for each, whose
 * name says when, which alarm, and whose. One thread writes; any thread that may wait for the volume reads. */
#pragma once
#include "base/metrics.h"
#include "base/trusted_time.h"
#include "daemon/journal/journal_entry.h"

#define ONSETS_FOLDER "onsets"
enum { ONSETS_PATH = 4096 };

struct onset_file {
    char alarm[JOURNAL_ALARM]; /* the alarm; where it was on again, session and sample of that onset, as an alarm's id */
    int64_t wall_ms, bytes;    /* when the alarm began, by the daemon's clock */
    uint32_t owner, bed;       /* hashes of the caller, and of the bed's name */
};
/* The file of an onset at this sample of a stream, without its bytes. False if the stream's id is no name of a file. */
bool onset_file_of(const struct journal_entry *e, int64_t sample, struct onset_file *ret);
struct onset_files {
    struct onset_file *list;
    int n, room;
};
/* The files that there are, oldest first; of this alarm alone, unless alarm is NULL. A missing folder has none. */
int onsets_list(const char *results, const char *alarm, struct onset_files *ret, struct err *err);
void onset_files_done(struct onset_files *files);
int onset_path(const char *results, const struct onset_file *file, char ret[ONSETS_PATH], struct err *err);

/* ---- writing ---- */

struct onset_folder {
    char results[ONSETS_PATH];
    int64_t max_bytes, keep_ms; /* -1 = for ever */
    struct metrics *metrics;    /* may be NULL */
    struct trusted_time time;
    int64_t pruned_ms;
};
/* Writes the file of an alarm, unless the one that is there is as long; its bytes are then those of file. The oldest file of the
 * bed that has most, of the caller who has most, goes first where there would be more than max_bytes. EXHAUSTED on a volume that
 * is nearly full, NOT_FOUND if edf is empty and none is there. */
int onset_folder_put(struct onset_folder *o, struct onset_file *file, const struct str *edf, struct err *err);
/* Removes files older than keep_ms, as the journal does its entries; at most once a minute. */
void onset_folder_prune(struct onset_folder *o);
void onset_folder_count(const struct onset_folder *o, const char *result); /* in brrd_onsets_total */
