#include "daemon/notify.h"

int notify_open(struct notify *n, const char *address, struct err *err) {
    *n = (struct notify){.fd = -1, .to.sun_family = AF_UNIX};
    if (!address)
        return 0;
    if ((*address != '/' && *address != '@') || !address[1] || !str_copy(n->to.sun_path, sizeof n->to.sun_path, address))
        return err_set(err, ERR_INVALID, "NOTIFY_SOCKET is '%.200s'; expected a path or @NAME of at most %zu characters", address,
                       sizeof n->to.sun_path - 1);
    n->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address) + (*address == '/'));
    if (*address == '@')
        n->to.sun_path[0] = '\0';
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return n->fd < 0 ? err_errno(err, errno, "cannot make a socket for NOTIFY_SOCKET") : 0;
}

void notify_close(struct notify *n) {
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

static bool send_now(const struct notify *n, const char *text) {
    return n->fd < 0 || sendto(n->fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->len) >= 0;
}

void notify_state(struct notify *n, const char *text) {
    n->due = text;
    notify_tick(n);
}

void notify_pulse(struct notify *n, const char *text) {
    notify_tick(n);
    if (!n->due)
        send_now(n, text);
}

void notify_tick(struct notify *n) {
    if (n->due && send_now(n, n->due))
        n->due = NULL;
}
