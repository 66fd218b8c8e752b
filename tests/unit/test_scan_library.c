/* libbrr_scan as another program has it: the bits of the op table, slices without copies, layouts that are refused, steps that
 * carry their state in place, lent workspaces, and a calling thread whose settings stay. With BRR_TEST_DEVICE=cuda:0 on a caller's
 * stream. */
#include "unit/cmocka_all.h"

#include <dlfcn.h>
#include <omp.h>
#include <xmmintrin.h>

#include "client/scan/brr_scan.h"
#include "client/scan/xla_ffi.h"
#include "kernels/op.h"
#include "seed.h"

enum { B = 2, L = 37, D = 24, N = 5, K = 4, H = 3, P = 8, WIDE = D + 7, MOST = B * L * WIDE };

static struct {
    brr_scan *scan;
    struct device *device; /* for memory, and the table's own answers */
    struct stream *stream;
    struct brr_scan_error err;
    uint64_t state;
    uintptr_t caller; /* the caller's stream of a GPU */
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

/* ---- XLA's foreign functions: call frames made by hand ---------------------------------------------------------- */

/* Where XLA's header has the members on a machine of 64 bits. */
#define LIES(type, member, at) _Static_assert(offsetof(struct type, member) == (at), #type "." #member)
LIES(xla_extension, type, 8);
LIES(xla_extension, next, 16);
LIES(xla_version, major, 16);
LIES(xla_version, minor, 20);
LIES(xla_metadata, version, 8);
LIES(xla_metadata, traits, 32);
LIES(xla_metadata_extension, metadata, 24);
LIES(xla_buffer, dtype, 16);
LIES(xla_buffer, data, 24);
LIES(xla_buffer, rank, 32);
LIES(xla_buffer, dim, 40);
LIES(xla_buffers, n, 16);
LIES(xla_buffers, types, 24);
LIES(xla_buffers, items, 32);
LIES(xla_scalar, value, 8);
LIES(xla_attributes, names, 32);
LIES(xla_attributes, values, 40);
LIES(xla_error_create, message, 16);
LIES(xla_error_create, code, 24);
LIES(xla_stream_get, context, 16);
LIES(xla_stream_get, stream, 24);
LIES(xla_memory_allocate, bytes, 24);
LIES(xla_memory_allocate, alignment, 32);
LIES(xla_memory_allocate, data, 40);
LIES(xla_memory_free, bytes, 24);
LIES(xla_memory_free, data, 32);
LIES(xla_api, version, 16);
LIES(xla_api, error_create, 48);
LIES(xla_api, stream_get, 80);
LIES(xla_api, memory_allocate, 120);
LIES(xla_api, memory_free, 128);
LIES(xla_call, api, 16);
LIES(xla_call, context, 24);
LIES(xla_call, stage, 32);
LIES(xla_call, arguments, 40);
LIES(xla_call, results, 80);
LIES(xla_call, attributes, 120);

enum { XLA_MOST = 12 };
/* What XLA lays out for a call, and the word that it got. */
struct frame {
    struct xla_buffer buffers[2][XLA_MOST];
    int64_t dims[2][XLA_MOST][4];
    int types[2][XLA_MOST];
    void *items[2][XLA_MOST];
    struct xla_scalar scalars[XLA_MOST];
    struct xla_text names[XLA_MOST];
    struct xla_text *name_list[XLA_MOST];
    void *values[XLA_MOST];
    int attribute_types[XLA_MOST];
    struct xla_call call;
    void *(*handler)(void *call);
    void *said;
};
static struct brr_scan_error refusal;

static struct xla_error *create_error(struct xla_error_create *args) {
    assert_int_equal(args->size, 32);
    refusal.code = args->code;
    strncpy(refusal.message, args->message, sizeof refusal.message - 1);
    return (struct xla_error *)(void *)&refusal;
}
static struct xla_error *get_stream(struct xla_stream_get *args) {
    args->stream = (void *)t.caller;
    return args->context == &t ? NULL : (struct xla_error *)(void *)&refusal;
}
/* XLA refuses alignments above 16, and the memory that it gives has no more. */
enum { XLA_GIVES = 16 };
static struct xla_error *allocate(struct xla_memory_allocate *args) {
    void *data;
    if (args->alignment > XLA_GIVES || device_alloc(t.device, args->bytes + XLA_GIVES, &data, NULL))
        return (struct xla_error *)(void *)&refusal;
    args->data = (char *)data + XLA_GIVES;
    return NULL;
}
static struct xla_error *give_back(struct xla_memory_free *args) {
    assert_int_equal((uintptr_t)args->data % 256, XLA_GIVES); /* as it was given */
    assert_true(args->bytes > 0);                             /* XLA frees in the order of its stream; this test, at its end */
    return NULL;
}
static const struct xla_api api = {.size = sizeof api,
                                   .version = {.size = 24, .minor = 1},
                                   .error_create = create_error,
                                   .stream_get = get_stream,
                                   .memory_allocate = allocate,
                                   .memory_free = give_back};

static void put_frame(struct frame *f, int side, const struct brr_scan_tensor *x) {
    struct xla_buffers *list = side ? &f->call.results : &f->call.arguments;
    int64_t i = list->n++;
    f->types[side][i] = XLA_TYPE_BUFFER;
    f->items[side][i] = &f->buffers[side][i];
    f->buffers[side][i] =
        (struct xla_buffer){.size = 48, .dtype = XLA_F32, .data = x->data, .rank = x->data ? x->rank : 1, .dim = f->dims[side][i]};
    for (int d = 0; d < x->rank && x->data; d++)
        f->dims[side][i][d] = x->dim[d];
}
static void put_attribute(struct frame *f, const char *name, int dtype, const void *value) {
    int64_t i = f->call.attributes.n++;
    f->names[i] = (struct xla_text){name, strlen(name)};
    f->name_list[i] = &f->names[i];
    f->scalars[i] = (struct xla_scalar){dtype, (void *)(uintptr_t)value};
    f->values[i] = &f->scalars[i];
    f->attribute_types[i] = XLA_TYPE_SCALAR;
}
static void frame_init(struct frame *f, const struct brr_scan_selective *a, void *(*cpu)(void *), void *(*cuda)(void *)) {
    const struct brr_scan_tensor *const inputs[] = {&a->u, &a->delta, &a->A, &a->B, &a->C, &a->D, &a->delta_bias, &a->z, &a->h0};
    *f = (struct frame){.handler = on_cpu() ? cpu : cuda};
    f->call =
        (struct xla_call){.size = sizeof f->call,
                          .api = &api,
                          .context = &t,
                          .stage = XLA_EXECUTE,
                          .arguments = {.size = 40, .types = f->types[0], .items = f->items[0]},
                          .results = {.size = 40, .types = f->types[1], .items = f->items[1]},
                          .attributes = {.size = 48, .types = f->attribute_types, .names = f->name_list, .values = f->values}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        put_frame(f, 0, inputs[i]);
}
/* On a thread of XLA's, which then ends. */
static void *call_handler(void *p) {
    struct frame *f = p;
    f->said = f->handler(&f->call);
    return NULL;
}
static void call_frame(struct frame *f, const char *refused_with) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_handler, f), 0);
    pthread_join(thread, NULL);
    if (f->said && !refused_with)
        fail_msg("%s", refusal.message);
    if (refused_with && (!f->said || !strstr(refusal.message, refused_with) || refusal.code != 3))
        fail_msg("%d \"%s\" does not say \"%s\"", refusal.code, f->said ? refusal.message : "", refused_with);
}

static struct brr_scan_selective dense_selective(void) {
    struct brr_scan_selective a = selective();
    a.u = f32(numbers(B * L * D, -1, 1), 3, B, L, D);
    a.clamp_hi = 0.5f;
    return a;
}

static void test_a_call_frame_of_xla_has_the_bits_of_a_call(void **state) {
    (void)state;
    const uint8_t yes = 1, no = 0;
    const double highest = 0.5;
    const int64_t device = 0;
    struct brr_scan_selective a = dense_selective(), b = a;
    struct frame f;
    ok(brr_scan_selective(t.scan, &a, &t.err));
    b.out.data = numbers(B * L * D, 0, 0);
    b.hT.data = numbers(B * D * N, 0, 0);
    frame_init(&f, &b, brr_xla_selective_scan, brr_xla_selective_scan_cuda);
    put_frame(&f, 1, &b.out);
    put_frame(&f, 1, &b.hT);
    put_attribute(&f, "clamp_hi", XLA_F64, &highest);
    if (!on_cpu())
        put_attribute(&f, "device", XLA_S64, &device);
    put_attribute(&f, "reverse", XLA_PRED, &no);
    put_attribute(&f, "softplus", XLA_PRED, &yes);
    call_frame(&f, NULL);
    same(a.out.data, b.out.data, B * L * D);
    same(a.hT.data, b.hT.data, B * D * N);
    put_attribute(&f, "speed", XLA_PRED, &yes);
    call_frame(&f, "attribute speed; expected softplus");
    f.call.attributes.n--;
    f.buffers[0][1].dtype = XLA_F64;
    call_frame(&f, "argument 1 has XLA's type 12");
    f.buffers[0][1].dtype = XLA_F32;
    f.dims[0][2][0] = 3;
    call_frame(&f, "A");
    f.call.results.n = 1;
    call_frame(&f, "9 arguments and 1 results; expected 9 and 2");
}

static void test_a_backward_call_frame_writes_sums(void **state) {
    (void)state;
    const uint8_t yes = 1;
    const float highest = 0.5f;
    struct brr_scan_selective a = dense_selective();
    struct brr_scan_selective_backward g = {.size = sizeof g, .forward = &a, .dout = f32(numbers(B * L * D, -1, 1), 3, B, L, D)};
    g.du = g.ddelta = g.dz = a.out;
    g.dB = g.dC = a.B;
    g.dA = a.A;
    g.dD = a.D;
    g.dh0 = a.h0;
    struct brr_scan_tensor *const results[] = {&g.du, &g.ddelta, &g.dA, &g.dB, &g.dC, &g.dD, &g.ddelta_bias, &g.dz, &g.dh0};
    const int64_t n[] = {B * L * D, B * L * D, D * N, B * L * N, B * L * N, D, 0, B * L * D, B * D * N};
    struct frame f;
    frame_init(&f, &a, brr_xla_selective_scan_backward, brr_xla_selective_scan_backward_cuda);
    put_frame(&f, 0, &g.dout);
    put_frame(&f, 0, &g.dhT);
    for (int i = 0; i < 9; i++) {
        struct brr_scan_tensor other = *results[i];
        results[i]->data = n[i] ? numbers(n[i], 0, 0) : NULL;
        other.data = n[i] ? numbers(n[i], 1, 2) : NULL; /* XLA's results hold anything */
        put_frame(&f, 1, &other);
    }
    put_attribute(&f, "clamp_hi", XLA_F32, &highest);
    put_attribute(&f, "softplus", XLA_PRED, &yes);
    ok(brr_scan_selective_backward(t.scan, &g, &t.err));
    call_frame(&f, NULL);
    for (int i = 0; i < 9; i++)
        if (n[i])
            same(results[i]->data, f.buffers[1][i].data, n[i]);
    if (!on_cpu())
        return;
    float *dA = numbers(D * N, 1, 2); /* half of it as a result of two bytes an element, which is refused */
    f.buffers[1][2].data = dA;
    f.buffers[1][2].dtype = XLA_BF16;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_handler, &f), 0);
    pthread_join(thread, NULL);
    assert_non_null(f.said);
    for (int i = D * N / 2; i < D * N; i++)
        assert_true(dA[i] >= 1);
}

static void test_a_registration_is_told_the_version(void **state) {
    (void)state;
    struct xla_metadata m = {.size = sizeof m, .version = {.size = 24, .major = 9, .minor = 9}, .traits = 9};
    struct xla_metadata_extension e = {.base = {.size = 24, .type = XLA_METADATA}, .metadata = &m};
    struct xla_call call = {.size = sizeof call, .extension = &e.base, .api = &api, .stage = XLA_EXECUTE};
    assert_null(brr_xla_selective_scan(&call));
    assert_true(m.version.major == 0 && m.version.minor == 1 && m.traits == 0);
    call = (struct xla_call){.size = sizeof call, .api = &api, .stage = 1}; /* before it is executed there is nothing to do */
    assert_null(brr_xla_selective_scan(&call));
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
        ok(brr_scan_use_stream(t.scan, t.caller = new_stream(), &t.err));
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
        cmocka_unit_test(test_a_call_frame_of_xla_has_the_bits_of_a_call),
        cmocka_unit_test(test_a_backward_call_frame_writes_sums),
        cmocka_unit_test(test_a_registration_is_told_the_version),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
