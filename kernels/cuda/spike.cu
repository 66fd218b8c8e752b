/* spike: one tick of a spiking network (kernels/spike.h), as three or four kernels on the stream; nothing returns to the host
 * between ticks. deliver   warps share the rows of the fired neurons, several a row where few fired, each lane with UNROLL synapses
 * on their way; rows longer than SPIKE_LONG_ROW are shared by all blocks. Integer additions commute, so the order of the atomics
 * does not show. advance   a thread per neuron: the rule of kernels/spike.h. Bits of the fired neurons, and how many each block
 * has. place     one block: where each block's fired neurons begin in the list. Up to LIST_BLOCKS blocks there is no such kernel.
 *   list      a thread per neuron: its id to its place, where each block adds up what fired before it, and the first one counts.
 *             The list is ascending, as on the CPU.
 * Compiled without contraction of products (kernels.cmake), as the CPU kernels are. */
#include "kernels/cuda/cuda.cuh"

#ifndef SPIKE_LIST_BLOCKS /* the emulator's small networks take both ways */
#define SPIKE_LIST_BLOCKS 1024
#endif

enum {
    THREADS = 256,
    WARP = 32,
    WARPS = THREADS / WARP,
    PLACE_THREADS = 1024,
    MOST_BLOCKS = 4096,
    LIST_BLOCKS = SPIKE_LIST_BLOCKS,
    UNROLL = 4,
    WAYS = 64
};

struct spike_job {
    struct spike_net net;
    struct spike_fired before, after;
    const uint32_t *inject_ids;
    const int64_t *inject_sums;
    int64_t n_inject;
    uint32_t *fired_bits, *block_fired, *block_candidates; /* of blocks of THREADS neurons */
    unsigned blocks;
};

static __device__ inline void deliver_one(const struct spike_net &net, uint32_t target, int32_t weight, int psp, uint32_t k) {
    uint32_t *touched = net.touched + target / 32, bit = 1U << target % 32;
    int64_t units = (int64_t)(weight * psp) * ((int64_t)1 << net.fraction_bits);
    units = k > 1 ? spike_divided(units, k) : units;
    if (net.wide_sums)
        atomicAdd((unsigned long long *)net.sums + target, (unsigned long long)units);
    else
        atomicAdd((int *)net.sums + target, (int)units);
    if (!(__nv_atomic_load_n(touched, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE) & bit)) /* bits are set alone, never cleared */
        atomicOr(touched, bit);
}

/* psp -1: that of each synapse. */
static __device__ void deliver_wide(const struct spike_net &net, int64_t row, int64_t first, int64_t live, int64_t step, int psp,
                                    uint32_t k) {
    const struct spike_wide *from = (const struct spike_wide *)net.synapses + row;
    for (int64_t i = first; i < live; i += UNROLL * step) {
        struct spike_wide y[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            y[u] = from[i + u * step < live ? i + u * step : i];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (i + u * step < live)
                deliver_one(net, y[u].target, y[u].weight, psp < 0 ? y[u].psp : psp, k);
    }
}

/* Synapses first, first + step, … of a row of `live`. */
static __device__ void deliver_row(const struct spike_net &net, uint32_t source, int64_t first, int64_t step) {
    int64_t row = net.row[source], live = net.live[source];
    int psp = net.psp[source], flags = net.flags[source];
    uint32_t k = net.divisor && flags & SPIKE_DIVIDES ? net.divisor[source] : 1;
    if (net.wide) {
        deliver_wide(net, row, first, live, step, flags & SPIKE_MP_DRIVEN ? psp : -1, k);
        return;
    }
    const spike_packed *from = (const spike_packed *)net.synapses + row;
    for (int64_t i = first; i < live; i += UNROLL * step) {
        spike_packed y[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            y[u] = i + u * step < live ? from[i + u * step] : 0;
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (i + u * step < live)
                deliver_one(net, spike_packed_target(y[u]), spike_packed_weight(y[u]), psp, k);
    }
}

static __global__ void deliver_kernel(struct spike_job j) {
    uint32_t n = j.before.counts->fired;
    uint64_t warp = cuda_index() / WARP, warps = cuda_stride() / WARP, ways = n ? warps / n : 1;
    ways = ways < 1 ? 1 : ways > (uint64_t)WAYS ? (uint64_t)WAYS : ways;
    for (uint64_t i = warp; i < n * ways; i += warps) {
        uint32_t source = j.before.ids[i / ways];
        if (j.net.live[source] <= SPIKE_LONG_ROW)
            deliver_row(j.net, source, (int64_t)(i % ways) * WARP + threadIdx.x % WARP, (int64_t)ways * WARP);
    }
    for (uint32_t i = 0; j.net.hubs && i < n; i++) {
        uint32_t source = j.before.ids[i];
        if (j.net.live[source] > SPIKE_LONG_ROW)
            deliver_row(j.net, source, cuda_index(), cuda_stride());
    }
}

/* The place of neuron id among the injections, or -1. */
static __device__ int64_t injection_of(const struct spike_job &j, uint32_t id) {
    int64_t low = 0, high = j.n_inject;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (j.inject_ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < j.n_inject && j.inject_ids[low] == id ? low : -1;
}

/* Takes the neuron's sum away. Sums begin at "no input", so the difference to it is what came, in wrapping arithmetic. */
static __device__ inline int64_t take_sum(const struct spike_net &net, uint32_t id) {
    if (net.wide_sums) {
        int64_t *sum = (int64_t *)net.sums + id;
        int64_t came = (int64_t)((uint64_t)*sum - (uint64_t)SPIKE_NO_INPUT_64);
        *sum = SPIKE_NO_INPUT_64;
        return came;
    }
    int32_t *sum = (int32_t *)net.sums + id;
    int32_t came = (int32_t)((uint32_t)*sum - (uint32_t)SPIKE_NO_INPUT_32);
    *sum = SPIKE_NO_INPUT_32;
    return came;
}

static __device__ struct spike_neuron load_neuron(const struct spike_net &net, uint32_t id, int flags) {
    struct spike_neuron u;
    u.v = flags & SPIKE_ACCUMULATES ? net.v[id] : 0.0f;
    u.threshold = net.threshold[id];
    u.threshold_limit = net.threshold_limit[id];
    u.leak = net.leak[id];
    u.refractory = net.refractory[id];
    u.fire_limit = net.fire_limit[id];
    u.snooze = net.snooze[id];
    u.countdown = net.countdown[id];
    u.fire_count = net.fire_count[id];
    return u;
}

/* One neuron of the network; returns whether it fires. */
static __device__ bool advance_one(const struct spike_job &j, uint32_t id, bool touched, bool *ret_may) {
    const struct spike_net &net = j.net;
    int flags = net.flags[id];
    int64_t injection = injection_of(j, id), sum = touched ? take_sum(net, id) : 0;
    bool may = flags & SPIKE_ALIVE && (touched || injection >= 0 || net.features & SPIKE_EVERY_TICK);
    *ret_may = may;
    if (injection >= 0)
        sum += j.inject_sums[injection];
    if (!may) {
        if (!(flags & SPIKE_ACCUMULATES))
            net.v[id] = 0.0f;
        return false;
    }
    struct spike_neuron u = load_neuron(net, id, flags);
    float unit = 1.0f / (float)(1 << net.fraction_bits), x;
    uint32_t tick = (uint32_t)(j.before.counts->tick + 1);
    bool fires = spike_advance(&u, (float)sum * unit, -1, spike_lucky(net.excitability[id], id, tick), true, &x);
    net.v[id] = u.v;
    net.countdown[id] = (uint16_t)u.countdown;
    net.fire_count[id] = (uint16_t)u.fire_count;
    if (fires && flags & SPIKE_MP_DRIVEN)
        net.psp[id] = spike_psp_of(x);
    return fires;
}

static __global__ void advance_kernel(struct spike_job j) {
    __shared__ uint32_t touched[WARPS], fired[WARPS], candidates[WARPS];
    uint32_t id = blockIdx.x * THREADS + threadIdx.x, word = blockIdx.x * WARPS + threadIdx.x, words = (j.net.n + 31) / 32;
    if (threadIdx.x < WARPS) {
        touched[threadIdx.x] = word < words ? j.net.touched[word] : 0;
        if (touched[threadIdx.x])
            j.net.touched[word] = 0;
    }
    __syncthreads();
    bool may = false, fires = false;
    if (id < j.net.n)
        fires = advance_one(j, id, touched[threadIdx.x / WARP] >> threadIdx.x % WARP & 1, &may);
    uint32_t fired_here = __ballot_sync(0xffffffffU, fires), candidates_here = __ballot_sync(0xffffffffU, may);
    if (threadIdx.x % WARP == 0) {
        fired[threadIdx.x / WARP] = fired_here;
        candidates[threadIdx.x / WARP] = candidates_here;
        if (blockIdx.x * WARPS + threadIdx.x / WARP < words)
            j.fired_bits[blockIdx.x * WARPS + threadIdx.x / WARP] = fired_here;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t n_fired = 0, n_candidates = 0;
        for (int i = 0; i < WARPS; i++) {
            n_fired += (uint32_t)__popc(fired[i]);
            n_candidates += (uint32_t)__popc(candidates[i]);
        }
        j.block_fired[blockIdx.x] = n_fired;
        j.block_candidates[blockIdx.x] = n_candidates;
    }
}

/* Sum over the block of N threads. */
template <unsigned N> static __device__ uint64_t block_sum(uint64_t mine, uint64_t *room) {
    room[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = N / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            room[threadIdx.x] += room[threadIdx.x + half];
        __syncthreads();
    }
    uint64_t total = room[0];
    __syncthreads();
    return total;
}

/* This thread's share of the synapses that delivered. */
static __device__ uint64_t events_of(const struct spike_job &j, uint32_t step) {
    uint64_t events = 0;
    for (uint32_t i = threadIdx.x; i < j.before.counts->fired; i += step)
        events += j.net.live[j.before.ids[i]];
    return events;
}

static __device__ void put_counts(const struct spike_job &j, uint64_t events, uint64_t fired, uint64_t candidates) {
    j.after.counts->tick = j.before.counts->tick + 1;
    j.after.counts->events = events;
    j.after.counts->fired = (uint32_t)fired;
    j.after.counts->candidates = (uint32_t)candidates;
}

/* block_fired: from how many neurons a block fired to how many fired in the blocks before it. Each thread takes a stretch of
 * blocks. */
static __global__ void place_kernel(struct spike_job j) {
    __shared__ uint64_t room[PLACE_THREADS];
    unsigned each = (j.blocks + PLACE_THREADS - 1) / PLACE_THREADS, first = threadIdx.x * each;
    unsigned end = first + each < j.blocks ? first + each : j.blocks;
    uint64_t fired = 0, candidates = 0;
    for (unsigned i = first; i < end; i++) {
        fired += j.block_fired[i];
        candidates += j.block_candidates[i];
    }
    candidates = block_sum<PLACE_THREADS>(candidates, room);
    uint64_t events = block_sum<PLACE_THREADS>(events_of(j, PLACE_THREADS), room);
    room[threadIdx.x] = fired;
    __syncthreads();
    for (unsigned step = 1; step < PLACE_THREADS; step *= 2) {
        uint64_t sum = threadIdx.x >= step ? room[threadIdx.x] + room[threadIdx.x - step] : room[threadIdx.x];
        __syncthreads();
        room[threadIdx.x] = sum;
        __syncthreads();
    }
    uint32_t place = (uint32_t)(room[threadIdx.x] - fired);
    for (unsigned i = first; i < end; i++) {
        uint32_t n = j.block_fired[i];
        j.block_fired[i] = place;
        place += n;
    }
    if (threadIdx.x == 0)
        put_counts(j, events, room[PLACE_THREADS - 1], candidates);
}

/* The fired neurons of this block to the list, the first of them at `place`. */
static __device__ void list_block(const struct spike_job &j, uint32_t place) {
    uint32_t id = blockIdx.x * THREADS + threadIdx.x, word = id / 32;
    if (id >= j.net.n || !(j.fired_bits[word] >> id % 32 & 1))
        return;
    for (uint32_t before = blockIdx.x * WARPS; before < word; before++)
        place += (uint32_t)__popc(j.fired_bits[before]);
    place += (uint32_t)__popc(j.fired_bits[word] & ((1U << id % 32) - 1));
    j.after.ids[place] = id;
    j.after.psp[place] = j.net.psp[id];
}

static __global__ void list_kernel(struct spike_job j) { list_block(j, j.block_fired[blockIdx.x]); }

/* The same from the numbers of all blocks. */
static __global__ void list_alone_kernel(struct spike_job j) {
    __shared__ uint64_t room[THREADS];
    uint64_t before = 0;
    for (unsigned i = threadIdx.x; i < blockIdx.x; i += THREADS)
        before += j.block_fired[i];
    list_block(j, (uint32_t)block_sum<THREADS>(before, room));
    if (blockIdx.x > 0)
        return;
    uint64_t fired = 0, candidates = 0;
    for (unsigned i = threadIdx.x; i < j.blocks; i += THREADS) {
        fired += j.block_fired[i];
        candidates += j.block_candidates[i];
    }
    fired = block_sum<THREADS>(fired, room);
    candidates = block_sum<THREADS>(candidates, room);
    uint64_t events = block_sum<THREADS>(events_of(j, THREADS), room);
    if (threadIdx.x == 0)
        put_counts(j, events, fired, candidates);
}

extern "C" int cuda_spike_tick(struct stream *s, const struct spike_tick_args *a, struct err *err) {
    struct spike_job j = {a->net, a->before, a->after, a->inject_ids, a->inject_sums, a->n_inject, NULL, NULL, NULL, 0};
    j.blocks = (unsigned)cuda_ceil(a->net.n, THREADS);
    struct cuda_area area = {NULL, 0};
    void *base = NULL;
    for (int round = 0; round < 2; round++) { /* measured, then cut */
        area.base = (char *)base;
        area.used = 0;
        j.fired_bits = (uint32_t *)cuda_take(&area, (size_t)j.blocks * WARPS * sizeof(uint32_t));
        j.block_fired = (uint32_t *)cuda_take(&area, (size_t)j.blocks * sizeof(uint32_t));
        j.block_candidates = (uint32_t *)cuda_take(&area, (size_t)j.blocks * sizeof(uint32_t));
        int rc = round ? 0 : cuda_scratch(s, area.used, &base, err);
        if (rc)
            return rc;
    }
    cudaStream_t stream = cuda_stream(s)->stream;
    unsigned grid = (unsigned)cuda_min(cuda_ceil(a->net.n, WARPS), MOST_BLOCKS);
    CUDA_LAUNCH(deliver_kernel, grid, THREADS, stream, j);
    CUDA_LAUNCH(advance_kernel, j.blocks, THREADS, stream, j);
    if (j.blocks <= LIST_BLOCKS) {
        CUDA_LAUNCH(list_alone_kernel, j.blocks, THREADS, stream, j);
        return 0;
    }
    CUDA_LAUNCH(place_kernel, 1, PLACE_THREADS, stream, j);
    CUDA_LAUNCH(list_kernel, j.blocks, THREADS, stream, j);
    return 0;
}
