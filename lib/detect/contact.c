#include "detect/contact.h"

#include "base/clones.h"
#include "base/grow.h"
#include "eeg/half_rows.h"

enum { RATE_HZ = 256, CLIPPED_SAMPLES = RATE_HZ / 100, VALUES = 4096, GROUP = 16 };
static const float flat_uv = 0.5f, limit_uv = 2000;

struct contact {
    contact_fn *tell; /* or NULL */
    void *ctx;
    int channels;
    int64_t segment; /* its first sample */
    int64_t samples; /* of the second at hand */
    /* For each channel, in that second: the lowest and highest sample, and how many lie beyond the limit. */
    float *lowest, *highest;
    int32_t *beyond;
    uint8_t *bad; /* bad channels of the seconds [first, first + n) of the segment */
    int64_t first, n, capacity;
};

struct contact *contact_new(int channels) {
    struct contact *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->channels = channels;
    const int room = (channels + GROUP - 1) / GROUP * GROUP;
    c->lowest = calloc((size_t)room, 2 * sizeof *c->lowest);
    c->highest = c->lowest ? c->lowest + room : NULL;
    c->beyond = calloc((size_t)room, sizeof *c->beyond);
    if (c->lowest && c->beyond)
        return c;
    contact_free(c);
    return NULL;
}

void contact_free(struct contact *c) {
    if (!c)
        return;
    FREE_MEMBERS(*c, lowest, beyond, bad);
    free(c);
}

void contact_tell(struct contact *c, contact_fn *tell, void *ctx) {
    c->tell = tell;
    c->ctx = ctx;
}

void contact_start(struct contact *c, int64_t sample) {
    c->segment = sample;
    c->samples = c->first = c->n = 0;
}

static int end_second(struct contact *c, struct err *err) {
    uint64_t flat = 0, clipped = 0;
    if (!GROW(c->bad, c->n, c->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the signal quality of %lld s", (long long)c->capacity);
    for (int i = 0; i < c->channels; i++) {
        flat |= (uint64_t)(c->highest[i] - c->lowest[i] < flat_uv) << i;
        clipped |= (uint64_t)(c->beyond[i] > CLIPPED_SAMPLES) << i;
    }
    c->bad[c->n++] = (uint8_t)__builtin_popcountll(flat | clipped);
    c->samples = 0;
    if (c->tell && (flat | clipped))
        c->tell(c->ctx, c->segment + (c->first + c->n) * RATE_HZ, flat, clipped);
    return 0;
}

/* Channels that are looked at together; the arrays have room for whole groups, and rows for what lies behind them. */
typedef float group_floats __attribute__((vector_size(4 * GROUP), aligned(4), may_alias));
typedef int32_t group_bits __attribute__((vector_size(4 * GROUP), aligned(4), may_alias));

/* Rows of one second. */
CLONES static void add_rows(struct contact *c, const float *rows, int64_t n, int columns) {
    for (int i = 0; i < c->channels; i += GROUP) {
        group_floats *lowest = (group_floats *)(void *)(c->lowest + i), *highest = (group_floats *)(void *)(c->highest + i);
        group_bits *beyond = (group_bits *)(void *)(c->beyond + i);
        const float *x = rows + i;
        group_bits low = *(const group_bits *)(const void *)(c->samples ? c->lowest + i : x);
        group_bits high = *(const group_bits *)(const void *)(c->samples ? c->highest + i : x), count = {0};
        for (int64_t r = 0; r < n; r++, x += columns) {
            const group_floats v = *(const group_floats *)(const void *)x;
            const group_bits is = (group_bits)v, less = v<(group_floats)low, more = v>(group_floats) high;
            low = (is & less) | (low & ~less);
            high = (is & more) | (high & ~more);
            count -= (group_floats)(is & INT32_MAX) > limit_uv;
        }
        *lowest = (group_floats)low;
        *highest = (group_floats)high;
        if (c->samples)
            count += *beyond;
        *beyond = count;
    }
    c->samples += n;
}

int contact_push(struct contact *c, const uint16_t *rows, int columns, int64_t n, struct err *err) {
    float x[VALUES + GROUP];
    int rc;
    for (int64_t some; n > 0; n -= some, rows += some * columns) {
        some = n < RATE_HZ - c->samples ? n : RATE_HZ - c->samples;
        some = some < VALUES / columns ? some : VALUES / columns;
        half_to_floats(rows, (size_t)(some * columns), x);
        memset(x + some * columns, 0, GROUP * sizeof *x); /* read, and of no channel */
        add_rows(c, x, some, columns);
        if (c->samples == RATE_HZ && (rc = end_second(c, err)))
            return rc;
    }
    return 0;
}

bool contact_bad(struct contact *c, int64_t sample) {
    int64_t past = (sample - c->segment) / RATE_HZ - 1 - c->first; /* the second, among those that are kept */
    if (past < 0 || past >= c->n)
        return false;
    bool bad = c->bad[past] >= contact_most_bad(c->channels);
    c->n -= past;
    c->first += past;
    memmove(c->bad, c->bad + past, (size_t)c->n);
    return bad;
}

int contact_pack(struct contact *c, struct packer *p, struct err *err) {
    packed_same(p, c->channels);
    PACKED_COUNTS(p, *c, segment);
    PACKED(p, c->samples, 0, RATE_HZ - 1);
    for (int i = 0; i < c->channels; i++) {
        packed_float(p, &c->lowest[i], sizeof *c->lowest);
        packed_float(p, &c->highest[i], sizeof *c->highest);
        PACKED(p, c->beyond[i], 0, RATE_HZ);
    }
    PACKED_COUNTS(p, *c, first);
    PACKED(p, c->n, 0, (int64_t)p->from.left);
    if (!p->to) {
        free(c->bad);
        c->bad = malloc((size_t)c->n + 1);
        c->capacity = c->n;
    }
    if (c->n && !c->bad)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the signal quality of a stream");
    packed_bytes(p, c->bad, (size_t)c->n);
    return 0;
}
