#include "daemon/hooks/hook.h"

#include <fnmatch.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/json.h"
#include "base/log.h"
#include "base/spawn.h"
#include "daemon/alarms/alarm.h"
#include "daemon/hooks/hook_format.h"
#include "post/mail.h"
#include "post/signed_post.h"

enum { BODY_MAX = 64 * 1024, LOOK_MS = 10 };

bool hook_posts(const struct hook *h) { return h->url || h->url_file; }

bool hook_url_is_secure(const char *url) {
    static const char secure[] = "https://";
    const bool has_host = str_starts(url, secure) && strcspn(url + strlen(secure), "/?#:") && !strpbrk(url, " \t\r\n");
    return has_host || (str_starts(url, "http://") && str_url_is_loopback(url));
}

bool hook_url_is_mail(const char *url) { return str_starts(url, "smtps://") || str_starts(url, "smtp://"); }

int hook_check_roster(const struct hook *h, const char *const *beds, int n, struct err *err) {
    for (int i = 0; i < n; i++)
        if (!fnmatch(h->bed, beds[i], 0))
            return 0;
    return !n ? 0
              : err_set(err, ERR_INVALID,
                        "alarms.hooks: %s: bed '%.60s' matches no bed of the roster; add it to beds, or correct it", h->name,
                        h->bed);
}

bool hook_wants(const struct hook *h, const struct journal_entry *e) {
    if (journal_kind_is_technical(e->kind)) /* no receiver hears that it does not hear */
        if (str_starts(e->detail, alarm_kind_name(ALARM_RECEIVER)) && !strcmp(e->client, h->name))
            return false;
    /* who is told that something does not work is told that it is over */
    const unsigned kinds = h->kinds & 1u << JOURNAL_TECHNICAL_ON ? h->kinds | 1u << JOURNAL_TECHNICAL_OFF : h->kinds;
    const bool wanted =
        h->steps ? e->kind == JOURNAL_ESCALATED && (h->steps >> (e->step < 31 ? e->step : 31) & 1) : (kinds & 1u << e->kind) != 0;
    return wanted && (e->live || h->replays) && !fnmatch(h->bed, e->client, 0) && !fnmatch(h->model, e->model, 0);
}

static void put_entry(struct json_writer *w, const struct journal_entry *e) {
    json_begin_object(w, "entry");
    json_put_str(w, "kind", journal_kind_name(e->kind));
    json_put_i64(w, "received_ms", e->received_ms);
    if (e->sample_ms)
        json_put_i64(w, "recorded_ms", e->sample_ms);
    else
        json_put_null(w, "recorded_ms");
    JSON_MEMBERS(w, *e, start_s, end_s, value, client, session, principal, address, model);
    json_put_str(w, "model_sha256", e->sha256);
    JSON_MEMBERS(w, *e, detail, live, alarm);
    if (*e->where)
        json_put_str(w, "where", e->where);
    if (e->on_ms)
        json_put_i64(w, "on_ms", e->on_ms);
    if (e->step)
        json_put_i64(w, "step", e->step);
    json_end(w, '}');
}

/* The format of brrd; url: the page about it, or NULL. */
static char *own_body(const struct hook *h, const struct hook_message *m, const char *url) {
    struct str text = str_of(BODY_MAX);
    struct json_writer w = json_to(&text);
    json_begin_object(&w, NULL);
    json_put_str(&w, "id", m->id);
    json_put_str(&w, "hook", h->name);
    JSON_MEMBERS(&w, *m, test, text, late_s);
    if (url)
        json_put_str(&w, "url", url);
    json_put_str(&w, "notice", HOOK_NOTICE);
    JSON_ARRAY(&w, "covers", m->covers, m->n_covers);
    put_entry(&w, m->entry);
    json_end(&w, '}');
    return str_take(&text);
}

char *hook_body(const struct hook *h, const struct hook_message *m) {
    char address[512], moment[40] = "", nameless[JOURNAL_DETAIL];
    struct journal_entry entry = *m->entry;
    struct hook_message shown = *m;
    if (*entry.session && !m->test && isfinite(entry.start_s) && (entry.kind == JOURNAL_ALARM_ON || entry.kind == JOURNAL_EVENT))
        str_format(moment, sizeof moment, "?at=%.2f#eeg", entry.start_s); /* the EEG of the onset */
    const bool linked = m->page && str_format(address, sizeof address, *entry.session ? "%s/streams/%s%s" : "%s/streams%s%s",
                                              m->page, entry.session, moment);
    shown.entry = &entry;
    if (h->hide_names) {
        *entry.client = *entry.principal = *entry.address = *entry.person = '\0';
        str_format(nameless, sizeof nameless, "%s%s", m->test ? "TEST " : "", hook_format_nameless(&entry));
        shown.text = m->test && !*entry.alarm ? m->text : nameless; /* a test of the hook names nobody */
    }
    const char *url = linked ? address : NULL;
    return h->format == HOOK_BRRD ? own_body(h, &shown, url) : hook_format_body((enum hook_format)h->format, &shown, url);
}

/* ---- files ---- */

/* The first line of a file that only its owner and group can read; what: for errors. */
static int read_secret(const struct hook *h, const char *path, const char *what, char **ret, struct err *err) {
    size_t len = 0;
    if (fsio_check_mode(path, 0037, err) || fsio_read(path, HOOK_SECRET_BYTES, ret, &len, err))
        return err_wrap(err, "alarms.hooks: the %s of the hook %s", what, h->name);
    (*ret)[strcspn(*ret, "\r\n")] = '\0';
    if (**ret)
        return 0;
    free(*ret);
    *ret = NULL;
    return err_set(err, ERR_INVALID, "alarms.hooks: the %s of the hook %s is empty: %s", what, h->name, path);
}

void hook_files_done(struct hook_files *files) { FREE_MEMBERS(*files, secret, url, password, ca); }

static int read_files(const struct hook *h, struct hook_files *files, struct err *err) {
    const char *ca = h->ca ? h->ca : signed_post_system_ca();
    size_t len = 0;
    int rc;
    if (h->secret_file && (rc = read_secret(h, h->secret_file, "secret", &files->secret, err)))
        return rc;
    if (h->url_file && (rc = read_secret(h, h->url_file, "url", &files->url, err)))
        return rc;
    if (h->password_file && (rc = read_secret(h, h->password_file, "password", &files->password, err)))
        return rc;
    const bool mail = h->format == HOOK_EMAIL;
    if (files->url && !(mail ? hook_url_is_mail(files->url) : hook_url_is_secure(files->url)))
        return err_set(err, ERR_INVALID, "alarms.hooks: the url of the hook %s in %s: expected %s", h->name, h->url_file,
                       mail ? "smtps://… or smtp://…" : "https://…, or http:// of this machine");
    if (hook_posts(h) && ca && fsio_read(ca, HOOK_CA_BYTES, &files->ca, &len, err) && h->ca)
        return err_wrap(err, "alarms.hooks: the CAs of the hook %s", h->name);
    return 0;
}

int hook_read_files(const struct hook *h, struct hook_files *ret, struct err *err) {
    struct hook_files files = {0};
    int rc = read_files(h, &files, err);
    if (rc) {
        hook_files_done(&files);
        return rc;
    }
    *ret = files;
    return 0;
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

/* A command gets PATH, BRRD_HOOK and the variables that its configuration names, and nothing else of the daemon's environment,
 * which may hold credentials of stores. */
static const char **environment_of(const struct hook *h, char own[80]) {
    str_format(own, 80, "BRRD_HOOK=%s", h->name);
    return spawn_environment((const char *const[]){"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", own, NULL},
                             h->environment);
}

static int run_command(const struct hook *h, const struct hook_attempt *a, struct err *err) {
    OWNED_FD int input = -1;
    pid_t pid = 0;
    int rc = body_file(a->body, &input, err);
    if (rc)
        return rc;
    char own[80];
    OWNED_MEMORY const char **environment = environment_of(h, own);
    if (!environment)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a command");
    rc = spawn_start_in(h->command, environment, input, -1, &pid, err);
    return rc ? rc : await(h, pid, a->stop, err);
}

static int send_mail(const struct hook *h, const struct hook_attempt *a, struct err *err) {
    const char *url = h->url ? h->url : a->files->url;
    const struct mail mail = {.url = url,
                              .name = h->url_file,
                              .ca = h->ca || !str_url_is_loopback(url) ? a->files->ca : NULL, /* this machine needs no TLS */
                              .user = h->user,
                              .password = a->files->password,
                              SAME_MEMBERS(*h, from, to),
                              .id = a->id,
                              .text = a->body,
                              .sent_ms = clock_wall_ms(),
                              .timeout_ms = h->timeout_ms,
                              .all = a->test,
                              .stop = a->stop};
    char refused[MAIL_REFUSED_SIZE];
    int rc = mail_send(&mail, refused, err);
    if (rc == 0 && *refused)
        log_warn("a mail did not reach all of its addresses", "hook=%s refused=\"%s\" fix=\"hooks: to\"", h->name, refused);
    return rc;
}

int hook_attempt(const struct hook *h, const struct hook_attempt *a, struct err *err) {
    if (!hook_posts(h))
        return run_command(h, a, err);
    if (h->format == HOOK_EMAIL)
        return send_mail(h, a, err);
    const struct signed_post post = {.url = h->url ? h->url : a->files->url,
                                     .name = h->url_file,
                                     SAME_MEMBERS(*a->files, ca, secret),
                                     SAME_MEMBERS(*a, id, body),
                                     .len = strlen(a->body),
                                     .timeout_ms = h->timeout_ms,
                                     .stop = a->stop};
    return signed_post_send(&post, err);
}
