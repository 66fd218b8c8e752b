/* scan_backward: gradients of the scans, tile by tile from the end, each tile run forward again from its stored state:
 *   λ_t = gy_t·C_t + a_{t+1}·λ_{t+1};  dC = Σ gy·h;  dB = Σ λ·Δ·x;  S1 = Σ_n λ·B;  S2 = Σ_n λ·A·(a·h_{t−1});  dA += λ·Δ·(a·h_{t−1})
 *   dx = Δ·S1 + D·gy;  dΔ = S2 + x·S1;  with a gate: gy = dout·silu(z), dz = dout·y·silu'(z).
 * Per head S2 leaves A out, and the channels' shares of dΔ are added by scan.cu. */
#include "kernels/cuda/scan/scan_tile.cuh"

enum { WARPS = SCAN_THREADS / 32 };

template <int TILE, int CHANNELS, int STATES> struct scan_gradient_room {
    static constexpr int channels = CHANNELS;
    float x[TILE][CHANNELS], gy[TILE][CHANNELS], y[TILE][CHANNELS], s1[TILE][CHANNELS], s2[TILE][CHANNELS];
    float keep[TILE][STATES * CHANNELS]; /* the state before each step, thread by thread */
    float db[WARPS][STATES], dc[WARPS][STATES];
};

template <typename room>
static __device__ inline void stage_gradient(const struct scan_job &j, const struct scan_place &p, int64_t step0, int n, room &r) {
    constexpr int CHANNELS = room::channels;
    int64_t len = scan_length(j, p.row);
    for (int e = (int)threadIdx.x; e < n * CHANNELS; e += SCAN_THREADS) {
        int i = e / CHANNELS, c = e % CHANNELS;
        int64_t token = scan_token(j, p.row, len, step0 + i), d = p.first + c;
        bool real = c < p.count;
        float g = real ? act_get(j.dy, token * j.dy.ld + d) : 0.0f;
        if (real && j.z.data)
            g *= cuda_silu(act_get(j.z, token * j.z.ld + d));
        r.gy[i][c] = g;
        r.x[i][c] = real ? act_get(j.x, token * j.x.ld + d) : 0.0f;
    }
}

/* dx, dΔ and dz of a tile; leaves dΔ through the step rule in s2 and gy·x in s1, for the sums. */
template <typename staged, typename room>
static __device__ inline void finish_tile(const struct scan_job &j, const struct scan_place &p, int64_t step0, int n,
                                          const staged &w, room &r) {
    constexpr int CHANNELS = room::channels;
    int64_t len = scan_length(j, p.row);
    for (int e = (int)threadIdx.x; e < n * CHANNELS; e += SCAN_THREADS) {
        int i = e / CHANNELS, c = e % CHANNELS;
        if (c >= p.count)
            continue;
        int64_t token = scan_token(j, p.row, len, step0 + i), d = p.first + c, head = d / j.share;
        float x = r.x[i][c], gy = r.gy[i][c], s1 = r.s1[i][c], s2 = r.s2[i][c], skip = j.dskip ? j.dskip[head] : 0.0f;
        float along = (j.per_head ? j.a[head] * s2 : s2) + x * s1;
        if (j.per_head)
            j.head_delta[(token - j.first_row * j.length) * j.channels + d] = along;
        else
            along *= scan_step_grad(j, scan_pre(j, token, d));
        if (j.dz.data) {
            float dout = act_get(j.dy, token * j.dy.ld + d), z = act_get(j.z, token * j.z.ld + d);
            act_put(j.dz, token * j.dz.ld + d, dout * (r.y[i][c] + skip * x) * cuda_silu_grad(z));
        }
        if (j.dx.data)
            act_put(j.dx, token * j.dx.ld + d, w.delta[i][c] * s1 + skip * gy);
        if (j.ddelta.data && !j.per_head)
            act_put(j.ddelta, token * j.ddelta.ld + d, along);
        r.s1[i][c] = gy * x;
        r.s2[i][c] = along;
    }
}

/* This block's dB and dC of one token, the warps' shares added in order. */
template <typename room>
static __device__ inline void put_states(const struct scan_job &j, const struct scan_place &p, int64_t token, const room &r) {
    int64_t at = ((p.block * j.rows * j.length + token - j.first_row * j.length) * j.groups + p.group) * j.states;
    for (int n = (int)threadIdx.x; n < j.states; n += SCAN_THREADS) {
        float b = 0, c = 0;
#pragma unroll
        for (int q = 0; q < WARPS; q++) {
            b += r.db[q][n];
            c += r.dc[q][n];
        }
        j.part_b[at + n] = b;
        j.part_c[at + n] = c;
    }
}

template <int LANES> static __device__ inline float channel_sum(float v) {
#pragma unroll
    for (int m = LANES; m < 32; m *= 2)
        v += __shfl_xor_sync(0xffffffffu, v, m);
    return v;
}

/* One step backwards: λ goes from after the step to before it. */
template <int LANES, int PER, typename staged, typename room>
static __device__ inline void step_back(const struct scan_job &j, const staged &w, room &r, int i, const float (&a2)[PER],
                                        float (&sums)[2][PER]) {
    int ch = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / 32;
    float delta = w.delta[i][ch], dx = w.dx[i][ch], decay = w.decay[i][ch], gy = r.gy[i][ch], x = r.x[i][ch], s1 = 0, s2 = 0;
    bool anew = w.anew[i] != 0;
#pragma unroll
    for (int q = 0; q < PER; q++) {
        int n = lane + q * LANES;
        float v = delta * a2[q], a = j.per_head ? decay : exp2f(v), b = w.b[i][n],
              before = r.keep[i][q * SCAN_THREADS + threadIdx.x];
        float phi = j.zoh ? scan_phi(v * SCAN_LN2, a) : 1.0f, lambda = sums[0][q] + gy * w.c[i][n], next = lambda * a;
        float along = next * before, gb = channel_sum<LANES>(lambda * dx * phi),
              gc = channel_sum<LANES>(gy * (a * before + dx * b * phi));
        if ((int)threadIdx.x % 32 < LANES) {
            r.db[warp][n] = gb;
            r.dc[warp][n] = gc;
        }
        s1 += lambda * b * phi;
        s2 += j.per_head ? along : along * (a2[q] * SCAN_LN2);
        sums[1][q] += along * delta;
        if (j.zoh) {
            s2 += lambda * b * x * (a - phi);
            sums[1][q] += lambda * b * dx * delta * scan_phi_grad(v * SCAN_LN2, a);
        }
        sums[0][q] = anew ? 0.0f : next;
    }
    s1 = scan_lane_sum<LANES>(s1);
    s2 = scan_lane_sum<LANES>(s2);
    if (lane == 0) {
        r.s1[i][ch] = s1;
        r.s2[i][ch] = s2;
    }
}

/* Beyond the row's length every gradient is zero. */
static __device__ void clear_tails(const struct scan_job &j, const struct scan_place &p, int64_t len) {
    scan_clear_tail(j, p, len, j.dx);
    scan_clear_tail(j, p, len, j.dz);
    if (j.per_head) {
        struct act shares = {j.head_delta - j.first_row * j.length * j.channels, j.channels, false};
        scan_clear_tail(j, p, len, shares);
    } else {
        scan_clear_tail(j, p, len, j.ddelta);
    }
    for (int64_t e = threadIdx.x; e < (j.length - len) * j.states; e += SCAN_THREADS) {
        int64_t token = (p.row - j.first_row) * j.length + len + e / j.states;
        int64_t at = ((p.block * j.rows * j.length + token) * j.groups + p.group) * j.states + e % j.states;
        j.part_b[at] = 0;
        j.part_c[at] = 0;
    }
}

template <int LANES, int PER> static __global__ void __launch_bounds__(SCAN_THREADS, 4) scan_backward_kernel(struct scan_job j) {
    constexpr int CHANNELS = SCAN_THREADS / LANES, STATES = LANES * PER, TILE = scan_tile(STATES);
    __shared__ struct scan_staged<TILE, CHANNELS, STATES> w;
    __shared__ struct scan_gradient_room<TILE, CHANNELS, STATES> r;
    struct scan_place p = scan_place_of<CHANNELS>(j);
    int ch = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    int64_t d = p.first + ch, len = scan_length(j, p.row), local = p.row - j.first_row;
    bool real = ch < p.count;
    float a2[PER], h[PER], sums[2][PER] = {}, sum_skip = 0, sum_bias = 0; /* λ, dA */
    scan_load_decay<LANES, PER>(j, real, d, lane, a2);
    scan_load_state<LANES, PER>(j, real ? j.dht : NULL, (p.row * j.channels + d) * j.states, lane, sums[0]);
    for (int64_t tile = (len + TILE - 1) / TILE - 1; tile >= 0; tile--) {
        int64_t step0 = tile * TILE;
        int n = (int)(len - step0 < TILE ? len - step0 : TILE);
        scan_stage(j, p, step0, n, w);
        stage_gradient(j, p, step0, n, r);
        scan_load_state<LANES, PER>(j, real ? j.starts : NULL, ((local * j.tiles + tile) * j.channels + d) * j.states, lane, h);
        __syncthreads();
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int q = 0; q < PER; q++)
                r.keep[i][q * SCAN_THREADS + threadIdx.x] = w.anew[i] ? 0.0f : h[q];
            float y = scan_lane_sum<LANES>(scan_advance<LANES, PER>(j, w, i, a2, h));
            if (lane == 0)
                r.y[i][ch] = y;
        }
        for (int i = n - 1; i >= 0; i--) {
            step_back<LANES, PER>(j, w, r, i, a2, sums);
            __syncthreads();
            put_states(j, p, scan_token(j, p.row, len, step0 + i), r);
            __syncthreads();
        }
        finish_tile(j, p, step0, n, w, r);
        __syncthreads();
        for (int i = 0; i < n && real && lane == 0; i++) {
            sum_skip += r.s1[i][ch];
            sum_bias += r.s2[i][ch];
        }
        __syncthreads();
    }
    clear_tails(j, p, len);
    if (real && j.dh0)
        scan_store_state<LANES, PER>(j, j.dh0, (p.row * j.channels + d) * j.states, lane, sums[0]);
    if (j.per_head) {
        float total = 0;
#pragma unroll
        for (int q = 0; q < PER; q++)
            total += sums[1][q];
        total = scan_lane_sum<LANES>(total);
        if (real && lane == 0)
            j.part_a[local * j.channels + d] = total;
    } else if (real) {
        scan_store_state<LANES, PER>(j, j.part_a, (local * j.channels + d) * j.states, lane, sums[1]);
    }
    if (real && lane == 0) {
        j.part_skip[local * j.channels + d] = sum_skip;
        j.part_bias[local * j.channels + d] = sum_bias;
    }
}

void scan_backward_launch(struct stream *s, const struct scan_job *j) {
    cudaStream_t stream = cuda_stream(s)->stream;
    dim3 grid = scan_grid(j);
    if (j->states <= 16)
        CUDA_LAUNCH((scan_backward_kernel<4, 4>), grid, SCAN_THREADS, stream, *j);
    else if (j->states <= 64)
        CUDA_LAUNCH((scan_backward_kernel<16, 4>), grid, SCAN_THREADS, stream, *j);
    else
        CUDA_LAUNCH((scan_backward_kernel<32, 8>), grid, SCAN_THREADS, stream, *j);
}
