/* peer: what gRPC knows about the other side of a call. */
#pragma once

#include "base/base.h"

struct grpc_call;
/* The address "10.0.0.7:4711" or "[fe80::1]:4711"; "unix" for a unix socket. */
void peer_address(struct grpc_call *call, char *ret, size_t size);
/* Appends the client's certificate, then those behind it, as PEM; nothing where there is none. */
void peer_chain(struct grpc_call *call, struct str *out);
