#include "daemon/hooks/telling.h"

#include "base/map.h"
#include "base/principal.h"
#include "base/trusted_time.h"
#include "daemon/alarms/alarm_entry.h"
#include "daemon/journal/outlet.h"

enum { MOST_OVER = 4096, MOMENT = 48 };

static bool is_on(const struct journal_entry *e) { return e->kind == JOURNAL_ALARM_ON; }
static bool is_off(const struct journal_entry *e) { return e->kind == JOURNAL_ALARM_OFF; }
static bool begins(const struct telling_item *i) { return is_on(&i->line->entry) && !i->stale; }
static bool is_alarm(const struct journal_entry *e) { return is_on(e) || is_off(e); }
static bool has_ended(const struct journal_entry *e) { return !strcmp(e->detail, journal_off_name(JOURNAL_OFF_ENDED)); }

enum telling_wait telling_wait(const struct journal_line *l, int64_t now_ms, int64_t rejoin_ms, int64_t *ret_ms) {
    const int state = atomic_load(&l->state);
    int64_t ready_ms = l->made_ms;
    *ret_ms = INT64_MAX;
    if (state == LINE_KNOWN)
        return TELLING_NEVER;
    if (state == LINE_WAITS && l->again)
        return TELLING_LATER;
    if (state == LINE_WAITS)
        ready_ms += OUTLET_WAIT_MS;
    if (is_off(&l->entry) && has_ended(&l->entry) && !l->again && l->made_ms + rejoin_ms > ready_ms)
        ready_ms = l->made_ms + rejoin_ms;
    if (journal_kind_is_technical(l->entry.kind))
        ready_ms = l->made_ms + TELLING_GROUP_MS;
    *ret_ms = ready_ms;
    return ready_ms <= now_ms ? TELLING_NOW : TELLING_LATER;
}

static bool ready(const struct telling_item *i, int64_t now_ms, int64_t rejoin_ms) {
    int64_t when;
    return telling_wait(i->line, now_ms, rejoin_ms, &when) == TELLING_NOW;
}

static bool same_alarm(const struct journal_entry *a, const struct journal_entry *b) {
    return *a->alarm || *b->alarm ? !strcmp(a->alarm, b->alarm) : !strcmp(a->session, b->session);
}

/* Whether an alarm that began is on, as far as may be told. */
static bool goes_on(const struct telling_item *on, int64_t now_ms, int64_t rejoin_ms) {
    bool over = false;
    for (const struct telling_item *i = on->next; i; i = i->next)
        if (is_alarm(&i->line->entry) && same_alarm(&i->line->entry, &on->line->entry) && ready(i, now_ms, rejoin_ms))
            over = is_off(&i->line->entry);
    return !over;
}

/* What is told next of a bed: the newest alarm that is on, else the newest of all alarms if one is the oldest, else the oldest
 * entry; NULL: nothing may be told yet. */
static const struct telling_item *choose(const struct telling_item *list, int64_t now_ms, int64_t rejoin_ms) {
    const struct telling_item *oldest = NULL, *newest = NULL, *on = NULL;
    for (const struct telling_item *i = list; i; i = i->next) {
        if (!ready(i, now_ms, rejoin_ms))
            continue;
        oldest = oldest ? oldest : i;
        newest = is_alarm(&i->line->entry) ? i : newest;
        on = begins(i) && goes_on(i, now_ms, rejoin_ms) ? i : on;
    }
    return on ? on : oldest && is_alarm(&oldest->line->entry) ? newest : oldest;
}

/* ---- groups: technical alarms of one kind, escalations of one step ---- */

/* On the disk, or long enough without it. */
static bool may_tell(const struct telling_item *i, int64_t now_ms) {
    return atomic_load(&i->line->state) == LINE_WRITTEN || now_ms - i->line->made_ms >= OUTLET_WAIT_MS;
}

/* The ends of technical alarms by their ids, as far as may be told. */
static struct map *over_of(const struct telling_item *list, int64_t now_ms) {
    struct map *ids = map_new(MOST_OVER);
    for (const struct telling_item *i = list; ids && i; i = i->next)
        if (i->line->entry.kind == JOURNAL_TECHNICAL_OFF && may_tell(i, now_ms))
            (void)map_put(ids, i->line->entry.alarm, (void *)(uintptr_t)&i->line->entry, NULL);
    return ids;
}

static bool group_on(const struct telling_item *i, const struct map *over) {
    const struct journal_entry *e = &i->line->entry;
    return e->kind == JOURNAL_ESCALATED || (e->kind == JOURNAL_TECHNICAL_ON && !(over && map_get(over, e->alarm)));
}

/* Whether the cause of this item's alarm, which has ended, is over. */
static bool cause_over(const struct telling_item *i, const struct map *over) {
    const struct journal_entry *off = over ? map_get(over, i->line->entry.alarm) : NULL;
    struct alarms_cause cause;
    return !off || !alarm_entry_cause(off, &cause) || alarms_is_over(cause.why);
}

/* Those that are on, if there are any, else those that are over, or else those whose causes are not; with the entries
 * with which they began. */
static void take_group(struct telling_item **list, int64_t now_ms, struct telling *t) {
    struct map *over = over_of(*list, now_ms);
    struct telling_item **end = &t->items;
    bool some_on = false, some_over = false;
    for (const struct telling_item *i = *list; i; i = i->next) {
        some_on |= may_tell(i, now_ms) && group_on(i, over);
        some_over |= may_tell(i, now_ms) && cause_over(i, over);
    }
    for (struct telling_item **link = list; *link;) {
        struct telling_item *i = *link;
        if (!may_tell(i, now_ms) || (some_on ? !group_on(i, over) : cause_over(i, over) != some_over)) {
            link = &i->next;
            continue;
        }
        *link = i->next;
        i->next = NULL;
        *end = i;
        end = &i->next;
        t->alarms += some_on || i->line->entry.kind == JOURNAL_TECHNICAL_OFF;
        t->entry = &i->line->entry;
        t->made_ms = some_on || i->line->made_ms < t->made_ms ? i->line->made_ms : t->made_ms;
    }
    t->is_on = some_on; /* people wait for these, whatever their age */
    map_free(over, NULL);
}

bool telling_take(struct telling_item **list, int64_t now_ms, int64_t rejoin_ms, struct telling *t) {
    const struct telling_item *last = choose(*list, now_ms, rejoin_ms);
    if (!last)
        return false;
    *t = (struct telling){.entry = &last->line->entry, .is_on = begins(last), .made_ms = INT64_MAX};
    if (journal_kind_is_technical(t->entry->kind) || t->entry->kind == JOURNAL_ESCALATED) {
        take_group(list, now_ms, t);
        return true;
    }
    struct telling_item **end = &t->items, *chosen = NULL;
    for (struct telling_item **link = list; *link;) {
        struct telling_item *i = *link;
        const struct journal_entry *e = &i->line->entry;
        if (i != last && !(is_alarm(t->entry) && is_alarm(e) && ready(i, now_ms, rejoin_ms))) {
            link = &i->next;
            continue;
        }
        *link = i->next;
        i->next = NULL;
        if (i == last) {
            chosen = i;
        } else {
            *end = i;
            end = &i->next;
        }
        t->alarms += is_on(e);
        t->on = is_on(e) && !t->on ? e : t->on;
        t->answered |= i->answered && (!t->is_on || same_alarm(e, t->entry));
        t->instead |= i->instead;
        t->made_ms = i->line->made_ms < t->made_ms ? i->line->made_ms : t->made_ms;
    }
    *end = chosen; /* after a failed attempt an older entry may follow it in the list */
    if (t->is_on)  /* people wait for this one */
        t->made_ms = last->line->made_ms;
    return true;
}

void telling_return(struct telling *t, struct telling_item **list) {
    struct telling_item **end = &t->items;
    while (*end)
        end = &(*end)->next;
    *end = *list;
    *list = t->items;
    t->items = NULL;
}

/* ---- words ---- */

static const char *time_text(int64_t unix_ms, const char *format, char buf[MOMENT]) {
    return local_time(unix_ms, format, buf, MOMENT);
}

/* "2026-11-29 10:01:22 CET" */
static const char *moment_text(int64_t unix_ms, char buf[MOMENT]) { return time_text(unix_ms, LOCAL_TIME, buf); }

/* "2026-11-29 10:01:22 - 10:03:40 CET", with the second date where it is another one; from 0: unknown. */
static const char *span_text(int64_t from_ms, int64_t to_ms, char buf[2 * MOMENT]) {
    char from[MOMENT], to[MOMENT], day[2][MOMENT];
    const bool same = !strcmp(time_text(from_ms, "%F", day[0]), time_text(to_ms, "%F", day[1]));
    str_format(buf, 2 * MOMENT, "%s%s%s", from_ms > 0 ? time_text(from_ms, "%F %T", from) : "until", from_ms > 0 ? " - " : " ",
               from_ms > 0 && same ? time_text(to_ms, "%T %Z", to) : moment_text(to_ms, to));
    return buf;
}

/* When the alarm of this entry began; 0: unknown. */
static int64_t onset_of(const struct journal_entry *e) { return e->on_ms || !is_on(e) ? e->on_ms : e->received_ms; }

/* "bed-7"; "bed-7 (icu)" where its caller has another name. */
static void name_bed(const struct journal_entry *e, char *ret, size_t size) {
    const char *by = principal_beside(e->principal, e->client);
    str_format(ret, size, "%s%s%.200s%s", *e->client ? e->client : "a stream without a name", *by ? " (" : "", by, *by ? ")" : "");
}

static void off_text(const struct telling *t, const char *bed, char ret[TELLING_TEXT]) {
    const struct journal_entry *e = t->entry;
    const bool untold = t->on || t->instead;
    const char *answered = t->answered ? "acknowledged" : "not answered";
    char span[2 * MOMENT], from[MOMENT], to[MOMENT];
    const int64_t began = onset_of(t->on ? t->on : e);
    span_text(began, e->received_ms, span);
    moment_text(e->received_ms, to);
    if (!untold && !has_ended(e) && began > 0) {
        str_format(ret, TELLING_TEXT, "%s: monitoring stopped at %s while the alarm was on, since about %s (%s)", bed, to,
                   moment_text(began, from), journal_off_words(e->detail));
        return;
    }
    if (t->on && t->alarms > 1)
        str_format(ret, TELLING_TEXT, "%s: %d alarms were on %s, %s", bed, t->alarms, span, answered);
    else if (untold)
        str_format(ret, TELLING_TEXT, "%s: the alarm was on %s, %s", bed, span, answered);
    else if (has_ended(e))
        str_format(ret, TELLING_TEXT, "%s: the alarm is over, on %s", bed, span);
    if (!has_ended(e)) {
        const size_t n = untold ? strlen(ret) : 0;
        str_format(ret + n, TELLING_TEXT - n, "%s%smonitoring stopped at %s while the alarm was on (%s)", untold ? "; " : bed,
                   untold ? "" : ": ", to, journal_off_words(e->detail));
    }
}

/* "bed-1, bed-2 and 10 more" of a group; at most half of a text. */
static void name_beds(const struct telling *t, char ret[TELLING_TEXT / 2]) {
    int named = 0;
    ret[0] = '\0';
    for (const struct telling_item *i = t->items; i; i = i->next) {
        const struct journal_entry *e = &i->line->entry;
        const size_t len = strlen(ret);
        if (e->kind != t->entry->kind || !*e->client || len + strlen(e->client) + 20 >= TELLING_TEXT / 2)
            continue;
        str_format(ret + len, TELLING_TEXT / 2 - len, "%s%s", named++ ? ", " : "", e->client);
    }
    if (named && named < t->alarms)
        str_format(ret + strlen(ret), TELLING_TEXT / 2 - strlen(ret), " and %d more", t->alarms - named);
}

static void technical_text(const struct telling *t, char ret[TELLING_TEXT]) {
    char beds[TELLING_TEXT / 2];
    struct alarms_cause cause;
    const char *words = alarm_entry_cause(t->entry, &cause) ? alarm_kind_words(cause.kind) : "technical alarm";
    const bool is_off = t->entry->kind == JOURNAL_TECHNICAL_OFF, gone = is_off && !alarms_is_over(cause.why);
    const char *over = !is_off ? "" : gone ? "not over" : alarm_kind_over(cause.kind);
    const bool one_over = is_off && !gone && t->alarms == 1 && t->entry->on_ms;
    const int64_t length_s = (t->entry->received_ms - t->entry->on_ms) / 1000;
    const char *why = is_off && !gone ? "" : cause.kind == ALARM_UNANSWERED ? "" : cause.why; /* which is an id */
    char span[2 * MOMENT];
    name_beds(t, beds);
    if (t->alarms > 1)
        str_format(ret, TELLING_TEXT, "%d beds: %s%s%s%s%s%s", t->alarms, words, *over ? ", " : "", over, *beds ? " (" : "", beds,
                   *beds ? ")" : "");
    else
        str_format(ret, TELLING_TEXT, "%s%s%s%s%s%s%.200s", beds, *beds ? ": " : "", words, *over ? ", " : "", over,
                   *why ? ", " : "", why);
    const size_t n = strlen(ret);
    if (one_over)
        str_format(ret + n, TELLING_TEXT - n, " after %lld %s, %s", (long long)(length_s < 120 ? length_s : length_s / 60),
                   length_s < 120 ? "s" : "min", span_text(t->entry->on_ms, t->entry->received_ms, span));
    else if (t->entry->on_ms)
        str_format(ret + n, TELLING_TEXT - n, ", since %s", moment_text(t->entry->on_ms, span));
}

/* That it is on again, and who answered before. */
static void put_again(const struct telling *t, char text[TELLING_TEXT]) {
    const size_t len = strlen(text);
    if (t->alarms < 2 && (str_starts(t->entry->detail, "on again") || str_starts(t->entry->detail, "on for ")))
        str_format(text + len, TELLING_TEXT - len, ", %s", t->entry->detail);
}

/* Which channels carry it; a message that comes later than the onset says that they carried it then. */
static void put_where(const struct telling *t, char text[TELLING_TEXT]) {
    const size_t len = strlen(text);
    const struct journal_entry *e = t->entry;
    const bool later = e->kind == JOURNAL_ESCALATED || str_starts(e->detail, ALARM_ENTRY_TOLD);
    if (t->alarms < 2 && *e->where)
        str_format(text + len, TELLING_TEXT - len, ", %s%s", later ? "at the onset: " : "", e->where);
}

static void escalation_text(const struct telling *t, const char *bed, char ret[TELLING_TEXT]) {
    const struct journal_entry *e = t->entry;
    char beds[TELLING_TEXT / 2], since[MOMENT], span[2 * MOMENT];
    int64_t on_ms = onset_of(e);
    for (const struct telling_item *i = t->items; i; i = i->next)
        if (i->line->entry.on_ms && (!on_ms || i->line->entry.on_ms < on_ms))
            on_ms = i->line->entry.on_ms;
    str_copy(since, sizeof since, "an unknown time");
    if (on_ms)
        moment_text(on_ms, since);
    name_beds(t, beds);
    if (t->alarms > 1)
        str_format(ret, TELLING_TEXT, "ALARM: nobody has answered %d alarms, call %d: %s, the oldest since %s", t->alarms,
                   (int)e->step, beds, since);
    else if (e->until_ms)
        str_format(ret, TELLING_TEXT, "%s: the alarm was on %s, not answered, call %d", bed, span_text(on_ms, e->until_ms, span),
                   (int)e->step);
    else
        str_format(ret, TELLING_TEXT, "ALARM %s: nobody has answered it, call %d, since %s", bed, (int)e->step, since);
    put_where(t, ret);
    put_again(t, ret);
}

void telling_text(const struct telling *t, char ret[TELLING_TEXT]) {
    const struct journal_entry *e = t->entry;
    char bed[JOURNAL_CLIENT + 220], since[MOMENT], out[TELLING_TEXT];
    const bool test = alarm_entry_is_test(e);
    const char *said = t->answered ? ", acknowledged" : t->instead ? ", not answered" : "";
    name_bed(e, bed, sizeof bed);
    moment_text(onset_of(e), since);
    out[0] = '\0';
    if (e->kind == JOURNAL_HEARTBEAT)
        str_copy(out, TELLING_TEXT, e->detail);
    else if (journal_kind_is_technical(e->kind))
        technical_text(t, out);
    else if (is_on(e) && !t->is_on)
        str_format(out, TELLING_TEXT, "%s: an alarm began at %s; the daemon stopped, and when it ended is unknown", bed, since);
    else if (is_on(e) && test)
        str_format(out, TELLING_TEXT, "ALARM %s: %s, since %s", bed, e->detail, since);
    else if (is_on(e)) {
        str_format(out, TELLING_TEXT, "ALARM%s %s: seizure probability %.2f since %s%s", e->live ? "" : " of a replay", bed,
                   e->value, since, said);
        put_where(t, out);
        put_again(t, out);
    } else if (is_off(e))
        off_text(t, bed, out);
    else if (e->kind == JOURNAL_ESCALATED)
        escalation_text(t, bed, out);
    else
        str_format(out, TELLING_TEXT, "%s: %s%s%.200s", bed, journal_kind_name(e->kind), *e->detail ? ", " : "", e->detail);
    str_format(ret, TELLING_TEXT, "%s%s", test ? "TEST " : "", out);
}
