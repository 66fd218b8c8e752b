/* The state of a network: taken out, and put into another one of the same arrays. */

#include "burst/burst_parts.h"
#include "burst/connectome_rows.h"

#define MOST_ARRIVING (INT64_C(1) << 61)

/* The state on the host, once all of the device's arrays are fetched. */
static int gather(struct burst *b, struct burst_state *state, struct err *err) {
    const struct spike_net *net = &b->c->net;
    size_t n = net->n, waiting = (size_t)(b->n_pending - b->head);
    state->v = connectome_copy(net->v, n * sizeof *net->v);
    state->current = net->current ? connectome_copy(net->current, n * sizeof *net->current) : NULL;
    state->countdown = connectome_copy(net->countdown, n * sizeof *net->countdown);
    state->fire_count = connectome_copy(net->fire_count, n * sizeof *net->fire_count);
    state->psp = connectome_copy(net->psp, n);
    state->alive = connectome_copy(net->flags, n);
    bool counts = net->divisor || connectome_has_lost(b->c);
    state->divisor = counts ? calloc(n, sizeof *state->divisor) : NULL;
    state->fired_ids = malloc((n + 1) * sizeof *state->fired_ids);
    state->pending = connectome_copy(b->pending ? b->pending + b->head : NULL, waiting * sizeof *b->pending);
    state->n_arriving = (int64_t)burst_ring_size(b);
    state->arriving = malloc(burst_ring_size(b) * sizeof *state->arriving + 1);
    if (!state->v || (net->current && !state->current) || !state->countdown || !state->fire_count || !state->psp || !state->alive ||
        !state->fired_ids || !state->pending || !state->arriving || (counts && !state->divisor))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the state of %u neurons", net->n);
    for (uint32_t i = 0; i < n; i++) {
        state->alive[i] &= SPIKE_ALIVE;
        if (counts)
            state->divisor[i] = net->divisor ? net->divisor[i] : connectome_built(b->c, i);
    }
    state->n_pending = (int64_t)waiting;
    int rc = burst_ring_get(b, state->arriving, err);
    return rc ? rc : burst_device_fired_get(b, state->fired_ids, &state->fired, err);
}

static int gather_ranks(struct burst *b, struct burst_state *state, struct err *err) {
    int rc;
    if ((rc = burst_ranks_gather(b, state->v, sizeof *state->v, err)) ||
        (rc = state->current ? burst_ranks_gather(b, state->current, sizeof *state->current, err) : 0) ||
        (rc = burst_ranks_gather(b, state->countdown, sizeof *state->countdown, err)) ||
        (rc = burst_ranks_gather(b, state->fire_count, sizeof *state->fire_count, err)) ||
        (rc = burst_ranks_gather(b, state->psp, sizeof *state->psp, err)) ||
        (rc = burst_ranks_gather(b, state->alive, sizeof *state->alive, err)))
        return rc;
    for (int64_t at = 0; !rc && at < state->n_arriving; at += b->net.n)
        rc = burst_ranks_gather(b, state->arriving + at, sizeof *state->arriving, err);
    return rc;
}

int burst_save(struct burst *b, struct burst_state *ret, struct err *err) {
    struct spike_net *net = &b->c->net;
    struct burst_state state = {0};
    int rc = burst_settle(b, err);
    state.tick = b->tick;
    state.every_tick = b->options.every_tick;
    state.fraction_bits = net->fraction_bits;
    state.neurons = net->n;
    if (rc || (rc = burst_device_fetch(b, net->v, err)) || (net->current && (rc = burst_device_fetch(b, net->current, err))) ||
        (rc = burst_device_fetch(b, net->countdown, err)) || (rc = burst_device_fetch(b, net->fire_count, err)) ||
        (rc = burst_device_fetch(b, net->psp, err)) || (rc = gather(b, &state, err)) || (rc = gather_ranks(b, &state, err))) {
        burst_state_done(&state);
        return rc;
    }
    *ret = state;
    return 0;
}

static int check_arriving(const struct burst *b, const struct burst_state *state, struct err *err) {
    if (state->n_arriving != (int64_t)burst_ring_size(b))
        return err_set(err, ERR_INVALID, "state.arriving has %lld elements; expected %lld: %d ticks of %u neurons",
                       (long long)state->n_arriving, (long long)burst_ring_size(b), b->net.delays - 1, b->net.n);
    for (int64_t i = 0; i < state->n_arriving; i++)
        if (state->arriving[i] != SPIKE_NO_INPUT_64 && llabs(state->arriving[i]) >= MOST_ARRIVING)
            return err_set(err, ERR_INVALID, "state.arriving[%lld] is %lld; expected less than 2^61 in size, or -2^63 for nothing",
                           (long long)i, (long long)state->arriving[i]);
    return 0;
}

/* Whether sums of 32 bits hold what is on its way and all that may join it: true of each state of a network that did not change. */
static bool arriving_fits(const struct burst *b, const struct burst_state *state) {
    for (int64_t i = 0; i < state->n_arriving; i++) {
        uint32_t id = (uint32_t)(i % b->net.n);
        uint64_t bound = b->c->input_bound[id] << state->fraction_bits;
        if (connectome_owns(b->c, id) && state->arriving[i] != SPIKE_NO_INPUT_64 && (uint64_t)llabs(state->arriving[i]) > bound)
            return false;
    }
    return true;
}

static int check(const struct burst *b, const struct burst_state *state, struct err *err) {
    const struct connectome *c = b->c;
    if (state->tick > BURST_MOST_TICK)
        return err_set(err, ERR_INVALID, "the state is of tick %llu; expected at most 2^62", (unsigned long long)state->tick);
    if (state->neurons != c->net.n)
        return err_set(err, ERR_INVALID, "the state is of %u neurons; expected the %u of the network", state->neurons, c->net.n);
    if (state->fraction_bits < 0 || state->fraction_bits > c->net.fraction_bits)
        return err_set(err, ERR_INVALID, "the state has %d fraction bits; expected 0 to the %d that the network allows",
                       state->fraction_bits, c->net.fraction_bits);
    if (!state->current != !c->net.current)
        return err_set(err, ERR_INVALID, "state.current is %s; the network %s exponential synapses",
                       state->current ? "there" : "missing", c->net.current ? "has" : "has no");
    for (uint32_t i = 0; i < state->neurons; i++) {
        if (state->current && !isfinite(state->current[i]))
            return err_set(err, ERR_INVALID, "state.current[%u] is %g; expected a finite number", i, (double)state->current[i]);
        if (!isfinite(state->v[i]))
            return err_set(err, ERR_INVALID, "state.v[%u] is %g; expected a finite number", i, (double)state->v[i]);
        if (state->alive[i] > 1)
            return err_set(err, ERR_INVALID, "state.alive[%u] is %d; expected 0 or 1", i, state->alive[i]);
        if (state->divisor && state->divisor[i] < c->net.live[i])
            return err_set(err, ERR_INVALID, "state.divisor[%u] is %u; expected at least the %u synapses of the neuron", i,
                           state->divisor[i], c->net.live[i]);
    }
    for (uint32_t i = 0; i < state->fired; i++) {
        if (state->fired_ids[i] >= state->neurons)
            return err_set(err, ERR_INVALID, "state.fired[%u] is %u; expected less than the %u neurons", i, state->fired_ids[i],
                           state->neurons);
        if (i && state->fired_ids[i] <= state->fired_ids[i - 1])
            return err_set(err, ERR_INVALID, "state.fired[%u] is %u after %u; expected ascending neurons", i, state->fired_ids[i],
                           state->fired_ids[i - 1]);
        if (!state->alive[state->fired_ids[i]])
            return err_set(err, ERR_INVALID, "state.fired[%u] is %u, which state.alive says is deleted", i, state->fired_ids[i]);
    }
    if (state->n_pending > b->options.max_pending)
        return err_set(err, ERR_EXHAUSTED, "%lld injections wait in the state; at most %lld may", (long long)state->n_pending,
                       (long long)b->options.max_pending);
    int rc = check_arriving(b, state, err);
    return rc ? rc : burst_check_injections(b, state->tick, "state.pending", state->pending, state->n_pending, err);
}

/* Into the connectome's arrays; burst_restore then brings them to the device. */
static void put(struct burst *b, const struct burst_state *state) {
    struct spike_net *net = &b->c->net;
    size_t n = net->n;
    memcpy(net->v, state->v, n * sizeof *net->v);
    if (net->current)
        memcpy(net->current, state->current, n * sizeof *net->current);
    memcpy(net->countdown, state->countdown, n * sizeof *net->countdown);
    memcpy(net->fire_count, state->fire_count, n * sizeof *net->fire_count);
    for (size_t i = 0; i < n; i++) {
        net->psp[i] = net->flags[i] & SPIKE_MP_DRIVEN ? state->psp[i] : net->psp[i];
        net->flags[i] = (uint8_t)((net->flags[i] & ~SPIKE_ALIVE) | state->alive[i]);
    }
    if (net->divisor && state->divisor)
        memcpy(net->divisor, state->divisor, n * sizeof *net->divisor);
}

/* Divisors that no row of the network tells. */
static bool needs_divisors(const struct connectome *c, const struct burst_state *state) {
    for (uint32_t i = 0; state->divisor && i < state->neurons; i++)
        if (state->divisor[i] != connectome_built(c, i))
            return true;
    return false;
}

int burst_restore(struct burst *b, const struct burst_state *state, struct err *err) {
    struct spike_net *net = &b->c->net;
    struct burst_injection *pending = NULL;
    int rc;
    if ((rc = burst_settle(b, err)) || (rc = check(b, state, err)) ||
        (!(pending = connectome_copy(state->pending, (size_t)state->n_pending * sizeof *pending)) &&
         (rc = err_set(err, ERR_EXHAUSTED, "out of memory for %lld injections", (long long)state->n_pending))) ||
        (needs_divisors(b->c, state) && (rc = connectome_make_divisors(b->c, err)))) {
        free(pending);
        return rc;
    }
    put(b, state);
    b->options.every_tick |= state->every_tick;
    net->features |= b->options.every_tick ? SPIKE_EVERY_TICK : 0U;
    b->net.features = net->features;
    free(b->pending);
    b->pending = pending;
    b->head = b->sorted = 0;
    b->n_pending = b->pending_room = state->n_pending;
    b->tick = state->tick;
    b->net.fraction_bits = net->fraction_bits = state->fraction_bits;
    void *const arrays[] = {net->v, net->current, net->countdown, net->fire_count, net->psp, net->flags, net->divisor};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i] && (rc = burst_device_array(b, arrays[i], err)))
            return rc;
    net->wide_sums |= !arriving_fits(b, state);
    if ((rc = burst_device_drive(b, err)) || (rc = burst_device_stale(b, err)) ||
        (net->wide_sums != b->net.wide_sums && (rc = burst_device_sums(b, err))) ||
        (b->net.delays > 1 && (rc = burst_ring_put(b, state->arriving, err))))
        return rc;
    return burst_device_fired(b, state->fired_ids, state->fired, err);
}
