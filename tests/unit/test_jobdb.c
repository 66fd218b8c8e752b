/* jobdb: what was saved comes back, numbers of jobs never come again, pins keep what is pruned, and older databases are read. */
#include "base/base.h"
#include "daemon/jobs/jobdb.h"

#include "unit/temp_dir.h"

static struct db *open_in(void **state) {
    struct db *db;
    struct err err;
    if (db_open(in_dir(state, "jobs.sqlite"), &db, &err) || jobdb_setup(db, &err))
        fail_msg("%s", err.message);
    return db;
}

static struct job *make_job(int64_t sequence, enum job_state state) {
    struct job *job = job_new();
    assert_non_null(job);
    str_format(job->id, sizeof job->id, "train-%lld", (long long)sequence);
    str_copy(job->kind, sizeof job->kind, "train");
    job->sequence = sequence;
    job->state = state;
    job->yaml = strdup("kind: train\nname: 'a \"quoted\" one'\n");
    job->file = strdup("a.yaml");
    job->overrides = strdup("[\"x=1\",\"y=2\"]");
    job->request_id = strdup("");
    str_copy(job->owner, sizeof job->owner, "token:ana");
    return job;
}

struct loaded {
    struct job *jobs[16];
    int n;
    int64_t left;
};

static int keep(void *ctx, struct job *job, struct err *err) {
    struct loaded *l = ctx;
    (void)err;
    assert_true(l->n < 16);
    l->jobs[l->n++] = job;
    return 0;
}

static struct loaded load(struct db *db, int64_t max) {
    struct loaded l = {.left = -1};
    struct err err;
    if (jobdb_load(db, max, keep, &l, &l.left, &err))
        fail_msg("%s", err.message);
    return l;
}

static void unload(struct loaded *l) {
    for (int i = 0; i < l->n; i++)
        job_free(l->jobs[i]);
}

static void save(struct db *db, struct job *job) {
    struct err err;
    if (jobdb_save(db, job, &err))
        fail_msg("%s", err.message);
    job_free(job);
}

static void every_stored_field_of_a_job_comes_back(void **state) {
    struct db *db = open_in(state);
    struct job *job = make_job(3, JOB_RUNNING);
    str_copy(job->name, sizeof job->name, "n");
    str_copy(job->reason, sizeof job->reason, "r");
    str_copy(job->directory, sizeof job->directory, "/d");
    str_copy(job->data_root, sizeof job->data_root, "/e");
    str_copy(job->best, sizeof job->best, "/b");
    str_copy(job->last, sizeof job->last, "/l");
    str_copy(job->device, sizeof job->device, "cpu");
    str_copy(job->versions, sizeof job->versions, "brrd 1");
    job->priority = -4;
    job->created_ms = 5;
    job->started_ms = 6;
    job->finished_ms = 7;
    job->attempts = 8;
    job->restarts = 9;
    job->crashes = 10;
    job->stalled = 11;
    job->retry_ms = INT64_C(1) << 40;
    job->wish = JOB_WISH_SHUTDOWN;
    job->energy_j = 0.1;
    job->progress.step = 12;
    job->progress.loss = 1e-300;
    job->result = strdup("{\"a\":1}");
    assert_int_equal(jobdb_save(db, job, NULL), 0);
    db_close(db);
    db = open_in(state);
    struct loaded l = load(db, 10);
    assert_int_equal(l.n, 1);
    const struct job *got = l.jobs[0];
#define SAME_TEXT(field) assert_string_equal(got->field, job->field)
#define SAME(field)      assert_true(got->field == job->field)
    SAME_TEXT(id), SAME_TEXT(kind), SAME_TEXT(name), SAME_TEXT(reason), SAME_TEXT(directory), SAME_TEXT(data_root);
    SAME_TEXT(best), SAME_TEXT(last), SAME_TEXT(device), SAME_TEXT(versions), SAME_TEXT(yaml), SAME_TEXT(file);
    SAME_TEXT(owner), SAME_TEXT(overrides), SAME_TEXT(request_id), SAME_TEXT(result);
    SAME(sequence), SAME(priority), SAME(state), SAME(created_ms), SAME(started_ms), SAME(finished_ms), SAME(attempts);
    SAME(restarts), SAME(crashes), SAME(stalled), SAME(retry_ms), SAME(wish), SAME(energy_j);
    SAME(progress.step), SAME(progress.loss);
#undef SAME
#undef SAME_TEXT
    unload(&l);
    job_free(job);
    db_close(db);
}

static void unknown_figures_and_results_stay_unknown(void **state) {
    struct db *db = open_in(state);
    save(db, make_job(1, JOB_QUEUED));
    struct loaded l = load(db, 10);
    assert_true(isnan(l.jobs[0]->energy_j) && isnan(l.jobs[0]->progress.loss));
    assert_null(l.jobs[0]->result);
    unload(&l);
    db_close(db);
}

static void loading_leaves_the_oldest_ended_jobs_and_never_one_that_waits(void **state) {
    struct db *db = open_in(state);
    for (int i = 1; i <= 6; i++)
        save(db, make_job(i, i == 1 || i == 6 ? JOB_QUEUED : JOB_SUCCEEDED));
    struct loaded l = load(db, 4);
    assert_int_equal(l.n, 4);
    assert_true(l.left == 2);
    static const int64_t want[] = {1, 4, 5, 6};
    for (int i = 0; i < 4; i++)
        assert_true(l.jobs[i]->sequence == want[i]);
    unload(&l);
    db_close(db);
}

static int64_t next_number(struct db *db) {
    int64_t next = -1;
    assert_int_equal(jobdb_sequence(db, &next, NULL), 0);
    return next;
}

static void the_number_of_a_forgotten_job_does_not_come_again(void **state) {
    struct db *db = open_in(state);
    assert_true(next_number(db) == 1);
    save(db, make_job(41, JOB_SUCCEEDED));
    assert_true(next_number(db) == 42); /* a database of a version without the counter */
    assert_int_equal(jobdb_save_sequence(db, 42, NULL), 0);
    assert_int_equal(jobdb_remove_job(db, "train-41", NULL), 0);
    db_close(db);
    db = open_in(state);
    struct loaded l = load(db, 10);
    assert_int_equal(l.n, 0);
    assert_true(next_number(db) == 42);
    db_close(db);
}

/* ---- checkpoints ---- */

struct found {
    struct jobdb_checkpoint items[8];
    int n;
};

static int find(void *ctx, const struct jobdb_checkpoint *c) {
    struct found *f = ctx;
    f->items[f->n++] = *c;
    return 0;
}

static struct found *found_of(struct db *db, const char *job_id) {
    static struct found f;
    f.n = 0;
    assert_int_equal(jobdb_records(db, job_id, find, &f, NULL), 0);
    return &f;
}

static struct task_checkpoint make_checkpoint(const char *path, int64_t step, const char *sha256, double metric) {
    struct task_checkpoint c = {.step = step, .metric = metric, .bytes = 1};
    str_copy(c.path, sizeof c.path, path);
    str_copy(c.sha256, sizeof c.sha256, sha256);
    str_copy(c.metric_name, sizeof c.metric_name, isnan(metric) ? "" : "f1");
    put_file(path, "x", 1);
    return c;
}

static void a_checkpoint_that_is_announced_again_keeps_its_time_and_metric(void **state) {
    struct db *db = open_in(state);
    struct task_checkpoint c = make_checkpoint(in_dir(state, "m"), 5, "aa", 0.75);
    assert_int_equal(jobdb_add_checkpoint(db, "j", &c, 100, NULL), 0);
    c.metric = (double)NAN;
    c.metric_name[0] = '\0';
    assert_int_equal(jobdb_add_checkpoint(db, "j", &c, 200, NULL), 0);
    struct found *f = found_of(db, "j");
    assert_int_equal(f->n, 1);
    assert_true(f->items[0].created_ms == 100 && f->items[0].c.metric == 0.75);
    assert_string_equal(f->items[0].c.metric_name, "f1");
    str_copy(c.sha256, sizeof c.sha256, "bb"); /* another file: what was measured of the first says nothing of it */
    assert_int_equal(jobdb_add_checkpoint(db, "j", &c, 300, NULL), 0);
    f = found_of(db, "j");
    assert_true(isnan(f->items[0].c.metric));
    assert_string_equal(f->items[0].c.sha256, "bb");
    db_close(db);
}

static void a_pin_names_the_file_that_it_keeps_until_it_is_taken_away(void **state) {
    struct db *db = open_in(state);
    const char *path = in_dir(state, "step-5"), *kept = in_dir(state, "kept-5");
    struct task_checkpoint c = make_checkpoint(path, 5, "aa", (double)NAN);
    assert_int_equal(jobdb_add_checkpoint(db, "j", &c, 100, NULL), 0);
    assert_int_equal(jobdb_pin(db, "j", 5, kept, NULL), 0);
    struct db_query q; /* earlier versions could leave a pin whose checkpoint has gone: nobody can take it away */
    db_query(db, "INSERT INTO pins(job_id, step, path) VALUES('j', 4, '')", "leave a pin", &q, NULL);
    assert_int_equal(db_run(&q, NULL), 0);
    int64_t pinned = 0;
    assert_int_equal(jobdb_pinned(db, "j", &pinned, NULL), 0);
    assert_int_equal(pinned, 5);
    struct found *f = found_of(db, "");
    assert_true(f->n == 1 && f->items[0].pinned);
    assert_string_equal(f->items[0].c.path, path);
    assert_string_equal(f->items[0].kept, kept);
    struct jobdb_checkpoint one = {.created_ms = 7};
    bool is_there = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(jobdb_record_at(db, i ? kept : path, &one, &is_there, NULL), 0);
        assert_true(is_there && one.pinned && one.c.step == 5 && one.created_ms == 100);
    }
    assert_int_equal(jobdb_record(db, "j", 5, &one, &is_there, NULL), 0);
    assert_true(is_there && !strcmp(one.kept, kept));
    assert_int_equal(jobdb_record(db, "j", 6, &one, &is_there, NULL), 0);
    assert_false(is_there);
    assert_int_equal(jobdb_record_at(db, "elsewhere", &one, &is_there, NULL), 0);
    assert_false(is_there);
    assert_int_equal(jobdb_remove_checkpoint(db, "j", 5, NULL), ERR_PRECONDITION);
    assert_int_equal(jobdb_unpin(db, "j", 5, NULL), 0);
    assert_int_equal(jobdb_pinned(db, "j", &pinned, NULL), 0);
    assert_int_equal(pinned, -1);
    f = found_of(db, "j");
    assert_true(f->n == 1 && !f->items[0].pinned);
    assert_int_equal(jobdb_remove_checkpoint(db, "j", 5, NULL), 0);
    assert_int_equal(jobdb_pin(db, "j", 5, kept, NULL), ERR_NOT_FOUND);
    db_close(db);
}

static void a_database_with_fewer_columns_is_read_and_extended(void **state) {
    static const char *const statements[] = {
        "CREATE TABLE jobs(id TEXT PRIMARY KEY, sequence INTEGER, kind TEXT, name TEXT, priority INTEGER, state TEXT, reason TEXT, "
        "created_ms INTEGER, started_ms INTEGER, finished_ms INTEGER, attempts INTEGER, restarts INTEGER, directory TEXT, "
        "data_root "
        "TEXT, yaml TEXT, file TEXT, overrides TEXT, request_id TEXT, result TEXT, best TEXT, last TEXT)",
        "INSERT INTO jobs VALUES('train-9', 9, 'train', 'n', 0, 'succeeded', '', 1, 2, 3, 1, 2, '/d', '/e', 'y', 'f', "
        "'[\"x=1\",\"y=2\"]', '', '{}', '/b', '/l')",
        "CREATE TABLE pins(job_id TEXT, step INTEGER, PRIMARY KEY(job_id, step))"};
    struct db *db;
    struct db_query q;
    assert_int_equal(db_open(in_dir(state, "jobs.sqlite"), &db, NULL), 0);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        assert_int_equal(db_query(db, statements[i], "make", &q, NULL), 0);
        assert_int_equal(db_run(&q, NULL), 0);
    }
    assert_int_equal(jobdb_setup(db, NULL), 0);
    struct loaded l = load(db, 10);
    assert_int_equal(l.n, 1);
    assert_true(l.jobs[0]->restarts == 2 && l.jobs[0]->crashes == 0 && l.jobs[0]->wish == JOB_WISH_NONE);
    assert_string_equal(l.jobs[0]->versions, "");
    assert_string_equal(l.jobs[0]->overrides, "[\"x=1\",\"y=2\"]");
    str_copy(l.jobs[0]->device, sizeof l.jobs[0]->device, "cpu");
    assert_int_equal(jobdb_save(db, l.jobs[0], NULL), 0);
    assert_true(next_number(db) == 10);
    unload(&l);
    db_close(db);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(every_stored_field_of_a_job_comes_back),
        in_temp_dir(unknown_figures_and_results_stay_unknown),
        in_temp_dir(loading_leaves_the_oldest_ended_jobs_and_never_one_that_waits),
        in_temp_dir(the_number_of_a_forgotten_job_does_not_come_again),
        in_temp_dir(a_checkpoint_that_is_announced_again_keeps_its_time_and_metric),
        in_temp_dir(a_pin_names_the_file_that_it_keeps_until_it_is_taken_away),
        in_temp_dir(a_database_with_fewer_columns_is_read_and_extended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
