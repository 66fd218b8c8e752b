/* Signing in: a form sends the token, and a cookie keeps it that scripts cannot read and other sites cannot use. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "daemon/http/form.h"
#include "daemon/http/http_parts.h"

enum { FORM_BYTES = 4096, COOKIE_S = 30 * 86400, TOKEN_MAX = 512, NEXT_MAX = 300 };

/* The prefix makes browsers refuse the cookie from anybody but this host over TLS. */
static const char *cookie_name(bool secure) { return secure ? "__Host-brrd" : "brrd"; }

struct http_form {
    struct str body;
};

struct http_form *http_form_new(void) {
    struct http_form *f = calloc(1, sizeof *f);
    if (f)
        str_init(&f->body, FORM_BYTES);
    return f;
}

void http_form_free(struct http_form *f) {
    if (!f)
        return;
    str_done(&f->body);
    free(f);
}

void http_form_add(struct http_form *f, const char *data, size_t len) { str_append(&f->body, data, len); }

bool http_cookie(struct MHD_Connection *connection, bool secure, char *ret, size_t size) {
    const char *value = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, cookie_name(secure));
    return value && form_is_token(value) && strlen(value) < TOKEN_MAX && str_format(ret, size, "Bearer %s", value);
}

static enum MHD_Result go(const struct http_request *r, const char *next, const char *value, int age_s) {
    char cookie[TOKEN_MAX + 160], location[NEXT_MAX + 16];
    const bool secure = r->server->http->state.tls != NULL;
    str_format(cookie, sizeof cookie, "Set-Cookie: %s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s", cookie_name(secure),
               value, age_s, secure ? "; Secure" : "");
    str_format(location, sizeof location, "Location: %s", next);
    return http_answer(r->connection, &(struct http_answer){.status = MHD_HTTP_SEE_OTHER,
                                                            .type = "text/plain; charset=utf-8",
                                                            .data = "",
                                                            .headers = {cookie, location, "Cache-Control: no-store"}});
}

enum MHD_Result http_logout(struct http_request *r) { return go(r, "/", "", 0); }

enum MHD_Result http_login(struct http_request *r, const struct http_form *f) {
    char token[TOKEN_MAX], next[NEXT_MAX], authorization[TOKEN_MAX + 16], peer[AUTH_PEER_SIZE] = "";
    struct auth *auth = r->server->http->state.auth;
    const struct auth_connection connection = {.listener = "http", .role = ROLE_NONE};
    struct auth_refusal refusal = {0};
    form_field(str_cstr(&f->body), "token", token, sizeof token);
    form_field(str_cstr(&f->body), "next", next, sizeof next);
    str_copy(next, sizeof next, form_is_own_path(next) ? next : "/");
    str_format(authorization, sizeof authorization, "Bearer %s", token);
    str_copy(peer, sizeof peer, r->caller.peer);
    const struct auth_request request = {
        .connection = &connection, .peer = peer, .authorization = authorization, .authorization_len = strlen(authorization)};
    if (form_is_token(token) && auth_identify(auth, &request, &r->caller, &refusal))
        return go(r, next, token, COOKIE_S);
    const struct auth_record record = {.method = "/login", .needed = ROLE_READ};
    if (refusal.reason)
        auth_count_refusal(auth, &r->caller, &record, &refusal);
    struct html page;
    html_init(&page);
    page_login(&page, next,
               !*token          ? "No token was given."
               : refusal.reason ? refusal.err.message
                                : "This is no token: it has characters that no token has.");
    enum MHD_Result result = http_answer_html(r, MHD_HTTP_UNAUTHORIZED, &page);
    html_done(&page);
    return result;
}
