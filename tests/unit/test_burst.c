/* The behaviours of the burst engine, one by one, on small networks written down by hand. BRR_TEST_DEVICE names another device than
 * the CPU. */
#include "base/subnormals.h"
#include "unit/burst_fixture.h"

/* Neuron 0 fires in the tick after this call, whatever its threshold. */
static void an_input_below_the_threshold_stays_in_the_membrane(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    small_join(&s, 0, 1, 1, 1);
    s.threshold[1] = 1.1f;
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 2);
    assert_false(small_fires(&s, 1));
    assert_true(small_v(&s, 1) == 1.0f);
    small_end(&s);
}

static void an_input_equal_to_the_threshold_fires(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    small_join(&s, 0, 1, 7, 3);
    s.threshold[1] = 21;
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 2);
    assert_true(small_fires(&s, 1));
    assert_true(small_v(&s, 1) == 0);
    small_end(&s);
}

static void a_spike_takes_one_tick_to_its_targets(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    small_join(&s, 0, 1, 1, 1);
    small_join(&s, 1, 2, 1, 1);
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 4);
    const int64_t expected[3][2] = {{1, 0}, {2, 1}, {3, 2}};
    assert_int_equal(s.n_fired, 3);
    assert_memory_equal(s.fired, expected, sizeof expected);
    small_end(&s);
}

static void the_first_tick_delivers_nothing(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    small_join(&s, 0, 1, 1, 1);
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 1);
    assert_int_equal(s.events, 0);
    small_step(&s, 1);
    assert_int_equal(s.events, 1);
    small_end(&s);
}

static void injections_into_one_neuron_and_tick_add_up(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 1);
    small_start(&s);
    for (int i = 0; i < 3; i++)
        small_inject(&s, 0, 0.3f);
    small_step(&s, 1);
    assert_true(fabsf(small_v(&s, 0) - 0.9f) < 1e-5f);
    small_end(&s);
}

static void inputs_that_cancel_still_make_a_candidate(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    small_join(&s, 0, 2, 100, 1);
    small_join(&s, 1, 2, -100, 1);
    s.v[2] = 8;
    s.threshold[2] = 50;
    s.leak[2] = 0.5f;
    small_start(&s);
    kick(&s, 0);
    kick(&s, 1);
    small_step(&s, 2);
    assert_false(small_fires(&s, 2));
    assert_true(small_v(&s, 2) == 4); /* the leak ran */
    small_end(&s);
    small_init(&s, 3);
    small_join(&s, 0, 2, 100, 1);
    small_join(&s, 1, 2, -100, 1);
    s.refractory[2] = 1;
    small_start(&s);
    kick(&s, 2);
    kick(&s, 0);
    kick(&s, 1);
    small_step(&s, 2); /* fires, then its countdown runs out on an input of 0 */
    small_inject(&s, 2, 1);
    small_step(&s, 1);
    assert_true(small_fires(&s, 2));
    small_end(&s);
}

static void a_membrane_accumulates_what_its_leak_leaves(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 1);
    s.threshold[0] = 100;
    s.leak[0] = 0.1f;
    small_start(&s);
    expect_train(&s, 60, "_");
    assert_true(small_v(&s, 0) == 60.0f * (1.0f - 0.1f));
    expect_train(&s, 50, "1");
    small_end(&s);
}

/* One rule at every size: what does not accumulate begins each tick at 0, in a small network and in one of a million. */
static void a_neuron_that_does_not_accumulate_never_adds_up(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    s.accumulate[0] = s.accumulate[1] = 0;
    s.v[1] = 0.25f;
    small_start(&s);
    expect_train(&s, 0.75f, "_____");
    assert_true(small_v(&s, 0) == 0.75f && small_v(&s, 1) == 0);
    small_step(&s, 1); /* no input: still begins at 0 */
    assert_true(small_v(&s, 0) == 0);
    small_end(&s);
    const int64_t n = fixture_device()[1] == 'u' ? 20000 : 1200000;
    float *threshold = malloc((size_t)n * sizeof *threshold), *v = malloc((size_t)n * sizeof *v);
    uint8_t *accumulate = calloc((size_t)n, 1);
    struct connectome_area area = {.name = "all"};
    struct engine e;
    assert_true(threshold && v && accumulate);
    for (int64_t i = 0; i < n; i++)
        threshold[i] = 1;
    engine_open(&e, fixture_device(), 0);
    engine_load(
        &e,
        &(struct connectome_arrays){.neurons = n, .threshold = threshold, .accumulate = accumulate, .areas = &area, .n_areas = 1},
        NULL);
    for (uint64_t t = 1; t <= 3; t++) {
        const struct burst_injection two[] = {{t, 5, 0.75f}, {t, (uint32_t)n - 1, 0.75f}};
        ok(burst_inject(e.b, two, 2, &err));
    }
    ok(burst_step(e.b, 3, NULL, NULL, &err));
    ok(burst_membranes(e.b, v, &err));
    assert_true(v[5] == 0.75f && v[n - 1] == 0.75f && v[6] == 0);
    engine_close(&e);
    free(threshold);
    free(v);
    free(accumulate);
}

static void a_leak_is_two_roundings_of_a_float(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 1);
    s.v[0] = 1;
    s.threshold[0] = 10;
    s.leak[0] = 0.5f;
    small_start(&s);
    small_inject(&s, 0, 0.1f);
    small_step(&s, 1);
    assert_true(fabsf(small_v(&s, 0) - 0.55f) < 1e-6f);
    small_end(&s);
}

static void a_membrane_without_input_is_frozen(void **state) {
    (void)state;
    for (int leaks = 0; leaks < 2; leaks++) {
        struct small s;
        small_init(&s, 1);
        s.v[0] = 0.5f;
        s.leak[0] = leaks ? 0.5f : 0;
        small_start(&s);
        small_step(&s, 3);
        assert_true(small_v(&s, 0) == 0.5f);
        small_end(&s);
    }
}

static void with_every_tick_leaks_and_countdowns_run_without_input(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    s.v[0] = 0.5f;
    s.leak[0] = 0.5f;
    s.refractory[1] = 2;
    engine_load(&s.e, &s.arrays, &(struct burst_options){.every_tick = true});
    kick(&s, 1);
    small_step(&s, 3);
    assert_true(small_v(&s, 0) == 0.0625f);
    small_inject(&s, 1, 1);
    small_step(&s, 1);
    assert_true(small_fires(&s, 1));
    small_end(&s);
}

/* 2^-140, looked at as bits, whether or not this thread flushes such numbers. */
static void a_leak_keeps_subnormal_membranes(void **state) {
    (void)state;
    for (int flushed = 0; flushed < 2; flushed++) {
        struct small s;
        const uint32_t expected = 1U << 9;
        float v[1];
        small_init(&s, 1);
        s.v[0] = 1;
        s.threshold[0] = 2;
        s.leak[0] = 0.75f;
        small_start(&s);
        const unsigned was = flushed ? subnormals_flush() : subnormals_keep();
        for (int i = 0; i < 70; i++) {
            small_inject(&s, 0, 0);
            small_step(&s, 1);
        }
        ok(burst_membranes(s.e.b, v, &err));
        subnormals_restore(was);
        assert_memory_equal(v, &expected, sizeof expected);
        small_end(&s);
    }
}

/* −5 · (1 − 1) is −0. */
static void a_membrane_of_minus_zero_that_does_not_accumulate_is_zero_in_the_next_tick(void **state) {
    (void)state;
    struct small s;
    const uint32_t after[] = {1U << 31, 0};
    small_init(&s, 1);
    s.accumulate[0] = 0;
    s.leak[0] = 1;
    small_start(&s);
    small_inject(&s, 0, -5);
    for (int i = 0; i < 2; i++) {
        float v[1];
        small_step(&s, 1);
        ok(burst_membranes(s.e.b, v, &err));
        assert_memory_equal(v, &after[i], sizeof after[i]);
    }
    small_end(&s);
}

/* Also on a thread that flushes such numbers, as this one does. */
static void a_subnormal_threshold_limit_is_a_limit(void **state) {
    (void)state;
    for (int patched = 0; patched < 2; patched++) {
        struct small s;
        small_init(&s, 1);
        s.threshold_limit[0] = patched ? 0 : 1e-40f;
        small_start(&s);
        if (patched)
            ok(burst_set_neuron(s.e.b, 0, BURST_THRESHOLD_LIMIT, 1e-40, &err));
        uint32_t bits;
        memcpy(&bits, &burst_connectome(s.e.b)->net.threshold_limit[0], sizeof bits);
        assert_int_equal(bits, 71362); /* 1e-40 in units of 2^-149 */
        small_inject(&s, 0, 2);
        small_step(&s, 1);
        assert_int_equal(s.n_fired, 0);
        small_end(&s);
    }
}

static void a_refractory_neuron_rests_between_spikes(void **state) {
    (void)state;
    const char *const trains[] = {"111111", "1_1_1_", "1__1__"};
    for (int refractory = 0; refractory < 3; refractory++) {
        struct small s;
        small_init(&s, 1);
        s.refractory[0] = (uint16_t)refractory;
        small_start(&s);
        expect_train(&s, 1, trains[refractory]);
        small_end(&s);
    }
}

static void input_during_the_refractory_time_is_lost(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 1);
    s.refractory[0] = 2;
    small_start(&s);
    expect_train(&s, 1, "1");
    expect_train(&s, 0.5f, "__");
    assert_true(small_v(&s, 0) == 0);
    expect_train(&s, 0.5f, "_1");
    small_end(&s);
}

static void a_snooze_follows_the_last_spike_of_a_limit(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 1);
    s.refractory[0] = 1;
    s.snooze[0] = 2;
    s.fire_limit[0] = 3;
    small_start(&s);
    expect_train(&s, 1, "1_1_1___1_1_1___");
    small_end(&s);
}

static void a_limit_blocks_one_tick_and_starts_anew(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 1);
    s.fire_limit[0] = 3;
    s.leak[0] = 0.5f;
    small_start(&s);
    expect_train(&s, 1, "111_");
    assert_true(small_v(&s, 0) == 1); /* blocked: it keeps its membrane, without a leak */
    expect_train(&s, 1, "111_");
    small_end(&s);
}

static void limits_of_0_and_65535_are_none(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct small s;
        small_init(&s, 1);
        s.fire_limit[0] = i ? 65535 : 0;
        small_start(&s);
        for (int t = 0; t < 70000; t += 1000) { /* past every count of 16 bits */
            for (int k = 1; k <= 1000; k++) {
                const struct burst_injection one = {(uint64_t)(t + k), 0, 1};
                ok(burst_inject(s.e.b, &one, 1, &err));
            }
            int64_t before = s.n_fired;
            small_step(&s, 1000);
            assert_int_equal(s.n_fired - before, 1000);
            s.n_fired = 0;
            if (fixture_device()[1] == 'u')
                break;
        }
        small_end(&s);
    }
}

static void a_membrane_above_the_window_does_not_fire_and_leaks(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 1);
    s.threshold[0] = 10;
    s.threshold_limit[0] = 20;
    s.leak[0] = 1;
    small_start(&s);
    expect_train(&s, 15, "1");
    expect_train(&s, 25, "_");
    assert_true(small_v(&s, 0) == 0);
    expect_train(&s, 20, "1");
    ok(burst_set_neuron(s.e.b, 0, BURST_THRESHOLD_LIMIT, 0, &err)); /* none from now on */
    expect_train(&s, 25, "1");
    small_end(&s);
}

static void the_hash_of_a_draw_has_its_published_values(void **state) {
    (void)state;
    assert_int_equal(spike_hash(0, 0), 0x07bb2fe2);
    assert_int_equal(spike_hash(1, 1), 0xee08411f);
    assert_int_equal(spike_hash(42, 100), 0xbd93d982);
    assert_int_equal(spike_hash(99999, 1), 0x01a9dac0);
}

static void excitability_is_the_chance_to_fire(void **state) {
    (void)state;
    const float chances[] = {0, 0.2f, 0.999f, -1, 2};
    const double low[] = {0, 0.18, 1, 0, 1}, high[] = {0, 0.22, 1, 0, 1};
    const int neurons = 50, rounds = fixture_device()[1] == 'u' ? 20 : 400;
    for (int k = 0; k < 5; k++) {
        int64_t fired = 0, changes = 0;
        bool first[FIXTURE_SMALL] = {0};
        struct small s;
        small_init(&s, neurons);
        for (int i = 0; i < neurons; i++)
            s.excitability[i] = chances[k];
        small_start(&s);
        for (int t = 0; t < rounds; t++) {
            for (int i = 0; i < neurons; i++)
                kick(&s, (uint32_t)i);
            s.n_fired = 0;
            small_step(&s, 1);
            fired += s.n_fired;
            for (int i = 0; i < neurons; i++) {
                bool fires = small_fires(&s, i);
                bool drawn = (double)spike_hash((uint32_t)i, (uint32_t)t + 1) / 4294967296.0 < (double)chances[k];
                assert_int_equal(fires, chances[k] >= 0.999f || drawn);
                changes += t && fires != first[i];
                first[i] = fires;
            }
        }
        double share = (double)fired / (neurons * rounds), slack = rounds < 100 && k == 1 ? 0.05 : 0;
        assert_true(share >= low[k] - slack && share <= high[k] + slack);
        assert_true((changes > 0) == (k == 1));
        small_end(&s);
    }
}

/* Units are whole where a neuron may receive 2^30 and more: there 1/2 is a tie. Sources 0 and 1 have k = 2, source 2 is that
 * neuron's. */
static void shares_of_a_half_are_rounded_to_even(void **state) {
    (void)state;
    enum { HEAVY = 20000, SYNAPSES = HEAVY + 4 };
    static uint32_t src[SYNAPSES], dst[SYNAPSES];
    static uint8_t weight[SYNAPSES], psp[SYNAPSES], type[SYNAPSES];
    const float expected[] = {0, 2, 0, -2}; /* 1/2, 3/2, -1/2, -3/2 */
    struct small s;
    small_init(&s, 8);
    for (int i = 3; i < 8; i++)
        s.threshold[i] = 1e9f;
    s.area[2] = 1;
    s.areas[0].psp_divide = true;
    for (int i = 0; i < SYNAPSES; i++) {
        src[i] = i < 2 ? 0 : i < 4 ? 1 : 2;
        dst[i] = i < 4 ? 3 + (uint32_t)i : 7;
        weight[i] = i >= 4 ? 255 : i % 2 ? 3 : 1;
        psp[i] = i < 4 ? 1 : 255;
        type[i] = i == 2 || i == 3;
    }
    s.arrays.src = src;
    s.arrays.dst = dst;
    s.arrays.weight = weight;
    s.arrays.psp = psp;
    s.arrays.type = type;
    s.arrays.synapses = SYNAPSES;
    small_start(&s);
    assert_int_equal(burst_connectome(s.e.b)->net.fraction_bits, 0);
    kick(&s, 0);
    kick(&s, 1);
    small_step(&s, 2);
    for (int i = 0; i < 4; i++)
        assert_true(small_v(&s, 3 + i) == expected[i]);
    small_end(&s);
}

static void a_dividing_area_shares_its_output_among_its_synapses(void **state) {
    (void)state;
    for (int divides = 0; divides < 2; divides++) {
        struct small s;
        small_init(&s, 3);
        s.threshold[1] = s.threshold[2] = 1000;
        s.areas[0].psp_divide = divides;
        small_join(&s, 0, 1, 10, 10);
        small_join(&s, 0, 2, 10, 10);
        small_start(&s);
        kick(&s, 0);
        small_step(&s, 2);
        assert_true(small_v(&s, 1) == (divides ? 50 : 100) && small_v(&s, 2) == small_v(&s, 1));
        small_end(&s);
    }
}

static void shares_are_rounded_half_to_even_in_the_networks_units(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 4);
    s.threshold[1] = 1e9f;
    s.areas[0].psp_divide = true;
    for (uint32_t i = 1; i < 4; i++)
        small_join(&s, 0, i, i == 1 ? -1 : 1, 1);
    small_start(&s);
    int f = burst_connectome(s.e.b)->net.fraction_bits;
    assert_int_equal(f, 20);
    kick(&s, 0);
    small_step(&s, 2);
    assert_true(small_v(&s, 1) == -(float)rint((double)(1 << f) / 3) / (float)(1 << f));
    small_end(&s);
}

static void a_driven_source_delivers_its_membrane(void **state) {
    (void)state;
    const float membranes[] = {128, 300, 255, 256, 2.5f, 3.5f};
    const float outputs[] = {128, 255, 255, 255, 2, 4}; /* rounded half to even, clamped */
    for (int i = 0; i < 6; i++) {
        struct small s;
        small_init(&s, 2);
        s.threshold[1] = 1000;
        s.areas[0].mp_driven_psp = true;
        small_join(&s, 0, 1, 1, 77);
        small_start(&s);
        small_inject(&s, 0, membranes[i]);
        small_step(&s, 2);
        assert_true(small_v(&s, 1) == outputs[i]);
        small_end(&s);
    }
}

static void a_weight_of_0_delivers_0_and_the_largest_65025(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    s.threshold[1] = s.threshold[2] = 1e9f;
    small_join(&s, 0, 1, 0, 255);
    small_join(&s, 0, 2, 255, 255);
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 2);
    assert_true(small_v(&s, 1) == 0 && small_v(&s, 2) == 65025);
    small_end(&s);
}

/* n sources, all of them into the last neuron with the largest synapse there is. */
static float flood(int64_t n) {
    float *threshold = malloc((size_t)(n + 1) * 4), *v = malloc((size_t)(n + 1) * 4);
    uint32_t *src = malloc((size_t)n * 4), *dst = malloc((size_t)n * 4);
    uint8_t *full = malloc((size_t)n), *type = calloc((size_t)n, 1);
    struct burst_injection *kicks = malloc((size_t)n * sizeof *kicks);
    struct connectome_area area = {.name = "all"};
    struct engine e;
    assert_true(threshold && v && src && dst && full && type && kicks);
    memset(full, 255, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        threshold[i] = 1;
        src[i] = (uint32_t)i;
        dst[i] = (uint32_t)n;
        kicks[i] = (struct burst_injection){1, (uint32_t)i, 1};
    }
    threshold[n] = 1e30f;
    engine_open(&e, fixture_device(), 0);
    engine_load(&e,
                &(struct connectome_arrays){.neurons = n + 1,
                                            .synapses = n,
                                            .threshold = threshold,
                                            .src = src,
                                            .dst = dst,
                                            .weight = full,
                                            .psp = full,
                                            .type = type,
                                            .areas = &area,
                                            .n_areas = 1},
                NULL);
    ok(burst_inject(e.b, kicks, n, &err));
    ok(burst_step(e.b, 2, NULL, NULL, &err));
    ok(burst_membranes(e.b, v, &err));
    float got = v[n];
    engine_close(&e);
    free(threshold), free(v), free(src), free(dst), free(full), free(type), free(kicks);
    return got;
}

static void ten_thousand_full_inputs_do_not_wrap(void **state) {
    (void)state;
    assert_true(flood(10000) == 10000.0f * 65025.0f);
    assert_true(flood(40000) == 40000.0f * 65025.0f); /* beyond 32 bits */
}

static void duplicates_count_twice_and_a_neuron_may_reach_itself(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    s.threshold[1] = 100;
    small_join(&s, 0, 1, 5, 1);
    small_join(&s, 0, 0, 1, 1);
    small_join(&s, 0, 1, 6, 1);
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 1);
    for (int i = 0; i < 3; i++) {
        small_step(&s, 1);
        assert_true(small_fires(&s, 0)); /* by itself, a tick later each time */
    }
    assert_true(small_v(&s, 1) == 33);
    small_end(&s);
}

static void a_tick_without_fired_neurons_changes_nothing(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    s.v[1] = 0.5f;
    small_join(&s, 0, 1, 1, 1); /* 2 has no synapse */
    small_start(&s);
    kick(&s, 2);
    small_step(&s, 3);
    assert_int_equal(s.n_fired, 1);
    assert_true(small_v(&s, 0) == 0 && small_v(&s, 1) == 0.5f && small_v(&s, 2) == 0);
    small_end(&s);
}

/* One source with n targets, then all of them at once. */
static void fan(int64_t n) {
    float *threshold = malloc((size_t)n * 4), *v = malloc((size_t)n * 4);
    uint32_t *src = calloc((size_t)n, 4), *dst = malloc((size_t)n * 4);
    uint8_t *one = malloc((size_t)n), *type = calloc((size_t)n, 1);
    struct connectome_area area = {.name = "all"};
    struct engine e;
    struct small heard = {.n_fired = 0};
    assert_true(threshold && v && src && dst && one && type);
    memset(one, 1, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        threshold[i] = 2;
        dst[i] = (uint32_t)(n - 1 - i);
    }
    engine_open(&e, fixture_device(), 0);
    engine_load(&e,
                &(struct connectome_arrays){.neurons = n,
                                            .synapses = n,
                                            .threshold = threshold,
                                            .src = src,
                                            .dst = dst,
                                            .weight = one,
                                            .psp = one,
                                            .type = type,
                                            .areas = &area,
                                            .n_areas = 1},
                NULL);
    ok(burst_inject(e.b, &(struct burst_injection){1, 0, 5}, 1, &err));
    ok(burst_step(e.b, 2, small_note, &heard, &err));
    assert_int_equal(heard.events, n);
    ok(burst_membranes(e.b, v, &err));
    for (int64_t i = 0; i < n; i++)
        assert_true(v[i] == 1);
    engine_close(&e);
    free(threshold), free(v), free(src), free(dst), free(one), free(type);
}

static void a_source_reaches_each_of_500_and_of_a_million_targets_once(void **state) {
    (void)state;
    fan(500);
    fan(fixture_device()[1] == 'u' ? 9000 : 1000000);
}

static void all_neurons_at_once_deliver_all_synapses(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 8);
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t k = 0; k < 8; k++)
            small_join(&s, i, k, 1, 1);
    small_start(&s);
    for (uint32_t i = 0; i < 8; i++)
        kick(&s, i);
    small_step(&s, 2);
    assert_int_equal(s.events, 64);
    assert_int_equal(s.n_fired, 16);
    small_end(&s);
}

static void ticks_end_when_their_time_is_over(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    small_start(&s);
    ok(burst_step_within(s.e.b, 1000, 0, small_note, &s, &err));
    uint64_t ran = burst_tick(s.e.b);
    assert_true(ran >= 1 && ran < 1000); /* a device with memory of its own has some queued */
    ok(burst_step_within(s.e.b, 1000, 1e9, small_note, &s, &err));
    assert_int_equal(burst_tick(s.e.b), ran + 1000);
    small_end(&s);
}

static void an_injection_arrives_at_its_tick(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    small_start(&s);
    const struct burst_injection later[] = {{9, 1, 1}, {4, 0, 1}};
    ok(burst_inject(s.e.b, later, 2, &err));
    small_step(&s, 10);
    const int64_t expected[2][2] = {{4, 0}, {9, 1}};
    assert_int_equal(s.n_fired, 2);
    assert_memory_equal(s.fired, expected, sizeof expected);
    assert_int_equal(burst_pending(s.e.b), 0);
    small_end(&s);
}

/* Rows that come in any order, a few at a time and between ticks, among others that wait for long. */
static void injections_arrive_in_order_whatever_the_order_they_come_in(void **state) {
    (void)state;
    enum { TICKS = 40, NEURONS = 7 };
    struct small s;
    small_init(&s, NEURONS);
    small_start(&s);
    struct burst_injection rows[TICKS * NEURONS];
    for (uint32_t i = 0; i < TICKS * NEURONS; i++)
        rows[i] = (struct burst_injection){2 + i * 11 % (TICKS * NEURONS) / NEURONS, i * 11 % (TICKS * NEURONS) % NEURONS, 0.5f};
    ok(burst_inject(s.e.b, rows, TICKS * NEURONS, &err)); /* half of a threshold each */
    for (uint64_t tick = 1; tick <= TICKS; tick++) {
        for (uint32_t id = NEURONS; id-- > 0;) /* and the other half */
            ok(burst_inject(s.e.b, &(struct burst_injection){tick + 1, id, 0.5f}, 1, &err));
        small_step(&s, 1);
    }
    small_step(&s, 1);
    assert_int_equal(burst_pending(s.e.b), 0);
    assert_int_equal(s.n_fired, TICKS * NEURONS);
    for (int64_t i = 0; i < s.n_fired; i++) {
        assert_int_equal(s.fired[i][0], 2 + i / NEURONS);
        assert_int_equal(s.fired[i][1], i % NEURONS);
    }
    small_end(&s);
}

static void wrong_injections_are_refused_as_a_whole(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    engine_load(&s.e, &s.arrays, &(struct burst_options){.max_pending = 3});
    small_step(&s, 5);
    const struct burst_injection past[] = {{6, 0, 1}, {5, 1, 1}}, nobody[] = {{6, 0, 1}, {6, 2, 1}}, endless = {6, 0, INFINITY},
                                 nothing = {6, 0, NAN}, huge = {6, 0, 0x1p40f}, good = {6, 0, 1};
    assert_int_equal(burst_inject(s.e.b, past, 2, &err), ERR_RANGE);
    assert_non_null(strstr(err.message, "injection 1 is for tick 5"));
    assert_int_equal(burst_inject(s.e.b, nobody, 2, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "injection 1 is for neuron 2"));
    assert_int_equal(burst_inject(s.e.b, &endless, 1, &err), ERR_INVALID);
    assert_int_equal(burst_inject(s.e.b, &nothing, 1, &err), ERR_INVALID);
    assert_int_equal(burst_inject(s.e.b, &huge, 1, &err), ERR_INVALID);
    assert_int_equal(burst_pending(s.e.b), 0);
    for (int i = 0; i < 3; i++)
        ok(burst_inject(s.e.b, &good, 1, &err));
    assert_int_equal(burst_inject(s.e.b, &good, 1, &err), ERR_EXHAUSTED);
    small_step(&s, 1);
    ok(burst_inject(s.e.b, &(struct burst_injection){7, 0, 1}, 1, &err));
    small_end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_below_the_threshold_stays_in_the_membrane),
        cmocka_unit_test(an_input_equal_to_the_threshold_fires),
        cmocka_unit_test(a_spike_takes_one_tick_to_its_targets),
        cmocka_unit_test(the_first_tick_delivers_nothing),
        cmocka_unit_test(injections_into_one_neuron_and_tick_add_up),
        cmocka_unit_test(inputs_that_cancel_still_make_a_candidate),
        cmocka_unit_test(a_membrane_accumulates_what_its_leak_leaves),
        cmocka_unit_test(a_neuron_that_does_not_accumulate_never_adds_up),
        cmocka_unit_test(a_leak_is_two_roundings_of_a_float),
        cmocka_unit_test(a_membrane_without_input_is_frozen),
        cmocka_unit_test(with_every_tick_leaks_and_countdowns_run_without_input),
        cmocka_unit_test(a_leak_keeps_subnormal_membranes),
        cmocka_unit_test(a_membrane_of_minus_zero_that_does_not_accumulate_is_zero_in_the_next_tick),
        cmocka_unit_test(a_subnormal_threshold_limit_is_a_limit),
        cmocka_unit_test(a_refractory_neuron_rests_between_spikes),
        cmocka_unit_test(input_during_the_refractory_time_is_lost),
        cmocka_unit_test(a_snooze_follows_the_last_spike_of_a_limit),
        cmocka_unit_test(a_limit_blocks_one_tick_and_starts_anew),
        cmocka_unit_test(limits_of_0_and_65535_are_none),
        cmocka_unit_test(a_membrane_above_the_window_does_not_fire_and_leaks),
        cmocka_unit_test(the_hash_of_a_draw_has_its_published_values),
        cmocka_unit_test(excitability_is_the_chance_to_fire),
        cmocka_unit_test(a_dividing_area_shares_its_output_among_its_synapses),
        cmocka_unit_test(shares_are_rounded_half_to_even_in_the_networks_units),
        cmocka_unit_test(shares_of_a_half_are_rounded_to_even),
        cmocka_unit_test(a_driven_source_delivers_its_membrane),
        cmocka_unit_test(a_weight_of_0_delivers_0_and_the_largest_65025),
        cmocka_unit_test(ten_thousand_full_inputs_do_not_wrap),
        cmocka_unit_test(duplicates_count_twice_and_a_neuron_may_reach_itself),
        cmocka_unit_test(a_tick_without_fired_neurons_changes_nothing),
        cmocka_unit_test(a_source_reaches_each_of_500_and_of_a_million_targets_once),
        cmocka_unit_test(all_neurons_at_once_deliver_all_synapses),
        cmocka_unit_test(ticks_end_when_their_time_is_over),
        cmocka_unit_test(an_injection_arrives_at_its_tick),
        cmocka_unit_test(injections_arrive_in_order_whatever_the_order_they_come_in),
        cmocka_unit_test(wrong_injections_are_refused_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
