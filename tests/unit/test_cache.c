#include <signal.h>
#include <sys/wait.h>

#include "base/base.h"
#include "unit/temp_dir.h"

#include "store/cache.h"

/* The key of entry i: its first two digits spread over the shards. */
static const char *key_of(int i) {
    static char keys[4][DIGEST_HEX_SIZE];
    static int turn;
    char *key = keys[turn++ & 3];
    assert_true(digest_bytes(&i, sizeof i, key));
    return key;
}

static struct cache *opened(void **state, int64_t max_bytes) {
    struct cache *cache = NULL;
    struct err err = {0};
    if (cache_open(in_dir(state, "cache"), NULL, max_bytes, &cache, &err))
        fail_msg("%s", err.message);
    return cache;
}

/* Fill key i with n bytes of its number; pinned afterwards. */
static int fill(struct cache *cache, int i, int64_t n, char *ret_path) {
    struct cache_slot slot;
    struct err err = {0};
    int rc = cache_reserve(cache, key_of(i), n, &slot, &err);
    if (rc)
        return rc;
    char *data = malloc((size_t)n + 1);
    assert_non_null(data);
    memset(data, 'a' + i % 26, (size_t)n);
    put_file(slot.path, data, (size_t)n);
    free(data);
    return cache_commit(cache, &slot, ret_path, &err);
}

static void put(struct cache *cache, int i, int64_t n) {
    char path[CACHE_PATH_SIZE];
    assert_int_equal(fill(cache, i, n, path), 0);
    cache_unpin(cache, key_of(i));
}

static bool has(struct cache *cache, int i) {
    char path[CACHE_PATH_SIZE];
    int rc = cache_lookup(cache, key_of(i), path, NULL);
    assert_true(rc == 0 || rc == ERR_NOT_FOUND);
    if (!rc)
        cache_unpin(cache, key_of(i));
    return rc == 0;
}

static struct cache_stats stats_of(struct cache *cache) {
    struct cache_stats s;
    cache_stats(cache, &s);
    return s;
}

static int count_file(void *ctx, const char *relative, int64_t size, struct err *err) {
    (void)size, (void)err;
    *(int *)ctx += !str_ends(relative, ".lock");
    return 0;
}

static int files_in(void **state, const char *name) {
    int n = 0;
    assert_int_equal(fsio_walk(in_dir(state, name), count_file, &n, NULL), 0);
    return n;
}

static void a_miss_is_filled_once_and_then_hit(void **state) {
    struct cache *cache = opened(state, 1000);
    char path[CACHE_PATH_SIZE] = "", again[CACHE_PATH_SIZE] = "untouched", *text;
    size_t len;
    assert_int_equal(cache_lookup(cache, key_of(1), again, NULL), ERR_NOT_FOUND);
    assert_string_equal(again, "untouched");
    assert_int_equal(fill(cache, 1, 10, path), 0);
    assert_true(str_ends(path, key_of(1)));
    assert_int_equal(cache_lookup(cache, key_of(1), again, NULL), 0);
    assert_string_equal(path, again);
    assert_int_equal(fsio_read(path, 100, &text, &len, NULL), 0);
    assert_string_equal(text, "bbbbbbbbbb");
    free(text);
    struct cache_stats s = stats_of(cache);
    assert_int_equal(s.hits, 1);
    assert_int_equal(s.misses, 1);
    assert_int_equal(s.entries, 1);
    assert_int_equal(s.pinned, 1);
    assert_int_equal(s.used_bytes, 10);
    assert_int_equal(s.capacity_bytes, 1000);
    cache_unpin(cache, key_of(1));
    assert_int_equal(stats_of(cache).pinned, 1); /* two pins, one gone */
    cache_unpin(cache, key_of(1));
    assert_int_equal(stats_of(cache).pinned, 0);
    cache_unpin(cache, key_of(1)); /* one too many is harmless */
    cache_unpin(cache, key_of(2));
    cache_close(cache);
    cache_close(NULL);
}

static void the_oldest_unpinned_entries_make_room(void **state) {
    struct cache *cache = opened(state, 300);
    char path[CACHE_PATH_SIZE];
    for (int i = 0; i < 3; i++)
        put(cache, i, 100);
    assert_true(has(cache, 0)); /* used again: 1 is the oldest now */
    put(cache, 3, 100);
    assert_true(has(cache, 0) && !has(cache, 1) && has(cache, 2) && has(cache, 3));
    assert_int_equal(cache_lookup(cache, key_of(0), path, NULL), 0); /* the oldest stays while pinned */
    put(cache, 4, 200);
    assert_true(has(cache, 0) && !has(cache, 2) && !has(cache, 3) && has(cache, 4));
    assert_true(fsio_exists(path));
    struct cache_stats s = stats_of(cache);
    assert_int_equal(s.evictions, 3);
    assert_int_equal(s.used_bytes, 300);
    assert_int_equal(files_in(state, "cache"), 2);
    cache_close(cache);
}

static void what_does_not_fit_is_refused_with_the_mend(void **state) {
    struct cache *cache = opened(state, 300);
    struct cache_slot slot, other;
    struct err err = {0};
    char path[CACHE_PATH_SIZE];
    put(cache, 0, 100);
    assert_int_equal(cache_reserve(cache, key_of(1), 301, &slot, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "raise cache.max_size"));
    assert_true(has(cache, 0)); /* nothing was evicted for what can never fit */
    assert_int_equal(cache_reserve(cache, key_of(1), 250, &slot, &err), 0);
    assert_false(has(cache, 0));
    assert_int_equal(cache_reserve(cache, key_of(2), 100, &other, &err), ERR_EXHAUSTED); /* reserved room is in use */
    assert_non_null(strstr(err.message, "in use by running work"));
    cache_abort(cache, &slot);
    assert_int_equal(stats_of(cache).used_bytes, 0);
    assert_int_equal(fill(cache, 3, 200, path), 0); /* pinned */
    assert_int_equal(cache_reserve(cache, key_of(4), 200, &slot, &err), ERR_EXHAUSTED);
    assert_true(has(cache, 3));
    assert_int_equal(cache_reserve(cache, key_of(4), -1, &slot, &err), ERR_INVALID);
    cache_unpin(cache, key_of(3));
    cache_close(cache);
}

static void a_file_larger_than_reserved_needs_room_too(void **state) {
    struct cache *cache = opened(state, 300);
    struct cache_slot slot;
    struct err err = {0};
    char path[CACHE_PATH_SIZE] = "untouched", data[400] = {0};
    put(cache, 0, 100);
    assert_int_equal(cache_reserve(cache, key_of(1), 10, &slot, &err), 0);
    put_file(slot.path, data, 250);
    assert_int_equal(cache_commit(cache, &slot, path, &err), 0); /* the old entry went for it */
    assert_false(has(cache, 0));
    assert_int_equal(stats_of(cache).used_bytes, 250);
    cache_unpin(cache, key_of(1));
    str_copy(path, sizeof path, "untouched");
    assert_int_equal(cache_reserve(cache, key_of(2), 10, &slot, &err), 0);
    put_file(slot.path, data, 301);
    assert_int_equal(cache_commit(cache, &slot, path, &err), ERR_EXHAUSTED);
    assert_string_equal(path, "untouched");
    assert_false(fsio_exists(slot.path) || has(cache, 2));
    assert_int_equal(cache_reserve(cache, key_of(3), 10, &slot, &err), 0);
    assert_int_equal(cache_commit(cache, &slot, path, &err), ERR_NOT_FOUND); /* never written */
    assert_int_equal(stats_of(cache).used_bytes, 250);
    assert_int_equal(files_in(state, "cache/partial"), 0);
    cache_close(cache);
}

static void the_first_of_two_fillers_wins(void **state) {
    struct cache *cache = opened(state, 1000);
    struct cache_slot one, two;
    char path_one[CACHE_PATH_SIZE], path_two[CACHE_PATH_SIZE], *text;
    size_t len;
    assert_int_equal(cache_reserve(cache, key_of(1), 10, &one, NULL), 0);
    assert_int_equal(cache_reserve(cache, key_of(1), 10, &two, NULL), 0);
    assert_string_not_equal(one.path, two.path);
    put_file(one.path, "first", 5);
    put_file(two.path, "second", 6);
    assert_int_equal(cache_commit(cache, &one, path_one, NULL), 0);
    assert_int_equal(cache_commit(cache, &two, path_two, NULL), 0);
    assert_string_equal(path_one, path_two);
    assert_int_equal(fsio_read(path_one, 100, &text, &len, NULL), 0);
    assert_string_equal(text, "first");
    free(text);
    struct cache_stats s = stats_of(cache);
    assert_int_equal(s.entries, 1);
    assert_int_equal(s.used_bytes, 5);
    assert_int_equal(files_in(state, "cache/partial"), 0);
    cache_close(cache);
}

static void keys_that_are_no_digests_are_refused(void **state) {
    struct cache *cache = opened(state, 1000);
    struct cache_slot slot;
    struct err err = {0};
    char path[CACHE_PATH_SIZE];
    static const char *const bad[] = {"", "abc", "../../../../etc/passwd", "ABCDEF"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(cache_lookup(cache, bad[i], path, &err), ERR_INVALID);
        assert_int_equal(cache_reserve(cache, bad[i], 1, &slot, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "64 lower-case hex digits"));
    }
    cache_close(cache);
}

static void a_second_owner_is_refused_and_told_who_holds_it(void **state) {
    struct cache *cache = opened(state, 1000), *other = NULL;
    struct err err = {0};
    char pid[32];
    assert_int_equal(cache_open(in_dir(state, "cache"), NULL, 1000, &other, &err), ERR_PRECONDITION);
    assert_null(other);
    assert_true(str_format(pid, sizeof pid, "process %ld", (long)getpid()));
    assert_non_null(strstr(err.message, pid));
    put(cache, 1, 10); /* the first one is not disturbed */
    cache_close(cache);
    cache = opened(state, 1000);
    assert_true(has(cache, 1));
    cache_close(cache);
    assert_int_equal(cache_open(in_dir(state, "cache"), NULL, 0, &other, &err), ERR_INVALID);
    put_file(in_dir(state, "file"), "", 0);
    assert_int_not_equal(cache_open(in_dir(state, "file"), NULL, 10, &other, &err), 0);
}

static void entries_and_their_order_of_use_outlive_the_process(void **state) {
    struct cache *cache = opened(state, 300);
    for (int i = 0; i < 3; i++) {
        put(cache, i, 100);
        usleep(20000); /* file times tick by milliseconds */
    }
    assert_true(has(cache, 0));
    cache_close(cache);
    put_file(in_dir(state, "cache/entries/note"), "not ours", 8);
    cache = opened(state, 300);
    assert_int_equal(stats_of(cache).entries, 3);
    assert_int_equal(stats_of(cache).used_bytes, 300);
    put(cache, 3, 100);
    assert_true(has(cache, 0) && !has(cache, 1) && has(cache, 2));
    cache_close(cache);
    cache = opened(state, 150); /* a smaller limit evicts at once */
    assert_int_equal(stats_of(cache).entries, 1);
    cache_close(cache);
    assert_true(fsio_exists(in_dir(state, "cache/entries/note")));
}

/* What a writer keeps beside the slot's path while it is under way. */
static bool leave_part(const struct cache_slot *slot, const char *text) {
    char path[CACHE_PATH_SIZE + 8];
    return str_format(path, sizeof path, "%s.part", slot->path) && fsio_write_atomic(path, text, strlen(text), NULL) == 0;
}

static void a_process_killed_in_a_fill_leaves_no_torn_entry(void **state) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct cache *cache;
        struct cache_slot slot;
        char path[CACHE_PATH_SIZE];
        bool ok = cache_open(in_dir(state, "cache"), NULL, 1000, &cache, NULL) == 0 && fill(cache, 1, 10, path) == 0 &&
                  cache_reserve(cache, key_of(2), 100, &slot, NULL) == 0 && leave_part(&slot, "half") &&
                  write(ready[1], "x", 1) == 1;
        for (;;)
            ok ? pause() : _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(files_in(state, "cache/partial"), 1);
    struct cache *cache = opened(state, 1000); /* the lock died with its holder */
    assert_true(has(cache, 1));
    assert_false(has(cache, 2));
    assert_int_equal(files_in(state, "cache/partial"), 1); /* the next writer may go on from it */
    assert_int_equal(stats_of(cache).used_bytes, 14);
    put(cache, 2, 100);
    assert_true(has(cache, 2));
    assert_int_equal(files_in(state, "cache/partial"), 0);
    assert_int_equal(stats_of(cache).used_bytes, 110);
    cache_close(cache);
}

static void a_suspended_fill_is_gone_on_with(void **state) {
    struct cache *cache = opened(state, 300);
    struct cache_slot slot, other;
    char first[CACHE_PATH_SIZE], path[CACHE_PATH_SIZE + 8];
    put(cache, 1, 100);
    assert_int_equal(cache_reserve(cache, key_of(2), 150, &slot, NULL), 0);
    str_copy(first, sizeof first, slot.path);
    assert_true(leave_part(&slot, "half"));
    cache_suspend(cache, &slot);
    assert_int_equal(stats_of(cache).used_bytes, 104);
    for (int turn = 0; turn < 2; turn++) { /* in this process, and in the next */
        assert_int_equal(cache_reserve(cache, key_of(2), 150, &slot, NULL), 0);
        assert_string_equal(slot.path, first);
        str_format(path, sizeof path, "%s.part", slot.path);
        assert_true(fsio_exists(path));
        assert_int_equal(stats_of(cache).used_bytes, 250);
        assert_int_equal(cache_reserve(cache, key_of(2), 10, &other, NULL), 0); /* a second writer does not get in its way */
        assert_string_not_equal(other.path, first);
        cache_abort(cache, &other);
        cache_suspend(cache, &slot);
        cache_close(cache);
        cache = opened(state, 300);
    }
    assert_int_equal(cache_reserve(cache, key_of(2), 301, &slot, NULL), ERR_EXHAUSTED); /* stays for a better day */
    assert_true(fsio_exists(path));
    assert_int_equal(stats_of(cache).used_bytes, 104);
    assert_int_equal(cache_reserve(cache, key_of(2), 150, &slot, NULL), 0);
    cache_abort(cache, &slot);
    assert_false(fsio_exists(path));
    assert_int_equal(stats_of(cache).used_bytes, 100);
    cache_close(cache);
}

/* Room is promised once: what one writer has yet to write is not there for the next. */
static void a_volume_is_not_promised_twice(void **state) {
    struct cache *cache = opened(state, INT64_MAX);
    struct cache_slot one, two, beside;
    struct err err = {0};
    char part[CACHE_PATH_SIZE + 8];
    int64_t most = fsio_free_bytes(in_dir(state, "cache")) / 10 * 6;
    assert_int_equal(cache_reserve(cache, key_of(1), most, &one, &err), 0);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(cache_reserve(cache, key_of(2), most, &two, &err), ERR_EXHAUSTED);
        assert_non_null(strstr(err.message, "promised to other files"));
        assert_int_equal(cache_reserve(cache, key_of(1), most, &beside, &err), ERR_EXHAUSTED); /* nor to another writer of it */
        str_format(part, sizeof part, "%s.part", one.path);
        FILE *f = fopen(part, "w"); /* holes are not written */
        assert_non_null(f);
        assert_int_equal(ftruncate(fileno(f), most), 0);
        fclose(f);
        cache_suspend(cache, &one);
        assert_int_equal(stats_of(cache).used_bytes, 0);
        assert_int_equal(cache_reserve(cache, key_of(1), most, &one, &err), 0);
    }
    cache_abort(cache, &one);
    assert_int_equal(cache_reserve(cache, key_of(2), most, &two, &err), 0);
    cache_abort(cache, &two);
    assert_int_equal(cache_reserve(cache, key_of(3), 10, &one, &err), 0); /* beside one that was taken up */
    put_file(one.path, "0123456789", 10);
    assert_int_equal(cache_reserve(cache, key_of(2), most, &two, &err), 0);
    assert_int_equal(cache_commit(cache, &one, part, &err), 0);
    cache_abort(cache, &two);
    cache_close(cache);
}

static void what_was_left_goes_before_entries_do(void **state) {
    struct cache *cache = opened(state, 300);
    struct cache_slot slot;
    put(cache, 1, 100);
    for (int i = 2; i < 4; i++) {
        assert_int_equal(cache_reserve(cache, key_of(i), 90, &slot, NULL), 0);
        assert_true(leave_part(&slot, "a half that takes up forty bytes of disk"));
        cache_suspend(cache, &slot);
    }
    assert_int_equal(stats_of(cache).used_bytes, 180);
    put(cache, 4, 150); /* the older of the two goes */
    assert_int_equal(stats_of(cache).used_bytes, 290);
    assert_true(has(cache, 1));
    put(cache, 5, 50);
    assert_true(has(cache, 1) && has(cache, 4) && has(cache, 5));
    assert_int_equal(files_in(state, "cache/partial"), 0);
    assert_int_equal(stats_of(cache).used_bytes, 300);
    for (int i = 10; i < 110; i++) { /* never more than some tens of them */
        assert_int_equal(cache_reserve(cache, key_of(i), 0, &slot, NULL), 0);
        assert_true(leave_part(&slot, ""));
        cache_suspend(cache, &slot);
    }
    assert_true(files_in(state, "cache/partial") <= 64);
    cache_close(cache);
}

static void a_discarded_entry_is_gone_unless_others_use_it(void **state) {
    struct cache *cache = opened(state, 300);
    char path[CACHE_PATH_SIZE];
    assert_int_equal(fill(cache, 1, 10, path), 0);
    assert_int_equal(cache_lookup(cache, key_of(1), path, NULL), 0);
    cache_discard(cache, key_of(1));
    assert_true(has(cache, 1)); /* the other pin holds it */
    cache_discard(cache, key_of(1));
    assert_false(has(cache, 1));
    assert_false(fsio_exists(path));
    assert_int_equal(stats_of(cache).used_bytes, 0);
    cache_discard(cache, key_of(2));
    cache_close(cache);
}

static void a_file_removed_behind_its_back_is_a_miss_and_can_be_filled_again(void **state) {
    struct cache *cache = opened(state, 1000);
    char path[CACHE_PATH_SIZE];
    assert_int_equal(fill(cache, 1, 10, path), 0);
    assert_int_equal(unlink(path), 0);
    assert_false(has(cache, 1)); /* also while pinned */
    assert_int_equal(fill(cache, 1, 20, path), 0);
    assert_true(fsio_exists(path));
    assert_int_equal(stats_of(cache).used_bytes, 20);
    cache_unpin(cache, key_of(1));
    cache_unpin(cache, key_of(1));
    assert_int_equal(stats_of(cache).pinned, 0);
    assert_int_equal(unlink(path), 0);
    assert_false(has(cache, 1));
    assert_int_equal(stats_of(cache).entries, 0);
    assert_int_equal(stats_of(cache).used_bytes, 0);
    cache_close(cache);
}

enum { THREADS = 4, ROUNDS = 150, KEYS = 12, BYTES = 1000 };

static void *work(void *arg) {
    struct cache *cache = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int round = 0; round < ROUNDS; round++) {
        char key[DIGEST_HEX_SIZE], path[CACHE_PATH_SIZE], *text;
        struct cache_slot slot;
        size_t len;
        seed = seed * 1664525u + 1013904223u;
        int i = (int)(seed >> 16) % KEYS;
        if (!digest_bytes(&i, sizeof i, key))
            return "digest";
        if (cache_lookup(cache, key, path, NULL)) {
            char data[BYTES];
            memset(data, 'a' + i, sizeof data);
            if (cache_reserve(cache, key, BYTES, &slot, NULL))
                return "reserve";
            if (fsio_write_atomic(slot.path, data, BYTES, NULL) || cache_commit(cache, &slot, path, NULL))
                return "commit";
        }
        if (fsio_read(path, BYTES, &text, &len, NULL))
            return "read: a pinned file is gone";
        bool whole = len == BYTES && text[0] == 'a' + i && text[BYTES - 1] == 'a' + i;
        free(text);
        cache_unpin(cache, key);
        if (!whole)
            return "torn";
    }
    return NULL;
}

static void threads_never_lose_a_pinned_file_nor_see_a_torn_one(void **state) {
    struct cache *cache = opened(state, 8 * BYTES); /* fewer than the keys: entries come and go */
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, cache), 0);
    for (int i = 0; i < THREADS; i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        if (problem)
            fail_msg("%s", (const char *)problem);
    }
    struct cache_stats s = stats_of(cache);
    assert_int_equal(s.pinned, 0);
    assert_int_equal(s.used_bytes, s.entries * BYTES);
    assert_true(s.entries <= 8 && s.evictions > 0);
    assert_int_equal(files_in(state, "cache"), s.entries);
    cache_close(cache);
}

/* ---- windows beside the objects ---- */

static struct cache *opened_with_windows(void **state, int64_t max_bytes) {
    struct cache *cache = NULL;
    struct err err = {0};
    char dir[CACHE_PATH_SIZE];
    str_copy(dir, sizeof dir, in_dir(state, "volume/objects"));
    if (cache_open(dir, in_dir(state, "volume/windows"), max_bytes, &cache, &err))
        fail_msg("%s", err.message);
    return cache;
}

/* Windows of key i with n bytes; pinned afterwards. */
static void put_window(struct cache *cache, int i, int64_t n) {
    struct cache_slot slot;
    struct err err = {0};
    char path[CACHE_PATH_SIZE], data[1000] = {0};
    if (cache_reserve_window(cache, key_of(i), n, &slot, &err))
        fail_msg("%s", err.message);
    put_file(slot.path, data, (size_t)n);
    assert_int_equal(cache_commit(cache, &slot, path, &err), 0);
    assert_non_null(strstr(path, "/volume/windows/"));
    assert_true(str_ends(path, ".win"));
}

static bool has_window(struct cache *cache, int i) {
    char path[CACHE_PATH_SIZE];
    int rc = cache_lookup_window(cache, key_of(i), path, NULL);
    if (!rc)
        cache_unpin(cache, key_of(i));
    return rc == 0;
}

static void windows_and_objects_share_the_limit_and_the_order_of_use(void **state) {
    struct cache *cache = opened_with_windows(state, 1000);
    put_window(cache, 1, 400);
    cache_unpin(cache, key_of(1));
    put(cache, 2, 400);
    put_window(cache, 3, 400);
    assert_int_equal(files_in(state, "volume/windows"), 1); /* key 1 was the oldest */
    cache_unpin(cache, key_of(3));
    assert_true(has(cache, 2)); /* newer than key 3 from here on */
    put(cache, 4, 300);
    assert_false(has_window(cache, 3));
    assert_true(has(cache, 2));
    struct cache_stats s = stats_of(cache);
    assert_int_equal(s.used_bytes, 700);
    assert_int_equal(s.window_bytes, 0);
    assert_int_equal(s.window_evictions, 2);
    assert_int_equal(s.evictions, 0);
    cache_close(cache);
}

static void windows_in_use_may_exceed_the_limit_until_they_are_unpinned(void **state) {
    struct cache *cache = opened_with_windows(state, 1000);
    for (int i = 1; i <= 4; i++)
        put_window(cache, i, 500);
    put(cache, 5, 900); /* objects have the limit to themselves */
    struct cache_stats s = stats_of(cache);
    assert_int_equal(s.window_bytes, 2000);
    assert_int_equal(s.window_evictions, 0);
    for (int i = 1; i <= 4; i++)
        cache_unpin(cache, key_of(i));
    s = stats_of(cache);
    assert_true(s.used_bytes <= 1000);
    assert_true(has_window(cache, 4));
    assert_false(has_window(cache, 1));
    cache_close(cache);
}

static void windows_of_a_killed_process_are_counted_again(void **state) {
    struct cache *cache = opened_with_windows(state, 1000);
    put_window(cache, 1, 500);
    put_window(cache, 2, 300);
    put_file(in_dir(state, "volume/windows/README"), "mine", 4);
    put_file(in_dir(state, "volume/windows/x.tmp-1-1"), "torn", 4);
    cache_close(cache); /* pins are not kept */
    cache = opened_with_windows(state, 1000);
    assert_int_equal(stats_of(cache).window_bytes, 800);
    assert_int_equal(stats_of(cache).pinned, 0);
    assert_int_equal(files_in(state, "volume/windows"), 3);
    put(cache, 3, 600);
    assert_false(has_window(cache, 1));
    assert_true(has_window(cache, 2));
    cache_close(cache);
    cache = opened_with_windows(state, 350); /* a smaller limit at the next start */
    assert_true(stats_of(cache).used_bytes <= 350);
    cache_close(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_miss_is_filled_once_and_then_hit),
        in_temp_dir(the_oldest_unpinned_entries_make_room),
        in_temp_dir(what_does_not_fit_is_refused_with_the_mend),
        in_temp_dir(a_file_larger_than_reserved_needs_room_too),
        in_temp_dir(the_first_of_two_fillers_wins),
        in_temp_dir(windows_and_objects_share_the_limit_and_the_order_of_use),
        in_temp_dir(windows_in_use_may_exceed_the_limit_until_they_are_unpinned),
        in_temp_dir(windows_of_a_killed_process_are_counted_again),
        in_temp_dir(keys_that_are_no_digests_are_refused),
        in_temp_dir(a_second_owner_is_refused_and_told_who_holds_it),
        in_temp_dir(entries_and_their_order_of_use_outlive_the_process),
        in_temp_dir(a_process_killed_in_a_fill_leaves_no_torn_entry),
        in_temp_dir(a_suspended_fill_is_gone_on_with),
        in_temp_dir(a_volume_is_not_promised_twice),
        in_temp_dir(what_was_left_goes_before_entries_do),
        in_temp_dir(a_discarded_entry_is_gone_unless_others_use_it),
        in_temp_dir(a_file_removed_behind_its_back_is_a_miss_and_can_be_filled_again),
        in_temp_dir(threads_never_lose_a_pinned_file_nor_see_a_torn_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
