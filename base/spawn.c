#include "base/spawn.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void give(posix_spawn_file_actions_t *files, int fd, int as, int flags) {
    if (fd < 0)
        posix_spawn_file_actions_addopen(files, as, "/dev/null", flags, 0);
    else
        posix_spawn_file_actions_adddup2(files, fd, as);
}

int spawn_start(const char *const *words, int input, int output, pid_t *ret, struct err *err) {
    return spawn_start_in(words, (const char *const *)environ, input, output, ret, err);
}

int spawn_start_in(const char *const *words, const char *const *environment, int input, int output, pid_t *ret, struct err *err) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    give(&files, input, STDIN_FILENO, O_RDONLY);
    give(&files, output, STDOUT_FILENO, O_WRONLY);
    give(&files, output, STDERR_FILENO, O_WRONLY);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1); /* libraries leave sockets inheritable */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failed =
        posix_spawnp(ret, words[0], &files, &attributes, (char *const *)(uintptr_t)words, (char *const *)(uintptr_t)environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed ? err_errno(err, failed, "cannot start %.200s", words[0]) : 0;
}

static bool matches(const char *variable, const char *const *patterns) {
    char name[256];
    const size_t len = strcspn(variable, "=");
    if (len >= sizeof name)
        return false;
    memcpy(name, variable, len);
    name[len] = '\0';
    for (; patterns && *patterns; patterns++)
        if (!fnmatch(*patterns, name, 0))
            return true;
    return false;
}

const char **spawn_environment(const char *const *set, const char *const *patterns) {
    size_t most = 1, n = 0;
    for (const char *const *at = set; at && *at; at++)
        most++;
    for (char **at = environ; *at; at++)
        most++;
    const char **list = calloc(most, sizeof *list);
    for (const char *const *at = set; list && at && *at; at++)
        list[n++] = *at;
    for (char **at = environ; list && *at; at++)
        if (matches(*at, patterns))
            list[n++] = *at;
    return list;
}
