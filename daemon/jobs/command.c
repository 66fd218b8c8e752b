#include "daemon/jobs/command.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/spawn.h"

enum { LOOK_MS = 20 };

/* Reads what the program has printed, and waits LOOK_MS for it at most. False: it prints no more. */
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

int command_run(const char *const *words, const char *const *environment, int64_t timeout_ms, struct str *out, int *ret_status,
                struct err *err) {
    int ends[2], status = 0;
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC))
        return err_errno(err, errno, "cannot make a pipe for %.200s", words[0]);
    OWNED_FD int output = ends[0];
    int rc = spawn_start_in(words, environment ? environment : (const char *const *)environ, -1, ends[1], &pid, err);
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
