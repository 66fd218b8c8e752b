/* Where a network's arrays lie. On a device that computes in host memory they are the connectome's own; elsewhere copies. */

#include "burst/burst_parts.h"
#include "kernels/lanes.h"

enum { SMALLEST_PART = 8192, MOST_PARTS = 32 }; /* more parts than that cost more in spans than they gain */

/* ---- ranges of targets ----------------------------------------------------------------------------------------- */

/* The span of a row (kernels/spike.h). */
static void span_row(const void *ctx, int64_t source, int lane) {
    const struct burst *b = ctx;
    const struct connectome *c = b->c;
    (void)lane;
    uint32_t *span = b->net.span + (size_t)source * SPIKE_SPAN_WORDS(b->net.parts), at = 0, live = c->net.live[source];
    memcpy(span, &c->net.row[source], sizeof *c->net.row);
    for (int j = 0; j < b->net.parts - 1; j++) {
        uint64_t border = b->net.first + (uint64_t)(j + 1) * b->net.part_neurons;
        uint32_t low = at, high = live;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (connectome_at(c, (uint32_t)source, middle).target < border)
                low = middle + 1;
            else
                high = middle;
        }
        span[2 + j] = at = low;
    }
    span[1 + b->net.parts] = live;
}

static int64_t span_bytes(const struct burst *b) {
    return (int64_t)b->net.n * SPIKE_SPAN_WORDS(b->net.parts) * (int64_t)sizeof *b->net.span;
}

static int span_rows(struct burst *b, struct err *err) {
    int64_t blocks = (b->net.end - b->net.first + SPIKE_BLOCK - 1) / SPIKE_BLOCK;
    blocks = blocks > 1 ? blocks : 1;
    int parts = b->options.parts > 0                                      ? b->options.parts
                : b->net.end - b->net.first < (uint32_t)SMALLEST_PART * 2 ? 1
                : b->threads > MOST_PARTS                                 ? MOST_PARTS
                : b->threads > 1                                          ? b->threads
                                                                          : 1;
    parts = parts > blocks ? (int)blocks : parts;
    b->net.parts = parts;
    b->net.part_neurons = (uint32_t)((blocks + parts - 1) / parts) * SPIKE_BLOCK;
    int rc = device_alloc(b->device, (size_t)span_bytes(b), (void **)&b->net.span, err);
    if (rc)
        return rc;
    lanes_for(lanes_here(), b->net.n, span_row, b);
    return 0;
}

/* ---- copies ---------------------------------------------------------------------------------------------------- */

/* The device's array of a connectome's, how many elements it has and how wide they are. */
struct place {
    void **device;
    size_t count, each;
};
static struct place place_of(struct burst *b, const void *array) {
    struct spike_net *host = &b->c->net, *net = &b->net;
    size_t n = (size_t)burst_padded(b);
#define PLACE(type, name)                                                                                                          \
    if (array == host->name)                                                                                                       \
        return (struct place){(void **)&net->name, n, sizeof(type)};
    CONNECTOME_NEURONS(PLACE)
    CONNECTOME_CURRENTS(PLACE)
#undef PLACE
    if (array == b->c->area)
        return (struct place){(void **)&net->area, n, sizeof *net->area};
    if (array == host->row)
        return (struct place){(void **)&net->row, n + 1, sizeof *net->row};
    return (struct place){(void **)&net->divisor, n, sizeof *net->divisor};
}

int burst_device_neuron(struct burst *b, void *array, uint32_t id, struct err *err) {
    struct place p = place_of(b, array);
    size_t at = (size_t)id * p.each;
    if (!b->remote)
        return 0;
    int rc = stream_to_device(b->stream, (char *)*p.device + at, (char *)array + at, p.each, err);
    return rc ? rc : stream_sync(b->stream, err);
}

int burst_device_array(struct burst *b, void *array, struct err *err) {
    struct place p = place_of(b, array);
    if (!b->remote) {
        *p.device = array;
        return 0;
    }
    int rc;
    if ((rc = *p.device ? 0 : device_alloc(b->device, p.count * p.each, p.device, err)) ||
        (rc = stream_to_device(b->stream, *p.device, array, p.count * p.each, err)))
        return rc;
    return stream_sync(b->stream, err);
}

int burst_device_fetch(struct burst *b, void *array, struct err *err) {
    struct place p = place_of(b, array);
    if (!b->remote)
        return 0;
    int rc = stream_to_host(b->stream, array, *p.device, p.count * p.each, err);
    return rc ? rc : stream_sync(b->stream, err);
}

static size_t synapse_bytes(const struct burst *b) { return b->c->net.wide ? sizeof(struct spike_wide) : sizeof(spike_packed); }

int burst_device_row(struct burst *b, uint32_t source, struct err *err) {
    const struct spike_net *host = &b->c->net;
    size_t each = synapse_bytes(b), at = (size_t)host->row[source] * each;
    if (b->net.wide != host->wide)
        return burst_device_rows(b, err);
    if (!b->remote) {
        span_row(b, source, 0);
        return 0;
    }
    int rc = stream_to_device(b->stream, (char *)b->net.synapses + at, (char *)host->synapses + at, host->live[source] * each, err);
    return rc ? rc : burst_device_neuron(b, b->c->net.live, source, err);
}

int burst_device_rows(struct burst *b, struct err *err) {
    const struct spike_net *host = &b->c->net;
    size_t bytes = (size_t)(b->c->capacity + SPIKE_SLACK) * synapse_bytes(b);
    if (!b->remote) {
        COPY_MEMBERS(b->net, *host, synapses, wide);
        return 0;
    }
    void *synapses = NULL;
    int rc;
    if ((rc = device_alloc(b->device, bytes, &synapses, err)) ||
        (rc = stream_to_device(b->stream, synapses, host->synapses, (size_t)b->c->capacity * synapse_bytes(b), err)) ||
        (rc = stream_sync(b->stream, err))) {
        device_free(b->device, synapses);
        return rc;
    }
    device_free(b->device, b->net.synapses);
    b->net.synapses = synapses;
    b->net.wide = host->wide;
    return 0;
}

int burst_device_stale(struct burst *b, struct err *err) {
    size_t n = (size_t)burst_padded(b) / SPIKE_BLOCK;
    OWNED_MEMORY uint8_t *ones = malloc(n);
    if (!ones)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the state of %u neurons", b->net.n);
    memset(ones, 1, n);
    int rc = stream_to_device(b->stream, b->net.stale, ones, n, err);
    return rc ? rc : stream_sync(b->stream, err);
}

/* ---- lists ----------------------------------------------------------------------------------------------------- */

/* The newest list becomes these, and the counts those of b->tick. */
int burst_device_fired(struct burst *b, const uint32_t *ids, uint32_t n, struct err *err) {
    struct spike_fired *list = &b->lists[b->newest];
    struct spike_counts counts = {.tick = b->tick, .fired = n};
    OWNED_MEMORY uint8_t *psp = malloc((size_t)n + 1);
    int rc = psp ? burst_device_fetch(b, b->c->net.psp, err) : err_set(err, ERR_EXHAUSTED, "out of memory for %u fired neurons", n);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < n; i++)
        psp[i] = b->c->net.psp[ids[i]];
    if ((rc = stream_to_device(b->stream, list->ids, ids, n * sizeof *ids, err)) ||
        (rc = stream_to_device(b->stream, list->psp, psp, n, err)) ||
        (rc = stream_to_device(b->stream, list->counts, &counts, sizeof counts, err)))
        return rc;
    return stream_sync(b->stream, err);
}

int burst_device_fired_get(struct burst *b, uint32_t *ret_ids, uint32_t *ret_n, struct err *err) {
    const struct spike_fired *list = &b->lists[b->newest];
    struct spike_counts counts;
    int rc;
    if ((rc = stream_to_host(b->stream, &counts, list->counts, sizeof counts, err)) || (rc = stream_sync(b->stream, err)) ||
        (rc = stream_to_host(b->stream, ret_ids, list->ids, counts.fired * sizeof *ret_ids, err)) ||
        (rc = stream_sync(b->stream, err)))
        return rc;
    *ret_n = counts.fired;
    return 0;
}

static int open_lists(struct burst *b, struct err *err) {
    size_t n = (size_t)burst_padded(b);
    b->n_lists = b->remote ? BURST_AHEAD + 1 : 2;
    int rc = device_alloc(b->device, (size_t)(b->n_lists + 1) * sizeof *b->counts, (void **)&b->counts, err);
    if (rc)
        return rc;
    for (int i = 0; i < b->n_lists; i++) {
        struct spike_fired *list = &b->lists[i];
        list->counts = b->counts + i;
        if ((rc = device_alloc(b->device, n * sizeof *list->ids, (void **)&list->ids, err)) ||
            (rc = device_alloc(b->device, n, (void **)&list->psp, err)))
            return rc;
    }
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

int burst_device_open(struct burst *b, struct err *err) {
    struct spike_net *host = &b->c->net;
    struct device_info info;
    device_describe(b->device, &info);
    b->remote = info.is_async;
    b->threads = info.threads;
    b->net = (struct spike_net){
        .n = host->n, SAME_MEMBERS(b->c->own, first, end), SAME_MEMBERS(*host, features, fraction_bits, hubs, delays, seed)};
    b->net.parts = 1;
    b->net.part_neurons = (uint32_t)burst_padded(b);
    size_t n = (size_t)burst_padded(b);
    int rc;
#define OPEN(type, name)                                                                                                           \
    if ((rc = burst_device_array(b, host->name, err)))                                                                             \
        return rc;
    CONNECTOME_NEURONS(OPEN)
    OPEN(int64_t, row)
    if (host->divisor)
        OPEN(uint32_t, divisor)
    if (host->current) {
        CONNECTOME_CURRENTS(OPEN)
    }
#undef OPEN
    if (host->features & SPIKE_DRIVES && ((rc = burst_device_array(b, b->c->area, err)) || (rc = burst_device_drive(b, err))))
        return rc;
    if ((rc = burst_device_rows(b, err)) ||
        (rc = b->remote ? device_alloc(b->device, n / 8 * (size_t)host->delays, (void **)&b->net.touched, err)
                        : span_rows(b, err)) ||
        (rc = burst_device_sums(b, err)) || (rc = device_alloc(b->device, n / SPIKE_BLOCK, (void **)&b->net.stale, err)) ||
        (rc = burst_device_stale(b, err)))
        return rc;
    return open_lists(b, err);
}

void burst_device_close(struct burst *b) {
    struct device *dev = b->device;
    for (int i = 0; i < b->n_lists; i++) {
        device_free(dev, b->lists[i].ids);
        device_free(dev, b->lists[i].psp);
    }
    device_free(dev, b->counts);
    device_free(dev, b->net.drive);
    device_free(dev, b->net.sums);
    device_free(dev, b->net.stale);
    device_free(dev, b->net.touched);
    device_free(dev, b->net.span);
    device_free(dev, b->device_ids);
    device_free(dev, b->device_sums);
    if (!b->remote)
        return;
#define CLOSE(type, name) device_free(dev, b->net.name);
    CONNECTOME_NEURONS(CLOSE)
    CONNECTOME_CURRENTS(CLOSE)
    CLOSE(uint32_t, area)
#undef CLOSE
    device_free(dev, b->net.row);
    device_free(dev, b->net.divisor);
    device_free(dev, b->net.synapses);
}
