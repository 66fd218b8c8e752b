/* Networks that ranks share, each on a device of its own: fired neurons of every tick, what was delivered, membranes and states are
 * those of one rank, bit for bit; a state of three ranks goes on at one, two, four and eight. */
#include <pthread.h>

#include "burst/wiring.h"
#include "seed.h"
#include "unit/burst_fixture.h"

enum { NEURONS = 1000, FAN_OUT = 25, MINI = 300, MOST_RANKS = 8, HALF = 30, MOST_INJECTIONS = 256 };

static int most_ranks = MOST_RANKS;

/* What one rank does and has seen. */
struct rank {
    struct world world;
    const struct drawn *drawn;
    uint64_t seed;
    bool every_tick;
    const struct burst_state *from; /* NULL: from the beginning */
    int64_t ticks;
    struct burst_state saved;
    float v[NEURONS];
    uint64_t trace, events;
    int64_t fired;
    int rc;
    struct err err;
};

static void note_tick(void *ctx, const struct burst_frame *f) {
    struct rank *r = ctx;
    r->trace = (r->trace ^ f->tick ^ f->events << 20 ^ (uint64_t)f->candidates << 40) * 0x100000001b3u;
    for (int64_t i = 0; i < f->fired; i++)
        r->trace = (r->trace ^ f->ids[i]) * 0x100000001b3u;
    r->fired += f->fired;
    r->events += f->events;
}

static int run_ticks(struct rank *r, struct burst *b) {
    struct burst_injection list[MOST_INJECTIONS];
    int rc = r->from ? burst_restore(b, r->from, &r->err) : 0;
    for (int64_t i = 0; !rc && i < r->ticks; i++) {
        int64_t n = drawn_injections(r->seed, burst_tick(b) + 1, r->drawn->arrays.neurons, list, MOST_INJECTIONS);
        if (!(rc = burst_inject(b, list, n, &r->err)))
            rc = burst_step(b, 1, note_tick, r, &r->err);
    }
    rc = rc ? rc : burst_membranes(b, r->v, &r->err);
    return rc ? rc : burst_save(b, &r->saved, &r->err);
}

static void *run_rank(void *arg) {
    struct rank *r = arg;
    struct connectome_arrays a = r->drawn->arrays;
    struct connectome *c = NULL;
    struct device *device = NULL;
    struct stream *stream = NULL;
    struct burst *b = NULL;
    const struct burst_options options = {.every_tick = r->every_tick, .world = &r->world};
    a.shard = (struct connectome_shard){r->world.rank, r->world.size};
    if (!(r->rc = device_open(fixture_device(), 1, &device, &r->err)) &&
        !(r->rc = stream_open(device, STREAM_NORMAL, &stream, &r->err)) && !(r->rc = connectome_new(&a, 0, &c, &r->err)) &&
        !(r->rc = burst_new(stream, c, &options, &b, &r->err)))
        r->rc = run_ticks(r, b);
    burst_free(b);
    stream_close(stream);
    device_close(device);
    world_close(&r->world, !r->rc);
    return NULL;
}

/* All ranks to their end, as first says; *ret[0] is rank 0. */
static void run_all(struct rank *ranks, int n, const struct rank *first) {
    struct world worlds[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    if (n == 1)
        world_alone(&worlds[0]);
    else
        ok(world_threads(worlds, n, &err));
    for (int i = 0; i < n; i++) {
        ranks[i] = *first;
        ranks[i].world = worlds[i];
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++)
        if (ranks[i].rc)
            fail_msg("rank %d of %d: %s", i, n, ranks[i].err.message);
}

static void ranks_done(struct rank *ranks, int n) {
    for (int i = 0; i < n; i++)
        burst_state_done(&ranks[i].saved);
}

static void expect_same(const struct rank *is, const struct rank *expected, int n) {
    size_t neurons = (size_t)is->drawn->arrays.neurons;
    if (is->trace != expected->trace || is->fired != expected->fired || is->events != expected->events)
        fail_msg("rank %d of %d: %lld spikes and %llu events; expected %lld and %llu, the same in each tick", is->world.rank, n,
                 (long long)is->fired, (unsigned long long)is->events, (long long)expected->fired,
                 (unsigned long long)expected->events);
    assert_memory_equal(is->v, expected->v, neurons * sizeof *is->v);
    assert_memory_equal(is->saved.v, expected->saved.v, neurons * sizeof *is->v);
    assert_memory_equal(is->saved.countdown, expected->saved.countdown, neurons * sizeof *is->saved.countdown);
    assert_memory_equal(is->saved.fire_count, expected->saved.fire_count, neurons * sizeof *is->saved.fire_count);
    assert_memory_equal(is->saved.alive, expected->saved.alive, neurons);
    assert_int_equal(is->saved.fraction_bits, expected->saved.fraction_bits);
    assert_int_equal(is->saved.n_arriving, expected->saved.n_arriving);
    assert_memory_equal(is->saved.arriving, expected->saved.arriving, (size_t)is->saved.n_arriving * sizeof(int64_t));
}

/* Numbers of ranks: 1, 2, 3, 4 and 8. */
static int next_number(int n) { return n < 4 ? n + 1 : 2 * n; }

static void compare_numbers_of(int64_t neurons, enum drawn_form form, unsigned traits, bool every_tick) {
    static struct rank ranks[MOST_RANKS], one[1], rest[1], three[3];
    struct drawn d;
    struct rank first = {.seed = test_seed() << 8 | form, .every_tick = every_tick, .ticks = 2 * HALF, .drawn = &d};
    drawn_init(&d, first.seed, neurons, neurons * FAN_OUT, form, traits);
    run_all(one, 1, &first);
    assert_true(one->fired > 100);
    for (int n = 2; n <= most_ranks; n = next_number(n)) {
        run_all(ranks, n, &first);
        for (int i = 0; i < n; i++)
            expect_same(&ranks[i], one, n);
        ranks_done(ranks, n);
    }
    first.ticks = HALF;
    run_all(three, 3, &first);
    for (int n = 1; n <= most_ranks; n *= 2) {
        struct rank second = first;
        second.from = &three[2].saved;
        run_all(ranks, n, &second);
        if (n == 1) {
            *rest = *ranks;
            assert_memory_equal(rest->v, one->v, (size_t)neurons * sizeof *rest->v);
            continue;
        }
        for (int i = 0; i < n; i++)
            expect_same(&ranks[i], rest, n);
        ranks_done(ranks, n);
    }
    ranks_done(rest, 1);
    ranks_done(three, 3);
    ranks_done(one, 1);
    drawn_free(&d);
}

static void compare_numbers(enum drawn_form form, unsigned traits, bool every_tick) {
    compare_numbers_of(most_ranks < MOST_RANKS ? MINI : NEURONS, form, traits, every_tick);
}

static void any_number_of_ranks_gives_the_same_bits(void **state) {
    (void)state;
    compare_numbers(DRAWN_PACKED, DRAWN_EVERYTHING, false);
    compare_numbers(DRAWN_WIDE, DRAWN_EVERYTHING, true);
}

static void so_it_does_with_delays_currents_and_events(void **state) {
    (void)state;
    compare_numbers(DRAWN_LATE, DRAWN_EVERYTHING | DRAWN_CURRENTS, false);
}

static void so_it_does_where_sums_need_64_bits(void **state) {
    (void)state;
    compare_numbers(DRAWN_LATE_HEAVY, DRAWN_EVERYTHING, false);
    compare_numbers(DRAWN_HEAVY, 0, false);
}

static void some_ranks_may_have_no_neurons(void **state) {
    (void)state;
    compare_numbers_of(70, DRAWN_LATE, DRAWN_EVERYTHING | DRAWN_CURRENTS, false);
}

/* Each rank needs memory for its shard alone. */
static void shards_fit_where_the_whole_network_does_not(void **state) {
    struct drawn d;
    struct connectome *c = NULL;
    struct wiring w;
    (void)state;
    drawn_init(&d, test_seed(), NEURONS, NEURONS * FAN_OUT, DRAWN_WIDE, 0);
    wiring_default(&w);
    const int64_t most = connectome_bytes(NEURONS, NEURONS * FAN_OUT * 3 / 4, true),
                  most_drawn = connectome_bytes(w.neurons, w.neurons * w.fan_out * 3 / 4, false);
    assert_int_equal(connectome_new(&d.arrays, most, &c, &err), ERR_EXHAUSTED);
    assert_int_equal(wiring_make(&w, most_drawn, &c, &err), ERR_EXHAUSTED);
    for (int i = 0; i < 2; i++) {
        d.arrays.shard = w.shard = (struct connectome_shard){i, 2};
        ok(connectome_new(&d.arrays, most, &c, &err));
        assert_int_equal(connectome_new(&d.arrays, connectome_bytes(NEURONS, c->synapses, true) - 1, &c, &err), ERR_EXHAUSTED);
        connectome_free(c);
        ok(wiring_make(&w, most_drawn, &c, &err));
        assert_int_equal(wiring_make(&w, connectome_bytes(w.neurons, c->synapses, false) - 1, &c, &err), ERR_EXHAUSTED);
        connectome_free(c);
    }
    drawn_free(&d);
}

int main(void) {
    const char *size = getenv("BRR_TEST_MODEL");
    most_ranks = size && !strcmp(size, "mini") ? MOST_RANKS / 2 : MOST_RANKS;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_gives_the_same_bits),     cmocka_unit_test(so_it_does_with_delays_currents_and_events),
        cmocka_unit_test(so_it_does_where_sums_need_64_bits),          cmocka_unit_test(some_ranks_may_have_no_neurons),
        cmocka_unit_test(shards_fit_where_the_whole_network_does_not),
    };
    return cmocka_run_group_tests_name("burst_ranks", tests, NULL, NULL);
}
