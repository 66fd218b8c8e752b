#include "daemon/page/banner.h"

#include "daemon/page/tile.h"

#define ANSWERED "acknowledged"
enum { GROUP = 3 /* so many beds of a kind are named, more are counted */ };

static void add_link(struct banner_link *links, int *n, const struct status_stream *s) {
    if (*n < BANNER_NAMED)
        links[*n] = (struct banner_link){s->bed.session_id, tile_name(s), s->alarm && s->alarm->answered.at_ms};
    ++*n;
}

/* "bed-7, bed-9: no signal", "12 beds: connection lost". */
static void add_group(const struct page_view *v, enum alarm_kind kind, struct banner *b) {
    const char *names[GROUP] = {NULL};
    int n = 0;
    for (int i = 0; i < v->status->n_alarms; i++) {
        const struct alarm *a = v->status->alarms[i];
        if (a->kind == kind && alarm_is_waiting(a) && page_sees_alarm(v, a) && n++ < GROUP)
            names[n - 1] = a->bed;
    }
    if (!n)
        return;
    char *text = b->technical[b->n_technical++];
    if (n > GROUP)
        str_format(text, BANNER_TEXT, "%d beds: ", n);
    else if (*names[0])
        str_format(text, BANNER_TEXT, "%s%s%s%s%s: ", names[0], n > 1 ? ", " : "", n > 1 ? names[1] : "", n > 2 ? ", " : "",
                   n > 2 ? names[2] : "");
    size_t len = strlen(text);
    str_format(text + len, BANNER_TEXT - len, "%s", alarm_kind_words(kind));
}

void banner_of(const struct page_view *v, struct banner *ret) {
    const struct status *s = v->status;
    *ret = (struct banner){.sound = ALARM_QUIET};
    for (int answered = 0; answered < 2; answered++) {
        for (int i = 0; i < s->n_streams; i++) {
            const struct status_stream *t = &s->streams[i];
            if ((t->alarm && t->alarm->answered.at_ms) != answered || !page_sees(v, t))
                continue;
            if (t->mood == STATUS_ALARM && t->bed.live) /* a replay calls nobody */
                add_link(ret->on, &ret->n_on, t);
            if (t->mood == STATUS_WAS)
                add_link(ret->was, &ret->n_was, t);
        }
        ret->n_waiting = answered ? ret->n_waiting : ret->n_on;
    }
    for (int kind = ALARM_SEIZURE + 1; kind < ALARM_KINDS; kind++)
        add_group(v, (enum alarm_kind)kind, ret);
    for (int i = 0; i < s->n_alarms; i++) {
        const enum alarm_sound sound = alarm_sound(s->alarms[i], s->boot_ms);
        if (sound > ret->sound && page_sees_alarm(v, s->alarms[i]))
            ret->sound = sound;
    }
}

const char *banner_sound(const struct banner *b) {
    static const char *const names[] = {[ALARM_QUIET] = "none", [ALARM_LOW] = "low", [ALARM_HIGH] = "high"};
    return names[b->sound];
}

/* ---- as markup ---- */

static void put_links(struct html *h, const struct banner_link *links, int n) {
    for (int i = 0; i < n && i < BANNER_NAMED; i++) {
        html_put(h, *links[i].session ? " <a href=\"/streams/%s\">%s" : " <a href=\"/alarms%s\">%s", links[i].session,
                 links[i].name);
        html_put(h, links[i].answered ? " <small>" ANSWERED "</small></a>" : "</a>");
    }
    if (n > BANNER_NAMED)
        html_put(h, " <a href=\"/alarms\">and %d more</a>", n - BANNER_NAMED);
}

void banner_put(struct html *h, const struct banner *b) {
    html_put(h, "<div id=\"alarms\" role=\"alert\" data-n=\"%d\" data-waiting=\"%d\">", b->n_on, b->n_waiting);
    if (b->n_on)
        html_put(h, "<strong>Alarm</strong>");
    put_links(h, b->on, b->n_on);
    html_put(h, "</div>\n<div id=\"was\" role=\"status\" data-n=\"%d\">", b->n_was);
    if (b->n_was)
        html_put(h, "<strong>Was on</strong>");
    put_links(h, b->was, b->n_was);
    html_put(h, "</div>\n<div id=\"technical\" role=\"status\" data-n=\"%d\">", b->n_technical);
    for (int i = 0; i < b->n_technical; i++)
        html_put(h, "<a href=\"/alarms\">%s</a> ", b->technical[i]);
    html_put(h, "</div>\n");
}

/* ---- as JSON: [[session, name, "acknowledged" or ""], …] ---- */

static void json_links(struct json_writer *w, const char *key, const struct banner_link *links, int n) {
    json_begin_array(w, key);
    for (int i = 0; i < n && i < BANNER_NAMED; i++) {
        json_begin_array(w, NULL);
        json_put_str(w, NULL, links[i].session);
        json_put_str(w, NULL, links[i].name);
        json_put_str(w, NULL, links[i].answered ? ANSWERED : "");
        json_end(w, ']');
    }
    json_end(w, ']');
}

void banner_json(struct json_writer *w, const struct banner *b) {
    json_links(w, "alarms", b->on, b->n_on);
    json_put_i64(w, "n_alarms", b->n_on);
    json_put_i64(w, "n_waiting", b->n_waiting);
    json_links(w, "was", b->was, b->n_was);
    json_put_i64(w, "n_was", b->n_was);
    JSON_ARRAY(w, "technical", b->technical, b->n_technical);
    json_put_str(w, "sound", banner_sound(b));
}
