/* Ticks of a spiking network on the CPU: ranges of targets on the thread pool, each delivered to and advanced by one thread,
 * without atomics; then the fired neurons of the ranges joined in order. */
#include <string.h>

#include "base/subnormals.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/spike_job.h"

enum { MOST_PARTS = 256, ALONE_NEURONS = 16 << 10, ALONE_FIRED = 64 }; /* below these a second thread costs more than it saves */

static const struct spike_kernels *kernels_here(void) {
    const char *isa = device_isa();
    if (!strcmp(isa, spike_kernels_avx512.isa))
        return &spike_kernels_avx512;
    return strcmp(isa, spike_kernels_avx2.isa) ? &spike_kernels_base : &spike_kernels_avx2;
}

/* The ranges' lists, each at its range's first neuron, one behind the other. */
static void join(const struct spike_tick_args *a, const struct spike_part *parts) {
    struct spike_counts *counts = a->after.counts;
    uint64_t tick = a->before.counts->tick + 1;
    *counts = (struct spike_counts){.tick = tick};
    for (int i = 0; i < a->net.parts; i++) {
        uint64_t from = a->net.first + (uint64_t)i * a->net.part_neurons;
        if (parts[i].fired && from != counts->fired) {
            memmove(a->after.ids + counts->fired, a->after.ids + from, parts[i].fired * sizeof *a->after.ids);
            memmove(a->after.psp + counts->fired, a->after.psp + from, parts[i].fired);
        }
        counts->fired += parts[i].fired;
        counts->candidates += parts[i].candidates;
        counts->events += parts[i].events;
    }
}

static int lanes_of(const struct spike_tick_args *a, int threads) {
    bool alone = a->net.n < ALONE_NEURONS || (a->before.counts->fired < ALONE_FIRED && a->net.n < 4 * ALONE_NEURONS);
    return alone ? 1 : threads;
}

int cpu_spike_merge(struct stream *s, const struct spike_merge_args *a, struct err *err) {
    struct spike_counts counts = {.tick = a->parts[0].counts->tick};
    (void)s, (void)err;
    for (int r = 0; r < a->n_parts; r++) {
        const struct spike_fired *part = &a->parts[r];
        for (uint32_t i = 0; i < part->counts->fired; i++, counts.fired++) {
            const uint32_t id = part->ids[i];
            if (a->flags[id] & SPIKE_MP_DRIVEN)
                a->psp[id] = part->psp[i];
            a->after.ids[counts.fired] = id;
            a->after.psp[counts.fired] = a->psp[id];
        }
        counts.candidates += part->counts->candidates;
        counts.events += part->counts->events;
    }
    *a->after.counts = counts;
    return 0;
}

int cpu_spike_tick(struct stream *s, const struct spike_tick_args *a, struct err *err) {
    struct spike_part parts[MOST_PARTS];
    int n = a->net.parts;
    if (n > MOST_PARTS)
        return err_set(err, ERR_INVALID, "op spike_tick: %d ranges of targets; at most %d", n, MOST_PARTS);
    if (!a->net.span)
        return err_set(err, ERR_INVALID, "op spike_tick: span is missing");
    const unsigned was = subnormals_keep(); /* a leak gives the same bits on every device */
    lanes_for(lanes_of(a, cpu_threads(s)), n, kernels_here()->part, &(struct spike_tick){a, parts});
    subnormals_restore(was);
    join(a, parts);
    return 0;
}
