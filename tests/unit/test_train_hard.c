/* train_hard: hard windows of a checkpoint belong to recordings by name: another attempt may find others beside them. */
#include "base/base.h"
#include "train/train_hard.h"

#include "corpus_case.h"

static struct json *counters_of(const struct train *t) {
    struct json_writer w;
    struct json *json = NULL;
    struct str text;
    struct err err;
    str_init(&text, 1 << 20);
    json_writer_init(&w, &text);
    json_begin_object(&w, NULL);
    train_hard_put(t, &w);
    json_end(&w, '}');
    assert_int_equal(json_parse(str_cstr(&text), text.len, "counters", &json, &err), 0);
    str_done(&text);
    return json;
}

static void delete_recording(const char *name) {
    char path[4600];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(unlink(path), 0);
}

static void expect(const struct train *t, const struct window_ref *hard, int64_t n) {
    assert_int_equal(t->n_hard, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(t->hard[i].entry, hard[i].entry);
        assert_int_equal(t->hard[i].start, hard[i].start);
    }
}

static void windows_follow_their_recordings(void **state) {
    (void)state;
    struct window_ref hard[] = {{1, 512}, {3, 0}, {3, 256}};
    struct manifest *m = open_corpus(NULL);
    struct train before = {.manifest = m, .hard = hard, .n_hard = 3}, after = {0};
    struct json *counters = counters_of(&before);
    char first[300], second[300];
    struct err err;
    snprintf(first, sizeof first, "%s", manifest_entry(m, 0)->relative_path);
    snprintf(second, sizeof second, "%s", manifest_entry(m, 1)->relative_path);
    after.manifest = m;
    assert_int_equal(train_hard_get(&after, counters, &err), 0);
    expect(&after, hard, 3);
    manifest_close(m);

    delete_recording(first); /* all others move up */
    after.manifest = m = open_corpus(NULL);
    assert_int_equal(train_hard_get(&after, counters, &err), 0);
    expect(&after, (struct window_ref[]){{0, 512}, {2, 0}, {2, 256}}, 3);
    manifest_close(m);

    delete_recording(second);
    after.manifest = m = open_corpus(NULL);
    assert_int_equal(train_hard_get(&after, counters, &err), 0);
    expect(&after, (struct window_ref[]){{1, 0}, {1, 256}}, 2);
    manifest_close(m);
    json_free(counters);
    free(after.hard);
}

static void windows_of_older_checkpoints_name_entries(void **state) {
    (void)state;
    static const char text[] = "{\"hard\":[4,128,2,0]}";
    struct train t = {0};
    struct json *counters = NULL;
    struct err err;
    assert_int_equal(json_parse(text, strlen(text), "counters", &counters, &err), 0);
    assert_int_equal(train_hard_get(&t, counters, &err), 0);
    expect(&t, (struct window_ref[]){{4, 128}, {2, 0}}, 2);
    json_free(counters);
    free(t.hard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(windows_follow_their_recordings, set_up, tear_down),
        cmocka_unit_test(windows_of_older_checkpoints_name_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
