#define WINDOW_KERNEL_BODY
#include "windows/window.h"

#include "eeg/half_rows.h"
#include "windows/recording.h"
#include "windows/window_kernel.h"

static const double DEVIATION_FLOOR_UV = 0.1;

const struct window_kernel window_kernel_baseline = {.sum = kernel_sum, .square = kernel_square, .apply = kernel_apply};

static const struct window_kernel *kernel(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return &window_kernel_avx512;
    if (__builtin_cpu_supports("avx2")) /* every CPU with AVX2 converts halves (F16C) too */
        return &window_kernel_avx2;
#endif
    return &window_kernel_baseline;
}

int64_t window_grid(const struct window_span *segments, int n_segments, int64_t window, int64_t hop, int64_t *starts) {
    int64_t n = 0;
    if (window < 1 || hop < 1)
        return 0;
    for (int s = 0; s < n_segments; s++) {
        int64_t length = segments[s].end - segments[s].first;
        if (length <= 0)
            continue;
        int64_t full = length >= window ? (length - window) / hop + 1 : 0;
        bool tail = full == 0 || (full - 1) * hop + window < length;
        int64_t count = full + (tail && full * hop < length);
        for (int64_t k = 0; starts && k < count; k++)
            starts[n + k] = segments[s].first + k * hop;
        n += count;
    }
    return n;
}

int window_segment(const struct window_span *segments, int n_segments, int64_t at) {
    int low = 0, high = n_segments;
    while (low < high) {
        int middle = (low + high) / 2;
        if (segments[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_segments && segments[low].first <= at ? low : -1;
}

int64_t window_valid(const struct window_span *segments, int n_segments, int64_t start, int64_t window) {
    int s = window_segment(segments, n_segments, start);
    if (s < 0)
        return 0;
    int64_t left = segments[s].end - start;
    return left < window ? left : window;
}

/* One value per channel from the sums of the 8 rows of a group, added in row order. */
static void fold(const double *sums, int channels, double *ret) {
    for (int c = 0; c < channels; c++) {
        double total = 0;
        for (int r = 0; r < WINDOW_GROUP; r++)
            total += sums[r * channels + c];
        ret[c] = total;
    }
}

static void spread(const double *values, int channels, double *ret) {
    for (int r = 0; r < WINDOW_GROUP; r++)
        memcpy(ret + r * channels, values, sizeof *values * (size_t)channels);
}

void window_normalise(const uint16_t *rows_f16, int64_t valid, int channels, int64_t window, bool left_pad, float *x) {
    int64_t padding = (window - valid) * channels;
    float *to = left_pad ? x + padding : x;
    memset(left_pad ? x : x + valid * channels, 0, sizeof *x * (size_t)padding);
    if (valid <= 0)
        return;
    const struct window_kernel *k = kernel();
    int period = WINDOW_GROUP * channels;
    int64_t groups = valid / WINDOW_GROUP, rest = (valid % WINDOW_GROUP) * channels;
    const uint16_t *tail = rows_f16 + groups * period;
    double sums[WINDOW_PERIOD_MAX] = {0}, mean[WINDOW_PERIOD_MAX], scale[WINDOW_PERIOD_MAX], value[FRONTEND_MAX_CHANNELS];

    k->sum(rows_f16, groups, period, sums);
    for (int64_t e = 0; e < rest; e++)
        sums[e] += (double)half_to_f32(tail[e]);
    fold(sums, channels, value);
    for (int c = 0; c < channels; c++)
        value[c] /= (double)valid;
    spread(value, channels, mean);

    memset(sums, 0, sizeof sums);
    k->square(rows_f16, groups, period, mean, sums);
    for (int64_t e = 0; e < rest; e++) {
        double d = (double)half_to_f32(tail[e]) - mean[e];
        sums[e] += d * d;
    }
    fold(sums, channels, value);
    for (int c = 0; c < channels; c++) {
        double deviation = sqrt(value[c] / (double)valid);
        value[c] = 1 / (deviation > DEVIATION_FLOOR_UV ? deviation : DEVIATION_FLOOR_UV);
    }
    spread(value, channels, scale);

    k->apply(rows_f16, groups, period, mean, scale, to);
    for (int64_t e = 0; e < rest; e++)
        to[groups * period + e] = window_clip(((double)half_to_f32(tail[e]) - mean[e]) * scale[e]);
}

/* How many values of a row a network takes: the columns behind the channels, or the channels themselves if there are none. */
static int window_inputs(const struct recording_info *info) {
    return info->columns > info->channels ? info->columns - info->channels : info->channels;
}

void window_cut(const uint16_t *rows_f16, int64_t valid, struct window_columns row, int64_t window, bool left_pad, float *x) {
    int64_t padding = (window - valid) * row.inputs;
    float *to = left_pad ? x + padding : x;
    memset(left_pad ? x : x + valid * row.inputs, 0, sizeof *x * (size_t)padding);
    const uint16_t *from = rows_f16 + row.columns - row.inputs;
    if (row.columns == row.inputs) {
        half_to_floats(from, (size_t)(valid * row.inputs), to);
        return;
    }
    for (int64_t t = 0; t < valid; t++)
        for (int c = 0; c < row.inputs; c++)
            to[t * row.inputs + c] = half_to_f32(from[t * row.columns + c]);
}

/* The part of the spans inside a window becomes `value`. */
static void paint(const struct window_span *spans, int n_spans, int64_t start, int64_t valid, uint8_t value, uint8_t *labels) {
    for (int i = 0; i < n_spans; i++) {
        int64_t first = spans[i].first - start, end = spans[i].end - start;
        first = first < 0 ? 0 : first;
        end = end > valid ? valid : end;
        if (first < end)
            memset(labels + first, value, (size_t)(end - first));
    }
}

int window_read(struct recording *rec, int64_t start, int64_t window, float *x, uint8_t *labels, int64_t *ret_valid,
                struct err *err) {
    struct recording_info info;
    recording_info(rec, &info);
    int segment = window_segment(info.segments, info.n_segments, start);
    if (segment < 0)
        return err_set(err, ERR_RANGE, "window at sample %lld lies in no segment of the recording (%d segments, %lld samples)",
                       (long long)start, info.n_segments, (long long)info.samples);
    int rc = recording_load(rec, err);
    if (rc)
        return rc;
    int64_t valid = window_valid(info.segments, info.n_segments, start, window);
    const uint16_t *rows = recording_rows(rec, segment, start);
    if (info.columns > info.channels)
        window_cut(rows, valid, (struct window_columns){info.columns, window_inputs(&info)}, window, false, x);
    else
        window_normalise(rows, valid, info.channels, window, false, x);
    if (labels) {
        memset(labels, 0, (size_t)window);
        paint(info.seizures, info.n_seizures, start, valid, 1, labels);
        paint(info.masked, info.n_masked, start, valid, WINDOW_LABEL_MASKED, labels);
    }
    *ret_valid = valid;
    return 0;
}

int64_t window_overlap(const struct window_span *spans, int n_spans, int64_t start, int64_t length) {
    int64_t total = 0;
    for (int i = 0; i < n_spans; i++) {
        int64_t first = spans[i].first > start ? spans[i].first : start;
        int64_t end = spans[i].end < start + length ? spans[i].end : start + length;
        total += end > first ? end - first : 0;
    }
    return total;
}
