/* db: one process at a time, tables that grow with the version, transactions that are whole, errors that name the file. */
#include "base/base.h"
#include "daemon/db/db.h"

#include <sys/wait.h>

#include "skip.h"
#include "unit/temp_dir.h"

static const struct db_column columns[] = {{"name", "TEXT"}, {"value", "INTEGER"}, {"rate", "REAL"}};

static struct db *open_in(void **state) {
    struct db *db;
    struct err err;
    if (db_open(in_dir(state, "jobs.sqlite"), &db, &err))
        fail_msg("%s", err.message);
    return db;
}

/* Its files are readable for the daemon alone, also those of an earlier version. */
static void a_database_is_its_owners_alone(void **state) {
    static const char *const files[] = {"jobs.sqlite", "jobs.sqlite-wal", "jobs.sqlite-shm"};
    const mode_t before = umask(0);
    for (int again = 0; again < 2; again++) {
        struct db *db = open_in(state);
        for (int i = 0; i < 3; i++) {
            struct stat st;
            assert_false(stat(in_dir(state, files[i]), &st));
            assert_int_equal(st.st_mode & 0777, 0600);
        }
        db_close(db);
        assert_false(chmod(in_dir(state, files[0]), 0644));
    }
    umask(before);
}

static void make_table(struct db *db, size_t n) { assert_int_equal(db_table(db, "t", columns, n, "name", NULL), 0); }

static int put(struct db *db, const char *name, int64_t value, struct err *err) {
    struct db_query q;
    int rc = db_query(db, "INSERT INTO t(name, value) VALUES(?,?)", "put a row", &q, err);
    if (rc)
        return rc;
    db_put_text(&q, name);
    db_put_int(&q, value);
    return db_run(&q, err);
}

static int64_t count(struct db *db) {
    struct db_query q;
    bool row = false;
    assert_int_equal(db_query(db, "SELECT count(*) FROM t", "count", &q, NULL), 0);
    assert_int_equal(db_next(&q, &row, NULL), 0);
    assert_true(row);
    int64_t n = db_int(&q, 0);
    db_done(&q);
    return n;
}

static void values_come_back_after_reopening(void **state) {
    struct db *db = open_in(state);
    struct db_query q;
    bool row = false;
    make_table(db, 3);
    assert_int_equal(db_query(db, "INSERT INTO t VALUES(?,?,?)", "put", &q, NULL), 0);
    db_put_text(&q, "a'b\"c");
    db_put_int(&q, INT64_MIN);
    db_put_real(&q, (double)NAN);
    assert_int_equal(db_run(&q, NULL), 0);
    db_close(db);
    db = open_in(state);
    assert_int_equal(db_query(db, "SELECT name, value, rate FROM t", "read", &q, NULL), 0);
    assert_int_equal(db_next(&q, &row, NULL), 0);
    assert_true(row);
    assert_string_equal(db_text(&q, 0), "a'b\"c");
    assert_true(db_int(&q, 1) == INT64_MIN);
    assert_true(isnan(db_real(&q, 2)) && db_is_null(&q, 2));
    assert_int_equal(db_next(&q, &row, NULL), 0);
    assert_false(row);
    db_done(&q);
    db_close(db);
}

static void a_second_process_is_refused(void **state) {
    struct db *db = open_in(state);
    pid_t child = fork();
    if (!child) {
        struct db *other;
        struct err err;
        _exit(db_open(in_dir(state, "jobs.sqlite"), &other, &err) == ERR_PRECONDITION && strstr(err.message, "jobs.database") ? 0
                                                                                                                              : 1);
    }
    int status = -1;
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    db_close(db);
}

static void a_table_of_an_earlier_version_gains_columns(void **state) {
    struct db *db = open_in(state);
    struct db_query q;
    bool row = false;
    make_table(db, 2);
    assert_int_equal(put(db, "old", 7, NULL), 0);
    make_table(db, 3);
    make_table(db, 2); /* an earlier version again: nothing is taken away */
    assert_int_equal(db_query(db, "SELECT value, rate FROM t", "read", &q, NULL), 0);
    assert_int_equal(db_next(&q, &row, NULL), 0);
    assert_int_equal(db_int(&q, 0), 7);
    assert_true(db_is_null(&q, 1));
    db_done(&q);
    db_close(db);
}

static void a_transaction_is_kept_whole_or_not_at_all(void **state) {
    struct db *db = open_in(state);
    struct err err;
    make_table(db, 2);
    assert_int_equal(db_begin(db, NULL), 0);
    assert_int_equal(put(db, "a", 1, NULL), 0);
    int rc = put(db, "a", 2, &err); /* the key is there already */
    assert_int_equal(rc, ERR_INTERNAL);
    assert_int_equal(db_end(db, rc, &err), rc);
    assert_int_equal(count(db), 0);
    assert_int_equal(db_begin(db, NULL), 0);
    assert_int_equal(db_end(db, put(db, "a", 1, NULL), NULL), 0);
    assert_int_equal(count(db), 1);
    db_close(db);
}

static void errors_name_the_file_and_what_was_tried(void **state) {
    struct db *db = open_in(state);
    struct db_query q;
    struct err err;
    assert_int_equal(put(db, "a", 1, &err), ERR_INTERNAL);
    assert_non_null(strstr(err.message, "jobs.sqlite"));
    assert_non_null(strstr(err.message, "cannot put a row"));
    make_table(db, 2);
    assert_int_equal(db_query(db, "PRAGMA max_page_count=1", "shrink", &q, NULL), 0); /* as many as there are: full */
    bool row;
    assert_int_equal(db_next(&q, &row, NULL), 0);
    db_done(&q);
    int rc = 0;
    for (int i = 0; i < 10000 && !rc; i++) {
        char name[40];
        str_format(name, sizeof name, "a name of some length %d", i);
        rc = put(db, name, i, &err);
    }
    assert_int_equal(rc, ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "free some space"));
    db_close(db);
}

/* Its error reaches whoever looks at the end of the statement alone. */
static void a_query_that_failed_takes_parameters_and_runs_nothing(void **state) {
    struct db *db = open_in(state);
    struct db_query q;
    struct err first = {0}, err = {0};
    bool row = true;
    make_table(db, 3);
    assert_int_equal(db_query(db, "INSERT INTO other VALUES(?,?,?,?)", "put a row", &q, &first), ERR_INTERNAL);
    assert_int_equal(db_query(db, "INSERT INTO other VALUES(?,?,?,?)", "put a row", &q, &err), ERR_INTERNAL);
    db_put_text(&q, "a");
    db_put_int(&q, 1);
    db_put_real(&q, 0.5);
    db_put_null(&q);
    assert_int_equal(put(db, "b", 2, NULL), 0);
    assert_int_equal(db_next(&q, &row, &err), ERR_INTERNAL);
    assert_int_equal(db_run(&q, &err), ERR_INTERNAL);
    assert_true(row && strstr(err.message, "cannot put a row: no such table"));
    assert_string_equal(err.message, first.message);
    assert_int_equal(count(db), 1);
    db_close(db);
}

static void set_schema(struct db *db, int schema) {
    char sql[60];
    struct db_query q;
    str_format(sql, sizeof sql, "PRAGMA user_version=%d", schema);
    assert_int_equal(db_query(db, sql, "set", &q, NULL) || db_run(&q, NULL), 0);
    db_close(db);
}

static void a_file_of_a_later_version_is_refused_and_left_as_it_is(void **state) {
    struct db *db = NULL;
    struct err err;
    set_schema(open_in(state), 7);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(db_open(in_dir(state, "jobs.sqlite"), &db, &err), ERR_PRECONDITION);
        assert_non_null(strstr(err.message, "schema 7"));
    }
}

/* In a process of its own, whose temporary directory is a small volume. */
static int read_on_full_volume(const char *dir) {
    char path[300], filler[300], block[4096] = "";
    struct err err = {0};
    struct db *db = NULL;
    str_format(path, sizeof path, "%s/jobs.sqlite", dir);
    str_format(filler, sizeof filler, "%s/filler", dir);
    if (db_open(path, &db, &err) || db_table(db, "t", columns, 2, "name", &err) || put(db, "a", 1, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    db_close(db);
    FILE *f = fopen(filler, "w");
    setbuf(f, NULL);
    while (fwrite(block, 1, 512, f) == 512)
        continue;
    if (db_open(path, &db, &err) || db_table(db, "t", columns, 2, "name", &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    if (count(db) != 1 || put(db, "b", 1, &err) != ERR_EXHAUSTED)
        return fprintf(stderr, "%s\n", err.message), 1;
    fclose(f);
    remove(filler);
    if (put(db, "b", 1, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    db_close(db);
    return 0;
}

static void a_file_on_a_full_volume_can_be_read_and_later_written(void **state) {
    char program[300], command[1200];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(n > 0);
    program[n] = '\0';
    str_format(command, sizeof command,
               "unshare -rm sh -c 'mount -t tmpfs -o size=200k none \"$1\" || exit 77; exec \"$2\" full \"$1\"' sh '%s' '%s'",
               (const char *)*state, program);
    int status = system(command);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 1) && system("unshare -rm true"))
        skip_because(SKIP_RIGHTS, "no mount namespaces here, so no small file system can be made");
    assert_int_equal(status, 0);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "full"))
        return read_on_full_volume(argv[2]);
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_database_is_its_owners_alone),
        in_temp_dir(values_come_back_after_reopening),
        in_temp_dir(a_second_process_is_refused),
        in_temp_dir(a_table_of_an_earlier_version_gains_columns),
        in_temp_dir(a_file_of_a_later_version_is_refused_and_left_as_it_is),
        in_temp_dir(a_file_on_a_full_volume_can_be_read_and_later_written),
        in_temp_dir(a_transaction_is_kept_whole_or_not_at_all),
        in_temp_dir(errors_name_the_file_and_what_was_tried),
        in_temp_dir(a_query_that_failed_takes_parameters_and_runs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
