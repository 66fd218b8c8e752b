#include "windows/augment.h"

#include "base/rng.h"
#include "eeg/montage.h"

/* Each window has 2¹² counters, the last half of which belongs to its jitter. */
static struct rng window_rng(uint64_t seed, int64_t epoch, int64_t index, bool jitter) {
    struct rng rng;
    rng_init(&rng, seed, RNG_AUGMENT, (uint32_t)epoch);
    rng.index = ((uint64_t)index << 12) + (jitter ? 1 << 11 : 0);
    return rng;
}

/* The electrode opposite: odd numbers are on the left, the next even one on the right. Returns what follows the electrode in text.
 */
static const char *opposite(const char *text, struct str *out) {
    char *end = NULL;
    for (; *text && *text != '-' && (*text < '0' || *text > '9'); text++)
        str_printf(out, "%c", *text);
    long number = strtol(text, &end, 10);
    if (end != text && *text != '-')
        str_printf(out, "%ld", number % 2 ? number + 1 : number - 1);
    return *text == '-' ? text : end;
}

/* The channel opposite names[i], or −1. */
static int find_opposite(const char *const *names, int n, int i) {
    struct str text = str_of(2 * MONTAGE_LABEL_SIZE);
    const char *rest = opposite(names[i], &text);
    if (*rest == '-') {
        str_puts(&text, "-");
        opposite(rest + 1, &text);
    }
    int found = str_ok(&text) ? str_index(str_cstr(&text), names, (size_t)n) : -1;
    str_done(&text);
    return found;
}

int augment_init(struct augment *a, const struct augment_config *config, const struct frontend_config *frontend, int64_t window,
                 uint64_t seed, struct err *err) {
    const char *const *names = NULL;
    int n = 0, rc = montage_channels(frontend->montage, &names, &n, err);
    if (rc)
        return rc;
    *a = (struct augment){.config = *config,
                          .seed = seed,
                          .window = window,
                          .channels = n,
                          .inputs = frontend_inputs(frontend->normalize, n),
                          .of_channels = frontend_rows(frontend->normalize) * n,
                          .mirrors = true};
    if (config->enabled && config->most_missing >= n)
        rc = err_set(err, ERR_INVALID, "data.augment.most_missing is %lld; expected fewer than the %d channels of the montage",
                     (long long)config->most_missing, n);
    for (int c = 0; c < n; c++) {
        a->partner[c] = find_opposite(names, n, c);
        a->mirrors &= a->partner[c] >= 0;
    }
    for (int c = 0; c < a->inputs; c++) /* the envelopes as their channels; the feature of all channels has no partner */
        a->partner[c] = a->mirrors && c < a->of_channels ? a->partner[c % n] + c / n * n : c;
    montage_channels_free(names);
    return rc;
}

/* In half of the windows 1 to most_missing channels are taken away, all sets of a size alike. */
static void take_away(const struct augment *a, struct rng *rng, float *factor) {
    int left = a->channels;
    if (rng_uniform(rng) >= 0.5)
        return;
    for (int wanted = 1 + (int)rng_below(rng, (uint64_t)a->config.most_missing), c = 0; wanted > 0; c++, left--)
        if ((int)rng_below(rng, (uint64_t)left) < wanted) {
            for (int i = c; i < a->of_channels; i += a->channels)
                factor[i] = 0;
            wanted--;
        }
}

void augment_draw(const struct augment *a, int64_t epoch, int64_t index, struct augment_draw *ret) {
    const struct augment_config *c = &a->config;
    struct rng rng = window_rng(a->seed, epoch, index, false);
    bool mirrored = rng_uniform(&rng) < c->mirror, padded = rng_uniform(&rng) < c->left_pad;
    double pad = rng_uniform(&rng), gain = exp((2 * rng_uniform(&rng) - 1) * log(c->gain));
    ret->mirrored = mirrored && a->mirrors;
    ret->pad = padded ? (int32_t)(pad * AUGMENT_PAD_SHARE * (double)a->window) : 0;
    for (int i = 0; i < a->channels; i++) {
        float kept = rng_uniform(&rng) >= c->drop_channels;
        ret->factor[i] = kept * (float)gain;
        for (int k = a->channels + i; k < a->of_channels; k += a->channels) /* an envelope is a ratio: it has no gain */
            ret->factor[k] = kept;
    }
    if (a->inputs > a->of_channels) /* the feature is one of all channels */
        ret->factor[a->of_channels] = 1;
    if (a->config.most_missing)
        take_away(a, &rng, ret->factor);
}

int64_t augment_jitter(uint64_t seed, int64_t epoch, int64_t index, int64_t hop) {
    struct rng rng = window_rng(seed, epoch, index, true);
    return (int64_t)rng_below(&rng, (uint64_t)(hop / 2 * 2 + 1)) - hop / 2;
}
