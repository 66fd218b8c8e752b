#include "burst/burst.h"

#include "base/order.h"
#include "burst/burst_parts.h"

enum { FIRST_ROOM = 1024 };
#define MOST_POTENTIAL 0x1p40f
#define MOST_INJECTED  ((__int128)1 << 62)

/* Host memory, pinned where the device copies it, and the arrays on the device. */
static int reserve_host(struct burst *b, struct err *err) {
    size_t ids = ((size_t)b->c->net.n + SPIKE_BLOCK) * sizeof *b->ids, seen = (BURST_AHEAD + 1) * sizeof *b->seen;
    int rc;
    if ((rc = device_alloc_host(b->device, ids, (void **)&b->ids, err)) ||
        (rc = device_alloc_host(b->device, seen, (void **)&b->seen, err)))
        return rc;
    return burst_device_open(b, err);
}

int burst_new(struct stream *s, struct connectome *c, const struct burst_options *options, struct burst **ret, struct err *err) {
    struct burst *b = calloc(1, sizeof *b);
    if (!b) {
        connectome_free(c);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a network");
    }
    b->stream = s;
    b->device = stream_device(s);
    b->c = c;
    if (options)
        b->options = *options;
    if (b->options.max_pending <= 0)
        b->options.max_pending = BURST_MOST_PENDING;
    c->net.features |= b->options.every_tick ? SPIKE_EVERY_TICK : 0U;
    int rc;
    if ((rc = burst_ranks_agree(b, err)) || (rc = reserve_host(b, err)) || (rc = burst_ranks_open(b, err)) ||
        (!(b->power = calloc((size_t)c->n_areas, sizeof *b->power)) &&
         (rc = err_set(err, ERR_EXHAUSTED, "out of memory for %d areas", c->n_areas))) ||
        (rc = burst_device_fired(b, b->ids, 0, err))) {
        burst_free(b);
        return rc;
    }
    burst_list_power(b);
    *ret = b;
    return 0;
}

void burst_free(struct burst *b) {
    if (!b)
        return;
    peers_close(b->peers);
    burst_device_close(b);
    connectome_free(b->c);
    device_free_host(b->device, b->ids);
    device_free_host(b->device, b->seen);
    device_free_host(b->device, b->inject_ids);
    device_free_host(b->device, b->inject_sums);
    FREE_MEMBERS(*b, pending, power, shares);
    free(b);
}

const struct connectome *burst_connectome(const struct burst *b) { return b->c; }
uint64_t burst_tick(const struct burst *b) { return b->tick; }
bool burst_every_tick(const struct burst *b) { return b->options.every_tick; }
int64_t burst_pending(const struct burst *b) { return b->n_pending - b->head; }

/* Elements of an array of injections that has `room` of them once it must hold n. */
static int64_t room_for(int64_t room, int64_t n) {
    if (n > room && room < FIRST_ROOM)
        room = FIRST_ROOM;
    while (room < n)
        room *= 2;
    return room;
}

int64_t burst_bytes_with(const struct burst *b, int64_t more) {
    const bool widens = b->net.delays > 1; /* after changes, beside sums that are under way */
    int64_t n = burst_padded(b), sums = (int64_t)burst_sum_bytes(b->remote, b->net.wide_sums || widens) * b->net.delays,
            lists = b->n_lists * 5;
    int64_t waiting = burst_pending(b) + more;
    int64_t own =
        n * (sums + lists + 4) + n / SPIKE_BLOCK + (b->remote ? n / 8 * b->net.delays : n * SPIKE_SPAN_WORDS(b->net.parts) * 4);
    int64_t tick = room_for(b->inject_room, waiting + (b->n_lists - 1) * (int64_t)b->n_power); /* all of them may be for one tick */
    own += room_for(b->pending_room, waiting) * (int64_t)sizeof *b->pending;
    own += tick * (int64_t)(sizeof *b->inject_ids + sizeof *b->inject_sums) * (b->remote ? 2 : 1);
    return b->c->bytes * (b->remote ? 2 : 1) + own + 2 * (int64_t)b->peers_bytes;
}

int64_t burst_bytes(const struct burst *b) { return burst_bytes_with(b, 0); }

/* ---- injections ------------------------------------------------------------------------------------------------ */

ORDER_BY(by_place, struct burst_injection, order_then(order_u64(x->tick, y->tick), order_u64(x->id, y->id)))

int burst_check_injections(const struct burst *b, uint64_t tick, const char *array, const struct burst_injection *list, int64_t n,
                           struct err *err) {
    int64_t i = 0;
    while (i < n && list[i].id < b->net.n && fabsf(list[i].potential) < MOST_POTENTIAL && list[i].tick > tick)
        i++;
    if (i == n)
        return 0;
    char name[64];
    str_format(name, sizeof name, array ? "%s[%lld]" : "%s %lld", array ? array : "injection", (long long)i);
    if (list[i].id >= b->net.n)
        return err_set(err, ERR_INVALID, "%s is for neuron %u; expected 0 to %u", name, list[i].id, b->net.n - 1);
    if (!(fabsf(list[i].potential) < MOST_POTENTIAL))
        return err_set(err, ERR_INVALID, "%s has potential %g; expected a finite number below 2^40 in size", name,
                       (double)list[i].potential);
    return err_set(err, ERR_RANGE, "%s is for tick %llu, which has run: the next one is %llu", name,
                   (unsigned long long)list[i].tick, (unsigned long long)tick + 1);
}

/* Room for n more, those that have run taken out. */
static int reserve_pending(struct burst *b, int64_t n, struct err *err) {
    int64_t waiting = b->n_pending - b->head;
    if (n > b->options.max_pending - waiting)
        return err_set(err, ERR_EXHAUSTED, "%lld injections wait and %lld are new; at most %lld may wait: step the network first",
                       (long long)waiting, (long long)n, (long long)b->options.max_pending);
    if (b->n_pending + n <= b->pending_room)
        return 0;
    if (b->head > 0) {
        memmove(b->pending, b->pending + b->head, (size_t)waiting * sizeof *b->pending);
        b->sorted -= b->head;
        b->head = 0;
        b->n_pending = waiting;
    }
    int64_t room = room_for(b->pending_room, waiting + n);
    struct burst_injection *more = realloc(b->pending, (size_t)room * sizeof *more);
    if (!more)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld injections", (long long)room);
    b->pending = more;
    b->pending_room = room;
    return 0;
}

int burst_inject(struct burst *b, const struct burst_injection *list, int64_t n, struct err *err) {
    int rc;
    if ((rc = burst_check_injections(b, b->tick, NULL, list, n, err)) || (rc = reserve_pending(b, n, err)) || n == 0)
        return rc;
    memcpy(b->pending + b->n_pending, list, (size_t)n * sizeof *list);
    b->n_pending += n;
    return 0;
}

/* Those that came since the last tick are sorted and merged, from the end on, into those that have waited for longer. */
static void sort_pending(struct burst *b) {
    struct burst_injection *all = b->pending;
    while (b->sorted < b->n_pending && (b->sorted == b->head || by_place(&all[b->sorted - 1], &all[b->sorted]) <= 0))
        b->sorted++;
    int64_t n = b->n_pending - b->sorted, old = b->sorted, to = b->n_pending;
    b->sorted = b->n_pending;
    if (n == 0)
        return;
    struct burst_injection *late = old > b->head ? malloc((size_t)n * sizeof *late) : NULL;
    if (!late) { /* all are new, or memory is short */
        qsort(all + b->head, (size_t)(to - b->head), sizeof *all, by_place);
        return;
    }
    memcpy(late, all + old, (size_t)n * sizeof *late);
    SORT(late, n, by_place);
    while (n > 0)
        all[--to] = old > b->head && by_place(&all[old - 1], &late[n - 1]) > 0 ? all[--old] : late[--n];
    free(late);
}

void burst_list_power(struct burst *b) {
    const struct connectome *c = b->c;
    b->n_power = 0;
    for (int i = 0; i < c->n_areas; i++)
        if (c->areas[i].power != 0 && c->area_first[i] != UINT32_MAX)
            b->power[b->n_power++] = (struct burst_injection){0, c->area_first[i], c->areas[i].power};
    SORT(b->power, b->n_power, by_place);
}

/* Room for the sums of n injections, here and on the device. Nothing is queued when it is called. */
static int reserve_sums(struct burst *b, int64_t n, struct err *err) {
    if (n <= b->inject_room)
        return 0;
    int64_t room = room_for(b->inject_room, n);
    device_free(b->device, b->device_ids);
    device_free(b->device, b->device_sums);
    b->device_ids = NULL;
    b->device_sums = NULL;
    b->inject_room = 0;
    device_free_host(b->device, b->inject_ids);
    device_free_host(b->device, b->inject_sums);
    b->inject_ids = NULL;
    b->inject_sums = NULL;
    size_t ids = (size_t)room * sizeof *b->inject_ids, sums = (size_t)room * sizeof *b->inject_sums;
    int rc;
    if ((rc = device_alloc_host(b->device, ids, (void **)&b->inject_ids, err)) ||
        (rc = device_alloc_host(b->device, sums, (void **)&b->inject_sums, err)) ||
        (b->remote && ((rc = device_alloc(b->device, ids, (void **)&b->device_ids, err)) ||
                       (rc = device_alloc(b->device, sums, (void **)&b->device_sums, err)))))
        return rc;
    b->inject_room = room;
    return 0;
}

/* In units of 2^-f, half to even. */
static int64_t units_of(const struct burst *b, float potential) {
    return (int64_t)rint((double)potential * (double)(1 << b->net.fraction_bits));
}

/* The sums of one tick into the arrays from `at` on: what waits for it and what areas get in every tick. Returns how many. */
static int64_t sum_injections(struct burst *b, uint64_t tick, int64_t at) {
    int64_t first = at;
    int p = 0;
    while (p < b->n_power || (b->head < b->n_pending && b->pending[b->head].tick == tick)) {
        bool waits = b->head < b->n_pending && b->pending[b->head].tick == tick;
        uint32_t id = waits ? b->pending[b->head].id : UINT32_MAX;
        id = p < b->n_power && b->power[p].id < id ? b->power[p].id : id;
        __int128 sum = 0;
        for (; p < b->n_power && b->power[p].id == id; p++)
            sum += units_of(b, b->power[p].potential);
        for (; b->head < b->n_pending && b->pending[b->head].tick == tick && b->pending[b->head].id == id; b->head++)
            sum += units_of(b, b->pending[b->head].potential);
        sum = sum > MOST_INJECTED ? MOST_INJECTED : sum < -MOST_INJECTED ? -MOST_INJECTED : sum;
        b->inject_ids[at] = id;
        b->inject_sums[at++] = (int64_t)sum;
    }
    return at - first;
}

/* How many of those that wait are for the next n ticks, at most. */
static int64_t waiting_for(struct burst *b, int n) {
    int64_t count = 0;
    sort_pending(b);
    while (b->head + count < b->n_pending && b->pending[b->head + count].tick <= b->tick + (uint64_t)n)
        count++;
    return count;
}

/* ---- ticks ----------------------------------------------------------------------------------------------------- */

/* One pass for all areas. */
static int settle_areas(struct burst *b, struct err *err) {
    struct spike_net *net = &b->c->net;
    int rc = burst_device_fetch(b, net->psp, err);
    if (rc)
        return rc;
    connectome_apply_areas(b->c);
    burst_list_power(b);
    b->areas_changed = true; /* until the device has all of it */
    if ((rc = burst_device_array(b, net->flags, err)) || (rc = burst_device_array(b, net->psp, err)) ||
        (net->divisor && (rc = burst_device_array(b, net->divisor, err))))
        return rc;
    b->areas_changed = false;
    return 0;
}

/* Changes since the last tick: areas' neurons, bounds and features of the network as it is now, and p of those that fired last. */
int burst_settle(struct burst *b, struct err *err) {
    uint32_t fired = 0;
    int rc = 0;
    if (!b->unsettled)
        return 0;
    if (b->areas_changed && (rc = settle_areas(b, err)))
        return rc;
    connectome_scan_features(b->c);
    connectome_scale(b->c);
    if (b->c->net.wide != b->net.wide) /* there was no memory for them when they changed */
        rc = burst_device_rows(b, err);
    if (rc || (b->c->net.wide_sums != b->net.wide_sums && (rc = burst_device_sums(b, err))) ||
        (rc = burst_device_fired_get(b, b->ids, &fired, err)) || (rc = burst_device_fired(b, b->ids, fired, err)))
        return rc;
    COPY_MEMBERS(b->net, b->c->net, fraction_bits, features);
    if ((rc = burst_device_drive(b, err)))
        return rc;
    b->unsettled = false;
    return 0;
}

/* The ticks queued so far have run; b->seen has their counts. */
static int wait_for_ticks(struct burst *b, struct err *err) {
    int rc = stream_to_host(b->stream, b->seen, b->counts, (size_t)b->n_lists * sizeof *b->counts, err);
    return rc ? rc : stream_sync(b->stream, err);
}

/* Queues n ticks; offsets[i] is where the injections of tick i begin. */
static int queue_ticks(struct burst *b, int n, const int64_t *offsets, struct err *err) {
    size_t ids = (size_t)offsets[n] * sizeof *b->inject_ids, sums = (size_t)offsets[n] * sizeof *b->inject_sums;
    int rc;
    if (b->remote && offsets[n] > 0 &&
        ((rc = stream_to_device(b->stream, b->device_ids, b->inject_ids, ids, err)) ||
         (rc = stream_to_device(b->stream, b->device_sums, b->inject_sums, sums, err))))
        return rc;
    for (int i = 0; i < n; i++) {
        struct spike_tick_args a = {.net = b->net,
                                    .before = b->lists[(b->newest + i) % b->n_lists],
                                    .after = b->lists[(b->newest + i + 1) % b->n_lists],
                                    .n_inject = offsets[i + 1] - offsets[i]};
        if (a.n_inject) {
            a.inject_ids = (b->remote ? b->device_ids : b->inject_ids) + offsets[i];
            a.inject_sums = (b->remote ? b->device_sums : b->inject_sums) + offsets[i];
        }
        if ((rc = burst_ranks_tick(b, &a, err)))
            return rc;
    }
    return 0;
}

/* Copies the lists of the newest n ticks from number `first` (1: the earliest) on to b->ids, one behind the other, as
 * many as fit there; *ret_end: the first one that was not copied. One fits always. */
static int fetch_lists(struct burst *b, int first, int n, int *ret_end, struct err *err) {
    size_t room = (size_t)b->c->net.n + SPIKE_BLOCK, used = 0;
    int i = first, rc = 0;
    for (; i <= n; i++) {
        int list = (b->newest + i) % b->n_lists;
        size_t fired = b->seen[list].fired;
        if (used + fired > room)
            break;
        if (fired && (rc = stream_to_host(b->stream, b->ids + used, b->lists[list].ids, fired * sizeof *b->ids, err)))
            return rc;
        used += fired;
    }
    *ret_end = i;
    return used ? stream_sync(b->stream, err) : 0;
}

/* The newest n ticks to the sink, in order. */
static int show(struct burst *b, int n, burst_sink *sink, void *ctx, struct err *err) {
    const uint32_t *ids = NULL;
    for (int i = 1, fetched = 1; i <= n; i++) {
        int list = (b->newest + i) % b->n_lists, rc;
        const struct spike_counts *counts = &b->seen[list];
        if (!b->remote) {
            ids = b->lists[list].ids;
        } else if (i == fetched) {
            if ((rc = fetch_lists(b, i, n, &fetched, err)))
                return rc;
            ids = b->ids;
        }
        const struct burst_frame frame = {
            .tick = counts->tick, .ids = ids, .fired = counts->fired, .candidates = counts->candidates, .events = counts->events};
        sink(ctx, &frame);
        ids += counts->fired;
    }
    return 0;
}

int burst_step(struct burst *b, int64_t ticks, burst_sink *sink, void *ctx, struct err *err) {
    return burst_step_within(b, ticks, INFINITY, sink, ctx, err);
}

int burst_step_within(struct burst *b, int64_t ticks, double seconds, burst_sink *sink, void *ctx, struct err *err) {
    double end = clock_s() + seconds;
    int rc = burst_settle(b, err);
    for (bool late = false; !rc && ticks > 0 && !late; late = clock_s() >= end) {
        int most = burst_is_shared(b) && !b->peers ? 1 : b->n_lists - 1, n = ticks < most ? (int)ticks : most;
        int64_t offsets[BURST_AHEAD + 2] = {0};
        if ((rc = reserve_sums(b, waiting_for(b, n) + (int64_t)n * b->n_power, err)))
            break;
        for (int i = 0; i < n; i++)
            offsets[i + 1] = offsets[i] + sum_injections(b, b->tick + 1 + (uint64_t)i, offsets[i]);
        /* The next injections take the memory of these; without any, a sink or a limit of time the host need not wait yet. */
        bool waits = sink || burst_is_shared(b) || offsets[n] > 0 || seconds < INFINITY || ticks == n;
        if ((rc = queue_ticks(b, n, offsets, err)) || (waits && (rc = wait_for_ticks(b, err))) ||
            (rc = burst_ranks_exchange(b, (b->newest + 1) % b->n_lists, err)))
            break;
        b->tick += (uint64_t)n;
        if (sink)
            rc = show(b, n, sink, ctx, err);
        b->newest = (b->newest + n) % b->n_lists;
        ticks -= n;
    }
    return burst_ranks_settle(b, rc);
}

int burst_membranes(struct burst *b, float *ret, struct err *err) {
    int rc = stream_to_host(b->stream, ret, b->net.v, b->net.n * sizeof *ret, err);
    rc = rc ? rc : stream_sync(b->stream, err);
    return rc ? rc : burst_ranks_gather(b, ret, sizeof *ret, err);
}
