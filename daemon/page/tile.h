/* tile: what the pages say of a stream in a few words; the same texts when a page is written and when its script updates it. */
#pragma once
#include "daemon/page/page.h"

enum tile_field { TILE_MOOD, TILE_P, TILE_VALUE, TILE_LAG, TILE_SEEN, TILE_NOTE, TILE_FIELDS };
enum { TILE_TEXT = 120, TILES_MOST = 1024 /* of a page; others are counted */ };

struct tile {
    char text[TILE_FIELDS][TILE_TEXT]; /* "Alarm 0:45", "raised", "0.62", "0.3 s", "1 s ago", "F3 flat" */
};
void tile_of(const struct status_stream *s, const struct status *of, struct tile *ret);
const char *tile_field_name(enum tile_field f); /* data-f of the element */
/* What people call it: the client's name, or the model's when the client has not said one. */
const char *tile_name(const struct status_stream *s);
/* Who streams it, to stand beside the name, which is the client's own word; "" where the principal's token has the same name. */
const char *tile_by(const struct status_stream *s);
void tile_put(struct html *h, const struct page_view *v, const struct status_stream *s); /* "<li>" */
/* " data-calm=…": of one whose alarm is on and calls nobody, because somebody has acknowledged it or it is a replay's; else "". */
void tile_put_calm(struct html *h, const struct status_stream *s);
/* "<p>": its note, with the time of the answer or of the onset. whole: with date and zone. */
void tile_put_note(struct html *h, const struct status_stream *s, const struct tile *t, bool whole);
/* "no signal" and so on: of a state, for counts. */
const char *tile_mood_words(enum status_mood m);
