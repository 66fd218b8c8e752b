/* scan_forward: the recurrence h = a·h + Δ·B·x, y = C·h + D·x, with the gate; or, for the backward pass, only the states at tile
 * starts. */
#include "kernels/cuda/scan/scan_tile.cuh"

template <int LANES, int PER> static __global__ void __launch_bounds__(SCAN_THREADS) scan_forward_kernel(struct scan_job j) {
    constexpr int CHANNELS = SCAN_THREADS / LANES, STATES = LANES * PER, TILE = scan_tile(STATES);
    __shared__ struct scan_staged<TILE, CHANNELS, STATES> w;
    __shared__ float sy[TILE][CHANNELS];
    struct scan_place p = scan_place_of<CHANNELS>(j);
    int ch = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    int64_t d = p.first + ch, len = scan_length(j, p.row);
    bool real = ch < p.count;
    float a2[PER], h[PER];
    scan_load_decay<LANES, PER>(j, real, d, lane, a2);
    scan_load_state<LANES, PER>(j, real ? j.h0 : NULL, (p.row * j.channels + d) * j.states, lane, h);
    for (int64_t step0 = 0, tile = 0; step0 < len; step0 += TILE, tile++) {
        int n = (int)(len - step0 < TILE ? len - step0 : TILE);
        if (j.starts && real)
            scan_store_state<LANES, PER>(j, j.starts, (((p.row - j.first_row) * j.tiles + tile) * j.channels + d) * j.states, lane,
                                         h);
        scan_stage(j, p, step0, n, w);
        __syncthreads();
        for (int i = 0; i < n; i++) {
            float y = scan_advance<LANES, PER>(j, w, i, a2, h);
            if (!j.starts) {
                y = scan_lane_sum<LANES>(y);
                if (lane == 0)
                    sy[i][ch] = y;
            }
        }
        __syncthreads();
        for (int e = (int)threadIdx.x; !j.starts && e < n * CHANNELS; e += SCAN_THREADS) {
            int i = e / CHANNELS, c = e % CHANNELS;
            if (c >= p.count)
                continue;
            int64_t token = scan_token(j, p.row, len, step0 + i), at = p.first + c;
            float y = sy[i][c];
            if (j.dskip)
                y = __fmaf_rn(j.dskip[at / j.share], act_get(j.x, token * j.x.ld + at), y);
            if (j.z.data)
                y *= cuda_silu(act_get(j.z, token * j.z.ld + at));
            act_put(j.y, token * j.y.ld + at, y);
        }
        __syncthreads();
    }
    if (j.starts)
        return;
    scan_clear_tail(j, p, len, j.y);
    if (j.ht && real)
        scan_store_state<LANES, PER>(j, j.ht, (p.row * j.channels + d) * j.states, lane, h);
}

void scan_forward_launch(struct stream *s, const struct scan_job *from) {
    struct scan_job own = *from, *j = &own;
    own.blocks_per_group = cuda_ceil(own.per_group, scan_channels(own.states));
    cudaStream_t stream = cuda_stream(s)->stream;
    dim3 grid = scan_grid(j);
    if (j->states <= 16)
        CUDA_LAUNCH((scan_forward_kernel<4, 4>), grid, SCAN_THREADS, stream, *j);
    else if (j->states <= 64)
        CUDA_LAUNCH((scan_forward_kernel<16, 4>), grid, SCAN_THREADS, stream, *j);
    else
        CUDA_LAUNCH((scan_forward_kernel<32, 8>), grid, SCAN_THREADS, stream, *j);
}
