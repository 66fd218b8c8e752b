#include "daemon/user_daemon.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/user_paths.h"

enum { CONFIG_BYTES = 16 << 10, PRIVATE = 0077, FIRST_PORT = 9465, LAST_PORT = 9564 };

/* A path as a double-quoted scalar of YAML. */
static void put_path(struct str *s, const char *key, const char *path, const char *comment) {
    str_printf(s, "  %s: \"", key);
    for (; *path; path++) {
        if (*path == '"' || *path == '\\')
            str_append(s, "\\", 1);
        str_append(s, path, 1);
    }
    str_printf(s, "\" # %s\n", comment);
}

static bool is_free(int port) {
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    OWNED_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    return fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
           !bind(fd, (const struct sockaddr *)&at, sizeof at) && !listen(fd, 1);
}

/* Another user's daemon may run on this machine: the first port that is free now, which stays in the configuration. */
static int choose_port(void) {
    int port = FIRST_PORT;
    while (port < LAST_PORT && !is_free(port))
        port++;
    return port;
}

static int write_config(const char *path, struct err *err) {
    char cache[USER_PATH_SIZE], state[USER_PATH_SIZE];
    const char *home = getenv("HOME");
    int rc;
    if ((rc = user_path(USER_CACHE, NULL, cache, err)) || (rc = user_path(USER_STATE, NULL, state, err)))
        return rc;
    OWNED(str_done) struct str text = str_of(CONFIG_BYTES);
    str_puts(
        &text,
        "# The configuration of `brrd --user`, which wrote this file and reads it at each start. `brrd --help-config` lists all\n"
        "# keys. listen.unix stays where brrctl looks for it.\n"
        "http:\n");
    str_printf(&text, "  listen: 127.0.0.1:%d # the page, /metrics, /healthz; none = off\n", choose_port());
    str_puts(&text, "paths:\n");
    put_path(&text, "data", home && *home == '/' ? home : state, "recordings");
    put_path(&text, "cache", cache, "may be deleted while the daemon is stopped");
    put_path(&text, "results", state, "jobs, checkpoints and served models");
    str_puts(&text, "local_paths: true # jobs may name any path that you can read\n");
    return fsio_write_text(path, &text, err);
}

int user_daemon_prepare(struct arena *arena, const char **ret_config, const char **ret_override, struct err *err) {
    char config[USER_PATH_SIZE], socket_path[USER_PATH_SIZE];
    int rc;
    umask(PRIVATE);
    if ((rc = user_path(USER_CONFIG, "daemon.yaml", config, err)) || (rc = user_path_socket(socket_path, err)) ||
        (rc = fsio_mkdirs_above(config, err)) || (rc = fsio_mkdirs_above(socket_path, err)))
        return rc;
    if (!fsio_exists(config) && (rc = write_config(config, err)))
        return rc;
    *ret_config = arena_strdup(arena, config);
    *ret_override = arena_printf(arena, "listen.unix=%s", socket_path);
    return *ret_config && *ret_override ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the paths of the daemon");
}
