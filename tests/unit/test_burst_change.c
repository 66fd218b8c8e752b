/* Changes of a network between ticks: deletions, parameters, areas, synapses. */
#include "unit/burst_fixture.h"

static void what_is_deleted_stops_with_the_next_tick(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 4);
    small_join(&s, 0, 1, 1, 1);
    small_join(&s, 0, 2, 1, 1);
    small_join(&s, 3, 3, 1, 1);
    s.threshold[1] = s.threshold[2] = 100;
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 2);
    ok(burst_delete_synapse(s.e.b, 0, 1, &err));
    assert_int_equal(burst_delete_synapse(s.e.b, 0, 1, &err), ERR_NOT_FOUND);
    kick(&s, 0);
    small_step(&s, 2);
    assert_true(small_v(&s, 1) == 1 && small_v(&s, 2) == 2);
    kick(&s, 3);
    small_step(&s, 3);
    assert_true(small_fires(&s, 3));
    ok(burst_delete_neuron(s.e.b, 3, &err)); /* it fired just now */
    kick(&s, 3);
    small_step(&s, 1);
    assert_int_equal(s.events, 0);
    assert_false(small_fires(&s, 3));
    small_end(&s);
}

static void all_synapses_of_a_pair_go_together(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 4);
    small_join(&s, 0, 1, 3, 1);
    for (int i = 0; i < 3; i++)
        small_join(&s, 0, 2, 5 + i, 2);
    small_join(&s, 0, 3, 4, 1);
    s.threshold[1] = s.threshold[2] = s.threshold[3] = 100;
    small_start(&s);
    ok(burst_delete_synapse(s.e.b, 0, 2, &err));
    assert_int_equal(burst_connectome(s.e.b)->synapses, 2);
    assert_int_equal(burst_connectome(s.e.b)->input_bound[2], 0);
    kick(&s, 0);
    small_step(&s, 2);
    assert_int_equal(s.events, 2);
    assert_true(small_v(&s, 1) == 3 && small_v(&s, 2) == 0 && small_v(&s, 3) == 4);
    small_end(&s);
}

static void changes_act_in_the_next_tick(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    s.refractory[0] = 3;
    s.threshold[1] = s.threshold[2] = 1e6f;
    small_join(&s, 0, 1, 10, 10);
    small_join(&s, 0, 2, 10, 10);
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 1);
    ok(burst_set_neuron(s.e.b, 0, BURST_REFRACTORY, 0, &err)); /* ends the countdown too */
    kick(&s, 0);
    small_step(&s, 1);
    assert_true(small_fires(&s, 0));
    struct connectome_area area = {.psp_divide = true};
    ok(burst_set_area(s.e.b, 0, &area, &err));
    small_step(&s, 1);
    assert_true(small_v(&s, 1) == 150);
    area = (struct connectome_area){.mp_driven_psp = true, .power = 6};
    ok(burst_set_area(s.e.b, 0, &area, &err));
    small_step(&s, 2); /* power fires neuron 0 with a membrane of 6 */
    assert_true(small_v(&s, 1) == 210);
    ok(burst_set_neuron(s.e.b, 0, BURST_THRESHOLD, 1e9, &err));
    area.power = 0;
    ok(burst_set_area(s.e.b, 0, &area, &err));
    small_step(&s, 2); /* the spike before is delivered, no other follows */
    assert_true(small_v(&s, 1) == 270);
    ok(burst_set_neuron(s.e.b, 1, BURST_V, 2.5, &err));
    assert_true(small_v(&s, 1) == 2.5f);
    small_end(&s);
}

static void a_synapse_takes_a_new_weight_sign_and_psp(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    s.threshold[1] = s.threshold[2] = 1e9f;
    small_join(&s, 0, 1, 3, 1);
    small_join(&s, 0, 2, 3, 1);
    small_start(&s);
    const struct burst_synapse heavier = {0, 1, 200, -1, -1}, other_way = {0, 1, -1, -1, 1}, louder = {0, 1, -1, 255, 0};
    const float after[] = {3, 203, 3, 51003};
    for (int i = 0; i < 4; i++) {
        if (i)
            ok(burst_set_synapse(s.e.b, i == 1 ? &heavier : i == 2 ? &other_way : &louder, &err));
        kick(&s, 0);
        small_step(&s, 2);
        assert_true(small_v(&s, 1) == after[i] && small_v(&s, 2) == 3 * (float)(i + 1));
    }
    assert_true(burst_connectome(s.e.b)->net.wide); /* its psp differs from its row's */
    const struct burst_synapse nowhere = {1, 2, 5, -1, -1}, wrong = {0, 1, 256, -1, -1};
    assert_int_equal(burst_set_synapse(s.e.b, &nowhere, &err), ERR_NOT_FOUND);
    assert_int_equal(burst_set_synapse(s.e.b, &wrong, &err), ERR_INVALID);
    small_end(&s);
}

static void a_synapse_of_weight_0_has_no_type_to_keep(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 2);
    s.threshold[1] = 1e9f;
    small_join(&s, 0, 1, -3, 1);
    small_start(&s);
    const struct burst_synapse silent = {0, 1, 0, -1, -1}, louder = {0, 1, 5, -1, -1}, again = {0, 1, 5, -1, 1};
    ok(burst_set_synapse(s.e.b, &silent, &err));
    assert_int_equal(burst_set_synapse(s.e.b, &louder, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "send its type"));
    ok(burst_set_synapse(s.e.b, &again, &err));
    kick(&s, 0);
    small_step(&s, 2);
    assert_true(small_v(&s, 1) == -5);
    small_end(&s);
}

static void changes_that_make_no_sense_are_refused(void **state) {
    (void)state;
    struct small s;
    enum burst_field field;
    small_init(&s, 2);
    small_start(&s);
    assert_int_equal(burst_set_neuron(s.e.b, 2, BURST_V, 0, &err), ERR_INVALID);
    assert_int_equal(burst_set_neuron(s.e.b, 0, BURST_V, NAN, &err), ERR_INVALID);
    assert_int_equal(burst_set_neuron(s.e.b, 0, BURST_LEAK, 1.5, &err), ERR_INVALID);
    assert_int_equal(burst_set_neuron(s.e.b, 0, BURST_SNOOZE, 2.5, &err), ERR_INVALID);
    assert_int_equal(burst_set_neuron(s.e.b, 0, BURST_FIRE_LIMIT, 65536, &err), ERR_INVALID);
    assert_int_equal(burst_set_neuron(s.e.b, 0, BURST_ACCUMULATE, 2, &err), ERR_INVALID);
    assert_int_equal(burst_set_neuron(s.e.b, 0, BURST_THRESHOLD, NAN, &err), ERR_INVALID);
    assert_int_equal(burst_delete_neuron(s.e.b, 2, &err), ERR_INVALID);
    assert_int_equal(burst_set_area(s.e.b, 2, s.areas, &err), ERR_INVALID);
    ok(burst_field_of("fire_limit", &field, &err));
    assert_int_equal(field, BURST_FIRE_LIMIT);
    assert_int_equal(burst_field_of("colour", &field, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "threshold_limit, leak"));
    small_end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_deleted_stops_with_the_next_tick),
        cmocka_unit_test(all_synapses_of_a_pair_go_together),
        cmocka_unit_test(changes_act_in_the_next_tick),
        cmocka_unit_test(a_synapse_takes_a_new_weight_sign_and_psp),
        cmocka_unit_test(a_synapse_of_weight_0_has_no_type_to_keep),
        cmocka_unit_test(changes_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests_name("burst_change", tests, NULL, NULL);
}
