#include "client/scan/call.h"

#include "base/base.h"
#include "client/scan/scan.h"

enum { WORKSPACE_ALIGNMENT = 256 };

void scan_call_begin(struct scan_call *c, const char *op, brr_scan *scan, struct brr_scan_error *to) {
    *c = (struct scan_call){.op = op, .to = to};
    if (!scan)
        c->rc = err_set(&c->err, ERR_INVALID, "%s: no scan; open one with brr_scan_open", op);
    else
        c->stream = scan->stream;
}

void scan_call_arguments(struct scan_call *c, const void *args, void *known, size_t known_bytes) {
    size_t bytes = 0;
    memset(known, 0, known_bytes);
    if (c->rc)
        return;
    if (args)
        memcpy(&bytes, args, sizeof bytes);
    if (bytes < sizeof bytes || bytes > 1 << 16) {
        c->rc = err_set(&c->err, ERR_INVALID, "%s: size is %zu; expected sizeof the structure, %zu", c->op, bytes, known_bytes);
        return;
    }
    memcpy(known, args, bytes < known_bytes ? bytes : known_bytes);
    for (size_t i = known_bytes; i < bytes && !c->rc; i++)
        if (((const char *)args)[i])
            c->rc = err_set(&c->err, ERR_UNSUPPORTED, "%s: a member that this version of libbrr_scan does not know is set", c->op);
}

static void shape_text(const int64_t *dim, int rank, char *buf, size_t size) {
    size_t used = 0;
    *buf = '\0';
    for (int i = 0; i < rank && used < size; i++) {
        str_format(buf + used, size - used, "%s%lld", i ? "," : "", (long long)dim[i]);
        used = strlen(buf);
    }
}

/* Strides of a dense tensor where the caller gave none. A dimension of 1 takes the stride that fits: that of the one before it,
 * whose step it shares, or that of a dense tensor. */
static void settle_strides(struct brr_scan_tensor *t) {
    bool dense = true;
    for (int i = 0; i < t->rank; i++)
        dense = dense && !t->stride[i];
    for (int i = t->rank - 1; i >= 0; i--) {
        int64_t inner = i + 1 < t->rank ? t->dim[i + 1] * t->stride[i + 1] : 1;
        if (dense || (t->dim[i] == 1 && (i == t->rank - 1 || i == 0 || t->dim[i - 1] == 1)))
            t->stride[i] = inner;
        else if (t->dim[i] == 1)
            t->stride[i] = t->stride[i - 1];
    }
}

/* Joins the last two dimensions where they lie dense. */
static void join_last(struct brr_scan_tensor *t) {
    int last = t->rank - 1;
    if (t->stride[last] != 1 || (t->stride[last - 1] != t->dim[last] && t->dim[last - 1] != 1))
        return;
    t->dim[last - 1] *= t->dim[last];
    t->stride[last - 1] = 1;
    t->dim[last] = t->stride[last] = 0;
    t->rank--;
}

/* Rows of one distance, channels side by side. */
static bool fits(const struct brr_scan_tensor *t) {
    bool ok = t->stride[t->rank - 1] == 1;
    for (int i = 0; i + 2 < t->rank; i++)
        ok = ok && t->stride[i] == t->dim[i + 1] * t->stride[i + 1];
    return ok && (t->rank < 2 || t->stride[t->rank - 2] >= t->dim[t->rank - 1]);
}

static void refuse_layout(struct scan_call *c, const char *name, const struct brr_scan_tensor *t) {
    char dims[96], strides[96];
    shape_text(t->dim, t->rank, dims, sizeof dims);
    shape_text(t->stride, t->rank, strides, sizeof strides);
    c->rc = err_set(&c->err, ERR_INVALID,
                    "%s: %s (%s) has strides (%s); expected the last stride 1 and rows of one distance, channels last; copy it",
                    c->op, name, dims, strides);
}

struct tensor scan_call_tensor(struct scan_call *c, const char *name, const struct brr_scan_tensor *t, int rank) {
    struct tensor r = {0};
    if (c->rc || !t->data)
        return r;
    bool sane = t->rank >= 1 && t->rank <= 4 && t->dtype >= BRR_SCAN_F32 && t->dtype <= BRR_SCAN_U8;
    for (int i = 0; sane && i < t->rank; i++)
        sane = t->dim[i] > 0 && t->dim[i] <= INT64_MAX >> 20;
    if (!sane) {
        c->rc = err_set(&c->err, ERR_INVALID,
                        "%s: %s has rank %d and type %d; expected rank 1 to 4, dimensions above 0, F32, BF16 or U8", c->op, name,
                        (int)t->rank, (int)t->dtype);
        return r;
    }
    struct brr_scan_tensor own = *t;
    settle_strides(&own);
    if (own.rank == rank + 1)
        join_last(&own);
    if (own.rank > rank + 1 || !fits(&own)) {
        refuse_layout(c, name, t);
        return r;
    }
    r = (struct tensor){.data = own.data, .dtype = (enum dtype)own.dtype, .rank = own.rank};
    memcpy(r.dim, own.dim, sizeof r.dim);
    r.ld = own.rank > 1 ? own.stride[own.rank - 2] : own.dim[0];
    return r;
}

struct tensor scan_call_heads(struct scan_call *c, const char *name, const struct brr_scan_tensor *t) {
    struct brr_scan_tensor own = *t;
    if (c->rc || !t->data || t->rank != 4)
        return scan_call_tensor(c, name, t, 4); /* the op refuses another rank by its shape */
    settle_strides(&own);
    if (own.stride[2] != own.dim[3] || own.stride[1] != own.dim[2] * own.stride[2]) {
        refuse_layout(c, name, t);
        return (struct tensor){0};
    }
    struct brr_scan_tensor joined = {.data = t->data, .dtype = t->dtype, .rank = 3};
    memcpy(joined.dim, (int64_t[4]){own.dim[0], own.dim[1] * own.dim[2], own.dim[3]}, sizeof joined.dim);
    memcpy(joined.stride, (int64_t[4]){own.stride[0], own.stride[2], own.stride[3]}, sizeof joined.stride);
    return scan_call_tensor(c, name, &joined, 3);
}

int scan_call_enter(struct scan_call *c, struct brr_scan_workspace *workspace) {
    if (!c->rc && workspace && (uintptr_t)workspace->data % WORKSPACE_ALIGNMENT)
        c->rc = err_set(&c->err, ERR_INVALID, "%s: the workspace must be aligned to %d bytes", c->op, WORKSPACE_ALIGNMENT);
    if (c->rc)
        return c->rc;
    c->workspace = workspace;
    stream_lend(c->stream, workspace != NULL, workspace ? workspace->data : NULL, workspace ? workspace->bytes : 0);
    stream_borrow(c->stream, &c->loan);
    return 0;
}

int scan_call_leave(struct scan_call *c, int rc) {
    if (c->loan.stream) {
        stream_give_back(&c->loan);
        if (c->workspace)
            c->workspace->needed = stream_needed(c->stream);
        stream_lend(c->stream, false, NULL, 0);
    }
    if (c->rc)
        rc = c->rc;
    if (rc && c->to) {
        c->to->code = rc;
        err_text(&c->err, c->to->message, sizeof c->to->message);
    }
    return rc;
}
