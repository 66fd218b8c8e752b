/* eltwise: element-wise ops, dropout (the same Philox numbers as base/rng.c) and the sigmoid. */
#include "base/philox.h"
#include "kernels/cuda/cuda.cuh"

enum { THREADS = 256 };

struct eltwise_job {
    enum eltwise_kind kind;
    int64_t count, cols;
    struct act a, b, y;
    float alpha;
};

static __global__ void eltwise_kernel(struct eltwise_job j) {
    for (int64_t i = cuda_index(); i < j.count; i += cuda_stride()) {
        int64_t row = i / j.cols, col = i - row * j.cols, at = row * j.y.ld + col;
        float a = j.a.data ? act_get(j.a, row * j.a.ld + col) : 0.0f, b = j.b.data ? act_get(j.b, row * j.b.ld + col) : 0.0f, y = 0;
        switch (j.kind) {
        case ELTWISE_COPY:
            y = a;
            break;
        case ELTWISE_ADD:
            y = a + b;
            break;
        case ELTWISE_ADD_RELU:
            y = a + b > 0 ? a + b : 0;
            break;
        case ELTWISE_RELU:
            y = a > 0 ? a : 0;
            break;
        case ELTWISE_RELU_BACKWARD:
            y = b > 0 ? a : 0;
            break;
        case ELTWISE_SCALE:
            y = j.alpha * a;
            break;
        case ELTWISE_FILL:
            y = j.alpha;
            break;
        case ELTWISE_NEG_EXP:
            y = -expf(a);
            break;
        case ELTWISE_MUL_ADD:
            y = act_get(j.y, at) + a * b;
            break;
        }
        act_put(j.y, at, y);
    }
}

/* Rank 1 is one row, whatever its ld. */
static struct act rows_of(const struct tensor *t) {
    struct act a = act_of(t);
    if (t->rank < 2)
        a.ld = t->dim[0];
    return a;
}

extern "C" int cuda_eltwise(struct stream *s, const struct eltwise_args *a, struct err *err) {
    (void)err;
    struct eltwise_job j = {a->kind, tensor_count(&a->y), a->y.dim[a->y.rank - 1], rows_of(&a->a), rows_of(&a->b), rows_of(&a->y),
                            a->alpha};
    bool dense = tensor_dense(&a->y) && (!a->a.data || tensor_dense(&a->a)) && (!a->b.data || tensor_dense(&a->b));
    if (dense)
        j.cols = j.count;
    CUDA_LAUNCH(eltwise_kernel, cuda_blocks(j.count, THREADS), THREADS, cuda_stream(s)->stream, j);
    return 0;
}

struct dropout_job {
    struct act x, y;
    int64_t count, t, c, row0;
    uint64_t seed;
    uint32_t rng_stream, step;
    float p, scale;
    bool per_channel;
    const struct train_place *place; /* or NULL */
};

static __device__ float uniform_at(const struct dropout_job &j, uint64_t n) {
    uint32_t c[4];
    philox(j.seed, j.rng_stream, j.step, n / 4, c);
    uint32_t lane = (uint32_t)(n % 4), bits = lane == 0 ? c[0] : lane == 1 ? c[1] : lane == 2 ? c[2] : c[3];
    return (float)(bits >> 8) * 0x1p-24f;
}

static __global__ void dropout_kernel(struct dropout_job j) {
    if (j.place) {
        j.step = j.place->step;
        j.row0 = j.place->row0;
    }
    for (int64_t i = cuda_index(); i < j.count; i += cuda_stride()) {
        int64_t batch = i / (j.t * j.c), inside = i - batch * j.t * j.c;
        uint64_t row = (uint64_t)(j.row0 + batch);
        uint64_t n =
            j.per_channel ? row * (uint64_t)j.c + (uint64_t)(inside % j.c) : row * (uint64_t)(j.t * j.c) + (uint64_t)inside;
        float keep = uniform_at(j, n) >= j.p ? j.scale : 0.0f;
        act_put(j.y, i, act_get(j.x, i) * keep);
    }
}

extern "C" int cuda_dropout(struct stream *s, const struct dropout_args *a, struct err *err) {
    if (a->p == 0) {
        if (a->y.data == a->x.data)
            return 0;
        struct eltwise_args copy = {};
        copy.kind = ELTWISE_COPY;
        copy.a = a->x;
        copy.y = a->y;
        return cuda_eltwise(s, &copy, err);
    }
    struct dropout_job j = {
        act_of(&a->x), act_of(&a->y), tensor_count(&a->x),  a->x.dim[1],    a->x.dim[2], a->row0, a->seed, a->rng_stream,
        a->step,       a->p,          1.0f / (1.0f - a->p), a->per_channel, a->place};
    CUDA_LAUNCH(dropout_kernel, cuda_blocks(j.count, THREADS), THREADS, cuda_stream(s)->stream, j);
    return 0;
}

static __global__ void sigmoid_kernel(const float *x, float *y, int64_t count) {
    for (int64_t i = cuda_index(); i < count; i += cuda_stride())
        y[i] = sigmoid_of(x[i]);
}

extern "C" int cuda_sigmoid(struct stream *s, const struct sigmoid_args *a, struct err *err) {
    (void)err;
    int64_t count = tensor_count(&a->x);
    CUDA_LAUNCH(sigmoid_kernel, cuda_blocks(count, THREADS), THREADS, cuda_stream(s)->stream, (const float *)a->x.data,
                (float *)a->y.data, count);
    return 0;
}
