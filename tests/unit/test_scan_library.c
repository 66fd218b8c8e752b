/* libbrr_scan as another program has it: the bits of the op table, slices without copies, layouts that are refused, steps that
 * carry their state in place, lent workspaces, and a calling thread whose settings stay. With BRR_TEST_DEVICE=cuda:0 on a caller's
 * stream. */
#include "unit/cmocka_all.h"

#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

#include "client/scan/brr_scan.h"
#include "kernels/op.h"
#include "seed.h"

enum { B = 2, L = 37, D = 24, N = 5, K = 4, H = 3, P = 8, WIDE = D + 7, MOST = B * L * WIDE };

static struct {
    brr_scan *scan;
    struct device *device; /* for memory, and the table's own answers */
    struct stream *stream;
    struct brr_scan_error err;
    uint64_t state;
} t;

static float draw(float low, float high) {
    t.state = t.state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (float)(t.state >> 40) / (float)(1 << 24);
}

static const char *device_name(void) {
    const char *name = getenv("BRR_TEST_DEVICE");
    return name ? name : "cpu";
}
static bool on_cpu(void) { return !strcmp(device_name(), "cpu"); }

static void ok(int rc) {
    if (rc)
        fail_msg("%d: %s", rc, t.err.message);
}
static void refused(int rc, int code, const char *words) {
    assert_int_equal(rc, code);
    assert_int_equal(t.err.code, code);
    if (!strstr(t.err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", t.err.message, words);
}

/* Device memory with n numbers of [low, high]; low == high: zeros. */
static void *numbers(int64_t n, float low, float high) {
    void *data = NULL;
    float host[MOST];
    assert_true(n <= MOST);
    for (int64_t i = 0; i < n; i++)
        host[i] = low < high ? draw(low, high) : 0;
    assert_int_equal(device_alloc(t.device, (size_t)n * sizeof(float), &data, NULL), 0);
    assert_int_equal(stream_to_device(t.stream, data, host, (size_t)n * sizeof(float), NULL), 0);
    assert_int_equal(stream_sync(t.stream, NULL), 0);
    return data;
}

static void fetch(const void *data, float *ret, int64_t n) {
    ok(brr_scan_wait(t.scan, &t.err));
    assert_int_equal(stream_to_host(t.stream, ret, data, (size_t)n * sizeof(float), NULL), 0);
    assert_int_equal(stream_sync(t.stream, NULL), 0);
}

static void same(const void *a, const void *b, int64_t n) {
    float x[MOST], y[MOST];
    fetch(a, x, n);
    fetch(b, y, n);
    assert_memory_equal(x, y, (size_t)n * sizeof(float));
}

static struct brr_scan_tensor f32(void *data, int rank, int64_t a, int64_t b, int64_t c) {
    return (struct brr_scan_tensor){.data = data, .rank = rank, .dim = {a, b, c}};
}
/* The first D of WIDE channels. */
static struct brr_scan_tensor slice(void *data) {
    return (struct brr_scan_tensor){.data = data, .rank = 3, .dim = {B, L, D}, .stride = {L * WIDE, WIDE, 1}};
}
static struct tensor own(const struct brr_scan_tensor *x) {
    struct tensor r = {.data = x->data, .rank = x->rank, .dim = {x->dim[0], x->dim[1], x->dim[2]}};
    r.ld = x->stride[x->rank - 2] ? x->stride[x->rank - 2] : x->dim[x->rank - 1];
    return r;
}

static struct brr_scan_selective selective(void) {
    return (struct brr_scan_selective){
        .size = sizeof(struct brr_scan_selective),
        .u = slice(numbers(MOST, -1, 1)),
        .delta = f32(numbers(B * L * D, -1, 1), 3, B, L, D),
        .A = f32(numbers(D * N, -3, -0.1f), 2, D, N, 0),
        .B = f32(numbers(B * L * N, -1, 1), 3, B, L, N),
        .C = f32(numbers(B * L * N, -1, 1), 3, B, L, N),
        .D = f32(numbers(D, -1, 1), 1, D, 0, 0),
        .z = f32(numbers(B * L * D, -1, 1), 3, B, L, D),
        .h0 = f32(numbers(B * D * N, -1, 1), 3, B, D, N),
        .hT = f32(numbers(B * D * N, 0, 0), 3, B, D, N),
        .out = f32(numbers(B * L * D, 0, 0), 3, B, L, D),
        .softplus = 1,
    };
}

static void test_the_bits_of_the_table(void **state) {
    (void)state;
    struct brr_scan_selective a = selective();
    ok(brr_scan_selective(t.scan, &a, &t.err));
    struct scan1_args op = {.u = own(&a.u),
                            .delta = own(&a.delta),
                            .A = own(&a.A),
                            .Bm = own(&a.B),
                            .Cm = own(&a.C),
                            .z = own(&a.z),
                            .h0 = own(&a.h0),
                            .softplus = true};
    op.Dskip = tensor_1d(a.D.data, DTYPE_F32, D);
    op.out = tensor_3d(numbers(B * L * D, 0, 0), DTYPE_F32, B, L, D);
    op.hT = tensor_3d(numbers(B * D * N, 0, 0), DTYPE_F32, B, D, N);
    struct err err = {0};
    if (op_scan1(t.stream, &op, &err))
        fail_msg("%s", err.message);
    same(a.out.data, op.out.data, B * L * D);
    same(a.hT.data, op.hT.data, B * D * N);

    struct brr_scan_selective_backward g = {.size = sizeof g,
                                            .forward = &a,
                                            .dout = f32(numbers(B * L * D, -1, 1), 3, B, L, D),
                                            .du = slice(numbers(MOST, 0, 0)),
                                            .dA = f32(numbers(D * N, 0, 0), 2, D, N, 0)};
    ok(brr_scan_selective_backward(t.scan, &g, &t.err));
    struct scan1_backward_args gop = {.fwd = op, .dout = own(&g.dout), .du = own(&g.du), .dA = own(&g.dA)};
    gop.du.data = numbers(MOST, 0, 0);
    gop.dA.data = numbers(D * N, 0, 0);
    assert_int_equal(op_scan1_backward(t.stream, &gop, NULL), 0);
    same(g.du.data, gop.du.data, MOST); /* what lies beside the slice too */
    same(g.dA.data, gop.dA.data, D * N);
}

/* Token after token with the state in place is the whole. */
static void test_steps(void **state) {
    (void)state;
    struct brr_scan_selective a = selective();
    float whole[MOST], step[MOST];
    ok(brr_scan_selective(t.scan, &a, &t.err));
    fetch(a.out.data, whole, B * L * D);
    struct brr_scan_conv c = {.size = sizeof c,
                              .x = slice(numbers(MOST, -1, 1)),
                              .w = f32(numbers(D * K, -1, 1), 2, D, K, 0),
                              .state0 = f32(numbers(B * (K - 1) * D, -1, 1), 3, B, K - 1, D),
                              .y = f32(numbers(B * L * D, 0, 0), 3, B, L, D),
                              .silu = 1};
    ok(brr_scan_conv(t.scan, &c, &t.err));
    float convolved[MOST];
    fetch(c.y.data, convolved, B * L * D);
    a.hT = a.h0;
    c.state = c.state0;
    for (int l = 0; l < L; l++) {
        struct brr_scan_selective one = a;
        struct brr_scan_tensor *const each[] = {&one.u, &one.delta, &one.B, &one.C, &one.z, &one.out};
        for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
            int64_t wide = each[i]->stride[1] ? each[i]->stride[1] : each[i]->dim[2];
            *each[i] = (struct brr_scan_tensor){.data = (float *)each[i]->data + l * wide,
                                                .rank = 3,
                                                .dim = {B, 1, each[i]->dim[2]},
                                                .stride = {L * wide, L * wide, 1}};
        }
        ok(brr_scan_selective(t.scan, &one, &t.err));
        struct brr_scan_conv tap = c;
        tap.x = (struct brr_scan_tensor){
            .data = (float *)c.x.data + l * WIDE, .rank = 3, .dim = {B, 1, D}, .stride = {L * WIDE, WIDE, 1}};
        tap.y = (struct brr_scan_tensor){.data = (float *)c.y.data + l * D, .rank = 3, .dim = {B, 1, D}, .stride = {L * D, D, 1}};
        ok(brr_scan_conv(t.scan, &tap, &t.err));
    }
    fetch(a.out.data, step, B * L * D);
    for (int i = 0; i < B * L * D; i++)
        assert_float_equal(step[i], whole[i], 1e-5);
    fetch(c.y.data, step, B * L * D);
    for (int i = 0; i < B * L * D; i++)
        assert_float_equal(step[i], convolved[i], 1e-6);
    if (on_cpu())
        assert_memory_equal(step, convolved, sizeof(float) * B * L * D);
}

/* Heads are dimensions: SSD with one A, B and C per head, of which Mamba-1 has as many channels. */
static void test_heads(void **state) {
    (void)state;
    struct brr_scan_tensor x = {.data = numbers(B * L * D, -1, 1), .rank = 4, .dim = {B, L, H, P}};
    struct brr_scan_ssd a = {.size = sizeof a,
                             .x = x,
                             .delta = f32(numbers(B * L * H, -1, 1), 3, B, L, H),
                             .A = f32(numbers(H, -3, -0.1f), 1, H, 0, 0),
                             .y = x,
                             .softplus = 1};
    a.B = a.C = (struct brr_scan_tensor){.data = numbers(B * L * N, -1, 1), .rank = 4, .dim = {B, L, 1, N}};
    a.hT = (struct brr_scan_tensor){.data = numbers(B * D * N, 0, 0), .rank = 4, .dim = {B, H, P, N}};
    a.y.data = numbers(B * L * D, 0, 0);
    ok(brr_scan_ssd(t.scan, &a, &t.err));
    struct ssd_args op = {.x = tensor_3d(x.data, DTYPE_F32, B, L, D),
                          .delta = own(&a.delta),
                          .A = tensor_1d(a.A.data, DTYPE_F32, H),
                          .Bm = tensor_3d(a.B.data, DTYPE_F32, B, L, N),
                          .Cm = tensor_3d(a.C.data, DTYPE_F32, B, L, N),
                          .y = tensor_3d(numbers(B * L * D, 0, 0), DTYPE_F32, B, L, D),
                          .hT = tensor_3d(numbers(B * D * N, 0, 0), DTYPE_F32, B, D, N),
                          .heads = H,
                          .groups = 1,
                          .softplus = true};
    assert_int_equal(op_ssd(t.stream, &op, NULL), 0);
    same(a.y.data, op.y.data, B * L * D);
    same(a.hT.data, op.hT.data, B * D * N);
    a.x.rank = 3;
    refused(brr_scan_ssd(t.scan, &a, &t.err), BRR_SCAN_INVALID, "x must be (B,L,H,P)");
}

static void test_refusals(void **state) {
    (void)state;
    struct brr_scan_selective a = selective(), b = a;
    b.u = (struct brr_scan_tensor){.data = a.u.data, .rank = 3, .dim = {B, L, D}, .stride = {L * D, 1, L}}; /* (B,D,L) */
    refused(brr_scan_selective(t.scan, &b, &t.err), BRR_SCAN_INVALID, "u (2,37,24) has strides (888,1,37)");
    b = a;
    b.delta.dim[2]--;
    refused(brr_scan_selective(t.scan, &b, &t.err), BRR_SCAN_INVALID, "delta");
    b = a;
    b.A.data = NULL;
    refused(brr_scan_selective(t.scan, &b, &t.err), BRR_SCAN_INVALID, "A is missing");
    b = a;
    b.h0.dtype = 7;
    refused(brr_scan_selective(t.scan, &b, &t.err), BRR_SCAN_INVALID, "h0 has rank 3 and type 7");
    b = a;
    b.size = 0;
    refused(brr_scan_selective(t.scan, &b, &t.err), BRR_SCAN_INVALID, "expected sizeof the structure");
    struct {
        struct brr_scan_selective known;
        int64_t later;
    } next = {.known = a, .later = 0};
    next.known.size = sizeof next;
    ok(brr_scan_selective(t.scan, &next.known, &t.err));
    next.later = 1;
    refused(brr_scan_selective(t.scan, &next.known, &t.err), BRR_SCAN_UNSUPPORTED, "this version of libbrr_scan");
    assert_int_equal(brr_scan_selective(NULL, &a, NULL), BRR_SCAN_INVALID);
    brr_scan *none = NULL;
    refused(brr_scan_open("tpu", 0, &none, &t.err), BRR_SCAN_INVALID, "device 'tpu' is unknown");
    refused(brr_scan_open("cpu", -1, &none, &t.err), BRR_SCAN_INVALID, "-1 threads");
    if (on_cpu())
        refused(brr_scan_use_stream(t.scan, 0, &t.err), BRR_SCAN_UNSUPPORTED, "no streams");
}

static void test_a_workspace_is_lent(void **state) {
    (void)state;
    struct brr_scan_workspace w = {0};
    struct brr_scan_selective a = selective();
    struct brr_scan_selective_backward g = {
        .size = sizeof g, .forward = &a, .dout = a.z, .dB = f32(numbers(B * L * N, 0, 0), 3, B, L, N)};
    ok(brr_scan_selective_backward(t.scan, &g, &t.err));
    void *first = g.dB.data;
    g.dB.data = numbers(B * L * N, 0, 0);
    a.workspace = &w;
    refused(brr_scan_selective_backward(t.scan, &g, &t.err), BRR_SCAN_EXHAUSTED, "needs a workspace of");
    assert_true(w.needed > 0);
    w.bytes = w.needed;
    assert_int_equal(device_alloc(t.device, w.bytes + 512, &w.data, NULL), 0);
    w.data = (char *)w.data + (256 - (uintptr_t)w.data % 256) % 256;
    ok(brr_scan_selective_backward(t.scan, &g, &t.err));
    same(g.dB.data, first, B * L * N);
    w.bytes--;
    refused(brr_scan_selective_backward(t.scan, &g, &t.err), BRR_SCAN_EXHAUSTED, "needs a workspace of");
    w.data = (char *)w.data + 4;
    refused(brr_scan_selective_backward(t.scan, &g, &t.err), BRR_SCAN_INVALID, "aligned to 256 bytes");
}

/* A thread that another program owns, with a team of its own and subnormal floats. */
static void *guest(void *p) {
    struct brr_scan_selective *a = p;
    omp_set_num_threads(3);
    omp_set_dynamic(1);
    _mm_setcsr(_mm_getcsr() & ~0x8040u);
    unsigned teams[3] = {0};
    ok(brr_scan_selective(t.scan, a, &t.err));
    assert_true(omp_get_max_threads() == 3 && omp_get_dynamic());
    omp_set_dynamic(0);
    assert_int_equal(_mm_getcsr() & 0x8040, 0);
#pragma omp parallel num_threads(3)
    teams[omp_get_thread_num()] = _mm_getcsr() & 0x8040;
    for (int i = 0; i < 3; i++)
        assert_int_equal(teams[i], 0);
    return NULL;
}

static void test_a_thread_of_the_caller_keeps_its_settings(void **state) {
    (void)state;
    struct brr_scan_selective a = selective(), b = a;
    ok(brr_scan_selective(t.scan, &a, &t.err));
    b.out.data = numbers(B * L * D, 0, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, guest, &b), 0);
    pthread_join(thread, NULL);
    same(a.out.data, b.out.data, B * L * D);
}

static int setup(void **state) {
    (void)state;
    t.state = test_seed();
    struct err err = {0};
    if (device_open(device_name(), 2, &t.device, &err) || stream_open(t.device, STREAM_NORMAL, &t.stream, &err))
        fail_msg("%s", err.message);
    ok(brr_scan_open(device_name(), 2, &t.scan, &t.err));
    assert_true(strlen(brr_scan_device(t.scan)) > 0 && strlen(brr_scan_library_version()) > 0);
    const char *library = getenv("BRR_CUDA_LIBRARY");
    void *emulator = on_cpu() || !library ? NULL : dlopen(library, RTLD_NOW);
    uintptr_t (*new_stream)(void) = NULL;
    if (emulator)
        *(void **)&new_stream = dlsym(emulator, "emulator_new_stream");
    if (new_stream)
        ok(brr_scan_use_stream(t.scan, new_stream(), &t.err));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    brr_scan_close(t.scan);
    brr_scan_close(NULL);
    stream_close(t.stream);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bits_of_the_table),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_workspace_is_lent),
        cmocka_unit_test(test_a_thread_of_the_caller_keeps_its_settings),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
