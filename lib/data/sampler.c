#include "data/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/augment.h"

void balance_plan(const struct balance_counts *found, const struct balance_config *config, struct balance_counts *ret_used) {
    int64_t base = found->partial ? found->partial : found->full;
    double full = floor(config->full * (double)base + 1e-9), none = floor(config->none * (double)base + 1e-9);
    ret_used->partial = found->partial;
    ret_used->full = !found->partial || full > (double)found->full ? found->full : (int64_t)full;
    ret_used->none = none > (double)found->none ? found->none : (int64_t)none;
}

/* All windows of one class over the training entries. */
struct pool {
    struct window_ref *items;
    int64_t count, capacity, valid, seizure;
};

struct sampler {
    const struct manifest *manifest;
    struct pool pools[3]; /* by enum window_class */
    struct balance_counts found, used;
    bool redraw, jitter;
    uint64_t seed;
    int64_t drawn_epoch;   /* −1 before the first */
    uint32_t *order;       /* (epoch windows) positions in the pools laid end to end: partial, full, none */
    uint32_t *full, *none; /* scratch for the draws */
    int64_t total;
};

static bool pool_add(struct pool *p, struct window_ref ref, struct window_count count) {
    if (p->count == p->capacity) {
        int64_t capacity = p->capacity ? 2 * p->capacity : 1024;
        struct window_ref *items = realloc(p->items, sizeof *items * (size_t)capacity);
        if (!items)
            return false;
        p->items = items;
        p->capacity = capacity;
    }
    p->items[p->count++] = ref;
    p->valid += count.valid;
    p->seizure += count.seizure;
    return true;
}

static int collect(struct sampler *s, const struct manifest *m, int64_t entry, struct err *err) {
    struct recording_info info;
    int64_t window, hop;
    manifest_grid(m, &window, &hop);
    recording_info(manifest_entry(m, entry)->recording, &info);
    int64_t n = window_grid(info.segments, info.n_segments, window, hop, NULL);
    int64_t *starts = malloc(sizeof *starts * (size_t)(n + 1));
    bool fits = starts != NULL;
    if (fits)
        window_grid(info.segments, info.n_segments, window, hop, starts);
    for (int64_t i = 0; i < n && fits; i++) {
        struct window_count count = manifest_count_window(&info, starts[i], window);
        if (2 * count.valid >= window)
            fits = pool_add(&s->pools[count.class], (struct window_ref){entry, starts[i]}, count);
    }
    free(starts);
    return fits ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the windows of the training set");
}

int sampler_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
                struct sampler **ret, struct err *err) {
    struct sampler *s = calloc(1, sizeof *s);
    int rc = s ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a sampler");
    for (int64_t i = 0; i < manifest_count(m) && !rc; i++)
        if (role[i] == 1 && manifest_entry(m, i)->recording)
            rc = collect(s, m, i, err);
    if (rc)
        goto fail;
    s->manifest = m;
    s->seed = seed;
    s->drawn_epoch = -1;
    s->redraw = balance->redraw_each_epoch;
    s->found = (struct balance_counts){s->pools[WINDOW_PARTIAL].count, s->pools[WINDOW_FULL].count, s->pools[WINDOW_NONE].count};
    balance_plan(&s->found, balance, &s->used);
    s->total = s->used.partial + s->used.full + s->used.none;
    if (s->total < 1 || s->found.partial + s->found.full + s->found.none > UINT32_MAX) {
        rc = err_set(
            err, ERR_PRECONDITION,
            "the training set has %lld partial, %lld full and %lld windows without seizure, of which the balance leaves %lld; "
            "expected at least one seizure window",
            (long long)s->found.partial, (long long)s->found.full, (long long)s->found.none, (long long)s->total);
        goto fail;
    }
    s->order = malloc(sizeof *s->order * (size_t)s->total);
    s->full = malloc(sizeof *s->full * (size_t)(s->found.full + 1));
    s->none = malloc(sizeof *s->none * (size_t)(s->found.none + 1));
    if (!s->order || !s->full || !s->none) {
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for an epoch of %lld windows", (long long)s->total);
        goto fail;
    }
    *ret = s;
    return 0;
fail:
    sampler_free(s);
    return rc;
}

void sampler_free(struct sampler *s) {
    if (!s)
        return;
    for (int c = 0; c < 3; c++)
        free(s->pools[c].items);
    free(s->order);
    free(s->full);
    free(s->none);
    free(s);
}

int64_t sampler_epoch_windows(const struct sampler *s) { return s->total; }

void sampler_counts(const struct sampler *s, struct balance_counts *ret_found, struct balance_counts *ret_used) {
    if (ret_found)
        *ret_found = s->found;
    if (ret_used)
        *ret_used = s->used;
}

void sampler_ratios(const struct sampler *s, double *ret_sample_prior, double *ret_window_ratio) {
    const int classes[3] = {WINDOW_PARTIAL, WINDOW_FULL, WINDOW_NONE};
    const int64_t used[3] = {s->used.partial, s->used.full, s->used.none};
    double seizure = 0, valid = 0;
    for (int k = 0; k < 3; k++) {
        const struct pool *p = &s->pools[classes[k]];
        double share = p->count ? (double)used[k] / (double)p->count : 0;
        seizure += share * (double)p->seizure;
        valid += share * (double)p->valid;
    }
    if (ret_sample_prior)
        *ret_sample_prior = valid > 0 ? seizure / valid : 0;
    if (ret_window_ratio)
        *ret_window_ratio = (double)(s->used.partial + s->used.full) / (double)s->total;
}

/* The first `take` of the numbers base … base+count−1 in random order, drawn without replacement into to. */
static void draw(struct rng *rng, uint32_t *scratch, int64_t base, int64_t count, int64_t take, uint32_t *to) {
    for (int64_t i = 0; i < count; i++)
        scratch[i] = (uint32_t)(base + i);
    for (int64_t i = 0; i < take; i++) {
        int64_t j = i + (int64_t)rng_below(rng, (uint64_t)(count - i));
        to[i] = scratch[j];
        scratch[j] = scratch[i];
    }
}

static void draw_epoch(struct sampler *s, int64_t epoch) {
    struct rng rng;
    rng_init(&rng, s->seed, RNG_SAMPLER, s->redraw ? (uint32_t)epoch : 0);
    for (int64_t i = 0; i < s->used.partial; i++)
        s->order[i] = (uint32_t)i;
    draw(&rng, s->full, s->found.partial, s->found.full, s->used.full, s->order + s->used.partial);
    draw(&rng, s->none, s->found.partial + s->found.full, s->found.none, s->used.none, s->order + s->used.partial + s->used.full);
    /* The shuffle reads the epoch's counter from its middle on, apart from the draws. */
    rng_init(&rng, s->seed, RNG_SAMPLER, (uint32_t)epoch);
    rng.index = UINT64_C(1) << 62;
    rng_shuffle_u32(&rng, s->order, (size_t)s->total);
    s->drawn_epoch = epoch;
}

void sampler_set_jitter(struct sampler *s) { s->jitter = true; }

/* The window elsewhere in its segment; the padded one at a segment's end stays. */
static struct window_ref moved(const struct sampler *s, struct window_ref ref, int64_t epoch, int64_t i) {
    struct recording_info info;
    int64_t window, hop;
    manifest_grid(s->manifest, &window, &hop);
    recording_info(manifest_entry(s->manifest, ref.entry)->recording, &info);
    const struct window_span *segment = &info.segments[window_segment(info.segments, info.n_segments, ref.start)];
    int64_t last = segment->end - window, start = ref.start + augment_jitter(s->seed, epoch, i, hop);
    if (ref.start > last)
        return ref;
    ref.start = start < segment->first ? segment->first : start > last ? last : start;
    return ref;
}

static struct window_ref window_at(struct sampler *s, int64_t epoch, int64_t i) {
    if (s->drawn_epoch != epoch)
        draw_epoch(s, epoch);
    int64_t at = s->order[i];
    if (at < s->found.partial)
        return s->pools[WINDOW_PARTIAL].items[at];
    at -= s->found.partial;
    if (at < s->found.full)
        return s->pools[WINDOW_FULL].items[at];
    return s->pools[WINDOW_NONE].items[at - s->found.full];
}

struct window_ref sampler_at(struct sampler *s, int64_t epoch, int64_t i) {
    struct window_ref ref = window_at(s, epoch, i);
    return s->jitter ? moved(s, ref, epoch, i) : ref;
}
