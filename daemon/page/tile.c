#include "daemon/page/tile.h"

#include <string.h>

#include "daemon/page/chart.h"
#include "daemon/page/words.h"

enum { SHORT_ID = 6 };

static const char *const fields[TILE_FIELDS] = {"mood", "p", "lag", "seen", "note"};

const char *tile_field_name(enum tile_field f) { return fields[f]; }

const char *tile_name(const struct status_stream *s) { return *s->client ? s->client : s->model; }

static int64_t since(int64_t now_ms, int64_t then_ms) { return then_ms > 0 && now_ms > then_ms ? (now_ms - then_ms) / 1000 : 0; }

static void say_mood(const struct status_stream *s, int64_t now_ms, char *text) {
    struct words w;
    const int64_t heard_ms = s->seen_ms > 0 ? s->seen_ms : s->opened_ms;
    switch (s->mood) {
    case STATUS_ALARM:
        str_format(text, TILE_TEXT, s->alarm_ms ? "Alarm %s" : "Alarm", words_timer(&w, since(now_ms, s->alarm_ms)));
        break;
    case STATUS_LOST:
        str_format(text, TILE_TEXT, "No signal %s", words_timer(&w, since(now_ms, heard_ms)));
        break;
    case STATUS_LATE:
        str_format(text, TILE_TEXT, "Late %s", words_seconds(&w, s->lag_s));
        break;
    case STATUS_POOR:
        str_copy(text, TILE_TEXT, "Poor signal");
        break;
    case STATUS_ENDED:
        str_copy(text, TILE_TEXT, "Ended");
        break;
    default:
        str_copy(text, TILE_TEXT, s->realtime ? "Good" : "Replay");
    }
}

static void say_note(const struct status_stream *s, int64_t now_ms, char *text) {
    struct words w;
    if (s->mood == STATUS_ENDED)
        str_format(text, TILE_TEXT, "%s ago", words_duration(&w, since(now_ms, s->ended_ms)));
    else if (*s->quality)
        str_copy(text, TILE_TEXT, s->quality);
    else if (s->mood == STATUS_POOR)
        str_format(text, TILE_TEXT, "%.0f %% of the samples lost", 100 * s->gap_fraction);
    else if (s->mood != STATUS_ALARM && s->alarm_ms)
        str_format(text, TILE_TEXT, "last alarm %s ago", words_duration(&w, since(now_ms, s->alarm_ms)));
    else if (s->mood == STATUS_LOST)
        str_copy(text, TILE_TEXT, s->connected ? "connected, but nothing comes" : "connection lost");
    else
        str_copy(text, TILE_TEXT, "");
}

void tile_of(const struct status_stream *s, int64_t now_ms, struct tile *ret) {
    struct words w;
    *ret = (struct tile){0};
    say_mood(s, now_ms, ret->text[TILE_MOOD]);
    str_copy(ret->text[TILE_P], TILE_TEXT, words_p(&w, s->probability));
    str_copy(ret->text[TILE_LAG], TILE_TEXT, s->mood == STATUS_ENDED ? "–" : words_seconds(&w, s->lag_s));
    if (s->seen_ms)
        str_format(ret->text[TILE_SEEN], TILE_TEXT, "%s ago", words_duration(&w, since(now_ms, s->seen_ms)));
    else
        str_copy(ret->text[TILE_SEEN], TILE_TEXT, "not yet");
    say_note(s, now_ms, ret->text[TILE_NOTE]);
}

void tile_put(struct html *h, const struct status_stream *s, int64_t now_ms) {
    struct tile t;
    tile_of(s, now_ms, &t);
    html_put(h, "<li class=\"tile\" id=\"s-%s\" data-mood=\"%s\"><h2><a href=\"/streams/%s\">%s</a></h2>", s->id,
             status_mood_name(s->mood), s->id, tile_name(s));
    html_put(h, "<p class=\"mood\" data-f=\"mood\">%s</p>", t.text[TILE_MOOD]);
    html_put(h, "<p class=\"now\"><span class=\"label\">seizure probability</span><span data-f=\"p\">%s</span></p>",
             t.text[TILE_P]);
    chart_put_minute(h, s);
    html_put(h, "<p class=\"note\" data-f=\"note\">%s</p>", t.text[TILE_NOTE]);
    html_put(h,
             "<p class=\"small\"><span>%s</span> <span>lag <span data-f=\"lag\">%s</span></span> <span>last seen <span "
             "data-f=\"seen\">%s"
             "</span></span></p></li>\n",
             s->model, t.text[TILE_LAG], t.text[TILE_SEEN]);
}
