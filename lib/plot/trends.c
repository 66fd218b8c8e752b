/* The definitions are those of docs/trends.md, one function for each. */
#include "plot/trends.h"

#include <complex.h>

#include "base/order.h"

enum {
    WELCH = 512,
    WELCH_STEP = 256,
    WELCH_BINS = WELCH / 2 + 1,
    PADDED = 4096,
    RATE_HZ = 256,
    PIECE = 128,
    PIECES = TRENDS_EPOCH / PIECE
};
enum { SIDES = 2, SIDE_CHANNELS = 8, LEFT = 0, RIGHT = 1, AEEG_LEFT = 6, AEEG_RIGHT = 10, SUPPRESSED_RUN = 128 };
static const double SUPPRESSED_UV = 5, AEEG_LOW_HZ = 2, AEEG_HIGH_HZ = 15, SMALLEST_POWER = 1e-12;
static const double BANDS_HZ[4][2] = {{0.5, 4}, {4, 8}, {8, 13}, {13, 30}};

/* Of the montage bipolar-18: electrodes with odd numbers are on the left; Fz-Cz and Cz-Pz on neither side. */
static int side_of(int channel) { return channel < SIDE_CHANNELS ? LEFT : channel < 2 * SIDE_CHANNELS ? RIGHT : -1; }

static const char *const names[TRENDS_COLUMNS] = {"aeeg_left_low",    "aeeg_left_high", "aeeg_right_low",
                                                  "aeeg_right_high",  "delta_left",     "theta_left",
                                                  "alpha_left",       "beta_left",      "delta_right",
                                                  "theta_right",      "alpha_right",    "beta_right",
                                                  "rhythmicity_left", "rhythm_hz_left", "rhythmicity_right",
                                                  "rhythm_hz_right",  "asymmetry",      "suppression_ratio",
                                                  "csa_01",           "csa_02",         "csa_03",
                                                  "csa_04",           "csa_05",         "csa_06",
                                                  "csa_07",           "csa_08",         "csa_09",
                                                  "csa_10",           "csa_11",         "csa_12",
                                                  "csa_13",           "csa_14",         "csa_15",
                                                  "csa_16",           "csa_17",         "csa_18",
                                                  "csa_19",           "csa_20"};

const char *trends_column(int column) { return column >= 0 && column < TRENDS_COLUMNS ? names[column] : NULL; }

/* In place, n a power of two; sign −1 forward, +1 backward without the division by n. */
static void fourier(double complex *x, int n, int sign) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j |= bit;
        if (i < j) {
            double complex swap = x[i];
            x[i] = x[j];
            x[j] = swap;
        }
    }
    for (int len = 2; len <= n; len <<= 1)
        for (int k = 0; k < len / 2; k++) {
            const double angle = sign * 2 * M_PI * k / len;
            const double complex turn = cos(angle) + I * sin(angle);
            for (int i = k; i < n; i += len) {
                double complex a = x[i], b = x[i + len / 2] * turn;
                x[i] = a + b;
                x[i + len / 2] = a - b;
            }
        }
}

static double channel_mean(const float *uv, int channel, int first, int n) {
    double sum = 0;
    for (int i = first; i < first + n; i++)
        sum += (double)uv[i * TRENDS_CHANNELS + channel];
    return sum / n;
}

/* Adds the power spectral density of a channel in µV²/Hz: the mean of windows of 2 s, each without its mean and under a Hann
 * window. */
static void add_spectrum(const float *uv, int channel, double complex *work, double psd[WELCH_BINS]) {
    enum { WINDOWS = (TRENDS_EPOCH - WELCH) / WELCH_STEP + 1 };
    double window[WELCH], square = 0;
    for (int i = 0; i < WELCH; i++) {
        window[i] = 0.5 - 0.5 * cos(2 * M_PI * i / WELCH);
        square += window[i] * window[i];
    }
    for (int w = 0; w < WINDOWS; w++) {
        const double mean = channel_mean(uv, channel, w * WELCH_STEP, WELCH);
        for (int i = 0; i < WELCH; i++)
            work[i] = ((double)uv[(w * WELCH_STEP + i) * TRENDS_CHANNELS + channel] - mean) * window[i];
        fourier(work, WELCH, -1);
        for (int k = 0; k < WELCH_BINS; k++) {
            const double power = creal(work[k]) * creal(work[k]) + cimag(work[k]) * cimag(work[k]);
            psd[k] += (k && k < WELCH / 2 ? 2 : 1) * power / (RATE_HZ * square * WINDOWS);
        }
    }
}

/* The sum over the bins of [low, high), times the distance of two bins. */
static double band_power(const double psd[WELCH_BINS], double low_hz, double high_hz) {
    double sum = 0;
    for (int k = 0; k < WELCH_BINS; k++) {
        const double hz = (double)k * RATE_HZ / WELCH;
        sum += hz >= low_hz && hz < high_hz ? psd[k] : 0;
    }
    return sum * RATE_HZ / WELCH;
}

/* The share of the power from 1 to 25 Hz in the bin with most of it and the two beside it; *ret_hz: the frequency of that bin. */
static double rhythmicity(const double psd[WELCH_BINS], double *ret_hz) {
    const int first = WELCH / RATE_HZ, last = 25 * WELCH / RATE_HZ;
    int best = first;
    double sum = 0;
    for (int k = first; k <= last; k++) {
        sum += psd[k];
        best = psd[k] > psd[best] ? k : best;
    }
    *ret_hz = (double)best * RATE_HZ / WELCH;
    return sum > 0 ? (psd[best - 1] + psd[best] + psd[best + 1]) / sum : 0;
}

/* Linear between the ordered values. */
static double percentile(const double *ordered, int n, double p) {
    const double at = p / 100 * (n - 1);
    const int low = (int)floor(at);
    return low + 1 < n ? ordered[low] + (at - low) * (ordered[low + 1] - ordered[low]) : ordered[n - 1];
}

/* Margins of the amplitude of a channel from 2 to 15 Hz: percentiles of the largest magnitude of each half second. */
static void aeeg(const float *uv, int channel, double complex *work, double ret[2]) {
    double peaks[PIECES] = {0};
    const double mean = channel_mean(uv, channel, 0, TRENDS_EPOCH);
    for (int i = 0; i < PADDED; i++)
        work[i] = i < TRENDS_EPOCH ? (double)uv[i * TRENDS_CHANNELS + channel] - mean : 0;
    fourier(work, PADDED, -1);
    for (int k = 0; k < PADDED; k++) {
        const double hz = (double)(k <= PADDED / 2 ? k : PADDED - k) * RATE_HZ / PADDED;
        work[k] = hz >= AEEG_LOW_HZ && hz <= AEEG_HIGH_HZ ? work[k] / PADDED : 0;
    }
    fourier(work, PADDED, +1);
    for (int i = 0; i < TRENDS_EPOCH; i++)
        peaks[i / PIECE] = fmax(peaks[i / PIECE], fabs(creal(work[i])));
    SORT(peaks, PIECES, order_f64s);
    ret[0] = percentile(peaks, PIECES, 10);
    ret[1] = percentile(peaks, PIECES, 90);
}

/* The share of samples in runs of at least half a second within ±5 µV, mean over the channels. */
static double suppression_ratio(const float *uv) {
    int64_t suppressed = 0;
    for (int c = 0; c < TRENDS_CHANNELS; c++)
        for (int i = 0, run; i < TRENDS_EPOCH; i += run + 1) {
            for (run = 0; i + run < TRENDS_EPOCH && fabs((double)uv[(i + run) * TRENDS_CHANNELS + c]) <= SUPPRESSED_UV;)
                run++;
            suppressed += run >= SUPPRESSED_RUN ? run : 0;
        }
    return (double)suppressed / ((double)TRENDS_EPOCH * TRENDS_CHANNELS);
}

/* Spectra: means over the channels of each side, and over all channels. */
static void spectral_columns(double psd[SIDES][WELCH_BINS], const double head[WELCH_BINS], double *ret) {
    double total[SIDES];
    for (int s = 0; s < SIDES; s++) {
        for (int b = 0; b < 4; b++)
            ret[TRENDS_BANDS + 4 * s + b] = band_power(psd[s], BANDS_HZ[b][0], BANDS_HZ[b][1]);
        ret[TRENDS_RHYTHM + 2 * s] = rhythmicity(psd[s], &ret[TRENDS_RHYTHM + 2 * s + 1]);
        total[s] = band_power(psd[s], 1, 18);
    }
    const double both = total[LEFT] + total[RIGHT];
    ret[TRENDS_ASYMMETRY] = both > 0 ? (total[RIGHT] - total[LEFT]) / both : 0;
    for (int hz = 1; hz <= TRENDS_CSA_HZ; hz++) {
        const int k = hz * WELCH / RATE_HZ;
        ret[TRENDS_CSA + hz - 1] = 10 * log10(fmax((head[k - 1] + head[k]) / 2, SMALLEST_POWER));
    }
}

int trends_epoch(const float *uv, double ret[TRENDS_COLUMNS], struct err *err) {
    double psd[SIDES][WELCH_BINS] = {0}, head[WELCH_BINS] = {0};
    for (int i = 0; i < TRENDS_COLUMNS; i++)
        ret[i] = NAN;
    for (int i = 0; i < TRENDS_EPOCH * TRENDS_CHANNELS; i++)
        if (!isfinite(uv[i]))
            return 0;
    double complex *work = malloc(PADDED * sizeof *work);
    if (!work)
        return err_set(err, ERR_EXHAUSTED, "out of memory for trends");
    aeeg(uv, AEEG_LEFT, work, &ret[TRENDS_AEEG]);
    aeeg(uv, AEEG_RIGHT, work, &ret[TRENDS_AEEG + 2]);
    for (int c = 0; c < TRENDS_CHANNELS; c++) {
        double own[WELCH_BINS] = {0};
        add_spectrum(uv, c, work, own);
        for (int k = 0; k < WELCH_BINS; k++) {
            head[k] += own[k] / TRENDS_CHANNELS;
            if (side_of(c) >= 0)
                psd[side_of(c)][k] += own[k] / SIDE_CHANNELS;
        }
    }
    free(work);
    spectral_columns(psd, head, ret);
    ret[TRENDS_SUPPRESSION] = suppression_ratio(uv);
    return 0;
}
