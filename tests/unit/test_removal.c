/* removal, retention and pins: a job that is deleted leaves neither record nor folder, whatever ends the process in between, and no
 * model that serves is deleted; a pinned checkpoint has a link, and no other has one. */
#include "daemon/jobs/removal.h"
#include "daemon/models/serveddb.h"

#include <uv.h>

#include "base/base.h"
#include "daemon/jobs/pins.h"
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

struct fixture {
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
    struct fixture *f = ctx;
    if (f->n == 8)
        return false;
    f->orders[f->n++] = o;
    return true;
}

static int no_models(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    (void)ctx, (void)ret;
    return err_set(err, ERR_NOT_FOUND, "no model %s", ref);
}

static int job_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    (void)ref, (void)err;
    str_copy(ret->path, sizeof ret->path, ((struct fixture *)ctx)->model);
    return 0;
}

static struct removal removal_of(const struct fixture *f) {
    return (struct removal){.sched = f->sched, .db = f->db, .models = f->models};
}

static void start(struct fixture *f) {
    char path[600];
    str_format(path, sizeof path, "%s/jobs.sqlite", f->dir);
    assert_int_equal(db_open(path, &f->db, NULL), 0);
    const struct sched_config sched = {.db = f->db,
                                       .rules = {.places = &f->places, .refer_model = no_models},
                                       .cache_dir = f->dir,
                                       .max_queued = 10,
                                       .keep_finished_ms = -1,
                                       .places = {{"cpu", "cpu"}},
                                       .versions = ""};
    assert_int_equal(serveddb_setup(f->db, NULL), 0);
    assert_int_equal(sched_open(&sched, &f->sched, NULL), 0);
    const struct models_config models = {.db = f->db,
                                         .writer = sched_writer(f->sched),
                                         .post = take,
                                         .post_ctx = f,
                                         .loop = &f->loop,
                                         .places = &f->places,
                                         .job_model = job_model,
                                         .ctx = f};
    assert_int_equal(models_new(&models, &f->models, NULL), 0);
    const struct retention_config retention = {.loop = &f->loop, .removal = removal_of(f), .age_ms = -1, .max_bytes = -1};
    assert_int_equal(retention_new(&retention, &f->retention, NULL), 0);
}

/* Until nothing is left to be done. */
static void run(struct fixture *f) {
    for (int i = 0; i < 3; i++) {
        uv_run(&f->loop, UV_RUN_DEFAULT);
        db_writer_settle(sched_writer(f->sched));
    }
}

static void stop(struct fixture *f) {
    run(f);
    retention_free(f->retention);
    models_free(f->models);
    while (f->n)
        live_order_free(f->orders[--f->n]);
    sched_close(f->sched);
    db_close(f->db);
}

/* As kill -9 and a new start do, and the ticks of its first seconds. */
static void die_and_start(struct fixture *f) {
    stop(f);
    start(f);
    retention_tick(f->retention);
    run(f);
}

/* A job that has ended, with a model in its folder. */
static void make_job(struct fixture *f) {
    char path[600];
    struct job *job = job_new();
    str_copy(job->id, sizeof job->id, "train-1");
    str_copy(job->kind, sizeof job->kind, "train");
    str_copy(job->directory, sizeof job->directory, f->folder);
    job->sequence = 1;
    job->state = JOB_SUCCEEDED;
    job->yaml = strdup("kind: train\n");
    job->file = strdup("t.yaml");
    job->overrides = strdup("[]");
    job->request_id = strdup("");
    str_format(path, sizeof path, "%s/jobs.sqlite", f->dir);
    assert_int_equal(db_open(path, &f->db, NULL), 0);
    assert_int_equal(jobdb_setup(f->db, NULL), 0);
    assert_int_equal(jobdb_save(f->db, job, NULL), 0);
    db_close(f->db);
    job_free(job);
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    struct device *device = NULL;
    struct stream *queue = NULL;
    void *dir = NULL;
    *state = f;
    if (temp_dir_make(&dir) || device_open("cpu", 0, &device, NULL) || stream_open(device, STREAM_NORMAL, &queue, NULL))
        return -1;
    f->dir = dir;
    str_format(f->results, sizeof f->results, "%s/results", f->dir);
    str_format(f->folder, sizeof f->folder, "%s/jobs/train-1", f->results);
    str_format(f->model, sizeof f->model, "%s/checkpoints/best.safetensors", f->folder);
    f->places = (struct places){.data_dir = f->dir, .results_dir = f->results};
    if (fsio_mkdirs_above(f->model, NULL) || fixture_model(device, queue, f->model))
        return -1;
    stream_close(queue);
    device_close(device);
    uv_loop_init(&f->loop);
    make_job(f);
    start(f);
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    void *dir = f->dir;
    stuck = far = false;
    stop(f);
    uv_loop_close(&f->loop);
    free(f);
    return temp_dir_remove(&dir);
}

static int count_removal(void *ctx, const struct jobdb_removal *r, struct err *err) {
    (void)r, (void)err;
    ++*(int *)ctx;
    return 0;
}

static int unfinished(const struct fixture *f) {
    int n = 0;
    db_writer_settle(sched_writer(f->sched));
    assert_int_equal(jobdb_removals(f->db, count_removal, &n, NULL), 0);
    return n;
}

static void record(const struct fixture *f) {
    const struct removal removal = removal_of(f);
    char folder[2048];
    assert_int_equal(removal_record(&removal, "train-1", folder, NULL), 0);
    assert_string_equal(folder, f->folder);
    db_writer_settle(sched_writer(f->sched));
}

static void a_removal_that_the_process_did_not_finish_is_finished_by_the_next(void **state) {
    struct fixture *f = *state;
    record(f);
    assert_null(sched_get(f->sched, "train-1"));
    assert_true(fsio_exists(f->model));
    die_and_start(f);
    assert_null(sched_get(f->sched, "train-1"));
    assert_false(fsio_exists(f->folder));
    assert_int_equal(unfinished(f), 0);
}

static void a_folder_that_cannot_be_removed_is_tried_again_at_each_start(void **state) {
    struct fixture *f = *state;
    struct err err;
    stuck = true;
    record(f);
    assert_int_equal(removal_files(f->folder, &err), ERR_UNAVAILABLE);
    die_and_start(f);
    assert_true(fsio_exists(f->model));
    assert_int_equal(unfinished(f), 1);
    stuck = false;
    die_and_start(f);
    assert_false(fsio_exists(f->folder));
    assert_int_equal(unfinished(f), 0);
}

static void a_removal_that_ended_leaves_no_record(void **state) {
    struct fixture *f = *state;
    const struct removal removal = removal_of(f);
    record(f);
    assert_int_equal(unfinished(f), 1);
    assert_int_equal(removal_files(f->folder, NULL), 0);
    removal_end(&removal, "train-1");
    assert_int_equal(unfinished(f), 0);
}

static int count_checkpoint(void *ctx, const struct jobdb_checkpoint *c) {
    (void)c;
    ++*(int *)ctx;
    return 0;
}

static int checkpoints(const struct fixture *f) {
    int n = 0;
    assert_int_equal(jobdb_records(f->db, "train-1", count_checkpoint, &n, NULL), 0);
    return n;
}

/* From now on every write to the database fails, or succeeds again. */
static void break_database(const struct fixture *f, bool broken) {
    struct db_query q;
    assert_int_equal(db_query(f->db, broken ? "PRAGMA query_only=1" : "PRAGMA query_only=0", "break", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
}

static void a_removal_that_cannot_be_recorded_changes_nothing(void **state) {
    struct fixture *f = *state;
    const struct task_checkpoint c = {.step = 1};
    const struct removal removal = removal_of(f);
    char folder[2048];
    struct err err;
    assert_int_equal(jobdb_add_checkpoint(f->db, "train-1", &c, 1, NULL), 0);
    break_database(f, true);
    assert_int_equal(removal_record(&removal, "train-1", folder, &err), 0);
    db_writer_settle(sched_writer(f->sched));
    break_database(f, false);
    sched_tick(f->sched);
    db_writer_settle(sched_writer(f->sched));
    assert_non_null(sched_get(f->sched, "train-1"));
    assert_true(checkpoints(f) == 1 && unfinished(f) == 0);
    record(f);
    assert_true(checkpoints(f) == 0 && unfinished(f) == 1);
    assert_int_equal(removal_record(&removal, "train-1", folder, &err), ERR_NOT_FOUND);
}

static void a_job_that_has_not_ended_stays(void **state) {
    struct fixture *f = *state;
    char folder[2048];
    struct db_query q;
    struct err err;
    assert_int_equal(db_query(f->db, "UPDATE jobs SET state='queued'", "queue", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
    die_and_start(f);
    const struct removal removal = removal_of(f);
    assert_int_equal(removal_record(&removal, "train-1", folder, &err), ERR_PRECONDITION);
    assert_int_equal(sched_remove(f->sched, "train-1", "", &err), ERR_PRECONDITION);
    assert_int_equal(sched_open_count(f->sched), 1);
}

static void on_served(void *ctx, const struct live_opened *opened, const struct err *err) { (void)ctx, (void)opened, (void)err; }

/* Where no hard link is possible, the model that serves is the job's own file. */
static void a_job_whose_model_serves_from_another_volume_stays(void **state) {
    struct fixture *f = *state;
    const struct removal removal = removal_of(f);
    struct err err;
    char folder[2048];
    far = true;
    assert_int_equal(models_serve(f->models, &(struct models_request){.name = "ward", .ref = "job:train-1"}, on_served, f, NULL),
                     0);
    run(f);
    assert_string_equal(models_find(f->models, "ward")->path, f->model);
    assert_int_equal(removal_record(&removal, "train-1", folder, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "serves as ward"));
    assert_non_null(sched_get(f->sched, "train-1"));
    far = false;
    models_forget(f->models, f);
}

static void a_job_whose_model_serves_from_a_file_of_its_own_goes(void **state) {
    struct fixture *f = *state;
    assert_int_equal(models_serve(f->models, &(struct models_request){.name = "ward", .ref = "job:train-1"}, on_served, f, NULL),
                     0);
    run(f);
    record(f);
    models_forget(f->models, f);
}

static int links(const struct fixture *f) {
    char path[600];
    str_format(path, sizeof path, "%s/models", f->results);
    int n = 0;
    struct dirent *e = NULL;
    OWNED_DIR DIR *d = opendir(path);
    while (d && !fsio_next_entry(d, &e, NULL) && e)
        n += model_file_is_link(e->d_name);
    return n;
}

static int count_pinned(void *ctx, const struct jobdb_checkpoint *c) {
    *(int *)ctx += c->pinned;
    return 0;
}

/* Callers read the record before another one's pin, or before its deletion, and change it afterwards. */
static void a_checkpoint_has_a_link_while_it_is_pinned_whatever_callers_knew(void **state) {
    struct fixture *f = *state;
    const struct pins pins = {f->results, sched_writer(f->sched)};
    struct jobdb_checkpoint c = {.job_id = "train-1", .c = {.step = 1}};
    int pinned = 0;
    str_copy(c.c.path, sizeof c.c.path, f->model);
    assert_int_equal(jobdb_add_checkpoint(f->db, "train-1", &c.c, 1, NULL), 0);
    assert_int_equal(pins_add(&pins, &c, NULL), 0);
    assert_int_equal(links(f), 1);
    assert_int_equal(pins_add(&pins, &c, NULL), 0);
    assert_int_equal(jobdb_records(f->db, "train-1", count_pinned, &pinned, NULL), 0);
    assert_true(pinned == 1 && links(f) == 1);
    const struct removal removal = removal_of(f);
    assert_int_equal(removal_check(&removal, sched_get(f->sched, "train-1"), NULL), ERR_PRECONDITION);
    assert_int_equal(pins_remove(&pins, &c, NULL), 0);
    assert_int_equal(links(f), 0);
    assert_int_equal(removal_check(&removal, sched_get(f->sched, "train-1"), NULL), 0);
    assert_int_equal(jobdb_remove_checkpoint(f->db, "train-1", 1, NULL), 0);
    assert_int_equal(pins_add(&pins, &c, NULL), ERR_NOT_FOUND);
    assert_int_equal(links(f), 0);
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
        cmocka_unit_test_setup_teardown(a_checkpoint_has_a_link_while_it_is_pinned_whatever_callers_knew, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
