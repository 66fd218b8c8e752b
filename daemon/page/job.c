/* /jobs/ID: what the job is, how far it is, what came of it. The record is read from the database, progress from the status. */

#include "base/json.h"
#include "daemon/page/job_files.h"
#include "daemon/page/job_row.h"
#include "daemon/page/shell.h"
#include "daemon/page/words.h"

static const struct status_job *find(const struct page_view *v, const char *id) {
    for (int i = 0; i < v->status->n_jobs; i++)
        if (!strcmp(v->status->jobs[i].job.id, id) && page_sees_job(v, v->status->jobs[i].job.owner))
            return &v->status->jobs[i];
    return NULL;
}

static void put_facts(struct html *h, const struct job *job, const struct status_job *now) {
    const struct job *newest = now ? &now->job : job;
    const char *state = job_state_name(newest->state);
    struct words w;
    html_put(h, "<section aria-labelledby=\"facts\"><h2 id=\"facts\">Job</h2><dl>");
    html_put(h, "<dt>state</dt><dd><span class=\"job-state\" data-state=\"%s\">%s</span>", state, state);
    if (now && now->position)
        html_put(h, ", %d. in the queue", now->position);
    html_put(h, "</dd>");
    if (*newest->reason)
        shell_put_fact(h, "reason", newest->reason);
    shell_put_fact(h, "kind", job->kind);
    if (*job->name)
        shell_put_fact(h, "name", job->name);
    shell_put_fact(h, "submitted by", *job->owner ? job->owner : "–");
    html_put(h, "<dt>submitted</dt><dd>");
    words_put_time(h, job->created_ms);
    html_put(h, "</dd><dt>started</dt><dd>");
    words_put_time(h, job->started_ms);
    html_put(h, "</dd><dt>ended</dt><dd>");
    words_put_time(h, job->finished_ms);
    html_put(h, "</dd><dt>attempts</dt><dd>%d</dd>", job->attempts);
    if (job->run_ms > 0)
        shell_put_fact(h, "time of attempts that ended", words_duration(&w, job->run_ms / 1000));
    if (*job->device)
        shell_put_fact(h, "device", job->device);
    if (*job->versions)
        shell_put_fact(h, "software", job->versions);
    if (*job->best)
        shell_put_fact(h, "best model", job->best);
    if (*job->last)
        shell_put_fact(h, "newest model", job->last);
    shell_put_fact(h, "folder", job->directory);
    html_put(h, "</dl></section>\n");
}

/* "false_alarms_per_24h" as "false alarms per 24h". */
void job_put_name(struct html *h, const char *key) {
    char text[80];
    str_copy(text, sizeof text, key);
    for (char *p = text; *p; p++)
        *p = *p == '_' ? ' ' : *p;
    html_put(h, "<th scope=\"row\">%s</th>", text);
}

void job_put_value(struct html *h, const struct json *value) {
    struct words w;
    switch (json_kind(value)) {
    case JSON_KIND_STRING:
        html_put(h, "<td class=\"id\">%s</td>", json_str(value, ""));
        break;
    case JSON_KIND_BOOL:
        html_put(h, "<td>%s</td>", json_bool(value, false) ? "yes" : "no");
        break;
    case JSON_KIND_INTEGER:
    case JSON_KIND_REAL:
        html_put(h, "<td>%s</td>", words_number(&w, json_f64(value, NAN), "–"));
        break;
    default:
        html_put(h, "<td>–</td>");
    }
}

/* The rules without learning beside a geodesic, and which of them are better. */
static void put_baselines(struct html *h, const struct json *result) {
    const double own = json_f64(json_get(result, "mean_rmse"), NAN);
    const struct json *value, *rules = json_get(result, "baselines");
    struct json_cursor at = {0};
    struct words w;
    const char *key;
    while (json_next(rules, &at, &key, &value))
        if (isfinite(json_f64(value, NAN)))
            html_put(h, "<tr><th scope=\"row\">mean rmse of %s</th><td>%s%s</td></tr>\n", key,
                     words_number(&w, json_f64(value, NAN), "–"),
                     json_f64(value, NAN) < own ? ": better than the geodesic; predict takes it by --rule" : "");
}

/* R² of each fold of a geodesic with a prior, both ways. */
static void put_r2(struct html *h, const struct json *result) {
    const struct json *value, *with_prior = json_get(result, "r2_with_prior");
    struct json_cursor at = {0};
    struct words with, alone;
    const char *key;
    while (json_next(json_get(result, "r2_networks_alone"), &at, &key, &value))
        html_put(h, "<tr><th scope=\"row\">R² at %s</th><td>with the prior %s, the networks alone %s</td></tr>\n", key,
                 words_number(&with, json_f64(json_get(with_prior, key), NAN), "–"),
                 words_number(&alone, json_f64(value, NAN), "–"));
}

static void put_result(struct html *h, const struct job *job) {
    OWNED_POINTER(json_free) struct json *result = NULL;
    struct json_cursor at = {0};
    const char *key;
    const struct json *value;
    bool nested = false;
    if (!job->result || json_parse(job->result, strlen(job->result), "result", &result, NULL))
        return;
    const char *definition = json_str(json_get(result, "definition"), NULL);
    html_put(h, "<section aria-labelledby=\"result\"><h2 id=\"result\">%s</h2>", definition ? "Scores" : "Result");
    if (definition)
        html_put(h, "<p class=\"hint\">Definition: %s. A score says nothing without it; docs/scores.md explains the terms.</p>",
                 definition);
    html_put(h, "<table><tbody>");
    while (json_next(result, &at, &key, &value)) {
        bool inner = json_kind(value) == JSON_KIND_OBJECT || json_kind(value) == JSON_KIND_ARRAY;
        nested = nested || inner;
        if (inner || !strcmp(key, "definition"))
            continue;
        html_put(h, "<tr>");
        job_put_name(h, key);
        job_put_value(h, value);
        html_put(h, "</tr>\n");
    }
    put_r2(h, result);
    put_baselines(h, result);
    html_put(h, "</tbody></table>");
    if (nested)
        html_put(h, "<details><summary>All of the result as JSON</summary><pre>%s</pre></details>", job->result);
    html_put(h, "</section>\n");
}

static void put_configuration(struct html *h, const struct job *job) {
    html_put(h, "<section class=\"wide\" aria-labelledby=\"configuration\"><h2 id=\"configuration\">Configuration</h2>");
    OWNED_POINTER(json_free) struct json *overrides = NULL;
    if (job->overrides && !json_parse(job->overrides, strlen(job->overrides), "overrides", &overrides, NULL) &&
        json_count(overrides)) {
        html_put(h, "<p class=\"hint\">in place of what the file says:");
        for (size_t i = 0; i < json_count(overrides); i++)
            html_put(h, "<br><code>%s</code>", json_str(json_at(overrides, i), ""));
        html_put(h, "</p>");
    }
    html_put(h, "<pre tabindex=\"0\">%s</pre></section>\n", job->yaml ? job->yaml : "");
}

bool page_job(struct html *h, const struct page_view *v, const char *id) {
    struct err err = {0};
    const struct status_job *now = find(v, id);
    struct job *job = job_record(v, id, &err);
    if (!job && !now)
        return false;
    shell_begin(h, v, &(struct shell){.title = id, .place = SHELL_JOBS, .live = !now || !job_is_over(now->job.state)});
    html_put(h, "<h1>%s</h1>\n", id);
    if (now && job_is_active(now->job.state))
        job_put_running(h, v->status, &now->job);
    html_put(h, "<div class=\"panels two\" id=\"panels\">\n");
    if (!job)
        html_put(h, "<p class=\"wrong\">Its record cannot be read now: %s</p>\n", err.message);
    if (job) {
        put_facts(h, job, now);
        put_result(h, job);
        job_put_curves(h, job->directory);
        job_put_pictures(h, job->id, job->directory);
        job_put_events(h, job->directory);
        put_configuration(h, job);
        job_put_log(h, job->directory);
    }
    html_put(h, "</div>\n");
    shell_end(h, v);
    job_free(job);
    return true;
}
