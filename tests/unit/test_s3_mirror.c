/* A store's recordings as a local tree: what is fetched, what is not, and what stays in the cache. */
#include <pthread.h>
#include <sys/stat.h>

#include "unit/temp_dir.h"

#include "store/mirror.h"

struct arrivals {
    pthread_mutex_t lock;
    int n;
    bool labels_were_there;
};

struct setting {
    struct store *store;
    struct cache *cache;
    struct mirror *mirror;
    struct mirror_progress last;
    int calls, stop_at; /* stop_at 0 = never */
};

static bool note_progress(void *ctx, const struct mirror_progress *p) {
    struct setting *s = ctx;
    s->last = *p;
    return ++s->calls != s->stop_at;
}

static void put_object(void **state, const char *key, const char *text) {
    char path[700];
    str_format(path, sizeof path, "objects/%s", key);
    str_copy(path, sizeof path, in_dir(state, path));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(fsio_mkdirs(path, NULL), 0);
    *slash = '/';
    put_file(path, text, strlen(text));
}

static void begin(void **state, struct setting *s, int64_t cache_bytes) {
    char url[700];
    struct err err = {0};
    *s = (struct setting){0};
    assert_int_equal(fsio_mkdirs(in_dir(state, "objects"), NULL), 0);
    str_format(url, sizeof url, "file://%s", in_dir(state, "objects"));
    assert_int_equal(store_open(url, &s->store, &err), 0);
    assert_int_equal(cache_open(in_dir(state, "cache"), cache_bytes, &s->cache, &err), 0);
}

static void end(struct setting *s) {
    mirror_close(s->mirror);
    cache_close(s->cache);
    store_close(s->store);
}

static int mirrored(void **state, struct setting *s, const char *prefix, int64_t most, struct err *err) {
    const struct mirror_config config = {
        .store = s->store, .cache = s->cache, .prefix = prefix, .directory = in_dir(state, "tree"), .max_recordings = most};
    mirror_close(s->mirror);
    s->mirror = NULL;
    return mirror_open(&config, note_progress, s, &s->mirror, err);
}

static void assert_file(void **state, const char *name, const char *text) {
    char *data = NULL;
    size_t len = 0;
    assert_int_equal(fsio_read(in_dir(state, name), 1000, &data, &len, NULL), 0);
    assert_string_equal(data, text);
    free(data);
}

static void recordings_and_labels_of_the_prefix_stand_in_the_tree(void **state) {
    struct setting s;
    struct err err = {0};
    begin(state, &s, 1 << 20);
    put_object(state, "a/sub-01/x_eeg.edf", "one");
    put_object(state, "a/sub-01/x_events.tsv", "label");
    put_object(state, "a/sub-02/Y.BDF", "two");
    put_object(state, "a/paper.pdf", "no");
    put_object(state, "ab/z.edf", "other");
    assert_int_equal(mirrored(state, &s, "a", 0, &err), 0);
    assert_file(state, "tree/sub-01/x_eeg.edf", "one");
    assert_file(state, "tree/sub-01/x_events.tsv", "label");
    assert_file(state, "tree/sub-02/Y.BDF", "two");
    assert_false(fsio_exists(in_dir(state, "tree/paper.pdf")));
    assert_int_equal(s.last.done_files, 3);
    assert_int_equal(s.last.bytes, 11);
    mirror_close(s.mirror);
    s.mirror = NULL;
    assert_false(fsio_exists(in_dir(state, "tree")));
    end(&s);
}

static void on_arrival(void *ctx, const char *path) {
    struct arrivals *a = ctx;
    char label[700];
    int64_t size = 0;
    str_format(label, sizeof label, "%.*s/zz_last.tsv", (int)(strrchr(path, '/') - path), path);
    bool there = fsio_size(label, &size, NULL, NULL) == 0 && size == 5;
    pthread_mutex_lock(&a->lock);
    a->n++;
    a->labels_were_there = a->labels_were_there && there;
    pthread_mutex_unlock(&a->lock);
}

static void each_recording_is_announced_once_after_all_labels(void **state) {
    struct setting s;
    struct err err = {0};
    struct arrivals arrivals = {.labels_were_there = true};
    char key[32];
    begin(state, &s, 1 << 20);
    pthread_mutex_init(&arrivals.lock, NULL);
    for (int i = 0; i < 20; i++) {
        str_format(key, sizeof key, "%02d.edf", i);
        put_object(state, key, "one");
    }
    put_object(state, "zz_last.tsv", "label");
    const struct mirror_config config = {.store = s.store,
                                         .cache = s.cache,
                                         .prefix = "",
                                         .directory = in_dir(state, "tree"),
                                         .arrived = on_arrival,
                                         .arrived_ctx = &arrivals};
    for (int turn = 1; turn <= 2; turn++) { /* fetched, and found in the cache */
        assert_int_equal(mirror_open(&config, note_progress, &s, &s.mirror, &err), 0);
        assert_int_equal(arrivals.n, 20 * turn);
        assert_true(arrivals.labels_were_there);
        mirror_close(s.mirror);
    }
    s.mirror = NULL;
    end(&s);
    pthread_mutex_destroy(&arrivals.lock);
}

static void only_what_changed_is_fetched_again(void **state) {
    struct setting s;
    struct err err = {0};
    struct cache_stats before, after;
    begin(state, &s, 1 << 20);
    put_object(state, "1.edf", "one");
    put_object(state, "2.edf", "two");
    assert_int_equal(mirrored(state, &s, "", 0, &err), 0);
    cache_stats(s.cache, &before);
    assert_int_equal(before.pinned, 2);
    put_object(state, "2.edf", "changed");
    assert_int_equal(mirrored(state, &s, "", 0, &err), 0);
    cache_stats(s.cache, &after);
    assert_int_equal(after.hits - before.hits, 1);
    assert_int_equal(after.entries, 3);
    assert_int_equal(after.pinned, 2);
    assert_file(state, "tree/2.edf", "changed");
    end(&s);
}

static void only_the_first_recordings_are_fetched_when_a_number_is_given(void **state) {
    struct setting s;
    struct err err = {0};
    begin(state, &s, 1 << 20);
    put_object(state, "1.edf", "one");
    put_object(state, "2.edf", "two");
    assert_int_equal(mirrored(state, &s, "", 1, &err), 0);
    assert_true(fsio_exists(in_dir(state, "tree/1.edf")));
    assert_false(fsio_exists(in_dir(state, "tree/2.edf")));
    end(&s);
}

static void a_prefix_without_recordings_is_an_error(void **state) {
    struct setting s;
    struct err err = {0};
    begin(state, &s, 1 << 20);
    put_object(state, "a/x.tsv", "label");
    assert_int_equal(mirrored(state, &s, "a", 0, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no *.edf"));
    end(&s);
}

static void a_cache_that_is_too_small_says_so_and_keeps_nothing_pinned(void **state) {
    struct setting s;
    struct err err = {0};
    struct cache_stats stats;
    begin(state, &s, 5);
    put_object(state, "1.edf", "four");
    put_object(state, "2.edf", "five");
    assert_int_equal(mirrored(state, &s, "", 0, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "cache.max_size"));
    cache_stats(s.cache, &stats);
    assert_int_equal(stats.pinned, 0);
    assert_false(fsio_exists(in_dir(state, "tree")));
    end(&s);
}

static void a_cancel_ends_it(void **state) {
    struct setting s;
    struct err err = {0};
    begin(state, &s, 1 << 20);
    put_object(state, "1.edf", "one");
    s.stop_at = 1;
    assert_int_equal(mirrored(state, &s, "", 0, &err), ERR_CANCELLED);
    end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(recordings_and_labels_of_the_prefix_stand_in_the_tree),
        in_temp_dir(each_recording_is_announced_once_after_all_labels),
        in_temp_dir(only_what_changed_is_fetched_again),
        in_temp_dir(only_the_first_recordings_are_fetched_when_a_number_is_given),
        in_temp_dir(a_prefix_without_recordings_is_an_error),
        in_temp_dir(a_cache_that_is_too_small_says_so_and_keeps_nothing_pinned),
        in_temp_dir(a_cancel_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
