/* session: the streams of clients on the loop's side. A session checks the order of a client's samples and turns them into orders
 * for the device worker, which filters them and runs the model (live/live.h). The sample index is the sequence number: duplicates
 * are dropped and counted, overlaps are trimmed, a hole is a gap. Bounded: the number of sessions, the samples that wait per
 * session, the length of a gap. Loop thread. */
#ifndef BRR_DAEMON_LIVE_SESSION_H
#define BRR_DAEMON_LIVE_SESSION_H
#include "daemon/live/live.h"

enum {
    SESSION_ID_SIZE = 33,
    SESSION_BACKLOG_BYTES = 8 * 1024 * 1024,
    SESSION_MAX_ORDERS = 64,
    SESSION_MAX_GAP_S = 24 * 3600,
    SESSION_MAX_CHUNK_S = 600, /* what a chunk becomes grows with its duration, not with its bytes */
    SESSION_MAX_EVENTS = 65536,
};

struct sessions;
struct session;

struct sessions_config {
    live_post_fn *post; /* takes the orders */
    void *post_ctx;
    struct metrics *metrics; /* may be NULL */
    int max_sessions;
    int64_t idle_ms;           /* a session expires whose client sends or reads nothing for so long */
    int64_t max_waiting_bytes; /* of samples of all sessions; above it a session is read only when none of its own wait */
};
struct sessions *sessions_new(const struct sessions_config *config);
/* Only when nothing takes orders any more. NULL is fine. */
void sessions_free(struct sessions *all);
int sessions_count(const struct sessions *all);
int sessions_of_model(const struct sessions *all, const char *model); /* open ones under this name */

/* What a session tells its owner, on the loop. After failed or summary only session_close may follow. The place of a session that
 * failed or expired is free at once, also when its owner closes it much later. */
struct session_sink {
    void (*opened)(void *owner, const struct live_opened *o);
    void (*result)(void *owner, const struct live_report *r); /* record trace */
    void (*provisional)(void *owner, const struct live_report *r);
    void (*alarm)(void *owner, const struct live_report *r);
    void (*progress)(void *owner); /* samples were consumed: session_ack and session_room changed */
    void (*summary)(void *owner, const struct live_report *r);
    void (*failed)(void *owner, const struct err *err, const char *reason);
};

/* EXHAUSTED when there are max_sessions already. */
int session_open(struct sessions *all, const struct live_open *open, const struct session_sink *sink, void *owner,
                 struct session **ret, struct err *err);
/* Ends the session for its owner: no callback follows, and the owner must not use the session again. reason: label of the metric,
 * such as "done". */
void session_close(struct session *s, const char *reason);
const char *session_id(const struct session *s);

/* data: channel-major samples of all channels. INVALID when the sizes do not fit, RANGE beyond the longest gap. */
int session_chunk(struct session *s, int64_t first, int64_t samples, const uint8_t *data, size_t len, struct err *err);
/* Samples up to `end` do not exist. */
int session_gap(struct session *s, int64_t end, const char *cause, struct err *err);
int session_finish(struct session *s, struct err *err); /* no more samples; summary follows */
bool session_room(const struct session *s);             /* whether the next message should be read */
int64_t session_max_chunk(const struct session *s, size_t message_bytes);
/* The owner has no room for further reports, or has room again. While it has none the device worker produces at most
 * LIVE_CREDIT_BYTES more. */
void session_stall(struct session *s, bool stalled);

struct session_counts {
    int64_t received_through, consumed_through; /* source samples */
    int64_t gaps, duplicate_samples;
    const struct event *events; /* all so far, or the first SESSION_MAX_EVENTS; results passed on every one */
    int n_events;
    int64_t events_total, seizure_samples; /* of all; samples at 256 Hz */
};
void session_counts(const struct session *s, struct session_counts *ret);

/* A report of the worker about a stream. */
void sessions_report(struct sessions *all, const struct live_report *r);
/* Once a second: idle sessions expire, orders that found no room are posted again, gauges are set. */
void sessions_tick(struct sessions *all);

#endif
