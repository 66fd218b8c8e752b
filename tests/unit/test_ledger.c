/* Fire ledgers: which ticks they hold, and how they go through a state. */
#include "burst/ledger.h"
#include "unit/burst_fixture.h"

enum { NEURONS = 40, TICKS = 300 };

/* As many spikes in tick t as the tick's last digit says: neurons 0, 2, 4, … */
static struct burst_frame frame_of(uint64_t tick) {
    static const uint32_t ids[] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18};
    return (struct burst_frame){.tick = tick, .ids = ids, .fired = (int64_t)(tick % 10), .candidates = 9, .events = 9};
}

static void fill(struct ledger *l, uint64_t from, uint64_t to) {
    for (uint64_t tick = from; tick <= to; tick++) {
        const struct burst_frame frame = frame_of(tick);
        ok(ledger_add(l, &frame, &err));
    }
}

struct seen {
    uint64_t first, last;
    int64_t ticks, spikes;
};

static void look(void *ctx, const struct burst_frame *frame) {
    struct seen *s = ctx;
    const struct burst_frame expected = frame_of(frame->tick);
    assert_true(s->ticks == 0 || frame->tick == s->last + 1);
    assert_int_equal(frame->fired, expected.fired);
    assert_true(frame->candidates == 0 && frame->events == 0);
    if (frame->fired)
        assert_memory_equal(frame->ids, expected.ids, (size_t)frame->fired * sizeof *frame->ids);
    s->first = s->ticks++ ? s->first : frame->tick;
    s->last = frame->tick;
    s->spikes += frame->fired;
}

static void expect(const struct ledger *l, int64_t most, uint64_t first, uint64_t last) {
    struct seen s = {0};
    ledger_each(l, most, look, &s);
    assert_int_equal(s.first, first);
    assert_int_equal(s.last, last);
    assert_int_equal(s.ticks, last ? last + 1 - first : 0);
}

static void the_newest_ticks_are_held_and_no_others(void **state) {
    (void)state;
    struct ledger l;
    ok(ledger_init(&l, 25, 1000, &err));
    expect(&l, 99, 0, 0);
    for (uint64_t tick = 1; tick <= TICKS; tick++) {
        fill(&l, tick, tick);
        expect(&l, 99, tick > 25 ? tick - 24 : 1, tick);
        expect(&l, 3, tick > 3 ? tick - 2 : 1, tick);
    }
    assert_true(l.room <= 2048);
    fill(&l, 1000, 1001); /* another run */
    expect(&l, 99, 1000, 1001);
    ledger_done(&l);
}

static void too_many_spikes_push_the_oldest_ticks_out(void **state) {
    (void)state;
    struct ledger l;
    ok(ledger_init(&l, 25, 20, &err));
    fill(&l, 1, 19);
    expect(&l, 99, 18, 19); /* 8 and 9 spikes; 7 more are too many */
    l.most_spikes = 5;
    fill(&l, 20, 29);
    expect(&l, 99, 29, 29);
    fill(&l, 30, 32);
    expect(&l, 99, 30, 32);
    ledger_done(&l);
    ok(ledger_init(&l, 0, 20, &err));
    fill(&l, 1, 3);
    expect(&l, 99, 0, 0);
    ledger_done(&l);
}

static void a_state_keeps_a_ledger_and_is_not_trusted_with_it(void **state) {
    (void)state;
    struct ledger l, again;
    struct burst_state s = {.tick = 42, .neurons = NEURONS};
    ok(ledger_init(&l, 25, 1000, &err));
    ok(ledger_init(&again, 10, 1000, &err));
    fill(&l, 1, 42);
    fill(&again, 1, 7);
    ok(ledger_save(&l, &s, &err));
    ok(ledger_restore(&again, &s, &err));
    expect(&again, 99, 33, 42);
    fill(&again, 43, 44);
    expect(&again, 99, 35, 44);
    s.ledger_ids[3] = NEURONS;
    assert_int_equal(ledger_restore(&again, &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "state.ledger.ids[3] is 40"));
    s.ledger_ids[3] = 2;
    s.ledger_fired[0] = UINT32_MAX;
    assert_int_equal(ledger_restore(&again, &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "state.ledger.fired[0] is 4294967295"));
    s.ledger_fired[0] = 0;
    assert_int_equal(ledger_restore(&again, &s, &err), ERR_INVALID);
    s.tick = 24;
    assert_int_equal(ledger_restore(&again, &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "25 ticks; expected at most the 24"));
    expect(&again, 99, 35, 44); /* nothing has changed */
    burst_state_done(&s);
    ledger_done(&l);
    ledger_done(&again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_ticks_are_held_and_no_others),
        cmocka_unit_test(too_many_spikes_push_the_oldest_ticks_out),
        cmocka_unit_test(a_state_keeps_a_ledger_and_is_not_trusted_with_it),
    };
    return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
