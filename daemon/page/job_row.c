#include "daemon/page/job_row.h"

#include "base/order.h"
#include "daemon/page/chart.h"
#include "daemon/page/shell.h"
#include "daemon/page/words.h"

/* ---- the table ---- */

static int64_t since_of(const struct status_job *j) { return j->over ? j->finished_ms : j->active ? j->started_ms : j->created_ms; }

static const struct column {
    const char *key, *head;
    enum { UNSORTED, TEXT, NUMBER, SINCE } of;
    size_t at;    /* of its text or number in a status_job */
    bool largest; /* the largest comes first */
} columns[] = {{"id", "job", TEXT, offsetof(struct status_job, id), false},
               {"kind", "kind", TEXT, offsetof(struct status_job, kind), false},
               {"state", "state", TEXT, offsetof(struct status_job, state), false},
               {"why", "reason", UNSORTED, 0, false},
               {"f1", "F1 of events", NUMBER, offsetof(struct status_job, event_f1), true},
               {"fa", "false alarms in 24 h", NUMBER, offsetof(struct status_job, false_alarms_per_24h), false},
               {"fold", "fold", TEXT, offsetof(struct status_job, fold), false},
               {"source", "source", TEXT, offsetof(struct status_job, source), false},
               {"since", "since", SINCE, 0, true}};
enum { COLUMNS = sizeof columns / sizeof *columns };

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

static int job_order_of(const struct column *c, bool down, const struct status_job *a, const struct status_job *b) {
    const char *at_a = (const char *)a + c->at, *at_b = (const char *)b + c->at;
    const int sign = down ? -1 : 1;
    if (c->of == TEXT) {
        const char *l = *(const char *const *)at_a, *r = *(const char *const *)at_b;
        return order_then(!*l - !*r, sign * strverscmp(l, r));
    }
    if (c->of == SINCE)
        return sign * order_i64(since_of(a), since_of(b));
    const double l = *(const double *)at_a, r = *(const double *)at_b;
    return isnan(l) || isnan(r) ? order_f64(l, r) : sign * order_f64(l, r);
}

void job_sort(const struct status_job **jobs, int n, const char *sort) {
    bool down;
    const struct column *c = find_column(sort, &down);
    for (int i = 1; c && i < n; i++) { /* at most STATUS_JOBS; equal ones keep their order */
        const struct status_job *j = jobs[i];
        int at = i;
        for (; at > 0 && job_order_of(c, down, jobs[at - 1], j) > 0; at--)
            jobs[at] = jobs[at - 1];
        jobs[at] = j;
    }
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

static void put_score(struct html *h, const char *name, double value) {
    struct words w;
    html_put(h, "<td data-l=\"%s\">%s</td>", name, words_number(&w, value, "–"));
}

void job_put_row(struct html *h, const struct status_job *j, bool box) {
    html_put(h, "<tr><th scope=\"row\" class=\"id\">");
    if (box)
        html_put(h, "<input type=\"checkbox\" name=\"%s\" aria-label=\"compare %s\"> ", j->id, j->id);
    html_put(h,
             "<a href=\"/jobs/%s\">%s</a>%s%s</th><td data-l=\"kind\">%s</td><td data-l=\"state\"><span class=\"job-state\" "
             "data-state=\"%s\">%s</span>",
             j->id, j->id, *j->name ? " " : "", j->name, j->kind, j->state, j->state);
    if (j->position)
        html_put(h, " %d. in the queue", j->position);
    html_put(h, "</td><td data-l=\"why\">%s</td>", j->reason);
    put_score(h, "F1 of events", j->event_f1);
    put_score(h, "false alarms in 24 h", j->false_alarms_per_24h);
    html_put(h, "<td data-l=\"fold\">%s</td><td data-l=\"source\" class=\"id\">%s</td><td data-l=\"since\">", j->fold, j->source);
    words_put_time(h, since_of(j));
    html_put(h, "</td></tr>\n");
}

/* ---- a job that runs ---- */

static void put_progress(struct html *h, const struct status_job *j) {
    bool steps = j->steps > 0, counts = !steps && j->total > 0;
    if (steps)
        html_put(h, "<progress max=\"%lld\" value=\"%lld\" aria-label=\"%ss\"></progress> <span>%s %lld of %lld</span>",
                 (long long)j->steps, (long long)j->step, j->step_name, j->step_name, (long long)j->step, (long long)j->steps);
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

void job_put_running(struct html *h, const struct status_job *j, int64_t now_ms) {
    struct words w;
    html_put(h,
             "<div class=\"running\"><h3><a href=\"/jobs/%s\">%s</a> %s</h3><p><span class=\"job-state\" "
             "data-state=\"%s\">%s</span> %s%s%s</p><p>",
             j->id, j->id, j->name, j->state, j->state, j->phase, *j->reason ? " – " : "", j->reason);
    put_progress(h, j);
    html_put(h, "</p><dl class=\"figures\">");
    if (isfinite(j->eta_s))
        put_pair(h, "time left", words_duration(&w, (int64_t)j->eta_s));
    if (j->started_ms)
        put_pair(h, "runs for", words_duration(&w, (now_ms - j->started_ms) / 1000));
    put_figure(h, "loss", j->loss);
    put_figure(h, "validation loss", j->validation_loss);
    if (*j->metric_name)
        put_figure(h, j->metric_name, j->metric);
    put_figure(h, "windows/s", j->windows_per_s);
    html_put(h, "</dl>");
    if (j->n_losses)
        chart_put_spark(h, j->losses, j->n_losses, "training loss of this attempt");
    html_put(h, "</div>\n");
}
