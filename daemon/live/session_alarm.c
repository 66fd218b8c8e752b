/* The alarm of a session: which alarm it is, why it went off, and its end when the session ends before it. */

#include "base/principal.h"
#include "base/trusted_time.h"
#include "daemon/live/onsets.h"
#include "daemon/live/session_parts.h"

enum { ALARM_BYTES = 64 << 10 };
enum { HEARD_MS = 5000 /* a stream sends while its newest samples came within this time */, PASSED_S = 10 };

static bool sends(const struct session *s, int64_t now_ms) {
    return !session_is_closing(s) && !s->ended && s->sink && now_ms - s->flow.newest_ms < HEARD_MS;
}

static bool holds(const struct session *s) {
    const struct session_register *alarms = &s->all->config.alarms;
    return alarms->holds && alarms->holds(alarms->ctx, s->token.principal, s->client);
}

bool session_is_same_bed(const struct session *a, const struct session *b) {
    return !strcmp(a->client, b->client) && (principal_is_same(a->token.principal, b->token.principal) || (holds(a) && holds(b)));
}

/* Whether no other stream of the bed sends. */
static bool is_alone(const struct session *s) {
    const bool live = live_open_is_live(live_stream_open(s->stream));
    const int64_t now_ms = clock_ms();
    char name[SESSION_BED];
    for (const struct session *other = map_tally_of(s->all->tallies, session_bed(s, name)) > 1 ? s->all->first : NULL; other;
         other = other->next_session)
        if (other != s && live_open_is_live(live_stream_open(other->stream)) == live && sends(other, now_ms) &&
            session_is_same_bed(s, other))
            return false;
    return true;
}

void session_alarm_name(struct session *s, struct live_report *r) {
    const struct session_register *alarms = &s->all->config.alarms;
    if (r->on) {
        struct journal_entry e;
        session_where(s, r->where, s->notes.onset.where);
        session_alarm_entry(s, r, &e);
        e.end_s = (double)s->notes.alarm_off / FRONTEND_RATE_HZ;
        if (s->notes.alarm_off < 0)
            s->notes.alarm_id[0] = '\0';
        if (alarms->name)
            alarms->name(alarms->ctx, &e, is_alone(s), s->notes.alarm_id);
        else
            journal_alarm_id(s->id, r->first, s->notes.alarm_id);
        COPY_MEMBERS(s->notes.onset, *r, first, wall_ms, boot_ms);
        s->notes.onset.value = (double)r->probability;
    }
    if (r->first >= s->notes.alarm_known) /* else it is one of before that onset, which comes again */
        s->notes.alarm_known = -1;
    s->notes.alarm_off = r->on ? -1 : r->first;
    s->notes.over = s->notes.over > s->notes.alarm_off ? s->notes.over : s->notes.alarm_off;
    str_copy(r->alarm_id, sizeof r->alarm_id, s->notes.alarm_id);
}

/* Why monitoring stopped, from a reason of brrd_stream_sessions_closed_total. */
static enum journal_off off_of(const char *reason) {
    static const char *const reasons[] = {"expired", "idle", "closed", "done", "client_gone"};
    static const enum journal_off offs[] = {JOURNAL_OFF_EXPIRED, JOURNAL_OFF_EXPIRED, JOURNAL_OFF_CLOSED, JOURNAL_OFF_CLOSED,
                                            JOURNAL_OFF_CUT};
    const int i = STR_AMONG(reason, reasons);
    return i < 0 ? JOURNAL_OFF_FAILED : offs[i];
}

/* The alarm of the register that is on in this session goes off. */
static void turn_off(struct session *s, int64_t at, enum journal_off off) {
    const struct session_register *alarms = &s->all->config.alarms;
    const int64_t since = alarms->on_in ? alarms->on_in(alarms->ctx, s->id, s->notes.alarm_id) : s->notes.onset.first;
    struct live_report r = {.message.kind = LIVE_ALARM,
                            .first = at > since ? at : since,
                            .off = off,
                            .probability = NAN,
                            .wall_ms = clock_wall_ms(),
                            .boot_ms = trusted_boot_ms()};
    r.replay = !live_open_is_live(live_stream_open(s->stream));
    s->alarm = alarms->on_in ? since >= 0 : s->alarm; /* what a snapshot says may be older */
    if (!s->alarm)
        return;
    session_alarm_name(s, &r);
    session_note_report(s, &r);
    s->alarm = false;
}

/* Where a stream has left the alarm that its register, or another daemon, has on since a sample: at its end, or where a later one
 * began. -1: nowhere yet. */
static int64_t over_at(const struct session *s, const char *id, int64_t since) {
    const bool same = !strcmp(id, s->notes.alarm_id);
    const int64_t over = same ? s->notes.alarm_off : s->notes.over;
    return over < since ? -1 : !same && s->notes.onset.first > since ? s->notes.onset.first : over;
}

/* The newest onset of the session, as it was reported. */
static struct live_report onset_of(const struct session *s) {
    struct live_report r = {.message.kind = LIVE_ALARM,
                            .on = true,
                            .first = s->notes.onset.first,
                            .probability = (float)s->notes.onset.value,
                            SAME_MEMBERS(s->notes.onset, wall_ms, boot_ms),
                            .replay = !live_open_is_live(live_stream_open(s->stream))};
    str_copy(r.alarm_id, sizeof r.alarm_id, s->notes.alarm_id);
    return r;
}

void session_alarm_keep_eeg(struct session *s) {
    const struct live_report r = onset_of(s);
    struct journal_entry e;
    session_alarm_entry(s, &r, &e);
    if (e.live && *e.alarm && r.wall_ms && s->notes.heard < r.first + EEGRING_EDF_S * FRONTEND_RATE_HZ)
        onsets_add(s->all->config.onsets, &e, s->back.eeg);
}

/* Since when the alarm of the register is on, where the stream has not come to that onset; -1: none is, or it has. */
static int64_t known_to(const struct session *s, char ret_id[JOURNAL_ALARM]) {
    const struct session_register *alarms = &s->all->config.alarms;
    const int64_t since = alarms->on_in ? alarms->on_in(alarms->ctx, s->id, ret_id) : -1;
    return s->alarm && since <= s->notes.onset.first ? -1 : since;
}

void session_alarm_goes_on(struct session *s) {
    struct live_report r = onset_of(s);
    if (s->alarm && *s->notes.alarm_id && s->notes.onset.wall_ms)
        session_note_report(s, &r);
    char id[JOURNAL_ALARM];
    s->notes.alarm_known = known_to(s, id);
    const int64_t over = s->notes.alarm_known < 0 ? -1 : over_at(s, id, s->notes.alarm_known), off = s->notes.alarm_off;
    if (over < 0)
        return;
    if (strcmp(id, s->notes.alarm_id) != 0 &&
        s->notes.onset.first > s->notes.alarm_known) { /* its end was told where a later one began */
        s->notes.alarm_known = -1;
        session_note(s, JOURNAL_MOVED, "");
        return;
    }
    str_copy(id, sizeof id, s->notes.alarm_id);
    turn_off(s, over, JOURNAL_OFF_CUT); /* it went off at another daemon, perhaps under another id; why, only that one knows */
    str_copy(s->notes.alarm_id, sizeof s->notes.alarm_id, id);
    s->notes.alarm_off = off;
}

void session_alarm_end(struct session *s, const char *reason) {
    if (s->notes.running >= 0 && s->notes.running < s->shown.samples)
        session_note_cut(s, s->notes.running, s->shown.samples);
    s->notes.running = -1;
    turn_off(s, s->notes.heard > s->shown.samples ? s->notes.heard : s->shown.samples, off_of(reason));
}

/* ---- alarms of an earlier process ---- */

/* Another stream of the bed took the alarm over while this one sent nothing: its own is on from now on. */
static void begin_own(struct session *s) {
    const struct session_register *alarms = &s->all->config.alarms;
    struct live_report r = {.message.kind = LIVE_ALARM,
                            .on = true,
                            .first = s->notes.heard,
                            .probability = (float)s->notes.onset.value,
                            .wall_ms = clock_wall_ms(),
                            .boot_ms = trusted_boot_ms(),
                            .replay = !live_open_is_live(live_stream_open(s->stream))};
    if (!s->alarm || !alarms->is_of_another || !alarms->is_of_another(alarms->ctx, s->notes.alarm_id, s->id) ||
        !sends(s, clock_ms()))
        return;
    session_alarm_name(s, &r);
    session_note_report(s, &r);
}

void session_alarm_look(struct session *s) {
    begin_own(s);
    if (s->notes.alarm_known < 0 || s->alarm || s->notes.heard <= s->notes.alarm_known + PASSED_S * FRONTEND_RATE_HZ)
        return;
    s->notes.alarm_known = -1;
    turn_off(s, s->notes.heard, JOURNAL_OFF_CUT); /* samples in which it might have ended were lost */
}

/* The daemon that has the stream gets its alarm: the snapshot that it took may be older. */
static int hand(const struct sessions *all, const char *id) {
    const struct session_register *alarms = &all->config.alarms;
    const struct session_store *store = &all->config.store;
    struct journal_entry list[SESSION_GIVEN];
    OWNED(str_done) struct str data = {0};
    const int n = alarms->give ? alarms->give(alarms->ctx, id, list) : 0;
    if (!n || !store->hand)
        return SESSION_ELSEWHERE;
    str_init(&data, ALARM_BYTES);
    journal_entries_pack(list, n, &data);
    return str_ok(&data) ? (int)store->hand(store->ctx, id, data.data, data.len) : SESSION_PLACE_ASKED;
}

static int where_is(void *ctx, const char *id) {
    const struct sessions *all = ctx;
    const struct session_store *store = &all->config.store;
    struct session *s = session_of_id(all, id);
    if (s && s->ended)
        return SESSION_GONE;
    if (s && !session_is_closing(s)) {
        char known[JOURNAL_ALARM];
        s->notes.alarm_known = known_to(s, known); /* the journal may have brought it since the stream is here */
        return SESSION_HERE;
    }
    const int place = store->elsewhere ? store->elsewhere(store->ctx, id) : SESSION_GONE;
    if (place == SESSION_ELSEWHERE)
        return hand(all, id);
    return !s ? place : place == SESSION_GONE ? SESSION_HERE : SESSION_PLACE_ASKED;
}

bool session_alarm_moves(struct session *s) {
    const struct session_register *alarms = &s->all->config.alarms;
    char id[JOURNAL_ALARM];
    const bool moves = alarms->give && s->all->config.store.hand && alarms->on_in(alarms->ctx, s->id, id) >= 0;
    s->all->settled &= !moves;
    return moves;
}

/* Another alarm is on in the stream, which has not come to the onset of this one: the other one may end before, and its answer
 * would be this one's. */
static bool comes_later(const struct session *s, const char *alarm, int64_t since) {
    const struct session_register *alarms = &s->all->config.alarms;
    char id[JOURNAL_ALARM];
    return !session_is_closing(s) && !s->ended && since > s->notes.heard && alarms->on_in(alarms->ctx, s->id, id) >= 0 &&
           strcmp(id, alarm) != 0;
}

bool sessions_receive_alarm(struct sessions *all, const void *data, size_t len) {
    const struct session_register *alarms = &all->config.alarms;
    struct journal_entry list[SESSION_GIVEN];
    char id[JOURNAL_ALARM];
    const int n = journal_entries_unpack(data, len, list, SESSION_GIVEN);
    if (n <= 0 || !alarms->receive)
        return true;
    struct session *s = session_of_id(all, list[0].session);
    const int64_t since = llround(list[0].start_s * FRONTEND_RATE_HZ);
    if (s && over_at(s, list[0].alarm, since) >= 0) /* the stream comes from where that was */
        return true;
    if ((s ? comes_later(s, list[0].alarm, since) : all->awaited) || !alarms->receive(alarms->ctx, list, n))
        return false;
    if (!s) { /* nobody has the stream any more */
        all->settled = false;
    } else if (session_is_closing(s) || s->ended) {
        turn_off(s, s->notes.heard, JOURNAL_OFF_CUT);
    } else {
        s->notes.alarm_known = known_to(s, id);
        session_alarm_look(s);
    }
    return true;
}

void sessions_settle_alarms(struct sessions *all) {
    const struct session_register *alarms = &all->config.alarms;
    if (!all->settled && !all->awaited && !all->frozen_ms /* reads no more */ && !sessions_restoring(all))
        all->settled = !alarms->settle || alarms->settle(alarms->ctx, where_is, all);
}
