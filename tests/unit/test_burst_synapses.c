/* Synapses that take their time: delays, on small networks written down by hand. BRR_TEST_DEVICE names another device than the CPU.
 */
#include "burst/netfile.h"
#include "unit/burst_fixture.h"
#include "unit/temp_dir.h"

static void join_late(struct small *s, uint32_t src, uint32_t dst, int weight, int delay) {
    s->arrays.delay = s->delay;
    s->delay[s->arrays.synapses] = (uint8_t)delay;
    small_join(s, src, dst, weight, 255);
}

static void a_spike_arrives_when_its_delay_is_over(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 5);
    join_late(&s, 0, 4, 1, 255);
    join_late(&s, 0, 1, 1, 1);
    join_late(&s, 0, 3, 1, 20);
    join_late(&s, 1, 2, 1, 7);
    small_start(&s);
    kick(&s, 0);
    small_step(&s, 300);
    const int64_t expected[5][2] = {{1, 0}, {2, 1}, {9, 2}, {21, 3}, {256, 4}};
    assert_int_equal(s.n_fired, 5);
    assert_memory_equal(s.fired, expected, sizeof expected);
    small_end(&s);
}

static void inputs_of_a_tick_add_up_whatever_their_delays(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 4);
    s.threshold[3] = 4 * 255;
    join_late(&s, 0, 3, 2, 3);
    join_late(&s, 1, 3, 1, 2);
    join_late(&s, 2, 3, 1, 1);
    small_start(&s);
    for (uint32_t i = 0; i < 3; i++) {
        kick(&s, i);
        small_step(&s, 1);
    }
    small_step(&s, 1);
    assert_true(small_fires(&s, 3));
    small_end(&s);
}

/* Changes and deletions act on spikes to come. */
static void what_is_on_its_way_arrives_as_it_was_sent(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 3);
    s.threshold[2] = 1e6f;
    join_late(&s, 0, 2, 1, 5);
    join_late(&s, 1, 2, 10, 4);
    small_start(&s);
    kick(&s, 0);
    kick(&s, 1);
    small_step(&s, 2);
    const struct burst_synapse y = {.source = 1, .target = 2, .weight = 100, .psp = -1, .type = -1};
    ok(burst_delete_neuron(s.e.b, 0, &err));
    ok(burst_set_synapse(s.e.b, &y, &err));
    kick(&s, 1);
    small_step(&s, 4);
    assert_true(small_v(&s, 2) == 11 * 255);
    small_step(&s, 1);
    assert_true(small_v(&s, 2) == 111 * 255);
    small_end(&s);
}

/* A synapse in turn has the weight that alone fills the range of 32-bit sums; all three reach neuron 1 in tick 8. */
static void sums_of_before_and_after_changes_do_not_wrap(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 5);
    s.threshold[1] = 1e9f;
    static const uint32_t sources[] = {0, 2, 3};
    for (int i = 0; i < 3; i++)
        join_late(&s, sources[i], 1, i ? 0 : 255, 7 - 2 * i);
    small_start(&s);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            const struct burst_synapse y = {.source = sources[k], .target = 1, .weight = k == i ? 255 : 0, .psp = 255, .type = 0};
            if (i)
                ok(burst_set_synapse(s.e.b, &y, &err));
        }
        kick(&s, sources[i]);
        small_step(&s, 2); /* it is on its way */
    }
    small_step(&s, 2);
    assert_true(small_v(&s, 1) == 3 * 255 * 255);
    small_end(&s);
}

/* Word 2^32 − 1 is drawn for neuron 10 in tick 1: many events, and not the most that there may be. */
static void the_rarest_draw_has_no_more_events_than_its_chance(void **state) {
    (void)state;
    struct small s;
    small_init(&s, 11);
    s.threshold[10] = 1e6f;
    s.areas[0].events = s.areas[0].event = 1;
    s.arrays.seed = 69976710;
    small_start(&s);
    small_step(&s, 1);
    assert_in_range(small_v(&s, 10), 11, 13); /* one of 2^32 draws has as many */
    small_end(&s);
}

/* Sums of 64 bits, which a change may need, are counted from the start. */
static void a_change_takes_no_memory_that_was_not_counted(void **state) {
    (void)state;
    struct small s;
    const struct burst_synapse y = {.source = 0, .target = 1, .weight = 9, .psp = -1, .type = -1};
    small_init(&s, 2);
    join_late(&s, 0, 1, 5, 200);
    small_start(&s);
    const int64_t bytes = burst_bytes(s.e.b);
    ok(burst_set_synapse(s.e.b, &y, &err));
    small_step(&s, 1);
    assert_int_equal(burst_bytes(s.e.b), bytes);
    small_end(&s);
}

/* ---- states and files ------------------------------------------------------------------------------------------ */

static void late_network(struct small *s) {
    small_init(s, 3);
    s->threshold[2] = 1e6f;
    join_late(s, 0, 1, -3, 1);
    join_late(s, 0, 2, 7, 6);
    join_late(s, 1, 2, 9, 255);
    join_late(s, 1, 2, 0, 2);
}

static void a_state_keeps_what_is_on_its_way(void **state) {
    (void)state;
    for (int changed = 0; changed < 2; changed++) {
        struct small s, again;
        struct burst_state saved;
        late_network(&s);
        small_start(&s);
        kick(&s, 0);
        kick(&s, 1);
        small_step(&s, 3);
        const struct burst_synapse y = {.source = 0, .target = 2, .weight = 255, .psp = 255, .type = 0};
        if (changed)
            ok(burst_set_synapse(s.e.b, &y, &err));
        ok(burst_save(s.e.b, &saved, &err));
        assert_int_equal(saved.n_arriving, 254 * 3);
        again = (struct small){.arrays = s.arrays};
        engine_open(&again.e, fixture_device(), 1);
        small_start(&again);
        if (changed)
            ok(burst_set_synapse(again.e.b, &y, &err));
        ok(burst_restore(again.e.b, &saved, &err));
        small_step(&again, 4);
        assert_true(small_v(&again, 2) == 7 * 255);
        small_step(&again, 249);
        assert_true(small_v(&again, 2) == 16 * 255);
        saved.arriving[5] = INT64_MAX;
        assert_int_equal(burst_restore(s.e.b, &saved, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "state.arriving[5] is 9223372036854775807"));
        saved.n_arriving = 0;
        assert_int_equal(burst_restore(s.e.b, &saved, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "state.arriving has 0 elements; expected 762"));
        burst_state_done(&saved);
        small_end(&again);
        small_end(&s);
    }
}

static void files_keep_delays_and_name_none_where_there_are_none(void **state) {
    const char *path = in_dir(state, "net.safetensors");
    char sha256[2][DIGEST_HEX_SIZE];
    struct small s;
    struct connectome *c = NULL;
    struct burst_state saved, loaded;
    late_network(&s);
    small_start(&s);
    kick(&s, 1);
    small_step(&s, 3);
    ok(burst_save(s.e.b, &saved, &err));
    ok(netfile_save(path, burst_connectome(s.e.b), &saved, sha256[0], &err));
    ok(netfile_load(path, 0, &c, &loaded, &err));
    assert_int_equal(c->net.delays, 255);
    assert_int_equal(connectome_at(c, 0, 1).delay, 6);
    assert_int_equal(loaded.n_arriving, saved.n_arriving);
    assert_memory_equal(loaded.arriving, saved.arriving, (size_t)saved.n_arriving * sizeof *saved.arriving);
    burst_state_done(&saved);
    burst_state_done(&loaded);
    connectome_free(c);
    memset(s.delay, 1, sizeof s.delay);
    for (int i = 0; i < 2; i++) {
        s.arrays.delay = i ? NULL : s.delay;
        ok(connectome_new(&s.arrays, 0, &c, &err));
        assert_int_equal(c->net.delays, 1);
        ok(netfile_save(path, c, NULL, sha256[i], &err));
        connectome_free(c);
    }
    assert_string_equal(sha256[0], sha256[1]);
    small_end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spike_arrives_when_its_delay_is_over),
        cmocka_unit_test(inputs_of_a_tick_add_up_whatever_their_delays),
        cmocka_unit_test(what_is_on_its_way_arrives_as_it_was_sent),
        cmocka_unit_test(sums_of_before_and_after_changes_do_not_wrap),
        cmocka_unit_test(the_rarest_draw_has_no_more_events_than_its_chance),
        cmocka_unit_test(a_change_takes_no_memory_that_was_not_counted),
        cmocka_unit_test(a_state_keeps_what_is_on_its_way),
        cmocka_unit_test_setup_teardown(files_keep_delays_and_name_none_where_there_are_none, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests_name("burst_synapses", tests, NULL, NULL);
}
