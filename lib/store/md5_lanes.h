/* md5_lanes: MD5 of up to sixteen streams at once, one per lane of vector registers. Each step of MD5 depends on the one before, so
 * sixteen streams take little longer than one. Pure; any thread. Source of the algorithm: RFC 1321. */
#pragma once
#include "base/base.h"

enum { MD5_LANES = 16, MD5_BLOCK = 64 };

/* A, B, C, D of every lane. */
struct md5_lanes {
    uint32_t state[4][MD5_LANES];
};
/* True if this processor gains by it. */
bool md5_lanes_usable(void);
void md5_lanes_begin(struct md5_lanes *l, int lane);
/* Processes the next n blocks of the first `count` lanes, lane i from at[i]. Unused lanes are processed as well and their state is
 * undefined, so every at[i] must be readable. Up to eight lanes are faster than sixteen. */
void md5_lanes_blocks(struct md5_lanes *l, const unsigned char *const at[MD5_LANES], size_t n, int count);
/* Pads the end of a stream of total_bytes, whose last `len` < MD5_BLOCK bytes are at `rest`, into one or two blocks in `ret`;
 * returns their number. */
size_t md5_lanes_last(const unsigned char *rest, size_t len, uint64_t total_bytes, unsigned char ret[2 * MD5_BLOCK]);
/* The digest as 32 hexadecimal digits, after the last blocks. */
void md5_lanes_hex(const struct md5_lanes *l, int lane, char ret[33]);
