/* subnormals: whether the calling thread computes with subnormal floats or takes them for 0. Threads of a CPU stream take them for
 * 0 (kernels/device.h); code whose bits are to be the same on every thread keeps them. No effect on processors without SSE2. */
#pragma once
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

enum { SUBNORMALS_FLUSHED = 0x8040 }; /* flush to zero, denormals are zero */

/* Return what subnormals_restore needs. */
static inline unsigned subnormals_set(unsigned flushed) {
#if defined(__SSE2__)
    unsigned was = _mm_getcsr();
    _mm_setcsr((was & ~(unsigned)SUBNORMALS_FLUSHED) | flushed);
    return was;
#else
    return flushed;
#endif
}
static inline unsigned subnormals_keep(void) { return subnormals_set(0); }
static inline unsigned subnormals_flush(void) { return subnormals_set(SUBNORMALS_FLUSHED); }
static inline void subnormals_restore(unsigned was) { subnormals_set(was & SUBNORMALS_FLUSHED); }
