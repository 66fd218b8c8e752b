/* sweep FILE: a training for each combination of values (--grid) and each left-out patient (--folds), as jobs of the daemon's queue
 * or of an executor, and one table of their scores. With folds each model is evaluated on the patients that it has not seen, and
 * the counts of a combination's folds are pooled. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/json.h"
#include "base/order.h"
#include "base/str.h"
#include "base/yaml.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "score/interval.h"
#include "work/jobfile.h"

enum {
    MAX_JOBS = 4096,
    MAX_KEYS = 8,
    MAX_VALUES = 64,
    ARENA_BYTES = 64 << 20,
    TABLE_BYTES = 8 << 20,
    VALIDATE_MS = 10 * 60 * 1000
};

/* Its beginning is that of the options of submit, which brrctl_job_file_open reads. */
struct sweep_options {
    struct job_options job;
    struct argument_list grid;
    const char *folds, *executor, *output;
};
#define AT(field) offsetof(struct sweep_options, field)
static const struct argument rows[] = {
    {"--set", NULL, ARGUMENT_ASSIGNMENT, AT(job.set), "K=V", "override a key of the job file in all jobs; may be repeated", 0, 0},
    {"--name", NULL, ARGUMENT_TEXT, AT(job.name), "NAME", "name of the jobs", 0, 0},
    {"--grid", NULL, ARGUMENT_ASSIGNMENT, AT(grid), "K=V,V…", "values of a key; several --grid: all combinations", 0, 0},
    {"--folds", NULL, ARGUMENT_TEXT, AT(folds), "patients|N",
     "patients: leave out one patient after the other; N: patients in N groups, leave out one group after the other", 0, 0},
    {"--executor", NULL, ARGUMENT_TEXT, AT(executor), "NAME", "the cluster that runs the jobs; default: the daemon's devices", 0,
     0},
    {"--output", "--out", ARGUMENT_OUTPUT, AT(output), "FILE.tsv", "write the table to this file, too", 0, 0},
};
#undef AT
static const struct argument_table sweep_arguments = ARGUMENT_TABLE(rows, struct sweep_options);

static const struct sweep_options *own(const struct arguments *o) { return o->own; }

struct axis {
    const char *key;
    char *values[MAX_VALUES];
    int n;
};

/* A training, and the evaluation of its model. */
struct member {
    char job[64], evaluation[64];
    int point, fold; /* of the grid; -1: no folds */
    Brr__V1__JobState state;
    double seizures, found, false_events, hours, f1, false_alarms, auroc; /* NaN: not known */
};

struct sweep {
    const struct arguments *o;
    struct arena arena;
    struct brrctl_job_file file;
    size_t n_common; /* overrides of all jobs */
    struct axis axes[MAX_KEYS];
    int n_axes, n_points;
    char **patients;
    int n_patients, n_folds; /* 0: no folds */
    bool in_array;           /* a cluster gets the trainings as arrays */
    struct member *members;
    int n_members;
};

/* ---- what is to be tried ---- */

/* "KEY=V,V": commas within brackets and quotes belong to a value. */
static int read_axis(struct sweep *s, const char *text, struct err *err) {
    struct axis *a = &s->axes[s->n_axes];
    const char *equals = strchr(text, '='), *begin = equals + 1;
    int depth = 0;
    char quote = 0;
    if (s->n_axes == MAX_KEYS)
        return err_set(err, ERR_INVALID, "more than %d times --grid", MAX_KEYS);
    a->key = arena_strndup(&s->arena, text, (size_t)(equals - text));
    for (const char *at = begin;; at++) {
        if (quote)
            quote = *at == quote ? 0 : quote;
        else if (*at == '"' || *at == '\'')
            quote = *at;
        else
            depth += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
        if (*at && (*at != ',' || depth || quote))
            continue;
        if (a->n == MAX_VALUES)
            return err_set(err, ERR_INVALID, "--grid %s has more than %d values", a->key, MAX_VALUES);
        if (at == begin)
            return err_set(err, ERR_INVALID, "--grid %s has an empty value; expected KEY=VALUE,VALUE", text);
        a->values[a->n++] = arena_strndup(&s->arena, begin, (size_t)(at - begin));
        begin = at + 1;
        if (!*at)
            break;
    }
    s->n_axes++;
    return 0;
}

static int read_grid(struct sweep *s, struct err *err) {
    const struct argument_list *grid = &own(s->o)->grid;
    int rc;
    s->n_points = 1;
    for (int i = 0; i < grid->n; i++) {
        if ((rc = read_axis(s, grid->items[i], err)))
            return rc;
        s->n_points *= s->axes[i].n;
        if (s->n_points > MAX_JOBS)
            return err_set(err, ERR_INVALID, "the grid has more than %d combinations", MAX_JOBS);
    }
    return 0;
}

/* The patients of the recordings, as the daemon knows them. */
static int ask_patients(struct sweep *s, int *ret_exit) {
    static const struct brrctl_method method = {"/brr.v1.Jobs/Validate", &brr__v1__validate_response__descriptor, VALIDATE_MS};
    Brr__V1__ValidateRequest in = BRR__V1__VALIDATE_REQUEST__INIT;
    in.file = &s->file.message;
    Brr__V1__ValidateResponse *out = brrctl_call(s->o, &method, &in.base, ret_exit);
    if (!out)
        return -1;
    s->patients = arena_alloc(&s->arena, (out->n_patients + 1) * sizeof *s->patients);
    for (size_t i = 0; s->patients && i < out->n_patients; i++)
        s->patients[s->n_patients++] = arena_strndup(&s->arena, out->patients[i], strlen(out->patients[i]));
    brr__v1__validate_response__free_unpacked(out, NULL);
    if (s->n_patients)
        qsort(s->patients, (size_t)s->n_patients, sizeof *s->patients, order_strings);
    return 0;
}

static int read_folds(struct sweep *s, int *ret_exit) {
    const char *folds = own(s->o)->folds;
    struct err err;
    int64_t n = 0;
    if (!folds)
        return 0;
    if (strcmp(folds, "patients") != 0 && (!str_to_i64(folds, &n) || n < 2 || n > MAX_JOBS)) {
        err_set(&err, ERR_INVALID, "--folds '%.40s'; expected patients, or a number from 2", folds);
        *ret_exit = brrctl_fail(&err);
        return -1;
    }
    if (ask_patients(s, ret_exit))
        return -1;
    s->n_folds = n ? (int)n : s->n_patients;
    if (s->n_patients >= s->n_folds && s->n_patients >= 3 && s->n_points * s->n_folds <= MAX_JOBS)
        return 0;
    err_set(&err, ERR_PRECONDITION, "the recordings have %d patients; --folds %s needs at least %d, one of them to validate on",
            s->n_patients, folds, s->n_folds > 3 ? s->n_folds : 3);
    *ret_exit = brrctl_fail(&err);
    return -1;
}

/* The value of an axis at a point: the last axis changes fastest. */
static const char *value_of(const struct sweep *s, int point, int axis) {
    for (int i = s->n_axes - 1; i > axis; i--)
        point /= s->axes[i].n;
    return s->axes[axis].values[point % s->axes[axis].n];
}

/* "a, b": the patients of a fold; group f has every n_folds-th. */
static void fold_text(const struct sweep *s, int fold, const char *quote, struct str *out) {
    for (int i = fold; i < s->n_patients; i += s->n_folds)
        str_printf(out, "%s%s%s%s", i == fold ? "" : ", ", quote, s->patients[i], quote);
}

/* ---- jobs ---- */

static bool add(struct sweep *s, const char *key, const char *value) {
    Brr__V1__JobFile *m = &s->file.message;
    if (m->n_overrides == sizeof s->file.overrides / sizeof *s->file.overrides ||
        asprintf(&s->file.overrides[m->n_overrides], "%s=%s", key, value) < 0)
        return false;
    m->n_overrides++;
    return true;
}

static void drop_own(struct sweep *s) {
    while (s->file.message.n_overrides > s->n_common)
        free(s->file.overrides[--s->file.message.n_overrides]);
}

/* Sets in_array: the trainings run on a cluster, and all with the same executor and resources. */
static int ask_array(struct sweep *s, struct err *err) {
    struct yaml_node *root = NULL;
    int rc = yaml_parse(&s->arena, s->file.text, strlen(s->file.text), s->o->args[0], &root, err);
    for (size_t i = 0; !rc && i < s->n_common; i++)
        rc = yaml_set(&s->arena, root, s->file.overrides[i], err);
    if (rc)
        return rc;
    const struct yaml_node *executor = yaml_get(root, "executor");
    s->in_array = executor && !yaml_is_null(executor);
    for (int i = 0; i < s->n_axes; i++)
        s->in_array &= strcmp(s->axes[i].key, "executor") != 0 && !str_starts(s->axes[i].key, "resources.");
    return 0;
}

/* Training i of n: an array for each JOBFILE_MAX_ARRAY of them. */
static bool add_array(struct sweep *s, int i, int n) {
    const int head = i - i % JOBFILE_MAX_ARRAY, left = n - head, size = left < JOBFILE_MAX_ARRAY ? left : JOBFILE_MAX_ARRAY;
    char text[24];
    str_format(text, sizeof text, "%d", size);
    if (!s->in_array || size < 2)
        return true;
    if (!add(s, "array.size", text) || (i > head && !add(s, "array.head", s->members[head].job)))
        return false;
    str_format(text, sizeof text, "%d", i - head);
    return add(s, "array.index", text);
}

static int queue_training(struct sweep *s, int index, int n) {
    struct member *m = &s->members[index];
    OWNED(str_done) struct str test;
    bool fine = add_array(s, index, n);
    str_init(&test, TABLE_BYTES);
    for (int i = 0; i < s->n_axes; i++)
        fine = fine && add(s, s->axes[i].key, value_of(s, m->point, i));
    if (m->fold >= 0) {
        str_puts(&test, "[");
        fold_text(s, m->fold, "\"", &test);
        str_puts(&test, "]");
        fine = fine && add(s, "data.split.test", str_cstr(&test)) && add(s, "data.split.train", "[]") &&
               add(s, "data.split.validation", "[]"); /* drawn from the others */
    }
    int code = EXIT_FAILED;
    if (fine)
        code = brrctl_queue(s->o, &s->file.message, NULL, m->job, sizeof m->job);
    else
        fprintf(stderr, "brrctl: too many overrides for one job\n");
    drop_own(s);
    return code;
}

static void put_node(struct json_writer *w, const char *key, const struct yaml_node *n) {
    double number;
    if (n->type != YAML_SCALAR) {
        const bool list = n->type == YAML_SEQUENCE;
        (list ? json_begin_array : json_begin_object)(w, key);
        for (const struct yaml_node *child = n->child; child; child = child->next)
            put_node(w, list ? NULL : child->key, child);
        json_end(w, list ? ']' : '}');
    } else if (!n->quoted && str_to_f64(n->text, &number)) {
        json_put_raw(w, key, n->text);
    } else if (!n->quoted && (!strcmp(n->text, "true") || !strcmp(n->text, "false"))) {
        json_put_bool(w, key, *n->text == 't');
    } else {
        json_put_str(w, key, n->text);
    }
}

/* The job file with the overrides of all trainings, and the grid's values of this one. */
static int read_training(struct sweep *s, int point, struct yaml_node **ret, struct err *err) {
    int rc = yaml_parse(&s->arena, s->file.text, strlen(s->file.text), s->o->args[0], ret, err);
    for (size_t i = 0; !rc && i < s->n_common; i++)
        rc = yaml_set(&s->arena, *ret, s->file.overrides[i], err);
    for (int i = 0; !rc && i < s->n_axes; i++) {
        const char *assignment = arena_printf(&s->arena, "%s=%s", s->axes[i].key, value_of(s, point, i));
        rc = assignment ? yaml_set(&s->arena, *ret, assignment, err) : err_set(err, ERR_EXHAUSTED, "the sweep is too large");
    }
    return rc;
}

/* Writes the data keys of the training that evaluate jobs take too. */
static int put_data(struct sweep *s, int point, struct json_writer *w, struct err *err) {
    const struct task_kind *kind = task_kind_find("evaluate");
    struct yaml_node *root = NULL;
    char key[128];
    int rc = read_training(s, point, &root, err);
    if (rc)
        return rc;
    const struct yaml_node *data = yaml_get(root, "data");
    json_begin_object(w, "data");
    for (const struct yaml_node *n = data ? data->child : NULL; n; n = n->next)
        if (str_format(key, sizeof key, "data.%s", n->key) && jobfile_key(kind, key) && !yaml_is_null(n))
            put_node(w, n->key, n);
    json_end(w, '}');
    return 0;
}

/* The file of an evaluation of the training's model on the patients that it has not seen; what JSON writes is YAML. */
static int put_evaluation(struct sweep *s, int point, const char *training, struct str *text, struct err *err) {
    char model[80];
    struct json_writer w;
    int rc;
    str_format(model, sizeof model, "job:%s", training);
    json_writer_init(&w, text);
    json_begin_object(&w, NULL);
    json_put_str(&w, "kind", "evaluate");
    if (own(s->o)->job.name)
        json_put_str(&w, "name", own(s->o)->job.name);
    if (own(s->o)->executor)
        json_put_str(&w, "executor", own(s->o)->executor);
    if ((rc = put_data(s, point, &w, err)))
        return rc;
    json_begin_object(&w, "evaluate");
    json_put_str(&w, "checkpoint", model);
    json_put_str(&w, "patients", "unseen");
    json_put_i64(&w, "plots", 0);
    json_put_raw(&w, "baselines", "[]");
    json_end(&w, '}');
    json_end(&w, '}');
    return 0;
}

static int queue_evaluation(struct sweep *s, struct member *m) {
    OWNED(str_done) struct str text;
    struct err err;
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    str_init(&text, TABLE_BYTES);
    if (put_evaluation(s, m->point, m->job, &text, &err))
        return brrctl_fail(&err);
    file.yaml = (char *)(uintptr_t)str_cstr(&text);
    file.name = "sweep.yaml";
    return brrctl_queue(s->o, &file, NULL, m->evaluation, sizeof m->evaluation);
}

/* The evaluations come after hours of training: their files are read before the first one. */
static int check_evaluations(struct sweep *s) {
    for (int point = 0; s->n_folds && point < s->n_points; point++) {
        OWNED(str_done) struct str text;
        OWNED(arena_done) struct arena arena;
        struct jobfile job;
        struct err err;
        str_init(&text, TABLE_BYTES);
        arena_init(&arena, ARENA_BYTES);
        if (put_evaluation(s, point, "training", &text, &err) ||
            jobfile_parse(str_cstr(&text), "the evaluation of a fold", NULL, 0, &arena, &job, &err))
            return brrctl_fail(&err);
    }
    return 0;
}

static int queue_trainings(struct sweep *s) {
    const int folds = s->n_folds ? s->n_folds : 1;
    int code;
    if (!(s->members = calloc((size_t)s->n_points * (size_t)folds, sizeof *s->members)))
        return fprintf(stderr, "brrctl: out of memory for the jobs\n"), EXIT_FAILED;
    if ((code = check_evaluations(s)))
        return code;
    for (int i = 0; i < s->n_points * folds; i++) {
        struct member *m = &s->members[i];
        *m =
            (struct member){.point = i / folds, .fold = s->n_folds ? i % folds : -1, .state = BRR__V1__JOB_STATE__JOB_STATE_QUEUED};
        m->seizures = m->found = m->false_events = m->hours = m->f1 = m->false_alarms = m->auroc = NAN;
        if ((code = queue_training(s, i, s->n_points * folds)))
            return code;
        s->n_members++;
    }
    fprintf(stderr, "brrctl: %d jobs are queued, %s to %s; they go on if this command ends\n", s->n_members, s->members[0].job,
            s->members[s->n_members - 1].job);
    return 0;
}

/* ---- their results ---- */

static void read_scores(struct member *m, const struct brrctl_end *end) {
    struct json *result = NULL;
    m->state = end->state;
    if (json_parse(end->result, strlen(end->result), "result", &result, NULL))
        return;
    m->f1 = json_f64(json_get(result, "event_f1"), NAN);
    m->false_alarms = json_f64(json_get(result, "false_alarms_per_24h"), NAN);
    m->auroc = json_f64(json_get(result, "auroc"), NAN);
    m->seizures = json_f64(json_get(result, "seizures"), NAN);
    m->found = json_f64(json_get(result, "found"), NAN);
    m->false_events = json_f64(json_get(result, "false_events"), NAN);
    m->hours = json_f64(json_get(result, "hours"), NAN);
    json_free(result);
}

static int await(struct sweep *s, struct member *m, const char *id, bool scores) {
    struct brrctl_end *end = calloc(1, sizeof *end);
    int code = end ? brrctl_watch(s->o, id, end) : EXIT_FAILED;
    if (!code && scores)
        read_scores(m, end);
    else if (!code)
        m->state = end->state;
    if (!code && end->state != BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED)
        fprintf(stderr, "brrctl: %s: %s: %s\n", id, brr_job_state_name((int)end->state), end->reason);
    free(end);
    return code;
}

/* Evaluations begin as soon as their models are there, while other trainings run. */
static int await_all(struct sweep *s) {
    int code;
    for (int i = 0; i < s->n_members; i++) {
        struct member *m = &s->members[i];
        if ((code = await(s, m, m->job, !s->n_folds)))
            return code;
        if (s->n_folds && m->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED && (code = queue_evaluation(s, m)))
            return code;
    }
    for (int i = 0; i < s->n_members; i++)
        if (*s->members[i].evaluation && (code = await(s, &s->members[i], s->members[i].evaluation, true)))
            return code;
    return 0;
}

/* ---- the table ---- */

struct pooled {
    double seizures, found, false_events, hours;
    int folds, missing;
};

static struct pooled pool(const struct sweep *s, int point) {
    struct pooled p = {0};
    for (int i = 0; i < s->n_members; i++) {
        const struct member *m = &s->members[i];
        if (m->point != point)
            continue;
        p.folds++;
        if (isnan(m->hours)) {
            p.missing++;
            continue;
        }
        p.seizures += m->seizures;
        p.found += m->found;
        p.false_events += m->false_events;
        p.hours += m->hours;
    }
    return p;
}

static double f1_of(const struct pooled *p) {
    double all = p->seizures + p->found + p->false_events; /* each found seizure is one true event */
    return all > 0 ? 2 * p->found / all : NAN;
}

static void put_number(struct str *out, double value) {
    char text[32];
    str_printf(out, "\t%s", isnan(value) ? "-" : output_figure(value, text, sizeof text));
}

static void put_values(const struct sweep *s, int point, struct str *out) {
    for (int i = 0; i < s->n_axes; i++)
        str_printf(out, "\t%s", value_of(s, point, i));
}

/* Sensitivity and false alarms per 24 h, each with the ends of its 95 % interval. */
static void put_intervals(struct str *out, double found, double seizures, double false_events, double hours) {
    const struct interval share = interval_share(found, seizures), rate = interval_count(false_events);
    const double days = hours > 0 ? hours / 24 : NAN;
    put_number(out, seizures > 0 ? found / seizures : NAN);
    put_number(out, seizures > 0 ? share.low : NAN);
    put_number(out, seizures > 0 ? share.high : NAN);
    put_number(out, rate.low / days);
    put_number(out, rate.high / days);
}

static void put_member(const struct sweep *s, const struct member *m, struct str *out) {
    str_puts(out, m->job);
    put_values(s, m->point, out);
    if (s->n_folds) {
        str_puts(out, "\t");
        fold_text(s, m->fold, "", out);
    }
    str_printf(out, "\t%s", brr_job_state_name((int)m->state));
    put_number(out, m->f1);
    put_number(out, m->false_alarms);
    put_number(out, m->auroc);
    if (s->n_folds) {
        put_number(out, m->found);
        put_number(out, m->seizures);
        put_number(out, m->false_events);
        put_number(out, m->hours);
        put_intervals(out, m->found, m->seizures, m->false_events, m->hours);
    }
    str_puts(out, "\n");
}

static void put_pooled(const struct sweep *s, int point, struct str *out) {
    const struct pooled p = pool(s, point);
    const double days = p.hours / 24;
    str_puts(out, "pooled");
    put_values(s, point, out);
    str_printf(out, "\t%d of %d folds\t-", p.folds - p.missing, p.folds);
    put_number(out, f1_of(&p));
    put_number(out, p.hours > 0 ? p.false_events / days : NAN);
    str_puts(out, "\t-");
    put_number(out, p.found);
    put_number(out, p.seizures);
    put_number(out, p.false_events);
    put_number(out, p.hours);
    put_intervals(out, p.found, p.seizures, p.false_events, p.hours);
    str_puts(out, "\n");
}

static void put_table(const struct sweep *s, struct str *out) {
    str_puts(out, "job");
    for (int i = 0; i < s->n_axes; i++)
        str_printf(out, "\t%s", s->axes[i].key);
    str_printf(out, "%s\tstate\tevent_f1\tfalse_alarms_per_24h\tauroc%s\n", s->n_folds ? "\tleft_out" : "",
               s->n_folds
                   ? "\tfound\tseizures\tfalse_events\thours\tsensitivity\tsensitivity_low\tsensitivity_high\tfa_low\tfa_high"
                   : "");
    for (int point = 0; point < s->n_points; point++) {
        for (int i = 0; i < s->n_members; i++)
            if (s->members[i].point == point)
                put_member(s, &s->members[i], out);
        if (s->n_folds)
            put_pooled(s, point, out);
    }
}

static void json_member_of(const struct sweep *s, const struct member *m) {
    struct output out;
    struct json_writer *w = output_begin(&out);
    OWNED(str_done) struct str left;
    str_init(&left, TABLE_BYTES);
    json_put_str(w, "job", m->job);
    json_put_str(w, "evaluation", *m->evaluation ? m->evaluation : NULL);
    json_begin_object(w, "values");
    for (int i = 0; i < s->n_axes; i++)
        json_put_str(w, s->axes[i].key, value_of(s, m->point, i));
    json_end(w, '}');
    if (s->n_folds) {
        fold_text(s, m->fold, "", &left);
        json_put_str(w, "left_out", str_cstr(&left));
    }
    json_put_str(w, "state", brr_job_state_name((int)m->state));
    json_put_f64(w, "event_f1", m->f1);
    json_put_f64(w, "false_alarms_per_24h", m->false_alarms);
    json_put_f64(w, "auroc", m->auroc);
    if (s->n_folds) {
        json_put_f64(w, "found", m->found);
        json_put_f64(w, "seizures", m->seizures);
        json_put_f64(w, "false_events", m->false_events);
        json_put_f64(w, "hours", m->hours);
    }
    output_end(&out);
}

static void json_pooled_of(const struct sweep *s, int point) {
    const struct pooled p = pool(s, point);
    const struct interval share = interval_share(p.found, p.seizures), rate = interval_count(p.false_events);
    const double days = p.hours / 24;
    struct output out;
    struct json_writer *w = output_begin(&out);
    json_begin_object(w, "pooled");
    for (int i = 0; i < s->n_axes; i++)
        json_put_str(w, s->axes[i].key, value_of(s, point, i));
    json_end(w, '}');
    json_put_i64(w, "folds", p.folds);
    json_put_i64(w, "missing", p.missing);
    json_put_f64(w, "event_f1", f1_of(&p));
    json_put_f64(w, "found", p.found);
    json_put_f64(w, "seizures", p.seizures);
    json_put_f64(w, "false_events", p.false_events);
    json_put_f64(w, "hours", p.hours);
    json_put_f64(w, "sensitivity", p.seizures > 0 ? p.found / p.seizures : NAN);
    json_put_f64(w, "sensitivity_low", share.low);
    json_put_f64(w, "sensitivity_high", share.high);
    json_put_f64(w, "false_alarms_per_24h", p.hours > 0 ? p.false_events / days : NAN);
    json_put_f64(w, "false_alarms_per_24h_low", p.hours > 0 ? rate.low / days : NAN);
    json_put_f64(w, "false_alarms_per_24h_high", p.hours > 0 ? rate.high / days : NAN);
    output_end(&out);
}

static int show(const struct sweep *s) {
    OWNED(str_done) struct str table;
    struct err err;
    bool whole = true;
    str_init(&table, TABLE_BYTES);
    put_table(s, &table);
    for (int i = 0; i < s->n_members; i++) {
        whole &= s->members[i].state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED;
        if (s->o->json)
            json_member_of(s, &s->members[i]);
    }
    for (int point = 0; s->o->json && s->n_folds && point < s->n_points; point++)
        json_pooled_of(s, point);
    if (!s->o->json)
        fputs(str_cstr(&table), stdout);
    if (own(s->o)->output && fsio_write_text(own(s->o)->output, &table, &err))
        return brrctl_fail(&err);
    return whole ? 0 : EXIT_FAILED;
}

static int run(struct sweep *s) {
    struct err err;
    int code = EXIT_FAILED;
    if (brrctl_job_file_open(&s->file, s->o, &err))
        return brrctl_fail(&err);
    s->n_common = s->file.message.n_overrides;
    if (own(s->o)->executor && add(s, "executor", own(s->o)->executor))
        s->n_common++;
    if (read_grid(s, &err) || ask_array(s, &err))
        return brrctl_fail(&err);
    if (read_folds(s, &code) || (code = queue_trainings(s)) || (code = await_all(s)))
        return code;
    return show(s);
}

static int cmd_sweep(const struct arguments *o) {
    struct sweep *s = calloc(1, sizeof *s);
    if (!s)
        return fprintf(stderr, "brrctl: out of memory\n"), EXIT_FAILED;
    s->o = o;
    arena_init(&s->arena, ARENA_BYTES);
    int code = run(s);
    drop_own(s);
    brrctl_job_file_done(&s->file);
    arena_done(&s->arena);
    free(s->members);
    free(s);
    return code;
}

const struct command command_sweep = {
    .name = "sweep",
    .words = "FILE",
    .options = &sweep_arguments,
    .summary = "train with all combinations of some keys, and for each left-out patient; one table of scores",
    .run = cmd_sweep,
    .min_args = 1,
    .max_args = 1,
    .details =
        "Each training is a job of the queue, or of --executor. With --folds a training neither trains nor validates on the "
        "patients "
        "that it\n"
        "leaves out; an evaluate job scores its model on them, and the row `pooled` adds up what the folds found. Jobs that are "
        "queued\n"
        "go on if the command ends.\n"
        "example: brrctl sweep configs/tiny.yaml --grid training.learning_rate=1e-3,2e-3 --grid model.d_state=8,16\n"
        "example: brrctl sweep configs/chbmit.yaml --folds patients --executor cluster --output folds.tsv",
};
