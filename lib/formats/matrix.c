#include "formats/matrix.h"

#include "base/order.h"
#include "formats/rate.h"
#include "formats/tal.h"
#include "formats/text.h"
#include "formats/unit.h"

enum { MAX_SIGNALS = 65536, MAX_ANNOTATIONS = 1000000, MAX_REPAIRS = 64, PIECE_BYTES = 96 << 10 };
static const size_t ARENA_LIMIT_BYTES = (size_t)1 << 30;
enum { SIGNALS, BLOCKS, SEGMENTS, ANNOTATIONS, MARKS };
static const double CLOCK_DRIFT_S = 0.25; /* between the clock and the samples, of which nothing is made */

static int matrix_out_of_memory(const struct matrix *m, struct err *err) {
    return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", m->base.path);
}

static int matrix_new(const struct recording_format *format, const char *path, struct matrix **ret, struct err *err) {
    struct matrix *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", path);
    arena_init(&m->arena, ARENA_LIMIT_BYTES);
    m->base = (struct eegfile){.format = format, .path = arena_strdup(&m->arena, path), .info = &m->info};
    filebytes_init(&m->data, m->base.path);
    filebytes_init(&m->own, m->base.path);
    m->info.patient = m->info.recording = "";
    m->repairs = arena_alloc(&m->arena, MAX_REPAIRS * sizeof *m->repairs);
    m->info.repairs = m->repairs;
    if (!m->base.path || !m->repairs) {
        matrix_free(m);
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", path);
    }
    *ret = m;
    return 0;
}

void matrix_close(struct eegfile *file) {
    struct matrix *m = (struct matrix *)file;
    if (!m)
        return;
    if (m->unprepare)
        m->unprepare(m);
    filebytes_close(&m->own);
    filebytes_close(&m->data);
    FREE_MEMBERS(*m, signals, blocks, segments, annotations, marks);
    arena_done(&m->arena);
    free(m);
}

/* Room for one more item of an array; NULL without memory. */
static void *matrix_grow(struct matrix *m, int which, void *items, size_t n, size_t size) {
    if (n < m->capacities[which])
        return items;
    size_t capacity = m->capacities[which] ? 2 * m->capacities[which] : 16;
    void *moved = realloc(items, capacity * size);
    if (moved)
        m->capacities[which] = capacity;
    return moved;
}

void matrix_repair(struct matrix *m, const char *fmt, ...) {
    char text[256];
    if (m->info.n_repairs >= MAX_REPAIRS) {
        m->repairs[MAX_REPAIRS - 1] = "more repairs than can be listed";
        return;
    }
    STR_ARGUMENTS(text, fmt);
    const char *copy = arena_strdup(&m->arena, text);
    if (copy)
        m->repairs[m->info.n_repairs++] = copy;
}

const char *matrix_keep(struct matrix *m, struct matrix_text text) {
    size_t size = 3 * text.n + 1;
    char *copy = arena_alloc(&m->arena, size);
    if (copy)
        tal_text(copy, size, (const uint8_t *)text.bytes, text.n, NULL);
    return copy;
}

int matrix_read_text(struct matrix *m, const struct filebytes *bytes, size_t most, char **ret, struct err *err) {
    size_t len = bytes->len;
    if (len > most)
        return err_set(err, ERR_RANGE, "%s has %zu bytes; expected at most %zu of a text", bytes->name, len, most);
    OWNED_MEMORY char *text = malloc(len + 1);
    const uint8_t *data;
    int rc = text ? filebytes_get(bytes, 0, len, (uint8_t *)text, &data, err) : matrix_out_of_memory(m, err);
    if (rc)
        return rc;
    if (data != (const uint8_t *)text && len)
        memcpy(text, data, len);
    text[len] = '\0';
    len = strncmp(text, "\xFF\xFE", 2) && strncmp(text, "\xFE\xFF", 2) ? strlen(text) : len; /* recorders pad with NUL */
    if ((rc = text_decode(bytes->name, &text, &len, err)))
        return rc;
    *ret = arena_strndup(&m->arena, text, len);
    return *ret ? 0 : matrix_out_of_memory(m, err);
}

/* ---- time ---- */

static void set_period(struct matrix *m, struct exact_rate rate) {
    m->info.duration_num = rate.den;
    m->info.duration_den = rate.num;
    m->info.record_s = (double)rate.den / (double)rate.num;
    if (rate.approximate)
        matrix_repair(m, "its sampling rate is taken as %lld/%lld Hz, which is within a billionth of what it states",
                      (long long)rate.num, (long long)rate.den);
}

int matrix_set_rate(struct matrix *m, const char *text, bool interval, struct err *err) {
    struct exact_rate rate;
    if (!rate_of_decimal(text, interval, &rate))
        return err_set(err, ERR_INVALID, "%s: a sampling %s of %.40s %s; expected one above 0", m->base.path,
                       interval ? "interval" : "rate", text, interval ? "microseconds" : "Hz");
    set_period(m, rate);
    return 0;
}

int matrix_set_rate_number(struct matrix *m, double hz, bool single, struct err *err) {
    struct exact_rate rate;
    if (!rate_of_number(hz, single, &rate))
        return err_set(err, ERR_INVALID, "%s: a sampling rate of %g Hz; expected one above 0", m->base.path, hz);
    set_period(m, rate);
    return 0;
}

/* ---- what is added ---- */

static const struct {
    double min, max;
} RANGES[] = {[MATRIX_I16] = {-32768, 32767},
              [MATRIX_OFFSET_I16] = {-32768, 32767},
              [MATRIX_I32] = {-2147483648.0, 2147483647.0},
              [MATRIX_F32] = {-3.4028234663852886e38, 3.4028234663852886e38},
              [MATRIX_F64] = {-1.7976931348623157e308, 1.7976931348623157e308},
              [MATRIX_I8] = {-128, 127},
              [MATRIX_U8] = {0, 255},
              [MATRIX_U16] = {0, 65535}};

int matrix_add_signal(struct matrix *m, struct matrix_text label, struct matrix_text unit, double scale, struct err *err) {
    if (m->info.n_signals == MAX_SIGNALS)
        return err_set(err, ERR_RANGE, "%s: more than %d signals", m->base.path, MAX_SIGNALS);
    void *grown = matrix_grow(m, SIGNALS, m->signals, (size_t)m->info.n_signals, sizeof *m->signals);
    if (!grown)
        return matrix_out_of_memory(m, err);
    m->signals = grown;
    struct eeg_signal s = {.label = matrix_keep(m, label), .unit = matrix_keep(m, unit), .transducer = "", .prefilter = ""};
    if (!s.label || !s.unit)
        return matrix_out_of_memory(m, err);
    double factor = unit_factor(s.unit, &s.unit_assumed);
    s.unit_unstated = s.unit_assumed;
    s.volt = factor > 0;
    s.gain = scale * (s.volt ? factor : 1);
    s.samples_per_record = 1;
    s.rate_hz = (double)m->info.duration_den / (double)m->info.duration_num;
    s.digital_min = RANGES[m->type].min;
    s.digital_max = RANGES[m->type].max;
    s.physical_min = s.digital_min * scale;
    s.physical_max = s.digital_max * scale;
    s.usable = isfinite(s.gain) && scale != 0;
    s.note = !s.usable        ? "unusable: its resolution is 0 or no number"
             : !s.volt        ? "unit is no voltage: values are as in the file"
             : s.unit_assumed ? "no unit: values are read as uV"
                              : "";
    m->signals[m->info.n_signals++] = s;
    return 0;
}

int matrix_add_microvolts(struct matrix *m, struct matrix_text label, double scale, struct err *err) {
    int rc = matrix_add_signal(m, label, (struct matrix_text){"uV", 2}, scale, err);
    if (rc == 0)
        m->signals[m->info.n_signals - 1].unit_unstated = true;
    return rc;
}

static double end_s(const struct matrix *m) {
    if (!m->info.n_segments)
        return 0;
    const struct eeg_segment *last = &m->segments[m->info.n_segments - 1];
    return last->start_s + (double)last->n_records * m->info.record_s;
}

/* At least half a sample behind what is there, or nothing is there: a segment of its own. */
static int add_segment(struct matrix *m, int64_t first, int64_t n, double start_s, struct err *err) {
    const double end = end_s(m);
    if (m->info.n_segments && start_s < end + m->info.record_s / 2) {
        m->segments[m->info.n_segments - 1].n_records += n;
        return 0;
    }
    void *grown = matrix_grow(m, SEGMENTS, m->segments, (size_t)m->info.n_segments, sizeof *m->segments);
    if (!grown)
        return matrix_out_of_memory(m, err);
    m->segments = grown;
    m->segments[m->info.n_segments++] = (struct eeg_segment){first, n, start_s};
    return 0;
}

int matrix_add_block(struct matrix *m, size_t offset, int64_t n_records, double start_s, struct err *err) {
    if (n_records <= 0)
        return 0;
    if (start_s < end_s(m) - 1.5 * m->info.record_s)
        return err_set(err, ERR_INVALID,
                       "%s: samples from number %lld on begin at %.6g s, those in front of them end at %.6g s: %s", m->base.path,
                       (long long)m->info.n_records, start_s, end_s(m), format_steps_back(end_s(m) - start_s));
    void *grown = matrix_grow(m, BLOCKS, m->blocks, m->n_blocks, sizeof *m->blocks);
    if (!grown)
        return matrix_out_of_memory(m, err);
    m->blocks = grown;
    m->blocks[m->n_blocks++] = (struct matrix_block){offset, m->info.n_records, n_records};
    int rc = add_segment(m, m->info.n_records, n_records, start_s, err);
    m->info.n_records += n_records;
    return rc;
}

int matrix_add_mark(struct matrix *m, int64_t record, double clock_s, double gap_s, struct err *err) {
    void *grown = matrix_grow(m, MARKS, m->marks, m->n_marks, sizeof *m->marks);
    if (!grown)
        return matrix_out_of_memory(m, err);
    m->marks = grown;
    m->marks[m->n_marks] = (struct matrix_mark){record, clock_s, gap_s, m->n_marks};
    m->n_marks++;
    return 0;
}

ORDER_BY(mark_order, struct matrix_mark, order_then(order_i64(x->record, y->record), order_u64(x->order, y->order)))

/* Begins a segment at a record of the last one, `gap_s` later than the record before it ends. */
static int place_gap(struct matrix *m, int64_t record, double gap_s, struct err *err) {
    struct eeg_segment *last = &m->segments[m->info.n_segments - 1];
    const int64_t n = last->first_record + last->n_records - record;
    last->n_records -= n;
    return add_segment(m, record, n, end_s(m) + gap_s, err);
}

/* By how much the clock of b is ahead of the samples since a; NaN when one has none. */
static double ahead_s(const struct matrix *m, const struct matrix_mark *a, const struct matrix_mark *b, bool of_day) {
    const double past = b->clock_s - a->clock_s;
    return past + (of_day && past < -43200 ? 86400 : 0) - (double)(b->record - a->record) * m->info.record_s;
}

int matrix_place_marks(struct matrix *m, double most_back_s, bool of_day, struct err *err) {
    int64_t undated = 0, backwards = 0;
    SORT(m->marks, m->n_marks, mark_order);
    for (size_t i = 0; i < m->n_marks; i++) {
        const struct matrix_mark *b = &m->marks[i], *a = b;
        if (b->record <= 0 || b->record >= m->info.n_records)
            continue; /* without samples before it, or behind it */
        double missing_s = 0;
        for (; i + 1 < m->n_marks && b[1].record == b->record; i++, b++) /* of a pause without samples the last date counts */
            missing_s += b->gap_s > 0 ? b->gap_s : 0;
        missing_s += b->gap_s > 0 ? b->gap_s : 0;
        if (isnan(b->gap_s) && a > m->marks) {
            missing_s = ahead_s(m, a - 1, b, of_day);
            undated += isnan(missing_s);
            backwards += missing_s <= -CLOCK_DRIFT_S;
            if (missing_s < -most_back_s)
                return err_set(err, ERR_INVALID,
                               "%s: the segment at sample %lld begins %.6g s before the samples in front of it end: %s",
                               m->base.path, (long long)b->record + 1, -missing_s, format_steps_back(-missing_s));
            missing_s = missing_s >= CLOCK_DRIFT_S ? missing_s : 0;
        }
        int rc = missing_s >= m->info.record_s / 2 ? place_gap(m, b->record, missing_s, err) : 0;
        if (rc)
            return rc;
    }
    if (undated)
        matrix_repair(m, "%lld segments begin without a date: they are taken as following the one before", (long long)undated);
    if (backwards)
        matrix_repair(m, "the clock steps back %lld times: what follows is taken as following the samples before it",
                      (long long)backwards);
    return 0;
}

double matrix_file_time(const struct matrix *m, double sample) {
    int low = 0, high = m->info.n_segments; /* segments are in order, and a file may have a million of them */
    if (!high)
        return sample * m->info.record_s;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *((double)m->segments[middle].first_record <= sample ? &low : &high) = middle;
    }
    return m->segments[low].start_s + (sample - (double)m->segments[low].first_record) * m->info.record_s;
}

int matrix_annotate(struct matrix *m, double onset_s, double duration_s, struct matrix_text text, struct err *err) {
    if (m->info.n_annotations >= MAX_ANNOTATIONS || !isfinite(onset_s))
        return 0;
    void *grown = matrix_grow(m, ANNOTATIONS, m->annotations, m->info.n_annotations, sizeof *m->annotations);
    if (!grown)
        return matrix_out_of_memory(m, err);
    m->annotations = grown;
    const char *kept = matrix_keep(m, text);
    if (!kept)
        return matrix_out_of_memory(m, err);
    if (*kept)
        m->annotations[m->info.n_annotations++] = (struct eeg_annotation){onset_s, duration_s >= 0 ? duration_s : NAN, kept};
    if (m->info.n_annotations == MAX_ANNOTATIONS)
        matrix_repair(m, "only the first %d annotations are kept", MAX_ANNOTATIONS);
    return 0;
}

ORDER_BY(by_onset, struct eeg_annotation, order_then(order_f64(x->onset_s, y->onset_s), strcmp(x->text, y->text)))

static int finish_matrix(struct matrix *m, struct eegfile **ret, struct err *err) {
    if (!m->info.n_signals)
        return err_set(err, ERR_INVALID, "%s: no signal has samples; nothing can be read", m->base.path);
    SORT(m->annotations, m->info.n_annotations, by_onset);
    m->info.signals = m->base.signals = m->signals;
    COPY_MEMBERS(m->info, *m, segments, annotations);
    m->info.duration_s = end_s(m);
    m->base.annotations_known = true;
    *ret = &m->base;
    return 0;
}

int matrix_open(struct format_source *source, struct eegfile **ret, struct err *err) {
    OWNED_POINTER(matrix_free) struct matrix *m = NULL;
    int rc = matrix_new(source->format, source->bytes.name, &m, err);
    if (rc || (rc = source->format->fill(source, m, err)) || (rc = finish_matrix(m, ret, err)))
        return rc;
    m = NULL;
    return 0;
}

/* ---- samples ---- */

static size_t matrix_sample_bytes(enum matrix_type type) {
    static const uint8_t bytes[] = {[MATRIX_I16] = 2, [MATRIX_OFFSET_I16] = 2, [MATRIX_I32] = 4, [MATRIX_F32] = 4,
                                    [MATRIX_F64] = 8, [MATRIX_I8] = 1,         [MATRIX_U8] = 1,  [MATRIX_U16] = 2};
    return bytes[type];
}

int64_t matrix_stride(const struct matrix *m) { return (int64_t)matrix_sample_bytes(m->type) * m->columns; }

static double sample_at(const uint8_t *p, enum matrix_type type) {
    union {
        uint64_t bits;
        double value;
    } wide = {0};
    union {
        uint32_t bits;
        float value;
    } narrow;
    if (type == MATRIX_I8)
        return (int8_t)p[0];
    if (type == MATRIX_U8)
        return p[0];
    uint32_t half = (uint32_t)p[0] | (uint32_t)p[1] << 8;
    if (type == MATRIX_U16)
        return half;
    if (type == MATRIX_I16)
        return (int16_t)half;
    if (type == MATRIX_OFFSET_I16)
        return (int32_t)half - 0x8000;
    narrow.bits = half | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    if (type == MATRIX_I32)
        return (int32_t)narrow.bits;
    if (type == MATRIX_F32)
        return (double)narrow.value;
    for (int i = 7; i >= 0; i--)
        wide.bits = wide.bits << 8 | p[i];
    return wide.value;
}

/* n samples that lie `step` bytes apart. As edf_decode.h: multiplication and addition are rounded separately. */
static void decode(const struct matrix *m, int signal, const uint8_t *p, size_t step, int64_t n, float *out) {
    const double gain = m->signals[signal].gain, offset = m->signals[signal].offset;
    for (int64_t i = 0; i < n; i++, p += step)
        out[i] = (float)(sample_at(p, m->type) * gain + offset);
}

struct piece {
    const int *signals;
    int n_signals;
    float *const *uv;
    uint8_t *buffer;
};

static int matrix_get(const struct matrix *m, size_t at, size_t n, uint8_t *buffer, const uint8_t **ret, struct err *err) {
    if (at + n > m->data.len)
        return err_set(err, at + n > m->whole && !m->fed ? ERR_DATA_LOSS : ERR_PRECONDITION,
                       "%s: only the first %zu of %zu bytes are there", m->data.name, m->data.len, m->whole);
    return filebytes_get(&m->data, at, n, buffer, ret, err);
}

/* Sample after sample: n records from `record` of a block on, to uv[at..]. */
static int read_records(const struct matrix *m, const struct piece *p, const struct matrix_block *block, struct eeg_range records,
                        int64_t at, struct err *err) {
    const size_t stride = (size_t)matrix_stride(m), width = matrix_sample_bytes(m->type);
    const int64_t most = stride >= PIECE_BYTES ? 1 : (int64_t)(PIECE_BYTES / stride);
    for (int64_t done = 0, n; done < records.n; done += n) {
        const uint8_t *bytes;
        n = records.n - done < most ? records.n - done : most;
        int rc = matrix_get(m, block->offset + (size_t)(records.first + done - block->first_record) * stride, (size_t)n * stride,
                            p->buffer, &bytes, err);
        if (rc)
            return rc;
        for (int i = 0; i < p->n_signals; i++)
            decode(m, p->signals[i], bytes + (size_t)p->signals[i] * width, stride, n, p->uv[i] + at + done);
    }
    return 0;
}

static int read_signals(const struct matrix *m, const struct piece *p, struct eeg_range range, struct err *err) {
    const size_t width = matrix_sample_bytes(m->type);
    const int64_t most = (int64_t)(PIECE_BYTES / width);
    for (int i = 0; i < p->n_signals; i++)
        for (int64_t done = 0, n; done < range.n; done += n) {
            const uint8_t *bytes;
            n = range.n - done < most ? range.n - done : most;
            size_t sample = (size_t)p->signals[i] * (size_t)m->info.n_records + (size_t)(range.first + done);
            int rc = matrix_get(m, m->blocks[0].offset + sample * width, (size_t)n * width, p->buffer, &bytes, err);
            if (rc)
                return rc;
            decode(m, p->signals[i], bytes, width, n, p->uv[i] + done);
        }
    return 0;
}

static int read_blocks(const struct matrix *m, const struct piece *p, struct eeg_range range, struct err *err) {
    size_t low = 0, high = m->n_blocks;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(m->blocks[middle].first_record <= range.first ? &low : &high) = middle;
    }
    for (int64_t done = 0, n; done < range.n; done += n, low++) {
        const struct matrix_block *block = &m->blocks[low];
        int64_t first = range.first + done, there = block->first_record + block->n_records - first;
        n = range.n - done < there ? range.n - done : there;
        int rc = read_records(m, p, block, (struct eeg_range){first, n}, done, err);
        if (rc)
            return rc;
    }
    return 0;
}

int matrix_read(const struct eegfile *file, const int *signals, int n_signals, struct eeg_range range, float *const *uv,
                struct err *err) {
    const struct matrix *m = (const struct matrix *)file;
    const size_t stride = (size_t)matrix_stride(m);
    if (range.first < m->fed_from)
        return err_set(err, ERR_RANGE, "%s: sample %lld is wanted, the samples at hand begin with %lld", file->path,
                       (long long)range.first, (long long)m->fed_from);
    int rc = m->prepare ? m->prepare((struct matrix *)(uintptr_t)m, err) : 0;
    if (rc)
        return rc;
    OWNED_MEMORY uint8_t *buffer = malloc(stride > PIECE_BYTES ? stride : PIECE_BYTES);
    if (!buffer)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file->path);
    const struct piece p = {signals, n_signals, uv, buffer};
    return m->by_signal ? read_signals(m, &p, range, err) : read_blocks(m, &p, range, err);
}

int matrix_open_samples(struct format_source *source, struct matrix *m, const char *name, struct err *err) {
    char path[FORMAT_PATH_SIZE];
    int rc = format_open_companion(source, name, path, &m->data, &m->whole, err);
    if (source->listed)
        source->listed->n_samples = source->listed->n;
    if (rc)
        return rc;
    m->data.name = arena_strdup(&m->arena, path);
    return m->data.name ? 0 : matrix_out_of_memory(m, err);
}

/* ---- records that arrive ---- */

int matrix_follow(struct matrix *m, struct eegfile_growth *growth, size_t first, struct err *err) {
    if (m->by_signal)
        return err_set(err, ERR_UNSUPPORTED, "%s: its samples are written signal after signal; wait until it is complete",
                       m->base.path);
    str_copy(growth->path, sizeof growth->path, m->data.name);
    growth->offset = (int64_t)first;
    filebytes_close(&m->data);
    m->fed = true;
    return 0;
}

int64_t matrix_record_bytes(const struct eegfile *file) { return matrix_stride((const struct matrix *)file); }

int matrix_feed(struct eegfile *file, const void *records, int64_t n, struct err *err) {
    struct matrix *m = (struct matrix *)file;
    const int64_t first = m->info.n_records;
    if (!m->fed)
        return err_set(err, ERR_PRECONDITION, "%s was not opened to be fed", file->path);
    if (n <= 0)
        return 0;
    m->data.memory = records;
    m->whole = m->data.len = (size_t)(n * matrix_stride(m));
    m->fed_from = first;
    m->n_blocks = 0;
    m->info.n_records = first;
    int rc = matrix_add_block(m, 0, n, end_s(m), err);
    m->info.segments = m->segments;
    m->info.duration_s = end_s(m);
    return rc;
}
