/* A store's recordings as a local tree: what is fetched, what is not, and what stays in the cache. */

#include "base/base.h"
#include "unit/temp_dir.h"

#include "store/mirror.h"
#include "windows/mirrored.h"

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
    assert_int_equal(store_open(&(struct store_config){.url = url}, &s->store, &err), 0);
    assert_int_equal(cache_open(in_dir(state, "cache"), NULL, cache_bytes, &s->cache, &err), 0);
}

static void end(struct setting *s) {
    mirror_close(s->mirror);
    cache_close(s->cache);
    store_close(s->store);
}

static int mirrored(void **state, struct setting *s, const char *prefix, int64_t most, struct err *err) {
    const struct mirror_config config = {.rules = &mirrored_recordings,
                                         .store = s->store,
                                         .cache = s->cache,
                                         .prefix = prefix,
                                         .directory = in_dir(state, "tree"),
                                         .max_recordings = most};
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

/* A plan of one recording does not fetch the parts of all others. */
static void the_first_recordings_come_with_few_parts_of_others(void **state) {
    struct setting s;
    struct err err = {0};
    char name[64];
    begin(state, &s, 1 << 20);
    for (char letter = 'a'; letter <= 'j'; letter++)
        for (int k = 0; k < 3; k++) {
            str_format(name, sizeof name, "%c.%s", letter, ((const char *const[]){"eeg", "vhdr", "vmrk"})[k]);
            put_object(state, name, "text");
        }
    assert_int_equal(mirrored(state, &s, "", 1, &err), 0);
    assert_int_equal(s.last.files, 1 + MIRROR_PARTS);
    assert_true(fsio_exists(in_dir(state, "tree/a.vhdr")) && !fsio_exists(in_dir(state, "tree/b.vhdr")));
    end(&s);
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

/* The same with heads of so many bytes. */
static int headed(void **state, struct setting *s, size_t head_bytes, struct err *err) {
    const struct mirror_config config = {.rules = &mirrored_recordings,
                                         .store = s->store,
                                         .cache = s->cache,
                                         .prefix = "",
                                         .directory = in_dir(state, "tree"),
                                         .head_bytes = head_bytes};
    return mirror_open(&config, note_progress, s, &s->mirror, err);
}

static const char *in_tree(const struct setting *s, char path[800], const char *name) {
    str_format(path, 800, "%s/%s", mirror_directory(s->mirror), name);
    return path;
}

static void of_a_recording_only_the_head_is_fetched_until_it_is_taken(void **state) {
    struct setting s;
    struct err err = {0};
    struct cache_stats stats;
    struct mirror_file file, other;
    char tree[800], path[CACHE_PATH_SIZE];
    begin(state, &s, 1 << 20);
    put_object(state, "1.edf", "head and body");
    put_object(state, "2.edf", "head and legs");
    put_object(state, "3.edf", "hea");
    put_object(state, "x.tsv", "a label of any length");
    assert_int_equal(headed(state, &s, 4, &err), 0);
    assert_file(state, "tree/1.edf", "head");
    assert_file(state, "tree/3.edf", "hea");
    assert_file(state, "tree/x.tsv", "a label of any length");
    cache_stats(s.cache, &stats);
    assert_int_equal(stats.used_bytes, 4 + 4 + 3 + 21);
    assert_int_equal(mirror_stat(s.mirror, in_tree(&s, tree, "1.edf"), &file, &err), 0);
    assert_int_equal(file.bytes, 13);
    assert_int_equal(mirror_stat(s.mirror, in_tree(&s, tree, "2.edf"), &other, &err), 0);
    assert_string_not_equal(file.version, other.version);
    assert_int_equal(mirror_take(s.mirror, in_tree(&s, tree, "1.edf"), path, &err), 0);
    cache_stats(s.cache, &stats);
    assert_int_equal(stats.pinned, 5);
    char *data = NULL;
    size_t len = 0;
    assert_int_equal(fsio_read(path, 100, &data, &len, NULL), 0);
    assert_string_equal(data, "head and body");
    free(data);
    mirror_drop(s.mirror, tree);
    cache_stats(s.cache, &stats);
    assert_int_equal(stats.pinned, 4);
    assert_int_equal(mirror_take(s.mirror, in_tree(&s, tree, "3.edf"), path, &err), 0);
    mirror_drop(s.mirror, tree);
    assert_int_equal(mirror_take(s.mirror, in_tree(&s, tree, "x.tsv"), path, &err), ERR_NOT_FOUND);
    assert_int_equal(mirror_take(s.mirror, "/elsewhere/1.edf", path, &err), ERR_NOT_FOUND);
    mirror_close(s.mirror);
    s.mirror = NULL;
    cache_stats(s.cache, &stats);
    assert_int_equal(stats.pinned, 0);
    put_object(state, "1.edf", "another head");
    assert_int_equal(headed(state, &s, 4, &err), 0);
    assert_int_equal(mirror_stat(s.mirror, in_tree(&s, tree, "1.edf"), &other, &err), 0);
    assert_string_not_equal(file.version, other.version);
    end(&s);
}

static void a_head_comes_from_the_whole_file_when_the_cache_has_that(void **state) {
    struct setting s;
    struct err err = {0};
    begin(state, &s, 1 << 20);
    put_object(state, "1.edf", "head and body");
    assert_int_equal(mirrored(state, &s, "", 0, &err), 0);
    mirror_close(s.mirror);
    s.mirror = NULL;
    struct cache_stats before, after;
    cache_stats(s.cache, &before);
    assert_int_equal(headed(state, &s, 4, &err), 0);
    cache_stats(s.cache, &after);
    assert_file(state, "tree/1.edf", "head");
    assert_int_equal(after.hits - before.hits, 1);
    assert_int_equal(after.pinned, 1);
    end(&s);
}

/* Takes a file, tells that it did, and gives it back when asked to. */
struct taker {
    struct mirror *mirror;
    char tree[800];
    pthread_t thread;
    int rc;
};

static void *take(void *arg) {
    struct taker *t = arg;
    char path[CACHE_PATH_SIZE];
    t->rc = mirror_take(t->mirror, t->tree, path, NULL);
    if (!t->rc)
        mirror_drop(t->mirror, t->tree);
    return NULL;
}

static void start_taker(const struct setting *s, struct taker *t, const char *name) {
    *t = (struct taker){.mirror = s->mirror, .rc = 1};
    in_tree(s, t->tree, name);
    assert_int_equal(pthread_create(&t->thread, NULL, take, t), 0);
}

static void a_prefix_larger_than_the_cache_is_taken_piece_by_piece(void **state) {
    struct setting s;
    struct err err = {0};
    struct taker waiting;
    char tree[800], path[CACHE_PATH_SIZE];
    begin(state, &s, 30);
    put_object(state, "1.edf", "twenty bytes of body");
    put_object(state, "2.edf", "twenty bytes of legs");
    put_object(state, "3.edf", "far too large to fit into the cache beside the heads");
    assert_int_equal(headed(state, &s, 2, &err), 0);
    assert_int_equal(mirror_take(s.mirror, in_tree(&s, tree, "1.edf"), path, &err), 0);
    start_taker(&s, &waiting, "2.edf");
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_true(fsio_exists(path)); /* pinned: the other one waits */
    mirror_drop(s.mirror, tree);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.rc, 0);
    assert_int_equal(mirror_failure(s.mirror, &err), 0);
    assert_int_equal(mirror_take(s.mirror, in_tree(&s, tree, "3.edf"), path, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "cache.max_size"));
    assert_int_equal(mirror_failure(s.mirror, NULL), ERR_EXHAUSTED);
    end(&s);
}

static void an_object_replaced_after_the_list_cannot_be_taken(void **state) {
    struct setting s;
    struct err err = {0};
    char tree[800], path[CACHE_PATH_SIZE];
    begin(state, &s, 1 << 20);
    put_object(state, "1.edf", "head and body");
    assert_int_equal(headed(state, &s, 4, &err), 0);
    put_object(state, "1.edf", "head and another body");
    assert_int_equal(mirror_take(s.mirror, in_tree(&s, tree, "1.edf"), path, &err), ERR_ABORTED);
    assert_non_null(strstr(err.message, "1.edf was replaced"));
    err = (struct err){0};
    assert_int_equal(mirror_failure(s.mirror, &err), ERR_ABORTED);
    assert_non_null(strstr(err.message, "1.edf was replaced"));
    end(&s);
}

static void a_head_that_is_not_how_the_file_begins_is_replaced(void **state) {
    struct setting s;
    struct err err = {0};
    struct cache_stats stats;
    struct mirror_file file;
    char tree[800], path[CACHE_PATH_SIZE], target[CACHE_PATH_SIZE] = "";
    begin(state, &s, 1 << 20);
    put_object(state, "1.edf", "head and body");
    assert_int_equal(headed(state, &s, 4, &err), 0);
    assert_true(readlink(in_tree(&s, tree, "1.edf"), target, sizeof target - 1) > 0);
    put_file(target, "hexd", 4); /* damaged on its way */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mirror_take(s.mirror, tree, path, &err), 0);
        assert_file(state, "tree/1.edf", "head");
        assert_int_equal(mirror_stat(s.mirror, tree, &file, &err), 0);
        assert_int_equal(file.refetched, 1);
        mirror_drop(s.mirror, tree);
    }
    cache_stats(s.cache, &stats);
    assert_int_equal(stats.pinned, 1);
    mirror_close(s.mirror);
    s.mirror = NULL;
    assert_int_equal(headed(state, &s, 4, &err), 0);
    assert_file(state, "tree/1.edf", "head"); /* in the cache too */
    end(&s);
}

static void a_stop_wakes_who_waits_and_refuses_who_comes(void **state) {
    struct setting s;
    struct err err = {0};
    struct taker waiting;
    char tree[800], path[CACHE_PATH_SIZE];
    begin(state, &s, 30);
    put_object(state, "1.edf", "twenty bytes of body");
    put_object(state, "2.edf", "twenty bytes of legs");
    assert_int_equal(headed(state, &s, 2, &err), 0);
    assert_int_equal(mirror_take(s.mirror, in_tree(&s, tree, "1.edf"), path, &err), 0);
    start_taker(&s, &waiting, "2.edf");
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    mirror_stop(s.mirror);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.rc, ERR_CANCELLED);
    mirror_drop(s.mirror, tree);
    assert_int_equal(mirror_take(s.mirror, tree, path, &err), ERR_CANCELLED);
    assert_int_equal(mirror_failure(s.mirror, NULL), 0); /* nothing has failed */
    end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(recordings_and_labels_of_the_prefix_stand_in_the_tree),
        in_temp_dir(the_first_recordings_come_with_few_parts_of_others),
        in_temp_dir(only_what_changed_is_fetched_again),
        in_temp_dir(only_the_first_recordings_are_fetched_when_a_number_is_given),
        in_temp_dir(a_prefix_without_recordings_is_an_error),
        in_temp_dir(a_cache_that_is_too_small_says_so_and_keeps_nothing_pinned),
        in_temp_dir(a_cancel_ends_it),
        in_temp_dir(of_a_recording_only_the_head_is_fetched_until_it_is_taken),
        in_temp_dir(a_head_comes_from_the_whole_file_when_the_cache_has_that),
        in_temp_dir(a_prefix_larger_than_the_cache_is_taken_piece_by_piece),
        in_temp_dir(an_object_replaced_after_the_list_cannot_be_taken),
        in_temp_dir(a_head_that_is_not_how_the_file_begins_is_replaced),
        in_temp_dir(a_stop_wakes_who_waits_and_refuses_who_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
