#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "daemon/http/event_seats.h"
#include "daemon/http/patience.h"
#include "unit/cmocka_all.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_token_leaves_seats_for_others_and_for_the_ward),
        cmocka_unit_test(a_connection_that_drips_ends_and_a_stream_of_events_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
