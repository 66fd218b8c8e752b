/* Job commands: submit, jobs, job, watch, logs, cancel, delete, resume. */

#include "brr/v1/checkpoints.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/interrupt.h"
#include "client/brrctl/jobs/curves.h"
#include "client/brrctl/output.h"
#include "work/kind.h"

#define OPTIONS struct job_options
static const struct argument submit_rows[] = {
    ASSIGNMENT("--set", set, "K=V", "override a key of the job file; may be repeated"),
    TEXT("--name", name, "NAME", "name of the job"),
    TEXT("--after", after, "ID", "start once this job has succeeded; if it does not, this one is cancelled"),
    FLAG("--watch", watch, "follow the job to its end; Ctrl-C detaches"),
    TEXT("--id-file", id_file, "FILE", "write the job's id to this file"),
};
static const struct argument cancel_rows[] = {
    FLAG("--now", now, "without a last checkpoint"),
};
static const struct argument resume_rows[] = {
    ASSIGNMENT("--set", set, "K=V", "change a limits.* key; may be repeated"),
};
static const struct argument logs_rows[] = {
    FLAG("--follow", follow, "go on until the job ends"),
    INTEGER("--tail", tail, "N", "only the last N lines", 1, 1e6),
};
static const struct argument job_rows[] = {
    FLAG("--csv", csv, "the curves of a training: a row for each ten steps and each validation"),
};
static const struct argument jobs_rows[] = {
    CHOICE("--sort", sort, "f1", "the best event F1 first"),
};

#define JOB_ROW "%-24s %-9s %-13s %-8s %-14s %-7s %-8s %-12s %-6s %-7s %s\n"
enum { ESTIMATE_MS = 20 * 1000 };

static bool ended(const Brr__V1__Job *job) {
    return job->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED || job->state == BRR__V1__JOB_STATE__JOB_STATE_FAILED ||
           job->state == BRR__V1__JOB_STATE__JOB_STATE_CANCELLED || job->state == BRR__V1__JOB_STATE__JOB_STATE_INTERRUPTED;
}

#define OUTCOME "state reason checkpoint? result=result_json!{} "
static const char fields[] =
    "job=id kind name " OUTCOME "progress[step steps loss] queue_position owner? run_ms device_ms energy_joules~ created_ms "
    "started_ms finished_ms attempts restarts crashes retry_ms device device_name? beside memory_bytes? versions directory "
    "last_checkpoint? file(name yaml overrides)";

static const char *steps_text(const Brr__V1__Job *job, char buf[48]) {
    const Brr__V1__Progress *p = job->progress;
    *buf = '\0';
    if (p && p->steps)
        str_format(buf, 48, "%lld/%lld", (long long)p->step, (long long)p->steps);
    return buf;
}

/* "12 min" since a Unix time in ms; "-" for 0. */
static const char *age_text(int64_t time_ms, char buf[24]) {
    double s = (double)(clock_wall_ms() - time_ms) / 1000;
    if (time_ms <= 0)
        str_copy(buf, 24, "-");
    else if (s < 3600)
        str_format(buf, 24, s < 60 ? "%.0f s" : "%.0f min", floor(fmax(0, s < 60 ? s : s / 60)));
    else
        str_format(buf, 24, s < 48 * 3600 ? "%.0f h" : "%.0f d", floor(s < 48 * 3600 ? s / 3600 : s / 86400));
    return buf;
}

/* A figure of the result; NaN without one. */
static double result_figure(const Brr__V1__Job *job, const char *key) {
    OWNED_POINTER(json_free) struct json *result = NULL;
    if (!*job->result_json || json_parse(job->result_json, strlen(job->result_json), "result", &result, NULL))
        return NAN;
    return json_f64(json_get(result, key), NAN);
}

static void print_row(const void *message) {
    const Brr__V1__Job *job = message;
    const Brr__V1__Progress *p = ended(job) ? NULL : job->progress;
    char steps[48], age[24], loss[24] = "-", left[32] = "-", f1[16], false_alarms[24] = "-", beside[200];
    const double rate = result_figure(job, "false_alarms_per_24h");
    if (isfinite(rate))
        str_format(false_alarms, sizeof false_alarms, "%.1f", rate);
    if (p && isfinite(p->loss) && p->step)
        str_format(loss, sizeof loss, "%.4f", p->loss);
    if (p && isfinite(p->eta_s) && p->eta_s > 0)
        output_duration(p->eta_s, left, sizeof left);
    printf(JOB_ROW, job->id, job->kind, brr_job_state_name((int)job->state), *job->device_name ? job->device_name : "-",
           steps_text(job, steps), age_text(job->created_ms, age), loss, left,
           output_probability(result_figure(job, "event_f1"), f1), false_alarms, strcmp(job->name, job->kind) ? job->name : "");
    if (*job->reason && strcmp(job->reason, brr_job_state_name((int)job->state)) != 0)
        printf("%24s %s\n", "", job->reason);
    if (job->n_beside)
        printf("%24s shares %s with %s, by turns\n", "", job->device_name,
               output_names(job->beside, job->n_beside, "", beside, sizeof beside));
}

/* One member of a result; false for what is no plain figure or text. */
static bool print_member(const char *key, int indent, const struct json *value) {
    char figure[32];
    const enum json_kind kind = json_kind(value);
    if (kind == JSON_KIND_STRING)
        printf("%*s%-*s %s\n", indent, "", 28 - indent, key, json_str(value, ""));
    else if (kind == JSON_KIND_INTEGER)
        printf("%*s%-*s %lld\n", indent, "", 28 - indent, key, (long long)json_i64(value, 0));
    else if (kind == JSON_KIND_REAL)
        printf("%*s%-*s %s\n", indent, "", 28 - indent, key, output_figure(json_f64(value, NAN), figure, sizeof figure));
    else
        return false;
    return true;
}

/* A table of figures, such as scores of other rules; anything deeper is for --json. */
static void print_figures(const char *name, const struct json *table) {
    struct json_cursor at = {0}, check = {0};
    const struct json *value;
    const char *key;
    bool figures = json_kind(table) == JSON_KIND_OBJECT && json_count(table);
    while (figures && json_next(table, &check, &key, &value))
        figures = json_kind(value) == JSON_KIND_REAL || json_kind(value) == JSON_KIND_INTEGER;
    if (!figures)
        return;
    printf("  %s\n", name);
    while (json_next(table, &at, &key, &value))
        print_member(key, 4, value);
}

static void print_result(const char *text) {
    struct json_cursor at = {0};
    OWNED_POINTER(json_free) struct json *result = NULL;
    const struct json *value;
    const char *key;
    if (!*text || json_parse(text, strlen(text), "result", &result, NULL))
        return;
    while (json_next(result, &at, &key, &value))
        if (!print_member(key, 2, value))
            print_figures(key, value);
}

static void print_time(const char *what, int64_t time_ms) {
    char when[32];
    if (time_ms > 0)
        printf("%-11s %s\n", what, output_time(time_ms, when, sizeof when));
}

static void print_text(const char *what, const char *text) {
    if (*text)
        printf("%-11s %s\n", what, text);
}

static void print_details(const void *message) {
    const Brr__V1__Job *job = message;
    char steps[48], beside[200];
    printf("%s\n", job->id);
    print_text("name", job->name);
    print_text("kind", job->kind);
    print_text("owner", job->owner);
    print_text("state", brr_job_state_name((int)job->state));
    if (job->queue_position > 0)
        printf("%-11s %d in the queue\n", "position", job->queue_position);
    print_text("reason", job->reason);
    print_text("steps", steps_text(job, steps));
    print_time("submitted", job->created_ms);
    print_time("started", job->started_ms);
    print_time("ended", job->finished_ms);
    if (job->attempts > 0)
        printf("%-11s %d; restarts after faults %d, after crashes of the daemon %d\n", "attempts", job->attempts,
               job->restarts - job->crashes, job->crashes);
    print_time("waits until", job->retry_ms);
    if (job->energy_joules > 0)
        printf("%-11s %.0f J\n", "energy", job->energy_joules);
    print_text("device", job->device);
    if (job->n_beside)
        print_text("beside", output_names(job->beside, job->n_beside, "", beside, sizeof beside));
    print_text("versions", job->versions);
    if (job->file)
        print_text("job file", job->file->name);
    print_text("folder", job->directory);
    print_text("checkpoint", job->checkpoint);
    if (*job->result_json)
        puts("result");
    print_result(job->result_json);
}

#define LINE_SHARE 0.1 /* between lines of progress, without a terminal */
#define LINE_S     30.0

struct watching {
    FILE *out; /* of the progress */
    bool json, terminal;
    struct brrctl_end *end; /* NULL: the end is printed */
    double shown_share, shown_s;
    int64_t shown_of, at; /* what the last line counts up to; how far the phase has come */
    int attempts;         /* of the phase */
    bool steps;           /* it counts the steps of the job, which no validation ends */
    Brr__V1__JobState state;
    char phase[24], note[256]; /* shown last, as the share, the time and the state */
    int exit;
};

/* Further figures: the running loss, the pace, those of the kind, the remaining time. */
static void put_figures(struct str *line, const Brr__V1__Progress *p) {
    char eta[32], figure[32];
    if (!isnan(p->loss))
        str_printf(line, "  loss %.4f", p->loss);
    if (!isnan(p->windows_per_second))
        str_printf(line, "  %.1f windows/s", p->windows_per_second);
    for (size_t i = 0; i < p->n_figures; i++)
        str_printf(line, "  %s %s", p->figures[i]->name, output_figure(p->figures[i]->value, figure, sizeof figure));
    if (!isnan(p->eta_s))
        str_printf(line, "  left %s", output_duration(p->eta_s, eta, sizeof eta));
}

/* Without a terminal, a line for each state. */
static void show_state(struct watching *w, const Brr__V1__Job *job) {
    if (w->terminal || w->state == job->state)
        return;
    fprintf(w->out, "%s %s%s%s\n", job->id, brr_job_state_name((int)job->state), *job->reason ? ": " : "", job->reason);
    fflush(w->out);
    w->state = job->state;
}

/* Prints the last line of a phase that has ended, where less was shown: all files, unless a new attempt began, or the steps that
 * were done. */
static void end_phase(struct watching *w, const Brr__V1__Job *job) {
    char bar[OUTPUT_BAR_SIZE];
    const bool same = job->attempts == w->attempts, steps = w->steps && job->progress && job->progress->step <= w->shown_of;
    const int64_t of = w->shown_of, at = !same ? w->at : !w->steps ? of : steps ? job->progress->step : w->at;
    const double share = of ? (double)at / (double)of : 0;
    if (!w->terminal && *w->phase && share > w->shown_share)
        fprintf(w->out, "%-8s %s %lld/%lld\n", w->phase, output_bar(share, bar), (long long)at, (long long)of);
    w->shown_of = 0;
}

/* Without a terminal, a line at a new phase, then each tenth or each half minute, and at the phase's end.
 * A phase counts files or recordings (total), or it is the job's steps. */
static void draw(struct watching *w, const Brr__V1__Job *job) {
    const Brr__V1__Progress *p = job->progress;
    bool steps = !p->total && p->steps;
    int64_t at = steps ? p->step : p->done, of = steps ? p->steps : p->total;
    double share = of ? (double)at / (double)of : 0;
    char bar[OUTPUT_BAR_SIZE];
    struct str line = str_of(255);
    if (strcmp(w->phase, p->phase) != 0)
        end_phase(w, job);
    output_bar(share, bar);
    str_printf(&line, "%-8s %s %lld/%lld", *p->phase ? p->phase : brr_job_state_name((int)job->state), bar, (long long)at,
               (long long)of);
    if (steps)
        put_figures(&line, p);
    if (w->terminal) {
        output_progress(w->out, str_cstr(&line));
    } else if (strcmp(w->phase, p->phase) || share >= w->shown_share + LINE_SHARE || clock_s() - w->shown_s >= LINE_S) {
        fprintf(w->out, "%s\n", str_cstr(&line));
        fflush(w->out);
        w->shown_share = share;
        w->shown_s = clock_s();
        w->shown_of = of;
    }
    str_done(&line);
    w->at = at;
    w->steps = steps;
    w->attempts = job->attempts;
    str_copy(w->phase, sizeof w->phase, p->phase);
}

/* The result in a few words, as its kind puts them; "" when there is none. */
static const char *summary_of(const Brr__V1__Job *job, char buf[200]) {
    const struct task_kind *kind = task_kind_find(job->kind);
    OWNED_POINTER(json_free) struct json *result = NULL;
    *buf = '\0';
    if (kind && kind->summary && *job->result_json &&
        !json_parse(job->result_json, strlen(job->result_json), "result", &result, NULL))
        kind->summary(result, buf, 200);
    return buf;
}

/* Suggests the next command for the result of a job. */
static void print_next(const Brr__V1__Job *job) {
    if (!strcmp(job->kind, "train") && *job->checkpoint)
        printf("next: brrctl detect RECORDINGS --model job:%s --out DIR, or brrctl load NAME job:%s\n", job->id, job->id);
    else if (!strcmp(job->kind, "detect"))
        printf("next: brrctl detect job:%s --out DIR\n", job->id);
    else if (!strcmp(job->kind, "geodesic") && *job->checkpoint)
        printf("next: brrctl geodesic predict job:%s --at C --csv FILE\n", job->id);
}

/* The last line of an interrupted job. */
static void print_way_on(const Brr__V1__Job *job) {
    const Brr__V1__Progress *p = job->progress;
    fflush(stdout);
    if (p && p->steps)
        fprintf(stderr, "interrupted at step %lld of %lld; go on with brrctl resume %s\n", (long long)p->step, (long long)p->steps,
                job->id);
    else
        fprintf(stderr, "interrupted; go on with brrctl resume %s\n", job->id);
}

static int exit_of_state(Brr__V1__JobState state) {
    if (state == BRR__V1__JOB_STATE__JOB_STATE_INTERRUPTED)
        return EXIT_AGAIN;
    return state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED ? 0 : EXIT_FAILED;
}

static void print_outcome(struct watching *w, const Brr__V1__Job *job) {
    if (w->json) {
        output_message(&job->base, "job=id kind " OUTCOME);
        return;
    }
    char summary[200];
    if (job->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED)
        end_phase(w, job);
    const char *said = *job->reason ? job->reason : summary_of(job, summary);
    output_clear();
    printf("%s %s%s%s\n", job->id, brr_job_state_name((int)job->state), *said ? ": " : "", said);
    print_result(job->result_json);
    print_text("folder", job->directory);
    print_text("checkpoint", job->checkpoint);
    if (job->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED)
        print_next(job);
}

static void print_end(struct watching *w, const Brr__V1__Job *job) {
    w->exit = exit_of_state(job->state);
    print_outcome(w, job);
    if (w->exit == EXIT_AGAIN)
        print_way_on(job);
}

/* Prints the warnings of the daemon about a running job, once. */
static void show_note(struct watching *w, const Brr__V1__Job *job) {
    char note[sizeof w->note];
    str_copy(note, sizeof note, job->reason);
    if (job->state != BRR__V1__JOB_STATE__JOB_STATE_RUNNING || !*note || !strcmp(note, w->note))
        return;
    str_copy(w->note, sizeof w->note, note);
    output_clear();
    fprintf(stderr, "brrctl: note: %s\n", job->reason);
}

static void keep_end(struct watching *w, const Brr__V1__Job *job) {
    w->exit = 0;
    w->end->state = job->state;
    str_copy(w->end->reason, sizeof w->end->reason, job->reason);
    str_copy(w->end->result, sizeof w->end->result, job->result_json);
    output_clear();
}

static bool on_update(void *ctx, const void *message) {
    struct watching *w = ctx;
    const Brr__V1__JobUpdate *u = message;
    if (!u->job)
        return true;
    show_note(w, u->job);
    if (!w->json && !u->final)
        show_state(w, u->job);
    if (w->json && !u->final && !w->end)
        output_message(&u->job->base, fields);
    else if (!w->json && u->job->progress && !u->final)
        draw(w, u->job);
    if (u->final && w->end)
        keep_end(w, u->job);
    else if (u->final)
        print_end(w, u->job);
    return !u->final;
}

static int follow_job(const struct arguments *o, const char *id, struct watching *w) {
    Brr__V1__WatchJobRequest in = BRR__V1__WATCH_JOB_REQUEST__INIT;
    static char detached[256];
    in.id = (char *)(uintptr_t)id;
    str_format(detached, sizeof detached, "%sbrrctl: detached; %s goes on, and `brrctl watch %s` shows it again\n",
               w->terminal ? "\n" : "", id, id);
    interrupt_detach(detached);
    int code = brrctl_follow(o, "/brr.v1.Jobs/Watch", &in.base, on_update, w);
    return code ? code : w->exit;
}

static int watch_job(const struct arguments *o, const char *id) {
    struct watching w = {.out = stdout, .json = o->json, .terminal = output_redraws(stdout), .exit = EXIT_FAILED};
    return follow_job(o, id, &w);
}

int brrctl_watch(const struct arguments *o, const char *id, struct brrctl_end *ret) {
    struct watching w = {.out = stderr, .json = o->json, .terminal = output_redraws(stderr), .end = ret, .exit = EXIT_FAILED};
    return follow_job(o, id, &w);
}

/* Whether it will take longer than its limit and what it costs, measured before it runs; NULL when nobody can tell. Sets *ret_exit
 * if the job is refused; what else is wrong with the file or the daemon is for Submit to say. */
static Brr__V1__ValidateResponse *ask_limit(const struct arguments *o, Brr__V1__JobFile *file, int *ret_exit) {
    Brr__V1__ValidateRequest in = BRR__V1__VALIDATE_REQUEST__INIT;
    OWNED_POINTER(brr_disconnect) brr_client *client = NULL;
    struct brr_error err = {0};
    in.file = file;
    in.limit_only = true;
    Brr__V1__ValidateResponse *out =
        brrctl_open(o, &client, &err) ? NULL : brrctl_ask_within(client, "/brr.v1.Jobs/Validate", &in.base, ESTIMATE_MS, &err);
    if (!out && (!strcmp(err.reason, "OVER_BUDGET") || !strcmp(err.reason, "EPOCH_TOO_SMALL")))
        *ret_exit = brrctl_fail_call(&err);
    return out;
}

/* "train-260131-1", with or without a line end. */
static bool is_id(const char *text) {
    size_t len = strcspn(text, "\n");
    return len && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == len && memchr(text, '-', len) && text[len - 1] >= '0' &&
           text[len - 1] <= '9' && strspn(text + len, "\n") == strlen(text + len);
}

/* --id-file replaces an existing file only if it holds nothing but an id, as an earlier run left it. */
static int check_id_file(const char *path, struct err *err) {
    enum { ID_BYTES = 64 };
    OWNED_MEMORY char *text = NULL;
    size_t len;
    if (!path || !fsio_exists(path) || (!fsio_read(path, ID_BYTES, &text, &len, NULL) && (!len || is_id(text))))
        return 0;
    return err_set(err, ERR_EXISTS, "--id-file %.300s exists and holds something else than the id of a job; name another file",
                   path);
}

int brrctl_queue(const struct arguments *o, Brr__V1__JobFile *file, const char *id_file, char *id, size_t id_size) {
    Brr__V1__SubmitRequest in = BRR__V1__SUBMIT_REQUEST__INIT;
    struct err err;
    int code = EXIT_FAILED;
    if (check_id_file(id_file, &err))
        return brrctl_fail(&err);
    in.file = file;
    OWNED_ANSWER Brr__V1__SubmitResponse *out = brrctl_call(o, "/brr.v1.Jobs/Submit", &in.base, &code);
    if (!out)
        return code;
    for (size_t i = 0; i < out->n_notices; i++)
        fprintf(stderr, "brrctl: note: %s\n", out->notices[i]);
    str_copy(id, id_size, out->job->id);
    if (!id_file || !fsio_write_atomic(id_file, id, strlen(id), &err))
        return 0;
    fprintf(stderr, "brrctl: job %s was queued nevertheless\n", id);
    return brrctl_fail(&err);
}

static int queue_file(const struct arguments *o, char *id, size_t id_size) {
    struct brrctl_job_file file;
    struct err err;
    if (brrctl_job_file_open(&file, o, &err))
        return brrctl_fail(&err);
    char money[200];
    int code = 0;
    const bool asks = !own(o)->watch || file.budget; /* with --watch the running job reports its limit */
    Brr__V1__ValidateResponse *limit = asks ? ask_limit(o, &file.message, &code) : NULL;
    if (!code)
        code = brrctl_queue(o, &file.message, own(o)->id_file, id, id_size);
    brrctl_job_file_hint(o, code);
    for (size_t i = 0; !code && limit && i < limit->n_notices; i++)
        fprintf(stderr, "brrctl: note: %s\n", limit->notices[i]);
    if (!code && limit && *brrctl_cost(limit, 1, money, sizeof money))
        fprintf(stderr, "brrctl: note: %s\n", money);
    if (!code && !limit && file.budget)
        fprintf(stderr, "brrctl: note: limits.cost is not checked: there was no estimate within %d s\n", ESTIMATE_MS / 1000);
    brr__v1__validate_response__free_unpacked(limit, NULL);
    brrctl_job_file_done(&file);
    return code;
}

static int cmd_submit(const struct arguments *o) {
    char id[64] = "";
    if (own(o)->after && !strchr(own(o)->after, '-')) { /* "" and null would be no wait at all */
        fprintf(stderr, "brrctl: --after: '%s' is not the id of a job\n", own(o)->after);
        return EXIT_USAGE;
    }
    int code = queue_file(o, id, sizeof id);
    if (code)
        return code;
    if (o->json && !own(o)->watch)
        printf("{\"job\":\"%s\",\"state\":\"queued\"}\n", id);
    else if (!o->json)
        printf("%s queued; %s`brrctl watch %s` follows it\n", id, own(o)->watch ? "Ctrl-C detaches without cancelling it; " : "",
               id);
    fflush(stdout);
    return own(o)->watch ? watch_job(o, id) : 0;
}

static int cmd_watch(const struct arguments *o) { return watch_job(o, o->args[0]); }

/* The best first; jobs without a score last. */
static int by_f1(const void *a, const void *b) {
    const double x = result_figure(*(Brr__V1__Job *const *)a, "event_f1"), y = result_figure(*(Brr__V1__Job *const *)b, "event_f1");
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x < y) - (x > y);
}

static int cmd_jobs(const struct arguments *o) {
    static const struct brrctl_view view = {.json = fields, .print = print_row, .none = "no jobs; `brrctl submit FILE` queues one"};
    int code = 0;
    Brr__V1__ListJobsRequest in = BRR__V1__LIST_JOBS_REQUEST__INIT;
    OWNED_ANSWER Brr__V1__ListJobsResponse *out = brrctl_call(o, "/brr.v1.Jobs/List", &in.base, &code);
    if (!out)
        return code;
    if (own(o)->sort && out->n_jobs)
        qsort(out->jobs, out->n_jobs, sizeof *out->jobs, by_f1);
    if (!o->json && out->n_jobs)
        printf(JOB_ROW, "job", "kind", "state", "device", "steps", "age", "loss", "left", "F1", "FA/24h", "name");
    brrctl_show_items(o, &view, (void *const *)out->jobs, out->n_jobs);
    return 0;
}

static void print_cancelled(const void *message) {
    const Brr__V1__Job *job = message;
    printf("%s %s\n", job->id,
           ended(job) ? brr_job_state_name((int)job->state) : "is being cancelled; `brrctl job` shows when it has ended");
}

static void print_deleted(const void *message) { printf("%s deleted\n", ((const Brr__V1__Job *)message)->id); }
static void print_state(const void *message) {
    const Brr__V1__Job *job = message;
    printf("%s %s%s%s\n", job->id, brr_job_state_name((int)job->state), *job->reason ? ": " : "", job->reason);
}

/* Commands that answer with the job. */
static int one_job(const struct arguments *o, const char *path, const ProtobufCMessage *in, void (*print)(const void *job)) {
    return brrctl_show(o, path, in, &(struct brrctl_view){.json = fields, .print = print});
}

static int print_curves(const struct arguments *o) {
    OWNED(course_done) struct course course = {.whole = true};
    int code = curves_fetch(o, o->args[0], &course);
    if (!code)
        curves_print_csv(&course, stdout);
    return code;
}

static int cmd_job(const struct arguments *o) {
    if (own(o)->csv)
        return print_curves(o);
    Brr__V1__GetJobRequest in = BRR__V1__GET_JOB_REQUEST__INIT;
    in.id = (char *)(uintptr_t)o->args[0];
    return one_job(o, "/brr.v1.Jobs/Get", &in.base, print_details);
}

/* Each of them is tried; the exit code is that of the first that failed. */
static int cmd_cancel(const struct arguments *o) {
    int first = 0;
    for (int i = 0; i < o->n_args; i++) {
        Brr__V1__CancelJobRequest in = BRR__V1__CANCEL_JOB_REQUEST__INIT;
        in.id = (char *)(uintptr_t)o->args[i];
        in.now = own(o)->now;
        const int code = one_job(o, "/brr.v1.Jobs/Cancel", &in.base, print_cancelled);
        first = first ? first : code;
    }
    return first;
}

/* Models that serve and come from the job: they go on. Without a daemon the deletion says so. */
static void tell_served(const struct arguments *o, const char *id) {
    const Brr__V1__ListModelsRequest in = BRR__V1__LIST_MODELS_REQUEST__INIT;
    OWNED_POINTER(brr_disconnect) brr_client *client = NULL;
    struct brr_error err;
    char ref[80];
    size_t len = (size_t)snprintf(ref, sizeof ref, "job:%.64s", id);
    if (brrctl_open(o, &client, &err))
        return;
    OWNED_ANSWER Brr__V1__ListModelsResponse *out = brrctl_ask(client, "/brr.v1.Models/List", &in.base, &err);
    if (!out)
        fprintf(stderr, "brrctl: note: models that serve may be of job %s; the daemon did not list them: %s\n", id, err.message);
    for (size_t i = 0; out && i < out->n_models; i++) {
        const Brr__V1__ModelDescription *m = out->models[i];
        if (!strncmp(m->ref, ref, len) && (!m->ref[len] || m->ref[len] == '@'))
            fprintf(stderr,
                    "brrctl: note: the model %s is of job %s; it goes on serving from a copy, and `brrctl models %s` keeps telling "
                    "where it comes from\n",
                    m->name, id, m->name);
    }
}

static int cmd_delete(const struct arguments *o) {
    tell_served(o, o->args[0]);
    Brr__V1__DeleteJobRequest in = BRR__V1__DELETE_JOB_REQUEST__INIT;
    in.id = (char *)(uintptr_t)o->args[0];
    return one_job(o, "/brr.v1.Jobs/Delete", &in.base, print_deleted);
}

static int cmd_resume(const struct arguments *o) {
    Brr__V1__ResumeJobRequest in = BRR__V1__RESUME_JOB_REQUEST__INIT;
    in.id = (char *)(uintptr_t)o->args[0];
    in.overrides = (char **)(uintptr_t)own(o)->set.items;
    in.n_overrides = (size_t)own(o)->set.n;
    return one_job(o, "/brr.v1.Jobs/Resume", &in.base, print_state);
}

static bool on_line(void *ctx, const void *message) {
    const Brr__V1__LogLine *line = message;
    if (*(const bool *)ctx)
        output_message(&line->base, "time_ms level text");
    else {
        char when[32];
        bool plain = !*line->level || !strcmp(line->level, "info");
        printf("%s  %s%s%s\n", output_time(line->time_ms, when, sizeof when), plain ? "" : line->level, plain ? "" : ": ",
               line->text);
        fflush(stdout);
    }
    return true;
}

static int cmd_logs(const struct arguments *o) {
    Brr__V1__JobLogsRequest in = BRR__V1__JOB_LOGS_REQUEST__INIT;
    bool json = o->json;
    in.id = (char *)(uintptr_t)o->args[0];
    in.follow = own(o)->follow;
    in.tail = own(o)->tail > 0 ? (int32_t)own(o)->tail : 0;
    return brrctl_follow(o, "/brr.v1.Jobs/Logs", &in.base, on_line, &json);
}

BRRCTL_COMMAND(
    submit, "FILE", ARGUMENTS(submit_rows), cmd_submit, "queue a job file",
    "Relative paths in FILE are relative to its folder, paths in --set to the working directory. data.source is a path here "
    "only\n"
    "with file:// (file://eeg); without, it is a folder below paths.data of the daemon. With --watch the exit code is that of\n"
    "`brrctl watch`.\n"
    "example: brrctl submit configs/tiny.yaml --set data.source=file:///data/eeg --watch");

BRRCTL_COMMAND(jobs, "", ARGUMENTS(jobs_rows), cmd_jobs, "list jobs, newest first, with their scores",
               "F1 and FA/24h: event F1 and false alarms in 24 h of trainings and evaluations, on the recordings that each of them "
               "scored.\n"
               "example: brrctl jobs --sort f1");

BRRCTL_COMMAND(job, "ID", ARGUMENTS(job_rows), cmd_job, "show one job, or its curves as CSV",
               "ID: the id, or the first characters of it that no other job has (also for watch, logs, cancel and resume).\n"
               "example: brrctl job train-260131-1\n"
               "example: brrctl job train-260131-1 --csv > curves.csv");

BRRCTL_COMMAND(
    watch, "ID", &arguments_none, cmd_watch, "follow a job to its end; Ctrl-C detaches",
    "Exit 0 when it succeeded, 75 when it was interrupted and can be resumed, else 1.\nexample: brrctl watch train-260131-1");

BRRCTL_COMMAND(logs, "ID", ARGUMENTS(logs_rows), cmd_logs, "print the log of a job",
               "example: brrctl logs train-260131-1 --follow");

BRRCTL_COMMAND(cancel, "ID…", ARGUMENTS(cancel_rows), cmd_cancel, "cancel jobs; running ones save first, and checkpoints stay",
               "example: brrctl cancel train-260131-1");

BRRCTL_COMMAND(delete, "ID", &arguments_none, cmd_delete, "delete a job that has ended, with its checkpoints and its folder",
               "Refused while a checkpoint is pinned or serves, or a job that has not ended names one.\n"
               "example: brrctl delete train-260131-1");

BRRCTL_COMMAND(resume, "ID", ARGUMENTS(resume_rows), cmd_resume, "queue an interrupted, failed or cancelled job again",
               "The job continues from its newest valid checkpoint; only limits.* may change, and after to null.\n"
               "example: brrctl resume train-260131-1 --set limits.wall_clock=24h");
