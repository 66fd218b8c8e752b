#include "base/rng.h"

#include <math.h>

#include "base/philox.h"

struct rng_block rng_philox(uint64_t seed, uint32_t stream, uint32_t step, uint64_t index) {
    struct rng_block block;
    philox(seed, stream, step, index, block.v);
    return block;
}

void rng_init(struct rng *rng, uint64_t seed, uint32_t stream, uint32_t step) {
    *rng = (struct rng){.seed = seed, .stream = stream, .step = step, .used = 4};
}

uint32_t rng_u32(struct rng *rng) {
    if (rng->used == 4) {
        rng->block = rng_philox(rng->seed, rng->stream, rng->step, rng->index++);
        rng->used = 0;
    }
    return rng->block.v[rng->used++];
}

static uint64_t rng_u64(struct rng *rng) {
    uint64_t hi = rng_u32(rng);
    return hi << 32 | rng_u32(rng);
}

uint64_t rng_below(struct rng *rng, uint64_t bound) {
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound; /* a multiple of bound */
    uint64_t value;
    do
        value = rng_u64(rng);
    while (value >= limit);
    return value % bound;
}

double rng_uniform(struct rng *rng) {
    uint32_t hi = rng_u32(rng), lo = rng_u32(rng);
    return rng_unit_f64(hi, lo);
}

double rng_normal(struct rng *rng) {
    double u = 1.0 - rng_uniform(rng), v = rng_uniform(rng);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

void rng_shuffle_u32(struct rng *rng, uint32_t *items, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t j = rng_below(rng, i);
        uint32_t t = items[i - 1];
        items[i - 1] = items[j];
        items[j] = t;
    }
}
