#include "eeg/history.h"

#include "base/clones.h"
#include "eeg/dsp.h"
#include "eeg/half.h"
#include "eeg/half_rows.h"

enum { RECENT = DSP_RATE_HZ, STEPS_PER_UV = 4096 }; /* steps of |y[t] − y[t−1]| are whole numbers: their running sum is exact */
static const double PRIOR_UV = 20, FLOOR_UV = 2, MOST = 10, LARGEST_STEP_UV = 1 << 18;
static const double LOWEST_HZ = 1, HIGHEST_HZ = 25, STEP_PRIOR_UV = 3, STEP_OFFSET_UV = 0.3; /* of the envelope */

/* The last second's steps of every channel. */
struct envelope {
    struct dsp_cascade band;
    double *banded, *before; /* (DSP_BLOCK, lanes); (channels) the newest banded row */
    double *length;          /* (channels) decayed sums of the steps */
    int32_t *recent;         /* (RECENT, channels) steps of the last second */
    int64_t *recent_sum, at; /* (channels); position of the oldest row of `recent` */
};

struct history {
    int channels, lanes;
    bool has_envelope, keep;
    double decay, weight; /* per sample; of all decayed sums */
    double *power;        /* (channels) decayed sums of x² */
    struct envelope envelope;
};

static int allocate_envelope(struct history *h, struct err *err) {
    struct envelope *e = &h->envelope;
    struct dsp_section sections[3];
    size_t n = (size_t)h->channels;
    e->length = calloc(n, sizeof *e->length);
    e->before = calloc(n, sizeof *e->before);
    e->recent = calloc(RECENT * n, sizeof *e->recent);
    e->recent_sum = calloc(n, sizeof *e->recent_sum);
    e->banded = dsp_rows(DSP_BLOCK, h->lanes);
    if (!e->length || !e->before || !e->recent || !e->recent_sum || !e->banded)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the history of %d channels", h->channels);
    int rc = dsp_bandpass(LOWEST_HZ, HIGHEST_HZ, DSP_RATE_HZ, sections, err);
    return rc ? rc : dsp_cascade_init(&e->band, sections, 3, h->lanes, err);
}

int history_new(int channels, int lanes, bool envelope, struct history **ret, struct err *err) {
    struct history *h = calloc(1, sizeof *h);
    double *power = calloc((size_t)channels, sizeof *power);
    if (!h || !power) {
        free(power);
        free(h);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the history of %d channels", channels);
    }
    *h = (struct history){.channels = channels,
                          .lanes = lanes,
                          .has_envelope = envelope,
                          .decay = exp(-1.0 / ((double)HISTORY_S * DSP_RATE_HZ)),
                          .power = power};
    int rc = envelope ? allocate_envelope(h, err) : 0;
    if (rc)
        history_free(h);
    else
        *ret = h;
    return rc;
}

void history_free(struct history *h) {
    if (!h)
        return;
    dsp_cascade_done(&h->envelope.band);
    FREE_MEMBERS(h->envelope, length, before, recent, recent_sum, banded);
    free(h->power);
    free(h);
}

/* `share` of the sum before is kept. */
static void start_envelope(const struct history *h, struct envelope *e, const double *row, double share) {
    e->at = 0;
    for (int c = 0; c < h->channels; c++) {
        e->length[c] = share * e->length[c] + h->weight * STEP_PRIOR_UV;
        e->recent_sum[c] = (int64_t)RECENT * (int64_t)(STEP_PRIOR_UV * STEPS_PER_UV);
        e->before[c] = 0; /* what the band-pass gives for a constant */
    }
    for (int i = 0; i < RECENT * h->channels; i++)
        e->recent[i] = (int32_t)(STEP_PRIOR_UV * STEPS_PER_UV);
    dsp_cascade_settle(&e->band, row);
}

void history_start(struct history *h, const double *row, double known_s) {
    const double known = fmin(known_s * DSP_RATE_HZ, h->weight), share = known > 0 ? known / h->weight : 0;
    h->weight = (double)HISTORY_PRIOR_S * DSP_RATE_HZ;
    for (int c = 0; c < h->channels; c++)
        h->power[c] = share * h->power[c] + h->weight * PRIOR_UV * PRIOR_UV;
    if (h->has_envelope)
        start_envelope(h, &h->envelope, row, share);
    h->weight += known;
}

void history_keep(struct history *h, bool keep) { h->keep = keep; }

/* Adds v to decayed sums of h->weight samples, as at most `most` times their mean or `floor`, whichever is larger. */
CLONES static void add(double *restrict sum, const double *restrict v, const struct history *h, double most, double floor) {
    const double weight = h->weight, decay = h->decay;
    const int n = h->channels;
#pragma omp simd
    for (int c = 0; c < n; c++) {
        const double mean = sum[c] / weight, limit = most * (mean > floor ? mean : floor);
        sum[c] = decay * sum[c] + (v[c] < limit ? v[c] : limit);
    }
}

CLONES static void divide_by_scale(const double *restrict power, const double *restrict x, const struct history *h,
                                   double *restrict to) {
    const double weight = h->weight;
    const int n = h->channels;
#pragma omp simd
    for (int c = 0; c < n; c++) {
        const double s = sqrt(power[c] / weight);
        to[c] = x[c] / (s > FLOOR_UV ? s : FLOOR_UV);
    }
}

static void signal_row(const struct history *h, const double *x, uint16_t *to) {
    double scaled[HALF_ASINH_MOST];
    divide_by_scale(h->power, x, h, scaled);
    half_asinh(scaled, h->channels, to);
}

static void envelope_row(const struct history *h, const struct envelope *e, uint16_t *to) {
    double ratio[HALF_ASINH_MOST];
    for (int c = 0; c < h->channels; c++) {
        double m = (double)e->recent_sum[c] / ((double)RECENT * STEPS_PER_UV), b = e->length[c] / h->weight;
        ratio[c] = (m + STEP_OFFSET_UV) / (b + STEP_OFFSET_UV);
    }
    half_log(ratio, h->channels, to);
}

/* y: a row after the band-pass. Rounds to whole numbers as lrint does, several at once. */
CLONES static void count_steps(const struct history *h, struct envelope *e, const double *restrict y, double *restrict step) {
    int32_t *restrict oldest = e->recent + e->at * h->channels;
    int64_t *restrict sum = e->recent_sum;
    double *restrict before = e->before;
    const int n = h->channels;
#pragma omp simd
    for (int c = 0; c < n; c++) {
        const double d = fabs(y[c] - before[c]);
        step[c] = d < LARGEST_STEP_UV ? d : LARGEST_STEP_UV;
        const int32_t steps = (int32_t)(step[c] * STEPS_PER_UV + 0x1.8p52 - 0x1.8p52);
        before[c] = y[c];
        sum[c] += steps - oldest[c];
        oldest[c] = steps;
    }
}

static void count_step(const struct history *h, struct envelope *e, const double *y) {
    double step[HALF_ASINH_MOST];
    count_steps(h, e, y, step);
    if (!h->keep)
        add(e->length, step, h, MOST, STEP_OFFSET_UV);
    e->at = (e->at + 1) % RECENT;
}

/* The place of row i of a call, x, in the means. */
static void count_row(struct history *h, const double *x, int64_t i) {
    double square[HALF_ASINH_MOST];
    for (int c = 0; c < h->channels; c++)
        square[c] = x[c] * x[c];
    if (!h->keep)
        add(h->power, square, h, MOST * MOST, FLOOR_UV * FLOOR_UV);
    if (h->has_envelope)
        count_step(h, &h->envelope, h->envelope.banded + i * h->lanes);
    if (!h->keep)
        h->weight = h->decay * h->weight + 1;
}

void history_run(struct history *h, const double *rows, int64_t n, bool held, struct history_output out) {
    struct envelope *e = &h->envelope;
    if (h->has_envelope) {
        memcpy(e->banded, rows, sizeof *rows * (size_t)(n * h->lanes));
        dsp_cascade_run(&e->band, e->banded, n);
    }
    for (int64_t i = 0; i < n; i++) {
        const double *x = rows + i * h->lanes;
        uint16_t *to = out.to + i * out.stride;
        if (!held)
            count_row(h, x, i);
        signal_row(h, x, to);
        if (h->has_envelope)
            envelope_row(h, e, to + h->channels);
    }
}

void history_pack_means(struct history *h, struct packer *p) {
    const size_t bytes = (size_t)h->channels * sizeof *h->power;
    PACKED_MEMBERS(p, *h, weight);
    packed_require(p, h->weight >= 0 && isfinite(h->weight)); /* 0: before the first segment */
    packed_bytes(p, h->power, bytes);
    if (h->has_envelope)
        packed_bytes(p, h->envelope.length, bytes);
}

void history_pack(struct history *h, struct packer *p) {
    const size_t n = (size_t)h->channels;
    struct envelope *e = &h->envelope;
    history_pack_means(h, p);
    if (!h->has_envelope)
        return;
    packed_bytes(p, e->before, n * sizeof *e->before);
    dsp_cascade_pack(&e->band, p);
    PACKED(p, e->at, 0, RECENT - 1);
    packed_bytes(p, e->recent, RECENT * n * sizeof *e->recent);
    if (p->to)
        return;
    memset(e->recent_sum, 0, n * sizeof *e->recent_sum);
    for (size_t i = 0; i < RECENT * n; i++)
        e->recent_sum[i % n] += e->recent[i];
}
