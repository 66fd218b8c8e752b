/* What has changed since the event before, for the script of the pages: one line of JSON. */

#include "base/json.h"
#include "daemon/page/banner.h"
#include "daemon/page/chart.h"
#include "daemon/page/tile.h"
#include "daemon/page/words.h"

/* NaN equals NaN. */
static bool are_equal(const float *a, const float *b, int n) {
    int i = 0;
    while (i < n && (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))))
        i++;
    return i == n;
}

/* The points of the last minute by which it differs from that of before: by how many it has moved, then the newest ones, one
 * more than these since the last point may have risen. */
static void put_minute(struct json_writer *w, const float *before, const float minute[STATUS_MINUTE]) {
    const int last = STATUS_MINUTE - 1;
    int moved = before ? 0 : last;
    if (before && are_equal(before, minute, STATUS_MINUTE))
        return;
    while (moved < last && !are_equal(before + moved, minute, last - moved))
        moved++;
    json_begin_array(w, "minute");
    json_put_i64(w, NULL, moved);
    for (int i = last - moved; i <= last; i++)
        if (isfinite(minute[i]))
            json_put_raw(w, NULL, chart_height((double)minute[i], (char[CHART_HEIGHT_SIZE]){0}));
        else
            json_put_null(w, NULL);
    json_end(w, ']');
}

static void put_stream(struct json_writer *w, const struct status_stream *old, const struct page_view *before,
                       const struct status_stream *s, const struct page_view *v) {
    json_begin_object(w, s->key);
    if (!old || old->mood != s->mood)
        json_put_str(w, "state", status_mood_name(s->mood));
    tile_put_changes(w, old, before ? before->status : NULL, s, v->status);
    put_minute(w, old ? old->minute : NULL, s->minute);
    json_end(w, '}');
}

static const struct status_stream *found_in(const struct page_view *v, const char *id) {
    return v ? page_find_stream(v, id) : NULL;
}

static void put_streams(struct json_writer *w, const struct page_view *before, const struct page_view *v, const char *only) {
    json_begin_object(w, "streams");
    for (int i = 0, at = 0, n = 0; i < v->status->n_streams && n < TILES_MOST; i++) {
        const struct status_stream *s = &v->status->streams[i], *old = NULL;
        if (!page_sees(v, s) || (only && strcmp(s->bed.session_id, only) != 0))
            continue;
        n++;
        /* Mostly the order is that of before. */
        if (before && at < before->status->n_streams && !strcmp(before->status->streams[at].key, s->key))
            old = &before->status->streams[at];
        else
            old = found_in(before, s->bed.session_id); /* a bed without a stream is new each time it moves */
        at = old ? (int)(old - before->status->streams) + 1 : at;
        put_stream(w, old, before, s, v);
    }
    json_end(w, '}');
}

void page_event(struct str *out, const struct page_view *before, const struct page_view *v, const char *path) {
    struct json_writer w = json_to(out);
    struct words t;
    struct banner banner;
    char order[24];
    const bool one = str_starts(path, "/streams/");
    str_puts(out, "data: ");
    json_begin_object(&w, NULL);
    json_put_str(&w, "time", words_time(&t, v->status->taken_ms));
    str_format(order, sizeof order, "%" PRId64, (int64_t)(strcmp(path, "/alarms") ? page_order(v) : page_alarms_order(v)));
    json_put_str(&w, "order", order);
    banner_of(v, &banner);
    banner_json(&w, &banner);
    if (one || !strcmp(path, "/streams"))
        put_streams(&w, before, v, one ? path + strlen("/streams/") : NULL);
    json_end(&w, '}');
    str_puts(out, "\n\n");
}
