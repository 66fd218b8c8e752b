/* What pages say of alarms: until somebody answers, by whom, of which bed, and with which forms. */

#include "daemon/page/page.h"
#include "unit/page_fixture.h"

static void an_alarm_that_is_over_stays_until_somebody_answers(void **state) {
    (void)state;
    struct status *s = made(3);
    struct page_view v = all_of(s);
    struct html h;
    put_alarms(s, "bed-2", 1);
    s->streams[2].alarm = s->alarms[0];
    s->streams[2].mood = STATUS_WAS;
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "Was on 40 s</p>"));
    assert_non_null(strstr(str_cstr(&h.out), "data-mood=\"was\" data-waiting=\"1\""));
    assert_non_null(strstr(str_cstr(&h.out), "data-sound=\"low\""));
    assert_null(strstr(str_cstr(&h.out), "action=\"/alarms\"")); /* this reader may not answer */
    html_done(&h);
    s->streams[2].bed.connected = false; /* it was lost after the alarm */
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), ">connection lost; nobody has acknowledged</span> since <time"));
    html_done(&h);
    s->streams[2].bed.connected = true;
    v.answers = true;
    v.names = "icu-*";
    h = html_of();
    page_streams(&h, &v);
    assert_null(strstr(str_cstr(&h.out), "action=\"/alarms\"")); /* nor this bed */
    v.names = "bed-*";
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "value=\"acknowledge\""));
    html_done(&h);
    const char *order = NULL;
    struct json *before = event_of(NULL, &v, "/streams");
    order = json_str(json_get(before, "order"), "");
    struct alarm *a = alarm_at(s, 0);
    str_copy(a->silenced.person, sizeof a->silenced.person, "Ana <B>");
    a->silent_ms = s->taken_ms + 60000;
    a->silent_boot_ms = s->boot_ms + 60000;
    struct json *silent = event_of(NULL, &v, "/streams");
    assert_string_not_equal(json_str(json_get(silent, "order"), ""), order); /* the page is fetched again */
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "<p class=\"silent\">silent until <time"));
    assert_non_null(strstr(str_cstr(&h.out), "</time>, by Ana &lt;B&gt;</p>"));
    html_done(&h);
    json_free(silent);
    acknowledge(s, 0);
    struct json *after = event_of(NULL, &v, "/streams");
    assert_string_not_equal(json_str(json_get(after, "order"), ""), order);
    assert_int_equal(json_i64(json_get(before, "n_was"), 0), 1);
    json_free(before);
    json_free(after);
    status_drop(s);
}

static void an_alarm_of_a_lost_stream_says_that_it_is_blind(void **state) {
    (void)state;
    struct status *s = made(3);
    struct page_view v = all_of(s);
    struct html h;
    put_alarms(s, "bed-2", 1);
    struct alarm *a = alarm_at(s, 0);
    put_on(s, 0);
    a->blind = true;
    a->step = 2;
    str_copy(a->where, sizeof a->where, "left: F7-T3");
    s->streams[2].alarm = s->alarms[0];
    s->streams[2].mood = STATUS_ALARM;
    s->streams[2].bed.seen_ms = s->taken_ms - 20000;
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "blind: no signal for 0:20; nobody has answered; 2 calls"));
    assert_non_null(strstr(str_cstr(&h.out), ">Alarm 0:40</p>")); /* by the register, as `brrctl alarms` has it */
    page_alarms(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "Blind: no signal comes from the bed"));
    assert_non_null(strstr(str_cstr(&h.out), "Nobody has answered; 2 calls</strong></p><p>At the onset: left: F7-T3</p>"));
    html_done(&h);
    a->step = 1;
    h = html_of();
    page_alarms(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "<strong>Nobody has answered; 1 call</strong>"));
    html_done(&h);
    a->blind = false;
    a->step = 0;
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "<span data-f=\"note\">at the onset: left: F7-T3</span>"));
    html_done(&h);
    s->streams[1].bed.rule = "alarms off by the configuration";
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "alarms off by the configuration"));
    html_done(&h);
    status_drop(s);
}

/* An alarm that somebody has acknowledged is framed and named after the others; a replay calls nobody, and says so. */
static void an_acknowledged_alarm_is_calmer_than_one_that_waits(void **state) {
    (void)state;
    struct status *s = made(5);
    const struct page_view v = all_of(s);
    struct html h;
    put_alarms(s, "bed-1", 3);
    for (int i = 0; i < 3; i++) {
        put_on(s, i);
        s->streams[i + 1].alarm = s->alarms[i];
        s->streams[i + 1].mood = STATUS_ALARM;
    }
    s->streams[4].mood = STATUS_FINE;
    acknowledge(s, 0);
    alarm_at(s, 2)->live = false;
    s->streams[3].bed.live = false;
    h = html_of();
    page_streams(&h, &v);
    const char *page = str_cstr(&h.out), *banner = strstr(page, "<strong>Alarm</strong>");
    assert_int_equal(count(page, "data-calm=\"answered\""), 1);
    assert_int_equal(count(page, "data-calm=\"replay\""), 1);
    assert_non_null(strstr(page, "acknowledged by Ana</span> <time class=\"hm\""));
    assert_non_null(strstr(page, ">Replay: alarm 0:40</p>"));
    assert_non_null(strstr(page, "id=\"alarms\" role=\"alert\" data-n=\"2\" data-waiting=\"1\""));
    assert_non_null(strstr(page, ">2 in alarm</span>"));
    assert_non_null(strstr(page, ">1 replay in alarm</span>"));
    assert_true(banner && strstr(banner, ">bed-2</a>") < strstr(banner, ">bed-1 <small>acknowledged</small></a>"));
    html_done(&h);
    h = html_of();
    page_alarms(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "Replay: on</span>"));
    html_done(&h);
    struct json *event = event_of(NULL, &v, "/streams");
    assert_int_equal(json_i64(json_get(event, "n_waiting"), 0), 1);
    assert_int_equal(json_i64(json_get(event, "n_alarms"), 0), 2);
    assert_string_equal(json_str(json_at(json_at(json_get(event, "alarms"), 1), 2), ""), "acknowledged");
    json_free(event);
    status_drop(s);
}

/* A note has its author and its time, in the zone of the machine. */
static void times_have_their_zone(void **state) {
    (void)state;
    struct status *s = made(3);
    const struct page_view v = all_of(s);
    struct html h;
    setenv("TZ", "CET-1", 1);
    tzset();
    put_alarms(s, "bed-2", 1);
    s->streams[2].alarm = s->alarms[0];
    s->streams[2].mood = STATUS_WAS;
    h = html_of();
    page_alarms(&h, &v);
    assert_non_null(strstr(
        str_cstr(&h.out), "“bed-2” (Ana, <time class=\"whole\" datetime=\"2027-01-15T07:59:10Z\">2027-01-15 08:59:10 CET</time>)"));
    html_done(&h);
    h = html_of();
    assert_true(page_stream(&h, &v, s->streams[2].bed.session_id));
    assert_non_null(strstr(str_cstr(&h.out), "nobody has acknowledged</span> since <time class=\"whole\" "));
    html_done(&h);
    unsetenv("TZ");
    tzset();
    status_drop(s);
}

/* Of a stream from before the daemon's start nobody knows when it was heard last: the age is a bound. */
static void a_restored_stream_is_silent_since_before_the_start(void **state) {
    (void)state;
    struct status *s = made(3);
    const struct page_view v = all_of(s);
    struct html h;
    s->streams[2].mood = STATUS_LOST;
    s->streams[2].bed.connected = false;
    s->streams[2].bed.seen_ms = 0;
    s->streams[2].restored_ms = s->taken_ms - 20000;
    h = html_of();
    page_streams(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), ">No signal over 0:20</p>"));
    assert_non_null(strstr(str_cstr(&h.out), ">nothing heard since the daemon started</span>"));
    assert_non_null(strstr(str_cstr(&h.out), ">before the daemon&#39;s start</span>"));
    html_done(&h);
    status_drop(s);
}

/* One press for the alarms of a bed that are listed, which no other bed's are. */
static void several_alarms_of_a_bed_are_acknowledged_at_once(void **state) {
    (void)state;
    struct status *s = made(3);
    struct page_view v = all_of(s);
    struct html h;
    v.answers = true;
    put_alarms(s, "bed-2", 3);
    str_copy(alarm_at(s, 1)->bed, sizeof s->alarms[1]->bed, "bed-3");
    acknowledge(s, 4);
    h = html_of();
    page_alarms(&h, &v);
    const char *page = str_cstr(&h.out), *button = strstr(page, "Acknowledge all 4 of bed-2</button>");
    assert_non_null(button);
    assert_null(strstr(button + 1, "Acknowledge all"));
    const char *form = button;
    while (strncmp(form, "<form", 5) != 0)
        form--;
    form = strstr(form, "name=\"alarm\" value=\"a-0 a-2 a-3 a-5\"");
    assert_true(form && form < button);
    html_done(&h);
    status_drop(s);
}

static void an_alarm_leads_to_the_eeg_while_its_stream_is_there(void **state) {
    (void)state;
    struct status *s = made(3);
    const struct page_view v = all_of(s);
    struct html h;
    put_alarms(s, "bed-2", 1);
    str_copy(alarm_at(s, 0)->session, sizeof s->alarms[0]->session, s->streams[2].bed.session_id);
    h = html_of();
    page_alarms(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "#eeg\">EEG of the onset</a>"));
    html_done(&h);
    str_copy(alarm_at(s, 0)->session, sizeof s->alarms[0]->session, "gone");
    h = html_of();
    page_alarms(&h, &v);
    assert_null(strstr(str_cstr(&h.out), "/streams/gone"));
    assert_non_null(strstr(str_cstr(&h.out), "The stream has ended; its EEG is no longer here"));
    assert_non_null(strstr(str_cstr(&h.out), "<code>brrctl alarms eeg "));
    html_done(&h);
    status_drop(s);
}

static void technical_alarms_are_grouped(void **state) {
    (void)state;
    struct status *s = made(1), *many = made(1);
    const struct page_view v = all_of(s), all = all_of(many);
    put_alarms(s, "bed-2", 2);
    put_alarms(many, "bed-2", 12);
    struct json *two = event_of(NULL, &v, "/"), *twelve = event_of(NULL, &all, "/");
    assert_string_equal(json_str(json_at(json_get(two, "technical"), 0), ""), "bed-2, bed-2: no signal");
    assert_string_equal(json_str(json_at(json_get(twelve, "technical"), 0), ""), "12 beds: no signal");
    assert_int_equal(json_count(json_get(twelve, "technical")), 1);
    json_free(two);
    json_free(twelve);
    status_drop(s);
    status_drop(many);
}

/* Three hundred and more newer alarms wait: one that is on stays on the page. */
static void no_list_leaves_out_an_alarm_that_is_on(void **state) {
    (void)state;
    struct status *s = made(1);
    const struct page_view v = all_of(s);
    struct html h;
    put_alarms(s, "bed-1", 400);
    put_on(s, 399);
    h = html_of();
    page_alarms(&h, &v);
    assert_non_null(strstr(str_cstr(&h.out), "id=\"a-a-399\""));
    assert_null(strstr(str_cstr(&h.out), "id=\"a-a-398\""));
    assert_non_null(strstr(str_cstr(&h.out), "99 more are not shown"));
    html_done(&h);
    status_drop(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_alarm_that_is_over_stays_until_somebody_answers),
        cmocka_unit_test(an_alarm_of_a_lost_stream_says_that_it_is_blind),
        cmocka_unit_test(an_acknowledged_alarm_is_calmer_than_one_that_waits),
        cmocka_unit_test(times_have_their_zone),
        cmocka_unit_test(a_restored_stream_is_silent_since_before_the_start),
        cmocka_unit_test(several_alarms_of_a_bed_are_acknowledged_at_once),
        cmocka_unit_test(an_alarm_leads_to_the_eeg_while_its_stream_is_there),
        cmocka_unit_test(technical_alarms_are_grouped),
        cmocka_unit_test(no_list_leaves_out_an_alarm_that_is_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
