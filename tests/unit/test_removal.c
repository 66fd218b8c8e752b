/* removal and retention: a job that is deleted leaves neither record nor folder, whatever ends the process in between, and no model
 * that serves is deleted. */
#include "daemon/jobs/removal.h"

#include <errno.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/jobs/retention.h"
#include "unit/model_fixture.h"
#include "unit/temp_dir.h"

/* While set, folders cannot be removed, and all directories are volumes of their own. */
static bool stuck, far;
int __real_fsio_remove_tree(const char *path, struct err *err);
int __wrap_fsio_remove_tree(const char *path, struct err *err);
int __wrap_fsio_remove_tree(const char *path, struct err *err) {
    return stuck ? err_set(err, ERR_UNAVAILABLE, "%s does not answer", path) : __real_fsio_remove_tree(path, err);
}
int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to) {
    if (!far)
        return __real_link(from, to);
    errno = EXDEV;
    return -1;
}

struct rig {
    char *dir, results[512], folder[600], model[700];
    struct db *db;
    struct places places;
    struct sched *sched;
    struct models *models;
    struct retention *retention;
    struct live_order *orders[8]; /* that the worker took */
    int n;
    uv_loop_t loop;
};

static bool take(void *ctx, struct live_order *o) {
    struct rig *rig = ctx;
    if (rig->n == 8)
        return false;
    rig->orders[rig->n++] = o;
    return true;
}

static int no_models(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    (void)ctx, (void)ret;
    return err_set(err, ERR_NOT_FOUND, "no model %s", ref);
}

static int job_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    (void)ref, (void)err;
    str_copy(ret->path, sizeof ret->path, ((struct rig *)ctx)->model);
    return 0;
}

static struct removal removal_of(const struct rig *rig) {
    return (struct removal){.sched = rig->sched, .db = rig->db, .models = rig->models};
}

static void start(struct rig *rig) {
    char path[600];
    str_format(path, sizeof path, "%s/jobs.sqlite", rig->dir);
    assert_int_equal(db_open(path, &rig->db, NULL), 0);
    const struct sched_config sched = {.db = rig->db,
                                       .rules = {.places = &rig->places, .refer_model = no_models},
                                       .cache_dir = rig->dir,
                                       .max_queued = 10,
                                       .keep_finished_ms = -1,
                                       .devices = {{"cpu", "cpu"}},
                                       .versions = ""};
    const struct models_config models = {.db = rig->db,
                                         .post = take,
                                         .post_ctx = rig,
                                         .loop = &rig->loop,
                                         .places = &rig->places,
                                         .job_model = job_model,
                                         .ctx = rig};
    assert_int_equal(sched_open(&sched, &rig->sched, NULL), 0);
    assert_int_equal(models_new(&models, &rig->models, NULL), 0);
    const struct retention_config retention = {.loop = &rig->loop, .removal = removal_of(rig), .age_ms = -1, .max_bytes = -1};
    assert_int_equal(retention_new(&retention, &rig->retention, NULL), 0);
}

static void stop(struct rig *rig) {
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    retention_free(rig->retention);
    models_free(rig->models);
    while (rig->n)
        live_order_free(rig->orders[--rig->n]);
    sched_close(rig->sched);
    db_close(rig->db);
}

/* As kill -9 and a new start do, and the ticks of its first seconds. */
static void die_and_start(struct rig *rig) {
    stop(rig);
    start(rig);
    retention_tick(rig->retention);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
}

/* A job that has ended, with a model in its folder. */
static void make_job(struct rig *rig) {
    char path[600];
    struct job *job = job_new();
    str_copy(job->id, sizeof job->id, "train-1");
    str_copy(job->kind, sizeof job->kind, "train");
    str_copy(job->directory, sizeof job->directory, rig->folder);
    job->sequence = 1;
    job->state = JOB_SUCCEEDED;
    job->yaml = strdup("kind: train\n");
    job->file = strdup("t.yaml");
    job->overrides = strdup("[]");
    job->request_id = strdup("");
    str_format(path, sizeof path, "%s/jobs.sqlite", rig->dir);
    assert_int_equal(db_open(path, &rig->db, NULL), 0);
    assert_int_equal(jobdb_setup(rig->db, NULL), 0);
    assert_int_equal(jobdb_save(rig->db, job, NULL), 0);
    db_close(rig->db);
    job_free(job);
}

static int set_up(void **state) {
    struct rig *rig = calloc(1, sizeof *rig);
    struct device *device = NULL;
    struct stream *queue = NULL;
    void *dir = NULL;
    *state = rig;
    if (temp_dir_make(&dir) || device_open("cpu", 0, &device, NULL) || stream_open(device, STREAM_NORMAL, &queue, NULL))
        return -1;
    rig->dir = dir;
    str_format(rig->results, sizeof rig->results, "%s/results", rig->dir);
    str_format(rig->folder, sizeof rig->folder, "%s/jobs/train-1", rig->results);
    str_format(rig->model, sizeof rig->model, "%s/checkpoints/best.safetensors", rig->folder);
    rig->places = (struct places){.data_dir = rig->dir, .results_dir = rig->results};
    if (fsio_mkdirs_above(rig->model, NULL) || fixture_model(device, queue, rig->model))
        return -1;
    stream_close(queue);
    device_close(device);
    uv_loop_init(&rig->loop);
    make_job(rig);
    start(rig);
    return 0;
}

static int tear_down(void **state) {
    struct rig *rig = *state;
    void *dir = rig->dir;
    stuck = far = false;
    stop(rig);
    uv_loop_close(&rig->loop);
    free(rig);
    return temp_dir_remove(&dir);
}

static int count_removal(void *ctx, const struct jobdb_removal *r, struct err *err) {
    (void)r, (void)err;
    ++*(int *)ctx;
    return 0;
}

static int unfinished(const struct rig *rig) {
    int n = 0;
    assert_int_equal(jobdb_removals(rig->db, count_removal, &n, NULL), 0);
    return n;
}

static void record(const struct rig *rig) {
    const struct removal removal = removal_of(rig);
    char folder[2048];
    assert_int_equal(removal_record(&removal, "train-1", folder, NULL), 0);
    assert_string_equal(folder, rig->folder);
}

static void a_removal_that_the_process_did_not_finish_is_finished_by_the_next(void **state) {
    struct rig *rig = *state;
    record(rig);
    assert_null(sched_get(rig->sched, "train-1"));
    assert_true(fsio_exists(rig->model));
    die_and_start(rig);
    assert_null(sched_get(rig->sched, "train-1"));
    assert_false(fsio_exists(rig->folder));
    assert_int_equal(unfinished(rig), 0);
}

static void a_folder_that_cannot_be_removed_is_tried_again_at_each_start(void **state) {
    struct rig *rig = *state;
    struct err err;
    stuck = true;
    record(rig);
    assert_int_equal(removal_files(rig->folder, &err), ERR_UNAVAILABLE);
    die_and_start(rig);
    assert_true(fsio_exists(rig->model));
    assert_int_equal(unfinished(rig), 1);
    stuck = false;
    die_and_start(rig);
    assert_false(fsio_exists(rig->folder));
    assert_int_equal(unfinished(rig), 0);
}

static void a_removal_that_ended_leaves_no_record(void **state) {
    struct rig *rig = *state;
    const struct removal removal = removal_of(rig);
    record(rig);
    assert_int_equal(unfinished(rig), 1);
    assert_int_equal(removal_files(rig->folder, NULL), 0);
    removal_end(&removal, "train-1");
    assert_int_equal(unfinished(rig), 0);
}

static int count_checkpoint(void *ctx, const struct jobdb_checkpoint *c) {
    (void)c;
    ++*(int *)ctx;
    return 0;
}

static int checkpoints(const struct rig *rig) {
    int n = 0;
    assert_int_equal(jobdb_records(rig->db, "train-1", count_checkpoint, &n, NULL), 0);
    return n;
}

/* From now on every write to the database fails, or succeeds again. */
static void break_database(const struct rig *rig, bool broken) {
    struct db_query q;
    assert_int_equal(db_query(rig->db, broken ? "PRAGMA query_only=1" : "PRAGMA query_only=0", "break", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
}

static void a_removal_that_cannot_be_recorded_changes_nothing(void **state) {
    struct rig *rig = *state;
    const struct task_checkpoint c = {.step = 1};
    const struct removal removal = removal_of(rig);
    char folder[2048];
    struct err err;
    assert_int_equal(jobdb_add_checkpoint(rig->db, "train-1", &c, 1, NULL), 0);
    break_database(rig, true);
    assert_int_not_equal(removal_record(&removal, "train-1", folder, &err), 0);
    break_database(rig, false);
    assert_non_null(sched_get(rig->sched, "train-1"));
    assert_true(checkpoints(rig) == 1 && unfinished(rig) == 0);
    record(rig);
    assert_true(checkpoints(rig) == 0 && unfinished(rig) == 1);
    assert_int_equal(removal_record(&removal, "train-1", folder, &err), ERR_NOT_FOUND);
}

static void a_job_that_has_not_ended_stays(void **state) {
    struct rig *rig = *state;
    char folder[2048];
    struct db_query q;
    struct err err;
    assert_int_equal(db_query(rig->db, "UPDATE jobs SET state='queued'", "queue", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
    die_and_start(rig);
    const struct removal removal = removal_of(rig);
    assert_int_equal(removal_record(&removal, "train-1", folder, &err), ERR_PRECONDITION);
    assert_int_equal(sched_remove(rig->sched, "train-1", "", &err), ERR_PRECONDITION);
    assert_int_equal(sched_open_count(rig->sched), 1);
}

static void on_served(void *ctx, const struct live_opened *opened, const struct err *err) { (void)ctx, (void)opened, (void)err; }

/* Where no hard link is possible, the model that serves is the job's own file. */
static void a_job_whose_model_serves_from_another_volume_stays(void **state) {
    struct rig *rig = *state;
    const struct removal removal = removal_of(rig);
    struct err err;
    char folder[2048];
    far = true;
    assert_int_equal(models_serve(rig->models, &(struct models_request){"ward", "job:train-1", ""}, on_served, rig, NULL), 0);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_string_equal(models_find(rig->models, "ward")->path, rig->model);
    assert_int_equal(removal_record(&removal, "train-1", folder, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "serves as ward"));
    assert_non_null(sched_get(rig->sched, "train-1"));
    far = false;
    models_forget(rig->models, rig);
}

static void a_job_whose_model_serves_from_a_file_of_its_own_goes(void **state) {
    struct rig *rig = *state;
    assert_int_equal(models_serve(rig->models, &(struct models_request){"ward", "job:train-1", ""}, on_served, rig, NULL), 0);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    record(rig);
    models_forget(rig->models, rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_removal_that_the_process_did_not_finish_is_finished_by_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_removed_is_tried_again_at_each_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_removal_that_ended_leaves_no_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_removal_that_cannot_be_recorded_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_that_has_not_ended_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_whose_model_serves_from_another_volume_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_whose_model_serves_from_a_file_of_its_own_goes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
