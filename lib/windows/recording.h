/* recording: the cache file of one recording, written once and then mapped read-only; or a planned recording, whose facts are known
 * (from the source's header and labels) but whose samples are not until recording_load builds or finds the cache file. Layout: 64
 * bytes of magic and padding; the binary16 rows (frontend.h) of the segments back to back; padding to 8; what features measured of
 * the first segment (feature_blocks, F64), where it is known; the index, one JSON object; a trailer of u64 index offset, u64 index
 * length (little-endian) and the magic again. The trailer detects truncated files. Reading: window.h. A writer belongs to one
 * thread; an open recording's facts are immutable, any thread. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "windows/window.h"

/* Part of every cache key: raised when the same source would produce other bytes than before. */
enum { RECORDING_VERSION = 3, RECORDING_MAX_SPANS = 1 << 20 };

struct recording_writer;
/* The rows have `columns` values, of which the first `channels` are µV. */
int recording_writer_open(const char *path, int channels, int columns, struct recording_writer **ret, struct err *err);
/* Appends n rows from sample `first` on; the arguments of frontend_sink_fn. */
int recording_writer_rows(struct recording_writer *w, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start,
                          bool held, struct err *err);
/* What features measured of the first segment, FEATURE_MEASURES of them; borrowed until the writer ends. */
struct feature_blocks;
void recording_writer_measures(struct recording_writer *w, const struct feature_blocks *blocks);
/* The content of the index. */
struct recording_facts {
    const char *key, *source, *montage;
    const char *label_source, *note, *faults;
    const char *mislabelled; /* what the samples say against the channels' names, or ""; of planned recordings nothing */
    const char *missing;     /* which samples were no numbers, or ""; of planned recordings nothing. NULL is "" */
    bool labelled;
    int channels, columns;
    double duration_s;
    int64_t samples; /* of file time; at least the end of the last segment is stored */
    const struct window_span *seizures, *unknown, *segments, *held;
    int n_seizures, n_unknown, n_segments, n_held;
};
/* The facts of an open recording, without its source and montage; valid as long as it is open. */
void recording_facts(const struct recording *rec, struct recording_facts *ret);
/* Writes the facts as members of the object open in json. */
void recording_put_facts(struct json_writer *json, const struct recording_facts *facts);
/* Reads them back: texts and spans live in arena. ERR_DATA_LOSS (names `name`) for content that no writer of this version produces.
 */
int recording_get_facts(const struct json *index, const char *name, struct arena *arena, struct recording_facts *ret,
                        struct err *err);

/* Writes index and trailer and renames the file into place. The writer records channels, columns, segments and held rows itself;
 * those of facts are ignored. Frees w, also on failure. */
int recording_writer_commit(struct recording_writer *w, const struct recording_facts *facts, struct err *err);
/* Discards the file. Takes NULL. */
void recording_writer_abort(struct recording_writer *w);

/* Makes the cache file of a planned recording: its path into ret_path. */
typedef int recording_loader_fn(void *ctx, char *ret_path, unsigned long size, struct err *err);
/* Makes a recording from its facts (copied); samples come through loader at the first recording_load. The recording takes ownership
 * of ctx, also on failure, and finally passes it to drop (may be NULL). */
struct recording_loader {
    recording_loader_fn *load;
    void (*release)(void *ctx); /* once for each success of load, when its file is no longer mapped; may be NULL */
    void (*drop)(void *ctx);
    void *ctx;
};
int recording_plan(const struct recording_facts *facts, const struct recording_loader *loader, struct recording **ret,
                   struct err *err);
/* Makes the samples readable: builds or finds the cache file of a planned recording, once; concurrent callers wait. Takes as long
 * as window_build. Returns 0 at once for an open recording. Errors: the loader's, and DATA_LOSS when the cache file has other
 * segments or labels than the facts (the source changed meanwhile, or the facts came from corrupt bytes); the next call tries
 * again. Errors do not name the recording; the caller adds it. */
int recording_load(struct recording *rec, struct err *err);
/* From now on nobody knows what these spans (ascending, apart, within the recording) hold, whatever its labels say: they are
 * unknown, and no seizure reaches into them. Once, before anybody else reads the recording. */
int recording_hide(struct recording *rec, const struct window_span *spans, int n, struct err *err);
/* Gives the samples of a planned recording back until they are loaded again. Nobody may read them meanwhile. */
void recording_unload(struct recording *rec);
/* True if recording_load would return at once. */
bool recording_ready(const struct recording *rec);
/* A sentence about channels that the samples show to be swapped, inverted or wrongly named; "" when there are none, and until the
 * recording is loaded. Any thread. */
const char *recording_mislabelled(const struct recording *rec);
/* The same, but only the first time that there is a sentence; "" otherwise. */
const char *recording_tell_mislabelled(struct recording *rec);

/* The same for samples that were no numbers, in whose place the last number of the channel stands. */
const char *recording_missing(const struct recording *rec);
const char *recording_tell_missing(struct recording *rec);

/* The row of sample `at` in `segment` of a loaded recording. */
const uint16_t *recording_rows(const struct recording *rec, int segment, int64_t at);
/* What the feature of `normalize` alone measured of the first segment of a loaded recording, for feature_give; NULL: not known. */
const double *recording_measures(const struct recording *rec, int normalize);
/* Cache key stored in the file. */
const char *recording_key(const struct recording *rec);
