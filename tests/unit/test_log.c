#include "base/base.h"
#include "unit/temp_dir.h"

#include "base/json.h"
#include "base/log.h"

static int saved_stderr = -1;

static int capture(void **state) {
    if (temp_dir_make(state))
        return -1;
    char path[512];
    str_format(path, sizeof path, "%s/log", (const char *)*state);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    saved_stderr = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
    log_setup(LOG_INFO, false);
    log_hook(NULL, NULL);
    return 0;
}

static int release(void **state) {
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    log_hook(NULL, NULL);
    return temp_dir_remove(state);
}

/* What was logged so far; the file is emptied. */
static char *logged(void **state) {
    char *text = NULL;
    size_t len;
    const char *path = in_dir(state, "log");
    assert_int_equal(fsio_read(path, 64 << 20, &text, &len, NULL), 0);
    assert_int_equal(strlen(text), len);
    assert_int_equal(truncate(path, 0), 0);
    return text;
}

static void assert_logged(void **state, const char *want) {
    char *text = logged(state);
    if (!strstr(text, want))
        fail_msg("'%s' is not in: %s", want, text);
    free(text);
}

static int lines_of(const char *text) {
    int n = 0;
    for (const char *p = text; *p; p++)
        n += *p == '\n';
    return n;
}

static void a_line_has_time_level_message_and_fields(void **state) {
    log_warn("disk is nearly full", "free=%d path=\"%s\"", 12, "/a b");
    char *text = logged(state);
    int y, mo, d, h, mi, s, ms, end = 0;
    assert_int_equal(sscanf(text, "time=%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &y, &mo, &d, &h, &mi, &s, &ms, &end), 7);
    assert_true(y >= 2024 && mo >= 1 && mo <= 12 && h < 24);
    assert_string_equal(text + end, " level=warn msg=\"disk is nearly full\" free=12 path=\"/a b\"\n");
    free(text);
    log_info("alone", NULL);
    assert_logged(state, " level=info msg=\"alone\"\n");
}

static void lines_below_the_level_are_dropped(void **state) {
    log_debug("hidden", NULL);
    log_setup(LOG_ERROR, false);
    log_warn("hidden", NULL);
    log_error("shown", NULL);
    char *text = logged(state);
    assert_int_equal(lines_of(text), 1);
    assert_non_null(strstr(text, "shown"));
    free(text);
    log_setup(LOG_DEBUG, false);
    log_debug("shown too", NULL);
    assert_logged(state, "level=debug");
}

static void control_characters_and_quotes_cannot_forge_a_line(void **state) {
    log_error("a\nlevel=info msg=\"b\"\x1b[31m", "f=%s", "x\r\ny\x7f");
    char *text = logged(state);
    assert_int_equal(lines_of(text), 1);
    assert_non_null(strstr(text, "msg=\"a level=info msg=\\\"b\\\" [31m\" f=\"x  y \"\n"));
    free(text);
}

static void a_text_line_is_valid_utf8_without_controls_of_a_terminal(void **state) {
    log_error("caf\xc3\xa9 \xff", "f=%s g=%s", "\xd4ln\x80",
              "\xc2\x9b"
              "2J\xc3");
    assert_logged(state, "msg=\"caf\xc3\xa9 ?\" f=?ln? g=  2J?\n");
}

static void a_value_cannot_forge_a_field(void **state) {
    log_warn("job failed", "reason=\"%s\" name=%s id=%.3s step=%d share=%.2f bytes=%zu big=%lld%%", "x\" job=other state=\"ok\\",
             "a b=c\"", "7654321", -12, 0.125, (size_t)77, 1LL << 40);
    assert_logged(state,
                  "msg=\"job failed\" reason=\"x\\\" job=other state=\\\"ok\\\\\" name=\"a b=c\\\"\" id=765 step=-12 share=0.12 "
                  "bytes=77 big=1099511627776%\n");
    log_setup(LOG_INFO, true);
    log_warn("job failed", "reason=\"%s\" name=%s empty=%s step=%d", "x\" job=other state=\"ok\\", "a b=c\"", "", 3);
    char *text = logged(state);
    struct json *root = NULL;
    assert_int_equal(json_parse(text, strlen(text), "line", &root, NULL), 0);
    assert_string_equal(json_str(json_get(root, "reason"), ""), "x\" job=other state=\"ok\\");
    assert_string_equal(json_str(json_get(root, "name"), ""), "a b=c\"");
    assert_string_equal(json_str(json_get(root, "empty"), "none"), "");
    assert_string_equal(json_str(json_get(root, "step"), ""), "3");
    assert_null(json_get(root, "job"));
    json_free(root);
    free(text);
}

/* Also one that ends in the middle of an escape. */
static void a_cut_value_keeps_its_quotes(void **state) {
    char *longer = malloc(4001);
    assert_non_null(longer);
    for (int shift = 0; shift < 4; shift++) {
        memset(longer, '"', 4000);
        memset(longer, 'a', (size_t)shift);
        longer[4000] = '\0';
        log_setup(LOG_INFO, false);
        log_info("cut", shift % 2 ? "f=\"%s\" end=\"%s\"" : "f=%s end=\"%s\"", longer, "x");
        char *text = logged(state), *at = strstr(text, "f=\"") + 3;
        for (; *at != '"'; at++)
            at += *at == '\\';
        assert_true(at > text + 2000 && (!strcmp(at, "\"\n") || at[1] == ' '));
        free(text);
    }
    free(longer);
}

static void json_lines_are_valid_whatever_is_logged(void **state) {
    log_setup(LOG_INFO, true);
    log_info("a \"b\"\n\xff", "job=%s note=\"two words\" bad=%s end=\"open", "j-1", "\x01\xc3");
    char *text = logged(state);
    struct json *root = NULL;
    struct err err = {0};
    assert_int_equal(lines_of(text), 1);
    if (json_parse(text, strlen(text), "line", &root, &err))
        fail_msg("%s: %s", err.message, text);
    assert_string_equal(json_str(json_get(root, "level"), ""), "info");
    assert_string_equal(json_str(json_get(root, "message"), ""), "a \"b\"\n\xEF\xBF\xBD");
    assert_string_equal(json_str(json_get(root, "job"), ""), "j-1");
    assert_string_equal(json_str(json_get(root, "note"), ""), "two words");
    assert_string_equal(json_str(json_get(root, "end"), ""), "open");
    assert_int_equal(strlen(json_str(json_get(root, "time"), "")), 24);
    json_free(root);
    free(text);
}

static void long_texts_are_cut_not_lost(void **state) {
    char *longer = malloc(10001);
    assert_non_null(longer);
    memset(longer, '\x01', 10000);
    longer[10000] = '\0';
    for (int json = 0; json < 2; json++) {
        log_setup(LOG_INFO, json);
        log_info(longer, "f=%s", longer);
        char *text = logged(state);
        size_t len = strlen(text);
        assert_int_equal(text[len - 1], '\n');
        assert_int_equal(lines_of(text), 1);
        assert_true(len > 3000);
        struct json *root = NULL;
        if (json)
            assert_int_equal(json_parse(text, len, "line", &root, NULL), 0);
        json_free(root);
        free(text);
    }
    free(longer);
}

static atomic_int seen[4];
static void count(void *ctx, enum log_level level) { atomic_fetch_add((atomic_int *)ctx + level, 1); }

static void the_hook_counts_every_call_also_the_hidden_ones(void **state) {
    (void)state;
    log_hook(count, seen);
    log_debug("hidden", NULL);
    log_info("shown", NULL);
    log_info("shown", NULL);
    log_error("shown", NULL);
    assert_int_equal(atomic_load(&seen[LOG_DEBUG]), 1);
    assert_int_equal(atomic_load(&seen[LOG_INFO]), 2);
    assert_int_equal(atomic_load(&seen[LOG_WARN]), 0);
    assert_int_equal(atomic_load(&seen[LOG_ERROR]), 1);
}

enum { THREADS = 4, LINES = 500 };

static void *write_lines(void *arg) {
    for (int i = 0; i < LINES; i++)
        log_info("a line that must stay whole", "thread=%s n=%d end=yes", (const char *)arg, i);
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
    pthread_t threads[THREADS];
    static const char *const names[THREADS] = {"a", "b", "c", "d"};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, (void *)(uintptr_t)names[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    char *text = logged(state), *at = text;
    int n = 0;
    for (char *end; (end = strchr(at, '\n')); at = end + 1, n++) {
        *end = '\0';
        assert_int_equal(strncmp(at, "time=", 5), 0);
        assert_true(str_ends(at, " end=yes"));
        assert_null(strstr(at + 5, "time="));
    }
    assert_int_equal(n, THREADS * LINES);
    free(text);
}

#define captured(test) cmocka_unit_test_setup_teardown(test, capture, release)

static void a_reader_that_has_stopped_holds_up_nobody(void **state) {
    char text[4096], rest[8192] = "";
    int ends[2], file = dup(STDERR_FILENO);
    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], text, sizeof text) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0); /* a pipe that waits, as a service manager's does */
    dup2(ends[1], STDERR_FILENO);
    log_info("first", NULL);
    log_info("second", NULL);
    while (read(ends[0], text, sizeof text) > 0) {
    }
    log_info("third", NULL);
    dup2(file, STDERR_FILENO);
    assert_true(read(ends[0], rest, sizeof rest - 1) > 0);
    assert_non_null(strstr(rest, "log lines lost"));
    assert_non_null(strstr(rest, "lines=2\n"));
    assert_non_null(strstr(rest, "msg=\"third\""));
    assert_null(strstr(rest, "first"));
    close(file);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        captured(a_reader_that_has_stopped_holds_up_nobody),
        captured(a_line_has_time_level_message_and_fields),
        captured(lines_below_the_level_are_dropped),
        captured(a_text_line_is_valid_utf8_without_controls_of_a_terminal),
        captured(control_characters_and_quotes_cannot_forge_a_line),
        captured(a_value_cannot_forge_a_field),
        captured(a_cut_value_keeps_its_quotes),
        captured(json_lines_are_valid_whatever_is_logged),
        captured(long_texts_are_cut_not_lost),
        captured(the_hook_counts_every_call_also_the_hidden_ones),
        captured(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
