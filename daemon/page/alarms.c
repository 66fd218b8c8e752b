/* /alarms: open alarms, technical ones, and those of the last hours, with the forms to answer them. */

#include "daemon/page/answer_forms.h"
#include "daemon/page/shell.h"
#include "daemon/page/words.h"

enum { SHOWN = 60, WAITING_SHOWN = 300 };

static const char *state_words(const struct alarm *a) {
    if (a->test)
        return a->off_ms ? "Test is over" : "Test";
    if (!a->live)
        return a->off_ms ? "Replay: was on" : "Replay: on";
    if (a->cut)
        return "Monitoring stopped while the alarm was on";
    return a->off_ms ? "Was on" : a->status ? "On for more than 5 min" : "On";
}

/* The page of a stream is there until some minutes after its end. */
static void put_onset(struct html *h, const struct page_view *v, const struct alarm *a) {
    if (!*a->session || a->kind != ALARM_SEIZURE || a->test)
        return;
    if (page_find_stream(v, a->session))
        html_put(h, "<p><a href=\"/streams/%s?t=%lld#eeg\">EEG of the onset</a></p>", a->session, (long long)a->on_ms);
    else
        html_put(h,
                 "<p>The stream has ended; its EEG is no longer here. With journal.onsets there is a file of the onset: "
                 "<code>brrctl alarms eeg %s</code></p>",
                 a->id);
}

static void put_what(struct html *h, const struct page_view *v, const struct alarm *a) {
    struct words w;
    char again[ALARM_AGAIN];
    html_put(h, "<h3>%s</h3><p><span class=\"what\">%s", *a->bed ? a->bed : "brrd",
             a->kind == ALARM_SEIZURE ? state_words(a) : alarm_kind_words(a->kind));
    if (*a->why && a->kind != ALARM_UNANSWERED && (a->kind != ALARM_SEIZURE || a->cut))
        html_put(h, ": %s", a->kind == ALARM_SEIZURE ? journal_off_words(a->why) : a->why);
    html_put(h, a->off_ms ? "</span> at " : "</span> since ");
    words_put_time(h, a->on_ms);
    html_put(h, ", for %s</p>", words_duration(&w, alarm_length_ms(a, v->status->boot_ms) / 1000));
    if (a->due_boot_ms)
        html_put(h, "<p>Nobody is told: by the rule of this bed in the configuration</p>");
    if (a->answered.at_ms) {
        html_put(h, "<p>Acknowledged by %s ", alarm_author_name(&a->answered));
        words_put_time(h, a->answered.at_ms);
        html_put(h, "</p>");
    } else if (alarm_is_waiting(a)) {
        html_put(h, a->step ? "<p><strong>Nobody has answered; %d call%s</strong></p>" : "<p>Nobody has answered</p>", a->step,
                 a->step == 1 ? "" : "s");
    }
    if (*a->where)
        html_put(h, "<p>At the onset: %s</p>", a->where);
    alarm_again_text(a, again);
    if (*again)
        html_put(h, "<p>%s</p>", again);
    if (a->blind)
        html_put(h, "<p><strong>Blind: no signal comes from the bed</strong></p>");
    answer_forms_put_silence(h, v, a);
    put_onset(h, v, a);
    if (a->mark)
        html_put(h, "<p>Marked: %s</p>", alarm_mark_name(a->mark));
    if (*a->note) {
        const char *noter = alarm_author_name(&a->noted);
        html_put(h, "<p>“%s” (%s%s", a->note, noter, *noter ? ", " : "");
        words_put_time(h, a->noted.at_ms);
        html_put(h, ")</p>");
    }
}

void page_put_alarm(struct html *h, const struct page_view *v, const struct alarm *a, const char *next) {
    html_put(h, "<li class=\"alarm\" id=\"a-%s\" data-kind=\"%s\" data-waiting=\"%d\">", a->id, alarm_kind_name(a->kind),
             alarm_is_waiting(a));
    put_what(h, v, a);
    answer_forms_put(h, v, a, next);
    html_put(h, "</li>\n");
}

/* Those of which `wanted` is true: all alarms of patients that are on, and some of the others. */
static void put_list(struct html *h, const struct page_view *v, const char *id, const char *title,
                     bool (*wanted)(const struct alarm *a)) {
    int n = 0, left = 0;
    html_put(h, "<section aria-labelledby=\"%s\"><h2 id=\"%s\">%s</h2><ol class=\"alarm-list\" id=\"list-%s\">\n", id, id, title,
             id);
    for (int i = 0; i < v->status->n_alarms; i++) {
        const struct alarm *a = v->status->alarms[i];
        if (!wanted(a) || !page_sees_alarm(v, a))
            continue;
        if (n++ < (alarm_is_open(a) ? WAITING_SHOWN : SHOWN) || (a->kind == ALARM_SEIZURE && !a->off_ms))
            page_put_alarm(h, v, a, "/alarms");
        else
            left++;
    }
    html_put(h, n ? "</ol>" : "</ol><p class=\"empty\">none</p>");
    if (left)
        html_put(h, "<p class=\"hint\">%d more are not shown; <code>brrctl alarms</code> lists them.</p>", left);
    html_put(h, "</section>\n");
}

static bool is_open(const struct alarm *a) { return alarm_is_open(a) && a->kind == ALARM_SEIZURE; }
static bool is_technical(const struct alarm *a) { return alarm_is_open(a) && a->kind != ALARM_SEIZURE; }
static bool is_closed(const struct alarm *a) { return !alarm_is_open(a); }

void page_alarms(struct html *h, const struct page_view *v) {
    shell_begin(h, v, &(struct shell){.title = "Alarms", .place = SHELL_ALARMS, .live = true, .sounds = true});
    html_put(h, "<h1>Alarms</h1>\n<div class=\"panels two\" id=\"panels\" data-order=\"%lld\">\n", (long long)page_alarms_order(v));
    put_list(h, v, "open", "Open", is_open);
    put_list(h, v, "technical-alarms", "Technical", is_technical);
    put_list(h, v, "closed", "Last 12 hours", is_closed);
    answer_forms_put_bed(h, v);
    html_put(h, "</div>\n<p class=\"hint\">brrd is not a medical device: a secondary notification without confirmed delivery. "
                "<code>brrctl alarms</code> shows and answers the same; <code>brrctl journal</code> keeps every answer.</p>\n");
    shell_end(h, v);
}
