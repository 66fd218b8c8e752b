/* The list of a detect job: what was added reads back, a line that was cut counts for nothing and is gone when the job goes on. */
#include "unit/temp_dir.h"

#include "detect/detect_list.h"

struct seen {
    struct detect_row rows[4];
    int n;
};

static int see(void *ctx, const struct detect_row *row, struct err *err) {
    struct seen *s = ctx;
    if (s->n == 4)
        return err_set(err, ERR_RANGE, "more than 4 rows");
    s->rows[s->n++] = *row;
    return 0;
}

static const struct detect_row DONE = {.recording = "a/x \"1\"_eeg.edf",
                                       .note = "file ends early",
                                       .mislabelled = "mislabelled channels",
                                       .key = "k1",
                                       .model = "m1",
                                       .duration_s = 60.25,
                                       .seizure_s = 3.5,
                                       .events = 2};
static const struct detect_row BAD = {.recording = "b.edf", .error = "b.edf: no recording"};

static void add(const char *path, const struct detect_row *row) {
    struct detect_list *list = NULL;
    struct err err = {0};
    assert_int_equal(detect_list_begin(path, &list, &err), 0);
    assert_int_equal(detect_list_add(list, row, &err), 0);
    detect_list_end(list);
}

static void assert_same(const struct detect_row *a, const struct detect_row *b) {
    assert_string_equal(a->recording, b->recording);
    assert_string_equal(a->error, b->error);
    assert_string_equal(a->note, b->note);
    assert_string_equal(a->mislabelled, b->mislabelled);
    assert_string_equal(a->key, b->key);
    assert_string_equal(a->model, b->model);
    assert_int_equal(a->events, b->events);
    assert_true(a->duration_s == b->duration_s && a->seizure_s == b->seizure_s);
}

static void rows_read_back_in_order(void **state) {
    const char *path = in_dir(state, DETECT_LIST_NAME);
    struct seen *s = calloc(1, sizeof *s);
    struct err err = {0};
    assert_int_equal(detect_list_read(path, see, s, &err), 0); /* no list is an empty one */
    assert_int_equal(s->n, 0);
    add(path, &DONE);
    add(path, &BAD);
    assert_int_equal(detect_list_read(path, see, s, &err), 0);
    assert_int_equal(s->n, 2);
    assert_same(&s->rows[0], &DONE);
    assert_same(&s->rows[1], &BAD);
    free(s);
}

static void a_cut_line_counts_for_nothing_and_goes(void **state) {
    const char *path = in_dir(state, DETECT_LIST_NAME);
    struct seen *s = calloc(1, sizeof *s);
    struct err err = {0};
    add(path, &DONE);
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    for (int i = 0; i < 5000; i++) /* longer than a block that is looked at */
        fputs("{\"rec", f);
    fclose(f);
    assert_int_equal(detect_list_read(path, see, s, &err), 0);
    assert_int_equal(s->n, 1);
    add(path, &BAD);
    s->n = 0;
    assert_int_equal(detect_list_read(path, see, s, &err), 0);
    assert_int_equal(s->n, 2);
    assert_string_equal(s->rows[1].recording, BAD.recording);
    free(s);
}

static void what_is_no_row_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"", "{", "[]", "{}", "{\"recording\":7}", "{\"recording\":\"\"}"};
    struct detect_row row;
    struct err err;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(detect_row_read(lines[i], strlen(lines[i]), &row, &err), ERR_DATA_LOSS);
}

static void give_row(void *ctx, int64_t i, struct detect_row *ret) {
    (void)ctx;
    *ret = i ? DONE : BAD;
}

static void a_list_is_written_anew_as_a_whole(void **state) {
    const char *path = in_dir(state, DETECT_LIST_NAME);
    struct seen *s = calloc(1, sizeof *s);
    struct err err = {0};
    add(path, &DONE);
    assert_int_equal(detect_list_write(path, 2, give_row, NULL, &err), 0);
    assert_int_equal(detect_list_read(path, see, s, &err), 0);
    assert_int_equal(s->n, 2);
    assert_string_equal(s->rows[0].error, BAD.error);
    assert_int_equal(s->rows[1].events, 2);
    free(s);
}

static void events_lie_beside_the_list(void **state) {
    (void)state;
    char path[64];
    struct err err;
    struct detect_row row = {.recording = "a/x_eeg.edf"};
    assert_int_equal(detect_events_path("/r/jobs/j", &row, path, sizeof path, &err), 0);
    assert_string_equal(path, "/r/jobs/j/events/a/x_events.tsv");
    assert_int_equal(detect_events_path("/r/jobs/j", &row, path, 16, &err), ERR_RANGE);
    str_copy(row.format, sizeof row.format, "edf+");
    assert_int_equal(detect_events_path("/r/jobs/j", &row, path, sizeof path, &err), 0);
    assert_string_equal(path, "/r/jobs/j/events/a/x_annotations.edf");
    str_copy(row.format, sizeof row.format, "vhs");
    assert_int_equal(detect_events_path("/r/jobs/j", &row, path, sizeof path, &err), ERR_DATA_LOSS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(rows_read_back_in_order),         in_temp_dir(a_cut_line_counts_for_nothing_and_goes),
        cmocka_unit_test(what_is_no_row_is_refused),  in_temp_dir(a_list_is_written_anew_as_a_whole),
        cmocka_unit_test(events_lie_beside_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
