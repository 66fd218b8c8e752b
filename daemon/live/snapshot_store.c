#include "daemon/live/snapshot_store.h"

#include "base/log.h"
#include "base/map.h"
#include "base/order.h"
#include "base/queue.h"
#include "daemon/live/claim.h"
#include "daemon/live/snapshot.h"
#include "daemon/viewer/eegring.h"

enum { RETRY_MS = 5000, OTHERS_MS = 3000, WRITES = 16 /* at most, with one sync of the folder */ };
enum deed {
    DEED_WRITE,
    DEED_END,
    DEED_REMOVE,
    DEED_REJECT,
    DEED_LIST,
    DEED_READ,
    DEED_MODELS,
    DEED_UNKEEP,
    DEED_CLAIM,
    DEED_OTHERS,
    DEED_MOVED,
    DEED_HAND,
    DEED_UNHAND,
    DEED_EEG
};
struct task {
    struct task *next;
    enum deed deed;
    char id[SNAPSHOT_ID_SIZE];
    char *state, *eeg; /* eeg: READ, what people may look at, or NULL */
    size_t len, eeg_len;
    struct eegring *ring;                 /* WRITE, EEG; NULL: none */
    char sha256[DIGEST_HEX_SIZE], *model; /* WRITE, UNKEEP; and the file of the model */
    struct snapshot_model *models;        /* MODELS, n_list of them */
    struct snapshot_entry *list;          /* LIST, OTHERS, MOVED */
    struct claim_alarm *alarms;           /* MOVED, n_alarms of them */
    size_t n_list, n_alarms;
    bool again;         /* WRITE: a snapshot of the id is there, or is another daemon's */
    struct claim found; /* CLAIM, and who asked */
    struct session_claim *asks;
    struct err err;
};

/* How far sessions have been restored. A round tries the entries in order and keeps those that have to wait. */
struct restoring {
    struct sessions *sessions; /* NULL: nothing is to be restored */
    struct metrics *metrics;
    bool listed, tried; /* the folder was read; every snapshot was tried once */
    bool round;         /* one is under way */
    struct snapshot_entry *entries;
    size_t n, at, kept; /* entries before `kept` wait for the next round; `at` is being read */
    bool left;          /* some are left for the next daemon */
    int64_t until_ms, next_ms, try_ms;
};

/* Tasks one after the other; the first is at work, or the first few that write. Claims, of which each looks into the folders of all
 * other daemons, and which clients can ask for without end, are behind all others. */
struct lane {
    struct snapshot_store *store;
    uv_work_t work;
    struct task *first, *last, *last_other; /* other: the last one that is no claim; NULL: there is none */
    int at_work;
};

/* An alarm on its way to the daemon that has its stream. */
struct handing {
    bool written;
    int64_t again_ms; /* INT64_MAX: it is being written */
};

struct snapshot_store {
    uv_loop_t *loop;
    const char *dir;
    bool shared;
    int claims; /* that are under way */
    void (*written)(void *ctx, const char *id, const struct err *err);
    void *ctx;
    struct lane lane, eeg; /* eeg: DEED_EEG alone, for which nothing else waits */
    struct restoring restoring;
    struct map *hands;             /* struct handing, by id */
    struct map *received;          /* by id: alarms of other daemons that the register has, and whose files go at the next look */
    struct map *due;               /* by id: tasks of the lane `eeg` that have not begun */
    struct snapshot_entry *others; /* n_others of other daemons, at the start; by id */
    size_t n_others;
    int64_t others_ms;   /* when they were asked for; 0: not yet; INT64_MAX: they are known */
    bool others_unknown; /* some folder could not be read */
    int64_t moved_ms;    /* when to look for streams that other daemons have taken; INT64_MAX: it is under way */
    bool swept;          /* kept models were compared with the snapshots since one was removed */
};

struct snapshot_store *snapshot_store_new(uv_loop_t *loop, const char *dir, bool shared,
                                          void (*written)(void *ctx, const char *id, const struct err *err), void *ctx) {
    struct snapshot_store *s = calloc(1, sizeof *s);
    struct map *due = s ? map_new(SIZE_MAX) : NULL, *hands = s ? map_new(SIZE_MAX) : NULL, *received = s ? map_new(SIZE_MAX) : NULL;
    const bool whole = due && hands && received;
    if (whole)
        *s = (struct snapshot_store){.loop = loop,
                                     .dir = dir,
                                     .shared = shared,
                                     .written = written,
                                     .ctx = ctx,
                                     .lane.store = s,
                                     .eeg.store = s,
                                     .hands = hands,
                                     .received = received,
                                     .due = due};
    if (whole)
        return s;
    map_free(due, NULL);
    map_free(hands, NULL);
    map_free(received, NULL);
    free(s);
    return NULL;
}

static struct task *pop(struct lane *lane) {
    struct task *t = lane->first;
    QUEUE_DROP(lane, next);
    lane->last_other = t == lane->last_other ? NULL : lane->last_other;
    return t;
}

static void task_free(struct task *t) {
    FREE_MEMBERS(*t, state, eeg);
    free(t->found.eeg);
    free(t->found.alarm);
    eegring_drop(t->ring);
    FREE_MEMBERS(*t, list, model, models);
    claim_alarms_free(t->alarms, t->n_alarms);
    free(t->found.state);
    free(t->asks);
    free(t);
}

void snapshot_store_free(struct snapshot_store *s) {
    if (!s)
        return;
    while (s->lane.first)
        task_free(pop(&s->lane));
    while (s->eeg.first)
        task_free(pop(&s->eeg));
    free(s->restoring.entries);
    free(s->others);
    map_free(s->due, NULL);
    map_free(s->hands, free);
    map_free(s->received, NULL);
    free(s);
}

/* People can look at less without it, and the stream and its snapshot are as good. */
static void write_eeg(const struct snapshot_store *s, const struct task *t) {
    OWNED(str_done) struct str data = {0};
    struct err err = {0};
    char text[800];
    str_init(&data, EEGRING_SAVED_BYTES);
    if (eegring_save(t->ring, &data))
        (void)snapshot_write_eeg(s->dir, t->id, data.data, data.len, &err);
    else
        err_set(&err, ERR_EXHAUSTED, "out of memory for the EEG of alarms");
    if (err.code)
        log_warn("the EEG of an alarm would not outlive the daemon", "session=%s error=\"%s\"", t->id,
                 err_text(&err, text, sizeof text));
}

static void write_snapshots(const struct snapshot_store *s, struct task *first, int n) {
    struct snapshot_file files[WRITES];
    struct task *t = first;
    for (int i = 0; i < n; t = ++i < n ? t->next : t) { /* the next of the last is the loop's */
        files[i] = (struct snapshot_file){.id = t->id, .state = t->state, .len = t->len, .renew = t->again};
        if (*t->sha256)
            (void)snapshot_keep_model(s->dir, t->sha256, t->model, &files[i].err);
    }
    snapshot_write_all(s->dir, files, (size_t)n);
    t = first;
    for (int i = 0; i < n; t = ++i < n ? t->next : t)
        t->err = files[i].err;
}

static void run(uv_work_t *work) {
    struct lane *lane = work->data;
    struct snapshot_store *s = lane->store;
    struct task *t = lane->first;
    switch (t->deed) {
    case DEED_WRITE:
        write_snapshots(s, t, lane->at_work);
        break;
    case DEED_EEG:
        write_eeg(s, t);
        break;
    case DEED_CLAIM:
        claim_take(s->dir, t->id, &t->found, &t->err);
        break;
    case DEED_OTHERS:
        claim_others(s->dir, &t->list, &t->n_list, &t->err);
        break;
    case DEED_MOVED:
        if (!snapshot_list(s->dir, SNAPSHOTS_MOVED, &t->list, &t->n_list, &t->err))
            (void)claim_alarms(s->dir, &t->alarms, &t->n_alarms, &t->err);
        break;
    case DEED_HAND:
        (void)claim_hand(s->dir, t->id, t->state, t->len, &t->err);
        break;
    case DEED_UNHAND:
        (void)snapshot_remove_beside(s->dir, t->id, SNAPSHOT_ALARM, &t->err);
        break;
    case DEED_END:
        snapshot_end(s->dir, t->id, &t->err);
        break;
    case DEED_REMOVE:
        snapshot_remove(s->dir, t->id, &t->err);
        break;
    case DEED_REJECT:
        if (!snapshot_reject(s->dir, t->id, &t->err))
            snapshot_prune_rejected(s->dir, &t->err);
        break;
    case DEED_LIST:
        if (!snapshot_list(s->dir, SNAPSHOTS_HERE, &t->list, &t->n_list, &t->err))
            snapshot_prune_rejected(s->dir, NULL);
        break;
    case DEED_MODELS:
        snapshot_list_models(s->dir, &t->models, &t->n_list, &t->err);
        break;
    case DEED_UNKEEP:
        snapshot_remove_model(s->dir, t->sha256, &t->err);
        break;
    case DEED_READ:
        if (!snapshot_read(s->dir, t->id, &t->state, &t->len, &t->err))
            (void)snapshot_read_beside(s->dir, t->id, SNAPSHOT_EEG, &t->eeg, &t->eeg_len, NULL); /* most have none */
        break;
    }
}

static void done(uv_work_t *work, int status);

static void go_on(struct lane *lane) {
    const struct task *t = lane->first;
    lane->at_work = 1;
    if (t->deed == DEED_EEG)
        map_remove(lane->store->due, t->id);
    while (t->deed == DEED_WRITE && lane->at_work < WRITES && (t = t->next) && t->deed == DEED_WRITE)
        lane->at_work++;
    lane->work.data = lane;
    uv_queue_work(lane->store->loop, &lane->work, run, done); /* fails for want of a function alone */
}

static void enqueue(struct snapshot_store *s, struct task *t) {
    struct lane *lane = t->deed == DEED_EEG ? &s->eeg : &s->lane;
    struct task *behind = lane->last_other ? lane->last_other : lane->first; /* which is at work */
    const bool begins = !lane->first;
    if (t->deed == DEED_CLAIM || !behind || behind == lane->last) {
        QUEUE_ADD(lane, t, next);
    } else {
        t->next = behind->next;
        behind->next = t;
    }
    lane->last_other = t->deed == DEED_CLAIM ? lane->last_other : t;
    if (t->deed == DEED_EEG)
        (void)map_put(s->due, t->id, t, NULL); /* without memory it may be written twice */
    if (begins)
        go_on(lane);
}

/* True if its EEG is to be written and the writer has not begun: all that is there by then goes into the file. */
static bool eeg_is_due(const struct snapshot_store *s, const char *id) { return map_get(s->due, id); }

/* The snapshot is durable: the EEG of a new alarm follows, or more of it. Takes t. */
static void save_eeg(struct snapshot_store *s, struct task *t) {
    const int64_t pinned = t->ring && !t->err.code ? eegring_pinned(t->ring) : 0;
    if (!pinned || pinned == eegring_saved(t->ring) || eeg_is_due(s, t->id)) {
        task_free(t);
        return;
    }
    eegring_set_saved(t->ring, pinned); /* after an error it is tried again when there is more, not every two seconds */
    free(t->state);
    t->state = NULL;
    t->deed = DEED_EEG;
    enqueue(s, t);
}

static bool ask(struct snapshot_store *s, enum deed deed, const char *id) {
    struct task *t = calloc(1, sizeof *t);
    if (!t)
        return false;
    t->deed = deed;
    str_copy(t->id, sizeof t->id, id);
    enqueue(s, t);
    return true;
}

/* Nothing can be done about it now: the next daemon finds a stream that nobody wants, and lets it go after limits.resume_ttl. */
static void ask_or_log(struct snapshot_store *s, enum deed deed, const char *id) {
    if (!ask(s, deed, id))
        log_error("the snapshot of a stream stays on the disk: out of memory to remove, move or mark it", "session=%s", id);
}

/* ---- going on from them ---- */

/* Reads the next entry, or ends the round. */
static void read_next(struct snapshot_store *s) {
    struct restoring *r = &s->restoring;
    if (r->at < r->n && ask(s, DEED_READ, r->entries[r->at].id))
        return;
    for (; r->at < r->n; r->at++) /* out of memory to ask */
        r->entries[r->kept++] = r->entries[r->at];
    if (!r->tried && r->n)
        log_info("streams resumed from snapshots", "sessions=%d snapshots=%zu", sessions_places(r->sessions, false), r->n);
    r->round = false;
    r->tried = true;
    r->n = r->kept;
    r->next_ms = clock_ms() + RETRY_MS;
    sessions_await(r->sessions, r->n > 0);
}

static void begin_round(struct snapshot_store *s) {
    struct restoring *r = &s->restoring;
    r->round = true;
    r->at = r->kept = 0;
    if (r->listed)
        read_next(s);
    else if (!ask(s, DEED_LIST, ""))
        r->round = false;
}

static void on_listed(struct snapshot_store *s, struct task *t) {
    struct restoring *r = &s->restoring;
    r->next_ms = clock_ms() + RETRY_MS;
    r->round = false;
    if (t->err.code)
        return;
    r->listed = true;
    r->entries = t->list;
    r->n = t->n_list;
    t->list = NULL;
    begin_round(s);
}

/* A snapshot that can never be used is rejected; another one waits. */
static void on_unusable(struct snapshot_store *s, const struct snapshot_entry *entry, const struct err *why) {
    struct restoring *r = &s->restoring;
    char text[800];
    err_text(why, text, sizeof text);
    if (!snapshot_is_useless(why)) {
        if (!r->tried)
            log_warn("a stream waits for its snapshot, which cannot be used now", "session=%s error=\"%s\"", entry->id, text);
        r->entries[r->kept++] = *entry;
        return;
    }
    log_warn("a stream cannot resume from its snapshot", "session=%s error=\"%s\"", entry->id, text);
    if (r->metrics)
        metric_add(metrics_series(r->metrics, "brrd_stream_snapshots_total", "unknown\x1frejected"), 1);
    ask_or_log(s, DEED_REJECT, entry->id);
}

static void on_read(struct snapshot_store *s, struct task *t) {
    struct restoring *r = &s->restoring;
    struct snapshot_entry entry = r->entries[r->at++];
    if (!t->err.code)
        sessions_restore(r->sessions, t->state, t->len, entry.ended, &t->err);
    if (!t->err.code && t->eeg) {
        sessions_inherit_eeg(r->sessions, entry.id, t->eeg, t->eeg_len);
        t->eeg = NULL;
    }
    if (t->err.code == ERR_CANCELLED) { /* the daemon stops */
        r->n = r->kept = 0;
    } else if (t->err.code && t->err.code != ERR_NOT_FOUND) {
        on_unusable(s, &entry, &t->err);
    }
    read_next(s);
}

void snapshot_store_restore(struct snapshot_store *s, struct sessions *sessions, struct metrics *metrics, int64_t try_ms) {
    s->restoring = (struct restoring){.sessions = sessions, .metrics = metrics, .until_ms = clock_ms() + try_ms, .try_ms = try_ms};
    sessions_await(sessions, true);
    begin_round(s);
}

bool snapshot_store_restoring(const struct snapshot_store *s) { return s->restoring.sessions && !s->restoring.tried; }

/* A session that was made from a snapshot cannot go on from it now. */
static void retry(void *ctx, const char *id, bool ended) {
    struct restoring *r = &((struct snapshot_store *)ctx)->restoring;
    struct snapshot_entry *more = r->sessions ? realloc(r->entries, (r->n + 1) * sizeof *more) : NULL;
    if (!more)
        return;
    r->entries = more;
    str_copy(more[r->n].id, sizeof more->id, id);
    more[r->n++].ended = ended;
    sessions_await(r->sessions, true);
}

/* ---- sessions of other daemons ---- */

/* The session could not be made yet: it is tried again soon. Its client waits as after a start. */
static void retry_claimed(struct snapshot_store *s, const struct task *t) {
    struct restoring *r = &s->restoring;
    retry(s, t->id, t->found.ended);
    r->next_ms = clock_ms();
    r->until_ms = r->next_ms + r->try_ms;
}

ORDER_BY(by_id, struct snapshot_entry, strcmp(x->id, y->id))

static struct snapshot_entry *find_other(const struct snapshot_store *s, const char *id) {
    struct snapshot_entry key = {.ended = false};
    str_copy(key.id, sizeof key.id, id);
    return s->n_others ? bsearch(&key, s->others, s->n_others, sizeof key, by_id) : NULL;
}

/* No other daemon has it any more, even if it cannot be used here. */
static void forget_other(struct snapshot_store *s, const char *id) {
    struct snapshot_entry *found = find_other(s, id);
    if (found)
        memmove(found, found + 1, (size_t)(s->others + s->n_others-- - found - 1) * sizeof *found);
}

/* Another daemon has it since the start. */
static void remember_other(struct snapshot_store *s, const char *id) {
    struct snapshot_entry *more = find_other(s, id) ? NULL : realloc(s->others, (s->n_others + 1) * sizeof *more);
    if (!more)
        return;
    s->others = more;
    more[s->n_others] = (struct snapshot_entry){.ended = false};
    str_copy(more[s->n_others++].id, sizeof more->id, id);
    SORT(s->others, s->n_others, by_id);
}

/* Once the register has it, its row is on its way to the disk; the file goes at the next look. */
static void receive(struct snapshot_store *s, const struct claim_alarm *a, const char *id) {
    static char known;
    if (map_remove(s->received, id)) {
        ask_or_log(s, DEED_UNHAND, id);
    } else if (sessions_receive_alarm(s->restoring.sessions, a->data, a->len)) {
        forget_other(s, id);
        (void)map_put(s->received, id, &known, NULL); /* without memory it is taken again */
    }
}

static void on_claimed(struct snapshot_store *s, struct task *t) {
    struct sessions *all = s->restoring.sessions;
    char text[800];
    s->claims--;
    if (t->found.moved) {
        forget_other(s, t->id);
        (void)map_remove(s->received, t->id);
        free(map_remove(s->hands, t->id));
        sessions_disown(all, t->id);
        if (!t->err.code)
            sessions_restore_moved(all, t->found.state, t->found.len, t->found.ended, &t->err);
        if (!t->err.code && t->found.eeg) {
            sessions_inherit_eeg(all, t->id, t->found.eeg, t->found.eeg_len);
            t->found.eeg = NULL;
        }
        if (!t->err.code && t->found.alarm)
            receive(s, &(struct claim_alarm){.data = t->found.alarm, .len = t->found.alarm_len}, t->id);
        log_info("a stream of another daemon goes on here", "session=%s", t->id);
    }
    if (t->err.code && t->err.code != ERR_NOT_FOUND && t->err.code != ERR_CANCELLED)
        log_warn("a stream of another daemon cannot go on here now", "session=%s error=\"%s\"", t->id,
                 err_text(&t->err, text, sizeof text));
    if (t->found.moved && snapshot_is_useless(&t->err))
        ask_or_log(s, DEED_REJECT, t->id);
    else if (t->found.moved && t->err.code && t->err.code != ERR_CANCELLED)
        retry_claimed(s, t);
    t->asks->done(t->asks);
}

static void on_others(struct snapshot_store *s, struct task *t) {
    free(s->others);
    s->others = t->list;
    s->n_others = t->n_list;
    SORT(s->others, s->n_others, by_id);
    s->others_ms = INT64_MAX;
    s->others_unknown = t->err.code != 0;
    t->list = NULL;
}

/* A stream whose client is away writes no snapshot, at which it would notice. */
static void on_moved(struct snapshot_store *s, struct task *t) {
    struct sessions *all = s->restoring.sessions;
    s->moved_ms = clock_ms() + RETRY_MS;
    for (size_t i = 0; i < t->n_list; i++) {
        remember_other(s, t->list[i].id);
        sessions_disown(all, t->list[i].id);
    }
    for (size_t i = 0; i < t->n_alarms; i++)
        receive(s, &t->alarms[i], t->alarms[i].id);
}

/* ---- alarms of streams that went to another daemon ---- */

static enum session_place hand(void *ctx, const char *id, const void *data, size_t len) {
    struct snapshot_store *s = ctx;
    struct handing *h = map_get(s->hands, id);
    if (h && h->written) {
        free(map_remove(s->hands, id));
        return SESSION_ELSEWHERE;
    }
    if (h && clock_ms() < h->again_ms)
        return SESSION_PLACE_ASKED;
    if (!h && (!(h = calloc(1, sizeof *h)) || map_put(s->hands, id, h, NULL))) {
        free(h);
        return SESSION_PLACE_ASKED;
    }
    struct task *t = calloc(1, sizeof *t);
    h->again_ms = t ? INT64_MAX : clock_ms() + RETRY_MS;
    if (!t)
        return SESSION_PLACE_ASKED;
    t->deed = DEED_HAND;
    t->state = malloc(len + 1);
    t->len = t->state ? len : 0;
    if (t->state)
        memcpy(t->state, data, len);
    str_copy(t->id, sizeof t->id, id);
    enqueue(s, t);
    return SESSION_PLACE_ASKED;
}

/* Where no daemon is found that would take it, its stream is over. */
static void on_handed(struct snapshot_store *s, struct task *t) {
    struct handing *h = map_get(s->hands, t->id);
    if (!h)
        return;
    h->written = !t->err.code || t->err.code == ERR_NOT_FOUND;
    h->again_ms = clock_ms() + RETRY_MS;
}

static enum session_place elsewhere(void *ctx, const char *id) {
    struct snapshot_store *s = ctx;
    if (!s->others_ms && ask(s, DEED_OTHERS, ""))
        s->others_ms = clock_ms();
    if (s->others_ms != INT64_MAX)
        return clock_ms() - s->others_ms < OTHERS_MS ? SESSION_PLACE_ASKED : SESSION_PLACE_UNKNOWN;
    if (find_other(s, id))
        return SESSION_ELSEWHERE;
    return s->others_unknown ? SESSION_PLACE_UNKNOWN : SESSION_GONE;
}

static bool claim(void *ctx, const char *id, struct session_claim *asks) {
    struct snapshot_store *s = ctx;
    struct task *t = s->restoring.sessions ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return false;
    t->deed = DEED_CLAIM;
    t->asks = asks;
    str_copy(t->id, sizeof t->id, id);
    s->claims++;
    s->swept = false;
    enqueue(s, t);
    return true;
}

/* ---- models that no snapshot needs any more ---- */

/* True if every snapshot's model is known here: no claim brings one for a session that is not made yet, and no snapshot waits or
 * was left for the next daemon. */
static bool models_are_known(const struct snapshot_store *s) {
    const struct restoring *r = &s->restoring;
    return !s->claims && r->sessions && r->listed && !r->round && !r->n && !r->left;
}

static void on_models(struct snapshot_store *s, struct task *t) {
    if (!models_are_known(s)) { /* any more: a session could not be restored since this was asked */
        s->swept = false;
        return;
    }
    for (size_t i = 0; i < t->n_list; i++) {
        struct task *unkeep = sessions_need_model(s->restoring.sessions, t->models[i].sha256) ? NULL : calloc(1, sizeof *unkeep);
        if (!unkeep)
            continue;
        unkeep->deed = DEED_UNKEEP;
        str_copy(unkeep->sha256, sizeof unkeep->sha256, t->models[i].sha256);
        enqueue(s, unkeep); /* a snapshot that is asked for later keeps it again */
    }
}

static void sweep_models(struct snapshot_store *s) {
    if (!s->swept && models_are_known(s))
        s->swept = ask(s, DEED_MODELS, "");
}

/* ---- the end of a task ---- */

static void on_written(struct snapshot_store *s, struct task *t) {
    if (t->err.code == ERR_ABORTED)
        remember_other(s, t->id);
    s->written(s->ctx, t->id, &t->err);
}

static void task_over(struct snapshot_store *s, struct task *t) {
    static void (*const on_over[])(struct snapshot_store *, struct task *) = {
        [DEED_WRITE] = on_written, [DEED_LIST] = on_listed,   [DEED_READ] = on_read,
        [DEED_MODELS] = on_models, [DEED_CLAIM] = on_claimed, [DEED_OTHERS] = on_others,
        [DEED_MOVED] = on_moved,   [DEED_HAND] = on_handed,   [DEED_EEG] = NULL};
    char text[800];
    if (t->err.code && t->deed != DEED_READ && t->deed != DEED_CLAIM)
        log_warn("snapshot of a stream", "error=\"%s\"", err_text(&t->err, text, sizeof text));
    if (on_over[t->deed])
        on_over[t->deed](s, t);
    if (t->deed == DEED_WRITE)
        save_eeg(s, t);
    else
        task_free(t);
}

static void done(uv_work_t *work, int status) {
    struct lane *lane = work->data, over = {0};
    (void)status;
    for (int i = 0; i < lane->at_work; i++) {
        struct task *t = pop(lane);
        QUEUE_ADD(&over, t, next);
    }
    if (lane->first)
        go_on(lane);
    while (over.first)
        task_over(lane->store, pop(&over));
}

void snapshot_store_tick(struct snapshot_store *s) {
    struct restoring *r = &s->restoring;
    int64_t now = clock_ms();
    sweep_models(s);
    if (s->shared && r->sessions && now >= s->moved_ms && ask(s, DEED_MOVED, ""))
        s->moved_ms = INT64_MAX;
    if (!r->sessions || r->round || (r->listed && !r->n) || now < r->next_ms)
        return;
    if (now < r->until_ms) {
        begin_round(s);
        return;
    }
    log_error("snapshots of streams could not be used and are left for the next start", "snapshots=%zu", r->n);
    r->listed = r->tried = r->left = true;
    r->n = 0;
    sessions_await(r->sessions, false);
}

static bool put(void *ctx, const struct session_snapshot *snapshot) {
    struct snapshot_store *s = ctx;
    struct task *t = calloc(1, sizeof *t);
    if (!t || !(t->model = strdup(snapshot->model))) {
        free(t);
        return false;
    }
    t->deed = DEED_WRITE;
    COPY_MEMBERS(*t, *snapshot, state, len);
    t->again = s->shared && snapshot->again;
    t->ring = eegring_share(snapshot->eeg);
    COPY_TEXTS(*t, *snapshot, id, sha256);
    enqueue(s, t);
    return true;
}

static bool eeg_waits(void *ctx) { return ((struct snapshot_store *)ctx)->eeg.first; }

static void model(void *ctx, const char *sha256, char *path, size_t size) {
    if (snapshot_model_path(((struct snapshot_store *)ctx)->dir, sha256, path, size, NULL))
        *path = 0;
}
static void end(void *ctx, const char *id) { ask_or_log(ctx, DEED_END, id); }
static void drop(void *ctx, const char *id) {
    ((struct snapshot_store *)ctx)->swept = false;
    ask_or_log(ctx, DEED_REMOVE, id);
}
static void reject(void *ctx, const char *id) {
    ((struct snapshot_store *)ctx)->swept = false;
    ask_or_log(ctx, DEED_REJECT, id);
}

struct session_store snapshot_store_for_sessions(struct snapshot_store *s) {
    return (struct session_store){.put = put,
                                  .eeg_waits = eeg_waits,
                                  .model = model,
                                  .end = end,
                                  .drop = drop,
                                  .reject = reject,
                                  .retry = retry,
                                  .claim = s->shared ? claim : NULL,
                                  .elsewhere = s->shared ? elsewhere : NULL,
                                  .hand = s->shared ? hand : NULL,
                                  .ctx = s};
}
