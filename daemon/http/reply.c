/* Answers that are whole, with the headers that all of them have. */

#include "daemon/http/http_parts.h"

enum { LOCATION_MAX = 400 };

/* Pages load their own style, script and pictures, and nothing from anywhere else; pictures of jobs load nothing. */
static const char page_policy[] = "Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; img-src "
                                  "'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
static const char picture_policy[] = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; sandbox";

static void put_header(struct MHD_Response *response, const char *line) {
    char name[64];
    const char *colon = strchr(line, ':');
    if (colon && str_format(name, sizeof name, "%.*s", (int)(colon - line), line))
        MHD_add_response_header(response, name, colon + 2);
}

enum MHD_Result http_answer(struct MHD_Connection *connection, const struct http_answer *a) {
    void *data = (void *)(uintptr_t)a->data;
    struct MHD_Response *response = a->sent ? MHD_create_response_from_buffer_with_free_callback(a->len, data, a->sent)
                                            : MHD_create_response_from_buffer(a->len, data, MHD_RESPMEM_MUST_COPY);
    if (!response && a->sent)
        a->sent(data);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", a->type ? a->type : "text/plain; charset=utf-8");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (a->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"brrd\"");
    if (a->document) {
        put_header(response, a->type && !strcmp(a->type, "image/svg+xml") ? picture_policy : page_policy);
        MHD_add_response_header(response, "Referrer-Policy",
                                "same-origin" /* of own forms: with "no-referrer" their Origin would be "null" */);
        MHD_add_response_header(response, "Cache-Control", "no-store");
    }
    for (size_t i = 0; i < sizeof a->headers / sizeof *a->headers && a->headers[i]; i++)
        put_header(response, a->headers[i]);
    enum MHD_Result result = MHD_queue_response(connection, a->status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result http_answer_text(const struct http_request *r, unsigned status, const char *type, const struct str *body) {
    return http_answer(
        r->connection,
        &(struct http_answer){
            .status = status, .type = type, .data = str_cstr(body), .len = body->len, .headers = {"Cache-Control: no-store"}});
}

enum MHD_Result http_go(const struct http_request *r, const char *path, const char *cookie) {
    char location[LOCATION_MAX];
    str_format(location, sizeof location, "Location: %s", path);
    const struct http_answer answer = {
        .status = MHD_HTTP_SEE_OTHER, .data = "", .headers = {location, "Cache-Control: no-store", cookie}};
    return http_answer(r->connection, &answer);
}

enum MHD_Result http_answer_line(const struct http_request *r, unsigned status, const char *line) {
    OWNED(str_done) struct str text = str_of(4096);
    str_printf(&text, "%s\n", line);
    return http_answer_text(r, status, NULL, &text);
}

unsigned http_status(int rc) {
    switch (rc) {
    case ERR_INVALID:
        return MHD_HTTP_BAD_REQUEST;
    case ERR_UNAUTHENTICATED:
        return MHD_HTTP_UNAUTHORIZED;
    case ERR_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case ERR_DENIED:
        return MHD_HTTP_FORBIDDEN;
    case ERR_ABORTED:
    case ERR_EXISTS:
    case ERR_PRECONDITION:
        return MHD_HTTP_CONFLICT;
    default:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    }
}

enum MHD_Result http_answer_html(const struct http_request *r, unsigned status, const struct html *page) {
    const bool whole = str_ok(&page->out);
    static const char sorry[] = "the page is too long\n";
    return http_answer(r->connection, &(struct http_answer){.status = whole ? status : MHD_HTTP_INTERNAL_SERVER_ERROR,
                                                            .type = whole ? "text/html; charset=utf-8" : NULL,
                                                            .data = whole ? str_cstr(&page->out) : sorry,
                                                            .len = whole ? page->out.len : strlen(sorry),
                                                            .headers = {*r->renewed ? r->renewed : NULL},
                                                            .document = true});
}

enum MHD_Result http_answer_error(const struct http_request *r, const struct page_view *v, unsigned status, const char *title,
                                  const char *text) {
    OWNED(html_done) struct html page = html_of();
    page_error(&page, v, title, text);
    return http_answer_html(r, status, &page);
}

static void be_patient(struct http_server *s, struct MHD_Connection *connection, int64_t until_ms) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info)
        patience_until(s->http->patience, info->socket_context, until_ms);
}

void http_be_patient(const struct http_request *r, bool for_ever) {
    be_patient(r->server, r->connection, for_ever ? INT64_MAX : clock_ms() + PATIENCE_ANSWER_MS);
}

void http_await_next(struct http_server *s, struct MHD_Connection *connection) {
    be_patient(s, connection, clock_ms() + PATIENCE_READ_MS);
}
