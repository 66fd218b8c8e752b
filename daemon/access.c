#include "daemon/access.h"

#include "base/log.h"
#include "daemon/rpc/doors.h"
#include "daemon/server.h"

int access_open(struct access *a, const struct config *c, struct metrics *metrics, struct err *err) {
    const struct auth_config auth = {.tokens_file = c->tokens_file, .client_ca = c->tls_client_ca, .metrics = metrics};
    const struct tls_config tls = {.cert = c->tls_cert, .key = c->tls_key, .client_ca = c->tls_client_ca, .metrics = metrics};
    a->metrics = metrics;
    int rc = auth_new(&auth, &a->auth, err);
    if (!rc && c->tls_cert)
        rc = tls_new(&tls, &a->tls, err);
    if (!rc)
        doors_watch_transport(a->auth);
    if (!rc && c->tcp && !c->tokens_file)
        log_warn("every user of this machine has the role admin on listen.tcp", "listen.tcp=%s fix=\"set auth.tokens_file\"",
                 c->tcp);
    return rc;
}

void access_close(struct access *a) {
    doors_watch_transport(NULL);
    tls_free(a->tls);
    auth_free(a->auth);
}

static void say(struct access *a, const char *what, int rc, const struct err *err) {
    char text[800];
    metric_add(metrics_series(a->metrics, "brrd_config_reloads_total", rc ? "failed" : "done"), 1);
    if (rc)
        log_error("not reloaded: the previous version stays in use", "what=\"%s\" error=\"%s\"", what,
                  err_text(err, text, sizeof text));
    else
        log_info("reloaded", "what=\"%s\"", what);
}

static void reload_auth(struct access *a) {
    struct err err = {0};
    int rc = auth_reload(a->auth, &err);
    say(a, "tokens and client CAs", rc, &err);
}

static void reload_tls(struct access *a, struct http *http) {
    struct err err = {0};
    int rc = tls_reload(a->tls, &err);
    if (!rc && http)
        rc = http_renew(http, &err);
    say(a, "certificate", rc, &err);
}

void access_reload(struct access *a, struct http *http) {
    reload_auth(a);
    if (a->tls)
        reload_tls(a, http);
}

void access_tick(struct access *a, struct http *http) {
    if (auth_changed(a->auth))
        reload_auth(a);
    if (a->tls && tls_changed(a->tls))
        reload_tls(a, http);
}
