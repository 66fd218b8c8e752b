/* HTTP on libmicrohttpd's own thread, over TLS where the daemon has a certificate. It touches nothing of the loop: the metrics
 * registry, `serving`, the device's verdict and the callers' table may be used on any thread. */
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "daemon/hosts/device_hosts.h"
#include "daemon/models/models.h"
#include "daemon/rpc/tls.h"
#include "daemon/server.h"
#include "daemon/versions.h"

enum { CONNECTIONS = 64, CONNECTIONS_OF_ADDRESS = 16, CONNECTION_S = 10, BACKLOG = 128, HOST_SIZE = 256 };

/* Of GnuTLS: its secure defaults without TLS before 1.2. */
static const char tls_priorities[] = "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

struct http {
    struct MHD_Daemon *daemon;
    struct MHD_Daemon *retired; /* finishes what it began under the certificate before; at most one */
    struct metrics *metrics;
    struct http_state state;
    int listener;
};

static void say_loading(const struct http *http, struct str *body) {
    char file[MODEL_LOADER_TEXT];
    bool waits = device_hosts_waits(http->state.hosts, file);
    str_printf(body, "not ready: models that serve are being loaded%s%s\n", waits ? "; the daemon " : "", waits ? file : "");
}

/* True if the daemon takes new work; `body` gets a line with the state. */
static bool say_readiness(const struct http *http, struct str *body) {
    const struct device_verdict *bad = device_watch_verdict(http->state.watch);
    bool serving = atomic_load(http->state.serving), writable = atomic_load(http->state.writable);
    bool full = atomic_load(http->state.results_full);
    bool device_serves = atomic_load(http->state.device_serves);
    int models = atomic_load(http->state.models), unsaved = atomic_load(http->state.unsaved);
    if (!serving)
        str_puts(body, "not ready: the daemon is starting or stopping\n");
    else if (bad)
        str_printf(body, "not ready: the device takes no new work: %s; %s\n", bad->why, bad->fix);
    else if (!device_serves)
        str_puts(body, "not ready: the device hangs in an order; systemd restarts a daemon that stays so\n");
    else if (!writable)
        str_puts(body,
                 "not ready: the job database cannot be written; free space on the volume of jobs.database, or see the log\n");
    else if (models == MODELS_LOADING)
        say_loading(http, body);
    else if (models == MODELS_FAILED)
        str_puts(body, "not ready: a model that serves could not be loaded; the log says why; load it again, or unload it\n");
    else if (full)
        str_puts(body, "not ready: the volume of paths.results is full; free space on it, or delete jobs (`brrctl delete`)\n");
    else if (unsaved)
        str_printf(body,
                   "not ready: snapshots of %d live stream%s cannot be written (durable: false); free space on the volume of "
                   "paths.results, or see the log\n",
                   unsaved, unsaved == 1 ? "" : "s");
    else
        str_puts(body, "ready\n");
    return serving && !bad && device_serves && writable && models == MODELS_WARM && !full && !unsaved;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type, const struct str *body) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->len, (void *)(uintptr_t)str_cstr(body), MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"brrd\"");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* "10.0.0.7:4711", as auth_caller has it. */
static const char *peer_of(struct MHD_Connection *connection, char ret[AUTH_PEER_SIZE]) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char host[HOST_SIZE], port[16];
    const socklen_t len =
        info && info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (!info || getnameinfo(info->client_addr, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        return "unknown";
    str_format(ret, AUTH_PEER_SIZE, len == sizeof(struct sockaddr_in6) ? "[%s]:%s" : "%s:%s", host, port);
    return ret;
}

/* Metrics and the status page need the role read where tokens are configured. Gives the status, and the reason in the body. */
static unsigned admit(const struct http *http, struct MHD_Connection *connection, const char *url, struct str *body) {
    struct auth *auth = http->state.auth;
    const struct auth_door door = {.listener = "http", .role = auth_has_tokens(auth) ? ROLE_NONE : ROLE_READ};
    const char *header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    char peer[AUTH_PEER_SIZE];
    const struct auth_request request = {.door = &door,
                                         .peer = peer_of(connection, peer),
                                         .authorization = header,
                                         .authorization_len = header ? strlen(header) : 0};
    const struct auth_record record = {.method = url, .needed = ROLE_READ, .outcome = "ok"};
    struct auth_caller caller;
    struct auth_refusal refusal;
    if (!auth_identify(auth, &request, &caller, &refusal)) {
        auth_count_refusal(auth, &caller, &record, &refusal);
        str_printf(body, "%s: %s\n", refusal.reason, refusal.err.message);
        return MHD_HTTP_UNAUTHORIZED;
    }
    auth_audit(&caller, &record);
    return MHD_HTTP_OK;
}

static void print_status(const struct http *http, struct str *body) {
    str_printf(body, "brrd %s (%s): %s\n", versions_own(), versions_revision(),
               atomic_load(http->state.serving) ? "serving" : "not serving");
    say_readiness(http, body);
    str_printf(body, "%s\n/metrics /healthz /readyz\n", BRR_NOTICE);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state) {
    (void)version, (void)upload, (void)state;
    struct http *http = ctx;
    struct str body;
    unsigned status = MHD_HTTP_OK;
    const char *type = "text/plain; charset=utf-8";
    bool metrics = !strcmp(url, "/metrics"), page = !strcmp(url, "/");
    *upload_size = 0;
    str_init(&body, 8u << 20);
    if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
        status = MHD_HTTP_METHOD_NOT_ALLOWED;
    } else if (metrics || page) {
        status = admit(http, connection, metrics ? "/metrics" : "/", &body);
        if (status == MHD_HTTP_OK && metrics) {
            type = "text/plain; version=0.0.4; charset=utf-8";
            metrics_print(http->metrics, &body);
        } else if (status == MHD_HTTP_OK) {
            print_status(http, &body);
        }
    } else if (!strcmp(url, "/healthz")) {
        str_puts(&body, "ok\n");
    } else if (!strcmp(url, "/readyz")) {
        status = say_readiness(http, &body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    } else {
        status = MHD_HTTP_NOT_FOUND;
        str_puts(&body, "not found\n");
    }
    enum MHD_Result result = answer(connection, status, type, &body);
    str_done(&body);
    return result;
}

/* ---- listening ---- */

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
    if (fd < 0)
        return err_errno(err, errno, "cannot listen on http.listen %s; is the port taken? choose another, or none", address);
    *ret = fd;
    return 0;
}

/* A server on the common socket, under the present certificate. */
static struct MHD_Daemon *begin(struct http *http, struct err *err) {
    struct certificate_pair pair = {0};
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_USE_ITC | (http->state.tls ? MHD_USE_TLS : 0);
    if (http->state.tls && tls_pair(http->state.tls, &pair, err))
        return NULL;
    const struct MHD_OptionItem secure[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, pair.certificate},
                                            {MHD_OPTION_HTTPS_MEM_KEY, 0, pair.key},
                                            {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_priorities},
                                            {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    int fd = dup(http->listener);
    struct MHD_Daemon *daemon =
        fd < 0 ? NULL
               : MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                  (unsigned)CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)CONNECTIONS_OF_ADDRESS,
                                  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_S, MHD_OPTION_ARRAY,
                                  http->state.tls ? secure : plain, MHD_OPTION_END);
    if (!daemon) {
        err_set(err, ERR_UNAVAILABLE, "libmicrohttpd cannot serve http.listen%s",
                http->state.tls ? " with tls.cert and tls.key" : "");
        if (fd >= 0)
            close(fd);
    }
    certificate_pair_done(&pair);
    return daemon;
}

static int open_listener(struct http *http, const char *address, struct err *err) {
    int rc = listen_at(address, &http->listener, err);
    if (rc)
        return rc;
    http->daemon = begin(http, err);
    return http->daemon ? 0 : err->code;
}

int http_start(const char *address, struct metrics *metrics, const struct http_state *state, struct http **ret, struct err *err) {
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return err_set(err, ERR_EXHAUSTED, "out of memory for HTTP");
    *http = (struct http){.metrics = metrics, .state = *state, .listener = -1};
    int rc = open_listener(http, address, err);
    if (rc) {
        http_stop(http);
        return rc;
    }
    *ret = http;
    return 0;
}

static void stop(struct MHD_Daemon *daemon) {
    if (daemon)
        MHD_stop_daemon(daemon);
}

int http_renew(struct http *http, struct err *err) {
    if (!http || !http->state.tls)
        return 0;
    struct MHD_Daemon *next = begin(http, err);
    if (!next)
        return err->code;
    stop(http->retired);
    int fd = MHD_quiesce_daemon(http->daemon);
    if (fd >= 0)
        close(fd);
    http->retired = http->daemon;
    http->daemon = next;
    return 0;
}

void http_stop(struct http *http) {
    if (!http)
        return;
    stop(http->retired);
    stop(http->daemon);
    if (http->listener >= 0)
        close(http->listener);
    free(http);
}
