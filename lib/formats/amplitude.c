#include "formats/amplitude.h"

#include "base/order.h"
#include "formats/unit.h"

static const double FINEST_UV = 0.01, MOST_STEPS = 1e10; /* with larger steps a signal is flat below; more steps are floats */

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
        SORT(sizes, n, order_f64s);
        *ret = sizes[n / 2];
    }
    return 0;
}

/* A signal without a unit, or with that of microvolts if its steps leave room for amplitudes of volts. */
static bool is_sized(const struct eegfile *file, int signal, int64_t samples_per_record, bool stated) {
    const struct eeg_signal *s = &eegfile_info(file)->signals[signal];
    const bool whole = s->digital_max - s->digital_min < MOST_STEPS && strcmp(eegfile_format(file), "GDF") != 0;
    const bool steps = whole && fabs(s->gain) > FINEST_UV;
    bool assumed;
    return (stated ? !s->unit_unstated && !steps && unit_factor(s->unit, &assumed) == 1 && !assumed : s->unit_unstated) &&
           s->usable && s->samples_per_record == samples_per_record;
}

/* Of the signals whose unit is stated, or is not: 0 without any. */
static int amplitude_among(const struct eegfile *file, const int *signals, int n, bool stated, double *ret_uv, struct err *err) {
    const struct eeg_info *info = eegfile_info(file);
    int sized[SIZED_SIGNALS], count = 0, most = 0;
    int64_t rate = 0; /* as samples in a record: the one that most of them have */
    for (int i = 0; i < n; i++) {
        const int64_t own = info->signals[signals[i]].samples_per_record;
        int same = 0;
        for (int k = 0; k < n && own != rate; k++)
            same += is_sized(file, signals[k], own, stated);
        rate = same > most ? own : rate;
        most = same > most ? same : most;
    }
    for (int i = 0; i < n && count < SIZED_SIGNALS; i++)
        if (is_sized(file, signals[i], rate, stated))
            sized[count++] = signals[i];
    *ret_uv = 0;
    return count ? measure_size(file, sized, count, ret_uv, err) : 0;
}

int amplitude_check(const struct eegfile *file, const int *signals, int n, char *ret_faults, size_t size, struct err *err) {
    const size_t len = strlen(ret_faults);
    const char *before = len ? "; " : "";
    double uv, stated_uv;
    int rc;
    if ((rc = amplitude_among(file, signals, n, false, &uv, err)) ||
        (rc = amplitude_among(file, signals, n, true, &stated_uv, err)))
        return rc;
    if (unit_looks_like_volts(stated_uv))
        str_format(ret_faults + len, size - len, "%san amplitude of %.3g looks like V, though the file says uV", before, stated_uv);
    if (!(uv > 0) || (uv >= 0.5 && uv <= 5000))
        return 0;
    if (unit_looks_like_volts(uv))
        return err_set(err, ERR_INVALID,
                       "no unit is stated, and an amplitude of %.3g looks like V, not uV: say --unit V (data.unit: V)", uv);
    str_format(ret_faults + len, size - len, "%sno unit is stated, and an amplitude of %.3g is odd for EEG in uV", before, uv);
    return 0;
}
