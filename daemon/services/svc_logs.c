/* brr.v1.Jobs/Logs: a job's log.txt as lines, and those that come while the job lives. The file is read on libuv's thread pool. */
#include "brr/v1/jobs.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

enum { POLL_MS = 250, CHUNK_BYTES = 64 * 1024, TAIL_BYTES = 4 << 20 };

struct follow {
    struct offload work;
    char id[JOB_ID_SIZE], path[4096];
    int tail; /* lines before the end to begin with; 0 = all */
    int64_t at;
    ssize_t got;             /* bytes of the last read */
    bool follow, full, last; /* last: the log was complete before the last read began */
    char text[CHUNK_BYTES];  /* the line under construction, and what follows it */
    size_t len;
};

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
    return convert_send(f->work.call, &out.base);
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

/* The next part of the file, behind what is in the buffer. On the pool. */
static void read_part(struct offload *work) {
    struct follow *f = (struct follow *)work;
    f->got = 0;
    if (work->fd < 0) {
        work->fd = open(f->path, O_RDONLY | O_CLOEXEC);
        if (work->fd < 0 && errno != ENOENT)
            err_errno(&work->err, errno, "cannot open %s", f->path);
        if (work->fd >= 0 && f->tail > 0)
            f->at = tail_start(work->fd, f->tail);
        f->tail = 0; /* of a file that is made later all lines are new */
    }
    if (work->fd >= 0)
        f->got = pread(work->fd, f->text + f->len, sizeof f->text - f->len, f->at);
    if (f->got < 0)
        err_errno(&work->err, errno, "cannot read %s", f->path);
}

static void on_part(struct offload *work);

static void read_on(struct follow *f) {
    struct services *services = services_of(f->work.call);
    const struct job *job = sched_get(services->sched, f->id);
    bool over = !f->follow || !job || job_is_over(job->state);
    f->last = over && joblog_written(services->joblog);
    offload_start(&f->work, read_part, on_part);
}

static void on_part(struct offload *work) {
    struct follow *f = (struct follow *)work;
    if (!offload_good(work))
        return;
    if (f->got > 0) {
        f->at += f->got;
        f->len += (size_t)f->got;
        send_lines(f);
        if (!f->full)
            read_on(f);
    } else if (f->last) {
        rpc_finish(work->call, NULL);
    }
}

static void log_look(struct rpc_call *call) {
    struct follow *f = rpc_state(call);
    if (!f->work.working && !f->full)
        read_on(f);
}

static int logs(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__JobLogsRequest *in = message;
    const struct job *job = NULL;
    rpc_concerns(call, "job", in->id);
    int rc = services_find_job(call, in->id, &job, err);
    if (rc)
        return rc;
    struct follow *f = offload_new(call, OFFLOAD_LOGS, sizeof *f, NULL, err);
    if (!f)
        return err->code;
    COPY_MEMBERS(*f, *in, follow, tail);
    str_copy(f->id, sizeof f->id, job->id);
    str_format(f->path, sizeof f->path, "%s/log.txt", job->directory);
    rpc_tick(call, 0, POLL_MS, log_look);
    return 0;
}

static void logs_writable(struct rpc_call *call) {
    struct follow *f = rpc_state(call);
    if (!f)
        return;
    f->full = false;
    send_lines(f);
    if (!f->full && !f->work.working)
        read_on(f);
}

const struct rpc_method svc_logs[] = {
    {RPC_METHOD("/brr.v1.Jobs/Logs", ROLE_READ, brr__v1__job_logs_request, logs), .writable = logs_writable, .end = offload_end},
    {.path = NULL},
};
