/* Checkpoints of a training task. A checkpoint is a pair: step-N.safetensors (the model) and step-N.state.safetensors (moments and
 * counters). The state holds the model's SHA-256, so a pair is usable only when both files are whole.
 *
 * A pair may be saved twice at one step, before its validation and after it. Both files are therefore written under the names
 * FILE.new first, and then renamed, the model before the state. A kill between the two renames leaves the new model beside the old
 * state; the new state is still there as FILE.new and is renamed when the training is restored.
 *
 * Under a batch system an earlier attempt may still run on a node that was cut off. Each attempt then writes, renames and removes
 * in a folder of its own, checkpoints/aN, and only reads those of the others: pairs of the same step have the same bytes. */
#include "train/train_checkpoint.h"

#include "base/grow.h"
#include "train/train_hard.h"

#include "base/order.h"
#include "nn/ckpt.h"
#include "train/train_began.h"
#include "train/train_card.h"
#include "train/train_ranks.h"
#include "work/series.h"

#define MODEL_END ".safetensors"
#define STATE_END ".state.safetensors"
#define NEW_END   ".new"

enum { PATH_SIZE = 4096, NEW_SIZE = PATH_SIZE + 8 };

/* A pair's place: its step, and the attempt whose folder it is in; 0 = checkpoints/ itself. */
struct place {
    int64_t step, attempt;
};

static bool folder_path(const struct train *t, int64_t attempt, char ret[PATH_SIZE]) {
    return attempt ? str_format(ret, PATH_SIZE, "%s/checkpoints/a%lld", t->env.directory, (long long)attempt)
                   : str_format(ret, PATH_SIZE, "%s/checkpoints", t->env.directory);
}

static int pair_paths(const struct train *t, struct place at, char model[PATH_SIZE], char state[PATH_SIZE], struct err *err) {
    char folder[PATH_SIZE];
    bool ok = folder_path(t, at.attempt, folder) &&
              str_format(model, PATH_SIZE, "%s/step-%08lld" MODEL_END, folder, (long long)at.step) &&
              str_format(state, PATH_SIZE, "%s/step-%08lld" STATE_END, folder, (long long)at.step);
    return ok ? 0 : err_set(err, ERR_RANGE, "path too long: %.200s…", t->env.directory);
}

#define COUNTERS step, epoch, index, nonfinite, nonfinite_run, validations_without_gain
/* Steps that may not have come yet. */
#define STEPS(X) X(validated_step, at.validated_step) X(decay_from, at.decay_from) X(best_step, at.best.step)

static void counters_to_json(const struct train *t, struct str *out) {
    struct json_writer w = json_object_to(out);
    JSON_MEMBERS(&w, t->at, COUNTERS);
#define PUT(key, member)                                                                                                           \
    if (t->member != STEP_NONE)                                                                                                    \
        json_put_i64(&w, #key, t->member);
    STEPS(PUT)
#undef PUT
    json_put_f64(&w, "best_metric", t->at.best.metric);
    json_put_f64(&w, "highest_rank", t->at.best.highest);
    json_put_i64(&w, "auroc_bins", AUROC_BINS);
    json_begin_array(&w, "scored");
    for (int i = 0; i < t->at.best.n_scored; i++) {
        json_put_i64(&w, NULL, t->at.best.scored[i].step);
        json_put_f64(&w, NULL, t->at.best.scored[i].rank);
    }
    json_end(&w, ']');
    train_hard_put(t, &w);
    json_put_f64(&w, "loss_average", t->at.loss_average);
    json_put_f64(&w, "metric", t->newest.value.metric);
    JSON_MEMBERS(&w, t->newest, event_f1, seizures, false_alarms_per_24h, auroc);
    json_put_f64(&w, "validation_loss", t->newest.loss);
    json_put_bool(&w, "finished", t->at.finished);
    json_put_i64(&w, "seed", t->job->training.seed);
    json_put_i64(&w, "total_steps", t->planned_steps);
    json_put_str(&w, "manifest", t->file.manifest);
    json_put_str(&w, "reduction", train_reduction_name(t->job->training.reduction));
    json_end(&w, '}');
}

/* Earlier versions wrote 0 for a step that had not come. */
static int64_t step_from(const struct json *j) {
    int64_t step = json_i64(j, 0);
    return step > 0 ? step : STEP_NONE;
}

/* Ranks that an earlier version counted in other bins cannot be compared: the best stays until the next validation. */
static void forget_ranks(struct train *t) {
    if (t->at.best.n_scored)
        task_log(&t->env, TASK_INFO,
                 "AUROC is counted more finely than when step %lld was saved: the next validation selects the best anew",
                 (long long)t->at.step);
    t->at.best.highest = NAN;
    t->at.best.n_scored = 0;
}

static void counters_from_json(struct train *t, const struct json *j) {
    JSON_TAKE(j, t->at, COUNTERS, loss_average, finished);
#define GET(key, member) t->member = step_from(json_get(j, #key));
    STEPS(GET)
#undef GET
    t->at.best.metric = json_f64(json_get(j, "best_metric"), NAN);
    t->at.best.highest = json_f64(json_get(j, "highest_rank"), NAN);
    const struct json *scored = json_get(j, "scored");
    t->at.best.n_scored = 0;
    for (size_t n = json_count(scored) / 2; n > 0; n--) /* the last first, so that equal ranks keep their order */
        best_score(&t->at.best, json_i64(json_at(scored, 2 * n - 2), 0), json_f64(json_at(scored, 2 * n - 1), NAN));
    if (best_by_auroc(t->job->training.stop_metric) && json_i64(json_get(j, "auroc_bins"), 0) != AUROC_BINS)
        forget_ranks(t);
    JSON_TAKE(j, t->newest.value, metric);
    JSON_TAKE(j, t->newest, event_f1, false_alarms_per_24h, seizures, auroc);
    t->newest.loss = json_f64(json_get(j, "validation_loss"), NAN);
}

/* ---- the folder ---- */

/* The step of a file's name, and what follows the step; false when the file is no part of a checkpoint. */
static bool parse_name(const char *name, int64_t *ret_step, const char **ret_end) {
    char digits[24];
    size_t n = str_starts(name, "step-") ? strspn(name + 5, "0123456789") : 0;
    if (!n || !str_format(digits, sizeof digits, "%.*s", (int)n, name + 5) || !str_to_i64(digits, ret_step))
        return false;
    *ret_end = name + 5 + n;
    return true;
}

struct places {
    struct place *items; /* newest step first, of equal steps the newest attempt first; each once */
    size_t count, capacity;
};

static void places_done(struct places *s) { free(s->items); }

static int later(struct place a, struct place b) { return order_then(order_i64(a.step, b.step), order_i64(a.attempt, b.attempt)); }

static int add_place(struct places *s, struct place place, struct err *err) {
    size_t at = s->count;
    while (at && later(place, s->items[at - 1]) > 0)
        at--;
    if (at && !later(place, s->items[at - 1]))
        return 0;
    if (!GROW(s->items, s->count, s->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a list of checkpoints");
    memmove(s->items + at + 1, s->items + at, (s->count - at) * sizeof *s->items);
    s->items[at] = place;
    s->count++;
    return 0;
}

static int newest_first(const void *a, const void *b) { return later(*(const struct place *)b, *(const struct place *)a); }

static DIR *open_folder(const struct train *t, int64_t attempt) {
    char dir[PATH_SIZE];
    return folder_path(t, attempt, dir) ? opendir(dir) : NULL;
}

/* The attempt whose folder has this name. */
static bool parse_attempt(const char *name, int64_t *ret) { return name[0] == 'a' && str_to_i64(name + 1, ret) && *ret > 0; }

/* Adds the pairs of one folder that have a state file, under its own name or as FILE.new; *newest: the greatest attempt among its
 * folders. */
static int list_folder(const struct train *t, int64_t attempt, struct places *ret, int64_t *newest, struct err *err) {
    OWNED_DIR DIR *d = open_folder(t, attempt);
    struct dirent *e = NULL;
    if (!d)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot list the checkpoints in %s", t->env.directory);
    int rc;
    while (!(rc = fsio_next_entry(d, &e, err)) && e) {
        int64_t step, number;
        const char *end;
        if (parse_name(e->d_name, &step, &end) && (!strcmp(end, STATE_END) || !strcmp(end, STATE_END NEW_END)) &&
            (rc = add_place(ret, (struct place){step, attempt}, err)))
            return rc;
        if (parse_attempt(e->d_name, &number) && number > *newest)
            *newest = number;
    }
    return rc;
}

/* The pairs of all attempts. Folders are numbered without gaps. */
static int list_places(const struct train *t, struct places *ret, struct err *err) {
    int64_t newest = 0, none = 0;
    *ret = (struct places){0};
    int rc = list_folder(t, 0, ret, &newest, err);
    for (int64_t attempt = 1; !rc && attempt <= newest; attempt++)
        rc = list_folder(t, attempt, ret, &none, err);
    return rc;
}

static int begin_attempt(struct train *t, struct err *err) {
    OWNED(places_done) struct places places = {0};
    char path[PATH_SIZE];
    int rc;
    if (!t->env.contended)
        return 0;
    if (!folder_path(t, 0, path))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", t->env.directory);
    if ((rc = fsio_mkdirs(path, err)) || (rc = list_folder(t, 0, &places, &t->attempt, err)))
        return rc;
    do
        if (!folder_path(t, ++t->attempt, path))
            return err_set(err, ERR_RANGE, "path too long: %.200s…", t->env.directory);
    while (mkdir(path, 0777) && errno == EEXIST); /* another attempt was faster */
    return fsio_exists(path) ? 0 : err_errno(err, errno, "cannot create %s", path);
}

/* Removes what nobody will read again from the folder of this attempt: pairs older than the newest `keep`, models that are no
 * longer among the best, and files that a kill left behind in the middle of a save. Every state file in the folder must belong to a
 * usable pair. A file that cannot be removed is tried again after the next save. */
static void sweep(const struct train *t) {
    OWNED(places_done) struct places places = {0};
    struct err err;
    int64_t none = 0;
    if (list_folder(t, t->attempt, &places, &none, &err))
        return;
    size_t keep = (size_t)t->jobfile->checkpoint.keep;
    int64_t oldest = places.count > keep ? places.items[keep - 1].step : 0;
    OWNED_DIR DIR *d = open_folder(t, t->attempt);
    for (struct dirent *e; d && (e = readdir(d));) {
        int64_t step;
        const char *end;
        if (!parse_name(e->d_name, &step, &end))
            continue;
        const struct place place = {step, t->attempt};
        bool kept = step >= oldest && bsearch(&place, places.items, places.count, sizeof place, newest_first);
        bool wanted = !strcmp(end, STATE_END)
                          ? kept
                          : !strcmp(end, MODEL_END) && (kept || best_keeps(&t->at.best, step, t->job->training.keep_best));
        if (!wanted)
            unlinkat(dirfd(d), e->d_name, 0);
    }
}

/* ---- saving ---- */

/* NaN unless the newest validation belongs to this step. */
static double newest_metric(const struct train *t) { return t->at.validated_step == t->at.step ? t->newest.value.metric : NAN; }

static int save_state(struct train *t, const char *path, const char *model_sha, struct err *err) {
    OWNED(str_done) struct str counters = str_of(SAFETENSORS_MAX_HEADER), roles = counters;
    OWNED(str_done) struct str left_out = counters, windows = counters;
    struct json_writer w = json_to(&roles);
    char updates[32], sha[DIGEST_HEX_SIZE];
    counters_to_json(t, &counters);
    patients_put_hashes(t->manifest, t->split, "", true, &w);
    w = json_to(&left_out);
    json_begin_array(&w, NULL);
    for (int64_t i = 0; i < manifest_count(t->manifest); i++)
        if (t->left_out[i])
            json_put_str(&w, NULL, manifest_entry(t->manifest, i)->relative_path);
    json_end(&w, ']');
    w = json_to(&windows);
    train_began_put(t, &w);
    str_format(updates, sizeof updates, "%lld", (long long)t->optim.updates);
    struct safetensors_pair metadata[] = {
        {"brr.kind", "training-state"},    {"model_sha256", model_sha},    {"updates", updates},
        {"counters", str_cstr(&counters)}, {"patients", str_cstr(&roles)}, {"left_out", str_cstr(&left_out)},
        {"windows", str_cstr(&windows)},
    };
    struct ckpt_file file = {path, metadata, sizeof metadata / sizeof *metadata};
    return str_ok(&counters) && str_ok(&roles) && str_ok(&left_out) && str_ok(&windows)
               ? ckpt_save_state(&file, &t->optim, t->stream, sha, err)
               : err_set(err, ERR_EXHAUSTED, "the roles of the patients, or the recordings, take more than %d bytes",
                         SAFETENSORS_MAX_HEADER);
}

static void announce(struct train *t, struct task_checkpoint *c) {
    c->best = c->step == t->at.best.step;
    str_copy(c->metric_name, sizeof c->metric_name, t->job->training.stop_metric);
    task_tell(&t->env, &(struct task_report){.kind = TASK_CHECKPOINT, .checkpoint = c});
}

struct saving {
    struct train *t;
    struct task_checkpoint c;
    char state[PATH_SIZE], new_model[NEW_SIZE], new_state[NEW_SIZE];
    double start_s;
};

static int begin_save(struct saving *s, struct err *err) {
    int rc = pair_paths(s->t, (struct place){s->c.step, s->t->attempt}, s->c.path, s->state, err);
    str_format(s->new_model, sizeof s->new_model, "%s" NEW_END, s->c.path);
    str_format(s->new_state, sizeof s->new_state, "%s" NEW_END, s->state);
    return rc ? rc : fsio_mkdirs_above(s->c.path, err);
}

static void undo_save(const struct saving *s) {
    unlink(s->new_model);
    unlink(s->new_state);
}

/* The new files are whole: after an error, as after a kill, finish_save does the rest. */
static int end_save(struct saving *s, struct err *err) {
    int rc;
    if ((rc = fsio_rename(s->new_model, s->c.path, err)) || (rc = fsio_rename(s->new_state, s->state, err)) ||
        (rc = fsio_size(s->c.path, &s->c.bytes, NULL, err)))
        return rc;
    s->c.write_s = clock_s() - s->start_s;
    announce(s->t, &s->c);
    sweep(s->t);
    return 0;
}

static int save_pair(struct saving *s, struct err *err) {
    struct train *t = s->t;
    struct param_average average;
    int rc = begin_save(s, err);
    if (rc)
        return rc;
    if ((rc = modelfile_save(s->new_model, &t->file, t->net, optim_average(&t->optim, &average), t->stream, s->c.sha256, err)) ||
        (rc = save_state(t, s->new_state, s->c.sha256, err))) {
        undo_save(s);
        return rc;
    }
    return end_save(s, err);
}

int train_checkpoint_save(struct train *t, struct err *err) {
    struct saving s = {
        .t = t, .c = {.step = t->at.step, .epoch = t->at.epoch, .last = true, .metric = newest_metric(t)}, .start_s = clock_s()};
    COPY_MEMBERS(t->file, t->at, step, epoch);
    train_card_update(t);
    int rc = save_pair(&s, err);
    return rc ? err_wrap(err, "the checkpoint of step %lld could not be written; the ones before are untouched",
                         (long long)t->at.step)
              : 0;
}

/* ---- restoring ---- */

static void mark_left_out(struct train *t, const char *text) {
    struct json *paths = NULL;
    if (json_parse(text, strlen(text), "left_out", &paths, NULL))
        return;
    for (size_t k = 0; k < json_count(paths); k++)
        for (int64_t i = 0; i < manifest_count(t->manifest); i++)
            t->left_out[i] |= !strcmp(manifest_entry(t->manifest, i)->relative_path, json_str(json_at(paths, k), ""));
    json_free(paths);
}

/* The roles in a state file, and the recordings left out. */
static int read_roles(struct train *t, const char *path, struct known_patients **ret, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    OWNED_POINTER(json_free) struct json *json = NULL;
    int rc = safetensors_open_header(path, &st, err);
    if (rc)
        return rc;
    const char *left_out = safetensors_metadata(st, "left_out"), *text = safetensors_metadata(st, "patients");
    const char *windows = safetensors_metadata(st, "windows");
    if (left_out)
        mark_left_out(t, left_out);
    if (windows && !t->began)
        (void)json_parse(windows, strlen(windows), "windows", &t->began, NULL);
    if (!text)
        return err_set(err, ERR_PRECONDITION, "%s does not say which patients trained; submit a new job", path);
    rc = json_parse(text, strlen(text), path, &json, err);
    return rc ? rc : known_patients_read(json, ret, err);
}

/* All state files of a training have the same roles: the newest that can be read will do, even if its model cannot. */
int train_checkpoint_roles(struct train *t, struct known_patients **ret, struct err *err) {
    struct known_patients *found = NULL;
    OWNED(places_done) struct places places = {0};
    int rc = list_places(t, &places, err);
    for (size_t i = 0; !rc && !found && i < places.count; i++) {
        char model[PATH_SIZE], state[PATH_SIZE], new_state[NEW_SIZE];
        if ((rc = pair_paths(t, places.items[i], model, state, err)))
            return rc;
        str_format(new_state, sizeof new_state, "%s" NEW_END, state);
        const char *const files[] = {state, new_state};
        for (int k = 0; !rc && !found && k < 2; k++) {
            rc = read_roles(t, files[k], &found, err);
            rc = checkpoint_is_broken(rc) ? 0 : rc;
        }
    }
    if (rc)
        return rc;
    *ret = found;
    return 0;
}

/* The state file of a usable pair: the model beside it has the SHA-256 that the state names. */
static int open_pair(const char *model, const char *state, struct safetensors **ret, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    char sha[DIGEST_HEX_SIZE];
    int rc = safetensors_open(state, &st, err);
    if (rc)
        return rc;
    const char *expected = safetensors_metadata(st, "model_sha256");
    if (!expected)
        return err_set(err, ERR_INVALID, "%s is not the state of a training", state);
    if ((rc = digest_file(model, sha, err)))
        return rc;
    if (strcmp(sha, expected) != 0)
        return err_set(err, ERR_DATA_LOSS, "%s does not have the SHA-256 that its state names", model);
    *ret = st;
    st = NULL;
    return 0;
}

/* Does what remains of a save that was killed before or between its two renames; nothing when its files are not whole. */
static int finish_save(const char *model, const char *state, struct err *err) {
    char new_model[NEW_SIZE], new_state[NEW_SIZE];
    struct safetensors *st = NULL;
    str_format(new_model, sizeof new_model, "%s" NEW_END, model);
    str_format(new_state, sizeof new_state, "%s" NEW_END, state);
    if (!fsio_exists(new_state))
        return 0;
    bool renamed = !fsio_exists(new_model);
    int rc = open_pair(renamed ? model : new_model, new_state, &st, err);
    safetensors_close(st);
    if (rc)
        return checkpoint_is_broken(rc) ? 0 : rc;
    if (!renamed)
        rc = fsio_rename(new_model, model, err);
    return rc ? rc : fsio_rename(new_state, state, err);
}

/* One of the folder's pairs, as far as it has been read. */
struct pair {
    struct train *t;
    struct place place;
    char model[NEW_SIZE], state[NEW_SIZE];
    struct safetensors *st;
    struct modelfile file;
    char *patients;
    struct err why;
};

/* The whole pair in another attempt's folder, where nothing is renamed: that of a finished save, or of one that was killed before
 * or between its two renames. */
static int open_foreign(struct pair *p, struct err *err) {
    char model[NEW_SIZE], state[NEW_SIZE];
    int rc = open_pair(p->model, p->state, &p->st, err);
    for (int renamed = 1; checkpoint_is_broken(rc) && renamed >= 0; renamed--) {
        str_format(state, sizeof state, "%.*s" NEW_END, PATH_SIZE - 1, p->state);
        str_format(model, sizeof model, "%.*s%s", PATH_SIZE - 1, p->model, renamed ? "" : NEW_END);
        if (open_pair(model, state, &p->st, NULL))
            continue;
        str_copy(p->model, sizeof p->model, model);
        str_copy(p->state, sizeof p->state, state);
        return 0;
    }
    return rc;
}

static bool is_own(const struct pair *p) { return train_is_writer(p->t) && p->place.attempt == p->t->attempt; }

static int read_pair(struct pair *p, struct err *err) {
    int rc = is_own(p) ? finish_save(p->model, p->state, err) : 0;
    if (rc || (rc = is_own(p) ? open_pair(p->model, p->state, &p->st, err) : open_foreign(p, err)) ||
        (rc = modelfile_read(p->model, &p->file, err)))
        return rc;
    return modelfile_patients(p->model, &p->patients, err);
}

/* Another order of addition would give other bits. States without the key are older than it. */
static int check_reduction(const struct train *t, const struct json *counters, const char *path, struct err *err) {
    const char *began = json_str(json_get(counters, "reduction"), "chain"), *now = train_reduction_name(t->job->training.reduction);
    if (train_leaves(t->job) == 1 || !strcmp(began, now))
        return 0;
    return err_set(err, ERR_PRECONDITION,
                   "training.reduction is %s, and the training of %s began with %.20s: set it to %.20s, or begin a new job", now,
                   path, began, began);
}

static int load_pair(struct pair *p, struct err *err) {
    struct train *t = p->t;
    OWNED_POINTER(json_free) struct json *counters = NULL;
    const char *text = safetensors_metadata(p->st, "counters");
    if (!text)
        return err_set(err, ERR_INVALID, "%s has no counters", p->state);
    int rc = json_parse(text, strlen(text), p->state, &counters, err);
    if (rc)
        return rc;
    const int64_t total = json_i64(json_get(counters, "total_steps"), 0);
    if (total > 0 && total < t->total_steps && p->place.step >= total)
        return err_set(err, ERR_PRECONDITION,
                       "the training of %s is finished with its %lld steps, and the learning rate depends on their number: train "
                       "its model further as a new job with model.init_from",
                       p->state, (long long)total);
    if (total != t->total_steps)
        task_log(&t->env, TASK_WARN,
                 "the schedule has %lld steps now and had %lld when %s was written; the learning rate follows the new one",
                 (long long)t->total_steps, (long long)total, p->state);
    if ((rc = check_reduction(t, counters, p->state, err)) ||
        (rc = ckpt_load_model(p->model, seizure_params(t->net), t->stream, false, err)) ||
        (rc = ckpt_load_state(p->st, p->state, &t->optim, t->stream, err)))
        return rc;
    if ((rc = train_hard_get(t, counters, err)))
        return rc;
    counters_from_json(t, counters);
    t->file.events = t->newest.events = p->file.events;
    t->file.alarms = t->newest.alarms = p->file.alarms;
    t->file.temperature = t->newest.temperature = p->file.temperature;
    COPY_TEXTS(t->file, p->file, init_from, init_from_sha256, notice);
    free(t->patients);
    t->patients = p->patients;
    p->patients = NULL;
    return 0;
}

/* A pair that cannot be used would count as one of the pairs to keep, and as newer than those to come. Its model is left to sweep,
 * as it may be the best. */
static void drop_pair(const struct pair *p) {
    char new_state[NEW_SIZE];
    bool own = is_own(p);
    task_log(&p->t->env, TASK_WARN, "the checkpoint of step %lld cannot be used (%s)%s", (long long)p->place.step, p->why.message,
             own ? " and is removed" : "");
    if (!own)
        return;
    str_format(new_state, sizeof new_state, "%s" NEW_END, p->state);
    unlink(p->state);
    unlink(new_state);
}

/* Loads a pair into t unless a newer one was loaded; reads it in any case. */
static int use_pair(struct pair *p, bool load) {
    int rc = read_pair(p, &p->why);
    return rc || !load ? rc : load_pair(p, &p->why);
}

/* Loads the newest usable pair, checks the older ones, and drops those that cannot be used. */
static int restore_newest(struct train *t, const struct places *places, bool *ret_found, struct err *err) {
    for (size_t i = 0; i < places->count; i++) {
        struct pair p = {.t = t, .place = places->items[i]};
        int rc = pair_paths(t, p.place, p.model, p.state, err);
        if (rc)
            return rc;
        if (*ret_found && !is_own(&p)) /* nothing is left to do for another attempt's */
            continue;
        rc = use_pair(&p, !*ret_found);
        safetensors_close(p.st);
        free(p.patients);
        if (rc && !checkpoint_is_broken(rc))
            return err_set(err, rc, "the checkpoint of step %lld cannot be read now: %s", (long long)p.place.step, p.why.message);
        if (rc) {
            drop_pair(&p);
        } else if (!*ret_found) {
            *ret_found = true;
            t->restored_attempt = p.place.attempt;
        }
    }
    return 0;
}

/* The model file of a step, in the folder of whichever attempt has it. */
static int find_model(const struct train *t, int64_t step, char ret[PATH_SIZE], struct err *err) {
    char state[PATH_SIZE];
    int64_t newest = t->attempt;
    struct places places = {0};
    int rc = list_folder(t, 0, &places, &newest, err);
    places_done(&places);
    for (int64_t attempt = newest; !rc && attempt >= 0; attempt--)
        if (!(rc = pair_paths(t, (struct place){step, attempt}, ret, state, err)) && fsio_exists(ret))
            return 0;
    return rc ? rc : err_set(err, ERR_NOT_FOUND, "no attempt has the model of step %lld", (long long)step);
}

static int describe(struct train *t, int64_t step, struct task_checkpoint *ret, struct modelfile *ret_file, struct err *err) {
    *ret = (struct task_checkpoint){.step = step, .metric = step == t->at.step ? newest_metric(t) : t->at.best.metric};
    int rc;
    if ((rc = find_model(t, step, ret->path, err)) || (rc = modelfile_read(ret->path, ret_file, err)) ||
        (rc = digest_file(ret->path, ret->sha256, err)) || (rc = fsio_size(ret->path, &ret->bytes, NULL, err)))
        return rc;
    ret->epoch = ret_file->epoch;
    return 0;
}

/* A kill may have come between a save and its announcement: best and last are announced again. */
static int announce_restored(struct train *t, struct err *err) {
    struct task_checkpoint best = {0}, last = {0};
    struct modelfile file;
    struct err why;
    t->best = t->newest;
    int rc = t->at.best.step != STEP_NONE && t->at.best.step != t->at.step ? describe(t, t->at.best.step, &best, &file, &why) : 0;
    if (rc && !checkpoint_is_broken(rc))
        return err_set(err, rc, "the best model, of step %lld, cannot be read now: %s", (long long)t->at.best.step, why.message);
    if (rc) {
        task_log(&t->env, TASK_WARN, "the best model, of step %lld, cannot be read (%s); the next validation selects a new one",
                 (long long)t->at.best.step, why.message);
        best_init(&t->at.best);
    } else if (*best.path) {
        COPY_MEMBERS(t->best, file, events, alarms, temperature);
        train_card_scores(file.card, &t->best);
        announce(t, &best);
    }
    if ((rc = describe(t, t->at.step, &last, &file, err)))
        return rc;
    last.last = true;
    announce(t, &last);
    sweep(t);
    return 0;
}

int train_checkpoint_restore(struct train *t, bool *ret_found, struct err *err) {
    OWNED(places_done) struct places places = {0};
    *ret_found = false;
    int rc;
    if ((rc = begin_attempt(t, err)) || (rc = list_places(t, &places, err)) || (rc = restore_newest(t, &places, ret_found, err)) ||
        !*ret_found)
        return rc;
    return announce_restored(t, err);
}

int train_checkpoint_follow(struct train *t, int64_t step, int64_t attempt, bool *ret_found, struct err *err) {
    struct pair p = {.t = t, .place = {step, attempt}};
    int rc;
    *ret_found = false;
    if (step < 0)
        return 0;
    if ((rc = pair_paths(t, p.place, p.model, p.state, err)))
        return rc;
    rc = use_pair(&p, true);
    safetensors_close(p.st);
    free(p.patients);
    if (rc)
        return err_set(err, rc == ERR_NOT_FOUND ? ERR_UNAVAILABLE : rc,
                       "rank %d cannot read the checkpoint of step %lld, which rank 0 has read: %s", t->world->rank,
                       (long long)step, p.why.message);
    *ret_found = true;
    return 0;
}
