/* notify: tells the service manager (the socket in NOTIFY_SOCKET) about the state of the daemon. No function waits: sd_notify of
 * libsystemd blocks while the queue of that socket is full, and with it the loop. Loop thread. */
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"

struct notify {
    int fd; /* -1: there is no service manager */
    struct sockaddr_un to;
    socklen_t len;
    const char *due; /* a state that could not be sent yet, or NULL */
};
/* address: a path, "@NAME" of an abstract socket, or NULL for no service manager. INVALID for all others; then nothing is ever
 * sent, and the other functions may be called all the same. */
int notify_open(struct notify *n, const char *address, struct err *err);
void notify_close(struct notify *n);
/* Sends a state, such as "READY=1": now, or as soon as there is room, unless another state comes first. text is static. */
void notify_state(struct notify *n, const char *text);
/* Sends a sign of life, such as "WATCHDOG=1", unless there is no room. */
void notify_pulse(struct notify *n, const char *text);
/* Once a second: tries again what is due. */
void notify_tick(struct notify *n);
