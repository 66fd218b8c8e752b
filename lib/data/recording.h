/* recording: the cache file of one recording, written once and then mapped read-only.
 * Layout: 64 bytes of magic and padding; the binary16 rows (channels each) of the segments back to back; padding to 8; the index,
 * one JSON object; a trailer of u64 index offset, u64 index length (little-endian) and the magic again. The trailer makes a
 * truncated file visible. Reading: window.h. A writer belongs to one thread; an open recording is immutable, any thread. */
#ifndef BRR_DATA_RECORDING_H
#define BRR_DATA_RECORDING_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/window.h"

/* Part of every cache key: raised when the same source would give other bytes than before. */
enum { RECORDING_VERSION = 1, RECORDING_MAX_SPANS = 1 << 20 };

struct recording_writer;
int recording_writer_open(const char *path, int channels, struct recording_writer **ret, struct err *err);
/* n rows from sample `first` on; the arguments of frontend_sink_fn. */
int recording_writer_rows(struct recording_writer *w, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start,
                          bool held, struct err *err);
/* What the index says beside what the rows said. */
struct recording_facts {
    const char *key, *source, *montage;
    const char *label_source, *note;
    bool labelled;
    double duration_s;
    int64_t samples; /* of file time; at least the end of the last segment is stored */
    const struct window_span *seizures;
    int n_seizures;
};
/* Index, trailer, rename into place. Frees w, also on failure. */
int recording_writer_commit(struct recording_writer *w, const struct recording_facts *facts, struct err *err);
/* Leaves nothing behind. NULL is fine. */
void recording_writer_abort(struct recording_writer *w);

/* The row of sample `at`, which lies in `segment`. */
const uint16_t *recording_rows(const struct recording *rec, int segment, int64_t at);
/* Cache key stored in the file. */
const char *recording_key(const struct recording *rec);

#endif
