#include "daemon/journal/journal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/str.h"
#include "daemon/journal/journaldb.h"
#include "daemon/journal/outbox.h"

enum { BATCH = 256, RETRY_MS = 1000, PRUNE_MS = 60 * 1000, PRUNE_ROWS = 512, LOOK_MS = 1000, STOP_S = 5, NAP_MS = 50 };
#define OUTBOX_MS (25 * 3600 * INT64_C(1000)) /* longer than receivers try */

struct line {
    struct message message;
    int64_t delivered; /* the row of the outbox that is done; 0: this is an entry */
    uint32_t handed;   /* bit i: receiver i took the entry without the outbox */
    struct journal_entry entry;
};

struct journal {
    struct journal_config config;
    char path[4096];
    struct mailbox *lines;
    pthread_t thread;
    int64_t added;                   /* loop thread */
    _Atomic int64_t written, newest; /* lines that are done; id of the newest entry */
    atomic_bool failing, stopping;
    /* the thread's */
    struct db *db;
    struct line *batch[BATCH];
    int n;
    int64_t pruned_ms, since_prune;                         /* when, and entries since */
    int64_t queued;                                         /* newest row that the outbox ever had */
    int64_t handed[OUTLET_MAX];                             /* newest row of the outbox that each receiver has got */
    void (*seen)(void *ctx, const struct journal_entry *e); /* journal_observe; the loop's */
    void *seen_ctx;
};

static void count(struct journal *j, const char *family, const char *label, double n) {
    if (j->config.metrics && n > 0)
        metric_add(metrics_series(j->config.metrics, family, label), n);
}

static void dropped(struct journal *j, const char *reason, int64_t n) {
    count(j, "brrd_journal_entries_dropped_total", reason, (double)n);
}

static int open_db(struct journal *j, struct err *err) {
    int64_t newest = 0;
    int rc;
    if (j->db)
        return 0;
    if ((rc = journaldb_open(j->path, &j->db, err)))
        return rc;
    if ((rc = outbox_setup(j->db, &j->queued, err)) || (rc = journaldb_newest(j->db, &newest, err))) {
        db_close(j->db);
        j->db = NULL;
        return rc;
    }
    atomic_store(&j->newest, newest);
    return 0;
}

/* ---- the oldest go ---- */

static int prune_size(struct journal *j, int64_t *ret_n, struct err *err) {
    int64_t bytes = 0, n = 1;
    int rc = 0;
    *ret_n = 0;
    while (n && !(rc = journaldb_bytes(j->db, &bytes, err)) && bytes > j->config.max_bytes) {
        if ((rc = journaldb_prune(j->db, INT64_MAX, PRUNE_ROWS, &n, err)))
            break;
        *ret_n += n;
    }
    return rc;
}

static int prune_age(struct journal *j, int64_t *ret_n, struct err *err) {
    int64_t before = clock_wall_ms() - j->config.keep_ms, n = PRUNE_ROWS;
    int rc = 0;
    *ret_n = 0;
    while (n == PRUNE_ROWS && !(rc = journaldb_prune(j->db, before, PRUNE_ROWS, &n, err)))
        *ret_n += n;
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
    (void)outbox_prune(j->db, clock_wall_ms() - OUTBOX_MS, &n, &err);
    if (j->config.keep_ms >= 0) {
        (void)prune_age(j, &n, &err); /* what fails is tried again */
        dropped(j, "age", n);
    }
    if (j->config.max_bytes >= 0) {
        (void)prune_size(j, &n, &err);
        dropped(j, "size", n);
    }
}

/* ---- writing ---- */

/* The line itself; an entry that is new goes to its receivers through the outbox. */
static int write_line(struct journal *j, const struct line *l, bool *ret_new, struct err *err) {
    const struct outlet *outlet = j->config.outlet;
    int rc = l->delivered ? outbox_remove(j->db, l->delivered, err) : journaldb_insert(j->db, &l->entry, ret_new, err);
    if (rc)
        return rc;
    for (int i = 0; outlet && *ret_new && i < outlet->n; i++)
        if (!(l->handed >> i & 1) && outlet->wants(outlet->ctx, i, &l->entry) &&
            (rc = outbox_add(j->db, outlet, i, &l->entry, &j->queued, err)))
            return rc;
    return 0;
}

/* False if the receiver has no room, or memory is short. */
static bool hand_line(const struct outlet *outlet, int i, struct line *l) {
    if (l->delivered || l->handed >> i & 1 || !outlet->wants(outlet->ctx, i, &l->entry))
        return true;
    struct delivery *d = outbox_direct(outlet, i, &l->entry);
    if (!d || !outlet->post(outlet->ctx, i, d)) {
        delivery_free(d);
        return false;
    }
    l->handed |= 1u << i;
    return true;
}

/* Receivers do not wait for a journal that cannot be written: its entries go to them at once, and then not through the outbox. An
 * entry that a receiver does not take is tried again with the next write, and so are the entries after it, to keep their order. */
static void hand_directly(struct journal *j) {
    const struct outlet *outlet = j->config.outlet;
    for (int i = 0; outlet && i < outlet->n; i++)
        for (int k = 0; k < j->n && hand_line(outlet, i, j->batch[k]); k++) {
        }
}

static void hand_out(struct journal *j) {
    const struct outlet *outlet = j->config.outlet;
    struct err err;
    for (int i = 0; outlet && i < outlet->n; i++)
        (void)outbox_hand(j->db, outlet, i, &j->handed[i], &err); /* what fails is tried again within a second */
}

/* One transaction: first the oldest `room` entries go, then those of the batch come. */
static int insert_batch(struct journal *j, int room, int64_t *ret_gone, bool fresh[BATCH], struct err *err) {
    int rc = 0;
    *ret_gone = 0;
    if (room)
        rc = journaldb_prune(j->db, INT64_MAX, room, ret_gone, err);
    for (int i = 0; i < j->n && !rc; i++)
        rc = write_line(j, j->batch[i], &fresh[i], err);
    return rc;
}

static int write_once(struct journal *j, int room, struct err *err) {
    bool fresh[BATCH] = {false};
    int64_t gone = 0, newest = 0;
    int rc;
    if ((rc = open_db(j, err)) || (rc = db_begin(j->db, err)))
        return rc;
    rc = insert_batch(j, room, &gone, fresh, err);
    if (!rc)
        rc = journaldb_newest(j->db, &newest, err);
    if ((rc = db_end(j->db, rc, err)))
        return rc;
    atomic_store(&j->newest, newest);
    dropped(j, "volume", gone);
    for (int i = 0; i < j->n; i++)
        if (fresh[i])
            count(j, "brrd_journal_entries_total", journal_kind_name(j->batch[i]->entry.kind), 1);
    return 0;
}

static void report_failure(struct journal *j, const struct err *err) {
    char text[800];
    count(j, "brrd_journal_write_errors_total", "", 1);
    if (!atomic_exchange(&j->failing, true))
        log_error("the journal cannot be written: entries wait in memory", "error=\"%s\"", err_text(err, text, sizeof text));
}

/* False: the batch waits for the next try. */
static bool write_batch(struct journal *j) {
    struct err err;
    int rc = write_once(j, 0, &err);
    if (rc == ERR_EXHAUSTED && j->db)
        rc = write_once(j, PRUNE_ROWS, &err);
    if (rc) {
        report_failure(j, &err);
        hand_directly(j);
        return false;
    }
    if (atomic_exchange(&j->failing, false))
        log_info("the journal can be written again", NULL);
    int64_t entries = 0;
    for (int i = 0; i < j->n; i++)
        entries += !j->batch[i]->delivered;
    atomic_fetch_add(&j->written, entries);
    j->since_prune += entries;
    for (; j->n; j->n--)
        free(j->batch[j->n - 1]);
    if (j->config.wake)
        j->config.wake(j->config.wake_ctx);
    return true;
}

static void nap(const struct journal *j, int64_t ms) {
    for (; ms > 0 && !atomic_load(&j->stopping); ms -= NAP_MS)
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
}

/* The lines that wait, at most BATCH; waits for the first one if there is none. */
static void gather(struct journal *j) {
    struct line *l = j->n ? NULL : (struct line *)mailbox_wait(j->lines, LOOK_MS);
    if (l)
        j->batch[j->n++] = l;
    while (j->n && j->n < BATCH && (l = (struct line *)mailbox_take(j->lines)))
        j->batch[j->n++] = l;
}

static void give_up(struct journal *j) {
    struct line *l;
    int64_t n = j->n;
    for (; j->n; j->n--)
        free(j->batch[j->n - 1]);
    for (; (l = (struct line *)mailbox_take(j->lines)); n++)
        free(l);
    dropped(j, "volume", n);
    if (n)
        log_error("entries of the journal were not written before the stop", "entries=%lld", (long long)n);
}

static void *journal_run(void *ctx) {
    struct journal *j = ctx;
    struct err err;
    if (open_db(j, &err)) /* at once, so that readers find a file */
        report_failure(j, &err);
    for (;;) {
        const bool last = atomic_load(&j->stopping); /* read first: what was added before the stop is in the mailbox then */
        gather(j);
        if (!j->n && last)
            break;
        if (j->n && !write_batch(j)) {
            if (last)
                break;
            nap(j, RETRY_MS);
        } else if (j->db) {
            hand_out(j);
            prune(j);
        }
    }
    give_up(j);
    db_close(j->db);
    j->db = NULL;
    return NULL;
}

/* ---- the loop's side ---- */

static void journal_free(struct journal *j) {
    mailbox_free(j->lines);
    free(j);
}

int journal_start(const struct journal_config *config, struct journal **ret, struct err *err) {
    static const char *const reasons[] = {"age", "size", "queue", "volume"};
    struct journal *j = calloc(1, sizeof *j);
    if (!j)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the journal");
    j->config = *config;
    str_copy(j->path, sizeof j->path, config->path);
    for (size_t i = 0; config->metrics && i < sizeof reasons / sizeof *reasons; i++) /* shown from the start, at 0 */
        metrics_series(config->metrics, "brrd_journal_entries_dropped_total", reasons[i]);
    if (!(j->lines = mailbox_new(JOURNAL_WAITING, NULL, NULL)) || pthread_create(&j->thread, NULL, journal_run, j)) {
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
    mailbox_close(j->lines);
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

void journal_observe(struct journal *j, void (*seen)(void *ctx, const struct journal_entry *e), void *ctx) {
    j->seen = seen;
    j->seen_ctx = ctx;
}

int64_t journal_add(struct journal *j, const struct journal_entry *e) {
    struct line *l = malloc(sizeof *l);
    if (j->seen)
        j->seen(j->seen_ctx, e);
    if (l) {
        *l = (struct line){.entry = *e};
        if (mailbox_post(j->lines, &l->message))
            return ++j->added;
    }
    free(l);
    dropped(j, "queue", 1);
    return 0;
}

void journal_delivered(struct journal *j, int64_t outbox) {
    struct line *l = calloc(1, sizeof *l);
    if (!l)
        return;
    l->delivered = outbox;
    if (!mailbox_post(j->lines, &l->message))
        free(l);
}

bool journal_has(const struct journal *j, int64_t number) { return atomic_load(&j->written) >= number; }
bool journal_is_failing(const struct journal *j) { return atomic_load(&j->failing); }
int64_t journal_newest(const struct journal *j) { return atomic_load(&j->newest); }
const char *journal_path(const struct journal *j) { return j->path; }
