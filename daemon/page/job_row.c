#include "daemon/page/job_row.h"

#include <math.h>

#include "daemon/page/chart.h"
#include "daemon/page/shell.h"
#include "daemon/page/words.h"

void job_put_head(struct html *h) {
    html_put(h,
             "<div class=\"scroll\"><table class=\"jobs rows\"><thead><tr><th scope=\"col\">job</th><th scope=\"col\">kind</th><th "
             "scope=\"col\">state</th>"
             "<th scope=\"col\">reason</th><th scope=\"col\">F1 of events</th><th scope=\"col\">false alarms in 24 h</th>"
             "<th scope=\"col\">since</th></tr></thead><tbody>\n");
}

void job_put_foot(struct html *h) { html_put(h, "</tbody></table></div>"); }

static int64_t since_of(const struct status_job *j) { return j->over ? j->finished_ms : j->active ? j->started_ms : j->created_ms; }

static void put_score(struct html *h, const char *name, double value) {
    struct words w;
    html_put(h, "<td data-l=\"%s\">%s</td>", name, words_number(&w, value, "–"));
}

void job_put_row(struct html *h, const struct status_job *j, int64_t now_ms) {
    (void)now_ms;
    html_put(h,
             "<tr><th scope=\"row\" class=\"id\"><a href=\"/jobs/%s\">%s</a>%s%s</th><td data-l=\"kind\">%s</td><td "
             "data-l=\"state\"><span class=\"job-state\" "
             "data-state=\"%s\">%s</span>",
             j->id, j->id, *j->name ? " " : "", j->name, j->kind, j->state, j->state);
    if (j->position)
        html_put(h, " %d. in the queue", j->position);
    html_put(h, "</td><td data-l=\"why\">%s</td>", j->reason);
    put_score(h, "F1 of events", j->event_f1);
    put_score(h, "false alarms in 24 h", j->false_alarms_per_24h);
    html_put(h, "<td data-l=\"since\">");
    shell_put_time(h, since_of(j));
    html_put(h, "</td></tr>\n");
}

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
