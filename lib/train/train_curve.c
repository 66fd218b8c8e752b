#include "train/train_curve.h"

#include "base/counted.h"
#include "plot/plot.h"
#include "store/digest.h"
#include "train/train_answers.h"
#include "train/train_report.h"
#include "train/train_validate.h"

enum { PATH_SIZE = 4096, FILE_BYTES = 1 << 20, WHOLE_RUN = 1000000000 };

struct curve {
    struct train *t;
    const struct task_work *work;
    struct train_answers answers;
    char basis[DIGEST_HEX_SIZE]; /* a digest of everything that the points depend on */
    struct train_config config;  /* of the present point, and the rest that its task borrows */
    struct jobfile jobfile;
    struct task_env env;
    char folder[PATH_SIZE];
};

static int64_t points_of(const struct train *t) { return t->job->training.answers_curve; }

/* How many answers point i of 0 to n counts. */
static int64_t answers_at(const struct curve *c, int64_t i) {
    return (int64_t)llround((double)(c->answers.n * i) / (double)points_of(c->t));
}

/* ---- the files ---- */

static void find_basis(struct curve *c) {
    const struct train *t = c->t;
    struct digest *d = digest_new();
    char text[512];
    str_format(text, sizeof text, "%s %s %lld %lld", t->file.manifest, t->file.init_from_sha256, (long long)t->planned_steps,
               (long long)t->job->training.seed);
    digest_update(d, text, strlen(text));
    for (int64_t i = 0; i < c->answers.n; i++) {
        const struct train_answer *a = &c->answers.items[i];
        str_format(text, sizeof text, "\n%lld %lld %lld %d", (long long)a->entry, (long long)a->span.first, (long long)a->span.end,
                   a->seizure);
        digest_update(d, text, strlen(text));
    }
    digest_finish(d, c->basis);
}

/* The points of an earlier attempt, unless they are of other answers, recordings or weights. */
static int read_points(struct curve *c, const char *path, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    OWNED_POINTER(json_free) struct json *json = NULL;
    size_t len = 0;
    int rc = fsio_exists(path) ? fsio_read(path, FILE_BYTES, &text, &len, err) : 0;
    if (rc || !text || json_parse(text, len, path, &json, NULL) || strcmp(json_str(json_get(json, "basis"), ""), c->basis) != 0)
        return rc;
    const struct json *points = json_get(json, "points");
    for (size_t i = 0; i < json_count(points) && c->t->n_points <= points_of(c->t); i++) {
        struct train_curve_point *p = &c->t->points[c->t->n_points++];
        JSON_TAKE(json_at(points, i), *p, answers, seizures, event_f1, auroc, false_alarms_per_24h);
    }
    return 0;
}

static int write_points(const struct curve *c, const char *path, struct err *err) {
    OWNED(str_done) struct str text = str_of(FILE_BYTES);
    struct json_writer w = json_object_to(&text);
    json_put_str(&w, "basis", c->basis);
    json_put_i64(&w, "answers", c->answers.n);
    json_put_i64(&w, "steps", c->t->planned_steps);
    json_put_i64(&w, "recordings_scored", c->t->validation_recordings);
    json_put_str(&w, "definition", SCORE_DEFINITION);
    train_curve_put(c->t, &w, "points");
    json_end(&w, '}');
    str_puts(&text, "\n");
    return fsio_write_text(path, &text, err);
}

static int draw_points(const struct curve *c, const char *path, struct err *err) {
    const struct train *t = c->t;
    struct plot_point f1[TRAIN_CURVE_MOST + 1], auroc[TRAIN_CURVE_MOST + 1];
    char title[200], subtitle[200];
    for (int i = 0; i < t->n_points; i++) {
        f1[i] = (struct plot_point){(double)t->points[i].answers, t->points[i].event_f1};
        auroc[i] = (struct plot_point){(double)t->points[i].answers, t->points[i].auroc};
    }
    const struct plot_curve curves[] = {{"event F1", f1, t->n_points}, {"AUROC", auroc, t->n_points}};
    str_format(title, sizeof title, "%.150s: scores over answers", t->jobfile->name);
    str_format(subtitle, sizeof subtitle, "on %s that no point learns from; 0 answers: the model that the training began with",
               counted(t->validation_recordings, "recording").text);
    const struct plot_training plot = {
        .title = title, .subtitle = subtitle, .scores = curves, .n_scores = 2, .best_step = -1, .x_name = "answers of readers"};
    return t->n_points > 1 ? plot_training(path, &plot, err) : 0;
}

static int write_curve(const struct curve *c, struct err *err) {
    char path[PATH_SIZE];
    int rc;
    if ((rc = fsio_join(path, sizeof path, c->t->env.directory, "answers.json", err)) || (rc = write_points(c, path, err)) ||
        (rc = fsio_join(path, sizeof path, c->t->env.directory, "answers.svg", err)))
        return rc;
    return draw_points(c, path, err);
}

/* ---- a point ---- */

/* The owner of the job hears what goes wrong in a point, and how many points there are. */
static int pass_report(void *ctx, const struct task_report *report) {
    struct curve *c = ctx;
    struct train *t = c->t;
    if (report->kind == TASK_LOG && report->level != TASK_INFO)
        return task_tell(&t->env, report);
    if (report->kind == TASK_PROGRESS)
        (void)task_phase(&t->env, &t->progress, "curve", t->n_points, points_of(t) + 1);
    return 0;
}

static int pass_point(void *ctx, struct err *err) { return task_point(&((struct curve *)ctx)->t->env, err); }

static int pass_model(void *ctx, const char *url, struct task_model *ret, struct err *err) {
    const struct task_env *env = &((struct curve *)ctx)->t->env;
    return env->model(env->ctx, url, ret, err);
}

/* Fills the folder and the job of a point, which its task borrows. */
static int plan_point(struct curve *c, int64_t answers, struct err *err) {
    const struct train *t = c->t;
    if (!str_format(c->folder, PATH_SIZE, "%s/answers/%.12s-%lld", t->env.directory, c->basis, (long long)answers))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", t->env.directory);
    c->config = *t->job;
    c->config.point.is_one = true;
    c->config.point.answers = answers;
    c->config.training.patience = 0;
    c->config.training.validate_every = WHOLE_RUN;
    c->jobfile = *t->jobfile;
    c->jobfile.config = &c->config;
    c->jobfile.data = &c->config.data;
    c->env = t->env;
    c->env.directory = c->folder;
    c->env.ctx = c;
    c->env.report = pass_report;
    c->env.point = pass_point;
    c->env.model = t->env.model ? pass_model : NULL;
    int rc = fsio_mkdirs(c->folder, err);
    return rc || t->env.contended ? rc : fsio_remove_temporaries(c->folder, err);
}

/* DATA_LOSS: a point of other recordings, labels or weights than the ones before it. */
static int check_point(const struct curve *c, const struct train *point, struct err *err) {
    if (!strcmp(point->file.manifest, c->t->file.manifest) && !strcmp(point->file.init_from_sha256, c->t->file.init_from_sha256))
        return 0;
    return err_set(err, ERR_DATA_LOSS,
                   "the labels, the recordings or model.init_from changed after the training began; submit the job again");
}

static int run_point(struct curve *c, int64_t answers, struct validation_result *ret, struct err *err) {
    struct train *t = c->t;
    void *task = NULL;
    int rc = c->work->open(&c->jobfile, &c->env, &task, err);
    if (rc == ERR_CANCELLED) { /* asked to stop while recordings were being loaded */
        const int stop = task_point(&t->env, err);
        return stop ? stop : rc;
    }
    if (rc)
        return rc;
    t->point = task;
    if (!(rc = check_point(c, t->point, err)))
        rc = answers ? c->work->run(task, err) : train_validate(t->point, &t->point->newest, err);
    *ret = t->point->newest;
    t->point = NULL;
    c->work->close(task);
    return rc;
}

static int make_point(struct curve *c, int64_t answers, struct err *err) {
    struct train *t = c->t;
    struct validation_result r = {0};
    struct err why = {0};
    char f1[32], auroc[32];
    int rc = plan_point(c, answers, err);
    if (rc)
        return rc;
    rc = run_point(c, answers, &r, &why);
    const bool untrained = rc == ERR_PRECONDITION || rc == ERR_ABORTED;
    if (rc && !untrained) {
        *err = why;
        return rc;
    }
    if (untrained)
        r.event_f1 = r.auroc = r.false_alarms_per_24h = NAN;
    struct train_curve_point *p = &t->points[t->n_points++];
    *p = (struct train_curve_point){.answers = answers, SAME_MEMBERS(r, event_f1, auroc, false_alarms_per_24h)};
    for (int64_t i = 0; i < answers; i++)
        p->seizures += c->answers.items[i].seizure;
    const struct counted of = counted(answers, "answer");
    if (untrained)
        task_log(&t->env, TASK_WARN, "scores after %s: none, because no training is possible with them: %s", of.text, why.message);
    else
        task_log(&t->env, TASK_INFO, "scores after %s: event F1 %s, %.2f false alarms per 24 h, AUROC %s", of.text,
                 score_text(p->event_f1, 3, f1), p->false_alarms_per_24h, score_text(p->auroc, 4, auroc));
    return (rc = write_curve(c, err)) ? rc : fsio_remove_tree(c->folder, err);
}

/* ---- the curve ---- */

static int make_points(struct curve *c, struct err *err) {
    struct train *t = c->t;
    for (int64_t i = t->n_points; i <= points_of(t); i++) {
        if (t->n_points && answers_at(c, i) <= t->points[t->n_points - 1].answers)
            continue; /* fewer answers than points */
        int rc = make_point(c, answers_at(c, i), err);
        if (rc)
            return rc;
    }
    return 0;
}

static int complete_curve(struct curve *c, struct err *err) {
    struct train *t = c->t;
    char path[PATH_SIZE], points[PATH_SIZE];
    int rc;
    if ((rc = fsio_join(path, sizeof path, t->env.directory, "answers.json", err)) ||
        (rc = fsio_join(points, sizeof points, t->env.directory, "answers", err)) ||
        (rc = train_answers_read(t->manifest, t->role, t->env.data_root, (uint64_t)t->job->training.seed, &c->answers, err)))
        return rc;
    find_basis(c);
    if ((rc = read_points(c, path, err)))
        return rc;
    if ((rc = make_points(c, err)) == ERR_DATA_LOSS) {
        task_log(&t->env, TASK_WARN, "the curve over answers ends with %s: %s", counted(t->n_points, "point").text, err->message);
        *err = (struct err){0};
        rc = 0;
    }
    if (rc || (rc = fsio_remove_tree(points, err)))
        return rc;
    train_report_write(t);
    return 0;
}

int train_curve_draw(struct train *t, const struct task_work *work, struct err *err) {
    struct curve c = {.t = t, .work = work};
    t->drawing = true;
    t->n_points = 0;
    const int rc = complete_curve(&c, err);
    train_answers_done(&c.answers);
    return rc;
}
