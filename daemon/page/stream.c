/* /streams/ID: one stream: its last minute and hours, what the journal has of it, the quality of its channels. */

#include "base/principal.h"
#include "daemon/alarms/alarm_entry.h"
#include "daemon/journal/journaldb.h"
#include "daemon/page/answer_forms.h"
#include "daemon/page/chart.h"
#include "daemon/page/shell.h"
#include "daemon/page/tile.h"
#include "daemon/page/words.h"
#include "eeg/quality.h"

enum { ENTRIES = 200, SPANS = 2 * ENTRIES, SHOWN = 60 };
/* What the chart can show, in points of the past: a quarter of an hour, an hour, all of it. */
static const int ranges[] = {90, 360, PAST_POINTS};
static const char *const range_names[] = {"Last 15 minutes", "Last hour", "Last six hours"};

/* The newest entries of the stream in the journal, newest first. */
struct history {
    struct journal_entry *entries;
    int n;
    struct err err; /* why there is none */
};

static void history_done(struct history *past) { free(past->entries); }

static void keep_entry(void *ctx, const struct journal_entry *e) {
    struct history *past = ctx;
    past->entries[past->n++] = *e;
}

static void read_history(const struct page_view *v, const char *session, struct history *past) {
    struct journal_filter filter = {0};
    const struct journal_page page = {.newest_first = true, .most = ENTRIES};
    struct db *db = NULL;
    str_copy(filter.session, sizeof filter.session, session);
    if (!(past->entries = calloc(ENTRIES, sizeof *past->entries))) {
        err_set(&past->err, ERR_EXHAUSTED, "out of memory reading the journal");
        return;
    }
    if (journaldb_open_reader(v->journal, &db, &past->err))
        return;
    (void)journaldb_list(db, &filter, &page, keep_entry, past, &past->err);
    db_close(db);
}

/* ---- hours ---- */

static double share(int64_t before_ms, int points) { return 1 - (double)before_ms / ((double)points * PAST_STEP_MS); }

/* Alarms from on to off, oldest entry last; one that is on now reaches to the end. Events end when they became final. */
static int spans_of(const struct history *past, int64_t now_ms, int points, struct chart_span spans[SPANS]) {
    double off = 1;
    int n = 0;
    for (int i = 0; i < past->n && n < SPANS; i++) {
        const struct journal_entry *e = &past->entries[i];
        const int64_t before_ms = now_ms - e->received_ms;
        const double at = share(before_ms, points);
        if (e->kind == JOURNAL_ALARM_OFF)
            off = at;
        if (e->kind == JOURNAL_ALARM_ON)
            spans[n++] = (struct chart_span){.from = at, .to = off};
        if (e->kind == JOURNAL_EVENT && isfinite(e->end_s))
            spans[n++] = (struct chart_span){
                .from = share(before_ms + llround((e->end_s - e->start_s) * 1000), points), .to = at, .event = true};
    }
    return n;
}

static void put_hours(struct html *h, const struct status_stream *s, const struct history *past, int64_t now_ms) {
    OWNED_MEMORY float *points = malloc(PAST_POINTS * sizeof *points);
    OWNED_MEMORY struct chart_span *spans = malloc(SPANS * sizeof *spans);
    if (!s->trace || !points || !spans)
        return;
    past_copy(s->trace, now_ms, points);
    int range = 0, first = 0;
    while (first < PAST_POINTS && !isfinite(points[first]))
        first++;
    while (ranges[range] < PAST_POINTS - first)
        range++;
    const int n = ranges[range];
    const struct chart_hours chart = {.points = points + PAST_POINTS - n,
                                      .n = n,
                                      .on = s->bed.threshold_on,
                                      .spans = spans,
                                      .n_spans = spans_of(past, now_ms, n, spans)};
    html_put(h, "<section class=\"wide\" aria-labelledby=\"hours\"><h2 id=\"hours\">%s</h2>", range_names[range]);
    chart_put_hours(h, &chart);
    html_put(
        h, "<p class=\"hint\"><span class=\"key p\">highest probability of each 10 s</span> <span class=\"key alarm\">alarm</span> "
           "<span class=\"key event\">event</span> <span class=\"key on\">threshold of the alarm</span></p></section>\n");
}

/* The viewer, which its script fills. */
static void put_eeg(struct html *h, const struct status_stream *s) {
    if (s->eeg)
        html_put(h,
                 "<section class=\"eeg\" id=\"eeg\" data-eeg=\"/streams/%s/eeg\" aria-labelledby=\"traces\"><h2 "
                 "id=\"traces\">EEG</h2><noscript><p>The traces need script.</p></noscript></section>\n",
                 s->bed.session_id);
    else if (s->loaded)
        html_put(h, "<section class=\"eeg\" id=\"no-eeg\"><p class=\"empty\">No EEG of this stream is kept for people "
                    "(<code>viewer.minutes</code>, <code>viewer.memory</code>).</p></section>\n");
}

/* ---- facts, channels, journal ---- */

static void put_facts(struct html *h, const struct status_stream *s) {
    struct words w;
    char text[160];
    html_put(h, "<section aria-labelledby=\"facts\"><h2 id=\"facts\">Stream</h2><dl>");
    shell_put_fact(h, "client", *s->bed.name ? s->bed.name : "–");
    shell_put_fact(h, "opened by", s->bed.principal);
    shell_put_fact(h, "from", *s->address ? s->address : "–");
    shell_put_fact(h, "session", s->bed.session_id);
    html_put(h, "<dt>model</dt><dd><a href=\"/models\">%s</a></dd><dt>opened</dt><dd>", s->bed.model);
    words_put_time(h, s->bed.opened_ms);
    html_put(h, "</dd>");
    if (s->mood != STATUS_ENDED) {
        str_format(text, sizeof text, s->measured_hz > 0 ? "%g Hz; measured: %.2f Hz" : "%g Hz", s->rate_hz, s->measured_hz);
        shell_put_fact(h, "rate", text);
        shell_put_fact(h, "received", words_duration(&w, s->received_s));
        html_put(h, "<dt>events</dt><dd>%lld</dd><dt>reconnects</dt><dd>%lld</dd>", (long long)s->events, (long long)s->reconnects);
    }
    if (s->bed.threshold_on > 0) {
        str_format(text, sizeof text, "on above %.3f, off below %.3f", s->bed.threshold_on, s->off);
        shell_put_fact(h, "alarm", text);
    }
    html_put(h, "</dl></section>\n");
}

static void put_flaws(struct html *h, const struct status_channel *c) {
    OWNED(str_done) struct str text = str_of(64);
    quality_put_flaws(&text, c->flaws);
    html_put(h, "<td class=\"%s\">%s</td>", c->flaws ? "bad" : "good", text.len ? str_cstr(&text) + 1 : "good");
}

static void put_channels(struct html *h, const struct status_stream *s) {
    if (!s->n_channels)
        return;
    html_put(h, "<section aria-labelledby=\"quality\"><h2 id=\"quality\">Quality and montage</h2><p>%s of %d channels</p>",
             s->n_flawed ? "Flaws in some" : "No flaw in any", s->n_channels);
    if (*s->montage)
        html_put(h, "<p class=\"hint\">montage of the model: %s</p>", s->montage);
    chart_put_head(h, s->channels, s->n_channels);
    html_put(h,
             "<details%s><summary>All channels</summary><div class=\"scroll\"><table class=\"rows\"><thead><tr><th "
             "scope=\"col\">channel</th><th scope=\"col\">signal</th><th scope=\"col\">used by the model</th></tr></thead><tbody>",
             s->n_flawed ? " open" : "");
    for (int i = 0; i < s->n_channels; i++) {
        html_put(h, "<tr><th scope=\"row\">%s</th>", s->channels[i].name);
        put_flaws(h, &s->channels[i]);
        html_put(h, "<td data-l=\"used by the model\">%s</td></tr>\n", s->channels[i].used ? "yes" : "no");
    }
    html_put(h, "</tbody></table></div></details></section>\n");
}

static void put_entry(struct html *h, const struct journal_entry *e) {
    struct words w;
    html_put(h, "<tr class=\"%s\"><td>", journal_kind_name(e->kind));
    words_put_time(h, e->received_ms);
    html_put(h, "</td><th scope=\"row\">%s</th><td data-l=\"in the recording\">", journal_kind_words(e->kind));
    const bool linked = isfinite(e->start_s) && (e->kind == JOURNAL_ALARM_ON || e->kind == JOURNAL_EVENT);
    if (linked)
        html_put(h, "<a href=\"/streams/%s?at=%.2f#eeg\">", e->session, e->start_s);
    if (isfinite(e->start_s))
        html_put(h, "%s", words_timer(&w, (int64_t)e->start_s));
    html_put(h, linked ? "</a>" : "");
    if (isfinite(e->end_s))
        html_put(h, "–%s", words_timer(&w, (int64_t)e->end_s));
    const char *person = principal_of_detail(e->person, e->detail);
    html_put(h, "</td><td class=\"n\" data-l=\"value\">%s</td><td>%s%s%s", isfinite(e->value) ? words_p(&w, (float)e->value) : "",
             person, *person && *e->detail ? ": " : "", e->detail);
    const bool later = e->kind != JOURNAL_ALARM_ON && e->kind != JOURNAL_EVENT;
    html_put(h, "%s%s%s", *e->where && *e->detail ? ", " : "", *e->where && later ? "at the onset: " : "", e->where);
    if (e->step)
        html_put(h, "%snobody has answered; call %lld", *e->where ? "; " : "", (long long)e->step);
    html_put(h, "</td></tr>\n");
}

static void put_journal(struct html *h, const struct history *past) {
    html_put(h, "<section class=\"wide\" aria-labelledby=\"journal\"><h2 id=\"journal\">Journal</h2>");
    if (past->err.code)
        html_put(h, "<p class=\"wrong\">The journal cannot be read now: %s</p>", past->err.message);
    if (past->n) {
        html_put(h, "<div class=\"scroll\"><table class=\"rows\"><thead><tr><th scope=\"col\">when</th><th "
                    "scope=\"col\">what</th><th scope=\"col\">in the recording</th><th scope=\"col\" class=\"n\">value</th><th "
                    "scope=\"col\">detail</th></tr></thead><tbody>\n");
        const char *escalated = ""; /* of an alarm that nobody answers, the newest call stands for those before it */
        for (int i = 0, shown = 0; i < past->n && shown < SHOWN; i++) {
            const struct journal_entry *e = &past->entries[i];
            if (e->kind == JOURNAL_ESCALATED && *e->alarm && !strcmp(e->alarm, escalated))
                continue;
            escalated = e->kind == JOURNAL_ESCALATED ? e->alarm : escalated;
            put_entry(h, e);
            shown++;
        }
        html_put(h, "</tbody></table></div>");
    } else if (!past->err.code) {
        html_put(h, "<p class=\"empty\">nothing yet</p>");
    }
    if (past->n > SHOWN)
        html_put(h, "<p class=\"hint\">Earlier entries: <code>brrctl journal</code></p>");
    html_put(h, "</section>\n");
}

/* ---- a stream that is not listed any more, and a test alarm, which has none ---- */

/* When, by whom, who was told, who answered; entries are the newest first. */
static void put_test(struct html *h, const struct history *past) {
    const struct journal_entry *made = past->n ? &past->entries[past->n - 1] : NULL;
    int answers = 0;
    if (!made || !alarm_entry_is_test(made))
        return;
    html_put(h, "<section class=\"wide\" aria-labelledby=\"test\"><h2 id=\"test\">Test alarm</h2><p>No patient had it: somebody "
                "tried whether people are told.</p><dl><dt>made</dt><dd>");
    words_put_time(h, made->received_ms);
    html_put(h, ", by %s</dd>", principal_words(made->principal));
    for (int i = past->n - 1; i >= 0; i--) {
        const struct journal_entry *e = &past->entries[i];
        struct alarm_answer answer;
        const bool answered = e->kind == JOURNAL_ANSWERED && alarm_entry_answer(e, &answer) && answer.action == ALARM_ACKNOWLEDGE;
        answers += answered;
        if (e->kind == JOURNAL_TOLD)
            html_put(h, "<dt>told</dt><dd>%s, %s, ", e->person, e->detail);
        else if (e->kind == JOURNAL_ESCALATED)
            html_put(h, "<dt>nobody had answered</dt><dd>call %lld, ", (long long)e->step);
        else if (answered)
            html_put(h, "<dt>answered</dt><dd>%s, ", alarm_author_name(&answer.author));
        else
            continue;
        words_put_time(h, e->received_ms);
        html_put(h, "</dd>");
    }
    html_put(h, answers ? "</dl></section>\n" : "<dt>answered</dt><dd>by nobody</dd></dl></section>\n");
}

/* False: this reader may see nothing of it. */
static bool put_past_stream(struct html *h, const struct page_view *v, const char *id) {
    const struct alarm *seen = NULL;
    OWNED(history_done) struct history past = {0};
    int n = 0;
    read_history(v, id, &past);
    for (int i = 0; i < v->status->n_alarms && !seen; i++)
        if (!strcmp(v->status->alarms[i]->session, id) && page_sees_alarm(v, v->status->alarms[i]))
            seen = v->status->alarms[i];
    const struct journal_entry *e = past.n ? past.entries : NULL;
    if (!*id || (!seen && !(e && page_sees_bed(v, e->principal, e->client))))
        return false;
    const char *bed = seen ? seen->bed : e->client, *name = *bed ? bed : id;
    shell_begin(h, v, &(struct shell){.title = name, .place = SHELL_STREAMS, .live = true, .sounds = true});
    html_put(h, "<div class=\"top\"><h1>%s</h1><p>%s</p></div>\n<div class=\"panels two\" id=\"panels\">\n", name,
             str_starts(id, "test") ? "Test alarm" : "The stream has ended, or is in another daemon; its EEG is no longer here");
    put_test(h, &past);
    for (int i = 0; i < v->status->n_alarms; i++) {
        const struct alarm *a = v->status->alarms[i];
        if (a->kind != ALARM_SEIZURE || strcmp(a->session, id) != 0 || !page_sees_alarm(v, a))
            continue;
        html_put(h, n++ ? ""
                        : "<section class=\"wide\" aria-labelledby=\"alarm\"><h2 id=\"alarm\">Alarms</h2><ol "
                          "class=\"alarm-list\">");
        page_put_alarm(h, v, a, "/alarms");
    }
    html_put(h, n ? "</ol></section>\n" : "");
    put_journal(h, &past);
    html_put(h, "</div>\n");
    shell_end(h, v);
    return true;
}

bool page_stream(struct html *h, const struct page_view *v, const char *id) {
    const struct status_stream *s = page_find_stream(v, id);
    const int64_t now_ms = v->status->taken_ms;
    OWNED(history_done) struct history past = {0};
    char title[60];
    if (!s)
        return put_past_stream(h, v, id);
    read_history(v, id, &past);
    str_copy(title, sizeof title, tile_name(s));
    shell_begin(h, v, &(struct shell){.title = title, .place = SHELL_STREAMS, .live = true, .sounds = true, .eeg = true});
    tile_put(h, v, s, true);
    put_eeg(h, s);
    html_put(h, "<div class=\"panels two\" id=\"panels\">\n");
    if (s->alarm) {
        html_put(h, "<section class=\"wide\" aria-labelledby=\"alarm\"><h2 id=\"alarm\">Alarm</h2><ol class=\"alarm-list\">");
        page_put_alarm(h, v, s->alarm, "/alarms");
        html_put(h, "</ol></section>\n");
    }
    put_hours(h, s, &past, now_ms);
    put_facts(h, s);
    put_channels(h, s);
    put_journal(h, &past);
    html_put(h, "</div>\n");
    shell_end(h, v);
    return true;
}
