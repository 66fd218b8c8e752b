#include "daemon/hooks/hooks.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fsio.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/journal/journal.h"

enum { FIRST_PAUSE_MS = 1000, LONGEST_PAUSE_MS = 300 * 1000, NAP_MS = 20 };

struct hook_line {
    struct hooks *all;
    const struct hook *hook;
    char *secret; /* NULL: a command */
    struct mailbox *waiting;
    pthread_t thread;
    bool started;
};

struct hooks {
    struct hook_line lines[HOOKS_MAX];
    int n;
    struct metrics *metrics;
    struct journal *journal;
    struct outlet outlet;
    atomic_bool stopping;
};

static void count(const struct hook_line *l, const char *result) {
    char labels[HOOK_NAME + 32];
    if (!l->all->metrics)
        return;
    str_format(labels, sizeof labels, "%s\x1f%s", l->hook->name, result);
    metric_add(metrics_series(l->all->metrics, "brrd_hook_attempts_total", labels), 1);
}

/* ---- delivering ---- */

static void nap(const struct hooks *all, int64_t ms) {
    for (; ms > 0 && !atomic_load(&all->stopping); ms -= NAP_MS)
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
}

/* True: the delivery is done, one way or the other. */
static bool try_once(const struct hook_line *l, const struct delivery *d) {
    const struct hook_attempt attempt = {.id = d->id, .body = d->body, .secret = l->secret, .stop = &l->all->stopping};
    struct err err;
    char text[800];
    int rc = hook_attempt(l->hook, &attempt, &err);
    if (!rc) {
        count(l, "delivered");
        return true;
    }
    if (atomic_load(&l->all->stopping))
        return false; /* the attempt was given up; the next start makes another one */
    bool again = l->hook->url && rc != ERR_INVALID && clock_wall_ms() - d->made_ms < HOOKS_GIVE_UP_MS;
    count(l, again ? "failed" : "dropped");
    log_warn(again ? "a hook failed and is tried again" : "a hook failed", "hook=%s delivery=%s error=\"%s\"", l->hook->name, d->id,
             err_text(&err, text, sizeof text));
    return !again;
}

static void deliver(const struct hook_line *l, struct delivery *d) {
    int64_t pause = FIRST_PAUSE_MS;
    bool done;
    while (!(done = try_once(l, d)) && !atomic_load(&l->all->stopping)) {
        nap(l->all, pause);
        pause = 2 * pause < LONGEST_PAUSE_MS ? 2 * pause : LONGEST_PAUSE_MS;
    }
    if (done && d->outbox)
        journal_delivered(l->all->journal, d->outbox);
    delivery_free(d);
}

static void *hooks_run(void *ctx) {
    struct hook_line *l = ctx;
    struct delivery *d;
    while (!atomic_load(&l->all->stopping) && (d = (struct delivery *)mailbox_wait(l->waiting, -1)))
        deliver(l, d);
    return NULL;
}

/* ---- what the journal sees ---- */

static const struct hook_line *line(const void *ctx, int i) { return &((const struct hooks *)ctx)->lines[i]; }
static const char *outlet_name(void *ctx, int i) { return line(ctx, i)->hook->name; }
static bool outlet_wants(void *ctx, int i, const struct journal_entry *e) { return hook_wants(line(ctx, i)->hook, e); }
static char *outlet_body(void *ctx, int i, const struct journal_entry *e, const char *id) {
    return hook_body(line(ctx, i)->hook, e, id, false);
}
static int outlet_room(void *ctx, int i) { return HOOKS_WAITING - (int)mailbox_count(line(ctx, i)->waiting); }
static bool outlet_post(void *ctx, int i, struct delivery *d) { return mailbox_post(line(ctx, i)->waiting, &d->message); }

const struct outlet *hooks_outlet(const struct hooks *all) { return &all->outlet; }

/* ---- life ---- */

static int read_secret(struct hook_line *l, struct err *err) {
    size_t len = 0;
    if (!l->hook->url)
        return 0;
    if (fsio_check_mode(l->hook->secret_file, 0077, err) ||
        fsio_read(l->hook->secret_file, HOOK_SECRET_BYTES, &l->secret, &len, err))
        return err_wrap(err, "alarms.hooks: the secret of the hook %s", l->hook->name);
    l->secret[strcspn(l->secret, "\r\n")] = '\0';
    return *l->secret ? 0
                      : err_set(err, ERR_INVALID, "alarms.hooks: the secret of the hook %s is empty: %s", l->hook->name,
                                l->hook->secret_file);
}

int hooks_new(const struct hook *list, int n, struct metrics *metrics, struct hooks **ret, struct err *err) {
    struct hooks *all = calloc(1, sizeof *all);
    int rc = 0;
    if (!all)
        return err_set(err, ERR_EXHAUSTED, "out of memory for hooks");
    all->metrics = metrics;
    all->outlet = (struct outlet){
        .ctx = all, .name = outlet_name, .wants = outlet_wants, .body = outlet_body, .room = outlet_room, .post = outlet_post};
    for (int i = 0; i < n && !rc; i++) {
        all->lines[i] = (struct hook_line){.all = all, .hook = &list[i], .waiting = mailbox_new(HOOKS_WAITING, NULL, NULL)};
        all->n = all->outlet.n = i + 1;
        rc = all->lines[i].waiting ? read_secret(&all->lines[i], err) : err_set(err, ERR_EXHAUSTED, "out of memory for hooks");
    }
    if (rc) {
        hooks_free(all);
        return rc;
    }
    *ret = all;
    return 0;
}

int hooks_start(struct hooks *all, struct journal *journal, struct err *err) {
    all->journal = journal;
    for (int i = 0; i < all->n; i++) {
        if (pthread_create(&all->lines[i].thread, NULL, hooks_run, &all->lines[i]))
            return err_set(err, ERR_EXHAUSTED, "cannot start the thread of the hook %s", all->lines[i].hook->name);
        all->lines[i].started = true;
    }
    return 0;
}

void hooks_stop(struct hooks *all) {
    if (!all)
        return;
    atomic_store(&all->stopping, true);
    for (int i = 0; i < all->n; i++)
        mailbox_close(all->lines[i].waiting);
    for (int i = 0; i < all->n; i++)
        if (all->lines[i].started)
            pthread_join(all->lines[i].thread, NULL);
}

void hooks_free(struct hooks *all) {
    struct message *m;
    if (!all)
        return;
    for (int i = 0; i < all->n; i++) {
        while (all->lines[i].waiting && (m = mailbox_take(all->lines[i].waiting)))
            delivery_free((struct delivery *)m);
        mailbox_free(all->lines[i].waiting);
        free(all->lines[i].secret);
    }
    free(all);
}

int hooks_count(const struct hooks *all) { return all->n; }
const struct hook *hooks_at(const struct hooks *all, int i) { return all->lines[i].hook; }

int hooks_test(const struct hooks *all, int i, const atomic_bool *stop, struct err *err) {
    const struct hook_line *l = &all->lines[i];
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .received_ms = clock_wall_ms(), .end_s = NAN, .value = 1};
    char id[OUTLET_ID];
    str_copy(e.client, sizeof e.client, "test");
    str_copy(e.detail, sizeof e.detail, "a test of this hook; no alarm");
    str_format(id, sizeof id, "test-%lld", (long long)e.received_ms);
    char *body = hook_body(l->hook, &e, id, true);
    if (!body)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a test");
    int rc = hook_attempt(l->hook, &(struct hook_attempt){.id = id, .body = body, .secret = l->secret, .stop = stop}, err);
    free(body);
    count(l, rc ? "failed" : "delivered");
    return rc;
}
