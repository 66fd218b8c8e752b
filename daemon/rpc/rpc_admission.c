/* Which callers may call a method, how many calls they may have open, and when an open call loses its permission. */
#include <grpc/slice.h>

#include "base/base.h"
#include "daemon/rpc/peer.h"
#include "daemon/rpc/quota.h"
#include "daemon/rpc/rpc_state.h"

enum { MAX_CHAIN_BYTES = 64 * 1024 /* of a client's certificates */ };

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

bool call_is_crowded(const struct rpc_call *c, struct err *err) {
    const struct rpc_server *s = c->server;
    struct quota_use use = {.calls = s->n_calls};
    for (const struct rpc_call *other = s->calls; other; other = other->next) {
        const bool same = other->stage != CALL_ENDED && !strcmp(other->caller.name, c->caller.name);
        use.of_caller += same;
        use.of_method += same && other->method == c->method;
    }
    return quota_exceeded(&(struct quota_limits){s->config.max_calls, s->config.max_sessions}, &use, c->caller.role,
                          c->method->path, err);
}
