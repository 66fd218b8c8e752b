#include "daemon/jobs/slurm.h"

#include <poll.h>

#include "base/spawn.h"
#include "daemon/jobs/command.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/slurm_record.h"
#include "work/report_line.h"

enum {
    LOOK_MS = 200,          /* at the files */
    ASK_MS = 2000,          /* squeue */
    COMMAND_MS = 60000,     /* of Slurm's, which wait for a controller that is away */
    GONE_LOOKS = 5,         /* of squeue after which a job that left no exit code is lost: files may come late */
    OUTPUT_BYTES = 4 << 20, /* of a command: squeue writes a line, with a path, for each task of an array */
    LINE_BYTES = 4 << 20,   /* an event */
    ARENA_BYTES = 24 << 20,
    DOUBT_MS = 120000,     /* after an sbatch without an answer: Slurm may still take the job */
    TASKS_BYTES = 8 << 10, /* "0,1,2…" */
    PATH_SIZE = 4096,
    TEXT_BYTES = 256 << 20, /* of the events, and of a job's log; more than that is reported again */
    WORDS = 24
};

struct remote {
    const struct slurm_config *config;
    const struct runner_job *job;
    const struct runner_owner *owner;
    struct runner_wish *wish;
    struct task_end end;
    struct arena arena;
    struct jobfile file;
    char **sets; /* overrides */
    int n_sets;
    struct slurm_record record;
    char name[80];                    /* of Slurm's job, or of the array */
    const char *directory;            /* where it was submitted */
    int task;                         /* index in the array; -1: a job of its own */
    bool *known;                      /* of the array's tasks: Slurm has it */
    char number[32], state[32];       /* Slurm's, "" = not known */
    char notice[160];                 /* the newest of its state */
    int64_t doubt_until_ms;           /* nothing is submitted again before; 0: no doubt */
    int64_t read_bytes, silent_bytes; /* of the events; silent_bytes: reported by an earlier daemon */
    struct str line;                  /* that is not whole yet */
    char last[16], reason[600];       /* how rank 0 ended */
    bool running, cancelled;
};

static void report(const struct remote *r, const struct task_report *what) { r->owner->report(r->owner->ctx, what); }

static int path_of(const struct remote *r, const char *name, char path[PATH_SIZE], struct err *err) {
    return fsio_join(path, PATH_SIZE, r->job->directory, name, err);
}

static int64_t size_of_events(const struct remote *r) {
    char path[PATH_SIZE];
    int64_t bytes = 0, time_ns;
    return path_of(r, "events.jsonl", path, NULL) || fsio_size(path, &bytes, &time_ns, NULL) ? 0 : bytes;
}

/* The attempt's record. */
static int note(struct remote *r, enum slurm_state state, struct err *err) {
    r->record.state = state;
    return slurm_record_write(r->job->directory, &r->record, err);
}

/* A new attempt: what the one before left is no sign of it. */
static int begin_attempt(struct remote *r, struct err *err) {
    int rc;
    r->record.attempt++;
    if ((rc = slurm_record_clear(r->job->directory, err)) ||
        (rc = slurm_record_job(r->job->directory, r->job->yaml, r->job->overrides, err)))
        return rc;
    return note(r, SLURM_BEGUN, err);
}

/* ---- Slurm's commands ---- */

/* EXHAUSTED, DEADLINE and what command_run answers: Slurm gave no answer now. sbatch hands its environment on to the job, so it
 * gets what the configuration names and no more. */
static int call(const struct remote *r, const char *const *words, struct str *out, int *ret_status, struct err *err) {
    OWNED_MEMORY const char **environment = spawn_environment(NULL, r->config->environment);
    str_init(out, OUTPUT_BYTES);
    if (!environment)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", words[0]);
    return command_run(words, environment, COMMAND_MS, out, ret_status, err);
}

/* The line of squeue about a job: number|state|reason|directory. The directory tells it from jobs of other daemons. */
static bool is_own(const struct remote *r, char *line) {
    char *fields[4] = {line};
    for (int i = 1; i < 4; i++) {
        if (!(fields[i] = strchr(fields[i - 1], '|')))
            return false;
        *fields[i]++ = '\0';
    }
    return !strcmp(fields[3], r->directory);
}

/* "7" of "123_7"; -1: the job is no task of an array. */
static int task_of(const char *number) {
    const char *mark = strchr(number, '_');
    int64_t task = -1;
    return mark && str_to_i64(mark + 1, &task) && task < JOBFILE_MAX_ARRAY ? (int)task : -1;
}

/* Slurm has this job. `line`: its number, state and reason, each with a NUL behind it. */
static void take_line(struct remote *r, const char *line) {
    const char *state = line + strlen(line) + 1, *reason = state + strlen(state) + 1;
    const bool plain = !strcmp(reason, "None");
    char now[sizeof r->notice];
    str_copy(r->number, sizeof r->number, line);
    str_copy(r->state, sizeof r->state, state);
    str_format(now, sizeof now, "Slurm job %s: %s%s%s", line, state, plain ? "" : ", ", plain ? "" : reason);
    if (strcmp(now, r->notice) != 0 && !strcmp(state, "PENDING"))
        report(r, &(struct task_report){.kind = TASK_NOTICE, .text = now});
    str_copy(r->notice, sizeof r->notice, now);
}

/* Sets number and state, "" when Slurm does not know the job, notice, and known. False if Slurm does not answer. */
static bool ask(struct remote *r) {
    const char *const words[] = {"squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r|%Z",
                                 "--name", r->name,      NULL};
    const int n = r->job->array ? r->job->array->n : 0;
    OWNED(str_done) struct str out;
    int status = 0;
    if (call(r, words, &out, &status, NULL) || status)
        return false;
    *r->number = *r->state = '\0';
    for (int i = 0; r->known && i < n; i++)
        r->known[i] = false;
    OWNED_MEMORY char *text = str_take(&out);
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        if (!is_own(r, line))
            continue;
        const int task = task_of(line);
        if (r->known && task >= 0 && task < n)
            r->known[task] = true;
        if (task == r->task)
            take_line(r, line);
    }
    return true;
}

/* Slurm has the job, and it is not over as far as anybody knows. */
static bool is_at_work(const struct remote *r) { return *r->state && !slurm_state_is_over(r->state); }

/* "--KEY=VALUE" in the arena. */
static const char *option(struct remote *r, const char *key, const char *value) {
    return arena_printf(&r->arena, "--%s=%s", key, value);
}

static const char *count(struct remote *r, const char *key, int64_t n) {
    return arena_printf(&r->arena, "--%s=%lld", key, (long long)n);
}

/* Writes sbatch's options for the job into words; returns how many. */
static int put_options(struct remote *r, const char **words) {
    const struct jobfile_resources *need = &r->file.resources;
    int n = 0;
    words[n++] = "sbatch";
    words[n++] = "--parsable";
    words[n++] = option(r, "job-name", r->name);
    words[n++] = option(r, "chdir", r->directory);
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
    return n;
}

static const char **ended(const char **words, int n) {
    for (int i = 0; i < n; i++)
        if (!words[i])
            return NULL;
    words[n] = NULL;
    return words;
}

/* The words of sbatch for a job of its own; NULL when out of memory. */
static const char **words_of(struct remote *r) {
    const char **words = arena_alloc(&r->arena, (size_t)(r->n_sets + WORDS) * sizeof *words);
    if (!words)
        return NULL;
    int n = put_options(r, words);
    words[n++] = "--output=slurm.log";
    words[n++] = r->config->script;
    words[n++] = arena_printf(&r->arena, "%s/job.yaml", r->job->directory);
    words[n++] = r->job->directory;
    for (int i = 0; i < r->n_sets; i++)
        words[n++] = r->sets[i];
    return ended(words, n);
}

/* The same for an array: the batch script takes the directory whose place is the task's index. Its output goes there, too; what
 * comes before that is for the file of all. */
static const char **words_of_array(struct remote *r, const char *tasks) {
    const struct runner_array *array = r->job->array;
    const char **words = arena_alloc(&r->arena, (size_t)(array->n + WORDS) * sizeof *words);
    if (!words)
        return NULL;
    int n = put_options(r, words);
    words[n++] = arena_printf(&r->arena, "--array=%s%%%lld", tasks, (long long)r->config->jobs);
    words[n++] = "--output=array.log";
    words[n++] = r->config->script;
    words[n++] = "--tasks";
    for (int i = 0; i < array->n; i++)
        words[n++] = array->directories[i] ? array->directories[i] : "-";
    return ended(words, n);
}

/* Records task i and returns true if it is to be submitted: Slurm does not have it, and it has not ended. */
static bool list_task(const struct remote *r, int i) {
    const struct runner_array *array = r->job->array;
    const char *directory = array->directories[i];
    struct slurm_record record;
    if (!directory || r->known[i])
        return false;
    slurm_record_read(directory, &record);
    if (record.state == SLURM_LISTED || record.state == SLURM_JOINED)
        return !strcmp(record.array, r->name) && slurm_record_exit(directory) < 0;
    if (record.state != SLURM_NONE)
        return false;
    record = (struct slurm_record){.attempt = 1, .state = SLURM_LISTED, .task = i};
    str_copy(record.array, sizeof record.array, r->name);
    str_copy(record.directory, sizeof record.directory, r->directory);
    return !slurm_record_write(directory, &record, NULL);
}

static bool is_passing(const char *text) {
    return strstr(text, "Unable to contact") || strstr(text, "timed out") || strstr(text, "Connection") ||
           strstr(text, "temporarily");
}

/* UNAVAILABLE: the controller is away; the job may have been submitted all the same. */
static int submit_words(struct remote *r, const char *const *words, struct err *err) {
    OWNED(str_done) struct str out = str_of(1);
    int status = 0, rc;
    if (!words)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the words of sbatch");
    rc = call(r, words, &out, &status, err);
    if (rc == ERR_DEADLINE || (rc == 0 && status && is_passing(str_cstr(&out))))
        r->doubt_until_ms = clock_ms() + DOUBT_MS;
    if (rc)
        return rc == ERR_DEADLINE ? err_set(err, ERR_UNAVAILABLE, "sbatch does not answer") : rc;
    if (!status)
        return 0;
    return err_set(err, is_passing(str_cstr(&out)) ? ERR_UNAVAILABLE : ERR_PRECONDITION, "sbatch refused the job: %.400s",
                   str_cstr(&out));
}

/* All tasks that Slurm does not have. The caller has the array's lock. */
static int submit_array(struct remote *r, struct err *err) {
    OWNED(str_done) struct str tasks = str_of(TASKS_BYTES);
    for (int i = 0; i < r->job->array->n; i++)
        if (list_task(r, i))
            str_printf(&tasks, "%s%d", tasks.len ? "," : "", i);
    slurm_record_read(r->job->directory, &r->record);
    if (r->record.state == SLURM_NONE)
        return err_set(err, ERR_UNAVAILABLE, "the record of the attempt in %s cannot be written", r->job->directory);
    return submit_words(r, words_of_array(r, str_cstr(&tasks)), err);
}

static bool stops(const struct remote *r) { return atomic_load(&r->wish->now); }

static void wait_ms(const struct remote *r, int64_t ms) {
    for (int64_t until = clock_ms() + ms; clock_ms() < until && !stops(r);)
        poll(NULL, 0, LOOK_MS / 4);
}

static bool has_exit(const struct remote *r) { return slurm_record_exit(r->job->directory) >= 0; }

/* The jobs of an array look up and submit it one at a time. PRECONDITION: another job of the array holds the lock. */
static int lock_array(const struct remote *r, int *ret_fd, struct err *err) {
    char path[PATH_SIZE];
    int rc = fsio_join(path, sizeof path, r->directory, "array.lock", err);
    return rc ? rc : fsio_lock(path, ret_fd, err);
}

/* Slurm has the job now, or Slurm does not answer (UNAVAILABLE), or another job of the array is at it (PRECONDITION with
 * *ret_busy). Without an answer nothing is submitted: the job may be there. */
static int look_and_submit(struct remote *r, bool *ret_busy, struct err *err) {
    OWNED_FD int lock = -1;
    int rc;
    if (r->known && (rc = lock_array(r, &lock, err))) {
        *ret_busy = rc == ERR_PRECONDITION;
        return rc;
    }
    if (!ask(r))
        return err_set(err, ERR_UNAVAILABLE, "Slurm's controller does not answer; the job waits for it");
    if (*r->number || (r->task >= 0 && !r->known))
        return 0;
    if (clock_ms() < r->doubt_until_ms)
        return err_set(err, ERR_UNAVAILABLE,
                       "sbatch gave no answer; Slurm is asked for two minutes whether it has the job all the same");
    if ((rc = r->known ? submit_array(r, err) : submit_words(r, words_of(r), err)))
        return rc;
    ask(r);
    return 0;
}

/* Slurm has the job of the attempt, or it has ended already, or this attempt is to stop. */
static int find_or_submit(struct remote *r, struct err *err) {
    bool notified = false;
    while (!has_exit(r) && !stops(r)) {
        bool busy = false;
        int rc = look_and_submit(r, &busy, err);
        if (!busy && rc != ERR_UNAVAILABLE)
            return rc;
        if (!busy && !notified)
            report(r, &(struct task_report){.kind = TASK_NOTICE, .text = err->message});
        notified |= !busy;
        wait_ms(r, LOOK_MS);
    }
    return 0;
}

/* ---- what rank 0 says ---- */

static void on_end(struct remote *r, struct report_line *line) {
    str_copy(r->last, sizeof r->last, line->frame.state);
    str_copy(r->reason, sizeof r->reason, line->frame.reason);
    free(r->end.result);
    r->end.result = line->end.result;
    line->end.result = NULL;
}

/* silent: an earlier daemon has reported it. Checkpoints are reported again, in case it died before their record. */
static void on_line(struct remote *r, const struct str *text, bool silent) {
    struct report_line line;
    if (report_read(str_cstr(text), text->len, &line, NULL))
        return;
    if (!r->running)
        report(r, &(struct task_report){.kind = TASK_RUNNING});
    r->running = true;
    if (line.report.kind == TASK_END)
        on_end(r, &line);
    else if (line.report.kind == TASK_CHECKPOINT || (!silent && line.report.kind != TASK_RUNNING))
        report(r, &line.report);
    r->end.has_checkpoint |= line.report.kind == TASK_CHECKPOINT;
    report_line_done(&line);
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
        on_line(r, &r->line, r->read_bytes <= r->silent_bytes);
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

/* The byte after the text in the log, where it ends a line; NULL: it is not there. Control characters are blanks in the log. */
static const char *find_logged(const char *log, const char *text) {
    OWNED_MEMORY char *shown = strdup(text);
    if (!shown)
        return NULL;
    for (char *p = shown; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    const size_t len = strlen(shown);
    for (const char *at = log; (at = strstr(at, shown)); at++)
        if (at > log && at[-1] == ' ' && at[len] == '\n')
            return at + len + 1;
    return NULL;
}

/* How many bytes of the events an earlier daemon has reported: up to the last line whose text it has written to the job's log. What
 * came while no daemon ran is none of it. */
static int64_t reported_bytes(const struct remote *r) {
    char events_path[PATH_SIZE], log_path[PATH_SIZE];
    OWNED_MEMORY char *events = NULL, *log = NULL;
    size_t n = 0, n_log = 0;
    int64_t reported = 0;
    if (path_of(r, "events.jsonl", events_path, NULL) || path_of(r, "log.txt", log_path, NULL) ||
        fsio_read(events_path, TEXT_BYTES, &events, &n, NULL) || fsio_read(log_path, TEXT_BYTES, &log, &n_log, NULL))
        return 0;
    const char *logged = log;
    for (const char *at = events, *end; (end = memchr(at, '\n', n - (size_t)(at - events))); at = end + 1) {
        struct report_line line;
        if (report_read(at, (size_t)(end - at), &line, NULL))
            continue;
        const char *after = line.report.text && *line.report.text ? find_logged(logged, line.report.text) : NULL;
        if (after) {
            logged = after;
            reported = end + 1 - events;
        }
        report_line_done(&line);
    }
    return reported;
}

/* ---- the end ---- */

static int conclude(struct remote *r, struct err *err) {
    const int code = slurm_record_exit(r->job->directory);
    read_events(r);
    note(r, SLURM_OVER, NULL);
    if (!code && !strcmp(r->last, "succeeded"))
        return 0;
    if (r->cancelled) {
        r->end.stopped = STOP_CANCEL;
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
    note(r, SLURM_OVER, NULL);
    if (r->cancelled) {
        r->end.stopped = STOP_CANCEL;
        return 0;
    }
    return err_set(err, ERR_UNAVAILABLE, "%s (%s), and it left no exit code: somebody cancelled it, or its node was lost for good",
                   *r->notice ? r->notice : r->name, *r->state ? r->state : "no longer known to Slurm");
}

static void cancel(struct remote *r) {
    const char *const words[] = {"scancel", r->number, NULL};
    OWNED(str_done) struct str out;
    int status = 0;
    if (*r->number)
        call(r, words, &out, &status, NULL);
    r->cancelled = true;
}

/* This daemon stops, and Slurm's job goes on. */
static bool leaves(const struct remote *r) { return stops(r) && !stop_is_cancel(atomic_load(&r->wish->stop)); }

static int follow(struct remote *r, struct err *err) {
    int64_t next_ms = 0;
    int gone = 0;
    for (;; poll(NULL, 0, LOOK_MS)) {
        read_events(r);
        if (has_exit(r))
            return conclude(r, err);
        if (leaves(r)) {
            r->end.stopped = atomic_load(&r->wish->stop);
            return 0;
        }
        if (clock_ms() < next_ms && (!stops(r) || r->cancelled))
            continue;
        next_ms = clock_ms() + (stops(r) ? LOOK_MS : ASK_MS);
        if (!ask(r) || leaves(r)) /* the wish may have come meanwhile */
            continue;
        gone = is_at_work(r) ? 0 : gone + 1;
        if (stops(r) && is_at_work(r))
            cancel(r);
        else if (stops(r) || gone >= GONE_LOOKS)
            return r->cancelled = stops(r), conclude_lost(r, err);
    }
}

static int run_alone(struct remote *r, struct err *err) {
    const bool begun = r->record.state == SLURM_BEGUN;
    int rc;
    if (!begun && stops(r)) {
        r->end.stopped = atomic_load(&r->wish->stop);
        return 0;
    }
    if (!begun && (rc = begin_attempt(r, err)))
        return rc;
    if (begun)
        r->silent_bytes = reported_bytes(r);
    else
        r->read_bytes = r->silent_bytes = size_of_events(r); /* what earlier attempts said */
    str_format(r->name, sizeof r->name, "brrd-%s-%lld", r->job->id, (long long)r->record.attempt);
    r->directory = r->job->directory;
    if ((rc = find_or_submit(r, err))) {
        note(r, SLURM_OVER, NULL);
        return rc;
    }
    return follow(r, err);
}

/* The job is to stop and is no task of the array yet; a cancelled one must not become one. True: it has become one meanwhile. */
static bool was_listed(struct remote *r) {
    OWNED_FD int lock = -1;
    const int why = atomic_load(&r->wish->stop);
    while (stop_is_cancel(why) && lock_array(r, &lock, NULL) == ERR_PRECONDITION)
        poll(NULL, 0, LOOK_MS / 4);
    slurm_record_read(r->job->directory, &r->record);
    if (r->record.state != SLURM_NONE)
        return true;
    r->record.attempt = 1;
    if (stop_is_cancel(why))
        note(r, SLURM_OVER, NULL);
    r->end.stopped = why;
    return false;
}

/* A task of an array, which whichever of its jobs comes first submits. */
static int run_in_array(struct remote *r, struct err *err) {
    const struct runner_array *array = r->job->array;
    struct slurm_record *record = &r->record;
    int rc;
    if (record->state == SLURM_NONE) {
        record->task = array->index;
        str_format(record->array, sizeof record->array, "brrd-%s-1", array->name);
        str_copy(record->directory, sizeof record->directory, array->directory);
    }
    if (record->state == SLURM_JOINED)
        r->silent_bytes = reported_bytes(r);
    str_copy(r->name, sizeof r->name, record->array);
    r->task = record->task;
    if (!(r->directory = arena_strdup(&r->arena, record->directory)) ||
        (array && !(r->known = arena_alloc(&r->arena, (size_t)array->n * sizeof *r->known))))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a job");
    if ((rc = find_or_submit(r, err))) {
        record->attempt = 1;
        note(r, SLURM_OVER, NULL);
        return rc;
    }
    slurm_record_read(r->job->directory, record);
    if (record->state == SLURM_NONE && !was_listed(r))
        return 0;
    return (rc = note(r, SLURM_JOINED, err)) ? rc : follow(r, err);
}

static int run(struct remote *r, struct err *err) {
    int rc;
    if ((rc = job_parse(r->job->yaml, r->job->file, r->job->overrides, &r->arena, &r->file, err)) ||
        (rc = job_override_items(r->job->overrides, &r->arena, &r->sets, &r->n_sets, err)))
        return rc;
    r->end.limits = r->file.limits;
    slurm_record_read(r->job->directory, &r->record);
    const enum slurm_state state = r->record.state;
    if (state == SLURM_LISTED || state == SLURM_JOINED || (state == SLURM_NONE && r->job->array))
        return run_in_array(r, err);
    return run_alone(r, err);
}

void slurm_run(const struct slurm_config *config, const struct runner_job *job, const struct runner_owner *owner,
               struct runner_wish *wish) {
    struct task_end none = {.energy_j = NAN};
    struct remote *r = calloc(1, sizeof *r);
    if (!r) {
        none.rc = err_set(&none.err, ERR_EXHAUSTED, "out of memory for a job");
        owner->report(owner->ctx, &(struct task_report){.kind = TASK_END, .end = &none});
        return;
    }
    *r = (struct remote){.config = config, .job = job, .owner = owner, .wish = wish, .end = none, .task = -1};
    arena_init(&r->arena, ARENA_BYTES);
    str_init(&r->line, LINE_BYTES);
    r->end.rc = run(r, &r->end.err);
    if (r->end.rc || r->end.stopped != STOP_NONE) {
        free(r->end.result);
        r->end.result = NULL;
    }
    report(r, &(struct task_report){.kind = TASK_END, .end = &r->end});
    free(r->end.result);
    arena_done(&r->arena);
    str_done(&r->line);
    free(r);
}
