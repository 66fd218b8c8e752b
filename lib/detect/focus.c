#include "detect/focus.h"

#include "base/clones.h"
#include "base/grow.h"
#include "eeg/frontend.h"
#include "eeg/half_rows.h"

enum {
    RATE_HZ = 256,
    BLOCK = 8, /* rows of a mean, of which every second one is taken */
    BLOCKS_S = RATE_HZ / BLOCK,
    FEWEST_S = 5,
    PLAIN_S = 10,    /* of the level's mean */
    SLOW_S = 86,     /* NEAR / SLOW_S a second: a factor of 2 in 240 s */
    AFTER_GAP_S = 20 /* what was heard before a gap counts for so long */
};
static const float OFFSET_UV = 1, FLAT_UV = 0.2F, NEAR = 0.25F;
static const float LEAST = 0.405F /* 1.5 times its own */, MOST = 1.5F, SHARE = 0.75F; /* of evidence */
static const float PAIR = 0.45F;                                                       /* of correlation */

/* Begins a state; no length or count. */
#define MARK              INT64_C(-0x666f6375732b)
#define MARK_BEFORE_PAIRS INT64_C(-0x666f637573)

/* A second in which channels count. */
struct loud {
    int64_t second;
    uint32_t channels;
};

struct focus {
    int channels;
    int64_t now;    /* one past the newest sample */
    int64_t since;  /* the sample from which on it knows what is their own */
    int64_t blocks; /* differences in the second at hand; below 0: `before` is not known yet */
    bool held;      /* a row of the second was */
    /* Of each channel: the sum of the block at hand, and of the one before; the lengths of the second; ln of its own.
     */
    float block[FOCUS_CHANNELS], before[FOCUS_CHANNELS], length[FOCUS_CHANNELS], level[FOCUS_CHANNELS];
    uint8_t heard[FOCUS_CHANNELS];               /* seconds in its level, at most SLOW_S */
    float step[FOCUS_CHANNELS];                  /* from the block before the newest to that */
    float turns[FOCUS_CHANNELS][FOCUS_CHANNELS]; /* changes of steps in the second at hand: sums of products */
    struct loud *louds;                          /* in order */
    int64_t n, capacity;
};

struct focus *focus_new(int channels) {
    struct focus *f = calloc(1, sizeof *f);
    if (f)
        *f = (struct focus){.channels = channels, .since = INT64_MAX};
    return f;
}

void focus_free(struct focus *f) {
    if (!f)
        return;
    free(f->louds);
    free(f);
}

void focus_start(struct focus *f, int64_t sample) {
    for (int c = 0; c < f->channels; c++) {
        f->heard[c] = f->heard[c] < AFTER_GAP_S ? f->heard[c] : AFTER_GAP_S;
        f->block[c] = f->length[c] = 0;
    }
    memset(f->turns, 0, sizeof f->turns);
    f->now = sample;
    f->blocks = sample % BLOCK ? -2 : -1;
    f->held = false;
}

static int descending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* What the evidence of a channel must reach in this second. */
static float bar(const float *evidence, int n) {
    float sorted[FOCUS_CHANNELS];
    memcpy(sorted, evidence, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    const float second = fminf(sorted[n > 1], MOST), third = sorted[n > 2 ? 2 : 0];
    return third < LEAST ? INFINITY : fmaxf(LEAST, SHARE * second);
}

/* Whether a channel moves with one other much more than with any third in this second, as the two do that a loose
 * electrode is in. */
static bool in_pair(const struct focus *f, int c) {
    float most = 0, next = 0;
    for (int d = 0; d < f->channels; d++) {
        const float both = f->turns[c][c] * f->turns[d][d];
        const float alike = d != c && both > 0 ? fabsf(f->turns[c][d]) / sqrtf(both) : 0;
        const float less = alike < most ? alike : most;
        next = less > next ? less : next;
        most = alike > most ? alike : most;
    }
    return f->channels > 2 && most - next >= PAIR;
}

/* The level of a channel takes a second into account. */
static void hear(struct focus *f, int c, float by) {
    const bool plain = f->heard[c] < PLAIN_S;
    f->heard[c] += f->heard[c] < SLOW_S;
    if (f->heard[c] == FEWEST_S && f->since == INT64_MAX)
        f->since = f->now;
    f->level[c] += (plain ? by : fminf(fmaxf(by, -NEAR), NEAR)) / f->heard[c];
}

static int end_second(struct focus *f, struct err *err) {
    float evidence[FOCUS_CHANNELS];
    struct loud loud = {f->now / RATE_HZ - 1, 0};
    const bool whole = f->blocks == BLOCKS_S && !f->held;
    for (int c = 0; c < f->channels; c++) {
        const float uv = f->length[c] / (BLOCKS_S * BLOCK / 2), by = logf(uv + OFFSET_UV) - f->level[c];
        evidence[c] = f->heard[c] < FEWEST_S || in_pair(f, c) ? 0 : by;
        if (whole && uv >= FLAT_UV)
            hear(f, c, by);
        f->length[c] = 0;
    }
    memset(f->turns, 0, sizeof f->turns);
    const float least = bar(evidence, f->channels);
    for (int c = 0; whole && c < f->channels; c++)
        loud.channels |= (uint32_t)(evidence[c] >= least) << c;
    f->blocks = f->blocks < 0 ? f->blocks : 0;
    f->held = false;
    if (loud.channels && !GROW(f->louds, f->n, f->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the channels of %lld s", (long long)f->capacity);
    if (loud.channels)
        f->louds[f->n++] = loud;
    return 0;
}

/* Adds the products of each two of n changes. */
CLONES static void add_products(float sums[FOCUS_CHANNELS][FOCUS_CHANNELS], const float *restrict turn, int n) {
    for (int c = 0; c < n; c++) {
        float *restrict sum = sums[c];
        const float by = turn[c];
#pragma omp simd
        for (int d = 0; d < FOCUS_CHANNELS; d++)
            sum[d] += by * turn[d];
    }
}

static void end_block(struct focus *f) {
    float turn[FOCUS_CHANNELS] = {0};
    f->blocks++;
    for (int c = 0; c < f->channels; c++) {
        const float step = f->blocks > 0 ? f->block[c] - f->before[c] : 0;
        f->length[c] += fabsf(step);
        turn[c] = step - f->step[c];
        f->step[c] = step;
        f->before[c] = f->block[c];
        f->block[c] = 0;
    }
    add_products(f->turns, turn, f->channels);
}

/* Adds n rows to the block at hand, one after the other. */
CLONES static void add_rows(struct focus *f, const double *restrict x, int64_t n) {
    const int lanes = (f->channels + 7) & ~7;
    for (int64_t i = 0; i < n; i++, x += lanes)
#pragma omp simd
        for (int c = 0; c < f->channels; c++)
            f->block[c] += (float)x[c];
}

int focus_push(struct focus *f, const uint16_t *rows, int columns, int64_t n, bool held, struct err *err) {
    double x[BLOCK / 2 * FOCUS_CHANNELS];
    int rc = 0;
    for (int64_t some; n > 0 && !rc; n -= some, rows += some * columns) {
        const int64_t odd = f->now % 2, left = BLOCK - f->now % BLOCK;
        some = n < left ? n : left;
        const struct half_rows even = {(uint16_t *)(uintptr_t)(rows + odd * columns), 2 * columns, f->channels,
                                       (some - odd + 1) / 2};
        f->held |= held;
        if (even.n) {
            half_rows_to_doubles(&even, x);
            add_rows(f, x, even.n);
        }
        f->now += some;
        if (f->now % BLOCK == 0)
            end_block(f);
        rc = f->now % RATE_HZ == 0 ? end_second(f, err) : 0;
    }
    return rc;
}

uint32_t focus_of(const struct focus *f, int64_t first, int64_t end) {
    int64_t counts[FOCUS_CHANNELS] = {0}, seconds = 0;
    uint32_t ret = 0;
    for (int64_t i = 0; first >= f->since && i < f->n && seconds < FOCUS_EVENT_S; i++) {
        const struct loud *loud = &f->louds[i];
        if (loud->second * RATE_HZ < first || (loud->second + 1) * RATE_HZ > end)
            continue;
        seconds++;
        for (int c = 0; c < f->channels; c++)
            counts[c] += loud->channels >> c & 1;
    }
    for (int c = 0; c < f->channels; c++)
        ret |= (uint32_t)(counts[c] > 0 && 2 * counts[c] >= seconds) << c;
    return ret;
}

void focus_forget(struct focus *f, int64_t sample) {
    int64_t n = 0;
    while (n < f->n && f->louds[n].second < sample / RATE_HZ)
        n++;
    f->n -= n;
    if (n)
        memmove(f->louds, f->louds + n, (size_t)f->n * sizeof *f->louds);
}

/* The seconds come in order, and each has a channel. */
static void pack_louds(struct focus *f, struct packer *p) {
    int64_t n = f->n, after = 0;
    packed_count(p, &n);
    for (f->n = 0; f->n < n && !p->from.failed && GROW(f->louds, f->n, f->capacity); f->n++) {
        struct loud *loud = &f->louds[f->n];
        PACKED(p, loud->second, after, PACKED_FAR);
        PACKED(p, loud->channels, 1, (INT64_C(1) << f->channels) - 1);
        after = loud->second + 1;
    }
    packed_require(p, f->n == n);
}

bool focus_pack(struct focus *f, struct packer *p) {
    const size_t n = (size_t)f->channels;
    struct unpack ahead = p->from;
    const int64_t mark = p->to ? MARK : unpack_i64(&ahead, INT64_MIN, INT64_MAX);
    if (mark != MARK && mark != MARK_BEFORE_PAIRS)
        return false;
    packed_same(p, mark);
    packed_same(p, f->channels);
    PACKED_COUNTS(p, *f, now);
    PACKED(p, f->since, 0, INT64_MAX);
    PACKED(p, f->blocks, -2, BLOCKS_S - 1);
    PACKED_MEMBERS(p, *f, held);
    packed_bytes(p, f->block, n * sizeof *f->block);
    packed_bytes(p, f->before, n * sizeof *f->before);
    packed_bytes(p, f->length, n * sizeof *f->length);
    packed_bytes(p, f->level, n * sizeof *f->level);
    packed_bytes(p, f->heard, n);
    for (size_t c = 0; c < n; c++)
        packed_require(p, f->heard[c] <= SLOW_S && isfinite(f->level[c]));
    pack_louds(f, p);
    f->held |= mark == MARK_BEFORE_PAIRS; /* so the second at hand says nothing */
    if (mark == MARK_BEFORE_PAIRS)
        return true;
    packed_bytes(p, f->step, n * sizeof *f->step);
    for (size_t c = 0; c < n; c++)
        packed_bytes(p, f->turns[c], n * sizeof *f->turns[c]);
    return true;
}

void focus_list(const char *montage, uint32_t bits, char ret[SIDE_LIST]) {
    const char *const *names = NULL;
    int n = 0;
    *ret = '\0';
    if (!bits || montage_channels(montage, &names, &n, NULL))
        return;
    side_list(names, n, bits, ret);
    montage_channels_free(names);
}
