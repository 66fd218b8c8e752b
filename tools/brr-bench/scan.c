/* The selective scans and the causal convolution: the batch of short sequences (32,60,512,16) and one EEG window of 960 tokens.
 * "scalar loop" is the same function as plain C with one expf per state and step, one thread. "host to host": what goes in is
 * copied from pinned host memory and what comes out back to it, one call at a time. */

#include "base/needed.h"
#include "bench.h"

enum kind { SCAN1, SSD, CONV };
struct shape {
    enum kind kind;
    bool backward, scalar_loop, seed, from_host;
    int64_t l, d, n, heads;
};

enum { MOST_TRAVELS = 12 };

struct scan_state {
    struct shape shape;
    struct bench_memory memory;
    enum dtype dtype;
    union {
        struct scan1_backward_args scan1;
        struct ssd_backward_args ssd;
        struct conv1d_depthwise_backward_args conv;
    };
    struct tensor conv_y;
    struct device *device;
    void *host[MOST_TRAVELS]; /* of from_host: pinned, one for each of travels() */
};

/* Tensors that a call reads, then those that it writes; returns how many, *ret_in how many of them it reads. */
static int travels(const struct scan1_backward_args *a, bool backward, struct tensor *ret, int *ret_in) {
    const struct scan1_args *f = &a->fwd;
    const struct tensor in[] = {f->u, f->delta, f->A, f->Bm, f->Cm, a->dout};
    const struct tensor forward_out[] = {f->out}, backward_out[] = {a->du, a->ddelta, a->dA, a->dBm, a->dCm};
    int n = *ret_in = backward ? 6 : 5, out = backward ? 5 : 1;
    memcpy(ret, in, (size_t)n * sizeof *ret);
    memcpy(ret + n, backward ? backward_out : forward_out, (size_t)out * sizeof *ret);
    return n + out;
}

static int take_host(struct scan_state *s, struct err *err) {
    struct tensor all[MOST_TRAVELS];
    int in = 0, n = travels(&s->scan1, s->shape.backward, all, &in), rc = 0;
    for (int i = 0; !rc && i < n; i++)
        rc = device_alloc_host(s->device, tensor_span_bytes(&all[i]), &s->host[i], err);
    for (int i = 0; !rc && i < in; i++)
        rc = stream_to_host(s->memory.stream, s->host[i], all[i].data, tensor_span_bytes(&all[i]), err);
    return rc ? rc : stream_sync(s->memory.stream, err);
}

#define ACT(b, l, c, low, high) bench_fill(&s->memory, s->dtype, (const int64_t[3]){b, l, c}, (struct bench_range){low, high})
#define PAR(a, b, low, high)    bench_fill(&s->memory, DTYPE_F32, (const int64_t[3]){a, b, 0}, (struct bench_range){low, high})

static void open_scan1(struct scan_state *s, int64_t b) {
    int64_t l = s->shape.l, d = s->shape.d, n = s->shape.n;
    bool seed = s->shape.seed;
    struct scan1_args f = {.u = ACT(b, l, d, -1, 1), .A = PAR(d, n, -16, -1), .Bm = ACT(b, l, n, -1, 1), .Cm = ACT(b, l, n, -1, 1)};
    f.delta = seed ? ACT(b, l, d, -0.01, 0.11) : ACT(b, l, d, -2, 2);
    f.out = ACT(b, l, d, 0, 0);
    if (seed) {
        f.clamp_lo = 1e-3f;
        f.clamp_hi = 0.1f;
    } else {
        f.softplus = true;
        f.Dskip = PAR(d, 0, -1, 1);
        f.dbias = PAR(d, 0, -6, -2);
        f.z = ACT(b, l, d, -2, 2);
    }
    s->scan1 = (struct scan1_backward_args){.fwd = f};
    if (!s->shape.backward)
        return;
    s->scan1.dout = ACT(b, l, d, -1, 1);
    s->scan1.du = ACT(b, l, d, 0, 0);
    s->scan1.ddelta = ACT(b, l, d, 0, 0);
    s->scan1.dA = PAR(d, n, 0, 0);
    s->scan1.dBm = ACT(b, l, n, 0, 0);
    s->scan1.dCm = ACT(b, l, n, 0, 0);
    if (seed)
        return;
    s->scan1.dz = ACT(b, l, d, 0, 0);
    s->scan1.dDskip = PAR(d, 0, 0, 0);
    s->scan1.ddbias = PAR(d, 0, 0, 0);
}

static void open_ssd(struct scan_state *s, int64_t b) {
    int64_t l = s->shape.l, d = s->shape.d, n = s->shape.n, h = s->shape.heads;
    s->ssd = (struct ssd_backward_args){.fwd = {.x = ACT(b, l, d, -1, 1),
                                                .delta = ACT(b, l, h, -2, 2),
                                                .A = PAR(h, 0, -16, -1),
                                                .Bm = ACT(b, l, n, -1, 1),
                                                .Cm = ACT(b, l, n, -1, 1),
                                                .Dskip = PAR(h, 0, -1, 1),
                                                .dbias = PAR(h, 0, -6, -2),
                                                .y = ACT(b, l, d, 0, 0),
                                                .heads = (int)h,
                                                .groups = 1,
                                                .softplus = true}};
    if (!s->shape.backward)
        return;
    s->ssd.dy = ACT(b, l, d, -1, 1);
    s->ssd.dx = ACT(b, l, d, 0, 0);
    s->ssd.ddelta = ACT(b, l, h, 0, 0);
    s->ssd.dA = PAR(h, 0, 0, 0);
    s->ssd.dBm = ACT(b, l, n, 0, 0);
    s->ssd.dCm = ACT(b, l, n, 0, 0);
    s->ssd.dDskip = PAR(h, 0, 0, 0);
    s->ssd.ddbias = PAR(h, 0, 0, 0);
}

static void open_conv(struct scan_state *s, int64_t b) {
    int64_t l = s->shape.l, d = s->shape.d, k = s->shape.n;
    s->conv = (struct conv1d_depthwise_backward_args){
        .x = ACT(b, l, d, -1, 1), .w = PAR(d, k, -1, 1), .bias = PAR(d, 0, -1, 1), .pad_left = (int)k - 1, .silu = true};
    s->conv_y = ACT(b, l, d, 0, 0);
    if (!s->shape.backward)
        return;
    s->conv.dy = ACT(b, l, d, -1, 1);
    s->conv.dx = ACT(b, l, d, 0, 0);
    s->conv.dw = PAR(d, k, 0, 0);
    s->conv.dbias = PAR(d, 0, 0, 0);
}

static void scan_close(void *state, struct device *dev) {
    struct scan_state *s = state;
    for (int i = 0; s && i < MOST_TRAVELS; i++)
        device_free_host(dev, s->host[i]);
    if (s)
        bench_memory_done(&s->memory, dev);
    free(s);
}

static int scan_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    struct scan_state *s = needed(calloc(1, sizeof *s));
    s->shape = *(const struct shape *)c->parameters;
    s->dtype = x->dtype;
    s->memory = (struct bench_memory){.device = x->device, .stream = x->stream, .err = err};
    if (s->shape.kind == SCAN1)
        open_scan1(s, c->batch);
    else if (s->shape.kind == SSD)
        open_ssd(s, c->batch);
    else
        open_conv(s, c->batch);
    int rc = s->memory.rc;
    s->device = x->device;
    if (!rc && s->shape.from_host)
        rc = take_host(s, err);
    if (rc)
        scan_close(s, x->device);
    else
        *ret = s;
    return rc;
}

/* Nothing but the formula. */
__attribute__((noinline, optimize("no-tree-vectorize"))) static void scalar_scan1(const struct scan1_args *a) {
    int64_t b = a->u.dim[0], l = a->u.dim[1], d = a->u.dim[2], n = a->A.dim[1];
    const float *u = a->u.data, *delta = a->delta.data, *decay = a->A.data, *bm = a->Bm.data, *cm = a->Cm.data;
    float *out = a->out.data, h[256];
    for (int64_t row = 0; row < b; row++)
        for (int64_t c = 0; c < d; c++) {
            memset(h, 0, sizeof h);
            for (int64_t t = row * l; t < (row + 1) * l; t++) {
                float step = delta[t * d + c], y = 0;
                step = step < a->clamp_lo ? a->clamp_lo : step > a->clamp_hi ? a->clamp_hi : step;
                for (int64_t k = 0; k < n; k++) {
                    h[k] = expf(step * decay[c * n + k]) * h[k] + step * u[t * d + c] * bm[t * n + k];
                    y += h[k] * cm[t * n + k];
                }
                out[t * d + c] = y;
            }
        }
}

static int run_from_host(struct scan_state *s, struct stream *stream, struct err *err) {
    struct tensor all[MOST_TRAVELS];
    int in = 0, n = travels(&s->scan1, s->shape.backward, all, &in), rc;
    for (int i = 0; i < in; i++)
        if ((rc = stream_to_device(stream, all[i].data, s->host[i], tensor_span_bytes(&all[i]), err)))
            return rc;
    if ((rc = s->shape.backward ? op_scan1_backward(stream, &s->scan1, err) : op_scan1(stream, &s->scan1.fwd, err)))
        return rc;
    for (int i = in; i < n; i++)
        if ((rc = stream_to_host(stream, s->host[i], all[i].data, tensor_span_bytes(&all[i]), err)))
            return rc;
    return stream_sync(stream, err);
}

static int scan_run(void *state, struct stream *stream, struct err *err) {
    struct scan_state *s = state;
    if (s->shape.from_host)
        return run_from_host(s, stream, err);
    if (s->shape.scalar_loop) {
        scalar_scan1(&s->scan1.fwd);
        return 0;
    }
    if (s->shape.kind == SCAN1)
        return s->shape.backward ? op_scan1_backward(stream, &s->scan1, err) : op_scan1(stream, &s->scan1.fwd, err);
    if (s->shape.kind == SSD)
        return s->shape.backward ? op_ssd_backward(stream, &s->ssd, err) : op_ssd(stream, &s->ssd.fwd, err);
    if (s->shape.backward)
        return op_conv1d_depthwise_backward(stream, &s->conv, err);
    struct conv1d_depthwise_args f = {
        .x = s->conv.x, .w = s->conv.w, .bias = s->conv.bias, .y = s->conv_y, .pad_left = s->conv.pad_left, .silu = true};
    return op_conv1d_depthwise(stream, &f, err);
}

/* Every activation is read or written once per direction; backward computes every decay twice (states are kept only at tile
 * starts). Per state and step: 5 operations forward, 5 + 16 backward. */
static struct rates_work scan_work(const struct bench_case *c, const struct bench_context *x) {
    const struct shape *s = c->parameters;
    double tokens = (double)c->batch * (double)s->l, channels = tokens * (double)s->d, each = (double)dtype_bytes(x->dtype);
    double updates = s->kind == CONV ? 0 : channels * (double)s->n;
    int wide = s->kind == SCAN1 ? (s->seed ? 3 : 4) : 2; /* activations as wide as x: u delta out (z); x y */
    if (s->backward)
        wide += s->kind == SCAN1 ? (s->seed ? 2 : 3) : 1;
    double narrow = s->kind == CONV ? 0 : tokens * 2 * (double)s->n + (s->kind == SSD ? tokens * (double)s->heads : 0);
    struct rates_work w = {.bytes = (wide * channels + narrow * (s->backward ? 2 : 1)) * each};
    if (s->from_host) /* the seed's activations, and A with its gradient */
        w.host_bytes = w.bytes + (s->backward ? 2 : 1) * (double)(s->d * s->n) * sizeof(float);
    if (s->kind == CONV) {
        w.exponentials = channels;
        w.flops = channels * 2 * (double)s->n * (s->backward ? 3 : 1);
        return w;
    }
    w.exponentials =
        s->kind == SCAN1 ? updates * (s->backward ? 2 : 1) + (s->seed ? 0 : 2 * channels) : tokens * (double)s->heads * 2;
    w.flops = updates * (s->backward ? 21 : 5);
    return w;
}

static const struct shape seed_fwd = {.seed = true, .l = 60, .d = 512, .n = 16},
                          seed_bwd = {.backward = true, .seed = true, .l = 60, .d = 512, .n = 16},
                          seed_host_fwd = {.seed = true, .from_host = true, .l = 60, .d = 512, .n = 16},
                          seed_host_bwd = {.backward = true, .seed = true, .from_host = true, .l = 60, .d = 512, .n = 16},
                          seed_scalar = {.scalar_loop = true, .seed = true, .l = 60, .d = 512, .n = 16},
                          eeg1_fwd = {.l = 960, .d = 1024, .n = 16}, eeg1_bwd = {.backward = true, .l = 960, .d = 1024, .n = 16},
                          eeg2_fwd = {.kind = SSD, .l = 960, .d = 1024, .n = 16, .heads = 16},
                          eeg2_bwd = {.kind = SSD, .backward = true, .l = 960, .d = 1024, .n = 16, .heads = 16},
                          conv_fwd = {.kind = CONV, .l = 960, .d = 1056, .n = 4},
                          conv_bwd = {.kind = CONV, .backward = true, .l = 960, .d = 1056, .n = 4};

#define CASE(bench_, name_, batch_, where_, shape)                                                                                 \
    { bench_, name_, batch_, where_ == BENCH_CPU, where_, scan_work, scan_open, scan_run, scan_close, &shape }
const struct bench_case bench_scan_cases[] = {
    CASE("scan", "seed fwd", 32, BENCH_ANYWHERE, seed_fwd),
    CASE("scan", "seed bwd", 32, BENCH_ANYWHERE, seed_bwd),
    CASE("scan", "eeg fwd", 1, BENCH_ANYWHERE, eeg1_fwd),
    CASE("scan", "eeg bwd", 1, BENCH_ANYWHERE, eeg1_bwd),
    CASE("scan", "seed fwd scalar loop", 32, BENCH_CPU, seed_scalar),
    CASE("ssd", "eeg fwd", 1, BENCH_ANYWHERE, eeg2_fwd),
    CASE("ssd", "eeg bwd", 1, BENCH_ANYWHERE, eeg2_bwd),
    CASE("conv", "eeg fwd", 1, BENCH_ANYWHERE, conv_fwd),
    CASE("conv", "eeg bwd", 1, BENCH_ANYWHERE, conv_bwd),
    CASE("scan", "seed fwd host to host", 32, BENCH_GPU, seed_host_fwd),
    CASE("scan", "seed bwd host to host", 32, BENCH_GPU, seed_host_bwd),
    CASE("scan", "eeg fwd b64", 64, BENCH_GPU, eeg1_fwd),
    CASE("scan", "eeg bwd b64", 64, BENCH_GPU, eeg1_bwd),
    CASE("ssd", "eeg fwd b64", 64, BENCH_GPU, eeg2_fwd),
    CASE("ssd", "eeg bwd b64", 64, BENCH_GPU, eeg2_bwd),
    CASE("conv", "eeg fwd b64", 64, BENCH_GPU, conv_fwd),
    CASE("conv", "eeg bwd b64", 64, BENCH_GPU, conv_bwd),
    {.name = NULL},
};
