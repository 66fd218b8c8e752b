/* /streams: a tile for each bed and stream, each in its place. */
#include "daemon/page/shell.h"
#include "daemon/page/tile.h"

enum { MANY = 40, CROWD = 100 };

static bool is_replay_in_alarm(const struct status_stream *s) { return s->mood == STATUS_ALARM && !s->bed.live; }

/* replays: of those in alarm, which are no patients. */
static void put_summary(struct html *h, const int counts[STATUS_MOODS], int replays, int n) {
    html_put(h, "<p class=\"summary\">");
    for (int i = 0; i < STATUS_MOODS; i++)
        if (counts[i])
            html_put(h, "<span data-mood=\"%s\">%d %s</span> ", status_mood_name((enum status_mood)i), counts[i],
                     tile_mood_words((enum status_mood)i));
    if (replays)
        html_put(h, "<span data-mood=\"fine\">%d replay%s in alarm</span> ", replays, replays == 1 ? "" : "s");
    html_put(h, "%s</p>\n", n ? "" : "none");
}

void page_streams(struct html *h, const struct page_view *v) {
    const struct status *status = v->status;
    int counts[STATUS_MOODS] = {0}, replays = 0, n = 0, shown = 0;
    for (int i = 0; i < status->n_streams; i++)
        if (page_sees(v, &status->streams[i])) {
            counts[status->streams[i].mood] += !is_replay_in_alarm(&status->streams[i]);
            replays += is_replay_in_alarm(&status->streams[i]);
            n++;
        }
    shell_begin(h, v, &(struct shell){.title = "Streams", .place = SHELL_STREAMS, .live = true, .sounds = true});
    html_put(h, "<div class=\"top\"><h1>Streams</h1>");
    put_summary(h, counts, replays, n);
    if (!v->wall)
        html_put(h, "<p class=\"hint\"><a href=\"/streams?wall\">for a screen on the wall</a></p>");
    html_put(h, "</div>\n");
    if (!v->all)
        html_put(h,
                 "<p class=\"hint\">This token shows %s only; a token with <code>all</code> shows those of every "
                 "caller.</p>\n",
                 v->names && *v->names ? "the beds of its names" : "its own streams");
    if (!n)
        html_put(h, "<p class=\"empty\">No stream is open. One begins with <code>brrctl stream recording.edf --model ward "
                    "--client bed-1 --alarms</code>.</p>\n");
    html_put(h, "<ol class=\"tiles%s\" id=\"tiles\" data-order=\"%lld\">\n",
             n > CROWD  ? " crowd"
             : n > MANY ? " many"
                        : "",
             (long long)page_order(v));
    for (int i = 0; i < status->n_streams; i++)
        if (page_sees(v, &status->streams[i]) && shown++ < TILES_MOST)
            tile_put(h, v, &status->streams[i], false);
    html_put(h, "</ol>\n");
    const int more = (v->all ? status->left_streams : 0) + (shown > TILES_MOST ? shown - TILES_MOST : 0);
    if (more)
        html_put(h, "<p class=\"hint\">%d more streams are not shown; their alarms are.</p>\n", more);
    shell_end(h, v);
}
