/* rng: counter-based random numbers, Philox4x32-10. The same (seed, stream, step, index) gives the same
 * bits on every device and thread count. Stateless; any thread.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC'11). Key = seed (2 × 32 bits),
 * counter = (index low, index high, step, stream). */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Streams: who draws. Part of the numeric contract, never renumber. */
enum rng_stream {
    RNG_INIT = 1,        /* parameter initialisation: step = parameter index, index = element / 4 */
    RNG_SAMPLER = 2,     /* epoch draws: step = epoch */
    RNG_DROPOUT = 3,     /* + layer number: step = training step */
    RNG_WIRING = 900,    /* generated networks of neurons: step = source neuron */
    RNG_DRIVE = 901,     /* random injections: step = tick */
    RNG_AUGMENT = 902,   /* training windows: step = epoch, index = 2¹² · place in the epoch */
    RNG_BOOTSTRAP = 903, /* patients drawn with replacement, for intervals (score/alarm_sweep.h) */
    RNG_NOISE = 904, /* noise of training windows: step = epoch, index = 2¹² · place in the epoch; of its table: index = 2⁶² */
    RNG_EVENTS = 905, /* Poisson input of neurons (kernels/spike.h): step = tick, index = neuron / 4 */
    RNG_SYNTH = 1000, /* edfgen */
};

struct rng_block {
    uint32_t v[4];
};
struct rng_block rng_philox(uint64_t seed, uint32_t stream, uint32_t step, uint64_t index);

static inline float rng_unit_f32(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; } /* [0,1) */
static inline double rng_unit_f64(uint32_t hi, uint32_t lo) { return (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53; }

/* A sequential reader of one (seed, stream, step) for host code. */
struct rng {
    uint64_t seed, index;
    uint32_t stream, step;
    struct rng_block block;
    int used;
};
void rng_init(struct rng *rng, uint64_t seed, uint32_t stream, uint32_t step);
uint32_t rng_u32(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t bound); /* unbiased, bound > 0 */
double rng_uniform(struct rng *rng);                 /* [0,1), 53 bits */
double rng_normal(struct rng *rng);                  /* Box-Muller */
void rng_shuffle_u32(struct rng *rng, uint32_t *items, size_t count);
