#include "base/base.h"
#include "daemon/rpc/auth.h"

#include "base/log.h"
#include "daemon/rpc/alarm_rights.h"
#include "daemon/rpc/audit.h"
#include "trust/certificate.h"
#include "unit/temp_dir.h"

/* The time of day is what the test says (the linker's --wrap). */
static int64_t wall_ms;
int64_t __wrap_clock_wall_ms(void);
int64_t __wrap_clock_wall_ms(void) { return wall_ms; }

static const struct metric_family families[] = {COUNTER("brrd_auth_failures_total", "Refused.", "reason")};
static const struct auth_connection connection = {.listener = "tcp", .role = ROLE_NONE};
#define YEAR_2030 (INT64_C(1893456000) * 1000)

struct gate {
    struct metrics *metrics;
    struct auth *auth;
    char token[TOKEN_SIZE], digest[TOKEN_HEX_SIZE], header[TOKEN_SIZE + 16];
};

/* One token of this role; until: " until=YYYY-MM-DD" or "". */
static void set_token(struct gate *g, const char *role, const char *until) {
    char text[300];
    struct err err;
    assert_true(str_format(text, sizeof text, "%s ana %s%s\n", role, g->digest, until));
    if (auth_set_tokens(g->auth, text, true, &err))
        fail_msg("%s", err.message);
}

static int setup(void **state) {
    struct gate *g = calloc(1, sizeof *g);
    g->metrics = metrics_new(families, 1, 32);
    const struct auth_config config = {.tokens_file = "tokens", .metrics = g->metrics};
    wall_ms = YEAR_2030;
    *state = g;
    str_copy(g->header, sizeof g->header, "");
    if (auth_new(&config, &g->auth, NULL) || token_make(g->token, g->digest, NULL))
        return -1;
    str_format(g->header, sizeof g->header, "Bearer %s", g->token);
    return 0;
}

static int teardown(void **state) {
    struct gate *g = *state;
    auth_free(g->auth);
    metrics_free(g->metrics);
    free(g);
    return 0;
}

static struct auth_caller identify(struct gate *g) {
    const struct auth_request request = {
        .connection = &connection, .peer = "10.0.0.7:4711", .authorization = g->header, .authorization_len = strlen(g->header)};
    struct auth_refusal refusal;
    struct auth_caller caller;
    if (!auth_identify(g->auth, &request, &caller, &refusal))
        fail_msg("%s", refusal.err.message);
    return caller;
}

static void the_digest_of_a_token_is_its_owner(void **state) {
    struct gate *g = *state;
    set_token(g, "read", "");
    struct auth_caller by_token = identify(g), by_digest;
    const struct auth_request request = {.connection = &connection, .peer = "10.0.0.7:4711", .digest = by_token.digest};
    struct auth_refusal refusal;
    assert_true(auth_identify(g->auth, &request, &by_digest, &refusal));
    assert_string_equal(by_digest.name, by_token.name);
    assert_memory_equal(by_digest.digest, by_token.digest, sizeof by_token.digest);
}

static void alarms_are_answered_by_who_may_see_and_answer_the_bed(void **state) {
    (void)state;
    struct auth_caller c = {.name = "token:nurse", .role = ROLE_READ, .all = true, .names = "bed-*"};
    assert_false(auth_answers(&c, "token:bed-7", "bed-7"));
    c.answer = true;
    assert_true(auth_answers(&c, "token:bed-7", "bed-7"));
    assert_false(auth_answers(&c, "token:icu-1", "icu-1"));
    c.all = false; /* the beds of its names, whoever streams them */
    assert_true(auth_answers(&c, "token:bed-7", "bed-7") && auth_answers(&c, "token:nurse", "bed-7"));
    assert_false(auth_answers(&c, "token:icu-1", "icu-1") || auth_answers(&c, "token:nurse", "icu-1"));
    assert_false(auth_sees_bed(&c, "token:nurse", "") || auth_sees_bed(&c, "", ""));
    c.names[0] = '\0'; /* what it streams, whatever its name */
    assert_true(auth_answers(&c, "token:nurse", "bed-7") && auth_sees_bed(&c, "token:nurse", ""));
    assert_false(auth_answers(&c, "token:bed-7", "bed-7") || auth_sees_bed(&c, "", ""));
    assert_true(auth_answers(&(struct auth_caller){.name = "local", .role = ROLE_ADMIN}, "token:bed-7", "bed-7"));
}

static void a_smaller_role_reaches_calls_in_progress(void **state) {
    struct gate *g = *state;
    struct auth_refusal refusal;
    set_token(g, "submit", "");
    struct auth_caller caller = identify(g);
    assert_true(auth_still_valid(g->auth, &caller, &refusal) && auth_permits(&caller, ROLE_SUBMIT, "x", &refusal));
    set_token(g, "read", "");
    assert_true(auth_still_valid(g->auth, &caller, &refusal));
    assert_false(auth_permits(&caller, ROLE_SUBMIT, "x", &refusal));
    assert_string_equal(refusal.reason, "ROLE_TOO_SMALL");
}

static void a_token_that_expires_ends_calls_in_progress(void **state) {
    struct gate *g = *state;
    struct auth_refusal refusal;
    set_token(g, "submit", " until=2030-06-30");
    struct auth_caller caller = identify(g);
    assert_true(auth_still_valid(g->auth, &caller, &refusal));
    wall_ms += INT64_C(365) * 24 * 3600 * 1000;
    assert_false(auth_still_valid(g->auth, &caller, &refusal));
    assert_string_equal(refusal.reason, "TOKEN_EXPIRED");
    set_token(g, "submit", ""); /* the administrator has made it last */
    assert_true(auth_still_valid(g->auth, &caller, &refusal));
}

static void a_reload_of_the_tokens_renames_no_caller(void **state) {
    struct gate *g = *state;
    static const struct auth_connection mutual = {.listener = "tcp", .role = ROLE_NONE, .certificate = true};
    const struct certificate_request issue = {.name = "bed-7", .days = 30};
    struct certificate_pair ca, client;
    struct auth_refusal refusal;
    struct auth_caller caller;
    assert_int_equal(certificate_make_authority("lab", &ca, NULL), 0);
    assert_int_equal(certificate_issue(&ca, &issue, &client, NULL), 0);
    assert_int_equal(auth_set_authorities(g->auth, ca.certificate, NULL), 0);
    set_token(g, "submit", "");
    const struct auth_request asks = {.connection = &mutual,
                                      .authorization = g->header,
                                      .authorization_len = strlen(g->header),
                                      .chain = client.certificate,
                                      .chain_len = strlen(client.certificate)};
    if (!auth_identify(g->auth, &asks, &caller, &refusal))
        fail_msg("%s %s", refusal.err.message, refusal.err.cause);
    assert_string_equal(caller.name, "token:ana");
    set_token(g, "read", "");
    assert_true(auth_still_valid(g->auth, &caller, &refusal));
    assert_int_equal(caller.role, ROLE_READ);
    assert_string_equal(caller.name, "token:ana");
    assert_string_equal(caller.certificate, "bed-7");
    assert_true(auth_sees(&caller, "token:ana") && auth_sees(&caller, "token:ana,certificate:bed-8"));
    assert_false(auth_sees(&caller, "token:anabel") || auth_sees(&caller, "token:an,certificate:bed-7"));
    set_token(g, "read", " until=2029-06-30");
    assert_false(auth_still_valid(g->auth, &caller, &refusal));
    assert_string_equal(caller.name, "token:ana"); /* in the log of the refusal */
    certificate_pair_done(&ca);
    certificate_pair_done(&client);
}

/* What is written to stderr from now on goes to this file; returns what restores it. */
static int redirect(const char *path) {
    int before = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(before >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
    return before;
}

static void every_line_about_a_caller_names_its_address_and_its_session(void **state) {
    struct gate *g = *state;
    struct auth_refusal refusal = {.reason = "TOKEN_REVOKED"};
    void *dir = NULL;
    char *text = NULL;
    size_t len = 0;
    set_token(g, "submit", "");
    struct auth_caller caller = identify(g);
    assert_int_equal(temp_dir_make(&dir), 0);
    const char *path = in_dir(&dir, "log");
    const struct auth_record record = {
        .method = "/m", .needed = ROLE_SUBMIT, .outcome = "ok", .seconds = 0.5, .kind = "session", .id = "7f3a"};
    int before = redirect(path);
    auth_audit(g->auth, &caller, &record);
    auth_count_refusal(g->auth, &caller, &record, &refusal);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_int_equal(fsio_read(path, 1 << 16, &text, &len, NULL), 0);
    assert_non_null(strstr(text,
                           "principal=token:ana role=submit listener=tcp method=/m outcome=ok seconds=0.500 peer=10.0.0.7:4711 "
                           "session=7f3a reason=none"));
    assert_non_null(strstr(text, "reason=TOKEN_REVOKED principal=token:ana role=submit listener=tcp method=/m peer=10.0.0.7:4711 "
                                 "session=7f3a"));
    free(text);
    temp_dir_remove(&dir);
}

static int lines_of(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

/* A caller's flood is counted, of each method and of all, and others are logged meanwhile. */
static void many_lines_about_a_caller_are_summed_up(void **state) {
    struct gate *g = *state;
    void *dir = NULL;
    char *text = NULL;
    size_t len = 0;
    struct auth_caller caller = {.name = "token:ana", .listener = "tcp", .peer = "x", .role = ROLE_SUBMIT}, other = caller;
    str_copy(other.name, sizeof other.name, "token:bob");
    assert_int_equal(temp_dir_make(&dir), 0);
    const char *path = in_dir(&dir, "log");
    char method[16] = "";
    struct auth_record record = {.method = method, .needed = ROLE_SUBMIT, .outcome = "ok"};
    int before = redirect(path);
    for (int i = 0; i < 3 * AUDIT_OF_CALLER; i++) {
        str_format(method, sizeof method, "/m%d", i % 8);
        auth_audit(g->auth, &caller, &record);
    }
    auth_audit(g->auth, &other, &record);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_int_equal(fsio_read(path, 4 << 20, &text, &len, NULL), 0);
    assert_in_range(lines_of(text, "principal=token:ana"), AUDIT_OF_CALLER, 1.1 * AUDIT_OF_CALLER); /* some grow back meanwhile */
    assert_in_range(lines_of(text, "method=/m3"), 1, AUDIT_OF_METHOD);
    assert_int_equal(lines_of(text, "principal=token:bob"), 1);
    free(text);
    temp_dir_remove(&dir);
}

/* What was left out is said when the window is over; a reading is said once for each object. */
static void lines_that_were_left_out_are_counted(void **state) {
    (void)state;
    struct audit *a = audit_new();
    void *dir = NULL;
    char *text = NULL;
    size_t len = 0;
    int allowed = 0;
    assert_int_equal(temp_dir_make(&dir), 0);
    const char *path = in_dir(&dir, "log");
    int before = redirect(path);
    for (int i = 0; i < AUDIT_OF_METHOD + 7; i++)
        allowed += audit_allows(a, "token:ana", "/m", NULL, 1000);
    assert_int_equal(allowed, AUDIT_OF_METHOD);
    audit_tick(a, 1000 + AUDIT_SAY_MS - 1);
    audit_tick(a, 1000 + AUDIT_SAY_MS);
    audit_tick(a, 1000 + 3 * AUDIT_SAY_MS);
    assert_true(audit_allows(a, "token:ana", "/m", NULL, 2000)); /* one has grown back */
    assert_false(audit_allows(a, "token:ana", "/m", NULL, 2000));
    assert_true(audit_allows(a, "token:ana", "/observe", "s1", 1000));
    assert_false(audit_allows(a, "token:ana", "/observe", "s1", AUDIT_READING_MS - 1000));
    assert_true(audit_allows(a, "token:ana", "/observe", "s2", 1000));
    assert_true(audit_allows(a, "token:bob", "/observe", "s1", 1000));
    assert_true(audit_allows(a, "token:ana", "/page", "", 1000)); /* an object without an id */
    assert_false(audit_allows(a, "token:ana", "/page", "", 2000));
    assert_true(audit_allows(a, "token:ana", "/observe", "s1", 2000 + AUDIT_READING_MS));
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_int_equal(fsio_read(path, 1 << 16, &text, &len, NULL), 0);
    assert_int_equal(lines_of(text, "outcome=unsaid"), 1);
    assert_non_null(strstr(text, "principal=token:ana method=/m outcome=unsaid lines=7"));
    free(text);
    temp_dir_remove(&dir);
    audit_free(a);
}

static void a_refused_answer_names_what_the_caller_can_do(void **state) {
    (void)state;
    struct err err;
    struct auth_caller c = {.name = "uid:1001", .role = ROLE_SUBMIT, .all = true};
    assert_int_not_equal(alarm_rights_permit(&c, "token:bed-7", "bed-7", &err), 0);
    assert_non_null(strstr(err.message, "without a token only root and the daemon's user may"));
    c.has_token = true;
    assert_int_not_equal(alarm_rights_permit(&c, "token:bed-7", "bed-7", &err), 0);
    assert_non_null(strstr(err.message, "its token's line needs the word answer"));
    c.answer = true;
    assert_int_equal(alarm_rights_permit(&c, "token:bed-7", "bed-7", &err), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_digest_of_a_token_is_its_owner, setup, teardown),
        cmocka_unit_test(alarms_are_answered_by_who_may_see_and_answer_the_bed),
        cmocka_unit_test(a_refused_answer_names_what_the_caller_can_do),
        cmocka_unit_test_setup_teardown(a_smaller_role_reaches_calls_in_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_that_expires_ends_calls_in_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reload_of_the_tokens_renames_no_caller, setup, teardown),
        cmocka_unit_test_setup_teardown(many_lines_about_a_caller_are_summed_up, setup, teardown),
        cmocka_unit_test(lines_that_were_left_out_are_counted),
        cmocka_unit_test_setup_teardown(every_line_about_a_caller_names_its_address_and_its_session, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
