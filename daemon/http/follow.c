/* Server-sent events: what has changed since the event before, each second and at each alarm. A client that reads slowly gets
 * fewer of them; the status of its last event is all that is kept for it. */

#include "daemon/http/event_cache.h"
#include "daemon/http/http_parts.h"

/* After DAY_MS a stream ends, and the browser, which asks again at once, gets a new cookie: a page that stays open stays signed in.
 */
enum { BLOCK_BYTES = 16 * 1024, WAIT_MS = 1000, QUIET_MS = 10 * 1000, DAY_MS = 86400 * 1000 };

struct follow {
    struct http_server *server;
    struct auth_caller caller;
    const struct status *last;
    char path[EVENT_CACHE_PATH];
    const struct event_text *event; /* the newest one; NULL before the first */
    const char *rest;               /* what is to be sent: of the event, or a fixed text */
    size_t rest_len;
    int64_t said_ms, begun_ms;
};

static void say(struct follow *f, const char *text, size_t len) {
    f->rest = text;
    f->rest_len = len;
    f->said_ms = clock_ms();
}

static void say_fixed(struct follow *f, const char *text) { say(f, text, strlen(text)); }

/* False: there is no memory for the event. */
static bool say_event(struct follow *f, const struct status *now) {
    const struct http_state *state = &f->server->http->state;
    const struct page_view before = http_view(state, &f->caller, f->last), after = http_view(state, &f->caller, now);
    event_text_drop(f->event);
    f->event = event_cache_get(f->server->http->event_texts, f->last ? &before : NULL, &after, f->path);
    status_drop(f->last);
    f->last = now;
    if (f->event)
        say(f, str_cstr(&f->event->text), f->event->text.len);
    return f->event;
}

/* Waits for the next text; there may be none yet. False: the stream is over. */
static bool say_next(struct follow *f) {
    const struct http_state *state = &f->server->http->state;
    struct auth_refusal refusal;
    const struct status *now = status_await(state->board, f->last ? f->last->number : 0, WAIT_MS);
    if (atomic_load(&f->server->ending) || clock_ms() - f->begun_ms > DAY_MS ||
        !auth_still_valid(state->auth, &f->caller, &refusal)) {
        status_drop(now);
        return false;
    }
    if (now)
        return say_event(f, now);
    if (clock_ms() - f->said_ms > QUIET_MS)
        say_fixed(f, ":\n\n"); /* finds out whether the client is still there */
    return true;
}

static ssize_t give(void *ctx, uint64_t at, char *buf, size_t max) {
    struct follow *f = ctx;
    (void)at;
    while (!f->rest_len)
        if (!say_next(f))
            return MHD_CONTENT_READER_END_OF_STREAM;
    size_t n = f->rest_len < max ? f->rest_len : max;
    memcpy(buf, f->rest, n);
    f->rest += n;
    f->rest_len -= n;
    return (ssize_t)n;
}

static void follow_free(void *ctx) {
    struct follow *f = ctx;
    event_seats_leave(f->server->http->seats, &f->caller);
    status_drop(f->last);
    event_text_drop(f->event);
    free(f);
}

static enum MHD_Result refuse(const struct http_request *r) {
    static const char text[] = "too many pages are open at this daemon, or with this token; close some\n";
    return http_answer(r->connection, &(struct http_answer){.status = MHD_HTTP_SERVICE_UNAVAILABLE,
                                                            .data = text,
                                                            .len = strlen(text),
                                                            .headers = {"Retry-After: 10", "Cache-Control: no-store"}});
}

enum MHD_Result http_follow(struct http_request *r) {
    struct http *http = r->server->http;
    const char *path = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, "page");
    struct follow *f = calloc(1, sizeof *f);
    if (f)
        f->caller = r->caller;
    if (!f || !event_seats_take(http->seats, &f->caller, !auth_has_tokens(http->state.auth))) {
        free(f);
        return refuse(r);
    }
    f->server = r->server;
    f->begun_ms = clock_ms();
    http_be_patient(r, true);
    str_copy(f->path, sizeof f->path, path ? path : "/");
    say_fixed(f, "retry: 2000\n\n");
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, give, f, follow_free);
    if (!response) {
        follow_free(f);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (*r->renewed)
        MHD_add_response_header(response, "Set-Cookie", r->renewed + strlen("Set-Cookie: "));
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* proxies pass events on at once */
    enum MHD_Result result = MHD_queue_response(r->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}
