#include "windows/mixture.h"

#include "base/rng.h"

struct mixture {
    struct draws *parts[MANIFEST_MAX_SOURCES];
    int64_t take[MANIFEST_MAX_SOURCES]; /* windows of each in an epoch */
    int n;
    int64_t total;
    uint64_t seed;
    int64_t drawn_epoch; /* −1 before the first */
    uint32_t *part;      /* (total) the source at each place of the drawn epoch */
    uint32_t *rank;      /* (total) how many of this source came before it in the epoch */
    struct window_ref *background;
    int64_t n_background;
};

bool mixture_wanted(const struct manifest *m) {
    const struct manifest_source *sources;
    return manifest_sources(m, &sources) > 1 && sources[0].weight > 0;
}

static int open_part(struct mixture *x, const struct manifest *m, const uint8_t *role, const struct balance_config *balance,
                     struct err *err) {
    const struct manifest_source *sources;
    int64_t n = manifest_count(m);
    OWNED_MEMORY uint8_t *own = calloc((size_t)n + 1, 1);
    if (!own)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the windows of %lld recordings", (long long)n);
    manifest_sources(m, &sources);
    for (int64_t i = 0; i < n; i++)
        own[i] = manifest_entry(m, i)->source == x->n ? role[i] : 0;
    if (draws_new(m, own, balance, x->seed, &x->parts[x->n], err))
        return err_wrap(err, "data.source %s, which has a weight", sources[x->n].name);
    x->n++;
    return 0;
}

/* The windows of each source in an epoch, at least one, in proportion to the weights, where no source goes through its windows more
 * than `times` times: what it may not give, the others do. False when all together may not give an epoch. */
static bool divide(struct mixture *x, const struct manifest_source *sources, double times) {
    bool full[MANIFEST_MAX_SOURCES] = {0}, again = true;
    double epoch = 0, rest, weights;
    for (int k = 0; k < x->n; k++)
        epoch += (double)draws_epoch_windows(x->parts[k]);
    while (again) {
        rest = epoch;
        weights = 0;
        for (int k = 0; k < x->n; k++) {
            rest -= full[k] ? times * (double)draws_epoch_windows(x->parts[k]) : 0;
            weights += full[k] ? 0 : sources[k].weight;
        }
        if (!(weights > 0))
            return false;
        again = false;
        for (int k = 0; k < x->n; k++)
            if (!full[k] && rest * sources[k].weight / weights > times * (double)draws_epoch_windows(x->parts[k]))
                full[k] = again = true;
    }
    x->total = 0;
    for (int k = 0; k < x->n; k++) {
        x->take[k] =
            full[k] ? (int64_t)(times * (double)draws_epoch_windows(x->parts[k])) : llround(rest * sources[k].weight / weights);
        x->take[k] = x->take[k] < 1 ? 1 : x->take[k];
        x->total += x->take[k];
    }
    return true;
}

/* Room for an epoch, which is to be drawn. */
static int reserve(struct mixture *x, struct err *err) {
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

int mixture_limit(struct mixture *x, const struct manifest *m, double times, bool *ret_enough, struct err *err) {
    const struct manifest_source *sources;
    manifest_sources(m, &sources);
    *ret_enough = divide(x, sources, times);
    return *ret_enough ? reserve(x, err) : 0;
}

static int join_background(struct mixture *x, struct err *err) {
    int64_t n = 0, own;
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

static int open_parts(struct mixture *x, const struct manifest *m, const uint8_t *role, const struct balance_config *balance,
                      struct err *err) {
    const struct manifest_source *sources;
    int n = manifest_sources(m, &sources), rc;
    while (x->n < n)
        if ((rc = open_part(x, m, role, balance, err)))
            return rc;
    struct balance_counts found, used;
    mixture_counts(x, &found, &used);
    if (!found.partial && !found.full)
        return draws_refuse(&found, used.none, err);
    divide(x, sources, INFINITY);
    return (rc = reserve(x, err)) ? rc : join_background(x, err);
}

int mixture_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
                struct mixture **ret, struct err *err) {
    struct mixture *x = calloc(1, sizeof *x);
    if (!x)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a sampler");
    x->seed = seed;
    int rc = open_parts(x, m, role, balance, err);
    if (rc)
        mixture_free(x);
    else
        *ret = x;
    return rc;
}

void mixture_free(struct mixture *x) {
    if (!x)
        return;
    for (int k = 0; k < x->n; k++)
        draws_free(x->parts[k]);
    FREE_MEMBERS(*x, part, rank, background);
    free(x);
}

int64_t mixture_epoch_windows(const struct mixture *x) { return x->total; }

static void add_counts(struct balance_counts *to, const struct balance_counts *c) {
    to->partial += c->partial;
    to->full += c->full;
    to->none += c->none;
}

void mixture_counts(const struct mixture *x, struct balance_counts *ret_found, struct balance_counts *ret_used) {
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

void mixture_ratios(const struct mixture *x, double *ret_sample_prior, double *ret_window_ratio) {
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

static void draw_epoch(struct mixture *x, int64_t epoch) {
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

struct window_ref mixture_at(struct mixture *x, int64_t epoch, int64_t i) {
    if (x->drawn_epoch != epoch)
        draw_epoch(x, epoch);
    uint32_t k = x->part[i];
    int64_t shown = epoch * x->take[k] + x->rank[i], windows = draws_epoch_windows(x->parts[k]);
    return draws_at(x->parts[k], shown / windows, shown % windows);
}

const struct window_ref *mixture_background(const struct mixture *x, int64_t *ret_n) {
    *ret_n = x->n_background;
    return x->background;
}

int64_t mixture_hard_wanted(const struct mixture *x) {
    int64_t n = 0;
    for (int k = 0; k < x->n; k++)
        n += draws_hard_wanted(x->parts[k]);
    return n;
}

int mixture_set_hard(struct mixture *x, const struct window_ref *hard, int64_t n, struct err *err) {
    int rc = 0;
    for (int k = 0; k < x->n && !rc; k++)
        rc = draws_set_hard(x->parts[k], hard, n, err);
    return rc;
}
