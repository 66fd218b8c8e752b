#include "client/proxy.h"

#include <arpa/inet.h>

enum { HOST_SIZE = 256 };

static bool host_of(const char *endpoint, char ret[HOST_SIZE]) {
    const bool bracket = *endpoint == '[';
    const size_t n = bracket                  ? strcspn(endpoint + 1, "]")
                     : strrchr(endpoint, ':') ? (size_t)(strrchr(endpoint, ':') - endpoint)
                                              : strlen(endpoint);
    return !str_starts(endpoint, "unix:") && n < HOST_SIZE && str_format(ret, HOST_SIZE, "%.*s", (int)n, endpoint + bracket) &&
           *ret;
}

/* True if the first `bits` of both addresses are the same. */
static bool share(const unsigned char *a, const unsigned char *b, int64_t bits) {
    const int rest = (int)(bits % 8);
    return !memcmp(a, b, (size_t)(bits / 8)) && (!rest || (a[bits / 8] ^ b[bits / 8]) >> (8 - rest) == 0);
}

/* "10.0.0.0/8" or an address has the address `host`. */
static bool network_has(const char *network, const char *host) {
    static const struct { int family, bits; } kinds[] = {{AF_INET, 32}, {AF_INET6, 128}};
    char address[HOST_SIZE];
    const char *slash = strchr(network, '/');
    if (!str_format(address, sizeof address, "%.*s", (int)strcspn(network, "/"), network))
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        unsigned char of_network[16], of_host[16];
        int64_t bits = kinds[i].bits;
        if (inet_pton(kinds[i].family, address, of_network) == 1 && inet_pton(kinds[i].family, host, of_host) == 1 &&
            (!slash || (str_to_i64(slash + 1, &bits) && bits >= 0 && bits <= kinds[i].bits)))
            return share(of_network, of_host, bits);
    }
    return false;
}

/* "eeg.lab", ".eeg.lab" and "*.eeg.lab" have eeg.lab and its subdomains. */
static bool domain_has(const char *domain, const char *host) {
    domain += str_starts(domain, "*.") ? 2 : *domain == '.';
    const size_t n = strlen(domain), len = strlen(host);
    return n && n <= len && !strcasecmp(host + len - n, domain) && (n == len || host[len - n - 1] == '.');
}

bool proxy_is_excepted(const char *endpoint, const char *list) {
    char host[HOST_SIZE], one[HOST_SIZE];
    if (!host_of(endpoint, host))
        return true;
    for (const char *p = list; *p; p += strcspn(p, ",")) {
        p += strspn(p, ", \t");
        const size_t n = strcspn(p, ", \t");
        if (!n || !str_format(one, sizeof one, "%.*s", (int)n, p))
            continue;
        one[strcspn(one, ":")] = strchr(one, ':') == strrchr(one, ':') ? '\0' : one[strcspn(one, ":")]; /* a port is no matter */
        if (!strcmp(one, "*") || network_has(one, host) || domain_has(one, host))
            return true;
    }
    return false;
}

const char *proxy_of(const char *endpoint) {
    static const char *const names[] = {"grpc_proxy", "https_proxy", "http_proxy"}, /* in the order of gRPC */
        *const lists[] = {"NO_PROXY", "no_proxy", "no_grpc_proxy"};
    if (proxy_is_excepted(endpoint, "localhost,127.0.0.0/8,::1"))
        return NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (getenv(lists[i]) && proxy_is_excepted(endpoint, getenv(lists[i])))
            return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && *getenv(names[i]))
            return getenv(names[i]);
    return NULL;
}
