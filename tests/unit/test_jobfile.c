#include "unit/cmocka_all.h"

#include "base/container.h"
#include "evaluate/detect_kind.h"
#include "evaluate/evaluate_kind.h"
#include "train/train_estimate.h"
#include "train/train_kind.h"

#define TRAIN    "kind: train\ndata: { source: eeg }\n"
#define EVALUATE "kind: evaluate\ndata: { source: eeg }\nevaluate: { checkpoint: job:a }\n"
#define DETECT   "kind: detect\ndata: { source: eeg }\ndetect: { model: job:a }\n"

static struct arena arena;

static int make_arena(void **state) {
    (void)state;
    arena_init(&arena, 4 << 20);
    return 0;
}

static int free_arena(void **state) {
    (void)state;
    arena_done(&arena);
    return 0;
}

static struct jobfile job_of(const char *text, const char *const *overrides, int n) {
    struct jobfile job;
    struct err err = {0};
    if (jobfile_parse(text, "j.yaml", overrides, n, &arena, &job, &err))
        fail_msg("%s", err.message);
    return job;
}

/* One override, or none. */
static void assert_refused(const char *text, const char *override, const char *message) {
    struct jobfile job;
    struct err err = {0};
    assert_int_equal(jobfile_parse(text, "j.yaml", &override, override != NULL, &arena, &job, &err), ERR_INVALID);
    assert_string_equal(err.message, message);
}

static void a_job_has_the_keys_of_its_kind_and_the_defaults_of_all(void **state) {
    (void)state;
    const char *const overrides[] = {"limits.restarts=1", "training.epochs=7", "training.epochs=9"};
    struct jobfile job = job_of(TRAIN, overrides, 3);
    const struct train_config *c = job.config;
    assert_ptr_equal(job.kind, task_kind_find("train"));
    assert_string_equal(job.name, "train-base");
    assert_true(job.limits.restarts == 1 && job.limits.wall_clock_ms == -1 && !job.limits.auto_resume);
    assert_true(job.checkpoint.every_ms == 900000 && job.checkpoint.keep == 3);
    assert_true(c->training.epochs == 9 && c->training.micro_batch_size == c->training.batch_size);
    assert_ptr_equal(job.data, &c->data);
    assert_string_equal(job.data->source, "eeg");
    job = job_of(DETECT, NULL, 0);
    assert_string_equal(job.name, "detect");
    assert_int_equal(job.checkpoint.every_ms, 0); /* it has none of its own */
}

static int64_t memory_of(const char *const *overrides, int n) {
    int64_t bytes = 0, largest = 0;
    struct jobfile job = job_of(TRAIN, overrides, n);
    assert_int_equal(train_memory(job.config, DTYPE_F32, NULL, 0, &bytes, &largest, NULL), 0);
    return bytes;
}

static void a_training_counts_its_average_batches_and_logits(void **state) {
    (void)state;
    const char *const set[] = {"model.preset=tiny", "training.batch_size=8", "training.micro_batch_size=4", "training.ema=0.999"};
    struct jobfile job = job_of(TRAIN, set, 3);
    const struct seizure_config *model = &((const struct train_config *)job.config)->model;
    struct seizure_options options = {.training = true, .precision = DTYPE_F32, .max_batch = 4};
    struct seizure_memory m;
    assert_int_equal(seizure_memory(model, &options, &m, NULL), 0);
    int64_t plain = memory_of(set, 3), samples = 4 * model->window;
    assert_true(plain >= m.total + 2 * m.parameters + samples * (4 * model->in_channels + 1) + 2 * 4 * samples);
    assert_int_equal(memory_of(set, 4) - plain, m.parameters);
}

static void assert_kinds_are_listed(const char *text, const char *override, const char *before) {
    char names[200], message[300];
    str_format(message, sizeof message, "%s; expected %s", before, task_kind_names(names, sizeof names));
    assert_refused(text, override, message);
}

static void the_kind_comes_first(void **state) {
    (void)state;
    char names[200];
    assert_kinds_are_listed("data: { source: eeg }\n", NULL, "j.yaml: kind is missing");
    assert_kinds_are_listed("kind: nothing\n", NULL, "j.yaml:1:1: kind is 'nothing'");
    assert_kinds_are_listed(TRAIN, "kind=nothing", "j.yaml: --set: kind is 'nothing'");
    assert_kinds_are_listed("kind: [train]\n", NULL, "j.yaml:1:1: kind is no plain word");
    assert_true(str_starts(task_kind_names(names, sizeof names), "train, evaluate"));
    assert_non_null(strstr(names, " or "));
}

static void keys_of_other_kinds_are_named_where_they_stand(void **state) {
    (void)state;
    assert_refused(TRAIN "detect:\n  model: x\n", NULL,
                   "j.yaml:4:3: detect.model does nothing in a job of kind train; leave it out");
    assert_refused(TRAIN "detect:\n", NULL, "j.yaml:3:1: detect does nothing in a job of kind train; leave it out");
    assert_refused(
        DETECT, "events.on=0.5",
        "j.yaml: --set: events.on does nothing in a job of kind detect, whose model, windows, filters and thresholds (but for "
        "detect.on and detect.off) come from its model; did you mean detect.on?");
    assert_refused("kind: detect\nmodel: ward\n", NULL,
                   "j.yaml:2:1: model does nothing in a job of kind detect, whose model, windows, filters and thresholds (but for "
                   "detect.on and detect.off) come from its model; did you mean detect.model?");
    assert_refused(
        DETECT, "limits.auto_resume=true",
        "j.yaml: --set: limits.auto_resume does nothing in a job of kind detect, whose model, windows, filters and thresholds "
        "(but for detect.on and detect.off) come from its model; leave it out");
    assert_refused(TRAIN, "trainin.epochs=3", "j.yaml: --set: unknown key 'trainin'; the nearest known key is 'training'");
}

static void keys_and_values_that_are_gone_are_unknown_by_name(void **state) {
    (void)state;
    static const struct {
        const char *text, *override, *begins;
    } cases[] = {{TRAIN, "data.hold_baseline=true", "j.yaml: --set: unknown key 'data.hold_baseline'"},
                 {TRAIN, "data.augment.noise=0.1", "j.yaml: --set: unknown key 'data.augment.noise'"},
                 {TRAIN, "training.loss.newest_weight=2", "j.yaml: --set: unknown key 'training.loss.newest_weight'"},
                 {TRAIN, "data.normalize=bands", "j.yaml: --set: data.normalize"},
                 {EVALUATE, "evaluate.rejecter=auto", "j.yaml: --set: unknown key 'evaluate.rejecter'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct jobfile job;
        struct err err = {0};
        assert_int_equal(jobfile_parse(cases[i].text, "j.yaml", &cases[i].override, true, &arena, &job, &err), ERR_INVALID);
        if (!str_starts(err.message, cases[i].begins))
            fail_msg("%s: %s", cases[i].override, err.message);
    }
}

static void a_required_key_of_the_kind_is_missed(void **state) {
    (void)state;
    assert_refused("kind: train\n", NULL,
                   "j.yaml: data.source is missing; expected text, or a list of sources (store://NAME/prefix, file:///dir, or a "
                   "prefix under paths.data)");
    assert_refused(
        "kind: evaluate\ndata: { source: eeg }\n", NULL,
        "j.yaml: evaluate.checkpoint is missing; expected a model (job:ID, job:ID@best, store://NAME/KEY, a served or built-in "
        "name, or a model file)");
}

static void control_characters_are_refused_wherever_they_stand(void **state) {
    (void)state;
    assert_refused(TRAIN, "limits.restarts=3\nmodel.init_from=/x",
                   "j.yaml: --set limits.restarts… holds a line end or another control character; leave it out");
    assert_refused(TRAIN, "name=a\tb", "j.yaml: --set name… holds a line end or another control character; leave it out");
    assert_refused(TRAIN,
                   "name=a\xc2\x85"
                   "b",
                   "j.yaml: --set name… holds a line end or another control character; leave it out");
    assert_refused(TRAIN "name: \"a\\nb\"\n", NULL, "j.yaml: name holds a line end or another control character; leave it out");
    struct jobfile job;
    struct err err = {0};
    assert_int_equal(jobfile_parse(TRAIN, "a\nb", NULL, 0, &arena, &job, &err), ERR_INVALID);
    const char *fine = "name=Größe, é";
    assert_string_equal(job_of(TRAIN, &fine, 1).name, "Größe, é");
}

static void there_is_one_limit_on_overrides(void **state) {
    (void)state;
    const char *overrides[JOBFILE_MAX_OVERRIDES + 1];
    struct jobfile job;
    struct err err = {0};
    for (int i = 0; i <= JOBFILE_MAX_OVERRIDES; i++)
        overrides[i] = "training.seed=1";
    job_of(TRAIN, overrides, JOBFILE_MAX_OVERRIDES);
    assert_int_equal(jobfile_parse(TRAIN, "j.yaml", overrides, JOBFILE_MAX_OVERRIDES + 1, &arena, &job, &err), ERR_INVALID);
    assert_string_equal(err.message, "j.yaml: 257 overrides (--set); at most 256 are accepted, put the others into the file");
}

static void the_models_and_files_of_a_job_are_listed(void **state) {
    (void)state;
    struct jobfile_ref refs[JOBFILE_MAX_REFS];
    struct jobfile job = job_of(TRAIN, NULL, 0);
    assert_int_equal(jobfile_refs(&job, refs), 0);
    const char *from = "model.init_from=job:b";
    job = job_of(TRAIN, &from, 1);
    assert_int_equal(jobfile_refs(&job, refs), 1);
    assert_string_equal(refs[0].key, "model.init_from");
    assert_string_equal(refs[0].value, "job:b");
    assert_int_equal(refs[0].type, OPTION_MODEL);
    job = job_of(DETECT, NULL, 0);
    assert_int_equal(jobfile_refs(&job, refs), 1);
    assert_string_equal(refs[0].key, "detect.model");
}

static void collect(void *ctx, const char *text) { str_printf(ctx, "%s\n", text); }

static void people_are_told_of_older_names_and_of_keys_without_effect(void **state) {
    (void)state;
    const char *const overrides[] = {"data.pin_memory=true", "data.num_workers=2", "training.mixed_precision=true"};
    struct jobfile job = job_of(TRAIN, overrides, 3);
    struct str seen;
    str_init(&seen, 4096);
    jobfile_notices(&job, collect, &seen);
    assert_string_equal(str_cstr(&seen), "data.pin_memory has no effect: host batches are always pinned if the device benefits\n"
                                         "data.num_workers is read as data.loader_workers\n"
                                         "training.mixed_precision is read as training.precision\n");
    assert_int_equal(job.data->loader_workers, 2);
    str_done(&seen);
}

static void readers_follow_the_machine_unless_their_number_is_set(void **state) {
    (void)state;
    const char *const set[] = {"data.loader_workers=7"};
    const struct jobfile job = job_of(DETECT, NULL, 0);
    const int64_t n = job.data->loader_workers;
    assert_int_equal(job_of(DETECT, set, 1).data->loader_workers, 7);
    assert_true(n >= 4 && n <= 16 && (n == 4 || n <= container_processors_here()));
}

/* What the rows promise those who read them. */
static void every_row_of_the_table_keeps_its_bounds(void **state) {
    (void)state;
    for (int k = 0; k < task_kind_count; k++) {
        const struct task_kind *kind = task_kinds[k];
        const struct option_table *tables[JOBFILE_MAX_TABLES];
        int n = jobfile_tables(kind, tables), refs = 0;
        bool source = false;
        assert_true(strlen(kind->name) < 16 && *kind->help && n < JOBFILE_MAX_TABLES);
        for (int t = 0; t < n; t++)
            for (size_t i = 0; i < tables[t]->count; i++) {
                const struct option *row = &tables[t]->rows[i];
                refs += row->type == OPTION_MODEL || row->type == OPTION_PATH;
                source |= row->type == OPTION_SOURCE;
                assert_ptr_equal(jobfile_key(kind, row->name), row); /* no name twice */
            }
        assert_true(refs <= JOBFILE_MAX_REFS);
        assert_int_equal(source, kind->recordings != KIND_NO_RECORDINGS);
    }
    assert_null(task_kind_find("nothing"));
    assert_null(jobfile_key(task_kind_find("train"), "detect.model"));
}

#define in_arena(test) cmocka_unit_test_setup_teardown(test, make_arena, free_arena)
int main(void) {
    const struct CMUnitTest tests[] = {
        in_arena(a_training_counts_its_average_batches_and_logits),
        in_arena(a_job_has_the_keys_of_its_kind_and_the_defaults_of_all),
        in_arena(the_kind_comes_first),
        in_arena(keys_of_other_kinds_are_named_where_they_stand),
        in_arena(keys_and_values_that_are_gone_are_unknown_by_name),
        in_arena(a_required_key_of_the_kind_is_missed),
        in_arena(control_characters_are_refused_wherever_they_stand),
        in_arena(there_is_one_limit_on_overrides),
        in_arena(the_models_and_files_of_a_job_are_listed),
        in_arena(readers_follow_the_machine_unless_their_number_is_set),
        in_arena(people_are_told_of_older_names_and_of_keys_without_effect),
        in_arena(every_row_of_the_table_keeps_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
