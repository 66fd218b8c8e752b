/* rmsnorm: q = y·silu(z), out = weight·q·rs, rs = 1/sqrt(mean q² + eps) within each channel group, one block per row and group; and
 * dq = rs·(t − q̂·mean(t·q̂)), t = dout·weight, q̂ = q·rs; dy = dq·silu(z), dz = dq·y·silu'(z), dweight = Σ dout·q̂. */
#include "kernels/cuda/columns.cuh"

enum { THREADS = 128 };

struct rms_job {
    struct act y, z, out, dout, dy, dz;
    const float *weight, *rstd;
    float *save_rstd;
    int64_t width, groups;
    float eps;
};

static __global__ void rms_kernel(struct rms_job j) {
    __shared__ float room[THREADS];
    int64_t row = blockIdx.x / j.groups, first = (blockIdx.x - row * j.groups) * j.width;
    float squares = 0;
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float q = act_get(j.y, row * j.y.ld + c) * cuda_silu(act_get(j.z, row * j.z.ld + c));
        squares += q * q;
    }
    float rs = 1.0f / sqrtf(cuda_block_sum(squares, room) / (float)j.width + j.eps);
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float q = act_get(j.y, row * j.y.ld + c) * cuda_silu(act_get(j.z, row * j.z.ld + c));
        act_put(j.out, row * j.out.ld + c, q * j.weight[c] * rs);
    }
    if (threadIdx.x == 0 && j.save_rstd)
        j.save_rstd[blockIdx.x] = rs;
}

static __global__ void rms_gradient(struct rms_job j) {
    __shared__ float room[THREADS];
    int64_t row = blockIdx.x / j.groups, first = (blockIdx.x - row * j.groups) * j.width;
    float rs = j.rstd[blockIdx.x], dot = 0;
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float q = act_get(j.y, row * j.y.ld + c) * cuda_silu(act_get(j.z, row * j.z.ld + c));
        dot += act_get(j.dout, row * j.dout.ld + c) * j.weight[c] * q * rs;
    }
    float mean = cuda_block_sum(dot, room) / (float)j.width;
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float y = act_get(j.y, row * j.y.ld + c), z = act_get(j.z, row * j.z.ld + c), gate = cuda_silu(z);
        float dq = (act_get(j.dout, row * j.dout.ld + c) * j.weight[c] - y * gate * (rs * mean)) * rs;
        if (j.dy.data)
            act_put(j.dy, row * j.dy.ld + c, dq * gate);
        if (j.dz.data)
            act_put(j.dz, row * j.dz.ld + c, dq * y * cuda_silu_grad(z));
    }
}

extern "C" int cuda_rmsnorm_gated(struct stream *s, const struct rmsnorm_gated_args *a, struct err *err) {
    (void)err;
    struct rms_job j = {};
    j.y = act_of(&a->y);
    j.z = act_of(&a->z);
    j.out = act_of(&a->out);
    j.weight = (const float *)a->weight.data;
    j.save_rstd = (float *)a->save_rstd.data;
    j.groups = a->groups;
    j.width = a->y.dim[2] / a->groups;
    j.eps = a->eps;
    CUDA_LAUNCH(rms_kernel, (unsigned)(tensor_rows(&a->y) * j.groups), THREADS, cuda_stream(s)->stream, j);
    return 0;
}

extern "C" int cuda_rmsnorm_gated_backward(struct stream *s, const struct rmsnorm_gated_backward_args *a, struct err *err) {
    struct rms_job j = {};
    j.y = act_of(&a->y);
    j.z = act_of(&a->z);
    j.dout = act_of(&a->dout);
    j.dy = act_of(&a->dy);
    j.dz = act_of(&a->dz);
    j.weight = (const float *)a->weight.data;
    j.rstd = (const float *)a->save_rstd.data;
    j.groups = a->groups;
    j.width = a->y.dim[2] / a->groups;
    struct columns c = {};
    c.term = COLUMN_RMSNORM;
    c.rows = tensor_rows(&a->y);
    c.cols = a->y.dim[2];
    c.groups = j.groups;
    c.x = j.y;
    c.y = j.z;
    c.g = j.dout;
    c.rstd = j.rstd;
    if (tensor_present(&a->dweight)) { /* before dy and dz, which may lie over the inputs */
        int rc = cuda_scratch(s, cuda_columns_size(&c), (void **)&c.shares, err);
        if (rc)
            return rc;
        cuda_columns_run(s, &c);
        cuda_columns_add(s, &c, (float *)a->dweight.data, NULL);
    }
    if (j.dy.data || j.dz.data)
        CUDA_LAUNCH(rms_gradient, (unsigned)(c.rows * j.groups), THREADS, cuda_stream(s)->stream, j);
    return 0;
}
