/* ward_fixture: a daemon's alarms with the test's clocks, and the rows of its journal. */
#pragma once

#include "daemon/alarms/alarm_entry.h"
#include "unit/cmocka_all.h"

enum { ROWS = 64, MINUTE = 60 * 1000 };

/* A daemon's alarms, and the rows of its journal. */
struct ward {
    struct alarms *all;
    struct alarms_now now;
    struct journal_entry rows[ROWS];
    int n;
};

static inline void keep_row(void *ctx, const struct alarms_row *row) {
    struct ward *w = ctx;
    assert_true(w->n < ROWS);
    alarm_entry_make(row, &w->rows[w->n++]);
}

static struct alarms_plan plan = {.after_ms = {MINUTE, 3 * MINUTE}, .n = 2, .repeat_ms = 2 * MINUTE};

static inline int setup(void **state) {
    struct ward *w = calloc(1, sizeof *w);
    w->now = (struct alarms_now){.boot_ms = 1000000000, .wall_ms = 1800000000000};
    w->all = alarms_new(&plan, keep_row, w);
    *state = w;
    return w->all ? 0 : -1;
}

static inline int teardown(void **state) {
    struct ward *w = *state;
    alarms_free(w->all);
    free(w);
    return 0;
}

/* Time passes second by second. */
static inline void pass(struct ward *w, int64_t ms) {
    for (; ms > 0; ms -= 1000) {
        w->now.boot_ms += 1000;
        w->now.wall_ms += 1000;
        alarms_tick(w->all, &w->now);
        alarms_round_begin(w->all);
        alarms_round_end(w->all, &w->now);
    }
}

/* A round in which this cause holds. */
static inline void hold(struct ward *w, enum alarm_kind kind, const char *bed, int64_t ms) {
    const struct alarms_cause cause = {.kind = kind, .bed = bed, .principal = "token:a", .session = "s", .why = "why"};
    for (; ms > 0; ms -= 1000) {
        w->now.boot_ms += 1000;
        w->now.wall_ms += 1000;
        alarms_tick(w->all, &w->now);
        alarms_round_begin(w->all);
        alarms_round_put(w->all, &cause, &w->now);
        alarms_round_end(w->all, &w->now);
    }
}

#define NOW(w) .received_ms = (w)->now.wall_ms, .boot_ms = (w)->now.boot_ms

/* The stream reports, through an entry as its session makes it. */
static inline const struct alarm *on(struct ward *w, const char *bed, double start_s) {
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = start_s, .value = 0.9, NOW(w), .live = true};
    str_format(e.session, sizeof e.session, "session-of-%s", bed);
    str_format(e.principal, sizeof e.principal, "token:%s", bed);
    str_copy(e.client, sizeof e.client, bed);
    journal_alarm_id(e.session, llround(start_s * 256), e.alarm);
    w->rows[w->n++] = e;
    alarm_entry_take(w->all, &e, &w->now);
    const struct alarm *a = alarms_find(w->all, e.alarm);
    assert_non_null(a);
    return a;
}

static inline void off(struct ward *w, const char *bed, const char *why) {
    struct journal_entry e = {.kind = JOURNAL_ALARM_OFF, NOW(w), .start_s = NAN, .live = true};
    str_format(e.session, sizeof e.session, "session-of-%s", bed);
    str_copy(e.detail, sizeof e.detail, why);
    w->rows[w->n++] = e;
    alarm_entry_take(w->all, &e, &w->now);
}

static inline int answer(struct ward *w, const struct alarm *a, struct alarm_answer *given) {
    struct err err;
    str_copy(given->author.by, sizeof given->author.by, "token:nurse");
    str_copy(given->author.person, sizeof given->author.person, "Ana B");
    str_copy(given->author.via, sizeof given->author.via, "page");
    given->author.at_ms = w->now.wall_ms, given->author.boot_ms = w->now.boot_ms;
    return alarms_answer(w->all, a->id, given, &w->now, &err);
}

static inline int acknowledge(struct ward *w, const struct alarm *a) {
    return answer(w, a, &(struct alarm_answer){.action = ALARM_ACKNOWLEDGE});
}

static inline int rows_of(const struct ward *w, enum journal_kind kind) {
    int n = 0;
    for (int i = 0; i < w->n; i++)
        n += w->rows[i].kind == kind;
    return n;
}

/* The daemon was killed and starts again so much later: it has its journal. The machine's clocks went on. */
static inline void restart(struct ward *w, int64_t later_ms) {
    alarms_free(w->all);
    w->now.boot_ms += later_ms;
    w->now.wall_ms += later_ms;
    w->all = alarms_new(&plan, keep_row, w);
    struct alarms *past = alarms_new(&plan, NULL, NULL);
    assert_true(w->all && past);
    const int n = w->n;
    alarms_restore(past, true);
    for (int i = 0; i < n; i++)
        alarm_entry_take(past, &w->rows[i], &w->now);
    assert_true(alarms_merge(w->all, past, ROWS, &w->now));
    alarms_free(past);
    assert_int_equal(w->n, n);
}

static inline struct alarms_start start_of(const char *session, const char *bed, double start_s, const struct ward *w) {
    return (struct alarms_start){.id = "",
                                 .session = session,
                                 .bed = bed,
                                 .principal = "token:icu",
                                 .model = "m",
                                 .live = true,
                                 .start_s = start_s,
                                 .value = 0.9,
                                 .on_ms = w->now.wall_ms,
                                 .alone = true};
}

/* As a stream reports it: the register names the alarm, and takes it. */
static inline const struct alarm *report_on(struct ward *w, struct alarms_start start, char id[JOURNAL_ALARM]) {
    alarms_name(w->all, &start, &w->now, id);
    start.id = id;
    return alarms_began(w->all, &start, &w->now);
}

static inline void report_off(struct ward *w, const char *id, const char *session, double at_s) {
    alarms_ended(w->all, &(struct alarms_end){.id = id, .session = session, .why = "ended", .at_s = at_s, .off_ms = w->now.wall_ms},
                 &w->now);
}

static inline const struct alarm *technical(const struct ward *w, enum alarm_kind kind) {
    struct alarms_cursor cursor = {0};
    for (const struct alarm *a; (a = alarms_next(w->all, &cursor));)
        if (a->kind == kind)
            return a;
    return NULL;
}

#define in_ward(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
