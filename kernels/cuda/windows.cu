/* windows: windows as they are, or normalised ones, out of binary16 rows in device memory, one block per window. Thread e sums
 * element e of every group of WINDOWS_GROUP rows, group after group, and a channel's rows are added in order at the end: the order
 * of lib/windows/window.c, so that the bits are the same as the CPU's. Hence no contraction of products and sums here either. */
#include "kernels/cuda/cuda.cuh"

#include <cuda_fp16.h>

enum { THREADS = 512, PERIOD_MAX = WINDOWS_GROUP * WINDOWS_MAX_CHANNELS, AHEAD = 8 };

struct windows_job {
    const uint16_t *rows;
    const uint8_t *row_labels;
    const int64_t *first;
    const int32_t *valid;
    float *x;
    uint8_t *labels;
    int64_t t;
    int c;
};

static __device__ inline double half_value(uint16_t bits) { return (double)__half2float(__ushort_as_half(bits)); }

/* Σ over groups of x, or of (x − mean)² when squares; AHEAD loads are on their way before the first is used. */
static __device__ double column_sum(const uint16_t *rows, int64_t n, int period, int e, bool squares, double mean) {
    double sum = 0;
    int64_t i = e;
    for (; i + (int64_t)(AHEAD - 1) * period < n; i += (int64_t)AHEAD * period) {
        uint16_t v[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            v[k] = rows[i + (int64_t)k * period];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            double d = half_value(v[k]) - mean;
            sum = __dadd_rn(sum, squares ? __dmul_rn(d, d) : d);
        }
    }
    for (; i < n; i += period) {
        double d = half_value(rows[i]) - mean;
        sum = __dadd_rn(sum, squares ? __dmul_rn(d, d) : d);
    }
    return sum;
}

static __device__ inline double folded(const double *sums, int channels, int c) {
    double total = 0;
    for (int r = 0; r < WINDOWS_GROUP; r++)
        total = __dadd_rn(total, sums[r * channels + c]);
    return total;
}

static __global__ void windows_kernel(struct windows_job j) {
    __shared__ double sums[PERIOD_MAX], mean[WINDOWS_MAX_CHANNELS], scale[WINDOWS_MAX_CHANNELS];
    int64_t window = blockIdx.x, first = j.first[window], valid = j.valid[window], n = valid * j.c;
    const uint16_t *rows = j.rows + first * j.c;
    float *x = j.x + window * j.t * j.c;
    int period = WINDOWS_GROUP * j.c, e = (int)threadIdx.x;
    if (e < period)
        sums[e] = column_sum(rows, n, period, e, false, 0);
    __syncthreads();
    if (e < j.c)
        mean[e] = valid > 0 ? folded(sums, j.c, e) / (double)valid : 0;
    __syncthreads();
    if (e < period)
        sums[e] = column_sum(rows, n, period, e, true, mean[e % j.c]);
    __syncthreads();
    if (e < j.c && valid > 0) {
        double deviation = sqrt(folded(sums, j.c, e) / (double)valid);
        scale[e] = 1 / (deviation > WINDOWS_FLOOR_UV ? deviation : WINDOWS_FLOOR_UV);
    }
    __syncthreads();
    for (int64_t i = e; i < j.t * j.c; i += THREADS) {
        int c = (int)(i % j.c);
        double z = i < n ? (half_value(rows[i]) - mean[c]) * scale[c] : 0;
        x[i] = (float)(z > WINDOWS_CLIP ? WINDOWS_CLIP : z < -WINDOWS_CLIP ? -WINDOWS_CLIP : z);
    }
    for (int64_t i = e; i < j.t; i += THREADS)
        j.labels[window * j.t + i] = i < valid ? j.row_labels[first + i] : 0;
}

static __global__ void cut_kernel(struct windows_job j) {
    int64_t window = blockIdx.x, first = j.first[window], valid = j.valid[window], n = valid * j.c;
    const uint16_t *rows = j.rows + first * j.c;
    for (int64_t i = threadIdx.x; i < j.t * j.c; i += THREADS)
        j.x[window * j.t * j.c + i] = i < n ? (float)half_value(rows[i]) : 0;
    for (int64_t i = threadIdx.x; i < j.t; i += THREADS)
        j.labels[window * j.t + i] = i < valid ? j.row_labels[first + i] : 0;
}

extern "C" int cuda_windows(struct stream *s, const struct windows_args *a, struct err *err) {
    (void)err;
    struct windows_job j = {a->rows,     a->row_labels,   a->first, a->valid, (float *)a->x.data, (uint8_t *)a->labels.data,
                            a->x.dim[1], (int)a->x.dim[2]};
    if (a->raw)
        CUDA_LAUNCH(cut_kernel, (unsigned)a->x.dim[0], THREADS, cuda_stream(s)->stream, j);
    else
        CUDA_LAUNCH(windows_kernel, (unsigned)a->x.dim[0], THREADS, cuda_stream(s)->stream, j);
    return 0;
}
