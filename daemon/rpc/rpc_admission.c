/* Which callers may call a method, how many calls they may have open, and when an open call loses its permission. */
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "base/map.h"
#include "daemon/rpc/quota.h"
#include "daemon/rpc/rpc_state.h"

enum { MAX_CHAIN_BYTES = 64 * 1024 /* of a client's certificates */, CALLER_AND_METHOD = 512 };

/* The caller's address: "10.0.0.7:4711" or "[fe80::1]:4711", which gRPC writes with percent signs; "unix" for a unix socket. */
static void peer_address(grpc_call *call, char *ret, size_t size) {
    char *uri = grpc_call_get_peer(call), *out = ret;
    const char *p = uri && (str_starts(uri, "ipv4:") || str_starts(uri, "ipv6:")) ? uri + strlen("ipv4:") : NULL;
    if (!p)
        str_copy(ret, size, "unix");
    for (; p && *p && out + 1 < ret + size; p++) {
        const bool open = str_starts(p, "%5B"), close = str_starts(p, "%5D");
        *out++ = open ? '[' : close ? ']' : *p;
        *out = '\0';
        p += open || close ? 2 : 0;
    }
    gpr_free(uri);
}

/* A property of the connection's TLS session, or an empty text. */
static void append_property(const grpc_auth_context *context, const char *name, struct str *out) {
    grpc_auth_property_iterator all = grpc_auth_context_find_properties_by_name(context, name);
    const grpc_auth_property *p = grpc_auth_property_iterator_next(&all);
    if (p)
        str_append(out, p->value, p->value_length);
}

/* Appends the client's certificate, then those behind it, as PEM; nothing where there is none. */
static void peer_chain(grpc_call *call, struct str *out) {
    grpc_auth_context *context = grpc_call_auth_context(call);
    if (!context)
        return;
    append_property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME, out);
    append_property(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME, out);
    grpc_auth_context_release(context);
}

static void refuse_caller(struct rpc_call *c, const struct auth_refusal *refusal) {
    struct auth *auth = c->server->config.auth;
    const struct auth_record record = {.method = c->method ? c->method->path : "unknown", .kind = c->kind, .id = c->id};
    auth_count_refusal(auth, &c->caller, &record, refusal);
    rpc_refuse(c, &refusal->err, refusal->reason, 0);
}

bool call_admit(struct rpc_call *c) {
    struct auth *auth = c->server->config.auth;
    char address[AUTH_PEER_SIZE];
    struct auth_request request = {.connection = &c->listener->who, .peer = address};
    struct auth_refusal refusal;
    struct str chain = str_of(MAX_CHAIN_BYTES);
    peer_address(c->call, address, sizeof address);
    for (size_t i = 0; i < c->metadata.count; i++) {
        const grpc_metadata *m = &c->metadata.metadata[i];
        if (grpc_slice_str_cmp(m->key, "authorization") == 0) {
            request.authorization = (const char *)GRPC_SLICE_START_PTR(m->value);
            request.authorization_len = GRPC_SLICE_LENGTH(m->value);
        }
    }
    if (c->listener->who.certificate)
        peer_chain(c->call, &chain);
    request.chain = str_cstr(&chain);
    request.chain_len = chain.len;
    c->admitted = auth_identify(auth, &request, &c->caller, &refusal) &&
                  (!c->method || auth_permits(&c->caller, c->method->role, c->method->path, &refusal));
    str_done(&chain);
    if (c->admitted && !strcmp(c->listener->who.listener, "tcp"))
        accept_admit(address);
    if (!c->admitted)
        refuse_caller(c, &refusal);
    else if (c->method && c->method->client_stream)
        auth_audit(auth, &c->caller,
                   &(struct auth_record){.method = c->method->path, .needed = c->method->role, .outcome = "begun"});
    return c->admitted;
}

bool call_still_admitted(struct rpc_call *c) {
    struct auth_refusal refusal;
    if (!call_is_open(c))
        return false;
    if (auth_still_valid(c->server->config.auth, &c->caller, &refusal) &&
        (!c->method || auth_permits(&c->caller, c->method->role, c->method->path, &refusal)))
        return true;
    refuse_caller(c, &refusal);
    return false;
}

/* The caller and the method of a call. */
static const char *use_of(const struct rpc_call *c, char ret[CALLER_AND_METHOD]) {
    str_format(ret, CALLER_AND_METHOD, "%s\x1f%s", c->caller.name, c->method->path);
    return ret;
}

/* False: out of memory. */
static bool count_call(struct rpc_call *c, int n) {
    char both[CALLER_AND_METHOD];
    if (!map_tally(c->server->callers, c->caller.name, n))
        return false;
    if (map_tally(c->server->callers, use_of(c, both), n))
        return true;
    map_tally(c->server->callers, c->caller.name, -n);
    return false;
}

void call_uncount(struct rpc_call *c) {
    if (c->counted)
        count_call(c, -1);
    c->counted = false;
}

bool call_is_crowded(struct rpc_call *c, struct err *err) {
    const struct rpc_server *s = c->server;
    char both[CALLER_AND_METHOD];
    if (!(c->counted = count_call(c, 1)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a call") != 0;
    const struct quota_use use = {.calls = s->n_calls,
                                  .of_caller = map_tally_of(s->callers, c->caller.name),
                                  .of_method = map_tally_of(s->callers, use_of(c, both))};
    return quota_exceeded(&s->config.limits, &use, c->caller.role, c->method->path, err);
}
