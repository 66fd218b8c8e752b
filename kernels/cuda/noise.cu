/* noise: training windows changed in place, one thread for each column of a window, since a filter's state goes from sample to
 * sample; AHEAD samples are loaded before the first of them is filtered. Products and sums are rounded one by one: the bits of the
 * CPU. */
#include "kernels/cuda/cuda.cuh"

enum { AHEAD = 8, COLUMNS = 32 /* of a block */ };

struct noise_job {
    float *x;
    const struct noise_window *windows;
    const struct noise_channel *channels;
    const float *noise, *wave;
    int64_t t;
    int c, signals;
};

static __device__ inline float ramp_at(const struct noise_window &w, int t) {
    if (!w.period || t < w.burst || (t - w.burst) % w.period >= w.length)
        return 0;
    int at = (t - w.burst) % w.period, left = w.length - at, edge = at + 1 < left ? at + 1 : left;
    return (float)(edge < NOISE_RAMP ? edge : NOISE_RAMP) * (1.0f / (float)NOISE_RAMP);
}

static __device__ inline float with_noise(const struct noise_job &j, const struct noise_window &w, const struct noise_channel &k,
                                          float x, int t) {
    float muscle = __fmul_rn(__fmul_rn(k.muscle, ramp_at(w, t)), j.noise[(k.offset + t) % NOISE_SAMPLES]);
    float mains = __fmul_rn(k.mains, j.wave[(k.phase + t * w.step) % NOISE_WAVE]);
    return __fadd_rn(__fadd_rn(x, muscle), mains);
}

/* The section's answer to v. */
static __device__ inline float filtered(const float *band, float *state, float v) {
    float y = __fadd_rn(__fmul_rn(band[0], v), state[0]);
    state[0] = __fadd_rn(__fsub_rn(__fmul_rn(band[1], v), __fmul_rn(band[3], y)), state[1]);
    state[1] = __fsub_rn(__fmul_rn(band[2], v), __fmul_rn(band[4], y));
    return y;
}

static __global__ void noise_kernel(struct noise_job j) {
    const struct noise_window w = j.windows[blockIdx.x];
    int c = (int)(blockIdx.y * COLUMNS + threadIdx.x);
    if (c >= j.signals)
        return;
    const struct noise_channel k = j.channels[(int64_t)blockIdx.x * j.signals + c];
    float *x = j.x + blockIdx.x * j.t * j.c + c, state[2] = {0, 0}, v[AHEAD];
    bool stops = w.band[0] != 0;
    for (int t = w.first; t < w.end; t += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            v[i] = t + i < w.end ? with_noise(j, w, k, x[(int64_t)(t + i) * j.c], t + i) : 0;
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (t + i < w.end)
                x[(int64_t)(t + i) * j.c] = stops ? filtered(w.band, state, v[i]) : v[i];
    }
}

extern "C" int cuda_noise(struct stream *s, const struct noise_args *a, struct err *err) {
    (void)err;
    struct noise_job j = {(float *)a->x.data, a->windows,       a->channels, a->noise, a->wave,
                          a->x.dim[1],        (int)a->x.dim[2], a->signals};
    dim3 grid((unsigned)a->x.dim[0], (unsigned)((a->signals + COLUMNS - 1) / COLUMNS));
    CUDA_LAUNCH(noise_kernel, grid, COLUMNS, cuda_stream(s)->stream, j);
    return 0;
}
