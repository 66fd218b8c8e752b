#include "client/conn.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "base/user_paths.h"
#include "brr/v1/common.pb-c.h"
#include "client/credentials.h"
#include "client/proxy.h"

enum { KEEPALIVE_MS = 30000, KEEPALIVE_TIMEOUT_MS = 20000, ENDPOINT_SIZE = 256 };
enum { CONNECT_MS = 10000 }; /* for TCP and TLS handshakes together */

struct server {
    grpc_channel *channel, *retired; /* retired: the one before, whose last calls may still be failing; or NULL */
    char endpoint[ENDPOINT_SIZE];
};

struct brr_client {
    grpc_channel_credentials *credentials;
    pthread_mutex_t lock; /* the channels */
    struct server servers[CONN_MAX_ENDPOINTS];
    int n_servers;
    bool secure, has_token;
    grpc_slice authorization; /* "Bearer TOKEN" */
};

/* The subject of a completion; its address is the tag. */
enum { TAG_START, TAG_SEND, TAG_CLOSE, TAG_RECEIVE, TAG_STATUS, TAGS };

struct conn_tag {
    struct conn_call *call;
};

struct conn_queue {
    grpc_completion_queue *queue;
    int calls; /* that are not freed yet */
};

struct conn_call {
    grpc_call *call;
    struct conn_queue *queue;
    void *owner; /* NULL once the call was closed and only waits for its last events */
    bool own_queue;
    char endpoint[ENDPOINT_SIZE];
    bool secure;
    struct conn_tag tags[TAGS];
    int pending;
    bool busy[TAGS];
    bool broken, close_wanted, closed, no_more, status_known;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    grpc_byte_buffer *received;
};

int conn_error(struct brr_error *err, int code, const char *fmt, ...) {
    if (!err)
        return code;
    *err = (struct brr_error){.code = code};
    STR_ARGUMENTS(err->message, fmt);
    return code;
}

const char *brr_code_name(int code) { return err_name(code); }

/* "unix:/path" or "host:port". */
static bool well_formed(const char *endpoint) {
    int64_t port;
    if (str_starts(endpoint, "unix:"))
        return strchr(endpoint, '/') && strlen(strchr(endpoint, '/')) > 1;
    const char *colon = strrchr(endpoint, ':');
    return colon && colon != endpoint && !strchr(endpoint, '/') && str_to_i64(colon + 1, &port) && port > 0 && port < 65536;
}

static grpc_channel_credentials *make_credentials(const struct credentials *c) {
    grpc_ssl_pem_key_cert_pair pair = {c->key, c->certificate};
    return c->ca ? grpc_ssl_credentials_create(c->ca, c->key ? &pair : NULL, NULL, NULL) : grpc_insecure_credentials_create();
}

/* Without a pool of its own a channel would share connections, and failed attempts, with other channels of the process. */
static grpc_channel *make_channel(const struct brr_client *c, const struct server *server) {
    static char receive[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, keepalive[] = GRPC_ARG_KEEPALIVE_TIME_MS,
                keepalive_timeout[] = GRPC_ARG_KEEPALIVE_TIMEOUT_MS, connect[] = GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                own_connection[] = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, proxy[] = GRPC_ARG_ENABLE_HTTP_PROXY;
    grpc_arg list[] = {{.type = GRPC_ARG_INTEGER, .key = receive, .value.integer = CONN_MAX_MESSAGE},
                       {.type = GRPC_ARG_INTEGER, .key = keepalive, .value.integer = KEEPALIVE_MS},
                       {.type = GRPC_ARG_INTEGER, .key = keepalive_timeout, .value.integer = KEEPALIVE_TIMEOUT_MS},
                       {.type = GRPC_ARG_INTEGER, .key = connect, .value.integer = CONNECT_MS},
                       {.type = GRPC_ARG_INTEGER, .key = own_connection, .value.integer = 1},
                       {.type = GRPC_ARG_INTEGER, .key = proxy, .value.integer = proxy_of(server->endpoint) != NULL}};
    grpc_channel_args args = {sizeof list / sizeof *list, list};
    return grpc_channel_create(server->endpoint, c->credentials, &args);
}

/* A channel whose last attempt failed fails every call at once and connects in the background, where no thread of this library
 * drives its handshakes: TLS took up to 33 s. A new channel connects for its first call, and the thread that waits for that call
 * drives it. The failed channel is kept until the next one fails, for the calls that it has not failed yet. Locked. */
static void replace_failed_channel(const struct brr_client *c, struct server *server) {
    if (grpc_channel_check_connectivity_state(server->channel, 0) != GRPC_CHANNEL_TRANSIENT_FAILURE)
        return;
    if (server->retired)
        grpc_channel_destroy(server->retired);
    server->retired = server->channel;
    server->channel = make_channel(c, server);
}

static int read_credentials(const struct brr_connect_options *o, const char *endpoint, struct credentials *ret,
                            struct brr_error *err) {
    struct err why = {0};
    char text[800];
    int rc = credentials_read(o, endpoint, ret, &why);
    return rc ? conn_error(err, rc, "%s", err_text(&why, text, sizeof text)) : 0;
}

int brr_connect(const char *endpoint, brr_client **ret, struct brr_error *err) {
    return brr_connect_with(&(struct brr_connect_options){.endpoint = endpoint}, ret, err);
}

/* The daemon of this user if it runs (`brrd --user`), else that of the machine. */
static const char *default_endpoint(char *buf, size_t size) {
    char path[USER_PATH_SIZE];
    if (user_path_socket(path, NULL) || !user_path_answers(path))
        return BRR_DEFAULT_ENDPOINT;
    str_format(buf, size, "unix:%s", path);
    return buf;
}

/* The next endpoint of a list, which begins at *list. */
static int next_endpoint(const char **list, char ret[ENDPOINT_SIZE], struct brr_error *err) {
    const size_t len = strcspn(*list, ",");
    if (len >= ENDPOINT_SIZE)
        return conn_error(err, BRR_INVALID, "the endpoint is longer than %d bytes", ENDPOINT_SIZE - 1);
    str_format(ret, ENDPOINT_SIZE, "%.*s", (int)len, *list);
    if (!well_formed(ret))
        return conn_error(err, BRR_INVALID, "'%.200s' is not an endpoint; expected unix:/path/to/socket or host:port", ret);
    *list += len + ((*list)[len] == ',');
    return 0;
}

static int read_endpoints(struct brr_client *c, const char *list, struct brr_error *err) {
    int rc;
    do {
        if (c->n_servers == CONN_MAX_ENDPOINTS)
            return conn_error(err, BRR_INVALID, "'%.200s' has more than %d endpoints", list, CONN_MAX_ENDPOINTS);
        if ((rc = next_endpoint(&list, c->servers[c->n_servers].endpoint, err)))
            return rc;
        bool local = str_starts(c->servers[c->n_servers++].endpoint, "unix:");
        if (local != str_starts(c->servers[0].endpoint, "unix:"))
            return conn_error(err, BRR_INVALID, "a list of endpoints has either sockets (unix:/path) or hosts, not both");
    } while (*list);
    return 0;
}

/* Credentials that each of the endpoints takes. */
static int read_all_credentials(const struct brr_client *c, const struct brr_connect_options *o, struct credentials *ret,
                                struct brr_error *err) {
    int rc = 0;
    for (int i = 0; i < c->n_servers && !rc; i++) {
        if (i)
            credentials_done(ret);
        rc = read_credentials(o, c->servers[i].endpoint, ret, err);
    }
    return rc;
}

int brr_connect_with(const struct brr_connect_options *options, brr_client **ret, struct brr_error *err) {
    static const struct brr_connect_options none;
    const struct brr_connect_options *o = options ? options : &none;
    const char *env = getenv("BRR_ENDPOINT");
    char found[USER_PATH_SIZE + 8];
    const char *wanted = o->endpoint && *o->endpoint ? o->endpoint : env && *env ? env : default_endpoint(found, sizeof found);
    struct credentials credentials;
    struct brr_client *c = calloc(1, sizeof *c);
    if (!c)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for a connection");
    int rc = read_endpoints(c, wanted, err);
    if (rc || (rc = read_all_credentials(c, o, &credentials, err))) {
        free(c);
        return rc;
    }
    grpc_init();
    pthread_mutex_init(&c->lock, NULL);
    c->credentials = make_credentials(&credentials);
    for (int i = 0; i < c->n_servers; i++)
        c->servers[i].channel = make_channel(c, &c->servers[i]);
    c->secure = credentials.ca != NULL;
    c->has_token = credentials.bearer != NULL;
    c->authorization = c->has_token ? grpc_slice_from_copied_string(credentials.bearer) : grpc_empty_slice();
    credentials_done(&credentials);
    *ret = c;
    return 0;
}

void brr_disconnect(brr_client *c) {
    if (!c)
        return;
    for (int i = 0; i < c->n_servers; i++) {
        if (c->servers[i].retired)
            grpc_channel_destroy(c->servers[i].retired);
        grpc_channel_destroy(c->servers[i].channel);
    }
    grpc_channel_credentials_release(c->credentials);
    pthread_mutex_destroy(&c->lock);
    grpc_slice_unref(c->authorization);
    free(c);
    grpc_shutdown();
}

const char *brr_endpoint(const brr_client *c) { return c->servers[0].endpoint; }
int conn_endpoints(const struct brr_client *c) { return c->n_servers; }

/* ---- one call ---- */

static bool start(struct conn_call *c, const grpc_op *ops, size_t n, int tag) {
    if (c->broken || grpc_call_start_batch(c->call, ops, n, &c->tags[tag], NULL) != GRPC_CALL_OK)
        return false;
    c->busy[tag] = true;
    c->pending++;
    return true;
}

int conn_queue_new(struct conn_queue **ret, struct brr_error *err) {
    struct conn_queue *q = calloc(1, sizeof *q);
    if (!q)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for a call");
    q->queue = grpc_completion_queue_create_for_next(NULL);
    *ret = q;
    return 0;
}

/* Fill the fields of a new call. */
static void prepare(struct conn_call *c, struct brr_client *client, const struct conn_open *o) {
    gpr_timespec deadline = o->deadline_ms >= 0
                                ? gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(o->deadline_ms, GPR_TIMESPAN))
                                : gpr_inf_future(GPR_CLOCK_REALTIME);
    grpc_slice path = grpc_slice_from_copied_string(o->method);
    struct server *server = &client->servers[o->endpoint];
    str_copy(c->endpoint, sizeof c->endpoint, server->endpoint);
    c->secure = client->secure;
    c->owner = o->owner;
    for (int i = 0; i < TAGS; i++)
        c->tags[i].call = c;
    grpc_metadata_array_init(&c->initial);
    grpc_metadata_array_init(&c->trailing);
    c->details = grpc_empty_slice();
    c->queue->calls++;
    pthread_mutex_lock(&client->lock);
    replace_failed_channel(client, server);
    c->call = grpc_channel_create_call(server->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->queue->queue, path, NULL, deadline, NULL);
    pthread_mutex_unlock(&client->lock);
    grpc_slice_unref(path);
}

int conn_call_open(struct brr_client *client, const struct conn_open *o, struct conn_call **ret, struct brr_error *err) {
    struct conn_call *c = calloc(1, sizeof *c);
    if (!c)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for a call");
    c->queue = o->queue;
    c->own_queue = !o->queue;
    if (c->own_queue && conn_queue_new(&c->queue, err)) {
        free(c);
        return BRR_EXHAUSTED;
    }
    prepare(c, client, o);
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    status.data.recv_status_on_client.trailing_metadata = &c->trailing;
    status.data.recv_status_on_client.status = &c->status;
    status.data.recv_status_on_client.status_details = &c->details;
    grpc_op first[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    grpc_metadata token = {.key = grpc_slice_from_static_string("authorization"), .value = client->authorization};
    first[0].data.send_initial_metadata.metadata = client->has_token ? &token : NULL;
    first[0].data.send_initial_metadata.count = client->has_token;
    first[1].data.recv_initial_metadata.recv_initial_metadata = &c->initial;
    bool ok = start(c, &status, 1, TAG_STATUS) && start(c, &first[0], 1, TAG_START) &&
              grpc_call_start_batch(c->call, &first[1], 1, &c->tags[TAG_START], NULL) == GRPC_CALL_OK;
    if (!ok) {
        conn_call_close(c);
        return conn_error(err, BRR_INTERNAL, "%s cannot be called", o->method);
    }
    c->pending++;
    *ret = c;
    return 0;
}

bool conn_call_sendable(const struct conn_call *c) { return !c->busy[TAG_SEND] && !c->close_wanted && !c->broken; }

void conn_call_send(struct conn_call *c, const void *data, size_t len, bool last) {
    grpc_slice slice = grpc_slice_from_copied_buffer(data, len);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_MESSAGE}, {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}};
    ops[0].data.send_message.send_message = buffer;
    c->close_wanted = c->closed = last;
    if (!start(c, ops, last ? 2 : 1, TAG_SEND))
        c->broken = true;
    grpc_byte_buffer_destroy(buffer);
    grpc_slice_unref(slice);
}

static void close_now(struct conn_call *c) {
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    c->closed = true;
    start(c, &op, 1, TAG_CLOSE);
}

void conn_call_half_close(struct conn_call *c) {
    c->close_wanted = true;
    if (!c->busy[TAG_SEND] && !c->closed)
        close_now(c);
}

void conn_call_receive(struct conn_call *c) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    if (c->busy[TAG_RECEIVE] || c->received || c->no_more)
        return;
    op.data.recv_message.recv_message = &c->received;
    if (grpc_call_start_batch(c->call, &op, 1, &c->tags[TAG_RECEIVE], NULL) != GRPC_CALL_OK) {
        c->no_more = true;
        return;
    }
    c->busy[TAG_RECEIVE] = true;
    c->pending++;
}

/* A completion. */
static void settle(struct conn_call *c, int tag, bool success) {
    c->pending--;
    c->busy[tag] = false;
    if (tag == TAG_SEND && !success)
        c->broken = true;
    if (tag == TAG_SEND && c->close_wanted && !c->closed)
        close_now(c);
    if (tag == TAG_RECEIVE && (!success || !c->received))
        c->no_more = true;
    if (tag == TAG_STATUS)
        c->status_known = c->broken = true;
}

/* Frees a call whose last event has come. */
static void release(struct conn_call *c) {
    if (c->received)
        grpc_byte_buffer_destroy(c->received);
    if (c->call)
        grpc_call_unref(c->call);
    grpc_metadata_array_destroy(&c->initial);
    grpc_metadata_array_destroy(&c->trailing);
    grpc_slice_unref(c->details);
    c->queue->calls--;
    if (c->own_queue)
        conn_queue_free(c->queue);
    free(c);
}

static gpr_timespec after(int64_t timeout_ms) {
    return timeout_ms < 0 ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
                          : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

void *conn_queue_poll(struct conn_queue *q, int64_t timeout_ms) {
    gpr_timespec until = after(timeout_ms);
    for (;;) {
        grpc_event e = grpc_completion_queue_next(q->queue, until, NULL);
        if (e.type != GRPC_OP_COMPLETE)
            return NULL;
        struct conn_call *c = ((struct conn_tag *)e.tag)->call;
        void *owner = c->owner;
        settle(c, (int)((struct conn_tag *)e.tag - c->tags), e.success);
        if (owner)
            return owner;
        if (!c->pending)
            release(c);
    }
}

void conn_queue_free(struct conn_queue *q) {
    if (!q)
        return;
    while (q->calls)
        conn_queue_poll(q, -1);
    grpc_completion_queue_shutdown(q->queue);
    while (grpc_completion_queue_next(q->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(q->queue);
    free(q);
}

bool conn_call_poll(struct conn_call *c, int64_t timeout_ms) {
    if (!c->pending)
        return false;
    grpc_event e = grpc_completion_queue_next(c->queue->queue, after(timeout_ms), NULL);
    if (e.type != GRPC_OP_COMPLETE)
        return false;
    settle(c, (int)((struct conn_tag *)e.tag - c->tags), e.success);
    return true;
}

uint8_t *conn_call_take(struct conn_call *c, size_t *ret_len) {
    if (c->busy[TAG_RECEIVE] || !c->received)
        return NULL;
    grpc_byte_buffer_reader reader;
    uint8_t *data = NULL;
    if (grpc_byte_buffer_reader_init(&reader, c->received)) {
        grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
        *ret_len = GRPC_SLICE_LENGTH(all);
        if ((data = malloc(*ret_len + 1)))
            memcpy(data, GRPC_SLICE_START_PTR(all), *ret_len);
        grpc_slice_unref(all);
        grpc_byte_buffer_reader_destroy(&reader);
    }
    grpc_byte_buffer_destroy(c->received);
    c->received = NULL;
    if (!data) { /* unreadable or no memory: the call cannot go on */
        grpc_call_cancel_with_status(c->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "an answer could not be kept in memory", NULL);
        c->no_more = true;
    }
    return data;
}

bool conn_call_ended(const struct conn_call *c) {
    return c->status_known && !c->busy[TAG_RECEIVE] && !c->received && (c->no_more || c->status != GRPC_STATUS_OK);
}

/* brr.v1.ErrorDetail of the trailing metadata: a daemon sends one with each error, the transport none. */
static bool read_detail(const struct conn_call *c, struct brr_error *err) {
    for (size_t i = 0; i < c->trailing.count; i++) {
        const grpc_metadata *m = &c->trailing.metadata[i];
        if (grpc_slice_str_cmp(m->key, "brr-error-bin"))
            continue;
        Brr__V1__ErrorDetail *d = brr__v1__error_detail__unpack(NULL, GRPC_SLICE_LENGTH(m->value), GRPC_SLICE_START_PTR(m->value));
        if (!d)
            return false;
        str_copy(err->reason, sizeof err->reason, d->reason);
        if (*d->message)
            str_copy(err->message, sizeof err->message, d->message);
        str_copy(err->cause, sizeof err->cause, d->cause);
        err->retry_after_ms = d->retry_after_ms;
        brr__v1__error_detail__free_unpacked(d, NULL);
        return true;
    }
    return false;
}

/* True if a socket's rights, or those of its folder, keep this user out. */
static bool locked(const char *endpoint) {
    return str_starts(endpoint, "unix:") && access(endpoint + strlen("unix:"), W_OK) && errno == EACCES;
}

static const char no_address[] = "DNS resolution failed"; /* gRPC's words for a host without an address */

/* Why no connection came about, in words that help. `text` is the transport's. */
static int no_connection(const struct conn_call *c, const char *text, struct brr_error *err) {
    const bool handshake = strstr(text, "handshake failed") != NULL;
    if (locked(c->endpoint))
        return conn_error(err, BRR_DENIED,
                          "only the daemon's user, root and members of listen.unix_group may use %s; use sudo or join the group",
                          c->endpoint);
    if (handshake && strstr(text, "verify failed"))
        return conn_error(err, BRR_UNAVAILABLE,
                          "the certificate of the daemon at %s cannot be trusted: it has expired, or the CA given with --tls-ca is "
                          "of another daemon, or tls.cert lacks an intermediate certificate",
                          c->endpoint);
    if (strstr(text, "is not in peer certificate") || strstr(text, "Hostname Verification"))
        return conn_error(err, BRR_UNAVAILABLE,
                          "the daemon's certificate does not name the host of %s; use a name that it lists, or add this one with "
                          "`brrctl tls renew DIR --host NAME`",
                          c->endpoint);
    if (handshake && strstr(text, "wrong version"))
        return conn_error(err, BRR_UNAVAILABLE, "the server at %s does not speak TLS; remove --tls-ca, or check the port",
                          c->endpoint);
    if (handshake)
        return conn_error(err, BRR_UNAVAILABLE, "the TLS handshake with %s failed", c->endpoint);
    if (!c->secure && !str_starts(c->endpoint, "unix:") && strstr(text, "Socket closed"))
        return conn_error(err, BRR_UNAVAILABLE,
                          "the server at %s closed the connection at once; if it is a daemon with TLS, pass its CA with --tls-ca",
                          c->endpoint);
    if (strstr(text, no_address))
        return conn_error(err, BRR_UNAVAILABLE, "cannot find the host %.*s", (int)strcspn(c->endpoint, ":"), c->endpoint);
    if (proxy_of(c->endpoint))
        return conn_error(err, BRR_UNAVAILABLE,
                          "no daemon answers at %s through the proxy %s, which the environment names; list the host in NO_PROXY to "
                          "connect directly",
                          c->endpoint, proxy_of(c->endpoint));
    return conn_error(err, BRR_UNAVAILABLE,
                      "no daemon answers at %s; start one (brrd --user, or brrd --config FILE) or set BRR_ENDPOINT", c->endpoint);
}

int conn_call_status(const struct conn_call *c, struct brr_error *err) {
    int code = -(int)c->status;
    if (!code || !err)
        return code;
    char *text = grpc_slice_to_c_string(c->details);
    conn_error(err, code, "%s", *text ? text : err_name(code));
    const bool said = read_detail(c, err), cut = code == BRR_CANCELLED && !said; /* by a daemon that gives the call up */
    if (cut || (code == BRR_UNAVAILABLE && !*err->reason)) {                     /* not the daemon's word but the transport's */
        if (strstr(text, "failed to connect") || strstr(text, no_address))
            code = no_connection(c, text, err);
        else
            code = conn_error(err, BRR_UNAVAILABLE, "the connection to the daemon at %s was lost", c->endpoint);
        str_copy(err->cause, sizeof err->cause,
                 strstr(err->message, "no daemon") || strstr(text, no_address) || code == BRR_DENIED ? "" : text);
    } else if (code == BRR_DEADLINE && !*err->reason) {
        conn_error(err, code, "the daemon at %s gave no answer in time", c->endpoint);
    }
    gpr_free(text);
    return code;
}

void conn_call_close(struct conn_call *c) {
    if (!c)
        return;
    if (c->call && !c->status_known)
        grpc_call_cancel(c->call, NULL);
    c->owner = NULL;
    while (c->own_queue && c->pending && conn_call_poll(c, -1)) {
    }
    if (!c->pending)
        release(c);
}
