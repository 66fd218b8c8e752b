#include "daemon/journal/journal.h"

#include "base/log.h"
#include "base/map.h"
#include "base/trusted_time.h"
#include "daemon/journal/outbox.h"
#include "daemon/journal/shares.h"

enum {
    BATCH = 256,
    RESERVE_BYTES = 4 << 20,
    RETRY_MS = 1000,
    PRUNE_MS = 60 * 1000,
    PRUNE_ROWS = 512,
    PRUNE_ROUNDS = 8, /* at a time: alarms come in between */
    LOOK_MS = 1000,
    STOP_S = 5,
    NAP_MS = 50,
    LOG_DROPS_MS = 60 * 1000,
    STREAMS = 65536
};
#define OUTBOX_MS (25 * 3600 * INT64_C(1000)) /* longer than receivers try */

enum lane_kind { ALARMS, OTHERS, LANES };
static const int of_stream[LANES] = {JOURNAL_STREAM_ALARMS, JOURNAL_STREAM_OTHERS};

/* Lines on their way. */
struct lane {
    struct mailbox *lines;
    int64_t added;                     /* lines of streams; loop thread */
    _Atomic int64_t written;           /* of them */
    struct journal_line *batch[BATCH]; /* the thread's */
    int n;
};

/* A stream with lines on their way; the loop's. */
struct journal_stream {
    atomic_int waiting[LANES];
    int64_t dropped;
    char client[JOURNAL_CLIENT], principal[JOURNAL_PRINCIPAL];
};

struct journal {
    struct journal_config config;
    char path[4096];
    struct lane lanes[LANES];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t posted;   /* a line came, or the stop */
    _Atomic int64_t newest;  /* id of the newest entry */
    _Atomic int64_t busy_ms; /* since when the thread is in the database; 0: it is not */
    atomic_bool failing, stopping;
    /* the loop's */
    struct map *streams; /* by session */
    int64_t drops_logged_ms;
    bool hang_logged;
    void (*seen)(void *ctx, struct journal_entry *e); /* journal_observe */
    void *seen_ctx;
    pthread_mutex_t lent; /* held while another thread uses db, and while it is opened or closed */
    /* the thread's */
    struct db *db;
    struct shares *shares; /* NULL until the journal has been too large */
    struct trusted_time time;
    int64_t pruned_ms, since_prune; /* when, and entries since */
};

static void count(struct journal *j, const char *family, const char *label, double n) {
    if (j->config.metrics && n > 0)
        metric_add(metrics_series(j->config.metrics, family, label), n);
}

static void dropped(struct journal *j, const char *reason, int64_t n) {
    count(j, "brrd_journal_entries_dropped_total", reason, (double)n);
}

/* The thread enters the database, and leaves it. */
static void enter(struct journal *j) { atomic_store(&j->busy_ms, clock_ms()); }
static void leave(struct journal *j) { atomic_store(&j->busy_ms, 0); }

/* What an earlier process owes receivers is offered before anything new. */
static int set_up(struct journal *j, int64_t *newest, struct err *err) {
    const struct outlet *outlet = j->config.outlet;
    int rc;
    if ((rc = outbox_setup(j->db, err)) || (rc = journaldb_newest(j->db, newest, err)))
        return rc;
    for (int i = 0; outlet && i < outlet->n; i++)
        if ((rc = outbox_offer(j->db, outlet, i, err)))
            return rc;
    return 0;
}

static int open_db(struct journal *j, struct err *err) {
    int64_t newest = 0;
    int rc;
    if (j->db)
        return 0;
    LOCKED(&j->lent);
    if ((rc = journaldb_open(j->path, &j->db, err)))
        return rc;
    if ((rc = set_up(j, &newest, err))) {
        db_close(j->db);
        j->db = NULL;
        return rc;
    }
    atomic_store(&j->newest, newest);
    db_reserve(j->db, RESERVE_BYTES);
    return 0;
}

bool journal_lend(struct journal *j, void (*use)(void *ctx, struct db *db), void *ctx) {
    LOCKED(&j->lent);
    const bool alone = j->db && db_is_alone(j->db);
    if (alone)
        use(ctx, j->db);
    return alone;
}

/* ---- the oldest go ---- */

/* Bytes that entries may take: on a full volume fewer than the file has, so that new entries find room in it. */
static int64_t most_bytes(const struct journal *j) {
    const int64_t most = j->config.max_bytes < 0 ? INT64_MAX : j->config.max_bytes, room = db_room(j->db),
                  free_bytes = fsio_free_bytes(j->path); /* < 0: unknown */
    const bool full = room >= RESERVE_BYTES && free_bytes >= 0 && free_bytes < RESERVE_BYTES;
    return full && room - RESERVE_BYTES / 4 < most ? room - RESERVE_BYTES / 4 : most;
}

static int prune_size(struct journal *j, int64_t *ret_n, struct err *err) {
    const int64_t most = most_bytes(j);
    int64_t bytes = 0, n = 1;
    int rc = 0;
    *ret_n = 0;
    for (int i = 0; n && i < PRUNE_ROUNDS && !(rc = journaldb_bytes(j->db, &bytes, err)) && bytes > most; i++) {
        if (!j->shares && !(j->shares = shares_new(j->db, err)))
            return err->code;
        enter(j);
        if ((rc = shares_prune(j->shares, j->db, PRUNE_ROWS, &n, err)))
            break;
        *ret_n += n;
    }
    j->since_prune = *ret_n == PRUNE_ROUNDS * PRUNE_ROWS ? PRUNE_ROWS : 0; /* it goes on */
    return rc;
}

static void forget_shares(struct journal *j) {
    shares_free(j->shares);
    j->shares = NULL;
}

static int prune_age(struct journal *j, int64_t *ret_n, struct err *err) {
    int64_t before = clock_wall_ms() - j->config.keep_ms, n = PRUNE_ROWS;
    int rc = 0;
    *ret_n = 0;
    for (int i = 0; n == PRUNE_ROWS && i < PRUNE_ROUNDS && !(rc = journaldb_prune(j->db, before, PRUNE_ROWS, &n, err)); i++) {
        *ret_n += n;
        enter(j);
    }
    if (*ret_n)
        forget_shares(j);
    return rc;
}

/* Retention: once a minute, and after every PRUNE_ROWS entries. */
static void prune(struct journal *j) {
    int64_t now = clock_ms(), n = 0;
    struct err err;
    if (j->pruned_ms && now - j->pruned_ms < PRUNE_MS && j->since_prune < PRUNE_ROWS)
        return;
    j->pruned_ms = now;
    j->since_prune = 0;
    const bool steady = trusted_time_look(&j->time, trusted_boot_ms(), clock_wall_ms(), j->config.keep_ms);
    (void)outbox_prune(j->db, OUTBOX_MS, &n, &err);
    if (j->config.keep_ms >= 0 && steady) {
        (void)prune_age(j, &n, &err); /* what fails is tried again */
        dropped(j, "age", n);
    }
    (void)prune_size(j, &n, &err);
    dropped(j, "size", n);
    db_reserve(j->db, RESERVE_BYTES);
}

/* ---- writing ---- */

/* An entry that is new goes to its receivers through the outbox. *ret_id: of the entry that was written, 0: none. */
static int write_line(struct journal *j, struct journal_line *l, int64_t *ret_id, struct err *err) {
    const struct outlet *outlet = j->config.outlet;
    struct journal_entry e;
    int rc = 0;
    *ret_id = 0;
    if (*l->delivery && (rc = outbox_remove(j->db, l->delivery, err)))
        return rc;
    if (l->silent || (rc = journaldb_insert(j->db, &l->entry, ret_id, err)) || !*ret_id || !l->wanted)
        return rc;
    e = l->entry;
    e.id = *ret_id;
    for (int i = 0; outlet && i < outlet->n; i++)
        if (l->wanted >> i & 1 && (rc = outbox_add(j->db, outlet->name(outlet->ctx, i), &e, err)))
            return rc;
    return 0;
}

/* The oldest entries of whoever has most make room on a full volume. */
static int make_room(struct journal *j, int room, int64_t *gone, struct err *err) {
    if (!j->shares && !(j->shares = shares_new(j->db, err)))
        return err->code;
    return shares_prune(j->shares, j->db, room, gone, err);
}

/* room: how many of the oldest entries make room first; *gone: how many did. */
static int insert_batch(struct journal *j, struct lane *lane, int room, int64_t *gone, int64_t ids[BATCH], struct err *err) {
    int rc = room ? make_room(j, room, gone, err) : 0;
    for (int i = 0; i < lane->n && !rc; i++)
        rc = write_line(j, lane->batch[i], &ids[i], err);
    return rc;
}

static void settle(struct journal *j, struct lane *lane, const int64_t ids[BATCH]) {
    for (int i = 0; i < lane->n; i++) {
        struct journal_line *l = lane->batch[i];
        atomic_store(&l->state, ids[i] ? LINE_WRITTEN : LINE_KNOWN);
        if (!ids[i])
            continue;
        count(j, "brrd_journal_entries_total", journal_kind_name(l->entry.kind), 1);
        shares_add(j->shares, l->entry.principal, l->entry.client, 1);
    }
}

static int write_once(struct journal *j, struct lane *lane, int room, struct err *err) {
    int64_t ids[BATCH] = {0}, gone = 0, newest = 0;
    int rc;
    if ((rc = open_db(j, err)) || (rc = db_begin(j->db, err)))
        return rc;
    rc = insert_batch(j, lane, room, &gone, ids, err);
    rc = rc ? rc : journaldb_newest(j->db, &newest, err);
    if ((rc = db_end(j->db, rc, err))) {
        if (room)
            forget_shares(j); /* what was deleted is there again */
        return rc;
    }
    atomic_store(&j->newest, newest);
    dropped(j, "volume", gone);
    settle(j, lane, ids);
    return 0;
}

static void report_failure(struct journal *j, const struct err *err) {
    char text[800];
    count(j, "brrd_journal_write_errors_total", "", 1);
    if (!atomic_exchange(&j->failing, true))
        log_error("the journal cannot be written: entries wait in memory", "error=\"%s\"", err_text(err, text, sizeof text));
}

/* The lines of the batch are done, on the disk or given up. Returns how many were entries of streams. */
static int64_t release(struct lane *lane, enum lane_kind kind) {
    int64_t entries = 0;
    for (int i = 0; i < lane->n; i++) {
        struct journal_stream *s = lane->batch[i]->stream;
        journal_line_drop(lane->batch[i]);
        if (s) {
            entries++;
            atomic_fetch_sub(&s->waiting[kind], 1); /* from here on the loop may free it */
        }
    }
    lane->n = 0;
    return entries;
}

/* False: the batch waits for the next try. */
static bool write_batch(struct journal *j, enum lane_kind kind) {
    struct lane *lane = &j->lanes[kind];
    struct err err;
    enter(j);
    int rc = write_once(j, lane, 0, &err);
    if (rc == ERR_EXHAUSTED && j->db)
        rc = write_once(j, lane, PRUNE_ROWS, &err);
    leave(j);
    if (rc) {
        report_failure(j, &err);
        return false;
    }
    if (atomic_exchange(&j->failing, false))
        log_info("the journal can be written again", NULL);
    j->since_prune += lane->n;
    atomic_fetch_add(&lane->written, release(lane, kind));
    if (j->config.outlet)
        j->config.outlet->written(j->config.outlet->ctx);
    if (j->config.wake)
        j->config.wake(j->config.wake_ctx);
    return true;
}

static void nap(const struct journal *j, int64_t ms) {
    for (; ms > 0 && !atomic_load(&j->stopping); ms -= NAP_MS)
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
}

static void gather(struct lane *lane) {
    struct journal_line *l;
    while (lane->n < BATCH && (l = (struct journal_line *)mailbox_take(lane->lines)))
        lane->batch[lane->n++] = l;
}

static bool is_empty(const struct journal *j) {
    return !mailbox_count(j->lanes[ALARMS].lines) && !mailbox_count(j->lanes[OTHERS].lines);
}

/* Waits for a line, or for LOOK_MS. */
static void await_lines(struct journal *j) {
    const struct timespec until = clock_after_ms(LOOK_MS);
    LOCKED(&j->lock);
    if (is_empty(j) && !atomic_load(&j->stopping))
        pthread_cond_timedwait(&j->posted, &j->lock, &until);
}

static void on_post(void *ctx) {
    struct journal *j = ctx;
    LOCKED(&j->lock);
    pthread_cond_signal(&j->posted);
}

static void give_up(struct journal *j) {
    int64_t n = 0;
    for (int kind = 0; kind < LANES; kind++)
        for (gather(&j->lanes[kind]); j->lanes[kind].n; gather(&j->lanes[kind])) {
            n += j->lanes[kind].n;
            release(&j->lanes[kind], (enum lane_kind)kind);
        }
    dropped(j, "volume", n);
    if (n)
        log_error("entries of the journal were not written before the stop", "entries=%lld", (long long)n);
}

/* The alarms that wait, and then once what else waits: an alarm waits for one transaction of others at most. */
static bool write_all(struct journal *j) {
    for (int kind = 0; kind < LANES; kind++) {
        gather(&j->lanes[kind]);
        if (j->lanes[kind].n && !write_batch(j, (enum lane_kind)kind))
            return false;
    }
    return true;
}

/* At once, and again until it is open: readers wait for the file, and receivers for what an earlier process owes
 * them. */
static void look_at_db(struct journal *j) {
    struct err err;
    if (j->db)
        return;
    enter(j);
    if (open_db(j, &err))
        report_failure(j, &err);
    else if (atomic_exchange(&j->failing, false))
        log_info("the journal can be written again", NULL);
    leave(j);
}

static void *journal_run(void *ctx) {
    struct journal *j = ctx;
    for (;;) {
        const bool last = atomic_load(&j->stopping); /* read first: what was added before the stop is in the mailboxes then */
        look_at_db(j);
        if (!write_all(j)) {
            if (last)
                break;
            nap(j, RETRY_MS);
            continue;
        }
        if (j->db) {
            enter(j);
            prune(j);
            leave(j);
        }
        if (!is_empty(j))
            continue;
        if (last)
            break;
        await_lines(j);
    }
    give_up(j);
    shares_free(j->shares);
    LOCKED(&j->lent);
    db_close(j->db);
    j->db = NULL;
    return NULL;
}

/* ---- the loop's side ---- */

static void journal_free(struct journal *j) {
    for (int kind = 0; kind < LANES; kind++)
        mailbox_free(j->lanes[kind].lines);
    map_free(j->streams, free);
    pthread_cond_destroy(&j->posted);
    pthread_mutex_destroy(&j->lock);
    pthread_mutex_destroy(&j->lent);
    free(j);
}

int journal_start(const struct journal_config *config, struct journal **ret, struct err *err) {
    static const char *const reasons[] = {"age", "size", "queue", "volume"};
    struct journal *j = calloc(1, sizeof *j);
    if (!j)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the journal");
    j->config = *config;
    str_copy(j->path, sizeof j->path, config->path);
    pthread_mutex_init(&j->lock, NULL);
    pthread_mutex_init(&j->lent, NULL);
    clock_cond_init(&j->posted);
    for (size_t i = 0; config->metrics && i < sizeof reasons / sizeof *reasons; i++) /* shown from the start, at 0 */
        metrics_series(config->metrics, "brrd_journal_entries_dropped_total", reasons[i]);
    j->streams = map_new(STREAMS);
    for (int kind = 0; kind < LANES; kind++)
        j->lanes[kind].lines = mailbox_new(JOURNAL_WAITING, on_post, j);
    if (!j->streams || !j->lanes[ALARMS].lines || !j->lanes[OTHERS].lines || pthread_create(&j->thread, NULL, journal_run, j)) {
        journal_free(j);
        return err_set(err, ERR_EXHAUSTED, "cannot start the thread that writes the journal");
    }
    *ret = j;
    return 0;
}

bool journal_stop(struct journal *j) {
    struct timespec deadline;
    if (!j)
        return true;
    atomic_store(&j->stopping, true);
    on_post(j);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += STOP_S;
    if (pthread_timedjoin_np(j->thread, NULL, &deadline)) {
        log_warn("the journal is not closed: its volume does not answer", "path=%s", j->path);
        pthread_detach(j->thread); /* it still uses the journal, which ends with the process */
        return false;
    }
    journal_free(j);
    return true;
}

void journal_observe(struct journal *j, void (*seen)(void *ctx, struct journal_entry *e), void *ctx) {
    j->seen = seen;
    j->seen_ctx = ctx;
}

/* The stream of an entry; NULL when memory is short. */
static struct journal_stream *stream_of(struct journal *j, const struct journal_entry *e) {
    struct journal_stream *s = map_get(j->streams, e->session);
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    COPY_TEXTS(*s, *e, client, principal);
    if (!map_put(j->streams, e->session, s, NULL))
        return s;
    free(s);
    return NULL;
}

/* Into its mailbox; 0: it was dropped, and counted. */
static int64_t post(struct journal *j, struct journal_line *l) {
    const enum lane_kind kind = journal_kind_is_alarm(l->entry.kind) ? ALARMS : OTHERS;
    struct lane *lane = &j->lanes[kind];
    struct journal_stream *s = stream_of(j, &l->entry);
    if (s && atomic_fetch_add(&s->waiting[kind], 1) < of_stream[kind]) {
        l->stream = s;
        if (mailbox_post(lane->lines, &journal_line_hold(l)->message))
            return ++lane->added * LANES + kind;
        journal_line_drop(l);
    }
    atomic_store(&l->state, LINE_WRITTEN); /* receivers do not wait for it */
    dropped(j, "queue", 1);
    if (s) {
        atomic_fetch_sub(&s->waiting[kind], 1);
        s->dropped++;
    }
    return 0;
}

static int64_t add(struct journal *j, const struct journal_entry *given, bool again) {
    const struct outlet *outlet = j->config.outlet;
    struct journal_entry entry = *given, *e = &entry;
    if (j->seen)
        j->seen(j->seen_ctx, e);
    struct journal_line *l = journal_line_new(e);
    if (!l) {
        dropped(j, "queue", 1);
        return 0;
    }
    l->again = again;
    if (outlet && outlet->see)
        outlet->see(outlet->ctx, e);
    for (int i = 0; outlet && i < outlet->n && !(again && *e->person); i++)
        l->wanted |= outlet->wants(outlet->ctx, i, e) ? 1u << i : 0;
    const int64_t number = post(j, l);
    for (int i = 0; outlet && i < outlet->n; i++)
        if (l->wanted >> i & 1)
            outlet->offer(outlet->ctx, i, l);
    journal_line_drop(l);
    return number;
}

int64_t journal_add(struct journal *j, const struct journal_entry *e) { return add(j, e, false); }
int64_t journal_add_again(struct journal *j, const struct journal_entry *e) { return add(j, e, true); }

void journal_told(struct journal *j, const char *receiver, const struct journal_entry *e, const char *outcome) {
    struct journal_line *l = journal_line_new(e);
    if (!l)
        return;
    outlet_id(receiver, e, l->delivery);
    l->silent = e->kind != JOURNAL_ALARM_ON && e->kind != JOURNAL_ALARM_OFF && e->kind != JOURNAL_ESCALATED;
    l->entry.kind = JOURNAL_TOLD;
    l->entry.number = -1;
    l->entry.received_ms = clock_wall_ms();
    l->entry.boot_ms = trusted_boot_ms();
    str_copy(l->entry.person, sizeof l->entry.person, receiver);
    str_format(l->entry.detail, sizeof l->entry.detail, "%s: %s", journal_kind_name(e->kind), outcome);
    if (!mailbox_post(j->lanes[ALARMS].lines, &l->message))
        journal_line_drop(l); /* the outbox keeps it: it is told again, with the same id, after a restart */
}

/* Streams with nothing on its way are forgotten, once it is said what they lost. */
static void look_at_streams(struct journal *j, int64_t now_ms) {
    const bool log = now_ms - j->drops_logged_ms >= LOG_DROPS_MS;
    const char *session;
    void *value;
    for (size_t at = 0; map_next(j->streams, &at, &session, &value);) {
        struct journal_stream *s = value;
        if (s->dropped && log) {
            log_error("entries of a stream are missing in the journal: too many wait to be written",
                      "session=%s client=\"%s\" principal=\"%s\" entries=%lld", session, log_name(s->client), s->principal,
                      (long long)s->dropped);
            s->dropped = 0;
            j->drops_logged_ms = now_ms;
        }
        if (!s->dropped && !atomic_load(&s->waiting[ALARMS]) && !atomic_load(&s->waiting[OTHERS])) {
            map_remove(j->streams, session);
            free(s);
        }
    }
}

static bool hangs(const struct journal *j) {
    const int64_t busy_ms = atomic_load(&j->busy_ms);
    return busy_ms && clock_ms() - busy_ms >= JOURNAL_HUNG_MS;
}

void journal_tick(struct journal *j) {
    const bool hung = hangs(j);
    look_at_streams(j, clock_ms());
    if (hung && !j->hang_logged)
        log_error("the journal's volume does not answer: entries wait in memory, and hooks are told without it", "path=%s",
                  j->path);
    else if (!hung && j->hang_logged)
        log_info("the journal's volume answers again", NULL);
    j->hang_logged = hung;
}

bool journal_has(const struct journal *j, int64_t number) {
    return atomic_load(&j->lanes[number % LANES].written) >= number / LANES;
}

bool journal_is_failing(const struct journal *j) { return atomic_load(&j->failing) || hangs(j); }
int64_t journal_newest(const struct journal *j) { return atomic_load(&j->newest); }
const char *journal_path(const struct journal *j) { return j->path; }
