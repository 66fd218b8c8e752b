#include "daemon/page/tile.h"

#include "base/principal.h"
#include "daemon/page/answer_forms.h"
#include "daemon/page/chart.h"
#include "daemon/page/words.h"

enum tile_field { TILE_MOOD, TILE_P, TILE_VALUE, TILE_LAG, TILE_SEEN, TILE_NOTE, TILE_FIELDS };
enum { TILE_TEXT = 120 };
static const char *const fields[TILE_FIELDS] = {"mood", "p", "value", "lag", "seen", "note"}; /* data-f */

struct tile {
    char text[TILE_FIELDS][TILE_TEXT]; /* "Alarm 0:45", "raised", "0.62", "0.3 s", "1 s ago", "F3 flat" */
};

const char *tile_name(const struct status_stream *s) { return *s->bed.name ? s->bed.name : s->bed.model; }

/* Who streams it, to stand beside the name, the client's own word; "" where the principal's token has the same name. */
static const char *tile_by(const struct status_stream *s) { return principal_beside(s->bed.principal, s->bed.name); }

static int64_t since(int64_t now_ms, int64_t then_ms) { return then_ms > 0 && now_ms > then_ms ? (now_ms - then_ms) / 1000 : 0; }

const char *tile_mood_words(enum status_mood m) {
    static const char *const words[STATUS_MOODS] = {"in alarm", "not acknowledged", "no signal",     "late", "poor signal",
                                                    "good",     "standby",          "not connected", "ended"};
    return words[m];
}

/* The word for a probability beside the threshold of its alarm: "low", "raised", "high"; "": there is none. */
static const char *tile_word(const struct status_stream *s) {
    if (!isfinite(s->bed.probability) || s->bed.threshold_on <= 0)
        return "";
    return (double)s->bed.probability >= s->bed.threshold_on       ? "high"
           : (double)s->bed.probability >= s->bed.threshold_on / 2 ? "raised"
                                                                   : "low";
}

static void say_alarm(const struct status_stream *s, const struct status *of, char *text) {
    struct words w;
    const struct alarm *a = s->alarm;
    /* the register hears of it a moment later */
    const int64_t on_s = a ? alarm_length_ms(a, of->boot_ms) / 1000 : since(of->taken_ms, s->alarm_ms);
    if (s->mood == STATUS_WAS)
        str_format(text, TILE_TEXT, a->cut ? "Cut in alarm" : a->test ? "Test was on %s" : "Was on %s", words_duration(&w, on_s));
    else
        str_format(text, TILE_TEXT, "%s %s",
                   a && a->test   ? "Test"
                   : !s->bed.live ? "Replay: alarm"
                                  : "Alarm",
                   words_timer(&w, on_s));
}

static void say_mood(const struct status_stream *s, const struct status *of, char *text) {
    const int64_t now_ms = of->taken_ms;
    struct words w;
    const int64_t heard_ms = s->bed.seen_ms ? s->bed.seen_ms : s->restored_ms ? s->restored_ms : s->bed.opened_ms;
    switch (s->mood) {
    case STATUS_ALARM:
    case STATUS_WAS:
        say_alarm(s, of, text);
        break;
    case STATUS_LOST:
        str_format(text, TILE_TEXT, s->restored_ms ? "No signal over %s" : "No signal %s",
                   words_timer(&w, since(now_ms, heard_ms)));
        break;
    case STATUS_LATE:
        str_format(text, TILE_TEXT, "Late %s", words_seconds(&w, s->bed.lag_s));
        break;
    case STATUS_POOR:
        str_copy(text, TILE_TEXT, "Poor signal");
        break;
    case STATUS_STANDBY:
        str_format(text, TILE_TEXT, "Standby %s", words_timer(&w, since(s->bed.standby_until_ms, now_ms)));
        break;
    case STATUS_ABSENT:
        str_copy(text, TILE_TEXT, "Not connected");
        break;
    case STATUS_ENDED:
        str_copy(text, TILE_TEXT, "Ended");
        break;
    default:
        str_copy(text, TILE_TEXT, s->bed.live ? "Good" : "Replay");
    }
}

/* "blind: no signal for 0:20": the alarm is on and nobody hears the bed, so how it goes on is not known. */
static void say_blind(const struct status_stream *s, int64_t now_ms, char *text) {
    struct words w;
    if (s->bed.seen_ms)
        str_format(text, TILE_TEXT, "blind: %sno signal for %s", s->bed.connected ? "" : "connection lost, ",
                   words_timer(&w, since(now_ms, s->bed.seen_ms)));
    else if (s->restored_ms)
        str_copy(text, TILE_TEXT, "blind: " STATUS_UNHEARD);
    else
        str_copy(text, TILE_TEXT, "blind: no stream");
}

static void say_alarm_note(const struct status_stream *s, int64_t now_ms, char *text) {
    const struct alarm *a = s->alarm;
    if (a->blind)
        say_blind(s, now_ms, text);
    const size_t len = strlen(text), room = TILE_TEXT - len;
    const char *also = len ? "; " : "";
    if (a->answered.at_ms)
        str_format(text + len, room, "%sacknowledged by %s", also, alarm_author_name(&a->answered));
    else if (a->cut)
        str_format(text + len, room, "%smonitoring stopped: %s", also, journal_off_words(a->why));
    else if (alarm_is_waiting(a) && a->step)
        str_format(text + len, room, "%snobody has answered; %d call%s", also, a->step, a->step == 1 ? "" : "s");
    else if (alarm_is_waiting(a) && a->status)
        str_format(text + len, room, "%son for more than 5 min", also);
    else if (a->off_ms)
        str_format(text + len, room, "%snobody has acknowledged", also);
    else if (!len && *a->where)
        str_format(text, TILE_TEXT, "at the onset: %s", a->where);
}

/* Whether the model still learns the patient, then what is wrong with the signal, which may be long. */
static void say_signal(const struct status_stream *s, char *text) {
    if (s->bed.learning_s)
        str_format(text, TILE_TEXT, "learning this patient, %d s", s->bed.learning_s);
    const size_t len = strlen(text), room = TILE_TEXT - len;
    const char *also = len ? "; " : "";
    if (*s->bed.quality)
        str_format(text + len, room, "%s%s", also, s->bed.quality);
    else if (s->mood == STATUS_POOR)
        str_format(text + len, room, "%s%.0f %% of the samples lost", also, 100 * s->bed.gap_fraction);
}

static void say_lost(const struct status_stream *s, char *text) {
    if (*s->bed.session_id && !s->bed.ended_ms)
        str_copy(text, TILE_TEXT,
                 s->bed.connected ? "connected, but nothing comes"
                 : s->restored_ms ? STATUS_UNHEARD
                                  : "connection lost");
}

static void say_note(const struct status_stream *s, int64_t now_ms, char *text) {
    struct words w;
    *text = '\0';
    if (s->alarm && s->alarm->off_ms && s->bed.live && !s->bed.connected)
        say_lost(s, text);
    if (s->alarm)
        say_alarm_note(s, now_ms, text);
    else if (*s->bed.rule)
        str_copy(text, TILE_TEXT, s->bed.rule);
    if (*text)
        return;
    if (s->bed.ended_ms)
        str_format(text, TILE_TEXT, "ended %s ago", words_duration(&w, since(now_ms, s->bed.ended_ms)));
    else
        say_signal(s, text);
    if (*text)
        return;
    if (s->mood != STATUS_ALARM && s->alarm_ms)
        str_format(text, TILE_TEXT, "last alarm %s ago", words_duration(&w, since(now_ms, s->alarm_ms)));
    else if (s->mood == STATUS_LOST)
        say_lost(s, text);
}

static void tile_of(const struct status_stream *s, const struct status *of, struct tile *ret) {
    const int64_t now_ms = of->taken_ms;
    struct words w;
    *ret = (struct tile){0};
    say_mood(s, of, ret->text[TILE_MOOD]);
    str_copy(ret->text[TILE_P], TILE_TEXT, *tile_word(s) ? tile_word(s) : words_p(&w, s->bed.probability));
    str_copy(ret->text[TILE_VALUE], TILE_TEXT, *tile_word(s) ? words_p(&w, s->bed.probability) : "");
    const bool open = *s->bed.session_id && !s->bed.ended_ms;
    str_copy(ret->text[TILE_LAG], TILE_TEXT, open ? words_seconds(&w, s->bed.lag_s) : "–");
    if (s->bed.seen_ms)
        str_format(ret->text[TILE_SEEN], TILE_TEXT, "%s ago", words_duration(&w, since(now_ms, s->bed.seen_ms)));
    else
        str_copy(ret->text[TILE_SEEN], TILE_TEXT, s->restored_ms ? "before the daemon's start" : "not yet");
    say_note(s, now_ms, ret->text[TILE_NOTE]);
}

void tile_put_changes(struct json_writer *w, const struct status_stream *old, const struct status *of_old,
                      const struct status_stream *s, const struct status *of) {
    struct tile before = {0}, now;
    if (old)
        tile_of(old, of_old, &before);
    tile_of(s, of, &now);
    for (int f = 0; f < TILE_FIELDS; f++)
        if (!old || strcmp(before.text[f], now.text[f]) != 0)
            json_put_str(w, fields[f], now.text[f]);
}

/* ---- as markup ---- */

/* Up to its state. data-calm: its alarm is on and calls nobody: somebody has acknowledged it, or it is a replay's. */
static void begin_tile(struct html *h, const struct status_stream *s, const struct tile *t, bool large) {
    const struct alarm *a = s->alarm;
    const bool waits = a && alarm_is_waiting(a), calm = s->mood == STATUS_ALARM && a && !waits;
    html_put(h, large ? "<div class=\"bed\"" : "<li class=\"tile\"");
    html_put(h, " id=\"s-%s\" data-mood=\"%s\"", s->key, status_mood_name(s->mood));
    if (!large)
        html_put(h, " data-waiting=\"%d\" data-rule=\"%d\"", waits, *s->bed.rule != 0);
    html_put(h, " data-calm=\"%s\">", !calm ? "" : a->answered.at_ms ? "answered" : "replay");
    if (large)
        html_put(h, "<div class=\"top\"><h1 data-by=\"%s\">%s</h1>", tile_by(s), tile_name(s));
    else if (*s->bed.session_id)
        html_put(h, "<h2 data-by=\"%s\"><a href=\"/streams/%s\">%s</a></h2>", tile_by(s), s->bed.session_id, tile_name(s));
    else
        html_put(h, "<h2>%s</h2>", tile_name(s));
    html_put(h, "<p class=\"mood\" data-f=\"mood\">%s</p>", t->text[TILE_MOOD]);
}

void tile_put(struct html *h, const struct page_view *v, const struct status_stream *s, bool large) {
    const struct alarm *a = s->alarm;
    struct tile t;
    tile_of(s, v->status, &t);
    begin_tile(h, s, &t, large);
    html_put(h, large ? "</div><div class=\"minute-row\">" : "");
    html_put(h,
             "<p class=\"now\"><span class=\"label\">seizure probability</span><span data-f=\"p\">%s</span> <small "
             "data-f=\"value\">%s</small></p>",
             t.text[TILE_P], t.text[TILE_VALUE]);
    chart_put_minute(h, s);
    html_put(h, large ? "</div>" : "");
    html_put(h, "<p class=\"note\"><span data-f=\"note\">%s</span>", t.text[TILE_NOTE]);
    if (a && (a->answered.at_ms || a->off_ms)) {
        html_put(h, a->answered.at_ms ? " " : " since ");
        (large ? words_put_time : words_put_short_time)(h, a->answered.at_ms ? a->answered.at_ms : a->on_ms);
    }
    html_put(h, "</p>");
    if (a && !large) {
        answer_forms_put_silence(h, v, a);
        answer_forms_put_short(h, v, a);
    }
    html_put(h,
             "<p class=\"small\"><span>%s</span> <span>lag <span data-f=\"lag\">%s</span></span> <span>last seen <span "
             "data-f=\"seen\">%s</span></span></p>",
             large ? "last 60 s" : s->bed.model, t.text[TILE_LAG], t.text[TILE_SEEN]);
    html_put(h, large ? "</div>\n" : "</li>\n");
}
