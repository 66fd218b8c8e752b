#include "store/crc.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* All are reflected: bit 0 of a sum is the coefficient of the highest power. Both the start and what is added at the end are ~0. */
static const struct {
    uint64_t polynomial;
    int bits;
    const char *name;
} kinds[CRC_KINDS] = {[CRC_64_NVME] = {0x9a6c9329ac4bc9b5, 64, "CRC-64/NVME"},
                      [CRC_32C] = {0x82f63b78, 32, "CRC-32C"},
                      [CRC_32] = {0xedb88320, 32, "CRC-32"}};

enum { BLOCK = 64, WORDS = BLOCK / 16, LANES = 4, SLICES = 8 };

struct crc {
    enum crc_kind kind;
    bool folding; /* whole blocks so far are congruent to `folded`, else they are in `sum` */
    uint64_t sum; /* of what is not folded, without its end */
    uint64_t folded[WORDS][2];
    uint64_t by[3][2]; /* x^n (low, high half) for a word further, a block, LANES blocks */
    unsigned char rest[BLOCK];
    size_t rest_len;
    uint64_t (*tables)[256]; /* SLICES of them; NULL where blocks are folded */
};

static uint64_t times_x(enum crc_kind kind, uint64_t a) { return a >> 1 ^ (a & 1 ? kinds[kind].polynomial : 0); }

static uint64_t one(enum crc_kind kind) { return (uint64_t)1 << (kinds[kind].bits - 1); }

static uint64_t ones(enum crc_kind kind) { return ~(uint64_t)0 >> (64 - kinds[kind].bits); }

/* x^n as the upper bits of 64. */
static uint64_t power(enum crc_kind kind, int n) {
    uint64_t a = one(kind);
    while (n-- > 0)
        a = times_x(kind, a);
    return a << (64 - kinds[kind].bits);
}

static uint64_t add_bytes(enum crc_kind kind, uint64_t sum, const unsigned char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = times_x(kind, sum);
    }
    return sum;
}

/* ---- blocks folded: the four words of a block times x^512, plus the next block, are congruent to both ---- */

#if defined(__x86_64__)
static bool can_fold(void) { return __builtin_cpu_supports("pclmul"); }

static inline __attribute__((always_inline, target("pclmul"))) __m128i fold(__m128i word, __m128i by, __m128i next) {
    return _mm_clmulepi64_si128(word, by, 0x00) ^ _mm_clmulepi64_si128(word, by, 0x11) ^ next;
}

#define WIDE __attribute__((target("vpclmulqdq,avx512f")))

static inline WIDE __attribute__((always_inline)) __m512i fold_block(__m512i block, __m512i by, __m512i next) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(block, by, 0x00), _mm512_clmulepi64_epi128(block, by, 0x11), next,
                                     0x96);
}

static inline WIDE __m512i broadcast(const uint64_t by[2]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)by));
}

/* A block as one vector. One fold waits for the one before, so LANES of them are under way. */
static WIDE void fold_wide(struct crc *c, const unsigned char *data, size_t blocks) {
    const __m512i by = broadcast(c->by[1]), far = broadcast(c->by[2]);
    __m512i w = _mm512_loadu_si512(c->folded);
    if (blocks >= 2 * LANES) {
        __m512i lane[LANES] = {w};
        for (int i = 1; i < LANES; i++, blocks--, data += BLOCK)
            lane[i] = _mm512_loadu_si512(data);
        for (; blocks >= LANES; blocks -= LANES, data += (size_t)LANES * BLOCK) {
#pragma GCC unroll 4
            for (int i = 0; i < LANES; i++)
                lane[i] = fold_block(lane[i], far, _mm512_loadu_si512(data + i * BLOCK));
        }
        w = lane[0];
        for (int i = 1; i < LANES; i++)
            w = fold_block(w, by, lane[i]);
    }
    for (; blocks; blocks--, data += BLOCK)
        w = fold_block(w, by, _mm512_loadu_si512(data));
    _mm512_storeu_si512(c->folded, w);
}

static __attribute__((target("pclmul"))) void fold_blocks(struct crc *c, const unsigned char *data, size_t blocks) {
    if (__builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f")) {
        fold_wide(c, data, blocks);
        return;
    }
    const __m128i by = _mm_loadu_si128((const __m128i *)(const void *)c->by[1]);
    __m128i w[WORDS];
    memcpy(w, c->folded, sizeof w);
    for (; blocks; blocks--, data += BLOCK) {
#pragma GCC unroll 4
        for (size_t i = 0; i < WORDS; i++)
            w[i] = fold(w[i], by, _mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)));
    }
    memcpy(c->folded, w, sizeof w);
}

/* The sum of all blocks. */
static __attribute__((target("pclmul"))) void unfold(struct crc *c) {
    const __m128i by = _mm_loadu_si128((const __m128i *)(const void *)c->by[0]);
    __m128i w[WORDS];
    memcpy(w, c->folded, sizeof w);
    for (int i = 1; i < WORDS; i++)
        w[i] = fold(w[i - 1], by, w[i]);
    c->sum = add_bytes(c->kind, 0, (const unsigned char *)&w[WORDS - 1], 16);
    c->folding = false;
}
#else
static bool can_fold(void) { return false; }
static void fold_blocks(struct crc *c, const unsigned char *data, size_t blocks) { (void)c, (void)data, (void)blocks; }
static void unfold(struct crc *c) { (void)c; }
#endif

/* ---- blocks by tables ---- */

static void fill_tables(struct crc *c) {
    for (unsigned i = 0; i < 256; i++)
        c->tables[0][i] = add_bytes(c->kind, 0, &(unsigned char){(unsigned char)i}, 1);
    for (size_t k = 1; k < SLICES; k++)
        for (size_t i = 0; i < 256; i++)
            c->tables[k][i] = c->tables[0][c->tables[k - 1][i] & 0xff] ^ c->tables[k - 1][i] >> 8;
}

static void look_up_blocks(struct crc *c, const unsigned char *data, size_t blocks) {
    uint64_t sum = c->sum;
    for (size_t i = 0; i < blocks * BLOCK; i += 8) {
        uint64_t word = sum;
        sum = 0;
        for (size_t k = 0; k < 8; k++)
            sum ^= c->tables[7 - k][(word >> 8 * k & 0xff) ^ data[i + k]];
    }
    c->sum = sum;
}

struct crc *crc_new(enum crc_kind kind, bool plain) {
    struct crc *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->kind = kind;
    c->sum = ones(kind);
    if (!plain && can_fold()) {
        static const int bits[3] = {128, 8 * BLOCK, 8 * LANES * BLOCK};
        for (int i = 0; i < 3; i++) {
            c->by[i][0] = power(kind, bits[i] + 63); /* a product of reflected halves is one x too many */
            c->by[i][1] = power(kind, bits[i] - 1);
        }
    } else if ((c->tables = malloc(SLICES * sizeof *c->tables))) {
        fill_tables(c);
    } else {
        free(c);
        return NULL;
    }
    return c;
}

static void add_blocks(struct crc *c, const unsigned char *data, size_t blocks) {
    if (!blocks)
        return;
    if (c->tables) {
        look_up_blocks(c, data, blocks);
        return;
    }
    if (!c->folding) { /* the start is added to the first bytes */
        memcpy(c->folded, data, BLOCK);
        c->folded[0][0] ^= c->sum;
        c->folding = true;
        data += BLOCK;
        blocks--;
    }
    fold_blocks(c, data, blocks);
}

void crc_update(struct crc *c, const void *data, size_t len) {
    const unsigned char *at = data;
    if (!c || !len)
        return;
    if (c->rest_len) {
        size_t n = BLOCK - c->rest_len < len ? BLOCK - c->rest_len : len;
        memcpy(c->rest + c->rest_len, at, n);
        c->rest_len += n;
        at += n;
        len -= n;
        if (c->rest_len < BLOCK)
            return;
        add_blocks(c, c->rest, 1);
        c->rest_len = 0;
    }
    add_blocks(c, at, len / BLOCK);
    c->rest_len = len % BLOCK;
    memcpy(c->rest, at + len - c->rest_len, c->rest_len);
}

uint64_t crc_finish(struct crc *c) {
    if (c->folding)
        unfold(c);
    uint64_t sum = add_bytes(c->kind, c->sum, c->rest, c->rest_len) ^ ones(c->kind);
    free(c->tables);
    free(c);
    return sum;
}

static uint64_t multiply(enum crc_kind kind, uint64_t a, uint64_t b) {
    uint64_t product = 0;
    for (uint64_t bit = one(kind); bit; bit >>= 1, b = times_x(kind, b))
        if (a & bit)
            product ^= b;
    return product;
}

uint64_t crc_join(enum crc_kind kind, uint64_t a, uint64_t b, uint64_t b_len) {
    uint64_t square = power(kind, 8) >> (64 - kinds[kind].bits);
    for (; b_len; b_len >>= 1, square = multiply(kind, square, square))
        if (b_len & 1)
            a = multiply(kind, a, square);
    return a ^ b;
}

int crc_bits(enum crc_kind kind) { return kinds[kind].bits; }

const char *crc_name(enum crc_kind kind) { return kinds[kind].name; }
