/* tile: what the pages say of a stream in a few words; the same texts when a page is written and when its script updates it. */
#pragma once
#include "base/json.h"
#include "daemon/page/page.h"

enum { TILES_MOST = 1024 /* of a page; others are counted */ };

/* What people call it: the client's name, or the model's when the client has not said one. */
const char *tile_name(const struct status_stream *s);
/* "<li>"; large: "<div>", the head of its page, without forms. */
void tile_put(struct html *h, const struct page_view *v, const struct status_stream *s, bool large);
/* The texts that are others than in the status before, as members of an object; old NULL: all. */
void tile_put_changes(struct json_writer *w, const struct status_stream *old, const struct status *of_old,
                      const struct status_stream *s, const struct status *of);
/* "no signal" and so on: of a state, for counts. */
const char *tile_mood_words(enum status_mood m);
