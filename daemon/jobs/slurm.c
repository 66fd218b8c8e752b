#include "daemon/jobs/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fsio.h"
#include "base/json.h"
#include "base/str.h"
#include "daemon/jobs/command.h"
#include "daemon/jobs/job.h"

enum {
    LOOK_MS = 200,        /* at the files */
    ASK_MS = 2000,        /* squeue */
    COMMAND_MS = 60000,   /* of Slurm's, which wait for a controller that is away */
    GONE_LOOKS = 5,       /* of squeue after which a job that left no exit code is lost: files may come late */
    LINE_BYTES = 4 << 20, /* an event */
    ARENA_BYTES = 24 << 20,
    PATH_SIZE = 4096,
    WORDS = 16
};

struct remote {
    const struct slurm_config *config;
    const struct runner_job *job;
    const struct runner_events *events;
    struct runner_wish *wish;
    struct runner_end *end;
    struct arena arena;
    struct jobfile file;
    char **sets; /* overrides */
    int n_sets;
    int64_t attempt;
    char name[80];                    /* of Slurm's job */
    char number[32], state[32];       /* Slurm's, "" = not known */
    char told[160];                   /* what people were told of its state */
    int64_t read_bytes, silent_bytes; /* of the events; those before were told by an earlier daemon */
    struct str line;                  /* that is not whole yet */
    struct task_progress progress;
    char last[16], reason[600]; /* how rank 0 ended */
    bool running, cancelled;
};

static int path_of(const struct remote *r, const char *name, char path[PATH_SIZE], struct err *err) {
    return fsio_join(path, PATH_SIZE, r->job->directory, name, err);
}

/* ---- the record: ATTEMPT and whether it is over ---- */

static int write_record(const struct remote *r, const char *state, struct err *err) {
    char path[PATH_SIZE], text[64];
    str_format(text, sizeof text, "%lld %s\n", (long long)r->attempt, state);
    int rc = path_of(r, "slurm", path, err);
    return rc ? rc : fsio_write_atomic(path, text, strlen(text), err);
}

/* True if an attempt was begun and is not known to be over. */
static bool read_record(struct remote *r) {
    char path[PATH_SIZE];
    OWNED_MEMORY char *text = NULL;
    size_t len;
    if (path_of(r, "slurm", path, NULL) || fsio_read(path, 64, &text, &len, NULL))
        return false;
    r->attempt = strtoll(text, NULL, 10);
    return strstr(text, "begun") != NULL;
}

static int64_t size_of(const char *path) {
    int64_t bytes = 0, time_ns;
    return fsio_size(path, &bytes, &time_ns, NULL) ? 0 : bytes;
}

static int remove_file(const char *path, struct err *err) {
    return unlink(path) && errno != ENOENT ? err_errno(err, errno, "%s cannot be removed", path) : 0;
}

/* A new attempt: what the one before left is no sign of it. */
static int begin_attempt(struct remote *r, struct err *err) {
    char exit_file[PATH_SIZE], tries[PATH_SIZE], yaml[PATH_SIZE];
    int rc;
    r->attempt++;
    if ((rc = path_of(r, "exit", exit_file, err)) || (rc = path_of(r, "tries", tries, err)) ||
        (rc = path_of(r, "job.yaml", yaml, err)) || (rc = remove_file(exit_file, err)) || (rc = remove_file(tries, err)) ||
        (rc = fsio_write_atomic(yaml, r->job->yaml, strlen(r->job->yaml), err)))
        return rc;
    return write_record(r, "begun", err);
}

/* ---- Slurm's commands ---- */

/* EXHAUSTED, DEADLINE and what command_run answers: Slurm gave no answer now. */
static int call(const char *const *words, struct str *out, int *ret_status, struct err *err) {
    str_init(out, COMMAND_OUTPUT_BYTES);
    return command_run(words, COMMAND_MS, out, ret_status, err);
}

/* The line of squeue about the job, whose working directory tells it from jobs of other daemons: number|state|reason|directory. */
static bool is_own(const struct remote *r, char *line) {
    char *fields[4] = {line};
    for (int i = 1; i < 4; i++) {
        if (!(fields[i] = strchr(fields[i - 1], '|')))
            return false;
        *fields[i]++ = '\0';
    }
    return !strcmp(fields[3], r->job->directory);
}

/* Sets number and state, "" when Slurm does not know the job, and `told`. False if Slurm does not answer. */
static bool ask(struct remote *r) {
    const char *const words[] = {"squeue", "--noheader", "--states=all", "--format=%i|%T|%r|%Z", "--name", r->name, NULL};
    OWNED(str_done) struct str out;
    int status = 0;
    if (call(words, &out, &status, NULL) || status)
        return false;
    *r->number = *r->state = '\0';
    OWNED_MEMORY char *text = str_take(&out);
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        if (!is_own(r, line))
            continue;
        const char *state = line + strlen(line) + 1, *reason = state + strlen(state) + 1;
        char now[sizeof r->told];
        str_copy(r->number, sizeof r->number, line);
        str_copy(r->state, sizeof r->state, state);
        str_format(now, sizeof now, "Slurm job %s: %s%s%s", line, state, strcmp(reason, "None") != 0 ? ", " : "",
                   strcmp(reason, "None") != 0 ? reason : "");
        if (strcmp(now, r->told) != 0 && !strcmp(state, "PENDING"))
            r->events->notice(r->events->ctx, now);
        str_copy(r->told, sizeof r->told, now);
    }
    return true;
}

static bool is_at_work(const struct remote *r) {
    static const char *const states[] = {"PENDING", "RUNNING",  "CONFIGURING",  "COMPLETING", "SUSPENDED",
                                         "STOPPED", "REQUEUED", "REQUEUE_HOLD", "SIGNALING",  "RESIZING"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (!strcmp(r->state, states[i]))
            return true;
    return false;
}

/* "--KEY=VALUE" in the arena. */
static const char *option(struct remote *r, const char *key, const char *value) {
    return arena_printf(&r->arena, "--%s=%s", key, value);
}

static const char *count(struct remote *r, const char *key, int64_t n) {
    return arena_printf(&r->arena, "--%s=%lld", key, (long long)n);
}

/* The words of sbatch; NULL when out of memory. */
static const char **words_of(struct remote *r) {
    const struct jobfile_resources *need = &r->file.resources;
    const char **words = arena_alloc(&r->arena, (size_t)(r->n_sets + WORDS) * sizeof *words);
    int n = 0;
    if (!words)
        return NULL;
    words[n++] = "sbatch";
    words[n++] = "--parsable";
    words[n++] = option(r, "job-name", r->name);
    words[n++] = option(r, "chdir", r->job->directory);
    words[n++] = "--output=slurm.log";
    words[n++] = count(r, "nodes", need->nodes);
    words[n++] = count(r, "ntasks", need->ranks);
    if (need->cpus_per_rank)
        words[n++] = count(r, "cpus-per-task", need->cpus_per_rank);
    if (need->gpus_per_rank)
        words[n++] = count(r, "gpus-per-task", need->gpus_per_rank);
    if (need->time_ms > 0)
        words[n++] = count(r, "time", (need->time_ms + 59999) / 60000);
    if (r->config->config)
        words[n++] = arena_printf(&r->arena, "--export=ALL,BRRD_CONFIG=%s", r->config->config);
    if (r->config->partition)
        words[n++] = option(r, "partition", r->config->partition);
    words[n++] = r->config->script;
    words[n++] = arena_printf(&r->arena, "%s/job.yaml", r->job->directory);
    words[n++] = r->job->directory;
    for (int i = 0; i < r->n_sets; i++)
        words[n++] = r->sets[i];
    for (int i = 0; i < n; i++)
        if (!words[i])
            return NULL;
    words[n] = NULL;
    return words;
}

static bool is_passing(const char *text) {
    return strstr(text, "Unable to contact") || strstr(text, "timed out") || strstr(text, "Connection") ||
           strstr(text, "temporarily");
}

/* UNAVAILABLE: the controller is away; the job may have been submitted all the same. */
static int submit(struct remote *r, struct err *err) {
    OWNED(str_done) struct str out;
    const char **words = words_of(r);
    int status = 0, rc;
    str_init(&out, 1);
    if (!words)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the words of sbatch");
    if ((rc = call(words, &out, &status, err)))
        return rc == ERR_DEADLINE ? err_set(err, ERR_UNAVAILABLE, "sbatch does not answer") : rc;
    if (!status)
        return 0;
    return err_set(err, is_passing(str_cstr(&out)) ? ERR_UNAVAILABLE : ERR_PRECONDITION, "sbatch refused the job: %.400s",
                   str_cstr(&out));
}

static bool stops(const struct remote *r) { return atomic_load(&r->wish->now); }

static void wait_ms(const struct remote *r, int64_t ms) {
    for (int64_t until = clock_ms() + ms; clock_ms() < until && !stops(r);)
        poll(NULL, 0, LOOK_MS / 4);
}

static bool has_exit(const struct remote *r) {
    char path[PATH_SIZE];
    return !path_of(r, "exit", path, NULL) && fsio_exists(path);
}

/* Slurm has the job of the attempt, or it has ended already. Without an answer nothing is submitted: it may be there. */
static int find_or_submit(struct remote *r, struct err *err) {
    bool told = false;
    int rc;
    while (!has_exit(r) && !stops(r)) {
        if (ask(r)) {
            if (*r->number)
                return 0;
            if ((rc = submit(r, err)) != ERR_UNAVAILABLE && rc)
                return rc;
        } else if (!told) {
            told = true;
            r->events->notice(r->events->ctx, "Slurm's controller does not answer; the job waits for it");
        }
        wait_ms(r, LOOK_MS);
    }
    return 0;
}

/* ---- what rank 0 says ---- */

static void copy(char *dst, size_t size, const struct json *tree, const char *key) {
    str_copy(dst, size, json_str(json_get(tree, key), ""));
}

static void on_progress(struct remote *r, const struct json *tree) {
    struct task_progress *p = &r->progress;
    copy(p->phase, sizeof p->phase, tree, "phase");
    p->step = json_i64(json_get(tree, "step"), 0);
    p->steps = json_i64(json_get(tree, "steps"), 0);
    p->done = json_i64(json_get(tree, "done"), 0);
    p->total = json_i64(json_get(tree, "total"), 0);
    p->loss = json_f64(json_get(tree, "loss"), NAN);
    p->eta_s = json_f64(json_get(tree, "eta_s"), NAN);
    r->events->progress(r->events->ctx, p);
}

static void on_checkpoint(struct remote *r, const struct json *tree) {
    struct task_checkpoint c = {.step = json_i64(json_get(tree, "step"), 0),
                                .epoch = json_i64(json_get(tree, "epoch"), 0),
                                .bytes = json_i64(json_get(tree, "bytes"), 0),
                                .metric = json_f64(json_get(tree, "metric"), NAN),
                                .best = json_bool(json_get(tree, "best"), false),
                                .last = json_bool(json_get(tree, "last"), true)};
    copy(c.path, sizeof c.path, tree, "path");
    copy(c.sha256, sizeof c.sha256, tree, "sha256");
    copy(c.metric_name, sizeof c.metric_name, tree, "metric_name");
    r->end->has_checkpoint = true;
    r->events->checkpoint(r->events->ctx, &c);
}

static void on_end(struct remote *r, const struct json *tree, const char *line) {
    static const char key[] = ",\"result\":"; /* the last member; quotes within texts are escaped */
    const char *result = strstr(line, key);
    copy(r->last, sizeof r->last, tree, "state");
    copy(r->reason, sizeof r->reason, tree, "reason");
    free(r->end->result);
    r->end->result = NULL;
    if (!result || json_kind(json_get(tree, "result")) != JSON_KIND_OBJECT)
        return;
    result += sizeof key - 1;
    r->end->result = strndup(result, strlen(result) - 1); /* without the brace of the line */
}

static void on_line(struct remote *r, const char *line, bool silent) {
    static const char *const levels[] = {[TASK_INFO] = "info", [TASK_WARN] = "warn", [TASK_ERROR] = "error"};
    OWNED_POINTER(json_free) struct json *tree = NULL;
    if (json_parse(line, strlen(line), "events.jsonl", &tree, NULL))
        return; /* torn by a kill */
    const char *event = json_str(json_get(tree, "event"), "");
    if (!r->running) {
        r->running = true;
        r->events->running(r->events->ctx);
    }
    if (!strcmp(event, "checkpoint"))
        on_checkpoint(r, tree);
    else if (!strcmp(event, "end"))
        on_end(r, tree, line);
    else if (!strcmp(event, "progress") && !silent)
        on_progress(r, tree);
    for (int i = 0; i < 3 && !silent; i++)
        if (!strcmp(event, levels[i]))
            r->events->log(r->events->ctx, (enum task_level)i, json_str(json_get(tree, "text"), ""));
}

static void on_bytes(struct remote *r, char *block, ssize_t n) {
    for (char *at = block, *end; n > 0; n -= end - at + 1, at = end + 1) {
        if (!(end = memchr(at, '\n', (size_t)n))) {
            str_append(&r->line, at, (size_t)n);
            r->read_bytes += n;
            return;
        }
        str_append(&r->line, at, (size_t)(end - at));
        r->read_bytes += end - at + 1;
        on_line(r, str_cstr(&r->line), r->read_bytes <= r->silent_bytes);
        str_done(&r->line);
        str_init(&r->line, LINE_BYTES);
    }
}

static void read_events(struct remote *r) {
    char path[PATH_SIZE], block[16384];
    ssize_t n;
    if (path_of(r, "events.jsonl", path, NULL))
        return;
    OWNED_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = pread(fd, block, sizeof block, r->read_bytes)) > 0)
        on_bytes(r, block, n);
}

/* ---- the end ---- */

static int read_exit(const struct remote *r) {
    char path[PATH_SIZE];
    OWNED_MEMORY char *text = NULL;
    size_t len;
    if (path_of(r, "exit", path, NULL) || fsio_read(path, 64, &text, &len, NULL))
        return -1;
    return (int)strtol(text, NULL, 10);
}

static int conclude(struct remote *r, struct err *err) {
    const int code = read_exit(r);
    read_events(r);
    write_record(r, "over", NULL);
    if (!code && !strcmp(r->last, "succeeded"))
        return 0;
    if (r->cancelled) {
        r->end->stopped = WORKER_STOP_CANCEL;
        return 0;
    }
    if (code == 1 && *r->reason)
        return err_set(err, ERR_PRECONDITION, "%s", r->reason);
    return err_set(err, code == 1 ? ERR_PRECONDITION : ERR_UNAVAILABLE,
                   "Slurm job %s ended with the exit code %d%s%s; see slurm.log and errors.log in %s", r->number, code,
                   *r->reason ? ": " : "", r->reason, r->job->directory);
}

/* Slurm says that it is over, or knows it no more, and there is no exit code. */
static int conclude_lost(struct remote *r, struct err *err) {
    read_events(r);
    write_record(r, "over", NULL);
    if (r->cancelled) {
        r->end->stopped = WORKER_STOP_CANCEL;
        return 0;
    }
    return err_set(err, ERR_UNAVAILABLE, "%s (%s), and it left no exit code: somebody cancelled it, or its node was lost for good",
                   *r->told ? r->told : r->name, *r->state ? r->state : "no longer known to Slurm");
}

static void cancel(struct remote *r) {
    const char *const words[] = {"scancel", r->number, NULL};
    OWNED(str_done) struct str out;
    int status = 0;
    if (*r->number)
        call(words, &out, &status, NULL);
    r->cancelled = true;
}

static int follow(struct remote *r, struct err *err) {
    int64_t next_ms = 0;
    int gone = 0;
    for (;; poll(NULL, 0, LOOK_MS)) {
        const int why = atomic_load(&r->wish->stop);
        read_events(r);
        if (has_exit(r))
            return conclude(r, err);
        if (stops(r) && why != WORKER_STOP_CANCEL) {
            r->end->stopped = why;
            return 0;
        }
        if (clock_ms() < next_ms && (!stops(r) || r->cancelled))
            continue;
        next_ms = clock_ms() + (stops(r) ? LOOK_MS : ASK_MS);
        if (!ask(r))
            continue;
        gone = is_at_work(r) ? 0 : gone + 1;
        if (stops(r) && is_at_work(r))
            cancel(r);
        else if (stops(r) || gone >= GONE_LOOKS)
            return r->cancelled = stops(r), conclude_lost(r, err);
    }
}

static int run(struct remote *r, struct err *err) {
    char events[PATH_SIZE];
    int rc;
    if ((rc = job_parse(r->job->yaml, r->job->file, r->job->overrides, &r->arena, &r->file, err)) ||
        (rc = job_override_items(r->job->overrides, &r->arena, &r->sets, &r->n_sets, err)) ||
        (rc = path_of(r, "events.jsonl", events, err)))
        return rc;
    r->end->limits = r->file.limits;
    r->silent_bytes = size_of(events);
    bool begun = read_record(r);
    if (!begun && stops(r)) {
        r->end->stopped = atomic_load(&r->wish->stop);
        return 0;
    }
    if (!begun && (rc = begin_attempt(r, err)))
        return rc;
    if (!begun)
        r->read_bytes = r->silent_bytes; /* what earlier attempts said */
    str_format(r->name, sizeof r->name, "brrd-%s-%lld", r->job->id, (long long)r->attempt);
    if ((rc = find_or_submit(r, err))) {
        write_record(r, "over", NULL);
        return rc;
    }
    return follow(r, err);
}

void slurm_run(const struct slurm_config *config, const struct runner_job *job, const struct runner_events *events,
               struct runner_wish *wish, struct runner_end *ret) {
    struct remote *r = calloc(1, sizeof *r);
    *ret = (struct runner_end){.stopped = WORKER_STOP_NONE, .energy_j = NAN};
    if (!r) {
        ret->rc = err_set(&ret->err, ERR_EXHAUSTED, "out of memory for a job");
        return;
    }
    *r = (struct remote){.config = config, .job = job, .events = events, .wish = wish, .end = ret};
    arena_init(&r->arena, ARENA_BYTES);
    str_init(&r->line, LINE_BYTES);
    task_progress_init(&r->progress);
    ret->rc = run(r, &ret->err);
    if (ret->rc || ret->stopped != WORKER_STOP_NONE) {
        free(ret->result);
        ret->result = NULL;
    }
    arena_done(&r->arena);
    str_done(&r->line);
    free(r);
}
