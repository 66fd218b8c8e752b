/* What a session writes into the journal (journal/journal.h), and alarms that wait for it: an alarm goes to the connection when it
 * is on the disk, or after HOLD_MS, or at once while the journal cannot be written. What follows it waits behind it, so that the
 * order stays. Numbers of entries depend on the samples alone, so a stream that goes on from a snapshot writes none twice. */

#include "base/log.h"
#include "base/trusted_time.h"
#include "daemon/live/onsets.h"
#include "daemon/live/session_parts.h"
#include "detect/focus.h"

enum { HOLD_MS = 500, HOLD_BYTES = 1 << 20, GAP_HOUR_S = 3600 };

/* What each entry says of its session. */
static void put_session(const struct session *s, struct journal_entry *e) {
    if (!e->received_ms) {
        e->received_ms = clock_wall_ms();
        e->boot_ms = trusted_boot_ms();
    }
    if (s->start_ms && !isnan(e->start_s))
        e->sample_ms = s->start_ms + llround(e->start_s * 1000);
    str_copy(e->session, sizeof e->session, s->id);
    str_copy(e->principal, sizeof e->principal, s->token.principal);
    COPY_TEXTS(*e, *s, client, address, model, sha256);
    e->live = live_open_is_live(live_stream_open(s->stream));
}

/* A stream that was refused has no entry: a client that tries for ever would fill the journal. */
static bool has_begun(const struct session *s) { return s->opened || s->saves.durable >= 0; }

static int64_t note(struct session *s, struct journal_entry *e) {
    struct journal *journal = s->all->config.journal;
    if (e->kind >= JOURNAL_QUALITY)
        log_info("stream", "what=%s session=%s client=\"%s\" principal=\"%s\" peer=%s model=%s detail=\"%s\"",
                 journal_kind_name(e->kind), s->id, log_name(s->client), s->token.principal, *s->address ? s->address : "unknown",
                 s->model, e->detail);
    if (!journal || !has_begun(s))
        return 0;
    put_session(s, e);
    return s->stage == SESSION_RESTORING ? journal_add_again(journal, e) : journal_add(journal, e);
}

static struct journal_entry entry_of(enum journal_kind kind, int64_t number) {
    return (struct journal_entry){.kind = kind, .number = number, .start_s = NAN, .end_s = NAN, .value = NAN};
}

static double seconds_of(int64_t samples) { return (double)samples / FRONTEND_RATE_HZ; }

void session_note(struct session *s, enum journal_kind kind, const char *detail) {
    struct journal_entry e = entry_of(kind, kind == JOURNAL_OPENED || kind == JOURNAL_ENDED ? 0 : -1);
    str_copy(e.detail, sizeof e.detail, detail);
    note(s, &e);
}

/* The part of the gap that is not in the journal. */
static void write_gap(struct session *s) {
    struct session_gap *g = &s->notes.gap;
    struct journal_entry e = entry_of(JOURNAL_GAP, g->written);
    if (g->end <= g->written)
        return;
    e.start_s = (double)g->written / s->rate_hz;
    e.end_s = (double)g->end / s->rate_hz;
    str_copy(e.detail, sizeof e.detail, g->client ? "client" : "hole");
    g->written = g->end;
    note(s, &e);
}

void session_end_gap(struct session *s) {
    if (s->notes.gap.open)
        write_gap(s);
    s->notes.gap.open = false;
}

/* A silent sender announces a gap several times a second: the part that is new is written at once, when the gap has doubled, each
 * hour, and when it ends. */
void session_note_gap(struct session *s, int64_t end, const char *cause) {
    struct session_gap *g = &s->notes.gap;
    const bool client = !strcmp(cause, "client");
    if (g->open && (g->client != client || g->end != s->next))
        session_end_gap(s);
    if (!g->open)
        *g = (struct session_gap){.open = true, .client = client, .first = s->next, .written = s->next};
    g->end = end;
    if (end - g->written >= g->written - g->first || (double)(end - g->written) >= GAP_HOUR_S * s->rate_hz)
        write_gap(s);
}

void session_note_cut(struct session *s, int64_t first, int64_t end) {
    struct journal_entry e = entry_of(JOURNAL_EVENT, first);
    e.start_s = seconds_of(first);
    e.end_s = seconds_of(end);
    str_copy(e.detail, sizeof e.detail, "cut");
    note(s, &e);
}

/* "Fp1 flat, O2 clipped noisy", behind the note of the whole; "good" when no channel has a flaw. */
static void name_flaws(const struct session *s, const struct quality_report *q, char ret[JOURNAL_DETAIL]) {
    const struct live_open *open = live_stream_open(s->stream);
    struct str text = str_of(1 << 16);
    str_puts(&text, quality_note(q, s->info ? s->info->n_sources : open->n_labels));
    for (int i = 0; i < q->n; i++) {
        int c = q->channels[i].channel;
        str_printf(&text, "%s%s", text.len ? ", " : "", c < open->n_labels ? open->labels[c] : "?");
        quality_put_flaws(&text, q->channels[i].flaws);
    }
    str_copy(ret, JOURNAL_DETAIL, text.len ? str_cstr(&text) : "good");
    str_done(&text);
}

static void note_quality(struct session *s, const struct live_report *r) {
    struct journal_entry e = entry_of(JOURNAL_QUALITY, r->seq);
    if (!r->samples || r->gap)
        return;
    name_flaws(s, &r->quality, e.detail);
    if (!strcmp(e.detail, *s->notes.flaws ? s->notes.flaws : "good"))
        return;
    str_copy(s->notes.flaws, sizeof s->notes.flaws, e.detail);
    e.start_s = seconds_of(r->first);
    e.end_s = seconds_of(r->first + r->samples);
    note(s, &e);
}

void session_where(const struct session *s, uint32_t bits, char ret[JOURNAL_WHERE]) {
    _Static_assert((int)JOURNAL_WHERE >= (int)SIDE_TEXT, "the text fits");
    char list[SIDE_LIST] = "";
    if (s->info)
        focus_list(s->info->info.file.montage, bits, list);
    side_text(list, ret);
}

static void note_events(struct session *s, const struct live_report *r) {
    for (int i = 0; i < r->n_events; i++) {
        struct journal_entry e = entry_of(JOURNAL_EVENT, r->events[i].first);
        e.start_s = seconds_of(r->events[i].first);
        e.end_s = seconds_of(r->events[i].end);
        e.value = (double)r->events[i].confidence;
        session_where(s, r->events[i].where, e.where);
        note(s, &e);
    }
}

void session_alarm_entry(const struct session *s, const struct live_report *r, struct journal_entry *ret) {
    *ret = entry_of(r->on ? JOURNAL_ALARM_ON : JOURNAL_ALARM_OFF, r->first);
    str_copy(ret->alarm, sizeof ret->alarm, r->alarm_id);
    str_copy(ret->detail, sizeof ret->detail, r->on ? "" : journal_off_name(r->off));
    ret->received_ms = r->wall_ms;
    ret->boot_ms = r->boot_ms;
    ret->start_s = seconds_of(r->first);
    ret->value = (double)r->probability;
    if (r->on && r->first == s->notes.onset.first)
        str_copy(ret->where, sizeof ret->where, s->notes.onset.where);
    put_session(s, ret);
}

/* The end of an alarm that another stream of the bed has is no end. */
static void note_alarm(struct session *s, const struct live_report *r) {
    const struct session_register *alarms = &s->all->config.alarms;
    struct journal_entry e;
    if (!r->on && alarms->is_of_another && alarms->is_of_another(alarms->ctx, r->alarm_id, s->id))
        return;
    session_alarm_entry(s, r, &e);
    if (r->on && s->notes.onset.answered_by && !strcmp(r->alarm_id, s->notes.alarm_id))
        str_copy(e.person, sizeof e.person, s->notes.onset.answered_by);
    if (r->on && e.live)
        onsets_add(s->all->config.onsets, &e, s->back.eeg);
    int64_t number = note(s, &e);
    s->notes.noted = number ? number : s->notes.noted;
}

void session_note_report(struct session *s, const struct live_report *r) {
    if (r->message.kind == LIVE_ALARM) {
        note_alarm(s, r);
        return;
    }
    note_events(s, r);
    note_quality(s, r);
}

void session_note_kept(struct session *s) {
    for (const struct live_report *r = s->back.kept.first; r; r = ring_next(r))
        if (r->message.kind == LIVE_ALARM)
            note_alarm(s, r);
        else
            note_events(s, r);
}

/* ---- alarms that wait for the disk ---- */

/* True if an alarm of the session is not on the disk yet and may still come there soon. */
static bool awaits_disk(const struct session *s) {
    const struct journal *journal = s->all->config.journal;
    return journal && !journal_has(journal, s->notes.noted) && !journal_is_failing(journal);
}

static void deliver(struct session *s, const struct live_report *r) {
    if (r->message.kind == LIVE_ALARM)
        s->sink->alarm(s->owner, r);
    else
        s->sink->result(s->owner, r);
}

void session_deliver(struct session *s, const struct live_report *r) {
    bool waits = s->notes.held.first || (r->message.kind == LIVE_ALARM && awaits_disk(s));
    if (!waits || map_put(s->all->holding, s->id, s, NULL) || !ring_add(&s->notes.held, r)) {
        session_release_held(s);
        deliver(s, r);
        return;
    }
    s->held_ms = s->held_ms ? s->held_ms : clock_ms();
}

static void hold_nothing(struct session *s) {
    map_remove(s->all->holding, s->id);
    s->held_ms = 0;
}

void session_release_held(struct session *s) {
    struct ring held = s->notes.held;
    struct live_report *summary = s->notes.held_summary;
    s->notes.held = (struct ring){0};
    s->notes.held_summary = NULL;
    hold_nothing(s);
    for (const struct live_report *r = held.first; r && s->sink; r = ring_next(r))
        deliver(s, r);
    ring_clear(&held);
    if (summary && s->sink)
        s->sink->summary(s->owner, summary);
    live_report_free(summary);
}

void session_drop_held(struct session *s) {
    ring_clear(&s->notes.held);
    live_report_free(s->notes.held_summary);
    s->notes.held_summary = NULL;
    hold_nothing(s);
}

void session_look_at_held(struct session *s) {
    if (s->held_ms && (!awaits_disk(s) || clock_ms() - s->held_ms >= HOLD_MS || s->notes.held.bytes > HOLD_BYTES))
        session_release_held(s);
}

void sessions_journaled(struct sessions *all) {
    const char *id;
    void *s;
    for (size_t at = 0; map_next(all->holding, &at, &id, &s);)
        session_look_at_held(s);
}
