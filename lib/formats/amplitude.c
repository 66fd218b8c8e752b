#include "formats/amplitude.h"

#include "base/base.h"
#include "base/order.h"
#include "formats/unit.h"

enum { SIZED_SIGNALS = 64, SIZED_S = 10, SIZED_SAMPLES = 1 << 16, SIZED_PIECES = 360 };

/* Of the samples that are numbers. */
static double amplitude_of(const float *uv, int64_t n) {
    double sum = 0, squares = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(uv[i])) {
            sum += (double)uv[i];
            count++;
        }
    for (int64_t i = 0; i < n; i++)
        squares += isfinite(uv[i]) ? pow((double)uv[i] - sum / (double)count, 2) : 0;
    return count ? sqrt(squares / (double)count) : 0;
}

static int measure_size(const struct eegfile *file, const int *signals, int n, double *ret, struct err *err) {
    const struct eeg_info *info = eegfile_info(file);
    const struct eeg_signal *first = &info->signals[signals[0]];
    const int64_t all = info->n_records * first->samples_per_record;
    const int64_t piece = first->rate_hz * SIZED_S < SIZED_SAMPLES ? (int64_t)(first->rate_hz * SIZED_S) + 1 : SIZED_SAMPLES;
    OWNED_MEMORY float *samples = malloc(sizeof *samples * (size_t)(piece * n));
    float *uv[SIZED_SIGNALS];
    double sizes[SIZED_SIGNALS];
    *ret = 0;
    if (!samples)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d channels", n);
    for (int i = 0; i < n; i++)
        uv[i] = samples + i * piece;
    for (int64_t at = 0; at < all && at < SIZED_PIECES * piece && !(*ret > 0); at += piece) {
        const struct eeg_range range = {at, all - at < piece ? all - at : piece};
        int rc = eegfile_read(file, signals, n, range, uv, err);
        if (rc)
            return rc;
        for (int i = 0; i < n; i++)
            sizes[i] = amplitude_of(uv[i], range.n);
        qsort(sizes, (size_t)n, sizeof *sizes, order_f64s);
        *ret = sizes[n / 2];
    }
    return 0;
}

static bool is_sized(const struct eeg_signal *s, int64_t samples_per_record) {
    return s->unit_unstated && s->usable && s->samples_per_record == samples_per_record;
}

int amplitude_check(const struct eegfile *file, const int *signals, int n, char *ret_faults, size_t size, struct err *err) {
    const struct eeg_info *info = eegfile_info(file);
    int unstated[SIZED_SIGNALS], count = 0, most = 0;
    int64_t rate = 0; /* as samples in a record: the one that most of them have */
    double uv = 0;
    for (int i = 0; i < n; i++) {
        const int64_t own = info->signals[signals[i]].samples_per_record;
        int same = 0;
        for (int k = 0; k < n && own != rate; k++)
            same += is_sized(&info->signals[signals[k]], own);
        rate = same > most ? own : rate;
        most = same > most ? same : most;
    }
    for (int i = 0; i < n && count < SIZED_SIGNALS; i++)
        if (is_sized(&info->signals[signals[i]], rate))
            unstated[count++] = signals[i];
    int rc = count ? measure_size(file, unstated, count, &uv, err) : 0;
    if (rc || !(uv > 0) || (uv >= 0.5 && uv <= 5000))
        return rc;
    if (unit_looks_like_volts(uv))
        return err_set(err, ERR_INVALID,
                       "no unit is stated, and an amplitude of %.3g looks like V, not uV: say --unit V (data.unit: V)", uv);
    const size_t len = strlen(ret_faults);
    str_format(ret_faults + len, size - len, "%sno unit is stated, and an amplitude of %.3g is odd for EEG in uV", len ? "; " : "",
               uv);
    return 0;
}
