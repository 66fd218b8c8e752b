#include <stdbool.h>
#include <stdlib.h>

#include "unit/cmocka_all.h"

#include "model/ledger.h"

enum { NEURONS = 6, WINDOW = 4 };

static const uint32_t areas[NEURONS] = {0, 0, 0, 1, 1, 1};
static struct err err;

static struct ledger *make(void) {
    struct ledger *l = NULL;
    assert_int_equal(ledger_new(areas, NEURONS, 2, WINDOW, &l, &err), 0);
    assert_int_equal(ledger_track(l, 0, &err), 0);
    return l;
}
static void add(struct ledger *l, uint64_t tick, uint32_t first, int n) {
    uint32_t ids[NEURONS];
    for (int i = 0; i < n; i++)
        ids[i] = first + (uint32_t)i;
    assert_int_equal(ledger_add(l, tick, ids, n, &err), 0);
}

static void silence_is_kept_as_empty_frames(void **state) {
    (void)state;
    struct ledger *l = make();
    struct ledger_frame f[2];
    add(l, 1, 1, 2);
    add(l, 2, 0, 0);
    assert_int_equal(ledger_get(l, 0, 2, 2, f, &err), 0);
    assert_int_equal(f[0].n, 2);
    assert_int_equal(f[0].ids[1], 2);
    assert_int_equal(f[1].tick, 2);
    assert_int_equal(f[1].n, 0);
    ledger_free(l);
}

static void only_the_areas_own_neurons_are_in_its_frames(void **state) {
    (void)state;
    struct ledger *l = make();
    struct ledger_frame f;
    add(l, 1, 0, NEURONS);
    assert_int_equal(ledger_get(l, 0, 1, 1, &f, &err), 0);
    assert_int_equal(f.n, 3);
    assert_int_equal(f.ids[2], 2);
    ledger_free(l);
}

static void a_gap_from_tick_1_to_4_is_filled(void **state) {
    (void)state;
    struct ledger *l = make();
    struct ledger_frame f[4];
    add(l, 1, 0, 1);
    add(l, 4, 1, 1);
    assert_int_equal(ledger_get(l, 0, 4, 4, f, &err), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(f[i].tick, i + 1);
        assert_int_equal(f[i].n, i == 0 || i == 3);
    }
    add(l, 1000, 2, 1); /* a gap longer than the window */
    assert_int_equal(ledger_get(l, 0, 1000, 4, f, &err), 0);
    assert_int_equal(f[0].n + f[1].n + f[2].n, 0);
    assert_int_equal(f[3].ids[0], 2);
    ledger_free(l);
}

static void a_tick_that_is_not_later_is_refused(void **state) {
    (void)state;
    struct ledger *l = make();
    const uint32_t id = 0;
    add(l, 3, 0, 1);
    assert_int_equal(ledger_add(l, 3, &id, 1, &err), ERR_INVALID);
    assert_int_equal(ledger_add(l, 2, &id, 1, &err), ERR_INVALID);
    assert_int_equal(ledger_tick(l), 3);
    ledger_free(l);
}

static void questions_it_cannot_answer_in_full_are_refused(void **state) {
    (void)state;
    struct ledger *l = make();
    struct ledger_frame f[16];
    for (uint64_t t = 1; t <= 6; t++)
        add(l, t, 0, 1);
    assert_int_equal(ledger_get(l, 0, 6, WINDOW + 1, f, &err), ERR_RANGE);
    assert_int_equal(ledger_get(l, 0, 7, 1, f, &err), ERR_RANGE);
    assert_int_equal(ledger_get(l, 0, 5, WINDOW, f, &err), ERR_RANGE); /* tick 2 has gone */
    assert_int_equal(ledger_get(l, 0, 5, WINDOW - 1, f, &err), 0);
    assert_int_equal(ledger_get(l, 1, 6, 1, f, &err), ERR_NOT_FOUND);
    assert_int_equal(ledger_get(l, 2, 6, 1, f, &err), ERR_INVALID);
    ledger_free(l);
}

static void an_area_tracked_late_has_empty_frames_before(void **state) {
    (void)state;
    struct ledger *l = make();
    struct ledger_frame f[3];
    add(l, 1, 3, 1);
    add(l, 2, 3, 1);
    assert_int_equal(ledger_track(l, 1, &err), 0);
    add(l, 3, 3, 2);
    assert_int_equal(ledger_get(l, 1, 3, 3, f, &err), 0);
    assert_int_equal(f[0].n + f[1].n, 0);
    assert_int_equal(f[2].n, 2);
    ledger_free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_kept_as_empty_frames),
        cmocka_unit_test(only_the_areas_own_neurons_are_in_its_frames),
        cmocka_unit_test(a_gap_from_tick_1_to_4_is_filled),
        cmocka_unit_test(a_tick_that_is_not_later_is_refused),
        cmocka_unit_test(questions_it_cannot_answer_in_full_are_refused),
        cmocka_unit_test(an_area_tracked_late_has_empty_frames_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
