#include "daemon/hooks/owed.h"

#include "base/queue.h"
#include "daemon/alarms/alarm_entry.h"

enum { RANK_ON, RANK_OVER, RANK_TECHNICAL, RANK_REPLAY };
enum { FIRST_PAUSE_MS = 1000, LONGEST_PAUSE_MS = 60 * 1000 };
#define TECHNICAL  "\x1e"
#define ESCALATION "\x1d"
#define TEST       "\x1c"

bool owed_init(struct owed *o) {
    *o = (struct owed){.beds = map_new(OWED_BEDS + 1), .of_alarm = map_new(SIZE_MAX)};
    return fair_init(&o->fair, OWED_BEDS) && o->beds && o->of_alarm;
}

static void bed_free(void *bed) {
    struct owed_bed *b = bed;
    for (struct telling_item *i; (i = b->items);) {
        b->items = i->next;
        journal_line_drop(i->line);
        free(i);
    }
    free(b);
}

void owed_done(struct owed *o) {
    map_free(o->beds, bed_free);
    map_free(o->of_alarm, NULL);
    fair_done(&o->fair);
}

/* ---- keys ---- */

/* Without tokens the bed is its own owner; technical alarms and heartbeats are the daemon's. */
static const char *caller_of(const struct journal_entry *e, const char *key) {
    if (journal_kind_is_technical(e->kind) || e->kind == JOURNAL_HEARTBEAT)
        return "";
    return str_starts(e->principal, "uid:") ? key : e->principal;
}

/* Streams without a name are beds of their own. */
static void key_of(const struct journal_entry *e, char ret[OWED_KEY]) {
    struct alarms_cause c;
    const char *test = alarm_entry_is_test(e) ? TEST : "";
    if (journal_kind_is_technical(e->kind))
        str_format(ret, OWED_KEY, TECHNICAL "%s%s", alarm_entry_cause(e, &c) ? alarm_kind_name(c.kind) : "", test);
    else if (e->kind == JOURNAL_ESCALATED)
        str_format(ret, OWED_KEY, ESCALATION "%lld%s\x1f%s", (long long)e->step, test, e->principal);
    else
        str_format(ret, OWED_KEY, "%s\x1f%s%s", e->principal, *e->client ? e->client : e->session, test);
}

static bool is_group(const struct owed_bed *b) { return *b->key == *ESCALATION; }

/* ---- entries ---- */

static struct telling_item *newest_of(const struct owed *o, const struct journal_entry *e) {
    return map_get(o->of_alarm, e->alarm);
}

/* False: out of memory. */
static bool enter_item(struct owed *o, struct telling_item *i) {
    const struct journal_entry *e = &i->line->entry;
    struct telling_item *newest = newest_of(o, e);
    CHAIN_ADD(newest, i, next_of_alarm, before_of_alarm);
    return !map_put(o->of_alarm, e->alarm, newest, NULL);
}

static void item_free(struct owed *o, struct telling_item *i) {
    const struct journal_entry *e = &i->line->entry;
    struct telling_item *newest = newest_of(o, e);
    CHAIN_REMOVE(newest, i, next_of_alarm, before_of_alarm);
    if (newest)
        (void)map_put(o->of_alarm, e->alarm, newest, NULL); /* a key that is there */
    else
        map_remove(o->of_alarm, e->alarm);
    journal_line_drop(i->line);
    free(i);
}

/* The bed that has an entry of this alarm, whichever caller's; NULL: none has. */
static struct owed_bed *bed_with(const struct owed *o, const struct journal_entry *e) {
    const struct telling_item *i = *e->alarm ? newest_of(o, e) : NULL;
    while (i && is_group(i->bed))
        i = i->next_of_alarm;
    return i ? i->bed : NULL;
}

static int class_of(const struct journal_entry *e) {
    if (!e->live)
        return RANK_REPLAY;
    if (e->kind == JOURNAL_ALARM_ON || e->kind == JOURNAL_ESCALATED)
        return RANK_ON;
    return journal_kind_is_technical(e->kind) || e->kind == JOURNAL_HEARTBEAT ? RANK_TECHNICAL : RANK_OVER;
}

static void set_rank(struct owed *o, struct owed_bed *b, int rank) {
    o->beds_of[b->place.rank]--;
    o->beds_of[b->place.rank = rank]++;
}

static void take_item(struct owed *o, struct owed_bed *b, struct telling_item *i) {
    LIST_REMOVE(b->items, i, next);
    b->n--;
    o->waiting--;
}

static void settle_item(struct owed *o, struct owed_bed *b, struct telling_item *i, const char *outcome) {
    take_item(o, b, i);
    o->settled(o->ctx, &i->line->entry, outcome);
    item_free(o, i);
}

static void forget_bed(struct owed *o, struct owed_bed *b) {
    o->beds_of[b->place.rank]--;
    fair_remove(&o->fair, &b->place);
    bed_free(map_remove(o->beds, b->key));
}

void owed_forget_if_done(struct owed *o, struct owed_bed *b, int64_t now_ms) {
    const bool told_lately = is_group(b) && b->begun_ms && now_ms - b->begun_ms < OWED_GROUP_MS;
    if (!b->items && !b->place.busy && !told_lately)
        forget_bed(o, b);
}

/* Whether the bed `a` is dropped before `b`: the owner with more beds loses one first, of its beds the one of the worse class, and
 * of equals the newer one. */
static bool goes_before(const struct fair_entry *a, const struct fair_entry *b) {
    if (a->owner->entries != b->owner->entries)
        return a->owner->entries > b->owner->entries;
    return a->rank != b->rank ? a->rank > b->rank : a->since_ms > b->since_ms;
}

/* The bed, of this owner (NULL: of any), that makes room for one of this rank; NULL: all are worse to lose. */
static struct owed_bed *find_victim(const struct owed *o, const struct fair_owner *of, int rank) {
    struct owed_bed *first = NULL;
    int worse = 0;
    const char *key;
    void *value;
    for (int i = rank + 1; i < OWED_RANKS; i++)
        worse += o->beds_of[i];
    for (size_t at = 0; worse && map_next(o->beds, &at, &key, &value);) {
        struct owed_bed *b = value;
        if ((of && b->place.owner != of) || b->place.busy || !b->items || b->place.rank <= rank)
            continue;
        first = first && !goes_before(&b->place, &first->place) ? first : b;
    }
    return first;
}

static bool make_room(struct owed *o, const char *owner, int rank) {
    while (!fair_has_room(&o->fair, owner)) {
        struct owed_bed *b = find_victim(o, fair_at_limit(&o->fair, owner), rank);
        if (!b)
            return false;
        while (b->items)
            settle_item(o, b, b->items, "dropped: too much waits");
        forget_bed(o, b);
    }
    return true;
}

/* What is told of an alarm stays in one bed when a stream of another caller goes on with it. */
static struct owed_bed *bed_of(struct owed *o, const struct journal_entry *e, int64_t now_ms) {
    char key[OWED_KEY];
    key_of(e, key);
    struct owed_bed *b = e->kind == JOURNAL_ESCALATED ? NULL : bed_with(o, e);
    const char *owner = caller_of(e, key);
    b = b ? b : map_get(o->beds, key);
    if (b || !make_room(o, owner, class_of(e)) || !(b = calloc(1, sizeof *b)))
        return b;
    str_copy(b->key, sizeof b->key, key);
    if (map_put(o->beds, key, b, NULL) || !fair_add(&o->fair, &b->place, owner)) {
        map_remove(o->beds, key);
        free(b);
        return NULL;
    }
    o->beds_of[b->place.rank = class_of(e)]++;
    b->place.since_ms = now_ms;
    return b;
}

/* A stream that goes on from its snapshot reports once more what came before this end. */
static bool came_before(const struct journal_entry *on, const struct journal_entry *off) {
    return !strcmp(on->session, off->session) && on->start_s <= off->start_s;
}

/* An alarm that ended and has begun again within alarms.rejoin: the hook hears of neither, but of one that sounds again, and of one
 * that it was called to in vain. A beginning that the journal may have already is none. */
static bool rejoins(struct owed *o, struct owed_bed *b, const struct journal_line *line) {
    const struct journal_entry *on = &line->entry;
    if (line->again && atomic_load(&line->state) != LINE_WRITTEN)
        return false;
    for (struct telling_item *i = b->items; on->kind == JOURNAL_ALARM_ON && *on->alarm && i; i = i->next)
        if (i->line->entry.kind == JOURNAL_ALARM_OFF && !strcmp(i->line->entry.alarm, on->alarm) &&
            !came_before(on, &i->line->entry)) {
            const bool in_vain = i->instead && !*on->person;
            settle_item(o, b, i, "not told: the alarm went on");
            return !on->sounds && !in_vain;
        }
    return false;
}

struct owed_bed *owed_add(struct owed *o, struct journal_line *line, bool instead, int64_t now_ms) {
    const struct journal_entry *e = &line->entry;
    struct telling_item *i = calloc(1, sizeof *i);
    struct owed_bed *b = i ? bed_of(o, e, now_ms) : NULL;
    const bool answered = line->answered && e->kind == JOURNAL_ESCALATED;
    if (!b || answered || rejoins(o, b, line)) {
        o->settled(o->ctx, e, !b ? "dropped: too much waits" : answered ? "answered" : "not told: the alarm went on");
        free(i);
        if (b)
            owed_forget_if_done(o, b, now_ms);
        return NULL;
    }
    if (b->n >= (journal_kind_is_technical(e->kind) || is_group(b) ? OWED_TECHNICAL : OWED_ITEMS))
        settle_item(o, b, b->items, "superseded: too much waits");
    if (!b->items)
        b->place.since_ms = now_ms;
    *i = (struct telling_item){.bed = b,
                               .line = journal_line_hold(line),
                               .instead = instead,
                               .answered = line->answered || (e->kind == JOURNAL_ALARM_ON && *e->person),
                               .stale = now_ms - line->made_ms >= o->stale_ms};
    LIST_ADD_LAST(b->items, i, next);
    if (class_of(e) < b->place.rank)
        set_rank(o, b, class_of(e)); /* it makes room for nobody from now on */
    b->n++;
    o->waiting++;
    if (enter_item(o, i))
        return b;
    settle_item(o, b, i, "dropped: too much waits");
    owed_forget_if_done(o, b, now_ms);
    return NULL;
}

/* ---- escalations that nobody needs to hear any more ---- */

bool owed_escalates(const struct owed *o, const struct journal_entry *e) {
    const bool over = e->kind != JOURNAL_ALARM_ON;
    const struct telling_item *i = newest_of(o, e);
    while (i && !i->instead && !(over && i->line->entry.kind == JOURNAL_ESCALATED))
        i = i->next_of_alarm;
    return i != NULL;
}

/* True for a delivery that calls somebody: a step of an escalation, or a message that replaces one. */
static bool calls(const struct telling_item *i) {
    const enum journal_kind kind = i->line->entry.kind;
    return kind == JOURNAL_ESCALATED || (kind == JOURNAL_ALARM_ON && i->instead);
}

void owed_settle_escalations(struct owed *o, const struct journal_entry *e, const char *outcome) {
    for (struct telling_item *i = newest_of(o, e), *before; i; i = before) {
        before = i->next_of_alarm;
        if (calls(i) && i->flying)
            i->outcome = outcome;
        else if (calls(i))
            settle_item(o, i->bed, i, outcome);
    }
}

void owed_answered(struct owed *o, const struct journal_entry *e) {
    for (struct telling_item *i = newest_of(o, e); i; i = i->next_of_alarm)
        i->answered = true;
    owed_settle_escalations(o, e, "answered");
}

/* ---- who is next ---- */

/* Drops what was told by an earlier line. Returns when the next entry of the bed may be told. */
static int64_t look_at_items(struct owed *o, struct owed_bed *b, int64_t now_ms) {
    int64_t next_ms = INT64_MAX;
    int rank = RANK_REPLAY;
    for (struct telling_item *i = b->items, *after; i; i = after) {
        const int class = class_of(&i->line->entry);
        int64_t when_ms;
        after = i->next;
        if (telling_wait(i->line, now_ms, o->rejoin_ms, &when_ms) == TELLING_NEVER) {
            take_item(o, b, i);
            item_free(o, i);
            continue;
        }
        if ((i->tried || class != RANK_ON) && when_ms < b->due_ms)
            when_ms = b->due_ms;
        next_ms = when_ms < next_ms ? when_ms : next_ms;
        rank = class < rank ? class : rank;
    }
    set_rank(o, b, rank);
    if (is_group(b) && b->begun_ms && next_ms < b->begun_ms + OWED_GROUP_MS)
        next_ms = b->begun_ms + OWED_GROUP_MS;
    return next_ms;
}

struct owed_bed *owed_next(struct owed *o, int64_t now_ms, int at_once, int64_t *ret_ms) {
    struct owed_bed *best = NULL;
    const char *key;
    void *value;
    *ret_ms = INT64_MAX;
    for (size_t at = 0; map_next(o->beds, &at, &key, &value);) {
        struct owed_bed *b = value;
        if (b->place.busy)
            continue;
        const int64_t when_ms = look_at_items(o, b, now_ms);
        if (!b->items)
            owed_forget_if_done(o, b, now_ms);
        else if (when_ms > now_ms)
            *ret_ms = when_ms < *ret_ms ? when_ms : *ret_ms;
        else if (fair_may_begin(&o->fair, &b->place, at_once) && fair_before(&b->place, best ? &best->place : NULL))
            best = b;
    }
    return best;
}

bool owed_begin(struct owed *o, struct owed_bed *b, int64_t now_ms, struct telling *t) {
    int64_t when_ms;
    for (struct telling_item *i = b->items; i; i = i->next)
        i->tried |= telling_wait(i->line, now_ms, o->rejoin_ms, &when_ms) == TELLING_NOW;
    if (!telling_take(&b->items, now_ms, o->rejoin_ms, t))
        return false;
    for (struct telling_item *i = t->items; i; i = i->next) {
        i->flying = true;
        b->n--;
        o->waiting--;
    }
    fair_begin(&o->fair, &b->place);
    b->flying = t->items;
    b->begun_ms = now_ms;
    b->newest = *t->entry;
    b->first_try_ms = b->first_try_ms ? b->first_try_ms : now_ms;
    return true;
}

void owed_put_off(struct owed_bed *b, int64_t now_ms, bool refused) {
    const int64_t next_ms = b->pause_ms ? 2 * b->pause_ms : FIRST_PAUSE_MS;
    b->pause_ms = refused || next_ms > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : next_ms;
    b->due_ms = now_ms + b->pause_ms;
}

void owed_settle(struct owed *o, struct telling *t, const char *outcome) {
    for (struct telling_item **link = &t->items, *i; (i = *link);) {
        const char *with = outcome ? outcome : i->outcome;
        if (!with) {
            link = &i->next;
            continue;
        }
        *link = i->next;
        o->settled(o->ctx, &i->line->entry, with);
        item_free(o, i);
    }
}

void owed_end(struct owed *o, struct owed_bed *b, struct telling *t, bool again) {
    b->flying = NULL;
    fair_end(&b->place);
    if (!again)
        return;
    owed_settle(o, t, NULL);
    for (struct telling_item *i = t->items; i; i = i->next) {
        i->flying = false;
        b->n++;
        o->waiting++;
    }
    telling_return(t, &b->items);
    b->begun_ms = 0; /* what failed is tried again by its pause */
    b->place.since_ms = b->items ? b->items->line->made_ms : b->place.since_ms;
}
