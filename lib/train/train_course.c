/* The picture is drawn from the lines of metrics.jsonl, so that it is whole however often the run was interrupted. */
#include "train/train_course.h"

#include "plot/course.h"

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

static void points_done(struct plot_point *(*points)[COURSE_FIGURES]) {
    for (int i = 0; i < COURSE_FIGURES; i++)
        free((*points)[i]);
}

static int draw(const struct train *t, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    OWNED(course_done) struct course course = {0};
    OWNED(points_done) struct plot_point *points[COURSE_FIGURES] = {NULL};
    struct plot_curve curve[COURSE_FIGURES];
    char from[PATH_SIZE], to[PATH_SIZE], subtitle[160];
    size_t len = 0;
    int rc;
    if ((rc = fsio_join(from, sizeof from, t->env.directory, "metrics.jsonl", err)) ||
        (rc = fsio_join(to, sizeof to, t->env.directory, "training.svg", err)))
        return rc;
    if (fsio_exists(from) && /* the first lines come with the tenth step */
        ((rc = fsio_read(from, MAX_BYTES, &text, &len, err)) || (rc = course_read(&course, text, len, err))))
        return rc;
    for (int i = 0; i < COURSE_FIGURES; i++) {
        const struct course_points p = course_points_of(&course, i);
        if (!(points[i] = p.points))
            return err_set(err, ERR_EXHAUSTED, "out of memory drawing the training");
        curve[i] = (struct plot_curve){course_figures[i].name, p.points, p.n};
    }
    str_format(subtitle, sizeof subtitle, "%lld of %lld steps, montage %s", (long long)t->at.step, (long long)t->total_steps,
               t->job->data.montage);
    struct plot_training plot = {.title = t->jobfile->name,
                                 .subtitle = subtitle,
                                 .losses = curve,
                                 .scores = curve + COURSE_EVENT_F1,
                                 .n_losses = COURSE_EVENT_F1,
                                 .n_scores = COURSE_FIGURES - COURSE_EVENT_F1,
                                 .best_step = (double)t->at.best.step};
    return curve[COURSE_LOSS].n ? plot_training(to, &plot, err) : 0;
}

void train_course_draw(struct train *t) {
    struct err err = {0};
    if (draw(t, &err))
        task_log(&t->env, TASK_WARN, "the picture of the training could not be drawn: %s", err.message);
}
