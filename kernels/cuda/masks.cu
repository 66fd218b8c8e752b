/* masks: hysteresis, opening and closing along rows, one block per row. A row is worked through in tiles, forwards and then
 * backwards, and within a tile in parallel, since all of it follows from where things happened last:
 *   run of p ≥ on reaching t = t − last(not p ≥ on);  set(t) = that run ≥ min_onset;  reset(t) likewise, or a gap;
 *   on(t) = last(set) > last(reset), or the next set is less than min_onset samples away (a run begins before what sets it);
 *   whether opening or closing takes a run follows from its length and whether it touches its segment's ends, which its last
 *   sample knows; backwards, its others learn it from there.
 * last() over a tile is a scan of maxima: each thread looks through its ITEMS samples, the threads' maxima are scanned in shared
 * memory, and each looks again from what came before. Between the passes a sample keeps flags above its value, in the mask. */
#include "kernels/cuda/cuda.cuh"

enum { THREADS = 256, ITEMS = 16, TILE = THREADS * ITEMS };
enum { VALUE = 3, FLAG_SET = 4, FLAG_WHOLE = 4, FLAG_HALF = 8, FLAG_LEFT = 16 };

/* The last places of two things, -1 = nowhere yet. */
struct places {
    int a, b;
};
static __device__ inline int later(int a, int b) { return a > b ? a : b; }
static __device__ inline struct places later_of(struct places x, struct places y) {
    struct places p = {later(x.a, y.a), later(x.b, y.b)};
    return p;
}

/* What the threads of lower rank and the tiles before have; the carry takes this tile's in. */
static __device__ struct places before(struct places mine, unsigned rank, struct places *carry, struct places *room) {
    struct places reached = *carry;
    room[rank] = mine;
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step *= 2) {
        struct places all = rank >= step ? later_of(room[rank], room[rank - step]) : room[rank];
        __syncthreads();
        room[rank] = all;
        __syncthreads();
    }
    if (rank > 0)
        reached = later_of(reached, room[rank - 1]);
    *carry = later_of(*carry, room[THREADS - 1]);
    __syncthreads();
    return reached;
}

struct latch_job {
    const float *p;
    int64_t p_step; /* from row to row; 0: all rows read the same */
    uint8_t *mask;
    const double *on, *off;
    int n, min_onset, min_offset;
};

/* The last samples that do not count towards on, and towards off. */
static __device__ inline struct places stops(struct places last, float p, int i, double on, double off) {
    if (!((double)p >= on))
        last.a = i;
    if (!((double)p < off))
        last.b = i;
    return last;
}

static __device__ inline struct places switches(struct places last, const struct latch_job &j, struct places stop, float p, int i) {
    if (i - stop.a >= j.min_onset)
        last.a = i;
    if (isnan(p) || i - stop.b >= j.min_offset)
        last.b = i;
    return last;
}

static __device__ void latch_forwards(const struct latch_job &j, const float *p, uint8_t *mask, struct places *room) {
    const struct places nowhere = {-1, -1};
    double on = j.on[blockIdx.x], off = j.off[blockIdx.x];
    struct places stop_carry = nowhere, switch_carry = nowhere;
    for (int tile = 0; tile < j.n; tile += TILE) {
        int first = tile + (int)threadIdx.x * ITEMS, end = first + ITEMS < j.n ? first + ITEMS : j.n;
        struct places mine = nowhere;
        for (int i = first; i < end; i++)
            mine = stops(mine, p[i], i, on, off);
        struct places stop_before = before(mine, threadIdx.x, &stop_carry, room), stop = stop_before;
        mine = nowhere;
        for (int i = first; i < end; i++) {
            stop = stops(stop, p[i], i, on, off);
            mine = switches(mine, j, stop, p[i], i);
        }
        struct places last = before(mine, threadIdx.x, &switch_carry, room);
        stop = stop_before;
        for (int i = first; i < end; i++) {
            stop = stops(stop, p[i], i, on, off);
            last = switches(last, j, stop, p[i], i);
            int value = isnan(p[i]) ? MASK_GAP : last.a > last.b ? MASK_ON : MASK_OFF;
            mask[i] = (uint8_t)(value | (last.a == i ? FLAG_SET : 0));
        }
    }
}

/* Places are counted from the row's end here, so that the nearest to come is the latest. */
static __device__ void latch_backwards(const struct latch_job &j, uint8_t *mask, struct places *room) {
    struct places carry = {-1, -1};
    for (int tile = (j.n - 1) / TILE * TILE; tile >= 0; tile -= TILE) {
        int first = tile + (int)threadIdx.x * ITEMS, end = first + ITEMS < j.n ? first + ITEMS : j.n;
        struct places mine = {-1, -1};
        for (int i = end - 1; i >= first; i--)
            if (mask[i] & FLAG_SET)
                mine.a = j.n - 1 - i;
        struct places next = before(mine, THREADS - 1 - threadIdx.x, &carry, room);
        for (int i = end - 1; i >= first; i--) {
            int value = mask[i] & VALUE, from_end = j.n - 1 - i;
            if (mask[i] & FLAG_SET)
                next.a = from_end;
            bool leads = next.a >= 0 && from_end - next.a < j.min_onset;
            mask[i] = (uint8_t)(leads ? MASK_ON : value);
        }
    }
}

static __global__ void latch_kernel(struct latch_job j) {
    __shared__ struct places room[THREADS];
    uint8_t *mask = j.mask + (int64_t)blockIdx.x * j.n;
    latch_forwards(j, j.p + (int64_t)blockIdx.x * j.p_step, mask, room);
    latch_backwards(j, mask, room);
}

extern "C" int cuda_hysteresis(struct stream *s, const struct hysteresis_args *a, struct err *err) {
    (void)err;
    int64_t most = (int64_t)1 << 30; /* no row is that long */
    struct latch_job j = {
        (const float *)a->p.data, a->p.dim[0] == 1 ? 0 : a->p.dim[1], (uint8_t *)a->mask.data,           a->on, a->off,
        (int)a->mask.dim[1],      (int)cuda_min(a->min_onset, most),  (int)cuda_min(a->min_offset, most)};
    CUDA_LAUNCH(latch_kernel, (unsigned)a->mask.dim[0], THREADS, cuda_stream(s)->stream, j);
    return 0;
}

struct runs_job {
    uint8_t *mask;
    int n, kernel, value; /* of the runs */
};

/* Flags of a run's samples: whether what there is of it so far is as long as the kernel, longer than half of it, and whether it
 * began at its segment's start. A place is 2·index + 1 where nothing is known of the sample, else 2·index; -1 is such a one too. */
static __device__ void flag_runs(const struct runs_job &j, uint8_t *mask, struct places *room) {
    struct places carry = {-1, -1};
    for (int tile = 0; tile < j.n; tile += TILE) {
        int first = tile + (int)threadIdx.x * ITEMS, end = first + ITEMS < j.n ? first + ITEMS : j.n;
        struct places mine = {-1, -1};
        for (int i = first; i < end; i++)
            if (mask[i] != j.value)
                mine.a = 2 * i + (mask[i] == MASK_GAP);
        struct places last = before(mine, threadIdx.x, &carry, room);
        for (int i = first; i < end; i++) {
            int length = i - (last.a < 0 ? -1 : last.a / 2);
            if (mask[i] != j.value)
                last.a = 2 * i + (mask[i] == MASK_GAP);
            else
                mask[i] = (uint8_t)(j.value | (length >= j.kernel ? FLAG_WHOLE : 0) | (length > j.kernel / 2 ? FLAG_HALF : 0) |
                                    (last.a & 1 ? FLAG_LEFT : 0));
        }
    }
}

/* Whether the run that ends with these flags goes; right: it touches its segment's end. */
static __device__ inline bool flips(const struct runs_job &j, int flags, bool right) {
    bool left = flags & FLAG_LEFT, whole = flags & FLAG_WHOLE, half = flags & FLAG_HALF;
    if (j.value == MASK_ON)
        return !whole && !(left && right) && !((left || right) && half);
    return left || right ? left != right && !half : !whole;
}

/* Backwards: a place is 2·(samples after a run's last one) + whether the run goes. */
static __device__ void flip_runs(const struct runs_job &j, uint8_t *mask, struct places *room, int *right_of_tile) {
    struct places carry = {-1, -1};
    if (threadIdx.x == 0)
        *right_of_tile = MASK_GAP;
    __syncthreads();
    for (int tile = (j.n - 1) / TILE * TILE; tile >= 0; tile -= TILE) {
        int first = tile + (int)threadIdx.x * ITEMS, kept[ITEMS + 1];
        struct places mine = {-1, -1};
        for (int k = 0; k <= ITEMS; k++)
            kept[k] = first + k >= j.n ? MASK_GAP : first + k == tile + TILE ? *right_of_tile : mask[first + k];
        for (int k = ITEMS - 1; k >= 0; k--)
            if ((kept[k] & VALUE) == j.value && (kept[k + 1] & VALUE) != j.value)
                mine.a = 2 * (j.n - 1 - first - k) + flips(j, kept[k], kept[k + 1] == MASK_GAP);
        struct places next = before(mine, THREADS - 1 - threadIdx.x, &carry, room);
        for (int k = ITEMS - 1; k >= 0; k--) {
            int value = kept[k] & VALUE;
            if (value == j.value && (kept[k + 1] & VALUE) != j.value)
                next.a = 2 * (j.n - 1 - first - k) + flips(j, kept[k], kept[k + 1] == MASK_GAP);
            if (value == j.value && next.a & 1)
                value = j.value == MASK_ON ? MASK_OFF : MASK_ON;
            if (first + k < j.n)
                mask[first + k] = (uint8_t)value;
        }
        if (threadIdx.x == 0)
            *right_of_tile = kept[0];
        __syncthreads();
    }
}

static __global__ void runs_kernel(struct runs_job j) {
    __shared__ struct places room[THREADS];
    __shared__ int right_of_tile;
    uint8_t *mask = j.mask + (int64_t)blockIdx.x * j.n;
    flag_runs(j, mask, room);
    __syncthreads();
    flip_runs(j, mask, room, &right_of_tile);
}

extern "C" int cuda_morphology(struct stream *s, const struct morphology_args *a, struct err *err) {
    (void)err;
    int64_t most = (int64_t)1 << 30; /* no row is that long */
    struct runs_job opening = {(uint8_t *)a->mask.data, (int)a->mask.dim[1], (int)cuda_min(a->opening, most), MASK_ON},
                    closing = {opening.mask, opening.n, (int)cuda_min(a->closing, most), MASK_OFF};
    CUDA_LAUNCH(runs_kernel, (unsigned)a->mask.dim[0], THREADS, cuda_stream(s)->stream, opening);
    CUDA_LAUNCH(runs_kernel, (unsigned)a->mask.dim[0], THREADS, cuda_stream(s)->stream, closing);
    return 0;
}
