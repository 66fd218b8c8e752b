#include "detect/finder.h"

#include <stdlib.h>

#include "kernels/op.h"

enum { MOST_PAIRS = 64, MASK_BYTES = 16 << 20 };

struct finder {
    struct stream *stream;
    struct events_config base; /* of the newest try */
    const float *p;
    int64_t n;
    int n_pairs;
    double thresholds[2 * MOST_PAIRS]; /* all on, then all off */
    void *device_p, *device_masks, *device_thresholds;
    uint8_t *masks; /* host memory that the device copies to at full speed */
    int64_t p_capacity, mask_capacity;
};

int finder_new(struct stream *s, struct finder **ret, struct err *err) {
    struct finder *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "out of memory finding events");
    f->stream = s;
    int rc = device_alloc(stream_device(s), sizeof f->thresholds, &f->device_thresholds, err);
    if (rc) {
        free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

static void drop(struct finder *f) {
    struct device *dev = stream_device(f->stream);
    device_free(dev, f->device_p);
    device_free(dev, f->device_masks);
    device_free_host(dev, f->masks);
    f->device_p = f->device_masks = NULL;
    f->masks = NULL;
    f->p_capacity = f->mask_capacity = 0;
}

void finder_free(struct finder *f) {
    if (!f)
        return;
    drop(f);
    device_free(stream_device(f->stream), f->device_thresholds);
    free(f);
}

static int most_pairs(int64_t n) {
    int64_t most = MASK_BYTES / n;
    return most > MOST_PAIRS ? MOST_PAIRS : most < 1 ? 1 : (int)most;
}

/* Nothing is queued when it is called. */
static int grow(struct finder *f, int64_t n, struct err *err) {
    struct device *dev = stream_device(f->stream);
    int64_t mask = n * most_pairs(n), p_capacity = f->p_capacity, mask_capacity = f->mask_capacity;
    if (n <= p_capacity && mask <= mask_capacity)
        return 0;
    p_capacity = n > p_capacity ? n : p_capacity;
    mask_capacity = mask > mask_capacity ? mask : mask_capacity;
    drop(f);
    void *masks = NULL;
    int rc;
    if ((rc = device_alloc(dev, (size_t)p_capacity * sizeof *f->p, &f->device_p, err)) ||
        (rc = device_alloc(dev, (size_t)mask_capacity, &f->device_masks, err)) ||
        (rc = device_alloc_host(dev, (size_t)mask_capacity, &masks, err))) {
        drop(f);
        return rc;
    }
    f->masks = masks;
    f->p_capacity = p_capacity;
    f->mask_capacity = mask_capacity;
    return 0;
}

int finder_load(struct finder *f, const float *p, int64_t n, struct err *err) {
    f->n = f->n_pairs = 0;
    if (n < 1)
        return err_set(err, ERR_INVALID, "a trace of %lld samples; expected at least 1", (long long)n);
    int rc;
    if ((rc = grow(f, n, err)) || (rc = stream_to_device(f->stream, f->device_p, p, (size_t)n * sizeof *p, err)) ||
        (rc = stream_sync(f->stream, err)))
        return rc;
    f->p = p;
    f->n = n;
    return 0;
}

int finder_most(const struct finder *f) { return f->n ? most_pairs(f->n) : 0; }

int finder_try(struct finder *f, const struct events_config *base, const struct finder_pair *pairs, int n, struct err *err) {
    f->n_pairs = 0;
    if (n < 1 || n > finder_most(f))
        return err_set(err, ERR_INVALID, "%d pairs of thresholds; expected 1 to %d for this trace", n, finder_most(f));
    f->base = *base;
    int rc;
    for (int i = 0; i < n; i++) {
        f->thresholds[i] = f->base.on = pairs[i].on;
        f->thresholds[n + i] = f->base.off = pairs[i].off;
        if ((rc = events_config_check(&f->base, err)))
            return rc;
    }
    const double *on = f->device_thresholds;
    struct hysteresis_args latch = {.p = tensor_2d(f->device_p, DTYPE_F32, 1, f->n),
                                    .mask = tensor_2d(f->device_masks, DTYPE_U8, n, f->n),
                                    .on = on,
                                    .off = on + n,
                                    .min_onset = base->min_onset,
                                    .min_offset = base->min_offset};
    struct morphology_args shape = {.mask = latch.mask, .opening = base->opening, .closing = base->closing};
    if ((rc = stream_to_device(f->stream, f->device_thresholds, f->thresholds, 2 * (size_t)n * sizeof *on, err)) ||
        (rc = op_hysteresis(f->stream, &latch, err)) || (rc = op_morphology(f->stream, &shape, err)) ||
        (rc = stream_to_host(f->stream, f->masks, f->device_masks, (size_t)(n * f->n), err)) || (rc = stream_sync(f->stream, err)))
        return rc;
    f->n_pairs = n;
    return 0;
}

int finder_events(const struct finder *f, int i, struct event **ret, int64_t *ret_count, struct err *err) {
    if (i < 0 || i >= f->n_pairs)
        return err_set(err, ERR_INVALID, "pair %d of %d that were tried", i, f->n_pairs);
    struct events_trace trace = {f->p, f->masks + i * f->n, f->n};
    struct events_config config = f->base;
    config.on = f->thresholds[i];
    config.off = f->thresholds[f->n_pairs + i];
    return events_of_mask(&config, &trace, ret, ret_count, err);
}
