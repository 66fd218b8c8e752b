#include "daemon/jobs/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/spawn.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_order.h"
#include "work/report_line.h"

enum { LOOK_MS = 50, END_MS = 10000 /* from the last report to the end of the process */, LINE_BYTES = 4 << 20, TEXT_BYTES = 900 };
enum { LATE_LOOK_MS = 1000 };
enum { LATE_MS = 3 * PROCESS_BEAT_MS /* without a word: the child does not look at its limits any more */ };

struct child {
    const struct runner_owner *owner;
    struct runner_wish *wish;
    pid_t pid;
    int in, out; /* its pipes */
    struct str line;
    struct task_end end;
    bool ended;       /* `end` came */
    bool told;        /* how it is to end */
    int64_t until_ms; /* it is killed then; 0: no limit */
    bool killed;
    int64_t began_ms, looked_ms; /* monotonic */
    int64_t quiet_ms;            /* for which this process looked and the child said nothing */
    int64_t wall_ms, cost_ms;    /* what the attempt may take by its limits */
    enum stop_reason over;       /* it was killed at this limit */
};

static void report(const struct child *c, const struct task_report *what) { c->owner->report(c->owner->ctx, what); }

/* Other lines are of libraries, or of the child's own last words. */
static void on_text(const struct child *c, const char *text) {
    char cut[TEXT_BYTES];
    str_copy(cut, sizeof cut, text);
    if (*cut)
        report(c, &(struct task_report){.kind = TASK_LOG, .level = TASK_WARN, .text = cut});
}

static void on_line(struct child *c) {
    struct report_line line;
    if (report_read(str_cstr(&c->line), c->line.len, &line, NULL)) {
        on_text(c, str_cstr(&c->line));
        return;
    }
    if (line.report.kind == TASK_END) {
        c->end = line.end;
        line.end.result = NULL;
        c->ended = true;
        c->until_ms = clock_ms() + END_MS;
    } else {
        report(c, &line.report);
    }
    report_line_done(&line);
}

static void on_bytes(struct child *c, const char *block, size_t n) {
    for (const char *end; n && (end = memchr(block, '\n', n)); n -= (size_t)(end - block) + 1, block = end + 1) {
        str_append(&c->line, block, (size_t)(end - block));
        on_line(c);
        str_done(&c->line);
        str_init(&c->line, LINE_BYTES);
    }
    str_append(&c->line, block, n);
}

/* Reads what has come, waiting LOOK_MS at most. False: the child has closed its output. */
static bool listen_to(struct child *c) {
    char block[16384];
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    if (poll(&p, 1, LOOK_MS) < 1)
        return true;
    const ssize_t n = read(c->out, block, sizeof block);
    c->quiet_ms = 0;
    if (n > 0)
        on_bytes(c, block, (size_t)n);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Tells the child once how it is to end. */
static void pass_wish(struct child *c) {
    const enum stop_reason why = (enum stop_reason)atomic_load(&c->wish->stop);
    const char letter = (char)('0' + why);
    if (!atomic_load(&c->wish->now) || c->told)
        return;
    c->told = true;
    (void)!write(c->in, &letter, 1);
    if (stop_is_cancel(why))
        c->until_ms = clock_ms() + PROCESS_CANCEL_MS;
}

/* A child that is heard looks at its limits itself. What passes between two looks is LATE_LOOK_MS at most: more than that, this
 * process or the machine was stopped too. */
static void look_at_silence(struct child *c) {
    const int64_t now_ms = clock_ms(), passed_ms = now_ms - c->looked_ms, ran_ms = now_ms - c->began_ms;
    c->looked_ms = now_ms;
    c->quiet_ms += passed_ms < LATE_LOOK_MS ? passed_ms : LATE_LOOK_MS;
    if (c->until_ms || c->quiet_ms < LATE_MS)
        return;
    c->over = ran_ms >= c->cost_ms ? STOP_COST_LIMIT : ran_ms >= c->wall_ms ? STOP_TIME_LIMIT : STOP_NONE;
    if (c->over != STOP_NONE || c->quiet_ms >= PROCESS_QUIET_MS)
        c->until_ms = now_ms - 1;
}

/* The child ended without a last report. */
static void describe_end(struct child *c, int status) {
    const enum stop_reason why = (enum stop_reason)atomic_load(&c->wish->stop);
    struct task_end *end = &c->end;
    end->stopped = why;
    if (stop_is_cancel(why)) {
        end->rc =
            err_set(&end->err, ERR_CANCELLED, "the job's process did not end within %d s and was killed", PROCESS_CANCEL_MS / 1000);
    } else if (c->over != STOP_NONE) {
        end->stopped = c->over;
        end->rc = err_set(&end->err, ERR_CANCELLED, "the job's process was stopped, and was killed at the limit of the job");
    } else if (c->killed) {
        end->rc =
            err_set(&end->err, ERR_UNAVAILABLE,
                    "the job's process said nothing for %d s and was killed; it was stopped (SIGSTOP), or its machine is short "
                    "of memory",
                    PROCESS_QUIET_MS / 1000);
    } else if (WIFSIGNALED(status)) {
        end->rc = err_set(&end->err, ERR_UNAVAILABLE,
                          "the job's process was ended by signal %d (%s); the system's log may say why, such as out of memory",
                          WTERMSIG(status), strsignal(WTERMSIG(status))); /* NOLINT(concurrency-mt-unsafe) */
    } else {
        end->rc = err_set(&end->err, ERR_UNAVAILABLE, "the job's process ended with the exit code %d; see the job's log",
                          WEXITSTATUS(status));
    }
}

static void watch(struct child *c) {
    bool open = true;
    c->began_ms = c->looked_ms = clock_ms();
    for (int status = 0;;) {
        if (open)
            open = listen_to(c);
        else
            poll(NULL, 0, LOOK_MS);
        pass_wish(c);
        look_at_silence(c);
        if (c->until_ms && clock_ms() > c->until_ms && !c->killed) {
            c->killed = true;
            kill(-c->pid, SIGKILL);
        }
        if (waitpid(c->pid, &status, WNOHANG) != c->pid)
            continue;
        while (open && poll(&(struct pollfd){.fd = c->out, .events = POLLIN}, 1, 0) == 1)
            open = listen_to(c);
        kill(-c->pid, SIGKILL); /* what it has started */
        if (!c->ended)
            describe_end(c, status);
        return;
    }
}

static int start(struct child *c, const char *order, struct err *err) {
    const char *const words[] = {"/proc/self/exe", "run", "--order", order, NULL};
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC))
        return err_errno(err, errno, "cannot make a pipe for the process of a job");
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]);
        close(in[1]);
        return err_errno(err, errno, "cannot make a pipe for the process of a job");
    }
    int rc = spawn_start(words, in[0], out[1], &c->pid, err);
    close(in[0]);
    close(out[1]);
    c->in = in[1];
    c->out = out[0];
    return rc;
}

static int run(struct child *c, const struct job_order *order, struct err *err) {
    char path[4096];
    int rc;
    if ((rc = job_order_write(order, path, err)) || (rc = start(c, path, err)))
        return rc;
    fcntl(c->in, F_SETFL, O_NONBLOCK);
    watch(c);
    unlink(path);
    return c->end.rc;
}

static void limit(struct child *c, const struct runner_config *runner, const struct runner_job *job,
                  const struct jobfile_limits *limits) {
    const int64_t wall_ms = limits->wall_clock_ms > 0 ? limits->wall_clock_ms : runner->default_wall_clock_ms;
    const int64_t cost_ms = runner_cost_ms(limits->cost, runner->price_per_hour);
    c->wall_ms = wall_ms > 0 ? wall_ms : INT64_MAX;
    c->cost_ms = cost_ms < 0 ? INT64_MAX : cost_ms - job->device_ms;
}

void process_run(const struct process_config *config, const struct runner_config *runner, const struct runner_job *job,
                 const struct runner_owner *owner, struct runner_wish *wish) {
    struct child c = {.owner = owner, .wish = wish, .in = -1, .out = -1, .end = {.energy_j = NAN}};
    struct task_end none = {.energy_j = NAN};
    OWNED(arena_done) struct arena arena = arena_of(32 << 20);
    struct jobfile file = {0};
    const struct job_order order = {.job = *job,
                                    SAME_MEMBERS(*config, config, sets, n_sets, device, cache, page, threads),
                                    .place = runner->turn.place,
                                    SAME_MEMBERS(*runner, memory_limit_bytes, default_wall_clock_ms),
                                    .price_micros = (int64_t)(1e6 * runner->price_per_hour)};
    str_init(&c.line, LINE_BYTES);
    if (!(none.rc = job_parse(job->yaml, job->file, job->overrides, &arena, &file, &none.err))) {
        limit(&c, runner, job, &file.limits);
        none.rc = run(&c, &order, &none.err);
    }
    if (!c.ended && c.end.rc == 0) /* it did not begin */
        c.end = none;
    c.end.limits = file.limits;
    if (!isnan(c.end.energy_j) && runner->metrics)
        metric_add(metrics_series(runner->metrics, "brrd_job_energy_joules_total", file.kind->name), c.end.energy_j);
    report(&c, &(struct task_report){.kind = TASK_END, .end = &c.end});
    free(c.end.result);
    str_done(&c.line);
    for (int i = 0; i < 2; i++)
        if ((i ? c.out : c.in) >= 0)
            close(i ? c.out : c.in);
}
