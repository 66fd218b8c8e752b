/* link: one session of brr.v1.Stream/Run over as many connections as it takes. It never waits: link_advance does what can be done
 * at once, link_due_ms says when to call it again without an event of its call (conn.h). A connection that was cut, or a daemon
 * that stopped, is tried again with growing pauses for resume_ms; the daemon then says from where to send again, and what the
 * client has already is dropped (inbox.h). With several endpoints the session may go on at another daemon, which shares its
 * snapshots. One thread at a time. */
#pragma once
#include "client/conn.h"
#include "client/inbox.h"
#include "client/outbox.h"

/* AWAY: no connection, the next attempt at retry_at_ms. FAILED: with `error`. */
enum link_state { LINK_OPENING, LINK_RUNNING, LINK_AWAY, LINK_ENDED, LINK_FAILED };

struct link {
    enum link_state state;
    struct brr_client *client;
    struct conn_queue *queue; /* NULL: each call has its own */
    void *owner;              /* of calls in `queue` */
    struct conn_call *call;   /* NULL while AWAY */
    uint8_t *open;            /* the packed Open of the first connection */
    size_t open_len;
    struct outbox out;
    struct inbox in;
    Brr__V1__ServerMessage *opened; /* the first answer */
    char session_id[64], token[160];
    bool open_sent, finished, closed, draining; /* closed: this connection is half-closed */
    int64_t received, durable, reconnects;
    bool unsaved;          /* as in the newest Ack */
    int64_t resume_ms;     /* how long to try, 0 = a cut ends the stream */
    bool follow_ttl;       /* resume_ms grows to the time that the daemon keeps the session (Opened.resume_ttl_ms) */
    int64_t move_ms;       /* how long to try the same daemon, if there are others */
    int endpoint;          /* index of the daemon */
    unsigned unknown;      /* a bit for each endpoint whose daemon does not know the session */
    int64_t away_since_ms; /* of the first attempt that failed, 0 = connected */
    int64_t retry_at_ms, seen_at_ms;
    int64_t seen_results, seen_alarms;
    int attempts;
    struct brr_error error;
};

/* Starts the first connection with this Open, which is copied. */
int link_start(struct link *l, const Brr__V1__Open *open, struct brr_error *err);
/* True when something happened; call it again then. */
bool link_advance(struct link *l);
/* Milliseconds until link_advance has something to do without an event; -1 = nothing. */
int64_t link_due_ms(const struct link *l);
/* How long to stay away before the next attempt: grows with the attempts that failed, and is not below what the daemon asked for,
 * up to a minute or half of resume_ms. `random`, 32 bits, spreads clients that were cut together. */
int64_t link_pause_ms(const struct link *l, int64_t retry_after_ms, uint32_t random);
/* Ends the link with an error of this side, unless it failed before. Returns the code of the first error. */
int link_fail(struct link *l, int code, const char *text);
void link_done(struct link *l);
