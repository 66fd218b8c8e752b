#include "windows/sampler.h"

#include "windows/augment.h"
#include "windows/mixture.h"

/* Draws from all windows alike, or from the sources by their weights. */
struct sampler {
    const struct manifest *manifest;
    struct draws *draws;
    struct mixture *mixture; /* one of the two is NULL */
    uint64_t seed;
    bool jitter;
};

static int open_draws(struct sampler *s, const uint8_t *role, const struct balance_config *balance, struct err *err) {
    struct balance_counts found, used;
    int rc = draws_new(s->manifest, role, balance, s->seed, &s->draws, err);
    if (rc)
        return rc;
    draws_counts(s->draws, &found, &used);
    return found.partial || found.full ? 0 : draws_refuse(&found, used.none, err);
}

int sampler_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
                struct sampler **ret, struct err *err) {
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a sampler");
    s->manifest = m;
    s->seed = seed;
    int rc = mixture_wanted(m) ? mixture_new(m, role, balance, seed, &s->mixture, err) : open_draws(s, role, balance, err);
    if (rc)
        sampler_free(s);
    else
        *ret = s;
    return rc;
}

void sampler_free(struct sampler *s) {
    if (!s)
        return;
    draws_free(s->draws);
    mixture_free(s->mixture);
    free(s);
}

int sampler_limit(struct sampler *s, double times, struct err *err) {
    bool enough = times >= 1;
    int rc = s->mixture ? mixture_limit(s->mixture, s->manifest, times, &enough, err) : 0;
    if (rc || enough)
        return rc;
    return err_set(err, ERR_PRECONDITION,
                   "with data.balance.most_shown the windows do not last for the training: an epoch may show them %.3g times; "
                   "lower training.max_steps or training.epochs, or raise data.balance.most_shown",
                   times);
}

void sampler_set_jitter(struct sampler *s) { s->jitter = true; }

int64_t sampler_epoch_windows(const struct sampler *s) {
    return s->mixture ? mixture_epoch_windows(s->mixture) : draws_epoch_windows(s->draws);
}

void sampler_counts(const struct sampler *s, struct balance_counts *ret_found, struct balance_counts *ret_used) {
    if (s->mixture)
        mixture_counts(s->mixture, ret_found, ret_used);
    else
        draws_counts(s->draws, ret_found, ret_used);
}

void sampler_ratios(const struct sampler *s, double *ret_sample_prior, double *ret_window_ratio) {
    if (s->mixture)
        mixture_ratios(s->mixture, ret_sample_prior, ret_window_ratio);
    else
        draws_ratios(s->draws, ret_sample_prior, ret_window_ratio);
}

const struct window_ref *sampler_background(const struct sampler *s, int64_t *ret_n) {
    return s->mixture ? mixture_background(s->mixture, ret_n) : draws_background(s->draws, ret_n);
}

int64_t sampler_hard_wanted(const struct sampler *s) {
    return s->mixture ? mixture_hard_wanted(s->mixture) : draws_hard_wanted(s->draws);
}

int sampler_set_hard(struct sampler *s, const struct window_ref *hard, int64_t n, struct err *err) {
    return s->mixture ? mixture_set_hard(s->mixture, hard, n, err) : draws_set_hard(s->draws, hard, n, err);
}

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

struct window_ref sampler_at(struct sampler *s, int64_t epoch, int64_t i) {
    struct window_ref ref = s->mixture ? mixture_at(s->mixture, epoch, i) : draws_at(s->draws, epoch, i);
    return s->jitter ? moved(s, ref, epoch, i) : ref;
}
