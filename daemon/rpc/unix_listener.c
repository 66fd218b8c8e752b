#include "daemon/rpc/unix_listener.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

enum { GROUP_BUFFER = 64 * 1024, BACKLOG = 1024 };
static const gid_t no_group = (gid_t)-1;

struct unix_listener {
    uv_poll_t poll;
    struct unix_listener_config config;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    gid_t group;
    int fd;
};

/* ---- who ---- */

static bool in_groups(int fd, gid_t group) {
    socklen_t len = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE || !len)
        return false;
    gid_t *groups = malloc(len);
    bool member = false;
    if (groups && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) == 0)
        for (size_t i = 0; i < len / sizeof *groups; i++)
            member = member || groups[i] == group;
    free(groups);
    return member;
}

static bool look_at_peer(const struct unix_listener *l, int fd, struct unix_peer *ret) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return false;
    *ret = (struct unix_peer){.uid = peer.uid, .own = peer.uid == 0 || peer.uid == geteuid()};
    if (ret->own)
        ret->role = ROLE_ADMIN;
    else if (l->group != no_group && (peer.gid == l->group || in_groups(fd, l->group)))
        ret->role = ROLE_SUBMIT;
    return true;
}

/* ---- connections ---- */

static void on_readable(uv_poll_t *poll, int status, int events) {
    struct unix_listener *l = poll->data;
    struct unix_peer peer;
    (void)status, (void)events;
    for (;;) { /* accept4 is that of accept.h: it never fails for want of descriptors */
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return;
        if (look_at_peer(l, fd, &peer))
            l->config.connected(l->config.ctx, fd, &peer);
        else
            close(fd);
    }
}

/* ---- the socket ---- */

static int clear_stale(const struct sockaddr_un *addr, struct err *err) {
    const char *path = addr->sun_path;
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot use the socket %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_PRECONDITION, "listen.unix %s exists and is not a socket; remove it or choose another path", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int connected = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)addr, sizeof *addr);
    if (fd >= 0)
        close(fd);
    if (connected == 0)
        return err_set(err, ERR_EXISTS, "another daemon serves %s; stop it, or set listen.unix to another path", path);
    return unlink(path) < 0 && errno != ENOENT ? err_errno(err, errno, "cannot remove the stale socket %s", path) : 0;
}

static int find_group(const char *name, gid_t *ret, struct err *err) {
    struct group entry, *found = NULL;
    char buffer[GROUP_BUFFER];
    int64_t number;
    if (!getgrnam_r(name, &entry, buffer, sizeof buffer, &found) && found)
        *ret = found->gr_gid;
    else if (str_to_i64(name, &number) && number >= 0 && number < UINT32_MAX)
        *ret = (gid_t)number;
    else
        return err_set(err, ERR_NOT_FOUND, "listen.unix_group: there is no group '%.100s'; make it with groupadd", name);
    return 0;
}

/* The socket file is made for its owner alone; group and mode follow. */
static int bind_path(struct unix_listener *l, struct err *err) {
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int rc = 0;
    str_copy(addr.sun_path, sizeof addr.sun_path, l->path);
    if ((rc = clear_stale(&addr, err)))
        return rc;
    if (fchmod(l->fd, 0600) < 0 || bind(l->fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return err_errno(err, errno, "cannot listen on %s; does its directory exist and may this user write there?", l->path);
    if (l->group != no_group && chown(l->path, (uid_t)-1, l->group) < 0)
        rc = err_errno(err, errno, "cannot give %s to the group %s; the daemon's user must be a member (SupplementaryGroups=%s)",
                       l->path, l->config.group, l->config.group);
    else if (chmod(l->path, l->config.mode) < 0)
        rc = err_errno(err, errno, "cannot set the mode of %s", l->path);
    else if (listen(l->fd, BACKLOG) < 0)
        rc = err_errno(err, errno, "cannot listen on %s", l->path);
    if (rc)
        unlink(l->path);
    return rc;
}

static void release(struct unix_listener *l) {
    if (l->fd >= 0)
        close(l->fd);
    free(l);
}

static int find_place_and_group(struct unix_listener *l, struct err *err) {
    if (!str_copy(l->path, sizeof l->path, l->config.path))
        return err_set(err, ERR_RANGE, "listen.unix %s: a socket path has at most 107 bytes", l->config.path);
    return l->config.group ? find_group(l->config.group, &l->group, err) : 0;
}

int unix_listener_check(const struct unix_listener_config *config, struct err *err) {
    struct unix_listener l = {.config = *config};
    return find_place_and_group(&l, err);
}

static int bind_and_watch(uv_loop_t *loop, struct unix_listener *l, struct err *err) {
    const struct unix_listener_config *config = &l->config;
    int rc = find_place_and_group(l, err);
    if (rc)
        return rc;
    if ((l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        return err_errno(err, errno, "cannot make the socket %s", config->path);
    if ((rc = bind_path(l, err)))
        return rc;
    if (uv_poll_init(loop, &l->poll, l->fd)) {
        unlink(l->path);
        return err_set(err, ERR_INTERNAL, "cannot watch the socket %s", config->path);
    }
    return 0;
}

int unix_listener_open(uv_loop_t *loop, const struct unix_listener_config *config, struct unix_listener **ret, struct err *err) {
    struct unix_listener *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the socket %s", config->path);
    *l = (struct unix_listener){.config = *config, .group = no_group, .fd = -1};
    int rc = bind_and_watch(loop, l, err);
    if (rc) {
        release(l);
        return rc;
    }
    l->poll.data = l;
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
    *ret = l;
    return 0;
}

static void on_closed(uv_handle_t *handle) { release(handle->data); }

void unix_listener_close(struct unix_listener *l) {
    if (!l)
        return;
    unlink(l->path);
    uv_close((uv_handle_t *)&l->poll, on_closed);
}
