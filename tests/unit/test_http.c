#include <sys/socket.h>

#include "base/base.h"
#include "daemon/http/event_seats.h"
#include "daemon/http/link.h"
#include "daemon/http/origin.h"
#include "daemon/http/patience.h"
#include "trust/cookie.h"
#include "unit/temp_dir.h"

static struct auth_caller named(const char *name, bool all) {
    struct auth_caller c = {.role = ROLE_STREAM, .all = all};
    str_copy(c.name, sizeof c.name, name);
    return c;
}

/* Takes seats until none is left for this caller; returns how many. */
static int take_all(struct event_seats *s, struct auth_caller *callers, const char *name, bool all, bool shared) {
    int n = 0;
    for (callers[n] = named(name, all); event_seats_take(s, &callers[n], shared); callers[n] = named(name, all))
        n++;
    return n;
}

static void one_token_leaves_seats_for_others_and_for_the_ward(void **state) {
    (void)state;
    struct auth_caller a[EVENT_SEATS + 1], b[EVENT_SEATS + 1], ward[EVENT_SEATS + 1], rest[EVENT_SEATS][EVENT_SEATS_OF_ONE + 1];
    struct event_seats *s = event_seats_new();
    assert_int_equal(take_all(s, a, "token:bed-1", false, false), EVENT_SEATS_OF_ONE);
    assert_int_equal(take_all(s, b, "token:bed-2", false, false), EVENT_SEATS_OF_ONE);
    int others = 2 * EVENT_SEATS_OF_ONE;
    for (int i = 0; i < EVENT_SEATS; i++) {
        char name[32];
        str_format(name, sizeof name, "token:more-%d", i);
        others += take_all(s, rest[i], name, false, false);
    }
    assert_int_equal(others, EVENT_SEATS - EVENT_SEATS_KEPT);
    assert_int_equal(take_all(s, ward, "token:ward", true, false), EVENT_SEATS_KEPT);
    event_seats_leave(s, &a[0]);
    struct auth_caller again = named("token:bed-1", false);
    assert_true(event_seats_take(s, &again, false));
    event_seats_free(s);
    s = event_seats_new();
    assert_int_equal(take_all(s, ward, "token:ward", true, false), EVENT_SEATS_OF_ALL);
    event_seats_free(s);
    s = event_seats_new();
    assert_int_equal(take_all(s, ward, "local", false, true), EVENT_SEATS); /* without tokens all callers have one name */
    event_seats_free(s);
}

static bool is_open(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0;
}

static void a_connection_that_drips_ends_and_a_stream_of_events_goes_on(void **state) {
    (void)state;
    struct patience *p = patience_new();
    int drip[2], reader[2], events[2];
    assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, drip) || socketpair(AF_UNIX, SOCK_STREAM, 0, reader) ||
                 socketpair(AF_UNIX, SOCK_STREAM, 0, events));
    struct patience_place *a = patience_enter(p, drip[0], 1000), *b = patience_enter(p, reader[0], 1000),
                          *c = patience_enter(p, events[0], 1000);
    patience_until(p, b, 1000 + PATIENCE_ANSWER_MS);
    patience_until(p, c, INT64_MAX);
    assert_int_equal(patience_look(p, 1000 + PATIENCE_READ_MS - 1), 0);
    assert_int_equal(patience_look(p, 1000 + PATIENCE_READ_MS), 1);
    assert_true(!is_open(drip[1]) && is_open(reader[1]) && is_open(events[1]));
    assert_int_equal(patience_look(p, 1000 + PATIENCE_ANSWER_MS), 1); /* the first one only once */
    assert_true(!is_open(reader[1]) && is_open(events[1]));
    patience_leave(p, a);
    patience_leave(p, b);
    patience_leave(p, c);
    for (int i = 0; i < PATIENCE_MOST; i++)
        assert_non_null(patience_enter(p, events[0], 0));
    assert_null(patience_enter(p, events[0], 0));
    patience_until(p, NULL, 0);
    patience_leave(p, NULL);
    patience_free(p);
    for (int i = 0; i < 2; i++) {
        close(drip[i]);
        close(reader[i]);
        close(events[i]);
    }
}

static void a_cookie_is_one_of_this_daemon_until_its_time(void **state) {
    const char *path = in_dir(state, "page.key");
    struct cookie_key key, again, other;
    struct err err = {0};
    struct cookie c = {.kind = COOKIE_TOKEN, .until_ms = 2000}, found;
    char text[COOKIE_SIZE];
    struct stat st;
    for (int i = 0; i < TOKEN_DIGEST; i++)
        c.digest[i] = (unsigned char)(7 * i);
    assert_int_equal(cookie_key_open(path, &key, &err), 0);
    assert_int_equal(cookie_key_open(path, &again, &err), 0); /* the next start of the daemon */
    assert_memory_equal(key.bytes, again.bytes, COOKIE_KEY);
    assert_false(stat(path, &st));
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(cookie_key_open(in_dir(state, "other"), &other, &err), 0);
    assert_true(cookie_write(&key, &c, text));
    assert_true(cookie_read(&again, text, 1999, &found));
    assert_int_equal(found.kind, COOKIE_TOKEN);
    assert_memory_equal(found.digest, c.digest, TOKEN_DIGEST);
    assert_false(cookie_read(&key, text, 2000, &found));
    assert_false(cookie_read(&other, text, 1999, &found));
    for (size_t i = 0; text[i]; i++) { /* no change of a character is accepted */
        const char before = text[i];
        text[i] = before == '1' ? '2' : '1';
        assert_false(cookie_read(&key, text, 1000, &found));
        text[i] = '\0';
        assert_false(cookie_read(&key, text, 1000, &found));
        text[i] = before;
    }
    assert_false(chmod(path, 0640));
    assert_int_equal(cookie_key_open(path, &again, &err), ERR_DENIED);
    assert_memory_not_equal(key.bytes, again.bytes, COOKIE_KEY);
}

static void pages_are_read_under_a_name_of_the_daemon(void **state) {
    static const char *const names[] = {"eeg.lab.example"};
    static const char *const own[] = {"127.0.0.1:9464", "[::1]:9464", "10.0.0.7",
                                      "localhost:1",    "LOCALHOST",  "EEG.lab.example:9464"};
    static const char *const foreign[] = {"evil.example", "eeg.lab.example.evil.example", "127.0.0.1.evil.example:9464", "",
                                          ":9464",        "localhost.evil.example",       "[evil.example]:9464"};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_true(origin_host_fits(own[i], names, 1));
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_false(origin_host_fits(foreign[i], names, 1));
    assert_false(origin_host_fits(NULL, names, 1));
    assert_false(origin_host_fits("eeg.lab.example", NULL, 0));
}

static void forms_come_from_own_pages(void **state) {
    (void)state;
    assert_true(origin_is_own(NULL, NULL, "a:1", false)); /* no browser */
    assert_true(origin_is_own("same-origin", "null", "a:1", false));
    assert_true(origin_is_own(NULL, "http://a:1", "a:1", false));
    assert_true(origin_is_own(NULL, "https://a:1", "a:1", true));
    assert_false(origin_is_own(NULL, "http://a:1", "a:1", true));
    assert_false(origin_is_own(NULL, "http://a:2", "a:1", false));
    assert_false(origin_is_own(NULL, "null", "a:1", false));
    assert_false(origin_is_own("cross-site", NULL, "a:1", false));
    assert_false(origin_is_own("same-site", "http://a:1", "a:1", false));
}

static void a_link_opens_the_pages_once(void **state) {
    struct links l;
    char first[LINK_KEY_SIZE], key[LINK_KEY_SIZE];
    (void)state;
    links_init(&l);
    assert_true(links_make(&l, 1000, first) && links_make(&l, 1000, key));
    assert_string_not_equal(first, key);
    assert_false(links_use(&l, "", 1000) || links_use(&l, "x", 1000));
    assert_true(links_use(&l, key, 1000 + LINK_MS - 1));
    assert_false(links_use(&l, key, 1000));
    assert_false(links_use(&l, first, 1000 + LINK_MS));
    assert_true(links_make(&l, 1000, first));
    for (int i = 0; i < LINKS_MAX; i++)
        assert_true(links_make(&l, 1000, key));
    assert_false(links_use(&l, first, 1000));
    links_done(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_cookie_is_one_of_this_daemon_until_its_time),
        cmocka_unit_test(pages_are_read_under_a_name_of_the_daemon),
        cmocka_unit_test(forms_come_from_own_pages),
        cmocka_unit_test(a_link_opens_the_pages_once),
        cmocka_unit_test(one_token_leaves_seats_for_others_and_for_the_ward),
        cmocka_unit_test(a_connection_that_drips_ends_and_a_stream_of_events_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
