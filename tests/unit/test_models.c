/* models: a served name is lost neither when memory is short, nor when the database or the worker takes nothing. */
#include "base/base.h"
#include "daemon/models/models.h"
#include "daemon/models/serveddb.h"

#include <uv.h>

#include "unit/model_fixture.h"
#include "unit/temp_dir.h"

/* While memory is short no report can be made: calloc fails for its size (the linker's --wrap). */
static bool memory_short;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return memory_short && size == sizeof(struct live_report) ? NULL : __real_calloc(n, size);
}

/* The directory that was made durable last. */
static struct stat synced;
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    struct stat st;
    if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
        synced = st;
    return __real_fsync(fd);
}

/* As on a volume without hard links. */
static bool no_links;
int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to) {
    if (!no_links)
        return __real_link(from, to);
    errno = EPERM;
    return -1;
}

struct bench {
    char dir[256], results[300];
    struct db *db;
    struct db_writer *writer;
    struct places places;
    struct models *models;
    uv_loop_t loop;
    struct live_order *orders[8]; /* that the worker took */
    int n, refuse;                /* refuse: how many it does not take from now on */
};

static bool take(void *ctx, struct live_order *o) {
    struct bench *b = ctx;
    if (b->refuse > 0 || b->n == 8) {
        b->refuse--;
        return false;
    }
    b->orders[b->n++] = o;
    return true;
}

/* Until nothing is left to be done. */
static void run(struct bench *b) {
    for (int i = 0; i < 3; i++) { /* a fetch, its record, the removal of older files */
        uv_run(&b->loop, UV_RUN_DEFAULT);
        db_writer_settle(b->writer);
    }
}

static void start(struct bench *b) {
    const struct models_config config = {
        .db = b->db, .writer = b->writer, .post = take, .post_ctx = b, .loop = &b->loop, .places = &b->places};
    struct err err;
    if (models_new(&config, &b->models, &err))
        fail_msg("%s", err.message);
    run(b);
}

static void note(void *ctx, const struct live_opened *opened, const struct err *err) {
    if (!opened)
        *(struct err *)ctx = *err;
}

/* Serves and waits for the file work. */
static int serve(struct bench *b, const char *name, const char *ref, struct err *err) {
    struct err own, *said = err ? err : &own;
    said->code = 0;
    int rc = models_serve(b->models, &(struct models_request){.name = name, .ref = ref}, note, said, said);
    run(b);
    models_forget(b->models, said);
    return rc ? rc : said->code;
}

static void stop(struct bench *b) {
    models_free(b->models);
    while (b->n)
        live_order_free(b->orders[--b->n]);
}

/* Changes the last weight of a model file. */
static int other_weights(const char *path) {
    FILE *f = fopen(path, "r+b");
    return !f || fseek(f, -1, SEEK_END) || fputc(0x11, f) < 0 || fclose(f) ? -1 : 0;
}

/* Uploads "a" and "b", of which "a" is to be served as "ward". */
static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    struct device *device = NULL;
    struct stream *queue = NULL;
    char path[600];
    void *dir = NULL;
    *state = b;
    if (temp_dir_make(&dir) || device_open("cpu", 0, &device, NULL) || stream_open(device, STREAM_NORMAL, &queue, NULL))
        return -1;
    str_copy(b->dir, sizeof b->dir, dir);
    free(dir);
    str_format(b->results, sizeof b->results, "%s/results", b->dir);
    b->places = (struct places){.results_dir = b->results};
    for (const char *name = "ab"; *name; name++) {
        str_format(path, sizeof path, "%s/uploads/%c.safetensors", b->results, *name);
        if (fsio_mkdirs_above(path, NULL) || fixture_model(device, queue, path))
            return -1;
    }
    if (other_weights(path))
        return -1;
    stream_close(queue);
    device_close(device);
    str_format(path, sizeof path, "%s/brrd.db", b->dir);
    if (db_open(path, &b->db, NULL) || serveddb_setup(b->db, NULL) || db_writer_start(b->db, NULL, NULL, &b->writer, NULL))
        return -1;
    uv_loop_init(&b->loop);
    start(b);
    return 0;
}

static int tear_down(void **state) {
    struct bench *b = *state;
    stop(b);
    uv_loop_close(&b->loop);
    db_writer_stop(b->writer);
    db_close(b->db);
    fsio_remove_tree(b->dir, NULL);
    free(b);
    return 0;
}

/* The worker has loaded the model of this name. */
static void load_named(struct bench *b, const char *name) {
    struct live_report r = {.message = {.kind = LIVE_LOADED}, .opened = calloc(1, sizeof *r.opened)};
    str_copy(r.model, sizeof r.model, name);
    assert_int_equal(digest_file(models_find(b->models, name)->path, r.opened->info.sha256, NULL), 0);
    models_report(b->models, &r);
    assert_null(r.opened);
    assert_non_null(models_find(b->models, name)->opened);
}

static void loaded(struct bench *b) { load_named(b, "ward"); }

static void serve_a(struct bench *b) {
    assert_int_equal(serve(b, "ward", "upload:a", NULL), 0);
    assert_int_equal(b->n, 1);
    assert_int_equal(b->orders[0]->message.kind, LIVE_LOAD);
    loaded(b);
}

/* ward serves a, now and after a restart, and the worker was told nothing else. */
static void still_serves_a(struct bench *b) {
    const struct served_model *s = models_find(b->models, "ward");
    assert_non_null(s);
    assert_string_equal(s->ref, "upload:a");
    assert_non_null(s->opened);
    assert_int_equal(b->n, 1);
}

static void a_name_goes_on_serving_when_memory_is_short_for_the_next_model(void **state) {
    struct bench *b = *state;
    serve_a(b);
    memory_short = true;
    struct err err;
    assert_int_equal(serve(b, "ward", "upload:b", &err), ERR_EXHAUSTED);
    memory_short = false;
    still_serves_a(b);
    stop(b);
    start(b);
    assert_string_equal(models_find(b->models, "ward")->ref, "upload:a");
}

static void a_model_that_cannot_serve_after_a_restart_keeps_the_daemon_from_being_ready(void **state) {
    struct bench *b = *state;
    serve_a(b);
    assert_true(models_state(b->models) == MODELS_WARM);
    stop(b);
    memory_short = true;
    start(b);
    memory_short = false;
    assert_null(models_find(b->models, "ward"));
    assert_true(models_state(b->models) == MODELS_FAILED);
    assert_int_equal(serve(b, "icu", "upload:b", NULL), 0);
    load_named(b, "icu");
    assert_true(models_state(b->models) == MODELS_FAILED); /* another model does not make up for it */
    assert_int_equal(serve(b, "ward", "upload:a", NULL), 0);
    loaded(b);
    assert_true(models_state(b->models) == MODELS_WARM);
}

static void a_name_goes_on_serving_when_its_record_cannot_be_written(void **state) {
    struct bench *b = *state;
    struct db_query q;
    serve_a(b);
    assert_int_equal(db_query(b->db, "ALTER TABLE served RENAME TO away", "rename", &q, NULL) || db_run(&q, NULL), 0);
    assert_int_not_equal(serve(b, "ward", "upload:b", NULL), 0);
    still_serves_a(b);
    assert_int_not_equal(serve(b, "new", "upload:b", NULL), 0);
    assert_null(models_find(b->models, "new")); /* the caller was told that it does not serve */
    assert_int_equal(db_query(b->db, "ALTER TABLE away RENAME TO served", "rename", &q, NULL) || db_run(&q, NULL), 0);
}

static void orders_that_found_no_room_are_posted_by_the_tick_in_their_order(void **state) {
    struct bench *b = *state;
    serve_a(b);
    b->refuse = 3;
    assert_int_equal(serve(b, "ward", "upload:b", NULL), 0);
    assert_string_equal(models_find(b->models, "ward")->ref, "upload:b");
    assert_int_equal(b->n, 1);
    models_tick(b->models);
    assert_int_equal(b->n, 1);
    models_tick(b->models);
    assert_int_equal(b->n, 3);
    assert_int_equal(b->orders[1]->message.kind, LIVE_UNLOAD);
    assert_int_equal(b->orders[2]->message.kind, LIVE_LOAD);
    models_tick(b->models);
    assert_int_equal(b->n, 3);
    loaded(b);
}

static void orders_that_nobody_takes_go_with_the_models(void **state) {
    struct bench *b = *state;
    serve_a(b);
    b->refuse = 100;
    assert_int_equal(serve(b, "ward", "upload:b", NULL), 0); /* leak checkers look at the rest */
}

static void the_link_of_a_served_model_is_durable(void **state) {
    struct bench *b = *state;
    char folder[400];
    struct stat st;
    serve_a(b);
    str_format(folder, sizeof folder, "%s/models", b->results);
    assert_int_equal(stat(folder, &st), 0);
    assert_true(synced.st_ino == st.st_ino && synced.st_dev == st.st_dev);
}

/* The links of the folder. */
static int links(const struct bench *b) {
    char folder[400];
    int n = 0;
    str_format(folder, sizeof folder, "%s/models", b->results);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += *e->d_name != '.';
    if (d)
        closedir(d);
    return n;
}

static void the_file_of_a_model_is_named_by_its_weights_and_goes_after_the_record(void **state) {
    struct bench *b = *state;
    char first[LIVE_PATH], sha256[DIGEST_HEX_SIZE], name[200];
    struct db_query q;
    serve_a(b);
    str_copy(first, sizeof first, models_find(b->models, "ward")->path);
    assert_int_equal(digest_file(first, sha256, NULL), 0);
    str_format(name, sizeof name, "/models/%s-ward.safetensors", sha256);
    assert_true(str_ends(first, name));
    assert_int_equal(db_query(b->db, "ALTER TABLE served RENAME TO away", "rename", &q, NULL) || db_run(&q, NULL), 0);
    assert_int_not_equal(serve(b, "ward", "upload:b", NULL), 0);
    assert_true(fsio_exists(first)); /* as its record says */
    assert_int_equal(db_query(b->db, "ALTER TABLE away RENAME TO served", "rename", &q, NULL) || db_run(&q, NULL), 0);
    assert_int_equal(serve(b, "ward", "upload:b", NULL), 0);
    assert_false(fsio_exists(first));
    assert_int_equal(links(b), 1);
    assert_true(fsio_exists(models_find(b->models, "ward")->path));
    loaded(b);
    assert_int_equal(models_unserve(b->models, "ward", NULL), 0);
    run(b);
    assert_int_equal(links(b), 0);
}

static void the_configuration_only_seeds_names_without_a_record(void **state) {
    struct bench *b = *state;
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"});
    run(b);
    loaded(b);
    assert_int_equal(serve(b, "ward", "upload:b", NULL), 0);
    loaded(b);
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"}); /* read again */
    run(b);
    assert_string_equal(models_find(b->models, "ward")->ref, "upload:b");
    stop(b);
    start(b);
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"});
    run(b);
    assert_string_equal(models_find(b->models, "ward")->ref, "upload:b");
}

static void a_name_that_was_unloaded_is_not_seeded_again(void **state) {
    struct bench *b = *state;
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"});
    run(b);
    loaded(b);
    assert_int_equal(models_unserve(b->models, "ward", NULL), 0);
    run(b);
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"}); /* read again */
    stop(b);
    start(b);
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"});
    run(b);
    assert_null(models_find(b->models, "ward"));
    assert_true(models_state(b->models) == MODELS_WARM);
    serve_a(b); /* a decision to serve it again */
    stop(b);
    start(b);
    assert_non_null(models_find(b->models, "ward"));
}

static void a_configured_model_that_is_gone_makes_the_daemon_not_ready_until_it_is_there(void **state) {
    struct bench *b = *state;
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:none"});
    run(b);
    assert_true(models_state(b->models) == MODELS_FAILED);
    assert_int_equal(models_failed(b->models), 1);
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"});
    run(b);
    loaded(b);
    assert_true(models_state(b->models) == MODELS_WARM);
}

static void begin(struct bench *b, const char *name, const char *ref, struct err *err) {
    assert_int_equal(models_serve(b->models, &(struct models_request){.name = name, .ref = ref}, note, err, err), 0);
}

static void a_load_that_its_caller_gives_up_is_no_failed_model(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    begin(b, "ward", "upload:none", &err);
    models_forget(b->models, &err);
    run(b);
    assert_true(models_state(b->models) == MODELS_WARM); /* no model is served, and none is missing */
    serve_a(b);
    begin(b, "ward", "upload:none", &err);
    models_forget(b->models, &err);
    run(b);
    assert_int_equal(models_failed(b->models), 0);
    still_serves_a(b);
    assert_int_equal(err.code, 0);
}

static void a_model_of_the_configuration_outlasts_the_caller_who_loads_it_too(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    begin(b, "ward", "upload:a", &err);
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:a"});
    models_forget(b->models, &err);
    run(b);
    loaded(b);
    begin(b, "other", "upload:none", &err);
    models_seed(b->models, &(struct models_request){.name = "other", .ref = "upload:none"});
    models_forget(b->models, &err);
    run(b);
    assert_true(models_state(b->models) == MODELS_FAILED);
    assert_int_equal(err.code, 0);
}

/* A record without a row in memory, as its model is gone: the name was given by a decision, and stays without a model. */
static void the_configuration_leaves_a_record_whose_model_is_gone(void **state) {
    struct bench *b = *state;
    struct db_query q;
    stop(b);
    assert_int_equal(
        db_query(b->db, "INSERT INTO served(name, path, ref) VALUES('ward','/none.safetensors','a')", "insert", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
    start(b);
    models_seed(b->models, &(struct models_request){.name = "ward", .ref = "upload:b"});
    run(b);
    assert_null(models_find(b->models, "ward"));
    assert_true(models_state(b->models) == MODELS_FAILED);
}

static void weights_that_changed_behind_the_record_do_not_serve(void **state) {
    struct bench *b = *state;
    struct model_ref ref;
    struct err err;
    serve_a(b);
    stop(b);
    start(b);
    struct live_report r = {.message = {.kind = LIVE_LOADED}, .opened = calloc(1, sizeof *r.opened)};
    str_copy(r.model, sizeof r.model, "ward");
    str_copy(r.opened->info.sha256, sizeof r.opened->info.sha256, "0123");
    models_report(b->models, &r);
    free(r.opened);
    assert_null(models_find(b->models, "ward")->opened);
    assert_true(models_state(b->models) == MODELS_FAILED);
    assert_int_equal(b->orders[b->n - 1]->message.kind, LIVE_UNLOAD);
    assert_int_equal(models_refer(b->models, "ward", &ref, &err), ERR_DATA_LOSS);
}

static void a_file_of_an_earlier_version_gets_a_name_of_its_own(void **state) {
    struct bench *b = *state;
    char from[600], old[600];
    struct db_query q;
    stop(b);
    str_format(from, sizeof from, "%s/uploads/a.safetensors", b->results);
    str_format(old, sizeof old, "%s/served/ward.safetensors", b->results);
    assert_int_equal(fsio_mkdirs_above(old, NULL) || link(from, old), 0);
    assert_int_equal(db_query(b->db, "INSERT INTO served(name, path, ref) VALUES('ward',?,'a')", "insert", &q, NULL), 0);
    db_put_text(&q, old);
    assert_int_equal(db_run(&q, NULL), 0);
    start(b);
    const struct served_model *s = models_find(b->models, "ward");
    assert_non_null(s);
    assert_true(str_ends(s->path, "-ward.safetensors") && strstr(s->path, "/models/"));
    assert_string_equal(s->ref, "a");
    assert_true(fsio_exists(old)); /* snapshots may name it */
    loaded(b);
    stop(b);
    start(b);
    assert_non_null(strstr(models_find(b->models, "ward")->path, "/models/"));
    loaded(b);
    assert_int_equal(serve(b, "ward", "upload:b", NULL), 0);
    assert_int_equal(links(b), 1);
}

static void run_sql(struct bench *b, const char *sql, const char *text) {
    struct db_query q;
    assert_int_equal(db_query(b->db, sql, "test", &q, NULL), 0);
    if (text)
        db_put_text(&q, text);
    assert_int_equal(db_run(&q, NULL), 0);
}

/* As version 0.1 named it, with its SHA-256. */
static void a_link_of_the_folder_served_serves_and_goes_with_its_record(void **state) {
    struct bench *b = *state;
    char old[600];
    serve_a(b);
    const struct served_model *s = models_find(b->models, "ward");
    str_format(old, sizeof old, "%s/served/ward-%s.safetensors", b->results, s->sha256);
    assert_int_equal(fsio_mkdirs_above(old, NULL) || rename(s->path, old), 0);
    run_sql(b, "UPDATE served SET path=?", old);
    stop(b);
    start(b);
    assert_string_equal(models_find(b->models, "ward")->path, old);
    loaded(b);
    assert_int_equal(serve(b, "ward", "ward", NULL), 0); /* the same weights again */
    loaded(b);
    assert_false(fsio_exists(old));
    assert_int_equal(links(b), 1);
    assert_int_equal(rename(models_find(b->models, "ward")->path, old), 0);
    run_sql(b, "UPDATE served SET path=?", old);
    stop(b);
    start(b);
    loaded(b);
    assert_int_equal(models_unserve(b->models, "ward", NULL), 0);
    run(b);
    assert_false(fsio_exists(old));
}

static void each_name_has_its_own_link_of_the_same_weights(void **state) {
    struct bench *b = *state;
    struct err said[2] = {{0}};
    begin(b, "ward", "upload:a", &said[0]);
    begin(b, "icu", "upload:a", &said[1]); /* at once */
    run(b);
    loaded(b);
    load_named(b, "icu");
    assert_int_equal(links(b), 2);
    assert_int_equal(models_unserve(b->models, "ward", NULL), 0);
    run(b);
    assert_int_equal(links(b), 1);
    assert_true(fsio_exists(models_find(b->models, "icu")->path));
}

static void a_name_keeps_its_file_when_another_that_could_not_be_linked_goes(void **state) {
    struct bench *b = *state;
    serve_a(b);
    no_links = true;
    int rc = serve(b, "icu", "ward", NULL);
    no_links = false;
    assert_int_equal(rc, 0);
    load_named(b, "icu");
    assert_int_equal(models_unserve(b->models, "icu", NULL), 0);
    run(b);
    assert_true(fsio_exists(models_find(b->models, "ward")->path));
    assert_int_equal(links(b), 1);
}

static bool is_named(void *db, const char *below) { return serveddb_names_file(db, below); }

static void the_sweep_spares_links_however_paths_results_is_written_now(void **state) {
    struct bench *b = *state;
    char slash[400], other[400];
    run_sql(b, "CREATE TABLE pins(job_id TEXT, step INTEGER, path TEXT)", NULL);
    serve_a(b);
    str_format(slash, sizeof slash, "%s/", b->results);
    str_format(other, sizeof other, "%s/other", b->dir);
    assert_int_equal(symlink(b->results, other), 0);
    model_file_sweep(slash, is_named, b->db);
    model_file_sweep(other, is_named, b->db);
    assert_true(fsio_exists(models_find(b->models, "ward")->path));
    stop(b);
    b->places.results_dir = slash; /* from the first record on */
    start(b);
    loaded(b);
    assert_int_equal(serve(b, "ward", "upload:b", NULL), 0);
    loaded(b);
    model_file_sweep(slash, is_named, b->db);
    assert_true(fsio_exists(models_find(b->models, "ward")->path));
    assert_int_equal(links(b), 1);
}

static int write_nothing(struct db *db, void *what, struct err *err) { return (void)db, (void)what, (void)err, 0; }

static int write_fails(struct db *db, void *what, struct err *err) {
    return (void)db, (void)what, err_set(err, ERR_INTERNAL, "not written");
}

struct waiter {
    struct db_wait wait;
    int rc;
};

static void heard(struct db_wait *wait, int rc, const struct err *err) { ((struct waiter *)wait)->rc = rc ? err->code : 1; }

static void who_waits_for_a_failed_order_hears_of_it_when_later_ones_succeed(void **state) {
    struct bench *b = *state;
    const struct db_order good = {.write = write_nothing, .what = "", .size = 1},
                          bad = {.write = write_fails, .what = "", .size = 1};
    struct waiter first = {0}, second = {0}, third = {0};
    db_writer_settle(b->writer);
    assert_int_equal(db_writer_post(b->writer, &bad, NULL) || db_writer_post(b->writer, &good, NULL), 0);
    db_writer_sync(b->writer); /* both have ended before anybody waits */
    db_writer_await(b->writer, &first.wait, heard);
    db_writer_settle(b->writer);
    assert_int_equal(first.rc, ERR_INTERNAL);
    assert_int_equal(db_writer_post(b->writer, &good, NULL), 0);
    db_writer_await(b->writer, &second.wait, heard);
    assert_int_equal(db_writer_post(b->writer, &bad, NULL) || db_writer_post(b->writer, &good, NULL), 0);
    db_writer_await(b->writer, &third.wait, heard);
    db_writer_settle(b->writer);
    assert_int_equal(second.rc, 1); /* the failed order came after it */
    assert_int_equal(third.rc, ERR_INTERNAL);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int write_fails_behind_the_gate(struct db *db, void *what, struct err *err) {
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return write_fails(db, what, err);
}

static void who_waits_for_an_order_of_an_earlier_turn_hears_that_it_failed(void **state) {
    struct bench *b = *state;
    const struct db_order slow = {.write = write_fails_behind_the_gate, .what = "", .size = 1};
    struct waiter first = {0}, second = {0}, third = {0};
    db_writer_settle(b->writer);
    pthread_mutex_lock(&gate);
    assert_int_equal(db_writer_post(b->writer, &slow, NULL), 0);
    db_writer_turn(b->writer);
    db_writer_await(b->writer, &first.wait, heard);
    pthread_mutex_unlock(&gate);
    db_writer_sync(b->writer);
    db_writer_await(b->writer, &second.wait, heard);
    db_writer_settle(b->writer);
    db_writer_await(b->writer, &third.wait, heard); /* whoever gave the order was told how it ended */
    assert_int_equal(first.rc, ERR_INTERNAL);
    assert_int_equal(second.rc, ERR_INTERNAL);
    assert_int_equal(third.rc, 1);
}

static int write_fails_so_behind_the_gate(struct db *db, void *what, struct err *err) {
    write_fails_behind_the_gate(db, what, err);
    return err_set(err, *(const int *)what, "not written");
}

static void who_waits_hears_the_error_of_the_order_that_it_waits_for(void **state) {
    struct bench *b = *state;
    static const int codes[] = {ERR_EXHAUSTED, ERR_DATA_LOSS};
    struct waiter waiters[2] = {0};
    db_writer_settle(b->writer);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 2; i++) {
        const struct db_order order = {.write = write_fails_so_behind_the_gate, .what = &codes[i], .size = sizeof codes[i]};
        assert_int_equal(db_writer_post(b->writer, &order, NULL), 0);
        db_writer_await(b->writer, &waiters[i].wait, heard);
    }
    pthread_mutex_unlock(&gate);
    db_writer_settle(b->writer);
    assert_int_equal(waiters[0].rc, ERR_EXHAUSTED);
    assert_int_equal(waiters[1].rc, ERR_DATA_LOSS);
}

static void the_file_of_a_model_stays_when_its_record_could_not_be_removed(void **state) {
    struct bench *b = *state;
    const struct db_order other = {.write = write_nothing, .what = "", .size = 1};
    char path[LIVE_PATH];
    serve_a(b);
    str_copy(path, sizeof path, models_find(b->models, "ward")->path);
    run_sql(b, "ALTER TABLE unloaded RENAME TO away", NULL);
    assert_int_equal(models_unserve(b->models, "ward", NULL), 0);
    assert_int_equal(db_writer_post(b->writer, &other, NULL), 0); /* which succeeds */
    run(b);
    run_sql(b, "ALTER TABLE away RENAME TO unloaded", NULL);
    assert_true(fsio_exists(path));
    stop(b);
    start(b);
    assert_non_null(models_find(b->models, "ward"));
    loaded(b);
    assert_int_equal(models_unserve(b->models, "ward", NULL), 0);
    run(b);
    assert_false(fsio_exists(path));
}

static void work_that_waits_begins_when_records_could_not_be_changed(void **state) {
    struct bench *b = *state;
    static const char *const names[] = {"n0", "n1", "n2", "n3"};
    struct err err = {0};
    for (int i = 0; i < MODELS_MAX_WORK; i++) {
        assert_int_equal(serve(b, names[i], "upload:a", NULL), 0);
        load_named(b, names[i]);
    }
    run_sql(b, "ALTER TABLE unloaded RENAME TO away", NULL);
    for (int i = 0; i < MODELS_MAX_WORK; i++)
        assert_int_equal(models_unserve(b->models, names[i], NULL), 0);
    begin(b, "late", "upload:none", &err);
    run(b);
    run_sql(b, "ALTER TABLE away RENAME TO unloaded", NULL);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void a_file_of_people_in_the_folder_of_links_stays(void **state) {
    struct bench *b = *state;
    char upload[600], own[600];
    run_sql(b, "CREATE TABLE pins(job_id TEXT, step INTEGER, path TEXT)", NULL);
    str_format(upload, sizeof upload, "%s/uploads/a.safetensors", b->results);
    str_format(own, sizeof own, "%s/models/own.safetensors", b->results);
    b->places.data_dir = b->dir;
    assert_int_equal(fsio_mkdirs_above(own, NULL) || fsio_copy(upload, own, NULL), 0);
    assert_int_equal(serve(b, "ward", own, NULL), 0);
    loaded(b);
    model_file_sweep(b->results, is_named, b->db);
    assert_true(fsio_exists(own)); /* which has two names now */
    no_links = true;
    int rc = serve(b, "ward", own, NULL);
    no_links = false;
    assert_int_equal(rc, 0);
    loaded(b);
    assert_int_equal(models_unserve(b->models, "ward", NULL), 0);
    run(b);
    assert_true(fsio_exists(own));
}

static void links_that_a_crash_left_are_swept_but_never_the_last_name_of_weights(void **state) {
    struct bench *b = *state;
    char upload[600], left[600], last[600], pin[600];
    serve_a(b);
    str_format(upload, sizeof upload, "%s/uploads/a.safetensors", b->results);
    str_format(left, sizeof left, "%s/models/%064d-icu.safetensors", b->results, 0);
    str_format(last, sizeof last, "%s/served/last.safetensors", b->results);
    str_format(pin, sizeof pin, "%s/pinned/train-1-20.safetensors", b->results);
    assert_int_equal(fsio_mkdirs_above(pin, NULL) || fsio_mkdirs_above(last, NULL) || link(upload, left) || link(upload, pin) ||
                         fsio_copy(upload, last, NULL),
                     0);
    model_file_sweep(b->results, is_named, b->db);
    assert_true(fsio_exists(left)); /* pins cannot be read */
    run_sql(b, "CREATE TABLE pins(job_id TEXT, step INTEGER, path TEXT)", NULL);
    run_sql(b, "INSERT INTO pins VALUES('train-1', 20, ?)", pin);
    model_file_sweep(b->results, is_named, b->db);
    assert_true(fsio_exists(models_find(b->models, "ward")->path) && fsio_exists(pin) && fsio_exists(last));
    assert_false(fsio_exists(left));
}

static void an_object_is_refused_where_it_cannot_be_held(void **state) {
    struct bench *b = *state;
    const struct source_store store = {.name = "bucket"};
    struct model_ref ref;
    struct model_file file;
    struct err err;
    b->places.stores = &store;
    b->places.n_stores = 1;
    assert_int_equal(models_refer(b->models, "store://other/m.safetensors", &ref, &err), ERR_NOT_FOUND);
    assert_int_equal(models_refer(b->models, "store://bucket/m.safetensors", &ref, &err), 0);
    assert_int_equal(model_resolve(&ref, NULL, &file, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "brrctl checkpoint promote"));
}

static void a_bare_name_is_never_that_of_an_upload(void **state) {
    struct bench *b = *state;
    struct model_ref ref;
    struct model_file file;
    struct err err;
    assert_int_equal(models_refer(b->models, "a", &ref, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "upload:NAME"));
    assert_int_equal(models_refer(b->models, "upload:a", &ref, &err), 0);
    assert_int_equal(model_resolve(&ref, NULL, &file, &err), 0);
    assert_int_equal(models_refer(b->models, "upload:../a", &ref, &err), ERR_INVALID);
    assert_int_equal(serve(b, "a", "upload:b", NULL), 0);
    load_named(b, "a");
    assert_int_equal(models_refer(b->models, "a", &ref, &err), 0);
    assert_int_equal(models_unserve(b->models, "a", &err), 0);
    run(b);
    assert_int_equal(models_refer(b->models, "a", &ref, &err), ERR_NOT_FOUND); /* though there is an upload of the name */
}

static int go_back(struct bench *b, struct err *err) {
    const struct models_request request = {.name = "ward", .ref = "", .previous = true};
    err->code = 0;
    int rc = models_serve(b->models, &request, note, err, err);
    run(b);
    return rc ? rc : err->code;
}

static void a_name_goes_back_to_the_weights_before_unless_they_are_gone(void **state) {
    struct bench *b = *state;
    char first[DIGEST_HEX_SIZE], path[600], text[800];
    struct err err;
    serve_a(b);
    str_copy(first, sizeof first, models_find(b->models, "ward")->sha256);
    assert_int_equal(go_back(b, &err), ERR_NOT_FOUND);
    for (int i = 0; i <= SERVEDDB_LOADS; i++) { /* the same weights again push out nothing */
        assert_int_equal(serve(b, "ward", "upload:b", NULL), 0);
        loaded(b);
    }
    const struct served_load *loads[SERVEDDB_LOADS];
    assert_int_equal(models_loads(b->models, "ward", loads), 2);
    str_format(path, sizeof path, "%s/uploads/a.safetensors", b->results);
    assert_int_equal(go_back(b, &err), 0);
    loaded(b);
    assert_string_equal(models_find(b->models, "ward")->sha256, first);
    assert_int_equal(serve(b, "ward", "upload:b", NULL), 0);
    loaded(b);
    assert_int_equal(other_weights(path), 0); /* those of b, which is served */
    assert_int_equal(go_back(b, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err_text(&err, text, sizeof text), "upload:a"));
    assert_true(fsio_exists(models_find(b->models, "ward")->path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_goes_on_serving_when_memory_is_short_for_the_next_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_model_that_cannot_serve_after_a_restart_keeps_the_daemon_from_being_ready, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_name_goes_on_serving_when_its_record_cannot_be_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(orders_that_found_no_room_are_posted_by_the_tick_in_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_link_of_a_served_model_is_durable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_file_of_a_model_is_named_by_its_weights_and_goes_after_the_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_configuration_only_seeds_names_without_a_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_was_unloaded_is_not_seeded_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_configured_model_that_is_gone_makes_the_daemon_not_ready_until_it_is_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_load_that_its_caller_gives_up_is_no_failed_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_model_of_the_configuration_outlasts_the_caller_who_loads_it_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_configuration_leaves_a_record_whose_model_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(weights_that_changed_behind_the_record_do_not_serve, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_an_earlier_version_gets_a_name_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_of_the_folder_served_serves_and_goes_with_its_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_name_has_its_own_link_of_the_same_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_keeps_its_file_when_another_that_could_not_be_linked_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_sweep_spares_links_however_paths_results_is_written_now, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_a_failed_order_hears_of_it_when_later_ones_succeed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_an_order_of_an_earlier_turn_hears_that_it_failed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_hears_the_error_of_the_order_that_it_waits_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_file_of_a_model_stays_when_its_record_could_not_be_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(work_that_waits_begins_when_records_could_not_be_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_people_in_the_folder_of_links_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_that_a_crash_left_are_swept_but_never_the_last_name_of_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_object_is_refused_where_it_cannot_be_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bare_name_is_never_that_of_an_upload, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_goes_back_to_the_weights_before_unless_they_are_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(orders_that_nobody_takes_go_with_the_models, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
