/* Signing in: a form sends the token, and a cookie keeps it that scripts cannot read and other sites cannot use. */

#include "daemon/http/form.h"
#include "daemon/http/http_parts.h"

enum { DAY_S = 86400, COOKIE_S = 30 * DAY_S, TOKEN_MAX = 512, NEXT_MAX = 300, HEADER_MAX = 320 };

/* The prefix makes browsers refuse the cookie from anybody but this host over TLS. */
static const char *cookie_name(bool secure) { return secure ? "__Host-brrd" : "brrd"; }

/* The header that sets this cookie; NULL: that forgets it. */
static void put_cookie(const struct http_request *r, const struct cookie *c, char ret[HEADER_MAX]) {
    const bool secure = r->server->http->state.tls != NULL;
    char value[COOKIE_SIZE] = "";
    if (c && !cookie_write(&r->server->http->key, c, value))
        c = NULL;
    str_format(ret, HEADER_MAX, "Set-Cookie: %s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s", cookie_name(secure), value,
               c ? COOKIE_S : 0, secure ? "; Secure" : "");
}

static int64_t next_until(void) { return clock_wall_ms() + INT64_C(1000) * COOKIE_S; }

bool http_cookie(struct http_request *r, enum cookie_kind kind, struct cookie *ret) {
    const struct http *http = r->server->http;
    const char *value = MHD_lookup_connection_value(r->connection, MHD_COOKIE_KIND, cookie_name(http->state.tls != NULL));
    if (!value || !cookie_read(&http->key, value, clock_wall_ms(), ret) || ret->kind != kind)
        return false;
    if (next_until() - ret->until_ms > INT64_C(1000) * DAY_S) {
        struct cookie next = *ret;
        next.until_ms = next_until();
        put_cookie(r, &next, r->renewed);
    }
    return true;
}

struct forwarded {
    const char *person;
    int n;
};

static enum MHD_Result take_name(void *ctx, enum MHD_ValueKind kind, const char *key, const char *value) {
    struct forwarded *to = ctx;
    (void)kind;
    if (!strcasecmp(key, "X-Forwarded-User")) {
        to->person = value;
        to->n++;
    }
    return MHD_YES;
}

const char *http_person(const struct http_request *r) {
    struct forwarded to = {0};
    if (!r->caller.proxy)
        return NULL;
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, take_name, &to);
    return to.n == 1 && to.person ? to.person : "";
}

struct page_view http_view(const struct http_state *state, const struct auth_caller *caller, const struct status *s) {
    const bool open = !auth_has_tokens(state->auth);
    return (struct page_view){.status = s,
                              .all = open || caller->all || caller->role >= ROLE_ADMIN,
                              .principal = caller->name,
                              .signed_in = !open,
                              .answers = open || caller->answer || caller->role >= ROLE_ADMIN,
                              .names = open ? NULL : caller->names,
                              .corrects = open || caller->role >= ROLE_SUBMIT,
                              .readiness = "",
                              SAME_MEMBERS(*state, journal, database, recordings)};
}

static enum MHD_Result go(const struct http_request *r, const char *next, const struct cookie *c) {
    char cookie[HEADER_MAX];
    put_cookie(r, c, cookie);
    return http_go(r, next, cookie);
}

enum MHD_Result http_logout(struct http_request *r) { return go(r, "/", NULL); }

enum MHD_Result http_link(struct http_request *r) {
    struct http *http = r->server->http;
    const char *key = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, "key");
    const char *next = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, "next");
    const struct cookie c = {.kind = COOKIE_LOCAL, .until_ms = next_until()};
    if (!auth_has_tokens(http->state.auth) && key && links_use(&http->links, key, clock_ms()))
        return go(r, next && form_is_own_path(next) ? next : "/", &c);
    return http_answer_error(r, NULL, MHD_HTTP_FORBIDDEN, "This link is used up",
                             "A link opens the pages once, within five minutes. `brrctl page` prints another.");
}

enum MHD_Result http_login(struct http_request *r, const struct str *form) {
    char token[TOKEN_MAX], next[NEXT_MAX], authorization[TOKEN_MAX + 16], peer[AUTH_PEER_SIZE] = "";
    struct auth *auth = r->server->http->state.auth;
    const struct auth_connection connection = {.listener = "http", .role = ROLE_NONE};
    struct auth_refusal refusal = {0};
    form_field(str_cstr(form), "token", token, sizeof token);
    form_field(str_cstr(form), "next", next, sizeof next);
    str_copy(next, sizeof next, form_is_own_path(next) || !strcmp(next, "/streams?wall") ? next : "/");
    str_format(authorization, sizeof authorization, "Bearer %s", token);
    str_copy(peer, sizeof peer, r->caller.peer);
    const struct auth_request request = {
        .connection = &connection, .peer = peer, .authorization = authorization, .authorization_len = strlen(authorization)};
    if (form_is_token(token) && auth_identify(auth, &request, &r->caller, &refusal)) {
        struct cookie c = {.kind = COOKIE_TOKEN, .until_ms = next_until()};
        memcpy(c.digest, r->caller.digest, sizeof c.digest);
        return go(r, next, &c);
    }
    const struct auth_record record = {.method = "/login", .needed = ROLE_READ};
    if (refusal.reason)
        auth_count_refusal(auth, &r->caller, &record, &refusal);
    OWNED(html_done) struct html page = html_of();
    page_login(&page, next,
               !*token          ? "No token was given."
               : refusal.reason ? refusal.err.message
                                : "This is no token: it has characters that no token has.");
    return http_answer_html(r, MHD_HTTP_UNAUTHORIZED, &page);
}
