/* accept: connections and file descriptors. This module defines accept4, and so replaces libc's for every listener of the process,
 * those of gRPC and libmicrohttpd too: gRPC 1.51 stops listening for good when accept4 fails because descriptors have run out
 * (CVE-2023-4785). A connection whose descriptor would come from the reserve for files is closed at once instead; the unix socket,
 * where the machine's administrator calls, has a reserve of its own. Callers who are not known cannot take all connections: see
 * strangers. Any thread, except where noted. */
#pragma once
#include "base/base.h"

/* Descriptors kept free, of a limit of at least 1024; a smaller limit keeps a sixteenth and an eighth. */
enum { ACCEPT_RESERVE_FILES = 64, ACCEPT_RESERVE_UNIX = 128 };

/* Connections of a guarded listener that have made no admitted call yet: most of one address (of one /64 of IPv6), most in all, and
 * how long they may stay so. A new one beyond the first two ends the oldest of that address, or of all. */
enum { ACCEPT_STRANGERS_OF_ADDRESS = 64, ACCEPT_STRANGERS = 1024, ACCEPT_STRANGER_MS = 10 * 1000 };
/* A call of this connection was admitted: it is no stranger any more. peer: "10.0.0.7:4711", "[fe80::1]:4711". */
void accept_admit(const char *peer);
/* Closes strangers that have stayed too long; returns their number. Once a second. */
int accept_end_strangers(int64_t now_ms);

/* Connections that were closed for one of these reasons since the start. */
uint64_t accept_refused(void);

/* Looks whether the connections to a TCP port are still accepted. One thread. */
enum { ACCEPT_WATCHED = 16, ACCEPT_SLOW_MS = 3000 };
struct accept_watch {
    int n;
    struct {
        int fd; /* borrowed */
        uint64_t accepted;
        int64_t heard_ms; /* when a connection was last accepted, or none waited */
        bool polled;      /* it was in an epoll set */
    } sockets[ACCEPT_WATCHED];
};
/* Finds this process's listening sockets of the port, and guards them. */
void accept_watch_init(struct accept_watch *w, int port, int64_t now_ms);
/* ACCEPT_SLOW: connections have waited for ACCEPT_SLOW_MS without one being accepted; a busy process catches up by itself.
 * ACCEPT_DEAF: nothing will accept them any more, because a socket no longer listens, has left every epoll set, or has had an error
 * from accept4 after which its owner gives it up. */
enum accept_state { ACCEPT_WELL, ACCEPT_SLOW, ACCEPT_DEAF };
enum accept_state accept_watch_look(struct accept_watch *w, int64_t now_ms);
