/* joblog: lines reach the files of their jobs in order, and a volume that does not answer (here a FIFO that nobody reads) delays
 * neither the caller nor, once it answers, loses a line without saying so. */
#include "daemon/jobs/joblog.h"

#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

static const char *path_in(void **state, const char *name) {
    static char path[512];
    str_format(path, sizeof path, "%s/%s", (const char *)*state, name);
    return path;
}

static void lines_reach_the_files_of_their_jobs(void **state) {
    struct joblog *log = NULL;
    char one[512], two[512], *text = NULL;
    size_t len = 0;
    str_copy(one, sizeof one, path_in(state, "one"));
    str_copy(two, sizeof two, path_in(state, "two"));
    assert_true(!fsio_mkdirs(one, NULL) && !fsio_mkdirs(two, NULL));
    assert_int_equal(joblog_start(&log, NULL), 0);
    joblog_append(log, one, "info", "first");
    joblog_append(log, two, "error", "elsewhere");
    joblog_append(log, one, "warn", "second,\nin one line");
    joblog_stop(log); /* writes what waits */
    assert_int_equal(fsio_read(path_in(state, "one/log.txt"), 1 << 20, &text, &len, NULL), 0);
    char *end = strchr(text, '\n');
    assert_true(end && str_ends(text, "Z warn second, in one line\n"));
    *end = '\0';
    assert_true(str_ends(text, "Z info first"));
    free(text);
    assert_int_equal(fsio_read(path_in(state, "two/log.txt"), 1 << 20, &text, &len, NULL), 0);
    assert_true(str_ends(text, "Z error elsewhere\n"));
    free(text);
}

/* What a FIFO holds now, behind len bytes of buf; the new length. */
static size_t drain(int fd, char *buf, size_t size, size_t len) {
    ssize_t n;
    while (len < size - 1 && (n = read(fd, buf + len, size - 1 - len)) > 0)
        len += (size_t)n;
    buf[len] = '\0';
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    return len;
}

static void a_volume_that_does_not_answer_delays_nobody_and_lost_lines_are_named(void **state) {
    enum { SIZE = 4 << 20, MANY = JOBLOG_MAX + 100 };
    struct joblog *log = NULL;
    char dir[512], *buf = calloc(1, SIZE);
    str_copy(dir, sizeof dir, path_in(state, "held"));
    assert_int_equal(fsio_mkdirs(dir, NULL), 0);
    assert_int_equal(mkfifo(path_in(state, "held/log.txt"), 0600), 0);
    assert_int_equal(joblog_start(&log, NULL), 0);
    for (int i = 0; i < MANY; i++) /* each open of the FIFO waits for a reader */
        joblog_append(log, dir, "info", "a line");
    assert_false(joblog_written(log));
    int fd = open(path_in(state, "held/log.txt"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    size_t len = 0;
    while (!joblog_written(log)) /* the volume is back */
        len = drain(fd, buf, SIZE, len);
    joblog_append(log, dir, "info", "the last line");
    while (!strstr(buf, "the last line"))
        len = drain(fd, buf, SIZE, len);
    joblog_stop(log);
    assert_non_null(strstr(buf, "lines of jobs were lost before this one"));
    close(fd);
    free(buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_reach_the_files_of_their_jobs, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(a_volume_that_does_not_answer_delays_nobody_and_lost_lines_are_named, temp_dir_make,
                                        temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
