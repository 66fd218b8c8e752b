/* http: the HTTP server, over TLS where the daemon has a certificate: /healthz and /readyz for everybody, /metrics and the pages
 * (page/page.h) for the role read. Each connection has a thread of libmicrohttpd, which touches nothing of the loop: it reads the
 * metrics registry, the newest status, the devices' faults and the table of callers. Bounded: connections in all and of one
 * address, the time that one may be silent and that a request or answer may take (http/patience.h), the pages that wait for files
 * (http/reading.h), the streams of events in all and of one principal (http/event_seats.h). Pages are read under a name of this
 * daemon alone (http/origin.h), by a token, a cookie (trust/cookie.h) or, without tokens, after a one-time link (http/link.h). */
#pragma once

#include "base/metrics.h"
#include "daemon/device/device_watch.h"
#include "daemon/rpc/auth.h"
#include "daemon/status/readiness.h"
#include "daemon/status/status.h"

struct http;
struct desk;
struct recordings;
struct device_set;
struct tls;
struct errands;
struct rpc_method;
/* State from which requests are answered; copied. */
struct http_state {
    const struct readiness *ready;
    struct device_watch *const *watches; /* one for each device; ready while one of them is not bad */
    int n_watches;
    const struct device_set *devices;
    struct auth *auth; /* decides who may read */
    struct tls *tls;   /* NULL: plain text */
    struct metrics *metrics;
    struct status_board *board;
    struct desk *desk;              /* takes answers to alarms */
    struct recordings *recordings;  /* that callers look at */
    const char *journal, *database; /* files that pages read */
    const char *cookie_key;         /* file of the key of cookies; made if it is not there */
    const char *const *names;       /* names of this daemon that the header Host may have beside addresses and localhost */
    int n_names;
    bool open;               /* without tokens: the pages need no link */
    struct errands *errands; /* takes calls of the methods that have a route */
    const struct rpc_method *const *methods;
    size_t n_methods;
};
int http_start(const char *address, const struct http_state *state, struct http **ret, struct err *err);
/* Loop thread, once a second: closes the connections that take too long. NULL is allowed. */
void http_tick(struct http *http);
/* Loop thread. New connections use the current certificate. NULL is allowed. */
int http_renew(struct http *http, struct err *err);
/* The address of the page at path for a browser on this machine, with the key of a one-time link where they need one (no tokens,
 * not open). UNAVAILABLE if http is NULL. Loop thread. */
int http_page_url(struct http *http, const char *path, char *ret, size_t size, struct err *err);
void http_stop(struct http *http); /* NULL is allowed */
