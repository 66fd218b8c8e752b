#include "train/train_report.h"

enum { REPORT_BYTES = 256 << 20, PATH_SIZE = 4096 };

static void put_step(struct json_writer *w, const char *key, int64_t step) {
    if (step == STEP_NONE)
        json_put_null(w, key);
    else
        json_put_i64(w, key, step);
}

/* The scores are those of the network that the job's name stands for: the best one, or the last where none can be the best. */
static void put_scores(const struct train *t, struct json_writer *w) {
    const struct validation_result *kept = t->at.best.step == STEP_NONE ? &t->newest : &t->best;
    json_put_str(w, "metric", t->job->training.stop_metric);
    json_put_f64(w, "best", t->at.best.metric);
    put_step(w, "best_step", t->at.best.step);
    json_put_str(w, "selected_on", "validation");
    JSON_MEMBERS(w, *kept, event_f1, seizures, false_alarms_per_24h, auroc);
    json_put_f64(w, "validation_loss", kept->loss);
    json_put_f64(w, "threshold_on", kept->events.on);
    json_put_f64(w, "threshold_off", kept->events.off);
    if (t->job->training.temperature)
        json_put_f64(w, "temperature", kept->temperature);
    json_put_str(w, "definition", SCORE_DEFINITION);
}

void train_curve_put(const struct train *t, struct json_writer *w, const char *key) {
    json_begin_array(w, key);
    for (int i = 0; i < t->n_points; i++) {
        JSON_OBJECT(w, NULL, t->points[i], answers, seizures, event_f1, auroc, false_alarms_per_24h);
    }
    json_end(w, ']');
}

void train_report_result(void *task, struct json_writer *w, const char *key) {
    const struct train *t = task;
    json_begin_object(w, key);
    json_put_i64(w, "steps", t->at.step);
    json_put_i64(w, "epochs", t->at.epoch);
    json_put_f64(w, "loss", t->at.loss_average);
    json_put_i64(w, "nonfinite_steps", t->at.nonfinite);
    if (t->at.validated_step != STEP_NONE)
        put_scores(t, w);
    if (t->n_points)
        train_curve_put(t, w, "answers_curve");
    json_end(w, '}');
}

static int write_report(struct train *t, struct err *err) {
    char path[PATH_SIZE];
    int rc = fsio_join(path, sizeof path, t->env.directory, "report.json", err);
    if (rc)
        return rc;
    struct str out = str_of(REPORT_BYTES);
    struct json_writer w = json_object_to(&out);
    json_put_str(&w, "kind", "training");
    patients_put_names(t->manifest, t->split, &w, "split");
    json_put_i64(&w, "split_seed", t->job->data.split_seed);
    json_begin_array(&w, "left_out");
    for (int64_t i = 0; i < manifest_count(t->manifest); i++)
        if (t->left_out[i] || manifest_entry(t->manifest, i)->error)
            json_put_str(&w, NULL, manifest_entry(t->manifest, i)->relative_path);
    json_end(&w, ']');
    train_report_result(t, &w, "result");
    json_end(&w, '}');
    str_puts(&out, "\n");
    rc = fsio_write_text(path, &out, err);
    str_done(&out);
    return rc;
}

void train_report_write(struct train *t) {
    struct err err = {0};
    if (write_report(t, &err))
        task_log(&t->env, TASK_WARN, "report.json could not be written: %s", err.message);
}
