/* Calls of brrctl over a libbrr that answers what the test says. */

#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "unit/cmocka_all.h"

/* ---- libbrr: a call that is answered with these bytes, so many times ---- */

static const uint8_t *answer;
static size_t answer_len;
static int answers;

int brr_connect_with(const struct brr_connect_options *options, brr_client **ret, struct brr_error *err) {
    (void)options, (void)err;
    *ret = (brr_client *)&answers;
    return 0;
}
void brr_disconnect(brr_client *client) { (void)client; }
void brr_free(void *data) { free(data); }
int brr_call(brr_client *client, const struct brr_request *request, void **ret, size_t *ret_len, struct brr_error *err) {
    (void)client, (void)request, (void)err;
    *ret = malloc(answer_len + 1);
    memcpy(*ret, answer, answer_len);
    *ret_len = answer_len;
    return 0;
}
int brr_rpc_open(brr_client *client, const char *method, int64_t timeout_ms, brr_rpc **ret, struct brr_error *err) {
    (void)client, (void)method, (void)timeout_ms, (void)err;
    *ret = (brr_rpc *)&answers;
    return 0;
}
int brr_rpc_send(brr_rpc *rpc, const void *data, size_t len, int64_t timeout_ms, struct brr_error *err) {
    (void)rpc, (void)data, (void)len, (void)timeout_ms, (void)err;
    return 0;
}
int brr_rpc_half_close(brr_rpc *rpc, struct brr_error *err) {
    (void)rpc, (void)err;
    return 0;
}
int brr_rpc_next(brr_rpc *rpc, int64_t timeout_ms, const void **data, size_t *len, struct brr_error *err) {
    (void)rpc, (void)timeout_ms, (void)err;
    *data = answer;
    *len = answer_len;
    return answers-- > 0 ? 0 : BRR_END;
}
void brr_rpc_close(brr_rpc *rpc) { (void)rpc; }

/* ---- */

static const char logs[] = "/brr.v1.Jobs/Logs";
static const Brr__V1__JobLogsRequest ask = BRR__V1__JOB_LOGS_REQUEST__INIT;
static const uint8_t line[] = {0x1a, 2, 'o', 'k'}, damaged[] = {0x1a, 200, 'o', 'k'}; /* text: "ok"; a length beyond the end */
static const struct arguments none;

static bool count(void *ctx, const void *message) {
    const Brr__V1__LogLine *l = message;
    assert_string_equal(l->text, "ok");
    return ++*(int *)ctx < 3;
}

static void give(const uint8_t *data, size_t len, int times) {
    answer = data;
    answer_len = len;
    answers = times;
}

static void answers_are_visited_until_the_end_or_until_enough(void **state) {
    int n = 0;
    (void)state;
    give(line, sizeof line, 2);
    assert_int_equal(brrctl_follow(&none, logs, &ask.base, count, &n), 0);
    assert_int_equal(n, 2);
    n = 0;
    give(line, sizeof line, 9);
    assert_int_equal(brrctl_follow(&none, logs, &ask.base, count, &n), 0);
    assert_int_equal(n, 3);
}

static void an_answer_that_cannot_be_read_is_an_error(void **state) {
    int n = 0, code = 0;
    (void)state;
    give(damaged, sizeof damaged, 2);
    assert_int_equal(brrctl_follow(&none, logs, &ask.base, count, &n), EXIT_FAILED);
    assert_int_equal(n, 0);
    assert_null(brrctl_call(&none, logs, &ask.base, &code));
    assert_int_equal(code, EXIT_FAILED);
}

/* What a caller named a stream or a job cannot move the cursor of whoever lists it. */
static void control_characters_of_answers_reach_no_terminal(void **state) {
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    char name[] = "Doe\033[2J\r\x07\x7f\xc2\x9b\xc3\xa4", yaml[] = "a: 1\r\n\tb\x08", item[] = "x\033", *items[] = {item};
    (void)state;
    job.name = name;
    job.file = &file;
    file.yaml = yaml;
    file.overrides = items;
    file.n_overrides = 1;
    output_clean_message(&job.base);
    assert_string_equal(name, "Doe?[2J\077?\077?\077\xc3\xa4");
    assert_string_equal(yaml, "a: 1\r\n\tb?");
    assert_string_equal(item, "x?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_visited_until_the_end_or_until_enough),
        cmocka_unit_test(an_answer_that_cannot_be_read_is_an_error),
        cmocka_unit_test(control_characters_of_answers_reach_no_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
