/* recording: the cache file of one recording, written once and then mapped read-only; or a planned recording, whose facts are known
 * (from the source's header and labels) while its samples are not, until recording_load builds or finds the cache file.
 * Layout: 64 bytes of magic and padding; the binary16 rows (channels each) of the segments back to back; padding to 8; the index,
 * one JSON object; a trailer of u64 index offset, u64 index length (little-endian) and the magic again. The trailer makes a
 * truncated file visible. Reading: window.h. A writer belongs to one thread; an open recording's facts are immutable, any thread.
 */
#ifndef BRR_DATA_RECORDING_H
#define BRR_DATA_RECORDING_H
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "data/window.h"

/* Part of every cache key: raised when the same source would give other bytes than before. */
enum { RECORDING_VERSION = 1, RECORDING_MAX_SPANS = 1 << 20 };

struct recording_writer;
int recording_writer_open(const char *path, int channels, struct recording_writer **ret, struct err *err);
/* n rows from sample `first` on; the arguments of frontend_sink_fn. */
int recording_writer_rows(struct recording_writer *w, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start,
                          bool held, struct err *err);
/* What the index says. */
struct recording_facts {
    const char *key, *source, *montage;
    const char *label_source, *note;
    bool labelled;
    int channels;
    double duration_s;
    int64_t samples; /* of file time; at least the end of the last segment is stored */
    const struct window_span *seizures, *segments, *held;
    int n_seizures, n_segments, n_held;
};
/* What is known of an open recording, but for its source and montage; valid as long as it is open. */
void recording_facts(const struct recording *rec, struct recording_facts *ret);
/* The facts as members of the object that is open in json. */
void recording_put_facts(struct json_writer *json, const struct recording_facts *facts);
/* The reverse: texts and spans live in arena. ERR_DATA_LOSS (names `name`) for what no writer of this version wrote. */
int recording_get_facts(const struct json *index, const char *name, struct arena *arena, struct recording_facts *ret,
                        struct err *err);

/* Index, trailer, rename into place. The writer knows channels, segments and held rows itself: those of facts are not looked at.
 * Frees w, also on failure. */
int recording_writer_commit(struct recording_writer *w, const struct recording_facts *facts, struct err *err);
/* Leaves nothing behind. NULL is fine. */
void recording_writer_abort(struct recording_writer *w);

/* Makes the cache file of a planned recording: its path into ret_path. */
typedef int recording_loader_fn(void *ctx, char *ret_path, unsigned long size, struct err *err);
/* A recording of which only the facts (copied) are there; samples come through loader at the first recording_load. ctx becomes the
 * recording's, also on failure, and is given to drop (may be NULL) in the end. */
struct recording_loader {
    recording_loader_fn *load;
    void (*drop)(void *ctx);
    void *ctx;
};
int recording_plan(const struct recording_facts *facts, const struct recording_loader *loader, struct recording **ret,
                   struct err *err);
/* Make the samples readable: builds or finds the cache file of a planned recording, once, whoever comes first; the others wait.
 * Costs what window_build costs. 0 at once for a recording that is open already. Errors: the loader's, and DATA_LOSS when the cache
 * file has other segments or labels than the facts (the source changed meanwhile, or what the facts were read from was damaged);
 * the next call tries again. Errors do not name the recording: the caller does. */
int recording_load(struct recording *rec, struct err *err);
/* Whether recording_load would return at once. */
bool recording_ready(const struct recording *rec);

/* The row of sample `at`, which lies in `segment`, of a recording that is ready. */
const uint16_t *recording_rows(const struct recording *rec, int segment, int64_t at);
/* Cache key stored in the file. */
const char *recording_key(const struct recording *rec);

#endif
