/* session_parts: a session's state and the steps of its life, for session.c, session_save.c and session_watch.c; nobody else
 * includes it. Loop thread. */
#pragma once
#include "base/map.h"
#include "daemon/journal/journal.h"
#include "daemon/live/model_quota.h"
#include "daemon/live/pace.h"
#include "daemon/live/patient_memory.h"
#include "daemon/live/ring.h"
#include "daemon/live/session.h"

/* The life of a session, which only moves forward; each stage may be left out. */
enum session_stage {
    SESSION_OPENING,   /* the host has not opened its stream yet; */
    SESSION_RESTORING, /* nor has it loaded the state of the snapshot */
    SESSION_RUNNING,
    SESSION_CUT,       /* its device is lost: no more samples are taken */
    SESSION_FINISHING, /* no more samples come; its last results do */
    SESSION_CLOSING,   /* CLOSE is due or posted */
    SESSION_CLOSED     /* CLOSED came */
};

/* Where an alarm went on: its sample, Unix time, CLOCK_BOOTTIME (0: before this boot of the machine) and probability. */
struct session_onset {
    int64_t first, wall_ms, boot_ms;
    double value;
    char where[JOURNAL_WHERE]; /* the channels that carry it, for people; "": not known */
    const char *answered_by;   /* restored: who has answered it, while its rows are noted; NULL: nobody */
};

/* A gap that may go on, in source samples. Its part before `written` is in the journal. */
struct session_gap {
    bool open, client; /* client: it was announced; else samples are missing */
    int64_t first, written, end;
};

/* Its snapshots (session_save.c). */
struct session_saves {
    bool saving;                  /* a snapshot is being made */
    bool unsaved;                 /* a live stream that goes on without snapshots: they cannot be written */
    int failed_saves;             /* in a row */
    int64_t saved_ms, saved;      /* when the newest was begun; source samples consumed in it */
    int64_t saved_bytes, durable; /* of the newest that is durable: bytes, samples */
    bool on_disk;                 /* there may be one */
    bool greeted;                 /* the connection was told that it is open */
    int64_t promised; /* unsaved: what its client may have dropped until a snapshot was durable again; -1: none is yet */
    int64_t consumed_gaps;
};

/* Its alarm and what else the journal has of it (session_alarm.c, session_journal.c). */
struct session_notes {
    char alarm_id[JOURNAL_ALARM];     /* of its newest alarm; "" = it had none */
    struct session_onset onset;       /* when it went on */
    int64_t alarm_off;                /* the sample at which it went off; -1: it is on, or there was none */
    int64_t over;                     /* the sample at which an alarm of this session last went off; -1: none has */
    int64_t alarm_known;              /* restored: its alarm is on since this sample, by the register; -1: no more */
    int64_t heard;                    /* one past the newest sample of the alarm trace */
    int64_t running;                  /* first sample of the event that has begun and not ended; -1: none */
    struct session_gap gap;           /* the newest one */
    int64_t noted;                    /* number of its newest alarm there (journal_add) */
    struct ring held;                 /* alarms that are not on the disk, and what follows them */
    struct live_report *held_summary; /* what follows all of these */
    char flaws[JOURNAL_DETAIL];       /* quality of the newest samples, as written there; "" = "good" */
};

/* For a client that comes back. */
struct session_back {
    struct eegring *eeg; /* NULL: it keeps none */
    char *past_eeg;      /* of the process before, until the stream has its ring; malloc'd, past_eeg_len bytes */
    size_t past_eeg_len;
    struct ring kept;
    bool heard_seen; /* the client sends Seen, on this connection or an earlier one */
    int64_t next_result;
    struct live_report *last_word;         /* made at birth, so that it can be kept whatever memory is left; NULL once used */
    struct live_report *summary, *failure; /* the last word, when it was said */
    char failure_reason[32];
};

/* Samples on their way to the device, and results on theirs to the client. */
struct session_flow {
    int64_t waiting_samples, waiting_bytes, waiting; /* chunks and gaps the worker has not consumed */
    int64_t stalled_ms;                              /* since when the owner has no room; 0: it has */
    int64_t newest_ms;
    int64_t unreleased;                            /* bytes of reports passed to an owner that has no room for more */
    int64_t waiting_since[2 * SESSION_MAX_ORDERS]; /* when each order that waits was posted, from `oldest` on; a ring */
    int oldest;
    struct pace pace, soon;  /* its rate over measure_ms, and over a part of it, for large differences */
    double measured_rate_hz; /* 0: it is what Open says */
    bool rate_known;         /* it was measured */
};

/* For those who watch (session_watch.c), and for those who choose whom to shed (session_overload.c). */
struct session_shown {
    struct session_watch *watches;
    int64_t samples, reconnects; /* 256 Hz samples of the record trace */
    bool shed;                   /* shed: its connection heard OVERLOADED */
    bool followed;               /* while its client was gone, another live stream of the bed was opened here */
    int64_t shed_ms;             /* when */
    int above;                   /* sessions_shed: by how many doublings its owner took more time than another one */
    int64_t resumed_ms;          /* when its client came back; 0: it did not */
    int overloads;               /* connections in a row that did */
    float probability;
    int learning_s;                  /* session_state */
    int64_t learned, learned_before; /* samples of results in a row while that was more than 0; before the restart */
    struct quality_report quality;   /* of the newest result that has samples; channels is the session's own */
};

struct session {
    /* what each tick looks at, side by side in memory */
    struct session *next_session, *before_session; /* of all sessions */
    struct sessions *all;
    struct live_stream *stream;
    const struct session_sink *sink; /* NULL: no connection */
    struct live_order *close;        /* CLOSE, made at birth and kept until it is posted; NULL afterwards */
    enum session_stage stage;
    bool resumable;
    bool opened;              /* the host has opened its stream, in whatever stage the session is */
    bool ended;               /* restored after its Summary was sent, and its client has not come back */
    bool wake;                /* a WAKE is due */
    int64_t epoch, parked_ms; /* since when it waits for its client; 0: it does not */
    int64_t held_ms;          /* since when; 0: nothing is held */
    int64_t next, consumed;   /* source samples */
    struct session_saves saves;
    struct session_flow flow;
    /* who it is */
    char id[SESSION_ID_SIZE], model[LIVE_NAME], client[SESSION_NAME_SIZE];
    char address[JOURNAL_ADDRESS];   /* of its newest connection */
    char patient[PATIENT_NAME_SIZE]; /* "" = none is named, or nothing is kept of patients */
    bool patient_unused;             /* the latter, and one is named */
    int64_t start_ms;                /* Unix time of sample 0; 0: unknown */
    void *owner;
    bool counted; /* its end, in the metric */
    /* for a client that comes back */
    struct resume_token token;
    struct live_opened *info;
    struct session_back back;
    char sha256[DIGEST_HEX_SIZE]; /* of the model; "" until it is loaded */
    struct session_shown shown;
    bool alarm; /* it is on */
    struct session_notes notes;
    /* samples */
    int channels, width; /* bytes of a sample */
    double rate_hz;
    int64_t gaps, duplicates;
    struct event *events; /* the first n_events of events_total */
    int n_events;
    int64_t events_total, seizure_samples;
};

enum { SESSIONS_SHED = 64 };
struct sessions {
    struct sessions_config config;
    struct { /* an owner (live_open.owner) whose stream was shed opens none until then */
        uint32_t owner;
        int64_t until_ms;
    } sheds[SESSIONS_SHED];
    struct session *first; /* the newest one */
    struct session_walk *walks;
    struct {
        struct session_walk walk;
        int64_t buffered;
        int parked, unsaved;
    } pass; /* of sessions_tick, and what it has summed up */
    struct model_quota models;
    struct map *by_id;               /* all sessions of the list, by their ids */
    struct map *tallies;             /* how many places each principal has, and how many sessions each name */
    struct map *holding;             /* by id: sessions with alarms that are not on the disk (held_ms) */
    struct patient_memory *patients; /* NULL: nothing is kept */
    int count;                       /* of sessions whose streams the host has */
    int ended, restoring;            /* of them: those that were restored after their end; those in this stage */
    int unsaved;                     /* at the newest tick: sessions_unsaved */
    int64_t saved_bytes;             /* of the newest snapshots of all */
    int64_t waiting_bytes;           /* samples of all that wait for it */
    bool awaited;                    /* sessions may still be restored */
    bool claims;                     /* the snapshot that is being restored was another daemon's */
    bool settled;                    /* alarms of an earlier process are settled */
    int64_t longest_lag_ms;          /* at the newest tick, of live sessions that are late */
    int64_t frozen_ms;               /* since when no more samples are read because the daemon stops; 0: they are */
};

/* A session of this request, in no list yet and without a worker. NULL when it cannot be made. */
struct session *session_new(struct sessions *all, const struct session_request *request, struct err *err);
void session_free(struct session *s);
/* Hands OPEN to the worker, with a saved state or NULL (taken), and lists the session; on an error it is freed. Without a state it
 * goes on with what is known of its patient. */
int session_begin(struct session *s, char *state, size_t len, struct err *err);
bool session_post(struct session *s, enum live_order_kind kind);
/* Counts the place of the session: 1 when it begins, -1 when the host has let go of it. False: out of memory. */
bool session_count_place(struct session *s, int n);
/* The key of its name in the tallies. */
enum { SESSION_BED = 1 + SESSION_NAME_SIZE };
static inline const char *session_bed(const struct session *s, char ret[SESSION_BED]) {
    str_format(ret, SESSION_BED, "\x1f%s", s->client);
    return ret;
}
/* Keeps what a result says that was learned of the patient. */
void session_remember_patient(struct session *s, struct live_report *r);
/* Moves on to this stage, unless it is there or further. */
static inline void session_reach(struct session *s, enum session_stage stage) {
    if (stage <= s->stage)
        return;
    s->all->restoring += (int)(stage == SESSION_RESTORING) - (int)(s->stage == SESSION_RESTORING);
    s->stage = stage;
}
/* The host lets go of its stream, or has. */
static inline bool session_is_closing(const struct session *s) { return s->stage >= SESSION_CLOSING; }
struct session *session_walk_next(struct sessions *all, struct session_walk *w); /* NULL: the walk has ended */
void session_post_due(struct session *s);                                        /* what could not be posted before */
/* For the metric family of the session's model; second: another label, or NULL. */
void session_count(struct session *s, const char *family, const char *second, double n);
void session_count_end(struct session *s, const char *reason); /* once */

/* True if the kept results fill the ring and the session takes no more of them: its connection is gone, or its client acknowledges
 * results (Seen) and is behind. For a client that never does, or that has sent its last sample, the oldest are dropped instead. */
bool session_is_full(const struct session *s);
/* Lets the worker produce as much again as the owner has passed on, unless the owner has no room or the session is full. */
void session_give_credit(struct session *s);
/* How long the oldest samples that wait for the device have waited. */
int64_t session_lag_ms(const struct session *s, int64_t now_ms);
/* What waits counts as posted now. */
void session_restart_lag(struct session *s, int64_t now_ms);
/* Call at intervals: while the client reads nothing, or keeps the ring full, samples wait for it and not for the device. */
void session_excuse_device(struct session *s, int64_t now_ms);

/* Overload: sends the newest of the late sessions away, one in twenty a second, until the longest lag falls. Samples that wait
 * longest are served first, so all live sessions become late at once, and sending all of them away would interrupt every bed. */
void sessions_shed(struct sessions *all, int64_t now_ms);
/* For how long a new stream of this owner must wait: one of its streams was shed. */
int64_t sessions_shed_wait_ms(const struct sessions *all, uint32_t owner, int64_t now_ms);
/* Whose time on the device the stream takes. */
uint32_t session_owner(const struct sessions *all, const struct session_request *request);

/* A result or an alarm, to the connection: at once, or when the journal has the alarm (session_journal.c). */
void session_deliver(struct session *s, const struct live_report *r);
void session_release_held(struct session *s); /* what waits goes to the connection now */
void session_drop_held(struct session *s);    /* what waits is forgotten: the connection is gone */
void session_look_at_held(struct session *s); /* releases it when it is time */

/* Entries of the journal: of the session itself; of a gap from the next sample to `end`; of a result or an alarm; and of the
 * results and alarms in the ring of a snapshot, which may be missing in the journal. */
void session_note(struct session *s, enum journal_kind kind, const char *detail);
void session_note_gap(struct session *s, int64_t end, const char *cause);
void session_note_cut(struct session *s, int64_t first, int64_t end); /* an event was running when monitoring stopped */
void session_end_gap(struct session *s); /* samples come again, or the session ends: the rest of the gap is written */
void session_note_report(struct session *s, const struct live_report *r);
void session_note_kept(struct session *s);
/* The entry of an alarm that goes on or off. */
void session_alarm_entry(const struct session *s, const struct live_report *r, struct journal_entry *ret);
/* The channels of these bits, for people; "" before the model is known. */
void session_where(const struct session *s, uint32_t bits, char ret[JOURNAL_WHERE]);
/* Whether both have one name, and one caller, or callers who both hold this bed of the roster (session_alarm.c). */
bool session_is_same_bed(const struct session *a, const struct session *b);
/* Which alarm a report is about (session_alarm.c). */
void session_alarm_name(struct session *s, struct live_report *r);
/* The alarm of a stream that goes on from a snapshot, which this daemon may not know. */
void session_alarm_goes_on(struct session *s);
/* Another daemon has the session. True: its alarm, which is on, goes there too, and its row follows then. */
bool session_alarm_moves(struct session *s);
/* In a stream that goes on from a snapshot: the EEG of an onset whose minute was not over then is followed on. */
void session_alarm_keep_eeg(struct session *s);
/* The session ends for this reason: its alarm goes off, and the event that is running is cut. */
void session_alarm_end(struct session *s, const char *reason);
/* The stream has been processed so far, and its alarm, which was on in an earlier process, is not on: it is over. */
void session_alarm_look(struct session *s);
/* Once the streams of snapshots are here: the register settles the alarms of an earlier process. */
void sessions_settle_alarms(struct sessions *all);
/* Tells the connection that the session is open, and what it may lack, when it is open and the connection has not been told. A
 * resumable session is open when its first snapshot is durable, so that the token in Opened is good for all that can happen; a live
 * one is open after SESSION_FIRST_SAVE_MS in any case. */
void session_greet(struct session *s);
/* Tells those who watch. */
void session_tell(struct session *s, const struct live_report *r);

/* It waits for its client. */
void session_park(struct session *s);
/* The host lets go of the stream; the session's place is free when CLOSED comes. */
void session_release(struct session *s);
/* Ends it with an error. The owner may take long to hear of it, so the place is freed at once; the session itself lives until
 * session_close, or until its client has come back and heard of it. */
void session_fail(struct session *s, const struct err *err, const char *reason);
/* The worker has lost the device, and the daemon ends: a resumable session goes on in the next one, from its snapshot. */
void session_survive(struct session *s, const struct err *err);
/* No connection holds it; freed when CLOSED comes, or with all sessions. */
void session_let_go(struct session *s);
void session_forget(struct session *s); /* after CLOSED */
void session_drop_snapshot(struct session *s);
static inline struct session *session_of_id(const struct sessions *all, const char *id) { return map_get(all->by_id, id); }

/* Begins a snapshot, unless there is nowhere to keep it. */
void session_save_begin(struct session *s);
/* Once a second: begins one when it is due. A live stream whose snapshots fail or take too long goes on without them. */
void session_save_tick(struct session *s, int64_t now_ms);
/* After samples were consumed: begins one early when much is not durable. */
void session_save_far(struct session *s);
/* The worker has saved its part. */
void session_saved(struct session *s, struct live_report *r);
/* Gives the ring of the stream what the process before has kept, if there is any. */
void session_inherit_eeg(struct session *s);
/* The worker cannot go on from the snapshot. */
void session_restore_failed(struct session *s, const struct err *err);
