/* depthwise_wide: the depthwise convolution of four taps over whole rows (no lengths, segments or carried state), as the U-Net has
 * it: a thread takes 16 bytes of neighbouring channels and slides along a run of tokens, so that each input is loaded once, and the
 * backward pass (the gradient before the activation, of the weights, and of the input) is one kernel that keeps nothing in between.
 * Weights' gradients: a thread's run, then a block's runs top to bottom, then the blocks' shares in order (depthwise.cu). */
#include "kernels/cuda/depthwise.cuh"
#include "kernels/cuda/vector.cuh"

enum { TAPS = 4, THREADS = 128, LANES = 16, DEEP = THREADS / LANES, BACK_RUN = 32, SMALL = 1 << 14 };

/* Weights of a thread's channels, as they meet the inputs t − pad … t − pad + 3. */
template <int W> struct taps_of {
    float w[TAPS][W], bias[W];
    __device__ void load(const struct depthwise_job &j, int64_t c0) {
#pragma unroll
        for (int c = 0; c < W; c++) {
            float4 v = *(const float4 *)(j.w + (c0 + c) * TAPS);
            w[0][c] = j.reverse ? v.w : v.x;
            w[1][c] = j.reverse ? v.z : v.y;
            w[2][c] = j.reverse ? v.y : v.z;
            w[3][c] = j.reverse ? v.x : v.w;
            bias[c] = j.bias ? j.bias[c0 + c] : 0.0f;
        }
    }
};

template <bool BF16>
static __device__ inline void load_token(const struct act &a, const struct depthwise_job &j, int64_t row, int64_t t, int64_t c0,
                                         wide<BF16> &to) {
    to.zero();
    if (t >= 0 && t < j.length)
        to.load(a.data, (row * j.length + t) * a.ld + c0);
}

template <bool BF16, int RUN> static __global__ void __launch_bounds__(THREADS, 4) forward_kernel(struct depthwise_job j) {
    constexpr int W = wide<BF16>::N;
    int64_t groups = j.channels / W, runs = (j.length + RUN - 1) / RUN, i = cuda_index();
    if (i >= j.batch * runs * groups)
        return;
    int64_t rest = i / groups, c0 = (i - rest * groups) * W, row = rest / runs, t0 = (rest - row * runs) * RUN;
    taps_of<W> taps;
    wide<BF16> x[2 * TAPS - 1]; /* three of before, four new ones in flight together */
    taps.load(j, c0);
#pragma unroll
    for (int k = 0; k < TAPS - 1; k++)
        load_token(j.x, j, row, t0 + k - j.pad, c0, x[k]);
#pragma unroll
    for (int from = 0; from < RUN; from += TAPS) {
#pragma unroll
        for (int k = 0; k < TAPS; k++)
            load_token(j.x, j, row, t0 + from + k + TAPS - 1 - j.pad, c0, x[TAPS - 1 + k]);
#pragma unroll
        for (int q = 0; q < TAPS; q++) {
            float sum[W], v[W];
            wide<BF16> y;
#pragma unroll
            for (int c = 0; c < W; c++)
                sum[c] = taps.bias[c];
#pragma unroll
            for (int k = 0; k < TAPS; k++) {
                x[q + k].get(v);
#pragma unroll
                for (int c = 0; c < W; c++)
                    sum[c] += taps.w[k][c] * v[c];
            }
#pragma unroll
            for (int c = 0; c < W; c++)
                sum[c] = j.silu ? cuda_silu(sum[c]) : sum[c];
            y.put(sum);
            if (t0 + from + q < j.length)
                y.store(j.y.data, (row * j.length + t0 + from + q) * j.y.ld + c0);
        }
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++)
            x[k] = x[k + TAPS];
    }
}

/* A thread's sums over its run. */
template <int W> struct run_sums { float w[TAPS + 1][W]; /* the last: of the bias */ };

/* Gradients before the activation at one token, from its four inputs. */
template <bool BF16, int W>
static __device__ inline void gradient_at(const struct depthwise_job &j, const taps_of<W> &taps, const float *bias,
                                          const wide<BF16> (&x)[TAPS], const wide<BF16> &dy, float (&g)[W]) {
    float pre[W], v[W];
#pragma unroll
    for (int c = 0; c < W; c++)
        pre[c] = bias[c];
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
        x[k].get(v);
#pragma unroll
        for (int c = 0; c < W; c++)
            pre[c] += taps.w[k][c] * v[c];
    }
    dy.get(g);
#pragma unroll
    for (int c = 0; c < W; c++)
        g[c] = j.silu ? g[c] * cuda_silu_grad(pre[c]) : g[c];
}

template <bool BF16, int W>
static __device__ inline void add_token(run_sums<W> &sums, const wide<BF16> (&x)[TAPS], const float (&g)[W]) {
    float v[W];
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
        x[k].get(v);
#pragma unroll
        for (int c = 0; c < W; c++)
            sums.w[k][c] += g[c] * v[c];
    }
#pragma unroll
    for (int c = 0; c < W; c++)
        sums.w[TAPS][c] += g[c];
}

/* The block's share of dw and dbias. */
template <int W>
static __device__ inline void put_shares(const struct depthwise_job &j, const run_sums<W> &sums, int lane, int deep, int64_t c0) {
    __shared__ float room[DEEP][LANES][W];
#pragma unroll
    for (int k = 0; k <= TAPS; k++) {
#pragma unroll
        for (int c = 0; c < W; c++)
            room[deep][lane][c] = sums.w[k][c];
        __syncthreads();
        for (int c = deep; c < W && c0 < j.channels; c += DEEP) {
            float total = 0;
            for (int i = 0; i < DEEP; i++)
                total += room[i][lane][c];
            j.shares[((int64_t)blockIdx.x * (TAPS + 1) + k) * j.channels + c0 + c] = total;
        }
        __syncthreads();
    }
}

template <bool BF16> static __global__ void __launch_bounds__(THREADS, 3) backward_kernel(struct depthwise_job j) {
    constexpr int W = wide<BF16>::N;
    __shared__ float bias[LANES][W]; /* there are no registers left for it */
    int lane = (int)threadIdx.x % LANES, deep = (int)threadIdx.x / LANES;
    int64_t runs = (j.length + BACK_RUN - 1) / BACK_RUN, run = (int64_t)blockIdx.x * DEEP + deep, row = run / runs;
    int64_t c0 = ((int64_t)blockIdx.y * LANES + lane) * W, t0 = (run - row * runs) * BACK_RUN;
    int64_t t1 = t0 + BACK_RUN < j.length ? t0 + BACK_RUN : j.length;
    run_sums<W> sums = {};
    for (int c = deep; c < W; c += DEEP)
        bias[lane][c] = j.bias && c0 < j.channels ? j.bias[c0 + c] : 0.0f;
    __syncthreads();
    if (row < j.batch && c0 < j.channels) {
        taps_of<W> taps;
        wide<BF16> x[TAPS], next_x, next_dy;
        float g[TAPS][W] = {}; /* of t − 3 … t */
        int64_t t = t0 + j.pad - (TAPS - 1);
        taps.load(j, c0);
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++)
            load_token(j.x, j, row, t + k - j.pad, c0, x[k + 1]);
        load_token(j.x, j, row, t + TAPS - 1 - j.pad, c0, next_x);
        load_token(j.dy, j, row, t, c0, next_dy);
        for (; t < t1 + j.pad; t++) {
            wide<BF16> dy = next_dy;
#pragma unroll
            for (int k = 0; k < TAPS - 1; k++) {
                x[k] = x[k + 1];
#pragma unroll
                for (int c = 0; c < W; c++)
                    g[k][c] = g[k + 1][c];
            }
            x[TAPS - 1] = next_x;
            load_token(j.x, j, row, t + TAPS - j.pad, c0, next_x);
            load_token(j.dy, j, row, t + 1, c0, next_dy);
            gradient_at(j, taps, bias[lane], x, dy, g[TAPS - 1]); /* outside the row dy is 0 */
            if (t >= t0 && t < t1)
                add_token(sums, x, g[TAPS - 1]);
            int64_t u = t - j.pad;
            if (!j.dx.data || u < t0)
                continue;
            float dx[W];
            wide<BF16> out;
#pragma unroll
            for (int c = 0; c < W; c++)
                dx[c] = 0;
#pragma unroll
            for (int k = 0; k < TAPS; k++)
#pragma unroll
                for (int c = 0; c < W; c++)
                    dx[c] += taps.w[k][c] * g[TAPS - 1 - k][c];
            out.put(dx);
            out.store(j.dx.data, (row * j.length + u) * j.dx.ld + c0);
        }
    }
    put_shares(j, sums, lane, deep, c0);
}

/* ---- launches ---- */

bool depthwise_is_wide(const struct depthwise_job *j) {
    int64_t each = j->x.bf16 ? 8 : 4;
    return j->taps == TAPS && !j->lengths && !j->resets && !j->state0 && !j->state && !j->dstate && !j->dstate0 &&
           j->channels % each == 0 && (uintptr_t)j->w % 16 == 0 && act_is_wide(j->x) && act_is_wide(j->y) && act_is_wide(j->dy) &&
           act_is_wide(j->dx);
}

template <int RUN> static void forward(struct stream *s, const struct depthwise_job *j) {
    int64_t threads = j->batch * cuda_ceil(j->length, RUN) * (j->channels / (j->x.bf16 ? 8 : 4));
    unsigned blocks = (unsigned)cuda_ceil(threads, THREADS);
    if (j->x.bf16)
        CUDA_LAUNCH((forward_kernel<true, RUN>), blocks, THREADS, cuda_stream(s)->stream, *j);
    else
        CUDA_LAUNCH((forward_kernel<false, RUN>), blocks, THREADS, cuda_stream(s)->stream, *j);
}

/* Long runs load less, short ones are more threads: the results are the same. */
void depthwise_wide_forward(struct stream *s, const struct depthwise_job *j) {
    if (j->batch * j->length < SMALL)
        forward<4>(s, j);
    else
        forward<16>(s, j);
}

int64_t depthwise_wide_stretches(const struct depthwise_job *j) {
    return cuda_ceil(j->batch * cuda_ceil(j->length, BACK_RUN), DEEP);
}

void depthwise_wide_backward(struct stream *s, const struct depthwise_job *j) {
    int64_t each = j->x.bf16 ? 8 : 4;
    dim3 grid((unsigned)j->stretches, (unsigned)cuda_ceil(j->channels / each, LANES));
    if (j->x.bf16)
        CUDA_LAUNCH(backward_kernel<true>, grid, THREADS, cuda_stream(s)->stream, *j);
    else
        CUDA_LAUNCH(backward_kernel<false>, grid, THREADS, cuda_stream(s)->stream, *j);
}
