#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "unit/temp_dir.h"

#include "base/base.h"

static void assert_holds(const char *path, const char *want) {
    struct err err = {0};
    char *text;
    size_t len;
    if (fsio_read(path, 1 << 20, &text, &len, &err))
        fail_msg("%s", err.message);
    assert_int_equal(len, strlen(want));
    assert_string_equal(text, want);
    free(text);
}

static int count_file(void *ctx, const char *relative, int64_t size, struct err *err) {
    (void)relative, (void)size, (void)err;
    ++*(int *)ctx;
    return 0;
}

static int files_below(void **state) {
    int n = 0;
    assert_int_equal(fsio_walk(*state, count_file, &n, NULL), 0);
    return n;
}

static void a_file_reads_whole_and_terminated_within_its_bound(void **state) {
    const char *path = in_dir(state, "a");
    struct err err = {0};
    char *text = NULL;
    size_t len = 77;
    put_file(path, "a\0b", 3);
    assert_int_equal(fsio_read(path, 3, &text, &len, &err), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    assert_int_equal(fsio_read(path, 2, &text, &len, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "3 bytes; at most 2"));
    assert_int_equal(fsio_read(in_dir(state, "none"), 9, &text, &len, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/none"));
    assert_int_equal(fsio_read(*state, 9, &text, &len, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "is a directory"));
}

static void a_file_without_a_size_is_bounded_too(void **state) {
    (void)state;
    char *text;
    size_t len;
    struct err err = {0};
    assert_int_equal(fsio_read("/proc/self/status", 1 << 16, &text, &len, &err), 0); /* its stat says 0 bytes */
    assert_true(len > 100 && text[len] == '\0');
    free(text);
    assert_int_equal(fsio_read("/dev/zero", 1000, &text, &len, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "more than the 1000 bytes"));
}

static void an_atomic_write_replaces_the_file_at_once(void **state) {
    const char *path = in_dir(state, "a");
    struct stat before, after;
    put_file(path, "old", 3);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &before) == 0);
    put_file(path, "newer", 5);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino != after.st_ino); /* a reader of the old one is not disturbed */
    char text[8] = "";
    assert_int_equal(read(fd, text, sizeof text), 3);
    assert_string_equal(text, "old");
    close(fd);
    assert_holds(path, "newer");
    assert_int_equal(after.st_mode & 0777, 0644 & ~umask(umask(0)));
    assert_int_equal(files_below(state), 1);
}

static void a_writer_shows_nothing_before_commit_and_nothing_after_abort(void **state) {
    const char *path = in_dir(state, "a");
    struct fsio_writer w;
    struct err err = {0};
    put_file(path, "old", 3);
    assert_int_equal(fsio_writer_open(&w, path, &err), 0);
    assert_int_equal(fsio_writer_write(&w, "half", 4, &err), 0);
    assert_holds(path, "old");
    assert_int_equal(files_below(state), 2);
    fsio_writer_abort(&w);
    fsio_writer_abort(&w); /* harmless */
    assert_holds(path, "old");
    assert_int_equal(files_below(state), 1);
    assert_int_equal(fsio_writer_open(&w, path, &err), 0);
    assert_int_equal(fsio_writer_write(&w, "who", 3, &err), 0);
    assert_int_equal(fsio_writer_write(&w, "le", 2, &err), 0);
    assert_int_equal(w.written_bytes, 5);
    assert_int_equal(fsio_writer_commit(&w, &err), 0);
    assert_holds(path, "whole");
    assert_int_equal(files_below(state), 1);
}

static void a_file_is_renewed_only_where_it_still_is(void **state) {
    struct fsio_writer w;
    struct err err;
    char *data = NULL;
    size_t len = 0;
    const char *path = in_dir(state, "renewed");
    assert_int_equal(fsio_write_atomic(path, "old", 3, NULL), 0);
    assert_int_equal(fsio_writer_open(&w, path, NULL), 0);
    assert_int_equal(fsio_writer_write(&w, "newer", 5, NULL), 0);
    assert_int_equal(fsio_writer_place(&w, true, &err), 0);
    assert_int_equal(fsio_read(path, 10, &data, &len, NULL), 0);
    assert_string_equal(data, "newer");
    free(data);
    assert_int_equal(fsio_writer_open(&w, path, NULL), 0);
    assert_int_equal(fsio_writer_write(&w, "late", 4, NULL), 0);
    char tmp[sizeof w.tmp_path];
    memcpy(tmp, w.tmp_path, sizeof tmp);
    assert_int_equal(unlink(path), 0); /* somebody has moved it */
    assert_int_equal(fsio_writer_place(&w, true, &err), ERR_NOT_FOUND);
    assert_false(fsio_exists(path));
    assert_false(fsio_exists(tmp));
}

static void temporaries_of_a_dead_process_with_the_same_id_do_no_harm(void **state) {
    const char *path = in_dir(state, "a");
    char left[600];
    for (int n = 0; n < 3; n++) {
        assert_true(str_format(left, sizeof left, "%s.tmp-%ld-%d", path, (long)getpid(), n));
        put_file(left, "torn", 4);
    }
    put_file(path, "good", 4);
    assert_holds(path, "good");
    assert_holds(left, "torn"); /* not ours to write into */
}

static void two_writers_of_one_path_do_not_mix(void **state) {
    const char *path = in_dir(state, "a");
    struct fsio_writer one, two;
    assert_int_equal(fsio_writer_open(&one, path, NULL), 0);
    assert_int_equal(fsio_writer_open(&two, path, NULL), 0);
    assert_string_not_equal(one.tmp_path, two.tmp_path);
    assert_int_equal(fsio_writer_write(&one, "1111", 4, NULL), 0);
    assert_int_equal(fsio_writer_write(&two, "22", 2, NULL), 0);
    assert_int_equal(fsio_writer_commit(&one, NULL), 0);
    assert_holds(path, "1111");
    assert_int_equal(fsio_writer_commit(&two, NULL), 0);
    assert_holds(path, "22");
}

/* A volume that is full after 4096 bytes: the limit on file sizes stands in for it. */
static void a_write_that_does_not_fit_leaves_the_old_file_and_no_temporary(void **state) {
    const char *path = in_dir(state, "a");
    char big[8192] = {0};
    struct err err = {0};
    struct rlimit old, small;
    put_file(path, "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){4096, old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = fsio_write_atomic(path, big, sizeof big, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(rc, ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, path));
    assert_holds(path, "old");
    assert_int_equal(files_below(state), 1);
}

static void a_rename_replaces_and_a_missing_source_is_named(void **state) {
    const char *to = in_dir(state, "to");
    struct err err = {0};
    char from[4096];
    put_file(to, "old", 3);
    snprintf(from, sizeof from, "%s.new", to);
    put_file(from, "fresh", 5);
    assert_int_equal(fsio_rename(from, to, &err), 0);
    assert_holds(to, "fresh");
    assert_false(fsio_exists(from));
    assert_int_equal(fsio_rename(from, to, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, to));
    assert_holds(to, "fresh");
}

static void a_link_is_to_the_file_behind_a_symbolic_link_and_replaces_nothing(void **state) {
    struct err err = {0};
    char name[4096], to[4096];
    put_file(in_dir(state, "file"), "eeg", 3);
    snprintf(name, sizeof name, "%s", in_dir(state, "name"));
    assert_int_equal(symlink("file", name), 0);
    snprintf(to, sizeof to, "%s", in_dir(state, "other/to"));
    assert_int_equal(fsio_mkdirs_above(to, &err), 0);
    assert_int_equal(fsio_link_or_copy(name, to, &err), 0);
    assert_holds(to, "eeg");
    put_file(in_dir(state, "more"), "new", 3);
    assert_int_equal(fsio_link_or_copy(in_dir(state, "more"), to, &err), 0);
    assert_holds(to, "eeg");
}

static void a_full_volume_is_an_error_of_the_write_with_its_mend(void **state) {
    (void)state;
    struct err err = {0};
    struct fsio_writer w = {.fd = open("/dev/full", O_WRONLY | O_CLOEXEC), .path = "/dev/full"};
    assert_true(w.fd >= 0);
    assert_int_equal(fsio_writer_write(&w, "x", 1, &err), ERR_EXHAUSTED);
    assert_int_equal(w.written_bytes, 0);
    assert_non_null(strstr(err.message, "/dev/full"));
    assert_non_null(strstr(err.message, "free"));
    fsio_writer_abort(&w);
    assert_int_equal(w.fd, -1);
}

static void a_target_that_cannot_be_replaced_fails_at_commit_and_cleans_up(void **state) {
    const char *path = in_dir(state, "d");
    struct err err = {0};
    assert_int_equal(fsio_mkdirs(in_dir(state, "d/full"), NULL), 0);
    assert_int_not_equal(fsio_write_atomic(path, "x", 1, &err), 0);
    assert_non_null(strstr(err.message, path));
    assert_true(fsio_is_dir(path));
    assert_int_equal(files_below(state), 0);
    assert_int_equal(fsio_write_atomic(in_dir(state, "no/where"), "x", 1, &err), ERR_NOT_FOUND);
    char *longer = malloc(5001);
    assert_non_null(longer);
    memset(longer, 'a', 5000);
    longer[5000] = '\0';
    assert_int_equal(fsio_write_atomic(longer, "x", 1, &err), ERR_RANGE);
    free(longer);
}

static void what_is_no_regular_file_is_not_replaced(void **state) {
    const char *path = in_dir(state, "pipe");
    struct err err = {0};
    struct stat st;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(fsio_write_atomic(path, "x", 1, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "pipe is not a regular file"));
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

static void a_text_that_was_cut_is_not_written(void **state) {
    const char *path = in_dir(state, "a");
    struct err err = {0};
    struct str text;
    put_file(path, "old", 3);
    str_init(&text, 8);
    str_puts(&text, "12345678");
    assert_int_equal(fsio_write_text(path, &text, &err), 0);
    assert_holds(path, "12345678");
    str_puts(&text, "9");
    assert_int_equal(fsio_write_text(path, &text, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "8 bytes"));
    assert_holds(path, "12345678");
    str_done(&text);
}

static void killing_a_writer_leaves_the_old_file_whole(void **state) {
    const char *path = in_dir(state, "a");
    int ready[2];
    char byte;
    put_file(path, "old", 3);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct fsio_writer w;
        bool ok =
            fsio_writer_open(&w, path, NULL) == 0 && fsio_writer_write(&w, "half", 4, NULL) == 0 && write(ready[1], "x", 1) == 1;
        for (;;)
            ok ? pause() : _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_holds(path, "old");
    assert_int_equal(files_below(state), 2);
    assert_int_equal(fsio_remove_temporaries(*state, NULL), 0);
    assert_int_equal(files_below(state), 1);
    assert_holds(path, "old");
    put_file(path, "new", 3);
    assert_holds(path, "new");
}

static void only_temporaries_are_removed_at_any_depth(void **state) {
    static const char *const kept[] = {"a", "b.tmp-", "c.tmp-12", "d.tmp-12-", "e.tmp-x-1", "f.tmp-1-2.new", "tmp-1-2"};
    assert_int_equal(fsio_remove_temporaries(in_dir(state, "none"), NULL), 0);
    assert_int_equal(fsio_mkdirs(in_dir(state, "d/e"), NULL), 0);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        put_file(in_dir(state, kept[i]), "x", 1);
    put_file(in_dir(state, "a.tmp-1-0"), "x", 1);
    put_file(in_dir(state, "d/e/a.tmp-2-x.tmp-77-10"), "x", 1);
    assert_int_equal(fsio_remove_temporaries(*state, NULL), 0);
    assert_int_equal(files_below(state), sizeof kept / sizeof *kept);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_true(fsio_exists(in_dir(state, kept[i])));
}

static void directories_are_made_with_their_parents_once(void **state) {
    struct err err = {0};
    assert_int_equal(fsio_can_mkdirs(in_dir(state, "a/b//c/"), &err), 0);
    assert_false(fsio_exists(in_dir(state, "a")));
    assert_int_equal(fsio_mkdirs(in_dir(state, "a/b//c/"), &err), 0);
    assert_int_equal(fsio_can_mkdirs(in_dir(state, "a/b/c"), &err), 0);
    assert_int_equal(fsio_mkdirs(in_dir(state, "a/b/c"), &err), 0);
    assert_true(fsio_is_dir(in_dir(state, "a/b/c")));
    put_file(in_dir(state, "a/file"), "", 0);
    assert_int_equal(fsio_mkdirs(in_dir(state, "a/file"), &err), ERR_EXISTS);
    assert_int_equal(fsio_can_mkdirs(in_dir(state, "a/file"), &err), ERR_EXISTS);
    assert_int_not_equal(fsio_can_mkdirs(in_dir(state, "a/file/below"), &err), 0);
    assert_int_equal(fsio_can_mkdirs("", &err), ERR_INVALID);
    if (geteuid())
        assert_int_equal(fsio_can_mkdirs("/not-for-everybody", &err), ERR_DENIED);
    assert_int_not_equal(fsio_mkdirs(in_dir(state, "a/file/below"), &err), 0);
    assert_int_equal(fsio_mkdirs("", &err), ERR_INVALID);
    assert_true(fsio_exists(in_dir(state, "a/file")) && !fsio_is_dir(in_dir(state, "a/file")));
    assert_false(fsio_exists(in_dir(state, "b")));
}

static void removal_of_a_tree_stops_at_symbolic_links(void **state) {
    struct err err = {0};
    assert_int_equal(fsio_mkdirs(in_dir(state, "keep/in"), NULL), 0);
    assert_int_equal(fsio_mkdirs(in_dir(state, "gone/x/y"), NULL), 0);
    put_file(in_dir(state, "keep/in/file"), "k", 1);
    put_file(in_dir(state, "gone/x/file"), "g", 1);
    assert_int_equal(symlink("../../keep", in_dir(state, "gone/x/link")), 0);
    assert_int_equal(symlink("nowhere", in_dir(state, "gone/dangling")), 0);
    assert_int_equal(fsio_remove_tree(in_dir(state, "gone"), &err), 0);
    assert_false(fsio_exists(in_dir(state, "gone")));
    assert_holds(in_dir(state, "keep/in/file"), "k");
    assert_int_equal(fsio_remove_tree(in_dir(state, "gone"), &err), 0); /* missing is success */
    assert_int_equal(symlink("keep", in_dir(state, "alias")), 0);
    assert_int_equal(fsio_remove_tree(in_dir(state, "alias"), &err), 0); /* the link, not what it points to */
    assert_true(fsio_exists(in_dir(state, "keep/in/file")));
}

static void removal_refuses_what_is_nested_too_deeply(void **state) {
    int at = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), top = at;
    for (int i = 0; i < 80; i++) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        if (at != top)
            close(at);
        at = next;
    }
    struct err err = {0};
    int n = 0;
    assert_int_equal(fsio_remove_tree(*state, &err), ERR_RANGE);
    assert_int_equal(fsio_walk(*state, count_file, &n, &err), ERR_RANGE);
    for (int i = 0; i < 80; i++) { /* from the innermost outwards, for the teardown */
        int up = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(unlinkat(up, "d", AT_REMOVEDIR), 0);
        close(at);
        at = up;
    }
    close(at);
    close(top);
}

static void paths_join_and_resolve_as_text(void **state) {
    (void)state;
    char buf[32], cwd[4096], want[4200], full[4200];
    struct err err = {0};
    assert_int_equal(fsio_join(buf, sizeof buf, "a", "b", &err), 0);
    assert_string_equal(buf, "a/b");
    assert_int_equal(fsio_join(buf, sizeof buf, "a/", "b", &err), 0);
    assert_string_equal(buf, "a/b");
    assert_int_equal(fsio_join(buf, 3, "a", "b", &err), ERR_RANGE);
    static const char *const cases[][2] = {
        {"/a/./b//c/../d/", "/a/b/d"}, {"/", "/"}, {"/..", "/"}, {"/../../a", "/a"}, {"/a/..", "/"}, {"/...", "/..."},
        {"/a/..b", "/a/..b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(fsio_absolute(buf, sizeof buf, cases[i][0], &err), 0);
        assert_string_equal(buf, cases[i][1]);
    }
    assert_int_equal(fsio_absolute(buf, 4, "/abcd", &err), ERR_RANGE);
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_true(str_format(want, sizeof want, "%s/x", cwd));
    assert_int_equal(fsio_absolute(full, sizeof full, "y/../x", &err), 0);
    assert_string_equal(full, want);
    assert_string_equal(fsio_basename("/a/b.edf"), "b.edf");
    assert_string_equal(fsio_basename("b.edf"), "b.edf");
}

struct seen {
    char names[256];
    int64_t bytes;
    int stop_after, n;
};

static int note(void *ctx, const char *relative, int64_t size, struct err *err) {
    struct seen *s = ctx;
    size_t at = strlen(s->names);
    assert_true(str_format(s->names + at, sizeof s->names - at, "%s ", relative));
    s->bytes += size;
    return ++s->n == s->stop_after ? err_set(err, ERR_CANCELLED, "enough") : 0;
}

static void a_walk_visits_files_sorted_and_not_through_linked_directories(void **state) {
    static const char *const files[] = {"b/2", "b/1", "a", "c/d/e", "z"};
    for (size_t i = 0; i < 5; i++) {
        char dir[512];
        str_copy(dir, sizeof dir, in_dir(state, files[i]));
        *strrchr(dir, '/') = '\0';
        assert_int_equal(fsio_mkdirs(dir, NULL), 0);
        put_file(in_dir(state, files[i]), files[i], strlen(files[i]));
    }
    assert_int_equal(symlink("../a", in_dir(state, "b/link")), 0);
    assert_int_equal(symlink("..", in_dir(state, "c/loop")), 0);
    assert_int_equal(symlink("nowhere", in_dir(state, "dangling")), 0);
    assert_int_equal(mkfifo(in_dir(state, "fifo"), 0600), 0);
    struct seen all = {0}, some = {.stop_after = 2};
    struct err err = {0};
    assert_int_equal(fsio_walk(*state, note, &all, &err), 0);
    assert_string_equal(all.names, "a b/1 b/2 b/link c/d/e z ");
    assert_int_equal(all.bytes, 1 + 3 + 3 + 1 + 5 + 1);
    assert_int_equal(fsio_walk(*state, note, &some, &err), ERR_CANCELLED);
    assert_string_equal(some.names, "a b/1 ");
    assert_string_equal(err.message, "enough");
    assert_int_equal(fsio_walk(in_dir(state, "none"), note, &all, &err), ERR_NOT_FOUND);
}

static void a_map_shows_the_file_and_refuses_what_is_none(void **state) {
    struct fsio_map map = {0};
    struct err err = {0};
    int64_t bytes = 0, mtime = 0;
    put_file(in_dir(state, "a"), "bytes", 5);
    put_file(in_dir(state, "empty"), "", 0);
    assert_int_equal(fsio_map_open(&map, in_dir(state, "a"), &err), 0);
    assert_int_equal(map.len, 5);
    assert_memory_equal(map.data, "bytes", 5);
    fsio_map_close(&map);
    assert_null(map.data);
    fsio_map_close(&map);
    assert_int_equal(fsio_map_open(&map, in_dir(state, "empty"), &err), 0);
    assert_true(!map.data && map.len == 0);
    assert_int_equal(fsio_map_open(&map, *state, &err), ERR_INVALID);
    assert_int_equal(mkfifo(in_dir(state, "fifo"), 0600), 0);
    assert_int_equal(fsio_map_open(&map, in_dir(state, "fifo"), &err), ERR_INVALID); /* and does not wait for a writer */
    assert_int_equal(fsio_map_open(&map, in_dir(state, "none"), &err), ERR_NOT_FOUND);
    assert_int_equal(fsio_size(in_dir(state, "a"), &bytes, &mtime, &err), 0);
    assert_int_equal(bytes, 5);
    assert_true(mtime > (int64_t)1500000000 * 1000000000);
    assert_int_equal(fsio_size(in_dir(state, "none"), NULL, NULL, &err), ERR_NOT_FOUND);
}

static void a_lock_has_one_holder_and_names_it(void **state) {
    const char *path = in_dir(state, "lock");
    char pid[32];
    int fd = -1, other = -1;
    struct err err = {0};
    assert_int_equal(fsio_lock(path, &fd, &err), 0);
    assert_true(str_format(pid, sizeof pid, "process %ld;", (long)getpid()));
    assert_int_equal(fsio_lock(path, &other, &err), ERR_PRECONDITION);
    assert_int_equal(other, -1);
    assert_non_null(strstr(err.message, pid));
    close(fd);
    put_file(in_dir(state, "stale"), "999999999999\n", 13); /* longer than our pid: nothing of it may stay */
    assert_int_equal(fsio_lock(path, &fd, &err), 0);
    close(fd);
    assert_int_equal(fsio_lock(in_dir(state, "stale"), &fd, &err), 0);
    assert_true(str_format(pid, sizeof pid, "%ld\n", (long)getpid()));
    assert_holds(in_dir(state, "stale"), pid);
    assert_true(str_format(pid, sizeof pid, "process %ld;", (long)getpid()));
    assert_int_equal(fsio_lock(in_dir(state, "stale"), &other, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, pid));
    close(fd);
    assert_true(fsio_free_bytes(*state) >= 0);
    assert_int_equal(fsio_free_bytes(in_dir(state, "none")), -1);
}

static void a_file_open_to_others_is_denied_with_the_chmod_that_closes_it(void **state) {
    const char *path = in_dir(state, "key");
    struct err err = {0};
    put_file(path, "k", 1);
    static const struct {
        mode_t mode;
        unsigned forbidden;
        const char *says; /* NULL: accepted */
    } cases[] = {{0600, 0077, NULL},   {0400, 0077, NULL},         {0640, 0077, "mode 0640"}, {0640, 0007, NULL},
                 {0604, 0077, "0604"}, {0777, 0022, "chmod 755 "}, {0664, 0077, "chmod 600 "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(fsio_check_mode(path, cases[i].forbidden, &err), cases[i].says ? ERR_DENIED : 0);
        if (cases[i].says && (!strstr(err.message, cases[i].says) || !strstr(err.message, path)))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
    }
    assert_int_equal(fsio_check_mode(in_dir(state, "none"), 0077, &err), ERR_NOT_FOUND);
}

static void a_stamp_changes_with_the_file(void **state) {
    const char *path = in_dir(state, "f");
    assert_int_equal(fsio_stamp(path), 0);
    put_file(path, "abc", 3);
    uint64_t first = fsio_stamp(path);
    assert_int_not_equal(first, 0);
    assert_true(fsio_stamp(path) == first);
    put_file(path, "abc", 3); /* another file of the same content */
    uint64_t replaced = fsio_stamp(path);
    assert_true(replaced != first);
    assert_int_equal(truncate(path, 2), 0);
    assert_true(fsio_stamp(path) != replaced);
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}}, older[2] = {{1000000000, 0}, {1000000000, 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    uint64_t at = fsio_stamp(path);
    assert_int_equal(utimensat(AT_FDCWD, path, older, 0), 0);
    assert_true(fsio_stamp(path) != at);
}

static void a_directory_is_made_above_a_file_and_anew_only_once(void **state) {
    struct err err = {0};
    assert_int_equal(fsio_mkdirs_above(in_dir(state, "a/b/file"), &err), 0);
    assert_true(fsio_is_dir(in_dir(state, "a/b")) && !fsio_exists(in_dir(state, "a/b/file")));
    assert_int_equal(fsio_mkdirs_above("/top", &err), 0);
    assert_int_equal(fsio_mkdirs_above("here", &err), 0);
    assert_int_equal(fsio_mkdir_new(in_dir(state, "a/new"), &err), 0);
    assert_true(fsio_is_dir(in_dir(state, "a/new")));
    assert_int_equal(fsio_mkdir_new(in_dir(state, "a/new"), &err), ERR_EXISTS);
    assert_non_null(strstr(err.message, "a/new"));
    assert_int_equal(fsio_mkdir_new(in_dir(state, "none/new"), &err), ERR_NOT_FOUND);
    put_file(in_dir(state, "plain"), "x", 1);
    assert_int_not_equal(fsio_mkdirs_above(in_dir(state, "plain/x/y"), &err), 0);
    assert_non_null(strstr(err.message, "plain"));
}

static void paths_that_are_too_long_are_errors_everywhere(void **state) {
    (void)state;
    char path[6000], out[64];
    struct fsio_writer w;
    struct err err = {0};
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    assert_int_equal(fsio_writer_open(&w, path, &err), ERR_RANGE);
    assert_int_equal(fsio_mkdirs(path, &err), ERR_INVALID);
    assert_int_equal(fsio_mkdirs_above(path, &err), ERR_RANGE);
    assert_int_equal(fsio_absolute(out, sizeof out, path, &err), ERR_RANGE);
    assert_non_null(strstr(err.message, "path too long"));
    assert_int_equal(fsio_join(out, sizeof out, path, "x", &err), ERR_RANGE);
}

static void what_cannot_be_read_or_removed_is_named(void **state) {
    struct err err = {0};
    char *text = NULL;
    size_t len = 0;
    assert_int_not_equal(fsio_read("/proc/self/mem", 1 << 20, &text, &len, &err), 0); /* nothing is mapped at address 0 */
    assert_non_null(strstr(err.message, "cannot read /proc/self/mem"));
    assert_null(text);
    put_file(in_dir(state, "plain"), "x", 1);
    assert_int_not_equal(fsio_remove_tree(in_dir(state, "plain/below"), &err), 0);
    assert_non_null(strstr(err.message, "plain/below"));
    assert_int_equal(fsio_remove_tree("/proc/self/task", &err) == 0, 0);
    assert_int_not_equal(fsio_lock(in_dir(state, "none/lock"), &(int){0}, &err), 0);
    assert_non_null(strstr(err.message, "cannot open lock"));
}

static void a_closed_map_has_no_bytes(void **state) {
    struct fsio_map map, empty;
    put_file(in_dir(state, "m"), "0123456789", 10);
    put_file(in_dir(state, "e"), "", 0);
    assert_int_equal(fsio_map_open(&map, in_dir(state, "m"), NULL), 0);
    assert_int_equal(fsio_map_open(&empty, in_dir(state, "e"), NULL), 0);
    assert_memory_equal(map.data, "0123456789", 10);
    assert_null(empty.data);
    fsio_map_close(&map);
    fsio_map_close(&empty);
    assert_null(map.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_file_reads_whole_and_terminated_within_its_bound),
        cmocka_unit_test(a_file_without_a_size_is_bounded_too),
        in_temp_dir(an_atomic_write_replaces_the_file_at_once),
        in_temp_dir(a_writer_shows_nothing_before_commit_and_nothing_after_abort),
        in_temp_dir(a_file_is_renewed_only_where_it_still_is),
        in_temp_dir(temporaries_of_a_dead_process_with_the_same_id_do_no_harm),
        in_temp_dir(two_writers_of_one_path_do_not_mix),
        in_temp_dir(a_write_that_does_not_fit_leaves_the_old_file_and_no_temporary),
        in_temp_dir(a_rename_replaces_and_a_missing_source_is_named),
        in_temp_dir(a_link_is_to_the_file_behind_a_symbolic_link_and_replaces_nothing),
        cmocka_unit_test(a_full_volume_is_an_error_of_the_write_with_its_mend),
        in_temp_dir(a_target_that_cannot_be_replaced_fails_at_commit_and_cleans_up),
        in_temp_dir(what_is_no_regular_file_is_not_replaced),
        in_temp_dir(a_text_that_was_cut_is_not_written),
        in_temp_dir(killing_a_writer_leaves_the_old_file_whole),
        in_temp_dir(only_temporaries_are_removed_at_any_depth),
        in_temp_dir(directories_are_made_with_their_parents_once),
        in_temp_dir(removal_of_a_tree_stops_at_symbolic_links),
        in_temp_dir(removal_refuses_what_is_nested_too_deeply),
        cmocka_unit_test(paths_join_and_resolve_as_text),
        in_temp_dir(a_walk_visits_files_sorted_and_not_through_linked_directories),
        in_temp_dir(a_map_shows_the_file_and_refuses_what_is_none),
        in_temp_dir(a_lock_has_one_holder_and_names_it),
        in_temp_dir(a_file_open_to_others_is_denied_with_the_chmod_that_closes_it),
        in_temp_dir(a_stamp_changes_with_the_file),
        in_temp_dir(a_directory_is_made_above_a_file_and_anew_only_once),
        cmocka_unit_test(paths_that_are_too_long_are_errors_everywhere),
        in_temp_dir(what_cannot_be_read_or_removed_is_named),
        in_temp_dir(a_closed_map_has_no_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
