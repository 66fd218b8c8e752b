#include "daemon/hooks/hook.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/spawn.h"
#include "base/str.h"
#include "store/signed_post.h"

enum { BODY_MAX = 64 * 1024, LOOK_MS = 10 };

bool hook_wants(const struct hook *h, const struct journal_entry *e) {
    const bool wanted = h->steps ? e->kind == JOURNAL_ESCALATED && (h->steps >> (e->step < 31 ? e->step : 31) & 1)
                                 : (h->kinds & 1u << e->kind) != 0;
    return wanted && !fnmatch(h->bed, e->client, 0) && !fnmatch(h->model, e->model, 0);
}

static void put_entry(struct json_writer *w, const struct journal_entry *e) {
    json_begin_object(w, "entry");
    json_put_str(w, "kind", journal_kind_name(e->kind));
    json_put_i64(w, "received_ms", e->received_ms);
    if (e->sample_ms)
        json_put_i64(w, "recorded_ms", e->sample_ms);
    else
        json_put_null(w, "recorded_ms");
    json_put_f64(w, "start_s", e->start_s);
    json_put_f64(w, "end_s", e->end_s);
    json_put_f64(w, "value", e->value);
    json_put_str(w, "client", e->client);
    json_put_str(w, "session", e->session);
    json_put_str(w, "principal", e->principal);
    json_put_str(w, "address", e->address);
    json_put_str(w, "model", e->model);
    json_put_str(w, "model_sha256", e->sha256);
    json_put_str(w, "detail", e->detail);
    json_end(w, '}');
}

char *hook_body(const struct hook *h, const struct journal_entry *e, const char *id, bool test) {
    struct str text;
    struct json_writer w;
    str_init(&text, BODY_MAX);
    json_writer_init(&w, &text);
    json_begin_object(&w, NULL);
    json_put_str(&w, "id", id);
    json_put_str(&w, "hook", h->name);
    json_put_bool(&w, "test", test);
    put_entry(&w, e);
    json_end(&w, '}');
    return str_take(&text);
}

/* ---- a command ---- */

/* A file in memory that holds the body, at its beginning. */
static int body_file(const char *body, int *ret, struct err *err) {
    size_t len = strlen(body);
    int fd = memfd_create("brrd-hook", MFD_CLOEXEC);
    if (fd < 0 || write(fd, body, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET)) {
        err_errno(err, errno, "cannot make the input of a command");
        if (fd >= 0)
            close(fd);
        return err->code;
    }
    *ret = fd;
    return 0;
}

/* Waits for the end of the command; kills its process group after the time limit. */
static int await(const struct hook *h, pid_t pid, const atomic_bool *stop, struct err *err) {
    int64_t deadline = clock_ms() + h->timeout_ms;
    int status = 0;
    pid_t ended;
    while (!(ended = waitpid(pid, &status, WNOHANG)) && clock_ms() < deadline && !(stop && atomic_load(stop)))
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    if (!ended) {
        kill(-pid, SIGKILL);
        waitpid(pid, &status, 0);
        return err_set(err, ERR_DEADLINE, "%.200s did not end within %.1f s and was killed", h->command[0],
                       (double)h->timeout_ms / 1000);
    }
    if (ended < 0)
        return err_errno(err, errno, "cannot wait for %.200s", h->command[0]);
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return 0;
    return WIFEXITED(status) ? err_set(err, ERR_INVALID, "%.200s ended with the exit code %d", h->command[0], WEXITSTATUS(status))
                             : err_set(err, ERR_INVALID, "%.200s was ended by signal %d", h->command[0], WTERMSIG(status));
}

static int run_command(const struct hook *h, const struct hook_attempt *a, struct err *err) {
    OWNED_FD int input = -1;
    pid_t pid = 0;
    int rc;
    if ((rc = body_file(a->body, &input, err)) || (rc = spawn_start(h->command, input, -1, &pid, err)))
        return rc;
    return await(h, pid, a->stop, err);
}

int hook_attempt(const struct hook *h, const struct hook_attempt *a, struct err *err) {
    if (!h->url)
        return run_command(h, a, err);
    const struct signed_post post = {.url = h->url,
                                     .ca = h->ca,
                                     .secret = a->secret,
                                     .id = a->id,
                                     .body = a->body,
                                     .len = strlen(a->body),
                                     .timeout_ms = h->timeout_ms,
                                     .stop = a->stop};
    return signed_post_send(&post, err);
}
