/* HTTP on libmicrohttpd's own thread. It touches nothing of the loop: the metrics registry, `serving` and the
 * device's verdict may be read on any thread. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "daemon/server.h"
#include "daemon/versions.h"

struct http {
    struct MHD_Daemon *daemon;
    struct metrics *metrics;
    struct http_state state;
};

/* Whether new work is taken, and a line about it. */
static bool say_readiness(const struct http *http, struct str *body) {
    const struct device_verdict *bad = device_watch_verdict(http->state.watch);
    bool serving = atomic_load(http->state.serving);
    if (!serving)
        str_puts(body, "not ready: the daemon is starting or stopping\n");
    else if (bad)
        str_printf(body, "not ready: the device takes no new work: %s; %s\n", bad->why, bad->mend);
    else
        str_puts(body, "ready\n");
    return serving && !bad;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type, const struct str *body) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->len, (void *)(uintptr_t)str_cstr(body), MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state) {
    (void)version, (void)upload, (void)state;
    struct http *http = ctx;
    struct str body;
    unsigned status = MHD_HTTP_OK;
    const char *type = "text/plain; charset=utf-8";
    *upload_size = 0;
    str_init(&body, 8u << 20);
    if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
        status = MHD_HTTP_METHOD_NOT_ALLOWED;
    } else if (!strcmp(url, "/metrics")) {
        type = "text/plain; version=0.0.4; charset=utf-8";
        metrics_print(http->metrics, &body);
    } else if (!strcmp(url, "/healthz")) {
        str_puts(&body, "ok\n");
    } else if (!strcmp(url, "/readyz")) {
        status = say_readiness(http, &body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    } else if (!strcmp(url, "/")) {
        str_printf(&body, "brrd %s (%s): %s\n", versions_own(), versions_revision(),
                   atomic_load(http->state.serving) ? "serving" : "not serving");
        say_readiness(http, &body);
        str_printf(&body, "%s\n/metrics /healthz /readyz\n", BRR_NOTICE);
    } else {
        status = MHD_HTTP_NOT_FOUND;
        str_puts(&body, "not found\n");
    }
    enum MHD_Result result = answer(connection, status, type, &body);
    str_done(&body);
    return result;
}

int http_start(const char *address, struct metrics *metrics, const struct http_state *state, struct http **ret, struct err *err) {
    struct sockaddr_in bind = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int64_t port = 0;
    str_to_i64(strrchr(address, ':') + 1, &port); /* config checked it */
    bind.sin_port = htons((uint16_t)port);
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return err_set(err, ERR_EXHAUSTED, "out of memory for HTTP");
    http->metrics = metrics;
    http->state = *state;
    http->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, (uint16_t)port, NULL, NULL, on_request, http,
                                    MHD_OPTION_SOCK_ADDR, &bind, MHD_OPTION_CONNECTION_LIMIT, 64u, MHD_OPTION_CONNECTION_TIMEOUT,
                                    10u, MHD_OPTION_END);
    if (!http->daemon) {
        free(http);
        return err_set(err, ERR_UNAVAILABLE, "cannot listen on http.listen %s; is the port taken? choose another, or none",
                       address);
    }
    *ret = http;
    return 0;
}

void http_stop(struct http *http) {
    if (!http)
        return;
    MHD_stop_daemon(http->daemon);
    free(http);
}
