/* /: the device, volumes, hooks, the queue and what runs. */

#include "daemon/page/job_row.h"
#include "daemon/page/shell.h"
#include "daemon/page/tile.h"
#include "daemon/page/words.h"

enum { ENDED_SHOWN = 8, SCARCE = 10 /* percent free */ };

static void put_meter(struct html *h, const char *name, double share, const char *text) {
    html_put(h, "<dt>%s</dt><dd>", name);
    if (isfinite(share))
        html_put(h, "<meter min=\"0\" max=\"1\" high=\"0.9\" value=\"%.3f\" aria-label=\"%s\"></meter> ", share, name);
    html_put(h, "%s</dd>", text);
}

static void put_device(struct html *h, const struct status_device *d) {
    const struct device_health *health = &d->health;
    OWNED(str_done) struct str slow = str_of(256);
    struct words used, total;
    char text[160];
    html_put(h, "<p class=\"lead\">%s</p><p class=\"hint\">%s</p>", d->info.name, d->info.description);
    if (*d->fault.why)
        html_put(h, "<p class=\"wrong\">It takes no new work: %s; %s</p>", d->fault.why, d->fault.fix);
    html_put(h, "<dl>");
    if (isfinite(health->utilization)) {
        str_format(text, sizeof text, "%.0f %%", 100 * health->utilization);
        put_meter(h, "busy", health->utilization, text);
    }
    if (health->memory_total_bytes > 0) {
        str_format(text, sizeof text, "%s of %s", words_bytes(&used, health->memory_used_bytes),
                   words_bytes(&total, health->memory_total_bytes));
        put_meter(h, "memory", (double)health->memory_used_bytes / (double)health->memory_total_bytes, text);
    }
    if (isfinite(health->temperature_c))
        html_put(h, "<dt>temperature</dt><dd>%.0f °C</dd>", health->temperature_c);
    if (isfinite(health->power_w))
        html_put(h, "<dt>power</dt><dd>%.0f W</dd>", health->power_w);
    for (int i = 1; i < DEVICE_SLOWDOWN_COUNT; i++) /* 0: idle */
        if (health->slowed >> i & 1)
            str_printf(&slow, "%s%s", slow.len ? ", " : "", device_slowdown_name((enum device_slowdown)i));
    if (slow.len)
        shell_put_fact(h, "slowed by", str_cstr(&slow));
    html_put(h, "</dl>");
}

static void put_devices(struct html *h, const struct status *s) {
    struct words used, w;
    html_put(h, "<section aria-labelledby=\"device\"><h2 id=\"device\">Device%s</h2>", s->n_devices == 1 ? "" : "s");
    for (int i = 0; i < s->n_devices; i++)
        put_device(h, &s->devices[i]);
    html_put(h, "<dl><dt>daemon</dt><dd>%s processors, %s</dd>", words_number(&w, round(s->cpu * 100) / 100, "–"),
             words_bytes(&used, s->resident_bytes));
    shell_put_fact(h, "runs for", words_duration(&w, s->uptime_s));
    html_put(h, "</dl></section>\n");
}

static void put_volumes(struct html *h, const struct status *s) {
    struct words part, whole;
    char text[160];
    html_put(h, "<section aria-labelledby=\"volumes\"><h2 id=\"volumes\">Volumes</h2><dl>");
    for (int i = 0; i < s->n_volumes; i++) {
        const struct status_volume *v = &s->volumes[i];
        double taken = v->size_bytes > 0 && v->free_bytes >= 0 ? 1 - (double)v->free_bytes / (double)v->size_bytes : NAN;
        str_format(text, sizeof text, "%s free of %s%s", words_bytes(&part, v->free_bytes), words_bytes(&whole, v->size_bytes),
                   100 * (1 - taken) < SCARCE ? ": little room" : "");
        put_meter(h, v->name, taken, v->answers ? text : "does not answer");
    }
    html_put(h, "</dl>");
    for (int i = 0; i < s->n_volumes; i++)
        html_put(h, "<p class=\"hint\">%s: <code>%s</code></p>", s->volumes[i].name, s->volumes[i].path);
    if (s->journal_fails)
        html_put(h, "<p class=\"wrong\">The journal cannot be written: what happens now may be missing in it.</p>");
    if (s->database_fails)
        html_put(h, "<p class=\"wrong\">The job database cannot be written: no job starts.</p>");
    html_put(h, "</section>\n");
}

static void put_hooks(struct html *h, const struct status *s) {
    if (!s->n_hooks)
        return;
    html_put(h,
             "<section aria-labelledby=\"hooks\"><h2 id=\"hooks\">Who is told about alarms</h2><table "
             "class=\"rows\"><thead><tr><th scope=\"col\">hook</th><th scope=\"col\" class=\"n\">delivered</th><th scope=\"col\" "
             "class=\"n\">failed, tried again</th><th scope=\"col\" class=\"n\">given up</th></tr></thead><tbody>");
    for (int i = 0; i < s->n_hooks; i++)
        html_put(h,
                 "<tr class=\"%s\"><th scope=\"row\">%s</th><td class=\"n\" data-l=\"delivered\">%.0f</td><td class=\"n\" "
                 "data-l=\"failed, tried again\">%.0f</td><td class=\"n\" data-l=\"given up\">%.0f</td></tr>",
                 s->hooks[i].state.failing || s->hooks[i].dropped > 0 ? "bad" : "good", s->hooks[i].name, s->hooks[i].delivered,
                 s->hooks[i].failed, s->hooks[i].dropped);
    html_put(h, "</tbody></table>");
    for (int i = 0; i < s->n_hooks; i++)
        if (s->hooks[i].state.failing)
            html_put(h, "<p class=\"wrong\">%s does not deliver, and %d entries wait: %s</p>", s->hooks[i].name,
                     s->hooks[i].state.waiting, s->hooks[i].state.error);
    html_put(h, "</section>\n");
}

static void put_beds(struct html *h, const struct page_view *v) {
    int counts[STATUS_MOODS] = {0}, n = 0;
    for (int i = 0; i < v->status->n_streams; i++)
        if (page_sees(v, &v->status->streams[i])) {
            counts[v->status->streams[i].mood]++;
            n++;
        }
    html_put(h, "<section aria-labelledby=\"beds\"><h2 id=\"beds\"><a href=\"/streams\">Streams</a></h2>");
    html_put(h, n ? "<ul class=\"counts\">" : "<p class=\"empty\">none is open</p>");
    for (int i = 0; i < STATUS_MOODS && n; i++)
        if (counts[i] || i == STATUS_ALARM)
            html_put(h, "<li data-mood=\"%s\" class=\"%s\"><b>%d</b> %s</li>", status_mood_name((enum status_mood)i),
                     counts[i] ? "some" : "zero", counts[i], tile_mood_words((enum status_mood)i));
    html_put(h, n ? "</ul></section>\n" : "</section>\n");
}

static void put_work(struct html *h, const struct page_view *v) {
    const struct status *s = v->status;
    int waiting = 0, ended = 0, n = 0;
    html_put(h, "<section class=\"wide\" aria-labelledby=\"work\"><h2 id=\"work\"><a href=\"/jobs\">Jobs</a></h2>");
    for (int i = 0; i < s->n_jobs; i++)
        if (job_is_active(s->jobs[i].job.state) && page_sees_job(v, s->jobs[i].job.owner))
            job_put_running(h, s, &s->jobs[i].job);
    for (int i = 0; i < s->n_jobs; i++) {
        const struct job *j = &s->jobs[i].job;
        const bool over = job_is_over(j->state);
        if (job_is_active(j->state) || !page_sees_job(v, j->owner) || (over && ++ended > ENDED_SHOWN))
            continue;
        waiting += !over;
        if (!n)
            job_put_head(h, NULL);
        job_put_row(h, &s->jobs[i], false);
        n++;
    }
    if (n)
        job_put_foot(h);
    if (!n)
        html_put(h, "<p class=\"empty\">%s</p>", s->n_jobs ? "No other job waits." : "There is no job yet.");
    else
        html_put(h, "<p class=\"hint\">%d waiting; <a href=\"/jobs\">all jobs</a></p>", waiting);
    html_put(h, "</section>\n");
}

void page_overview(struct html *h, const struct page_view *v) {
    shell_begin(h, v, &(struct shell){.title = "Overview", .place = SHELL_OVERVIEW, .live = true});
    html_put(h, "<div class=\"top\"><h1>Overview</h1><p class=\"state %s\">%s</p></div>\n<div class=\"panels\" id=\"panels\">\n",
             v->ready ? "good" : "wrong", v->readiness);
    put_beds(h, v);
    put_devices(h, v->status);
    put_volumes(h, v->status);
    put_work(h, v);
    put_hooks(h, v->status);
    html_put(h, "</div>\n");
    shell_end(h, v);
}
