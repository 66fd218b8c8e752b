/* Checkpoints of a training task. A checkpoint is a pair: step-N.safetensors (the model) and step-N.state.safetensors (moments and
 * counters), written in this order; the state names the model's SHA-256, so a pair is valid only when both are whole. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fsio.h"
#include "base/str.h"
#include "nn/ckpt.h"
#include "run/train_state.h"

enum { PATH_SIZE = 4096, MAX_FOUND = 4096 };

static int pair_paths(const struct train *t, int64_t step, char model[PATH_SIZE], char state[PATH_SIZE], struct err *err) {
    bool ok = str_format(model, PATH_SIZE, "%s/checkpoints/step-%08lld.safetensors", t->env.directory, (long long)step) &&
              str_format(state, PATH_SIZE, "%s/checkpoints/step-%08lld.state.safetensors", t->env.directory, (long long)step);
    return ok ? 0 : err_set(err, ERR_RANGE, "path too long: %.200s…", t->env.directory);
}

#define COUNTERS(X) X(step) X(epoch) X(index) X(validated_step) X(nonfinite) X(nonfinite_run) X(validations_without_gain)

static void counters_to_json(const struct train *t, struct str *out) {
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w, NULL);
#define PUT(field) json_put_i64(&w, #field, t->at.field);
    COUNTERS(PUT)
#undef PUT
    json_put_i64(&w, "best_step", t->at.best.step);
    json_put_f64(&w, "best_metric", t->at.best.metric);
    json_put_f64(&w, "highest_rank", t->at.best.highest);
    json_put_f64(&w, "loss_average", t->at.loss_average);
    json_put_f64(&w, "event_f1", t->newest.event_f1);
    json_put_f64(&w, "false_alarms_per_24h", t->newest.false_alarms_per_24h);
    json_put_f64(&w, "auroc", t->newest.auroc);
    json_put_f64(&w, "validation_loss", t->newest.loss);
    json_put_bool(&w, "finished", t->at.finished);
    json_put_i64(&w, "seed", t->job->training.seed);
    json_put_i64(&w, "total_steps", t->total_steps);
    json_put_str(&w, "manifest", t->file.manifest);
    json_end(&w, '}');
}

static void counters_from_json(struct train *t, const struct json *j) {
#define GET(field) t->at.field = json_i64(json_get(j, #field), 0);
    COUNTERS(GET)
#undef GET
    t->at.best.step = json_i64(json_get(j, "best_step"), 0);
    t->at.best.metric = json_f64(json_get(j, "best_metric"), NAN);
    t->at.best.highest = json_f64(json_get(j, "highest_rank"), NAN);
    t->at.loss_average = json_f64(json_get(j, "loss_average"), NAN);
    t->newest.event_f1 = json_f64(json_get(j, "event_f1"), NAN);
    t->newest.false_alarms_per_24h = json_f64(json_get(j, "false_alarms_per_24h"), NAN);
    t->newest.auroc = json_f64(json_get(j, "auroc"), NAN);
    t->newest.loss = json_f64(json_get(j, "validation_loss"), NAN);
    t->at.finished = json_bool(json_get(j, "finished"), false);
}

/* Steps that have a state file, newest first. */
static int list_steps(const struct train *t, int64_t steps[MAX_FOUND]) {
    char dir[PATH_SIZE];
    if (!str_format(dir, sizeof dir, "%s/checkpoints", t->env.directory))
        return 0;
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && n < MAX_FOUND && (e = readdir(d));) {
        char digits[32];
        int64_t step;
        size_t len = strlen(e->d_name);
        if (!str_starts(e->d_name, "step-") || !str_ends(e->d_name, ".state.safetensors") || len > 45)
            continue;
        str_format(digits, sizeof digits, "%.*s", (int)(len - 5 - strlen(".state.safetensors")), e->d_name + 5);
        if (!str_to_i64(digits, &step))
            continue;
        int at = n++;
        for (; at > 0 && steps[at - 1] < step; at--)
            steps[at] = steps[at - 1];
        steps[at] = step;
    }
    if (d)
        closedir(d);
    return n;
}

/* Keep the newest `keep` pairs and the best model; drop the rest. */
static void retire(const struct train *t) {
    int64_t steps[MAX_FOUND];
    int n = list_steps(t, steps);
    for (int i = (int)t->job->checkpoint.keep; i < n; i++) {
        char model[PATH_SIZE], state[PATH_SIZE];
        if (pair_paths(t, steps[i], model, state, NULL))
            continue;
        unlink(state);
        if (steps[i] != t->at.best.step)
            unlink(model);
    }
}

static int save_state(struct train *t, const char *path, const char *model_sha, struct err *err) {
    struct str counters;
    char updates[32], sha[DIGEST_HEX_SIZE];
    str_init(&counters, 65536);
    counters_to_json(t, &counters);
    str_format(updates, sizeof updates, "%lld", (long long)t->optim.updates);
    struct safetensors_pair metadata[] = {
        {"brr.kind", "training-state"}, {"model_sha256", model_sha}, {"updates", updates}, {"counters", str_cstr(&counters)}};
    struct ckpt_file file = {path, metadata, sizeof metadata / sizeof *metadata};
    int rc = ckpt_save_state(&file, &t->optim, t->stream, sha, err);
    str_done(&counters);
    return rc;
}

/* Both files of a pair whole under other names first, so that a full volume never leaves a new model beside the old state of the
 * same step (saved before its validation, and again after it). */
static int save_pair(struct train *t, const char *model, const char *state, char sha[DIGEST_HEX_SIZE], struct err *err) {
    char new_model[PATH_SIZE + 8], new_state[PATH_SIZE + 8];
    str_format(new_model, sizeof new_model, "%s.new", model);
    str_format(new_state, sizeof new_state, "%s.new", state);
    int rc = modelfile_save(new_model, &t->file, t->net, t->optim.ema, t->stream, sha, err);
    if (!rc)
        rc = save_state(t, new_state, sha, err);
    if (!rc)
        rc = fsio_rename(new_model, model, err);
    if (!rc)
        rc = fsio_rename(new_state, state, err);
    if (rc) {
        unlink(new_model);
        unlink(new_state);
    }
    return rc;
}

int train_save(struct train *t, bool validated, struct err *err) {
    struct task_checkpoint c = {
        .step = t->at.step, .epoch = t->at.epoch, .last = true, .metric = validated ? t->newest.value.metric : NAN};
    char dir[PATH_SIZE], state[PATH_SIZE];
    double start = clock_s();
    t->file.step = t->at.step;
    t->file.epoch = t->at.epoch;
    int rc = pair_paths(t, t->at.step, c.path, state, err);
    if (!rc && !str_format(dir, sizeof dir, "%s/checkpoints", t->env.directory))
        rc = err_set(err, ERR_RANGE, "path too long: %.200s…", t->env.directory);
    if (!rc)
        rc = fsio_mkdirs(dir, err);
    if (!rc)
        rc = save_pair(t, c.path, state, c.sha256, err);
    if (!rc)
        rc = fsio_size(c.path, &c.bytes, NULL, err);
    if (rc)
        return err_wrap(err, "the checkpoint of step %lld could not be written; the ones before are untouched",
                        (long long)t->at.step);
    c.best = t->at.best.step == t->at.step;
    c.write_s = clock_s() - start;
    str_copy(c.metric_name, sizeof c.metric_name, t->job->training.stop_metric);
    if (t->env.checkpoint)
        t->env.checkpoint(t->env.ctx, &c);
    retire(t);
    train_plot(t);
    return 0;
}

/* One pair: whole, of this job, and loaded. */
static int restore_pair(struct train *t, const char *model, const char *state, struct err *err) {
    struct safetensors *st = NULL;
    struct json *counters = NULL;
    struct modelfile file;
    char sha[DIGEST_HEX_SIZE];
    int rc = safetensors_open(state, &st, err);
    const char *expected = rc ? NULL : safetensors_metadata(st, "model_sha256"),
               *text = rc ? NULL : safetensors_metadata(st, "counters");
    if (!rc && (!expected || !text))
        rc = err_set(err, ERR_INVALID, "%s is no training state", state);
    if (!rc)
        rc = digest_file(model, sha, err);
    if (!rc && strcmp(sha, expected))
        rc = err_set(err, ERR_DATA_LOSS, "%s does not have the SHA-256 its state names", model);
    if (!rc)
        rc = modelfile_read(model, &file, err);
    if (!rc)
        rc = json_parse(text, strlen(text), state, &counters, err);
    if (!rc && json_i64(json_get(counters, "total_steps"), 0) != t->total_steps)
        train_log(t, TASK_WARN,
                  "the schedule has %lld steps now and had %lld when %s was written; the learning rate follows the new one",
                  (long long)t->total_steps, (long long)json_i64(json_get(counters, "total_steps"), 0), state);
    if (!rc)
        rc = ckpt_load_model(model, seizure_params(t->net), t->stream, false, err);
    if (!rc)
        rc = ckpt_load_state(st, state, &t->optim, t->stream, err);
    if (!rc) {
        counters_from_json(t, counters);
        t->file.events = t->newest.events = file.events;
        str_copy(t->file.init_from, sizeof t->file.init_from, file.init_from);
        str_copy(t->file.init_from_sha256, sizeof t->file.init_from_sha256, file.init_from_sha256);
    }
    json_free(counters);
    safetensors_close(st);
    return rc;
}

int train_restore(struct train *t, bool *ret_found, struct err *err) {
    int64_t steps[MAX_FOUND];
    int n = list_steps(t, steps);
    *ret_found = false;
    for (int i = 0; i < n; i++) {
        char model[PATH_SIZE], state[PATH_SIZE];
        struct err why;
        int rc = pair_paths(t, steps[i], model, state, err);
        if (rc)
            return rc;
        if (!restore_pair(t, model, state, &why)) {
            *ret_found = true;
            return 0;
        }
        train_log(t, TASK_WARN, "checkpoint of step %lld is not usable (%s); trying the one before", (long long)steps[i],
                  why.message);
    }
    return 0;
}

void train_record(struct train *t, const char *kind, const struct validation_result *v) {
    char path[PATH_SIZE];
    struct str line;
    struct json_writer w;
    if (!str_format(path, sizeof path, "%s/metrics.jsonl", t->env.directory))
        return;
    str_init(&line, 4096);
    json_writer_init(&w, &line);
    json_begin_object(&w, NULL);
    json_put_str(&w, "kind", kind);
    json_put_i64(&w, "step", t->at.step);
    json_put_i64(&w, "epoch", t->at.epoch);
    json_put_f64(&w, "loss", t->at.loss_average);
    if (v) {
        json_put_f64(&w, "event_f1", v->event_f1);
        json_put_f64(&w, "false_alarms_per_24h", v->false_alarms_per_24h);
        json_put_f64(&w, "auroc", v->auroc);
        json_put_f64(&w, "validation_loss", v->loss);
        json_put_f64(&w, "threshold_on", v->events.on);
        json_put_f64(&w, "threshold_off", v->events.off);
        json_put_str(&w, "definition", SCORE_DEFINITION);
    } else {
        json_put_f64(&w, "learning_rate", t->progress.learning_rate);
        json_put_f64(&w, "gradient_norm", t->progress.gradient_norm);
        json_put_f64(&w, "windows_per_s", t->progress.windows_per_s);
        json_put_f64(&w, "data_wait_ratio", t->progress.data_wait_ratio);
        json_put_f64(&w, "first_step_s", t->first_step_s);
    }
    json_end(&w, '}');
    str_puts(&line, "\n");
    FILE *f = fopen(path, "ae");
    if (f) {
        fputs(str_cstr(&line), f);
        fclose(f);
    }
    str_done(&line);
}
