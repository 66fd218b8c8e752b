/* md5_lanes: MD5 of several streams at once, each in a lane of vector registers: one step of MD5 waits for the one before, so that
 * sixteen streams take little longer than one. Pure; any thread. Source of the algorithm: RFC 1321. */
#ifndef BRR_STORE_MD5_LANES_H
#define BRR_STORE_MD5_LANES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MD5_LANES = 16, MD5_BLOCK = 64 };

/* A, B, C, D of every lane. */
struct md5_lanes {
    uint32_t state[4][MD5_LANES];
};
/* Whether this processor gains by it. */
bool md5_lanes_usable(void);
void md5_lanes_begin(struct md5_lanes *l, int lane);
/* The next n blocks of the first `count` lanes, those of lane i from at[i] on; other lanes are fed too, and void, so that all at[i]
 * must be readable. With up to eight it is quicker. */
void md5_lanes_blocks(struct md5_lanes *l, const unsigned char *const at[MD5_LANES], size_t n, int count);
/* The rest of a stream of total_bytes, the last `len` < MD5_BLOCK of which are at `rest`, as one or two blocks in `ret`: how many.
 */
size_t md5_lanes_last(const unsigned char *rest, size_t len, uint64_t total_bytes, unsigned char ret[2 * MD5_BLOCK]);
/* After the last blocks: 32 hex digits. */
void md5_lanes_hex(const struct md5_lanes *l, int lane, char ret[33]);

#endif
