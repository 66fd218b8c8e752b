/* Networks that ranks share, each on a device of its own: fired neurons of every tick, what was delivered, membranes and states are
 * those of one rank, bit for bit; a state of three ranks goes on at one, two, four and eight. On a GPU all ranks share it, and read
 * one another's lists there; with BRR_TEST_SPREAD=1 they are spread over all GPUs, of which there must be two, else the program
 * exits with 77. */
#include <dlfcn.h>

#include "base/base.h"
#include "burst/wiring.h"
#include "seed.h"
#include "unit/burst_fixture.h"

enum { NEURONS = 1000, FAN_OUT = 25, MINI = 300, MOST_RANKS = 8, HALF = 30, MOST_INJECTIONS = 256, MOST_GPUS = 16 };
enum { FLOODED = 200, FLOOD_TICKS = 45, AT_ONCE = 11 /* ticks of a step */ };

static int most_ranks = MOST_RANKS, gpus; /* gpus: over which ranks are spread; 0: all are on the fixture's device */

/* What one rank does and has seen. */
struct rank {
    struct world world;
    const struct connectome_arrays *arrays;
    uint64_t seed;
    bool every_tick, floods;        /* floods: ticks in which every neuron fires, and long silences */
    bool leaves;                    /* rank 1 fails half way */
    const char *way;                /* that several ranks must go; NULL: any */
    const struct burst_state *from; /* NULL: from the beginning */
    int64_t ticks;
    struct burst_state saved;
    float v[NEURONS];
    uint64_t trace, events;
    int64_t fired, full, empty; /* full, empty: ticks in which all neurons fired, or none */
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
    r->full += f->fired == r->arrays->neurons;
    r->empty += f->fired == 0;
}

static int inject_tick(struct rank *r, struct burst *b, uint64_t tick) {
    struct burst_injection list[MOST_INJECTIONS];
    int64_t n = 0;
    if (r->leaves && r->world.rank == 1 && tick > HALF)
        return err_set(&r->err, ERR_INTERNAL, "this rank fails");
    if (!r->floods)
        n = drawn_injections(r->seed, tick, r->arrays->neurons, list, MOST_INJECTIONS);
    else if (tick % 35 == 4)
        for (; n < r->arrays->neurons; n++)
            list[n] = (struct burst_injection){tick, (uint32_t)n, 1000};
    return burst_inject(b, list, n, &r->err);
}

/* Steps of 1, 2, … AT_ONCE ticks. */
static int run_ticks(struct rank *r, struct burst *b) {
    int rc = r->from ? burst_restore(b, r->from, &r->err) : 0;
    for (int64_t done = 0, n = 1; !rc && done < r->ticks; done += n, n = n % AT_ONCE + 1) {
        n = n < r->ticks - done ? n : r->ticks - done;
        for (int64_t i = 1; !rc && i <= n; i++)
            rc = inject_tick(r, b, burst_tick(b) + (uint64_t)i);
        rc = rc ? rc : burst_step(b, n, note_tick, r, &r->err);
    }
    rc = rc ? rc : burst_membranes(b, r->v, &r->err);
    return rc ? rc : burst_save(b, &r->saved, &r->err);
}

static int check_way(struct rank *r, const struct burst *b) {
    const char *expected = r->world.size == 1 ? "" : r->way;
    return !expected || !strcmp(burst_way(b), expected)
               ? 0
               : err_set(&r->err, ERR_INTERNAL, "the ranks exchange by way of '%s'; expected '%s'", burst_way(b), expected);
}

static void *run_rank(void *arg) {
    struct rank *r = arg;
    struct connectome_arrays a = *r->arrays;
    struct connectome *c = NULL;
    char name[16];
    struct device *device = NULL;
    struct stream *stream = NULL;
    struct burst *b = NULL;
    const struct burst_options options = {.every_tick = r->every_tick, .world = &r->world};
    a.shard = (struct connectome_shard){r->world.rank, r->world.size};
    str_format(name, sizeof name, "cuda:%d", gpus ? r->world.rank % gpus : 0);
    if (!(r->rc = device_open(gpus ? name : fixture_device(), 1, &device, &r->err)) &&
        !(r->rc = stream_open(device, STREAM_NORMAL, &stream, &r->err)) && !(r->rc = connectome_new(&a, 0, &c, &r->err)) &&
        !(r->rc = burst_new(stream, c, &options, &b, &r->err)) && !(r->rc = check_way(r, b)))
        r->rc = run_ticks(r, b);
    burst_free(b);
    stream_close(stream);
    device_close(device);
    world_close(&r->world, !r->rc);
    return NULL;
}

/* All ranks to their end, as first says; *ret[0] is rank 0. */
static void run_to_end(struct rank *ranks, int n, const struct rank *first) {
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
}

static void run_all(struct rank *ranks, int n, const struct rank *first) {
    run_to_end(ranks, n, first);
    for (int i = 0; i < n; i++)
        if (ranks[i].rc)
            fail_msg("rank %d of %d: %s", i, n, ranks[i].err.message);
}

static void ranks_done(struct rank *ranks, int n) {
    for (int i = 0; i < n; i++)
        burst_state_done(&ranks[i].saved);
}

static void expect_same(const struct rank *is, const struct rank *expected, int n) {
    size_t neurons = (size_t)is->arrays->neurons;
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

static bool is_gpu(void) { return gpus || str_starts(fixture_device(), "cuda:"); }

/* How several ranks exchange here. */
static const char *usual_way(void) { return is_gpu() ? "peer access" : "host memory"; }

static void compare_numbers_of(int64_t neurons, enum drawn_form form, unsigned traits, bool every_tick) {
    static struct rank ranks[MOST_RANKS], one[1], rest[1], three[3];
    struct drawn d;
    struct rank first = {
        .seed = test_seed() << 8 | form, .every_tick = every_tick, .ticks = 2 * HALF, .arrays = &d.arrays, .way = usual_way()};
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

/* Each neuron fires one other, 1 to 9 ticks later, or keeps it from firing. */
struct flooded {
    float threshold[FLOODED];
    uint32_t src[FLOODED], dst[FLOODED];
    uint8_t weight[FLOODED], psp[FLOODED], type[FLOODED], delay[FLOODED];
    struct connectome_area area;
    struct connectome_arrays arrays;
};

static void flooded_init(struct flooded *f) {
    *f = (struct flooded){.area = {.name = "all"}};
    for (uint32_t i = 0; i < FLOODED; i++) {
        f->threshold[i] = f->psp[i] = 1;
        f->src[i] = i;
        f->dst[i] = (7 * i + 3) % FLOODED;
        f->weight[i] = 10;
        f->type[i] = i % 2 == 0;
        f->delay[i] = (uint8_t)(1 + i % 9);
    }
    f->arrays = (struct connectome_arrays){.neurons = FLOODED,
                                           .synapses = FLOODED,
                                           SAME_MEMBERS(*f, threshold, src, dst, weight, psp, type, delay),
                                           .areas = &f->area,
                                           .n_areas = 1};
}

/* So many ranks, with the bits of one. */
static void flood(const char *way, int least, int most) {
    static struct rank ranks[MOST_RANKS], one[1];
    struct flooded f;
    struct rank first = {.ticks = FLOOD_TICKS, .arrays = &f.arrays, .floods = true, .way = way};
    flooded_init(&f);
    run_all(one, 1, &first);
    assert_int_equal(one->full, 2);
    assert_true(one->empty > 10 && one->fired > 2 * (int64_t)FLOODED);
    for (int n = least; n <= most; n = next_number(n)) {
        run_all(ranks, n, &first);
        for (int i = 0; i < n; i++)
            expect_same(&ranks[i], one, n);
        ranks_done(ranks, n);
    }
    ranks_done(one, 1);
}

/* What the emulator counts: how often the host has waited. */
static long waits(void) {
    const char *path = getenv("BRR_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    long (*count)(void) = NULL;
    if (library)
        *(void **)&count = dlsym(library, "emulator_waits");
    return count ? count() : 0;
}

static void neurons_fire_all_at_once_and_none_for_long(void **state) {
    (void)state;
    flood(usual_way(), 2, most_ranks);
}

/* Then the host waits for each tick. */
static void neurons_fire_the_same_where_gpus_do_not_reach_one_another(void **state) {
    const long begun = waits();
    (void)state;
    if (!is_gpu())
        return;
    flood("peer access", 3, 3);
    const long queued = waits() - begun;
    setenv("BRR_PEERS", "0", 1);
    flood("host memory: BRR_PEERS=0", 3, 3);
    unsetenv("BRR_PEERS");
    if (getenv("BRR_EMULATED_DEVICES"))
        assert_true(waits() - begun - queued >= queued + 3 * FLOOD_TICKS); /* each rank, in each tick */
    if (!getenv("BRR_EMULATED_DEVICES") || gpus < 2)
        return;
    setenv("BRR_EMULATED_APART", "1", 1);
    flood("host memory: cuda:0 cannot access the memory of cuda:1", 3, 3);
    unsetenv("BRR_EMULATED_APART");
    setenv("BRR_EMULATED_WRONG", "1", 1);
    flood("host memory: cuda:1 reads wrong bytes from the memory of cuda:0: look at its IOMMU and PCIe ACS settings", 3, 3);
    unsetenv("BRR_EMULATED_WRONG");
}

/* The others end at once, and with them the memory that GPUs read. */
static void a_rank_that_fails_ends_the_others(void **state) {
    static struct rank ranks[MOST_RANKS];
    struct flooded f;
    struct rank first = {.ticks = FLOOD_TICKS, .arrays = &f.arrays, .floods = true, .leaves = true, .way = usual_way()};
    (void)state;
    flooded_init(&f);
    run_to_end(ranks, 3, &first);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ranks[i].rc, i == 1 ? ERR_INTERNAL : ERR_UNAVAILABLE);
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
    const char *size = getenv("BRR_TEST_MODEL"), *spread = getenv("BRR_TEST_SPREAD");
    struct device_info devices[MOST_GPUS + 1];
    if (spread && !strcmp(spread, "1") && (gpus = device_list(devices, MOST_GPUS + 1) - 1) < 2) {
        printf("skipped: hardware: %s\n", gpus ? "one GPU, and two are needed" : "no GPU");
        return 77;
    }
    cmocka_set_test_filter(getenv("BRR_TEST_FILTER"));
    most_ranks = size && !strcmp(size, "mini") ? MOST_RANKS / 2 : MOST_RANKS;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_gives_the_same_bits),
        cmocka_unit_test(so_it_does_with_delays_currents_and_events),
        cmocka_unit_test(so_it_does_where_sums_need_64_bits),
        cmocka_unit_test(some_ranks_may_have_no_neurons),
        cmocka_unit_test(neurons_fire_all_at_once_and_none_for_long),
        cmocka_unit_test(neurons_fire_the_same_where_gpus_do_not_reach_one_another),
        cmocka_unit_test(a_rank_that_fails_ends_the_others),
        cmocka_unit_test(shards_fit_where_the_whole_network_does_not),
    };
    return cmocka_run_group_tests_name("burst_ranks", tests, NULL, NULL);
}
