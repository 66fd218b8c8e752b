/* /jobs: what runs and waits, and the newest that ended; and jobs side by side. */

#include "base/json.h"
#include "daemon/page/job_files.h"
#include "daemon/page/job_row.h"
#include "daemon/page/shell.h"

/* Each job has a box, by which it is compared. */
static void put_table(struct html *h, const struct page_view *v) {
    const struct status *s = v->status;
    const struct status_job *rows[STATUS_JOBS];
    int n = 0;
    for (int i = 0; i < s->n_jobs && n < STATUS_JOBS; i++)
        if (page_sees_job(v, s->jobs[i].job.owner))
            rows[n++] = &s->jobs[i];
    if (!n) {
        html_put(h, "<p class=\"empty\">There is no job yet. <code>brrctl submit configs/tiny.yaml</code> makes one.</p>\n");
        return;
    }
    job_sort(rows, n, v->sort);
    html_put(h, "<form action=\"/jobs\">");
    job_put_head(h, v->sort ? v->sort : "");
    for (int i = 0; i < n; i++)
        job_put_row(h, rows[i], true);
    job_put_foot(h);
    html_put(
        h,
        "<p><button type=\"submit\">Compare</button> <span class=\"hint\">the jobs that are ticked, up to %d</span></p></form>\n",
        JOB_CURVES_MOST);
}

void page_jobs(struct html *h, const struct page_view *v) {
    const struct status *s = v->status;
    shell_begin(h, v, &(struct shell){.title = "Jobs", .place = SHELL_JOBS, .live = true});
    html_put(h, "<h1>Jobs</h1>\n");
    for (int i = 0; i < s->n_jobs; i++)
        if (job_is_active(s->jobs[i].job.state) && page_sees_job(v, s->jobs[i].job.owner))
            job_put_running(h, s, &s->jobs[i].job);
    put_table(h, v);
    if (s->left_jobs > 0)
        html_put(h, "<p class=\"hint\">%d more jobs are not shown; <code>brrctl jobs</code> lists all.</p>\n", s->left_jobs);
    shell_end(h, v);
}

/* ---- jobs side by side ---- */

struct compared {
    struct job *jobs[JOB_CURVES_MOST];
    struct json *results[JOB_CURVES_MOST];
    int n;
};

static void read_jobs(const struct page_view *v, const char *ids, struct compared *ret) {
    char id[JOB_ID_SIZE];
    struct err err;
    for (const char *at = ids; *at && ret->n < JOB_CURVES_MOST; at += strspn(at, ",")) {
        const size_t n = strcspn(at, ",");
        struct job *job = str_format(id, sizeof id, "%.*s", (int)n, at) ? job_record(v, id, &err) : NULL;
        at += n;
        if (!job)
            continue;
        if (job->result)
            (void)json_parse(job->result, strlen(job->result), "result", &ret->results[ret->n], NULL);
        ret->jobs[ret->n++] = job;
    }
}

static void compared_done(struct compared *c) {
    for (int i = 0; i < c->n; i++) {
        json_free(c->results[i]);
        job_free(c->jobs[i]);
    }
}

static void put_texts(struct html *h, const struct compared *c, const char *name, const char *(*text)(const struct job *)) {
    html_put(h, "<tr><th scope=\"row\">%s</th>", name);
    for (int i = 0; i < c->n; i++)
        html_put(h, "<td class=\"id\">%s</td>", text(c->jobs[i]));
    html_put(h, "</tr>\n");
}

static const char *compared_name(const struct job *j) { return j->name; }
static const char *compared_state(const struct job *j) { return job_state_name(j->state); }
static const char *compared_overrides(const struct job *j) {
    return j->overrides && strcmp(j->overrides, "[]") ? j->overrides : "";
}

/* Figures and texts of the results, each where its key comes first. */
static void put_results(struct html *h, const struct compared *c) {
    const struct json *value;
    const char *key;
    for (int i = 0; i < c->n; i++) {
        struct json_cursor at = {0};
        while (c->results[i] && json_next(c->results[i], &at, &key, &value)) {
            bool known = json_kind(value) == JSON_KIND_OBJECT || json_kind(value) == JSON_KIND_ARRAY;
            for (int k = 0; k < i; k++)
                known = known || json_get(c->results[k], key);
            if (known)
                continue;
            html_put(h, "<tr>");
            job_put_name(h, key);
            for (int k = 0; k < c->n; k++)
                job_put_value(h, json_get(c->results[k], key));
            html_put(h, "</tr>\n");
        }
    }
}

bool page_compare(struct html *h, const struct page_view *v, const char *ids) {
    OWNED(compared_done) struct compared c = {0};
    read_jobs(v, ids, &c);
    if (!c.n)
        return false;
    shell_begin(h, v, &(struct shell){.title = "Jobs side by side", .place = SHELL_JOBS, .live = true});
    html_put(h, "<h1>Jobs side by side</h1>\n<div class=\"panels two\">\n");
    job_put_curves_of(h, c.jobs, c.n);
    html_put(h, "<section class=\"wide\" aria-labelledby=\"scores\"><h2 id=\"scores\">Results</h2><div "
                "class=\"scroll\"><table><thead><tr><th scope=\"col\">job</th>");
    for (int i = 0; i < c.n; i++)
        html_put(h, "<th scope=\"col\" class=\"id key c%d\"><a href=\"/jobs/%s\">%s</a></th>", i, c.jobs[i]->id, c.jobs[i]->id);
    html_put(h, "</tr></thead><tbody>\n");
    put_texts(h, &c, "name", compared_name);
    put_texts(h, &c, "state", compared_state);
    put_results(h, &c);
    put_texts(h, &c, "over the file", compared_overrides);
    html_put(h, "</tbody></table></div></section>\n</div>\n");
    shell_end(h, v);
    return true;
}
