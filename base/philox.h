/* philox: the rounds of Philox4x32-10, for the host (base/rng.h) and for CUDA kernels, so that both draw the same bits.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC'11). */
#pragma once
#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_RULE static __device__ __forceinline__
#else
#define PHILOX_RULE static inline
#endif

/* Writes four random words to c. Key = seed; counter = (index low, index high, step, stream). */
PHILOX_RULE void philox(uint64_t seed, uint32_t stream, uint32_t step, uint64_t index, uint32_t c[4]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    c[0] = (uint32_t)index;
    c[1] = (uint32_t)(index >> 32);
    c[2] = step;
    c[3] = stream;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}
