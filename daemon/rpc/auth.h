/* auth: who calls the daemon, and what that caller may do. It holds the tokens and the CAs of client certificates, which are read
 * again on demand, counts refused callers by reason, and writes the audit lines. Tokens, keys and certificates never reach a log.
 * Any thread: RPC asks on the loop, HTTP on its own. */
#ifndef BRR_DAEMON_RPC_AUTH_H
#define BRR_DAEMON_RPC_AUTH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/metrics.h"
#include "trust/certificate.h"
#include "trust/token.h"

enum { AUTH_NAME_SIZE = TOKEN_NAME_SIZE + CERTIFICATE_NAME_SIZE + 24 };

/* How a caller is connected. */
struct auth_door {
    const char *listener; /* "unix", "tcp", "http"; static */
    uint32_t uid;         /* of the process at the other end of a unix socket */
    enum role role;       /* what the connection itself allows; ROLE_NONE: a token is needed */
    bool own;             /* a unix socket, and the uid is the daemon's own or root's */
    bool certificate;     /* a client certificate is required */
};

/* What a caller sends along. Texts are borrowed; NULL = not sent. */
struct auth_request {
    const struct auth_door *door;
    const char *authorization; /* "Bearer TOKEN" */
    size_t authorization_len;
    const char *chain; /* client certificate and those behind it, PEM */
    size_t chain_len;
};

struct auth_caller {
    char name[AUTH_NAME_SIZE]; /* "uid:1000", "token:ana", "token:ana certificate:bed-7", "local" */
    const char *listener;
    enum role role;
    bool own;       /* as of the door */
    bool has_token; /* and its digest decides again after a reload */
    unsigned char digest[TOKEN_DIGEST];
    uint64_t generation;
};

/* A refusal: a stable word for programs, metrics and logs. */
struct auth_refusal {
    const char *reason; /* "TOKEN_MISSING", …; static */
    struct err err;
};

struct auth_config {
    const char *tokens_file; /* or NULL: no token is known */
    const char *client_ca;   /* or NULL: no client certificates */
    struct metrics *metrics;
};

struct auth;
int auth_new(const struct auth_config *config, struct auth **ret, struct err *err);
void auth_free(struct auth *auth);
/* Whether a file was changed since it was read last. */
bool auth_changed(const struct auth *auth);
/* Reads the files again. On errors the tables stay as they are. */
int auth_reload(struct auth *auth, struct err *err);
/* Whether tokens can be checked at all. */
bool auth_has_tokens(const struct auth *auth);

/* Who calls. False with UNAUTHENTICATED in *ret_refusal: a token that is missing, unknown, revoked or expired, a client certificate
 * that is missing, expired, invalid or of another CA. A token that is sent decides also where the door alone would do. */
bool auth_identify(struct auth *auth, const struct auth_request *request, struct auth_caller *ret,
                   struct auth_refusal *ret_refusal);
/* Whether the caller's token still holds after a reload; costs nothing without one. */
bool auth_still_valid(struct auth *auth, struct auth_caller *caller, struct auth_refusal *ret_refusal);
/* False with PERMISSION_DENIED in *ret_refusal when the role is too small. */
bool auth_permits(const struct auth_caller *caller, enum role needed, const char *method, struct auth_refusal *ret_refusal);

/* Counts a refusal and logs it; a flood of them is summed up in one line a second. caller may be NULL. */
void auth_count_refusal(struct auth *auth, const struct auth_door *door, const struct auth_caller *caller, const char *method,
                        const struct auth_refusal *refusal);
/* The same for what failed below the calls, such as a TLS handshake. reason: a static word. */
void auth_count_failure(struct auth *auth, const char *reason, const char *detail);
/* One line about a call that a caller began or ended: at level info when it needs more than the role read, else at debug. */
void auth_audit(const struct auth_caller *caller, const char *method, enum role needed, const char *outcome, double seconds);

#endif
