/* /jobs: what runs and waits, and the newest that ended. */
#include "daemon/page/job_row.h"
#include "daemon/page/shell.h"

void page_jobs(struct html *h, const struct page_view *v) {
    const struct status *s = v->status;
    shell_begin(h, v, &(struct shell){.title = "Jobs", .place = SHELL_JOBS, .live = true});
    html_put(h, "<h1>Jobs</h1>\n");
    for (int i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].active && page_sees_job(v, s->jobs[i].owner))
            job_put_running(h, &s->jobs[i], s->taken_ms);
    if (!s->n_jobs)
        html_put(h, "<p class=\"empty\">There is no job yet. <code>brrctl submit configs/tiny.yaml</code> makes one.</p>\n");
    job_put_head(h);
    for (int i = 0; i < s->n_jobs; i++)
        if (!s->jobs[i].active && page_sees_job(v, s->jobs[i].owner))
            job_put_row(h, &s->jobs[i], s->taken_ms);
    job_put_foot(h);
    if (s->left_jobs > 0)
        html_put(h, "<p class=\"hint\">%d more jobs are not shown; <code>brrctl jobs</code> lists all.</p>\n", s->left_jobs);
    shell_end(h, v);
}
