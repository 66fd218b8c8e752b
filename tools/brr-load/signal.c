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

/* The burst of n samples, the same in every channel; false: there is none. */
static bool fill_burst(int64_t at, int64_t n, float *wave) {
    bool any = false;
    for (int64_t i = 0; i < n; i++, at = at + 1 < BURST_EVERY_S * LOAD_RATE_HZ ? at + 1 : 0) {
        const bool on = at < BURST_S * LOAD_RATE_HZ;
        wave[i] = on ? (float)(BURST_UV * sin(2 * M_PI * BURST_HZ * (double)at / LOAD_RATE_HZ)) : 0;
        any |= on;
    }
    return any;
}

void signal_fill(const float *bank, uint32_t seed, int64_t first, int64_t n, float *uv) {
    enum { PART = 256 };
    const int64_t phase = mix(seed, 1000) % (BURST_EVERY_S * LOAD_RATE_HZ);
    float wave[PART];
    for (int64_t from = 0, part; from < n; from += part) {
        part = n - from < PART ? n - from : PART;
        const bool bursts = fill_burst((first + from + phase) % (BURST_EVERY_S * LOAD_RATE_HZ), part, wave);
        for (int c = 0; c < LOAD_CHANNELS; c++) {
            const uint32_t place = mix(seed, (uint32_t)c);
            const float gain = 0.6f + (float)(place >> 24) / 320;
            float *row = uv + c * n + from;
            for (int64_t i = 0; i < part; i++)
                row[i] = gain * bank[(uint64_t)(place + (uint64_t)(first + from + i)) % BANK];
            for (int64_t i = 0; bursts && i < part; i++)
                row[i] += gain * wave[i];
        }
    }
}
