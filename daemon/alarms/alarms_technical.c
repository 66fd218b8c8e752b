/* Technical alarms: from their causes, which are named every second. */
#include "daemon/alarms/alarms_parts.h"

enum { CAUSE_KEY = 16 + JOURNAL_CLIENT + JOURNAL_PRINCIPAL, ROUND_ENDS = 64 };

/* How long a cause holds before it is an alarm. No samples have come for 10 s when that cause begins. */
static const int64_t delays_ms[ALARM_KINDS] = {
    [ALARM_SEIZURE] = 0,           [ALARM_UNANSWERED] = 0,    [ALARM_LOST] = 15 * 1000,
    [ALARM_NO_SIGNAL] = 20 * 1000, [ALARM_LATE] = 15 * 1000,  [ALARM_MODEL] = 15 * 1000,
    [ALARM_RATE] = 30 * 1000,      [ALARM_CLOCK] = 30 * 1000, [ALARM_ELECTRODES] = 30 * 1000,
    [ALARM_LEARNING] = 180 * 1000, /* it takes a minute of signal */
    [ALARM_RECEIVER] = 15 * 1000,  [ALARM_TWICE] = 15 * 1000, [ALARM_JOURNAL] = 2 * 1000};

static void begin_technical(struct alarms *all, struct technical *t, const struct alarms_now *now) {
    struct alarm *a = &t->alarm;
    t->begun = true;
    a->on_boot_ms = t->due_boot_ms - delays_ms[a->kind]; /* its cause has been there since */
    a->on_ms = now->wall_ms - (now->boot_ms - a->on_boot_ms);
    str_format(a->id, sizeof a->id, "%s-%llx-%lld", alarm_kind_name(a->kind), (unsigned long long)now->wall_ms / 1000,
               (long long)++all->numbered);
    alarms_write(all, &(struct alarms_row){.kind = ALARMS_ROW_TECHNICAL_ON, .alarm = a, ROW_AT(now)});
}

static struct technical *technical_new(struct alarms *all, const char *key, const struct alarms_cause *c,
                                       const struct alarms_now *now) {
    struct technical *t = calloc(1, sizeof *t);
    if (!t || map_put(all->technical, key, t, NULL)) {
        free(t);
        return NULL;
    }
    t->due_boot_ms = now->boot_ms + delays_ms[c->kind] - c->held_ms;
    t->alarm.kind = c->kind;
    t->alarm.live = true;
    t->alarm.value = NAN;
    COPY_TEXTS(t->alarm, *c, bed, principal, session);
    return t;
}

static void key_of(const struct alarms *all, const struct alarms_cause *c, char ret[CAUSE_KEY]) {
    const bool any = c->kind == ALARM_LOST && alarms_holds(all, c->principal, c->bed);
    str_format(ret, CAUSE_KEY, "%d\x1f%s\x1f%s", (int)c->kind, any ? "" : c->principal,
               alarm_bed_is_named(c->bed) || !*c->session ? c->bed : c->session);
}

bool alarms_is_of_stream(enum alarm_kind kind) { return kind == ALARM_LOST || kind == ALARM_NO_SIGNAL; }

struct alarm *alarms_technical(struct alarms *all, const char *id, const struct alarms_cause *c, int64_t on_ms,
                               const struct alarms_now *now) {
    char key[CAUSE_KEY];
    key_of(all, c, key);
    struct technical *t = map_get(all->technical, key);
    if (t && t->begun && !all->restoring)
        return &t->alarm;
    if (!t && !(t = technical_new(all, key, c, now)))
        return NULL;
    t->begun = true;
    t->gone = alarms_is_of_stream(c->kind); /* unless its stream is heard before the time is up */
    t->keep_boot_ms = now->boot_ms + ALARMS_RETURN_MS;
    t->alarm.on_ms = on_ms;
    t->alarm.on_boot_ms = alarms_boot_of(on_ms, now);
    str_copy(t->alarm.id, sizeof t->alarm.id, id);
    str_copy(t->alarm.why, sizeof t->alarm.why, c->why);
    all->changed = true;
    return &t->alarm;
}

void alarms_technical_ended(struct alarms *all, const char *id) {
    const char *key;
    void *at;
    for (size_t cursor = 0; map_next(all->technical, &cursor, &key, &at);)
        if (!strcmp(((const struct technical *)at)->alarm.id, id)) {
            free(map_remove(all->technical, key));
            all->changed = true;
            return;
        }
}

int alarms_technical_of(const struct alarms *all, const struct alarms_cause *stream, const struct alarm **ret, int most) {
    struct alarms_cause c = *stream;
    char key[CAUSE_KEY];
    int n = 0;
    for (int kind = ALARM_UNANSWERED; kind < ALARM_KINDS && n < most && map_count(all->technical); kind++) {
        c.kind = (enum alarm_kind)kind;
        key_of(all, &c, key);
        const struct technical *t = map_get(all->technical, key);
        if (t && t->begun && !strcmp(t->alarm.session, c.session))
            ret[n++] = &t->alarm;
    }
    return n;
}

/* They go on there; that nothing was heard ends here, for the other daemon knows it only if its snapshot is new enough.
 * A client came there, so that its connection is back; nobody knows that of its signal. */
void alarms_technical_moved(struct alarms *all, const char *session, const struct alarms_now *now) {
    const char *key;
    void *at;
    for (size_t cursor = 0; *session && map_next(all->technical, &cursor, &key, &at);) {
        struct technical *t = at;
        if (strcmp(t->alarm.session, session) != 0)
            continue;
        if (t->alarm.kind == ALARM_NO_SIGNAL)
            str_copy(t->alarm.why, sizeof t->alarm.why, ALARMS_MOVED);
        if (t->begun && alarms_is_of_stream(t->alarm.kind))
            alarms_write(all, &(struct alarms_row){.kind = ALARMS_ROW_TECHNICAL_OFF, .alarm = &t->alarm, ROW_AT(now)});
        free(map_remove(all->technical, key));
        all->changed = true;
    }
}

void alarms_round_begin(struct alarms *all) { all->round++; }

void alarms_round_back(struct alarms *all, const struct alarms_cause *stream) {
    struct alarms_cause c = *stream;
    char key[CAUSE_KEY];
    for (int i = 0; i < 2 && map_count(all->technical); i++) {
        c.kind = i ? ALARM_NO_SIGNAL : ALARM_LOST;
        key_of(all, &c, key);
        struct technical *t = map_get(all->technical, key);
        if (!t)
            continue;
        t->gone = false;
        t->keep_boot_ms = i ? t->keep_boot_ms : 0; /* samples may not have come yet */
    }
}

bool alarms_is_over(const char *why) {
    return !str_starts(why, ALARMS_ENDED) && strcmp(why, ALARMS_STANDS) != 0 && strcmp(why, ALARMS_MOVED) != 0;
}

bool alarms_round_put(struct alarms *all, const struct alarms_cause *c, const struct alarms_now *now) {
    char key[CAUSE_KEY];
    key_of(all, c, key);
    struct technical *t = map_get(all->technical, key);
    if (alarms_stands_by(all, c->kind, c->principal, c->bed))
        return false;
    if (!t ? c->no_new || !(t = technical_new(all, key, c, now)) : c->no_new && !t->begun)
        return false;
    t->round = all->round;
    t->keep_boot_ms = c->why ? 0 : now->boot_ms + ALARMS_RETURN_MS;
    if (t->gone && *c->session) /* in another stream of the bed */
        str_copy(t->alarm.session, sizeof t->alarm.session, c->session);
    t->gone = false;
    if (alarms_is_anothers(all, t->alarm.principal, c->bed) && !alarms_is_anothers(all, c->principal, c->bed))
        str_copy(t->alarm.principal, sizeof t->alarm.principal, c->principal); /* the bed has another holder since */
    if (c->why && strcmp(t->alarm.why, c->why) != 0) {
        str_copy(t->alarm.why, sizeof t->alarm.why, c->why);
        if (c->kind == ALARM_UNANSWERED)
            str_copy(t->alarm.session, sizeof t->alarm.session, c->session);
        all->changed |= t->begun;
    }
    if (!t->begun && now->boot_ms >= t->due_boot_ms && alarms_add(all, ADDED_TECHNICAL, t->alarm.principal, now))
        begin_technical(all, t, now);
    return t->begun;
}

/* Everybody was called, and nobody came: its last step has been repeated. */
static bool is_unanswered(const struct alarms *all, const struct alarm *a) {
    return alarms_escalates(all, a) && a->step > all->plan.n;
}

/* One alarm of a bed is named until somebody answers it; a test is named only where no patient's alarm waits. */
static void put_unanswered(struct alarms *all, bool test, const struct alarms_now *now) {
    void *at;
    for (size_t cursor = 0; alarms_each(all->patients, &cursor, &at);) {
        const struct alarm *a = at;
        const struct alarms_cause c = {
            .kind = ALARM_UNANSWERED, .bed = a->bed, .principal = a->principal, .session = a->session, .why = a->id};
        char key[CAUSE_KEY];
        if (a->test != test || !is_unanswered(all, a))
            continue;
        key_of(all, &c, key);
        const struct technical *t = map_get(all->technical, key);
        const struct alarm *named = t ? map_get(all->patients, t->alarm.why) : NULL;
        if (!named || named == a || (named->test == test ? !is_unanswered(all, named) : named->test))
            (void)alarms_round_put(all, &c, now);
    }
}

bool alarms_round_end(struct alarms *all, const struct alarms_now *now) {
    const char *key;
    void *at;
    int rows = 0;
    put_unanswered(all, false, now);
    put_unanswered(all, true, now);
    for (size_t cursor = 0; rows < ROUND_ENDS && map_next(all->technical, &cursor, &key, &at);) {
        struct technical *t = at;
        const bool stands = alarms_stands_by(all, t->alarm.kind, t->alarm.principal, t->alarm.bed);
        if (t->round == all->round || (now->boot_ms < t->keep_boot_ms && !stands))
            continue;
        if (stands || t->gone)
            str_copy(t->alarm.why, sizeof t->alarm.why,
                     stands                               ? ALARMS_STANDS
                     : alarms_is_of_stream(t->alarm.kind) ? ALARMS_GONE
                                                          : ALARMS_ENDED);
        rows += t->begun;
        if (t->begun)
            alarms_write(all, &(struct alarms_row){.kind = ALARMS_ROW_TECHNICAL_OFF, .alarm = &t->alarm, ROW_AT(now)});
        free(map_remove(all->technical, key));
    }
    return rows == ROUND_ENDS;
}

void alarms_gone(struct alarms *all, const char *session) {
    void *at;
    for (size_t cursor = 0; alarms_each(all->technical, &cursor, &at);) {
        struct technical *t = at;
        const enum alarm_kind kind = t->alarm.kind;
        t->gone |= kind != ALARM_TWICE && kind != ALARM_UNANSWERED && !strcmp(t->alarm.session, session);
    }
}
