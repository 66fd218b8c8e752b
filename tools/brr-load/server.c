/* The daemon as its metrics show it, and the connections to it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"
#include "brr-load/load.h"
#include "brr/v1/admin.pb-c.h"

enum { MAX_SOCKETS = 65536 };

int server_ask(brr_client *client, struct server_use *ret, struct brr_error *err) {
    Brr__V1__MetricsRequest in = BRR__V1__METRICS_REQUEST__INIT;
    uint8_t bytes[64];
    void *answer;
    size_t len;
    static char prefix[] = "process_";
    in.prefix = prefix;
    size_t n = brr__v1__metrics_request__pack(&in, bytes);
    int rc = brr_call(client, &(struct brr_request){"/brr.v1.Metrics/Get", bytes, n, 0}, &answer, &len, err);
    if (rc)
        return rc;
    Brr__V1__MetricsResponse *m = brr__v1__metrics_response__unpack(NULL, len, answer);
    *ret = (struct server_use){0};
    for (size_t i = 0; m && i < m->n_samples; i++) {
        if (!strcmp(m->samples[i]->name, "process_cpu_seconds_total"))
            ret->cpu_s = m->samples[i]->value;
        else if (!strcmp(m->samples[i]->name, "process_resident_memory_bytes"))
            ret->rss_bytes = m->samples[i]->value;
    }
    brr__v1__metrics_response__free_unpacked(m, NULL);
    brr_free(answer);
    return 0;
}

/* True if the socket's other end is the endpoint: its path, or its port. */
static bool leads_to(int fd, const char *endpoint) {
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int64_t port = 0;
    if (getpeername(fd, (struct sockaddr *)&peer, &len))
        return false;
    if (str_starts(endpoint, "unix:")) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)&peer;
        return peer.ss_family == AF_UNIX && !strcmp(un->sun_path, strchr(endpoint, '/'));
    }
    if (!str_to_i64(strrchr(endpoint, ':') + 1, &port))
        return false;
    if (peer.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&peer)->sin_port) == port;
    return peer.ss_family == AF_INET6 && ntohs(((const struct sockaddr_in6 *)&peer)->sin6_port) == port;
}

bool server_cut(const char *endpoint, uint32_t i) {
    int n = 0, limit = (int)sysconf(_SC_OPEN_MAX);
    int *sockets = malloc(sizeof *sockets * MAX_SOCKETS);
    for (int fd = 3; sockets && fd < limit && fd < MAX_SOCKETS; fd++)
        if (leads_to(fd, endpoint))
            sockets[n++] = fd;
    if (n)
        shutdown(sockets[i % (uint32_t)n], SHUT_RDWR);
    free(sockets);
    return n > 0;
}
