#include "base/base.h"
#include "base/rng.h"
#include "brr-load/load.h"

enum { BANK = 1 << 18, POLES = 4, BURST_EVERY_S = 90, BURST_S = 20 };

static const double NOISE_UV = 18, BURST_UV = 90, BURST_HZ = 3;

const char *const load_labels[LOAD_CHANNELS] = {"Fp1", "Fp2", "F7", "F3", "Fz", "F4", "F8", "T3", "C3", "Cz",
                                                "C4",  "T4",  "T5", "P3", "Pz", "P4", "T6", "O1", "O2"};

/* Low-passes two octaves apart, of equal variance, add up to about 1/f. */
float *signal_bank(void) {
    float *bank = malloc(sizeof *bank * BANK);
    struct rng rng;
    double y[POLES] = {0};
    if (!bank)
        return NULL;
    rng_init(&rng, 1, RNG_SYNTH, 0);
    for (int i = -BANK / 16; i < BANK; i++) {
        double x = rng_normal(&rng), sum = 0;
        for (int k = 0; k < POLES; k++) {
            double keep = 1 - pow(0.25, k) * 0.5;
            y[k] = keep * y[k] + sqrt(1 - keep * keep) * x;
            sum += y[k];
        }
        if (i >= 0)
            bank[i] = (float)(sum * NOISE_UV / POLES);
    }
    return bank;
}

static uint32_t mix(uint32_t seed, uint32_t what) { return rng_philox(seed, RNG_SYNTH, what, 0).v[0]; }

void signal_fill(const float *bank, uint32_t seed, int64_t first, int64_t n, float *uv) {
    int64_t phase = mix(seed, 1000) % (BURST_EVERY_S * LOAD_RATE_HZ);
    for (int c = 0; c < LOAD_CHANNELS; c++) {
        const uint32_t place = mix(seed, (uint32_t)c);
        const float gain = 0.6f + (float)(place >> 24) / 320;
        for (int64_t i = 0; i < n; i++)
            uv[c * n + i] = gain * bank[(uint64_t)(place + (uint64_t)(first + i)) % BANK];
        for (int64_t i = 0; i < n; i++) {
            int64_t at = (first + i + phase) % (BURST_EVERY_S * LOAD_RATE_HZ);
            if (at < BURST_S * LOAD_RATE_HZ)
                uv[c * n + i] += gain * (float)(BURST_UV * sin(2 * M_PI * BURST_HZ * (double)at / LOAD_RATE_HZ));
        }
    }
}
