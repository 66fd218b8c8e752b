#include "daemon/live/snapshot.h"

#include "seed.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"
#include "unit/failing_readdir.h"

static const char id[] = "0123456789abcdef0123456789abcdef";
static char folder[256], dir[512], path[600];

static int set_up(void **state) {
    (void)state;
    fixture_folder(folder, sizeof folder);
    snprintf(dir, sizeof dir, "%s/sessions", folder);
    snprintf(path, sizeof path, "%s/%s", dir, id);
    return snapshot_prepare(dir, NULL);
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(folder);
    return 0;
}

static const char *id_of(char digit) {
    static char name[SNAPSHOT_ID_SIZE];
    memset(name, digit, sizeof name - 1);
    return name;
}

static int syncs;
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    syncs++;
    return __real_fsync(fd);
}

static int mode_of(const char *file) {
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    return (int)(st.st_mode & 0777);
}

static void what_is_written_is_read_and_nobody_else_may(void **state) {
    (void)state;
    char *data = NULL;
    struct snapshot_entry *ids = NULL;
    size_t len = 0, n = 0;
    assert_int_equal(snapshot_write(dir, id, "a\0b", 3, NULL), 0);
    assert_int_equal(snapshot_write(dir, id, "c\0de", 4, NULL), 0); /* replaces it */
    assert_int_equal(mode_of(dir), 0700);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(snapshot_read(dir, id, &data, &len, NULL), 0);
    assert_int_equal(len, 4);
    assert_memory_equal(data, "c\0de", 4);
    free(data);
    assert_int_equal(snapshot_list(dir, SNAPSHOTS_HERE, &ids, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(ids[0].id, id);
    assert_false(ids[0].ended);
    free(ids);
    assert_false(snapshot_ended(dir, id));
    assert_int_equal(snapshot_end(dir, id, NULL), 0);
    assert_true(snapshot_ended(dir, id));
    assert_int_equal(snapshot_write(dir, id, "f", 1, NULL), 0); /* it goes on */
    assert_false(snapshot_ended(dir, id));
    assert_int_equal(snapshot_end(dir, id, NULL), 0);
    assert_int_equal(snapshot_list(dir, SNAPSHOTS_HERE, &ids, &n, NULL), 0);
    assert_int_equal(n, 1);
    free(ids);
    assert_int_equal(snapshot_remove(dir, id, NULL), 0);
    assert_false(snapshot_ended(dir, id));
    assert_int_equal(snapshot_remove(dir, id, NULL), 0); /* it is removed */
    assert_int_equal(snapshot_read(dir, id, &data, &len, NULL), ERR_NOT_FOUND);
    assert_int_equal(snapshot_list(dir, SNAPSHOTS_HERE, &ids, &n, NULL), 0);
    assert_int_equal(n, 0);
}

static void many_are_written_with_one_sync_and_each_says_its_error(void **state) {
    (void)state;
    char here[SNAPSHOT_ID_SIZE], fresh[SNAPSHOT_ID_SIZE], claimed[SNAPSHOT_ID_SIZE];
    const char *const ids[] = {memcpy(here, id_of('a'), sizeof here), memcpy(fresh, id_of('b'), sizeof fresh),
                               memcpy(claimed, id_of('c'), sizeof claimed)};
    char *data = NULL;
    size_t len = 0;
    assert_int_equal(snapshot_write(dir, ids[0], "old", 3, NULL), 0);
    struct snapshot_file files[] = {{.id = ids[0], .state = "new", .len = 3, .renew = true},
                                    {.id = ids[1], .state = "first", .len = 5},
                                    {.id = ids[2], .state = "x", .len = 1, .renew = true}};
    const int before = syncs;
    snapshot_write_all(dir, files, 3);
    assert_int_equal(syncs - before, 4); /* two that were put in place, one that was not, and the folder */
    assert_int_equal(files[0].err.code, 0);
    assert_int_equal(files[1].err.code, 0);
    assert_int_equal(files[2].err.code, ERR_ABORTED);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(snapshot_read(dir, ids[i], &data, &len, NULL), 0);
        assert_int_equal(len, files[i].len);
        assert_memory_equal(data, files[i].state, len);
        free(data);
        assert_int_equal(snapshot_remove(dir, ids[i], NULL), 0);
    }
    assert_int_equal(snapshot_read(dir, ids[2], &data, &len, NULL), ERR_NOT_FOUND);
}

static void a_directory_that_cannot_be_read_to_its_end_is_an_error(void **state) {
    (void)state;
    struct snapshot_entry *ids = NULL;
    size_t n = 0;
    struct err err;
    assert_int_equal(snapshot_write(dir, id, "a", 1, NULL), 0);
    for (entries = 3; entries >= 0;) { /* ".", ".." and the snapshot */
        int left = entries;
        assert_int_not_equal(snapshot_list(dir, SNAPSHOTS_HERE, &ids, &n, &err), 0);
        assert_non_null(strstr(err.message, dir));
        entries = left - 1;
    }
    assert_int_equal(snapshot_list(dir, SNAPSHOTS_HERE, &ids, &n, NULL), 0);
    assert_int_equal(n, 1);
    free(ids);
}

static void spoil(const char *data, size_t len) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
}

static void a_changed_byte_or_length_is_refused(void **state) {
    (void)state;
    char state_bytes[300], *file = NULL, *data = NULL;
    size_t len = 0, read_len = 0;
    uint64_t rng = test_seed();
    for (size_t i = 0; i < sizeof state_bytes; i++)
        state_bytes[i] = (char)((rng = rng * 6364136223846793005u + 1442695040888963407u) >> 56);
    assert_int_equal(snapshot_write(dir, id, state_bytes, sizeof state_bytes, NULL), 0);
    assert_int_equal(fsio_read(path, 1 << 20, &file, &len, NULL), 0);
    for (size_t i = 0; i < len; i++) {
        file[i] = (char)(file[i] ^ 1 << (i % 8));
        spoil(file, len);
        assert_int_equal(snapshot_read(dir, id, &data, &read_len, NULL), ERR_DATA_LOSS);
        file[i] = (char)(file[i] ^ 1 << (i % 8));
    }
    for (size_t n = 0; n < len; n++) {
        spoil(file, n);
        assert_int_equal(snapshot_read(dir, id, &data, &read_len, NULL), ERR_DATA_LOSS);
    }
    free(file);
}

static void a_rejected_one_is_kept_aside(void **state) {
    (void)state;
    char aside[700], *data = NULL;
    size_t len = 0;
    snprintf(aside, sizeof aside, "%s/rejected/%s", dir, id);
    assert_int_equal(snapshot_write(dir, id, "x", 1, NULL), 0);
    assert_int_equal(snapshot_reject(dir, id, NULL), 0);
    assert_int_equal(snapshot_read(dir, id, &data, &len, NULL), ERR_NOT_FOUND);
    assert_int_equal(mode_of(aside), 0600);
    assert_int_equal(snapshot_reject(dir, id, NULL), 0);
}

/* An id of one digit. */
static void rejected_path(char digit, char file[700]) { snprintf(file, 700, "%s/rejected/%s", dir, id_of(digit)); }

static void reject_one(char digit, int64_t bytes, int64_t age_s) {
    char file[700];
    assert_int_equal(snapshot_write(dir, id_of(digit), "x", 1, NULL), 0);
    assert_int_equal(snapshot_reject(dir, id_of(digit), NULL), 0);
    rejected_path(digit, file);
    assert_int_equal(truncate(file, bytes), 0); /* sparse */
    const struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
}

static void rejected_ones_are_bounded_in_age_and_bytes(void **state) {
    (void)state;
    char kept[700];
    reject_one('a', 1000, SNAPSHOT_REJECTED_S + 60);
    reject_one('b', 1000, SNAPSHOT_REJECTED_S - 60);
    assert_int_equal(snapshot_prune_rejected(dir, NULL), 0);
    rejected_path('a', kept);
    assert_false(fsio_exists(kept));
    rejected_path('b', kept);
    assert_true(fsio_exists(kept));
    reject_one('b', SNAPSHOT_REJECTED_BYTES / 2, 300);
    reject_one('c', SNAPSHOT_REJECTED_BYTES / 2, 200);
    reject_one('d', SNAPSHOT_REJECTED_BYTES / 2, 100);
    assert_int_equal(snapshot_prune_rejected(dir, NULL), 0);
    for (char digit = 'b'; digit <= 'd'; digit++) {
        rejected_path(digit, kept);
        assert_int_equal(fsio_exists(kept), digit >= 'c'); /* the newest */
    }
}

static void eeg_lies_beside_its_snapshot_and_goes_with_it(void **state) {
    (void)state;
    struct snapshot_entry *ids = NULL;
    size_t n = 0, len = 0;
    char *data = NULL, orphan[64];
    struct err err;
    assert_int_equal(snapshot_write(dir, id_of('e'), "state", 5, NULL), 0);
    assert_int_equal(snapshot_write_eeg(dir, id_of('e'), "traces", 6, NULL), 0);
    assert_int_equal(snapshot_write_eeg(dir, id_of('f'), "orphan", 6, NULL), 0); /* its snapshot was removed meanwhile */
    assert_int_equal(snapshot_read_beside(dir, id_of('f'), SNAPSHOT_EEG, &data, &len, &err), ERR_NOT_FOUND);
    str_format(orphan, sizeof orphan, "%s.eeg", id_of('f'));
    assert_int_equal(snapshot_write(dir, orphan, "orphan", 6, NULL), 0); /* and then the daemon was killed */
    assert_int_equal(snapshot_list(dir, SNAPSHOTS_HERE, &ids, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(ids[0].id, id_of('e'));
    free(ids);
    assert_int_equal(snapshot_read_beside(dir, id_of('f'), SNAPSHOT_EEG, &data, &len, &err), ERR_NOT_FOUND);
    assert_int_equal(snapshot_read_beside(dir, id_of('e'), SNAPSHOT_EEG, &data, &len, NULL), 0);
    assert_int_equal(len, 6);
    assert_memory_equal(data, "traces", 6);
    free(data);
    assert_int_equal(snapshot_remove(dir, id_of('e'), NULL), 0);
    assert_int_equal(snapshot_read_beside(dir, id_of('e'), SNAPSHOT_EEG, &data, &len, &err), ERR_NOT_FOUND);
}

static void live_ones_are_listed_before_those_that_have_ended(void **state) {
    (void)state;
    struct snapshot_entry *list = NULL;
    size_t n = 0;
    for (char digit = 'a'; digit <= 'd'; digit++)
        assert_int_equal(snapshot_write(dir, id_of(digit), "x", 1, NULL), 0);
    assert_int_equal(snapshot_end(dir, id_of('a'), NULL), 0);
    assert_int_equal(snapshot_end(dir, id_of('c'), NULL), 0);
    assert_int_equal(snapshot_list(dir, SNAPSHOTS_HERE, &list, &n, NULL), 0);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(*list[i].id, "bdac"[i]);
        assert_int_equal(list[i].ended, i >= 2);
    }
    free(list);
}

static void a_model_is_kept_only_if_it_is_the_one_of_the_snapshot(void **state) {
    (void)state;
    char file[600], kept[700], sha256[DIGEST_HEX_SIZE];
    struct snapshot_model *models = NULL;
    struct stat one, two;
    size_t n = 0;
    snprintf(file, sizeof file, "%s/model", folder);
    assert_int_equal(fsio_write_atomic(file, "weights", 7, NULL), 0);
    assert_true(digest_bytes("weights", 7, sha256));
    assert_int_equal(snapshot_keep_model(dir, sha256, file, NULL), 0);
    assert_int_equal(snapshot_model_path(dir, sha256, kept, sizeof kept, NULL), 0);
    assert_true(!stat(file, &one) && !stat(kept, &two) && one.st_ino == two.st_ino); /* a link, no copy */
    assert_int_equal(snapshot_list_models(dir, &models, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(models[0].sha256, sha256);
    free(models);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(snapshot_keep_model(dir, sha256, file, NULL), 0); /* it is kept already */
    assert_int_equal(snapshot_remove_model(dir, sha256, NULL), 0);
    assert_int_equal(fsio_write_atomic(file, "others!", 7, NULL), 0);
    assert_int_equal(snapshot_keep_model(dir, sha256, file, NULL), ERR_PRECONDITION);
    assert_int_equal(snapshot_list_models(dir, &models, &n, NULL), 0);
    assert_int_equal(n, 0);
    free(models);
}

static void what_a_killed_writer_left_is_removed(void **state) {
    (void)state;
    struct fsio_writer w;
    struct snapshot_entry *ids = NULL;
    size_t n = 0;
    assert_int_equal(fsio_writer_open(&w, path, NULL), 0);
    assert_int_equal(snapshot_list(dir, SNAPSHOTS_HERE, &ids, &n, NULL), 0);
    assert_int_equal(n, 0); /* a temporary file is no snapshot */
    assert_int_equal(snapshot_prepare(dir, NULL), 0);
    assert_false(fsio_exists(w.tmp_path));
    fsio_writer_abort(&w);
}

int main(void) {
#define SNAPSHOT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SNAPSHOT_TEST(what_is_written_is_read_and_nobody_else_may),
        SNAPSHOT_TEST(many_are_written_with_one_sync_and_each_says_its_error),
        SNAPSHOT_TEST(a_directory_that_cannot_be_read_to_its_end_is_an_error),
        SNAPSHOT_TEST(a_changed_byte_or_length_is_refused),
        SNAPSHOT_TEST(a_rejected_one_is_kept_aside),
        SNAPSHOT_TEST(rejected_ones_are_bounded_in_age_and_bytes),
        SNAPSHOT_TEST(live_ones_are_listed_before_those_that_have_ended),
        SNAPSHOT_TEST(a_model_is_kept_only_if_it_is_the_one_of_the_snapshot),
        SNAPSHOT_TEST(what_a_killed_writer_left_is_removed),
        SNAPSHOT_TEST(eeg_lies_beside_its_snapshot_and_goes_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
