/* The HTML of a report: one file, no script, nothing from elsewhere; reads in light and dark and prints a page of EEG a sheet. */

#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/output.h"
#include "client/brrctl/report/report.h"
#include "plot/eeg_page.h"
#include "plot/svg.h"
#include "score/score.h"

enum { STRIP_WIDTH = 420, PAGE_BEFORE = 3 }; /* a page begins a third of its length before the onset */

static const char head[] =
    "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
    "data:\">\n<style>\n"
    ":root{--ink:#1f2937;--soft:#6b7280;--line:#e5e7eb;--ground:#fff;--card:#f8fafc}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--soft:#9ca3af;--line:#374151;--ground:#0f172a;--card:#1e293b}}\n"
    "body{font:15px/1.5 system-ui,'Segoe UI',Helvetica,Arial,sans-serif;color:var(--ink);background:var(--ground);"
    "max-width:1180px;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:1.6rem 0 .4rem}\n"
    ".soft{color:var(--soft)}.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(8rem,1fr));gap:.7rem;margin:1.2rem "
    "0}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem}\n"
    ".card b{display:block;font-size:1.5rem;line-height:1.2}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "@media(max-width:600px){table{display:block;overflow-x:auto}}\n"
    "th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "th{font-weight:600;color:var(--soft)}td.n,th.n{text-align:right}\n"
    "figure{margin:1rem 0;break-inside:avoid}figure>svg{width:100%;height:auto;background:#fff;border:1px solid var(--line);"
    "border-radius:6px}\n"
    ".tag{border-radius:4px;padding:0 .5em;color:#fff}.found{background:#0f766e}.false{background:#c2410c}"
    ".missed{background:#be123c}.detected{background:#475569}\n"
    "pre{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.8rem;overflow:auto}\n"
    "a{color:inherit}summary{cursor:pointer}\n"
    "@media print{body{max-width:none;margin:0}@page{size:A4 landscape;margin:10mm}.eeg{break-before:page}details{display:none}}\n"
    "</style>\n";

static void put_text(struct str *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<' || c == '>' || c == '&' || c == '"')
            str_printf(out, "&#%d;", c);
        else if (c >= 0x20 || c == '\n' || c == '\t')
            str_append(out, text, 1);
        else
            str_puts(out, "?");
    }
}

static void put_tag(struct str *out, const char *tag, const char *attributes, const char *text) {
    str_printf(out, "<%s%s%s>", tag, *attributes ? " " : "", attributes);
    put_text(out, text);
    str_printf(out, "</%s>", tag);
}

static void put_number(struct str *out, double value, int digits) {
    if (isnan(value))
        str_puts(out, "<td class=\"n\">-</td>");
    else
        str_printf(out, "<td class=\"n\">%.*f</td>", digits, value);
}

static void put_card(struct str *out, const char *what, double value, int digits, const char *unit) {
    str_puts(out, "<div class=\"card\"><b>");
    if (isnan(value))
        str_puts(out, "-");
    else
        str_printf(out, "%.*f%s", digits, value, unit);
    str_puts(out, "</b>");
    put_tag(out, "span", "class=\"soft\"", what);
    str_puts(out, "</div>\n");
}

/* ---- events ---- */

/* One event of a recording: found, false, missed, or detected where nobody knows. */
struct listed {
    const struct report_recording *recording;
    struct plot_span span;
    double confidence;              /* NaN = none */
    double delay_s;                 /* of a found seizure: from its onset to the event's; NaN = none */
    const char *outcome, *channels; /* channels: that carry it; "" = not known */
};
struct listing {
    struct listed *items;
    int n;
};

static struct listed detected_event(const struct report_recording *r, int i) {
    struct listed e = {r, r->detected[i], r->confidence[i], NAN, "detected", r->channels[i]};
    if (!r->labelled)
        return e;
    int at = report_overlap(&e.span, r->reference, r->n_reference);
    e.outcome = at < 0 ? "false" : "found";
    if (at >= 0 && report_overlap(&r->reference[at], r->detected, r->n_detected) == i) /* the first piece of it */
        e.delay_s = e.span.onset_s - r->reference[at].onset_s;
    return e;
}

ORDER_BY(by_onset, struct listed, order_f64(x->span.onset_s, y->span.onset_s))

static struct listing list_events(const struct report_data *d) {
    size_t all = 1;
    for (int i = 0; i < d->n; i++)
        all += (size_t)(d->recordings[i].n_detected + d->recordings[i].n_reference);
    struct listed *items = needed(malloc(all * sizeof *items));
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        const struct report_recording *r = &d->recordings[i];
        int first = n;
        for (int k = 0; k < r->n_detected; k++)
            items[n++] = detected_event(r, k);
        for (int k = 0; k < r->n_reference; k++)
            if (report_overlap(&r->reference[k], r->detected, r->n_detected) < 0)
                items[n++] = (struct listed){r, r->reference[k], NAN, NAN, "missed", ""};
        qsort(items + first, (size_t)(n - first), sizeof *items, by_onset);
    }
    return (struct listing){items, n};
}

/* "14:05:30", or the position in a recording without a clock. */
static void moment(const struct report_recording *r, double time_s, char buf[32]) {
    int64_t clock = (int64_t)floor(r->clock_s + time_s);
    if (r->has_clock)
        str_format(buf, 32, "%02d:%02d:%02d", (int)(clock / 3600 % 24), (int)(clock / 60 % 60), (int)(clock % 60));
    else
        output_clock(time_s, buf, 32);
}

static void put_event_rows(const struct listing *l, int n_pages, struct str *out) {
    str_puts(out, "<table><tr><th class=\"n\">#</th><th>outcome</th><th>recording</th><th>clock</th><th class=\"n\">at</th>"
                  "<th class=\"n\">lasts</th><th class=\"n\">confidence</th><th class=\"n\">onset error</th><th>where</th></tr>\n");
    for (int i = 0; i < l->n; i++) {
        const struct listed *e = &l->items[i];
        char when[32], at[32], where[SIDE_TEXT];
        moment(e->recording, e->span.onset_s, when);
        side_text(e->channels, where);
        output_clock(e->span.onset_s, at, sizeof at);
        if (i < n_pages && e->recording->eeg)
            str_printf(out, "<tr><td class=\"n\"><a href=\"#event-%d\">%d</a></td>", i + 1, i + 1);
        else
            str_printf(out, "<tr><td class=\"n\">%d</td>", i + 1);
        str_printf(out, "<td><span class=\"tag %s\">%s</span></td><td>", e->outcome, e->outcome);
        put_text(out, e->recording->name);
        str_printf(out, "</td><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%.1f s</td>", e->recording->has_clock ? when : "-",
                   at, e->span.end_s - e->span.onset_s);
        put_number(out, e->confidence, 3);
        if (isnan(e->delay_s))
            str_puts(out, "<td class=\"n\">-</td><td>");
        else
            str_printf(out, "<td class=\"n\">%+.1f s</td><td>", e->delay_s);
        put_text(out, *where ? where : "-");
        str_puts(out, "</td></tr>\n");
    }
    str_puts(out, "</table>\n");
}

/* ---- pages of EEG ---- */

static void page_title(const struct listed *e, int number, char title[512]) {
    char when[32], confidence[32] = "", where[SIDE_TEXT];
    side_text(e->channels, where);
    moment(e->recording, e->span.onset_s, when);
    if (!isnan(e->confidence))
        str_format(confidence, sizeof confidence, ", confidence %.2f", e->confidence);
    str_format(title, 512, "Event %d, %s: %.200s at %s, %.1f s%s%s%s", number, e->outcome, e->recording->name, when,
               e->span.end_s - e->span.onset_s, confidence, *where ? ", " : "", where);
}

static void page_subtitle(const struct eeg_clip_config *filters, const struct report_recording *r, const char *montage,
                          double spacing_uv, char subtitle[512]) {
    str_format(subtitle, 512, "%s; %g to %g Hz, %s; montage %.40s; %g µV between channels, negative up; patient %.80s",
               r->start_text, filters->bandpass_hz[0], filters->bandpass_hz[1], eeg_clip_notch_text(filters->notch_hz),
               str_starts(montage, "custom:") ? "of the recording" : montage, spacing_uv, r->subject);
}

static int put_page(const struct report_content *c, const struct listed *e, const struct eegfile *edf, int number, struct str *out,
                    struct err *err) {
    const struct report_recording *r = e->recording;
    double from_s = fmax(0, floor(e->span.onset_s - c->page_s / PAGE_BEFORE));
    struct eeg_clip clip;
    char title[512], subtitle[512];
    int rc = eeg_clip_read(edf, c->clip, from_s, c->page_s, &clip, err);
    if (rc)
        return rc;
    struct eeg_page page = {.title = title,
                            .subtitle = subtitle,
                            .from_s = from_s,
                            .seconds = c->page_s,
                            SAME_MEMBERS(*r, has_clock, clock_s),
                            SAME_MEMBERS(clip, channels, names, uv, n),
                            .rate_hz = FRONTEND_RATE_HZ,
                            SAME_MEMBERS(*r, detected, n_detected, reference, n_reference, alarms_s, n_alarms),
                            .has_reference = r->labelled,
                            .has_alarms = r->has_alarms};
    page_title(e, number, title);
    page_subtitle(c->clip, r, clip.montage, eeg_page_spacing_uv(&page), subtitle);
    str_printf(out, "<figure class=\"eeg\" id=\"event-%d\">\n", number);
    rc = eeg_page_draw(&page, out, err);
    str_puts(out, "</figure>\n");
    eeg_clip_done(&clip);
    return rc;
}

/* A recording whose channels cannot be shown is a line of the report. */
static int put_pages(const struct report_content *c, const struct listing *l, int n_pages, struct str *out, int *ret,
                     struct err *err) {
    const struct report_recording *open = NULL;
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    for (int i = 0; i < n_pages; i++) {
        const struct listed *e = &l->items[i];
        int rc;
        if (!e->recording->eeg)
            continue;
        if (e->recording != open) {
            eegfile_close(edf);
            edf = NULL;
            if ((rc = eegfile_open_header(e->recording->eeg, &edf, err)))
                return rc;
            open = e->recording;
        }
        rc = put_page(c, e, edf, i + 1, out, err);
        if (rc && rc != ERR_PRECONDITION)
            return rc;
        *ret += !rc;
        if (rc) {
            str_printf(out, "<p id=\"event-%d\">Event %d has no page: ", i + 1, i + 1);
            put_text(out, err->message);
            str_puts(out, "</p>\n");
            *err = (struct err){0};
        }
    }
    return 0;
}

/* ---- scores ---- */

static int score_data(const struct report_data *d, struct score_report *ret, struct err *err) {
    OWNED_MEMORY struct score_recording *recs = needed(calloc((size_t)d->n + 1, sizeof *recs));
    size_t all = 1, at = 0;
    int n = 0;
    for (int i = 0; i < d->n; i++)
        all += (size_t)(d->recordings[i].n_detected + d->recordings[i].n_reference);
    OWNED_MEMORY struct score_event *events = needed(malloc(all * sizeof *events));
    for (int i = 0; i < d->n; i++) {
        const struct report_recording *r = &d->recordings[i];
        if (!r->labelled || isnan(r->duration_s))
            continue;
        struct score_event *reference = events + at, *detected = reference + r->n_reference;
        for (int k = 0; k < r->n_reference; k++)
            reference[k] = (struct score_event){r->reference[k].onset_s, r->reference[k].end_s};
        for (int k = 0; k < r->n_detected; k++)
            detected[k] = (struct score_event){r->detected[k].onset_s, r->detected[k].end_s};
        at += (size_t)(r->n_reference + r->n_detected);
        recs[n++] = (struct score_recording){SAME_MEMBERS(*r, name, subject, duration_s, unsure, n_unsure, gaps, n_gaps),
                                             .ref = reference, .n_ref = r->n_reference, .hyp = detected, .n_hyp = r->n_detected};
    }
    return score_all(recs, n, ret, err);
}

static void put_scores(const struct score_report *s, struct str *out) {
    str_puts(out, "<table><tr><th>pooled</th><th class=\"n\">sensitivity</th><th class=\"n\">precision</th><th class=\"n\">F1</th>"
                  "<th class=\"n\">false alarms in 24 h</th><th class=\"n\">true</th><th class=\"n\">false</th>"
                  "<th class=\"n\">seizures</th></tr>\n");
    for (int k = 0; k < SCORE_KINDS; k++) {
        const struct score *one = &s->pooled[k];
        str_printf(out, "<tr><td>%s</td>", score_kind_name((enum score_kind)k));
        put_number(out, one->sensitivity, 3);
        put_number(out, one->precision, 3);
        put_number(out, one->f1, 3);
        put_number(out, one->false_alarms_per_24h, 2);
        put_number(out, one->counts.tp, 1);
        put_number(out, one->counts.fp, 1);
        put_number(out, one->counts.ref, 0);
        str_puts(out, "</tr>\n");
    }
    str_puts(out, "</table>\n<p class=\"soft\">" SCORE_DEFINITION ".</p>\n");
}

static double hours_of(const struct report_data *d) {
    double s = 0;
    for (int i = 0; i < d->n; i++)
        s += isnan(d->recordings[i].duration_s)
                 ? 0
                 : score_recorded_s(d->recordings[i].duration_s, d->recordings[i].gaps, d->recordings[i].n_gaps);
    return s / 3600;
}

static int put_summary(const struct report_content *c, struct str *out, struct err *err) {
    const struct report_data *d = c->data;
    struct score_report scores;
    int events = 0, alarms = 0, rc;
    for (int i = 0; i < d->n; i++) {
        events += d->recordings[i].n_detected;
        alarms += d->recordings[i].n_alarms;
    }
    str_puts(out, "<div class=\"cards\">\n");
    put_card(out, "recordings", d->n, 0, "");
    put_card(out, hours_of(d) < 1 ? "minutes" : "hours", hours_of(d) * (hours_of(d) < 1 ? 60 : 1), 1, "");
    put_card(out, "events", events, 0, "");
    if (d->n_alarmed)
        put_card(out, "alarms", alarms, 0, "");
    if (!d->n_labelled) {
        str_puts(out,
                 "</div>\n<p class=\"soft\">No recording has labels, so nothing is known of sensitivity and false alarms.</p>\n");
        return 0;
    }
    if ((rc = score_data(d, &scores, err)))
        return rc;
    put_card(out, "sensitivity (SzCORE events)", 100 * scores.pooled[SCORE_EVENT].sensitivity, 0, " %");
    put_card(out, "false alarms in 24 h", scores.pooled[SCORE_EVENT].false_alarms_per_24h, 1, "");
    put_card(out, "event F1", scores.pooled[SCORE_EVENT].f1, 2, "");
    put_card(out, "onset error, median", scores.onsets.p50_s, 1, " s");
    str_puts(out, "</div>\n");
    if (d->n_labelled < d->n)
        str_printf(
            out,
            "<p><strong>Scored: %d of %d recordings.</strong> The others have no labels, so nothing is known of their events, "
            "and the scores leave them out.</p>\n",
            d->n_labelled, d->n);
    put_scores(&scores, out);
    score_report_done(&scores);
    return 0;
}

/* ---- recordings ---- */

static void put_bars(struct str *out, const struct report_recording *r, const struct plot_span *spans, int n, int y,
                     const char *color) {
    for (int i = 0; i < n; i++)
        str_printf(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"6\" fill=\"%s\"/>",
                   STRIP_WIDTH * spans[i].onset_s / r->duration_s, y,
                   fmax(1.5, STRIP_WIDTH * (spans[i].end_s - spans[i].onset_s) / r->duration_s), color);
}

static void put_strip(struct str *out, const struct report_recording *r) {
    str_printf(out,
               "<svg width=\"%d\" height=\"22\" role=\"img\" aria-label=\"%d seizures above, %d events below, %d alarms\">"
               "<rect width=\"%d\" height=\"22\" rx=\"3\" fill=\"#e5e7eb\"/>",
               STRIP_WIDTH, r->n_reference, r->n_detected, r->n_alarms, STRIP_WIDTH);
    put_bars(out, r, r->reference, r->n_reference, 3, "#0f766e");
    put_bars(out, r, r->detected, r->n_detected, 13, "#ea580c");
    for (int i = 0; i < r->n_alarms; i++)
        str_printf(out, "<path d=\"M%.1f 0v22\" stroke=\"#be123c\" stroke-width=\"1.5\"/>",
                   STRIP_WIDTH * r->alarms_s[i] / r->duration_s);
    str_puts(out, "</svg>");
}

static void put_recordings(const struct report_data *d, struct str *out) {
    str_puts(out,
             "<h2>Recordings</h2>\n<p class=\"soft\">Green: true seizures. Orange: detected events. Red lines: alarms.</p>\n"
             "<table><tr><th>recording</th><th>patient</th><th>start</th><th class=\"n\">length</th><th class=\"n\">seizures</th>"
             "<th class=\"n\">events</th><th>over time</th></tr>\n");
    for (int i = 0; i < d->n; i++) {
        const struct report_recording *r = &d->recordings[i];
        char length[32] = "-";
        if (isfinite(r->duration_s))
            svg_time(length, sizeof length, (double)llround(r->duration_s), 1);
        str_puts(out, "<tr>");
        put_tag(out, "td", "", r->name);
        put_tag(out, "td", "", r->subject);
        put_tag(out, "td", "", r->start_text);
        put_tag(out, "td", "class=\"n\"", length);
        put_number(out, r->labelled ? r->n_reference : NAN, 0);
        put_number(out, r->n_detected, 0);
        str_puts(out, "<td>");
        if (r->duration_s > 0)
            put_strip(out, r);
        str_puts(out, "</td></tr>\n");
    }
    str_puts(out, "</table>\n");
}

/* ---- what the job says of itself ---- */

static void put_rows(const struct json *report, struct str *out) {
    struct json_cursor at = {0};
    const struct json *value;
    const char *key;
    char figure[32];
    while (json_next(report, &at, &key, &value)) {
        enum json_kind kind = json_kind(value);
        if (kind == JSON_KIND_OBJECT && !strcmp(key, "result")) { /* of a training: its scores */
            put_rows(value, out);
            continue;
        }
        if (kind != JSON_KIND_STRING && kind != JSON_KIND_INTEGER && kind != JSON_KIND_REAL)
            continue;
        str_puts(out, "<tr>");
        put_tag(out, "th", "", key);
        put_tag(out, "td", "",
                kind == JSON_KIND_STRING ? json_str(value, "") : output_figure(json_f64(value, NAN), figure, sizeof figure));
        str_puts(out, "</tr>\n");
    }
}

static void put_facts(const struct json *report, struct str *out) {
    str_puts(out, "<table>\n");
    put_rows(report, out);
    str_puts(out, "</table>\n");
}

static void put_head(const struct report_content *c, struct str *out) {
    char when[32];
    output_time(clock_wall_ms(), when, sizeof when);
    str_puts(out, "<!doctype html>\n<html lang=\"en\"><head>\n<title>");
    put_text(out, c->title);
    str_printf(out, "</title>\n%s</head><body>\n", head);
    put_tag(out, "h1", "", c->title);
    if (*c->seen)
        str_printf(out, "<p><strong>%s</strong>: the model was trained or selected on them.</p>\n", c->seen);
    str_puts(out, "<p class=\"soft\">Report of ");
    put_text(out, c->source);
    str_printf(out, ", made by brrctl on %s. Not a medical device: nothing here has been evaluated for clinical use.</p>\n", when);
}

static int put_events(const struct report_content *c, struct str *out, int *ret_pages, struct err *err) {
    struct listing list = list_events(c->data);
    int n_pages = list.n < c->most_pages ? list.n : (int)c->most_pages;
    str_puts(out, "<h2>Events</h2>\n");
    if (!list.n)
        str_puts(out, "<p>Nothing was detected, and no recording has a labelled seizure.</p>\n");
    else
        put_event_rows(&list, n_pages, out);
    if (n_pages < list.n)
        str_printf(out, "<p class=\"soft\">The first %d of %d events have a page of EEG (--most).</p>\n", n_pages, list.n);
    if (c->data->n_without_eeg)
        str_printf(
            out,
            "<p class=\"soft\">%d of %d recordings are not at hand here, so that their events have no page of EEG (--eeg).</p>\n",
            c->data->n_without_eeg, c->data->n);
    int rc = put_pages(c, &list, n_pages, out, ret_pages, err);
    free(list.items);
    return rc;
}

/* The job's picture comes from the daemon: as an image it can neither run scripts nor load or send anything. */
static void put_picture(const char *svg, struct str *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n = strlen(svg);
    str_puts(out, "<figure>\n<img alt=\"picture of the job\" src=\"data:image/svg+xml;base64,");
    for (size_t i = 0; i < n; i += 3) {
        unsigned three = 0;
        for (size_t k = 0; k < 3; k++)
            three = three << 8 | (i + k < n ? (unsigned char)svg[i + k] : 0);
        char four[4];
        for (size_t k = 0; k < 4; k++)
            four[k] = i + k > n ? '=' : digits[three >> (18 - 6 * k) & 63];
        str_append(out, four, sizeof four);
    }
    str_puts(out, "\">\n</figure>\n");
}

int report_html(const struct report_content *c, struct str *out, int *ret_pages, struct err *err) {
    int rc;
    put_head(c, out);
    if (c->data->n && (rc = put_summary(c, out, err)))
        return rc;
    if (c->picture && c->picture_is_own)
        str_printf(out, "<figure>\n%s</figure>\n", c->picture);
    else if (c->picture)
        put_picture(c->picture, out);
    if (c->data->n) {
        put_recordings(c->data, out);
        if ((rc = put_events(c, out, ret_pages, err)))
            return rc;
    }
    if (c->report) {
        str_puts(out, "<h2>Result of the job</h2>\n");
        put_facts(c->report, out);
    }
    if (c->job_file) {
        str_puts(out, "<details><summary>Job file</summary>");
        put_tag(out, "pre", "", c->job_file);
        str_puts(out, "</details>\n");
    }
    str_puts(out, "</body></html>\n");
    return str_ok(out) ? 0 : err_set(err, ERR_EXHAUSTED, "the report is too long; name fewer pages with --most");
}
