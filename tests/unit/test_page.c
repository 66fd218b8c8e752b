/* The web pages from a status that is made up: no name becomes markup, the order, the moods, what an event says. */

#include <malloc.h>

#include "daemon/http/event_cache.h"
#include "daemon/journal/journaldb.h"
#include "daemon/page/chart.h"
#include "daemon/page/tile.h"
#include "daemon/page/words.h"
#include "unit/page_fixture.h"
#include "unit/temp_dir.h"

#define HOSTILE_CARD "{\"job\":\"<script>alert(1)</script>\",\"date\":\"' onload='x\",\"version\":\"&\",\"source\":\"<b>\"}"

/* Everything between the first < of a hostile name and its end is gone as markup. */
static void assert_harmless(const struct html *h) {
    const char *page = str_cstr(&h->out);
    assert_true(str_ok(&h->out));
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "onload='"));
    assert_null(strstr(page, "\x01"));
    assert_null(strstr(page, "\xff"));
    assert_null(strstr(page, "\xe2\x80\xae"));
    for (const char *p = page; *p; p += str_utf8_step(p))
        assert_true(str_utf8_step(p) > 0);
}

static void every_text_is_escaped(void **state) {
    (void)state;
    struct html h;
    h = html_of();
    html_put(&h, "<p title=\"%s\">%s %d %lld %zu %.2f %%</p>", HOSTILE, "a&b", -3, 1LL << 40, (size_t)7, 0.5);
    assert_string_equal(str_cstr(&h.out), "<p title=\"&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&#39;x&#39; &amp; "
                                          "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\">a&amp;b -3 "
                                          "1099511627776 7 0.50 %</p>");
    html_done(&h);
    h = html_of();
    html_put_url(&h, "a b/\"<\xc3\xa9");
    assert_string_equal(str_cstr(&h.out), "a%20b%2F%22%3C%C3%A9");
    html_done(&h);
}

static void a_cut_character_at_the_end_is_replaced(void **state) {
    (void)state;
    struct html h;
    h = html_of();
    html_put_text(&h, "a\xc3\xa9", 2);
    assert_string_equal(str_cstr(&h.out), "a\xEF\xBF\xBD");
    html_done(&h);
}

static void hostile_names_are_no_markup_on_any_page(void **state) {
    (void)state;
    struct status *s = made(3);
    put_alarms(s, HOSTILE, 1);
    s->losses = (struct status_losses){.job = "train-1", .n = 3, .values = {1, 0.5f, NAN}};
    s->jobs[s->n_jobs++] = (struct status_job){.job = {.id = "train-1",
                                                       .name = HOSTILE,
                                                       .kind = "<b onload='",
                                                       .owner = HOSTILE,
                                                       .reason = HOSTILE,
                                                       .state = JOB_RUNNING,
                                                       .progress = {.phase = "<b onload='x'>",
                                                                    .metric_name = "<b onload='x'>",
                                                                    .steps = 10,
                                                                    .loss = 1,
                                                                    .validation_loss = NAN,
                                                                    .metric = 1,
                                                                    .eta_s = 5,
                                                                    .windows_per_s = NAN},
                                                       .result = "{\"event_f1\":0.5}",
                                                       .source = HOSTILE,
                                                       .fold = HOSTILE}};
    static struct live_opened opened = {.info.file = {.alarms = {.n = 1, .sets = {{.hours = 0.6, .seizures = 8, .patients = 1}}},
                                                      .montage = HOSTILE,
                                                      .labels = HOSTILE,
                                                      .init_from = HOSTILE,
                                                      .card = HOSTILE_CARD},
                                        .note = HOSTILE};
    s->models[s->n_models++] = (struct status_model){.served = {.name = HOSTILE,
                                                                .ref = HOSTILE,
                                                                .path = HOSTILE,
                                                                .sha256 = HOSTILE,
                                                                .opened = &opened,
                                                                .err = {.code = ERR_NOT_FOUND, .message = HOSTILE}},
                                                     .devices = HOSTILE};
    struct page_view v = all_of(s);
    v.answers = true;
    void (*const pages[])(struct html *, const struct page_view *) = {page_overview, page_streams, page_alarms, page_jobs,
                                                                      page_models};
    struct html h;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        h = html_of();
        pages[i](&h, &v);
        assert_harmless(&h);
        assert_int_equal(pages[i] == page_models, strstr(str_cstr(&h.out), "on the 0.6 h with 8 seizures of 1 patient on") != NULL);
        html_done(&h);
    }
    h = html_of();
    assert_true(page_stream(&h, &v, s->streams[0].bed.session_id));
    assert_harmless(&h);
    assert_non_null(strstr(str_cstr(&h.out), "The journal cannot be read now"));
    html_done(&h);
    h = html_of();
    assert_true(page_job(&h, &v, "train-1"));
    assert_harmless(&h);
    html_done(&h);
    h = html_of();
    page_login(&h, HOSTILE, HOSTILE);
    page_error(&h, &v, HOSTILE, HOSTILE);
    assert_harmless(&h);
    html_done(&h);
    status_drop(s);
}

/* The ids of the jobs on /jobs?sort=…, in their order, such as "acb". */
static const char *sorted_by(struct status *s, const char *sort, char ret[8]) {
    struct page_view v = all_of(s);
    struct html h;
    int n = 0;
    v.sort = sort;
    h = html_of();
    page_jobs(&h, &v);
    for (const char *p = str_cstr(&h.out); (p = strstr(p, "type=\"checkbox\" name=\"")); n++)
        ret[n] = *(p += strlen("type=\"checkbox\" name=\""));
    ret[n] = '\0';
    html_done(&h);
    return ret;
}

static void jobs_are_sorted_by_any_column_and_those_without_a_value_come_last(void **state) {
    (void)state;
    struct status *s = made(0);
    static const struct {
        const char *id, *fold, *result;
        int64_t finished_ms;
    } rows[] = {{"a", "10 of 12", "{\"event_f1\":0.5}", 3}, {"b", "", NULL, 1}, {"c", "2 of 12", "{\"event_f1\":0.9}", 2}};
    char order[8];
    s->jobs = arena_alloc(&s->arena, 3 * sizeof *s->jobs);
    for (int i = 0; i < 3; i++) {
        struct job *j = &s->jobs[s->n_jobs++].job;
        *j = (struct job){.kind = "train", .state = JOB_SUCCEEDED, .source = "file:///eeg", .finished_ms = rows[i].finished_ms};
        j->result = (char *)(uintptr_t)rows[i].result;
        str_copy(j->id, sizeof j->id, rows[i].id);
        str_copy(j->fold, sizeof j->fold, rows[i].fold);
    }
    assert_string_equal(sorted_by(s, NULL, order), "abc");
    assert_string_equal(sorted_by(s, "f1", order), "cab");
    assert_string_equal(sorted_by(s, "-f1", order), "acb");
    assert_string_equal(sorted_by(s, "fold", order), "cab");
    assert_string_equal(sorted_by(s, "-fold", order), "acb");
    assert_string_equal(sorted_by(s, "since", order), "acb");
    assert_string_equal(sorted_by(s, "-id", order), "cba");
    assert_string_equal(sorted_by(s, "fa", order), "abc");
    assert_string_equal(sorted_by(s, HOSTILE, order), "abc");
    status_drop(s);
}

static void an_alarm_keeps_its_place_among_two_hundred(void **state) {
    (void)state;
    struct status *s = made(200);
    const struct page_view v = all_of(s);
    struct html h;
    h = html_of();
    page_streams(&h, &v);
    const char *page = str_cstr(&h.out);
    assert_int_equal(count(page, "<li class=\"tile\""), 200);
    const char *alarm = strstr(strstr(page, "<ol"), "data-mood=\"alarm\"");
    assert_true(strstr(page, ">bed-99<") < alarm && alarm < strstr(page, ">bed-101<")); /* by the number in the name */
    assert_non_null(strstr(page, ">Alarm 0:45</p>"));
    assert_non_null(strstr(page, "(1) Streams"));
    assert_non_null(strstr(page, "tiles crowd"));
    html_done(&h);
    status_drop(s);
}

static void streams_beyond_the_tiles_are_counted(void **state) {
    (void)state;
    struct status *s = made(TILES_MOST + 76);
    const struct page_view v = all_of(s);
    struct html h;
    struct str event;
    h = html_of();
    page_streams(&h, &v);
    assert_int_equal(count(str_cstr(&h.out), "<li class=\"tile\""), TILES_MOST);
    assert_non_null(strstr(str_cstr(&h.out), "76 more streams are not shown; their alarms are."));
    html_done(&h);
    str_init(&event, 16 << 20);
    page_event(&event, NULL, &v, "/streams");
    assert_int_equal(count(str_cstr(&event), "\"state\":"), TILES_MOST);
    str_done(&event);
    status_drop(s);
}

static void no_stream_is_said_in_words(void **state) {
    (void)state;
    struct status *s = made(0);
    const struct page_view v = all_of(s);
    struct html h;
    h = html_of();
    page_streams(&h, &v);
    page_overview(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "No stream is open"));
    assert_null(strstr(str_cstr(&h.out), "<li class=\"tile\""));
    html_done(&h);
    status_drop(s);
}

static void a_reader_sees_the_streams_of_its_own_principal_only(void **state) {
    (void)state;
    struct status *s = made(10);
    struct page_view v = all_of(s);
    v.all = false;
    v.principal = "token:odd";
    s->streams[1].bed.name = "odd"; /* the token's own name */
    struct html h;
    h = html_of();
    page_streams(&h, &v);
    assert_int_equal(count(str_cstr(&h.out), "<li class=\"tile\""), 5);
    assert_int_equal(count(str_cstr(&h.out), "<h2 data-by=\"odd\">"), 4);
    html_done(&h);
    h = html_of();
    assert_false(page_stream(&h, &v, "00000000000000000000000000000002"));
    assert_int_equal(h.out.len, 0);
    html_done(&h);
    struct str event;
    str_init(&event, 1 << 20);
    page_event(&event, NULL, &v, "/streams");
    assert_null(strstr(str_cstr(&event), "00000000000000000000000000000002"));
    assert_non_null(strstr(str_cstr(&event), "00000000000000000000000000000003"));
    str_done(&event);
    status_drop(s);
}

/* The JSON of an event. */
static void an_event_says_what_has_changed_and_nothing_else(void **state) {
    (void)state;
    struct status *old = made(3), *now = made(3);
    struct page_view before = all_of(old), after = all_of(now);
    struct json *same = event_of(&before, &after, "/streams");
    assert_int_equal(json_count(json_get(json_get(same, "streams"), now->streams[0].bed.session_id)), 0);
    const char *order = json_str(json_get(same, "order"), "");
    struct json *first = event_of(NULL, &after, "/streams");
    assert_string_equal(json_str(json_get(first, "order"), ""), order);
    assert_string_equal(json_str(json_get(json_get(json_get(first, "streams"), now->streams[1].bed.session_id), "mood"), ""),
                        "Alarm 0:45");
    assert_int_equal(json_i64(json_get(first, "n_alarms"), 0), 1);
    json_free(first);
    now->streams[0].mood = STATUS_LOST;
    now->streams[0].bed.lag_s = 3;
    struct json *moved = event_of(&before, &after, "/streams");
    const struct json *fields = json_get(json_get(moved, "streams"), now->streams[0].bed.session_id);
    assert_string_equal(json_str(json_get(fields, "state"), ""), "lost");
    assert_string_equal(json_str(json_get(fields, "lag"), ""), "3.0 s");
    assert_null(json_get(fields, "p"));
    assert_string_not_equal(json_str(json_get(moved, "order"), ""), order);
    struct json *elsewhere = event_of(&before, &after, "/jobs");
    assert_null(json_get(elsewhere, "streams"));
    json_free(elsewhere);
    json_free(moved);
    json_free(same);
    status_drop(old);
    status_drop(now);
}

static void a_wall_has_names_and_no_forms(void **state) {
    (void)state;
    struct status *s = made(3);
    struct page_view v = all_of(s);
    struct html h;
    put_alarms(s, "bed-2", 1);
    s->streams[2].alarm = s->alarms[0];
    v.wall = v.answers = true;
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "class=\"wall\""));
    assert_null(strstr(str_cstr(&h.out), "<nav"));
    assert_null(strstr(str_cstr(&h.out), "action=\"/alarms\""));
    html_done(&h);
    status_drop(s);
}

static void clients_with_the_same_page_and_rights_share_an_event(void **state) {
    (void)state;
    struct status *old = made(4), *now = made(4);
    old->number = 1;
    now->number = 2;
    now->streams[2].bed.lag_s = 3;
    const struct page_view before = all_of(old), after = all_of(now);
    struct page_view own = after;
    own.all = false;
    own.principal = "token:odd";
    struct event_cache *c = event_cache_new();
    const struct event_text *one = event_cache_get(c, &before, &after, "/streams");
    const struct event_text *same = event_cache_get(c, &before, &after, "/streams");
    const struct event_text *others[] = {event_cache_get(c, NULL, &after, "/streams"), event_cache_get(c, &before, &after, "/"),
                                         event_cache_get(c, &before, &own, "/streams"),
                                         event_cache_get(c, &before, &before, "/streams")};
    assert_ptr_equal(one, same);
    assert_non_null(strstr(str_cstr(&one->text), "3.0 s"));
    assert_null(strstr(str_cstr(&others[2]->text), now->streams[0].bed.session_id)); /* another reader's stream */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_ptr_not_equal(one, others[i]);
        assert_string_not_equal(str_cstr(&one->text), str_cstr(&others[i]->text));
        event_text_drop(others[i]);
    }
    for (int i = 0; i < EVENT_CACHE_TEXTS; i++) {
        char path[24];
        str_format(path, sizeof path, "/jobs/%d", i);
        event_text_drop(event_cache_get(c, &before, &after, path));
    }
    const struct event_text *again = event_cache_get(c, &before, &after, "/streams");
    assert_ptr_not_equal(one, again); /* it was replaced, while its client holds it */
    assert_string_equal(str_cstr(&one->text), str_cstr(&again->text));
    event_text_drop(again);
    event_text_drop(same);
    event_cache_free(c);
    assert_non_null(strstr(str_cstr(&one->text), "3.0 s"));
    event_text_drop(one);
    status_drop(old);
    status_drop(now);
}

static void a_minute_without_values_has_gaps(void **state) {
    (void)state;
    float minute[STATUS_MINUTE];
    char path[CHART_PATH_SIZE];
    for (int i = 0; i < STATUS_MINUTE; i++)
        minute[i] = NAN;
    assert_string_equal(chart_minute(minute, path), "M0 0");
    minute[3] = 0;
    minute[10] = 1;
    minute[11] = 2; /* beyond the scale */
    assert_string_equal(chart_minute(minute, path), "M7 31.0h1M21 1.0L23 1.0");
    minute[50] = 0.5f;
    assert_string_equal(chart_minute(minute, path), "M7 31.0h1M21 1.0L23 1.0M101 16.0h1");
    for (int i = 0; i < STATUS_MINUTE; i++)
        minute[i] = 0.123f;
    assert_true(strlen(chart_minute(minute, path)) < CHART_PATH_SIZE - 1);
}

/* What the event says of the minute of the only stream; "": nothing. */
static const char *minute_in_event(const struct status *before, const struct status *now, struct str *event) {
    const struct page_view old = {.status = before, .all = true, .readiness = ""},
                           v = {.status = now, .all = true, .readiness = ""};
    str_clear(event);
    page_event(event, before ? &old : NULL, &v, "/streams");
    char *at = strstr(event->data, "\"minute\":");
    if (!at)
        return "";
    *strchr(at, ']') = '\0';
    return strchr(at, '[') + 1;
}

static void an_event_has_the_new_points_of_a_minute_alone(void **state) {
    (void)state;
    OWNED(str_done) struct str event = str_of(1 << 16);
    struct status *old = made(1), *now = made(1);
    float *minute = now->streams[0].minute;
    const char *all = minute_in_event(NULL, now, &event);
    assert_true(str_starts(all, "59,null,"));
    for (int n = 0; n < STATUS_MINUTE; n++)
        assert_non_null(all = strchr(all + 1, ',')); /* and 60 points */
    assert_null(strchr(all + 1, ','));
    assert_string_equal(minute_in_event(old, now, &event), "");
    minute[STATUS_MINUTE - 1] = 1;
    assert_string_equal(minute_in_event(old, now, &event), "0,1.0");
    memmove(minute, minute + 2, (STATUS_MINUTE - 2) * sizeof *minute);
    minute[STATUS_MINUTE - 2] = NAN;
    minute[STATUS_MINUTE - 1] = 0.5f;
    assert_string_equal(minute_in_event(old, now, &event), "2,1.0,null,16.0");
    for (int i = 0; i < STATUS_MINUTE; i++)
        minute[i] = NAN;
    assert_true(str_starts(minute_in_event(old, now, &event), "59,null,null"));
    status_drop(old);
    status_drop(now);
}

static void the_past_keeps_the_highest_value_of_each_step(void **state) {
    (void)state;
    struct past *t = past_new();
    float points[PAST_POINTS];
    const int64_t now = 1800000000000;
    past_put(t, now, 0.2f);
    past_put(t, now + 1000, 0.9f);
    past_put(t, now + 2000, 0.1f);
    past_put(t, now + 3 * PAST_STEP_MS, NAN);
    past_copy(t, now + 3 * PAST_STEP_MS, points);
    assert_float_equal(points[PAST_POINTS - 4], 0.9f, 0);
    for (int i = 1; i < 4; i++)
        assert_true(isnan(points[PAST_POINTS - i]));
    past_put(t, now + (int64_t)PAST_POINTS * PAST_STEP_MS * 2, 0.5f); /* all before is too old */
    past_copy(t, now + (int64_t)PAST_POINTS * PAST_STEP_MS * 2, points);
    for (int i = 0; i + 1 < PAST_POINTS; i++)
        assert_true(isnan(points[i]));
    assert_float_equal(points[PAST_POINTS - 1], 0.5f, 0);
    past_drop(past_share(t));
    past_drop(t);
}

static void the_past_goes_on_when_the_clock_is_set_back(void **state) {
    (void)state;
    struct past *t = past_new();
    float points[PAST_POINTS];
    const int64_t now = 1800000000000, hour = 3600 * 1000;
    past_put(t, now - hour, 0.9f);
    past_put(t, now - hour - PAST_STEP_MS, 0.8f); /* a correction of seconds: counts as the newest */
    for (int64_t at = now - hour + PAST_STEP_MS; at <= now; at += PAST_STEP_MS)
        past_put(t, at, 0.4f);
    past_put(t, now - hour, 0.2f);
    past_put(t, now - hour + PAST_STEP_MS, 0.3f);
    past_copy(t, now - hour + PAST_STEP_MS, points);
    assert_float_equal(points[PAST_POINTS - 1], 0.3f, 0);
    assert_float_equal(points[PAST_POINTS - 2], 0.2f, 0);
    assert_true(isnan(points[PAST_POINTS - 3]));
    past_copy(t, now, points); /* what the clock of before had */
    assert_true(isnan(points[PAST_POINTS - 1]));
    past_drop(t);
}

static void a_board_wakes_who_waits_and_keeps_what_is_read(void **state) {
    (void)state;
    struct status_board *b = status_board_new();
    assert_null(status_newest(b));
    assert_null(status_await(b, 0, 1));
    status_publish(b, made(1));
    const struct status *one = status_await(b, 0, 1000);
    assert_non_null(one);
    status_publish(b, made(2));
    assert_int_equal(one->n_streams, 1); /* still the one that was taken */
    const struct status *two = status_await(b, one->number, 1000);
    assert_int_equal(two->n_streams, 2);
    status_drop(one);
    status_drop(two);
    status_board_stop(b);
    assert_null(status_await(b, 0, 1000));
    status_board_free(b);
}

/* A page that waits for a volume is read to its end by a thread that the daemon's end does not wait for. */
static void a_status_may_be_dropped_after_its_board(void **state) {
    (void)state;
    struct status_board *b = status_board_new();
    const size_t bytes = malloc_usable_size(b);
    status_publish(b, status_new(b));
    const struct status *read = status_newest(b);
    status_board_free(b);
    unsigned char *volatile next = malloc(bytes), *nothing = calloc(1, bytes); /* next: where the board was, if it is gone */
    memset(next, 0, bytes);
    status_drop(read);
    assert_memory_equal(next, nothing, bytes);
    free(next);
    free(nothing);
}

static void numbers_are_in_words(void **state) {
    (void)state;
    struct words w;
    assert_string_equal(words_bytes(&w, 1400000000), "1.4 GB");
    assert_string_equal(words_bytes(&w, -1), "unknown");
    assert_string_equal(words_duration(&w, 3700), "1 h 1 min");
    assert_string_equal(words_timer(&w, 3723), "1:02:03");
    assert_string_equal(words_time(&w, 1000000000000), "2001-09-09T01:46:40Z");
    assert_string_equal(words_p(&w, NAN), "–");
}

static void files_of_pages_have_digests(void **state) {
    (void)state;
    const struct page_asset *css = page_asset_find("/assets/page.css");
    assert_non_null(css);
    assert_true(css->len > 1000 && strlen(css->digest) == 16);
    assert_null(page_asset_find("/assets/../page.css"));
}

/* ---- each state ---- */

static void look_at_all(const struct page_view *v) {
    static const char *const paths[] = {"/", "/streams", "/alarms", "/jobs", "/models"};
    void (*const pages[])(struct html *, const struct page_view *) = {page_overview, page_streams, page_alarms, page_jobs,
                                                                      page_models};
    struct html h;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct str event = str_of(4 << 20);
        h = html_of();
        pages[i](&h, v);
        assert_true(str_ok(&h.out));
        assert_null(strstr(str_cstr(&h.out), "(null)"));
        html_done(&h);
        page_event(&event, NULL, v, paths[i]);
        assert_true(str_ok(&event));
        assert_null(strstr(str_cstr(&event), "(null)"));
        str_done(&event);
    }
    h = html_of();
    assert_true(page_stream(&h, v, v->status->streams[0].bed.session_id));
    assert_null(strstr(str_cstr(&h.out), "(null)"));
    html_done(&h);
}

static void every_mood_of_a_stream_is_shown(void **state) {
    (void)state;
    for (int mood = 0; mood < STATUS_MOODS; mood++)
        for (int bits = 0; bits < 64; bits++) {
            struct status *s = made(1);
            struct page_view v = all_of(s);
            struct status_stream *t = &s->streams[0];
            if (bits & 1 || mood == STATUS_WAS)
                put_alarms(s, "bed-1", 1);
            t->alarm = s->n_alarms ? s->alarms[0] : NULL;
            t->mood = (enum status_mood)mood;
            t->bed.live = (t->realtime = bits & 2);
            t->bed.connected = bits & 4;
            t->bed.probability = bits & 8 ? 0.5f : NAN;
            t->bed.threshold_on = bits & 16 ? 0.8 : 0;
            t->bed.ended_ms = mood == STATUS_ENDED ? s->taken_ms - 1000 : 0;
            t->bed.standby_until_ms = mood == STATUS_STANDBY ? s->taken_ms + 1000 : 0;
            t->loaded = v.answers = bits & 32;
            v.wall = !v.answers;
            look_at_all(&v);
            status_drop(s);
        }
}

static void every_state_of_an_alarm_is_shown(void **state) {
    (void)state;
    for (int kind = 0; kind < ALARM_KINDS; kind++)
        for (int bits = 0; bits < 256; bits++) {
            struct status *s = made(1);
            struct page_view v = all_of(s);
            put_alarms(s, bits & 1 ? "bed-1" : "", 1);
            struct alarm *a = alarm_at(s, 0);
            a->kind = (enum alarm_kind)kind;
            a->cut = bits & 2;
            a->test = bits & 4;
            a->live = bits & 8;
            a->due_boot_ms = bits & 16 ? 0 : INT64_MAX;
            a->off_ms = bits & 32 ? s->taken_ms - 1000 : 0;
            a->answered.at_ms = bits & 64 ? s->taken_ms - 2000 : 0;
            a->status = bits & 128;
            a->step = bits & 3;
            a->mark = (enum alarm_mark)(bits % ALARM_MARKS);
            a->silent_boot_ms = bits % 3 ? 0 : s->boot_ms + 1000;
            a->again = bits % 5;
            s->streams[0].alarm = a;
            s->streams[0].mood = a->off_ms ? STATUS_WAS : STATUS_ALARM;
            v.answers = true;
            look_at_all(&v);
            status_drop(s);
        }
}

static void every_kind_of_entry_is_on_the_page_of_its_stream(void **state) {
    struct status *s = made(1);
    struct page_view v = all_of(s);
    struct html h;
    struct db *db = NULL;
    struct err err;
    v.journal = in_dir(state, "journal");
    assert_int_equal(journaldb_open(v.journal, &db, &err), 0);
    for (int kind = 0; kind < JOURNAL_KINDS; kind++)
        for (int filled = 0; filled < 2; filled++) {
            int64_t id;
            struct journal_entry e = {.kind = (enum journal_kind)kind, .number = filled, .received_ms = s->taken_ms - kind};
            e.start_s = e.end_s = e.value = filled ? 0.5 : NAN;
            str_copy(e.session, sizeof e.session, s->streams[0].bed.session_id);
            str_copy(e.detail, sizeof e.detail, filled ? "ended" : "");
            str_copy(e.person, sizeof e.person, filled ? "Ana" : "");
            assert_int_equal(journaldb_insert(db, &e, &id, &err), 0);
            assert_true(id > 0);
        }
    for (int step = 3; step <= 4; step++) { /* the newest call for an alarm stands for those before it */
        int64_t id;
        struct journal_entry e = {
            .kind = JOURNAL_ESCALATED, .number = step, .received_ms = s->taken_ms, .alarm = "x", .step = step, .start_s = NAN};
        str_copy(e.session, sizeof e.session, s->streams[0].bed.session_id);
        assert_int_equal(journaldb_insert(db, &e, &id, &err), 0);
    }
    db_close(db);
    h = html_of();
    assert_true(page_stream(&h, &v, s->streams[0].bed.session_id));
    for (int kind = 0; kind < JOURNAL_KINDS; kind++) {
        char row[80];
        str_format(row, sizeof row, "<th scope=\"row\">%s</th>", journal_kind_words((enum journal_kind)kind));
        assert_int_equal(count(str_cstr(&h.out), row), kind == JOURNAL_ESCALATED ? 3 : 2);
    }
    assert_int_equal(count(str_cstr(&h.out), "; call 4</td>"), 1);
    assert_null(strstr(str_cstr(&h.out), "; call 3"));
    assert_null(strstr(str_cstr(&h.out), "(null)"));
    html_done(&h);
    status_drop(s);
}

/* The note of the first stream, as an event has it. */
static void assert_note(const struct status *s, const char *note) {
    const struct page_view v = all_of(s);
    struct json *event = event_of(NULL, &v, "/streams");
    assert_string_equal(json_str(json_get(json_get(json_get(event, "streams"), s->streams[0].key), "note"), ""), note);
    json_free(event);
}

static void a_tile_says_that_it_learns_and_what_is_wrong(void **state) {
    struct status *s = made(10);
    struct status_stream *bed = &s->streams[0];
    (void)state;
    bed->bed.learning_s = 40;
    assert_note(s, "learning this patient, 40 s");
    bed->bed.quality = "F3 flat, O2 clipped";
    bed->mood = STATUS_POOR;
    assert_note(s, "learning this patient, 40 s; F3 flat, O2 clipped");
    bed->bed.quality = "";
    bed->bed.gap_fraction = 0.2;
    assert_note(s, "learning this patient, 40 s; 20 % of the samples lost");
    bed->bed.learning_s = 0;
    assert_note(s, "20 % of the samples lost");
    status_drop(s);
}

static void no_text_is_written_as_nothing(void **state) {
    (void)state;
    unsetenv("BRR_STOP_AT_NULL"); // NOLINT(concurrency-mt-unsafe): no other thread
    const char *volatile none = NULL;
    struct html h;
    h = html_of();
    html_put(&h, "<p>%s|%s</p>", none, "a");
    assert_string_equal(str_cstr(&h.out), "<p>|a</p>");
    html_done(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_is_escaped),
        cmocka_unit_test(a_cut_character_at_the_end_is_replaced),
        cmocka_unit_test(hostile_names_are_no_markup_on_any_page),
        cmocka_unit_test(jobs_are_sorted_by_any_column_and_those_without_a_value_come_last),
        cmocka_unit_test(an_alarm_keeps_its_place_among_two_hundred),
        cmocka_unit_test(streams_beyond_the_tiles_are_counted),
        cmocka_unit_test(no_stream_is_said_in_words),
        cmocka_unit_test(a_reader_sees_the_streams_of_its_own_principal_only),
        cmocka_unit_test(an_event_says_what_has_changed_and_nothing_else),
        cmocka_unit_test(a_wall_has_names_and_no_forms),
        cmocka_unit_test(clients_with_the_same_page_and_rights_share_an_event),
        cmocka_unit_test(a_minute_without_values_has_gaps),
        cmocka_unit_test(an_event_has_the_new_points_of_a_minute_alone),
        cmocka_unit_test(the_past_keeps_the_highest_value_of_each_step),
        cmocka_unit_test(the_past_goes_on_when_the_clock_is_set_back),
        cmocka_unit_test(a_board_wakes_who_waits_and_keeps_what_is_read),
        cmocka_unit_test(a_status_may_be_dropped_after_its_board),
        cmocka_unit_test(numbers_are_in_words),
        cmocka_unit_test(files_of_pages_have_digests),
        cmocka_unit_test(every_mood_of_a_stream_is_shown),
        cmocka_unit_test(every_state_of_an_alarm_is_shown),
        in_temp_dir(every_kind_of_entry_is_on_the_page_of_its_stream),
        cmocka_unit_test(a_tile_says_that_it_learns_and_what_is_wrong),
        cmocka_unit_test(no_text_is_written_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
