#include "windows/sampler.h"

#include "base/rng.h"
#include "windows/augment.h"

/* Draws from all windows alike, which is one part; where the sources have weights, each has a part with a balance of its own, and
 * goes through its own epochs one after the other: those of a source with a large weight and few windows end sooner. Of an epoch's
 * windows, as many as the parts' own epochs have together, each part gives its share; which one comes at each place is drawn. */
struct sampler {
    const struct manifest *manifest;
    struct draws *parts[MANIFEST_MAX_SOURCES];
    double weight[MANIFEST_MAX_SOURCES];
    int64_t take[MANIFEST_MAX_SOURCES]; /* windows of each in an epoch */
    int n;
    int64_t total;
    uint64_t seed;
    bool jitter;
    /* Of several parts: */
    int64_t drawn_epoch; /* −1 before the first */
    uint32_t *part;      /* (total) the part at each place of the drawn epoch */
    uint32_t *rank;      /* (total) how many of this part came before it in the epoch */
    struct window_ref *background;
    int64_t n_background;
};

/* The part of a source that has a weight. */
static int open_weighted(struct sampler *x, const struct manifest_source *source, const uint8_t *role,
                         const struct balance_config *balance, struct err *err) {
    int64_t n = manifest_count(x->manifest);
    OWNED_MEMORY uint8_t *own = calloc((size_t)n + 1, 1);
    if (!own)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the windows of %lld recordings", (long long)n);
    for (int64_t i = 0; i < n; i++)
        own[i] = manifest_entry(x->manifest, i)->source == x->n ? role[i] : 0;
    if (draws_new(x->manifest, own, balance, x->seed, &x->parts[x->n], err))
        return err_wrap(err, "data.source %s, which has a weight", source->name);
    x->weight[x->n++] = source->weight;
    return 0;
}

/* The windows of each source in an epoch, at least one, in proportion to the weights, where no source goes through its windows more
 * than `times` times: what it may not give, the others do. False when all together may not give an epoch. */
static bool divide(struct sampler *x, double times) {
    bool full[MANIFEST_MAX_SOURCES] = {0}, again = true;
    double epoch = 0, rest, weights;
    for (int k = 0; k < x->n; k++)
        epoch += (double)draws_epoch_windows(x->parts[k]);
    while (again) {
        rest = epoch;
        weights = 0;
        for (int k = 0; k < x->n; k++) {
            rest -= full[k] ? times * (double)draws_epoch_windows(x->parts[k]) : 0;
            weights += full[k] ? 0 : x->weight[k];
        }
        if (!(weights > 0))
            return false;
        again = false;
        for (int k = 0; k < x->n; k++)
            if (!full[k] && rest * x->weight[k] / weights > times * (double)draws_epoch_windows(x->parts[k]))
                full[k] = again = true;
    }
    x->total = 0;
    for (int k = 0; k < x->n; k++) {
        x->take[k] = full[k] ? (int64_t)(times * (double)draws_epoch_windows(x->parts[k])) : llround(rest * x->weight[k] / weights);
        x->take[k] = x->take[k] < 1 ? 1 : x->take[k];
        x->total += x->take[k];
    }
    return true;
}

/* Room for an epoch of several parts, which is to be drawn. */
static int reserve(struct sampler *x, struct err *err) {
    if (x->n == 1)
        return 0;
    if (x->total > UINT32_MAX)
        return err_set(err, ERR_PRECONDITION, "an epoch of %lld windows is too long", (long long)x->total);
    FREE_MEMBERS(*x, part, rank);
    x->part = malloc(sizeof *x->part * (size_t)x->total);
    x->rank = malloc(sizeof *x->rank * (size_t)x->total);
    x->drawn_epoch = -1;
    if (!x->part || !x->rank)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an epoch of %lld windows", (long long)x->total);
    return 0;
}

static int join_background(struct sampler *x, struct err *err) {
    int64_t n = 0, own;
    if (x->n == 1)
        return 0;
    for (int k = 0; k < x->n; k++, n += own)
        draws_background(x->parts[k], &own);
    if (!(x->background = malloc(sizeof *x->background * (size_t)(n + 1))))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld windows", (long long)n);
    for (int k = 0; k < x->n; k++) {
        const struct window_ref *from = draws_background(x->parts[k], &own);
        if (own)
            memcpy(x->background + x->n_background, from, sizeof *from * (size_t)own);
        x->n_background += own;
    }
    qsort(x->background, (size_t)x->n_background, sizeof *x->background, window_ref_order);
    return 0;
}

static int open_parts(struct sampler *x, const uint8_t *role, const struct balance_config *balance, struct err *err) {
    const struct manifest_source *sources;
    const int n = manifest_sources(x->manifest, &sources);
    const bool weighted = n > 1 && sources[0].weight > 0;
    struct balance_counts found, used;
    int rc = weighted ? 0 : draws_new(x->manifest, role, balance, x->seed, &x->parts[0], err);
    if (!weighted && !rc)
        x->weight[x->n++] = 1;
    while (weighted && x->n < n && !rc)
        rc = open_weighted(x, &sources[x->n], role, balance, err);
    if (rc)
        return rc;
    sampler_counts(x, &found, &used);
    if (!found.partial && !found.full)
        return draws_refuse(&found, used.none, err);
    divide(x, INFINITY);
    return (rc = reserve(x, err)) ? rc : join_background(x, err);
}

int sampler_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
                struct sampler **ret, struct err *err) {
    struct sampler *x = calloc(1, sizeof *x);
    if (!x)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a sampler");
    x->manifest = m;
    x->seed = seed;
    int rc = open_parts(x, role, balance, err);
    return GIVEN(ret, x, sampler_free, rc);
}

void sampler_free(struct sampler *x) {
    if (!x)
        return;
    for (int k = 0; k < x->n; k++)
        draws_free(x->parts[k]);
    FREE_MEMBERS(*x, part, rank, background);
    free(x);
}

int sampler_limit(struct sampler *x, double times, struct err *err) {
    if (divide(x, times))
        return reserve(x, err);
    return err_set(err, ERR_PRECONDITION,
                   "with data.balance.most_shown the windows do not last for the training: an epoch may show them %.3g times; "
                   "lower training.max_steps or training.epochs, or raise data.balance.most_shown",
                   times);
}

void sampler_set_jitter(struct sampler *x) { x->jitter = true; }

int64_t sampler_epoch_windows(const struct sampler *x) { return x->total; }

static void add_counts(struct balance_counts *to, const struct balance_counts *c) {
    to->partial += c->partial;
    to->full += c->full;
    to->none += c->none;
}

void sampler_counts(const struct sampler *x, struct balance_counts *ret_found, struct balance_counts *ret_used) {
    struct balance_counts all_found = {0}, all_used = {0};
    for (int k = 0; k < x->n; k++) {
        struct balance_counts found, used;
        draws_counts(x->parts[k], &found, &used);
        add_counts(&all_found, &found);
        add_counts(&all_used, &used);
    }
    if (ret_found)
        *ret_found = all_found;
    if (ret_used)
        *ret_used = all_used;
}

void sampler_ratios(const struct sampler *x, double *ret_sample_prior, double *ret_window_ratio) {
    double samples = 0, windows = 0;
    for (int k = 0; k < x->n; k++) {
        double prior, ratio, share = (double)x->take[k] / (double)x->total;
        draws_ratios(x->parts[k], &prior, &ratio);
        samples += share * prior;
        windows += share * ratio;
    }
    if (ret_sample_prior)
        *ret_sample_prior = samples;
    if (ret_window_ratio)
        *ret_window_ratio = windows;
}

static void draw_epoch(struct sampler *x, int64_t epoch) {
    int64_t seen[MANIFEST_MAX_SOURCES] = {0};
    struct rng rng;
    int64_t i = 0;
    for (int k = 0; k < x->n; k++)
        for (int64_t j = 0; j < x->take[k]; j++)
            x->part[i++] = (uint32_t)k;
    rng_init(&rng, x->seed, RNG_SAMPLER, (uint32_t)epoch);
    rng.index = UINT64_C(1) << 63; /* apart from the draws of the sources */
    rng_shuffle_u32(&rng, x->part, (size_t)x->total);
    for (i = 0; i < x->total; i++)
        x->rank[i] = (uint32_t)seen[x->part[i]]++;
    x->drawn_epoch = epoch;
}

/* The window elsewhere in its segment; the padded one at a segment's end stays. */
static struct window_ref moved(const struct sampler *x, struct window_ref ref, int64_t epoch, int64_t i) {
    struct recording_info info;
    int64_t window, hop;
    manifest_grid(x->manifest, &window, &hop);
    recording_info(manifest_entry(x->manifest, ref.entry)->recording, &info);
    const struct window_span *segment = &info.segments[window_segment(info.segments, info.n_segments, ref.start)];
    int64_t last = segment->end - window, start = ref.start + augment_jitter(x->seed, epoch, i, hop);
    if (ref.start > last)
        return ref;
    ref.start = start < segment->first ? segment->first : start > last ? last : start;
    return ref;
}

struct window_ref sampler_at(struct sampler *x, int64_t epoch, int64_t i) {
    if (x->n > 1 && x->drawn_epoch != epoch)
        draw_epoch(x, epoch);
    const uint32_t k = x->n > 1 ? x->part[i] : 0;
    const int64_t shown = epoch * x->take[k] + (x->n > 1 ? x->rank[i] : i), windows = draws_epoch_windows(x->parts[k]);
    const struct window_ref ref = draws_at(x->parts[k], shown / windows, shown % windows);
    return x->jitter ? moved(x, ref, epoch, i) : ref;
}

const struct window_ref *sampler_background(const struct sampler *x, int64_t *ret_n) {
    *ret_n = x->n_background;
    return x->n > 1 ? x->background : draws_background(x->parts[0], ret_n);
}

int64_t sampler_hard_wanted(const struct sampler *x) {
    int64_t n = 0;
    for (int k = 0; k < x->n; k++)
        n += draws_hard_wanted(x->parts[k]);
    return n;
}

int sampler_set_hard(struct sampler *x, const struct window_ref *hard, int64_t n, struct err *err) {
    int rc = 0;
    for (int k = 0; k < x->n && !rc; k++)
        rc = draws_set_hard(x->parts[k], hard, n, err);
    return rc;
}
