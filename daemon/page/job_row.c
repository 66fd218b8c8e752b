#include "daemon/page/job_row.h"

#include "base/json.h"
#include "base/order.h"
#include "daemon/page/chart.h"
#include "daemon/page/shell.h"
#include "daemon/page/words.h"
#include "work/kind.h"

/* ---- the table ---- */

static int64_t since_of(const struct job *j) {
    return job_is_over(j->state) ? j->finished_ms : job_is_active(j->state) ? j->started_ms : j->created_ms;
}

static const struct column {
    const char *key, *head;
    enum { UNSORTED, TEXT, STATE, SCORE, SINCE } of;
    size_t at;         /* of its text in a job */
    const char *score; /* the key of its number in the result */
    bool largest;      /* the largest comes first */
} columns[] = {{.key = "id", .head = "job", .of = TEXT, .at = offsetof(struct job, id)},
               {.key = "kind", .head = "kind", .of = TEXT, .at = offsetof(struct job, kind)},
               {.key = "state", .head = "state", .of = STATE},
               {.key = "why", .head = "reason"},
               {.key = "f1", .head = "F1 of events", .of = SCORE, .score = "event_f1", .largest = true},
               {.key = "fa", .head = "false alarms in 24 h", .of = SCORE, .score = "false_alarms_per_24h"},
               {.key = "fold", .head = "fold", .of = TEXT, .at = offsetof(struct job, fold)},
               {.key = "source", .head = "source", .of = TEXT, .at = offsetof(struct job, source)},
               {.key = "since", .head = "since", .of = SINCE, .largest = true}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const char *cell_text(const struct column *c, const struct job *j) {
    return c->of == STATE ? job_state_name(j->state) : c->of == TEXT ? (const char *)j + c->at : "";
}

/* NaN: it has none. */
static double cell_number(const struct column *c, const struct job *j) {
    OWNED_POINTER(json_free) struct json *result = NULL;
    if (c->of == SINCE)
        return (double)since_of(j);
    if (c->of != SCORE || !j->result || json_parse(j->result, strlen(j->result), "result", &result, NULL))
        return NAN;
    return json_f64(json_get(result, c->score), NAN);
}

/* The column that `sort` names, or NULL; ret_down: the largest comes first. */
static const struct column *find_column(const char *sort, bool *ret_down) {
    const bool from_end = sort && *sort == '-';
    for (int i = 0; sort && i < COLUMNS; i++)
        if (columns[i].of != UNSORTED && !strcmp(columns[i].key, sort + from_end)) {
            *ret_down = columns[i].largest != from_end;
            return &columns[i];
        }
    return NULL;
}

struct line {
    const struct status_job *job;
    const char *text;
    double number;
};

/* Lines without a value come last. */
static int line_order(bool down, const struct line *a, const struct line *b) {
    const int sign = down ? -1 : 1, empty = order_then(!*a->text - !*b->text, isnan(a->number) - isnan(b->number));
    return order_then(empty, sign * order_then(strverscmp(a->text, b->text), order_f64(a->number, b->number)));
}

void job_sort(const struct status_job **jobs, int n, const char *sort) {
    bool down;
    struct line lines[STATUS_JOBS];
    const struct column *c = find_column(sort, &down);
    for (int i = 0; c && i < n; i++) { /* at most STATUS_JOBS; equal ones keep their order */
        const struct line line = {jobs[i], cell_text(c, &jobs[i]->job), cell_number(c, &jobs[i]->job)};
        int at = i;
        for (; at > 0 && line_order(down, &lines[at - 1], &line) > 0; at--)
            lines[at] = lines[at - 1];
        lines[at] = line;
    }
    for (int i = 0; c && i < n; i++)
        jobs[i] = lines[i].job;
}

void job_put_head(struct html *h, const char *sort) {
    bool down = false;
    const struct column *sorted = find_column(sort, &down);
    html_put(h, "<div class=\"scroll\"><table class=\"jobs rows\"><thead><tr>");
    for (const struct column *c = columns; c < columns + COLUMNS; c++) {
        html_put(h, "<th scope=\"col\"");
        if (c == sorted)
            html_put(h, " aria-sort=\"%s\"", down ? "descending" : "ascending");
        if (sort && c->of != UNSORTED)
            html_put(h, "><a href=\"/jobs?sort=%s%s\">%s</a></th>", c == sorted && down == c->largest ? "-" : "", c->key, c->head);
        else
            html_put(h, ">%s</th>", c->head);
    }
    html_put(h, "</tr></thead><tbody>\n");
}

void job_put_foot(struct html *h) { html_put(h, "</tbody></table></div>"); }

void job_put_row(struct html *h, const struct status_job *row, bool box) {
    const struct job *j = &row->job;
    struct words w;
    html_put(h, "<tr><th scope=\"row\" class=\"id\">");
    if (box)
        html_put(h, "<input type=\"checkbox\" name=\"%s\" aria-label=\"compare %s\"> ", j->id, j->id);
    html_put(h,
             "<a href=\"/jobs/%s\">%s</a>%s%s</th><td data-l=\"kind\">%s</td><td data-l=\"state\"><span class=\"job-state\" "
             "data-state=\"%s\">%s</span>",
             j->id, j->id, *j->name ? " " : "", j->name, j->kind, job_state_name(j->state), job_state_name(j->state));
    if (row->position)
        html_put(h, " %d. in the queue", row->position);
    html_put(h, "</td><td data-l=\"why\">%s</td>", j->reason);
    for (const struct column *c = columns; c < columns + COLUMNS; c++)
        if (c->of == SCORE)
            html_put(h, "<td data-l=\"%s\">%s</td>", c->head, words_number(&w, cell_number(c, j), "–"));
    html_put(h, "<td data-l=\"fold\">%s</td><td data-l=\"source\" class=\"id\">%s</td><td data-l=\"since\">", j->fold, j->source);
    words_put_time(h, since_of(j));
    html_put(h, "</td></tr>\n");
}

/* ---- a job that runs ---- */

static void put_progress(struct html *h, const struct job *job) {
    const struct task_kind *kind = task_kind_find(job->kind);
    const struct task_progress *j = &job->progress;
    const char *step = kind && kind->step ? kind->step : "step";
    bool steps = j->steps > 0, counts = !steps && j->total > 0;
    if (steps)
        html_put(h, "<progress max=\"%lld\" value=\"%lld\" aria-label=\"%ss\"></progress> <span>%s %lld of %lld</span>",
                 (long long)j->steps, (long long)j->step, step, step, (long long)j->step, (long long)j->steps);
    if (counts)
        html_put(h, "<progress max=\"%lld\" value=\"%lld\" aria-label=\"progress\"></progress> <span>%lld of %lld</span>",
                 (long long)j->total, (long long)j->done, (long long)j->done, (long long)j->total);
}

static void put_pair(struct html *h, const char *name, const char *text) {
    html_put(h, "<div><dt>%s</dt><dd>%s</dd></div>", name, text);
}

static void put_figure(struct html *h, const char *name, double value) {
    struct words w;
    if (isfinite(value))
        put_pair(h, name, words_number(&w, value, "–"));
}

void job_put_running(struct html *h, const struct status *s, const struct job *j) {
    const struct task_progress *p = &j->progress;
    struct words w;
    html_put(h,
             "<div class=\"running\"><h3><a href=\"/jobs/%s\">%s</a> %s</h3><p><span class=\"job-state\" "
             "data-state=\"%s\">%s</span> %s%s%s</p><p>",
             j->id, j->id, j->name, job_state_name(j->state), job_state_name(j->state), p->phase, *j->reason ? " – " : "",
             j->reason);
    put_progress(h, j);
    html_put(h, "</p><dl class=\"figures\">");
    if (isfinite(p->eta_s))
        put_pair(h, "time left", words_duration(&w, (int64_t)p->eta_s));
    if (j->started_ms)
        put_pair(h, "runs for", words_duration(&w, (s->taken_ms - j->started_ms) / 1000));
    put_figure(h, "loss", p->loss);
    put_figure(h, "validation loss", p->validation_loss);
    if (*p->metric_name)
        put_figure(h, p->metric_name, p->metric);
    put_figure(h, "windows/s", p->windows_per_s);
    html_put(h, "</dl>");
    if (s->losses.n > 1 && !strcmp(s->losses.job, j->id))
        chart_put_spark(h, s->losses.values, s->losses.n, "training loss of this attempt");
    html_put(h, "</div>\n");
}
