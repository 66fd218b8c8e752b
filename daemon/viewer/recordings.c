#include "daemon/viewer/recordings.h"

#include "base/principal.h"
#include "eeg/correction.h"
#include "eeg/frontend.h"
#include "eeg/labels.h"
#include "eeg/montage.h"
#include "formats/civil.h"
#include "formats/eegfile.h"

enum { ROWS = 64, HIGHEST_HZ = 512, PIECE = 1 << 14 /* samples of a row that are read at once */, MEAN_S = 10 };

struct recording_entry {
    atomic_int references;
    char id[RECORDINGS_ID_SIZE], path[4096], principal[256], answers[4096], relative[4096];
    double at_s;
    struct recording_mark *marks; /* room for RECORDINGS_MARKS: those of its labels follow when it is opened */
    int n_marks;
    uint8_t *p;
    size_t n_p;
    double p_step_s;
    pthread_mutex_t lock; /* of what follows, until the file is open; immutable after that */
    struct eegfile *file; /* NULL: not yet */
    int signals[ROWS], rows;
    char names[ROWS][MONTAGE_LABEL_SIZE];
    float mean[ROWS];
    int64_t per_record, every; /* samples of a record; samples of which the mean is shown */
    double rate_hz;            /* of the file */
};

struct recordings {
    atomic_int references;
    pthread_mutex_t lock;
    struct recording_entry *all[RECORDINGS];
    int next;
};

/* ---- the table ---- */

struct recordings *recordings_new(void) {
    struct recordings *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    atomic_init(&all->references, 1);
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

struct recordings *recordings_share(struct recordings *all) {
    if (all)
        atomic_fetch_add(&all->references, 1);
    return all;
}

void recordings_free(struct recordings *all) {
    if (!all || atomic_fetch_sub(&all->references, 1) > 1)
        return;
    for (int i = 0; i < RECORDINGS; i++)
        recording_drop(all->all[i]);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

void recording_drop(struct recording_entry *r) {
    if (!r || atomic_fetch_sub(&r->references, 1) > 1)
        return;
    eegfile_close(r->file);
    pthread_mutex_destroy(&r->lock);
    FREE_MEMBERS(*r, marks, p);
    free(r);
}

static struct recording_entry *entry_new(const struct recording_request *q) {
    struct recording_entry *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    atomic_init(&r->references, 1);
    pthread_mutex_init(&r->lock, NULL);
    r->marks = calloc(RECORDINGS_MARKS, sizeof *r->marks);
    r->p = malloc(q->n_p + 1);
    if (!r->marks || !r->p) {
        recording_drop(r);
        return NULL;
    }
    COPY_TEXTS(*r, *q, id, path, principal);
    memcpy(r->marks, q->marks, (size_t)q->n_marks * sizeof *r->marks);
    memcpy(r->p, q->p, q->n_p);
    str_copy(r->answers, sizeof r->answers, q->answers ? q->answers : "");
    str_copy(r->relative, sizeof r->relative, q->answers ? q->relative : "");
    COPY_MEMBERS(*r, *q, at_s, n_marks, n_p, p_step_s);
    return r;
}

int recordings_add(struct recordings *all, const struct recording_request *q, struct err *err) {
    if (q->n_marks > RECORDINGS_MARKS || q->n_p > RECORDINGS_P_BYTES || (q->n_p && !(q->p_step_s >= 0.01 && q->p_step_s <= 3600)))
        return err_set(err, ERR_INVALID, "at most %d marks and %d probabilities, 0.01 to 3600 s apart, can be shown",
                       RECORDINGS_MARKS, RECORDINGS_P_BYTES);
    struct recording_entry *r = entry_new(q), *old;
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a recording");
    pthread_mutex_lock(&all->lock);
    old = all->all[all->next];
    all->all[all->next] = r;
    all->next = (all->next + 1) % RECORDINGS;
    pthread_mutex_unlock(&all->lock);
    recording_drop(old);
    return 0;
}

struct recording_entry *recordings_find(struct recordings *all, const char *principal, const char *id) {
    struct recording_entry *found = NULL;
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < RECORDINGS && !found; i++)
        if (all->all[i] && !strcmp(all->all[i]->id, id) && (!principal || principal_is_same(all->all[i]->principal, principal)))
            found = all->all[i];
    if (found)
        atomic_fetch_add(&found->references, 1);
    pthread_mutex_unlock(&all->lock);
    return found;
}

const char *recording_name(const struct recording_entry *r) { return fsio_basename(r->path); }
double recording_at(const struct recording_entry *r) { return r->at_s; }

bool recording_answers(const struct recording_entry *r, struct correction_place *ret) {
    *ret = (struct correction_place){.eeg = r->path, .folder = r->answers, .relative = r->relative};
    return *r->answers;
}

/* ---- opening ---- */

static bool is_shown(const struct eeg_signal *s) { return s->usable && s->volt && !s->annotation && s->rate_hz >= 1; }

/* The voltages of the rate that most of them have. */
static int choose_rows(struct recording_entry *r, const struct eeg_info *info, struct err *err) {
    int most = 0;
    for (int i = 0; i < info->n_signals; i++) {
        int n = 0;
        for (int k = 0; k < info->n_signals; k++)
            n += is_shown(&info->signals[k]) && info->signals[k].samples_per_record == info->signals[i].samples_per_record;
        if (!is_shown(&info->signals[i]) || n <= most)
            continue;
        most = n;
        r->per_record = info->signals[i].samples_per_record;
        r->rate_hz = info->signals[i].rate_hz;
    }
    r->rows = 0;
    for (int i = 0; i < info->n_signals && r->rows < ROWS; i++)
        if (is_shown(&info->signals[i]) && info->signals[i].samples_per_record == r->per_record) {
            montage_clean(info->signals[i].label, r->names[r->rows]);
            r->signals[r->rows++] = i;
        }
    r->every = (int64_t)ceil(r->rate_hz / HIGHEST_HZ);
    return r->rows ? 0 : err_set(err, ERR_PRECONDITION, "%s has no channel of EEG that can be shown", recording_name(r));
}

static void mark_runs(struct recording_entry *r, const struct label_run *runs, size_t n) {
    for (size_t i = 0; i < n && r->n_marks < RECORDINGS_MARKS; i++) {
        struct recording_mark *m = &r->marks[r->n_marks++];
        *m = (struct recording_mark){.onset_s = runs[i].onset_s, .end_s = runs[i].end_s};
        str_format(m->text, sizeof m->text, "label %s", *runs[i].code ? runs[i].code : "sz");
    }
}

/* Its labels, and where there are none its annotations. Labels that cannot be read are left out: the EEG is what is wanted. */
static void mark_labels(struct recording_entry *r, const struct eegfile *file) {
    struct labels labels;
    const struct eeg_info *info = eegfile_info(file);
    if (!labels_load(r->path, "auto", file, &labels, NULL)) {
        mark_runs(r, labels.runs, labels.n_runs);
        labels_done(&labels);
    }
    for (size_t i = 0; i < info->n_annotations && r->n_marks < RECORDINGS_MARKS; i++) {
        const struct eeg_annotation *a = &info->annotations[i];
        struct recording_mark *m = &r->marks[r->n_marks++];
        *m = (struct recording_mark){.onset_s = a->onset_s, .end_s = a->onset_s + (a->duration_s > 0 ? a->duration_s : 0)};
        str_copy(m->text, sizeof m->text, a->text);
    }
}

/* Room for a piece of all rows, and where each begins. */
struct piece {
    float *uv, *rows[ROWS];
};

static int piece_open(struct piece *p, int rows, struct err *err) {
    p->uv = malloc((size_t)rows * PIECE * sizeof *p->uv);
    for (int i = 0; p->uv && i < rows; i++)
        p->rows[i] = p->uv + (int64_t)i * PIECE;
    return p->uv ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for EEG");
}

/* The mean of each channel over its first seconds: amplifiers that record direct voltages have offsets of many millivolts. */
static int find_means(struct recording_entry *r, const struct eegfile *file, struct err *err) {
    const struct eeg_info *info = eegfile_info(file);
    struct eeg_range range = {0, (int64_t)(MEAN_S * r->rate_hz)};
    struct piece p;
    range.n = range.n < PIECE ? range.n : PIECE;
    range.n = range.n < info->n_records * r->per_record ? range.n : info->n_records * r->per_record;
    int rc = piece_open(&p, r->rows, err);
    rc = rc ? rc : eegfile_read(file, r->signals, r->rows, range, p.rows, err);
    for (int row = 0; row < r->rows && range.n > 0 && rc == 0; row++) {
        double sum = 0, finite = 0;
        for (int64_t i = 0; i < range.n; i++)
            if (isfinite(p.rows[row][i])) {
                sum += p.rows[row][i];
                finite++;
            }
        r->mean[row] = finite > 0 ? (float)(sum / finite) : 0;
    }
    free(p.uv);
    return rc;
}

static int open_locked(struct recording_entry *r, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *file = NULL;
    int rc;
    if ((rc = eegfile_open(r->path, &file, err)) || (rc = choose_rows(r, eegfile_info(file), err)) ||
        (rc = find_means(r, file, err)))
        return rc;
    mark_labels(r, file);
    r->file = file;
    file = NULL;
    return 0;
}

static int open_once(struct recording_entry *r, struct err *err) {
    pthread_mutex_lock(&r->lock);
    int rc = r->file ? 0 : open_locked(r, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* ---- samples ---- */

/* The values of an answer: (rows, per_row), of bins the lowest and the highest in turn. */
struct answer_values {
    const atomic_bool *gone; /* nobody waits for them any more; NULL: somebody does */
    float *uv;
    uint16_t *counts;         /* of means: how many samples each has, fewer beside a gap */
    uint64_t *held;           /* of each value or bin: bits of the rows in which some of its samples are held in a stream */
    int64_t n, per_row, step; /* values or bins; samples of the file for one of them */
    bool bins;
};

/* Formats of floating-point samples may have some that are no number; these are not shown, and a stream holds the last number
 * there. Means are sums until all are added. */
static void add_samples(struct answer_values *a, const float *row, int64_t n, int64_t at, int64_t to_row, float mean) {
    float *to = a->uv + to_row * a->per_row;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (at + i) / a->step;
        const float uv = row[i] - mean;
        if (k >= a->n)
            continue;
        if (!isfinite(uv)) {
            a->held[k] |= UINT64_C(1) << to_row;
        } else if (!a->bins) {
            to[k] = isnan(to[k]) ? uv : to[k] + uv;
            a->counts[to_row * a->per_row + k]++;
        } else {
            to[2 * k] = to[2 * k] <= uv ? to[2 * k] : uv;
            to[2 * k + 1] = to[2 * k + 1] >= uv ? to[2 * k + 1] : uv;
        }
    }
}

static int64_t segment_start(const struct recording_entry *r, const struct eeg_segment *s) {
    return llround(s->start_s * r->rate_hz);
}
static int64_t segment_end(const struct recording_entry *r, const struct eeg_segment *s) {
    return segment_start(r, s) + s->n_records * r->per_record;
}

/* Samples [from, end) of file time, of one segment that begins at `start`. */
static int read_segment(const struct recording_entry *r, const struct eeg_segment *s, struct eegring_span want, struct piece *p,
                        struct answer_values *a, struct err *err) {
    const int64_t start = segment_start(r, s), stop = segment_end(r, s);
    const int64_t first = want.first > start ? want.first : start, end = want.end < stop ? want.end : stop;
    int rc;
    for (int64_t at = first, n; at < end; at += n) {
        n = end - at < PIECE ? end - at : PIECE;
        if (a->gone && atomic_load(a->gone))
            return err_set(err, ERR_CANCELLED, "nobody waits for these samples any more");
        const struct eeg_range range = {s->first_record * r->per_record + at - start, n};
        if ((rc = eegfile_read(r->file, r->signals, r->rows, range, p->rows, err)))
            return rc;
        for (int row = 0; row < r->rows; row++)
            add_samples(a, p->rows[row], n, at - want.first, row, r->mean[row]);
    }
    return 0;
}

/* A gap before file sample `start` that a stream bridges, by the default of data.fill_gap_s: it holds the last samples before it.
 */
static void hold_gap(const struct recording_entry *r, int64_t gap, int64_t start, struct eegring_span want,
                     struct answer_values *a) {
    const struct frontend_config config = {.fill_gap_s = 2};
    const int64_t end = start < want.end ? start : want.end;
    if (gap <= frontend_fill_gap(&config, r->rate_hz))
        for (int64_t i = start - gap > want.first ? start - gap : want.first; i < end; i++)
            a->held[(i - want.first) / a->step] |= UINT64_MAX >> (ROWS - r->rows);
}

static int read_values(const struct recording_entry *r, const struct traces_query *q, struct answer_values *a, struct err *err) {
    const struct eegring_span want = {q->from * r->every, (q->from + q->n) * r->every};
    const struct eeg_segment *segments;
    const int n = eegfile_segments(r->file, &segments);
    struct piece p = {0};
    a->bins = q->bin > 1;
    a->step = q->bin * r->every;
    a->n = q->n / q->bin;
    a->per_row = a->bins ? 2 * a->n : a->n;
    int rc = piece_open(&p, r->rows, err);
    a->uv = malloc((size_t)(a->per_row * r->rows + 1) * sizeof *a->uv);
    a->counts = calloc((size_t)(a->per_row * r->rows + 1), sizeof *a->counts);
    a->held = calloc((size_t)a->n + 1, sizeof *a->held);
    if (!a->uv || !a->counts || !a->held)
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for EEG");
    for (int64_t i = 0; i < a->per_row * r->rows && a->uv; i++)
        a->uv[i] = NAN;
    for (int i = 1; i < n && rc == 0; i++)
        hold_gap(r, segment_start(r, &segments[i]) - segment_end(r, &segments[i - 1]), segment_start(r, &segments[i]), want, a);
    for (int i = 0; i < n && rc == 0; i++)
        rc = read_segment(r, &segments[i], want, &p, a, err);
    for (int64_t i = 0; i < a->per_row * r->rows && !a->bins && rc == 0; i++)
        a->uv[i] /= (float)a->counts[i]; /* one that has none is NaN already */
    free(p.uv);
    free(a->counts);
    return rc;
}

/* Microvolts of a unit of the answer: fine, unless larger values have to fit. */
static double find_scale(const struct answer_values *a, int rows) {
    float most = 0;
    for (int64_t i = 0; i < a->per_row * rows; i++)
        most = fabsf(a->uv[i]) > most ? fabsf(a->uv[i]) : most;
    return fmax(EEGRING_UV, (double)most / INT16_MAX);
}

static void put_values(struct str *out, const struct answer_values *a, int rows, double scale) {
    int16_t units[1024];
    const int64_t all = a->per_row * rows;
    for (int64_t at = 0, n; at < all; at += n) {
        n = all - at < (int64_t)(sizeof units / sizeof *units) ? all - at : (int64_t)(sizeof units / sizeof *units);
        for (int64_t i = 0; i < n; i++)
            units[i] = isnan(a->uv[at + i]) ? EEGRING_NONE : (int16_t)lrint((double)a->uv[at + i] / scale);
        traces_put_values(out, units, n);
    }
}

/* ---- what it says of itself ---- */

static void put_recording_marks(struct json_writer *w, const struct recording_entry *r, double rate) {
    json_begin_array(w, "marks");
    for (int i = 0; i < r->n_marks; i++) {
        json_begin_object(w, NULL);
        json_put_str(w, "kind", "event");
        json_put_i64(w, "first", llround(r->marks[i].onset_s * rate));
        json_put_i64(w, "end", llround(r->marks[i].end_s * rate));
        JSON_MEMBERS(w, r->marks[i], onset_s, end_s, text);
        json_end(w, '}');
    }
    json_end(w, ']');
}

static void put_recording_p(struct json_writer *w, const struct recording_entry *r, const struct traces_query *q, double rate) {
    const int64_t step = r->n_p ? llround(r->p_step_s * rate) : 0, first = step ? q->from / step : 0;
    json_put_i64(w, "p_first", first * step);
    json_put_i64(w, "p_step", step);
    json_begin_array(w, "p");
    for (int64_t i = first; step && i * step < q->from + q->n && i < (int64_t)r->n_p; i++)
        json_put_i64(w, NULL, r->p[i] > 200 ? -1 : r->p[i] * 5);
    json_end(w, ']');
}

static double start_ms(const struct eeg_start *s) {
    const struct civil at = {s->year, s->month, s->day, s->hour, s->minute, s->second + s->subsecond};
    return s->known ? civil_seconds(&at) * 1000 : 0;
}

static void put_recording_head(struct json_writer *w, const struct recording_entry *r, const struct traces_query *q, double scale,
                               int64_t end, const uint64_t *held) {
    const double rate = r->rate_hz / (double)r->every;
    json_put_f64(w, "rate", rate);
    json_put_f64(w, "scale", scale);
    JSON_ARRAY(w, "rows", r->names, r->rows);
    JSON_MEMBERS(w, *q, from, n, bin);
    json_put_raw(w, "pins", "[]");
    json_begin_array(w, "kept");
    json_put_i64(w, NULL, 0);
    json_put_i64(w, NULL, end);
    json_end(w, ']');
    json_put_f64(w, "start_ms", start_ms(&eegfile_info(r->file)->start));
    json_put_bool(w, "live", false);
    traces_put_held(w, q, held, r->rows);
    put_recording_marks(w, r, rate);
    put_recording_p(w, r, q, rate);
}

int recording_traces(struct recording_entry *r, const struct traces_query *query, const atomic_bool *gone, struct str *out,
                     struct err *err) {
    struct traces_query q = *query;
    struct answer_values values = {.gone = gone};
    struct json_writer w;
    int rc = open_once(r, err);
    if (rc)
        return rc;
    const int64_t end = (int64_t)floor(eegfile_info(r->file)->duration_s * r->rate_hz + 0.5) / r->every;
    if ((rc = traces_fit(&q, r->rate_hz / (double)r->every, (struct eegring_span){0, end}, err)))
        return rc;
    rc = read_values(r, &q, &values, err);
    if (rc == 0) {
        const double scale = find_scale(&values, r->rows);
        json_writer_init(&w, out);
        json_begin_object(&w, NULL);
        put_recording_head(&w, r, &q, scale, end, values.held);
        json_end(&w, '}');
        str_puts(out, out->len % 2 ? "\n" : " \n");
        put_values(out, &values, r->rows, scale);
    }
    FREE_MEMBERS(values, uv, held);
    return rc ? rc : str_ok(out) ? 0 : err_set(err, ERR_EXHAUSTED, "the answer is too long");
}
