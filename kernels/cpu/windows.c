/* Normalised windows out of binary16 rows. Sums are kept for each of 8 neighbouring rows apart and added in row order at the end,
 * the order that lib/windows/window.c sums in, so that the bits are the same; products are not contracted (kernels.cmake). */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static float half_value(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff, bits;
    float f = (float)mantissa * 0x1p-24f;
    memcpy(&bits, &f, sizeof bits);
    bits = exponent == 0 ? sign | bits : sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (mantissa << 13);
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* One value per channel from the sums of WINDOWS_GROUP rows. */
static double fold(const double *sums, int64_t channels, int64_t c) {
    double total = 0;
    for (int64_t r = 0; r < WINDOWS_GROUP; r++)
        total += sums[r * channels + c];
    return total;
}

static void normalise(const uint16_t *rows, int64_t valid, int64_t channels, float *x) {
    int64_t n = valid * channels, period = WINDOWS_GROUP * channels;
    double sums[WINDOWS_GROUP * WINDOWS_MAX_CHANNELS] = {0}, mean[WINDOWS_MAX_CHANNELS], scale[WINDOWS_MAX_CHANNELS];
    for (int64_t i = 0; i < n; i += period)
        for (int64_t e = 0; e < period && i + e < n; e++)
            sums[e] += (double)half_value(rows[i + e]);
    for (int64_t c = 0; c < channels; c++)
        mean[c] = fold(sums, channels, c) / (double)valid;
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < n; i += period)
        for (int64_t e = 0; e < period && i + e < n; e++) {
            double d = (double)half_value(rows[i + e]) - mean[e % channels];
            sums[e] += d * d;
        }
    for (int64_t c = 0; c < channels; c++) {
        double deviation = sqrt(fold(sums, channels, c) / (double)valid);
        scale[c] = 1 / (deviation > WINDOWS_FLOOR_UV ? deviation : WINDOWS_FLOOR_UV);
    }
    for (int64_t i = 0; i < n; i++) {
        double z = ((double)half_value(rows[i]) - mean[i % channels]) * scale[i % channels];
        x[i] = (float)(z > WINDOWS_CLIP ? WINDOWS_CLIP : z < -WINDOWS_CLIP ? -WINDOWS_CLIP : z);
    }
}

static void cut(const uint16_t *rows, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = half_value(rows[i]);
}

static void window(const void *ctx, int64_t i, int lane) {
    const struct windows_args *a = ctx;
    int64_t t = a->x.dim[1], c = a->x.dim[2], valid = a->valid[i];
    float *x = mf(&a->x) + i * t * c;
    uint8_t *labels = (uint8_t *)a->labels.data + i * t;
    (void)lane;
    if (valid > 0 && a->raw)
        cut(a->rows + a->first[i] * c, valid * c, x);
    else if (valid > 0)
        normalise(a->rows + a->first[i] * c, valid, c, x);
    memset(x + valid * c, 0, (size_t)((t - valid) * c) * sizeof *x);
    memcpy(labels, a->row_labels + a->first[i], (size_t)valid);
    memset(labels + valid, 0, (size_t)(t - valid));
}

int cpu_windows(struct stream *s, const struct windows_args *a, struct err *err) {
    (void)err;
    lanes_for(cpu_threads(s), a->x.dim[0], window, a);
    return 0;
}
