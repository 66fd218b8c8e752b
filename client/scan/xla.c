/* The selective scan as a foreign function of XLA: a call frame of buffers and attributes becomes a call of brr_scan_selective. */

#include "client/scan/scan.h"
#include "client/scan/xla_ffi.h"

/* Members of a structure of arguments, in the order of a frame's buffers. */
struct members {
    int64_t n;
    const size_t *at;
};
#define AT(member)       offsetof(struct brr_scan_selective, member)
#define GRADIENT(member) offsetof(struct brr_scan_selective_backward, member)
#define MEMBERS(...)                                                                                                               \
    {                                                                                                                              \
        sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t), (const size_t[]) { __VA_ARGS__ }                                   \
    }
static const struct members inputs = MEMBERS(AT(u), AT(delta), AT(A), AT(B), AT(C), AT(D), AT(delta_bias), AT(z), AT(h0));
static const struct members outputs = MEMBERS(AT(out), AT(hT));
static const struct members gradients_in = MEMBERS(GRADIENT(dout), GRADIENT(dhT));
static const struct members gradients_out = MEMBERS(GRADIENT(du), GRADIENT(ddelta), GRADIENT(dA), GRADIENT(dB), GRADIENT(dC),
                                                    GRADIENT(dD), GRADIENT(ddelta_bias), GRADIENT(dz), GRADIENT(dh0));
#undef GRADIENT
#undef MEMBERS
enum {
    MOST_GPUS = 64,
    ALIGNMENT = 256,
    XLA_ALIGNMENT = 16
}; /* of working memory: what ours needs, and the most that XLA promises */

/* One call; `error` is what the handler returns. */
struct foreign {
    const struct xla_call *call;
    bool on_gpu;
    int64_t device;
    struct brr_scan_selective a;
    struct brr_scan_workspace workspace; /* of a GPU */
    struct xla_error *error;
};

static void refuse_frame(struct foreign *f, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void refuse_frame(struct foreign *f, int code, const char *fmt, ...) {
    char message[sizeof(struct brr_scan_error) + 64];
    if (f->error)
        return;
    STR_ARGUMENTS(message, fmt);
    struct xla_error_create create = {.size = sizeof create, .message = message, .code = -code};
    f->error = f->call->api->error_create(&create);
}

/* ---- scans of threads ------------------------------------------------------------------------------------------ */

/* XLA calls on threads of its own, each of which keeps its scans until it ends. */
struct scans {
    brr_scan *cpu, *gpu[MOST_GPUS];
};
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void close_scans(void *p) {
    struct scans *s = p;
    brr_scan_close(s->cpu);
    for (int i = 0; i < MOST_GPUS; i++) {
        if (s->gpu[i])
            brr_scan_wait(s->gpu[i], NULL);
        brr_scan_close(s->gpu[i]);
    }
    free(s);
}
static void make_key(void) { pthread_key_create(&key, close_scans); }

static brr_scan *scan_of_thread(struct foreign *f) {
    struct brr_scan_error err = {0};
    char name[32] = "cpu";
    pthread_once(&once, make_key);
    struct scans *s = pthread_getspecific(key);
    if (!s && (!(s = calloc(1, sizeof *s)) || pthread_setspecific(key, s))) {
        free(s);
        refuse_frame(f, BRR_SCAN_EXHAUSTED, "brr_xla: out of memory for a thread's scans");
        return NULL;
    }
    brr_scan **own = f->on_gpu ? &s->gpu[f->device] : &s->cpu;
    if (f->on_gpu)
        str_format(name, sizeof name, "cuda:%lld", (long long)f->device);
    if (!*own && brr_scan_open(name, 0, own, &err)) {
        refuse_frame(f, err.code, "brr_xla: %s", err.message);
        return NULL;
    }
    struct xla_stream_get get = {.size = sizeof get, .context = f->call->context};
    if (f->on_gpu && !(f->error = f->call->api->stream_get(&get)) && brr_scan_use_stream(*own, (uintptr_t)get.stream, &err))
        refuse_frame(f, err.code, "brr_xla: %s", err.message);
    return f->error ? NULL : *own;
}

/* ---- buffers and attributes ------------------------------------------------------------------------------------ */

/* A buffer without elements stands for an absent tensor. */
static void put_tensor(struct foreign *f, const char *what, int64_t i, const struct xla_buffer *b, struct brr_scan_tensor *ret) {
    int dtype = b->dtype == XLA_BF16 ? BRR_SCAN_BF16 : b->dtype == XLA_F32 ? BRR_SCAN_F32 : -1;
    if (dtype < 0 || b->rank < 1 || b->rank > 4) {
        refuse_frame(f, BRR_SCAN_INVALID,
                     "brr_xla: %s %lld has XLA's type %d and %lld dimensions; expected float32 or bfloat16 and 1 to 4", what,
                     (long long)i, b->dtype, (long long)b->rank);
        return;
    }
    *ret = (struct brr_scan_tensor){.data = b->data, .dtype = dtype, .rank = (int32_t)b->rank};
    for (int64_t d = 0; d < b->rank; d++) {
        ret->dim[d] = b->dim[d];
        if (!b->dim[d])
            *ret = (struct brr_scan_tensor){0};
        if (!ret->rank)
            return;
    }
}

/* Buffers of the list from `first` on as members of `to`. */
static void put_buffers(struct foreign *f, const struct xla_buffers *list, int64_t first, struct members members, void *to) {
    const char *what = list == &f->call->results ? "result" : "argument";
    for (int64_t i = 0; i < members.n; i++) {
        int64_t k = first + i;
        if (list->types[k] != XLA_TYPE_BUFFER)
            refuse_frame(f, BRR_SCAN_INVALID, "brr_xla: %s %lld is no buffer", what, (long long)k);
        else
            put_tensor(f, what, k, list->items[k], (struct brr_scan_tensor *)(void *)((char *)to + members.at[i]));
    }
}

static bool attribute_number(const struct xla_attributes *a, int64_t i, double *ret) {
    const struct xla_scalar *s = a->values[i];
    if (a->types[i] != XLA_TYPE_SCALAR)
        return false;
    switch (s->dtype) {
    case XLA_PRED:
        *ret = *(const uint8_t *)s->value;
        return true;
    case XLA_S32:
        *ret = *(const int32_t *)s->value;
        return true;
    case XLA_S64:
        *ret = (double)*(const int64_t *)s->value;
        return true;
    case XLA_F32:
        *ret = (double)*(const float *)s->value;
        return true;
    case XLA_F64:
        *ret = *(const double *)s->value;
        return true;
    default:
        return false;
    }
}

static void put_attributes(struct foreign *f) {
    const struct xla_attributes *a = &f->call->attributes;
    f->a.softplus = 1;
    for (int64_t i = 0; i < a->n; i++) {
        char name[32] = "";
        double value = 0;
        str_format(name, sizeof name, "%.*s", a->names[i]->len < 31 ? (int)a->names[i]->len : 31, a->names[i]->data);
        if (!attribute_number(a, i, &value))
            refuse_frame(f, BRR_SCAN_INVALID, "brr_xla: attribute %s is no bool, int or float", name);
        else if (!strcmp(name, "softplus"))
            f->a.softplus = value != 0;
        else if (!strcmp(name, "zoh"))
            f->a.zoh = value != 0;
        else if (!strcmp(name, "reverse"))
            f->a.reverse = value != 0;
        else if (!strcmp(name, "clamp_lo"))
            f->a.clamp_lo = (float)value;
        else if (!strcmp(name, "clamp_hi"))
            f->a.clamp_hi = (float)value;
        else if (!strcmp(name, "device") && f->on_gpu && value >= 0 && value < MOST_GPUS)
            f->device = (int64_t)value;
        else
            refuse_frame(f, BRR_SCAN_INVALID, "brr_xla: attribute %s; expected softplus, zoh, reverse, clamp_lo, clamp_hi%s", name,
                         f->on_gpu ? ", device (0 to 63)" : "");
    }
}

/* ---- the calls ------------------------------------------------------------------------------------------------- */

typedef int scan_fn(brr_scan *scan, const void *args, struct brr_scan_error *err);
static int forwards(brr_scan *scan, const void *args, struct brr_scan_error *err) { return brr_scan_selective(scan, args, err); }
static int backwards(brr_scan *scan, const void *args, struct brr_scan_error *err) {
    return brr_scan_selective_backward(scan, args, err);
}

/* On a GPU with working memory of XLA, which it gives to others in the order of its stream. */
static void run_foreign(struct foreign *f, brr_scan *scan, scan_fn *fn, const void *args) {
    struct brr_scan_error err = {0};
    const struct xla_api *api = f->call->api;
    if (!f->on_gpu) {
        if (fn(scan, args, &err))
            refuse_frame(f, err.code, "%s", err.message);
        return;
    }
    f->a.workspace = &f->workspace;
    int rc = fn(scan, args, &err);
    if (rc == BRR_SCAN_EXHAUSTED && f->workspace.needed) {
        struct xla_memory_allocate take = {
            .size = sizeof take, .context = f->call->context, .bytes = f->workspace.needed + ALIGNMENT, .alignment = XLA_ALIGNMENT};
        if ((f->error = api->memory_allocate(&take)))
            return;
        size_t skipped = (ALIGNMENT - (uintptr_t)take.data % ALIGNMENT) % ALIGNMENT;
        f->workspace.data = (char *)take.data + skipped;
        f->workspace.bytes = take.bytes - skipped;
        rc = fn(scan, args, &err);
        struct xla_memory_free give = {.size = sizeof give, .context = take.context, .bytes = take.bytes, .data = take.data};
        f->error = api->memory_free(&give);
    }
    if (rc)
        refuse_frame(f, err.code, "%s", err.message);
}

/* Gradients of parameters are added to what is there, and XLA's results hold anything. */
static void clear_results(struct foreign *f, brr_scan *scan, const struct brr_scan_selective_backward *g) {
    const struct brr_scan_tensor *const sums[] = {&g->dA, &g->dD, &g->ddelta_bias};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        size_t bytes = sums[i]->dtype == BRR_SCAN_BF16 ? 2 : sizeof(float); /* bfloat16 is refused later */
        for (int d = 0; d < sums[i]->rank; d++)
            bytes *= (size_t)sums[i]->dim[d];
        struct err err = {0};
        if (sums[i]->data && !f->on_gpu)
            memset(sums[i]->data, 0, bytes);
        else if (sums[i]->data && stream_zero(scan->stream, sums[i]->data, bytes, &err))
            refuse_frame(f, err.code, "brr_xla: %s", err.message);
    }
}

/* A registration asks for the version and traits: that of the caller, whose structures begin alike in all of 0.x. */
static bool answers_metadata(const struct xla_call *call) {
    if (!call->extension || call->extension->type != XLA_METADATA)
        return false;
    struct xla_metadata *m = ((struct xla_metadata_extension *)(void *)call->extension)->metadata;
    m->version.major = 0;
    m->version.minor = call->api && !call->api->version.major ? call->api->version.minor : 1;
    m->traits = 0;
    return true;
}

static struct xla_error *handle(const struct xla_call *call, bool on_gpu, bool backward) {
    struct foreign f = {.call = call, .on_gpu = on_gpu, .a = {.size = sizeof f.a}};
    struct brr_scan_selective_backward g = {.size = sizeof g, .forward = &f.a};
    const struct members results = backward ? gradients_out : outputs;
    int64_t n = inputs.n + (backward ? gradients_in.n : 0);
    if (answers_metadata(call) || call->stage != XLA_EXECUTE)
        return NULL;
    if (call->arguments.n != n || call->results.n != results.n) {
        refuse_frame(&f, BRR_SCAN_INVALID,
                     "brr_xla: %lld arguments and %lld results; expected %lld and %lld, those that are absent empty",
                     (long long)call->arguments.n, (long long)call->results.n, (long long)n, (long long)results.n);
        return f.error;
    }
    put_attributes(&f);
    put_buffers(&f, &call->arguments, 0, inputs, &f.a);
    if (backward)
        put_buffers(&f, &call->arguments, inputs.n, gradients_in, &g);
    put_buffers(&f, &call->results, 0, results, backward ? (void *)&g : &f.a);
    brr_scan *scan = f.error ? NULL : scan_of_thread(&f);
    if (scan && backward)
        clear_results(&f, scan, &g);
    if (!f.error)
        run_foreign(&f, scan, backward ? backwards : forwards, backward ? (const void *)&g : &f.a);
    return f.error;
}

void *brr_xla_selective_scan(void *call) { return handle(call, false, false); }
void *brr_xla_selective_scan_cuda(void *call) { return handle(call, true, false); }
void *brr_xla_selective_scan_backward(void *call) { return handle(call, false, true); }
void *brr_xla_selective_scan_backward_cuda(void *call) { return handle(call, true, true); }
