#include "bridge.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static struct attribute *find_attribute(struct bridge *b, const char *key) {
    for (int i = 0; i < b->n_attributes; i++)
        if (!strcmp(b->attributes[i].key, key)) {
            b->attributes[i].used = true;
            return &b->attributes[i];
        }
    return NULL;
}

double bridge_number(struct bridge *b, const char *key, double fallback) {
    const struct attribute *a = find_attribute(b, key);
    double value = fallback;
    if (a && !str_to_f64(a->value, &value) && !b->rc)
        b->rc = err_set(b->err, ERR_INVALID, "attribute %s=%s is not a number", key, a->value);
    return value;
}

const char *bridge_text(struct bridge *b, const char *key, const char *fallback) {
    const struct attribute *a = find_attribute(b, key);
    return a ? a->value : fallback;
}

bool bridge_flag(struct bridge *b, const char *key, bool fallback) {
    double value = bridge_number(b, key, fallback);
    if (value != 0 && value != 1 && !b->rc)
        b->rc = err_set(b->err, ERR_INVALID, "attribute %s must be 0 or 1", key);
    return value != 0;
}

int bridge_attributes_done(struct bridge *b) {
    for (int i = 0; i < b->n_attributes && !b->rc; i++)
        if (!b->attributes[i].used)
            b->rc = err_set(b->err, ERR_INVALID, "attribute %s is unknown to this op", b->attributes[i].key);
    return b->rc;
}

bool bridge_has(const struct bridge *b, const char *name) { return safetensors_find(b->in, name) != NULL; }

/* Any stored number as double. */
static double element(const struct safetensors_entry *e, int64_t i) {
    const char *p = (const char *)e->data + (size_t)i * safetensors_dtype_bytes(e->dtype);
#define READ(kind, type)                                                                                                           \
    case SAFETENSORS_##kind: {                                                                                                     \
        type v;                                                                                                                    \
        memcpy(&v, p, sizeof v);                                                                                                   \
        return (double)v;                                                                                                          \
    }
    switch (e->dtype) {
        READ(F64, double)
        READ(F32, float)
        READ(I64, int64_t)
        READ(I32, int32_t)
        READ(I16, int16_t)
        READ(I8, int8_t)
        READ(U64, uint64_t)
        READ(U32, uint32_t)
        READ(U16, uint16_t)
        READ(U8, uint8_t)
        READ(BOOL, uint8_t)
    case SAFETENSORS_BF16: {
        uint16_t h;
        memcpy(&h, p, sizeof h);
        uint32_t bits = (uint32_t)h << 16;
        float v;
        memcpy(&v, &bits, sizeof v);
        return (double)v;
    }
    case SAFETENSORS_F16:
        break;
    }
#undef READ
    return 0;
}

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static enum dtype dtype_of(const struct bridge *b, enum bridge_kind kind) {
    return kind == BRIDGE_BYTES ? DTYPE_U8 : kind == BRIDGE_PARAMETER ? DTYPE_F32 : b->dtype;
}

struct tensor bridge_temporary(struct bridge *b, enum bridge_kind kind, int rank, const int64_t dim[TENSOR_MAX_RANK]) {
    struct tensor t = {.dtype = dtype_of(b, kind), .rank = rank};
    if (b->rc)
        return t;
    for (int i = 0; i < rank; i++)
        t.dim[i] = dim[i];
    t.ld = rank > 1 ? dim[rank - 1] : 0;
    if (b->n_memory == 4 * BRIDGE_MAX)
        b->rc = err_set(b->err, ERR_EXHAUSTED, "more than %d tensors in one run", 4 * BRIDGE_MAX);
    else
        b->rc = device_alloc(b->device, (size_t)tensor_count(&t) * dtype_bytes(t.dtype) + 1, &t.data, b->err);
    if (b->rc)
        t.data = NULL;
    else
        b->memory[b->n_memory++] = t.data;
    return t;
}

struct tensor bridge_in(struct bridge *b, const char *name, enum bridge_kind kind, bool optional) {
    const struct safetensors_entry *e = b->rc ? NULL : safetensors_find(b->in, name);
    struct tensor absent = {.dtype = dtype_of(b, kind)};
    if (!e) {
        if (!b->rc && !optional)
            b->rc = err_set(b->err, ERR_NOT_FOUND, "the input file has no tensor '%s'", name);
        return absent;
    }
    if (e->rank < 1 || e->rank > TENSOR_MAX_RANK || e->dtype == SAFETENSORS_F16) {
        b->rc = err_set(b->err, ERR_INVALID, "tensor '%s' is %s of rank %d; expected rank 1 to %d and not F16", name,
                        safetensors_dtype_name(e->dtype), e->rank, TENSOR_MAX_RANK);
        return absent;
    }
    struct tensor t = bridge_temporary(b, kind, e->rank, e->shape);
    if (b->rc)
        return absent;
    size_t count = (size_t)tensor_count(&t), each = dtype_bytes(t.dtype);
    char *host = malloc(count * each + 1);
    if (!host) {
        b->rc = err_set(b->err, ERR_EXHAUSTED, "no memory for tensor '%s'", name);
        return absent;
    }
    for (size_t i = 0; i < count; i++) {
        double v = element(e, (int64_t)i);
        float f = (float)v;
        uint16_t h = to_bf16(f);
        uint8_t u = v > 0 && v < 256 ? (uint8_t)v : 0;
        memcpy(host + i * each, t.dtype == DTYPE_U8 ? (void *)&u : t.dtype == DTYPE_BF16 ? (void *)&h : (void *)&f, each);
    }
    b->rc = stream_to_device(b->stream, t.data, host, count * each, b->err);
    if (!b->rc)
        b->rc = stream_sync(b->stream, b->err);
    free(host);
    return b->rc ? absent : t;
}

struct tensor bridge_reshape(struct bridge *b, struct tensor t, int rank, const int64_t dim[TENSOR_MAX_RANK]) {
    if (b->rc || !tensor_present(&t))
        return t;
    struct tensor r = t;
    r.rank = rank;
    for (int i = 0; i < rank; i++)
        r.dim[i] = dim[i];
    r.ld = rank > 1 ? dim[rank - 1] : 0;
    if (tensor_count(&r) != tensor_count(&t))
        b->rc = err_set(b->err, ERR_INVALID, "a tensor of %lld elements does not fit the shapes of the others (%lld expected)",
                        (long long)tensor_count(&t), (long long)tensor_count(&r));
    return r;
}

struct tensor bridge_out(struct bridge *b, const char *name, enum bridge_kind kind, int rank, const int64_t dim[TENSOR_MAX_RANK]) {
    struct tensor t = bridge_temporary(b, kind, rank, dim);
    if (b->rc)
        return t;
    if (b->n_outputs == BRIDGE_MAX) {
        b->rc = err_set(b->err, ERR_EXHAUSTED, "more than %d outputs", BRIDGE_MAX);
        return t;
    }
    struct bridge_output *o = &b->outputs[b->n_outputs++];
    *o = (struct bridge_output){.name = name, .tensor = t, .entry = {.name = name, .dtype = SAFETENSORS_F32, .rank = rank}};
    for (int i = 0; i < rank; i++)
        o->entry.shape[i] = dim[i];
    return t;
}

struct tensor bridge_like(struct bridge *b, const char *name, enum bridge_kind kind, const struct tensor *t) {
    if (!tensor_present(t))
        return (struct tensor){.dtype = dtype_of(b, kind)};
    return bridge_out(b, name, kind, t->rank, t->dim);
}

void bridge_shape_as(struct bridge *b, const char *name, int rank, const int64_t *dim) {
    for (int i = 0; i < b->n_outputs; i++) {
        if (strcmp(b->outputs[i].name, name))
            continue;
        b->outputs[i].entry.rank = rank;
        for (int q = 0; q < rank; q++)
            b->outputs[i].entry.shape[q] = dim[q];
    }
}

/* Device tensor → host floats. */
static float *fetch(struct bridge *b, const struct tensor *t) {
    size_t count = (size_t)tensor_count(t), each = dtype_bytes(t->dtype);
    char *raw = malloc(count * each + 1);
    float *host = malloc(count * sizeof *host + 1);
    if (!raw || !host)
        b->rc = err_set(b->err, ERR_EXHAUSTED, "no memory for an output");
    if (!b->rc)
        b->rc = stream_to_host(b->stream, raw, t->data, count * each, b->err);
    if (!b->rc)
        b->rc = stream_sync(b->stream, b->err);
    for (size_t i = 0; i < count && !b->rc; i++) {
        uint16_t h;
        uint32_t bits;
        if (t->dtype == DTYPE_BF16) {
            memcpy(&h, raw + i * each, sizeof h);
            bits = (uint32_t)h << 16;
            memcpy(&host[i], &bits, sizeof bits);
        } else if (t->dtype == DTYPE_F32) {
            memcpy(&host[i], raw + i * each, each);
        } else {
            host[i] = (float)*(uint8_t *)(raw + i);
        }
    }
    free(raw);
    if (b->rc) {
        free(host);
        return NULL;
    }
    return host;
}

void bridge_product(struct bridge *b, const char *name, const struct tensor *x, const struct tensor *y) {
    if (b->rc || !tensor_present(x) || !tensor_present(y))
        return;
    struct tensor out = bridge_out(b, name, BRIDGE_PARAMETER, x->rank, x->dim);
    float *left = b->rc ? NULL : fetch(b, x), *right = b->rc ? NULL : fetch(b, y);
    size_t count = (size_t)tensor_count(x);
    for (size_t i = 0; left && right && i < count; i++)
        left[i] *= right[i];
    if (left && right)
        b->rc = stream_to_device(b->stream, out.data, left, count * sizeof *left, b->err);
    if (!b->rc)
        b->rc = stream_sync(b->stream, b->err);
    free(left);
    free(right);
}

void bridge_scalar(struct bridge *b, const char *name, double value) {
    struct tensor t = bridge_out(b, name, BRIDGE_PARAMETER, 1, (int64_t[TENSOR_MAX_RANK]){1});
    float f = (float)value;
    if (!b->rc)
        b->rc = stream_to_device(b->stream, t.data, &f, sizeof f, b->err);
    if (!b->rc)
        b->rc = stream_sync(b->stream, b->err);
}

int32_t *bridge_integers(struct bridge *b, const char *name, int64_t count) {
    const struct safetensors_entry *e = b->rc ? NULL : safetensors_find(b->in, name);
    if (!e)
        return NULL;
    int64_t found = 1;
    for (int i = 0; i < e->rank; i++)
        found *= e->shape[i];
    int32_t *r = found == count ? malloc((size_t)count * sizeof *r + 1) : NULL;
    if (!r) {
        b->rc = err_set(b->err, ERR_INVALID, "tensor '%s' needs %lld elements, one per batch row", name, (long long)count);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        r[i] = (int32_t)element(e, i);
    return r;
}

int bridge_write(struct bridge *b, const char *path) {
    struct safetensors_entry entries[BRIDGE_MAX];
    for (int i = 0; i < b->n_outputs && !b->rc; i++) {
        struct bridge_output *o = &b->outputs[i];
        o->host = fetch(b, &o->tensor);
        o->entry.data = o->host;
        o->entry.bytes = (size_t)tensor_count(&o->tensor) * sizeof(float);
        entries[i] = o->entry;
    }
    if (b->rc)
        return b->rc;
    struct safetensors_content content = {.entries = entries, .n_entries = (size_t)b->n_outputs};
    char sha256[DIGEST_HEX_SIZE];
    return b->rc = safetensors_write(path, &content, sha256, b->err);
}

void bridge_done(struct bridge *b) {
    for (int i = 0; i < b->n_outputs; i++)
        free(b->outputs[i].host);
    for (int i = 0; i < b->n_memory; i++)
        device_free(b->device, b->memory[i]);
    stream_close(b->stream);
    device_close(b->device);
}
