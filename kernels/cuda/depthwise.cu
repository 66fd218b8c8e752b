/* depthwise: any depthwise convolution; depthwise_wide.cu has the usual one. y[t,c] = act(bias[c] + Σ_k w[c,k]·x[t + k − pad, c])
 * and its gradients, one output per thread, neighbouring channels side by side. Reverse is the same sum with the taps flipped; the
 * carried state then lies at the other end of the row. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/depthwise.cuh"

enum { THREADS = 256, MAX_TAPS = 8, WIDE = 32, DEEP = 8, STRETCHES = 512, SHORTEST = 64 };

static __device__ int64_t length_of(const struct depthwise_job &j, int64_t row) { return j.lengths ? j.lengths[row] : j.length; }

/* Whether tokens t and u (which may lie outside the row: the carried state) belong to one segment. */
static __device__ bool same_segment(const struct depthwise_job &j, int64_t row, int64_t t, int64_t u) {
    if (!j.resets)
        return true;
    int64_t low = t < u ? t : u, high = t < u ? u : t, len = length_of(j, row);
    for (int64_t i = low + 1 < 0 ? 0 : low + 1; i <= high && i < len; i++)
        if (j.resets[row * j.length + i])
            return false;
    return true;
}

/* Row of the carried state that stands for time u outside [0, len), or −1. */
static __device__ int64_t state_row(const struct depthwise_job &j, int64_t row, int64_t u) {
    int64_t len = length_of(j, row), i = j.reverse ? j.taps - 2 - (u - len) : u + j.taps - 1;
    bool outside = j.reverse ? u >= len : u < 0;
    return outside && i >= 0 && i < j.taps - 1 ? i : -1;
}

static __device__ float weight_of(const struct depthwise_job &j, int64_t c, int k) {
    return j.w[c * j.taps + (j.reverse ? j.taps - 1 - k : k)];
}

/* Input at time u as output t sees it. */
static __device__ float tap_at(const struct depthwise_job &j, int64_t row, int64_t t, int64_t u, int64_t c) {
    if (!same_segment(j, row, t, u))
        return 0;
    if (u >= 0 && u < length_of(j, row))
        return act_get(j.x, (row * j.length + u) * j.x.ld + c);
    int64_t i = state_row(j, row, u);
    return i < 0 || !j.state0 ? 0.0f : j.state0[(row * (j.taps - 1) + i) * j.channels + c];
}

static __device__ float pre_at(const struct depthwise_job &j, int64_t row, int64_t t, int64_t c) {
    float sum = j.bias ? j.bias[c] : 0.0f;
    for (int k = 0; k < j.taps; k++)
        sum += weight_of(j, c, k) * tap_at(j, row, t, t + k - j.pad, c);
    return sum;
}

static __global__ void forward_kernel(struct depthwise_job j) {
    for (int64_t i = cuda_index(); i < j.batch * j.length * j.channels; i += cuda_stride()) {
        int64_t token = i / j.channels, c = i - token * j.channels, row = token / j.length, t = token - row * j.length;
        float y = 0;
        if (t < length_of(j, row)) {
            y = pre_at(j, row, t, c);
            y = j.silu ? cuda_silu(y) : y;
        }
        act_put(j.y, token * j.y.ld + c, y);
    }
}

/* The last K−1 inputs in processing order; they may lie in the state before, whose memory this may be: row n then takes its values
 * from a later row, so one thread moves all rows of a channel, the first one first. */
static __global__ void state_kernel(struct depthwise_job j) {
    int64_t keep = j.taps - 1;
    for (int64_t i = cuda_index(); i < j.batch * j.channels; i += cuda_stride()) {
        int64_t c = i % j.channels, row = i / j.channels, len = length_of(j, row), last = j.reverse ? 0 : len - 1;
        for (int64_t n = 0; n < keep; n++) {
            int64_t step = len - keep + n;
            j.state[(row * keep + n) * j.channels + c] = tap_at(j, row, last, j.reverse ? len - 1 - step : step, c);
        }
    }
}

static __global__ void pre_gradient_kernel(struct depthwise_job j) {
    for (int64_t i = cuda_index(); i < j.batch * j.length * j.channels; i += cuda_stride()) {
        int64_t token = i / j.channels, c = i - token * j.channels, row = token / j.length, t = token - row * j.length;
        float g = 0;
        if (t < length_of(j, row)) {
            g = act_get(j.dy, token * j.dy.ld + c);
            g = j.silu ? g * cuda_silu_grad(pre_at(j, row, t, c)) : g;
        }
        act_put(j.gp, i, g);
    }
}

/* Shares of dw and dbias: a block of WIDE channels by DEEP threads takes a stretch of tokens. */
static __global__ void weight_kernel(struct depthwise_job j) {
    __shared__ float room[DEEP][WIDE];
    int x = (int)threadIdx.x % WIDE, y = (int)threadIdx.x / WIDE;
    int64_t c = (int64_t)blockIdx.y * WIDE + x, first = (int64_t)blockIdx.x * j.stretch, tokens = j.batch * j.length;
    int64_t end = first + j.stretch < tokens ? first + j.stretch : tokens;
    float sum[MAX_TAPS + 1] = {0};
    for (int64_t token = first + y; c < j.channels && token < end; token += DEEP) {
        int64_t row = token / j.length, t = token - row * j.length;
        float g = act_get(j.gp, token * j.channels + c);
        if (t >= length_of(j, row))
            continue;
        sum[MAX_TAPS] += g;
#pragma unroll
        for (int k = 0; k < MAX_TAPS; k++)
            if (k < j.taps)
                sum[k] += g * tap_at(j, row, t, t + k - j.pad, c);
    }
#pragma unroll
    for (int k = 0; k <= MAX_TAPS; k++) {
        if (k >= j.taps && k < MAX_TAPS)
            continue;
        room[y][x] = sum[k];
        __syncthreads();
        if (y == 0 && c < j.channels) {
            float total = 0;
            for (int i = 0; i < DEEP; i++)
                total += room[i][x];
            j.shares[((int64_t)blockIdx.x * (j.taps + 1) + (k < MAX_TAPS ? k : j.taps)) * j.channels + c] = total;
        }
        __syncthreads();
    }
}

static __global__ void weight_sum_kernel(struct depthwise_job j) {
    for (int64_t i = cuda_index(); i < j.channels * (j.taps + 1); i += cuda_stride()) {
        int64_t c = i % j.channels, k = i / j.channels;
        double sum = 0;
#pragma unroll 16 /* few threads do this: their loads must overlap */
        for (int64_t n = 0; n < j.stretches; n++)
            sum += (double)j.shares[(n * (j.taps + 1) + k) * j.channels + c];
        if (k == j.taps && j.dbias)
            j.dbias[c] += (float)sum;
        if (k < j.taps && j.dw)
            j.dw[c * j.taps + (j.reverse ? j.taps - 1 - k : k)] += (float)sum;
    }
}

/* Gradient of the input at time u (inside the row or in the carried state). */
static __device__ float input_gradient(const struct depthwise_job &j, int64_t row, int64_t u, int64_t c) {
    int64_t len = length_of(j, row), last = j.reverse ? 0 : len - 1;
    float g = 0;
    for (int k = 0; k < j.taps; k++) {
        int64_t t = u - k + j.pad;
        if (t >= 0 && t < len && same_segment(j, row, t, u))
            g += weight_of(j, c, k) * act_get(j.gp, (row * j.length + t) * j.channels + c);
    }
    int64_t step = j.reverse ? len - 1 - u : u, i = step - (len - (j.taps - 1)); /* row of the final state that holds it */
    if (j.dstate && i >= 0 && i < j.taps - 1 && same_segment(j, row, last, u))
        g += j.dstate[(row * (j.taps - 1) + i) * j.channels + c];
    return g;
}

static __global__ void input_kernel(struct depthwise_job j) {
    for (int64_t i = cuda_index(); i < j.batch * j.length * j.channels; i += cuda_stride()) {
        int64_t token = i / j.channels, c = i - token * j.channels, row = token / j.length, u = token - row * j.length;
        act_put(j.dx, token * j.dx.ld + c, u < length_of(j, row) ? input_gradient(j, row, u, c) : 0.0f);
    }
}

static __global__ void state_gradient_kernel(struct depthwise_job j) {
    int64_t keep = j.taps - 1;
    for (int64_t i = cuda_index(); i < j.batch * keep * j.channels; i += cuda_stride()) {
        int64_t c = i % j.channels, n = i / j.channels % keep, row = i / j.channels / keep;
        int64_t u = j.reverse ? length_of(j, row) + j.taps - 2 - n : n - keep;
        j.dstate0[i] = input_gradient(j, row, u, c);
    }
}

static struct depthwise_job job_of(const struct tensor *x, const struct tensor *w, int pad_left, bool reverse) {
    struct depthwise_job j = {};
    j.batch = x->dim[0];
    j.length = x->dim[1];
    j.channels = x->dim[2];
    j.taps = (int)w->dim[1];
    j.pad = reverse ? j.taps - 1 - pad_left : pad_left;
    j.reverse = reverse;
    j.x = act_of(x);
    j.w = (const float *)w->data;
    int64_t stretch = cuda_ceil(j.batch * j.length, STRETCHES);
    j.stretch = stretch < SHORTEST ? (int64_t)SHORTEST : stretch;
    j.stretches = cuda_ceil(j.batch * j.length, j.stretch);
    return j;
}

extern "C" int cuda_conv1d_depthwise(struct stream *s, const struct conv1d_depthwise_args *a, struct err *err) {
    struct depthwise_job j = job_of(&a->x, &a->w, a->pad_left, a->reverse);
    size_t bytes = (size_t)j.batch * sizeof(int32_t);
    if (a->lengths) {
        void *lengths = NULL;
        int rc = cuda_scratch(s, bytes, &lengths, err);
        if (!rc)
            rc = cuda_upload(s, lengths, a->lengths, bytes, err);
        if (rc)
            return rc;
        j.lengths = (const int32_t *)lengths;
    }
    j.silu = a->silu;
    j.resets = (const uint8_t *)a->resets.data;
    j.y = act_of(&a->y);
    j.bias = (const float *)a->bias.data;
    j.state0 = (const float *)a->state0.data;
    j.state = (float *)a->state.data;
    cudaStream_t stream = cuda_stream(s)->stream;
    if (depthwise_is_wide(&j))
        depthwise_wide_forward(s, &j);
    else
        CUDA_LAUNCH(forward_kernel, cuda_blocks(j.batch * j.length * j.channels, THREADS), THREADS, stream, j);
    if (j.state)
        CUDA_LAUNCH(state_kernel, cuda_blocks(j.batch * j.channels, THREADS), THREADS, stream, j);
    return 0;
}

static int backward_wide(struct stream *s, struct depthwise_job *j, struct err *err) {
    j->stretches = depthwise_wide_stretches(j);
    int rc = cuda_scratch(s, (size_t)(j->stretches * (j->taps + 1) * j->channels) * sizeof(float), (void **)&j->shares, err);
    if (rc)
        return rc;
    depthwise_wide_backward(s, j);
    if (j->dw || j->dbias)
        CUDA_LAUNCH(weight_sum_kernel, cuda_blocks(j->channels * (j->taps + 1), 32), 32, cuda_stream(s)->stream, *j);
    return 0;
}

extern "C" int cuda_conv1d_depthwise_backward(struct stream *s, const struct conv1d_depthwise_backward_args *a, struct err *err) {
    struct depthwise_job j = job_of(&a->x, &a->w, a->pad_left, a->reverse);
    int64_t count = j.batch * j.length * j.channels;
    size_t bytes = (size_t)j.batch * sizeof(int32_t);
    struct cuda_area area = {NULL, 0};
    int rc = 0;
    j.silu = a->silu;
    j.resets = (const uint8_t *)a->resets.data;
    j.bias = (const float *)a->bias.data;
    j.state0 = (const float *)a->state0.data;
    j.dstate = (const float *)a->dstate.data;
    j.dstate0 = (float *)a->dstate0.data;
    j.dy = act_of(&a->dy);
    j.dx = act_of(&a->dx);
    j.dw = (float *)a->dw.data;
    j.dbias = (float *)a->dbias.data;
    if (!a->lengths && depthwise_is_wide(&j))
        return backward_wide(s, &j, err);
    for (int pass = 0; pass < 2; pass++) {
        area.used = 0;
        j.gp.data = cuda_take(&area, (size_t)count * sizeof(float));
        j.shares = (float *)cuda_take(&area, (size_t)(j.stretches * (j.taps + 1) * j.channels) * sizeof(float));
        j.lengths = (const int32_t *)cuda_take(&area, bytes);
        if (!pass && (rc = cuda_scratch(s, area.used, (void **)&area.base, err)))
            return rc;
    }
    rc = a->lengths ? cuda_upload(s, (void *)j.lengths, a->lengths, bytes, err) : 0;
    if (rc)
        return rc;
    j.lengths = a->lengths ? j.lengths : NULL;
    cudaStream_t stream = cuda_stream(s)->stream;
    CUDA_LAUNCH(pre_gradient_kernel, cuda_blocks(count, THREADS), THREADS, stream, j);
    if (j.dw || j.dbias) {
        dim3 grid((unsigned)j.stretches, (unsigned)cuda_ceil(j.channels, WIDE));
        CUDA_LAUNCH(weight_kernel, grid, WIDE * DEEP, stream, j);
        CUDA_LAUNCH(weight_sum_kernel, cuda_blocks(j.channels * (j.taps + 1), THREADS), THREADS, stream, j);
    }
    if (j.dx.data)
        CUDA_LAUNCH(input_kernel, cuda_blocks(count, THREADS), THREADS, stream, j);
    if (j.dstate0)
        CUDA_LAUNCH(state_gradient_kernel, cuda_blocks(j.batch * (j.taps - 1) * j.channels, THREADS), THREADS, stream, j);
    return 0;
}
