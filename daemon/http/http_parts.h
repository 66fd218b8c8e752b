/* http_parts: the server's state and the kinds of answers, for the files of daemon/http; nobody else includes it. */
#pragma once
#include <microhttpd.h>

#include "daemon/alarms/desk.h"
#include "daemon/http/event_seats.h"
#include "daemon/http/http.h"
#include "daemon/http/link.h"
#include "daemon/http/patience.h"
#include "daemon/page/page.h"
#include "trust/cookie.h"

/* EVENT_SEATS of the connections may be streams of events. */
enum { HTTP_CONNECTIONS = 128, HTTP_OF_ADDRESS = 32 };

/* One libmicrohttpd daemon: the present one, or that of the certificate before, which finishes what it began. */
struct http_server {
    struct http *http;
    struct MHD_Daemon *daemon;
    atomic_bool ending; /* its streams of events end */
};
struct http {
    struct http_server *current, *retired;
    struct http_state state;
    int listener;
    char *address; /* http.listen */
    struct cookie_key key;
    struct links links;
    struct event_seats *seats;
    struct patience *patience;
    struct event_cache *event_texts;
};

/* A request on its way to its answer; on the stack of its thread. */
struct http_request {
    struct http_server *server;
    struct MHD_Connection *connection;
    const char *url;
    struct auth_caller caller; /* after http_admit */
    bool browser;              /* it wants HTML */
    char renewed[320];         /* "Set-Cookie: …", to keep a reader signed in; "" = none */
};

/* The view of a caller: the beds of this status that the caller may see, and its rights. */
struct page_view http_view(const struct http_state *state, const struct auth_caller *caller, const struct status *s);

/* An answer that is whole. Headers are "name: value"; NULL ends them. */
struct http_answer {
    unsigned status;
    const char *type; /* NULL: plain text */
    const void *data;
    size_t len;
    const char *headers[4];
    bool document;            /* a page or a picture: what it may load is limited */
    void (*sent)(void *data); /* gets the data, which it frees, when the answer has left; NULL: they are copied */
};
enum MHD_Result http_answer(struct MHD_Connection *connection, const struct http_answer *a);
/* A text that nobody keeps. */
enum MHD_Result http_answer_text(const struct http_request *r, unsigned status, const char *type, const struct str *body);
/* 303; cookie: its header, or NULL. */
enum MHD_Result http_go(const struct http_request *r, const char *path, const char *cookie);
enum MHD_Result http_answer_line(const struct http_request *r, unsigned status, const char *line);
unsigned http_status(int rc); /* of an error: ERR_NOT_FOUND is 404 */
enum MHD_Result http_answer_html(const struct http_request *r, unsigned status, const struct html *page);
/* A page with these words; v: for a reader who is known, or NULL. */
enum MHD_Result http_answer_error(const struct http_request *r, const struct page_view *v, unsigned status, const char *title,
                                  const char *text);
/* Whom the caller, a proxy that signs people in (token's word `proxy`), names in X-Forwarded-User: "" where it names nobody, or has
 * the header twice. NULL: the caller is none, and forms say who answers. Lives as long as the request. */
const char *http_person(const struct http_request *r);

/* The body of a POST; NULL: it was too long. */
static inline const char *http_form_text(const struct str *form) { return str_ok(form) ? str_cstr(form) : NULL; }
/* The caller has been admitted. */
enum MHD_Result http_answer_alarm(struct http_request *r, const struct str *form);
/* /recordings/ID/answers and /recordings/ID/labels.tsv; the first is also the address of the form. */
bool http_is_recording_answer(const char *url);
bool http_is_recording_form(const char *url);
enum MHD_Result http_recording_answers(const struct http_request *r, const struct page_view *v);
enum MHD_Result http_correct_recording(const struct http_request *r, const struct page_view *v, const struct str *sent);
enum MHD_Result http_login(struct http_request *r, const struct str *form);
enum MHD_Result http_logout(struct http_request *r);
/* What the request's cookie says, if it is one of this daemon and of this kind. If it is a day old, r->renewed is its successor. */
bool http_cookie(struct http_request *r, enum cookie_kind kind, struct cookie *ret);
/* GET /link?key=…: signs the browser in once. */
enum MHD_Result http_link(struct http_request *r);

/* How long the connection may take from now on: as long as it likes, if the answer is a stream of events. */
void http_be_patient(const struct http_request *r, bool for_ever);
/* The answer has been sent: the next request must come within its time. */
void http_await_next(struct http_server *server, struct MHD_Connection *connection);

/* The method that has this address as its route; NULL: none. */
const struct rpc_method *http_api_method(const struct http_request *r);
/* Its answer as JSON. The caller has been admitted. */
enum MHD_Result http_api(const struct http_request *r);
/* Why there is none, as JSON: a brr.v1.ErrorDetail. */
enum MHD_Result http_api_refuse(const struct http_request *r, unsigned status, const char *reason, const char *message,
                                int64_t retry_after_ms);

/* Server-sent events for a page, until the client goes, its token ends or the server stops. */
enum MHD_Result http_follow(struct http_request *r);
