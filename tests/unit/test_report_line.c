/* report_line: whatever a task can report comes back from its line of JSON as it was, and what is no report is refused. */
#include "work/report_line.h"

#include "unit/cmocka_all.h"

static struct report_line back_of(const struct task_report *report, const struct report_frame *frame) {
    struct report_line back;
    struct str line;
    struct err err;
    str_init(&line, 1 << 20);
    report_write(&line, report, frame);
    if (report_read(str_cstr(&line), line.len, &back, &err))
        fail_msg("%s", err.message);
    assert_int_equal(back.report.kind, report->kind);
    str_done(&line);
    return back;
}

static void progress_comes_back(void **state) {
    (void)state;
    struct task_progress p;
    task_progress_init(&p);
    str_copy(p.phase, sizeof p.phase, "train");
    p.step = 7;
    p.epochs = 3;
    p.step_s = 0.1; /* needs all digits */
    p.nonfinite_steps = 2;
    str_copy(p.figures[0].name, sizeof p.figures[0].name, "ticks_per_s");
    p.figures[0].value = 1.0 / 3;
    str_copy(p.figures[1].name, sizeof p.figures[1].name, "unknown");
    p.figures[1].value = (double)NAN;
    struct report_line back = back_of(&(struct task_report){.kind = TASK_PROGRESS, .progress = &p}, NULL);
    const struct task_progress *q = back.report.progress;
    assert_string_equal(q->phase, "train");
    assert_true(q->step == 7 && q->epochs == 3 && q->step_s == 0.1 && q->nonfinite_steps == 2 && isnan(q->loss));
    assert_string_equal(q->figures[0].name, "ticks_per_s");
    assert_true(q->figures[0].value == 1.0 / 3 && isnan(q->figures[1].value) && !*q->figures[2].name);
    report_line_done(&back);
}

static void texts_and_checkpoints_come_back(void **state) {
    (void)state;
    struct task_report text = {.kind = TASK_LOG, .level = TASK_ERROR, .text = "a \"quoted\"\nline"};
    struct report_line back = back_of(&text, NULL);
    assert_int_equal(back.report.level, TASK_ERROR);
    assert_string_equal(back.report.text, text.text);
    report_line_done(&back);
    back = back_of(&(struct task_report){.kind = TASK_NOTICE, .text = "late"}, NULL);
    assert_string_equal(back.report.text, "late");
    report_line_done(&back);
    const struct task_checkpoint c = {.path = "/a/b", .sha256 = "ff", .step = 4, .bytes = 9, .metric = 0.25, .best = true};
    back = back_of(&(struct task_report){.kind = TASK_CHECKPOINT, .checkpoint = &c}, NULL);
    const struct task_checkpoint *d = back.report.checkpoint;
    assert_string_equal(d->path, "/a/b");
    assert_true(d->step == 4 && d->bytes == 9 && d->metric == 0.25 && d->best && !d->last);
    report_line_done(&back);
    back = back_of(&(struct task_report){.kind = TASK_RUNNING}, NULL);
    report_line_done(&back);
}

static void the_end_comes_back_with_error_and_result(void **state) {
    (void)state;
    char result[] = "{\"text\":\"\\\"result\\\":{}\",\"x\":[1,2]}";
    const struct report_frame frame = {.job = "j", .kind = "train", .state = "succeeded", .reason = ",\"result\":{"};
    struct task_end end = {.has_checkpoint = true, .energy_j = 5, .result = result};
    struct report_line back = back_of(&(struct task_report){.kind = TASK_END, .end = &end}, &frame);
    assert_string_equal(back.end.result, result);
    assert_true(back.end.has_checkpoint && back.end.energy_j == 5 && back.end.rc == 0 && back.end.stopped == STOP_NONE);
    report_line_done(&back);
    end = (struct task_end){.stopped = STOP_PREEMPT, .energy_j = (double)NAN};
    end.rc = err_set(&end.err, ERR_EXHAUSTED, "no room");
    end.err.room = ERR_ROOM_NONE_IN_CACHE;
    back = back_of(&(struct task_report){.kind = TASK_END, .end = &end}, &frame);
    assert_string_equal(back.end.err.message, "no room");
    assert_true(back.end.rc == ERR_EXHAUSTED && back.end.err.room == ERR_ROOM_NONE_IN_CACHE && back.end.stopped == STOP_PREEMPT);
    assert_true(isnan(back.end.energy_j) && !back.end.result);
    report_line_done(&back);
}

static void what_is_no_report_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"", "{\"event\":\"end\"", "[]", "{}", "{\"event\":\"other\"}", "{\"event\":1}"};
    struct report_line line;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_not_equal(report_read(lines[i], strlen(lines[i]), &line, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_comes_back),
        cmocka_unit_test(texts_and_checkpoints_come_back),
        cmocka_unit_test(the_end_comes_back_with_error_and_result),
        cmocka_unit_test(what_is_no_report_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
