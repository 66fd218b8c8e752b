#include "formats/edf.h"

#include "formats/edf_state.h"

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
    if ((rc = filebytes_get(&edf->bytes, 0, n, fixed, ret, err)))
        return rc;
    int64_t whole = n < FIXED_HEADER_BYTES ? -1 : edf_header_bytes(fixed);
    n = whole > 0 && (uint64_t)whole <= there ? (size_t)whole : n;
    if (!(front = arena_alloc(&edf->arena, n + 1)))
        return edf_out_of_memory(edf, err);
    return filebytes_get(&edf->bytes, 0, n, front, ret, err);
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
        if (h->stated_bytes > (int64_t)edf->bytes.len || filebytes_get(&edf->bytes, (size_t)at, (size_t)n, buffer, &bytes, NULL))
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

/* An error of a file that is a header and, behind it, a whole file with the same header: its samples would be text. */
static int refuse_second_header(struct edf *edf, const uint8_t *front, size_t own, struct err *err) {
    const int64_t body = edf->header.header_bytes;
    uint8_t buffer[4096];
    if ((uint64_t)body + own > edf->bytes.len)
        return 0;
    for (size_t at = 0; at < own; at += sizeof buffer) {
        const uint8_t *bytes;
        const size_t n = own - at < sizeof buffer ? own - at : sizeof buffer;
        int rc = filebytes_get(&edf->bytes, (size_t)body + at, n, buffer, &bytes, err);
        if (rc || memcmp(bytes, front + at, n) != 0)
            return rc;
    }
    return err_set(err, ERR_INVALID, "%s: the header stands twice: remove the first %lld bytes of the file", edf->header.name,
                   (long long)body);
}

static int open_records(struct edf *edf, struct err *err) {
    struct edf_header *h = &edf->header;
    const uint8_t *front;
    int rc;
    if ((rc = read_front(edf, &front, err)) || (rc = edf_header_parse(h, front, edf->bytes.len, err)))
        return rc;
    const size_t own = (size_t)h->header_bytes;
    find_records(edf);
    if ((rc = refuse_second_header(edf, front, own, err)))
        return rc;
    edf->decode = edf_decoder(h->sample_bytes);
    edf->body = (size_t)h->header_bytes;
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

static void close_file(struct eegfile *file) {
    struct edf *edf = (struct edf *)file;
    if (!edf)
        return;
    filebytes_close(&edf->bytes);
    FREE_MEMBERS(*edf, segments, annotations);
    arena_done(&edf->arena);
    free(edf);
}

static void edf_close(struct edf *edf) { close_file(&edf->base); }
OWNABLE(struct edf, edf_close)

static struct edf *edf_new(const char *name) {
    struct edf *edf = calloc(1, sizeof *edf);
    if (!edf)
        return NULL;
    arena_init(&edf->arena, ARENA_LIMIT_BYTES);
    edf->header.arena = &edf->arena;
    edf->header.name = arena_strdup(&edf->arena, name);
    filebytes_init(&edf->bytes, edf->header.name);
    if (!edf->header.name) {
        edf_close(edf);
        return NULL;
    }
    return edf;
}

/* What the callers of eegfile.h see. */
static struct eegfile *edf_publish(struct edf *edf) {
    bool place = false;
    for (int i = 0; i < edf->header.info.n_signals; i++)
        place |= edf->header.signals[i].annotation;
    edf->base = (struct eegfile){.format = &format_edf,
                                 .path = edf->header.name,
                                 .info = &edf->header.info,
                                 .signals = edf->header.signals,
                                 .annotations_known = !edf->header_only || !place};
    return &edf->base;
}

static int open_edf(struct format_source *source, struct eegfile **ret, struct err *err) {
    OWNED_POINTER(edf_close) struct edf *edf = edf_new(source->bytes.name);
    int rc;
    if (!edf)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", source->bytes.name);
    edf->header_only = source->depth != FORMAT_WHOLE;
    edf->bytes = source->bytes;
    edf->bytes.name = edf->header.name;
    filebytes_init(&source->bytes, source->bytes.name);
    edf->len = source->whole;
    filebytes_scattered(&edf->bytes, edf->header_only); /* a header needs no megabytes read ahead of it */
    if ((rc = open_bytes(edf, err)))
        return rc;
    filebytes_scattered(&edf->bytes, false);
    source->enough = !edf->undecided;
    *ret = edf_publish(edf);
    edf = NULL;
    return 0;
}

/* ---- records that arrive ---- */

int edf_open_feed(const void *header, size_t len, const char *name, struct eegfile **ret, struct err *err) {
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
    *ret = edf_publish(edf);
    return 0;
}

static int feed(struct eegfile *file, const void *records, int64_t n, struct err *err) {
    struct edf *edf = (struct edf *)file;
    int64_t first = edf->header.info.n_records;
    edf->bytes.memory = records;
    edf->first_record = first;
    edf->header.info.n_records += n;
    if (!first && n > 0)
        edf_see_first_record(edf);
    return edf_place_records(edf, first, err);
}

static int64_t record_bytes(const struct eegfile *file) { return ((const struct edf *)file)->header.record_bytes; }

/* ---- samples ---- */

/* Which signals of which records are read, and where to. */
struct edf_request {
    const int *signals;
    int n_signals;
    int64_t first_record, n_records;
    int64_t first_sample, n_samples; /* n_samples > 0: of each record only these samples */
    float *const *uv;
    int64_t at; /* where in uv the first sample goes */
};

static void decode(const struct edf *edf, int signal, const uint8_t *bytes, int64_t n, float *out) {
    const struct eeg_signal *s = &edf->header.signals[signal];
    edf->decode(bytes, n, (struct edf_scale){s->gain, s->offset}, out);
}

/* Records whose wanted bytes [low, high) fit the buffer, or are in memory: as many at once as fit. */
static int read_groups(const struct edf *edf, const struct edf_request *q, size_t low, size_t high, uint8_t *buffer,
                       struct err *err) {
    const struct edf_header *h = &edf->header;
    int64_t n = q->n_records, most = buffer ? 1 + (int64_t)(EDF_PIECE_BYTES - (high - low)) / h->record_bytes : n;
    for (int64_t r = 0, group; r < n; r += group) {
        const uint8_t *bytes;
        group = n - r < most ? n - r : most;
        int rc = filebytes_get(&edf->bytes, edf_offset_of(edf, q->first_record + r) + low,
                               (size_t)((group - 1) * h->record_bytes) + (high - low), buffer, &bytes, err);
        if (rc)
            return rc;
        for (int64_t k = 0; k < group; k++)
            for (int i = 0; i < q->n_signals; i++) {
                int64_t per_record = h->signals[q->signals[i]].samples_per_record;
                decode(edf, q->signals[i], bytes + k * h->record_bytes + (h->offset[q->signals[i]] - (int64_t)low), per_record,
                       q->uv[i] + q->at + (r + k) * per_record);
            }
    }
    return 0;
}

/* Longer records, and parts of records: each signal in pieces. */
static int read_pieces(const struct edf *edf, const struct edf_request *q, uint8_t *buffer, struct err *err) {
    const struct edf_header *h = &edf->header;
    int64_t most = EDF_PIECE_BYTES / h->sample_bytes;
    for (int64_t r = 0; r < q->n_records; r++)
        for (int i = 0; i < q->n_signals; i++) {
            int64_t part = q->n_samples, per_record = part ? part : h->signals[q->signals[i]].samples_per_record;
            size_t at = edf_offset_of(edf, q->first_record + r) +
                        (size_t)(h->offset[q->signals[i]] + (part ? q->first_sample : 0) * h->sample_bytes);
            for (int64_t k = 0; k < per_record; k += most) {
                const uint8_t *bytes;
                int64_t n = per_record - k < most ? per_record - k : most;
                int rc = filebytes_get(&edf->bytes, at + (size_t)(k * h->sample_bytes), (size_t)(n * h->sample_bytes), buffer,
                                       &bytes, err);
                if (rc)
                    return rc;
                decode(edf, q->signals[i], bytes, n, q->uv[i] + q->at + r * per_record + k);
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
    if (high <= low || !q->n_records)
        return 0;
    bool parts = q->n_samples > 0;
    if (edf->bytes.memory)
        return parts ? read_pieces(edf, q, NULL, err) : read_groups(edf, q, low, high, NULL, err);
    OWNED_MEMORY uint8_t *buffer = malloc(EDF_PIECE_BYTES);
    if (!buffer)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", h->name);
    int rc =
        high - low <= EDF_PIECE_BYTES && !parts ? read_groups(edf, q, low, high, buffer, err) : read_pieces(edf, q, buffer, err);
    return rc;
}

/* Whole records, or a part of one: n_samples > 0. */
static int read_records(const struct edf *edf, const struct edf_request *q, struct err *err) {
    int64_t first = q->first_record, end = first + q->n_records;
    if (first < edf->first_record)
        return err_set(err, ERR_RANGE, "%s: record %lld is wanted, the records at hand begin with %lld", edf->header.name,
                       (long long)first, (long long)edf->first_record);
    if (!edf_record_there(edf, end - 1))
        return err_set(err, ERR_PRECONDITION, "%s: only the first %zu of %zu bytes are there", edf->header.name, edf->bytes.len,
                       edf->len);
    return read_request(edf, q, err);
}

/* The part of a record at the start of the range, the whole records behind it, the part of a record at its end. */
static int edf_read_range(const struct eegfile *file, const int *signals, int n_signals, struct eeg_range range, float *const *uv,
                          struct err *err) {
    const struct edf *edf = (const struct edf *)file;
    const int64_t spr = edf->header.signals[signals[0]].samples_per_record;
    for (int64_t at = 0, n; at < range.n; at += n) {
        struct edf_request q = {.signals = signals, .n_signals = n_signals, .uv = uv, .at = at, .n_records = 1};
        const int64_t left = range.n - at, from = (range.first + at) % spr;
        q.first_record = (range.first + at) / spr;
        if (!from && left >= spr) {
            q.n_records = left / spr;
            n = q.n_records * spr;
        } else {
            n = spr - from < left ? spr - from : left;
            q.first_sample = from;
            q.n_samples = n;
        }
        int rc = read_records(edf, &q, err);
        if (rc)
            return rc;
    }
    return 0;
}

static bool edf_probe(const uint8_t *start, size_t n) {
    return n >= 8 && (!memcmp(start, "0       ", 8) || !memcmp(start,
                                                               "\xFF"
                                                               "BIOSEMI",
                                                               8));
}

static const char *const endings[] = {".edf", ".bdf", NULL};

const struct recording_format format_edf = {.name = "EDF",
                                            .endings = endings,
                                            .probe = edf_probe,
                                            .open = open_edf,
                                            .read = edf_read_range,
                                            .feed = feed,
                                            .record_bytes = record_bytes,
                                            .close = close_file};
