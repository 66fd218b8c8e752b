/* Snapshots of sessions (live/session.h): when they are made, what they hold, and how a session goes on from one. A snapshot is
 * what the worker saves of a stream, and what the loop knew of the session when that was reported. */

#include "base/log.h"
#include "base/pack.h"
#include "base/trusted_time.h"
#include "daemon/live/session_parts.h"
#include "daemon/live/snapshot.h"

/* VERSION: of a snapshot's layout, its first number. FIRST to VERSION are read, for streams that are open during an upgrade;
 * those before PATIENTS have no patient, those before BOOTS no CLOCK_BOOTTIME, those before LEARNING not how long a patient was
 * learned, those before CHANNELS not which channels carry an event or an alarm, those before TECHNICAL no technical alarms,
 * those before STANDBYS no standby, nor the channels of an onset, nor the end of an alarm, before the newest one, those before
 * FOLLOWED not whether another stream of the bed was opened since. */
enum {
    FIRST = 9,
    PATIENTS = 10,
    BOOTS = 11,
    LEARNING = 12,
    CHANNELS = 13,
    TECHNICAL = 14,
    STANDBYS = 15,
    FOLLOWED = 16,
    VERSION = FOLLOWED,
    STATE_MAX = 192 << 20,
    PERIOD_MS = 2000,
    BYTES_A_SECOND = 8 << 20,
    FAR_BYTES = 8 << 20
};
enum { OWN_BYTES = 8 << 10 }; /* of a snapshot, beside the state of its stream */

/* How a snapshot is written or read; and entries of the journal, as far as they say what people did, which technical
 * alarms are on, and which channels carry an alarm. */
struct form {
    int64_t version;
    enum ring_boot boot;
    struct journal_entry described[SESSION_DESCRIBED];
    int n_described;
};

/* Strings that session_request borrows while a session is made from a snapshot. */
struct opening {
    struct session_request request;
    struct live_open open;
    char id[SESSION_ID_SIZE], digest[DIGEST_HEX_SIZE], principal[RESUME_PRINCIPAL_SIZE], client[SESSION_NAME_SIZE];
    char sha256[DIGEST_HEX_SIZE], checkpoint[LIVE_PATH], model[LIVE_NAME], texts[FRONTEND_MAX_LABELS][SESSION_LABEL_SIZE];
    char patient[PATIENT_NAME_SIZE];
    const char *labels[FRONTEND_MAX_LABELS];
    int64_t epoch;
    bool ended;
    struct form form;
};

/* ---- as bytes ---- */

static void pack_open(const struct live_open *open, struct str *out) {
    PACK(out, *open, checkpoint, model, n_labels);
    for (int i = 0; i < open->n_labels; i++)
        pack_text(out, open->labels[i]);
    PACK(out, *open, rate_hz, format, scale_uv, alarm_hop_s, realtime, want_probabilities, on, off, alarm_rate, device_name, replay,
         partial);
}

static const enum journal_kind kinds[] = {JOURNAL_ESCALATED, JOURNAL_ANSWERED, JOURNAL_TECHNICAL_ON, JOURNAL_STANDBY,
                                          JOURNAL_ALARM_ON};

static void describe(const struct session *s, struct form *form) {
    const struct session_register *alarms = &s->all->config.alarms;
    struct journal_entry of = {0};
    COPY_TEXTS(of, *s, client);
    str_copy(of.session, sizeof of.session, s->id);
    str_copy(of.principal, sizeof of.principal, s->token.principal);
    str_copy(of.alarm, sizeof of.alarm, s->notes.alarm_id);
    form->n_described = alarms->describe ? alarms->describe(alarms->ctx, &of, form->described) : 0;
}

/* A CLOCK_BOOTTIME; it says nothing after another boot of the machine, and is 0 then. */
static void pack_boot_ms(struct packer *p, const struct form *form, int64_t *boot_ms) {
    if (form->boot != RING_NO_BOOT)
        PACKED(p, *boot_ms, 0, INT64_MAX);
    if (form->boot != RING_THIS_BOOT)
        *boot_ms = 0;
}

static void pack_described(struct packer *p, const struct form *form, struct journal_entry *e) {
    const int last = form->version < TECHNICAL ? 1 : form->version < STANDBYS ? 2 : 4;
    int kind = 0;
    while (p->to && kinds[kind] != e->kind)
        kind++;
    PACKED(p, kind, 0, last);
    e->kind = kinds[kind];
    PACKED(p, e->received_ms, 0, INT64_MAX);
    pack_boot_ms(p, form, &e->boot_ms);
    PACKED(p, e->step, 0, INT32_MAX);
    PACKED(p, e->until_ms, 0, INT64_MAX);
    PACKED_MEMBERS(p, *e, person, detail);
    if (form->version >= TECHNICAL) {
        PACKED_MEMBERS(p, *e, alarm);
        PACKED(p, e->number, -1, INT64_MAX);
        PACKED(p, e->on_ms, 0, INT64_MAX);
    }
    if (form->version >= STANDBYS)
        PACKED_MEMBERS(p, *e, where);
}

/* The alarm of a session, and what the journal has of it. */
static void pack_notes(struct packer *p, struct form *form, struct session_notes *n) {
    PACKED_MEMBERS(p, *n, flaws, alarm_id);
    PACKED(p, n->alarm_off, -1, PACKED_FAR);
    PACKED_COUNTS(p, *n, heard);
    PACKED(p, n->running, -1, PACKED_FAR);
    PACKED_MEMBERS(p, n->gap, open, client);
    PACKED_COUNTS(p, n->gap, first);
    PACKED(p, n->gap.written, n->gap.first, PACKED_FAR);
    PACKED_COUNTS(p, n->gap, end);
    PACKED_COUNTS(p, n->onset, first);
    PACKED(p, n->onset.wall_ms, 0, INT64_MAX);
    pack_boot_ms(p, form, &n->onset.boot_ms);
    PACKED_MEMBERS(p, n->onset, value);
    PACKED(p, form->n_described, 0, SESSION_DESCRIBED);
    for (int i = 0; i < form->n_described; i++) {
        struct journal_entry *e = &form->described[i];
        if (!p->to) {
            *e = (struct journal_entry){.number = -1};
            str_copy(e->alarm, sizeof e->alarm, n->alarm_id);
        }
        pack_described(p, form, e);
    }
}

/* What observers and the overview show of a session, and how its client behaves. */
static void pack_view(struct packer *p, struct form *form, struct session *s) {
    PACKED_COUNTS(p, s->shown, samples, reconnects);
    PACKED_MEMBERS(p, *s, alarm, shown.probability, back.heard_seen);
    PACKED(p, s->start_ms, 0, INT64_MAX);
    PACKED_MEMBERS(p, *s, address);
    pack_notes(p, form, &s->notes);
    if (form->version >= LEARNING)
        PACKED_COUNTS(p, s->shown, learned);
    if (form->version >= CHANNELS)
        PACKED_MEMBERS(p, s->notes.onset, where);
    s->notes.over = form->version >= STANDBYS ? s->notes.over : s->notes.alarm_off;
    if (form->version >= STANDBYS)
        PACKED(p, s->notes.over, -1, PACKED_FAR);
    if (form->version >= FOLLOWED)
        PACKED_MEMBERS(p, s->shown, followed);
}

/* What follows the opening, before the state of the stream. False: out of memory, or the bytes are corrupt. */
static bool pack_numbers(struct packer *p, const struct form *form, struct session *s) {
    PACKED_COUNTS(p, *s, consumed, saves.consumed_gaps, duplicates, events_total, seizure_samples, back.next_result);
    PACKED(p, s->n_events, 0, SESSION_MAX_EVENTS);
    if (!p->to && !(s->events = calloc((size_t)s->n_events + 1, sizeof *s->events)))
        return false;
    packed_bytes(p, s->events, (size_t)s->n_events * sizeof *s->events);
    for (int i = 0; form->version < CHANNELS && i < s->n_events; i++)
        s->events[i].where = 0; /* padding then */
    return ring_pack(&s->back.kept, p, form->boot, form->version >= CHANNELS);
}

static void pack_session(struct session *s, const struct live_report *saved, struct str *out) {
    struct packer p = {.to = out};
    struct form form = {.version = VERSION, .boot = RING_THIS_BOOT};
    char boot[TRUSTED_BOOT_ID];
    trusted_boot_id(boot);
    describe(s, &form);
    pack_i64(out, VERSION);
    PACK(out, *s, id, epoch, token.digest, token.principal, client, patient);
    pack_text(out, boot);
    pack_open(live_stream_open(s->stream), out);
    pack_text(out, s->sha256);
    (void)pack_numbers(&p, &form, s);
    pack_bytes(out, saved->state, saved->state_len);
    pack_view(&p, &form, s);
}

static enum ring_boot unpack_boot(struct unpack *in) {
    char boot[TRUSTED_BOOT_ID], here[TRUSTED_BOOT_ID];
    unpack_text(in, boot, sizeof boot);
    trusted_boot_id(here);
    return *here && !strcmp(boot, here) ? RING_THIS_BOOT : RING_OTHER_BOOT;
}

static void unpack_opening(struct unpack *in, struct opening *o) {
    o->form.version = unpack_i64(in, FIRST, VERSION);
    unpack_text(in, o->id, sizeof o->id);
    o->epoch = unpack_i64(in, 0, INT64_MAX);
    UNPACK(in, *o, digest, principal, client);
    if (o->form.version >= PATIENTS)
        unpack_text(in, o->patient, sizeof o->patient);
    o->form.boot = o->form.version >= BOOTS ? unpack_boot(in) : RING_NO_BOOT;
    UNPACK(in, *o, checkpoint, model);
    o->open.n_labels = (int)unpack_i64(in, 1, FRONTEND_MAX_LABELS);
    for (int i = 0; i < o->open.n_labels; i++) {
        unpack_text(in, o->texts[i], sizeof o->texts[i]);
        o->labels[i] = o->texts[i];
    }
    o->open.rate_hz = unpack_f64(in);
    o->open.format = (enum live_format)unpack_i64(in, LIVE_F32_UV, LIVE_I16);
    UNPACK(in, o->open, scale_uv, alarm_hop_s, realtime, want_probabilities, on, off, alarm_rate, device_name, replay);
    o->open.partial = (int)unpack_i64(in, 0, FRONTEND_MAX_CHANNELS);
    unpack_text(in, o->sha256, sizeof o->sha256);
    unpack_require(in, !*o->sha256 || digest_is_hex(o->sha256));
    unpack_require(in, o->open.rate_hz >= 1 && o->open.rate_hz <= 1e6 && o->open.on >= 0 && o->open.on < 1 && o->open.off >= 0 &&
                           o->open.off < 1 && o->open.alarm_rate >= 0);
    COPY_MEMBERS(o->open, *o, checkpoint, model, labels);
    o->request = (struct session_request){
        .open = &o->open, .client = o->client, .principal = o->principal, .patient = o->patient, .resumable = true};
}

/* ---- making one ---- */

void session_save_begin(struct session *s) {
    if (!s->all->config.store.put || s->saves.saving || session_is_closing(s) || !session_post(s, LIVE_SAVE))
        return;
    s->saves.saving = true;
    s->saves.saved_ms = clock_ms();
}

/* True if a client holds so many samples for the sake of a crash that it may soon hold no more: a replay at full speed. */
static bool far(const struct session *s) { return (s->consumed - s->saves.durable) * s->channels * s->width >= FAR_BYTES; }

static void save_when_due(struct session *s, int64_t now, int64_t least_ms) {
    if (!s->resumable || !s->opened || session_is_closing(s) || s->saves.saving || s->consumed <= s->saves.durable ||
        now - s->saves.saved_ms < least_ms)
        return;
    const int64_t period = s->all->saved_bytes * 1000 / BYTES_A_SECOND; /* for all snapshots together */
    if (now - s->saves.saved_ms >= period)
        session_save_begin(s);
}

/* The client need not hold its samples for a disk that does not take them. */
static void go_unsaved(struct session *s) {
    s->saves.unsaved = true;
    s->saves.promised = -1;
    log_warn("a live stream goes on without snapshots, which cannot be written; a crash of the daemon would end it",
             "session=%s model=%s", s->id, s->model);
    session_greet(s);
    if (s->sink && s->saves.greeted && !session_is_closing(s))
        s->sink->progress(s->owner);
}

/* A live stream does not wait for a disk that is full or does not answer. */
static void look_at_disk(struct session *s, int64_t now) {
    int64_t patience = s->saves.durable < 0 ? SESSION_FIRST_SAVE_MS : SESSION_SAVE_HUNG_MS;
    const bool hangs = s->saves.failed_saves >= SESSION_SAVE_FAILURES || (s->saves.saving && now - s->saves.saved_ms >= patience);
    if (hangs && !s->saves.unsaved && s->resumable && s->opened && !session_is_closing(s) && live_stream_open(s->stream)->realtime)
        go_unsaved(s);
}

void session_save_tick(struct session *s, int64_t now) {
    save_when_due(s, now, PERIOD_MS);
    look_at_disk(s, now);
}

int sessions_unsaved(const struct sessions *all) { return all->unsaved; }

/* A snapshot is durable. The promise holds until a snapshot covers all that the client may have dropped. */
static void keep_promise(struct session *s) {
    s->saves.failed_saves = 0;
    if (!s->saves.unsaved)
        return;
    if (s->saves.promised < 0)
        s->saves.promised = s->consumed;
    if (s->saves.durable < s->saves.promised)
        return;
    s->saves.unsaved = false;
    s->saves.promised = -1;
    log_info("a live stream has snapshots again", "session=%s model=%s", s->id, s->model);
}

void session_save_far(struct session *s) {
    if (far(s))
        save_when_due(s, clock_ms(), 0);
}

static void log_unsaved(const struct session *s, const struct err *err) {
    char text[800];
    log_warn("a stream has no new snapshot", "session=%s error=\"%s\"", s->id, err_text(err, text, sizeof text));
}

/* There is no new snapshot. */
static void give_up(struct session *s) {
    s->saves.saving = false;
    s->saves.failed_saves++;
    s->saves.promised = -1;
    session_count(s, "brrd_stream_snapshots_total", "failed", 1);
    session_greet(s);
}

void session_saved(struct session *s, struct live_report *r) {
    const struct session_store *store = &s->all->config.store;
    struct str state;
    if (r->err.code || !r->state) {
        log_unsaved(s, &r->err);
        give_up(s);
        return;
    }
    str_init(&state, STATE_MAX);
    str_reserve(&state, r->state_len + (size_t)s->saves.saved_bytes / 8 + OWN_BYTES);
    pack_session(s, r, &state);
    size_t len = state.len;
    char *data = str_take(&state);
    s->saves.saved = s->consumed;
    s->all->saved_bytes += (int64_t)len - s->saves.saved_bytes;
    s->saves.saved_bytes = (int64_t)len;
    s->saves.on_disk = true;
    const struct session_snapshot snapshot = {.id = s->id,
                                              .state = data,
                                              .len = len,
                                              .sha256 = s->sha256,
                                              .model = live_stream_open(s->stream)->checkpoint,
                                              .again = s->saves.durable >= 0,
                                              .eeg = s->back.eeg};
    if (!data || !store->put(store->ctx, &snapshot)) {
        struct err err;
        err_set(&err, ERR_EXHAUSTED, "out of memory for its state, or the state is larger than %d MiB", STATE_MAX >> 20);
        log_unsaved(s, &err);
        free(data);
        give_up(s);
    }
}

void sessions_disown(struct sessions *all, const char *id) {
    struct session *s = session_of_id(all, id);
    struct err err;
    if (!s)
        return;
    const struct session_sink *former = s->sink;
    void *owner = s->owner;
    log_info("a stream goes on in another daemon", "session=%s model=%s", s->id, s->model);
    s->saves.on_disk = s->saves.saving = false;
    session_count_end(s, "moved");
    for (struct session_watch *w = s->shown.watches; w; w = w->next)
        w->moved = true;
    if (former && session_is_closing(s)) /* its owner has heard the end and will close it */
        return;
    session_drop_held(s);
    session_let_go(s);
    err_set(&err, ERR_ABORTED, "another daemon has taken the stream over");
    if (former)
        former->failed(owner, &err, "TAKEN_OVER");
}

int sessions_claim(struct sessions *all, const char *token, struct session_claim *c, struct err *err) {
    const struct session_store *store = &all->config.store;
    char digest[DIGEST_HEX_SIZE], id[SESSION_ID_SIZE];
    if (!store->claim || !resume_token_digest(token, digest))
        return err_set(err, ERR_UNSUPPORTED, "no daemon shares the snapshots of streams");
    resume_token_id(digest, id);
    struct session *s = session_of_id(all, id);
    if (s && s->parked_ms)
        s->parked_ms = clock_ms();
    if (!s && sessions_places(all, false) >= all->config.max_sessions)
        return err_set(err, ERR_EXHAUSTED, "%d streams are open already (limits.sessions)", all->config.max_sessions);
    return store->claim(store->ctx, id, c) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
}

void sessions_kept(struct sessions *all, const char *id, const struct err *err) {
    struct session *s = session_of_id(all, id);
    if (!s || !s->saves.saving)
        return;
    if (err->code == ERR_ABORTED) {
        sessions_disown(all, id);
        return;
    }
    if (err->code) {
        give_up(s);
        return;
    }
    session_count(s, "brrd_stream_snapshots_total", "written", 1);
    s->saves.saving = false;
    s->saves.durable = s->saves.saved;
    keep_promise(s);
    session_greet(s);
    if (s->sink && s->saves.greeted && !session_is_closing(s))
        s->sink->progress(s->owner);
    if (s->saves.saved_ms < all->frozen_ms && s->consumed > s->saves.durable)
        session_save_begin(s);
}

/* ---- going on from one ---- */

/* A device that the configuration no longer has, or that no longer serves the model, is as good as none. */
static int place(const struct sessions *all, struct live_open *open, struct err *err) {
    const struct sessions_config *c = &all->config;
    int rc = c->place ? c->place(c->place_ctx, open->device_name, open->model, &open->device, err) : 0;
    if ((rc != ERR_NOT_FOUND && rc != ERR_INVALID) || !*open->device_name)
        return rc;
    open->device_name[0] = '\0';
    return c->place(c->place_ctx, "", open->model, &open->device, err);
}

/* What follows from what was read. */
static void settle_read(struct opening *o, struct session *s) {
    struct session_gap *gap = &s->notes.gap;
    s->next = s->saves.saved = s->saves.durable = s->consumed;
    s->gaps = s->saves.consumed_gaps;
    s->shown.learned_before = s->shown.learned;
    gap->open &= gap->first < s->next; /* else its samples are sent again */
    gap->end = gap->end < s->next ? gap->end : s->next;
    for (int i = 0; i < o->form.n_described; i++) {
        struct journal_entry *e = &o->form.described[i];
        e->live = live_open_is_live(&o->open);
        str_copy(e->session, sizeof e->session, o->id);
        COPY_TEXTS(*e, *o, client, principal);
    }
}

/* What follows the opening: *ret is the stream's own part. */
static int unpack_rest(const struct unpack *in, struct opening *o, struct session *s, const void **ret, size_t *ret_len,
                       struct err *err) {
    struct packer p = {.from = *in};
    const bool whole = pack_numbers(&p, &o->form, s);
    *ret = unpack_view(&p.from, STATE_MAX, ret_len);
    pack_view(&p, &o->form, s);
    if (p.from.failed || (whole && !unpack_done(&p.from)) || !*ret_len)
        return err_set(err, ERR_DATA_LOSS, "the snapshot is corrupt");
    settle_read(o, s);
    return whole ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
}

int sessions_model_of(const char *state, size_t len, char ret[DIGEST_HEX_SIZE], struct err *err) {
    OWNED_MEMORY struct opening *o = calloc(1, sizeof *o);
    struct session *s = calloc(1, sizeof *s);
    struct unpack in = unpack_of(state, len);
    const void *stream;
    size_t stream_len;
    if (!o || !s) {
        free(s);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    }
    unpack_opening(&in, o);
    int rc = in.failed ? err_set(err, ERR_DATA_LOSS, "the snapshot is corrupt or of another version")
                       : unpack_rest(&in, o, s, &stream, &stream_len, err);
    str_copy(ret, DIGEST_HEX_SIZE, o->sha256);
    session_free(s);
    return rc;
}

static int restore(struct sessions *all, struct opening *o, const char *state, size_t len, struct err *err) {
    struct unpack in = unpack_of(state, len);
    const void *stream;
    size_t stream_len = 0;
    unpack_opening(&in, o);
    if (in.failed)
        return err_set(err, ERR_DATA_LOSS, "the snapshot is corrupt or of another version");
    struct session *other = session_of_id(all, o->id);
    if (other)
        return err_set(err, session_is_closing(other) ? ERR_UNAVAILABLE : ERR_EXISTS,
                       "there is a session of this snapshot already");
    if (*o->sha256 && all->config.store.model)
        all->config.store.model(all->config.store.ctx, o->sha256, o->checkpoint, sizeof o->checkpoint);
    int rc = place(all, &o->open, err);
    struct session *s = rc ? NULL : session_new(all, &o->request, err);
    if (!s)
        return rc ? rc : err ? err->code : ERR_EXHAUSTED;
    COPY_TEXTS(*s, *o, id, sha256);
    str_copy(s->token.digest, sizeof s->token.digest, o->digest);
    s->token.text[0] = 0;
    s->epoch = o->epoch;
    rc = unpack_rest(&in, o, s, &stream, &stream_len, err);
    char *copy = rc ? NULL : malloc(stream_len);
    if (!copy) {
        session_free(s);
        return rc ? rc : err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    }
    memcpy(copy, stream, stream_len);
    s->ended = s->counted = o->ended; /* by the process before */
    s->saves.on_disk = true;
    session_reach(s, SESSION_RESTORING);
    session_park(s);
    rc = session_begin(s, copy, stream_len, err);
    if (rc)
        return rc;
    for (int i = 0; i < o->form.n_described; i++)
        if (o->form.described[i].kind == JOURNAL_ANSWERED)
            s->notes.onset.answered_by = o->form.described[i].person;
    if (!s->ended || !all->claims) { /* else the daemon that ended it has told that */
        session_note_kept(s);
        session_alarm_goes_on(s);
    }
    s->notes.onset.answered_by = NULL;
    for (int i = 0; i < o->form.n_described && all->config.alarms.take; i++)
        if (all->claims || (o->form.described[i].kind != JOURNAL_TECHNICAL_ON && o->form.described[i].kind != JOURNAL_STANDBY))
            /* this daemon's journal knows its own better */
            all->config.alarms.take(all->config.alarms.ctx, &o->form.described[i]);
    if (!s->ended)
        session_note(s, JOURNAL_RESTORED, "");
    return 0;
}

int sessions_restore(struct sessions *all, const char *state, size_t len, bool ended, struct err *err) {
    int places = sessions_places(all, ended);
    if (all->frozen_ms)
        return err_set(err, ERR_CANCELLED, "the daemon is stopping");
    if (places >= all->config.max_sessions)
        return err_set(err, ERR_EXHAUSTED, "%d streams are open already (limits.sessions)", places);
    OWNED_MEMORY struct opening *o = calloc(1, sizeof *o);
    if (!o)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    o->ended = ended;
    return restore(all, o, state, len, err);
}

int sessions_restore_moved(struct sessions *all, const char *state, size_t len, bool ended, struct err *err) {
    all->claims = true;
    int rc = sessions_restore(all, state, len, ended, err);
    all->claims = false;
    return rc;
}

void session_inherit_eeg(struct session *s) {
    struct err err;
    char text[800];
    if (s->back.eeg && s->back.past_eeg && eegring_inherit(s->back.eeg, s->back.past_eeg, s->back.past_eeg_len, &err))
        log_warn("a stream goes on without the EEG of its alarms", "session=%s error=\"%s\"", s->id,
                 err_text(&err, text, sizeof text));
    free(s->back.past_eeg);
    s->back.past_eeg = NULL;
}

void sessions_inherit_eeg(struct sessions *all, const char *id, char *data, size_t len) {
    struct session *s = session_of_id(all, id);
    if (!s || s->back.past_eeg || s->opened) {
        free(data);
        return;
    }
    s->back.past_eeg = data;
    s->back.past_eeg_len = len;
}

bool sessions_need_model(const struct sessions *all, const char *sha256) {
    for (const struct session *s = all->first; s; s = s->next_session)
        if (s->saves.on_disk && !strcmp(s->sha256, sha256))
            return true;
    return false;
}

void sessions_await(struct sessions *all, bool more) {
    all->awaited = more;
    all->settled &= !more; /* the alarm of one that cannot be used in the end is cut */
}
bool sessions_awaited(const struct sessions *all) { return all->awaited; }

void session_restore_failed(struct session *s, const struct err *err) {
    const struct session_store *store = &s->all->config.store;
    char text[800];
    const bool useless = snapshot_is_useless(err);
    err_text(err, text, sizeof text);
    if (useless) {
        log_warn("a stream cannot resume from its snapshot", "session=%s error=\"%s\"", s->id, text);
        session_count(s, "brrd_stream_snapshots_total", "rejected", 1);
        store->reject(store->ctx, s->id);
    } else {
        log_warn("a stream waits for its snapshot, which cannot be used now", "session=%s error=\"%s\"", s->id, text);
        store->retry(store->ctx, s->id, s->ended);
        s->counted = true; /* it has not ended: another attempt follows */
    }
    s->saves.on_disk = false;
    if (!s->sink) {
        session_count_end(s, "failed"); /* nobody knows how its alarm goes on */
        session_let_go(s);
        return;
    }
    struct err gone;
    err_set(&gone, ERR_UNAVAILABLE, "the stream cannot go on from its snapshot %s",
            useless ? "and begins anew; open it again" : "yet (see the daemon's log); try again later");
    session_fail(s, &gone, "RESTORING");
}

bool sessions_restoring(const struct sessions *all) { return all->restoring; }

/* ---- the end of the daemon ---- */

void sessions_announce_end(struct sessions *all, int64_t retry_ms, const char *reason) {
    for (struct session *s = all->first; s; s = s->next_session)
        if (s->sink && s->saves.greeted && !session_is_closing(s))
            s->sink->draining(s->owner, retry_ms, reason);
}

void sessions_freeze(struct sessions *all) {
    all->frozen_ms = clock_ms();
    for (struct session *s = all->first; s; s = s->next_session)
        if (s->resumable && s->opened && !session_is_closing(s) && s->consumed > s->saves.durable)
            session_save_begin(s);
}

void session_survive(struct session *s, const struct err *why) {
    struct err err;
    char text[800];
    err_set(&err, ERR_UNAVAILABLE,
            "the device failed, and the daemon restarts: %.300s; a resumable stream goes on with its token then",
            err_text(why, text, sizeof text));
    session_reach(s, SESSION_CUT);
    if (s->sink)
        s->sink->failed(s->owner, &err, "DRAINING");
}

bool sessions_saved(const struct sessions *all) {
    for (const struct session *s = all->first; s; s = s->next_session)
        if (s->saves.saving && !session_is_closing(s))
            return false;
    const struct session_store *store = &all->config.store;
    return !store->eeg_waits || !store->eeg_waits(store->ctx);
}

void sessions_end(struct sessions *all) {
    struct err err;
    err_set(&err, ERR_UNAVAILABLE, "the daemon is stopping; a resumable stream goes on with its token when it is back");
    for (struct session *s = all->first, *next; s; s = next) {
        next = s->next_session;
        session_release_held(s);
        if (s->sink && !session_is_closing(s))
            s->sink->failed(s->owner, &err, "DRAINING");
    }
}
