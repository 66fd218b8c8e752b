#include "base/base.h"
#include "unit/failing_readdir.h"
#include "unit/temp_dir.h"

#include "store/store.h"

static struct store *opened(void **state) {
    char url[512];
    struct store *store = NULL;
    struct err err = {0};
    assert_int_equal(fsio_mkdirs(in_dir(state, "objects"), NULL), 0);
    assert_true(str_format(url, sizeof url, "file://%s", in_dir(state, "objects")));
    if (store_open(&(struct store_config){.url = url}, &store, &err))
        fail_msg("%s", err.message);
    return store;
}

static void put_object(void **state, const char *key, const char *text) {
    char path[512];
    assert_true(str_format(path, sizeof path, "%s/objects/%s", (const char *)*state, key));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(fsio_mkdirs(path, NULL), 0);
    *slash = '/';
    put_file(path, text, strlen(text));
}

static void assert_object(void **state, const char *key, const char *want) {
    char path[512], *text;
    size_t len;
    assert_true(str_format(path, sizeof path, "%s/objects/%s", (const char *)*state, key));
    assert_int_equal(fsio_read(path, 1 << 24, &text, &len, NULL), 0);
    assert_string_equal(text, want);
    free(text);
}

static void a_url_that_is_no_store_says_what_is_accepted(void **state) {
    struct store *store = NULL;
    struct err err = {0};
    char url[600];
    static const char *const bad[] = {"", "/abs", "file://relative", "http://x", "file:"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(store_open(&(struct store_config){.url = bad[i]}, &store, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "expected file:///DIRECTORY"));
    }
    assert_true(str_format(url, sizeof url, "file://%s/none", (const char *)*state));
    assert_int_equal(store_open(&(struct store_config){.url = url}, &store, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/none is not a directory"));
    assert_null(store);
    store_close(NULL);
}

static void keys_that_leave_the_store_are_refused_by_every_operation(void **state) {
    struct store *store = opened(state);
    static const char *const bad[] = {"", "/", "/abs", "a//b", "a/", "..", "../x", "a/../b", "a/..", ".", "a/./b", "a\nb", "a\x7f"};
    char longer[1100];
    memset(longer, 'a', sizeof longer);
    longer[1025] = '\0';
    put_file(in_dir(state, "x"), "secret", 6);
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        const char *key = i < sizeof bad / sizeof *bad ? bad[i] : longer;
        struct store_item item;
        struct err err = {0};
        char buf[8];
        struct store_piece piece = {.buf = buf, .len = sizeof buf};
        assert_int_equal(store_stat(store, key, &item, NULL, &err), ERR_INVALID);
        assert_int_equal(store_read(store, key, &piece, NULL, &err), ERR_INVALID);
        assert_int_equal(store_get(store, key, in_dir(state, "out"), NULL, &err), ERR_INVALID);
        assert_int_equal(store_put(store, in_dir(state, "x"), key, NULL, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "key"));
    }
    assert_false(fsio_exists(in_dir(state, "out")));
    struct store_page page;
    assert_int_equal(store_list(store, "../", "", &page, NULL), ERR_INVALID);
    assert_int_equal(store_list(store, "/", "", &page, NULL), ERR_INVALID);
    store_close(store);
}

/* "key key … " of all pages. */
static void list_all(struct store *store, const char *prefix, char *ret, size_t size) {
    char after[STORE_KEY_SIZE] = "";
    struct store_page page;
    ret[0] = '\0';
    do {
        assert_int_equal(store_list(store, prefix, after, &page, NULL), 0);
        for (size_t i = 0; i < page.count; i++) {
            size_t at = strlen(ret);
            assert_true(str_format(ret + at, size - at, "%s ", page.items[i].key));
        }
        if (page.count)
            str_copy(after, sizeof after, page.items[page.count - 1].key);
        bool more = page.more;
        store_page_done(&page);
        if (!more)
            return;
    } while (1);
}

static void a_folder_that_cannot_be_listed_to_its_end_is_an_error(void **state) {
    struct store *store = opened(state);
    struct store_page page;
    struct err err;
    put_object(state, "a", "1");
    for (int left = 0; left <= 3; left++) { /* ".", ".." and the object */
        entries = left;
        assert_int_equal(store_list(store, "", "", &page, &err), ERR_INTERNAL);
    }
    entries = -1;
    assert_int_equal(store_list(store, "", "", &page, NULL), 0);
    assert_int_equal(page.count, 1);
    store_page_done(&page);
    store_close(store);
}

static void a_list_is_in_byte_order_of_whole_keys_under_a_prefix(void **state) {
    struct store *store = opened(state);
    static const char *const keys[] = {"b", "a/2", "a.edf", "a/1/z", "a-b", "aa", "a0/x", "\xc3\xa9"};
    char seen[256];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put_object(state, keys[i], "x");
    list_all(store, "", seen, sizeof seen);
    assert_string_equal(seen, "a-b a.edf a/1/z a/2 a0/x aa b \xc3\xa9 ");
    list_all(store, "a/", seen, sizeof seen);
    assert_string_equal(seen, "a/1/z a/2 ");
    list_all(store, "a", seen, sizeof seen);
    assert_string_equal(seen, "a-b a.edf a/1/z a/2 a0/x aa ");
    list_all(store, "a/1/z", seen, sizeof seen);
    assert_string_equal(seen, "a/1/z ");
    list_all(store, "a/1/zz", seen, sizeof seen);
    assert_string_equal(seen, "");
    struct store_page page;
    static const char *const after[] = {"a.edf", "a/", "a/1", "a/1/z", "a/9", "b"}, *const next[] = {"a/1/z", "a/1/z", "a/1/z",
                                                                                                     "a/2",   "a0/x",  "\xc3\xa9"};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        assert_int_equal(store_list(store, "", after[i], &page, NULL), 0);
        assert_string_equal(page.items[0].key, next[i]);
        store_page_done(&page);
    }
    store_close(store);
}

static void what_is_no_object_is_not_listed(void **state) {
    struct store *store = opened(state);
    char seen[256];
    put_object(state, "file", "x");
    put_object(state, "file.tmp-12-0", "a write in progress");
    put_object(state, "file.tmp-x", "an object with an odd name");
    assert_int_equal(symlink("file", in_dir(state, "objects/link")), 0);
    assert_int_equal(symlink("..", in_dir(state, "objects/loop")), 0);
    assert_int_equal(symlink("nowhere", in_dir(state, "objects/dangling")), 0);
    assert_int_equal(mkfifo(in_dir(state, "objects/fifo"), 0600), 0);
    assert_int_equal(fsio_mkdirs(in_dir(state, "objects/empty"), NULL), 0);
    list_all(store, "", seen, sizeof seen);
    assert_string_equal(seen, "file file.tmp-x link ");
    store_close(store);
}

static void a_long_list_comes_in_pages(void **state) {
    struct store *store = opened(state);
    enum { N = STORE_PAGE_MAX + 5 };
    for (int i = 0; i < N; i++) {
        char name[64];
        str_format(name, sizeof name, "%s/objects/k%05d", (const char *)*state, i);
        int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    struct store_page page;
    assert_int_equal(store_list(store, "", "", &page, NULL), 0);
    assert_int_equal(page.count, STORE_PAGE_MAX);
    assert_true(page.more);
    char after[STORE_KEY_SIZE];
    str_copy(after, sizeof after, page.items[page.count - 1].key);
    assert_string_equal(after, "k00999");
    store_page_done(&page);
    assert_int_equal(store_list(store, "", after, &page, NULL), 0);
    assert_int_equal(page.count, 5);
    assert_false(page.more);
    store_page_done(&page);
    store_close(store);
}

static void a_range_reads_what_there_is(void **state) {
    struct store *store = opened(state);
    struct err err = {0};
    put_object(state, "a", "0123456789");
    static const struct {
        int64_t offset;
        size_t want;
        const char *got;
    } cases[] = {{0, 4, "0123"}, {3, 4, "3456"}, {8, 4, "89"}, {10, 4, ""}, {1000, 4, ""}, {0, 0, ""}, {0, 64, "0123456789"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buf[64] = "";
        struct store_piece piece = {cases[i].offset, buf, cases[i].want};
        assert_int_equal(store_read(store, "a", &piece, NULL, &err), 0);
        assert_int_equal(piece.len, strlen(cases[i].got));
        assert_memory_equal(buf, cases[i].got, piece.len);
    }
    char buf[4];
    struct store_piece before = {-1, buf, 4}, piece = {0, buf, 4};
    assert_int_equal(store_read(store, "a", &before, NULL, &err), ERR_INVALID);
    assert_int_equal(store_read(store, "none", &piece, NULL, &err), ERR_NOT_FOUND);
    assert_int_equal(fsio_mkdirs(in_dir(state, "objects/d"), NULL), 0);
    assert_int_equal(store_read(store, "d", &piece, NULL, &err), ERR_NOT_FOUND);
    assert_int_equal(piece.len, 4);
    store_close(store);
}

static void a_range_of_another_version_than_the_wanted_one_is_refused(void **state) {
    struct store *store = opened(state);
    struct store_item item;
    struct err err = {0};
    char buf[4];
    struct store_piece piece = {0, buf, 4};
    put_object(state, "a", "0123456789");
    assert_int_equal(store_stat(store, "a", &item, NULL, &err), 0);
    const struct store_watch watch = {.tag = item.tag};
    assert_int_equal(store_read(store, "a", &piece, &watch, &err), 0);
    put_object(state, "a", "012345678901");
    assert_int_equal(store_read(store, "a", &piece, &watch, &err), ERR_ABORTED);
    assert_non_null(strstr(err.message, "changed"));
    store_close(store);
}

static void a_tag_changes_with_the_content(void **state) {
    struct store *store = opened(state);
    struct store_item before, after;
    put_object(state, "a", "one");
    assert_int_equal(store_stat(store, "a", &before, NULL, NULL), 0);
    assert_int_equal(before.size_bytes, 3);
    assert_true(before.mtime_ns > 0 && before.tag[0]);
    assert_string_equal(before.key, "a");
    assert_int_equal(store_stat(store, "a", &after, NULL, NULL), 0);
    assert_string_equal(before.tag, after.tag);
    put_object(state, "a", "two"); /* same size, perhaps within one tick of the clock */
    assert_int_equal(store_stat(store, "a", &after, NULL, NULL), 0);
    assert_string_not_equal(before.tag, after.tag);
    assert_int_equal(store_stat(store, "none", &after, NULL, NULL), ERR_NOT_FOUND);
    store_close(store);
}

static void put_and_get_copy_whole_objects(void **state) {
    struct store *store = opened(state);
    struct err err = {0};
    char *text;
    size_t len;
    put_file(in_dir(state, "in"), "payload", 7);
    if (store_put(store, in_dir(state, "in"), "deep/er/key", NULL, &err))
        fail_msg("%s", err.message);
    assert_object(state, "deep/er/key", "payload");
    put_file(in_dir(state, "out"), "old", 3);
    assert_int_equal(store_get(store, "deep/er/key", in_dir(state, "out"), NULL, &err), 0);
    assert_int_equal(fsio_read(in_dir(state, "out"), 100, &text, &len, NULL), 0);
    assert_string_equal(text, "payload");
    free(text);
    put_file(in_dir(state, "in"), "", 0);
    assert_int_equal(store_put(store, in_dir(state, "in"), "deep/er/key", NULL, &err), 0); /* replaces, and may be empty */
    assert_object(state, "deep/er/key", "");
    assert_int_equal(store_put(store, in_dir(state, "none"), "k", NULL, &err), ERR_NOT_FOUND);
    assert_int_equal(store_put(store, *state, "k", NULL, &err), ERR_INVALID);
    assert_int_equal(store_get(store, "none", in_dir(state, "out"), NULL, &err), ERR_NOT_FOUND);
    assert_int_not_equal(store_put(store, in_dir(state, "in"), "deep/er/key/below", NULL, &err), 0);
    store_close(store);
}

struct watcher {
    int64_t last, total;
    int calls, stop_at;
    const char *grow; /* file to write to when called */
};

static bool on_progress(void *ctx, int64_t done, int64_t total) {
    struct watcher *w = ctx;
    assert_true(done >= w->last && done <= total);
    w->last = done;
    w->total = total;
    if (w->grow && w->calls == 1) {
        int fd = open(w->grow, O_WRONLY | O_APPEND | O_CLOEXEC);
        assert_true(fd >= 0 && write(fd, "more", 4) == 4);
        close(fd);
    }
    return ++w->calls != w->stop_at;
}

static void a_copy_tells_its_progress_and_can_be_cancelled(void **state) {
    struct store *store = opened(state);
    enum { SIZE = (3 << 20) + 5 };
    char *data = calloc(1, SIZE);
    struct err err = {0};
    struct watcher all = {0}, some = {.stop_at = 2};
    assert_non_null(data);
    put_file(in_dir(state, "in"), data, SIZE);
    free(data);
    put_object(state, "k", "old");
    struct store_watch watch = {.progress = on_progress, .ctx = &all};
    assert_int_equal(store_put(store, in_dir(state, "in"), "big", &watch, &err), 0);
    assert_true(all.calls >= 4);
    assert_int_equal(all.total, SIZE);
    watch.ctx = &some;
    assert_int_equal(store_put(store, in_dir(state, "in"), "k", &watch, &err), ERR_CANCELLED);
    assert_object(state, "k", "old");
    some = (struct watcher){.stop_at = 1};
    assert_int_equal(store_get(store, "big", in_dir(state, "out"), &watch, &err), ERR_CANCELLED);
    assert_false(fsio_exists(in_dir(state, "out")));
    char seen[100];
    list_all(store, "", seen, sizeof seen);
    assert_string_equal(seen, "big k ");
    store_close(store);
}

static void an_object_that_changes_under_the_copy_aborts_it(void **state) {
    struct store *store = opened(state);
    enum { SIZE = 3 << 20 };
    char *data = calloc(1, SIZE);
    char path[512];
    struct err err = {0};
    assert_non_null(data);
    str_copy(path, sizeof path, in_dir(state, "objects/k"));
    put_file(path, data, SIZE);
    free(data);
    struct watcher w = {.grow = path};
    struct store_watch watch = {.progress = on_progress, .ctx = &w};
    assert_int_equal(store_get(store, "k", in_dir(state, "out"), &watch, &err), ERR_ABORTED);
    assert_non_null(strstr(err.message, "changed while it was copied"));
    assert_false(fsio_exists(in_dir(state, "out")));
    w = (struct watcher){0};
    assert_int_equal(store_get(store, "k", in_dir(state, "out"), &watch, &err), 0);
    store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_url_that_is_no_store_says_what_is_accepted),
        in_temp_dir(keys_that_leave_the_store_are_refused_by_every_operation),
        in_temp_dir(a_list_is_in_byte_order_of_whole_keys_under_a_prefix),
        in_temp_dir(a_folder_that_cannot_be_listed_to_its_end_is_an_error),
        in_temp_dir(what_is_no_object_is_not_listed),
        in_temp_dir(a_long_list_comes_in_pages),
        in_temp_dir(a_range_reads_what_there_is),
        in_temp_dir(a_range_of_another_version_than_the_wanted_one_is_refused),
        in_temp_dir(a_tag_changes_with_the_content),
        in_temp_dir(put_and_get_copy_whole_objects),
        in_temp_dir(a_copy_tells_its_progress_and_can_be_cancelled),
        in_temp_dir(an_object_that_changes_under_the_copy_aborts_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
