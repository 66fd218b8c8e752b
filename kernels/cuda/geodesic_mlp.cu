/* op_mlp and op_mlp_backward: a block of threads works on some tiles of a group's rows, one after another (geodesic_mlp.cuh).
 * Gradients of parameters are added (+=), those of inputs written (=). */
#include "kernels/cuda/geodesic_mlp.cuh"

enum { MAX_BLOCKS = 64 }; /* a group's */

static __global__ void transpose_kernel(const float *w2, int64_t ld, int rows, int columns, float *out) {
    const float *from = w2 + blockIdx.y * ld;
    float *to = out + (int64_t)blockIdx.y * rows * columns;
    for (int64_t e = cuda_index(); e < (int64_t)rows * columns; e += cuda_stride())
        to[e] = from[e % rows * columns + e / rows];
}

void mlp_transpose(struct stream *s, struct mlp_shape n, const float *params, int64_t ld, int64_t groups, float *w2t) {
    dim3 grid((unsigned)cuda_ceil((int64_t)n.hidden1 * n.hidden2, MLP_THREADS), (unsigned)groups);
    CUDA_LAUNCH(transpose_kernel, grid, MLP_THREADS, cuda_stream(s)->stream, params + (int64_t)n.hidden1 * (n.in + 1), ld,
                n.hidden2, n.hidden1, w2t);
}

static __global__ void add_kernel(const float *partial, int64_t blocks, int64_t count, float *out, int64_t ld) {
    const float *from = partial + (int64_t)blockIdx.y * blocks * count;
    for (int64_t i = cuda_index(); i < count; i += cuda_stride()) {
        float sum = 0;
        for (int64_t b = 0; b < blocks; b++)
            sum += from[b * count + i];
        out[blockIdx.y * ld + i] += sum;
    }
}

void geodesic_add(struct stream *s, const float *partial, int64_t blocks, int64_t count, int64_t groups, float *out, int64_t ld) {
    dim3 grid((unsigned)cuda_ceil(count, MLP_THREADS), (unsigned)groups);
    CUDA_LAUNCH(add_kernel, grid, MLP_THREADS, cuda_stream(s)->stream, partial, blocks, count, out, ld);
}

struct mlp_job {
    struct mlp_shape shape;
    const float *params, *w2t, *x, *dy, *dtangent;
    float *y, *tangent, *dx, *partial;
    int64_t ld, rows, count, blocks;
    bool with_tangent, backward;
};

template <int H1, int H2> static __global__ void __launch_bounds__(MLP_THREADS, 1) mlp_kernel(struct mlp_job j) {
    __shared__ struct mlp_shared m;
    int64_t group = blockIdx.y;
    int rows = j.with_tangent ? MLP_ROWS / 2 : MLP_ROWS, in = j.shape.in, tid = (int)threadIdx.x;
    struct mlp_weights w = mlp_weights_of(j.shape, j.params + group * j.ld, j.w2t + group * H1 * H2);
    for (int64_t first = (int64_t)blockIdx.x * rows; first < j.rows; first += j.blocks * rows) {
        int64_t at = group * j.rows + first, n = j.rows - first < rows ? j.rows - first : rows;
        if (tid < rows) {
            for (int k = 0; k < in; k++)
                m.x[k][tid] = tid < n ? j.x[(at + tid) * in + k] : 0.0f;
            m.dy[tid] = j.backward && tid < n ? j.dy[at + tid] : 0.0f;
            if (j.with_tangent)
                m.dy[rows + tid] = j.backward && tid < n ? j.dtangent[at + tid] : 0.0f;
        }
        __syncthreads();
        mlp_tile_forward<H1, H2>(w, m, rows);
        if (!j.backward) {
            if (tid < n) {
                j.y[at + tid] = m.y[tid];
                if (j.with_tangent)
                    j.tangent[at + tid] = m.y[rows + tid];
            }
            __syncthreads();
            continue;
        }
        mlp_tile_backward<H1, H2>(w, m, rows, j.partial + (group * j.blocks + blockIdx.x) * j.count,
                                  first == (int64_t)blockIdx.x * rows, j.dx != NULL);
        for (int e = tid; j.dx && e < n * in; e += MLP_THREADS)
            j.dx[at * in + e] = m.dx[e % in][e / in];
        __syncthreads();
    }
}

static int mlp_run(struct stream *s, struct mlp_job *j, int64_t groups, float *grads, int64_t grads_ld, struct err *err) {
    int64_t tiles = cuda_ceil(j->rows, j->with_tangent ? MLP_ROWS / 2 : MLP_ROWS);
    j->count = mlp_count(j->shape);
    j->blocks = cuda_min(tiles, MAX_BLOCKS);
    struct cuda_area area = {};
    for (int pass = 0; pass < 2; pass++) {
        area.used = 0;
        j->w2t = (const float *)cuda_take(&area, (size_t)(groups * j->shape.hidden1 * j->shape.hidden2) * sizeof(float));
        j->partial = (float *)cuda_take(&area, grads ? (size_t)(groups * j->blocks * j->count) * sizeof(float) : 0);
        int rc = pass ? 0 : cuda_scratch(s, area.used, (void **)&area.base, err);
        if (rc)
            return rc;
    }
    mlp_transpose(s, j->shape, j->params, j->ld, groups, (float *)j->w2t);
    dim3 grid((unsigned)j->blocks, (unsigned)groups);
    if (j->shape.hidden1 == 128)
        CUDA_LAUNCH((mlp_kernel<128, 256>), grid, MLP_THREADS, cuda_stream(s)->stream, *j);
    else
        CUDA_LAUNCH((mlp_kernel<64, 128>), grid, MLP_THREADS, cuda_stream(s)->stream, *j);
    if (grads)
        geodesic_add(s, j->partial, j->blocks, j->count, groups, grads, grads_ld);
    return 0;
}

extern "C" int cuda_mlp(struct stream *s, const struct mlp_args *a, struct err *err) {
    struct mlp_job j = {};
    j.shape = a->shape;
    j.params = (const float *)a->params.data;
    j.ld = a->params.ld;
    j.x = (const float *)a->x.data;
    j.y = (float *)a->y.data;
    j.tangent = (float *)a->tangent.data;
    j.rows = a->x.dim[1];
    j.with_tangent = j.tangent != NULL;
    return mlp_run(s, &j, a->params.dim[0], NULL, 0, err);
}

extern "C" int cuda_mlp_backward(struct stream *s, const struct mlp_backward_args *a, struct err *err) {
    struct mlp_job j = {};
    j.shape = a->shape;
    j.params = (const float *)a->params.data;
    j.ld = a->params.ld;
    j.x = (const float *)a->x.data;
    j.dy = (const float *)a->dy.data;
    j.dtangent = (const float *)a->dtangent.data;
    j.dx = (float *)a->dx.data;
    j.rows = a->x.dim[1];
    j.with_tangent = j.dtangent != NULL;
    j.backward = true;
    return mlp_run(s, &j, a->params.dim[0], (float *)a->dparams.data, a->dparams.ld, err);
}
