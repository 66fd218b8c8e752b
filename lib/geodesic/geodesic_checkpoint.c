/* Checkpoints of a geodesic task: checkpoints/step-N.safetensors, models and training state in one file, so that it is either whole
 * or not there. The newest checkpoint.keep are kept. */

#include "geodesic/geodesic_task.h"
#include "work/series.h"

enum { MAX_COUNTERS = 4096 };

static struct series series_of(const struct geodesic_task *t) { return (struct series){&t->env, "step", 8}; }

/* The parameters that must be equal to resume from a checkpoint. */
static void put_identity(const struct geodesic_task *t, struct json_writer *w) {
    const struct geodesic_config *c = t->config;
    json_put_str(w, "spectra", t->spectra.sha256);
    json_put_i64(w, "phases", t->phases);
    JSON_MEMBERS(w, *c, epochs, batch, seed, head, final_model, prior);
}

static void counters_text(const struct geodesic_task *t, struct str *out) {
    struct json_writer w = json_object_to(out);
    json_put_i64(&w, "phase", t->phase);
    json_put_i64(&w, "step", geodesic_fit_at(t->fit));
    json_begin_object(&w, "job");
    put_identity(t, &w);
    json_end(&w, '}');
    json_end(&w, '}');
}

static bool is_of_this_job(const struct geodesic_task *t, const struct json *counters) {
    const struct json *job = json_get(counters, "job");
    const struct geodesic_config *c = t->config;
    return !strcmp(json_str(json_get(job, "spectra"), ""), t->spectra.sha256) &&
           json_i64(json_get(job, "phases"), -1) == t->phases && json_i64(json_get(job, "epochs"), -1) == c->epochs &&
           json_i64(json_get(job, "batch"), -1) == c->batch && json_i64(json_get(job, "seed"), -1) == c->seed &&
           json_i64(json_get(job, "head"), -1) == c->head && json_bool(json_get(job, "final_model"), false) == c->final_model &&
           json_i64(json_get(job, "prior"), GEODESIC_NO_PRIOR) == c->prior;
}

void geodesic_task_file(const struct geodesic_task *t, struct geodesic_file *ret) {
    *ret = (struct geodesic_file){.head = (enum geodesic_head)t->config->head,
                                  .floor = t->config->floor,
                                  SAME_MEMBERS(*t, spectra, groups),
                                  .params = t->state.params};
    for (int g = 0; g < t->groups; g++) {
        ret->members[g] = geodesic_task_members(t, g);
        ret->orders[g] = t->state.orders[g];
        ret->prior_weights[g] = t->prior_weight && geodesic_task_is_last(t) ? t->prior_weight[g] : 0;
    }
}

static int write_file(void *task, const char *path, char sha256[DIGEST_HEX_SIZE], struct err *err) {
    struct geodesic_task *t = task;
    struct geodesic_file file;
    struct str counters = str_of(MAX_COUNTERS);
    geodesic_task_file(t, &file);
    counters_text(t, &counters);
    const struct geodesic_file_state state = {&t->state, t->figures, t->n_figures, str_cstr(&counters)};
    int rc = geodesic_file_write(path, &file, &state, sha256, err);
    str_done(&counters);
    return rc;
}

int geodesic_task_save(struct geodesic_task *t, struct err *err) {
    const struct series series = series_of(t);
    struct task_checkpoint c = {.metric = NAN, .last = true};
    double now = clock_s();
    c.step = t->phase * geodesic_fit_steps(t->fit) + geodesic_fit_at(t->fit);
    c.epoch = c.step / geodesic_fit_epoch_steps(t->fit);
    *t->wall_s += now - t->begun_s;
    t->begun_s = now;
    int rc = geodesic_fit_save(t->fit, &t->state, err);
    return rc ? rc : series_write(&series, &c, t->job->checkpoint.keep, write_file, t, err);
}

/* ---- restoring ------------------------------------------------------------------------------------------------- */

/* The phase of a checkpoint. PRECONDITION when the checkpoint is of another job, so that it stays. */
static int read_phase(const struct geodesic_task *t, const char *path, int *ret, struct err *err) {
    struct safetensors *st = NULL;
    struct json *counters = NULL;
    int phase = -1, rc = safetensors_open(path, &st, err);
    if (rc)
        return rc;
    const char *text = safetensors_metadata(st, "counters");
    if (text && json_parse(text, strlen(text), path, &counters, NULL) == 0 && is_of_this_job(t, counters))
        phase = (int)json_i64(json_get(counters, "phase"), -1);
    json_free(counters);
    safetensors_close(st);
    if (phase < 0 || phase >= t->phases)
        return err_set(err, ERR_PRECONDITION, "%s belongs to another job; take another folder", path);
    *ret = phase;
    return 0;
}

/* The training state and the optimizer step in it. */
static int read_state(struct geodesic_task *t, const char *path, struct err *err) {
    char *text = NULL;
    struct json *counters = NULL;
    int rc = geodesic_file_read_state(path, &t->state, t->figures, t->n_figures, &text, err);
    if (rc)
        return rc;
    rc = json_parse(text, strlen(text), path, &counters, err);
    free(text);
    if (rc)
        return rc;
    t->state.step = json_i64(json_get(counters, "step"), -1);
    json_free(counters);
    if (t->state.step < 0 || t->state.step > geodesic_fit_steps(t->fit))
        return err_set(err, ERR_INVALID, "%s: step %lld lies outside the training", path, (long long)t->state.step);
    return 0;
}

static int load_phase(struct geodesic_task *t, const char *path, struct err *err) {
    int rc;
    if ((rc = geodesic_task_begin_phase(t, err)) || (rc = read_state(t, path, err)) ||
        (rc = geodesic_fit_load(t->fit, &t->state, err)))
        return rc;
    geodesic_task_limit(t);
    return 0;
}

static int restore_from(void *task, const char *path, struct err *err) {
    struct geodesic_task *t = task;
    int rc = read_phase(t, path, &t->phase, err);
    if (rc)
        return rc;
    if ((rc = load_phase(t, path, err)))
        t->phase = 0;
    return rc;
}

int geodesic_task_restore(struct geodesic_task *t, bool *ret_found, struct err *err) {
    const struct series series = series_of(t);
    return series_restore(&series, restore_from, t, ret_found, err);
}
