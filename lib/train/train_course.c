/* The picture is drawn from the lines of metrics.jsonl, so that it is whole however often the run was interrupted. */
#include "train/train_course.h"

#include "base/grow.h"
#include "plot/plot.h"

enum { MAX_BYTES = 256 << 20, PATH_SIZE = 4096 };

/* A last line that a kill cut off gets its end, so that it does not swallow this one. */
static int append_line(const char *path, const struct str *line, struct err *err) {
    FILE *f = fopen(path, "a+e");
    bool torn = f && !fseek(f, -1, SEEK_END) && fgetc(f) != '\n';
    bool good = f && !fseek(f, 0, SEEK_END) && (!torn || fputs("\n", f) >= 0) && fputs(str_cstr(line), f) >= 0;
    if (f && fclose(f))
        good = false;
    return good ? 0 : err_errno(err, errno, "cannot write %s", path);
}

void train_course_add(struct train *t, const char *kind, const struct validation_result *v) {
    char path[PATH_SIZE];
    struct err err = {0};
    if (t->world->rank || !str_format(path, sizeof path, "%s/metrics.jsonl", t->env.directory))
        return;
    struct str line = str_of(4096);
    struct json_writer w = json_object_to(&line);
    json_put_str(&w, "kind", kind);
    JSON_MEMBERS(&w, t->at, step, epoch);
    json_put_f64(&w, "loss", t->at.loss_average);
    if (v) {
        JSON_MEMBERS(&w, *v, event_f1, false_alarms_per_24h, auroc);
        json_put_f64(&w, "validation_loss", v->loss);
        json_put_f64(&w, "threshold_on", v->events.on);
        json_put_f64(&w, "threshold_off", v->events.off);
        json_put_str(&w, "definition", SCORE_DEFINITION);
    } else {
        JSON_MEMBERS(&w, t->progress, learning_rate, gradient_norm, windows_per_s, data_wait_ratio);
        json_put_f64(&w, "first_step_s", t->first_step_s);
    }
    json_end(&w, '}');
    str_puts(&line, "\n");
    bool lost = append_line(path, &line, &err) != 0;
    if (lost && !t->course_lost)
        task_log(&t->env, TASK_WARN, "the training goes on without its lines of progress: %s", err.message);
    t->course_lost = lost;
    str_done(&line);
}

enum { TRAINING_LOSS, VALIDATION_LOSS, EVENT_F1, AUROC, CURVES };
static const struct {
    const char *name, *kind, *key;
} curves[CURVES] = {{"training loss", "step", "loss"},
                    {"validation loss", "validation", "validation_loss"},
                    {"event F1", "validation", "event_f1"},
                    {"AUROC", "validation", "auroc"}};

struct series {
    struct plot_point *points;
    int n, size;
};

/* After a kill the steps since the newest checkpoint stand there twice: the later ones count. */
static bool put(struct series *s, double x, double y) {
    while (s->n && s->points[s->n - 1].x >= x)
        s->n--;
    if (!GROW(s->points, s->n, s->size))
        return false;
    s->points[s->n++] = (struct plot_point){x, y};
    return true;
}

static bool take(struct series series[CURVES], const struct json *line) {
    const char *kind = json_str(json_get(line, "kind"), "");
    double step = json_f64(json_get(line, "step"), NAN);
    bool ok = true;
    for (int i = 0; i < CURVES && isfinite(step); i++)
        if (!strcmp(kind, curves[i].kind))
            ok = ok && put(&series[i], step, json_f64(json_get(line, curves[i].key), NAN));
    return ok;
}

/* A last line that a kill cut short is no line. */
static int read_series(const char *path, struct series series[CURVES], struct err *err) {
    char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(path, MAX_BYTES, &text, &len, err);
    if (rc)
        return rc;
    for (char *line = text, *end; !rc && (end = memchr(line, '\n', len - (size_t)(line - text))); line = end + 1) {
        struct json *json = NULL;
        if (json_parse(line, (size_t)(end - line), path, &json, NULL) == 0 && !take(series, json))
            rc = err_set(err, ERR_EXHAUSTED, "out of memory drawing the training");
        json_free(json);
    }
    free(text);
    return rc;
}

static void series_done(struct series (*series)[CURVES]) {
    for (int i = 0; i < CURVES; i++)
        free((*series)[i].points);
}

static int draw(const struct train *t, struct err *err) {
    OWNED(series_done) struct series series[CURVES] = {{0}};
    struct plot_curve curve[CURVES];
    char from[PATH_SIZE], to[PATH_SIZE], subtitle[160];
    int rc;
    if ((rc = fsio_join(from, sizeof from, t->env.directory, "metrics.jsonl", err)) ||
        (rc = fsio_join(to, sizeof to, t->env.directory, "training.svg", err)) ||
        (fsio_exists(from) && (rc = read_series(from, series, err)))) /* the first lines come with the tenth step */
        return rc;
    for (int i = 0; i < CURVES; i++)
        curve[i] = (struct plot_curve){curves[i].name, series[i].points, series[i].n};
    str_format(subtitle, sizeof subtitle, "%lld of %lld steps, montage %s", (long long)t->at.step, (long long)t->total_steps,
               t->job->data.montage);
    struct plot_training plot = {.title = t->jobfile->name,
                                 .subtitle = subtitle,
                                 .losses = curve,
                                 .scores = curve + EVENT_F1,
                                 .n_losses = EVENT_F1,
                                 .n_scores = CURVES - EVENT_F1,
                                 .best_step = (double)t->at.best.step};
    return series[TRAINING_LOSS].n ? plot_training(to, &plot, err) : 0;
}

void train_course_draw(struct train *t) {
    struct err err = {0};
    if (draw(t, &err))
        task_log(&t->env, TASK_WARN, "the picture of the training could not be drawn: %s", err.message);
}
