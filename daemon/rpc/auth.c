#include "daemon/rpc/auth.h"

#include "base/log.h"
#include "base/principal.h"
#include "daemon/rpc/audit.h"

enum { LINES_A_SECOND = 10 };

struct auth {
    struct auth_config config;
    pthread_rwlock_t lock; /* the tables and their generation */
    struct tokens *tokens;
    struct authorities *authorities;
    uint64_t generation;
    pthread_mutex_t flood_lock;
    int64_t second, lines, unsaid; /* refusals of the present second: written, and left out */
    struct audit *audit;
};

/* ---- tables ---- */

size_t auth_count_tokens(const struct auth *a, size_t *ret_vanished) {
    *ret_vanished = a->tokens ? tokens_vanished(a->tokens) : 0;
    return a->tokens ? tokens_count(a->tokens) : 0;
}

int auth_names_bed(const struct auth *a, const char *principal, const char *bed) {
    static const char token[] = "token:";
    const char *name = str_starts(principal, token) ? principal + strlen(token) : "";
    return a->tokens ? tokens_name_bed(a->tokens, name, bed, clock_wall_ms()) : -1;
}

int auth_set_tokens(struct auth *a, char *text, bool settled, struct err *err) {
    struct tokens *tokens = NULL, *old = a->tokens; /* only this thread replaces it */
    int rc = old ? tokens_reparse(text, a->config.tokens_file, old, settled, &tokens, err)
                 : tokens_parse(text, a->config.tokens_file, NULL, &tokens, err);
    if (rc)
        return err_wrap(err, "auth.tokens_file cannot be used");
    pthread_rwlock_wrlock(&a->lock);
    a->tokens = tokens;
    a->generation++;
    pthread_rwlock_unlock(&a->lock);
    tokens_free(old);
    return 0;
}

int auth_set_authorities(struct auth *a, const char *pem, struct err *err) {
    struct authorities *authorities = NULL, *old;
    int rc = authorities_read(pem, &authorities, err);
    if (rc)
        return err_wrap(err, "tls.client_ca %s cannot be used", a->config.client_ca);
    pthread_rwlock_wrlock(&a->lock);
    old = a->authorities;
    a->authorities = authorities;
    pthread_rwlock_unlock(&a->lock);
    authorities_free(old);
    return 0;
}

int auth_new(const struct auth_config *config, struct auth **ret, struct err *err) {
    static const char *const reasons[] = {"token_missing",       "token_malformed",        "token_unknown",
                                          "token_revoked",       "token_expired",          "certificate_missing",
                                          "certificate_expired", "certificate_foreign_ca", "certificate_invalid",
                                          "role_too_small",      "tls_handshake"};
    struct auth *a = calloc(1, sizeof *a);
    if (!a || !(a->audit = audit_new())) {
        free(a);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the table of callers");
    }
    a->config = *config;
    pthread_rwlock_init(&a->lock, NULL);
    pthread_mutex_init(&a->flood_lock, NULL);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        metrics_series(config->metrics, "brrd_auth_failures_total", reasons[i]);
    *ret = a;
    return 0;
}

void auth_free(struct auth *a) {
    if (!a)
        return;
    tokens_free(a->tokens);
    authorities_free(a->authorities);
    audit_free(a->audit);
    pthread_rwlock_destroy(&a->lock);
    pthread_mutex_destroy(&a->flood_lock);
    free(a);
}

bool auth_has_tokens(const struct auth *a) { return a->config.tokens_file != NULL; }

/* ---- who ---- */

static bool refuse(struct auth_refusal *ret, int code, const char *reason, const char *text) {
    *ret = (struct auth_refusal){.reason = reason};
    err_set(&ret->err, code, "%s", text);
    return false;
}

static bool missing(const struct auth *a, struct auth_refusal *ret) {
    return refuse(ret, ERR_UNAUTHENTICATED, "TOKEN_MISSING",
                  auth_has_tokens(a) ? "the call carries no token; send `authorization: Bearer TOKEN` (brrctl --token-file FILE or "
                                       "BRR_TOKEN_FILE)"
                                     : "this user may not use the socket, and no tokens are configured; join listen.unix_group, or "
                                       "set auth.tokens_file");
}

/* The token's text in "Bearer TOKEN"; NULL when the header has another form. */
static const char *bearer(const struct auth_request *r, size_t *ret_len) {
    static const char scheme[] = "Bearer ";
    size_t skip = strlen(scheme), len = r->authorization_len;
    if (len <= skip || strncasecmp(r->authorization, scheme, skip) != 0)
        return NULL;
    while (skip < len && r->authorization[skip] == ' ')
        skip++;
    while (len > skip && isspace((unsigned char)r->authorization[len - 1]))
        len--;
    *ret_len = len - skip;
    return *ret_len ? r->authorization + skip : NULL;
}

/* Finds the caller's token by its digest; *found stays empty if there is none. */
static bool check_token(struct auth *a, struct auth_caller *c, struct token *found, struct auth_refusal *ret) {
    *found = (struct token){0};
    pthread_rwlock_rdlock(&a->lock);
    enum token_result result = a->tokens ? tokens_find(a->tokens, c->digest, clock_wall_ms(), found) : TOKEN_UNKNOWN;
    c->generation = a->generation;
    pthread_rwlock_unlock(&a->lock);
    switch (result) {
    case TOKEN_VALID:
        COPY_MEMBERS(*c, *found, role, all, answer, proxy);
        str_copy(c->names, sizeof c->names, found->names);
        c->until_ms = found->until_ms;
        return true;
    case TOKEN_REVOKED:
        return refuse(ret, ERR_UNAUTHENTICATED, "TOKEN_REVOKED", "the token was revoked; ask the administrator for another one");
    case TOKEN_EXPIRED:
        return refuse(ret, ERR_UNAUTHENTICATED, "TOKEN_EXPIRED", "the token has expired; ask the administrator for another one");
    default:
        return refuse(ret, ERR_UNAUTHENTICATED, "TOKEN_UNKNOWN",
                      "the daemon does not know this token; is it for another daemon, or truncated?");
    }
}

static bool identify_by_digest(struct auth *a, struct auth_caller *c, struct auth_refusal *ret) {
    struct token found;
    c->has_token = true;
    c->own = false; /* the token is the identity */
    bool valid = check_token(a, c, &found, ret);
    if (*found.name)
        str_format(c->name, sizeof c->name, "token:%s", found.name);
    return valid;
}

static bool identify_by_token(struct auth *a, const struct auth_request *r, struct auth_caller *c, struct auth_refusal *ret) {
    size_t len = 0;
    const char *token = bearer(r, &len);
    if (!token)
        return refuse(ret, ERR_UNAUTHENTICATED, "TOKEN_MALFORMED",
                      "the metadata `authorization` is not of the form `Bearer TOKEN`");
    if (token_digest(token, len, c->digest, &ret->err)) {
        ret->reason = "INTERNAL";
        return false;
    }
    return identify_by_digest(a, c, ret);
}

static bool check_certificate(struct auth *a, const struct auth_request *r, struct auth_caller *c, struct auth_refusal *ret) {
    char name[CERTIFICATE_NAME_SIZE] = "";
    const char *why = "";
    if (!r->chain || !r->chain_len)
        return refuse(ret, ERR_UNAUTHENTICATED, "CERTIFICATE_MISSING",
                      "this daemon requires a client certificate; pass --tls-cert and --tls-key");
    pthread_rwlock_rdlock(&a->lock);
    enum certificate_result result =
        a->authorities ? authorities_verify(a->authorities, r->chain, r->chain_len, name, &why) : CERTIFICATE_INVALID;
    pthread_rwlock_unlock(&a->lock);
    for (char *p = name; *p; p++) /* the client's own words, for log fields */
        *p = isgraph((unsigned char)*p) && *p != '"' && *p != '=' && *p != '\\' ? *p : '_';
    str_copy(c->certificate, sizeof c->certificate, name);
    str_format(c->name, sizeof c->name, "certificate:%s", name);
    switch (result) {
    case CERTIFICATE_VALID:
        return true;
    case CERTIFICATE_EXPIRED:
        return refuse(ret, ERR_UNAUTHENTICATED, "CERTIFICATE_EXPIRED",
                      "the client certificate has expired; `brrctl tls client DIR --name NAME` makes another one");
    case CERTIFICATE_FOREIGN_CA:
        return refuse(ret, ERR_UNAUTHENTICATED, "CERTIFICATE_FOREIGN_CA",
                      "the client certificate comes from a CA that tls.client_ca does not list");
    default:
        refuse(ret, ERR_UNAUTHENTICATED, "CERTIFICATE_INVALID", "the client certificate cannot be used");
        str_copy(ret->err.cause, sizeof ret->err.cause, why);
        return false;
    }
}

bool auth_identify(struct auth *a, const struct auth_request *r, struct auth_caller *ret, struct auth_refusal *ret_refusal) {
    *ret = (struct auth_caller){.listener = r->connection->listener, .role = r->connection->role, .own = r->connection->own};
    ret->all = ret->role >= ROLE_SUBMIT && !strcmp(ret->listener, "unix"); /* the group of the socket is the machine's laboratory */
    str_copy(ret->peer, sizeof ret->peer, r->peer ? r->peer : "unknown");
    if (!strcmp(r->connection->listener, "unix"))
        str_format(ret->name, sizeof ret->name, "uid:%u", r->connection->uid);
    else
        str_copy(ret->name, sizeof ret->name, ret->role ? "local" : "unknown");
    if (r->connection->certificate && !check_certificate(a, r, ret, ret_refusal))
        return false;
    if (r->authorization && (auth_has_tokens(a) || !ret->role)) {
        if (!auth_has_tokens(a))
            return missing(a, ret_refusal);
        return identify_by_token(a, r, ret, ret_refusal);
    }
    if (r->digest) {
        memcpy(ret->digest, r->digest, sizeof ret->digest);
        return identify_by_digest(a, ret, ret_refusal);
    }
    return ret->role || missing(a, ret_refusal);
}

/* The caller keeps its name, which its sessions and jobs have, whatever the file calls the token now. */
bool auth_still_valid(struct auth *a, struct auth_caller *c, struct auth_refusal *ret) {
    struct token found;
    if (!c->has_token)
        return true;
    pthread_rwlock_rdlock(&a->lock);
    bool same = c->generation == a->generation;
    pthread_rwlock_unlock(&a->lock);
    const bool over = c->until_ms && clock_wall_ms() >= c->until_ms;
    return (same && !over) || check_token(a, c, &found, ret);
}

bool auth_sees(const struct auth_caller *c, const char *principal) {
    return c->all || c->role >= ROLE_ADMIN || principal_is_same(c->name, principal);
}

bool auth_sees_bed(const struct auth_caller *c, const char *principal, const char *bed) {
    const struct token_sight sight = {.all = c->all || c->role >= ROLE_ADMIN, .principal = c->name, .names = c->names};
    return token_sees_bed(&sight, principal, bed);
}

bool auth_answers(const struct auth_caller *c, const char *principal, const char *bed) {
    return (c->answer || c->role >= ROLE_ADMIN) && auth_sees_bed(c, principal, bed) && token_names_match(c->names, bed);
}

bool auth_permits(const struct auth_caller *c, enum role needed, const char *method, struct auth_refusal *ret) {
    if (c->role >= needed)
        return true;
    *ret = (struct auth_refusal){.reason = "ROLE_TOO_SMALL"};
    err_set(&ret->err, ERR_DENIED, "%s needs the role %s; %s has the role %s", method, role_name(needed), c->name,
            role_name(c->role));
    return false;
}

/* ---- records ---- */

/* True if this second has room for another line; then sets the number of lines left out before it. */
static bool line_allowed(struct auth *a, long long *ret_unsaid) {
    int64_t second = clock_ms() / 1000;
    LOCKED(&a->flood_lock);
    if (second != a->second) {
        a->second = second;
        a->lines = 0;
    }
    bool allowed = a->lines < LINES_A_SECOND;
    *ret_unsaid = a->unsaid;
    a->lines += allowed;
    a->unsaid = allowed ? 0 : a->unsaid + 1;
    return allowed;
}

static void count(struct auth *a, const char *reason) {
    char label[48] = "";
    str_copy(label, sizeof label, reason);
    for (char *p = label; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    metric_add(metrics_series(a->config.metrics, "brrd_auth_failures_total", label), 1);
}

/* What a call is about: "session=7", "job=train-1", or "about=nothing". */
static const char *kind_of(const struct auth_record *r) { return r->kind ? r->kind : "about"; }
static const char *id_of(const struct auth_record *r) { return r->kind && r->id && *r->id ? r->id : "nothing"; }

void auth_count_refusal(struct auth *a, const struct auth_caller *caller, const struct auth_record *r,
                        const struct auth_refusal *refusal) {
    long long unsaid;
    count(a, refusal->reason);
    if (line_allowed(a, &unsaid))
        log_warn("caller refused", "reason=%s principal=%s role=%s listener=%s method=%s peer=%s %s=%s unsaid=%lld cause=\"%s\"",
                 refusal->reason, *caller->name ? caller->name : "unknown", role_name(caller->role), caller->listener, r->method,
                 caller->peer, kind_of(r), id_of(r), unsaid, refusal->err.cause);
}

void auth_count_failure(struct auth *a, const char *reason, const char *detail) {
    long long unsaid;
    count(a, reason);
    if (line_allowed(a, &unsaid))
        log_warn("connection refused", "reason=%s unsaid=%lld cause=\"%s\"", reason, unsaid, detail);
}

void auth_audit(struct auth *a, const struct auth_caller *caller, const struct auth_record *r) {
    const char *reason = r->reason && *r->reason ? r->reason : "none", *id = r->id ? r->id : "";
    const char *person = r->person && *r->person ? r->person : "none";
    const enum log_level level = r->needed > ROLE_READ || r->reading ? LOG_INFO : LOG_DEBUG;
    if (level == LOG_INFO && !audit_allows(a->audit, caller->name, r->method, r->reading ? id : NULL, clock_ms()))
        return;
    log_write(level, "audit",
              "principal=%s role=%s listener=%s method=%s outcome=%s seconds=%.3f peer=%s %s=%s reason=%s certificate=%s action=%s "
              "person=%s",
              caller->name, role_name(caller->role), caller->listener, r->method, r->outcome, r->seconds, caller->peer, kind_of(r),
              id_of(r), reason, *caller->certificate ? caller->certificate : "none", r->action ? r->action : "none", person);
}

void auth_tick(struct auth *a) { audit_tick(a->audit, clock_ms()); }
