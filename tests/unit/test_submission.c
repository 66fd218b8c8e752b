/* submission and places: what the references of a job file mean, which of them are refused, and that no job gets the directory of
 * another. */
#include "daemon/jobs/submission.h"

#include "unit/temp_dir.h"

struct fixture {
    char data[512], results[512], model[600];
    struct source_store store;
    struct places places;
    struct submission_rules rules;
};

static int refer_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    const struct fixture *f = ctx;
    if (strcmp(ref, "job:known") != 0)
        return err_set(err, ERR_NOT_FOUND, "there is no %s", ref);
    *ret = (struct model_ref){.origin = MODEL_SERVED};
    str_copy(ret->path, sizeof ret->path, f->model);
    return 0;
}

static struct fixture make_fixture(void **state) {
    struct fixture f = {0};
    str_copy(f.data, sizeof f.data, in_dir(state, "data"));
    str_copy(f.results, sizeof f.results, in_dir(state, "results"));
    str_format(f.model, sizeof f.model, "%s/m.safetensors", f.results);
    assert_int_equal(fsio_mkdirs(in_dir(state, "data/eeg"), NULL), 0);
    assert_int_equal(fsio_mkdirs(in_dir(state, "data-beside"), NULL), 0);
    assert_int_equal(fsio_mkdirs(f.results, NULL), 0);
    put_file(f.model, "model", 5);
    return f;
}

/* The fixture does not move any more. */
static void point(struct fixture *f) {
    f->store = (struct source_store){.name = "bucket"};
    f->places = (struct places){.data_dir = f->data, .results_dir = f->results, .stores = &f->store, .n_stores = 1};
    f->rules = (struct submission_rules){.places = &f->places, .refer_model = refer_model, .ctx = f};
}

/* The job that is submitted; its draft's other parts are freed. */
static int fill(const struct fixture *f, const char *yaml, const char *source, struct job **ret, struct err *err) {
    char override[700];
    const char *overrides[] = {override};
    _Atomic int64_t next = 1;
    struct draft *draft = NULL;
    const struct submission s = {yaml, "j.yaml", "", "uid:7", overrides, 1};
    str_format(override, sizeof override, "data.source=\"%s\"", source);
    int rc = draft_new(&f->rules, &s, INT64_C(1800000000000), &draft, err);
    if (rc)
        return rc;
    draft->next = &next;
    if (!(rc = draft_place(draft, err))) {
        *ret = draft->job;
        draft_discard(draft);
        draft->job = NULL;
    }
    draft_free(draft);
    return rc;
}

static const char train[] = "kind: train\nname: n\ndata:\n  source: x\nmodel:\n  preset: tiny\n";

static void a_source_means_a_directory_of_the_daemon(void **state) {
    struct fixture f = make_fixture(state);
    char outside[600], above[600], inside[600], beside[600], symbolic[600];
    point(&f);
    str_format(inside, sizeof inside, "file://%s/eeg", f.data);
    str_format(beside, sizeof beside, "file://%s-beside", f.data); /* the same beginning, but another directory */
    str_format(outside, sizeof outside, "file://%s", f.results);
    str_format(above, sizeof above, "../data-beside");
    str_format(symbolic, sizeof symbolic, "s3://bucket/x");
    const struct {
        const char *source;
        int rc;
        const char *words; /* of the message, or the end of the directory */
    } cases[] = {{"eeg", 0, "/data/eeg"},
                 {inside, 0, "/data/eeg"},
                 {"store://bucket/prefix", 0, "store://bucket/prefix"},
                 {"eeg/none", ERR_NOT_FOUND, "eeg/none"},
                 {above, ERR_DENIED, "is outside"},
                 {outside, ERR_DENIED, "local_paths"},
                 {beside, ERR_DENIED, "local_paths"},
                 {symbolic, ERR_INVALID, "unknown scheme"},
                 {"store://other/prefix", ERR_NOT_FOUND, "other"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = NULL;
        struct err err = {0};
        int rc = fill(&f, train, cases[i].source, &job, &err);
        if (rc != cases[i].rc)
            fail_msg("%s: %d instead of %d: %s", cases[i].source, rc, cases[i].rc, err.message);
        if (rc ? !strstr(err.message, cases[i].words) : !str_ends(job->data_root, cases[i].words))
            fail_msg("%s: %s", cases[i].source, rc ? err.message : job->data_root);
        job_free(job);
    }
    f.places.local_paths = true;
    struct job *job = NULL;
    assert_int_equal(fill(&f, train, beside, &job, NULL), 0);
    assert_true(str_ends(job->data_root, "data-beside"));
    job_free(job);
}

static void a_model_reference_becomes_the_file_it_means_now(void **state) {
    struct fixture f = make_fixture(state);
    struct err err;
    point(&f);
    struct job *job = NULL;
    char yaml[400], want[700];
    str_format(yaml, sizeof yaml, "%s  init_from: job:known\n", train);
    if (fill(&f, yaml, "eeg", &job, &err))
        fail_msg("%s", err.message);
    str_format(want, sizeof want, "model.init_from=\\\"%s\\\"", f.model); /* in JSON */
    assert_non_null(strstr(job->overrides, want));
    job_free(job);
    str_format(yaml, sizeof yaml, "%s  init_from: job:unknown\n", train);
    assert_int_equal(fill(&f, yaml, "eeg", &job, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "model.init_from"));
    str_format(yaml, sizeof yaml, "%s  init_from: store://bucket/m.safetensors\n", train);
    assert_int_equal(fill(&f, yaml, "eeg", &job, &err), 0); /* fetched when the job runs */
    assert_null(strstr(job->overrides, "init_from"));
    job_free(job);
}

/* A draft of a job that starts from the fixture's model, placed; the caller discards it. */
static struct draft *place_with_model(const struct fixture *f, _Atomic int64_t *next, int want, struct err *err) {
    char yaml[400];
    const char *overrides[] = {"data.source=eeg"};
    struct draft *draft = NULL;
    str_format(yaml, sizeof yaml, "%s  init_from: job:known\n", train);
    const struct submission s = {yaml, "j.yaml", "", "token:x", overrides, 1};
    assert_int_equal(draft_new(&f->rules, &s, INT64_C(1800000000000), &draft, err), 0);
    draft->next = next;
    assert_int_equal(draft_place(draft, err), 0);
    assert_int_equal(draft_check_kept(draft, 600, err), want); /* what the caller's other jobs keep by now */
    return draft;
}

static void a_model_stays_for_a_job_that_waits(void **state) {
    struct fixture f = make_fixture(state);
    _Atomic int64_t next = 1;
    struct task_model found;
    struct err err;
    point(&f);
    char model[300] = {0};
    put_file(f.model, model, sizeof model);
    struct draft *draft = place_with_model(&f, &next, 0, &err);
    assert_int_equal(draft->job->kept_bytes, 300);
    assert_int_equal(unlink(f.model), 0); /* it is pruned */
    const struct task_env env = {.directory = draft->job->directory};
    assert_int_equal(task_model_find(&env, f.model, &found, &err), 0);
    assert_true(str_starts(found.path, draft->job->directory));
    draft_discard(draft);
    draft_free(draft);
    put_file(f.model, model, sizeof model);
    f.rules.kept_most = 1000; /* of which the caller may have 900 */
    f.rules.shared = true;
    draft = place_with_model(&f, &next, 0, &err);
    draft_discard(draft);
    draft_free(draft);
    f.rules.kept_most = 990;
    draft = place_with_model(&f, &next, ERR_EXHAUSTED, &err);
    assert_non_null(strstr(err.message, "300 bytes"));
    assert_non_null(strstr(err.message, "600 bytes"));
    assert_non_null(strstr(err.message, "891 bytes"));
    draft_discard(draft);
    draft_free(draft);
}

static void a_job_gets_a_directory_that_nobody_had(void **state) {
    struct fixture f = make_fixture(state);
    struct job *a = job_new(), *b = job_new();
    char left[700];
    _Atomic int64_t next = 7;
    str_copy(a->kind, sizeof a->kind, "train");
    str_copy(b->kind, sizeof b->kind, "train");
    a->created_ms = b->created_ms = INT64_C(1800000000000); /* 15 January 2027 */
    assert_int_equal(submission_place(f.results, a, &next, NULL), 0);
    assert_string_equal(a->id, "train-270115-7");
    assert_true(fsio_is_dir(a->directory) && str_ends(a->directory, "/results/jobs/train-270115-7"));
    str_format(left, sizeof left, "%s/jobs/train-270115-8", f.results);
    assert_int_equal(fsio_mkdirs(left, NULL), 0);
    assert_int_equal(submission_place(f.results, b, &next, NULL), 0);
    assert_string_equal(b->id, "train-270115-9");
    assert_true(next == 10 && b->sequence == 9);
    job_free(a);
    job_free(b);
}

/* Where stores.NAME.write says; without the key, where the daemon's own user says. */
static void a_job_writes_below_a_prefix_of_a_store_alone(void **state) {
    struct fixture f = make_fixture(state);
    static const struct {
        const char *write, *target;
        bool own, fine;
    } cases[] = {{NULL, "bucket/models", false, false},
                 {NULL, "bucket/models", true, true},
                 {"models", "bucket/models", false, true},
                 {"models", "bucket/models/ana", false, true},
                 {"models/", "bucket/models/ana", false, true},
                 {"models", "bucket/models-of-others", true, false},
                 {"models", "bucket", true, false},
                 {"models", "bucket/models/../corpus", false, false},
                 {"", "bucket/anywhere", false, true}};
    point(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char yaml[400];
        struct job *job = NULL;
        struct err err = {0};
        f.store.config.write = cases[i].write;
        f.places.local_paths = cases[i].own;
        str_format(yaml, sizeof yaml, "%scheckpoint:\n  upload: store://%s\n", train, cases[i].target);
        const int rc = fill(&f, yaml, "eeg", &job, &err);
        if ((rc == 0) != cases[i].fine || (rc && rc != ERR_DENIED))
            fail_msg("%zu: %d %s", i, rc, err.message);
        job_free(job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_job_writes_below_a_prefix_of_a_store_alone),    in_temp_dir(a_source_means_a_directory_of_the_daemon),
        in_temp_dir(a_model_reference_becomes_the_file_it_means_now), in_temp_dir(a_model_stays_for_a_job_that_waits),
        in_temp_dir(a_job_gets_a_directory_that_nobody_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
