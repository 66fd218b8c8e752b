/* Random networks of every kind, run side by side: one thread of plain C against two threads, AVX2, AVX-512, other cuts of the
 * targets and the device of BRR_TEST_DEVICE. Fired neurons of every tick, what was delivered, and the membranes at the end are the
 * same, bit for bit; so is what follows a snapshot that is restored elsewhere. BRR_TEST_MODEL=NEURONS,TICKS runs larger ones. */

#include "base/base.h"
#include "seed.h"
#include "skip.h"
#include "unit/burst_fixture.h"

enum { SEEDS = 3, FAN_OUT = 30, MOST_INJECTIONS = 1 << 16 };

struct place {
    const char *device, *isa;
    int threads, parts;
};

/* A run as it is compared: a number for each tick, of who fired and how much was delivered. */
struct trace {
    uint64_t *ticks;
    float *v;
    int64_t fired, events, at;
};

static int64_t neurons, ticks;

static int read_size(void **state) {
    (void)state;
    const char *size = getenv("BRR_TEST_MODEL");
    bool mini = size && !strcmp(size, "mini");
    long long n = mini ? 700 : 3000, t = mini ? 40 : 1000;
    if (size && !mini && sscanf(size, "%lld,%lld", &n, &t) != 2)
        return -1;
    neurons = n;
    ticks = t;
    return 0;
}

static void note(void *ctx, const struct burst_frame *f) {
    struct trace *t = ctx;
    uint64_t h = f->tick * 0x9e3779b97f4a7c15u + f->events + ((uint64_t)f->candidates << 32);
    for (int64_t i = 0; i < f->fired; i++) {
        h = (h ^ f->ids[i]) * 0x100000001b3u;
        assert_true(i == 0 || f->ids[i] > f->ids[i - 1]);
    }
    t->ticks[t->at++] = h;
    t->fired += f->fired;
    t->events += (int64_t)f->events;
}

static void trace_init(struct trace *t) {
    *t = (struct trace){.ticks = calloc((size_t)ticks, sizeof(uint64_t)), .v = calloc((size_t)neurons, sizeof(float))};
    assert_true(t->ticks && t->v);
}
static void trace_done(struct trace *t) {
    free(t->ticks);
    free(t->v);
}

static void inject(struct burst *b, uint64_t seed, int64_t from, int64_t to) {
    static struct burst_injection list[MOST_INJECTIONS];
    for (int64_t t = from; t < to; t++)
        ok(burst_inject(b, list, drawn_injections(seed, (uint64_t)t + 1, neurons, list, MOST_INJECTIONS), &err));
}

/* Ticks from..to; every third time the host waits for one tick alone. */
static void run(struct burst *b, uint64_t seed, struct trace *t, int64_t from, int64_t to) {
    for (int64_t at = from, n; at < to; at += n) {
        n = at % 3 ? 1 : 10;
        n = n < to - at ? n : to - at;
        inject(b, seed, at, at + n);
        ok(burst_step(b, n, note, t, &err));
    }
    ok(burst_membranes(b, t->v, &err));
}

static void open_at(struct engine *e, const struct place *p, const struct drawn *d, bool every_tick) {
    setenv("BRR_ISA", p->isa, 1);
    engine_open(e, p->device, p->threads);
    engine_load(e, &d->arrays, &(struct burst_options){.parts = p->parts, .every_tick = every_tick});
}

static void expect_same(const struct trace *a, const struct trace *b, const struct place *p, uint64_t seed) {
    for (int64_t i = 0; i < ticks; i++)
        if (a->ticks[i] != b->ticks[i])
            fail_msg("seed %llu, %s %s, %d threads, %d parts: tick %lld differs", (unsigned long long)seed, p->device, p->isa,
                     p->threads, p->parts, (long long)i + 1);
    for (int64_t i = 0; i < neurons; i++)
        if (memcmp(&a->v[i], &b->v[i], sizeof(float)) != 0)
            fail_msg("seed %llu, %s %s, %d threads, %d parts: membrane %lld is %.9g, expected %.9g", (unsigned long long)seed,
                     p->device, p->isa, p->threads, p->parts, (long long)i, (double)b->v[i], (double)a->v[i]);
}

static void expect_features(const struct spike_net *net, enum drawn_form form, unsigned traits, bool every_tick) {
    unsigned features = (traits & DRAWN_CHANCES ? SPIKE_PROBABILISTIC : 0u) | (traits & DRAWN_LIMITS ? SPIKE_LIMITED : 0u) |
                        (every_tick ? SPIKE_EVERY_TICK : 0u) | (traits & DRAWN_CURRENTS ? SPIKE_CURRENTS | SPIKE_DRIVES : 0u);
    assert_true(net->wide == (form == DRAWN_WIDE || form >= DRAWN_LATE));
    assert_true(net->wide_sums == (form == DRAWN_HEAVY || form == DRAWN_LATE_HEAVY));
    assert_int_equal(net->delays, form >= DRAWN_LATE ? DRAWN_DELAYS : 1);
    assert_true((net->divisor != NULL) == ((traits & DRAWN_DIVISION) != 0));
    assert_int_equal(net->features, features);
}

/* Returns how many neurons fired in all. */
static int64_t compare_places(uint64_t seed, enum drawn_form form, unsigned traits, bool every_tick) {
    const struct place places[] = {{"cpu", "scalar", 1, 1},
                                   {"cpu", "scalar", 2, 2},
                                   {"cpu", "avx2", 1, 3},
                                   {"cpu", "avx2", 2, 0},
                                   {"cpu", "avx512", 1, 1},
                                   {"cpu", "avx512", 2, 7},
                                   {fixture_device(), "avx512", 0, 0}};
    struct drawn d;
    struct trace first, other;
    struct engine e;
    drawn_init(&d, seed, neurons, neurons * FAN_OUT, form, traits);
    trace_init(&first);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct trace *t = i ? &other : &first;
        if (i)
            trace_init(t);
        open_at(&e, &places[i], &d, every_tick);
        expect_features(&burst_connectome(e.b)->net, form, traits, every_tick);
        run(e.b, seed, t, 0, ticks);
        engine_close(&e);
        if (i) {
            expect_same(&first, t, &places[i], seed);
            trace_done(t);
        }
    }
    trace_done(&first);
    drawn_free(&d);
    return first.fired;
}

static void compare_traits(uint64_t seed, enum drawn_form form, unsigned traits, bool every_tick) {
    int64_t fired = compare_places(seed, form, traits, every_tick);
    if (fired < ticks * neurons / 200 || fired > ticks * neurons / 2)
        fail_msg("seed %llu: %lld neurons fired in %lld ticks of %lld neurons: too few or too many to show anything",
                 (unsigned long long)seed, (long long)fired, (long long)ticks, (long long)neurons);
}

static void compare_whole(uint64_t seed, enum drawn_form form, bool every_tick) {
    compare_traits(seed, form, DRAWN_EVERYTHING, every_tick);
}

static void every_device_and_instruction_set_gives_the_same_bits(void **state) {
    (void)state;
    uint64_t seed = test_seed() << 8;
    for (int i = 0; i < SEEDS; i++)
        compare_whole(seed + (uint64_t)i, i % 2 ? DRAWN_WIDE : DRAWN_PACKED, false);
}

static void so_it_does_when_leaks_run_in_every_tick(void **state) {
    (void)state;
    compare_whole(test_seed() << 8 | 17, DRAWN_PACKED, true);
}

static void so_it_does_where_sums_need_64_bits(void **state) {
    (void)state;
    int64_t n = neurons;
    neurons = n < 2000 ? 2000 : n; /* 80 % of 30 synapses each end at neuron 0 */
    compare_whole(test_seed() << 8 | 18, DRAWN_HEAVY, false);
    compare_whole(test_seed() << 8 | 20, DRAWN_LATE_HEAVY, false);
    compare_traits(test_seed() << 8 | 23, DRAWN_HEAVY, DRAWN_CURRENTS, false);
    neurons = n;
}

static void so_it_does_with_delays(void **state) {
    (void)state;
    compare_whole(test_seed() << 8 | 21, DRAWN_LATE, false);
}

static void so_it_does_with_exponential_synapses_and_poisson_events(void **state) {
    (void)state;
    compare_traits(test_seed() << 8 | 22, DRAWN_LATE, DRAWN_EVERYTHING | DRAWN_CURRENTS, false);
}

/* The kernels are specialised for the features that a network uses. */
static void so_does_every_mix_of_features(void **state) {
    (void)state;
    int64_t n = neurons, t = ticks;
    uint64_t seed = test_seed() << 8 | 32;
    neurons = n < 1000 ? n : 1000;
    ticks = t < 30 ? t : 30;
    for (unsigned traits = 0; traits <= DRAWN_EVERYTHING; traits++)
        for (int i = 0; i < 4; i++)
            assert_true(compare_places(seed++, i & 1 ? DRAWN_WIDE : DRAWN_PACKED, traits, i & 2) > 0);
    neurons = n;
    ticks = t;
}

static void compare_restored(enum drawn_form form, unsigned traits) {
    const struct place from = {fixture_device(), "avx512", 0, 0}, to = {"cpu", "scalar", 2, 2};
    uint64_t seed = test_seed() << 8 | 19;
    struct burst_state saved;
    struct trace whole, cut;
    struct engine e;
    struct drawn d;
    drawn_init(&d, seed, neurons, neurons * FAN_OUT, form, traits);
    trace_init(&whole);
    trace_init(&cut);
    open_at(&e, &from, &d, false);
    run(e.b, seed, &whole, 0, ticks / 2);
    inject(e.b, seed, ticks / 2, ticks / 2 + 5); /* they wait */
    ok(burst_save(e.b, &saved, &err));
    assert_int_equal(saved.tick, ticks / 2);
    ok(burst_step(e.b, 5, note, &whole, &err));
    run(e.b, seed, &whole, ticks / 2 + 5, ticks);
    engine_close(&e);
    memcpy(cut.ticks, whole.ticks, (size_t)(ticks / 2) * sizeof *cut.ticks);
    cut.at = ticks / 2;
    open_at(&e, &to, &d, false);
    run(e.b, seed + 1, &cut, 0, 3); /* whatever it did before is forgotten */
    cut.at = ticks / 2;
    ok(burst_restore(e.b, &saved, &err));
    ok(burst_step(e.b, 5, note, &cut, &err));
    run(e.b, seed, &cut, ticks / 2 + 5, ticks);
    memcpy(cut.ticks, whole.ticks, 3 * sizeof *cut.ticks);
    expect_same(&whole, &cut, &to, seed);
    engine_close(&e);
    burst_state_done(&saved);
    trace_done(&whole);
    trace_done(&cut);
    drawn_free(&d);
}

static void a_restored_snapshot_goes_on_as_if_nothing_had_been(void **state) {
    (void)state;
    compare_restored(DRAWN_PACKED, DRAWN_EVERYTHING);
    compare_restored(DRAWN_LATE, DRAWN_EVERYTHING | DRAWN_CURRENTS);
    compare_restored(DRAWN_LATE_HEAVY, DRAWN_EVERYTHING);
}

/* A processor without AVX-512 runs the AVX2 kernels in its place. */
static void avx512_is_among_them(void **state) {
    (void)state;
    setenv("BRR_ISA", "avx512", 1);
    if (strcmp(device_isa(), "avx512") != 0)
        skip_because(SKIP_HARDWARE, "this CPU has no AVX-512");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_and_instruction_set_gives_the_same_bits),
        cmocka_unit_test(so_it_does_when_leaks_run_in_every_tick),
        cmocka_unit_test(so_it_does_where_sums_need_64_bits),
        cmocka_unit_test(so_it_does_with_delays),
        cmocka_unit_test(so_it_does_with_exponential_synapses_and_poisson_events),
        cmocka_unit_test(so_does_every_mix_of_features),
        cmocka_unit_test(avx512_is_among_them),
        cmocka_unit_test(a_restored_snapshot_goes_on_as_if_nothing_had_been),
    };
    return cmocka_run_group_tests(tests, read_size, NULL);
}
