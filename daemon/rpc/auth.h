/* auth: identifies callers of the daemon and decides what they may do. It holds the tokens and the CAs of client certificates,
 * counts refused callers by reason, and writes the audit log; it reads no files (daemon/reload.h). Tokens, keys and certificates
 * never appear in logs. Any thread, except where noted: RPC calls it on the loop, HTTP on its own thread. */
#pragma once

#include "base/metrics.h"
#include "trust/certificate.h"
#include "trust/token.h"

enum { AUTH_NAME_SIZE = TOKEN_NAME_SIZE + CERTIFICATE_NAME_SIZE + 24, AUTH_PEER_SIZE = 80 };

/* How a caller is connected. */
struct auth_connection {
    const char *listener; /* "unix", "tcp", "http"; static */
    uint32_t uid;         /* of the peer process of a unix socket */
    enum role role;       /* role that the connection itself grants; ROLE_NONE: a token is needed */
    bool own;             /* a unix socket whose peer has the daemon's own uid or is root */
    bool certificate;     /* a client certificate is required */
};

/* Credentials that a caller sends. Texts are borrowed; NULL = not sent. */
struct auth_request {
    const struct auth_connection *connection;
    const char *peer;          /* address, as in auth_caller */
    const char *authorization; /* "Bearer TOKEN" */
    size_t authorization_len;
    const unsigned char *digest; /* of a token that the caller has shown before; counts where no authorization is sent */
    const char *chain;           /* client certificate and its chain, PEM */
    size_t chain_len;
};

struct auth_caller {
    char
        name[AUTH_NAME_SIZE]; /* the principal: "uid:1000", "token:ana", "local"; "certificate:bed-7" of a caller without a token */
    char certificate[CERTIFICATE_NAME_SIZE]; /* "bed-7" of a client certificate; "" = none. For the logs: whose streams are whose
                                                does not depend on it */
    const char *listener;
    char peer[AUTH_PEER_SIZE]; /* "10.0.0.7:4711", "[fe80::1]:4711", "unix" */
    enum role role;
    bool own;                     /* as in the connection */
    bool all;                     /* sees the beds and jobs of all callers; so does the role admin */
    bool answer;                  /* answers alarms; so does the role admin */
    bool proxy;                   /* names the person for whom it asks, at the pages */
    char names[TOKEN_NAMES_SIZE]; /* of beds, for token_names_match */
    bool has_token;               /* the digest of this token is checked again after a reload */
    unsigned char digest[TOKEN_DIGEST];
    uint64_t generation;
    int64_t until_ms; /* time of day at which the token ends, 0 = never */
};

/* A call, for the logs. Texts are borrowed; NULL = unknown. */
struct auth_record {
    const char *method;
    enum role needed;
    const char *outcome, *reason; /* reason: of an error */
    double seconds;
    const char *kind, *id;       /* "job", "session" or "recording" that the call is about, and its id */
    const char *action, *person; /* of an answer about a recording, and who gave it */
    bool reading;                /* it reads a patient's data */
};

/* A refusal; reason is a stable identifier for programs, metrics and logs. */
struct auth_refusal {
    const char *reason; /* "TOKEN_MISSING", …; static */
    struct err err;
};

struct auth_config {
    const char *tokens_file; /* or NULL: no tokens are configured. For errors, as client_ca; borrowed */
    const char *client_ca;   /* or NULL: no client certificates */
    struct metrics *metrics;
};

struct auth;
/* Without tokens and CAs: until they are set, every token and every client certificate is refused. */
int auth_new(const struct auth_config *config, struct auth **ret, struct err *err);
void auth_free(struct auth *auth);
/* Loop thread. Uses the tokens of this text, that of tokens_file, from now on; the text is modified. Calls of a token that it
 * revokes end. On errors the previous tokens stay in use. settled: the file has been the same for a while (tokens_reparse). */
int auth_set_tokens(struct auth *auth, char *text, bool settled, struct err *err);
/* Loop thread. Tokens that are valid, those among them whose lines have vanished included, and the number of those. */
size_t auth_count_tokens(const struct auth *auth, size_t *ret_vanished);
/* Loop thread. Uses these CAs, the text of client_ca, from now on. On errors the previous CAs stay in use. */
int auth_set_authorities(struct auth *auth, const char *pem, struct err *err);
/* Loop thread. Whether a valid token that may stream has this bed among its names=: 1: one of this principal; 0: others' alone; -1:
 * none has. */
int auth_names_bed(const struct auth *auth, const char *principal, const char *bed);
/* True if tokens are configured. */
bool auth_has_tokens(const struct auth *auth);

/* Identifies the caller. On false, *ret_refusal has UNAUTHENTICATED: the token is missing, unknown, revoked or expired, or the
 * client certificate is missing, expired, invalid or of another CA. If a token is sent, it decides even where the connection alone
 * would suffice. */
bool auth_identify(struct auth *auth, const struct auth_request *request, struct auth_caller *ret,
                   struct auth_refusal *ret_refusal);
/* True if the caller may see the jobs and files of this principal; "": what belongs to nobody. */
bool auth_sees(const struct auth_caller *caller, const char *principal);
/* True if the caller may see the streams, alarms and entries of the bed of this name, which this principal streams
 * (token_sees_bed). */
bool auth_sees_bed(const struct auth_caller *caller, const char *principal, const char *bed);
/* True if the caller may answer alarms of the bed of this name, which this principal streams. */
bool auth_answers(const struct auth_caller *caller, const char *principal, const char *bed);
/* True if the caller's token is still valid; caller->role is then its present role, and its name stays. Cheap if there was no
 * reload. */
bool auth_still_valid(struct auth *auth, struct auth_caller *caller, struct auth_refusal *ret_refusal);
/* On false, *ret_refusal has PERMISSION_DENIED: the role is too small. */
bool auth_permits(const struct auth_caller *caller, enum role needed, const char *method, struct auth_refusal *ret_refusal);

/* Counts a refusal and logs it with the peer's address; many refusals are summarised in one line per second. */
void auth_count_refusal(struct auth *auth, const struct auth_caller *caller, const struct auth_record *record,
                        const struct auth_refusal *refusal);
/* Same for failures below the level of calls, such as a TLS handshake. reason: a static identifier. */
void auth_count_failure(struct auth *auth, const char *reason, const char *detail);
/* Logs one line when a call begins or ends: at level info if the call needs more than the role read, else at debug; within the rate
 * of audit.h. A reading of a patient's data is logged at info, once an hour for each caller and object. */
void auth_audit(struct auth *auth, const struct auth_caller *caller, const struct auth_record *record);
/* Once a second: logs how many lines were left out. */
void auth_tick(struct auth *auth);
