/* reload: files are read again on request and when they change, errors name the file once, and a thread whose volume does not
 * answer (here a FIFO that nobody writes) is left behind. */
#include "daemon/reload.h"

#include <semaphore.h>

#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

static void wake(void *ctx) { sem_post(ctx); }

static struct reload *open_group(const struct reload_file *files, int n, bool watch) {
    struct reload *r = NULL;
    assert_int_equal(reload_new(files, n, watch, &r, NULL), 0);
    return r;
}

/* Waits for the next report. */
static struct reload_report *next(struct reload *r, sem_t *woken) {
    struct reload_report *report;
    while (!(report = reload_take(r)))
        sem_wait(woken);
    return report;
}

static void expect(struct reload *r, sem_t *woken, const char *text) {
    struct reload_report *report = next(r, woken);
    assert_int_equal(report->rc, 0);
    assert_string_equal(report->texts[0], text);
    assert_int_equal(report->lengths[0], strlen(text));
    reload_report_free(report);
}

static void put_text(const char *path, const char *text) { put_file(path, text, strlen(text)); }

static void a_changed_file_is_read_again_and_an_error_is_reported_once(void **state) {
    sem_t woken;
    const char *path = in_dir(state, "file");
    const struct reload_file file = {.path = path, .key = "some.key", .max_bytes = 100};
    struct reload_report *report = NULL;
    sem_init(&woken, 0, 0);
    put_text(path, "one");
    struct reload *r = open_group(&file, 1, true);
    assert_int_equal(reload_now(r, &report, NULL), 0);
    assert_string_equal(report->texts[0], "one");
    reload_report_free(report);
    put_text(path, "two"); /* between the first reading and the start of the thread */
    assert_int_equal(reload_start(r, wake, &woken, NULL), 0);
    expect(r, &woken, "two");
    assert_int_equal(unlink(path), 0);
    report = next(r, &woken);
    assert_int_equal(report->rc, ERR_NOT_FOUND);
    assert_int_equal(report->err.code, ERR_NOT_FOUND);
    assert_string_equal(report->err.message, "some.key cannot be used");
    assert_non_null(strstr(report->err.cause, path));
    assert_null(report->texts[0]);
    reload_report_free(report);
    put_text(path, "three");
    expect(r, &woken, "three"); /* and no second report of the same error */
    reload_stop(r);
    sem_destroy(&woken);
}

static void a_request_reads_all_files_and_a_text_of_one_bad_file_is_not_given_out(void **state) {
    sem_t woken;
    const char *first = in_dir(state, "first"), *second = in_dir(state, "second");
    const struct reload_file files[] = {{.path = first, .max_bytes = 10},
                                        {.path = second, .key = "key", .max_bytes = 10, .forbidden_rights = 0077}};
    sem_init(&woken, 0, 0);
    put_text(first, "a");
    put_text(second, "b");
    struct reload *r = open_group(files, 2, false);
    assert_int_equal(reload_start(r, wake, &woken, NULL), 0);
    assert_int_equal(chmod(second, 0640), 0);
    reload_request(r);
    struct reload_report *report = next(r, &woken);
    assert_int_equal(report->rc, ERR_DENIED);
    assert_true(!report->texts[0] && !report->texts[1]);
    reload_report_free(report);
    assert_int_equal(chmod(second, 0600), 0);
    reload_request(r);
    report = next(r, &woken);
    assert_int_equal(report->rc, 0);
    assert_string_equal(report->texts[0], "a");
    assert_string_equal(report->texts[1], "b");
    reload_report_free(report);
    put_text(first, "far too long");
    reload_request(r);
    report = next(r, &woken);
    assert_int_equal(report->rc, ERR_EXHAUSTED);
    reload_report_free(report);
    reload_request(r);
    sem_wait(&woken);
    reload_request(r); /* of which nobody takes the reports */
    reload_stop(r);
    sem_destroy(&woken);
}

static void errors_of_the_first_reading_are_returned(void **state) {
    const struct reload_file file = {.path = in_dir(state, "none"), .key = "key", .max_bytes = 10};
    struct reload *r = open_group(&file, 1, true);
    struct reload_report *report = NULL;
    struct err err = {0};
    assert_int_equal(reload_now(r, &report, &err), ERR_NOT_FOUND);
    assert_string_equal(err.message, "key cannot be used");
    assert_null(report);
    reload_stop(r); /* never started */
    reload_stop(NULL);
}

static void connect_writer(const char *fifo) {
    int fd = open(fifo, O_WRONLY | O_CLOEXEC); /* waits until the thread has opened it */
    assert_true(fd >= 0);
    close(fd);
}

static void a_thread_whose_volume_does_not_answer_is_left_behind(void **state) {
    sem_t woken;
    const char *answers = in_dir(state, "answers"), *hangs = in_dir(state, "hangs");
    const struct reload_file files[] = {{.path = answers, .max_bytes = 10}, {.path = hangs, .max_bytes = 10}};
    sem_init(&woken, 0, 0);
    assert_true(!mkfifo(answers, 0600) && !mkfifo(hangs, 0600));
    struct reload *r = open_group(files, 2, true);
    assert_int_equal(reload_start(r, wake, &woken, NULL), 0);
    reload_request(r);
    connect_writer(answers); /* now it opens the other one */
    assert_null(reload_take(r));
    reload_request(r);
    reload_stop(r);
    sem_destroy(&woken);   /* nobody wakes any more */
    connect_writer(hangs); /* the thread ends and frees its memory */
}

static void a_volume_that_answers_again_is_read(void **state) {
    sem_t woken;
    const char *path = in_dir(state, "fifo");
    const struct reload_file file = {.path = path, .max_bytes = 10};
    sem_init(&woken, 0, 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct reload *r = open_group(&file, 1, false);
    assert_int_equal(reload_start(r, wake, &woken, NULL), 0);
    reload_request(r);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && write(fd, "text", 4) == 4);
    close(fd);
    expect(r, &woken, "text");
    reload_stop(r);
    sem_destroy(&woken);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_changed_file_is_read_again_and_an_error_is_reported_once),
        in_temp_dir(a_request_reads_all_files_and_a_text_of_one_bad_file_is_not_given_out),
        in_temp_dir(errors_of_the_first_reading_are_returned),
        in_temp_dir(a_thread_whose_volume_does_not_answer_is_left_behind),
        in_temp_dir(a_volume_that_answers_again_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
