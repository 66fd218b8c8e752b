/* gemm: the product by own kernel, for shapes and alignments the library declines, and the pass that adds a bias. */
#include "kernels/cuda/cuda.cuh"

enum { TILE = 16, THREADS = 256 };

static __device__ float operand(const void *p, bool bf16, int64_t at) {
    return bf16 ? __bfloat162float(((const __nv_bfloat16 *)p)[at]) : ((const float *)p)[at];
}

static __device__ float finished(const struct cuda_gemm &g, float sum, int64_t col) {
    float v = g.bias ? sum + operand(g.bias, g.c_bf16, col) : sum;
    return g.relu && !(v > 0) ? 0.0f : v;
}

/* One TILE × TILE piece of C per block of TILE·TILE threads; sums in order of k. */
static __global__ void gemm_kernel(struct cuda_gemm g) {
    __shared__ float ta[TILE][TILE + 1], tb[TILE][TILE + 1];
    int x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;
    int64_t col0 = (int64_t)blockIdx.y * TILE;
    for (int64_t row0 = (int64_t)blockIdx.x * TILE; row0 < g.m; row0 += (int64_t)gridDim.x * TILE) {
        float sum = 0;
        for (int64_t k0 = 0; k0 < g.k; k0 += TILE) {
            int64_t row = row0 + y, col = col0 + x;
            ta[y][x] =
                row < g.m && k0 + x < g.k ? operand(g.a, g.bf16, g.trans_a ? (k0 + x) * g.lda + row : row * g.lda + k0 + x) : 0;
            tb[y][x] =
                col < g.n && k0 + y < g.k ? operand(g.b, g.bf16, g.trans_b ? col * g.ldb + k0 + y : (k0 + y) * g.ldb + col) : 0;
            __syncthreads();
            for (int k = 0; k < TILE; k++)
                sum += ta[y][k] * tb[k][x];
            __syncthreads();
        }
        int64_t row = row0 + y, col = col0 + x;
        if (row < g.m && col < g.n) {
            struct act c = {g.c, g.ldc, g.c_bf16};
            int64_t at = row * g.ldc + col;
            act_put(c, at, finished(g, g.beta != 0 ? sum + g.beta * act_get(c, at) : sum, col));
        }
    }
}

void cuda_gemm_plain(struct stream *s, const struct cuda_gemm *g) {
    dim3 grid((unsigned)cuda_min(cuda_ceil(g->m, TILE), 65535), (unsigned)cuda_ceil(g->n, TILE));
    CUDA_LAUNCH(gemm_kernel, grid, TILE * TILE, cuda_stream(s)->stream, *g);
}

static __global__ void bias_relu_kernel(struct cuda_gemm g) {
    struct act c = {g.c, g.ldc, g.c_bf16};
    for (int64_t i = cuda_index(); i < g.m * g.n; i += cuda_stride()) {
        int64_t row = i / g.n, col = i - row * g.n, at = row * g.ldc + col;
        act_put(c, at, finished(g, act_get(c, at), col));
    }
}

void cuda_bias_relu(struct stream *s, const struct cuda_gemm *g) {
    CUDA_LAUNCH(bias_relu_kernel, cuda_blocks(g->m * g->n, THREADS), THREADS, cuda_stream(s)->stream, *g);
}
