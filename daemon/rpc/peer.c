#include "daemon/rpc/peer.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

/* "ipv6:%5Bfe80::1%5D:4711" of gRPC without its percent signs. */
void peer_address(grpc_call *call, char *ret, size_t size) {
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

void peer_chain(grpc_call *call, struct str *out) {
    grpc_auth_context *context = grpc_call_auth_context(call);
    if (!context)
        return;
    append_property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME, out);
    append_property(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME, out);
    grpc_auth_context_release(context);
}
