#include "daemon/jobs/job.h"

enum { OVERRIDES_BYTES = 1 << 20 };

static const struct {
    const char *name;
    bool resumable;
} states[] = {
#define JOB_ROW(name, text, resumable) {text, resumable},
    JOB_STATES(JOB_ROW)
#undef JOB_ROW
};

/* Allowed transitions: bit `to` of row `from`. */
#define TO(state) (1u << JOB_##state)
static const unsigned allowed[JOB_STATE_COUNT] = {
    [JOB_QUEUED] = TO(PREPARING) | TO(CANCELLED) | TO(FAILED),
    [JOB_PREPARING] = TO(RUNNING) | TO(QUEUED) | TO(FAILED) | TO(CANCELLED) | TO(SUCCEEDED) | TO(INTERRUPTED),
    [JOB_RUNNING] = TO(QUEUED) | TO(SUCCEEDED) | TO(FAILED) | TO(CANCELLED) | TO(INTERRUPTED),
    [JOB_FAILED] = TO(QUEUED),
    [JOB_CANCELLED] = TO(QUEUED),
    [JOB_INTERRUPTED] = TO(QUEUED),
};

struct job *job_new(void) {
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->energy_j = NAN;
    job->files_bytes = -1;
    task_progress_init(&job->progress);
    return job;
}

void job_free(struct job *job) {
    if (!job)
        return;
    FREE_MEMBERS(*job, yaml, file, overrides, request_id, result);
    free(job);
}

const char *job_learned(const struct job *job) { return *job->best ? job->best : job->saved_step ? job->last : ""; }

const char *job_state_name(enum job_state state) { return states[state].name; }

bool job_state_parse(const char *text, enum job_state *ret) {
    for (int i = 0; i < JOB_STATE_COUNT; i++) {
        if (strcmp(states[i].name, text))
            continue;
        *ret = (enum job_state)i;
        return true;
    }
    return false;
}

bool job_is_over(enum job_state s) { return s == JOB_SUCCEEDED || s == JOB_FAILED || s == JOB_CANCELLED || s == JOB_INTERRUPTED; }
bool job_is_active(enum job_state s) { return s == JOB_PREPARING || s == JOB_RUNNING; }
bool job_may_resume(enum job_state s) { return states[s].resumable; }

bool job_precedes(const struct job *a, const struct job *b) {
    return a->priority != b->priority ? a->priority > b->priority : a->sequence < b->sequence;
}

int job_move(struct job *job, enum job_state to, const char *reason, int64_t now_ms, struct err *err) {
    if (!(allowed[job->state] & 1u << to))
        return err_set(err, ERR_PRECONDITION, "job %s has the state %s and cannot become %s", job->id, job_state_name(job->state),
                       job_state_name(to));
    if (to == JOB_PREPARING) {
        job->attempts++;
        job->started_ms = job->seen_ms = now_ms;
        job->finished_ms = 0;
        job->first_step = job->saved_step;
        job->progress.step_s = NAN; /* no step of this attempt yet */
    }
    if (job_is_over(to))
        job->finished_ms = now_ms;
    if (!job_is_active(to))
        job->wish = JOB_WISH_NONE;
    job->state = to;
    job->files_bytes = -1;
    job->paused_ms = job->retry_ms = 0;
    job->short_of_memory = false;
    str_copy(job->reason, sizeof job->reason, reason);
    return 0;
}

/* True if one of the assignments is to the same key. */
static bool assigned(const char *assignment, const char *const *more, int n) {
    size_t len = strcspn(assignment, "=") + 1;
    for (int i = 0; i < n; i++)
        if (!strncmp(assignment, more[i], len))
            return true;
    return false;
}

char *job_overrides(const char *array, const char *const *more, int n) {
    struct json *old = NULL;
    struct str s = str_of(OVERRIDES_BYTES);
    if (array && json_parse(array, strlen(array), "overrides", &old, NULL))
        return NULL;
    struct json_writer w = json_to(&s);
    json_begin_array(&w, NULL);
    for (size_t i = 0; i < json_count(old); i++)
        if (!assigned(json_str(json_at(old, i), ""), more, n))
            json_put_str(&w, NULL, json_str(json_at(old, i), ""));
    for (int i = 0; i < n; i++)
        json_put_str(&w, NULL, more[i]);
    json_end(&w, ']');
    json_free(old);
    char *text = str_take(&s);
    str_done(&s);
    return text;
}

int job_override_items(const char *array, struct arena *arena, char ***ret, int *ret_n, struct err *err) {
    struct json *items = NULL;
    int rc = json_parse(array, strlen(array), "overrides", &items, err);
    if (rc)
        return rc;
    size_t n = json_count(items);
    char **texts = arena_alloc(arena, (n + 1) * sizeof *texts);
    bool fits = texts != NULL;
    for (size_t i = 0; fits && i < n; i++)
        fits = (texts[i] = arena_strdup(arena, json_str(json_at(items, i), ""))) != NULL;
    json_free(items);
    if (!fits)
        return err_set(err, ERR_EXHAUSTED, "the overrides of a job are too large");
    *ret = texts;
    *ret_n = (int)n;
    return 0;
}

int job_parse(const char *yaml, const char *file, const char *overrides, struct arena *arena, struct jobfile *ret,
              struct err *err) {
    char **items = NULL;
    int n = 0, rc = job_override_items(overrides, arena, &items, &n, err);
    return rc ? rc : jobfile_parse(yaml, file, (const char *const *)items, n, arena, ret, err);
}
