#include "daemon/hooks/hooks.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/str.h"
#include "daemon/alarms/alarm_entry.h"
#include "daemon/hooks/telling.h"
#include "daemon/journal/journal.h"

enum {
    FIRST_PAUSE_MS = 1000,
    LONGEST_PAUSE_MS = 60 * 1000,
    LOG_MS = 60 * 1000,
    BELIEVED_MS = 3600 * 1000,
    RESULTS = 256,
    KEY = JOURNAL_PRINCIPAL + JOURNAL_CLIENT
};

/* A bed with something to tell. */
struct bed {
    struct bed *next;
    char key[KEY];
    struct telling_item *items;
    int n;
    bool busy;            /* an attempt is on its way */
    bool reported;        /* that its delivery has failed */
    int tries;            /* attempts of this delivery */
    int64_t first_try_ms; /* of this delivery; 0: none yet */
    int64_t due_ms, pause_ms;
    struct journal_entry newest; /* busy: what is being told */
};

struct line {
    struct hooks *all;
    const struct hook *hook;
    int index;
    pthread_mutex_t files_lock;
    struct hook_files files;
    bool has_files;
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct bed *beds;
    int waiting; /* entries of all beds */
    pthread_t threads[HOOKS_AT_ONCE];
    int n_threads, idle;
    int64_t failing_ms, logged_ms; /* since when; 0: it delivers */
    char error[256];
};

struct hooks {
    struct hooks_config config;
    struct line lines[HOOKS_MAX];
    int n;
    struct journal *journal;
    struct outlet outlet;
    atomic_bool stopping;
    pthread_mutex_t results_lock;
    struct hooks_result results[RESULTS];
    int first_result, n_results;
    int64_t beat_ms; /* the newest heartbeat, monotonic; the loop's */
};

static void count(const struct line *l, const char *result, int n) {
    char labels[HOOK_NAME + 32];
    if (!l->all->config.metrics || !n)
        return;
    str_format(labels, sizeof labels, "%s\x1f%s", l->hook->name, result);
    metric_add(metrics_series(l->all->config.metrics, "brrd_hook_attempts_total", labels), n);
}

/* ---- results ---- */

static void put_result(const struct line *l, bool delivered, const struct journal_entry *e) {
    struct hooks *all = l->all;
    if (!*e->alarm)
        return;
    pthread_mutex_lock(&all->results_lock);
    if (all->n_results == RESULTS) { /* the oldest is the least urgent */
        all->first_result = (all->first_result + 1) % RESULTS;
        all->n_results--;
    }
    all->results[(all->first_result + all->n_results++) % RESULTS] =
        (struct hooks_result){.hook = l->index, .delivered = delivered, .entry = *e};
    pthread_mutex_unlock(&all->results_lock);
    if (all->config.wake)
        all->config.wake(all->config.wake_ctx);
}

bool hooks_take_result(struct hooks *all, struct hooks_result *ret) {
    LOCKED(&all->results_lock);
    const bool some = all->n_results > 0;
    if (some) {
        *ret = all->results[all->first_result];
        all->first_result = (all->first_result + 1) % RESULTS;
        all->n_results--;
    }
    return some;
}

/* ---- beds; the lock of the line is held ---- */

/* Streams without a name are beds of their own; technical alarms of a kind are one bed. */
static void key_of(const struct journal_entry *e, char ret[KEY]) {
    struct alarms_cause cause;
    if (e->kind == JOURNAL_TECHNICAL_ON || e->kind == JOURNAL_TECHNICAL_OFF) {
        str_format(ret, KEY, "\x1e%s", alarm_entry_cause(e, &cause) ? alarm_kind_name(cause.kind) : "");
        return;
    }
    str_format(ret, KEY, "%s\x1f%s", e->principal, *e->client ? e->client : e->session);
}

static struct bed *bed_of(struct line *l, const struct journal_entry *e) {
    char key[KEY];
    struct bed *b = l->beds;
    key_of(e, key);
    while (b && strcmp(b->key, key) != 0)
        b = b->next;
    if (b || !(b = calloc(1, sizeof *b)))
        return b;
    str_copy(b->key, sizeof b->key, key);
    b->next = l->beds;
    l->beds = b;
    return b;
}

static void forget_if_done(struct line *l, struct bed *b) {
    if (b->items || b->busy)
        return;
    LIST_REMOVE(l->beds, b, next);
    free(b);
}

static struct telling_item *take_item(struct line *l, struct bed *b, struct telling_item *i) {
    LIST_REMOVE(b->items, i, next);
    b->n--;
    l->waiting--;
    return i;
}

static void item_free(struct telling_item *i) {
    if (i)
        journal_line_drop(i->line);
    free(i);
}

/* The journal hears it once hooks_start has named it; until then the outbox keeps the delivery. */
static void tell_journal(const struct line *l, const struct journal_entry *e, const char *outcome) {
    if (l->all->journal)
        journal_told(l->all->journal, l->hook->name, e, outcome);
}

/* Done without an attempt. */
static void settle_item(struct line *l, struct bed *b, struct telling_item *i, const char *outcome) {
    take_item(l, b, i);
    tell_journal(l, &i->line->entry, outcome);
    item_free(i);
}

/* Room for one more: the oldest entry of the bed that has most is superseded by the newer ones. */
static void make_room(struct line *l) {
    struct bed *most = NULL;
    for (struct bed *b = l->beds; l->waiting >= HOOKS_WAITING && b; b = b->next)
        most = b->items && (!most || b->n > most->n) ? b : most;
    if (most)
        settle_item(l, most, most->items, "superseded: too much waits");
}

/* An alarm that ended and has begun again within alarms.rejoin: receivers hear of neither. */
static bool rejoins(struct line *l, struct bed *b, const struct journal_entry *on) {
    for (struct telling_item *i = b->items; on->kind == JOURNAL_ALARM_ON && *on->alarm && i; i = i->next) {
        const struct journal_entry *off = &i->line->entry;
        if (off->kind != JOURNAL_ALARM_OFF || strcmp(off->alarm, on->alarm) != 0 || strcmp(off->session, on->session) != 0)
            continue;
        settle_item(l, b, i, "not told: the alarm went on");
        return true;
    }
    return false;
}

static void *hooks_run(void *ctx);

/* One more thread, if all are at work. */
static void grow(struct line *l) {
    if (!l->idle && l->n_threads && l->n_threads < HOOKS_AT_ONCE && !pthread_create(&l->threads[l->n_threads], NULL, hooks_run, l))
        l->n_threads++;
}

static bool is_urgent(const struct journal_entry *e) { return e->kind == JOURNAL_ALARM_ON || e->kind == JOURNAL_ESCALATED; }

/* A new alarm waits for no pause of what was tried before it. */
static void expect_at_once(struct bed *b) {
    b->due_ms = b->pause_ms = 0;
    b->tries = 0;
    b->reported = false;
    b->first_try_ms = clock_ms();
}

static void offer_line(struct line *l, struct journal_line *line) {
    const struct journal_entry *e = &line->entry;
    struct telling_item *i = calloc(1, sizeof *i);
    LOCKED(&l->lock);
    make_room(l);
    struct bed *b = i ? bed_of(l, e) : NULL;
    if (!b) {
        log_error("out of memory: a hook is not told", "hook=%s session=%s kind=%s", l->hook->name, e->session,
                  journal_kind_name(e->kind));
        free(i);
    } else if (rejoins(l, b, e)) {
        tell_journal(l, e, "not told: the alarm went on");
        free(i);
        forget_if_done(l, b);
    } else {
        i->line = journal_line_hold(line);
        LIST_ADD_LAST(b->items, i, next);
        b->n++;
        l->waiting++;
        i->stale = clock_ms() - line->made_ms >= l->all->config.stale_ms;
        if (is_urgent(e))
            expect_at_once(b);
        grow(l);
        pthread_cond_signal(&l->changed);
    }
}

/* Drops what was told by an earlier line. Returns when the next entry of the bed may be told, by the monotonic clock. */
static int64_t look_at_items(struct line *l, struct bed *b, int64_t now_ms) {
    int64_t next_ms = INT64_MAX;
    for (struct telling_item *i = b->items, *after; i; i = after) {
        int64_t when_ms;
        after = i->next;
        if (telling_wait(i->line, now_ms, l->all->config.rejoin_ms, &when_ms) == TELLING_NEVER)
            item_free(take_item(l, b, i));
        else if (when_ms < next_ms)
            next_ms = when_ms;
    }
    return next_ms > b->due_ms ? next_ms : b->due_ms;
}

static bool has_alarm_on(const struct bed *b) {
    for (const struct telling_item *i = b->items; i; i = i->next)
        if (is_urgent(&i->line->entry))
            return true;
    return false;
}

/* The bed to tell about now, those with an alarm first, or NULL: *ret_ms is when to look again. */
static struct bed *next_bed(struct line *l, int64_t now_ms, int64_t *ret_ms) {
    struct bed *best = NULL;
    *ret_ms = INT64_MAX;
    for (struct bed *b = l->beds, *after; b; b = after) {
        after = b->next;
        const int64_t when_ms = b->busy ? INT64_MAX : look_at_items(l, b, now_ms);
        if (!b->items && !b->busy) {
            forget_if_done(l, b);
            continue;
        }
        if (when_ms <= now_ms && (!best || (has_alarm_on(b) && !has_alarm_on(best))))
            best = b;
        else if (when_ms < *ret_ms)
            *ret_ms = when_ms;
    }
    return best;
}

/* ---- delivering ---- */

/* One delivery on its way. */
struct delivery {
    struct bed *bed;
    struct telling telling;
    char id[LINE_DELIVERY], covers[TELLING_COVERS][LINE_DELIVERY];
    char *body;
};

/* How long after the newest samples people hear of it: since the entry was made, and how late the samples were themselves, unless
 * the clocks of the recording and of this machine have nothing to do with each other. */
static double late_s(const struct telling *t) {
    const struct journal_entry *e = t->entry;
    const int64_t late_ms = e->sample_ms ? e->received_ms - e->sample_ms : 0;
    return (double)(clock_ms() - t->made_ms + (late_ms > 0 && late_ms < BELIEVED_MS ? late_ms : 0)) / 1000;
}

static char *compose(const struct line *l, struct delivery *d) {
    char text[TELLING_TEXT];
    const struct telling_item *i = d->telling.items;
    int n = 0;
    telling_text(&d->telling, text);
    for (; i && i->next && n < TELLING_COVERS; i = i->next)
        outlet_id(l->hook->name, &i->line->entry, d->covers[n++]);
    outlet_id(l->hook->name, d->telling.entry, d->id);
    const struct hook_message message = {.id = d->id,
                                         .entry = d->telling.entry,
                                         .text = text,
                                         .page = l->all->config.page,
                                         .late_s = late_s(&d->telling),
                                         .covers = (const char(*)[LINE_DELIVERY])d->covers,
                                         .n_covers = n};
    return hook_body(l->hook, &message);
}

static void release(struct line *l, struct delivery *d, const char *outcome) {
    for (struct telling_item *i = d->telling.items, *after; i; i = after) {
        after = i->next;
        tell_journal(l, &i->line->entry, outcome);
        item_free(i);
    }
    d->telling.items = NULL;
    d->bed->tries = 0;
    d->bed->first_try_ms = d->bed->due_ms = d->bed->pause_ms = 0;
    d->bed->reported = false;
}

/* Takes what is told next off the bed; true. */
static bool take(struct line *l, struct bed *b, int64_t now_ms, struct delivery *d) {
    if (!telling_take(&b->items, now_ms, l->all->config.rejoin_ms, &d->telling))
        return false;
    d->bed = b;
    for (const struct telling_item *i = d->telling.items; i; i = i->next) {
        b->n--;
        l->waiting--;
    }
    return true;
}

/* A restart owes nobody what is long over. */
static bool too_old(const struct delivery *d, int64_t now_ms) {
    return !d->telling.is_on && now_ms - d->telling.made_ms >= HOOKS_GIVE_UP_MS;
}

/* The lock is held. False: nothing is due; *ret_ms: until when. */
static bool begin(struct line *l, struct delivery *d, int64_t *ret_ms) {
    const int64_t now_ms = clock_ms();
    struct bed *b = next_bed(l, now_ms, ret_ms);
    while (b && take(l, b, now_ms, d) && too_old(d, now_ms)) {
        release(l, d, "given up: too old");
        forget_if_done(l, b);
        b = next_bed(l, now_ms, ret_ms);
    }
    if (!b)
        return false;
    b->busy = true;
    if (next_bed(l, now_ms, ret_ms)) { /* another one is due */
        grow(l);
        pthread_cond_signal(&l->changed);
    }
    b->newest = *d->telling.entry;
    b->first_try_ms = b->first_try_ms ? b->first_try_ms : now_ms;
    return true;
}

static int read_files(struct line *l, struct err *err) {
    LOCKED(&l->files_lock);
    int rc = l->has_files ? 0 : hook_read_files(l->hook, &l->files, err);
    l->has_files = !rc;
    return rc;
}

static int attempt(struct line *l, const struct hook_attempt *what, struct err *err) {
    struct hook_attempt a = *what;
    a.files = &l->files;
    if (!a.body)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a delivery");
    if (read_files(l, err))
        return err->code = ERR_UNAVAILABLE; /* somebody may put it right */
    return hook_attempt(l->hook, &a, err);
}

/* The delivery of the bed has failed, as far as people are concerned; the lock is held. */
static void report_failure(struct line *l, struct bed *b, const char *error) {
    if (b->reported)
        return;
    b->reported = true;
    if (!l->failing_ms)
        l->failing_ms = clock_ms();
    str_copy(l->error, sizeof l->error, error);
    put_result(l, false, &b->newest);
}

/* The receiver is well: nobody waits any longer. */
static void recover(struct line *l) {
    l->failing_ms = 0;
    for (struct bed *b = l->beds; b; b = b->next)
        b->due_ms = 0;
}

static void delivered(struct line *l, struct delivery *d) {
    recover(l);
    count(l, "delivered", 1);
    put_result(l, true, d->telling.entry);
    release(l, d, "delivered");
}

static void keep_waiting(struct line *l, struct delivery *d) {
    for (const struct telling_item *i = d->telling.items; i; i = i->next) {
        d->bed->n++;
        l->waiting++;
    }
    telling_return(&d->telling, &d->bed->items);
}

/* Whether another attempt follows. A receiver that refuses is asked again as long as the alarm is on. */
static bool worth_another(const struct line *l, const struct delivery *d, int rc) {
    const bool old = clock_ms() - d->telling.made_ms >= HOOKS_GIVE_UP_MS;
    return hook_posts(l->hook) && (d->telling.is_on || (rc != ERR_INVALID && !old));
}

static void failed(struct line *l, struct delivery *d, int rc, const struct err *err) {
    struct bed *b = d->bed;
    char text[800];
    const bool again = worth_another(l, d, rc);
    err_text(err, text, sizeof text);
    count(l, again ? "failed" : "dropped", 1);
    log_warn(again ? "a hook failed and is tried again" : "a hook failed", "hook=%s delivery=%s error=\"%s\"", l->hook->name, d->id,
             text);
    if (++b->tries >= HOOKS_TRIES || rc == ERR_INVALID || !again || clock_ms() - b->first_try_ms >= HOOKS_LATE_MS)
        report_failure(l, b, text);
    if (!again) {
        release(l, d, text);
        return;
    }
    const bool fresh = b->items && has_alarm_on(b); /* it came while the attempt was on its way */
    keep_waiting(l, d);
    b->pause_ms = !b->pause_ms ? FIRST_PAUSE_MS : 2 * b->pause_ms < LONGEST_PAUSE_MS ? 2 * b->pause_ms : LONGEST_PAUSE_MS;
    b->pause_ms = rc == ERR_INVALID ? LONGEST_PAUSE_MS : b->pause_ms;
    b->due_ms = fresh ? 0 : clock_ms() + b->pause_ms;
}

/* The lock is held, but not while the attempt is made. */
static void deliver(struct line *l, struct delivery *d) {
    struct err err;
    pthread_mutex_unlock(&l->lock);
    d->body = compose(l, d);
    int rc = attempt(l, &(struct hook_attempt){.id = d->id, .body = d->body, .stop = &l->all->stopping}, &err);
    free(d->body);
    pthread_mutex_lock(&l->lock);
    d->bed->busy = false;
    if (!rc)
        delivered(l, d);
    else if (atomic_load(&l->all->stopping))
        keep_waiting(l, d); /* the attempt was given up; the next start makes another one */
    else
        failed(l, d, rc, &err);
    forget_if_done(l, d->bed);
    pthread_cond_broadcast(&l->changed);
}

static void await_change(struct line *l, int64_t until_ms) {
    const int64_t left_ms = until_ms == INT64_MAX ? 0 : until_ms - clock_ms();
    const struct timespec until = clock_after_ms(left_ms > 0 ? left_ms : 0);
    l->idle++;
    if (until_ms == INT64_MAX)
        pthread_cond_wait(&l->changed, &l->lock);
    else
        pthread_cond_timedwait(&l->changed, &l->lock, &until);
    l->idle--;
}

/* Commands inherit the niceness of the thread, and never run before the daemon itself. */
static void be_ordinary(void) {
    if (getpriority(PRIO_PROCESS, (id_t)gettid()) < 0)
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 0);
}

static void *hooks_run(void *ctx) {
    struct line *l = ctx;
    be_ordinary();
    LOCKED(&l->lock);
    while (!atomic_load(&l->all->stopping)) {
        struct delivery d = {0};
        int64_t until_ms;
        if (begin(l, &d, &until_ms))
            deliver(l, &d);
        else
            await_change(l, until_ms);
    }
    return NULL;
}

/* ---- what the journal sees ---- */

static const struct line *line_at(const void *ctx, int i) { return &((const struct hooks *)ctx)->lines[i]; }
static const char *outlet_name(void *ctx, int i) { return line_at(ctx, i)->hook->name; }
static bool outlet_wants(void *ctx, int i, const struct journal_entry *e) { return hook_wants(line_at(ctx, i)->hook, e); }
static void outlet_offer(void *ctx, int i, struct journal_line *line) { offer_line(&((struct hooks *)ctx)->lines[i], line); }
static void outlet_written(void *ctx) {
    struct hooks *all = ctx;
    for (int i = 0; i < all->n; i++) {
        LOCKED(&all->lines[i].lock);
        if (all->lines[i].beds)
            pthread_cond_broadcast(&all->lines[i].changed);
    }
}

const struct outlet *hooks_outlet(const struct hooks *all) { return &all->outlet; }

/* ---- life ---- */

static void line_init(struct hooks *all, int i) {
    struct line *l = &all->lines[i];
    struct err err;
    *l = (struct line){.all = all, .hook = &all->config.list[i], .index = i};
    pthread_mutex_init(&l->files_lock, NULL);
    pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->changed);
    if (!read_files(l, &err))
        return;
    l->failing_ms = l->logged_ms = clock_ms();
    err_text(&err, l->error, sizeof l->error);
    log_error("a hook cannot deliver", "hook=%s error=\"%s\"", l->hook->name, l->error);
}

int hooks_new(const struct hooks_config *config, struct hooks **ret, struct err *err) {
    struct hooks *all = calloc(1, sizeof *all);
    if (!all)
        return err_set(err, ERR_EXHAUSTED, "out of memory for hooks");
    all->config = *config;
    all->n = config->n;
    pthread_mutex_init(&all->results_lock, NULL);
    all->outlet = (struct outlet){
        .ctx = all, .n = config->n, .name = outlet_name, .wants = outlet_wants, .offer = outlet_offer, .written = outlet_written};
    for (int i = 0; i < config->n; i++)
        line_init(all, i);
    *ret = all;
    return 0;
}

int hooks_start(struct hooks *all, struct journal *journal, struct err *err) {
    for (int i = 0; i < all->n; i++) {
        struct line *l = &all->lines[i];
        pthread_mutex_lock(&l->lock);
        all->journal = journal;
        l->n_threads = pthread_create(&l->threads[0], NULL, hooks_run, l) ? 0 : 1;
        pthread_mutex_unlock(&l->lock);
        if (!l->n_threads)
            return err_set(err, ERR_EXHAUSTED, "cannot start the thread of the hook %s", l->hook->name);
    }
    return 0;
}

void hooks_stop(struct hooks *all) {
    if (!all)
        return;
    atomic_store(&all->stopping, true);
    for (int i = 0; i < all->n; i++) {
        struct line *l = &all->lines[i];
        pthread_mutex_lock(&l->lock);
        const int n = l->n_threads;
        l->n_threads = 0; /* none is added any more */
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        for (int k = 0; k < n; k++)
            pthread_join(l->threads[k], NULL);
    }
}

static void line_done(struct line *l) {
    while (l->beds) {
        struct bed *b = l->beds;
        l->beds = b->next;
        while (b->items) {
            struct telling_item *i = b->items;
            b->items = i->next;
            item_free(i);
        }
        free(b);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->files_lock);
    hook_files_done(&l->files);
}

void hooks_free(struct hooks *all) {
    if (!all)
        return;
    for (int i = 0; i < all->n; i++)
        line_done(&all->lines[i]);
    pthread_mutex_destroy(&all->results_lock);
    free(all);
}

int hooks_count(const struct hooks *all) { return all->n; }
const struct hook *hooks_at(const struct hooks *all, int i) { return all->lines[i].hook; }

/* Tells the i-th hook about this entry, whether or not it wants such entries: a step of an escalation. */
static void hooks_tell(struct hooks *all, int i, const struct journal_entry *e) {
    struct journal_line *l = journal_line_new(e);
    if (!l)
        return;
    atomic_store(&l->state, LINE_WRITTEN);
    offer_line(&all->lines[i], l);
    journal_line_drop(l);
}

void hooks_beat(struct hooks *all) {
    const int64_t now_ms = clock_ms();
    if (all->beat_ms && now_ms - all->beat_ms < HOOKS_BEAT_MS)
        return;
    all->beat_ms = now_ms;
    struct journal_entry e = {.kind = JOURNAL_HEARTBEAT,
                              .number = clock_wall_ms(), /* an id of its own */
                              .received_ms = clock_wall_ms(),
                              .start_s = NAN,
                              .end_s = NAN,
                              .value = NAN,
                              .live = true};
    str_copy(e.detail, sizeof e.detail, "brrd works");
    for (int i = 0; i < all->n; i++) {
        struct hooks_state state;
        hooks_describe(all, i, &state);
        if (!state.waiting && (all->lines[i].hook->kinds & 1u << JOURNAL_HEARTBEAT))
            hooks_tell(all, i, &e);
    }
}

int hooks_test(const struct hooks *all, int i, const atomic_bool *stop, struct err *err) {
    struct line *l = (struct line *)(uintptr_t)&all->lines[i]; /* reading its files late is no change that others see */
    struct journal_entry e = {
        .kind = JOURNAL_ALARM_ON, .received_ms = clock_wall_ms(), .start_s = NAN, .end_s = NAN, .value = 1, .live = true};
    char id[LINE_DELIVERY];
    str_copy(e.client, sizeof e.client, "test");
    str_copy(e.detail, sizeof e.detail, "a test of this hook; no alarm");
    str_format(id, sizeof id, "test-%lld", (long long)e.received_ms);
    char *body =
        hook_body(l->hook, &(struct hook_message){.id = id, .entry = &e, .text = e.detail, .page = all->config.page, .test = true});
    int rc = attempt(l, &(struct hook_attempt){.id = id, .body = body, .test = true, .stop = stop}, err);
    free(body);
    count(l, rc ? "failed" : "delivered", 1);
    if (rc)
        return rc;
    LOCKED(&l->lock);
    recover(l);
    pthread_cond_broadcast(&l->changed);
    return 0;
}

/* ---- looking after them ---- */

void hooks_tick(struct hooks *all) {
    const int64_t now_ms = clock_ms();
    for (int i = 0; i < all->n; i++) {
        struct line *l = &all->lines[i];
        pthread_mutex_lock(&l->lock);
        for (struct bed *b = l->beds; b; b = b->next)
            if (b->busy && b->first_try_ms && now_ms - b->first_try_ms >= HOOKS_LATE_MS)
                report_failure(l, b, "the receiver does not answer");
        const bool log = l->failing_ms && now_ms - l->logged_ms >= LOG_MS;
        l->logged_ms = log ? now_ms : l->logged_ms;
        const int waiting = l->waiting;
        const int64_t seconds = (now_ms - l->failing_ms) / 1000;
        char error[sizeof l->error];
        str_copy(error, sizeof error, l->error);
        pthread_mutex_unlock(&l->lock);
        if (log)
            log_error("a hook does not deliver", "hook=%s waiting=%d seconds=%lld error=\"%s\"", l->hook->name, waiting,
                      (long long)seconds, error);
    }
}

void hooks_describe(struct hooks *all, int i, struct hooks_state *ret) {
    struct line *l = &all->lines[i];
    LOCKED(&l->lock);
    *ret = (struct hooks_state){.failing = l->failing_ms != 0, .waiting = l->waiting, .since_ms = l->failing_ms};
    str_copy(ret->error, sizeof ret->error, ret->failing ? l->error : "");
}

bool hooks_ready(struct hooks *all) {
    struct hooks_state state;
    bool ready = true;
    for (int i = 0; i < all->n; i++) {
        hooks_describe(all, i, &state);
        ready &= !state.failing;
    }
    return ready;
}
