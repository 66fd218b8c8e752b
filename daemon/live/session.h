/* session: the streams of clients on the loop's side. A session checks the order of a client's samples and turns them into orders
 * for the host, which filters them and runs the model (live/live_stream.h). The sample index is the sequence number:
 * duplicates are dropped and counted, overlaps are trimmed, a hole is a gap. A resumable session outlives its connection for
 * resume_ttl_ms: what was received goes on being processed, results and alarms are kept, and the next connection with its token
 * goes on where the first one ended. Bounded: the number of sessions, the samples that wait per session, the length of a gap, the
 * results kept. Loop thread. */
#pragma once
#include "base/metrics.h"
#include "daemon/journal/journal.h"
#include "daemon/journal/register.h"
#include "daemon/live/live_stream.h"
#include "daemon/live/resume_token.h"

enum {
    SESSION_ID_SIZE = RESUME_TOKEN_SIZE,
    SESSION_NAME_SIZE = 128,
    SESSION_LABEL_SIZE = 256, /* of a channel; a snapshot holds no longer ones */
    SESSION_BACKLOG_BYTES = 8 * 1024 * 1024,
    SESSION_MAX_ORDERS = 64,
    SESSION_MAX_GAP_S = 24 * 3600,
    SESSION_MAX_CHUNK_S = 600, /* what a chunk becomes grows with its duration, not with its bytes */
    SESSION_MAX_EVENTS = 65536,
    SESSION_RETRY_MS = 5000,
    SESSION_LONGEST_RETRY_MS = 60 * 1000,
    SESSION_FIRST_SAVE_MS = 5000, /* for which the Opened of a live stream waits for its first snapshot */
    SESSION_SAVE_FAILURES = 3,    /* in a row, or one snapshot that takes so long: a live stream goes on without */
    SESSION_SAVE_HUNG_MS = 30000,
    SESSION_KEPT_BYTES = 1 << 20,         /* of results and alarms kept for a client that may have to come back */
    SESSION_KEPT_UNREAD_BYTES = 16 << 20, /* of them, while the client's Seen may lie behind samples that are not read yet */
};

struct sessions;
struct session;

struct session_snapshot {
    const char *id;
    char *state; /* malloc'd */
    size_t len;
    const char *sha256, *model; /* of its model, "" = none, and the file of the model */
    bool again;                 /* one of this session is on the disk already */
    struct eegring *eeg;        /* borrowed: with minutes of alarms that outlive the process; NULL: none */
};

/* The answer to sessions_claim. Heap; the snapshot store frees it after `done`, or with itself. */
struct session_claim {
    void (*done)(struct session_claim *c);
    void *ctx;
};

/* Where snapshots of resumable sessions are kept (live/snapshot_store.h); zeroed: nowhere, and sessions do not outlive the daemon.
 */
struct session_store {
    /* Takes the state unless false; sessions_kept answers. The model's file is kept by its SHA-256 before the snapshot. */
    bool (*put)(void *ctx, const struct session_snapshot *snapshot);
    bool (*eeg_waits)(void *ctx); /* the EEG of a snapshot that is durable is still to be written */
    /* Where the kept model is; "" if the path does not fit. */
    void (*model)(void *ctx, const char *sha256, char *path, size_t size);
    void (*end)(void *ctx, const char *id); /* the client was sent the Summary; the snapshot stays in case it did not arrive */
    void (*drop)(void *ctx, const char *id);
    void (*reject)(void *ctx, const char *id); /* one that cannot be used: out of the way */
    /* One that cannot be used now: sessions_restore is called with it later. */
    void (*retry)(void *ctx, const char *id, bool ended);
    /* Makes the snapshot of this id this daemon's, and a session of it if it was another daemon's; c is taken unless false. NULL:
     * no other daemon shares the snapshots. */
    bool (*claim)(void *ctx, const char *id, struct session_claim *c);
    /* Whether another daemon had the session of this id at the start or has taken it before, which takes 3 s at most to find out;
     * UNKNOWN: a folder does not answer. NULL: as above. */
    enum session_place (*elsewhere)(void *ctx, const char *id);
    /* Gives the alarm of such a session (sessions_receive_alarm) to the daemon that has it: ELSEWHERE once that daemon's folder has
     * it, or no daemon would take it; until then ASKED: ask again. NULL: as above. */
    enum session_place (*hand)(void *ctx, const char *id, const void *data, size_t len);
    void *ctx;
};

struct sessions_config {
    live_post_fn *post; /* takes the orders */
    void *post_ctx;
    /* The device of a restored stream of this model, device_name "": any; NULL: the first one. */
    int (*place)(void *ctx, const char *device_name, const char *model, int *ret, struct err *err);
    void *place_ctx;
    struct metrics *metrics; /* may be NULL */
    int max_sessions;
    bool shared;               /* callers have tokens, and each a share of them (base/principal.h) */
    int64_t idle_ms;           /* a session expires whose client sends or reads nothing for so long */
    int64_t resume_ttl_ms;     /* how long a resumable session waits for its client */
    int64_t patient_memory_ms; /* how long what was learned of a patient is kept for the patient's next stream; 0: not at all */
    struct session_store store;
    struct journal *journal;        /* may be NULL */
    struct onsets *onsets;          /* EEG of alarms (live/onsets.h); may be NULL */
    struct session_register alarms; /* zeroed: each alarm is of its session alone */
    int64_t measure_ms;             /* over which the rate of a live stream is measured; 0 = not at all */
    int64_t lag_ms; /* realtime sessions whose samples wait longer for the device are shed, a few a second, first of owners
                     * above their share; 0: never */
    int64_t max_waiting_bytes; /* of samples of all sessions; above it a session is read only when none of its own wait */
};
struct sessions *sessions_new(const struct sessions_config *config);
/* Only when nothing takes orders any more. NULL is fine. */
void sessions_free(struct sessions *all);
int sessions_count(const struct sessions *all);
/* Counts the sessions that have a stream on a device. ended false: the open ones, which take a place of max_sessions; true: those
 * that were restored after their end, which take none. */
int sessions_places(const struct sessions *all, bool ended);
int sessions_of_model(const struct sessions *all, const char *model); /* open ones under this name */
/* The session that this token of this principal opens, also one that has ended within resume_ttl_ms; NULL: there is none. */
struct session *sessions_find(struct sessions *all, const char *token, const char *principal);

/* Another daemon may have, or have taken over, the session of this token: c->done follows on the loop thread, and sessions_find
 * then finds a session that any daemon has. UNSUPPORTED: no other daemon shares the snapshots; EXHAUSTED: no room for one more. On
 * an error c stays the caller's. */
int sessions_claim(struct sessions *all, const char *token, struct session_claim *c, struct err *err);

/* Callbacks of a session to its owner, on the loop thread. After failed or summary only session_close may follow. The place of a
 * session that failed or expired is free at once, also when its owner closes it much later. */
struct session_sink {
    void (*opened)(void *owner, const struct live_opened *o);
    void (*result)(void *owner, const struct live_report *r); /* record trace */
    void (*provisional)(void *owner, const struct live_report *r);
    void (*alarm)(void *owner, const struct live_report *r);
    void (*progress)(void *owner); /* samples were consumed: session_counts and session_room changed */
    void (*summary)(void *owner, const struct live_report *r);
    void (*draining)(void *owner, int64_t retry_ms, const char *reason); /* the daemon is about to stop */
    void (*failed)(
        void *owner, const struct err *err,
        const char *reason); /* TAKEN_OVER: the session is another owner's; DRAINING: it goes on after the daemon, if it can;
                              * RESTORING: it could not be restored now, and is tried again unless its snapshot was rejected */
};

struct session_request {
    const struct live_open *open;
    const char *client, *principal; /* a name for people; who calls */
    const char *address;            /* from where; NULL: unknown */
    const char *patient;            /* the same text for the same patient (patient_memory); NULL and "": none is named */
    int64_t start_ms;               /* Unix time of sample 0; 0: unknown */
    bool resumable;
    bool served; /* the model serves: it is loaded already, and counts for no quota (live/model_quota.h) */
    bool admin;  /* may take all places */
};
/* EXHAUSTED when there are max_sessions already, when the principal, unless it is an admin, has its share of them, those that wait
 * for their client included, or when the principal opens too many different models that do not serve. */
int session_open(struct sessions *all, const struct session_request *request, const struct session_sink *sink, void *owner,
                 struct session **ret, struct err *err);
/* Ends the session for its owner: no callback follows, and the owner must not use the session again. reason: label of the metric,
 * such as "done". A resumable session that is done is kept a while, since its client may not have heard it. */
void session_close(struct session *s, const char *reason);
/* The client's connection is gone: a resumable session waits for the next one, another ends as "client_gone". As session_close for
 * the owner. */
void session_leave(struct session *s);
/* How long a client should wait after its connection has failed for this reason; 0: coming back is useless. A client that was shed
 * (OVERLOADED) waits twice as long for each connection in a row that was, and up to half as much less, so that clients that were
 * shed together come back one by one. */
int64_t session_retry_ms(const struct session *s, const char *reason);
/* For so long one that was shed may not be resumed yet; 0: it may. */
int64_t session_wait_ms(const struct session *s);

/* State that a client presents when it resumes a session. */
struct session_return {
    const char *token;
    const char *address; /* as in session_request */
    const struct session_sink *sink;
    void *owner;
    int64_t next_result, next_alarm; /* before these it has all results and alarms */
};
/* A new owner; the one before, if any, is told TAKEN_OVER and must forget the session. `opened` and what was kept follow at once,
 * or when the model is loaded. */
void session_resume(struct session *s, const struct session_return *back);
/* Checks that a stream with these parameters could continue this session. INVALID names the parameter that differs. */
int session_check(const struct session *s, const struct live_open *open, struct err *err);
/* The client has the results and alarms before these numbers. */
void session_seen(struct session *s, int64_t next_result, int64_t next_alarm);
const char *session_token(const struct session *s);   /* empty unless resumable */
int64_t session_epoch(const struct session *s);       /* changes when the state of the stream is reset; Unix time in ms */
int64_t session_next_result(const struct session *s); /* number of the first result that its owner will get from now on */
const char *session_id(const struct session *s);
const char *session_model(const struct session *s); /* its name in metrics */
bool session_is_resumable(const struct session *s);
bool session_is_realtime(const struct session *s);      /* Open.realtime */
bool session_patient_unused(const struct session *s);   /* it names a patient, and nothing is kept of patients */
int64_t session_resume_ttl_ms(const struct session *s); /* how long it waits for its client; 0 unless resumable */

/* data: channel-major samples of all channels. INVALID when the sizes do not fit, RANGE beyond the longest gap. */
int session_chunk(struct session *s, int64_t first, int64_t samples, const uint8_t *data, size_t len, struct err *err);
/* Samples [first, end) do not exist; those before `first` that were not received are a gap of the cause "hole". INVALID unless
 * 0 <= first <= end. */
int session_gap(struct session *s, int64_t first, int64_t end, const char *cause, struct err *err);
int session_finish(struct session *s, struct err *err); /* no more samples; summary follows */
bool session_room(const struct session *s);             /* whether the next message should be read */
int64_t session_max_chunk(const struct session *s, size_t message_bytes);
/* The owner has no room for further reports, or has room again. While it has none the host produces at most
 * LIVE_CREDIT_BYTES more. */
void session_stall(struct session *s, bool stalled);

struct session_counts {
    int64_t received_through, durable_through; /* source samples; as in Ack */
    bool unsaved;                              /* snapshots cannot be written: durable_through are samples that were processed */
    int64_t gaps, duplicate_samples;
    const struct event *events; /* all so far, or the first SESSION_MAX_EVENTS; results passed on every one */
    int n_events;
    int64_t events_total, seizure_samples; /* of all; samples at 256 Hz */
};
void session_counts(const struct session *s, struct session_counts *ret);

/* ---- those who watch over sessions ---- */

struct session_state {
    const char *id, *client, *model, *principal, *address; /* borrowed */
    const char *const *channels;
    int n_channels;
    double rate_hz, lag_s; /* lag: how long the oldest samples that wait for the device have waited */
    int device;            /* its index */
    bool realtime, connected, alarm;
    bool live;         /* realtime, and not of a recording */
    bool followed;     /* its client is gone, and another live stream of its bed was opened since */
    float probability; /* newest of the alarm trace; NaN before the first */
    int64_t opened_ms, received_through, durable_through, samples, events, reconnects;
    int64_t start_ms;          /* Unix time of sample 0, as the client says; 0: unknown */
    int learning_s;            /* that the model still has to hear until the patient's background is the patient's own; 0: it is */
    int64_t learned_before_ms; /* for so long it had been hearing before the daemon's restart; 0 as soon as it is done */
    const struct quality_report *quality; /* borrowed; of the newest result */
    const char *note;                     /* quality_note of it */
    double measured_rate_hz;              /* 0: it is what Open says, where rate_known */
    bool rate_known;                      /* it was measured */
    const struct live_opened *opened;     /* borrowed; NULL until the model is loaded */
    struct eegring *eeg;                  /* borrowed; NULL: it keeps none */
};
void session_describe(const struct session *s, struct session_state *ret);
/* Calls visit for each open session; visit must not end any. */
void sessions_visit(const struct sessions *all, void (*visit)(void *ctx, const struct session *s), void *ctx);
/* The same in parts, so that the loop does other work between them: visits for about so many ms. True: there are more, and the next
 * call goes on; sessions that begin meanwhile are left out. The walk is zeroed before the first part. */
struct session_walk {
    struct session_walk *next;
    struct session *at; /* who is next */
    bool begun;
};
bool sessions_walk(struct sessions *all, struct session_walk *w, int64_t ms, void (*visit)(void *ctx, const struct session *s),
                   void *ctx);
void sessions_walk_stop(struct sessions *all, struct session_walk *w); /* before its end; one that has not begun is fine */
/* The open session of this id, or the only one whose id begins with it (at least SESSION_PREFIX characters). NOT_FOUND; INVALID:
 * several do. */
enum { SESSION_PREFIX = 4 };
int sessions_by_id(struct sessions *all, const char *id, struct session **ret, struct err *err);
/* Ends an open session as its client sees it: ABORTED, SESSION_CLOSED. */
void session_end(struct session *s, const char *who, const char *why);

/* An observer, owned by the caller; told on the loop. */
struct session_watch {
    struct session_watch *next;
    struct session *session;                                              /* NULL: it watches none */
    bool moved;                                                           /* another daemon has the session */
    void (*report)(struct session_watch *w, const struct live_report *r); /* RESULT, ALARM, PROVISIONAL */
    void (*ended)(struct session_watch *w);                               /* the session is over; the watch has stopped */
};
void session_watch_start(struct session *s, struct session_watch *w);
void session_watch_stop(struct session_watch *w);

/* A report of the worker about a stream; stays the caller's, but for its description of the model (opened). */
void sessions_report(struct sessions *all, struct live_report *r);
/* The snapshot of this id is durable, or could not be written. ABORTED: another daemon has it, and goes on with the session. */
void sessions_kept(struct sessions *all, const char *id, const struct err *err);
/* A session goes on from a snapshot, and waits for its client. ended: it is open to no one but its client, which comes back if it
 * did not receive the Summary, and takes no place of max_sessions. DATA_LOSS: the snapshot is corrupt; EXISTS: it is another one of
 * the same session; CANCELLED: the daemon stops; after other errors it may be tried again. */
int sessions_restore(struct sessions *all, const char *state, size_t len, bool ended, struct err *err);
/* The same from the snapshot of another daemon, whose technical alarms of the stream go on here. */
int sessions_restore_moved(struct sessions *all, const char *state, size_t len, bool ended, struct err *err);
/* The EEG that was saved with a snapshot (eegring_save), after sessions_restore; takes data. */
void sessions_inherit_eeg(struct sessions *all, const char *id, char *data, size_t len);
/* The SHA-256 of the model of a snapshot, "" = none. DATA_LOSS. Any thread. */
int sessions_model_of(const char *state, size_t len, char ret[DIGEST_HEX_SIZE], struct err *err);
/* Another daemon has taken the session of this id over: its connection here ends with TAKEN_OVER; its snapshot is not touched. */
void sessions_disown(struct sessions *all, const char *id);
/* The alarm of a session that this daemon has taken over, or that no daemon has any more, as its former daemon knows it
 * (session_store's hand): what the snapshot was too old to say. False: it cannot be taken yet; call again. */
bool sessions_receive_alarm(struct sessions *all, const void *data, size_t len);
/* True if a snapshot of a session needs the model of this SHA-256. */
bool sessions_need_model(const struct sessions *all, const char *sha256);
/* Whether sessions may still be restored: the client of a session that is not found may come back later. */
void sessions_await(struct sessions *all, bool more);
bool sessions_awaited(const struct sessions *all);
bool sessions_restoring(const struct sessions *all); /* some are still being loaded */

/* Live streams that go on although their snapshots cannot be written, at the newest tick. */
int sessions_unsaved(const struct sessions *all);

/* The daemon is about to stop: every client hears it. */
void sessions_announce_end(struct sessions *all, int64_t retry_ms, const char *reason);
/* No more samples are read, and every resumable session gets a last snapshot. */
void sessions_freeze(struct sessions *all);
bool sessions_saved(const struct sessions *all); /* none is being made, and the EEG of all is written */
/* Ends the connection of every client: UNAVAILABLE, DRAINING. */
void sessions_end(struct sessions *all);
/* The journal has written entries: alarms that waited for it go to their connections. */
void sessions_journaled(struct sessions *all);
/* Once a second: idle sessions expire, snapshots are taken, orders that found no room are posted again, gauges are set. It takes
 * about ms; true: there are more sessions, for the next call. */
bool sessions_tick(struct sessions *all, int64_t ms);
bool sessions_tick_goes_on(const struct sessions *all);
