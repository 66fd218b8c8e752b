/* The recent past of streams: points of each second, alarms, what stays of a stream that has ended. Time is the test's. */

#include "base/base.h"
#include "daemon/status/beds.h"
#include "daemon/status/gather_parts.h"
#include "unit/session_fixture.h"

static int64_t now_ms = 1800000000000, set_ms; /* set: the wall clock was set by so much */
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_wall_ms(void);
int64_t __wrap_clock_ms(void) { return now_ms; }
int64_t __wrap_clock_wall_ms(void) { return now_ms + set_ms; }

static void free_ward(struct gather *g) {
    map_free(g->places, NULL);
    desk_free(g->source.desk);
}

/* Values of the alarm trace. */
static void provisional(struct bench *b, struct live_stream *stream, float p, float q) {
    float values[2] = {p, q};
    struct live_report r = report(stream, LIVE_PROVISIONAL);
    r.samples = 2;
    r.p = values;
    r.probability = q;
    sessions_report(b->all, &r);
}

static void second(struct bench *b, struct beds *beds) {
    now_ms += 1000;
    beds_tick(beds);
    sessions_visit(b->all, beds_look, beds);
}

static float newest(const struct bed *bed) { return bed->minute[(bed->at + STATUS_MINUTE - 1) % STATUS_MINUTE]; }

static void each_second_keeps_its_highest_value(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    struct beds *beds = beds_new(b->all);
    second(b, beds);
    const struct bed *bed = beds_find(beds, session_id(s));
    assert_non_null(bed);
    assert_true(isnan(newest(bed)));
    assert_int_equal(push(s, 0, RATE), 0);
    provisional(b, stream, 0.9f, 0.2f);
    second(b, beds);
    assert_float_equal(newest(bed), 0.9f, 0);
    assert_int_equal(bed->seen_ms, now_ms);
    assert_int_equal(push(s, RATE, RATE), 0);
    second(b, beds); /* no new value yet: the last one holds */
    assert_float_equal(newest(bed), 0.2f, 0);
    for (int i = 0; i < BEDS_HOLD_MS / 1000 + 1; i++) /* no samples come */
        second(b, beds);
    assert_true(isnan(newest(bed)));
    float points[PAST_POINTS];
    past_copy(bed->trace, now_ms, points);
    assert_float_equal(fmaxf(points[PAST_POINTS - 2], points[PAST_POINTS - 3]), 0.9f, 0);
    session_close(s, "done");
    closed(b, stream);
    beds_free(beds);
}

static void an_alarm_is_news_once_and_has_its_time(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    struct beds *beds = beds_new(b->all);
    second(b, beds);
    assert_false(beds_changed(beds));
    struct live_report r = report(stream, LIVE_ALARM);
    r.on = true;
    now_ms += 300;
    const int64_t at = now_ms;
    sessions_report(b->all, &r);
    assert_true(beds_changed(beds));
    assert_false(beds_changed(beds));
    r.on = false;
    now_ms += 5000;
    sessions_report(b->all, &r);
    assert_true(beds_changed(beds));
    assert_int_equal(beds_find(beds, session_id(s))->alarm_ms, at); /* of the newest that went on */
    session_close(s, "done");
    closed(b, stream);
    beds_free(beds);
}

/* The only stream, as the pages show it. */
static struct status_stream shown(struct bench *b, struct beds *beds) {
    struct gather g = {.source = {.sessions = b->all}, .beds = beds};
    struct status *status = status_new(NULL);
    status->taken_ms = now_ms + set_ms;
    assert_false(gather_streams(&g, status));
    assert_int_equal(status->n_streams, 1);
    struct status_stream s = status->streams[0]; /* its texts go with the status */
    status_drop(status);
    return s;
}

static void a_silent_stream_has_no_signal_though_the_clock_is_set_back(void **state) {
    static struct live_open open;
    const struct session_request bedside = {.open = &open, .client = "bed 7", .principal = "uid:1"};
    struct bench *b = *state;
    struct live_stream *stream;
    open = own_open;
    open.realtime = true;
    struct session *s = open_as(b, &bedside, &stream);
    struct beds *beds = beds_new(b->all);
    float points[PAST_POINTS];
    second(b, beds);
    assert_int_equal(push(s, 0, RATE), 0);
    second(b, beds);
    assert_int_equal(shown(b, beds).mood, STATUS_FINE);
    set_ms = -3600 * 1000;
    provisional(b, stream, 0.9f, 0.9f);
    second(b, beds);
    past_copy(beds_find(beds, session_id(s))->trace, now_ms + set_ms, points);
    assert_float_equal(fmaxf(points[PAST_POINTS - 1], points[PAST_POINTS - 2]), 0.9f, 0);
    for (int i = 0; i < 10; i++)
        second(b, beds);
    struct status_stream now = shown(b, beds);
    assert_int_equal(now.mood, STATUS_LOST);
    assert_int_equal(now.bed.seen_ms, now_ms + set_ms - 11000);
    set_ms = 3600 * 1000;
    assert_int_equal(push(s, RATE, RATE), 0);
    second(b, beds);
    assert_int_equal(shown(b, beds).mood, STATUS_LATE); /* there are samples again, which the worker has not taken */
    session_close(s, "done");
    closed(b, stream);
    set_ms = -3600 * 1000;
    now = shown(b, beds);
    assert_int_equal(now.mood, STATUS_ENDED);
    assert_int_equal(now.bed.ended_ms, now_ms + set_ms);
    now_ms += BEDS_ENDED_MS;
    second(b, beds);
    assert_null(beds_ended(beds));
    set_ms = 0;
    beds_free(beds);
}

static const struct alarm *wrong_clock(struct desk *desk) {
    struct alarms_cursor cursor = {0};
    const struct alarm *a = alarms_next(desk_alarms(desk), &cursor);
    assert_true(!a || a->kind == ALARM_CLOCK);
    return a;
}

static struct status_stream tile(const char *id, const char *client, const char *principal) {
    return (struct status_stream){.bed.session_id = (char *)(uintptr_t)id,
                                  .bed.name = (char *)(uintptr_t)client,
                                  .bed.principal = (char *)(uintptr_t)principal,
                                  .bed.model = "",
                                  .bed.quality = "",
                                  .place = INT_MAX,
                                  .bed.live = true,
                                  .realtime = true,
                                  .loaded = true,
                                  .ahead_s = NAN,
                                  .bed.connected = true,
                                  .bed.opened_ms = 1000};
}

/* So many seconds, in which the stream's samples are stamped so long after they come. */
static void look(struct gather *g, double ahead_s, int seconds, int64_t wall_shift_ms) {
    static struct alarms_now now = {.boot_ms = 5000000, .wall_ms = 1800000000000};
    struct status_stream s = tile("id", "bed 7", "p");
    s.ahead_s = ahead_s;
    struct status from = {.streams = &s, .n_streams = 1};
    now.wall_ms += wall_shift_ms;
    for (int i = 0; i < seconds; i++) {
        now.boot_ms += 1000;
        now.wall_ms += 1000;
        gather_causes(g, &from, &now);
    }
}

/* The only open technical alarm after a minute of this status, or NULL. */
static const struct alarm *after_a_minute(struct gather *g, const struct status *from) {
    static struct alarms_now now = {.boot_ms = 9000000, .wall_ms = 1800000000000};
    struct alarms_cursor cursor = {0};
    for (int i = 0; i < 60; i++) {
        now.boot_ms += 1000;
        now.wall_ms += 1000;
        gather_causes(g, from, &now);
    }
    return alarms_next(desk_alarms(g->source.desk), &cursor);
}

/* A cable is out: first nothing comes, then the connection ends. It is one cause, and is over when samples come again. */
static void a_cable_that_is_out_is_one_alarm(void **state) {
    struct status_stream s = tile("id", "bed 7", "p");
    const struct status from = {.streams = &s, .n_streams = 1};
    struct gather g = {0};
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){0}, &g.source.desk, NULL), 0);
    s.silent = true;
    const struct alarm *a = after_a_minute(&g, &from);
    assert_int_equal(a->kind, ALARM_NO_SIGNAL);
    s.bed.connected = false;
    assert_ptr_equal(after_a_minute(&g, &from), a);
    assert_int_equal(a->kind, ALARM_NO_SIGNAL);
    s.bed.connected = true;
    s.silent = false;
    assert_null(after_a_minute(&g, &from));
    s.bed.connected = false; /* a client that is killed has not been silent before */
    assert_int_equal(after_a_minute(&g, &from)->kind, ALARM_LOST);
    desk_free(g.source.desk);
}

static int anybody(void *ctx, const char *principal, const char *bed, struct err *err) {
    return (void)ctx, (void)principal, (void)bed, (void)err, 0;
}

static void a_replay_under_the_name_of_a_bed_is_not_the_bed(void **state) {
    (void)state;
    static const char *const roster[] = {"bed 7"};
    static const struct metric_family of_beds[] = {GAUGE("brrd_alarms_waiting", "Waiting.", "kind"),
                                                   GAUGE("brrd_beds_without_stream", "Without.", "")};
    struct metrics *metrics = metrics_new(of_beds, 2, ALARM_KINDS);
    bool seen = false;
    struct gather g = {.seen = &seen, .places = map_new(1)};
    struct status *s = status_new(NULL);
    assert_int_equal(map_put(g.places, roster[0], (void *)(intptr_t)1, NULL), 0);
    const struct desk_config config = {.plan = {.roster = roster, .n_roster = 1}};
    assert_int_equal(desk_new(&config, &g.source.desk, NULL), 0);
    g.source.beds = roster;
    g.source.n_beds = 1;
    g.source.metrics = metrics;
    const struct metric *without = metrics_series(metrics, "brrd_beds_without_stream", "");
    s->streams = arena_alloc(&s->arena, 2 * sizeof *s->streams);
    s->room_streams = 2;
    struct status_stream *own = &s->streams[s->n_streams++];
    *own = tile("1", "bed 7", "p");
    own->place = 0;
    gather_roster(&g, s);
    assert_true(s->n_streams == 1 && !after_a_minute(&g, s));
    assert_true(metric_value(without) == 0);
    own->bed.session_id = "2";
    own->bed.live = false; /* the recorder is gone, and somebody plays its recording again */
    gather_roster(&g, s);
    assert_true(s->n_streams == 2 && s->streams[1].mood == STATUS_ABSENT);
    const struct alarm *lost = after_a_minute(&g, s);
    assert_non_null(lost);
    assert_int_equal(lost->kind, ALARM_LOST);
    assert_string_equal(lost->bed, "bed 7");
    assert_true(metric_value(without) == 1);
    seen = false; /* the daemon was started again, with the alarm of its journal */
    assert_ptr_equal(after_a_minute(&g, s), lost);
    struct desk_order standby = {
        .kind = DESK_STANDBY, .bed = "bed 7", .until_ms = desk_now().wall_ms + 3600 * 1000, .permit = anybody};
    assert_int_equal(desk_do(g.source.desk, &standby, NULL), 0);
    gather_causes(&g, s, &(struct alarms_now){desk_now().boot_ms, desk_now().wall_ms});
    assert_true(metric_value(without) == 0);
    metrics_free(metrics);
    status_drop(s);
    free_ward(&g);
}

static void a_replay_in_real_time_has_no_technical_alarm(void **state) {
    static struct live_open open;
    const struct session_request drill = {.open = &open, .client = "bed 7", .principal = "uid:1"};
    struct bench *b = *state;
    struct live_stream *stream;
    struct gather g = {0};
    struct alarms_cursor cursor = {0};
    struct alarms_now now = {.boot_ms = 5000000, .wall_ms = 1800000000000};
    assert_int_equal(desk_new(&(struct desk_config){0}, &g.source.desk, NULL), 0);
    open = own_open;
    open.realtime = open.replay = true;
    struct session *s = open_as(b, &drill, &stream);
    struct beds *beds = beds_new(b->all);
    for (int i = 0; i < 60; i++) { /* no samples come */
        second(b, beds);
        now.boot_ms += 1000;
        now.wall_ms += 1000;
        struct status_stream seen = shown(b, beds);
        seen.bed.session_id = "id"; /* its texts are gone */
        seen.bed.name = seen.bed.principal = seen.bed.model = seen.bed.quality = "";
        seen.n_channels = 0;
        seen.place = INT_MAX;
        assert_true(seen.realtime && !seen.bed.live);
        gather_causes(&g, &(struct status){.streams = &seen, .n_streams = 1}, &now);
    }
    assert_null(alarms_next(desk_alarms(g.source.desk), &cursor));
    session_close(s, "done");
    closed(b, stream);
    beds_free(beds);
    desk_free(g.source.desk);
}

static void minutes_of_learning_are_a_technical_alarm(void **state) {
    struct status_stream s = tile("id", "bed 7", "p");
    const struct status from = {.streams = &s, .n_streams = 1};
    struct gather g = {0};
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){0}, &g.source.desk, NULL), 0);
    s.bed.learning_s = 60; /* what comes is flat */
    assert_true(!after_a_minute(&g, &from) && !after_a_minute(&g, &from));
    after_a_minute(&g, &from);
    const struct alarm *learning = after_a_minute(&g, &from);
    assert_true(learning && learning->kind == ALARM_LEARNING);
    const int64_t on_ms = learning->on_ms;
    s.silent = true; /* nobody knows more of the model by that */
    after_a_minute(&g, &from);
    s.silent = false;
    assert_true((learning = after_a_minute(&g, &from)) && learning->kind == ALARM_LEARNING && learning->on_ms == on_ms);
    s.bed.learning_s = 0;
    assert_null(after_a_minute(&g, &from));
    s.bed.learning_s = 30;
    s.learned_before_ms = 150 * 1000; /* before the daemon's restart */
    assert_non_null(after_a_minute(&g, &from));
    desk_free(g.source.desk);
}

static void channels_that_void_the_alarms_are_a_technical_alarm(void **state) {
    static const struct { int used, enough; } montages[] = {{18, 4}, {19, 4}, {64, 4}, {8, 4}, {7, 4}, {6, 3}, {1, 1}};
    struct status_channel channels[80] = {{0}};
    struct status_stream s = tile("id", "bed 7", "p");
    const struct status from = {.streams = &s, .n_streams = 1};
    struct gather g = {0};
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){0}, &g.source.desk, NULL), 0);
    s.channels = channels;
    s.bed.quality = "F3 flat";
    for (size_t i = 0; i < sizeof montages / sizeof *montages; i++) {
        s.n_channels = montages[i].used + 2;
        for (int c = 0; c < s.n_channels; c++)
            channels[c].used = c < montages[i].used;
        s.n_flawed = montages[i].enough - 1;
        assert_null(after_a_minute(&g, &from));
        s.n_flawed++;
        const struct alarm *off = after_a_minute(&g, &from);
        assert_true(off && off->kind == ALARM_ELECTRODES);
        assert_string_equal(off->why, "F3 flat");
    }
    desk_free(g.source.desk);
}

static void a_clock_that_is_wrong_is_a_technical_alarm(void **state) {
    struct gather g = {0};
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){0}, &g.source.desk, NULL), 0);
    look(&g, NAN, 60, 0);
    look(&g, -200, 60, 0); /* what was kept during an outage */
    assert_null(wrong_clock(g.source.desk));
    look(&g, -3600, 32, 0);
    assert_string_equal(wrong_clock(g.source.desk)->why, "samples are stamped 60 min before they come");
    assert_string_equal(wrong_clock(g.source.desk)->bed, "bed 7");
    look(&g, 0, 60, 0);
    assert_null(wrong_clock(g.source.desk));
    look(&g, 0, 10, 5000); /* a small step */
    look(&g, 0, 20, -3600 * 1000);
    look(&g, 0, 60, 3600 * 1000); /* put right at once */
    assert_null(wrong_clock(g.source.desk));
    look(&g, 0, 32, -3600 * 1000);
    assert_string_equal(wrong_clock(g.source.desk)->why, "this machine's clock was set back by 3600 s");
    assert_string_equal(wrong_clock(g.source.desk)->bed, "");
    look(&g, 0, 11 * 60, 0);
    assert_null(wrong_clock(g.source.desk)); /* it is the clock now */
    desk_free(g.source.desk);
}

static void a_stream_that_ended_stays_until_its_client_is_back(void **state) {
    static const struct session_request named = {.open = &own_open, .client = "bed 7", .principal = "uid:1"};
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_as(b, &named, &stream);
    struct beds *beds = beds_new(b->all);
    second(b, beds);
    session_close(s, "client_gone");
    closed(b, stream);
    assert_true(beds_changed(beds));
    assert_non_null(beds_ended(beds));
    assert_string_equal(beds_ended(beds)->client, "bed 7");
    s = open_as(b, &named, &stream);
    second(b, beds);
    assert_null(beds_ended(beds));
    session_close(s, "client_gone");
    closed(b, stream);
    now_ms += BEDS_ENDED_MS;
    second(b, beds);
    assert_null(beds_ended(beds)); /* or for ten minutes */
    beds_free(beds);
}

static void ended_streams_are_bounded(void **state) {
    struct bench *b = *state;
    struct beds *beds = beds_new(b->all);
    char name[16];
    for (int i = 0; i < BEDS_ENDED + 10; i++) {
        struct live_stream *stream;
        str_format(name, sizeof name, "bed %d", i);
        const struct session_request named = {.open = &own_open, .client = name, .principal = i ? "uid:1" : "uid:2"};
        struct session *s = open_as(b, &named, &stream);
        second(b, beds);
        session_close(s, "client_gone");
        closed(b, stream);
    }
    int n = 0;
    const struct bed *oldest = NULL;
    for (const struct bed *bed = beds_ended(beds); bed; bed = bed->next, n++)
        oldest = bed;
    assert_int_equal(n, BEDS_ENDED);
    assert_string_equal(oldest->client, "bed 0");        /* another client's, whose place the many do not take */
    assert_string_equal(beds_ended(beds)->client, name); /* the newest first */
    beds_free(beds);
}

/* ---- a bed has one tile ---- */

static struct status *status_of(const struct status_stream *list, int n) {
    struct status *s = status_new(NULL);
    s->room_streams = n + 8;
    s->streams = arena_alloc(&s->arena, (size_t)s->room_streams * sizeof *s->streams);
    for (int i = 0; i < n; i++)
        s->streams[s->n_streams++] = list[i];
    return s;
}

static struct status *folded(const struct status_stream *list, int n) {
    struct status *s = status_of(list, n);
    gather_fold(s);
    return s;
}

static void a_bed_has_one_tile_while_one_stream_of_it_is_heard(void **state) {
    (void)state;
    struct status_stream list[5] = {tile("old", "bed-1", "token:a"), tile("new", "bed-1", "token:a"),
                                    tile("ended", "bed-1", "token:a"), tile("x", "brrctl", "token:a"),
                                    tile("y", "brrctl", "token:a")};
    list[0].bed.connected = false; /* its client was restarted */
    list[2].bed.ended_ms = 5;
    list[2].bed.live = false;
    list[3].bed.connected = false; /* a program's own name is no bed */
    struct status *s = folded(list, 5);
    assert_true(s->n_streams == 3 && s->n_folded == 2);
    for (int i = 0; i < 3; i++)
        assert_true(strcmp(s->streams[i].bed.session_id, "old") != 0 && strcmp(s->streams[i].bed.session_id, "ended") != 0 &&
                    !s->streams[i].twice);
    status_drop(s);
    list[0].bed.connected = true; /* two that send are two tiles, which is said */
    s = folded(list, 2);
    assert_true(s->n_streams == 2 && s->streams[0].twice && s->streams[1].twice);
    status_drop(s);
    struct status_stream files[3] = {tile("d", "brrctl detect", "token:a"), tile("v", "brrctl view", "token:a"),
                                     tile("l", "brrctl view", "token:a")};
    files[0].bed.live = files[1].bed.live = false; /* recordings that are read for a person; the third is a bed with an odd name */
    s = folded(files, 3);
    assert_true(s->n_streams == 1 && s->n_folded == 2 && !strcmp(s->streams[0].bed.session_id, "l"));
    status_drop(s);
    list[1].bed.principal = "token:b"; /* another caller's bed of that name is another bed */
    list[0].bed.connected = false;
    s = folded(list, 2);
    assert_true(s->n_streams == 2 && !s->streams[0].twice);
    status_drop(s);
    list[0].place = list[1].place = 0; /* but the roster has it once */
    s = folded(list, 2);
    assert_true(s->n_streams == 1 && !strcmp(s->streams[0].bed.session_id, "new"));
    status_drop(s);
    list[0].followed = true; /* by one of which nothing is known after a restart: this one is not lost */
    s = folded(list, 1);
    assert_true(!s->n_streams && s->n_folded == 1);
    status_drop(s);
}

static void a_stream_that_moved_to_another_daemon_is_not_lost(void **state) {
    (void)state;
    static const char *const roster[] = {"bed 7"};
    bool seen = true;
    struct status_stream moved = tile("m", "bed 7", "token:a");
    struct gather g = {.seen = &seen, .source = {.beds = roster, .n_beds = 1}};
    const struct desk_config config = {.plan = {.roster = roster, .n_roster = 1}};
    assert_int_equal(desk_new(&config, &g.source.desk, NULL), 0);
    struct status s = {.streams = &moved, .n_streams = 1};
    moved.place = 0;
    moved.bed.ended_ms = 5;
    moved.moved = true;
    assert_null(after_a_minute(&g, &s));
    moved.moved = false;
    assert_null(after_a_minute(&g, &s)); /* this daemon has not had the bed again */
    seen = true;
    const struct alarm *lost = after_a_minute(&g, &s);
    assert_true(lost && lost->kind == ALARM_LOST);
    desk_free(g.source.desk);
}

/* Of "token:a" alone has a token the name bed-1; no token has bed-2. */
static int tokens_have(void *ctx, const char *principal, const char *bed) {
    (void)ctx;
    return strcmp(bed, "bed-1") != 0 ? -1 : !strcmp(principal, "token:a");
}

/* The status of these streams, as a second makes it. */
static struct status *ward_of(struct gather *g, const struct status_stream *list, int n) {
    struct status *s = status_of(list, n);
    gather_alarms(g, s);
    for (int i = 0; i < n; i++)
        gather_alarm_of_stream(g, &s->streams[i]);
    gather_fold(s);
    gather_roster(g, s);
    map_free(g->open, NULL);
    g->open = NULL;
    return s;
}

static const struct status_stream *tile_of(const struct status *s, const char *bed, const char *principal) {
    for (int i = 0; i < s->n_streams; i++)
        if (!strcmp(s->streams[i].bed.name, bed) && !strcmp(s->streams[i].bed.principal, principal))
            return &s->streams[i];
    return NULL;
}

static void another_callers_stream_with_the_name_of_a_bed_is_not_the_bed(void **state) {
    (void)state;
    static const char *const roster[] = {"bed-1", "bed-2"};
    static const struct metric_family of_beds[] = {GAUGE("brrd_alarms_waiting", "Waiting.", "kind"),
                                                   GAUGE("brrd_beds_without_stream", "Without.", "")};
    const struct desk_config config = {.plan = {.roster = roster, .n_roster = 2, .named = tokens_have, .hold_ms = 120 * 1000}};
    struct metrics *metrics = metrics_new(of_beds, 2, ALARM_KINDS);
    bool seen[2] = {false};
    struct gather g = {.seen = seen, .places = map_new(2), .source = {.beds = roster, .n_beds = 2, .metrics = metrics}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(map_put(g.places, roster[i], (void *)(intptr_t)(i + 1), NULL), 0);
    assert_int_equal(desk_new(&config, &g.source.desk, NULL), 0);
    struct status_stream list[4] = {tile("e1", "bed-1", "token:evil"), tile("a1", "bed-1", "token:a"),
                                    tile("b2", "bed-2", "token:b"), tile("e2", "bed-2", "token:evil")};
    struct status *s = ward_of(&g, list, 4);
    assert_int_equal(s->n_streams, 4);
    for (int i = 0; i < 4; i++) {
        const bool evil = !strcmp(s->streams[i].bed.principal, "token:evil");
        assert_true(evil == (s->streams[i].place == INT_MAX) && evil == !s->streams[i].bed.in_roster && !s->streams[i].twice);
    }
    assert_null(after_a_minute(&g, s));
    status_drop(s);
    const struct alarms_now now = desk_now();
    const struct alarms_start start = {
        .id = "of-b2", .session = "b2", .bed = "bed-2", .principal = "token:b", .model = "", .live = true, .on_ms = now.wall_ms};
    assert_non_null(alarms_began(desk_alarms(g.source.desk), &start, &now));
    s = ward_of(&g, list, 4);
    assert_non_null(tile_of(s, "bed-2", "token:b")->alarm);
    assert_null(tile_of(s, "bed-2", "token:evil")->alarm); /* it is of the other's patient */
    status_drop(s);
    struct desk_order standby = {.kind = DESK_STANDBY, .bed = "bed-2", .until_ms = now.wall_ms + 3600 * 1000, .permit = anybody};
    assert_int_equal(desk_do(g.source.desk, &standby, NULL), 0);
    s = ward_of(&g, list, 4);
    assert_true(tile_of(s, "bed-2", "token:b")->bed.standby_until_ms && !tile_of(s, "bed-2", "token:evil")->bed.standby_until_ms);
    status_drop(s);
    standby.until_ms = 0;
    assert_int_equal(desk_do(g.source.desk, &standby, NULL), 0);
    alarms_ended(desk_alarms(g.source.desk),
                 &(struct alarms_end){.id = "of-b2", .session = "b2", .why = "ended", .off_ms = now.wall_ms}, &now);
    list[1] = list[3]; /* the clients of both beds end; the other caller's streams stay */
    s = ward_of(&g, list, 2);
    assert_int_equal(s->n_streams, 4); /* bed-2 has the alarm that nobody answered */
    assert_non_null(tile_of(s, "bed-2", "token:b")->alarm);
    assert_int_equal(tile_of(s, "bed-1", "")->mood, STATUS_ABSENT);
    const struct alarm *lost = after_a_minute(&g, s);
    struct alarms_cursor cursor = {0};
    int n = 0;
    for (const struct alarm *a; (a = alarms_next(desk_alarms(g.source.desk), &cursor));)
        n += a->kind == ALARM_LOST;
    assert_true(lost && n == 2);
    assert_true(metric_value(metrics_series(metrics, "brrd_beds_without_stream", "")) == 2);
    status_drop(s);
    metrics_free(metrics);
    free_ward(&g);
}

/* The status of the sessions, as a second makes it. */
static struct status *ward_now(struct gather *g) {
    struct status *s = status_new(NULL);
    s->taken_ms = now_ms + set_ms;
    gather_alarms(g, s);
    assert_false(gather_streams(g, s));
    gather_fold(s);
    gather_roster(g, s);
    map_free(g->open, NULL);
    g->open = NULL;
    return s;
}

static int both_are_named(void *ctx, const char *principal, const char *bed) { return (void)ctx, (void)principal, (void)bed, 1; }

/* The tokens of two callers name one bed, or a caller opens it twice, and both streams send: neither has the alarm of the other,
 * until nothing is heard of the other. */
static void two_streams_of_a_bed_that_are_heard_have_their_own_alarms(void **state) {
    static const char *const roster[] = {"bed 7"}, *const callers[][2] = {{"token:a", "token:b"}, {"token:a", "token:a"}};
    static struct live_open open;
    struct bench *b = *state;
    open = own_open;
    open.realtime = true;
    for (int i = 0; i < 4; i++) {
        const int n = i & 1;
        const char *const *by = callers[n ? i >> 1 : 1];
        const struct desk_config config = {.plan = {.roster = roster, .n_roster = n, .named = both_are_named}};
        struct gather g = {
            .beds = beds_new(b->all), .places = map_new(1), .source = {.sessions = b->all, .beds = roster, .n_beds = n}};
        struct live_stream *streams[2];
        struct session *s[2];
        assert_int_equal(n ? map_put(g.places, roster[0], (void *)(intptr_t)1, NULL) : 0, 0);
        assert_int_equal(desk_new(&config, &g.source.desk, NULL), 0);
        for (int k = 0; k < 2; k++) {
            const struct session_request named = {.open = &open, .client = "bed 7", .principal = by[k]};
            s[k] = open_as(b, &named, &streams[k]);
        }
        second(b, g.beds);
        status_drop(ward_now(&g));
        const struct alarms_now now = desk_now();
        char session[64]; /* the stream ends before its alarm does */
        str_copy(session, sizeof session, session_id(s[0]));
        const struct alarms_start start = {
            .id = "of-0", .session = session, .bed = "bed 7", .principal = by[0], .model = "", .live = true, .on_ms = now.wall_ms};
        assert_non_null(alarms_began(desk_alarms(g.source.desk), &start, &now));
        struct status *seen = ward_now(&g);
        assert_int_equal(seen->n_streams, 2);
        for (int k = 0; k < 2; k++) {
            const bool own = !strcmp(seen->streams[k].bed.session_id, start.session);
            assert_true(seen->streams[k].twice && own == (seen->streams[k].alarm != NULL) &&
                        own == (seen->streams[k].mood == STATUS_ALARM));
        }
        status_drop(seen);
        session_close(s[0], "client_gone");
        closed(b, streams[0]);
        alarms_ended(desk_alarms(g.source.desk),
                     &(struct alarms_end){.id = "of-0", .session = start.session, .why = "closed", .off_ms = now.wall_ms}, &now);
        seen = ward_now(&g);
        assert_true(seen->n_streams == 1 && seen->streams[0].alarm);
        status_drop(seen);
        session_close(s[1], "client_gone");
        closed(b, streams[1]);
        beds_free(g.beds);
        free_ward(&g);
    }
}

/* Nobody has answered it; meanwhile a stream without an alarm, or a replay, had the name of its bed, and has ended too; a test is
 * newer. */
static void an_alarm_keeps_its_tile_when_a_newer_stream_of_its_bed_ends(void **state) {
    static const char *const roster[] = {"bed 7"};
    static struct live_open open;
    const struct session_request named = {.open = &open, .client = "bed 7", .principal = "uid:1"};
    struct bench *b = *state;
    for (int i = 0; i < 8; i++) { /* a bed of the roster or not; a live stream or a replay; with a newer alarm or not */
        const int n = i & 1;
        const struct desk_config config = {.plan = {.roster = roster, .n_roster = n}};
        struct gather g = {
            .beds = beds_new(b->all), .places = map_new(1), .source = {.sessions = b->all, .beds = roster, .n_beds = n}};
        struct live_stream *stream;
        assert_int_equal(n ? map_put(g.places, roster[0], (void *)(intptr_t)1, NULL) : 0, 0);
        assert_int_equal(desk_new(&config, &g.source.desk, NULL), 0);
        const struct alarms_now now = desk_now();
        const struct alarms_start start = {
            .id = "of-1", .session = "1", .bed = "bed 7", .principal = "uid:1", .model = "", .live = true, .on_ms = now.wall_ms};
        assert_non_null(alarms_began(desk_alarms(g.source.desk), &start, &now));
        alarms_ended(desk_alarms(g.source.desk),
                     &(struct alarms_end){.id = "of-1", .session = "1", .why = "expired", .off_ms = now.wall_ms}, &now);
        open = own_open;
        open.realtime = true;
        open.replay = i & 2;
        struct session *s = open_as(b, &named, &stream);
        second(b, g.beds);
        status_drop(ward_now(&g));
        assert_int_equal(beds_find(g.beds, session_id(s))->held, n && !open.replay);
        struct alarms_start newer = start;
        newer.id = "of-2", newer.session = open.replay ? session_id(s) : "test1-1", newer.live = newer.test = !open.replay;
        newer.on_ms += 1000;
        assert_true(i < 4 || alarms_began(desk_alarms(g.source.desk), &newer, &now));
        session_close(s, "client_gone");
        closed(b, stream);
        second(b, g.beds);
        struct status *seen = ward_now(&g);
        int shown_on = 0;
        for (int k = 0; k < seen->n_streams; k++) {
            const struct status_stream *t = &seen->streams[k];
            shown_on += t->alarm && t->mood == STATUS_WAS && !strcmp(t->alarm->id, "of-1");
            assert_true(t->alarm || (open.replay && t->mood == STATUS_ENDED));
        }
        assert_true(shown_on == 1 && seen->n_streams == (open.replay ? 2 : 1));
        status_drop(seen);
        beds_free(g.beds);
        free_ward(&g);
    }
}

static void a_rate_that_is_not_measured_yet_is_not_over(void **state) {
    struct status_stream s = tile("id", "bed 7", "p");
    const struct status from = {.streams = &s, .n_streams = 1};
    struct gather g = {0};
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){0}, &g.source.desk, NULL), 0);
    s.rate_hz = 256;
    for (int i = 0; i < 3; i++) { /* wrong; the daemon has started again; wrong still */
        s.measured_hz = (s.rate_known = i != 1) ? 250 : 0;
        const struct alarm *a = after_a_minute(&g, &from);
        assert_true(a && a->kind == ALARM_RATE && !strcmp(a->why, "250.0 Hz instead of 256") && after_a_minute(&g, &from) == a);
    }
    s.measured_hz = 0;
    assert_null(after_a_minute(&g, &from));
    desk_free(g.source.desk);
}

static int named_now; /* of which caller a token has the name */
static int tokens_have_now(void *ctx, const char *principal, const char *bed) {
    static const char *const callers[] = {"token:a", "token:b"};
    return (void)ctx, (void)bed, !strcmp(principal, callers[named_now]);
}

static int lost_of(const struct gather *g) {
    struct alarms_cursor cursor = {0};
    int n = 0;
    for (const struct alarm *a; (a = alarms_next(desk_alarms(g->source.desk), &cursor));)
        n += a->kind == ALARM_LOST;
    return n;
}

/* The token of a bed is revoked, which ends its connection, and another one has its name; what is left of the first stream is
 * neither lost nor another bed, and its open alarm is on the tile of the next. */
static void a_bed_that_is_handed_over_is_not_lost(void **state) {
    (void)state;
    static const char *const roster[] = {"bed-1"};
    const struct desk_config config = {.plan = {.roster = roster, .n_roster = 1, .named = tokens_have_now, .hold_ms = 120 * 1000}};
    bool seen = false;
    struct gather g = {.seen = &seen, .places = map_new(1), .source = {.beds = roster, .n_beds = 1}};
    struct status_stream list[2] = {tile("a", "bed-1", "token:a"), tile("b", "bed-1", "token:b")};
    assert_int_equal(map_put(g.places, roster[0], (void *)(intptr_t)1, NULL), 0);
    assert_int_equal(desk_new(&config, &g.source.desk, NULL), 0);
    named_now = 0;
    status_drop(ward_of(&g, list, 1));
    const struct alarms_now now = desk_now();
    const struct alarms_start start = {
        .id = "of-a", .session = "a", .bed = "bed-1", .principal = "token:a", .model = "", .live = true, .on_ms = now.wall_ms};
    assert_non_null(alarms_began(desk_alarms(g.source.desk), &start, &now));
    named_now = 1; /* the other one does not stream yet */
    list[0].bed.connected = false;
    list[0].held = true;
    struct status *s = ward_of(&g, list, 1);
    assert_true(s->n_streams == 1 && s->streams[0].place == 0 && s->streams[0].alarm);
    assert_non_null(after_a_minute(&g, s));
    assert_int_equal(lost_of(&g), 1);
    status_drop(s);
    for (int over = 0; over < 2; over++) {
        list[0].bed.ended_ms = over * 5;
        status_drop(ward_of(&g, list, 2)); /* the second one holds the bed from now on */
        s = ward_of(&g, list, 2);
        (void)after_a_minute(&g, s);
        assert_int_equal(lost_of(&g), 0);
        status_drop(s);
        s = ward_of(&g, list, 2);
        assert_int_equal(s->n_streams, 1);
        assert_string_equal(s->streams[0].bed.session_id, "b");
        assert_string_equal(s->streams[0].alarm->id, "of-a");
        status_drop(s);
    }
    struct alarms *all = desk_alarms(g.source.desk);
    list[0].place = 0;
    for (int i = 0; i < 3; i++) {
        struct alarm of = {.bed = "bed-1", .kind = ALARM_NO_SIGNAL};
        str_copy(of.principal, sizeof of.principal, (const char *[]){"token:a", "token:b", "token:c"}[i]);
        assert_int_equal(gather_is_of_tile(all, &of, &list[0]), i < 2);
    }
    list[0].bed.ended_ms = 0;
    list[0].bed.connected = true; /* it still sends: that is another one's stream */
    s = ward_of(&g, list, 2);
    assert_true(s->n_streams == 2 && tile_of(s, "bed-1", "token:a")->place == INT_MAX);
    status_drop(s);
    struct alarms_start other = start;
    other.id = "of-b", other.session = "b", other.principal = "token:b";
    assert_non_null(alarms_began(all, &other, &now));
    list[0].bed.connected = false; /* the tile shows the alarm of the one that sends */
    s = ward_of(&g, list, 2);
    (void)after_a_minute(&g, s);
    assert_true(s->n_streams == 1 && alarms_find(all, "of-a")->blind && !alarms_find(all, "of-b")->blind);
    status_drop(s);
    free_ward(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bed_that_is_handed_over_is_not_lost),
        cmocka_unit_test(a_rate_that_is_not_measured_yet_is_not_over),
        cmocka_unit_test(a_bed_has_one_tile_while_one_stream_of_it_is_heard),
        cmocka_unit_test(another_callers_stream_with_the_name_of_a_bed_is_not_the_bed),
        cmocka_unit_test_setup_teardown(each_second_keeps_its_highest_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_is_news_once_and_has_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_stream_has_no_signal_though_the_clock_is_set_back, set_up, tear_down),
        cmocka_unit_test(a_cable_that_is_out_is_one_alarm),
        cmocka_unit_test(minutes_of_learning_are_a_technical_alarm),
        cmocka_unit_test(channels_that_void_the_alarms_are_a_technical_alarm),
        cmocka_unit_test(a_clock_that_is_wrong_is_a_technical_alarm),
        cmocka_unit_test_setup_teardown(a_replay_under_the_name_of_a_bed_is_not_the_bed, set_up, tear_down),
        cmocka_unit_test(a_stream_that_moved_to_another_daemon_is_not_lost),
        cmocka_unit_test_setup_teardown(a_replay_in_real_time_has_no_technical_alarm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_streams_of_a_bed_that_are_heard_have_their_own_alarms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_keeps_its_tile_when_a_newer_stream_of_its_bed_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_that_ended_stays_until_its_client_is_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ended_streams_are_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
