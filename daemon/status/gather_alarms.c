/* The alarms of a status, what of them each stream's tile shows, and the roster: beds without a stream. Also what of the status is
 * a technical alarm now. */

#include "base/base.h"
#include "daemon/status/gather_parts.h"

enum {
    STAMPS_OFF_MS = 5 * 60 * 1000, /* a sampling clock that drifts, and what a client kept during an outage, stay below */
    CLOCK_STEP_MS = 60 * 1000,
    CLOCK_SAID_MS = 10 * 60 * 1000
};

static void put_alarm(struct status *to, const struct alarm *a, const struct alarms_now *now) {
    to->alarms[to->n_alarms++] = (struct status_alarm){
        .id = gather_text(to, a->id),
        .bed = gather_text(to, a->bed),
        .session = gather_text(to, a->session),
        .principal = gather_text(to, a->principal),
        .kind = a->kind,
        .why = gather_text(to, a->why),
        .by = gather_text(to, *a->answered.person ? a->answered.person : a->answered.by),
        .mark = alarm_mark_name(a->mark),
        .note = gather_text(to, a->note),
        SAME_MEMBERS(*a, live, test, cut),
        .open = alarm_is_open(a),
        .waiting = alarm_is_waiting(a),
        .status = a->status,
        .sound = alarm_sound(a, now->boot_ms),
        SAME_MEMBERS(*a, step, on_ms, off_ms),
        .answered_ms = a->answered.at_ms,
    };
}

/* One after the other: alarms of patients that are open, technical ones, then closed ones; of each the newest first. */
static int rank(const struct status_alarm *a) { return !a->open ? 2 : a->kind != ALARM_SEIZURE; }

static int by_rank(const void *a, const void *b) {
    const struct status_alarm *l = a, *r = b;
    const int order = rank(l) - rank(r);
    return order ? order : l->on_ms < r->on_ms ? 1 : -(l->on_ms > r->on_ms);
}

void gather_alarms(const struct gather *g, struct status *to) {
    const struct alarms_now now = desk_now();
    struct alarms_cursor cursor = {0};
    int n = 0;
    if (!g->source.desk || !(to->alarms = arena_alloc(&to->arena, ALARMS_MAX * 2 * sizeof *to->alarms)))
        return;
    for (const struct alarm *a; n++ < ALARMS_MAX * 2 && (a = alarms_next(desk_alarms(g->source.desk), &cursor));)
        if (!a->off_ms || alarm_is_open(a) || now.wall_ms - a->off_ms < STATUS_CLOSED_MS)
            put_alarm(to, a, &now);
    if (to->n_alarms)
        qsort(to->alarms, (size_t)to->n_alarms, sizeof *to->alarms, by_rank);
    to->n_alarms = to->n_alarms < STATUS_ALARMS ? to->n_alarms : STATUS_ALARMS;
}

/* ---- alarms of streams, and the roster ---- */

/* The open alarm of this stream: of its session, or of an earlier session of its bed. */
static const struct status_alarm *alarm_of(const struct status *to, const struct status_stream *s) {
    for (int i = 0; i < to->n_alarms; i++) {
        const struct status_alarm *a = &to->alarms[i];
        if (a->open && a->kind == ALARM_SEIZURE &&
            (!strcmp(a->session, s->id) ||
             (a->live && *a->bed && !strcmp(a->bed, s->client) && !strcmp(a->principal, s->principal))))
            return a;
    }
    return NULL;
}

void gather_alarm_of_stream(const struct gather *g, const struct status *to, struct status_stream *s) {
    const struct alarms_now now = desk_now();
    s->place = INT_MAX;
    for (int i = 0; i < g->source.n_beds && s->place == INT_MAX; i++)
        if (!strcmp(g->source.beds[i], s->client))
            s->place = i;
    if (!g->source.desk)
        return;
    s->alarm = alarm_of(to, s);
    s->standby_ms = *s->client ? alarms_in_standby(desk_alarms(g->source.desk), s->client, &now, NULL) : 0;
}

static struct status_stream *add_absent(struct status *to, const char *bed, const char *principal) {
    if (!to->streams || to->n_streams == to->room_streams) {
        to->left_streams++;
        return NULL;
    }
    struct status_stream *s = &to->streams[to->n_streams++];
    *s = (struct status_stream){.id = "",
                                .client = bed,
                                .model = "",
                                .principal = principal,
                                .address = "",
                                .quality = "",
                                .montage = "",
                                .realtime = true,
                                .live = true,
                                .mood = STATUS_ABSENT,
                                .probability = NAN};
    for (int i = 0; i < STATUS_MINUTE; i++)
        s->minute[i] = NAN;
    return s;
}

static enum status_mood mood_without_stream(const struct status_stream *s) {
    if (s->alarm)
        return s->alarm->off_ms ? STATUS_WAS : STATUS_ALARM;
    return s->standby_ms ? STATUS_STANDBY : STATUS_ABSENT;
}

static void add_beds(const struct gather *g, struct status *to) {
    const int n = to->n_streams;
    for (int i = 0; i < g->source.n_beds; i++) {
        bool found = false;
        for (int k = 0; k < n && !found; k++)
            found = to->streams[k].place == i && to->streams[k].live; /* a replay under a bed's name is not the bed */
        struct status_stream *s = found ? NULL : add_absent(to, g->source.beds[i], "");
        if (!s)
            continue;
        gather_alarm_of_stream(g, to, s);
        for (int k = 0; k < to->n_alarms && !s->alarm; k++) /* of any caller */
            if (to->alarms[k].open && to->alarms[k].live && to->alarms[k].kind == ALARM_SEIZURE &&
                !strcmp(to->alarms[k].bed, s->client))
                s->alarm = &to->alarms[k];
        s->principal = s->alarm ? s->alarm->principal : "";
        s->mood = mood_without_stream(s);
    }
}

/* Alarms that nobody has answered, of beds without a tile. */
static void add_orphans(const struct gather *g, struct status *to) {
    for (int i = 0; i < to->n_alarms; i++) {
        const struct status_alarm *a = &to->alarms[i];
        bool shown = !a->open || a->kind != ALARM_SEIZURE;
        for (int k = 0; k < to->n_streams && !shown; k++)
            shown = to->streams[k].alarm && (to->streams[k].alarm == a || !strcmp(to->streams[k].client, a->bed));
        struct status_stream *s = shown ? NULL : add_absent(to, a->bed, a->principal);
        if (!s)
            continue;
        gather_alarm_of_stream(g, to, s);
        s->alarm = a;
        s->mood = mood_without_stream(s);
    }
}

void gather_roster(const struct gather *g, struct status *to) {
    add_beds(g, to);
    add_orphans(g, to);
    for (int i = 0, n = 0; i < to->n_streams; i++) {
        struct status_stream *s = &to->streams[i];
        s->key = *s->id ? s->id : arena_printf(&to->arena, "bed-%d", s->place < INT_MAX ? s->place : 100000 + n++);
        s->key = s->key ? s->key : "";
    }
}

/* ---- technical alarms ---- */

/* Whether at least half of the model's channels have flaws. */
static bool electrodes_off(const struct status_stream *s) {
    int used = 0;
    for (int i = 0; i < s->n_channels; i++)
        used += s->channels[i].used;
    return used && 2 * s->n_flawed >= used;
}

static void put_cause(struct alarms *all, const struct status_stream *s, enum alarm_kind kind, const char *why,
                      const struct alarms_now *now) {
    alarms_round_put(
        all, &(struct alarms_cause){.kind = kind, .bed = s->client, .principal = s->principal, .session = s->id, .why = why}, now);
}

/* A replay calls nobody, also one in real time. */
static void look_at_stream(struct alarms *all, const struct status_stream *s, const struct alarms_now *now) {
    char text[80];
    if (!s->live || s->ended_ms || !*s->id)
        return;
    if (!s->connected)
        put_cause(all, s, ALARM_LOST, "", now);
    else if (s->silent)
        put_cause(all, s, ALARM_NO_SIGNAL, "", now);
    if (s->late)
        put_cause(all, s, ALARM_LATE, "", now);
    if (s->connected && !s->loaded)
        put_cause(all, s, ALARM_MODEL, s->model, now);
    if (electrodes_off(s))
        put_cause(all, s, ALARM_ELECTRODES, s->quality, now);
    str_format(text, sizeof text, "%.1f Hz instead of %g", s->measured_hz, s->rate_hz);
    if (s->measured_hz > 0)
        put_cause(all, s, ALARM_RATE, text, now);
    str_format(text, sizeof text, "samples are stamped %.0f min %s they come", fabs(s->ahead_s) / 60,
               s->ahead_s > 0 ? "after" : "before");
    if (fabs(s->ahead_s) * 1000 > STAMPS_OFF_MS)
        put_cause(all, s, ALARM_CLOCK, text, now);
}

/* The wall clock of this machine, against the clock that nobody can set: what people do with a wrong clock is said for a while, and
 * then it is the clock. */
static void look_at_clock(struct gather *g, struct alarms *all, const struct alarms_now *now) {
    const int64_t offset_ms = now->wall_ms - now->boot_ms, step_ms = offset_ms - g->clock_offset_ms;
    char text[80];
    if (!g->clock_known || llabs(step_ms) < CLOCK_STEP_MS ||
        (g->stepped_boot_ms && now->boot_ms - g->stepped_boot_ms > CLOCK_SAID_MS)) {
        g->clock_known = true;
        g->clock_offset_ms = offset_ms;
        g->stepped_boot_ms = 0;
        return;
    }
    g->stepped_boot_ms = g->stepped_boot_ms ? g->stepped_boot_ms : now->boot_ms;
    str_format(text, sizeof text, "this machine's clock was set %s by %.0f s", step_ms > 0 ? "forward" : "back",
               (double)llabs(step_ms) / 1000);
    alarms_round_put(all, &(struct alarms_cause){.kind = ALARM_CLOCK, .bed = "", .principal = "", .session = "", .why = text}, now);
}

static bool is_open(const struct status_stream *s) { return *s->id && !s->ended_ms; }

static bool has_stream(const struct status *in, int place) {
    for (int i = 0; i < in->n_streams; i++)
        if (in->streams[i].place == place && in->streams[i].live && is_open(&in->streams[i]))
            return true;
    return false;
}

/* A bed of the roster that had a live stream since the daemon's start, and has none. */
static void look_at_bed(const struct gather *g, const struct status *in, const struct status_stream *s,
                        const struct alarms_now *now) {
    if (s->place == INT_MAX)
        return;
    if (is_open(s))
        g->seen[s->place] |= s->live;
    else if (g->seen[s->place] && !has_stream(in, s->place))
        put_cause(desk_alarms(g->source.desk), s, ALARM_LOST, "no stream", now);
}

static void measure(const struct gather *g, const struct alarms *all) {
    int waiting[ALARM_KINDS] = {0};
    struct alarms_cursor cursor = {0};
    for (const struct alarm *a; (a = alarms_next(all, &cursor));)
        waiting[a->kind] += alarm_is_waiting(a);
    for (int i = 0; i < ALARM_KINDS && g->source.metrics; i++)
        metric_set(metrics_series(g->source.metrics, "brrd_alarms_waiting", alarm_kind_name((enum alarm_kind)i)), waiting[i]);
}

void gather_causes(struct gather *g, const struct status *from, const struct alarms_now *now) {
    if (!g->source.desk)
        return;
    struct alarms *all = desk_alarms(g->source.desk);
    alarms_round_begin(all);
    for (int i = 0; i < from->n_streams; i++) {
        look_at_stream(all, &from->streams[i], now);
        look_at_bed(g, from, &from->streams[i], now);
    }
    for (int i = 0; i < from->n_hooks; i++)
        if (from->hooks[i].failing)
            alarms_round_put(all,
                             &(struct alarms_cause){.kind = ALARM_RECEIVER,
                                                    .bed = from->hooks[i].name,
                                                    .principal = "",
                                                    .session = "",
                                                    .why = from->hooks[i].error},
                             now);
    if (from->journal_fails)
        alarms_round_put(all, &(struct alarms_cause){.kind = ALARM_JOURNAL, .bed = "", .principal = "", .session = "", .why = ""},
                         now);
    look_at_clock(g, all, now);
    alarms_round_end(all, now);
    measure(g, all);
}
