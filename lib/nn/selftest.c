#include "nn/selftest.h"

#include "base/rng.h"
#include "kernels/device.h"
#include "kernels/op.h"

OWNABLE(struct device, device_close)
OWNABLE(struct stream, stream_close)

enum { B = 2, L = 37, H = 3, P = 8, N = 5, D = H * P, RNG_CASE = 0x5E1F }; /* a stream of its own */
static const double tolerance = 1e-4;

/* One case: inputs of the op, and the gradient that comes back. */
struct scan_case {
    float x[B * L * D], delta[B * L * H], a[H], b[B * L * N], c[B * L * N], skip[H], dy[B * L * D];
};
/* Results of a pass. */
struct scan_result {
    double y[B * L * D], dx[B * L * D], ddelta[B * L * H], db[B * L * N], dc[B * L * N];
};

static void draw(float *values, int n, uint32_t step) {
    struct rng rng;
    rng_init(&rng, 1, RNG_CASE, step);
    for (int i = 0; i < n; i++)
        values[i] = (float)rng_normal(&rng);
}

static void draw_case(struct scan_case *k) {
    draw(k->x, B * L * D, 0);
    draw(k->delta, B * L * H, 1);
    draw(k->b, B * L * N, 2);
    draw(k->c, B * L * N, 3);
    draw(k->skip, H, 4);
    draw(k->dy, B * L * D, 5);
    for (int h = 0; h < H; h++)
        k->a[h] = -0.3f - (float)h;
}

/* The recurrence of one channel in double, and its adjoint from the end: h = e^(Δa) h + Δ x B, y = h·C + skip x, Δ =
 * softplus(delta). */
static void channel(const struct scan_case *k, struct scan_result *r, int row, int d) {
    int head = d / P;
    double h[L + 1][N] = {{0}}, g[N] = {0};
    for (int t = 0; t < L; t++) {
        int at = row * L + t;
        double step = log1p(exp((double)k->delta[at * H + head])), keep = exp(step * k->a[head]), x = k->x[at * D + d], y = 0;
        for (int n = 0; n < N; n++) {
            h[t + 1][n] = keep * h[t][n] + step * x * k->b[at * N + n];
            y += h[t + 1][n] * k->c[at * N + n];
        }
        r->y[at * D + d] = y + k->skip[head] * x;
    }
    for (int t = L - 1; t >= 0; t--) {
        int at = row * L + t;
        double raw = k->delta[at * H + head], step = log1p(exp(raw)), keep = exp(step * k->a[head]);
        double x = k->x[at * D + d], dy = k->dy[at * D + d], dstep = 0, dx = k->skip[head] * dy;
        for (int n = 0; n < N; n++) {
            g[n] += dy * k->c[at * N + n];
            r->dc[at * N + n] += dy * h[t + 1][n];
            r->db[at * N + n] += g[n] * step * x;
            dx += g[n] * step * k->b[at * N + n];
            dstep += g[n] * (x * k->b[at * N + n] + k->a[head] * keep * h[t][n]);
            g[n] *= keep;
        }
        r->dx[at * D + d] = dx;
        r->ddelta[at * H + head] += dstep / (1 + exp(-raw));
    }
}

/* Largest difference over the largest value. */
static double compare(const double *want, const float *got, int n) {
    double largest = 1e-30, error = 0;
    for (int i = 0; i < n; i++) {
        largest = fmax(largest, fabs(want[i]));
        error = isfinite(got[i]) ? fmax(error, fabs(want[i] - (double)got[i])) : INFINITY;
    }
    return error / largest;
}

/* Device memory: inputs, then outputs, one after another; offsets in floats. */
struct arrays {
    float *host, *device;
    size_t used, total;
};

static struct tensor place(struct arrays *m, const float *values, int64_t d0, int64_t d1, int64_t d2) {
    struct tensor t = d2 ? tensor_3d(m->device + m->used, DTYPE_F32, d0, d1, d2) : tensor_1d(m->device + m->used, DTYPE_F32, d0);
    size_t n = (size_t)(d2 ? d0 * d1 * d2 : d0);
    if (values)
        memcpy(m->host + m->used, values, n * sizeof *values);
    m->used += (n + 15) / 16 * 16;
    return t;
}

static const float *read_back(const struct arrays *m, const struct tensor *t) {
    return m->host + ((const float *)t->data - m->device);
}

static int run(struct stream *s, const struct scan_case *k, struct arrays *m, const struct scan_result *want, struct selftest *ret,
               struct err *err) {
    struct ssd_args f = {.x = place(m, k->x, B, L, D),
                         .delta = place(m, k->delta, B, L, H),
                         .A = place(m, k->a, H, 0, 0),
                         .Bm = place(m, k->b, B, L, N),
                         .Cm = place(m, k->c, B, L, N),
                         .Dskip = place(m, k->skip, H, 0, 0),
                         .heads = H,
                         .groups = 1,
                         .softplus = true};
    struct ssd_backward_args b = {.fwd = f, .dy = place(m, k->dy, B, L, D)};
    b.dx = place(m, NULL, B, L, D);
    b.ddelta = place(m, NULL, B, L, H);
    b.dA = place(m, NULL, H, 0, 0);
    b.dBm = place(m, NULL, B, L, N);
    b.dCm = place(m, NULL, B, L, N);
    b.dDskip = place(m, NULL, H, 0, 0);
    f.y = place(m, NULL, B, L, D);
    int rc;
    if ((rc = stream_to_device(s, m->device, m->host, m->used * sizeof(float), err)) || (rc = op_ssd(s, &f, err)) ||
        (rc = op_ssd_backward(s, &b, err)) || (rc = stream_to_host(s, m->host, m->device, m->used * sizeof(float), err)) ||
        (rc = stream_sync(s, err)))
        return rc;
    ret->forward_error = compare(want->y, read_back(m, &f.y), B * L * D);
    ret->backward_error =
        fmax(compare(want->dx, read_back(m, &b.dx), B * L * D),
             fmax(compare(want->ddelta, read_back(m, &b.ddelta), B * L * H),
                  fmax(compare(want->db, read_back(m, &b.dBm), B * L * N), compare(want->dc, read_back(m, &b.dCm), B * L * N))));
    if (ret->forward_error > tolerance || ret->backward_error > tolerance)
        return err_set(err, ERR_INTERNAL, "the scan is wrong: error %.1e forward, %.1e backward; at most %.0e is expected",
                       ret->forward_error, ret->backward_error, tolerance);
    return 0;
}

static int compute(const char *device, int threads, struct selftest *ret, struct err *err) {
    OWNED_MEMORY struct scan_case *k = calloc(1, sizeof *k);
    OWNED_MEMORY struct scan_result *want = calloc(1, sizeof *want);
    struct arrays m = {.total = 16 * (size_t)B * L * D};
    OWNED_MEMORY float *host = m.host = calloc(m.total, sizeof *m.host);
    OWNED_POINTER(device_close) struct device *dev = NULL;
    OWNED_POINTER(stream_close) struct stream *s = NULL;
    void *data = NULL;
    int rc;
    if (!k || !want || !host)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a self-test");
    if ((rc = device_open(device, threads, &dev, err)) || (rc = stream_open(dev, STREAM_NORMAL, &s, err)) ||
        (rc = device_alloc(dev, m.total * sizeof(float), &data, err)))
        return rc;
    m.device = data;
    draw_case(k);
    for (int row = 0; row < B; row++)
        for (int d = 0; d < D; d++)
            channel(k, want, row, d);
    rc = run(s, k, &m, want, ret, err);
    device_free(dev, data);
    return rc;
}

int selftest_scan(const char *device, int threads, struct selftest *ret, struct err *err) {
    double start_s = clock_s();
    *ret = (struct selftest){0};
    int rc = compute(device, threads, ret, err);
    ret->seconds = clock_s() - start_s;
    return rc;
}
