/* spike: one tick of a spiking network (kernels/spike.h), as three kernels on the stream, or four; nothing returns to the host
 * between ticks.
 *
 * Deliver: warps share the rows of the fired neurons, several a row where few fired, each lane with UNROLL synapses on their way.
 * The grid is one wave; a warp that takes several rows loads early what describes the next one. Rows longer than SPIKE_LONG_ROW are
 * shared by all blocks. Integer additions commute, so the order of the atomics does not show.
 *
 * Advance: a thread per neuron applies the rule of kernels/spike.h. Each block leaves bits of its fired neurons and their number.
 *
 * List: a thread per 8 neurons writes their ids to their places. Each block adds up what fired before it, and one more block counts
 * all; above LIST_BLOCKS blocks of advance a kernel of one block, place, does both first. The list is ascending, as on the CPU.
 *
 * Merge: ranks that share a network list their own neurons; the lists of all of them, of which others' lie on other GPUs, become
 * one.
 *
 * Compiled without contraction of products (kernels.cmake), as the CPU kernels are. */
#include "kernels/cuda/cuda.cuh"

#ifdef SPIKE_LIST_BLOCKS /* the emulator: its small networks take both ways to the list, and warps take several rows */
#define SPIKE_DELIVER_GRID 3
#else
#define SPIKE_LIST_BLOCKS  8192
#define SPIKE_DELIVER_GRID (6 * 132) /* one wave of an H100 or H200 */
#endif

enum {
    THREADS = 256,
    WARP = 32,
    WARPS = THREADS / WARP,
    PLACE_THREADS = 1024,
    DELIVER_GRID = SPIKE_DELIVER_GRID,
    LIST_BLOCKS = SPIKE_LIST_BLOCKS,
    LIST_EACH = 8,                   /* neurons of a thread */
    LIST_PARTS = LIST_EACH,          /* blocks of advance in one of list, a warp each */
    LIST_WORDS = LIST_PARTS * WARPS, /* of bits */
    UNROLL = 4,
    WAYS = 128,
    MERGE_EACH = 8, /* neurons that a thread merges where a whole part has fired, */
    MERGE_GRID = 64 /* or more: blocks for a part at most */
};

struct spike_job {
    struct spike_net net;
    struct spike_fired before, after;
    const uint32_t *inject_ids;
    const int64_t *inject_sums;
    int64_t n_inject;
    uint32_t *fired_bits;
    uint32_t *block_counts; /* of blocks of THREADS neurons: how many fired, and from bit 16 on how many were candidates */
    uint32_t *block_place;  /* where their fired neurons begin in the list */
    uint64_t *block_events; /* of deliver's blocks */
    unsigned blocks, deliver_blocks;
};

/* ---- deliver --------------------------------------------------------------------------------------------------- */

/* A fired neuron's row. PLAIN here and below: synapses are packed, sums narrow, and no source divides. */
template <bool PLAIN> struct spike_row {
    int64_t first;
    uint32_t live, k;
    int psp, flags;
    __device__ void load(const struct spike_net &net, uint32_t source) {
        first = net.row[source];
        live = net.live[source];
        psp = net.psp[source];
        flags = PLAIN ? 0 : net.flags[source];
        k = !PLAIN && net.divisor && flags & SPIKE_DIVIDES ? net.divisor[source] : 1;
    }
};

/* target: its place among the sums. */
template <bool PLAIN>
static __device__ inline void deliver_one(const struct spike_net &net, uint32_t target, int32_t weight, int psp, uint32_t k) {
    int64_t units = PLAIN ? (int32_t)((uint32_t)(weight * psp) << net.fraction_bits)
                          : (int64_t)(weight * psp) * ((int64_t)1 << net.fraction_bits);
    units = !PLAIN && k > 1 ? spike_divided(units, k) : units;
    if (PLAIN || !net.wide_sums) {
        atomicAdd((unsigned long long *)net.sums + target, ((unsigned long long)units << 32) + 1);
        return;
    }
    uint32_t *touched = net.touched + target / 32, bit = 1U << target % 32;
    atomicAdd((unsigned long long *)net.sums + target, (unsigned long long)units);
    if (!(__nv_atomic_load_n(touched, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE) & bit)) /* bits are set alone, never cleared */
        atomicOr(touched, bit);
}

/* UNROLL synapses of a row from `at` on, `step` apart, of which `rest` come before the end. psp -1: that of each synapse. */
static __device__ inline void deliver_wide(const struct spike_net &net, uint32_t now, int64_t at, uint32_t rest, uint32_t step,
                                           int psp, uint32_t k) {
    const struct spike_wide *from = (const struct spike_wide *)net.synapses + at;
    struct spike_wide y[UNROLL];
#pragma unroll
    for (uint32_t u = 0; u < UNROLL; u++)
        y[u] = from[u * step < rest ? u * step : 0];
#pragma unroll
    for (uint32_t u = 0; u < UNROLL; u++)
        if (u * step < rest)
            deliver_one<false>(net, spike_sums_at(&net, now, y[u].later) + y[u].target, y[u].weight, psp < 0 ? y[u].psp : psp, k);
}
template <bool PLAIN>
static __device__ inline void deliver_packed(const struct spike_net &net, int64_t at, uint32_t rest, uint32_t step, int psp,
                                             uint32_t k) {
    const spike_packed *from = (const spike_packed *)net.synapses + at;
    spike_packed y[UNROLL];
#pragma unroll
    for (uint32_t u = 0; u < UNROLL; u++)
        y[u] = u * step < rest ? from[u * step] : 0;
#pragma unroll
    for (uint32_t u = 0; u < UNROLL; u++)
        if (u * step < rest)
            deliver_one<PLAIN>(net, spike_packed_target(y[u]), spike_packed_weight(y[u]), psp, k);
}

/* Of the tick, among the sums. */
static __device__ inline uint32_t ring_row(const struct spike_job &j) {
    return j.net.delays > 1 ? (uint32_t)((j.before.counts->tick + 1) % (uint64_t)j.net.delays) : 0;
}

/* Synapses first, first + step, … of a row. */
template <bool PLAIN>
static __device__ void deliver_row(const struct spike_net &net, uint32_t now, const struct spike_row<PLAIN> &r, uint32_t first,
                                   uint32_t step) {
    int64_t at = r.first + first;
    for (uint32_t rest = first < r.live ? r.live - first : 0; rest > 0; at += UNROLL * step) {
        if (!PLAIN && net.wide)
            deliver_wide(net, now, at, rest, step, r.flags & SPIKE_MP_DRIVEN ? r.psp : -1, r.k);
        else
            deliver_packed<PLAIN>(net, at, rest, step, r.psp, r.k);
        rest = rest > UNROLL * step ? rest - UNROLL * step : 0;
    }
}

/* The rows no longer than SPIKE_LONG_ROW; returns in each warp's first lane the synapses of the rows that were the warp's, of any
 * length. With `ways` above 1 each warp has one way of one row. */
template <bool PLAIN> static __device__ uint64_t deliver_rows(const struct spike_job &j, uint32_t n) {
    uint32_t warp = (uint32_t)cuda_index() / WARP, warps = (uint32_t)cuda_stride() / WARP, lane = threadIdx.x % WARP;
    uint32_t ways = warps / n < 1 ? 1 : warps / n > (uint32_t)WAYS ? (uint32_t)WAYS : warps / n;
    uint64_t events = 0, at = warp / ways;
    uint32_t way = warp % ways, step = warps / ways, now = PLAIN ? 0 : ring_row(j);
    if (at >= n || at >= step)
        return 0; /* warps beyond the last whole set of ways */
    struct spike_row<PLAIN> next = {};
    uint32_t second = at + step < n ? j.before.ids[at + step] : 0; /* loaded two rows ahead, what it leads to one row ahead */
    next.load(j.net, j.before.ids[at]);
    for (; at < n; at += step) {
        struct spike_row<PLAIN> r = next;
        uint32_t source = second;
        if (at + step < n)
            next.load(j.net, source);
        if (at + 2 * (uint64_t)step < n)
            second = j.before.ids[at + 2 * (uint64_t)step];
        if (r.live <= SPIKE_LONG_ROW)
            deliver_row<PLAIN>(j.net, now, r, way * WARP + lane, ways * WARP);
        if (way == 0)
            events += r.live;
    }
    return events;
}

/* The longer ones, by all blocks. A warp looks at the lengths of WARP rows at once. */
template <bool PLAIN> static __device__ void deliver_hubs(const struct spike_job &j, uint32_t n) {
    uint32_t now = PLAIN ? 0 : ring_row(j);
    for (uint64_t base = 0; base < n; base += WARP) {
        uint64_t mine = base + threadIdx.x % WARP;
        bool longer = mine < n && j.net.live[j.before.ids[mine]] > SPIKE_LONG_ROW;
        for (uint32_t left = __ballot_sync(0xffffffffU, longer), i = 0; left >> i; i++) {
            if (!(left >> i & 1))
                continue;
            struct spike_row<PLAIN> r;
            r.load(j.net, j.before.ids[base + i]);
            deliver_row<PLAIN>(j.net, now, r, (uint32_t)cuda_index(), (uint32_t)cuda_stride());
        }
    }
}

template <bool PLAIN> static __global__ void __launch_bounds__(THREADS, PLAIN ? 6 : 3) deliver_kernel(struct spike_job j) {
    __shared__ uint64_t events[WARPS];
    uint32_t n = j.before.counts->fired;
    uint64_t mine = n ? deliver_rows<PLAIN>(j, n) : 0;
    if (threadIdx.x % WARP == 0)
        events[threadIdx.x / WARP] = mine;
    if (j.net.hubs)
        deliver_hubs<PLAIN>(j, n);
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    uint64_t total = 0;
    for (int i = 0; i < WARPS; i++)
        total += events[i];
    j.block_events[blockIdx.x] = total;
}

/* ---- advance --------------------------------------------------------------------------------------------------- */

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

/* Takes the sum at a place away; whether there was any input. Wide sums begin at "no input", so the difference to it is what came,
 * in wrapping arithmetic; others have their sum in the upper half and the number of inputs in the lower one. */
static __device__ inline bool take_sum(const struct spike_net &net, uint32_t at, int64_t *ret) {
    int64_t *place = (int64_t *)net.sums + at;
    if (net.wide_sums) {
        bool touched = net.touched[at / 32] >> at % 32 & 1;
        *ret = touched ? (int64_t)((uint64_t)*place - (uint64_t)SPIKE_NO_INPUT_64) : 0;
        if (touched)
            *place = SPIKE_NO_INPUT_64;
        return touched;
    }
    int64_t sum = *place;
    *ret = sum >> 32;
    if (sum)
        *place = 0;
    return sum != 0;
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

/* Adds what the neuron's area gives; false where it gives nothing. */
static __device__ inline bool add_drive(const struct spike_job &j, uint32_t id, int64_t *sum) {
    const struct spike_drive *drive = &j.net.drive[j.net.area[id]];
    if (!drive->constant && !drive->event)
        return false;
    uint32_t words[4];
    spike_event_words(j.net.seed, id, j.before.counts->tick + 1, words);
    *sum += spike_driven(drive, id % 4 == 0 ? words[0] : id % 4 == 1 ? words[1] : id % 4 == 2 ? words[2] : words[3]);
    return true;
}

static __device__ inline bool has_current(const struct spike_net &net, uint32_t id) {
    return net.features & SPIKE_CURRENTS && net.current_gain[id] != 0.0f;
}

/* One neuron of the network; returns whether it fires. */
static __device__ bool advance_one(const struct spike_job &j, uint32_t now, uint32_t id, bool *ret_may) {
    const struct spike_net &net = j.net;
    uint32_t tick = (uint32_t)(j.before.counts->tick + 1);
    int64_t sum;
    int flags = net.flags[id];
    bool touched = take_sum(net, spike_sums_at(&net, now, 0) + id, &sum);
    int64_t injection = injection_of(j, id);
    bool driven = net.features & SPIKE_DRIVES && add_drive(j, id, &sum), exponential = has_current(net, id);
    bool may = flags & SPIKE_ALIVE && (touched || injection >= 0 || driven || exponential || net.features & SPIKE_EVERY_TICK);
    *ret_may = may;
    if (injection >= 0)
        sum += j.inject_sums[injection];
    if (!may) {
        if (!(flags & SPIKE_ACCUMULATES))
            net.v[id] = 0.0f;
        return false;
    }
    struct spike_neuron u = load_neuron(net, id, flags);
    float unit = 1.0f / (float)(1 << net.fraction_bits), input = (float)sum * unit, x;
    if (exponential)
        input = spike_current(&net.current[id], net.current_leak[id], net.current_gain[id], input);
    bool fires = spike_advance(&u, input, -1, spike_lucky(net.excitability[id], id, tick), true, &x);
    net.v[id] = u.v;
    net.countdown[id] = (uint16_t)u.countdown;
    net.fire_count[id] = (uint16_t)u.fire_count;
    if (fires && flags & SPIKE_MP_DRIVEN)
        net.psp[id] = spike_psp_of(x);
    return fires;
}

static __global__ void advance_kernel(struct spike_job j) {
    __shared__ uint32_t fired[WARPS], candidates[WARPS];
    uint32_t id = j.net.first + blockIdx.x * THREADS + threadIdx.x, words = (j.net.end - j.net.first + 31) / 32;
    uint32_t word = blockIdx.x * WARPS + threadIdx.x;
    uint32_t now = ring_row(j);
    bool may = false, fires = false;
    if (id < j.net.end)
        fires = advance_one(j, now, id, &may);
    uint32_t fired_here = __ballot_sync(0xffffffffU, fires), candidates_here = __ballot_sync(0xffffffffU, may);
    if (threadIdx.x % WARP == 0) {
        fired[threadIdx.x / WARP] = fired_here;
        candidates[threadIdx.x / WARP] = candidates_here;
    }
    __syncthreads();
    if (threadIdx.x < WARPS && word < words) {
        j.fired_bits[word] = fired[threadIdx.x];
        if (j.net.wide_sums)
            j.net.touched[(spike_sums_at(&j.net, now, 0) + j.net.first) / 32 + word] = 0;
    }
    if (threadIdx.x == 0) {
        uint32_t counts = 0;
        for (int i = 0; i < WARPS; i++)
            counts += (uint32_t)__popc(fired[i]) + ((uint32_t)__popc(candidates[i]) << 16);
        j.block_counts[blockIdx.x] = counts;
    }
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

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

/* Adds up the counts of blocks first, first + step, …: the fired neurons in the lower half, the candidates in the upper. */
static __device__ uint64_t counts_of(const struct spike_job &j, unsigned first, unsigned end, unsigned step) {
    uint64_t sum = 0;
#pragma unroll 4
    for (unsigned i = first; i < end; i += step) {
        uint32_t counts = j.block_counts[i];
        sum += (counts & 0xffff) + ((uint64_t)(counts >> 16) << 32);
    }
    return sum;
}

/* The counts of the tick, by one thread of a block of N. */
template <unsigned N> static __device__ void put_counts(const struct spike_job &j, uint64_t counts, uint64_t *room) {
    uint64_t events = 0;
    for (unsigned i = threadIdx.x; i < j.deliver_blocks; i += N)
        events += j.block_events[i];
    events = block_sum<N>(events, room);
    if (threadIdx.x > 0)
        return;
    j.after.counts->tick = j.before.counts->tick + 1;
    j.after.counts->events = events;
    j.after.counts->fired = (uint32_t)counts;
    j.after.counts->candidates = (uint32_t)(counts >> 32);
}

/* Fills block_place. Each thread takes a stretch of blocks. */
static __global__ void place_kernel(struct spike_job j) {
    __shared__ uint64_t room[PLACE_THREADS];
    unsigned each = (j.blocks + PLACE_THREADS - 1) / PLACE_THREADS, first = threadIdx.x * each;
    unsigned end = first + each < j.blocks ? first + each : j.blocks;
    uint64_t counts = counts_of(j, first, end, 1), total = block_sum<PLACE_THREADS>(counts, room);
    put_counts<PLACE_THREADS>(j, total, room);
    __syncthreads();
    room[threadIdx.x] = (uint32_t)counts;
    __syncthreads();
    for (unsigned step = 1; step < PLACE_THREADS; step *= 2) {
        uint64_t sum = threadIdx.x >= step ? room[threadIdx.x] + room[threadIdx.x - step] : room[threadIdx.x];
        __syncthreads();
        room[threadIdx.x] = sum;
        __syncthreads();
    }
    uint32_t place = (uint32_t)room[threadIdx.x] - (uint32_t)counts;
    for (unsigned i = first; i < end; i++) {
        j.block_place[i] = place;
        place += j.block_counts[i] & 0xffff;
    }
}

/* A block's part of the list: bits of its neurons, and where each part of THREADS neurons begins. */
struct list_room {
    uint32_t words[LIST_WORDS], place[LIST_PARTS];
    uint64_t sums[THREADS];
};

/* The fired neurons of this thread to the list. */
static __device__ void list_bits(const struct spike_job &j, const struct list_room &room, uint32_t id, uint64_t psp) {
    uint32_t word = threadIdx.x / 4, shift = threadIdx.x % 4 * LIST_EACH, at = room.place[threadIdx.x / WARP];
    uint32_t bits = room.words[word] >> shift & 0xff;
    if (!bits)
        return;
    for (uint32_t before = threadIdx.x / WARP * WARPS; before < word; before++)
        at += (uint32_t)__popc(room.words[before]);
    at += (uint32_t)__popc(room.words[word] & ((1U << shift) - 1));
#pragma unroll
    for (uint32_t i = 0; i < LIST_EACH; i++)
        if (bits >> i & 1) {
            j.after.ids[at] = id + i;
            j.after.psp[at] = (uint8_t)(psp >> 8 * i);
            at++;
        }
}

/* Without places each block adds up the numbers of the blocks before its own, and one more block all of them. */
template <bool PLACED> static __global__ void list_kernel(struct spike_job j) {
    __shared__ struct list_room room;
    uint32_t words = (j.net.end - j.net.first + 31) / 32, word = blockIdx.x * LIST_WORDS + threadIdx.x;
    uint32_t id = j.net.first + (blockIdx.x * THREADS + threadIdx.x) * LIST_EACH, part = blockIdx.x * LIST_PARTS;
    if (!PLACED && blockIdx.x == gridDim.x - 1) {
        uint64_t all = block_sum<THREADS>(counts_of(j, threadIdx.x, j.blocks, THREADS), room.sums);
        put_counts<THREADS>(j, all, room.sums);
        return;
    }
    uint64_t psp = id < j.net.end ? *(const uint64_t *)(j.net.psp + id) : 0; /* arrays are padded */
    if (threadIdx.x < LIST_WORDS)
        room.words[threadIdx.x] = word < words ? j.fired_bits[word] : 0;
    uint32_t mine = threadIdx.x < LIST_PARTS ? part + threadIdx.x : j.blocks; /* block of THREADS neurons */
    if (PLACED) {
        if (mine < j.blocks)
            room.place[threadIdx.x] = j.block_place[mine];
        __syncthreads();
    } else {
        uint32_t before = mine < j.blocks ? (uint32_t)counts_of(j, part, mine, 1) : 0; /* in this block */
        uint64_t earlier = block_sum<THREADS>((uint32_t)counts_of(j, threadIdx.x, part, THREADS), room.sums);
        if (threadIdx.x < LIST_PARTS)
            room.place[threadIdx.x] = (uint32_t)earlier + before;
        __syncthreads();
    }
    list_bits(j, room, id, psp);
}

extern "C" int cuda_spike_tick(struct stream *s, const struct spike_tick_args *a, struct err *err) {
    struct spike_job j = {};
    j.net = a->net;
    j.before = a->before;
    j.after = a->after;
    j.inject_ids = a->inject_ids;
    j.inject_sums = a->inject_sums;
    j.n_inject = a->n_inject;
    j.blocks = a->net.end > a->net.first ? (unsigned)cuda_ceil(a->net.end - a->net.first, THREADS) : 1; /* one counts nobody too */
    j.deliver_blocks = (unsigned)cuda_min(cuda_ceil(a->net.n, WARPS), DELIVER_GRID);
    struct cuda_area area = {NULL, 0};
    void *base = NULL;
    for (int round = 0; round < 2; round++) { /* measured, then cut */
        area.base = (char *)base;
        area.used = 0;
        j.fired_bits = (uint32_t *)cuda_take(&area, (size_t)j.blocks * WARPS * sizeof(uint32_t));
        j.block_counts = (uint32_t *)cuda_take(&area, (size_t)j.blocks * sizeof(uint32_t));
        j.block_place = (uint32_t *)cuda_take(&area, (size_t)j.blocks * sizeof(uint32_t));
        j.block_events = (uint64_t *)cuda_take(&area, (size_t)j.deliver_blocks * sizeof(uint64_t));
        int rc = round ? 0 : cuda_scratch(s, area.used, &base, err);
        if (rc)
            return rc;
    }
    cudaStream_t stream = cuda_stream(s)->stream;
    unsigned list_blocks = (unsigned)cuda_ceil(j.blocks, LIST_PARTS);
    if (!a->net.wide && !a->net.wide_sums && !a->net.divisor)
        CUDA_LAUNCH(deliver_kernel<true>, j.deliver_blocks, THREADS, stream, j);
    else
        CUDA_LAUNCH(deliver_kernel<false>, j.deliver_blocks, THREADS, stream, j);
    CUDA_LAUNCH(advance_kernel, j.blocks, THREADS, stream, j);
    if (j.blocks <= LIST_BLOCKS) {
        CUDA_LAUNCH(list_kernel<false>, list_blocks + 1, THREADS, stream, j);
        return 0;
    }
    CUDA_LAUNCH(place_kernel, 1, PLACE_THREADS, stream, j);
    CUDA_LAUNCH(list_kernel<true>, list_blocks, THREADS, stream, j);
    return 0;
}

/* ---- the lists of several ranks -------------------------------------------------------------------------------- */

/* A row of blocks for each part. A part of another GPU is read once, and its counts by every block. */
static __global__ void merge_kernel(struct spike_merge_args a) {
    __shared__ struct spike_counts counts[SPIKE_MOST_LISTS];
    uint32_t at = 0, n = blockIdx.y;
    if (threadIdx.x < (unsigned)a.n_parts)
        counts[threadIdx.x] = *a.parts[threadIdx.x].counts;
    __syncthreads();
    for (uint32_t r = 0; r < n; r++)
        at += counts[r].fired;
    const struct spike_fired part = a.parts[n];
    for (uint32_t i = (uint32_t)cuda_index(); i < counts[n].fired; i += (uint32_t)cuda_stride()) {
        uint32_t id = part.ids[i];
        bool driven = a.flags[id] & SPIKE_MP_DRIVEN;
        uint8_t psp = driven ? part.psp[i] : a.psp[id];
        if (driven)
            a.psp[id] = psp;
        a.after.ids[at + i] = id;
        a.after.psp[at + i] = psp;
    }
    if (blockIdx.x || n || threadIdx.x)
        return;
    struct spike_counts all = counts[0];
    for (int r = 1; r < a.n_parts; r++) {
        all.events += counts[r].events;
        all.fired += counts[r].fired;
        all.candidates += counts[r].candidates;
    }
    *a.after.counts = all;
}

extern "C" int cuda_spike_merge(struct stream *s, const struct spike_merge_args *a, struct err *err) {
    (void)err;
    unsigned blocks = (unsigned)cuda_min(cuda_ceil(a->n, (int64_t)MERGE_EACH * THREADS * a->n_parts), MERGE_GRID);
    CUDA_LAUNCH(merge_kernel, dim3(blocks, (unsigned)a->n_parts), THREADS, cuda_stream(s)->stream, *a);
    return 0;
}
