#include "daemon/access.h"

#include "base/log.h"
#include "daemon/http/http.h"
#include "daemon/rpc/listeners.h"

enum { SETTLED_MS = 5000 };
static const char tokens_name[] = "tokens";
enum { PEM_MAX = 1 << 20, KEY_FORBIDDEN = 0027, CERT = 0, KEY = 1 /* texts of the certificate's report */ };

/* ---- what was read takes effect ---- */

static int use_tokens(struct access *a, struct reload_report *r, struct err *err) {
    unsigned char digest[TOKEN_DIGEST];
    size_t vanished;
    int rc = token_digest(r->texts[0], r->lengths[0], digest, err);
    if (rc)
        return rc;
    if (!a->tokens_since_ms || memcmp(digest, a->tokens_digest, sizeof digest) != 0)
        a->tokens_since_ms = clock_ms();
    memcpy(a->tokens_digest, digest, sizeof digest);
    rc = auth_set_tokens(a->auth, r->texts[0], clock_ms() - a->tokens_since_ms >= SETTLED_MS, err);
    auth_count_tokens(a->auth, &vanished);
    a->tokens_due_ms = !rc && vanished ? a->tokens_since_ms + SETTLED_MS : 0;
    return rc;
}

static int use_authorities(struct access *a, struct reload_report *r, struct err *err) {
    int rc = auth_set_authorities(a->auth, r->texts[0], err);
    return rc ? rc : tls_set_roots(a->tls, r->texts[0], err);
}

static int use_certificate(struct access *a, struct reload_report *r, struct err *err) {
    return tls_set_pair(a->tls, r->texts[CERT], r->texts[KEY], err);
}

typedef int use_fn(struct access *a, struct reload_report *r, struct err *err);

/* ---- start ---- */

static int open_files(struct access *a, const struct reload_file *files, int n, use_fn *use, struct reload **ret, struct err *err) {
    OWNED_POINTER(reload_report_free) struct reload_report *report = NULL;
    int rc;
    if ((rc = reload_new(files, n, true, ret, err)) || (rc = reload_now(*ret, &report, err)))
        return rc;
    return use(a, report, err);
}

static int open_tls(struct access *a, const struct config *c, struct err *err) {
    const struct reload_file pair[] = {
        [CERT] = {.path = c->tls_cert, .key = "tls.cert", .max_bytes = PEM_MAX},
        [KEY] = {.path = c->tls_key, .key = "tls.key", .max_bytes = PEM_MAX, .forbidden_rights = KEY_FORBIDDEN}};
    const struct reload_file authorities = {.path = c->tls_client_ca, .key = "tls.client_ca", .max_bytes = PEM_MAX};
    const struct tls_config tls = {
        .cert = c->tls_cert, .key = c->tls_key, .client_ca = c->tls_client_ca != NULL, .metrics = a->metrics};
    int rc;
    if ((rc = tls_new(&tls, &a->tls, err)) ||
        (c->tls_client_ca && (rc = open_files(a, &authorities, 1, use_authorities, &a->authorities, err))))
        return rc;
    return open_files(a, pair, 2, use_certificate, &a->certificate, err);
}

int access_open(struct access *a, const struct config *c, struct metrics *metrics, struct err *err) {
    const struct auth_config auth = {.tokens_file = c->tokens_file, .client_ca = c->tls_client_ca, .metrics = metrics};
    const struct reload_file tokens = {
        .path = c->tokens_file, .key = "auth.tokens_file", .max_bytes = TOKENS_FILE_MAX, .forbidden_rights = TOKENS_FILE_FORBIDDEN};
    int rc;
    a->metrics = metrics;
    if ((rc = auth_new(&auth, &a->auth, err)) ||
        (c->tokens_file && (rc = open_files(a, &tokens, 1, use_tokens, &a->tokens, err))) ||
        (c->tls_cert && (rc = open_tls(a, c, err))))
        return rc;
    listeners_watch_transport(a->auth);
    if (c->tcp && !c->tokens_file)
        log_warn("every user of this machine has the role admin on listen.tcp", "listen.tcp=%s fix=\"set auth.tokens_file\"",
                 c->tcp);
    return 0;
}

int access_start(struct access *a, mailbox_wake_fn *wake, void *ctx, struct err *err) {
    struct reload *all[] = {a->tokens, a->authorities, a->certificate};
    int rc;
    for (int i = 0; i < 3; i++)
        if (all[i] && (rc = reload_start(all[i], wake, ctx, err)))
            return rc;
    return 0;
}

void access_close(struct access *a) {
    reload_stop(a->tokens);
    reload_stop(a->authorities);
    reload_stop(a->certificate);
    listeners_watch_transport(NULL);
    tls_free(a->tls);
    auth_free(a->auth);
}

/* ---- while the daemon runs ---- */

void access_reload(struct access *a) {
    struct reload *all[] = {a->tokens, a->authorities, a->certificate};
    for (int i = 0; i < 3; i++)
        if (all[i])
            reload_request(all[i]);
}

void access_tick(struct access *a) {
    if (!a->tokens_due_ms || clock_ms() < a->tokens_due_ms)
        return;
    a->tokens_due_ms = 0;
    reload_request(a->tokens);
}

static void say_tokens(const struct access *a) {
    size_t vanished, valid = auth_count_tokens(a->auth, &vanished);
    log_info("reloaded", "what=\"tokens\" valid=%zu vanished=%zu", valid, vanished);
}

static void say(struct access *a, const char *what, int rc, const struct err *err) {
    char text[800];
    metric_add(metrics_series(a->metrics, "brrd_config_reloads_total", rc ? "failed" : "done"), 1);
    if (rc)
        log_error("not reloaded: the previous version stays in use", "what=\"%s\" error=\"%s\"", what,
                  err_text(err, text, sizeof text));
    else if (!strcmp(what, tokens_name))
        say_tokens(a);
    else
        log_info("reloaded", "what=\"%s\"", what);
}

static void take(struct access *a, struct reload *files, const char *what, use_fn *use, struct http *renewed) {
    for (struct reload_report *r; files && (r = reload_take(files));) {
        struct err err = r->err;
        int rc = r->rc ? r->rc : use(a, r, &err);
        if (rc == 0 && renewed)
            rc = http_renew(renewed, &err);
        say(a, what, rc, &err);
        reload_report_free(r);
    }
}

void access_take(struct access *a, struct http *http) {
    take(a, a->tokens, tokens_name, use_tokens, NULL);
    take(a, a->authorities, "client CAs", use_authorities, NULL);
    take(a, a->certificate, "certificate", use_certificate, http);
}
