/* What areas give to all their neurons in every tick, as the kernels read it. */

#include "base/rng.h"

#include "burst/burst_parts.h"

_Static_assert((int)SPIKE_EVENT_STREAM == (int)RNG_EVENTS, "the draws of Poisson events");

/* e^-x for 0 ≤ x ≤ CONNECTOME_MOST_EVENTS by single products and sums, so that all machines have the same bits: the series of
 * e^(-x/1024), to the power of 1024. */
static double exp_minus(double x) {
    double small = x / 1024, term = 1, sum = 1;
    for (int k = 1; k <= 12; k++) {
        term = term * -small / k;
        sum += term;
    }
    for (int k = 0; k < 10; k++)
        sum *= sum;
    return sum;
}

/* The words of 32 bits with up to k events, as many as their chance says when `mean` are expected. */
static void chances(double mean, uint32_t last[SPIKE_MOST_EVENTS]) {
    double p = exp_minus(mean), sum = p;
    for (int k = 0; k < SPIKE_MOST_EVENTS; k++) {
        double scaled = rint(sum * 0x1p32);
        last[k] = scaled < 0x1p32 ? (uint32_t)scaled - 1 : UINT32_MAX;
        p = p * mean / (k + 1);
        sum += p;
    }
}

int burst_device_drive(struct burst *b, struct err *err) {
    const struct connectome *c = b->c;
    size_t bytes = (size_t)c->n_areas * sizeof(struct spike_drive);
    double units = 1 << c->net.fraction_bits;
    if (!(c->net.features & SPIKE_DRIVES))
        return 0;
    OWNED_MEMORY struct spike_drive *drives = calloc((size_t)c->n_areas, sizeof *drives);
    if (!drives)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the input of %d areas", c->n_areas);
    for (int i = 0; i < c->n_areas; i++) {
        const struct connectome_area *area = &c->areas[i];
        drives[i].constant = (int64_t)rint((double)area->constant * units);
        drives[i].event = area->events > 0 ? (int64_t)rint((double)area->event * units) : 0;
        chances(area->events, drives[i].last);
    }
    int rc = b->net.drive ? 0 : device_alloc(b->device, bytes, (void **)&b->net.drive, err);
    if (rc || (rc = stream_to_device(b->stream, b->net.drive, drives, bytes, err)))
        return rc;
    return stream_sync(b->stream, err);
}
