/* pages: memory for large arrays that are read at random places. Where the kernel offers huge pages on request (madvise), an array
 * of PAGES_HUGE bytes or more lies in them, so that a random access seldom misses the address cache: a network of a million neurons
 * ticks in a fraction of the time. Elsewhere, and for smaller arrays, it is plain memory. Any thread. */
#pragma once
#include <stddef.h>

enum { PAGES_ALIGNMENT = 64, PAGES_HUGE = 2 << 20 };

/* Uninitialised, aligned to PAGES_ALIGNMENT bytes, at least as long as asked for; free() it. NULL when out of memory. */
void *pages_alloc(size_t bytes);
