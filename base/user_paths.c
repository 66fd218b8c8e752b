#include "base/user_paths.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

static const struct {
    const char *variable, *below_home;
} places[] = {{"XDG_CONFIG_HOME", ".config"}, {"XDG_CACHE_HOME", ".cache"}, {"XDG_STATE_HOME", ".local/state"}};

static const char *absolute(const char *variable) {
    const char *value = getenv(variable);
    return value && *value == '/' ? value : NULL;
}

int user_path(enum user_path kind, const char *name, char buf[USER_PATH_SIZE], struct err *err) {
    const char *place = absolute(places[kind].variable), *home = absolute("HOME");
    if (!place && home && !home[strspn(home, "/")])
        return err_set(err, ERR_PRECONDITION,
                       "HOME is %s, the root of the file system, and %s is not set; set HOME to your home directory, or use "
                       "brrd --config FILE",
                       home, places[kind].variable);
    if (!place && !home)
        return err_set(err, ERR_PRECONDITION, "neither %s nor HOME is set; set HOME to your home directory", places[kind].variable);
    const bool fits = str_format(buf, USER_PATH_SIZE, "%s%s%s/brrd%s%s", place ? place : home, place ? "" : "/",
                                 place ? "" : places[kind].below_home, name ? "/" : "", name ? name : "");
    return fits ? 0 : err_set(err, ERR_RANGE, "%s: the path is longer than %d bytes", place ? place : home, USER_PATH_SIZE - 1);
}

int user_path_socket(char buf[USER_PATH_SIZE], struct err *err) {
    const char *place = absolute("XDG_RUNTIME_DIR");
    if (!place)
        return user_path(USER_STATE, "brrd.sock", buf, err);
    return str_format(buf, USER_PATH_SIZE, "%s/brrd/brrd.sock", place)
               ? 0
               : err_set(err, ERR_RANGE, "XDG_RUNTIME_DIR is longer than %d bytes", USER_PATH_SIZE - 1);
}

bool user_path_answers(const char *socket_path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!str_copy(address.sun_path, sizeof address.sun_path, socket_path))
        return false;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    const bool answers = !connect(fd, (const struct sockaddr *)&address, sizeof address);
    close(fd);
    return answers;
}

/* By /proc/locks, whose lines are "1: FLOCK  ADVISORY  WRITE PID MAJOR:MINOR:INODE 0 EOF". */
bool user_path_locked(void) {
    char lock[USER_PATH_SIZE], line[256], inode[32];
    struct stat st;
    bool held = false;
    if (user_path(USER_STATE, ".results.lock", lock, NULL) || stat(lock, &st))
        return false;
    OWNED_FILE FILE *f = fopen("/proc/locks", "re");
    str_format(inode, sizeof inode, ":%llu ", (unsigned long long)st.st_ino);
    while (f && !held && fgets(line, sizeof line, f))
        held = strstr(line, "FLOCK") && strstr(line, inode);
    return held;
}
