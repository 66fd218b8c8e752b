/* page_fixture: a status that is made up, and what pages and events say of it. */
#pragma once

#include "base/json.h"
#include "daemon/page/page.h"
#include "eeg/quality.h"
#include "unit/cmocka_all.h"

#define HOSTILE "<script>alert(1)</script>\" onload='x' & \xff\x01\xe2\x80\xae"

static inline struct status *made(int n) {
    static struct status_channel channels[] = {{"Fp1", 0, true}, {"F3", QUALITY_FLAT, true}, {HOSTILE, 0, false}};
    struct status *s = status_new(NULL);
    assert_non_null(s);
    s->version = s->revision = s->notice = "x";
    s->taken_ms = 1800000000000;
    s->boot_ms = 7000000;
    s->n_devices = 1;
    s->devices[0] = (struct status_device){
        .info = {.name = "cpu", .description = HOSTILE},
        .health = {.memory_used_bytes = 1, .memory_total_bytes = 2, .power_w = NAN, .temperature_c = 61, .slowed = 6}};
    s->streams = arena_alloc(&s->arena, (size_t)(n + 1) * sizeof *s->streams);
    s->jobs = arena_alloc(&s->arena, sizeof *s->jobs);
    s->models = arena_alloc(&s->arena, sizeof *s->models);
    for (int i = 0; i < n; i++) {
        struct status_stream *t = &s->streams[s->n_streams++];
        *t = (struct status_stream){.bed.session_id = arena_printf(&s->arena, "%032x", (unsigned)i),
                                    .bed.name = i ? arena_printf(&s->arena, "bed-%d", i) : HOSTILE,
                                    .bed.model = HOSTILE,
                                    .bed.principal = i % 2 ? "token:odd" : "token:even",
                                    .address = "",
                                    .place = INT_MAX,
                                    .bed.quality = i % 10 == 3 ? "F3 flat" : "",
                                    .montage = "bipolar-18",
                                    .bed.rule = "",
                                    .mood = i == n / 2    ? STATUS_ALARM
                                            : i % 10 == 3 ? STATUS_POOR
                                                          : STATUS_FINE,
                                    .realtime = true,
                                    .bed.live = true,
                                    .bed.connected = true,
                                    .bed.probability = 0.5f,
                                    .bed.threshold_on = 0.8,
                                    .rate_hz = 256,
                                    .bed.opened_ms = s->taken_ms - 60000,
                                    .bed.seen_ms = s->taken_ms - 1000,
                                    .alarm_ms = i == n / 2 ? s->taken_ms - 45000 : 0,
                                    .channels = channels,
                                    .n_channels = 3,
                                    .n_flawed = i % 10 == 3};
        t->key = t->bed.session_id;
        for (int k = 0; k < STATUS_MINUTE; k++)
            t->minute[k] = k < 30 ? NAN : (float)k / STATUS_MINUTE;
    }
    status_sort(s);
    return s;
}

static inline struct page_view all_of(const struct status *s) {
    return (struct page_view){.status = s,
                              .all = true,
                              .principal = "",
                              .ready = true,
                              .readiness = "ready",
                              .journal = "/proc/nonexistent",
                              .database = "/proc/nonexistent"};
}

/* n alarms of patients that were on and wait, and n beds without a signal. */
static inline void put_alarms(struct status *s, const char *bed, int n) {
    s->alarms = arena_alloc(&s->arena, (size_t)n * 2 * sizeof(struct alarm *));
    for (int i = 0; i < 2 * n; i++) {
        struct alarm *a = arena_alloc(&s->arena, sizeof *a);
        *a = (struct alarm){.noted = {.person = "Ana", .at_ms = s->taken_ms - 50000},
                            .kind = i < n ? ALARM_SEIZURE : ALARM_NO_SIGNAL,
                            .principal = "token:odd",
                            .live = true,
                            .on_ms = s->taken_ms - 100000,
                            .on_boot_ms = s->boot_ms - 100000,
                            .off_ms = i < n ? s->taken_ms - 60000 : 0,
                            .off_boot_ms = i < n ? s->boot_ms - 60000 : 0};
        str_format(a->id, sizeof a->id, "a-%d", i);
        str_copy(a->bed, sizeof a->bed, bed);
        str_copy(a->why, sizeof a->why, bed);
        str_copy(a->note, sizeof a->note, bed);
        s->alarms[s->n_alarms++] = a;
    }
}

static inline struct alarm *alarm_at(const struct status *s, int i) { return (struct alarm *)(uintptr_t)s->alarms[i]; }

/* It is on, for 40 s. */
static inline void put_on(const struct status *s, int i) {
    alarm_at(s, i)->off_ms = 0;
    alarm_at(s, i)->on_boot_ms = s->boot_ms - 40000;
}

static inline void acknowledge(const struct status *s, int i) {
    alarm_at(s, i)->answered.at_ms = s->taken_ms - 30000;
    str_copy(alarm_at(s, i)->answered.person, ALARM_PERSON, "Ana");
}

static inline int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static inline struct json *event_of(const struct page_view *before, const struct page_view *after, const char *path) {
    struct str event;
    struct json *json = NULL;
    struct err err;
    str_init(&event, 4 << 20);
    page_event(&event, before, after, path);
    assert_true(str_starts(str_cstr(&event), "data: ") && str_ends(str_cstr(&event), "\n\n"));
    assert_int_equal(count(str_cstr(&event), "\n"), 2);
    assert_int_equal(json_parse(event.data + 6, event.len - 8, "event", &json, &err), 0);
    str_done(&event);
    return json;
}
