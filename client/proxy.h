/* proxy: whether gRPC, which takes its HTTP proxy from the environment (grpc_proxy, https_proxy, http_proxy), may use it for an
 * endpoint. A daemon on this machine is reached directly, and so is what NO_PROXY or no_proxy lists: "*", names and their
 * subdomains, addresses and networks (10.0.0.0/8, fd00::/8), of which gRPC knows names alone. Any thread that may call getenv. */
#pragma once
#include "base/base.h"

/* The proxy for "host:port" or "[v6]:port", as the environment has it; NULL: none is used. Borrowed from the environment. */
const char *proxy_of(const char *endpoint);
/* True if the list, as of NO_PROXY, has the host of the endpoint. */
bool proxy_is_excepted(const char *endpoint, const char *list);
