/* After warm-up an inference pass and a training step allocate nothing: malloc and its relatives are replaced for the whole
 * process, and calls from this project's code (statically linked into this program) are told from those of shared libraries by
 * their return address. oneDNN keeps small argument tables on the heap during a call: those must be gone after the step.
 * Builds with a sanitizer, which brings its own malloc, leave this test out. */

#include "detect/seizure.h"
#include "kernels/op.h"
#include "nn/optim.h"
#include "skip.h"
#include "unit/cmocka_all.h"

static atomic_long own_allocations, live_blocks;

extern char __executable_start, etext;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

static void *count(void *p, const void *caller) {
    bool own = (const char *)caller >= &__executable_start && (const char *)caller < &etext;
    if (own)
        atomic_fetch_add(&own_allocations, 1);
    if (p)
        atomic_fetch_add(&live_blocks, 1);
    return p;
}

#define REPLACES __attribute__((visibility("default"), noinline))
REPLACES void *malloc(size_t bytes) { return count(__libc_malloc(bytes), __builtin_return_address(0)); }
REPLACES void *calloc(size_t n, size_t bytes) { return count(__libc_calloc(n, bytes), __builtin_return_address(0)); }
REPLACES void *aligned_alloc(size_t alignment, size_t bytes) {
    return count(__libc_memalign(alignment, bytes), __builtin_return_address(0));
}
REPLACES void *memalign(size_t alignment, size_t bytes);
REPLACES void *memalign(size_t alignment, size_t bytes) {
    return count(__libc_memalign(alignment, bytes), __builtin_return_address(0));
}
REPLACES int posix_memalign(void **ret, size_t alignment, size_t bytes) {
    *ret = count(__libc_memalign(alignment, bytes), __builtin_return_address(0));
    return *ret ? 0 : 12;
}
REPLACES void *realloc(void *p, size_t bytes) {
    void *q = __libc_realloc(p, bytes);
    if (p && (q || !bytes))
        atomic_fetch_sub(&live_blocks, 1);
    return count(q, __builtin_return_address(0));
}
REPLACES void free(void *p) {
    if (p)
        atomic_fetch_sub(&live_blocks, 1);
    __libc_free(p);
}

enum { BATCH = 2, WARM_UP = 3, STEPS = 3 };

struct world {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    struct optim optim;
    struct seizure_config config;
    struct tensor x, logits, dlogits, labels;
    int64_t step;
};

static void ok(int rc, const struct err *err) {
    if (rc)
        fail_msg("%s", err->message);
}

static void *zeros(size_t bytes) {
    void *p = calloc(1, bytes);
    assert_non_null(p);
    return p;
}

static void world_open(struct world *w, enum dtype precision) {
    struct err err = {0};
    *w = (struct world){0};
    ok(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 19, &w->config, &err), &err);
    w->config.window = 2048;
    struct seizure_options options = {.max_batch = BATCH, .training = true, .precision = precision};
    struct optim_config optim = {.learning_rate = 1e-3, .weight_decay = 0.05, .gradient_clip = 1, .ema = 0.99, .total_steps = 100};
    ok(device_open("cpu", 2, &w->device, &err), &err);
    ok(stream_open(w->device, STREAM_NORMAL, &w->stream, &err), &err);
    ok(seizure_new(w->device, &w->config, &options, &w->net, &err), &err);
    ok(seizure_init(w->net, w->stream, 7, 0.2, &err), &err);
    ok(optim_init(&w->optim, seizure_params(w->net), &optim, w->stream, &err), &err);
    int64_t t = w->config.window;
    size_t n = (size_t)(BATCH * t);
    w->x = tensor_3d(zeros(n * 19 * sizeof(float)), DTYPE_F32, BATCH, t, 19);
    w->logits = tensor_2d(zeros(n * sizeof(float)), DTYPE_F32, BATCH, t);
    w->dlogits = tensor_2d(zeros(n * sizeof(float)), DTYPE_F32, BATCH, t);
    w->labels = tensor_2d(zeros(n), DTYPE_U8, BATCH, t);
    for (size_t i = 0; i < n * 19; i++)
        ((float *)w->x.data)[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    memset(w->labels.data, 1, n / 4);
}

static void world_close(struct world *w) {
    optim_done(&w->optim);
    seizure_free(w->net);
    stream_close(w->stream);
    device_close(w->device);
    free(w->x.data);
    free(w->logits.data);
    free(w->dlogits.data);
    free(w->labels.data);
}

static int infer(struct world *w, struct err *err) { return seizure_infer(w->net, w->stream, &w->x, &w->logits, err); }

static int train(struct world *w, struct err *err) {
    static const int32_t valid[BATCH] = {2048, 1500};
    double sums[2];
    struct seizure_pass pass = {.seed = 1, .step = (uint32_t)w->step};
    struct loss_args loss = {.kind = LOSS_FOCAL,
                             SAME_MEMBERS(*w, logits, labels, dlogits),
                             .valid = valid,
                             .alpha = 0.5f,
                             .gamma = 2,
                             .pos_weight = 1,
                             .scale = 1e-3f,
                             .sums = sums};
    struct optim_report report;
    int rc = optim_zero_grad(&w->optim, w->stream, err);
    if (!rc)
        rc = seizure_forward_train(w->net, w->stream, &w->x, &pass, &w->logits, err);
    if (!rc)
        rc = op_loss(w->stream, &loss, err);
    if (!rc)
        rc = seizure_backward(w->net, w->stream, &w->dlogits, &pass, err);
    return rc ? rc : optim_step(&w->optim, w->stream, w->step++, &report, err);
}

static void check(int (*pass)(struct world *w, struct err *err), enum dtype precision) {
    struct device_info info;
    assert_int_equal(device_list(&info, 1), 1);
    if (precision == DTYPE_BF16 && !info.has_bf16)
        skip_because(SKIP_HARDWARE, "this CPU has no bf16 arithmetic");
    struct world w;
    struct err err = {0};
    int64_t bytes, allocations, more_bytes, more;
    world_open(&w, precision);
    long before_open = atomic_load(&own_allocations);
    assert_true(before_open > 0); /* the counting works */
    for (int i = 0; i < WARM_UP; i++)
        ok(pass(&w, &err), &err);
    device_alloc_stats(w.device, &bytes, &allocations);
    for (int i = 0; i < STEPS; i++) {
        long own = atomic_load(&own_allocations), live = atomic_load(&live_blocks);
        ok(pass(&w, &err), &err);
        own = atomic_load(&own_allocations) - own;
        live = atomic_load(&live_blocks) - live;
        if (own || live)
            fail_msg("pass %d: %ld allocations of our own, %ld blocks more than before", i, own, live);
    }
    device_alloc_stats(w.device, &more_bytes, &more);
    assert_int_equal(bytes, more_bytes);
    assert_int_equal(allocations, more);
    world_close(&w);
}

static void an_inference_pass_allocates_nothing(void **state) {
    (void)state;
    check(infer, DTYPE_F32);
}

static void an_inference_pass_in_bf16_allocates_nothing(void **state) {
    (void)state;
    check(infer, DTYPE_BF16);
}

static void a_training_step_allocates_nothing(void **state) {
    (void)state;
    check(train, DTYPE_F32);
}

static void a_training_step_in_bf16_allocates_nothing(void **state) {
    (void)state;
    check(train, DTYPE_BF16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inference_pass_allocates_nothing),
        cmocka_unit_test(an_inference_pass_in_bf16_allocates_nothing),
        cmocka_unit_test(a_training_step_allocates_nothing),
        cmocka_unit_test(a_training_step_in_bf16_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
