/* States of the burst engine: what a snapshot keeps, and what it is not trusted with. */
#include "unit/burst_fixture.h"

/* Another engine of the same arrays, as it goes on from *state. */
static void restored(struct small *s, const struct small *from, const struct burst_state *state) {
    *s = (struct small){.arrays = from->arrays};
    engine_open(&s->e, fixture_device(), 1);
    small_start(s);
    ok(burst_restore(s->e.b, state, &err));
}

static void a_state_keeps_the_option_every_tick(void **state) {
    (void)state;
    struct small s, again;
    struct burst_state saved;
    small_init(&s, 1);
    s.leak[0] = 0.5f;
    s.v[0] = 0.5f;
    engine_load(&s.e, &s.arrays, &(struct burst_options){.every_tick = true});
    ok(burst_save(s.e.b, &saved, &err));
    restored(&again, &s, &saved);
    assert_true(burst_every_tick(again.e.b));
    small_step(&again, 2);
    assert_true(small_v(&again, 0) == 0.125f);
    burst_state_done(&saved);
    small_end(&again);
    small_end(&s);
}

/* k counts the synapses that a source was built with: also where its area begins to divide only after some are gone. */
static void a_state_keeps_the_divisors_of_sources_that_have_lost_synapses(void **state) {
    (void)state;
    const struct connectome_area divides = {.psp_divide = true};
    struct small s, again;
    struct burst_state saved;
    small_init(&s, 3);
    s.threshold[1] = s.threshold[2] = 1e6f;
    small_join(&s, 0, 1, 10, 10);
    small_join(&s, 0, 2, 10, 10);
    small_start(&s);
    ok(burst_delete_synapse(s.e.b, 0, 2, &err));
    ok(burst_save(s.e.b, &saved, &err));
    s.arrays.synapses = 1; /* as the network is written */
    restored(&again, &s, &saved);
    ok(burst_set_area(again.e.b, 0, &divides, &err));
    small_inject(&again, 0, 1);
    small_step(&again, 2);
    assert_true(small_v(&again, 1) == 50);
    burst_state_done(&saved);
    small_end(&again);
    small_end(&s);
}

/* The bounds of sums count the psp of the synapses. */
static void a_state_cannot_change_the_psp_of_synapses(void **state) {
    (void)state;
    struct small s, again;
    struct burst_state saved;
    small_init(&s, 2);
    s.threshold[1] = 1e6f;
    small_join(&s, 0, 1, 255, 1);
    small_start(&s);
    small_inject(&s, 0, 1);
    small_step(&s, 1);
    ok(burst_save(s.e.b, &saved, &err));
    saved.psp[0] = 255;
    restored(&again, &s, &saved);
    small_step(&again, 1);
    assert_true(small_v(&again, 1) == 255);
    burst_state_done(&saved);
    small_end(&again);
    small_end(&s);
}

static void a_state_in_which_a_deleted_neuron_fires_is_refused(void **state) {
    (void)state;
    struct small s;
    struct burst_state saved;
    small_init(&s, 2);
    small_start(&s);
    small_inject(&s, 1, 1);
    small_step(&s, 1);
    ok(burst_save(s.e.b, &saved, &err));
    saved.alive[1] = 0;
    assert_int_equal(burst_restore(s.e.b, &saved, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "state.fired[0] is 1"));
    saved.alive[1] = 1;
    saved.tick = UINT64_MAX / 2;
    assert_int_equal(burst_restore(s.e.b, &saved, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "expected at most 2^62"));
    burst_state_done(&saved);
    small_end(&s);
}

/* ---- injections ------------------------------------------------------------------------------------------------ */

enum { TICKS = 60, MOST_DRAWN = TICKS * 6 };

/* In the order of ticks. */
static int draw(struct burst_injection *ret) {
    struct rng rng;
    int n = 0;
    rng_init(&rng, 7, 0, 0);
    for (uint64_t tick = 1; tick <= TICKS; tick++)
        for (uint64_t k = rng_below(&rng, 6); k > 0; k--)
            ret[n++] = (struct burst_injection){tick, (uint32_t)rng_below(&rng, 8), (float)rng_below(&rng, 100) * 0.01f};
    return n;
}

static void injections_come_in_any_order(void **state) {
    (void)state;
    struct small whole, parts;
    struct burst_injection list[MOST_DRAWN];
    int n = draw(list);
    small_init(&whole, 8);
    small_init(&parts, 8);
    small_start(&whole);
    small_start(&parts);
    ok(burst_inject(whole.e.b, list, n, &err));
    for (int i = n; i-- > 0;) /* a third long before, from the last to the first; the others one and two ticks before */
        if (i % 3 == 0 || list[i].tick <= 2)
            ok(burst_inject(parts.e.b, &list[i], 1, &err));
    for (uint64_t tick = 1; tick <= TICKS; tick++) {
        small_step(&whole, 1);
        small_step(&parts, 1);
        for (int i = n; i-- > 0;)
            if (i % 3 && list[i].tick > 2 && list[i].tick == tick + (uint64_t)(i % 3))
                ok(burst_inject(parts.e.b, &list[i], 1, &err));
    }
    assert_int_equal(burst_pending(parts.e.b), 0);
    assert_true(whole.n_fired > TICKS / 2);
    assert_int_equal(whole.n_fired, parts.n_fired);
    assert_memory_equal(whole.fired, parts.fired, sizeof whole.fired);
    for (int id = 0; id < 8; id++)
        assert_true(small_v(&whole, id) == small_v(&parts, id));
    small_end(&whole);
    small_end(&parts);
}

static void injections_take_no_more_memory_than_was_said(void **state) {
    (void)state;
    enum { MANY = 3000 };
    struct small s;
    small_init(&s, 8);
    small_start(&s);
    struct burst_injection *list = calloc(MANY, sizeof *list);
    for (int i = 0; i < MANY; i++)
        list[i] = (struct burst_injection){1 + (uint64_t)(i % 2), (uint32_t)i % 8, 0};
    int64_t bytes = burst_bytes(s.e.b), most = burst_bytes_with(s.e.b, MANY);
    ok(burst_inject(s.e.b, list, MANY, &err));
    assert_in_range(burst_bytes(s.e.b), bytes + MANY * (int64_t)sizeof *list, most);
    small_step(&s, 2);
    assert_in_range(burst_bytes(s.e.b), bytes, most);
    free(list);
    small_end(&s);
}

static void a_wrong_injection_of_a_state_is_named(void **state) {
    (void)state;
    struct small s;
    struct burst_state saved;
    small_init(&s, 2);
    small_start(&s);
    ok(burst_inject(s.e.b, (const struct burst_injection[]){{3, 0, 1}, {4, 1, 1}}, 2, &err));
    ok(burst_save(s.e.b, &saved, &err));
    saved.pending[1].id = 2;
    assert_int_equal(burst_restore(s.e.b, &saved, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "state.pending[1] is for neuron 2"));
    saved.pending[1].id = 1;
    ok(burst_restore(s.e.b, &saved, &err));
    burst_state_done(&saved);
    small_end(&s);
}

/* Changes of areas reach the neurons together, before the next tick or whatever looks at them. */
static void areas_and_synapses_may_change_in_any_order(void **state) {
    (void)state;
    struct burst_state saved[2];
    for (int first = 0; first < 2; first++) {
        struct small s;
        small_init(&s, 3);
        s.threshold[2] = 1e6f;
        s.area[1] = 1;
        small_join(&s, 0, 2, 10, 10);
        small_join(&s, 1, 2, 10, 10);
        small_start(&s);
        const struct burst_synapse y = {.source = 1, .target = 2, .weight = 7, .psp = 20, .type = 1};
        struct connectome_area areas[2] = {{.psp_divide = true}, {.mp_driven_psp = true, .power = 30}};
        if (first)
            ok(burst_set_synapse(s.e.b, &y, &err));
        for (int i = 0; i < 2; i++)
            ok(burst_set_area(s.e.b, i, &areas[i], &err));
        if (!first)
            ok(burst_set_synapse(s.e.b, &y, &err));
        small_inject(&s, 0, 1);
        small_step(&s, 2);
        assert_true(small_v(&s, 2) == 100 - 7 * 30);
        ok(burst_save(s.e.b, &saved[first], &err));
        assert_int_equal(saved[first].psp[1], 30);
        small_end(&s);
    }
    assert_memory_equal(saved[0].v, saved[1].v, 3 * sizeof *saved[0].v);
    burst_state_done(&saved[0]);
    burst_state_done(&saved[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_keeps_the_option_every_tick),
        cmocka_unit_test(a_state_keeps_the_divisors_of_sources_that_have_lost_synapses),
        cmocka_unit_test(a_state_cannot_change_the_psp_of_synapses),
        cmocka_unit_test(injections_come_in_any_order),
        cmocka_unit_test(injections_take_no_more_memory_than_was_said),
        cmocka_unit_test(a_state_in_which_a_deleted_neuron_fires_is_refused),
        cmocka_unit_test(a_wrong_injection_of_a_state_is_named),
        cmocka_unit_test(areas_and_synapses_may_change_in_any_order),
    };
    return cmocka_run_group_tests_name("burst_state", tests, NULL, NULL);
}
