#include "nn/param.h"

#include "base/grow.h"
#include "kernels/op.h"

void param_set_init(struct param_set *set) { *set = (struct param_set){.version = 1}; }

void param_set_done(struct param_set *set) {
    if (set->device) {
        device_free(set->device, set->data);
        device_free(set->device, set->grad);
        device_free(set->device, set->buffers);
        device_free(set->device, set->decay);
    }
    free(set->items);
    param_set_init(set);
}

int param_add(struct param_set *set, const struct param_spec *spec, struct err *err, const char *fmt, ...) {
    if (!GROW(set->items, set->count, set->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the parameter table");
    struct param *p = &set->items[set->count];
    *p = (struct param){.kind = spec->kind, .rank = spec->rank, .count = 1, .index = set->count};
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(p->name, sizeof p->name, fmt, ap);
    va_end(ap);
    if (len < 0 || len >= PARAM_NAME_MAX)
        return err_set(err, ERR_RANGE, "parameter name too long: %s…", p->name);
    for (int i = 0; i < spec->rank; i++) {
        p->dim[i] = spec->dim[i];
        p->count *= spec->dim[i];
    }
    int64_t *total = spec->kind == PARAM_BUFFER ? &set->buffer_count : &set->data_count;
    p->offset = *total;
    *total += (p->count + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
    set->count++;
    return 0;
}

int64_t param_set_bytes(const struct param_set *set, bool training) {
    return set->data_count * (training ? 9 : 4) + set->buffer_count * 4;
}

int param_set_alloc(struct param_set *set, struct device *dev, bool training, struct err *err) {
    void *data = NULL, *grad = NULL, *buffers = NULL, *decay = NULL;
    size_t bytes = (size_t)set->data_count * sizeof(float);
    int rc = device_alloc(dev, bytes, &data, err);
    if (!rc && training)
        rc = device_alloc(dev, bytes, &grad, err);
    if (!rc && training)
        rc = device_alloc(dev, (size_t)set->data_count, &decay, err);
    if (!rc && set->buffer_count)
        rc = device_alloc(dev, (size_t)set->buffer_count * sizeof(float), &buffers, err);
    set->device = dev;
    set->data = data;
    set->grad = grad;
    set->buffers = buffers;
    set->decay = decay;
    int64_t live, allocations;
    device_alloc_stats(dev, &live, &allocations);
    set->version = (uint64_t)allocations << 32; /* never that of another set that once lay at the same address */
    if (!training)
        set->version |= WEIGHTS_CONSTANT;
    if (rc || !training)
        return rc;
    uint8_t *host = calloc(1, (size_t)set->data_count);
    struct stream *s = NULL;
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the weight decay mask");
    for (int i = 0; i < set->count; i++)
        if (set->items[i].kind == PARAM_WEIGHT)
            memset(host + set->items[i].offset, 1, (size_t)set->items[i].count);
    if (!(rc = stream_open(dev, STREAM_NORMAL, &s, err)) && !(rc = stream_to_device(s, decay, host, (size_t)set->data_count, err)))
        rc = stream_sync(s, err);
    stream_close(s);
    free(host);
    return rc;
}

struct param *param_find(const struct param_set *set, const char *name) {
    for (int i = 0; i < set->count; i++)
        if (!strcmp(set->items[i].name, name))
            return &set->items[i];
    return NULL;
}

int64_t param_live_count(const struct param_set *set) {
    int64_t n = 0;
    for (int i = 0; i < set->count; i++)
        if (set->items[i].kind != PARAM_BUFFER)
            n += set->items[i].count;
    return n;
}

static struct tensor view(float *base, const struct param *p) {
    struct tensor t = {.data = base + p->offset, .dtype = DTYPE_F32, .rank = p->rank, .ld = p->dim[p->rank - 1]};
    memcpy(t.dim, p->dim, sizeof p->dim);
    return t;
}

struct tensor param_value(const struct param_set *set, const struct param *p) {
    return view(p->kind == PARAM_BUFFER ? set->buffers : set->data, p);
}

struct tensor param_grad(const struct param_set *set, const struct param *p) {
    return view(set->grad, p);
}
