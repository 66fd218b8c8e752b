/* The alarms of a status, what of them each stream's tile shows, and the roster: beds without a stream. Also what of the status is
 * a technical alarm now. */

#include "daemon/status/gather_parts.h"
#include "detect/contact.h"

enum {
    STAMPS_OFF_MS = 5 * 60 * 1000, /* a sampling clock that drifts, and what a client kept during an outage, stay below */
    CLOCK_STEP_MS = 60 * 1000,
    CLOCK_SAID_MS = 10 * 60 * 1000
};
static const double LOST_SHARE = 0.1;

/* The place in the roster of the bed of this name that this caller streams; INT_MAX: in none, or another's. */
static int roster_place(const struct gather *g, const char *principal, const char *bed) {
    const intptr_t place = g->places ? (intptr_t)map_get(g->places, bed) : 0;
    const bool held = place && (!g->source.desk || alarms_holds(desk_alarms(g->source.desk), principal, bed));
    return held ? (int)place - 1 : INT_MAX;
}

/* ---- open alarms by their session, and by their bed ---- */

enum { KEY = JOURNAL_PRINCIPAL + JOURNAL_CLIENT + 4 };

static const char *index_key(char key[KEY], char of, const char *principal, const char *name) {
    str_format(key, KEY, "%c%s\x1f%s", of, principal, name);
    return key;
}

static void put_first(struct map *map, const char *key, const struct alarm *a) {
    if (map && !map_get(map, key))
        (void)map_put(map, key, (void *)(uintptr_t)a, NULL);
}

/* The first of each: by session, by caller and bed, by bed of the roster; tests by bed alone, since who tests is not who streams.
 */
static struct map *index_open(const struct gather *g, const struct status *to) {
    struct map *map = map_new(4 * (size_t)to->n_alarms + 1);
    char key[KEY];
    for (int i = 0; i < to->n_alarms; i++) {
        const struct alarm *a = to->alarms[i];
        if (!alarm_is_open(a) || a->kind != ALARM_SEIZURE)
            continue;
        put_first(map, index_key(key, a->due_boot_ms ? 'u' : 's', "", a->session), a);
        if (a->due_boot_ms || !a->live || !alarm_bed_is_named(a->bed))
            continue;
        put_first(map, index_key(key, 'b', a->principal, a->bed), a);
        if (a->test || roster_place(g, a->principal, a->bed) < INT_MAX)
            put_first(map, index_key(key, 'r', "", a->bed), a);
        if (a->test)
            put_first(map, index_key(key, 't', "", a->bed), a);
    }
    return map;
}

void gather_alarms(struct gather *g, struct status *to) {
    const struct alarms_now now = desk_now();
    struct alarms_cursor cursor = {0};
    int n = 0, open = 0;
    to->boot_ms = now.boot_ms;
    if (!g->source.desk || !(to->alarms = arena_alloc(&to->arena, ALARMS_MAX * 2 * sizeof(struct alarm *))))
        return;
    for (const struct alarm *a; n < ALARMS_MAX * 2 && (a = alarms_next(desk_alarms(g->source.desk), &cursor));)
        if (alarm_is_open(a) || now.wall_ms - a->off_ms < STATUS_CLOSED_MS) {
            to->alarms[n++] = a;
            open += alarm_is_open(a);
        }
    if (n)
        qsort(to->alarms, (size_t)n, sizeof *to->alarms, alarms_by_rank);
    n = n < open + STATUS_ALARMS ? n : open + STATUS_ALARMS;
    for (struct alarm *copy; to->n_alarms < n && (copy = arena_alloc(&to->arena, sizeof *copy)); to->n_alarms++) {
        *copy = *to->alarms[to->n_alarms];
        to->alarms[to->n_alarms] = copy;
    }
    g->open = index_open(g, to);
}

/* ---- alarms of streams, and the roster ---- */

/* Whether it is on, or was, in a stream that sends: no other one has it. */
static bool is_anothers(const struct gather *g, const struct alarm *a) {
    const struct bed *b = a && g->beds ? beds_find(g->beds, a->session) : NULL;
    return b && b->heard;
}

/* The open alarm of this stream: of its session, or of its bed. */
static const struct alarm *alarm_of(const struct gather *g, const struct status_stream *s) {
    char key[KEY];
    const struct alarm *a = NULL;
    if (!g->open || !map_count(g->open))
        return NULL;
    if (*s->bed.session_id)
        a = map_get(g->open, index_key(key, 's', "", s->bed.session_id));
    if (a || !s->bed.live || !alarm_bed_is_named(s->bed.name))
        return a;
    if (s->place < INT_MAX) { /* of any caller who holds it */
        a = map_get(g->open, index_key(key, 'r', "", s->bed.name));
        return is_anothers(g, a) ? NULL : a;
    }
    a = map_get(g->open, index_key(key, 'b', s->bed.principal, s->bed.name));
    a = is_anothers(g, a) ? NULL : a;
    const bool another = alarms_is_anothers(desk_alarms(g->source.desk), s->bed.principal, s->bed.name); /* a test is of the bed */
    return a || another ? a : map_get(g->open, index_key(key, 't', "", s->bed.name));
}

static bool is_open(const struct status_stream *s) { return *s->bed.session_id && !s->bed.ended_ms; }

bool gather_is_heard(const struct status_stream *s) { return s->bed.connected && !s->silent && !s->bed.ended_ms; }

/* What is left of a stream whose caller handed its bed over is the bed's still: the next one's takes its tile. */
static int stream_place(const struct gather *g, const struct status_stream *s) {
    const bool left = s->held && !gather_is_heard(s) && g->places;
    const int place = roster_place(g, s->bed.principal, s->bed.name);
    return place < INT_MAX || !left ? place : roster_place(g, "", s->bed.name);
}

bool gather_holds_back(const struct gather *g, const struct status_stream *s) {
    char key[KEY];
    return *s->bed.session_id && g->open && map_get(g->open, index_key(key, 'u', "", s->bed.session_id));
}

void gather_alarm_of_stream(const struct gather *g, struct status_stream *s) {
    const struct alarms_now now = desk_now();
    if (g->source.desk && s->bed.live && is_open(s))
        alarms_streams(desk_alarms(g->source.desk), s->bed.principal, s->bed.name, s->bed.opened_ms, &now);
    s->place = stream_place(g, s);
    s->bed.rule = "";
    if (!g->source.desk)
        return;
    s->alarm = alarm_of(g, s);
    const struct alarms *all = desk_alarms(g->source.desk);
    const bool another = s->place == INT_MAX && alarms_is_anothers(all, s->bed.principal, s->bed.name);
    const bool off = s->bed.live && !another && alarms_are_off(all, s->bed.name);
    const bool held = gather_holds_back(g, s);
    s->bed.rule = off && held ? "alarms off by the configuration; one is on"
                  : off       ? "alarms off by the configuration"
                  : held      ? "an alarm is on, not yet for the bed's least duration"
                              : "";
    if (*s->bed.name && !another)
        s->bed.standby_until_ms = alarms_in_standby(all, s->bed.name, &now, NULL);
}

enum status_mood gather_mood(const struct status_stream *s) {
    if (s->alarm)
        return s->alarm->off_ms ? STATUS_WAS : STATUS_ALARM;
    if (s->bed.standby_until_ms)
        return STATUS_STANDBY;
    if (!*s->bed.session_id)
        return STATUS_ABSENT;
    if (s->bed.ended_ms)
        return s->place < INT_MAX && s->bed.live ? STATUS_ABSENT : STATUS_ENDED;
    if (!s->bed.connected || s->silent)
        return STATUS_LOST;
    if (s->late)
        return STATUS_LATE;
    return s->n_flawed || s->bed.gap_fraction > LOST_SHARE ? STATUS_POOR : STATUS_FINE;
}

/* ---- a bed has one tile ---- */

/* Of a recording that brrctl reads for a person, who looks at the result: it is no bed. */
static bool is_of_file(const struct status_stream *s) {
    static const char *const readers[] = {"brrctl detect", "brrctl view"};
    return !s->bed.live && STR_AMONG(s->bed.name, readers) >= 0;
}

/* The bed went on with another stream: this one is not the bed any more, also when that one has ended or is another daemon's now.
 */
static bool is_past(const struct status_stream *s) { return s->followed && !s->bed.connected; }

/* Of two streams of a bed the one whose tile stays: one that is heard, else one that no other followed, one that is no replay, an
 * open one, the newer one. */
static bool has_better_tile(const struct status_stream *a, const struct status_stream *b) {
    if (gather_is_heard(a) != gather_is_heard(b))
        return gather_is_heard(a);
    if (is_past(a) != is_past(b))
        return is_past(b);
    if (!a->bed.live != !b->bed.live)
        return a->bed.live;
    if (!a->bed.ended_ms != !b->bed.ended_ms)
        return !a->bed.ended_ms;
    return a->bed.opened_ms > b->bed.opened_ms;
}

static const char *tile_key(char key[KEY], int place, const char *principal, const char *bed) {
    return index_key(key, 'b', place < INT_MAX ? "" : principal, bed);
}

static const char *bed_key(char key[KEY], const struct status_stream *s) {
    return tile_key(key, s->place, s->bed.principal, s->bed.name);
}

static bool is_bed(const struct status_stream *s) { return (s->bed.live || s->bed.ended_ms) && alarm_bed_is_named(s->bed.name); }

/* Of a stream of a bed: the first one of that bed, and of that one in `best` the one whose tile stays. */
struct of_bed {
    struct status_stream *first, *best;
};

static void find_best(struct status *to, struct of_bed *of) {
    struct map *firsts = map_new((size_t)to->n_streams + 1);
    char key[KEY];
    for (int i = 0; firsts && i < to->n_streams; i++) {
        struct status_stream *s = &to->streams[i], *first = is_bed(s) ? map_get(firsts, bed_key(key, s)) : NULL;
        if (!is_bed(s) || (!first && map_put(firsts, key, s, NULL)))
            continue;
        of[i].first = first ? first : s;
        struct of_bed *bed = &of[of[i].first - to->streams];
        if (bed->best && gather_is_heard(s) && gather_is_heard(bed->best))
            s->twice = bed->best->twice = true;
        if (!bed->best || has_better_tile(s, bed->best))
            bed->best = s;
    }
    map_free(firsts, NULL);
}

void gather_fold(struct status *to) {
    const int last = to->n_streams;
    struct of_bed *of = calloc((size_t)last + 1, sizeof *of);
    bool *folded = calloc((size_t)last + 1, sizeof *folded);
    if (of)
        find_best(to, of);
    for (int i = 0; of && folded && i < last; i++) {
        const struct status_stream *s = &to->streams[i], *first = of[i].first;
        folded[i] = is_of_file(s) || (first && !gather_is_heard(s) && (is_past(s) || of[first - to->streams].best != s));
    }
    for (int i = last - 1; folded && i >= 0; i--)
        if (folded[i]) {
            const struct status_stream moved = to->streams[i];
            to->streams[i] = to->streams[--to->n_streams];
            to->streams[to->n_streams] = moved;
            to->n_folded++;
        }
    free(folded);
    free(of);
}

struct status_stream *gather_add(struct status *to) {
    if (!to->streams || to->n_streams + to->n_folded == to->room_streams) {
        to->left_streams++;
        return NULL;
    }
    if (to->n_folded) /* these stay behind the others */
        to->streams[to->n_streams + to->n_folded] = to->streams[to->n_streams];
    struct status_stream *s = &to->streams[to->n_streams++];
    *s = (struct status_stream){.bed = BRR__V1__BED__INIT, .address = "", .montage = ""};
    s->bed.probability = NAN;
    for (int i = 0; i < STATUS_MINUTE; i++)
        s->minute[i] = NAN;
    return s;
}

static struct status_stream *add_absent(struct status *to, const char *bed, const char *principal) {
    struct status_stream *s = gather_add(to);
    if (!s)
        return NULL;
    s->bed.name = (char *)(uintptr_t)bed;
    s->bed.principal = (char *)(uintptr_t)principal;
    s->realtime = true;
    s->bed.live = true;
    return s;
}

static void add_beds(const struct gather *g, struct status *to) {
    bool *found = calloc((size_t)g->source.n_beds + 1, sizeof *found);
    for (int i = 0; found && i < to->n_streams; i++)
        if (to->streams[i].place < INT_MAX && to->streams[i].bed.live) /* a replay is not the bed */
            found[to->streams[i].place] = true;
    for (int i = 0; found && i < g->source.n_beds; i++) {
        struct status_stream *s = found[i] ? NULL : add_absent(to, g->source.beds[i], "");
        if (!s)
            continue;
        gather_alarm_of_stream(g, s);
        if (s->alarm)
            s->bed.principal = (char *)(uintptr_t)s->alarm->principal;
        s->mood = gather_mood(s);
    }
    free(found);
}

/* Of the tile that shows the alarm of a bed; of a test any tile of that name, since who tests is not who streams. */
static const char *alarm_key(const struct gather *g, char key[KEY], const struct alarm *a) {
    return a->test ? index_key(key, 't', "", a->bed) : tile_key(key, roster_place(g, a->principal, a->bed), a->principal, a->bed);
}

/* Of a tile without an alarm: nothing. A test or a replay is no alarm of the bed's patient. */
static void put_tile(struct map *shown, const struct status_stream *s) {
    static char yes;
    char key[KEY];
    if (!s->alarm)
        return;
    if (s->alarm->live && !s->alarm->test)
        (void)map_put(shown, bed_key(key, s), &yes, NULL);
    (void)map_put(shown, index_key(key, 't', "", s->bed.name), &yes, NULL);
}

/* Alarms that nobody has answered, of beds whose tile, if there is one, shows none. */
static void add_orphans(const struct gather *g, struct status *to) {
    struct map *shown = map_new(3 * (size_t)(to->n_streams + to->n_alarms) + 1);
    char key[KEY];
    static char yes;
    for (int i = 0; shown && i < to->n_streams; i++) {
        if (to->streams[i].alarm)
            (void)map_put(shown, index_key(key, 'a', "", to->streams[i].alarm->id), &yes, NULL);
        put_tile(shown, &to->streams[i]);
    }
    for (int i = 0; shown && i < to->n_alarms; i++) {
        const struct alarm *a = to->alarms[i];
        if (!alarm_is_open(a) || !a->live || a->due_boot_ms || a->kind != ALARM_SEIZURE ||
            map_get(shown, index_key(key, 'a', "", a->id)) || (alarm_bed_is_named(a->bed) && map_get(shown, alarm_key(g, key, a))))
            continue;
        struct status_stream *s = add_absent(to, a->bed, a->principal);
        if (!s)
            continue;
        gather_alarm_of_stream(g, s);
        s->alarm = a;
        s->mood = gather_mood(s);
        if (alarm_bed_is_named(a->bed))
            put_tile(shown, s);
    }
    map_free(shown, NULL);
}

void gather_roster(const struct gather *g, struct status *to) {
    add_beds(g, to);
    add_orphans(g, to);
    for (int i = 0, n = 0; i < to->n_streams + to->n_folded; i++) {
        struct status_stream *s = &to->streams[i];
        s->key = *s->bed.session_id ? s->bed.session_id
                                    : arena_printf(&to->arena, "bed-%d", s->place < INT_MAX ? s->place : 100000 + n++);
        s->key = s->key ? s->key : "";
        s->bed.state = (char *)(uintptr_t)status_mood_name(s->mood);
        s->bed.in_roster = s->place < INT_MAX;
    }
}

/* ---- technical alarms ---- */

/* What is left of a stream keeps its alarms when its caller hands the bed over. */
bool gather_is_of_tile(const struct alarms *all, const struct alarm *a, const struct status_stream *s) {
    return !strcmp(a->bed, s->bed.name) &&
           ((s->place < INT_MAX && alarms_holds(all, a->principal, a->bed)) || !strcmp(a->principal, s->bed.principal)) &&
           (alarm_bed_is_named(a->bed) || !strcmp(a->session, s->bed.session_id));
}

/* Whether so many of the model's channels have flaws that its alarms may be void (detect/contact.h). */
static bool electrodes_off(const struct status_stream *s) {
    int used = 0;
    for (int i = 0; i < s->n_channels; i++)
        used += s->channels[i].used;
    return used && s->n_flawed >= contact_most_bad(used);
}

static struct alarms_cause cause_of(const struct alarms *all, const struct status_stream *s, enum alarm_kind kind,
                                    const char *why) {
    const bool left = kind == ALARM_LOST && s->place < INT_MAX && !alarms_holds(all, s->bed.principal, s->bed.name);
    return (struct alarms_cause){.kind = kind,
                                 .bed = s->bed.name,
                                 .principal = left ? "" : s->bed.principal, /* the bed is lost */
                                 .session = s->bed.session_id,
                                 .why = why,
                                 .held_ms = kind == ALARM_LEARNING ? s->learned_before_ms : 0};
}

/* no_new: an alarm that is on goes on, and none begins. True: it is on. */
static bool put_cause(struct alarms *all, const struct status_stream *s, enum alarm_kind kind, const char *why, bool no_new,
                      const struct alarms_now *now) {
    struct alarms_cause c = cause_of(all, s, kind, why);
    c.no_new = no_new;
    return alarms_round_put(all, &c, now);
}

/* Of no stream. */
static void put_own_cause(struct alarms *all, enum alarm_kind kind, const char *bed, const char *why,
                          const struct alarms_now *now) {
    const struct alarms_cause c = {.kind = kind, .bed = bed, .principal = "", .session = "", .why = why};
    (void)alarms_round_put(all, &c, now);
}

/* A replay calls nobody, also one in real time. */
static void look_at_stream(struct alarms *all, const struct status_stream *s, const struct alarms_now *now) {
    static const enum alarm_kind unseen[] = {ALARM_ELECTRODES, ALARM_LEARNING, ALARM_RATE, ALARM_CLOCK};
    const bool off = electrodes_off(s);
    char text[80];
    if (!s->bed.live || s->bed.ended_ms || !*s->bed.session_id)
        return;
    const struct alarms_cause stream = cause_of(all, s, ALARM_LOST, "");
    if (s->bed.connected)
        alarms_round_back(all, &stream);
    /* a cable is out: first nothing comes, then the connection ends; it is one alarm */
    if (!s->bed.connected && !put_cause(all, s, ALARM_NO_SIGNAL, "", true, now))
        put_cause(all, s, ALARM_LOST, "", false, now);
    else if (s->bed.connected && s->silent)
        put_cause(all, s, ALARM_NO_SIGNAL, "", false, now);
    if (s->twice)
        put_cause(all, s, ALARM_TWICE, "", false, now);
    if (s->late)
        put_cause(all, s, ALARM_LATE, "", false, now);
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen && !gather_is_heard(s); i++)
        put_cause(all, s, unseen[i], NULL, true, now);
    if (!s->loaded)
        put_cause(all, s, ALARM_MODEL, s->bed.model, !s->bed.connected, now);
    if (off)
        put_cause(all, s, ALARM_ELECTRODES, s->bed.quality, false, now);
    const bool alone = s->bed.connected && !s->silent && s->loaded && !s->late && !off; /* nothing else is wrong */
    if (s->bed.learning_s)
        put_cause(all, s, ALARM_LEARNING, alone ? "" : NULL, !alone, now);
    str_format(text, sizeof text, "%.1f Hz instead of %g", s->measured_hz, s->rate_hz);
    if (s->measured_hz > 0 || !s->rate_known)
        put_cause(all, s, ALARM_RATE, s->rate_known ? text : NULL, !s->rate_known, now);
    str_format(text, sizeof text, "samples are stamped %.0f min %s they come", fabs(s->ahead_s) / 60,
               s->ahead_s > 0 ? "after" : "before");
    if (fabs(s->ahead_s) * 1000 > STAMPS_OFF_MS)
        put_cause(all, s, ALARM_CLOCK, text, false, now);
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
    put_own_cause(all, ALARM_CLOCK, "", text, now);
}

/* A bed of the roster that had a live stream since the daemon's start, or was lost before, and has none, unless another
 * daemon has it. open: of each bed, whether it has one. */
static void look_at_bed(const struct gather *g, const bool *open, const struct status_stream *s, const struct alarms_now *now) {
    if (s->place == INT_MAX)
        return;
    if (is_open(s))
        g->seen[s->place] |= s->bed.live;
    else if (s->moved)
        g->seen[s->place] = open[s->place];
    else if (g->seen[s->place] && !open[s->place])
        put_cause(desk_alarms(g->source.desk), s, ALARM_LOST, "no stream", false, now);
    else if (!open[s->place])
        g->seen[s->place] = put_cause(desk_alarms(g->source.desk), s, ALARM_LOST, "no stream", true, now);
}

/* Streams that are not heard and have no tile: their alarm, unless the tile of their bed shows it. */
static void look_at_folded(struct alarms *all, const struct status *from) {
    for (int i = from->n_streams; i < from->n_streams + from->n_folded; i++) {
        const struct alarm *a = from->streams[i].alarm;
        int tile = 0;
        while (a && tile < from->n_streams && from->streams[tile].alarm != a)
            tile++;
        if (a && tile == from->n_streams)
            alarms_look_at_bed(all, a->id, false);
    }
}

/* As many as a turn of the loop may take; true: there are more. */
static bool look_at_streams(struct gather *g, const struct status *from, const struct alarms_now *now) {
    const int64_t until_ms = clock_ms() + GATHER_TURN_MS;
    bool *open = calloc((size_t)g->source.n_beds + 1, sizeof *open);
    for (int i = 0; open && i < from->n_streams; i++)
        if (from->streams[i].place < INT_MAX && from->streams[i].bed.live && is_open(&from->streams[i]))
            open[from->streams[i].place] = true;
    for (; g->at < from->n_streams && clock_ms() < until_ms; g->at++) {
        const int i = g->at;
        look_at_stream(desk_alarms(g->source.desk), &from->streams[i], now);
        if (from->streams[i].alarm)
            alarms_look_at_bed(desk_alarms(g->source.desk), from->streams[i].alarm->id, gather_is_heard(&from->streams[i]));
        if (open)
            look_at_bed(g, open, &from->streams[i], now);
    }
    const bool more = g->at < from->n_streams;
    if (!more)
        look_at_folded(desk_alarms(g->source.desk), from);
    int without = 0;
    for (int i = 0; open && !more && i < g->source.n_beds; i++)
        without += !open[i] && !alarms_in_standby(desk_alarms(g->source.desk), g->source.beds[i], now, NULL);
    if (open && !more && g->source.metrics)
        metric_set(metrics_series(g->source.metrics, "brrd_beds_without_stream", ""), without);
    free(open);
    g->at = more ? g->at : 0;
    return more;
}

static void measure(const struct gather *g, const struct alarms *all) {
    int waiting[ALARM_KINDS] = {0};
    struct alarms_cursor cursor = {0};
    for (const struct alarm *a; (a = alarms_next(all, &cursor));)
        waiting[a->kind] += alarm_is_waiting(a);
    for (int i = 0; i < ALARM_KINDS && g->source.metrics; i++)
        metric_set(metrics_series(g->source.metrics, "brrd_alarms_waiting", alarm_kind_name((enum alarm_kind)i)), waiting[i]);
}

static void put_own_causes(struct gather *g, const struct status *from, const struct alarms_now *now) {
    struct alarms *all = desk_alarms(g->source.desk);
    for (int i = 0; i < from->n_hooks; i++)
        if (from->hooks[i].state.failing)
            put_own_cause(all, ALARM_RECEIVER, from->hooks[i].name, from->hooks[i].state.error, now);
    if (from->journal_fails)
        put_own_cause(all, ALARM_JOURNAL, "", "", now);
    look_at_clock(g, all, now);
}

bool gather_causes(struct gather *g, const struct status *from, const struct alarms_now *now) {
    if (!g->source.desk)
        return false;
    struct alarms *all = desk_alarms(g->source.desk);
    if (!g->at && !g->round_ends)
        alarms_round_begin(all);
    if (!g->round_ends && look_at_streams(g, from, now))
        return true;
    if (!g->round_ends)
        put_own_causes(g, from, now);
    g->round_ends = alarms_round_end(all, now);
    if (!g->round_ends)
        measure(g, all);
    return g->round_ends;
}
