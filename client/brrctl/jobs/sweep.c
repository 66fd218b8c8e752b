/* sweep FILE: a training for each combination of values (--grid) and each left-out patient (--folds), as jobs of the daemon's queue
 * or of an executor, and one table of their scores. With folds each model is evaluated on the patients that it has not seen, and
 * the counts of a combination's folds are pooled. */

#include "client/brrctl/jobs/sweep.h"
#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/jobs/job_files.h"
#include "client/brrctl/output.h"
#include "work/jobfile.h"

enum { MAX_JOBS = 4096, ARENA_BYTES = 64 << 20 };

/* Its beginning is that of the options of submit, which brrctl_job_file_open reads. */
struct sweep_options {
    struct job_options job;
    struct argument_list grid;
    const char *folds, *executor, *output, *record;
    double price;
    bool estimate;
};
#define OPTIONS struct sweep_options
static const struct argument rows[] = {
    ASSIGNMENT("--set", job.set, "K=V", "override a key of the job file in all jobs; may be repeated"),
    TEXT("--name", job.name, "NAME", "name of the jobs"),
    ASSIGNMENT("--grid", grid, "K=V,V…", "values of a key; several --grid: all combinations"),
    TEXT("--folds", folds, "patients|N",
         "patients: leave out one patient after the other; N: patients in N groups, leave out one group after the other"),
    TEXT("--executor", executor, "NAME", "the cluster that runs the jobs; default: the daemon's devices"),
    TEXT("--record", record, "FILE",
         "keep the jobs' ids here; the same command goes on with them, and queues those again that failed"),
    NUMBER("--price", price, "MONEY",
           "of an hour of the device, for the estimate of --folds; default: the daemon's devices_price_per_hour", 0, 1e6),
    FLAG("--estimate", estimate, "with --folds: say how long all would take, and queue nothing"),
    OUTPUT("--output", output, "FILE.tsv", "write the table to this file, too", .alias = "--out"),
};

/* ---- what is to be tried ---- */

/* "KEY=V,V": commas within brackets and quotes belong to a value. */
static int read_axis(struct sweep *s, const char *text, struct err *err) {
    struct axis *a = &s->axes[s->n_axes];
    const char *equals = strchr(text, '='), *begin = equals + 1;
    int depth = 0;
    char quote = 0;
    if (s->n_axes == SWEEP_MAX_KEYS)
        return err_set(err, ERR_INVALID, "more than %d times --grid", SWEEP_MAX_KEYS);
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
        if (a->n == SWEEP_MAX_VALUES)
            return err_set(err, ERR_INVALID, "--grid %s has more than %d values", a->key, SWEEP_MAX_VALUES);
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

/* Overrides the split of the file: a fold draws its validation patients from those that it does not leave out. */
static bool add_split(struct sweep *s) { return add(s, "data.split.train", "[]") && add(s, "data.split.validation", "[]"); }

/* The smallest limit of --grid limits.cost, where 0 is none; NULL: not in the grid. */
static const char *smallest_budget(const struct sweep *s) {
    const char *ret = NULL;
    double least = 0, value;
    for (int i = 0; i < s->n_axes; i++)
        for (int k = 0; strcmp(s->axes[i].key, "limits.cost") == 0 && k < s->axes[i].n; k++) {
            const bool limits = str_to_f64(s->axes[i].values[k], &value) && value > 0;
            if (ret && !(limits && (least == 0 || value < least)))
                continue;
            ret = s->axes[i].values[k];
            least = limits ? value : 0;
        }
    return ret;
}

/* The patients of the recordings, as the daemon knows them, and how long a training takes. */
static int ask_patients(struct sweep *s, int *ret_exit) {
    Brr__V1__ValidateRequest in = BRR__V1__VALIDATE_REQUEST__INIT;
    in.file = &s->file.message;
    const char *budget = smallest_budget(s);
    const bool fine = (!own(s->o)->folds || add_split(s)) && (!budget || add(s, "limits.cost", budget));
    in.read_stores = true;
    Brr__V1__ValidateResponse *out = fine ? brrctl_call(s->o, "/brr.v1.Jobs/Validate", &in.base, ret_exit) : NULL;
    drop_own(s);
    if (!out)
        return -1;
    s->patients = arena_alloc(&s->arena, (out->n_patients + 1) * sizeof *s->patients);
    for (size_t i = 0; s->patients && i < out->n_patients; i++)
        s->patients[s->n_patients++] = arena_strndup(&s->arena, out->patients[i], strlen(out->patients[i]));
    str_copy(s->currency, sizeof s->currency, own(s->o)->price > 0 ? "" : out->currency);
    s->cost = (struct estimate_cost){.seconds = out->seconds_total,
                                     .per_hour = own(s->o)->price > 0 ? own(s->o)->price : out->price_per_hour,
                                     .budget = out->budget,
                                     .currency = s->currency,
                                     .steps = out->steps};
    brr__v1__validate_response__free_unpacked(out, NULL);
    SORT(s->patients, s->n_patients, order_strings);
    return 0;
}

/* Prints how long the trainings take by the daemon's measurement of its own device. Nothing is queued yet. */
static void tell_estimate(struct sweep *s) {
    const int n = s->n_points * (s->n_folds ? s->n_folds : 1);
    char one[32], all[32], money[200];
    s->cost.jobs = n;
    if (!(s->cost.seconds > 0)) {
        fprintf(stderr, "brrctl: %d trainings; how long one takes is not known: the daemon measures it where no job runs\n", n);
        return;
    }
    fprintf(stderr, "brrctl: %d trainings of %lld steps, each about %s on the daemon's device, %s in all", n,
            (long long)s->cost.steps, output_duration(s->cost.seconds, one, sizeof one),
            output_duration(s->cost.seconds * n, all, sizeof all));
    if (*estimate_cost_text(&s->cost, money, sizeof money))
        fprintf(stderr, ", %s, at %g an hour", money, s->cost.per_hour);
    fprintf(stderr, "; loading the recordings and the evaluations come on top\n");
}

static int read_folds(struct sweep *s, int *ret_exit) {
    const char *folds = own(s->o)->folds;
    struct err err;
    int64_t n = 0;
    if (!folds && !s->file.budget && !smallest_budget(s))
        return 0;
    if (folds && strcmp(folds, "patients") != 0 && (!str_to_i64(folds, &n) || n < 2 || n > MAX_JOBS)) {
        err_set(&err, ERR_INVALID, "--folds '%.40s'; expected patients, or a number from 2", folds);
        *ret_exit = brrctl_fail(&err);
        return -1;
    }
    if (ask_patients(s, ret_exit))
        return -1;
    if (!folds)
        return tell_estimate(s), 0;
    s->n_folds = n ? (int)n : s->n_patients;
    if (s->n_patients >= s->n_folds && s->n_patients >= 3 && s->n_points * s->n_folds <= MAX_JOBS)
        return tell_estimate(s), 0;
    err_set(&err, ERR_PRECONDITION, "the recordings have %d patients; --folds %s needs at least %d, one of them to validate on",
            s->n_patients, folds, s->n_folds > 3 ? s->n_folds : 3);
    *ret_exit = brrctl_fail(&err);
    return -1;
}

/* ---- jobs ---- */

/* Sets name, and in_array: the trainings run on a cluster, and all with the same executor and resources. */
static int read_sweep(struct sweep *s, struct err *err) {
    struct yaml_node *root = NULL;
    int rc = yaml_parse(&s->arena, s->file.text, strlen(s->file.text), s->o->args[0], &root, err);
    for (size_t i = 0; !rc && i < s->n_common; i++)
        rc = yaml_set(&s->arena, root, s->file.overrides[i], err);
    if (rc)
        return rc;
    const struct yaml_node *executor = yaml_get(root, "executor"), *name = yaml_get(root, "name");
    s->name = name && !yaml_is_null(name) ? name->text : NULL;
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

/* "tiny without sub-01": the name of the jobs of a fold. */
static void put_fold_name(const struct sweep *s, int fold, struct json_writer *w, const char *key) {
    OWNED(str_done) struct str text = str_of(SWEEP_TABLE_BYTES);
    str_printf(&text, "%s%swithout ", s->name ? s->name : "", s->name ? " " : "");
    sweep_fold_text(s, fold, "", &text);
    json_put_str(w, key, str_cstr(&text));
}

static int queue_training(struct sweep *s, int index, int n) {
    struct member *m = &s->members[index];
    OWNED(str_done) struct str test = str_of(SWEEP_TABLE_BYTES), name = str_of(SWEEP_TABLE_BYTES);
    bool fine = add_array(s, index, n);
    for (int i = 0; i < s->n_axes; i++)
        fine = fine && add(s, s->axes[i].key, sweep_value(s, m->point, i));
    if (m->fold >= 0) {
        str_puts(&test, "[");
        sweep_fold_text(s, m->fold, "\"", &test);
        str_puts(&test, "]");
        struct json_writer w = json_to(&name);
        put_fold_name(s, m->fold, &w, NULL);
        fine = fine && add(s, "name", str_cstr(&name)) && add(s, "data.split.test", str_cstr(&test)) && add_split(s);
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
        const char *assignment = arena_printf(&s->arena, "%s=%s", s->axes[i].key, sweep_value(s, point, i));
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
static int put_evaluation(struct sweep *s, const struct member *m, struct str *text, struct err *err) {
    char model[80];
    struct json_writer w = json_to(text);
    int rc;
    str_format(model, sizeof model, "job:%s", m->job);
    json_begin_object(&w, NULL);
    json_put_str(&w, "kind", "evaluate");
    put_fold_name(s, m->fold, &w, "name");
    if (own(s->o)->executor)
        json_put_str(&w, "executor", own(s->o)->executor);
    if ((rc = put_data(s, m->point, &w, err)))
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
    OWNED(str_done) struct str text = str_of(SWEEP_TABLE_BYTES);
    struct err err;
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    if (put_evaluation(s, m, &text, &err))
        return brrctl_fail(&err);
    file.yaml = (char *)(uintptr_t)str_cstr(&text);
    file.name = "sweep.yaml";
    return brrctl_queue(s->o, &file, NULL, m->evaluation, sizeof m->evaluation);
}

/* The evaluations come after hours of training: their files are read before the first one. */
static int check_evaluations(struct sweep *s) {
    for (int point = 0; s->n_folds && point < s->n_points; point++) {
        OWNED(str_done) struct str text = str_of(SWEEP_TABLE_BYTES);
        OWNED(arena_done) struct arena arena = arena_of(ARENA_BYTES);
        const struct member first = {.job = "training", .point = point};
        struct jobfile job;
        struct err err;
        if (put_evaluation(s, &first, &text, &err) ||
            jobfile_parse(str_cstr(&text), "the evaluation of a fold", NULL, 0, &arena, &job, &err))
            return brrctl_fail(&err);
    }
    return 0;
}

static int keep_record(const struct sweep *s) {
    struct err err;
    return own(s->o)->record && sweep_record_write(s, own(s->o)->record, &err) ? brrctl_fail(&err) : 0;
}

/* Keeps a job of --record that is still listed and has not ended without a result; forgets any other. */
static int look_at_job(struct sweep *s, char *id) {
    int code = EXIT_FAILED;
    OWNED_ANSWER Brr__V1__Job *job = *id ? job_files_job(s->o, id, &code) : NULL;
    if (!job && *id && code != EXIT_NOT_FOUND)
        return code;
    if (!job || job->state == BRR__V1__JOB_STATE__JOB_STATE_FAILED || job->state == BRR__V1__JOB_STATE__JOB_STATE_CANCELLED)
        *id = '\0';
    return 0;
}

/* Gives the members the jobs of an earlier call; how many trainings. */
static int recall_jobs(struct sweep *s, int n, int *ret_recalled) {
    struct err err;
    int code = 0;
    *ret_recalled = 0;
    if (!own(s->o)->record)
        return 0;
    if (sweep_record_read(s, n, own(s->o)->record, &err))
        return brrctl_fail(&err);
    for (int i = 0; i < n && !code; i++) {
        struct member *m = &s->members[i];
        if (!(code = look_at_job(s, m->job)) && !(code = look_at_job(s, m->evaluation)) && *m->job)
            ++*ret_recalled;
        else
            *m->evaluation = '\0'; /* of a model that will not be */
    }
    s->in_array &= !*ret_recalled; /* an array has all trainings or none */
    return code;
}

static int queue_trainings(struct sweep *s) {
    const int folds = s->n_folds ? s->n_folds : 1, n = s->n_points * folds;
    int code, recalled;
    s->members = needed(calloc((size_t)n, sizeof *s->members));
    for (int i = 0; i < n; i++) {
        struct member *m = &s->members[i];
        *m =
            (struct member){.point = i / folds, .fold = s->n_folds ? i % folds : -1, .state = BRR__V1__JOB_STATE__JOB_STATE_QUEUED};
        m->seizures = m->found = m->false_events = m->hours = m->f1 = m->false_alarms = m->auroc = m->sample_f1 = NAN;
    }
    if ((code = check_evaluations(s)) || (code = recall_jobs(s, n, &recalled)))
        return code;
    s->n_members = n;
    for (int i = 0; i < n; i++)
        if (!*s->members[i].job && ((code = queue_training(s, i, n)) || (code = keep_record(s))))
            return code;
    fprintf(stderr, "brrctl: %d jobs are queued", n - recalled);
    if (recalled)
        fprintf(stderr, ", %d go on from %s", recalled, own(s->o)->record);
    fprintf(stderr, ": %s to %s; they go on if this command ends\n", s->members[0].job, s->members[n - 1].job);
    return 0;
}

/* ---- their results ---- */

static void read_scores(struct member *m, const struct brrctl_end *end) {
    OWNED_POINTER(json_free) struct json *result = NULL;
    m->state = end->state;
    if (json_parse(end->result, strlen(end->result), "result", &result, NULL))
        return;
    m->f1 = json_f64(json_get(result, "event_f1"), NAN);
    m->false_alarms = json_f64(json_get(result, "false_alarms_per_24h"), NAN);
    JSON_TAKE(result, *m, sample_f1, auroc, seizures, found, false_events, hours);
}

static int await(struct sweep *s, struct member *m, const char *id, bool scores) {
    OWNED_MEMORY struct brrctl_end *end = calloc(1, sizeof *end);
    int code = end ? brrctl_watch(s->o, id, end) : EXIT_FAILED;
    if (!code && scores)
        read_scores(m, end);
    else if (!code)
        m->state = end->state;
    if (!code && end->state != BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED)
        fprintf(stderr, "brrctl: %s: %s: %s\n", id, brr_job_state_name((int)end->state), end->reason);
    return code;
}

/* Evaluations begin as soon as their models are there, while other trainings run. */
static int await_all(struct sweep *s) {
    int code;
    for (int i = 0; i < s->n_members; i++) {
        struct member *m = &s->members[i];
        if ((code = await(s, m, m->job, !s->n_folds)))
            return code;
        if (s->n_folds && m->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED && !*m->evaluation &&
            ((code = queue_evaluation(s, m)) || (code = keep_record(s))))
            return code;
    }
    for (int i = 0; i < s->n_members; i++)
        if (*s->members[i].evaluation && (code = await(s, &s->members[i], s->members[i].evaluation, true)))
            return code;
    return 0;
}

static int show(const struct sweep *s) {
    OWNED(str_done) struct str table = str_of(SWEEP_TABLE_BYTES);
    struct err err;
    bool whole = true;
    sweep_table(s, &table);
    for (int i = 0; i < s->n_members; i++)
        whole &= s->members[i].state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED;
    if (s->o->json)
        sweep_json(s);
    else
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
    if (read_grid(s, &err) || read_sweep(s, &err))
        return brrctl_fail(&err);
    if (read_folds(s, &code))
        return code;
    if (own(s->o)->estimate)
        return 0;
    if ((code = queue_trainings(s)) || (code = await_all(s)))
        return code;
    return show(s);
}

static int cmd_sweep(const struct arguments *o) {
    OWNED_MEMORY struct sweep *s = needed(calloc(1, sizeof *s));
    s->o = o;
    arena_init(&s->arena, ARENA_BYTES);
    int code = run(s);
    drop_own(s);
    brrctl_job_file_done(&s->file);
    arena_done(&s->arena);
    free(s->members);
    return code;
}

BRRCTL_COMMAND(sweep, "FILE", ARGUMENTS(rows), cmd_sweep,
               "train with all combinations of some keys, and for each left-out patient; one table of scores",
               "Each training is a job of the queue, or of --executor. With --folds a training neither trains nor validates on the "
               "patients that it\n"
               "leaves out; an evaluate job scores its model on them, and the row `pooled` adds up what the folds found. Jobs that "
               "are queued\n"
               "go on if the command ends.\n"
               "example: brrctl sweep configs/tiny.yaml --grid training.learning_rate=1e-3,2e-3 --grid model.d_state=8,16\n"
               "example: brrctl sweep configs/chbmit.yaml --folds patients --executor cluster --output folds.tsv");
