#include "eeg/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eeg/dsp.h"
#include "eeg/half.h"

enum { RECENT = DSP_RATE_HZ, STEPS_PER_UV = 4096 }; /* steps of |y[t] − y[t−1]| are whole numbers: their running sum is exact */
static const double PRIOR_UV = 20, PRIOR_STEP_UV = 3, FLOOR_UV = 2, OFFSET_UV = 0.3, MOST = 10, LARGEST_STEP_UV = 1 << 18;
static const double BAND_HZ[2] = {1, 25};

struct history {
    int channels, lanes;
    bool envelope, context;
    double decay, weight;    /* per sample; of both decayed sums */
    double *power, *length;  /* (channels) decayed sums of x² and of the steps */
    struct dsp_cascade band; /* for the envelopes, with all below */
    double *banded, *before; /* (DSP_BLOCK, lanes); (channels) the newest banded row */
    int32_t *recent;         /* (RECENT, channels) steps of the last second */
    int64_t *recent_sum, at; /* (channels); position of the oldest row of `recent` */
};

static int allocate(struct history *h, struct err *err) {
    struct dsp_section sections[3];
    size_t n = (size_t)h->channels;
    int rc;
    h->power = calloc(n, sizeof *h->power);
    h->length = calloc(n, sizeof *h->length);
    h->before = calloc(n, sizeof *h->before);
    h->recent = calloc(RECENT * n, sizeof *h->recent);
    h->recent_sum = calloc(n, sizeof *h->recent_sum);
    h->banded = dsp_rows(DSP_BLOCK, h->lanes);
    if (!h->power || !h->length || !h->before || !h->recent || !h->recent_sum || !h->banded)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the history of %d channels", h->channels);
    if ((rc = dsp_bandpass(BAND_HZ[0], BAND_HZ[1], DSP_RATE_HZ, sections, err)))
        return rc;
    return dsp_cascade_init(&h->band, sections, 3, h->lanes, err);
}

int history_new(int channels, int lanes, enum history_columns columns, struct history **ret, struct err *err) {
    struct history *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the history of %d channels", channels);
    *h = (struct history){
        .channels = channels, .lanes = lanes, .envelope = columns != HISTORY_SIGNAL, .context = columns == HISTORY_CONTEXT};
    h->decay = exp(-1.0 / ((double)HISTORY_S * DSP_RATE_HZ));
    int rc = allocate(h, err);
    if (rc)
        history_free(h);
    else
        *ret = h;
    return rc;
}

void history_free(struct history *h) {
    if (!h)
        return;
    dsp_cascade_done(&h->band);
    free(h->power);
    free(h->length);
    free(h->before);
    free(h->recent);
    free(h->recent_sum);
    free(h->banded);
    free(h);
}

void history_start(struct history *h, const double *row) {
    h->weight = (double)HISTORY_PRIOR_S * DSP_RATE_HZ;
    h->at = 0;
    for (int c = 0; c < h->channels; c++) {
        h->power[c] = h->weight * PRIOR_UV * PRIOR_UV;
        h->length[c] = h->weight * PRIOR_STEP_UV;
        h->recent_sum[c] = (int64_t)RECENT * (int64_t)(PRIOR_STEP_UV * STEPS_PER_UV);
        h->before[c] = 0; /* what the band-pass gives for a constant */
    }
    for (int i = 0; i < RECENT * h->channels; i++)
        h->recent[i] = (int32_t)(PRIOR_STEP_UV * STEPS_PER_UV);
    dsp_cascade_settle(&h->band, row);
}

/* Adds v to a decayed sum of h->weight samples, as at most `most` times their mean or `floor`, whichever is larger. */
static void add(const struct history *h, double *sum, double v, double most, double floor) {
    double mean = *sum / h->weight, limit = most * (mean > floor ? mean : floor);
    *sum = h->decay * *sum + (v < limit ? v : limit);
}

static double scale_of(const struct history *h, int c) {
    double s = sqrt(h->power[c] / h->weight);
    return s > FLOOR_UV ? s : FLOOR_UV;
}

static void signal_row(const struct history *h, const double *x, uint16_t *to) {
    for (int c = 0; c < h->channels; c++)
        to[c] = half_from_f32((float)asinh(x[c] / scale_of(h, c)));
}

static void context_value(const struct history *h, uint16_t *to) {
    double sum = 0;
    for (int c = 0; c < h->channels; c++)
        sum += log(scale_of(h, c) / PRIOR_UV);
    *to = half_from_f32((float)(sum / h->channels));
}

static void envelope_row(const struct history *h, uint16_t *to) {
    for (int c = 0; c < h->channels; c++) {
        double m = (double)h->recent_sum[c] / ((double)RECENT * STEPS_PER_UV), b = h->length[c] / h->weight;
        to[c] = half_from_f32((float)log((m + OFFSET_UV) / (b + OFFSET_UV)));
    }
}

static void count_step(struct history *h, const double *y) {
    int32_t *oldest = h->recent + h->at * h->channels;
    for (int c = 0; c < h->channels; c++) {
        double step = fabs(y[c] - h->before[c]);
        step = step < LARGEST_STEP_UV ? step : LARGEST_STEP_UV;
        int32_t steps = (int32_t)lrint(step * STEPS_PER_UV);
        h->before[c] = y[c];
        h->recent_sum[c] += steps - oldest[c];
        oldest[c] = steps;
        add(h, &h->length[c], step, MOST, OFFSET_UV);
    }
    h->at = (h->at + 1) % RECENT;
}

/* A row's place in the means; y is the row after the band-pass. */
static void count_row(struct history *h, const double *x, const double *y) {
    for (int c = 0; c < h->channels; c++)
        add(h, &h->power[c], x[c] * x[c], MOST * MOST, FLOOR_UV * FLOOR_UV);
    if (h->envelope)
        count_step(h, y);
    h->weight = h->decay * h->weight + 1;
}

void history_run(struct history *h, const double *rows, int64_t n, bool held, struct history_output out) {
    if (h->envelope) {
        memcpy(h->banded, rows, sizeof *rows * (size_t)(n * h->lanes));
        dsp_cascade_run(&h->band, h->banded, n);
    }
    for (int64_t i = 0; i < n; i++) {
        const double *x = rows + i * h->lanes;
        if (!held)
            count_row(h, x, h->banded + i * h->lanes);
        signal_row(h, x, out.to + i * out.stride);
        if (h->envelope)
            envelope_row(h, out.to + i * out.stride + h->channels);
        if (h->context)
            context_value(h, out.to + i * out.stride + 2 * h->channels);
    }
}

static size_t band_bytes(const struct history *h) { return sizeof *h->band.state * (size_t)(2 * h->band.n_sections * h->lanes); }

void history_save(const struct history *h, struct str *out) {
    size_t n = (size_t)h->channels;
    pack_f64(out, h->weight);
    pack_bytes(out, h->power, n * sizeof *h->power);
    if (!h->envelope)
        return;
    pack_bytes(out, h->length, n * sizeof *h->length);
    pack_bytes(out, h->before, n * sizeof *h->before);
    pack_bytes(out, h->band.state, band_bytes(h));
    pack_i64(out, h->at);
    pack_bytes(out, h->recent, RECENT * n * sizeof *h->recent);
}

void history_load(struct history *h, struct unpack *in) {
    size_t n = (size_t)h->channels;
    h->weight = unpack_f64(in);
    unpack_require(in, h->weight >= 0); /* 0: before the first segment */
    unpack_bytes(in, h->power, n * sizeof *h->power);
    if (!h->envelope)
        return;
    unpack_bytes(in, h->length, n * sizeof *h->length);
    unpack_bytes(in, h->before, n * sizeof *h->before);
    unpack_bytes(in, h->band.state, band_bytes(h));
    h->at = unpack_i64(in, 0, RECENT - 1);
    unpack_bytes(in, h->recent, RECENT * n * sizeof *h->recent);
    memset(h->recent_sum, 0, n * sizeof *h->recent_sum);
    for (size_t i = 0; i < RECENT * n; i++)
        h->recent_sum[i % n] += h->recent[i];
}
