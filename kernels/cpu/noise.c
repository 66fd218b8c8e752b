/* Noise and a missing band in training windows: single products and sums in a fixed order, so that the bits are the same on every
 * device. */
#include "kernels/cpu/cpu.h"

/* Height of the burst at sample t, 0 outside of bursts. */
static float ramp_at(const struct noise_window *w, int64_t t) {
    if (!w->period || t < w->burst || (t - w->burst) % w->period >= w->length)
        return 0;
    int64_t at = (t - w->burst) % w->period, left = w->length - at, edge = at + 1 < left ? at + 1 : left;
    return (float)(edge < NOISE_RAMP ? edge : NOISE_RAMP) * (1.0F / NOISE_RAMP);
}

static void change(const struct noise_args *a, const struct noise_window *w, const struct noise_channel *channels, float *x) {
    float state[2][WINDOWS_MAX_CHANNELS] = {0};
    const float *band = w->band;
    for (int64_t t = w->first; t < w->end; t++) {
        float *row = x + t * a->x.dim[2], ramp = ramp_at(w, t);
        for (int c = 0; c < a->signals; c++) {
            const struct noise_channel *k = &channels[c];
            float muscle = k->muscle * ramp * a->noise[(k->offset + t) % NOISE_SAMPLES];
            float mains = k->mains * a->wave[(k->phase + t * w->step) % NOISE_WAVE];
            float v = row[c] + muscle + mains, y = band[0] * v + state[0][c];
            state[0][c] = band[1] * v - band[3] * y + state[1][c];
            state[1][c] = band[2] * v - band[4] * y;
            row[c] = band[0] != 0 ? y : v;
        }
    }
}

int cpu_noise(struct stream *s, const struct noise_args *a, struct err *err) {
    (void)err;
    int64_t b = a->x.dim[0], n = a->x.dim[1] * a->x.dim[2];
#pragma omp parallel for num_threads(cpu_threads(s)) schedule(static)
    for (int64_t i = 0; i < b; i++)
        change(a, &a->windows[i], a->channels + i * a->signals, mf(&a->x) + i * n);
    return 0;
}
