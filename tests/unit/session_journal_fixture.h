/* session_journal_fixture: sessions whose journal says what the test wants it to say, and whose register is a real one. */
#pragma once
#include "base/base.h"
#include "daemon/alarms/alarm_entry.h"
#include "daemon/alarms/desk.h"
#include "daemon/journal/journal.h"
#include "daemon/live/session_parts.h"
#include "unit/session_fixture.h"

enum { MOST = 128 };

/* The journal's side. */
static struct journal_entry entries[MOST];
static int n_entries;
static bool written, failing;
static int64_t now_ms = 1000;

int64_t __wrap_journal_add(struct journal *j, const struct journal_entry *e);
int64_t __wrap_journal_add_again(struct journal *j, const struct journal_entry *e);
bool __wrap_journal_has(const struct journal *j, int64_t number);
bool __wrap_journal_is_failing(const struct journal *j);
int64_t __wrap_clock_ms(void);

static int n_again; /* entries that the journal may have */

/* The register, by the clock of the test. */
static struct desk *desk;
static struct alarms *model;
static inline struct alarms_now model_now(void) {
    return (struct alarms_now){.boot_ms = now_ms, .wall_ms = 1800000000000 + now_ms};
}

int64_t __wrap_journal_add(struct journal *j, const struct journal_entry *e) {
    (void)j;
    assert_true(n_entries < MOST);
    const struct alarms_now now = model_now();
    struct journal_entry copy = *e;
    copy.received_ms = now.wall_ms;
    copy.boot_ms = now.boot_ms;
    entries[n_entries++] = *e;
    alarm_entry_take(model, &copy, &now);
    return n_entries;
}
int64_t __wrap_journal_add_again(struct journal *j, const struct journal_entry *e) {
    n_again++;
    return __wrap_journal_add(j, e);
}
bool __wrap_journal_has(const struct journal *j, int64_t number) { return (void)j, written || !number; }
bool __wrap_journal_is_failing(const struct journal *j) { return (void)j, failing; }
int64_t __wrap_clock_ms(void) { return now_ms; }

/* The owner's side: the order in which reports come. */
static char heard[MOST + 1];
static int n_heard;

static inline void hear(char what) {
    assert_true(n_heard < MOST);
    heard[n_heard++] = what;
    heard[n_heard] = '\0';
}
static inline void hear_result(void *owner, const struct live_report *r) { (void)owner, (void)r, hear('r'); }
static inline void hear_alarm(void *owner, const struct live_report *r) { (void)owner, (void)r, hear('a'); }
static inline void hear_summary(void *owner, const struct live_report *r) { (void)owner, (void)r, hear('s'); }
static inline void hear_failed(void *owner, const struct err *err, const char *reason) {
    (void)owner, (void)err, (void)reason, hear('f');
}
static const struct session_sink ears = {.opened = on_opened,
                                         .result = hear_result,
                                         .provisional = on_provisional,
                                         .alarm = hear_alarm,
                                         .progress = on_progress,
                                         .summary = hear_summary,
                                         .draining = on_draining,
                                         .failed = hear_failed};

/* The newest snapshot. */
static char *kept_state;
static size_t kept_len;
static inline bool keep_state(void *ctx, const struct session_snapshot *snapshot) {
    (void)ctx;
    free(kept_state);
    kept_state = snapshot->state;
    kept_len = snapshot->len;
    return true;
}

/* What people did. */
static struct journal_entry taken, taken_technical, taken_standby, taken_onset;
static inline int describe(void *ctx, const struct journal_entry *of, struct journal_entry ret[SESSION_DESCRIBED]) {
    (void)ctx;
    ret[1] = (struct journal_entry){.kind = JOURNAL_TECHNICAL_ON, .number = 79, .received_ms = 80, .on_ms = 81};
    str_copy(ret[1].alarm, sizeof ret[1].alarm, "no_signal-5-1");
    str_copy(ret[1].detail, sizeof ret[1].detail, "no_signal");
    ret[0] = (struct journal_entry){.kind = JOURNAL_ANSWERED, .received_ms = 77, .boot_ms = 78};
    str_copy(ret[0].alarm, sizeof ret[0].alarm, of->alarm);
    str_copy(ret[0].person, sizeof ret[0].person, "token:nurse");
    str_copy(ret[0].detail, sizeof ret[0].detail, "acknowledge");
    ret[2] = (struct journal_entry){.kind = JOURNAL_STANDBY, .received_ms = 82, .boot_ms = 83, .until_ms = 84};
    str_copy(ret[2].person, sizeof ret[2].person, "token:nurse");
    ret[3] = (struct journal_entry){.kind = JOURNAL_ALARM_ON, .number = 85, .received_ms = 86};
    str_copy(ret[3].alarm, sizeof ret[3].alarm, of->alarm);
    str_copy(ret[3].where, sizeof ret[3].where, "left: F7-T3");
    return 4;
}
static inline void take_described(void *ctx, struct journal_entry *e) {
    (void)ctx;
    *(journal_kind_is_technical(e->kind) ? &taken_technical
      : e->kind == JOURNAL_STANDBY       ? &taken_standby
      : e->kind == JOURNAL_ALARM_ON      ? &taken_onset
                                         : &taken) = *e;
}

static inline void name(void *ctx, const struct journal_entry *e, bool alone, char ret[JOURNAL_ALARM]) {
    const struct alarms_now now = model_now();
    struct alarms_start start = alarm_entry_start(e);
    (void)ctx;
    start.alone = alone;
    alarms_name(model, &start, &now, ret);
}

static inline int64_t on_in(void *ctx, const char *session, char ret[JOURNAL_ALARM]) {
    const struct alarm *a = alarms_on_in(model, session);
    (void)ctx;
    if (a)
        str_copy(ret, JOURNAL_ALARM, a->id);
    return a ? (int64_t)(a->changed_s * 256) : -1;
}

static inline bool is_of_another(void *ctx, const char *alarm, const char *session) {
    const struct alarm *a = alarms_find(model, alarm);
    return (void)ctx, a && strcmp(a->session, session) != 0;
}

static inline bool holds(void *ctx, const char *principal, const char *bed) {
    return (void)ctx, alarms_holds(model, principal, bed);
}

static int n_settled;
static inline bool settle(void *ctx, int (*place)(void *sessions, const char *session), void *sessions) {
    (void)ctx;
    assert_int_equal(place(sessions, "gone"), SESSION_GONE);
    return ++n_settled > 1; /* alarms from before the start are still being read at first */
}

static inline struct sessions *sessions_with(struct bench *b, struct session_store store) {
    const struct sessions_config config = {.post = take,
                                           .post_ctx = &b->worker,
                                           .max_sessions = 2,
                                           .idle_ms = 3600 * 1000,
                                           .resume_ttl_ms = 3600 * 1000,
                                           .journal = (struct journal *)b, /* never looked into */
                                           .alarms = {.ctx = desk,
                                                      .receive = desk_register(desk).receive,
                                                      .name = name,
                                                      .on_in = on_in,
                                                      .is_of_another = is_of_another,
                                                      .holds = holds,
                                                      .settle = settle,
                                                      .describe = describe,
                                                      .take = take_described},
                                           .store = store,
                                           .max_waiting_bytes = 16384};
    return sessions_new(&config);
}

static inline int with_journal(void **state) {
    struct bench *b;
    int rc = set_up(state);
    b = *state;
    desk_free(desk);
    assert_int_equal(desk_new(&(struct desk_config){.plan = {.rejoin_ms = 60 * 1000}}, &desk, NULL), 0);
    model = desk_alarms(desk);
    sessions_free(b->all);
    b->all = sessions_with(b, (struct session_store){.put = NULL});
    n_entries = n_heard = n_again = n_settled = 0;
    heard[0] = '\0';
    written = failing = false;
    return rc;
}

static inline struct session *open_heard(struct bench *b, struct live_stream **ret_stream, bool resumable) {
    struct session_request with = resumable ? lasting : request;
    struct session *s = NULL;
    with.start_ms = 1000000;
    with.address = "10.0.0.7:4711";
    assert_int_equal(session_open(b->all, &with, &ears, &b->owner, &s, NULL), 0);
    *ret_stream = last(b)->stream;
    struct live_report r = report(*ret_stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    return s;
}

static inline void alarm_report(struct bench *b, struct live_stream *stream, bool on, int64_t sample, enum journal_off off) {
    static int64_t seq;
    struct live_report r = report(stream, LIVE_ALARM);
    r.on = on;
    r.first = sample;
    r.seq = seq++;
    r.off = off;
    r.wall_ms = 5;
    r.boot_ms = 6;
    sessions_report(b->all, &r);
}

static inline const struct journal_entry *newest(enum journal_kind kind) {
    for (int i = n_entries - 1; i >= 0; i--)
        if (entries[i].kind == kind)
            return &entries[i];
    fail_msg("no entry of the kind %s", journal_kind_name(kind));
    return NULL;
}

static inline int count_entries(enum journal_kind kind) {
    int n = 0;
    for (int i = 0; i < n_entries; i++)
        n += entries[i].kind == kind;
    return n;
}
