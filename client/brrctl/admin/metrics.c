/* metrics [PREFIX], and top: device, jobs, streams and rates at a glance. */
#include <poll.h>
#include <signal.h>
#include <termios.h>

#include "brr/v1/admin.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"

/* The options of metrics and top. */
struct metrics_options {
    bool watch;
    double interval_s;
    bool once;
};
#define OPTIONS struct metrics_options
static const struct argument metrics_rows[] = {
    FLAG("--watch", watch, "print them again and again, until Ctrl-C"),
    NUMBER("--interval", interval_s, "S", "seconds between updates, default 1", 0.1, 60),
};
static const struct argument top_rows[] = {
    FLAG("--once", once, "print once, with rates over one interval, and exit"),
    NUMBER("--interval", interval_s, "S", "seconds between updates, default 1", 0.1, 60),
};

/* The object of `name="value",…`, as /metrics writes labels. */
static void put_labels(struct json_writer *w, const char *labels) {
    struct str name, value;
    json_begin_object(w, "labels");
    for (const char *at = labels; *at; at += *at == ',') {
        str_init(&name, 256);
        str_init(&value, 4096);
        for (; *at && *at != '='; at++)
            str_append(&name, at, 1);
        at += *at == '=';
        for (at += *at == '"'; *at && *at != '"'; at++) {
            bool escaped = at[0] == '\\' && at[1];
            at += escaped;
            str_append(&value, escaped && *at == 'n' ? "\n" : at, 1);
        }
        at += *at == '"';
        json_put_str(w, str_cstr(&name), str_cstr(&value));
        str_done(&name);
        str_done(&value);
    }
    json_end(w, '}');
}

static void print_samples(const Brr__V1__MetricsResponse *m, bool json) {
    for (size_t i = 0; i < m->n_samples; i++) {
        const Brr__V1__MetricSample *s = m->samples[i];
        if (json) {
            struct json_writer *w = output_begin();
            json_put_str(w, "name", s->name);
            put_labels(w, s->labels);
            json_put_f64(w, "value", s->value);
            json_put_i64(w, "time_ms", m->time_ms);
            output_end(w);
        } else {
            printf(*s->labels ? "%s{%s} %.10g\n" : "%s%s %.10g\n", s->name, s->labels, s->value);
        }
    }
    fflush(stdout);
}

static bool on_metrics(void *ctx, const void *message) {
    print_samples(message, *(const bool *)ctx);
    return true;
}

static int32_t interval_ms(const struct arguments *o) {
    return isnan(own(o)->interval_s) ? 1000 : (int32_t)(own(o)->interval_s * 1000);
}

static int cmd_metrics(const struct arguments *o) {
    char *prefix = (char *)(uintptr_t)(o->n_args ? o->args[0] : "");
    bool json = o->json;
    int code = 0;
    if (own(o)->watch) {
        Brr__V1__WatchMetricsRequest in = BRR__V1__WATCH_METRICS_REQUEST__INIT;
        in.prefix = prefix;
        in.interval_ms = interval_ms(o);
        return brrctl_follow(o, "/brr.v1.Metrics/Watch", &in.base, on_metrics, &json);
    }
    Brr__V1__MetricsRequest in = BRR__V1__METRICS_REQUEST__INIT;
    in.prefix = prefix;
    OWNED_ANSWER Brr__V1__MetricsResponse *m = brrctl_call(o, "/brr.v1.Metrics/Get", &in.base, &code);
    if (!m)
        return code;
    print_samples(m, json);
    if (!m->n_samples)
        fprintf(stderr, "brrctl: no metric begins with '%s'; `brrctl metrics` prints all metrics that have a value\n", prefix);
    code = m->n_samples ? 0 : EXIT_NOT_FOUND;
    return code;
}

/* ---- top ---- */

enum { PICTURE_BYTES = 1 << 20 };

/* Sums over all series of what top shows. */
enum { STEPS, WINDOWS, SAMPLES, LOST, EVENTS, RPCS, SESSIONS, BUFFERED, UPTIME, FIGURES };
static const struct {
    const char *family, *key;
    bool rate;
} figures[FIGURES] = {
    [STEPS] = {"brrd_train_steps_total", "train_steps", true},
    [WINDOWS] = {"brrd_inference_windows_total", "windows", true},
    [SAMPLES] = {"brrd_stream_samples_received_total", "samples", true},
    [LOST] = {"brrd_stream_samples_lost_total", "samples_lost", true},
    [EVENTS] = {"brrd_stream_seizure_events_total", "seizure_events", false},
    [RPCS] = {"brrd_rpc_requests_total", "rpc_requests", true},
    [SESSIONS] = {"brrd_stream_sessions", "sessions", false},
    [BUFFERED] = {"brrd_stream_buffered_samples", "buffered_samples", false},
    [UPTIME] = {"brrd_process_uptime_seconds", "uptime_s", false},
};

struct snapshot {
    int64_t time_ms;
    double values[FIGURES];
};

/* ---- single keys of the person at the terminal, which is as before after its end, a signal and at exit ---- */

static struct termios terminal_before;
static volatile sig_atomic_t terminal_changed;

static void keypress_end(void) {
    if (terminal_changed)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
    terminal_changed = 0;
}

/* Puts the terminal back, then ends as the signal does. */
static void on_signal(int number) {
    keypress_end();
    signal(number, SIG_DFL);
    raise(number);
}

static void keypress_begin(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGQUIT};
    struct termios now;
    if (terminal_changed || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &terminal_before))
        return;
    now = terminal_before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    terminal_changed = 1;
    atexit(keypress_end);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_signal);
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

/* True if `q` was pressed since the last call; false where `ask` is. */
static bool keypress_quits(bool ask) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    bool quits = false;
    while (ask && terminal_changed && poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &key, 1) == 1)
        quits |= key == 'q' || key == 'Q';
    return quits;
}

struct top {
    const struct arguments *o;
    brr_client *client;
    bool terminal, any, once;
    struct snapshot before;
    int code;
};

static void read_snapshot(const Brr__V1__MetricsResponse *m, struct snapshot *ret) {
    *ret = (struct snapshot){.time_ms = m->time_ms};
    for (size_t i = 0; i < m->n_samples; i++)
        for (int f = 0; f < FIGURES; f++)
            if (!strcmp(m->samples[i]->name, figures[f].family))
                ret->values[f] += m->samples[i]->value;
}

/* Per second since the snapshot before; NaN the first time. */
static double rate(const struct top *t, const struct snapshot *now, int f) {
    double seconds = (double)(now->time_ms - t->before.time_ms) / 1000;
    return t->any && seconds > 0 ? (now->values[f] - t->before.values[f]) / seconds : NAN;
}

/* "2.5 windows/s" since the snapshot before; "- windows/s" the first time. */
static const char *rate_text(const struct top *t, const struct snapshot *now, int f, const char *what, char buf[48]) {
    double value = rate(t, now, f);
    if (isfinite(value))
        str_format(buf, 48, "%.1f %s/s", value, what);
    else
        str_format(buf, 48, "- %s/s", what);
    return buf;
}

static void put_json(const struct top *t, const struct snapshot *now, const Brr__V1__DevicesResponse *devices,
                     const Brr__V1__ListJobsResponse *jobs) {
    struct json_writer *w = output_begin();
    json_put_i64(w, "time_ms", now->time_ms);
    output_fields(w, &devices->base, "devices(name total_bytes free_bytes reserved_bytes occupant occupants)");
    json_begin_array(w, "jobs");
    for (size_t i = 0; i < jobs->n_jobs; i++) {
        json_begin_object(w, NULL);
        json_put_str(w, "job", jobs->jobs[i]->id);
        json_put_str(w, "state", brr_job_state_name((int)jobs->jobs[i]->state));
        json_put_i64(w, "step", jobs->jobs[i]->progress ? jobs->jobs[i]->progress->step : 0);
        json_put_i64(w, "steps", jobs->jobs[i]->progress ? jobs->jobs[i]->progress->steps : 0);
        json_end(w, '}');
    }
    json_end(w, ']');
    for (int f = 0; f < FIGURES; f++) {
        char key[64];
        json_put_f64(w, figures[f].key, now->values[f]);
        if (figures[f].rate && str_format(key, sizeof key, "%s_per_s", figures[f].key))
            json_put_f64(w, key, rate(t, now, f));
    }
    output_end(w);
}

static void put_job(struct str *out, const Brr__V1__Job *j) {
    const Brr__V1__Progress *p = j->progress;
    char bar[OUTPUT_BAR_SIZE], eta[32], line[160] = "";
    bool training = p && !strcmp(p->phase, "train");
    int64_t at = !p ? 0 : training ? p->step : p->done, of = !p ? 0 : training ? p->steps : p->total;
    if (of > 0)
        str_format(line, sizeof line, "%-9s %s %lld/%lld", p->phase, output_bar((double)at / (double)of, bar), (long long)at,
                   (long long)of);
    str_printf(out, "  %-22s %-13s %s", j->id, brr_job_state_name((int)j->state), line);
    if (training && !isnan(p->loss + p->windows_per_second)) /* not before the first step */
        str_printf(out, "  loss %.4f  %.1f windows/s  left %s", p->loss, p->windows_per_second,
                   output_duration(p->eta_s, eta, sizeof eta));
    str_puts(out, "\n");
}

/* The lines of one picture. */
static void put_lines(struct str *out, const struct top *t, const struct snapshot *now, const Brr__V1__DevicesResponse *devices,
                      const Brr__V1__ListJobsResponse *jobs) {
    char a[48], b[48], c[48], time[32], used[32], total[32], jobs_there[200];
    str_printf(out, "brrd at %s  %s  up %s\n", brr_endpoint(t->client), output_time(now->time_ms, time, sizeof time),
               output_duration(now->values[UPTIME], used, sizeof used));
    for (size_t i = 0; i < devices->n_devices; i++) {
        const Brr__V1__Device *x = devices->devices[i];
        str_printf(out, "device   %-8s %s of %s in use, %s\n", x->name,
                   output_bytes((double)(x->total_bytes - x->free_bytes), used, sizeof used),
                   output_bytes((double)x->total_bytes, total, sizeof total),
                   output_names(x->occupants, x->n_occupants, "idle", jobs_there, sizeof jobs_there));
    }
    str_printf(out, "streams  %.0f open, %.0f samples wait; %s, %s, %.0f seizure events\n", now->values[SESSIONS],
               now->values[BUFFERED], rate_text(t, now, SAMPLES, "samples", a), rate_text(t, now, LOST, "lost", b),
               now->values[EVENTS]);
    str_printf(out, "work     %s, %s, %s\n", rate_text(t, now, WINDOWS, "windows", a),
               rate_text(t, now, STEPS, "training steps", b), rate_text(t, now, RPCS, "calls", c));
    str_printf(out, "jobs     %zu running or queued\n", jobs->n_jobs);
    for (size_t i = 0; i < jobs->n_jobs; i++)
        put_job(out, jobs->jobs[i]);
}

/* On a terminal: no line wraps, and none is beyond the last row. */
static void print_text(const struct top *t, const struct snapshot *now, const Brr__V1__DevicesResponse *devices,
                       const Brr__V1__ListJobsResponse *jobs) {
    struct str out = str_of(PICTURE_BYTES);
    put_lines(&out, t, now, devices, jobs);
    if (t->terminal)
        output_picture(stdout, str_cstr(&out), "q quits");
    else
        fputs(str_cstr(&out), stdout);
    str_done(&out);
    fflush(stdout);
}

/* One picture; asks for what the metrics do not say. */
static bool show(struct top *t, const Brr__V1__MetricsResponse *m) {
    static const Brr__V1__JobState alive[] = {BRR__V1__JOB_STATE__JOB_STATE_QUEUED, BRR__V1__JOB_STATE__JOB_STATE_PREPARING,
                                              BRR__V1__JOB_STATE__JOB_STATE_RUNNING, BRR__V1__JOB_STATE__JOB_STATE_CHECKPOINTING};
    const Brr__V1__DevicesRequest ask_devices = BRR__V1__DEVICES_REQUEST__INIT;
    Brr__V1__ListJobsRequest ask_jobs = BRR__V1__LIST_JOBS_REQUEST__INIT;
    struct brr_error err;
    struct snapshot now;
    ask_jobs.states = (Brr__V1__JobState *)(uintptr_t)alive;
    ask_jobs.n_states = sizeof alive / sizeof *alive;
    OWNED_ANSWER Brr__V1__DevicesResponse *devices = brrctl_ask(t->client, "/brr.v1.Admin/Devices", &ask_devices.base, &err);
    OWNED_ANSWER Brr__V1__ListJobsResponse *jobs =
        devices ? brrctl_ask(t->client, "/brr.v1.Jobs/List", &ask_jobs.base, &err) : NULL;
    read_snapshot(m, &now);
    if (!jobs)
        t->code = brrctl_fail_call(&err);
    else if (t->o->json)
        put_json(t, &now, devices, jobs);
    else
        print_text(t, &now, devices, jobs);
    t->before = now;
    t->any = true;
    return !t->code;
}

static bool on_tick(void *ctx, const void *message) {
    struct top *t = ctx;
    bool first = !t->any;
    if (t->once && first) { /* rates need two */
        read_snapshot(message, &t->before);
        t->any = true;
        return true;
    }
    return show(t, message) && !t->once && !keypress_quits(t->terminal);
}

static int cmd_top(const struct arguments *o) {
    struct top t = {.o = o, .once = own(o)->once, .terminal = output_redraws(stdout) && !own(o)->once && !o->json};
    Brr__V1__WatchMetricsRequest in = BRR__V1__WATCH_METRICS_REQUEST__INIT;
    if (!(t.client = brrctl_connect(o, &t.code)))
        return t.code;
    in.interval_ms = interval_ms(o);
    if (t.terminal)
        keypress_begin();
    int code = brrctl_follow(o, "/brr.v1.Metrics/Watch", &in.base, on_tick, &t);
    keypress_end();
    brr_disconnect(t.client);
    return code ? code : t.code;
}

BRRCTL_COMMAND(top, "", ARGUMENTS(top_rows), cmd_top, "show device, jobs, streams and rates live", "example: brrctl top --once");

BRRCTL_COMMAND(metrics, "[PREFIX]", ARGUMENTS(metrics_rows), cmd_metrics, "print the daemon's metrics",
               "example: brrctl metrics brrd_stream");
