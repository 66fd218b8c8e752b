#include "store/md5_lanes.h"

enum { GROUP = 8, GROUPS = MD5_LANES / GROUP }; /* a vector each; their steps alternate, as each waits for the one before */
typedef uint32_t lanes __attribute__((vector_size(4 * GROUP)));

/* floor(2^32 |sin(i + 1)|) */
static const uint32_t sines[64] = {0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
                                   0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
                                   0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
                                   0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
                                   0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
                                   0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
                                   0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
                                   0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))
#define STEP(f, a, b, c, d, word, i, by)                                                                                           \
    _Pragma("GCC unroll 2") for (int g = 0; g < groups; g++) {                                                                     \
        lanes t = ((a)[g] + sines[i] + m[g][(word)&15]) + f((b)[g], (c)[g], (d)[g]);                                               \
        (a)[g] = (b)[g] + (t << (by) | t >> (32 - (by)));                                                                          \
    }
/* Four steps; words step by `by` from `word` on. */
#define STEPS(f, i, word, by, r0, r1, r2, r3)                                                                                      \
    do {                                                                                                                           \
        STEP(f, a, b, c, d, word, i, r0);                                                                                          \
        STEP(f, d, a, b, c, (word) + (by), (i) + 1, r1);                                                                           \
        STEP(f, c, d, a, b, (word) + 2 * (by), (i) + 2, r2);                                                                       \
        STEP(f, b, c, d, a, (word) + 3 * (by), (i) + 3, r3);                                                                       \
    } while (0)

#define LOW(x, y)        __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(x, y)       __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_PAIRS(x, y)  __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_PAIRS(x, y) __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW_HALF(x, y)   __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_HALF(x, y)  __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15)

/* Eight words of each lane of a group as eight vectors; little-endian machines only. */
static inline __attribute__((always_inline)) void transpose(const unsigned char *const at[GROUP], size_t offset, lanes m[8]) {
    lanes r[8], t[8], u[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        memcpy(&r[i], at[i] + offset, sizeof r[i]);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
        t[i] = LOW(r[i], r[i + 1]);
        t[i + 1] = HIGH(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
        u[i] = LOW_PAIRS(t[i], t[i + 2]);
        u[i + 1] = HIGH_PAIRS(t[i], t[i + 2]);
        u[i + 2] = LOW_PAIRS(t[i + 1], t[i + 3]);
        u[i + 3] = HIGH_PAIRS(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        m[i] = LOW_HALF(u[i], u[i + 4]);
        m[i + 4] = HIGH_HALF(u[i], u[i + 4]);
    }
}

/* The first `groups` of the lanes. */
static inline __attribute__((always_inline)) void run(struct md5_lanes *l, const unsigned char *const at[MD5_LANES], size_t n,
                                                      const int groups) {
    lanes a[GROUPS], b[GROUPS], c[GROUPS], d[GROUPS], m[GROUPS][16];
    memcpy(a, l->state[0], sizeof a);
    memcpy(b, l->state[1], sizeof b);
    memcpy(c, l->state[2], sizeof c);
    memcpy(d, l->state[3], sizeof d);
    for (size_t block = 0; block < n; block++) {
        lanes a0[GROUPS], b0[GROUPS], c0[GROUPS], d0[GROUPS];
#pragma GCC unroll 8
        for (int g = 0; g < groups; g++) {
            a0[g] = a[g], b0[g] = b[g], c0[g] = c[g], d0[g] = d[g];
            transpose(at + (size_t)g * GROUP, block * MD5_BLOCK, m[g]);
            transpose(at + (size_t)g * GROUP, block * MD5_BLOCK + MD5_BLOCK / 2, m[g] + 8);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4)
            STEPS(F, i, i, 1, 7, 12, 17, 22);
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4)
            STEPS(G, 16 + i, 5 * i + 1, 5, 5, 9, 14, 20);
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4)
            STEPS(H, 32 + i, 3 * i + 5, 3, 4, 11, 16, 23);
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4)
            STEPS(I, 48 + i, 7 * i, 7, 6, 10, 15, 21);
#pragma GCC unroll 8
        for (int g = 0; g < groups; g++) {
            a[g] += a0[g];
            b[g] += b0[g];
            c[g] += c0[g];
            d[g] += d0[g];
        }
    }
    memcpy(l->state[0], a, sizeof a);
    memcpy(l->state[1], b, sizeof b);
    memcpy(l->state[2], c, sizeof c);
    memcpy(l->state[3], d, sizeof d);
}

#if defined(__x86_64__)
static __attribute__((target("avx2"))) void run_avx2(struct md5_lanes *l, const unsigned char *const at[MD5_LANES], size_t n,
                                                     int count) {
    if (count > GROUP)
        run(l, at, n, GROUPS);
    else
        run(l, at, n, 1);
}
static __attribute__((target("avx2,avx512f,avx512vl"))) void
run_avx512(struct md5_lanes *l, const unsigned char *const at[MD5_LANES], size_t n, int count) {
    if (count > GROUP)
        run(l, at, n, GROUPS);
    else
        run(l, at, n, 1);
}

bool md5_lanes_usable(void) { return __builtin_cpu_supports("avx2"); }

void md5_lanes_blocks(struct md5_lanes *l, const unsigned char *const at[MD5_LANES], size_t n, int count) {
    if (__builtin_cpu_supports("avx512vl"))
        run_avx512(l, at, n, count);
    else if (md5_lanes_usable())
        run_avx2(l, at, n, count);
    else
        run(l, at, n, GROUPS);
}
#else
bool md5_lanes_usable(void) { return false; }

void md5_lanes_blocks(struct md5_lanes *l, const unsigned char *const at[MD5_LANES], size_t n, int count) {
    (void)count;
    run(l, at, n, GROUPS);
}
#endif

void md5_lanes_begin(struct md5_lanes *l, int lane) {
    static const uint32_t start[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    for (int i = 0; i < 4; i++)
        l->state[i][lane] = start[i];
}

size_t md5_lanes_last(const unsigned char *rest, size_t len, uint64_t total_bytes, unsigned char ret[2 * MD5_BLOCK]) {
    size_t blocks = len + 9 > MD5_BLOCK ? 2 : 1;
    memmove(ret, rest, len);
    memset(ret + len, 0, 2 * MD5_BLOCK - len);
    ret[len] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        ret[blocks * MD5_BLOCK - 8 + i] = (unsigned char)(total_bytes * 8 >> 8 * i);
    return blocks;
}

void md5_lanes_hex(const struct md5_lanes *l, int lane, char ret[33]) {
    for (int i = 0; i < 16; i++)
        snprintf(ret + 2 * (size_t)i, 3, "%02x", l->state[i / 4][lane] >> 8 * (i % 4) & 0xff);
}
