/* The streams of a status: what session_describe says, and the recent past of the bed. */

#include "daemon/status/gather_parts.h"

enum { SILENT_MS = 10 * 1000, QUALITY_TEXT = 400 };
static const double LATE_S = 5;

struct gathering {
    const struct gather *from;
    struct status *to;
    int64_t now_ms; /* monotonic */
};

/* A copy that lives as long as the status; "" for NULL, and without memory. */
static char *keep_text(struct status *to, const char *text) {
    char *copy = text && *text ? arena_strdup(&to->arena, text) : NULL;
    return copy ? copy : (char *)(uintptr_t) "";
}

/* "F3 flat, O2 clipped noisy", of the channels that the model uses, behind the note of the whole. */
static char *name_flaws(struct status *to, const struct status_stream *s, const char *note) {
    struct str text = str_of(QUALITY_TEXT);
    str_puts(&text, note);
    for (int i = 0; i < s->n_channels; i++) {
        const struct status_channel *c = &s->channels[i];
        if (!c->used || !c->flaws)
            continue;
        str_printf(&text, "%s%s", text.len ? ", " : "", c->name);
        quality_put_flaws(&text, c->flaws);
    }
    char *copy = keep_text(to, str_cstr(&text));
    str_done(&text);
    return copy;
}

/* The name of a channel; most streams of a ward have those of the stream before, which they share. */
static const char *channel_name(struct status *to, const struct status_stream *s, int i, const char *name) {
    const struct status_stream *before = s > to->streams ? s - 1 : NULL;
    const bool same = before && i < before->n_channels && !strcmp(before->channels[i].name, name);
    return same ? before->channels[i].name : keep_text(to, name);
}

static void put_channels(struct status *to, const struct session_state *from, struct status_stream *s) {
    struct status_channel *c = arena_alloc(&to->arena, (size_t)from->n_channels * sizeof *c);
    if (!c)
        return;
    for (int i = 0; i < from->n_channels; i++)
        c[i] = (struct status_channel){.name = channel_name(to, s, i, from->channels[i]), .used = !from->opened};
    for (int i = 0; from->opened && i < from->opened->n_sources; i++)
        if (from->opened->sources[i] >= 0 && from->opened->sources[i] < from->n_channels)
            c[from->opened->sources[i]].used = true;
    for (int i = 0; i < from->quality->n; i++)
        if (from->quality->channels[i].channel < from->n_channels)
            c[from->quality->channels[i].channel].flaws = from->quality->channels[i].flaws;
    for (int i = 0; i < from->n_channels; i++)
        s->n_flawed += c[i].used && c[i].flaws;
    s->channels = c;
    s->n_channels = from->n_channels;
    s->bed.quality = name_flaws(to, s, from->note);
}

static int64_t silence(const struct gathering *g, const struct bed *b) {
    return b ? g->now_ms - (b->seen_ms ? b->seen_ms : b->begun_ms) : 0;
}

/* A monotonic time as Unix time by the present wall clock, so that its age does not depend on a clock that was set; 0: none. */
static int64_t unix_ms(const struct gathering *g, int64_t at_ms) { return at_ms ? g->to->taken_ms - (g->now_ms - at_ms) : 0; }

static void put_past(const struct gathering *g, const struct bed *b, struct status_stream *s) {
    for (int i = 0; i < STATUS_MINUTE; i++)
        s->minute[i] = b->minute[(b->at + i) % STATUS_MINUTE];
    s->bed.probability =
        isnan(s->bed.probability) ? (double)b->newest : s->bed.probability; /* without alarms: of the record trace */
    s->bed.seen_ms = unix_ms(g, b->seen_ms);
    s->restored_ms = b->restored && !b->seen_ms ? unix_ms(g, b->begun_ms) : 0;
    s->alarm_ms = unix_ms(g, b->alarm_ms);
    s->bed.ended_ms = unix_ms(g, b->ended_ms);
    s->held = b->held;
    s->trace = b->trace ? past_share(b->trace) : NULL;
    s->eeg = eegring_mention(b->eeg);
}

static void name_bed(struct status *to, struct status_stream *s, const char *const texts[4]) {
    s->bed.session_id = keep_text(to, texts[0]);
    s->bed.name = keep_text(to, texts[1]);
    s->bed.model = keep_text(to, texts[2]);
    s->bed.principal = keep_text(to, texts[3]);
}

static void put_stream(void *ctx, const struct session *session) {
    struct gathering *g = ctx;
    struct session_state from;
    session_describe(session, &from);
    if (g->from->tick || !beds_find(g->from->beds, from.id)) /* its first picture begins the bed */
        beds_look(g->from->beds, session);
    struct status_stream *s = gather_add(g->to);
    if (!s)
        return;
    COPY_MEMBERS(*s, from, realtime, rate_hz, rate_known, events, reconnects, learned_before_ms, followed);
    s->address = keep_text(g->to, from.address);
    s->measured_hz = from.measured_rate_hz;
    s->received_s = (int64_t)((double)from.received_through / from.rate_hz);
    s->montage = keep_text(g->to, from.opened ? from.opened->info.file.montage : "");
    name_bed(g->to, s, (const char *[]){from.id, from.client, from.model, from.principal});
    COPY_MEMBERS(s->bed, from, live, connected, learning_s, lag_s, opened_ms);
    s->bed.probability = (double)from.probability;
    s->bed.gap_fraction = from.quality->gap_fraction;
    s->bed.threshold_on = from.opened ? from.opened->alarms.on : 0;
    s->off = from.opened ? from.opened->alarms.off : 0;
    put_channels(g->to, &from, s);
    const struct bed *b = beds_find(g->from->beds, from.id);
    if (b)
        put_past(g, b, s);
    s->loaded = from.opened != NULL;
    s->ahead_s = from.start_ms && s->bed.seen_ms
                     ? (double)(from.start_ms - s->bed.seen_ms) / 1000 + (double)from.received_through / from.rate_hz
                     : NAN;
    s->silent = s->realtime && silence(g, b) > SILENT_MS;
    s->late = s->realtime && s->bed.lag_s > LATE_S;
    gather_alarm_of_stream(g->from, s);
    s->mood = from.alarm && !gather_holds_back(g->from, s) ? STATUS_ALARM : gather_mood(s);
    beds_show(g->from->beds, s, gather_is_heard(s));
}

static void put_ended(struct gathering *g, const struct bed *b) {
    struct status_stream *s = gather_add(g->to);
    if (!s)
        return;
    name_bed(g->to, s, (const char *[]){b->id, b->client, b->model, b->principal});
    COPY_MEMBERS(s->bed, *b, live, opened_ms);
    s->moved = b->watch.moved;
    put_past(g, b, s);
    gather_alarm_of_stream(g->from, s);
    s->mood = gather_mood(s);
}

bool gather_streams(struct gather *g, struct status *to) {
    struct gathering all = {.from = g, .to = to, .now_ms = clock_ms()};
    const int most = sessions_count(g->source.sessions) + BEDS_ENDED + g->source.n_beds + to->n_alarms;
    if (!to->streams) {
        to->room_streams = most < STATUS_STREAMS ? most : STATUS_STREAMS;
        to->streams = arena_alloc(&to->arena, (size_t)to->room_streams * sizeof *to->streams);
        if (to->streams && g->source.wake)
            return true; /* the pages of so much memory take a while */
    }
    if (sessions_walk(g->source.sessions, &g->walk, GATHER_TURN_MS, put_stream, &all))
        return true;
    for (const struct bed *b = beds_ended(g->beds); b; b = b->next)
        put_ended(&all, b);
    return false;
}
