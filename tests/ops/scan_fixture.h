/* scan_fixture: a device, seeded random tensors, and both selective scans as plain double loops with their gradients, to compare
 * the kernels with. One problem describes Mamba-1 (share 1, A per channel and state) and Mamba-2 (share P, A per head). */
#pragma once

#include "kernels/op.h"
#include "seed.h"
#include "unit/cmocka_all.h"

struct fixture {
    struct device *device;
    struct stream *stream;
    uint64_t seed, state;
};
static struct fixture fixture;

static inline uint64_t fixture_next(void) { /* splitmix64 */
    uint64_t z = (fixture.state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
static inline double fixture_uniform(double low, double high) {
    return low + (high - low) * (double)(fixture_next() >> 11) * 0x1p-53;
}

static inline void fixture_check(int rc, const struct err *err) {
    if (rc)
        fail_msg("%s", err->message);
}

static inline void fixture_threads(int threads) {
    struct err err = {0};
    stream_close(fixture.stream);
    device_close(fixture.device);
    fixture.stream = NULL;
    const char *name = getenv("BRR_TEST_DEVICE"); /* "cuda:0", else the CPU */
    fixture_check(device_open(name ? name : "cpu", threads, &fixture.device, &err), &err);
    fixture_check(stream_open(fixture.device, STREAM_NORMAL, &fixture.stream, &err), &err);
}

static inline int fixture_setup(void **state) {
    (void)state;
    fixture.state = fixture.seed = test_seed();
    print_message("seed %llu (BRR_TEST_SEED repeats it)\n", (unsigned long long)fixture.seed);
    fixture_threads(2);
    return 0;
}
/* Instruction sets worth a run each ("scalar", "avx2", "avx512"): BRR_ISA chooses among the kernels of the CPU alone. */
static inline int fixture_isas(void) {
    struct device_info info;
    device_describe(fixture.device, &info);
    return info.is_async ? 1 : 3;
}

static inline int fixture_teardown(void **state) {
    (void)state;
    stream_close(fixture.stream);
    device_close(fixture.device);
    return 0;
}

static inline void *fixture_memory(size_t bytes) {
    void *p = calloc(1, bytes + 64);
    assert_non_null(p);
    return p;
}
static inline float *fixture_floats(int64_t n, double low, double high) {
    float *p = fixture_memory((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)fixture_uniform(low, high);
    return p;
}
static inline uint16_t fixture_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float fixture_from_bf16(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* ‖a − b‖/‖b‖ of floats against doubles; `least` is the smallest ‖b‖² taken seriously. */
static inline double fixture_distance_from(const float *a, const double *b, int64_t n, double least) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += b[i] * b[i];
    }
    norm = norm > least ? norm : least;
    return isfinite(difference) ? sqrt(difference) / (norm > 0 ? sqrt(norm) : 1) : INFINITY;
}
static inline double fixture_distance(const float *a, const double *b, int64_t n) { return fixture_distance_from(a, b, n, 0); }

/* ---- a scan problem -------------------------------------------------------------------------------------------- */

struct problem {
    int64_t b, l, d, n, g, share; /* share 0: Mamba-1; else Mamba-2 with P = share */
    bool zoh, plain_delta, clamp, gate, skip, h0, reverse, resets, lengths, bf16;
    int chunk;
};

enum slot { U, DELTA, A, BM, CM, DSKIP, DBIAS, Z, H0, DOUT, DHT, SLOTS };

struct arrays {
    int64_t count[SLOTS];
    float *in[SLOTS];  /* DOUT and DHT are the incoming gradients */
    float *grad[DOUT]; /* what the kernels return */
    double *expected[DOUT];
    double walk[DOUT]; /* Σ terms² of the sums over tokens: their size when the terms do not cancel by chance */
    float *out, *ht;
    double *expected_out, *expected_ht;
    uint8_t *resets;
    int32_t *lengths;
};

static inline int64_t delta_width(const struct problem *p) { return p->share ? p->d / p->share : p->d; }

enum { REF_CLAMP_MILLI_LO = 10, REF_CLAMP_MILLI_HI = 200 };

static inline double ref_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* Move each delta whose step would lie within 1e-6 of a clamp: there its rounding decides on which side it is, and the slope on
 * one side is 0. */
static inline void keep_off_the_clamps(const struct problem *p, struct arrays *a) {
    for (int64_t i = 0; p->clamp && i < a->count[DELTA]; i++)
        for (;;) {
            double pre = (double)a->in[DELTA][i] + (a->in[DBIAS] ? (double)a->in[DBIAS][i % delta_width(p)] : 0);
            double step = p->plain_delta ? pre : ref_softplus(pre);
            if (fabs(step - REF_CLAMP_MILLI_LO * 1e-3) > 1e-6 && fabs(step - REF_CLAMP_MILLI_HI * 1e-3) > 1e-6)
                break;
            float moved = a->in[DELTA][i] + 0x1p-4f;
            a->in[DELTA][i] = p->bf16 ? fixture_from_bf16(fixture_bf16(moved)) : moved;
        }
}

static inline struct arrays arrays_new(const struct problem *p) {
    int64_t w = delta_width(p), state = p->b * p->d * p->n, rows = p->b * p->l;
    struct arrays a = {.count = {rows * p->d, rows * w, p->share ? w : p->d * p->n, rows * p->g * p->n, rows * p->g * p->n, w, w,
                                 rows * p->d, state, rows * p->d, state}};
    static const double low[SLOTS] = {-1, -2, -6, -1, -1, -1, -2, -3, -1, -1, -1},
                        high[SLOTS] = {1, 2, -0.05, 1, 1, 1, 1, 3, 1, 1, 1};
    bool used[SLOTS] = {true, true, true, true, true, p->skip, !p->plain_delta, p->gate, p->h0, true, true};
    for (int i = 0; i < SLOTS; i++) {
        if (!used[i])
            continue;
        a.in[i] =
            p->plain_delta && i == DELTA ? fixture_floats(a.count[i], -0.05, 0.3) : fixture_floats(a.count[i], low[i], high[i]);
        bool act = i == U || i == DELTA || i == BM || i == CM || i == Z || i == DOUT;
        for (int64_t q = 0; act && p->bf16 && q < a.count[i]; q++)
            a.in[i][q] = fixture_from_bf16(fixture_bf16(a.in[i][q]));
        if (i < DOUT) {
            a.grad[i] = fixture_floats(a.count[i], NAN, NAN);
            a.expected[i] = fixture_memory((size_t)a.count[i] * sizeof(double));
            if (i == A || i == DSKIP || i == DBIAS)
                memset(a.grad[i], 0, (size_t)a.count[i] * sizeof(float)); /* these are added to */
        }
    }
    keep_off_the_clamps(p, &a);
    a.out = fixture_floats(rows * p->d, NAN, NAN);
    a.ht = fixture_floats(state, NAN, NAN);
    a.expected_out = fixture_memory((size_t)(rows * p->d) * sizeof(double));
    a.expected_ht = fixture_memory((size_t)state * sizeof(double));
    if (p->resets) {
        a.resets = fixture_memory((size_t)rows);
        for (int64_t i = 0; i < rows; i++)
            a.resets[i] = fixture_uniform(0, 1) < 0.15;
    }
    if (p->lengths) {
        a.lengths = fixture_memory((size_t)p->b * sizeof(int32_t));
        for (int64_t i = 0; i < p->b; i++)
            a.lengths[i] = (int32_t)fixture_uniform(0, (double)p->l + 0.999);
    }
    return a;
}

static inline void arrays_free(struct arrays *a) {
    for (int i = 0; i < SLOTS; i++) {
        free(a->in[i]);
        if (i < DOUT) {
            free(a->grad[i]);
            free(a->expected[i]);
        }
    }
    FREE_MEMBERS(*a, out, ht, expected_out, expected_ht, resets, lengths);
}

/* ---- the double reference -------------------------------------------------------------------------------------- */

static inline double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static inline double ref_phi(double v) { return fabs(v) < 1e-5 ? 1 + v / 2 : expm1(v) / v; }
static inline double ref_phi_slope(double v) {
    return fabs(v) < 1e-2 ? 0.5 + v / 3 + v * v / 8 + v * v * v / 30 : (exp(v) * (v - 1) + 1) / (v * v);
}

struct ref_step {
    double delta, slope; /* Δ and ∂Δ/∂pre */
};
static inline struct ref_step ref_step_of(const struct problem *p, double pre) {
    struct ref_step s = {pre, 1};
    if (!p->plain_delta)
        s = (struct ref_step){ref_softplus(pre), ref_sigmoid(pre)};
    double lo = REF_CLAMP_MILLI_LO * 1e-3f, hi = REF_CLAMP_MILLI_HI * 1e-3f;
    if (p->clamp && (s.delta < lo || s.delta > hi))
        s = (struct ref_step){s.delta < lo ? lo : hi, 0};
    return s;
}

/* One batch row and channel. `grads` adds the gradients to a->expected. */
static inline void ref_channel(const struct problem *p, struct arrays *a, int64_t row, int64_t d, bool grads) {
    int64_t share = p->share ? p->share : 1, w = delta_width(p), e = d / share, len = a->lengths ? a->lengths[row] : p->l, n = p->n;
    double *h = fixture_memory((size_t)((len + 1) * n) * sizeof *h),
           *decay = fixture_memory((size_t)((len + 1) * n) * sizeof *decay);
    double *y = fixture_memory((size_t)(len + 1) * sizeof *y), *lambda = fixture_memory((size_t)n * sizeof *lambda);
    int64_t group = d / (p->d / p->g), state = (row * p->d + d) * n;
    for (int64_t k = 0; k < n && p->h0; k++)
        h[k] = a->in[H0][state + k];
#define TIME(s)  (p->reverse ? len - 1 - (s) : (s))
#define FRESH(s) (a->resets && TIME(s) + p->reverse < len && a->resets[row * p->l + TIME(s) + p->reverse])
    for (int64_t s = 0; s < len; s++) {
        int64_t at = row * p->l + TIME(s), bc = (at * p->g + group) * n;
        struct ref_step step = ref_step_of(p, (double)a->in[DELTA][at * w + e] + (a->in[DBIAS] ? (double)a->in[DBIAS][e] : 0));
        double u = a->in[U][at * p->d + d];
        y[s] = p->skip ? a->in[DSKIP][e] * u : 0;
        for (int64_t k = 0; k < n; k++) {
            double v = step.delta * (double)(p->share ? a->in[A][e] : a->in[A][d * n + k]);
            decay[s * n + k] = FRESH(s) ? 0 : exp(v);
            h[(s + 1) * n + k] = decay[s * n + k] * h[s * n + k] + step.delta * (p->zoh ? ref_phi(v) : 1) * a->in[BM][bc + k] * u;
            y[s] += h[(s + 1) * n + k] * a->in[CM][bc + k];
        }
        double z = p->gate ? a->in[Z][at * p->d + d] : 0;
        a->expected_out[at * p->d + d] = p->gate ? y[s] * z * ref_sigmoid(z) : y[s];
    }
    for (int64_t k = 0; k < n; k++) {
        a->expected_ht[state + k] = h[len * n + k];
        lambda[k] = a->in[DHT][state + k];
    }
    for (int64_t s = len - 1; s >= 0 && grads; s--) {
        int64_t at = row * p->l + TIME(s), bc = (at * p->g + group) * n;
        struct ref_step step = ref_step_of(p, (double)a->in[DELTA][at * w + e] + (a->in[DBIAS] ? (double)a->in[DBIAS][e] : 0));
        double u = a->in[U][at * p->d + d], gy = a->in[DOUT][at * p->d + d], du = 0, ddelta = 0;
        if (p->gate) {
            double z = a->in[Z][at * p->d + d], sig = ref_sigmoid(z);
            a->expected[Z][at * p->d + d] = gy * y[s] * sig * (1 + z * (1 - sig));
            gy *= z * sig;
        }
        for (int64_t k = 0; k < n; k++) {
            double ak = p->share ? a->in[A][e] : a->in[A][d * n + k], v = step.delta * ak, b = a->in[BM][bc + k];
            double kept = decay[s * n + k] * h[s * n + k], phi = p->zoh ? ref_phi(v) : 1;
            lambda[k] += gy * a->in[CM][bc + k];
            a->expected[CM][bc + k] += gy * h[(s + 1) * n + k];
            a->expected[BM][bc + k] += lambda[k] * step.delta * phi * u;
            du += lambda[k] * step.delta * phi * b;
            ddelta += lambda[k] * (ak * kept + (p->zoh ? exp(v) : 1) * b * u);
            double da = lambda[k] * (step.delta * kept + (p->zoh ? step.delta * step.delta * ref_phi_slope(v) * b * u : 0));
            a->expected[A][p->share ? e : d * n + k] += da;
            a->walk[A] += da * da;
            lambda[k] *= decay[s * n + k];
        }
        if (p->skip) {
            a->expected[DSKIP][e] += gy * u;
            a->walk[DSKIP] += gy * u * gy * u;
            du += gy * a->in[DSKIP][e];
        }
        a->expected[U][at * p->d + d] = du;
        a->expected[DELTA][at * w + e] += ddelta * step.slope;
        if (a->expected[DBIAS]) {
            a->expected[DBIAS][e] += ddelta * step.slope;
            a->walk[DBIAS] += ddelta * step.slope * ddelta * step.slope;
        }
    }
    for (int64_t k = 0; k < n && grads && p->h0; k++)
        a->expected[H0][state + k] = lambda[k];
#undef TIME
#undef FRESH
    free(h);
    free(decay);
    free(y);
    free(lambda);
}

static inline void reference(const struct problem *p, struct arrays *a, bool grads) {
    memset(a->expected_out, 0, (size_t)(p->b * p->l * p->d) * sizeof(double));
    for (int i = 0; i < DOUT; i++)
        if (grads && a->expected[i]) {
            a->walk[i] = 0;
            memset(a->expected[i], 0, (size_t)a->count[i] * sizeof(double));
        }
    for (int64_t row = 0; row < p->b; row++)
        for (int64_t d = 0; d < p->d; d++)
            ref_channel(p, a, row, d, grads);
}

/* ---- running the kernels --------------------------------------------------------------------------------------- */

/* What ops are given of host memory: itself on the CPU, else device memory with the same content, until fixture_return copies all
 * of it back and frees it. */
enum { MOST_PLACES = 64 };
static struct place {
    void *host, *device;
    size_t bytes;
} places[MOST_PLACES];
static int n_places;

static inline struct tensor placed(struct tensor t) {
    struct device_info info;
    struct err err = {0};
    device_describe(fixture.device, &info);
    if (!t.data || !info.is_async)
        return t;
    for (int i = 0; i < n_places; i++)
        if (places[i].host == t.data) {
            t.data = places[i].device;
            return t;
        }
    assert_true(n_places < MOST_PLACES);
    struct place *p = &places[n_places++];
    *p = (struct place){.host = t.data, .bytes = tensor_span_bytes(&t)};
    fixture_check(device_alloc(fixture.device, p->bytes, &p->device, &err), &err);
    fixture_check(stream_to_device(fixture.stream, p->device, p->host, p->bytes, &err), &err);
    t.data = p->device;
    return t;
}
static inline void fixture_return(void) {
    struct err err = {0};
    for (int i = 0; i < n_places; i++)
        fixture_check(stream_to_host(fixture.stream, places[i].host, places[i].device, places[i].bytes, &err), &err);
    fixture_check(stream_sync(fixture.stream, &err), &err);
    for (; n_places > 0; n_places--)
        device_free(fixture.device, places[n_places - 1].device);
}

/* Activations go through bf16 copies when the problem says so. */
struct pack {
    struct tensor t;
    uint16_t *narrow;
    float *back; /* where a bf16 result is widened to */
};
static inline struct pack act_pack(const struct problem *p, float *data, int64_t width) {
    struct pack k = {0};
    if (!data)
        return k;
    k.t = tensor_3d(data, DTYPE_F32, p->b, p->l, width);
    int64_t n = p->bf16 ? tensor_count(&k.t) : 0;
    if (p->bf16) {
        k.back = data;
        k.t.data = k.narrow = fixture_memory((size_t)n * sizeof *k.narrow);
        k.t.dtype = DTYPE_BF16;
    }
    for (int64_t i = 0; i < n; i++)
        k.narrow[i] = isnan(data[i]) ? 0x7fc0 : fixture_bf16(data[i]);
    k.t = placed(k.t);
    return k;
}
/* After fixture_return. */
static inline void act_unpack(struct pack *k) {
    for (int64_t i = 0; k->back && i < tensor_count(&k->t); i++)
        k->back[i] = fixture_from_bf16(k->narrow[i]);
    free(k->narrow);
}
static inline struct tensor flat(float *data, int64_t n) {
    return placed(data ? tensor_1d(data, DTYPE_F32, n) : (struct tensor){0});
}
static inline struct tensor cube(float *data, int64_t b, int64_t d, int64_t n) {
    return placed(data ? tensor_3d(data, DTYPE_F32, b, d, n) : (struct tensor){0});
}

enum { N_ACTS = 13 };
/* Forward, and backward when grads. */
static inline void run_kernels(const struct problem *p, struct arrays *a, bool grads) {
    struct err err = {0};
    int64_t d = p->d, w = delta_width(p), gn = p->g * p->n;
    struct pack k[N_ACTS] = {act_pack(p, a->in[U], d),     act_pack(p, a->in[DELTA], w), act_pack(p, a->in[BM], gn),
                             act_pack(p, a->in[CM], gn),   act_pack(p, a->in[Z], d),     act_pack(p, a->in[DOUT], d),
                             act_pack(p, a->out, d),       act_pack(p, a->grad[U], d),   act_pack(p, a->grad[DELTA], w),
                             act_pack(p, a->grad[BM], gn), act_pack(p, a->grad[CM], gn), act_pack(p, a->grad[Z], d)};
    struct tensor resets = {0}, skip = flat(a->in[DSKIP], w), bias = flat(a->in[DBIAS], w), h0 = cube(a->in[H0], p->b, d, p->n),
                  ht = cube(a->ht, p->b, d, p->n), dht = cube(a->in[DHT], p->b, d, p->n), dh0 = cube(a->grad[H0], p->b, d, p->n);
    if (a->resets)
        resets = placed(tensor_2d(a->resets, DTYPE_U8, p->b, p->l));
    float lo = p->clamp ? REF_CLAMP_MILLI_LO * 1e-3f : 0, hi = p->clamp ? REF_CLAMP_MILLI_HI * 1e-3f : 0;
    if (p->share) {
        struct ssd_args f = {.x = k[0].t,
                             .delta = k[1].t,
                             .A = flat(a->in[A], w),
                             .Bm = k[2].t,
                             .Cm = k[3].t,
                             .Dskip = skip,
                             .dbias = bias,
                             .h0 = h0,
                             .y = k[6].t,
                             .hT = ht,
                             .resets = resets,
                             .heads = (int)w,
                             .groups = (int)p->g,
                             .chunk = p->chunk,
                             .softplus = !p->plain_delta,
                             .reverse = p->reverse,
                             .clamp_lo = lo,
                             .clamp_hi = hi,
                             .lengths = a->lengths};
        fixture_check(op_ssd(fixture.stream, &f, &err), &err);
        struct ssd_backward_args g = {.fwd = f,
                                      .dy = k[5].t,
                                      .dhT = dht,
                                      .dx = k[7].t,
                                      .ddelta = k[8].t,
                                      .dA = flat(a->grad[A], w),
                                      .dBm = k[9].t,
                                      .dCm = k[10].t,
                                      .dDskip = flat(a->grad[DSKIP], w),
                                      .ddbias = flat(a->grad[DBIAS], w),
                                      .dh0 = dh0};
        if (grads)
            fixture_check(op_ssd_backward(fixture.stream, &g, &err), &err);
    } else {
        struct scan1_args f = {.u = k[0].t,
                               .delta = k[1].t,
                               .A = placed(tensor_2d(a->in[A], DTYPE_F32, d, p->n)),
                               .Bm = k[2].t,
                               .Cm = k[3].t,
                               .Dskip = skip,
                               .dbias = bias,
                               .z = k[4].t,
                               .h0 = h0,
                               .out = k[6].t,
                               .hT = ht,
                               .resets = resets,
                               .softplus = !p->plain_delta,
                               .zoh = p->zoh,
                               .reverse = p->reverse,
                               .clamp_lo = lo,
                               .clamp_hi = hi,
                               .lengths = a->lengths};
        fixture_check(op_scan1(fixture.stream, &f, &err), &err);
        struct scan1_backward_args g = {.fwd = f,
                                        .dout = k[5].t,
                                        .dhT = dht,
                                        .du = k[7].t,
                                        .ddelta = k[8].t,
                                        .dA = placed(tensor_2d(a->grad[A], DTYPE_F32, d, p->n)),
                                        .dBm = k[9].t,
                                        .dCm = k[10].t,
                                        .dDskip = flat(a->grad[DSKIP], w),
                                        .ddbias = flat(a->grad[DBIAS], w),
                                        .dz = k[11].t,
                                        .dh0 = dh0};
        if (grads)
            fixture_check(op_scan1_backward(fixture.stream, &g, &err), &err);
    }
    fixture_return();
    for (int i = 0; i < N_ACTS; i++)
        if (i < 6) /* inputs stay as they were given */
            free(k[i].narrow);
        else
            act_unpack(&k[i]);
}

static inline void assert_near_reference(const struct problem *p, const struct arrays *a, bool grads, double most) {
    static const char *const names[] = {"u", "delta", "A", "B", "C", "D", "dbias", "z", "h0"};
    double out = fixture_distance(a->out, a->expected_out, a->count[U]), ht = fixture_distance(a->ht, a->expected_ht, a->count[H0]);
    char shape[160];
    snprintf(shape, sizeof shape,
             "b %d l %d d %d n %d g %d share %d zoh %d reverse %d resets %d lengths %d bf16 %d chunk %d isa %s", (int)p->b,
             (int)p->l, (int)p->d, (int)p->n, (int)p->g, (int)p->share, p->zoh, p->reverse, p->resets, p->lengths, p->bf16,
             p->chunk, device_isa());
    if (!(out <= most && ht <= most))
        fail_msg("out is off by %.2e, hT by %.2e (allowed %.1e): %s", out, ht, most, shape);
    for (int i = 0; i < DOUT && grads; i++) {
        double error = a->grad[i] ? fixture_distance_from(a->grad[i], a->expected[i], a->count[i], a->walk[i]) : 0;
        if (!(error <= most))
            fail_msg("gradient of %s is off by %.2e (allowed %.1e): %s", names[i], error, most, shape);
    }
}
