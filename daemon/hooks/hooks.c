#include "daemon/hooks/hooks.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "base/queue.h"
#include "daemon/alarms/alarm_entry.h"
#include "daemon/hooks/owed.h"
#include "daemon/hooks/told_marks.h"
#include "daemon/journal/journal.h"

enum { LOG_MS = 60 * 1000, BELIEVED_MS = 3600 * 1000, RESULTS = 256 };

struct line {
    struct hooks *all;
    const struct hook *hook;
    int index;
    pthread_mutex_t files_lock;
    struct hook_files files;
    bool has_files;
    char receiver[LINE_DELIVERY]; /* whom it reaches (who_hears) */
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct owed owed;
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
    struct told_marks *marks; /* NULL: no other daemon tells the same */
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

/* Of what is told, and of each other escalation of its group. */
static void put_all_results(const struct line *l, bool delivered, const struct journal_entry *e, const struct telling_item *items) {
    put_result(l, delivered, e);
    for (const struct telling_item *i = items; i; i = i->next)
        if (i->line->entry.kind == JOURNAL_ESCALATED && strcmp(i->line->entry.alarm, e->alarm) != 0)
            put_result(l, delivered, &i->line->entry);
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

/* ---- what is owed; the lock of the line is held ---- */

/* The journal hears it once hooks_start has named it; until then the outbox keeps the delivery. */
static void tell_journal(void *ctx, const struct journal_entry *e, const char *outcome) {
    const struct line *l = ctx;
    if (l->all->journal)
        journal_told(l->all->journal, l->hook->name, e, outcome);
    if (!str_starts(outcome, "dropped"))
        return;
    count(l, "dropped", 1);
    log_error("a hook is not told: too much waits", "hook=%s session=%s kind=%s", l->hook->name, e->session,
              journal_kind_name(e->kind));
}

static void *hooks_run(void *ctx);

/* One more thread, if all are at work. */
static void grow(struct line *l) {
    if (!l->idle && l->n_threads && l->n_threads < HOOKS_AT_ONCE && !pthread_create(&l->threads[l->n_threads], NULL, hooks_run, l))
        l->n_threads++;
}

/* A new alarm: its pauses begin anew. */
static void expect_at_once(struct owed_bed *b) {
    b->pause_ms = 0;
    b->tries = 0;
    b->reported = false;
    b->first_try_ms = clock_ms();
}

static bool is_over(const struct journal_entry *e) { return e->kind == JOURNAL_ALARM_OFF; }
static bool is_edge(const struct journal_entry *e) { return is_over(e) || e->kind == JOURNAL_ALARM_ON; }

static void offer_line(struct line *l, struct journal_line *line) {
    const struct journal_entry *e = &line->entry;
    LOCKED(&l->lock);
    /* a hook that does not want it was owed an escalation, maybe before a restart */
    const bool instead = is_edge(e) && (owed_escalates(&l->owed, e) || !hook_wants(l->hook, e));
    if (instead && is_over(e))
        owed_settle_escalations(&l->owed, e, "not told: the alarm is over");
    struct owed_bed *b = owed_add(&l->owed, line, instead, clock_ms());
    if (!b)
        return;
    if (e->kind == JOURNAL_ALARM_ON || e->kind == JOURNAL_ESCALATED)
        expect_at_once(b);
    grow(l);
    pthread_cond_signal(&l->changed);
}

/* ---- delivering ---- */

/* One delivery on its way. */
struct delivery {
    struct owed_bed *bed;
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
                                         .n_covers = n,
                                         .test = alarm_entry_is_test(d->telling.entry)};
    return hook_body(l->hook, &message);
}

static void release(struct line *l, struct delivery *d, const char *outcome) {
    owed_settle(&l->owed, &d->telling, outcome);
    d->bed->tries = 0;
    d->bed->first_try_ms = d->bed->due_ms = d->bed->pause_ms = 0;
    d->bed->reported = false;
}

/* A restart owes nobody what is long over. */
static bool too_old(const struct delivery *d, int64_t now_ms) {
    return !d->telling.is_on && now_ms - d->telling.made_ms >= HOOKS_GIVE_UP_MS;
}

/* The lock is held. False: nothing is due; *ret_ms: until when. */
static bool begin(struct line *l, struct delivery *d, int64_t *ret_ms) {
    const int64_t now_ms = clock_ms();
    struct owed_bed *b = owed_next(&l->owed, now_ms, HOOKS_AT_ONCE, ret_ms);
    while (b && owed_begin(&l->owed, b, now_ms, &d->telling)) {
        d->bed = b;
        if (!too_old(d, now_ms))
            break;
        release(l, d, "given up: too old");
        owed_end(&l->owed, b, &d->telling, false);
        owed_forget_if_done(&l->owed, b, now_ms);
        b = owed_next(&l->owed, now_ms, HOOKS_AT_ONCE, ret_ms);
    }
    if (!d->telling.items)
        return false;
    if (owed_next(&l->owed, now_ms, HOOKS_AT_ONCE, ret_ms)) { /* another one is due */
        grow(l);
        pthread_cond_signal(&l->changed);
    }
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
static void report_failure(struct line *l, struct owed_bed *b, const char *error) {
    if (b->reported)
        return;
    b->reported = true;
    if (!l->failing_ms)
        l->failing_ms = clock_ms();
    str_copy(l->error, sizeof l->error, error);
    put_all_results(l, false, &b->newest, b->flying);
}

/* The receiver is well: nobody waits any longer. */
static void recover(struct line *l) {
    l->failing_ms = 0;
    const char *key;
    void *value;
    for (size_t at = 0; map_next(l->owed.beds, &at, &key, &value);)
        ((struct owed_bed *)value)->due_ms = 0;
}

static void delivered(struct line *l, struct delivery *d) {
    recover(l);
    count(l, "delivered", 1);
    put_all_results(l, true, d->telling.entry, d->telling.items);
    release(l, d, "delivered");
}

/* Whether another attempt follows. A receiver that refuses is asked again as long as the alarm is on. */
static bool worth_another(const struct line *l, const struct delivery *d, int rc) {
    const bool old = clock_ms() - d->telling.made_ms >= HOOKS_GIVE_UP_MS;
    return hook_posts(l->hook) && (d->telling.is_on || (rc != ERR_INVALID && !old));
}

static void failed(struct line *l, struct delivery *d, int rc, const struct err *err) {
    struct owed_bed *b = d->bed;
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
    owed_put_off(b, clock_ms(), rc == ERR_INVALID);
}

/* Daemons that share streams compute the same entries, which have the same ids. Those of no stream are the daemon's own. */
static bool is_marked(const struct line *l, const struct journal_entry *e, bool put) {
    char id[LINE_DELIVERY];
    if (!l->all->marks || !*e->session)
        return false;
    outlet_id(l->receiver, e, id);
    if (put)
        told_marks_put(l->all->marks, id);
    return !put && told_marks_has(l->all->marks, id);
}

/* Both say of one alarm whether it is on. */
static bool is_state_of_same(const struct journal_entry *a, const struct journal_entry *b) {
    const unsigned states = 1u << JOURNAL_ALARM_ON | 1u << JOURNAL_ALARM_OFF;
    return *a->alarm && !strcmp(a->alarm, b->alarm) && (states >> a->kind & 1) && (states >> b->kind & 1);
}

/* An entry that another daemon has told is settled, and so are the states of its alarm before it, over which that daemon may have
 * passed; the next attempt tells the rest. */
static bool others_told(struct line *l, const struct delivery *d) {
    bool some = false;
    for (struct telling_item *i = d->telling.items; i; i = i->next) {
        if (!is_marked(l, &i->line->entry, false))
            continue;
        LOCKED(&l->lock);
        for (struct telling_item *before = d->telling.items; before != i; before = before->next)
            if (!before->outcome && is_state_of_same(&before->line->entry, &i->line->entry))
                before->outcome = "not told: a later state was told already";
        i->outcome = "told already";
        some = true;
    }
    return some;
}

/* The lock is held, but not while the attempt is made. */
static void deliver(struct line *l, struct delivery *d) {
    struct err err;
    pthread_mutex_unlock(&l->lock);
    const bool told = others_told(l, d);
    d->body = told ? NULL : compose(l, d);
    int rc = told ? 0 : attempt(l, &(struct hook_attempt){.id = d->id, .body = d->body, .stop = &l->all->stopping}, &err);
    free(d->body);
    for (const struct telling_item *i = d->telling.items; !told && !rc && i; i = i->next)
        (void)is_marked(l, &i->line->entry, true);
    pthread_mutex_lock(&l->lock);
    if (told)
        d->bed->first_try_ms = 0;
    else if (!rc)
        delivered(l, d);
    else if (!atomic_load(&l->all->stopping)) /* else the attempt was given up; the next start makes another one */
        failed(l, d, rc, &err);
    owed_end(&l->owed, d->bed, &d->telling, d->telling.items != NULL);
    owed_forget_if_done(&l->owed, d->bed, clock_ms());
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

static bool outlet_wants(void *ctx, int i, const struct journal_entry *e) {
    struct line *l = &((struct hooks *)ctx)->lines[i];
    if (e->untold)
        return false;
    if (hook_wants(l->hook, e) || !is_edge(e))
        return hook_wants(l->hook, e);
    LOCKED(&l->lock);
    return owed_escalates(&l->owed, e); /* told instead, whatever the hook's kinds */
}

static void outlet_see(void *ctx, const struct journal_entry *e) {
    struct hooks *all = ctx;
    struct alarm_answer answer;
    for (int i = 0; i < all->n && e->kind == JOURNAL_ANSWERED; i++) {
        LOCKED(&all->lines[i].lock);
        if (alarm_entry_answer(e, &answer) && answer.action == ALARM_ACKNOWLEDGE)
            owed_answered(&all->lines[i].owed, e);
    }
}

static void outlet_offer(void *ctx, int i, struct journal_line *line) { offer_line(&((struct hooks *)ctx)->lines[i], line); }
static void outlet_written(void *ctx) {
    struct hooks *all = ctx;
    for (int i = 0; i < all->n; i++) {
        LOCKED(&all->lines[i].lock);
        if (all->lines[i].owed.waiting)
            pthread_cond_broadcast(&all->lines[i].changed);
    }
}

const struct outlet *hooks_outlet(const struct hooks *all) { return &all->outlet; }

/* ---- life ---- */

/* Hooks of two daemons reach the same people if their names and addresses are equal. A command, which may be a buzzer in the room,
 * and a receiver at a loopback address are this machine's, whatever their words and ports. */
static void who_hears(const struct line *l, char ret[LINE_DELIVERY]) {
    const struct hook *h = l->hook;
    const char *url = h->url ? h->url : l->files.url, *none[] = {NULL};
    const bool here = !url || str_url_is_loopback(url);
    char host[256] = "";
    if (here)
        (void)gethostname(host, sizeof host - 1);
    const char *own[] = {h->name, here ? host : url, NULL}, **both[] = {own, h->to ? h->to : none};
    *ret = '\0';
    for (int i = 0; i < 2; i++)
        for (const char **word = both[i]; *word; word++)
            for (size_t at = 0, len = strlen(*word); at <= len; at += 400) {
                char text[LINE_DELIVERY + 402];
                str_format(text, sizeof text, "%s\n%.400s", ret, *word + at);
                outlet_id(text, &(struct journal_entry){0}, ret);
            }
}

/* False: out of memory. */
static bool line_init(struct hooks *all, int i) {
    struct line *l = &all->lines[i];
    struct err err;
    *l = (struct line){.all = all, .hook = &all->config.list[i], .index = i};
    const bool room = owed_init(&l->owed);
    COPY_MEMBERS(l->owed, all->config, rejoin_ms, stale_ms);
    l->owed.settled = tell_journal;
    l->owed.ctx = l;
    pthread_mutex_init(&l->files_lock, NULL);
    pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->changed);
    const bool readable = !read_files(l, &err);
    who_hears(l, l->receiver);
    if (readable)
        return room;
    l->failing_ms = l->logged_ms = clock_ms();
    err_text(&err, l->error, sizeof l->error);
    log_error("a hook cannot deliver", "hook=%s error=\"%s\"", l->hook->name, l->error);
    return room;
}

int hooks_new(const struct hooks_config *config, struct hooks **ret, struct err *err) {
    struct hooks *all = calloc(1, sizeof *all);
    if (!all)
        return err_set(err, ERR_EXHAUSTED, "out of memory for hooks");
    all->config = *config;
    pthread_mutex_init(&all->results_lock, NULL);
    all->outlet = (struct outlet){.ctx = all,
                                  .n = config->n,
                                  .name = outlet_name,
                                  .see = outlet_see,
                                  .wants = outlet_wants,
                                  .offer = outlet_offer,
                                  .written = outlet_written};
    for (int i = 0; i < config->n; i++) {
        all->n++;
        if (!line_init(all, i)) {
            hooks_free(all);
            return err_set(err, ERR_EXHAUSTED, "out of memory for hooks");
        }
    }
    if (config->shared && told_marks_open(config->shared, &all->marks, err)) {
        hooks_free(all);
        return err->code;
    }
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
    owed_done(&l->owed);
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
    told_marks_close(all->marks);
    pthread_mutex_destroy(&all->results_lock);
    free(all);
}

int hooks_count(const struct hooks *all) { return all->n; }

unsigned hooks_people(const struct hooks *all, const struct journal_entry *e) {
    unsigned people = 0;
    for (int i = 0; i < all->n; i++)
        people |= !all->lines[i].hook->machine && hook_wants(all->lines[i].hook, e) ? 1u << i : 0;
    return people;
}

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

static void look_for_late(struct line *l, int64_t now_ms) {
    const char *key;
    void *value;
    for (size_t at = 0; map_next(l->owed.beds, &at, &key, &value);) {
        struct owed_bed *b = value;
        if (b->place.busy && b->first_try_ms && now_ms - b->first_try_ms >= HOOKS_LATE_MS)
            report_failure(l, b, "the receiver does not answer");
    }
}

void hooks_tick(struct hooks *all) {
    const int64_t now_ms = clock_ms();
    for (int i = 0; i < all->n; i++) {
        struct line *l = &all->lines[i];
        pthread_mutex_lock(&l->lock);
        look_for_late(l, now_ms);
        const bool log = l->failing_ms && now_ms - l->logged_ms >= LOG_MS;
        l->logged_ms = log ? now_ms : l->logged_ms;
        const int waiting = l->owed.waiting;
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
    *ret = (struct hooks_state){.failing = l->failing_ms != 0, .waiting = l->owed.waiting, .since_ms = l->failing_ms};
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
