#include "windows/augment_noise.h"

#include "base/base.h"
#include "base/rng.h"
#include "eeg/dsp.h"

#define MUSCLE_LOW_HZ  20.0
#define MUSCLE_HIGH_HZ 100.0
/* A burst takes 0.25 to 2 s of every 1 to 10 s, on a third of the channels. */
#define BURST_LEAST_S     0.25
#define BURST_MOST_S      2.0
#define PERIOD_LEAST_S    1.0
#define PERIOD_MOST_S     10.0
#define MUSCLE_CHANNELS   (1.0 / 3)
#define STOP_LOW_HZ       2.0
#define STOP_HIGH_HZ      100.0
#define STOP_NARROWEST_HZ 1.0
#define STOP_WIDEST       0.5 /* of its middle frequency */

bool augment_is_noisy(const struct augment_config *c) { return c->enabled && (c->muscle > 0 || c->mains > 0 || c->band_stop > 0); }

int augment_noise_tables(uint64_t seed, float *noise, float *wave, struct err *err) {
    struct dsp_section sections[3];
    struct dsp_cascade cascade;
    struct rng rng;
    double power = 0;
    int lanes = dsp_lanes(1), rc = dsp_bandpass(MUSCLE_LOW_HZ, MUSCLE_HIGH_HZ, DSP_RATE_HZ, sections, err);
    OWNED_MEMORY double *rows = dsp_rows(2 * AUGMENT_NOISE_SAMPLES, lanes);
    if (rc)
        return rc;
    if (!rows)
        return err_set(err, ERR_EXHAUSTED, "out of memory for muscle noise");
    rng_init(&rng, seed, RNG_NOISE, 0);
    rng.index = UINT64_C(1) << 62;
    for (int64_t i = 0; i < AUGMENT_NOISE_SAMPLES; i++)
        rows[i * lanes] = rows[(i + AUGMENT_NOISE_SAMPLES) * lanes] = rng_normal(&rng);
    if ((rc = dsp_cascade_init(&cascade, sections, 3, lanes, err)))
        return rc;
    for (int64_t i = 0; i < 2 * AUGMENT_NOISE_SAMPLES; i += DSP_BLOCK)
        dsp_cascade_run(&cascade, rows + i * lanes, DSP_BLOCK);
    dsp_cascade_done(&cascade);
    const double *second = rows + (int64_t)AUGMENT_NOISE_SAMPLES * lanes; /* the filter has forgotten how it began */
    for (int64_t i = 0; i < AUGMENT_NOISE_SAMPLES; i++)
        power += second[i * lanes] * second[i * lanes];
    for (int64_t i = 0; i < AUGMENT_NOISE_SAMPLES; i++)
        noise[i] = (float)(second[i * lanes] / sqrt(power / AUGMENT_NOISE_SAMPLES));
    for (int i = 0; i < AUGMENT_WAVE_SAMPLES; i++)
        wave[i] = (float)(M_SQRT2 * sin(2 * M_PI * i / AUGMENT_WAVE_SAMPLES));
    return 0;
}

static double between(struct rng *rng, double low, double high) { return low + rng_uniform(rng) * (high - low); }

static void draw_bursts(struct rng *rng, struct augment_noise *ret) {
    ret->length = (int32_t)(between(rng, BURST_LEAST_S, BURST_MOST_S) * FRONTEND_RATE_HZ);
    ret->period = (int32_t)(between(rng, PERIOD_LEAST_S, PERIOD_MOST_S) * FRONTEND_RATE_HZ);
    ret->burst = (int32_t)rng_below(rng, (uint64_t)ret->period);
}

/* The section has a zero at the middle of the band. */
static void draw_band(struct rng *rng, float band[5]) {
    struct dsp_section section;
    double hz = STOP_LOW_HZ * pow(STOP_HIGH_HZ / STOP_LOW_HZ, rng_uniform(rng));
    double width = between(rng, STOP_NARROWEST_HZ, fmax(STOP_NARROWEST_HZ, STOP_WIDEST * hz));
    if (dsp_notch(hz, hz / width, FRONTEND_RATE_HZ, &section, NULL))
        return;
    for (int i = 0; i < 3; i++)
        band[i] = (float)section.b[i];
    band[3] = (float)section.a[1];
    band[4] = (float)section.a[2];
}

void augment_noise_draw(const struct augment *a, int64_t epoch, int64_t index, struct augment_noise *ret) {
    const struct augment_config *c = &a->config;
    struct rng rng;
    rng_init(&rng, a->seed, RNG_NOISE, (uint32_t)epoch);
    rng.index = (uint64_t)index << 12;
    memset(ret, 0, sizeof *ret);
    bool muscle = rng_uniform(&rng) < c->muscle, mains = rng_uniform(&rng) < c->mains, stop = rng_uniform(&rng) < c->band_stop;
    int hz = rng_uniform(&rng) < 0.5 ? 50 : 60;
    struct augment_noise bursts = {0};
    draw_bursts(&rng, &bursts);
    if (muscle)
        *ret = bursts;
    if (mains)
        ret->step = hz * AUGMENT_WAVE_SAMPLES / FRONTEND_RATE_HZ;
    if (stop)
        draw_band(&rng, ret->band);
    for (int i = 0; i < a->channels; i++) {
        struct augment_noise_channel *to = &ret->channels[i];
        bool hit = rng_uniform(&rng) < MUSCLE_CHANNELS;
        to->muscle = (float)(muscle && hit ? rng_uniform(&rng) * c->noise : 0);
        to->mains = (float)(mains ? rng_uniform(&rng) * c->noise : 0);
        to->offset = (int32_t)rng_below(&rng, AUGMENT_NOISE_SAMPLES);
        to->phase = (int32_t)rng_below(&rng, AUGMENT_WAVE_SAMPLES);
    }
}
