#include "daemon/alarms/desk.h"

#include <assert.h>

#include "base/log.h"
#include "base/trusted_time.h"
#include "daemon/alarms/alarm_entry.h"
#include "daemon/journal/journaldb.h"

enum {
    READ_TRIES = 1200,
    READ_PAUSE_MS = 50,
    LOOK_MS = 5,
    DOUBT_MS = 5000,
    NAMED_IDS = 4 /* in an error */,
    IDS_TEXT = 512,
    MERGE_MOST = 64,
    ANSWERS = 2 /* entries that say what people did about an alarm */
};
static_assert((int)SESSION_GIVEN == 1 + ANSWERS && (int)SESSION_DESCRIBED > ANSWERS, "room for all entries");

/* An order of another thread, on that thread's stack. */
struct asking {
    struct asking *next;
    struct desk_order *order;
    struct err *err;
    int rc;
    bool done;
};

struct desk {
    struct desk_config config;
    struct alarms *alarms;
    int64_t numbered;     /* the newest entry of the model's own: Unix time, but each once */
    int64_t tests;        /* how many test alarms there were */
    int64_t journaled;    /* number of the newest entry that an order made */
    bool own;             /* an entry of the model itself is on its way into the journal */
    struct past *past;    /* NULL: nothing is being read */
    int64_t doubt_ms;     /* until then alarms from before the start take no step, unless they are settled; monotonic */
    pthread_mutex_t lock; /* all below */
    pthread_cond_t answered;
    struct asking *first; /* oldest first */
    bool stopped;
};

static void leave_past(struct desk *d);

struct alarms_now desk_now(void) {
    return (struct alarms_now){.boot_ms = trusted_boot_ms(), .wall_ms = clock_wall_ms()};
}

struct alarms *desk_alarms(const struct desk *d) {
    return d->alarms;
}

static void on_row(void *ctx, const struct alarms_row *row) {
    struct desk *d = ctx;
    struct journal_entry e;
    alarm_entry_make(row, &e);
    d->numbered = e.received_ms > d->numbered ? e.received_ms : d->numbered + 1;
    e.number = e.number < 0 ? d->numbered : e.number;
    log_info("alarm", "what=%s alarm=%s bed=\"%s\" person=\"%s\" step=%d detail=\"%s\"", journal_kind_name(e.kind), e.alarm,
             log_name(e.client), e.person, (int)e.step, e.detail);
    d->own = true;
    if (d->config.journal)
        d->journaled = journal_add(d->config.journal, &e);
    d->own = false;
}

int desk_new(const struct desk_config *config, struct desk **ret, struct err *err) {
    struct desk *d = calloc(1, sizeof *d);
    if (!d || !(d->alarms = alarms_new(&config->plan, on_row, d))) {
        free(d);
        return err_set(err, ERR_EXHAUSTED, "out of memory for alarms");
    }
    d->config = *config;
    pthread_mutex_init(&d->lock, NULL);
    clock_cond_init(&d->answered);
    *ret = d;
    return 0;
}

void desk_free(struct desk *d) {
    if (!d)
        return;
    leave_past(d);
    alarms_free(d->alarms);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->answered);
    free(d);
}

void desk_note(void *desk, struct journal_entry *e) {
    struct desk *d = desk;
    const struct alarms_now now = desk_now();
    if (d->own)
        return;
    const struct alarm *a = *e->alarm ? alarms_find(d->alarms, e->alarm) : NULL;
    const bool answered = a && a->answered.at_ms;
    const bool edge = e->kind == JOURNAL_ALARM_ON || e->kind == JOURNAL_ALARM_OFF;
    e->untold |= a && edge && alarms_knows(a, e->session, e->start_s); /* its stream comes from an older snapshot */
    alarm_entry_take(d->alarms, e, &now);
    a = *e->alarm ? alarms_find(d->alarms, e->alarm) : NULL;
    e->on_ms = a ? a->on_ms : e->on_ms;
    e->untold |= a && a->due_boot_ms;
    if (a && e->kind == JOURNAL_ALARM_ON && a->answered.at_ms) /* the answer covers what is on again */
        str_copy(e->person, sizeof e->person, *a->answered.person ? a->answered.person : a->answered.by);
    if (a && e->kind == JOURNAL_ALARM_ON && !*e->detail)
        alarm_entry_describe(a, e);
    e->sounds = answered && a && !a->answered.at_ms;
}

static void name_alarm(void *desk, const struct journal_entry *e, bool alone, char ret[JOURNAL_ALARM]) {
    const struct desk *d = desk;
    const struct alarms_now now = desk_now();
    struct alarms_start start = alarm_entry_start(e);
    char before[JOURNAL_ALARM];
    str_copy(before, sizeof before, ret);
    start.alone = alone;
    start.before = before;
    start.before_s = e->end_s;
    alarms_name(d->alarms, &start, &now, ret);
}

static int64_t on_in(void *desk, const char *session, char ret[JOURNAL_ALARM]) {
    const struct desk *d = desk;
    const struct alarm *a = alarms_on_in(d->alarms, session);
    if (!a)
        return -1;
    str_copy(ret, JOURNAL_ALARM, a->id);
    return isfinite(a->changed_s) ? llround(a->changed_s * 256) : 0;
}

static bool is_of_another(void *desk, const char *alarm, const char *session) {
    const struct desk *d = desk;
    const struct alarm *a = alarms_find(d->alarms, alarm);
    return a && strcmp(a->session, session) != 0;
}

static bool holds_bed(void *desk, const char *principal, const char *bed) {
    return alarms_holds(((const struct desk *)desk)->alarms, principal, bed);
}

static void add_entry(struct desk *d, struct journal_entry *e) {
    if (d->config.journal)
        journal_add(d->config.journal, e);
    else
        desk_note(d, e);
}

/* The alarm goes off in its session, for this reason. */
static void end_alarm(struct desk *d, const struct alarm *a, enum journal_off off) {
    const struct alarms_now now = desk_now();
    struct journal_entry e;
    alarm_entry_off(a, off, &now, &e);
    add_entry(d, &e);
}

static void move_alarm(struct desk *d, const struct alarm *a) {
    const struct alarms_now now = desk_now();
    struct journal_entry e;
    alarm_entry_off(a, JOURNAL_OFF_ENDED, &now, &e);
    e.kind = JOURNAL_MOVED;
    str_copy(e.detail, sizeof e.detail, "another daemon has the stream");
    add_entry(d, &e);
}

static bool is_to_settle(const struct alarm *a) { return *a->session && !a->off_ms && !a->test; }

static bool settle_alarms(void *desk, int (*place)(void *sessions, const char *session), void *sessions) {
    struct desk *d = desk;
    struct alarms_cursor cursor = {0};
    const bool read = !d->past; /* alarms from before the start are known */
    bool known = read;
    for (const struct alarm *a; read && (a = alarms_next(d->alarms, &cursor));) {
        const int where = is_to_settle(a) ? place(sessions, a->session) : SESSION_HERE;
        known &= where != SESSION_PLACE_ASKED;
        if (where == SESSION_ELSEWHERE)
            move_alarm(d, a);
        else if (where != SESSION_GONE && where != SESSION_PLACE_UNKNOWN)
            continue;
        else if (a->kind == ALARM_SEIZURE)
            end_alarm(d, a, where == SESSION_GONE ? JOURNAL_OFF_FAILED : JOURNAL_OFF_UNKNOWN);
        else
            alarms_gone(d->alarms, a->session);
    }
    d->doubt_ms = known ? 0 : d->doubt_ms;
    return known;
}

static int describe_answers(const struct desk *d, const char *alarm, struct journal_entry ret[ANSWERS]) {
    const struct alarm *a = alarms_find(d->alarms, alarm);
    const struct alarms_now now = desk_now();
    int n = 0;
    if (a && a->step)
        alarm_entry_make(&(struct alarms_row){.kind = ALARMS_ROW_ESCALATED,
                                              .alarm = a,
                                              .step = a->step,
                                              .at_ms = now.wall_ms - (now.boot_ms - a->step_boot_ms),
                                              .boot_ms = a->step_boot_ms > 0 ? a->step_boot_ms : 0},
                         &ret[n++]);
    if (a && a->answered.at_ms) {
        const struct alarm_answer answer = {.action = ALARM_ACKNOWLEDGE, .author = a->answered};
        alarm_entry_make(
            &(struct alarms_row){
                .kind = ALARMS_ROW_ANSWERED, .alarm = a, .answer = &answer, SAME_MEMBERS(a->answered, at_ms, boot_ms)},
            &ret[n++]);
    }
    return n;
}

static int describe_stream(void *desk, const struct journal_entry *of, struct journal_entry ret[SESSION_DESCRIBED]) {
    const struct desk *d = desk;
    const struct alarms_cause stream = {.bed = of->client, .principal = of->principal, .session = of->session, .why = ""};
    const struct alarm *list[SESSION_DESCRIBED], *a = alarms_find(d->alarms, of->alarm);
    const struct alarms_now now = desk_now();
    struct alarms_row standby = {.kind = ALARMS_ROW_STANDBY, .bed = of->client};
    standby.until_ms = alarms_in_standby(d->alarms, of->client, &now, &standby.author);
    int n = describe_answers(d, of->alarm, ret);
    if (a && *a->where)
        alarm_entry_on(a, &ret[n++]);
    if (standby.author && !alarms_is_anothers(d->alarms, of->principal, of->client)) {
        COPY_MEMBERS(standby, *standby.author, at_ms, boot_ms);
        alarm_entry_make(&standby, &ret[n++]);
    }
    const int technical = alarms_technical_of(d->alarms, &stream, list, SESSION_DESCRIBED - n);
    for (int i = 0; i < technical; i++)
        alarm_entry_make(&(struct alarms_row){.kind = ALARMS_ROW_TECHNICAL_ON, .alarm = list[i], .at_ms = list[i]->on_ms},
                         &ret[n++]);
    return n;
}

/* Its hooks tell people what the daemon before has not told them. That daemon ends lost and no_signal (alarms_moved),
 * so they end here too: a signal that is still not there is another alarm, of which people hear. */
static void inherit_technical(struct desk *d, struct journal_entry *e) {
    struct alarms_cause cause;
    if (alarms_find(d->alarms, e->alarm))
        return;
    desk_note(d, e);
    const bool on = alarms_find(d->alarms, e->alarm);
    d->own = true;
    if (on && d->config.journal)
        (void)journal_add_again(d->config.journal, e);
    d->own = false;
    if (!on || !alarm_entry_cause(e, &cause) || !alarms_is_of_stream(cause.kind))
        return;
    const struct alarms_now now = desk_now();
    e->kind = JOURNAL_TECHNICAL_OFF;
    if (cause.kind == ALARM_NO_SIGNAL)
        str_format(e->detail, sizeof e->detail, "%s: " ALARMS_MOVED, alarm_kind_name(cause.kind));
    e->received_ms = now.wall_ms;
    e->boot_ms = now.boot_ms;
    add_entry(d, e);
}

/* True if the register needs no entry e: it has this change, a newer one, or neither the alarm (a) nor the bed. */
static bool is_known(const struct desk *d, const struct alarm *a, const struct journal_entry *e) {
    const struct alarm_author author = {.at_ms = e->received_ms, .boot_ms = e->boot_ms}, *by = NULL;
    const struct alarms_now now = desk_now();
    if (e->kind != JOURNAL_STANDBY)
        return !a || (e->kind == JOURNAL_ESCALATED && a->step >= e->step);
    (void)alarms_in_standby(d->alarms, e->client, &now, &by);
    return (by && !alarm_author_is_later(&author, by)) || alarms_is_anothers(d->alarms, e->principal, e->client);
}

static void take_over(void *desk, struct journal_entry *e) {
    struct desk *d = desk;
    const struct alarm *a = alarms_find(d->alarms, e->alarm);
    if (journal_kind_is_technical(e->kind)) {
        inherit_technical(d, e);
        return;
    }
    if (e->kind == JOURNAL_ALARM_ON) {
        alarms_carried_by(d->alarms, e->alarm, e->where);
        return;
    }
    a = a ? a : alarms_away(d->alarms, e->alarm);
    if (is_known(d, a, e))
        return;
    e->number = e->received_ms; /* as on_row gave it where the answer was given */
    e->untold = e->kind == JOURNAL_STANDBY;
    alarms_restore(d->alarms, true); /* its row is the one below, of which nobody is told */
    desk_note(d, e);
    alarms_restore(d->alarms, false);
    d->own = true;
    if (e->kind != JOURNAL_ESCALATED && d->config.journal)
        (void)journal_add_again(d->config.journal, e);
    d->own = false;
}

static int give_alarm(void *desk, const char *session, struct journal_entry ret[SESSION_GIVEN]) {
    const struct desk *d = desk;
    const struct alarm *a = alarms_on_in(d->alarms, session);
    if (!a)
        return 0;
    alarm_entry_on(a, &ret[0]);
    return 1 + describe_answers(d, a->id, ret + 1);
}

/* The row with which the alarm that began with `on` ends, because it is on here under another id. */
static void end_under(struct desk *d, const struct journal_entry *on, const char *id) {
    const struct alarms_now now = desk_now();
    struct journal_entry e = *on;
    e.kind = JOURNAL_ALARM_OFF;
    e.received_ms = now.wall_ms; /* its number stays: it ends once, however often it comes */
    e.boot_ms = now.boot_ms;
    e.start_s = e.value = NAN;
    e.person[0] = '\0';
    e.untold = true;
    str_format(e.detail, sizeof e.detail, "goes on as %s", id);
    add_entry(d, &e);
}

static bool receive_alarm(void *desk, struct journal_entry *list, int n) {
    struct desk *d = desk;
    const struct alarms_now now = desk_now();
    const struct alarms_start start = alarm_entry_start(&list[0]);
    if (d->past)
        return false;
    const struct alarm *known = alarms_of_onset(d->alarms, &start, &now);
    if (!known && d->config.journal)
        (void)journal_add_again(d->config.journal, &list[0]);
    else if (!known)
        desk_note(d, &list[0]);
    else if (strcmp(known->id, list[0].alarm) != 0)
        end_under(d, &list[0], known->id);
    for (int i = !known; i < n; i++) {
        str_copy(list[i].alarm, sizeof list[i].alarm, known ? known->id : list[0].alarm);
        take_over(d, &list[i]);
    }
    return true;
}

struct session_register desk_register(struct desk *d) {
    return (struct session_register){.name = name_alarm,
                                     .on_in = on_in,
                                     .is_of_another = is_of_another,
                                     .holds = holds_bed,
                                     .settle = settle_alarms,
                                     .describe = describe_stream,
                                     .take = take_over,
                                     .give = give_alarm,
                                     .receive = receive_alarm,
                                     .ctx = d};
}

/* ---- after a restart: a thread reads, since the volume may not answer ---- */

struct past {
    struct journal *journal; /* borrowed, while it is not left */
    char path[4096];
    int64_t since_ms, since_boot_ms, newest;
    struct alarms *alarms; /* what its entries say */
    int rc;
    struct err err;
    pthread_mutex_t lock; /* of done and left */
    pthread_cond_t changed;
    bool done, left;    /* left: nobody waits, and the thread frees it */
    bool stop, at_work; /* at_work: the thread uses the journal, which it does not begin after the stop */
};

static void past_free(struct past *p) {
    alarms_free(p->alarms);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    free(p);
}

/* Alarms of versions whose alarms nobody could answer have no id: they are over. */
static void take_entry(void *ctx, const struct journal_entry *e) {
    struct past *p = ctx;
    const struct alarms_now now = desk_now();
    p->newest = e->id;
    if (*e->alarm || (e->kind != JOURNAL_ALARM_ON && e->kind != JOURNAL_ALARM_OFF))
        alarm_entry_take(p->alarms, e, &now);
}

static void keep_past(void *ctx, struct db *db) {
    struct past *p = ctx;
    const struct journal_filter filter = {
        .kinds = alarm_entry_kinds(), .since_ms = p->since_ms, .since_boot_ms = p->since_boot_ms, .of_alarms = true};
    const struct journal_page page = {.after = p->newest, .most = INT_MAX};
    p->rc = journaldb_list(db, &filter, &page, take_entry, p, &p->err);
}

/* By a connection of its own, or by the journal's where that is the only one. */
static void read_past(struct past *p) {
    struct db *db = NULL;
    if (journal_lend(p->journal, keep_past, p) || (p->rc = journaldb_open_reader(p->path, &db, &p->err)))
        return;
    keep_past(p, db);
    db_close(db);
}

/* Whether it may use the journal now; false: nobody waits for it any more. */
static bool set_at_work(struct past *p, bool at_work) {
    LOCKED(&p->lock);
    p->at_work = at_work && !p->stop;
    pthread_cond_signal(&p->changed);
    return p->at_work;
}

static void *read_run(void *ctx) {
    struct past *p = ctx;
    p->rc = -1;
    for (int i = 0; p->rc && i < READ_TRIES && set_at_work(p, true);
         i++) { /* the journal's thread makes the file, and adds columns and indexes to one of an older version */
        read_past(p);
        set_at_work(p, false);
        if (p->rc)
            nanosleep(&(struct timespec){.tv_nsec = READ_PAUSE_MS * 1000000L}, NULL);
    }
    pthread_mutex_lock(&p->lock);
    p->done = true;
    const bool left = p->left;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (left)
        past_free(p);
    return NULL;
}

/* True: that was all. */
static bool use_past(struct desk *d, const struct past *p, int most) {
    const struct alarms_now now = desk_now();
    char text[800];
    const bool all = alarms_merge(d->alarms, p->alarms, most, &now);
    d->doubt_ms = p->newest ? clock_ms() + DOUBT_MS : 0;
    if (all && p->rc)
        log_warn("alarms from before the start are unknown: the journal cannot be read", "error=\"%s\"",
                 err_text(&p->err, text, sizeof text));
    return all;
}

static struct past *start_reading(struct desk *d) {
    struct past *p = calloc(1, sizeof *p);
    struct alarms_plan plan = d->config.plan;
    pthread_t thread;
    plan.named = NULL; /* the loop's; alarms_merge asks it */
    if (!p || !(p->alarms = alarms_new(&plan, NULL, NULL))) {
        free(p);
        return NULL;
    }
    alarms_restore(p->alarms, true);
    p->journal = d->config.journal;
    str_copy(p->path, sizeof p->path, journal_path(d->config.journal));
    const struct alarms_now now = desk_now();
    p->since_ms = now.wall_ms - DESK_PAST_MS;
    p->since_boot_ms = now.boot_ms > DESK_PAST_MS ? now.boot_ms - DESK_PAST_MS : 1;
    pthread_mutex_init(&p->lock, NULL);
    clock_cond_init(&p->changed);
    if (pthread_create(&thread, NULL, read_run, p)) {
        past_free(p);
        return NULL;
    }
    pthread_detach(thread);
    return p;
}

/* Waits until it is read, at most until then; what was read is merged, later in parts that the loop can bear. */
static void look_at_past(struct desk *d, const struct timespec *deadline) {
    struct past *p = d->past;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    while (!p->done && deadline && pthread_cond_timedwait(&p->changed, &p->lock, deadline) != ETIMEDOUT)
        continue;
    const bool done = p->done;
    pthread_mutex_unlock(&p->lock);
    if (!done)
        return;
    if (!use_past(d, p, deadline ? INT_MAX : MERGE_MOST)) {
        d->config.wake(d->config.wake_ctx);
        return;
    }
    d->past = NULL;
    past_free(p);
}

/* The thread that reads frees it, and does not use the journal any more, unless that hangs. */
static void leave_past(struct desk *d) {
    const struct timespec deadline = clock_after_ms(DESK_WAIT_MS);
    struct past *p = d->past;
    if (!p)
        return;
    d->past = NULL;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    while (p->at_work && pthread_cond_timedwait(&p->changed, &p->lock, &deadline) != ETIMEDOUT)
        continue;
    const bool done = p->done;
    p->left = !done;
    pthread_mutex_unlock(&p->lock);
    if (done)
        past_free(p);
}

void desk_restore(struct desk *d) {
    const struct timespec deadline = clock_after_ms(DESK_WAIT_MS);
    d->past = d->config.journal ? start_reading(d) : NULL;
    if (d->config.journal && !d->past)
        log_warn("alarms from before the start are unknown: the journal cannot be read", "error=\"out of memory\"");
    look_at_past(d, &deadline);
    if (d->past)
        log_warn("alarms from before the start are still being read, and none is ended meanwhile", "path=%s",
                 journal_path(d->config.journal));
}

/* ---- time ---- */

void desk_tick(struct desk *d) {
    const struct alarms_now now = desk_now();
    struct alarms_cursor cursor = {0};
    look_at_past(d, NULL);
    for (const struct alarm *a; (a = alarms_next(d->alarms, &cursor));)
        if (a->test && !a->off_ms && now.boot_ms - a->on_boot_ms >= DESK_TEST_MS)
            end_alarm(d, a, JOURNAL_OFF_ENDED);
    if (clock_ms() >= d->doubt_ms) /* another daemon may have an alarm, and calls people itself */
        alarms_tick(d->alarms, &now);
}

/* ---- orders ---- */

/* Control characters reach no terminal and no other page. */
static int check_text(const char *what, const char *text, struct err *err) {
    for (const char *p = text; *p; p++)
        if (iscntrl((unsigned char)*p))
            return err_set(err, ERR_INVALID, "the %s has control characters, which may not stand there", what);
    return 0;
}

/* The open alarm that this person may answer and whose id alone begins so; NULL: there is none, or there are several, which
 * `ids` then names. */
static const struct alarm *find_by_prefix(const struct desk *d, const struct desk_order *o, struct str *ids) {
    const struct alarm *found = NULL;
    struct alarms_cursor cursor = {0};
    int n = 0;
    if (strlen(o->id) < DESK_PREFIX)
        return NULL;
    for (const struct alarm *a; (a = alarms_next(d->alarms, &cursor));)
        if (alarm_is_open(a) && str_starts(a->id, o->id) && !o->permit(o->ctx, a->principal, a->bed, NULL)) {
            found = a;
            if (++n <= NAMED_IDS)
                str_printf(ids, "%s%s (%.40s)", n > 1 ? ", " : "", a->id, a->bed);
        }
    if (n > NAMED_IDS)
        str_printf(ids, " and %d more", n - NAMED_IDS);
    return n == 1 ? found : NULL;
}

static void date_order(struct desk_order *o, const struct alarms_now *now) {
    o->answer.author.at_ms = now->wall_ms;
    o->answer.author.boot_ms = now->boot_ms;
}

static int answer(struct desk *d, struct desk_order *o, const struct alarms_now *now, struct err *err) {
    const struct alarm *a = alarms_find(d->alarms, o->id);
    int rc;
    OWNED(str_done) struct str ids = str_of(IDS_TEXT);
    if (!a && (a = find_by_prefix(d, o, &ids)))
        str_copy(o->id, sizeof o->id, a->id);
    if (!a && ids.len)
        return err_set(err, ERR_INVALID, "several open alarms begin with '%.60s': %s; give more characters", o->id, str_cstr(&ids));
    if (!a)
        return err_set(err, ERR_NOT_FOUND,
                       "there is no alarm '%.60s', and no open one begins so; `brrctl alarms list --json` has whole ids", o->id);
    if ((rc = o->permit(o->ctx, a->principal, a->bed, err)))
        return rc;
    date_order(o, now);
    if (o->answer.action == ALARM_SILENCE && !o->answer.for_ms)
        o->answer.for_ms = DESK_SILENCE_MS;
    return alarms_answer(d->alarms, o->id, &o->answer, now, err);
}

/* desk_config.streamer */
static const char *streamer_of(const struct desk *d, const char *bed) {
    return d->config.streamer ? d->config.streamer(d->config.streamer_ctx, bed) : "";
}

static int no_bed(const char *bed, struct err *err) {
    return err_set(err, ERR_NOT_FOUND, "there is no bed '%.60s': no stream has this name, nor the roster (beds in daemon.yaml)",
                   bed);
}

/* Without a roster every name may be a bed's. */
static int test(struct desk *d, struct desk_order *o, const struct alarms_now *now, struct err *err) {
    struct journal_entry e;
    int rc = o->permit(o->ctx, o->answer.author.by, o->bed, err);
    if (rc)
        return rc;
    if (!*o->bed)
        return err_set(err, ERR_INVALID, "a test alarm needs the name of a bed");
    if (d->config.plan.n_roster && !streamer_of(d, o->bed))
        return no_bed(o->bed, err);
    if (alarms_are_off(d->alarms, o->bed))
        return err_set(err, ERR_PRECONDITION,
                       "alarms of '%.60s' are off by the configuration (beds: in daemon.yaml); nobody would hear", o->bed);
    alarm_entry_test(o->bed, o->answer.author.by, now, ++d->tests, &e);
    str_copy(o->id, sizeof o->id, e.alarm);
    if (d->config.journal)
        d->journaled = journal_add(d->config.journal, &e);
    else
        desk_note(d, &e);
    return alarms_find(d->alarms, o->id) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for an alarm");
}

/* A bed that has gone may still be taken out of standby. A wrong time is said first (alarms_standby). */
static int put_in_standby(struct desk *d, struct desk_order *o, const struct alarms_now *now, struct err *err) {
    const char *streamer = streamer_of(d, o->bed);
    int rc = o->permit(o->ctx, streamer ? streamer : "", o->bed, err);
    if (rc)
        return rc;
    if (!streamer && o->until_ms && o->until_ms <= now->wall_ms + ALARMS_STANDBY_MS)
        return no_bed(o->bed, err);
    date_order(o, now);
    return alarms_standby(d->alarms, o->bed, o->until_ms, &o->answer.author, now, err);
}

static int carry_out(struct desk *d, struct desk_order *o, struct err *err) {
    const struct alarms_now now = desk_now();
    int rc;
    if ((rc = check_text("name of the person", o->answer.author.person, err)) || (rc = check_text("note", o->answer.note, err)) ||
        (rc = check_text("name of the bed", o->bed, err)))
        return rc;
    if (o->kind == DESK_ANSWER)
        return answer(d, o, &now, err);
    if (o->kind == DESK_TEST)
        return test(d, o, &now, err);
    return put_in_standby(d, o, &now, err);
}

int desk_do(struct desk *d, struct desk_order *o, struct err *err) {
    d->journaled = 0;
    int rc = carry_out(d, o, err);
    o->journaled = d->journaled;
    return rc;
}

/* ---- orders of other threads ---- */

/* Takes the oldest, or this one if it still waits. NULL: there is none. Locked. */
static struct asking *take(struct desk *d, const struct asking *one) {
    struct asking **link = &d->first;
    while (*link && one && *link != one)
        link = &(*link)->next;
    struct asking *a = *link;
    if (a)
        *link = a->next;
    return a;
}

int desk_ask(struct desk *d, struct desk_order *order, struct err *err) {
    struct asking asking = {.order = order, .err = err}, **last;
    const struct timespec deadline = clock_after_ms(DESK_WAIT_MS);
    pthread_mutex_lock(&d->lock);
    for (last = &d->first; *last; last = &(*last)->next)
        continue;
    if (!d->stopped)
        *last = &asking;
    pthread_mutex_unlock(&d->lock);
    d->config.wake(d->config.wake_ctx);
    pthread_mutex_lock(&d->lock);
    while (!asking.done && !d->stopped && pthread_cond_timedwait(&d->answered, &d->lock, &deadline) != ETIMEDOUT)
        continue;
    if (!asking.done) {
        (void)take(d, &asking);
        asking.rc = err_set(err, ERR_UNAVAILABLE, "the daemon is %s; try again", d->stopped ? "stopping" : "busy");
    }
    pthread_mutex_unlock(&d->lock);
    const int64_t written_ms = clock_ms() + DESK_WRITE_MS;
    while (!asking.rc && order->journaled && !journal_has(d->config.journal, order->journaled) && clock_ms() < written_ms)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    return asking.rc;
}

/* Carried out under the lock: the asking thread must not leave meanwhile. */
void desk_take(struct desk *d) {
    look_at_past(d, NULL);
    pthread_mutex_lock(&d->lock);
    for (struct asking *a; (a = take(d, NULL));) {
        a->rc = desk_do(d, a->order, a->err);
        a->done = true;
        pthread_cond_broadcast(&d->answered);
    }
    pthread_mutex_unlock(&d->lock);
}

void desk_stop(struct desk *d) {
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stopped = true;
    pthread_cond_broadcast(&d->answered);
    pthread_mutex_unlock(&d->lock);
    leave_past(d);
}
