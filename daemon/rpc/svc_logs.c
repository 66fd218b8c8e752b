/* brr.v1.Jobs/Logs: a job's log.txt as lines, and those that come while the job lives. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/str.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/services.h"

enum { POLL_MS = 250, CHUNK_BYTES = 64 * 1024, TAIL_BYTES = 4 << 20 };

struct follow {
    uv_timer_t timer;
    struct rpc_call *call;
    char id[JOB_ID_SIZE];
    int fd; /* -1 until the file is there */
    int64_t at;
    bool follow, full;
    char text[CHUNK_BYTES]; /* the line under construction, and what follows it */
    size_t len;
};

static struct services *services_of(const struct rpc_call *call) { return rpc_context(call); }

/* "2026-01-01T00:00:00Z info text" as the job's log has it. */
static bool send_line(struct follow *f, char *line) {
    Brr__V1__LogLine out = BRR__V1__LOG_LINE__INIT;
    struct tm utc = {0};
    char *rest = strptime(line, "%Y-%m-%dT%H:%M:%SZ ", &utc);
    out.text = line;
    if (rest) {
        char *text = strchr(rest, ' ');
        out.time_ms = (int64_t)timegm(&utc) * 1000;
        if (text) {
            *text = '\0';
            out.level = rest;
            out.text = text + 1;
        }
    }
    return convert_send(f->call, &out.base);
}

/* Whole lines of the buffer; what is left of the last one stays. */
static void send_lines(struct follow *f) {
    char *start = f->text, *newline;
    while (!f->full && (newline = memchr(start, '\n', f->len - (size_t)(start - f->text)))) {
        *newline = '\0';
        f->full = *start && !send_line(f, start);
        start = newline + 1;
    }
    f->len -= (size_t)(start - f->text);
    memmove(f->text, start, f->len);
    if (f->len == sizeof f->text) /* a line longer than any the daemon writes */
        f->len = 0;
}

/* Everything that is there; false when nothing more was. */
static bool pump(struct follow *f) {
    const struct job *job = sched_get(services_of(f->call)->sched, f->id);
    char path[4096];
    if (f->fd < 0 && job && str_format(path, sizeof path, "%s/log.txt", job->directory))
        f->fd = open(path, O_RDONLY | O_CLOEXEC);
    bool any = false;
    while (f->fd >= 0 && !f->full) {
        ssize_t n = pread(f->fd, f->text + f->len, sizeof f->text - f->len, f->at);
        if (n <= 0)
            break;
        any = true;
        f->at += n;
        f->len += (size_t)n;
        send_lines(f);
    }
    return any;
}

static void finish_if_over(struct follow *f) {
    const struct job *job = sched_get(services_of(f->call)->sched, f->id);
    bool over = !job || job_is_over(job->state);
    if (!f->full && (!f->follow || over))
        rpc_finish(f->call, 0, NULL);
}

static void on_timer(uv_timer_t *timer) {
    struct follow *f = timer->data;
    if (!pump(f))
        finish_if_over(f);
}

/* Where the last `lines` begin, looking back a few megabytes at most. */
static int64_t tail_start(int fd, int lines) {
    int64_t size = lseek(fd, 0, SEEK_END), from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    char *text = lines > 0 && size > 0 ? malloc((size_t)(size - from)) : NULL;
    ssize_t n = text ? pread(fd, text, (size_t)(size - from), from) : 0;
    int64_t at = n > 0 ? n - 1 : 0; /* the last byte ends the last line */
    for (int found = 0; at > 0; at--)
        if (text[at - 1] == '\n' && ++found == lines)
            break;
    free(text);
    return from + at;
}

static void logs(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__JobLogsRequest *in = convert_unpack(call, &brr__v1__job_logs_request__descriptor, data, len);
    const struct job *job = in ? sched_get(services_of(call)->sched, in->id) : NULL;
    struct follow *f = job ? calloc(1, sizeof *f) : NULL;
    char path[4096];
    struct err err;
    if (!in)
        return;
    if (!f) {
        if (job)
            err_set(&err, ERR_EXHAUSTED, "out of memory reading a log");
        else
            err_set(&err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", in->id);
        rpc_finish(call, err.code, &err);
        return;
    }
    f->call = call;
    f->follow = in->follow;
    str_copy(f->id, sizeof f->id, job->id);
    f->fd = str_format(path, sizeof path, "%s/log.txt", job->directory) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (in->tail > 0 && f->fd >= 0)
        f->at = tail_start(f->fd, in->tail);
    uv_timer_init(services_of(call)->loop, &f->timer);
    f->timer.data = f;
    rpc_set_state(call, f);
    uv_timer_start(&f->timer, on_timer, 0, POLL_MS);
}

static void logs_writable(struct rpc_call *call) {
    struct follow *f = rpc_state(call);
    if (!f)
        return;
    f->full = false;
    send_lines(f);
    pump(f);
}

static void on_closed(uv_handle_t *handle) { free(handle->data); }

static void logs_end(struct rpc_call *call) {
    struct follow *f = rpc_state(call);
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    uv_close((uv_handle_t *)&f->timer, on_closed);
}

const struct rpc_method svc_logs[] = {
    {"/brr.v1.Jobs/Logs", ROLE_READ, false, RPC_CONTROL_BYTES, logs, NULL, logs_writable, logs_end},
};
const size_t svc_logs_count = sizeof svc_logs / sizeof *svc_logs;
