/* ssd_chunks_starts: sums of a·Δ in each chunk of a head, and the states at the starts of chunks, for ssd_chunks_backward.cu. */
#include "kernels/cuda/scan/ssd_chunks_starts.cuh"

#include "kernels/cuda/scan/ssd_chunk_parts.cuh"

/* The times of each chunk; a warp has a chunk of a head. Tokens beyond the row's end have Δ = 0. */
static __global__ void __launch_bounds__(THREADS) chunk_times_kernel(struct scan_job j) {
    int heads = (int)(j.channels / WIDTH), chunk = (int)blockIdx.x / heads, lane = (int)threadIdx.x % 32;
    int64_t row = j.first_row + (int64_t)blockIdx.y * WARPS + threadIdx.x / 32;
    if (row >= j.first_row + j.rows)
        return;
    struct chunk_place at = chunk_place_of(j, row, (int)blockIdx.x % heads);
    if (chunk >= chunks_of(at.len))
        return;
    struct times *w = &start_of(j, at, chunk)->w;
    float cum[2], delta[2] = {0, 0}, whole = 0, a = j.a[at.head] * SCAN_LOG2E;
    uint64_t marks = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = half * 32 + lane;
        int step = chunk * CHUNK + i;
        float slope = 0, total;
        bool anew = false;
        if (step < at.len) {
            float pre = scan_pre(j, token_of(at, step), at.head * WIDTH);
            delta[half] = scan_step(j, pre);
            slope = scan_step_grad(j, pre);
            anew = scan_starts(j, row, at.len, step);
        }
        cum[half] = whole + sum_up(delta[half] * a, &total);
        whole += total;
        marks |= (uint64_t)__ballot_sync(0xffffffffU, anew) << half * 32;
        w->cum[i][0] = cum[half];
        w->cum[i][1] = delta[half];
        w->slope[i] = slope;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = half * 32 + lane;
        uint64_t before = marks & ~0ULL >> (63 - i), after = marks & ~1ULL << i;
        w->first[i] = before ? 0.0f : scan_exp2(cum[half]);
        float last = after ? 0.0f : scan_exp2(whole - cum[half]);
        w->last[i] = last;
        w->gain[i] = last * delta[half];
        w->begin[i] = (uint8_t)(before ? 63 - __clzll((long long)before) : 0);
        w->end[i] = (uint8_t)(after ? __ffsll((long long)after) - 2 : CHUNK - 1);
    }
}

struct start_room {
    alignas(16) __nv_bfloat16 x[CHUNK * LD], b[CHUNK * LDN];
    struct times w;
};

static __global__ void __launch_bounds__(THREADS, 8) chunk_starts_kernel(struct scan_job j) {
    __shared__ struct start_room r;
    struct chunk_place at = chunk_place_of(j, j.first_row + blockIdx.y, (int)blockIdx.x);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int chunks = chunks_of(at.len);
    float h[2][4] = {};
    for (int chunk = 0; chunk < chunks; chunk++) {
        struct wide_rows x;
        struct state_rows b;
        wide<true> w;
        struct chunk_start *start = start_of(j, at, chunk);
#pragma unroll
        for (int half = 0; half < 2; half++)
            *(uint64_t *)(start->h + warp * 16 + column16() + (lane / 4 + half * 8) * WIDTH) =
                exchange_packed(mma_pack(h[0][half * 2], h[0][half * 2 + 1]), mma_pack(h[1][half * 2], h[1][half * 2 + 1]));
        if (chunk == chunks - 1)
            break;
        x.load(at, chunk * CHUNK, j.x);
        b.load(at, chunk * CHUNK, j.bm);
        load_times(w, start);
        x.land(r.x);
        b.land(r.b);
        land_times(w, &r.w);
        __syncthreads();
        scale_all(h, r.w.first[CHUNK - 1]);
        gather(h, r.b, r.w.gain, r.x, warp * 16);
        __syncthreads();
    }
}

void ssd_chunks_starts_launch(struct stream *s, const struct scan_job *j) {
    int64_t heads = j->channels / WIDTH;
    dim3 chunks((unsigned)(j->tiles * heads), (unsigned)cuda_ceil(j->rows, WARPS)), rows((unsigned)heads, (unsigned)j->rows);
    CUDA_LAUNCH(chunk_times_kernel, chunks, THREADS, cuda_stream(s)->stream, *j);
    CUDA_LAUNCH(chunk_starts_kernel, rows, THREADS, cuda_stream(s)->stream, *j);
}
