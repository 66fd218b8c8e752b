#include "windows/draws.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/rng.h"

/* A training entry, to be sorted by patient. */
struct owner {
    const char *patient;
    int64_t partial;
};

ORDER_BY(by_patient, struct owner, strcmp(x->patient, y->patient))

int64_t balance_partial(const struct manifest *m, const uint8_t *role, const struct balance_config *config) {
    OWNED_MEMORY struct owner *owners = malloc(sizeof *owners * (size_t)(manifest_count(m) + 1));
    int64_t n = 0, total = 0;
    if (!owners)
        return -1;
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        if (role[i] == 1 && e->recording)
            owners[n++] = (struct owner){e->patient, e->windows[WINDOW_PARTIAL]};
    }
    SORT(owners, n, by_patient);
    for (int64_t i = 0, of_patient = 0; i < n; i++) {
        of_patient += owners[i].partial;
        if (i + 1 < n && !strcmp(owners[i].patient, owners[i + 1].patient))
            continue;
        total += config->per_patient && of_patient > config->per_patient ? config->per_patient : of_patient;
        of_patient = 0;
    }
    return total;
}

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

struct draws {
    const struct manifest *manifest;
    struct pool pools[3]; /* by enum window_class */
    struct balance_counts found, used;
    struct balance_config balance;
    uint64_t seed;
    int64_t drawn_epoch;   /* −1 before the first */
    uint32_t *order;       /* (epoch windows) positions in the pools laid end to end: partial, full, none */
    uint32_t *full, *none; /* scratch for the draws */
    int64_t total;
    /* with balance.per_patient: positions of the partial windows, those of a patient together, and where each patient's end */
    uint32_t *grouped, *partial; /* partial: scratch */
    int64_t *group_end, n_groups;
    uint32_t *hard; /* positions of hard background windows, ascending */
    int64_t n_hard;
};

static bool pool_add(struct pool *p, struct window_ref ref, struct window_count count) {
    if (!GROW(p->items, p->count, p->capacity))
        return false;
    p->items[p->count++] = ref;
    p->valid += count.valid;
    p->seizure += count.seizure;
    return true;
}

static int collect(struct draws *s, const struct manifest *m, int64_t entry, struct err *err) {
    struct recording_info info;
    int64_t window, hop;
    manifest_grid(m, &window, &hop);
    recording_info(manifest_entry(m, entry)->recording, &info);
    int64_t n = window_grid(info.segments, info.n_segments, window, hop, NULL);
    OWNED_MEMORY int64_t *starts = malloc(sizeof *starts * (size_t)(n + 1));
    bool fits = starts != NULL;
    if (fits)
        window_grid(info.segments, info.n_segments, window, hop, starts);
    for (int64_t i = 0; i < n && fits; i++) {
        struct window_count count = manifest_count_window(&info, starts[i], window);
        if (2 * count.valid >= window)
            fits = pool_add(&s->pools[count.class], (struct window_ref){entry, starts[i]}, count);
    }
    return fits ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the windows of the training set");
}

static const char *patient_of(const struct draws *s, uint32_t partial) {
    return manifest_entry(s->manifest, s->pools[WINDOW_PARTIAL].items[partial].entry)->patient;
}

static int by_patient_then_place(const void *a, const void *b, void *draws) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return order_then(strcmp(patient_of(draws, x), patient_of(draws, y)), order_u64(x, y));
}

/* The partial windows of each patient, for draws under balance.per_patient. */
static int group_patients(struct draws *s, struct err *err) {
    int64_t n = s->found.partial;
    if (!s->balance.per_patient)
        return 0;
    s->grouped = malloc(sizeof *s->grouped * (size_t)(n + 1));
    s->partial = malloc(sizeof *s->partial * (size_t)(n + 1));
    s->group_end = malloc(sizeof *s->group_end * (size_t)(n + 1));
    if (!s->grouped || !s->partial || !s->group_end)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the patients of %lld windows", (long long)n);
    for (int64_t i = 0; i < n; i++)
        s->grouped[i] = (uint32_t)i;
    qsort_r(s->grouped, (size_t)n, sizeof *s->grouped, by_patient_then_place, s);
    for (int64_t i = 0; i < n; i++)
        if (i + 1 == n || strcmp(patient_of(s, s->grouped[i]), patient_of(s, s->grouped[i + 1])))
            s->group_end[s->n_groups++] = i + 1;
    return 0;
}

/* Partial windows of an epoch. */
static int64_t count_shown(const struct draws *s) {
    int64_t shown = 0;
    if (!s->balance.per_patient)
        return s->found.partial;
    for (int64_t g = 0, from = 0; g < s->n_groups; from = s->group_end[g++]) {
        int64_t n = s->group_end[g] - from;
        shown += n < s->balance.per_patient ? n : s->balance.per_patient;
    }
    return shown;
}

int draws_refuse(const struct balance_counts *found, int64_t total, struct err *err) {
    return err_set(err, ERR_PRECONDITION,
                   "the training set has %lld partial, %lld full and %lld windows without seizure, of which the balance leaves "
                   "%lld; expected at least one seizure window",
                   (long long)found->partial, (long long)found->full, (long long)found->none, (long long)total);
}

int draws_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
              struct draws **ret, struct err *err) {
    struct draws *s = calloc(1, sizeof *s);
    int rc = s ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a sampler");
    for (int64_t i = 0; i < manifest_count(m) && !rc; i++)
        if (role[i] == 1 && manifest_entry(m, i)->recording)
            rc = collect(s, m, i, err);
    if (rc)
        goto fail;
    s->manifest = m;
    s->seed = seed;
    s->drawn_epoch = -1;
    s->balance = *balance;
    s->found = (struct balance_counts){s->pools[WINDOW_PARTIAL].count, s->pools[WINDOW_FULL].count, s->pools[WINDOW_NONE].count};
    if ((rc = group_patients(s, err)))
        goto fail;
    struct balance_counts shown = s->found;
    shown.partial = count_shown(s);
    balance_plan(&shown, balance, &s->used);
    if (!s->found.partial && !s->found.full)
        s->used.none = s->found.none;
    s->total = s->used.partial + s->used.full + s->used.none;
    if (s->total < 1 || s->found.partial + s->found.full + s->found.none > UINT32_MAX) {
        rc = draws_refuse(&s->found, s->total, err);
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
    draws_free(s);
    return rc;
}

void draws_free(struct draws *s) {
    if (!s)
        return;
    for (int c = 0; c < 3; c++)
        free(s->pools[c].items);
    FREE_MEMBERS(*s, order, full, none, grouped, partial, group_end, hard);
    free(s);
}

int64_t draws_epoch_windows(const struct draws *s) { return s->total; }

void draws_counts(const struct draws *s, struct balance_counts *ret_found, struct balance_counts *ret_used) {
    if (ret_found)
        *ret_found = s->found;
    if (ret_used)
        *ret_used = s->used;
}

void draws_ratios(const struct draws *s, double *ret_sample_prior, double *ret_window_ratio) {
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

/* The first `take` of the `count` items in random order, drawn without replacement into to; the items are lost. */
static void draw_of(struct rng *rng, uint32_t *scratch, int64_t count, int64_t take, uint32_t *to) {
    for (int64_t i = 0; i < take; i++) {
        int64_t j = i + (int64_t)rng_below(rng, (uint64_t)(count - i));
        to[i] = scratch[j];
        scratch[j] = scratch[i];
    }
}

/* The same of the numbers base … base+count−1. */
static void draw(struct rng *rng, uint32_t *scratch, int64_t base, int64_t count, int64_t take, uint32_t *to) {
    for (int64_t i = 0; i < count; i++)
        scratch[i] = (uint32_t)(base + i);
    draw_of(rng, scratch, count, take, to);
}

/* All partial windows, or for each patient as many as it may show. */
static void draw_partial(struct draws *s, struct rng *rng, uint32_t *to) {
    if (!s->balance.per_patient) {
        for (int64_t i = 0; i < s->used.partial; i++)
            to[i] = (uint32_t)i;
        return;
    }
    memcpy(s->partial, s->grouped, sizeof *s->partial * (size_t)s->found.partial);
    for (int64_t g = 0, from = 0; g < s->n_groups; from = s->group_end[g++]) {
        int64_t n = s->group_end[g] - from, take = n < s->balance.per_patient ? n : s->balance.per_patient;
        draw_of(rng, s->partial + from, n, take, to);
        to += take;
    }
}

/* Background windows an epoch draws from the hard ones. */
static int64_t hard_share(const struct draws *s) {
    int64_t share = (int64_t)floor(s->balance.hard * (double)s->used.none + 1e-9);
    return share < s->n_hard ? share : s->n_hard;
}

/* Hard ones first, then of the others. */
static void draw_none(struct draws *s, struct rng *rng, uint32_t *to) {
    int64_t base = s->found.partial + s->found.full, n = s->found.none, hard = hard_share(s), others = 0;
    if (!hard || n - s->n_hard < s->used.none - hard) { /* none are known, or nearly all are hard */
        draw(rng, s->none, base, n, s->used.none, to);
        return;
    }
    for (int64_t i = 0; i < s->n_hard; i++)
        s->none[i] = (uint32_t)base + s->hard[i];
    draw_of(rng, s->none, s->n_hard, hard, to);
    for (int64_t i = 0, next = 0; i < n; i++) {
        if (next < s->n_hard && s->hard[next] == (uint32_t)i)
            next++;
        else
            s->none[others++] = (uint32_t)(base + i);
    }
    draw_of(rng, s->none, others, s->used.none - hard, to + hard);
}

static void draw_epoch(struct draws *s, int64_t epoch) {
    struct rng rng;
    rng_init(&rng, s->seed, RNG_SAMPLER, s->balance.redraw_each_epoch ? (uint32_t)epoch : 0);
    draw_partial(s, &rng, s->order);
    draw(&rng, s->full, s->found.partial, s->found.full, s->used.full, s->order + s->used.partial);
    draw_none(s, &rng, s->order + s->used.partial + s->used.full);
    /* The shuffle reads the epoch's counter from its middle on, apart from the draws. */
    rng_init(&rng, s->seed, RNG_SAMPLER, (uint32_t)epoch);
    rng.index = UINT64_C(1) << 62;
    rng_shuffle_u32(&rng, s->order, (size_t)s->total);
    s->drawn_epoch = epoch;
}

const struct window_ref *draws_background(const struct draws *s, int64_t *ret_n) {
    *ret_n = s->found.none;
    return s->pools[WINDOW_NONE].items;
}

int64_t draws_hard_wanted(const struct draws *s) { return 2 * (int64_t)floor(s->balance.hard * (double)s->used.none + 1e-9); }

int window_ref_order(const void *a, const void *b) {
    const struct window_ref *x = a, *y = b;
    return order_then(order_i64(x->entry, y->entry), order_i64(x->start, y->start));
}

int draws_set_hard(struct draws *s, const struct window_ref *hard, int64_t n, struct err *err) {
    const struct pool *pool = &s->pools[WINDOW_NONE];
    uint32_t *found = malloc(sizeof *found * (size_t)(n + 1));
    int64_t count = 0, different = 0;
    if (!found)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld hard windows", (long long)n);
    for (int64_t i = 0; i < n && pool->count; i++) {
        const struct window_ref *at = bsearch(&hard[i], pool->items, (size_t)pool->count, sizeof *at, window_ref_order);
        if (at)
            found[count++] = (uint32_t)(at - pool->items);
    }
    SORT(found, count, order_u32s);
    for (int64_t i = 0; i < count; i++)
        if (!i || found[i] != found[i - 1])
            found[different++] = found[i];
    free(s->hard);
    s->hard = found;
    s->n_hard = different;
    s->drawn_epoch = -1;
    return 0;
}

struct window_ref draws_at(struct draws *s, int64_t epoch, int64_t i) {
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
