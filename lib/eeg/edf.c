#include "eeg/edf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "eeg/edf_state.h"

enum { FIXED_HEADER_BYTES = 256 };
static const size_t ARENA_LIMIT_BYTES = (size_t)1 << 30;

/* The header's bytes; *ret lives as long as edf. */
static int read_front(struct edf *edf, const uint8_t **ret, struct err *err) {
    size_t there = edf->bytes.len, n = there < FIXED_HEADER_BYTES ? there : FIXED_HEADER_BYTES;
    uint8_t fixed[FIXED_HEADER_BYTES], *front;
    int rc;
    if (edf->bytes.memory) {
        *ret = edf->bytes.memory;
        return 0;
    }
    if ((rc = edf_bytes_get(&edf->bytes, 0, n, fixed, ret, err)))
        return rc;
    int64_t whole = n < FIXED_HEADER_BYTES ? -1 : edf_header_bytes(fixed);
    n = whole > 0 && (uint64_t)whole <= there ? (size_t)whole : n;
    if (!(front = arena_alloc(&edf->arena, n + 1)))
        return edf_out_of_memory(edf, err);
    return edf_bytes_get(&edf->bytes, 0, n, front, ret, err);
}

static bool fits(const struct edf_header *h, int64_t body) {
    return body >= 0 && (h->declared_records >= 0 ? body == h->declared_records * h->record_bytes : body % h->record_bytes == 0);
}

/* True if the bytes from the header's end to where its field says that it ends are blank. */
static bool padding_is_blank(const struct edf *edf) {
    const struct edf_header *h = &edf->header;
    uint8_t buffer[4096];
    for (int64_t at = h->header_bytes; at < h->stated_bytes;) {
        const uint8_t *bytes;
        int64_t n = h->stated_bytes - at < (int64_t)sizeof buffer ? h->stated_bytes - at : (int64_t)sizeof buffer;
        if (h->stated_bytes > (int64_t)edf->bytes.len || edf_bytes_get(&edf->bytes, (size_t)at, (size_t)n, buffer, &bytes, NULL))
            return false;
        for (int64_t i = 0; i < n; i++)
            if (bytes[i] != ' ')
                return false;
        at += n;
    }
    return true;
}

/* Where the records begin: where the header's field says, if the file's size or blank bytes agree with it. */
static void find_records(struct edf *edf) {
    struct edf_header *h = &edf->header;
    int64_t stated = h->stated_bytes, own = h->header_bytes, len = (int64_t)edf->len;
    if (stated == own)
        return;
    bool own_fits = fits(h, len - own), certain = own_fits && h->declared_records >= 0;
    if (stated > own && stated <= len && !certain && ((!own_fits && fits(h, len - stated)) || padding_is_blank(edf))) {
        edf_header_repair(h, "the header is padded from %lld to %lld bytes, as its field says", (long long)own, (long long)stated);
        h->header_bytes = stated;
    } else if (stated < 0) {
        edf_header_repair(h, "header-bytes field holds no number; %lld from the number of signals is used", (long long)own);
    } else {
        edf_header_repair(h, "header-bytes field says '%lld'; %lld from the number of signals is used", (long long)stated,
                          (long long)own);
    }
}

static int open_records(struct edf *edf, struct err *err) {
    struct edf_header *h = &edf->header;
    const uint8_t *front;
    int rc;
    if ((rc = read_front(edf, &front, err)) || (rc = edf_header_parse(h, front, edf->bytes.len, err)))
        return rc;
    find_records(edf);
    edf->decode = edf_decoder(h->sample_bytes);
    edf->base = (size_t)h->header_bytes;
    edf_count_records(edf);
    rc = edf_build_timeline(edf, err);
    return rc || edf->header_only ? rc : edf_read_annotations(edf, err);
}

static int open_bytes(struct edf *edf, struct err *err) {
    struct edf_window *w = &edf->window;
    int rc = open_records(edf, err);
    if (w->err.code && err)
        *err = w->err;
    free(w->data);
    w->data = NULL;
    return w->err.code ? w->err.code : rc;
}

static struct edf *edf_new(const char *name) {
    struct edf *edf = calloc(1, sizeof *edf);
    if (!edf)
        return NULL;
    arena_init(&edf->arena, ARENA_LIMIT_BYTES);
    edf->header.arena = &edf->arena;
    edf->header.name = arena_strdup(&edf->arena, name);
    edf_bytes_init(&edf->bytes, edf->header.name);
    if (!edf->header.name) {
        edf_close(edf);
        return NULL;
    }
    return edf;
}

/* file_bytes −1: the file at path is whole. */
static int open_path(const char *path, bool header_only, int64_t file_bytes, struct edf **ret, struct err *err) {
    OWNED_POINTER(edf_close) struct edf *edf = edf_new(path);
    int rc;
    if (!edf)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", path);
    edf->header_only = header_only;
    if ((rc = edf_bytes_open(&edf->bytes, path, err)))
        return rc;
    size_t there = edf->bytes.len;
    edf->len = file_bytes > (int64_t)there ? (size_t)file_bytes : there;
    edf_bytes_scattered(&edf->bytes, header_only); /* a header needs no megabytes read ahead of it */
    if ((rc = open_bytes(edf, err)))
        return rc;
    edf_bytes_scattered(&edf->bytes, false);
    *ret = edf;
    edf = NULL;
    return 0;
}

bool edf_named(const char *path) {
    static const char annotations[] = "_annotations.edf";
    size_t len = strlen(path), n = sizeof annotations - 1;
    bool named = len > 4 && (!strcasecmp(path + len - 4, ".edf") || !strcasecmp(path + len - 4, ".bdf"));
    return named && (len < n || strcasecmp(path + len - n, annotations) != 0);
}

int edf_open(const char *path, struct edf **ret, struct err *err) { return open_path(path, false, -1, ret, err); }

int edf_open_header(const char *path, struct edf **ret, struct err *err) { return open_path(path, true, -1, ret, err); }

int edf_open_head(const char *path, int64_t file_bytes, struct edf **ret, bool *ret_enough, struct err *err) {
    int rc = open_path(path, true, file_bytes, ret, err);
    if (rc)
        return rc;
    *ret_enough = !(*ret)->undecided;
    return 0;
}

int edf_open_memory(const void *data, size_t len, const char *name, struct edf **ret, struct err *err) {
    struct edf *edf = edf_new(name);
    if (!edf)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", name);
    edf->bytes.memory = data;
    edf->len = edf->bytes.len = len;
    int rc = open_bytes(edf, err);
    if (rc) {
        edf_close(edf);
        return rc;
    }
    *ret = edf;
    return 0;
}

int edf_assume_unit(struct edf *edf, const char *unit, struct err *err) {
    bool blank = false;
    double factor = unit ? edf_unit_factor(unit, &blank) : 1;
    if (blank || factor <= 0)
        return err_set(err, ERR_INVALID, "the unit '%s' is no voltage; expected uV, mV or V", unit);
    for (int i = 0; unit && i < edf->header.info.n_signals; i++) {
        struct edf_signal *s = &edf->header.signals[i];
        if (s->annotation || (s->volt && !s->unit_assumed))
            continue;
        s->gain *= factor;
        s->offset *= factor;
        s->volt = true;
        s->unit_assumed = false;
        s->note = s->usable ? "" : s->note;
    }
    return 0;
}

/* ---- records that arrive ---- */

int edf_open_feed(const void *header, size_t len, const char *name, struct edf **ret, struct err *err) {
    struct edf *edf = edf_new(name);
    if (!edf)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", name);
    int rc = edf_header_parse(&edf->header, header, len, err);
    if (rc) {
        edf_close(edf);
        return rc;
    }
    edf->decode = edf_decoder(edf->header.sample_bytes);
    edf_start_clock(edf);
    *ret = edf;
    return 0;
}

int edf_feed(struct edf *edf, const void *records, int64_t n, struct err *err) {
    int64_t first = edf->header.info.n_records;
    edf->bytes.memory = records;
    edf->first_record = first;
    edf->header.info.n_records += n;
    if (!first && n > 0)
        edf_see_first_record(edf);
    return edf_place_records(edf, first, err);
}

int64_t edf_record_bytes(const struct edf *edf) { return edf->header.record_bytes; }

void edf_close(struct edf *edf) {
    if (!edf)
        return;
    edf_bytes_close(&edf->bytes);
    free(edf->segments);
    free(edf->annotations);
    arena_done(&edf->arena);
    free(edf);
}

/* ---- access ---- */

const struct edf_info *edf_info(const struct edf *edf) { return &edf->header.info; }

bool edf_annotations_known(const struct edf *edf) {
    bool place = false;
    for (int i = 0; i < edf->header.info.n_signals; i++)
        place |= edf->header.signals[i].annotation;
    return !edf->header_only || !place;
}

const char *edf_path(const struct edf *edf) { return edf->header.name; }

int edf_segments(const struct edf *edf, const struct edf_segment **ret) {
    *ret = edf->header.info.segments;
    return edf->header.info.n_segments;
}

int edf_find(const struct edf *edf, const char *label) {
    for (int i = 0; i < edf->header.info.n_signals; i++)
        if (edf->header.signals[i].usable && !strcasecmp(edf->header.signals[i].label, label))
            return i;
    return -1;
}

const char *edf_start_text(const struct edf *edf, char *buf, size_t size) {
    return edf_start_text_of(&edf->header.info.start, buf, size);
}

const char *edf_start_text_of(const struct edf_start *s, char *buf, size_t size) {
    if (s->known)
        str_format(buf, size, "%04d-%02d-%02d %02d:%02d:%02d", s->year, s->month, s->day, s->hour, s->minute, s->second);
    else
        str_copy(buf, size, "n/a");
    return buf;
}

/* Which signals of which records are read, and where to. */
struct edf_request {
    const int *signals;
    int n_signals;
    struct edf_range records;
    float *const *uv;
};

static void decode(const struct edf *edf, int signal, const uint8_t *bytes, int64_t n, float *out) {
    const struct edf_signal *s = &edf->header.signals[signal];
    edf->decode(bytes, n, (struct edf_scale){s->gain, s->offset}, out);
}

/* Records whose wanted bytes [low, high) fit the buffer, or are in memory: as many at once as fit. */
static int read_groups(const struct edf *edf, const struct edf_request *q, size_t low, size_t high, uint8_t *buffer,
                       struct err *err) {
    const struct edf_header *h = &edf->header;
    int64_t n = q->records.n_records, most = buffer ? 1 + (int64_t)(EDF_PIECE_BYTES - (high - low)) / h->record_bytes : n;
    for (int64_t r = 0, group; r < n; r += group) {
        const uint8_t *bytes;
        group = n - r < most ? n - r : most;
        int rc = edf_bytes_get(&edf->bytes, edf_offset_of(edf, q->records.first_record + r) + low,
                               (size_t)((group - 1) * h->record_bytes) + (high - low), buffer, &bytes, err);
        if (rc)
            return rc;
        for (int64_t k = 0; k < group; k++)
            for (int i = 0; i < q->n_signals; i++) {
                int64_t per_record = h->signals[q->signals[i]].samples_per_record;
                decode(edf, q->signals[i], bytes + k * h->record_bytes + (h->offset[q->signals[i]] - (int64_t)low), per_record,
                       q->uv[i] + (r + k) * per_record);
            }
    }
    return 0;
}

/* Longer records, and parts of records: each signal in pieces. */
static int read_pieces(const struct edf *edf, const struct edf_request *q, uint8_t *buffer, struct err *err) {
    const struct edf_header *h = &edf->header;
    int64_t most = EDF_PIECE_BYTES / h->sample_bytes;
    for (int64_t r = 0; r < q->records.n_records; r++)
        for (int i = 0; i < q->n_signals; i++) {
            int64_t part = q->records.n_samples, per_record = part ? part : h->signals[q->signals[i]].samples_per_record;
            size_t at = edf_offset_of(edf, q->records.first_record + r) +
                        (size_t)(h->offset[q->signals[i]] + (part ? q->records.first_sample : 0) * h->sample_bytes);
            for (int64_t k = 0; k < per_record; k += most) {
                const uint8_t *bytes;
                int64_t n = per_record - k < most ? per_record - k : most;
                int rc = edf_bytes_get(&edf->bytes, at + (size_t)(k * h->sample_bytes), (size_t)(n * h->sample_bytes), buffer,
                                       &bytes, err);
                if (rc)
                    return rc;
                decode(edf, q->signals[i], bytes, n, q->uv[i] + r * per_record + k);
            }
        }
    return 0;
}

static int read_request(const struct edf *edf, const struct edf_request *q, struct err *err) {
    const struct edf_header *h = &edf->header;
    size_t low = SIZE_MAX, high = 0;
    for (int i = 0; i < q->n_signals; i++) {
        size_t first = (size_t)h->offset[q->signals[i]];
        size_t end = first + (size_t)(h->signals[q->signals[i]].samples_per_record * h->sample_bytes);
        low = first < low ? first : low;
        high = end > high ? end : high;
    }
    if (high <= low || !q->records.n_records)
        return 0;
    bool parts = q->records.n_samples > 0;
    if (edf->bytes.memory)
        return parts ? read_pieces(edf, q, NULL, err) : read_groups(edf, q, low, high, NULL, err);
    uint8_t *buffer = malloc(EDF_PIECE_BYTES);
    if (!buffer)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", h->name);
    int rc =
        high - low <= EDF_PIECE_BYTES && !parts ? read_groups(edf, q, low, high, buffer, err) : read_pieces(edf, q, buffer, err);
    free(buffer);
    return rc;
}

int edf_read_signals(const struct edf *edf, const int *signals, int n_signals, struct edf_range records, float *const *uv,
                     struct err *err) {
    const struct edf_header *h = &edf->header;
    if (records.first_record < 0 || records.n_records < 0 || records.n_records > h->info.n_records ||
        records.first_record > h->info.n_records - records.n_records)
        return err_set(err, ERR_RANGE, "%s: %lld records from number %lld on are wanted, there are %lld", h->name,
                       (long long)records.n_records, (long long)records.first_record, (long long)h->info.n_records);
    if (records.first_record < edf->first_record)
        return err_set(err, ERR_RANGE, "%s: record %lld is wanted, the records at hand begin with %lld", h->name,
                       (long long)records.first_record, (long long)edf->first_record);
    if (records.n_records && !edf_record_there(edf, records.first_record + records.n_records - 1))
        return err_set(err, ERR_PRECONDITION, "%s: only the first %zu of %zu bytes are there", h->name, edf->bytes.len, edf->len);
    for (int i = 0; i < n_signals; i++) {
        if (signals[i] < 0 || signals[i] >= h->info.n_signals)
            return err_set(err, ERR_RANGE, "%s: signal %d is wanted, there are %d", h->name, signals[i], h->info.n_signals);
        const struct edf_signal *s = &h->signals[signals[i]];
        if (!s->usable)
            return err_set(err, ERR_PRECONDITION, "%s: signal %d '%s' cannot be read: %s", h->name, signals[i] + 1, s->label,
                           s->annotation ? "it holds annotations" : s->note);
        if (records.n_samples && (records.first_sample < 0 || records.n_samples < 0 || records.n_samples > s->samples_per_record ||
                                  records.first_sample > s->samples_per_record - records.n_samples))
            return err_set(err, ERR_RANGE, "%s: samples %lld to %lld of a record are wanted, signal %d has %lld", h->name,
                           (long long)records.first_sample, (long long)(records.first_sample + records.n_samples), signals[i] + 1,
                           (long long)s->samples_per_record);
    }
    return read_request(edf, &(struct edf_request){signals, n_signals, records, uv}, err);
}

int edf_read(const struct edf *edf, int signal, int64_t first_record, int64_t n_records, float *uv, struct err *err) {
    return edf_read_signals(edf, &signal, 1, (struct edf_range){.first_record = first_record, .n_records = n_records}, &uv, err);
}
