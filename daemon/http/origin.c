#include "daemon/http/origin.h"

#include <arpa/inet.h>

enum { NAME_SIZE = 256 };

/* The name without port and brackets; false if it is none. */
static bool name_of(const char *host, char ret[NAME_SIZE]) {
    const bool bracket = *host == '[';
    const size_t len = strcspn(host + bracket, bracket ? "]" : ":");
    return str_format(ret, NAME_SIZE, "%.*s", (int)(len < NAME_SIZE ? len : NAME_SIZE), host + bracket) && *ret;
}

static bool is_address(const char *name) {
    unsigned char any[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, any) == 1 || inet_pton(AF_INET6, name, any) == 1;
}

bool origin_host_fits(const char *host, const char *const *names, int n) {
    char name[NAME_SIZE], machine[NAME_SIZE] = "";
    if (!host || !name_of(host, name))
        return false;
    if (is_address(name) || !strcasecmp(name, "localhost"))
        return true;
    if (!gethostname(machine, sizeof machine - 1) && !strcasecmp(name, machine))
        return true;
    for (int i = 0; i < n; i++)
        if (!strcasecmp(name, names[i]))
            return true;
    return false;
}

bool origin_is_own(const char *fetch_site, const char *origin, const char *host, bool tls) {
    const char *scheme = tls ? "https://" : "http://";
    if (fetch_site)
        return !strcmp(fetch_site, "same-origin");
    return !origin || (host && str_starts(origin, scheme) && !strcasecmp(origin + strlen(scheme), host));
}
