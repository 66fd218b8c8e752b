/* entry_fixture: entries of the journal about beds and their alarms, for tests of hooks. */
#pragma once

#include "base/base.h"
#include "daemon/alarms/alarm_entry.h"
#include "unit/temp_dir.h"

/* The end of an alarm is that of the one that began last. */
static inline struct journal_entry entry(enum journal_kind kind, const char *bed, int64_t sample) {
    static int64_t began;
    began = kind == JOURNAL_ALARM_OFF ? began : sample;
    struct journal_entry e = {
        .kind = kind, .number = sample, .start_s = (double)sample / 256, .end_s = NAN, .value = 0.93, .live = true};
    e.received_ms = clock_wall_ms();
    str_copy(e.session, sizeof e.session, bed);
    str_copy(e.client, sizeof e.client, bed);
    str_copy(e.principal, sizeof e.principal, "token:icu");
    journal_alarm_id(bed, began, e.alarm);
    str_copy(e.detail, sizeof e.detail, kind == JOURNAL_ALARM_OFF ? "ended" : "");
    return e;
}

static inline struct journal_entry technical(enum journal_kind kind, int bed) {
    char name[16];
    str_format(name, sizeof name, "bed-%d", bed);
    struct journal_entry e = entry(kind, name, 1000 * kind + bed);
    str_format(e.alarm, sizeof e.alarm, "lost-%d", bed);
    str_copy(e.detail, sizeof e.detail, "lost: no stream");
    return e;
}

static inline struct journal_entry of_test_alarm(enum journal_kind kind, const char *bed, int64_t number, const char *detail) {
    const struct alarms_now now = {.wall_ms = clock_wall_ms(), .boot_ms = 1};
    struct journal_entry e;
    alarm_entry_test(bed, "token:icu", &now, number, &e);
    e.kind = kind;
    e.step = kind == JOURNAL_ESCALATED ? 1 : 0;
    if (detail)
        str_copy(e.detail, sizeof e.detail, detail);
    return e;
}
