/* Job commands: submit, jobs, job, watch, logs, cancel, resume. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/json.h"
#include "base/str.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/brrctl.h"

enum { JOB_FILE_MAX = 200 * 1024, BAR_WIDTH = 30 };

static const char *state_name(int state) {
    static const char *const names[] = {"unknown",   "queued", "preparing", "running",    "checkpointing",
                                        "succeeded", "failed", "cancelled", "interrupted"};
    return state >= 0 && state < 9 ? names[state] : names[0];
}

static void *pack(const ProtobufCMessage *m, size_t *ret_len) {
    *ret_len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(*ret_len + 1);
    if (bytes)
        protobuf_c_message_pack(m, bytes);
    return bytes;
}

/* One unary call; the answer as a message, or NULL after printing why. */
static void *call(const char *method, const ProtobufCMessage *in, const ProtobufCMessageDescriptor *out, int *ret_exit) {
    struct conn *conn = brrctl_connect(ret_exit);
    struct err err = {0};
    size_t len, answer_len = 0;
    uint8_t *request = pack(in, &len), *answer = NULL;
    void *message = NULL;
    if (conn && request) {
        if (conn_call(conn, method, request, len, &answer, &answer_len, &err))
            *ret_exit = brrctl_fail(&err);
        else if (!(message = protobuf_c_message_unpack(out, NULL, answer_len, answer)))
            *ret_exit = EXIT_FAILED;
    }
    free(request);
    free(answer);
    conn_close(conn);
    return message;
}

static void put_job(struct json_writer *w, const Brr__V1__Job *job) {
    json_begin_object(w, NULL);
    json_put_str(w, "job", job->id);
    json_put_str(w, "kind", job->kind);
    json_put_str(w, "name", job->name);
    json_put_str(w, "state", state_name((int)job->state));
    json_put_str(w, "reason", job->reason);
    json_put_str(w, "checkpoint", *job->checkpoint ? job->checkpoint : NULL);
    json_put_raw(w, "result", *job->result_json ? job->result_json : "{}");
    if (job->progress) {
        json_put_i64(w, "step", job->progress->step);
        json_put_i64(w, "steps", job->progress->steps);
        json_put_f64(w, "loss", job->progress->loss);
    }
    json_put_i64(w, "queue_position", job->queue_position);
    json_end(w, '}');
}

static void print_json(const Brr__V1__Job *job) {
    struct str s;
    struct json_writer w;
    str_init(&s, 1 << 20);
    json_writer_init(&w, &s);
    put_job(&w, job);
    puts(str_cstr(&s));
    fflush(stdout);
    str_done(&s);
}

static void print_row(const Brr__V1__Job *job) {
    const Brr__V1__Progress *p = job->progress;
    char steps[48] = "";
    if (p && p->steps)
        str_format(steps, sizeof steps, "%lld/%lld", (long long)p->step, (long long)p->steps);
    printf("%-24s %-9s %-12s %-14s %s%s\n", job->id, job->kind, state_name((int)job->state), steps, job->name,
           *job->reason ? "  " : "");
    if (*job->reason)
        printf("%24s %s\n", "", job->reason);
}

static void format_eta(double seconds, char *buf, size_t size) {
    if (!(seconds >= 0))
        str_copy(buf, size, "?");
    else if (seconds < 3600)
        str_format(buf, size, "%d:%02d", (int)seconds / 60, (int)seconds % 60);
    else
        str_format(buf, size, "%d h %02d min", (int)seconds / 3600, (int)seconds / 60 % 60);
}

struct watching {
    bool json, terminal;
    int64_t shown_step;
    char phase[24];
    Brr__V1__Job *final;
};

static void draw(struct watching *w, const Brr__V1__Job *job) {
    const Brr__V1__Progress *p = job->progress;
    bool training = !strcmp(p->phase, "train");
    int64_t at = training ? p->step : p->done, of = training ? p->steps : p->total;
    double share = of ? (double)at / (double)of : 0;
    char line[256], bar[BAR_WIDTH + 1], eta[32];
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    format_eta(p->eta_s, eta, sizeof eta);
    if (training)
        str_format(line, sizeof line, "%-8s [%s] %lld/%lld  loss %.4f  %.1f windows/s  left %s", p->phase, bar, (long long)at,
                   (long long)of, p->loss, p->windows_per_second, eta);
    else
        str_format(line, sizeof line, "%-8s [%s] %lld/%lld", *p->phase ? p->phase : state_name((int)job->state), bar, (long long)at,
                   (long long)of);
    if (w->terminal) {
        printf("\r\033[K%s", line);
    } else if (strcmp(w->phase, p->phase) || (training && p->step / 20 != w->shown_step / 20)) {
        puts(line);
    }
    str_copy(w->phase, sizeof w->phase, p->phase);
    w->shown_step = p->step;
    fflush(stdout);
}

static int on_update(void *ctx, const uint8_t *data, size_t len) {
    struct watching *w = ctx;
    Brr__V1__JobUpdate *u = brr__v1__job_update__unpack(NULL, len, data);
    if (!u || !u->job)
        return 0;
    if (w->json && !u->final)
        print_json(u->job);
    else if (!w->json && u->job->progress && !u->final)
        draw(w, u->job);
    if (u->final) {
        w->final = u->job;
        u->job = NULL;
    }
    brr__v1__job_update__free_unpacked(u, NULL);
    return 0;
}

static void print_end(const struct watching *w) {
    const Brr__V1__Job *job = w->final;
    if (w->json) {
        struct str s;
        struct json_writer out;
        str_init(&s, 1 << 20);
        json_writer_init(&out, &s);
        json_begin_object(&out, NULL);
        json_put_str(&out, "job", job->id);
        json_put_str(&out, "kind", job->kind);
        json_put_str(&out, "state", state_name((int)job->state));
        json_put_str(&out, "reason", job->reason);
        json_put_str(&out, "checkpoint", *job->checkpoint ? job->checkpoint : NULL);
        json_put_raw(&out, "result", *job->result_json ? job->result_json : "{}");
        json_end(&out, '}');
        puts(str_cstr(&s));
        str_done(&s);
        return;
    }
    printf("%s%s %s%s%s\n", w->terminal ? "\r\033[K" : "", job->id, state_name((int)job->state), *job->reason ? ": " : "",
           job->reason);
    if (*job->result_json)
        printf("result     %s\n", job->result_json);
    if (*job->checkpoint)
        printf("checkpoint %s\n", job->checkpoint);
}

static int watch_job(const struct options *o, const char *id) {
    int code = 0;
    struct conn *conn = brrctl_connect(&code);
    struct err err = {0};
    struct watching w = {.json = o->json, .terminal = isatty(STDOUT_FILENO)};
    Brr__V1__WatchJobRequest in = BRR__V1__WATCH_JOB_REQUEST__INIT;
    size_t len;
    in.id = (char *)(uintptr_t)id;
    uint8_t *request = pack(&in.base, &len);
    if (conn && request && conn_stream(conn, "/brr.v1.Jobs/Watch", request, len, on_update, &w, &err))
        code = brrctl_fail(&err);
    free(request);
    conn_close(conn);
    if (!w.final)
        return code ? code : EXIT_FAILED;
    print_end(&w);
    bool kept = w.final->state == BRR__V1__JOB_STATE__JOB_STATE_INTERRUPTED && *w.final->checkpoint;
    code = w.final->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED || kept ? 0 : EXIT_FAILED;
    brr__v1__job__free_unpacked(w.final, NULL);
    return code;
}

/* Local paths travel absolute: "data.source=file://rel" is relative to the working directory. */
static char *absolute_override(const char *assignment) {
    const char *const keys[] = {"data.source=file://", "model.init_from="};
    char path[4096], *out = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *rest = assignment + strlen(keys[i]);
        if (!str_starts(assignment, keys[i]) || *rest == '/' || !*rest || str_starts(rest, "job:"))
            continue;
        if (!fsio_absolute(path, sizeof path, rest, NULL) && asprintf(&out, "%s%s", keys[i], path) >= 0)
            return out;
    }
    return strdup(assignment);
}

static int queue_file(const struct options *o, char *text, char *id, size_t id_size) {
    int code = EXIT_FAILED;
    char *overrides[66] = {NULL}, name[256];
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    Brr__V1__SubmitRequest in = BRR__V1__SUBMIT_REQUEST__INIT;
    for (int i = 0; i < o->n_set; i++)
        overrides[file.n_overrides++] = absolute_override(o->set[i]);
    if (o->name && str_format(name, sizeof name, "name=%s", o->name))
        overrides[file.n_overrides++] = strdup(name);
    file.yaml = text;
    file.name = (char *)(uintptr_t)o->args[0];
    file.overrides = overrides;
    in.file = &file;
    Brr__V1__SubmitResponse *out = call("/brr.v1.Jobs/Submit", &in.base, &brr__v1__submit_response__descriptor, &code);
    for (size_t i = 0; i < file.n_overrides; i++)
        free(overrides[i]);
    if (!out)
        return code;
    for (size_t i = 0; i < out->n_notices; i++)
        fprintf(stderr, "brrctl: note: %s\n", out->notices[i]);
    str_copy(id, id_size, out->job->id);
    brr__v1__submit_response__free_unpacked(out, NULL);
    return 0;
}

int cmd_submit(const struct options *o) {
    char *text = NULL, id[64] = "";
    size_t len = 0;
    struct err err;
    if (fsio_read(o->args[0], JOB_FILE_MAX, &text, &len, &err))
        return brrctl_fail(&err);
    int code = queue_file(o, text, id, sizeof id);
    free(text);
    if (code)
        return code;
    if (o->id_file && fsio_write_atomic(o->id_file, id, strlen(id), &err))
        return brrctl_fail(&err);
    if (o->watch)
        return watch_job(o, id);
    if (o->json)
        printf("{\"job\":\"%s\",\"state\":\"queued\"}\n", id);
    else
        printf("%s queued; `brrctl watch %s` follows it\n", id, id);
    return 0;
}

int cmd_watch(const struct options *o) { return watch_job(o, o->args[0]); }

int cmd_jobs(const struct options *o) {
    int code = 0;
    Brr__V1__ListJobsRequest in = BRR__V1__LIST_JOBS_REQUEST__INIT;
    Brr__V1__ListJobsResponse *out = call("/brr.v1.Jobs/List", &in.base, &brr__v1__list_jobs_response__descriptor, &code);
    for (size_t i = 0; out && i < out->n_jobs; i++) {
        if (o->json)
            print_json(out->jobs[i]);
        else
            print_row(out->jobs[i]);
    }
    if (out)
        brr__v1__list_jobs_response__free_unpacked(out, NULL);
    return code;
}

/* Commands that take an id and answer with the job. */
static int one_job(const struct options *o, const char *method, const ProtobufCMessage *in) {
    int code = 0;
    Brr__V1__Job *job = call(method, in, &brr__v1__job__descriptor, &code);
    if (!job)
        return code;
    if (o->json)
        print_json(job);
    else
        print_row(job);
    brr__v1__job__free_unpacked(job, NULL);
    return 0;
}

int cmd_job(const struct options *o) {
    Brr__V1__GetJobRequest in = BRR__V1__GET_JOB_REQUEST__INIT;
    in.id = (char *)(uintptr_t)o->args[0];
    return one_job(o, "/brr.v1.Jobs/Get", &in.base);
}

int cmd_cancel(const struct options *o) {
    Brr__V1__CancelJobRequest in = BRR__V1__CANCEL_JOB_REQUEST__INIT;
    in.id = (char *)(uintptr_t)o->args[0];
    return one_job(o, "/brr.v1.Jobs/Cancel", &in.base);
}

int cmd_resume(const struct options *o) {
    Brr__V1__ResumeJobRequest in = BRR__V1__RESUME_JOB_REQUEST__INIT;
    in.id = (char *)(uintptr_t)o->args[0];
    in.overrides = (char **)(uintptr_t)o->set;
    in.n_overrides = (size_t)o->n_set;
    return one_job(o, "/brr.v1.Jobs/Resume", &in.base);
}

static int on_line(void *ctx, const uint8_t *data, size_t len) {
    (void)ctx;
    Brr__V1__LogLine *line = brr__v1__log_line__unpack(NULL, len, data);
    if (line)
        puts(line->text);
    brr__v1__log_line__free_unpacked(line, NULL);
    return 0;
}

int cmd_logs(const struct options *o) {
    int code = 0;
    struct conn *conn = brrctl_connect(&code);
    struct err err = {0};
    Brr__V1__JobLogsRequest in = BRR__V1__JOB_LOGS_REQUEST__INIT;
    size_t len;
    in.id = (char *)(uintptr_t)o->args[0];
    uint8_t *request = pack(&in.base, &len);
    if (conn && request && conn_stream(conn, "/brr.v1.Jobs/Logs", request, len, on_line, NULL, &err))
        code = brrctl_fail(&err);
    free(request);
    conn_close(conn);
    return code;
}
