/* Listening and the life of the server; requests are answered in answer.c. */
#include "daemon/http/http.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/log.h"
#include "daemon/http/answer.h"
#include "daemon/http/event_cache.h"
#include "daemon/http/http_parts.h"
#include "daemon/rpc/tls.h"

enum { SILENT_S = 10, BACKLOG = 128, HOST_SIZE = 256, STACK_BYTES = 512 * 1024 };

/* Of GnuTLS: its secure defaults without TLS before 1.2. */
static const char tls_priorities[] = "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

static int bind_one(const struct addrinfo *at) {
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) && !bind(fd, at->ai_addr, at->ai_addrlen) &&
        !listen(fd, BACKLOG))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* address: "host:port" or "[v6]:port", which the configuration has checked. */
static int listen_at(const char *address, int *ret, struct err *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char host[HOST_SIZE];
    const char *colon = strrchr(address, ':'), *begin = *address == '[' ? address + 1 : address;
    size_t len = (size_t)(colon - begin) - (*address == '[');
    if (len >= sizeof host)
        return err_set(err, ERR_INVALID, "http.listen %.100s: the host is too long", address);
    memcpy(host, begin, len);
    host[len] = '\0';
    int fd = -1, why = getaddrinfo(host, colon + 1, &hints, &found);
    if (why)
        return err_set(err, ERR_INVALID, "http.listen %s: %s", address, gai_strerror(why));
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = bind_one(at);
    freeaddrinfo(found);
    if (fd < 0 && errno == EADDRINUSE)
        return err_set(err, ERR_EXISTS, "another program listens on %s; choose another port, or none", address);
    if (fd < 0)
        return err_errno(err, errno, "cannot listen on %s; choose another address, or none", address);
    *ret = fd;
    return 0;
}

/* A connection has begun or ends: its descriptor is open in both cases. */
static void on_connection(void *ctx, struct MHD_Connection *connection, void **place, enum MHD_ConnectionNotificationCode code) {
    struct patience *patience = ((struct http_server *)ctx)->http->patience;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        patience_leave(patience, *place);
    else
        *place = info ? patience_enter(patience, info->connect_fd, clock_ms()) : NULL;
}

static void server_stop(struct http_server *s) {
    if (!s)
        return;
    atomic_store(&s->ending, true);
    MHD_stop_daemon(s->daemon);
    free(s);
}

/* A server on the common socket, under the present certificate. */
static struct http_server *begin(struct http *http, struct err *err) {
    struct certificate_pair pair = {0};
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
                     (http->state.tls ? MHD_USE_TLS : 0);
    if (http->state.tls && tls_pair(http->state.tls, &pair, err))
        return NULL;
    const struct MHD_OptionItem secure[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, pair.certificate},
                                            {MHD_OPTION_HTTPS_MEM_KEY, 0, pair.key},
                                            {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_priorities},
                                            {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    struct http_server *s = calloc(1, sizeof *s);
    int fd = s ? dup(http->listener) : -1;
    if (s)
        s->http = http;
    if (fd >= 0)
        s->daemon =
            MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                             (unsigned)HTTP_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)HTTP_OF_ADDRESS,
                             MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES,
                             MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
                             MHD_OPTION_ARRAY, http->state.tls ? secure : plain, MHD_OPTION_END);
    certificate_pair_done(&pair);
    if (s && s->daemon)
        return s;
    err_set(err, ERR_UNAVAILABLE, "libmicrohttpd cannot serve http.listen%s", http->state.tls ? " with tls.cert and tls.key" : "");
    if (fd >= 0)
        close(fd);
    free(s);
    return NULL;
}

static int open_listener(struct http *http, const char *address, struct err *err) {
    int rc = listen_at(address, &http->listener, err);
    if (rc)
        return rc;
    http->current = begin(http, err);
    return http->current ? 0 : err->code;
}

int http_start(const char *address, const struct http_state *state, struct http **ret, struct err *err) {
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return err_set(err, ERR_EXHAUSTED, "out of memory for HTTP");
    http->state = *state;
    http->listener = -1;
    links_init(&http->links);
    http->address = strdup(address);
    struct err why = {0};
    if (cookie_key_open(state->cookie_key, &http->key, &why))
        log_warn("who signs in at the pages is signed out at the next start", "cause=\"%s\"", why.message);
    http->event_texts = event_cache_new();
    http->seats = event_seats_new();
    http->patience = patience_new();
    int rc = http->address && http->event_texts && http->seats && http->patience
                 ? open_listener(http, address, err)
                 : err_set(err, ERR_EXHAUSTED, "out of memory for HTTP");
    if (rc)
        http_stop(http);
    else
        *ret = http;
    return rc;
}

void http_tick(struct http *http) {
    if (http)
        patience_look(http->patience, clock_ms());
}

int http_page_url(struct http *http, const char *path, char *ret, size_t size, struct err *err) {
    if (!http)
        return err_set(err, ERR_UNAVAILABLE, "the daemon has no pages: http.listen is none, or could not be used");
    char key[LINK_KEY_SIZE] = "", host[HOST_SIZE];
    const char *port = strrchr(http->address, ':');
    const bool needs_key = !auth_has_tokens(http->state.auth) && !http->state.open;
    str_format(host, sizeof host, "%.*s", (int)(port - http->address), http->address);
    const bool any = !strcmp(host, "0.0.0.0") || !strcmp(host, "[::]");
    if (needs_key && !links_make(&http->links, clock_ms(), key))
        return err_set(err, ERR_INTERNAL, "the system gives no random numbers for a link");
    str_format(ret, size, "%s://%s%s%s%s%s%s", http->state.tls ? "https" : "http", any ? "localhost" : host, port,
               needs_key ? "/link?key=" : "", key, needs_key && path[1] ? "&next=" : "", needs_key && !path[1] ? "" : path);
    return 0;
}

int http_renew(struct http *http, struct err *err) {
    if (!http || !http->state.tls)
        return 0;
    struct http_server *next = begin(http, err);
    if (!next)
        return err->code;
    server_stop(http->retired);
    int fd = MHD_quiesce_daemon(http->current->daemon);
    if (fd >= 0)
        close(fd);
    atomic_store(&http->current->ending, true); /* its readers come back under the new certificate */
    http->retired = http->current;
    http->current = next;
    return 0;
}

void http_stop(struct http *http) {
    if (!http)
        return;
    status_board_stop(http->state.board);
    server_stop(http->retired);
    server_stop(http->current);
    if (http->listener >= 0)
        close(http->listener);
    event_cache_free(http->event_texts);
    links_done(&http->links);
    free(http->address);
    event_seats_free(http->seats);
    patience_free(http->patience);
    free(http);
}
