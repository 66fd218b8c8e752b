#include "daemon/jobs/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { LOOK_MS = 20 };

/* In a process group of its own, with default signals and no input. */
static int start(const char *const *words, int output, pid_t *ret, struct err *err) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failed = posix_spawnp(ret, words[0], &files, &attributes, (char *const *)(uintptr_t)words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed ? err_errno(err, failed, "cannot start %.200s", words[0]) : 0;
}

/* False at the end of what the program prints. */
static bool drain(int fd, struct str *out) {
    char block[4096];
    ssize_t n;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, LOOK_MS) < 1)
        return true;
    if ((n = read(fd, block, sizeof block)) <= 0)
        return n < 0 && errno == EINTR;
    if (out->len + (size_t)n <= out->max)
        str_append(out, block, (size_t)n);
    return true;
}

/* The program may close its output before it ends, and its children may keep it open. */
static pid_t await(pid_t pid, int fd, int64_t deadline_ms, struct str *out, int *ret_status) {
    pid_t ended = 0;
    bool open = true;
    while (!(ended = waitpid(pid, ret_status, WNOHANG)) && clock_ms() < deadline_ms)
        if (open)
            open = drain(fd, out);
        else
            poll(NULL, 0, LOOK_MS);
    if (!ended) {
        kill(-pid, SIGKILL);
        waitpid(pid, ret_status, 0);
    }
    for (struct pollfd p = {.fd = fd, .events = POLLIN}; open && poll(&p, 1, 0) == 1;)
        open = drain(fd, out);
    return ended;
}

int command_run(const char *const *words, int64_t timeout_ms, struct str *out, int *ret_status, struct err *err) {
    int ends[2], status = 0;
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC))
        return err_errno(err, errno, "cannot make a pipe for %.200s", words[0]);
    OWNED_FD int output = ends[0];
    int rc = start(words, ends[1], &pid, err);
    close(ends[1]);
    if (rc)
        return rc;
    pid_t ended = await(pid, output, clock_ms() + timeout_ms, out, &status);
    if (!ended)
        return err_set(err, ERR_DEADLINE, "%.200s did not end within %.0f s and was killed", words[0], (double)timeout_ms / 1000);
    if (ended < 0)
        return err_errno(err, errno, "cannot wait for %.200s", words[0]);
    if (!WIFEXITED(status))
        return err_set(err, ERR_INVALID, "%.200s was ended by signal %d", words[0], WTERMSIG(status));
    *ret_status = WEXITSTATUS(status);
    return 0;
}
