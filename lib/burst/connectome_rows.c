#include "burst/connectome_rows.h"

#include "base/pages.h"
#include "kernels/lanes.h"

enum { INSERTION = 32, SHORT_ROW = 2048 };

static size_t synapse_bytes(bool wide) { return wide ? sizeof(struct spike_wide) : sizeof(spike_packed); }

static void *synapses_alloc(int64_t count, bool wide) { return pages_alloc(((size_t)count + SPIKE_SLACK) * synapse_bytes(wide)); }

int connectome_check_room(int64_t neurons, int64_t synapses, bool wide, int64_t max_bytes, struct err *err) {
    int64_t bytes = connectome_bytes(neurons, synapses, wide);
    return max_bytes <= 0 || bytes <= max_bytes
               ? 0
               : err_set(err, ERR_EXHAUSTED,
                         "%lld neurons and %lld synapses of %zu bytes take at least %lld bytes; the memory budget is %lld",
                         (long long)neurons, (long long)synapses, synapse_bytes(wide), (long long)bytes, (long long)max_bytes);
}

int connectome_alloc_rows(struct connectome *c, bool wide, int64_t max_bytes, struct err *err) {
    struct spike_net *net = &c->net;
    for (uint32_t i = 0; i < net->n; i++) {
        net->live[i] = (uint32_t)net->row[i + 1];
        net->hubs |= net->live[i] > SPIKE_LONG_ROW;
        net->row[i + 1] += net->row[i];
    }
    c->synapses = c->capacity = net->row[net->n];
    int rc = connectome_check_room(net->n, c->synapses, wide, max_bytes, err);
    if (rc)
        return rc;
    net->wide = wide;
    net->synapses = synapses_alloc(c->capacity, wide);
    return net->synapses ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %lld synapses", (long long)c->capacity);
}

int64_t connectome_bytes(int64_t neurons, int64_t synapses, bool wide) {
    size_t each = sizeof(uint64_t) + sizeof(uint32_t) + sizeof(int64_t) + 1; /* input_bound, area, row, base_psp */
#define NEURON_BYTES(type, name) each += sizeof(type);
    CONNECTOME_NEURONS(NEURON_BYTES)
#undef NEURON_BYTES
    size_t synapse = wide ? sizeof(struct spike_wide) : sizeof(spike_packed);
    return (int64_t)(connectome_padded(neurons) * each) + synapses * (int64_t)synapse;
}

struct connectome_synapse connectome_at(const struct connectome *c, uint32_t source, uint32_t i) {
    int64_t at = c->net.row[source] + i;
    if (c->net.wide) {
        struct spike_wide y = ((const struct spike_wide *)c->net.synapses)[at];
        return (struct connectome_synapse){y.target, y.weight, y.psp, (uint8_t)(y.later + 1)};
    }
    spike_packed y = ((const spike_packed *)c->net.synapses)[at];
    return (struct connectome_synapse){spike_packed_target(y), spike_packed_weight(y), c->base_psp[source], 1};
}

/* ---- sorting --------------------------------------------------------------------------------------------------- */

/* Both forms sort as unsigned numbers of their own width, the target in the bits that count most; little-endian memory. */
#define SORT_ROW(name, type, target_of)                                                                                            \
    static void insert_##name(type *y, int64_t n) {                                                                                \
        for (int64_t i = 1; i < n; i++) {                                                                                          \
            type moved = y[i];                                                                                                     \
            int64_t k = i;                                                                                                         \
            for (; k > 0 && target_of(y[k - 1]) > target_of(moved); k--)                                                           \
                y[k] = y[k - 1];                                                                                                   \
            y[k] = moved;                                                                                                          \
        }                                                                                                                          \
    }                                                                                                                              \
    /* Counting passes over 8 bits of the target at a time, from the lowest; `other` is room for n. */                             \
    static void sort_##name(type *y, type *other, int64_t n, int bits) {                                                           \
        bool sorted = true;                                                                                                        \
        for (int64_t i = 1; sorted && i < n; i++)                                                                                  \
            sorted = target_of(y[i - 1]) <= target_of(y[i]);                                                                       \
        if (sorted)                                                                                                                \
            return;                                                                                                                \
        if (n <= INSERTION) {                                                                                                      \
            insert_##name(y, n);                                                                                                   \
            return;                                                                                                                \
        }                                                                                                                          \
        type *from = y, *to = other;                                                                                               \
        for (int shift = 0; shift < bits; shift += 8) {                                                                            \
            uint32_t place[257] = {0};                                                                                             \
            for (int64_t i = 0; i < n; i++)                                                                                        \
                place[(target_of(from[i]) >> shift & 255) + 1]++;                                                                  \
            for (int k = 1; k < 256; k++)                                                                                          \
                place[k] += place[k - 1];                                                                                          \
            for (int64_t i = 0; i < n; i++)                                                                                        \
                to[place[target_of(from[i]) >> shift & 255]++] = from[i];                                                          \
            type *was = from;                                                                                                      \
            from = to;                                                                                                             \
            to = was;                                                                                                              \
        }                                                                                                                          \
        if (from != y)                                                                                                             \
            memcpy(y, from, (size_t)n * sizeof *y);                                                                                \
    }
static inline uint32_t wide_target(struct spike_wide y) { return y.target; }
SORT_ROW(packed, spike_packed, spike_packed_target)
SORT_ROW(wide, struct spike_wide, wide_target)
#undef SORT_ROW

static void sort_row(const struct connectome *c, uint32_t source, void *room) {
    int64_t first = c->net.row[source], n = c->net.live[source];
    const int bits = c->net.n > 2 ? 32 - __builtin_clz(c->net.n - 1) : 1; /* of a target */
    if (c->net.wide)
        sort_wide((struct spike_wide *)c->net.synapses + first, room, n, bits);
    else
        sort_packed((spike_packed *)c->net.synapses + first, room, n, bits);
}

static void sort_short_row(const void *ctx, int64_t i, int lane) {
    const struct connectome *c = ctx;
    struct spike_wide room[SHORT_ROW];
    (void)lane;
    if (c->net.live[i] <= SHORT_ROW)
        sort_row(c, (uint32_t)i, room);
}

/* Short rows on all threads, each with room of its own; then the long ones. Returns false when memory is short. */
static bool sort_rows(struct connectome *c) {
    uint32_t longest = 0;
    lanes_for(lanes_here(), c->net.n, sort_short_row, c);
    for (uint32_t i = 0; i < c->net.n; i++)
        longest = c->net.live[i] > longest ? c->net.live[i] : longest;
    if (longest <= SHORT_ROW)
        return true;
    void *room = malloc((size_t)longest * synapse_bytes(c->net.wide));
    for (uint32_t i = 0; room && i < c->net.n; i++)
        if (c->net.live[i] > SHORT_ROW)
            sort_row(c, i, room);
    free(room);
    return room != NULL;
}

/* ---- bounds ---------------------------------------------------------------------------------------------------- */

/* |w·p| of a synapse as it counts for its target's bound. */
static uint64_t bound_of(const struct connectome *c, uint32_t source, struct connectome_synapse y) {
    unsigned psp = c->net.flags[source] & SPIKE_MP_DRIVEN ? 255 : y.psp;
    return (uint64_t)abs(y.weight) * psp;
}

static void add_bounds(struct connectome *c, uint32_t source, int sign) {
    for (uint32_t j = 0; j < c->net.live[source]; j++) {
        struct connectome_synapse y = connectome_at(c, source, j);
        uint64_t bound = bound_of(c, source, y);
        c->input_bound[y.target] += sign > 0 ? bound : -bound;
    }
}

static uint64_t largest_bound(const struct connectome *c) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < c->net.n; i++)
        most = c->input_bound[i] > most ? c->input_bound[i] : most;
    return most;
}

/* With delays inputs that are under way add to those of a network that has changed, or whose state a stranger wrote: half of the
 * range is theirs. */
static bool fits(const struct connectome *c, uint64_t bound, int fraction) {
    return bound < (uint64_t)1 << ((c->net.delays > 1 ? 30 : 31) - fraction);
}

bool connectome_scale(struct connectome *c) {
    uint64_t most = largest_bound(c);
    if (c->net.wide_sums || fits(c, most, c->net.fraction_bits))
        return false;
    int f = c->net.fraction_bits;
    while (f > 0 && !fits(c, most, f))
        f--;
    c->net.fraction_bits = f;
    c->net.wide_sums = !fits(c, most, f);
    return true;
}

void connectome_scan_features(struct connectome *c) {
    unsigned features = c->net.features & SPIKE_EVERY_TICK;
    for (uint32_t i = 0; i < c->net.n; i++) {
        features |= c->net.excitability[i] >= 0.999f ? 0U : SPIKE_PROBABILISTIC;
        features |= c->net.fire_limit[i] != SPIKE_UNLIMITED ? SPIKE_LIMITED : 0U;
    }
    features |= c->net.current_gain ? SPIKE_CURRENTS : 0U;
    for (int i = 0; i < c->n_areas; i++)
        features |= c->areas[i].constant != 0 || c->areas[i].events > 0 ? SPIKE_DRIVES : 0U;
    c->net.features = features;
}

uint32_t connectome_built(const struct connectome *c, uint32_t i) { return (uint32_t)(c->net.row[i + 1] - c->net.row[i]); }

bool connectome_has_lost(const struct connectome *c) {
    for (uint32_t i = 0; i < c->net.n; i++)
        if (c->net.live[i] != connectome_built(c, i))
            return true;
    return false;
}

int connectome_make_divisors(struct connectome *c, struct err *err) {
    if (c->net.divisor)
        return 0;
    size_t bytes = ((size_t)c->net.n + SPIKE_BLOCK) * sizeof *c->net.divisor;
    if (!(c->net.divisor = pages_alloc(bytes)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the divisors of %u neurons", c->net.n);
    memset(c->net.divisor, 0, bytes);
    c->bytes += (int64_t)bytes;
    for (uint32_t i = 0; i < c->net.n; i++)
        c->net.divisor[i] = connectome_built(c, i);
    return 0;
}

int connectome_whole_divisors(struct connectome *c, const uint32_t *whole, struct err *err) {
    int rc = connectome_make_divisors(c, err);
    if (rc)
        return rc;
    memcpy(c->net.divisor, whole, c->net.n * sizeof *whole);
    return 0;
}

static int divide_where_areas_do(struct connectome *c, struct err *err) {
    bool any = false;
    for (int i = 0; i < c->n_areas; i++)
        any |= c->areas[i].psp_divide;
    return any ? connectome_make_divisors(c, err) : 0;
}

static uint8_t flags_of(const struct connectome *c, uint32_t i) {
    const struct connectome_area *area = &c->areas[c->area[i]];
    return (uint8_t)((c->net.flags[i] & (SPIKE_ALIVE | SPIKE_ACCUMULATES)) | (area->mp_driven_psp ? SPIKE_MP_DRIVEN : 0) |
                     (area->psp_divide ? SPIKE_DIVIDES : 0));
}

int connectome_finish(struct connectome *c, struct err *err) {
    for (uint32_t i = c->net.n; i-- > 0;) {
        c->net.flags[i] = flags_of(c, i);
        c->area_first[c->area[i]] = i;
    }
    memcpy(c->net.psp, c->base_psp, c->net.n);
    if (!sort_rows(c))
        return err_set(err, ERR_EXHAUSTED, "out of memory to sort the longest row of synapses");
    for (uint32_t i = 0; i < c->net.n; i++)
        add_bounds(c, i, 1);
    c->net.fraction_bits = SPIKE_MOST_FRACTION;
    connectome_scale(c);
    connectome_scan_features(c);
    c->bytes = connectome_bytes(c->net.n, c->capacity, c->net.wide);
#define CURRENT_BYTES(type, name) c->bytes += c->net.name ? (int64_t)(connectome_padded(c->net.n) * sizeof(type)) : 0;
    CONNECTOME_CURRENTS(CURRENT_BYTES)
#undef CURRENT_BYTES
    return divide_where_areas_do(c, err);
}

/* Sums of inputs from before and after a change may pass 32 bits. */
static void widen_sums(struct connectome *c) { c->net.wide_sums |= c->net.delays > 1; }

void connectome_apply_areas(struct connectome *c) {
    for (uint32_t i = 0; i < c->net.n; i++) {
        uint8_t flags = flags_of(c, i), was = c->net.flags[i];
        bool moves = (flags ^ was) & SPIKE_MP_DRIVEN;
        if (moves)
            add_bounds(c, i, -1);
        c->net.flags[i] = flags;
        if (moves) {
            add_bounds(c, i, 1);
            c->net.psp[i] = c->base_psp[i];
            widen_sums(c);
        }
    }
}

/* ---- changes --------------------------------------------------------------------------------------------------- */

uint32_t connectome_find(const struct connectome *c, uint32_t source, uint32_t target, uint32_t *ret_first) {
    uint32_t low = 0, high = c->net.live[source], count = 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (connectome_at(c, source, middle).target < target)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + count < c->net.live[source] && connectome_at(c, source, low + count).target == target)
        count++;
    *ret_first = low;
    return count;
}

static int widen(struct connectome *c, struct err *err) {
    struct spike_wide *wide = synapses_alloc(c->capacity, true);
    if (!wide)
        return err_set(err, ERR_EXHAUSTED, "out of memory to give each of %lld synapses its own psp", (long long)c->capacity);
    for (uint32_t i = 0; i < c->net.n; i++)
        for (uint32_t j = 0; j < c->net.live[i]; j++) {
            struct connectome_synapse y = connectome_at(c, i, j);
            wide[c->net.row[i] + j] = (struct spike_wide){y.target, (int16_t)y.weight, y.psp, 0};
        }
    free(c->net.synapses);
    c->net.synapses = wide;
    c->net.wide = true;
    c->bytes += c->capacity * (int64_t)(sizeof *wide - sizeof(spike_packed));
    return 0;
}

int connectome_put(struct connectome *c, uint32_t source, uint32_t i, int weight, uint8_t psp, struct err *err) {
    struct connectome_synapse was = connectome_at(c, source, i);
    bool alone = c->net.live[source] == 1;
    if (!c->net.wide && psp != was.psp) {
        int rc = alone ? 0 : widen(c, err);
        if (rc)
            return rc;
        if (alone)
            c->base_psp[source] = psp;
        if (alone && !(c->net.flags[source] & SPIKE_MP_DRIVEN))
            c->net.psp[source] = psp;
    }
    struct connectome_synapse is = {was.target, weight, psp, was.delay};
    c->input_bound[was.target] += bound_of(c, source, is) - bound_of(c, source, was);
    widen_sums(c);
    connectome_set(c, c->net.row[source] + i, is);
    return 0;
}

void connectome_drop(struct connectome *c, uint32_t source, uint32_t first, uint32_t n) {
    size_t each = synapse_bytes(c->net.wide);
    char *at = (char *)c->net.synapses + (size_t)(c->net.row[source] + first) * each;
    for (uint32_t i = first; i < first + n; i++) {
        struct connectome_synapse y = connectome_at(c, source, i);
        c->input_bound[y.target] -= bound_of(c, source, y);
    }
    memmove(at, at + n * each, (size_t)(c->net.live[source] - first - n) * each);
    c->net.live[source] -= n;
    c->synapses -= n;
}
