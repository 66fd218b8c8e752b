/* The alarm of a session: which alarm it is, why it went off, and its end when the session ends before it. */

#include "base/base.h"
#include "daemon/live/session_parts.h"

/* The beds whose alarms ended last; the oldest is replaced. A bed that is replaced begins a new alarm a little earlier than it
 * need. */
static struct bed_alarm *bed_of(struct sessions *all, const struct session *s) {
    struct bed_alarm *oldest = &all->bed_alarms[0];
    for (int i = 0; i < SESSIONS_BED_ALARMS; i++) {
        struct bed_alarm *b = &all->bed_alarms[i];
        if (*s->client && !strcmp(b->client, s->client) && !strcmp(b->principal, s->token.principal))
            return b;
        oldest = b->off_ms < oldest->off_ms ? b : oldest;
    }
    return oldest;
}

/* Whether another session of the bed, whose alarm this is, goes on beside this one. */
static bool is_of_another(const struct session *s, const struct bed_alarm *b) {
    for (const struct session *other = s->all->first; other; other = other->next_session)
        if (other != s && !session_is_closing(other) && str_starts(b->id, other->id))
            return true;
    return false;
}

/* Within alarms.rejoin the alarm before goes on: by the samples of this session, or by the clock after another session of the bed.
 */
static bool goes_on(struct session *s, int64_t first, char id[JOURNAL_ALARM]) {
    const int64_t rejoin_ms = s->all->config.rejoin_ms;
    const struct bed_alarm *b = bed_of(s->all, s);
    const int64_t passed = first - s->alarm_off;
    if (*s->alarm_id && s->alarm_off >= 0 && passed >= 0 && passed * 1000 < rejoin_ms * FRONTEND_RATE_HZ) {
        str_copy(id, JOURNAL_ALARM, s->alarm_id);
        return true;
    }
    if (!*s->client || strcmp(b->client, s->client) != 0 || strcmp(b->principal, s->token.principal) != 0 ||
        !strcmp(b->id, s->alarm_id) || clock_ms() - b->off_ms >= rejoin_ms || is_of_another(s, b))
        return false;
    str_copy(id, JOURNAL_ALARM, b->id);
    return true;
}

void session_alarm_name(struct session *s, struct live_report *r) {
    if (r->on && !goes_on(s, r->first, s->alarm_id))
        journal_alarm_id(s->id, r->first, s->alarm_id);
    s->alarm_off = r->on ? -1 : r->first;
    if (r->on) {
        s->alarm_first = r->first;
        s->alarm_ms = r->wall_ms;
        s->alarm_value = (double)r->probability;
    }
    str_copy(r->alarm_id, sizeof r->alarm_id, s->alarm_id);
    if (r->on || !live_open_is_live(live_stream_open(s->stream)))
        return;
    struct bed_alarm *b = bed_of(s->all, s);
    *b = (struct bed_alarm){.off_ms = clock_ms()};
    str_copy(b->client, sizeof b->client, s->client);
    str_copy(b->principal, sizeof b->principal, s->token.principal);
    str_copy(b->id, sizeof b->id, s->alarm_id);
}

void session_alarm_goes_on(struct session *s) {
    struct live_report r = {.message.kind = LIVE_ALARM,
                            .on = true,
                            .first = s->alarm_first,
                            .probability = (float)s->alarm_value,
                            .wall_ms = s->alarm_ms,
                            .replay = !live_open_is_live(live_stream_open(s->stream))};
    str_copy(r.alarm_id, sizeof r.alarm_id, s->alarm_id);
    if (s->alarm && *s->alarm_id && s->alarm_ms)
        session_note_report(s, &r);
}

/* Why monitoring stopped, from a reason of brrd_stream_sessions_closed_total. */
static enum journal_off off_of(const char *reason) {
    static const struct {
        const char *reason;
        enum journal_off off;
    } offs[] = {{"expired", JOURNAL_OFF_EXPIRED},
                {"idle", JOURNAL_OFF_EXPIRED},
                {"closed", JOURNAL_OFF_CLOSED},
                {"done", JOURNAL_OFF_CLOSED},
                {"client_gone", JOURNAL_OFF_CUT}};
    for (size_t i = 0; i < sizeof offs / sizeof *offs; i++)
        if (!strcmp(offs[i].reason, reason))
            return offs[i].off;
    return JOURNAL_OFF_FAILED;
}

void session_alarm_end(struct session *s, const char *reason) {
    const int64_t end = s->heard > s->samples ? s->heard : s->samples;
    if (s->running >= 0 && s->running < s->samples)
        session_note_cut(s, s->running, s->samples);
    s->running = -1;
    if (!s->alarm)
        return;
    struct live_report r = {
        .message.kind = LIVE_ALARM, .first = end, .off = off_of(reason), .probability = NAN, .wall_ms = clock_wall_ms()};
    r.replay = !live_open_is_live(live_stream_open(s->stream));
    session_alarm_name(s, &r);
    session_note_report(s, &r);
    s->alarm = false;
}

/* ---- alarms of an earlier process ---- */

static bool is_here(const struct sessions *all, const char *id) {
    for (const struct session *s = all->first; s; s = s->next_session)
        if (!strcmp(s->id, id))
            return true;
    return false;
}

void sessions_end_old_alarms(struct sessions *all) {
    struct journal_entry e;
    if (!all->config.journal || all->awaited || sessions_restoring(all))
        return;
    while (journal_take_open(all->config.journal, &e)) {
        if (is_here(all, e.session))
            continue;
        e.id = 0;
        e.kind = JOURNAL_ALARM_OFF;
        e.received_ms = clock_wall_ms();
        e.value = NAN;
        str_copy(e.detail, sizeof e.detail, journal_off_name(JOURNAL_OFF_FAILED));
        journal_add(all->config.journal, &e);
    }
}
