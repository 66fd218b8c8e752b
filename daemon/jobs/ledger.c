#include "daemon/jobs/ledger.h"

#include "base/log.h"

struct ledger_checkpoint {
    struct ledger_checkpoint *next;
    char job_id[JOB_ID_SIZE];
    struct task_checkpoint c;
    int64_t now_ms;
};

/* What is written in one transaction. Pointers are owned. */
struct record {
    struct job **jobs; /* copies, to be saved */
    int n_jobs;
    struct ledger_checkpoint *checkpoints;
    char (*gone)[JOB_ID_SIZE]; /* ids of jobs to be removed */
    int n_gone;
    char folder[2048];     /* of the one that is removed */
    int64_t next_sequence; /* 0: not written */
    bool starts, retries;
};

/* ---- copies of jobs ---- */

static char *copy_text(const char *text, bool *whole) {
    char *copy = text ? strdup(text) : NULL;
    *whole &= !text || copy;
    return copy;
}

static struct job *copy_job(const struct job *job) {
    struct job *copy = malloc(sizeof *copy);
    bool whole = true;
    if (!copy)
        return NULL;
    *copy = *job;
    copy->yaml = copy_text(job->yaml, &whole);
    copy->file = copy_text(job->file, &whole);
    copy->overrides = copy_text(job->overrides, &whole);
    copy->request_id = copy_text(job->request_id, &whole);
    copy->result = copy_text(job->result, &whole);
    if (whole)
        return copy;
    job_free(copy);
    return NULL;
}

static void free_checkpoints(struct ledger_checkpoint *first) {
    for (struct ledger_checkpoint *next; first; first = next) {
        next = first->next;
        free(first);
    }
}

static void record_done(struct record *r) {
    for (int i = 0; i < r->n_jobs; i++)
        job_free(r->jobs[i]);
    free(r->jobs);
    free_checkpoints(r->checkpoints);
    free(r->gone);
}

/* Adds a copy of the job, for which the array has room; false when out of memory. */
static bool add_job(struct record *r, const struct job *job) {
    struct job *copy = copy_job(job);
    if (copy)
        r->jobs[r->n_jobs++] = copy;
    return copy != NULL;
}

/* ---- on the thread ---- */

static int remove_jobs(struct db *db, const struct record *r, struct err *err) {
    int rc;
    for (int i = 0; i < r->n_gone; i++)
        if ((rc = jobdb_remove_job(db, r->gone[i], err)))
            return rc;
    return *r->folder ? jobdb_add_removal(db, r->gone[0], r->folder, err) : 0;
}

static int write_record(struct db *db, void *what, struct err *err) {
    const struct record *r = what;
    int64_t next = r->next_sequence;
    int rc;
    for (const struct ledger_checkpoint *w = r->checkpoints; w; w = w->next)
        if ((rc = jobdb_add_checkpoint(db, w->job_id, &w->c, w->now_ms, err)))
            return rc;
    for (int i = 0; i < r->n_jobs; i++)
        if ((rc = jobdb_save(db, r->jobs[i], err)))
            return rc;
    if ((rc = remove_jobs(db, r, err)) || (r->retries && (rc = jobdb_sequence(db, &next, err))))
        return rc;
    return next ? jobdb_save_sequence(db, next, err) : 0;
}

/* ---- on the loop ---- */

static void failed(struct ledger *l, const struct err *err) {
    if (!l->broken)
        log_error("the job database cannot be written: no job starts until it can", "error=\"%s\"", err->message);
    l->broken = true;
    l->why = *err;
}

static void mark_unsaved(struct ledger *l, const char *id) {
    struct job *job = l->config.find(l->config.ctx, id);
    if (job)
        job->unsaved = true;
}

static void drop_oldest(struct ledger *l) {
    struct ledger_checkpoint *first = l->oldest;
    l->oldest = first->next;
    if (!l->oldest)
        l->newest = NULL;
    l->waiting--;
    free(first);
}

/* Checkpoints that could not be written wait, oldest first. */
static void keep_checkpoints(struct ledger *l, struct ledger_checkpoint *first) {
    for (struct ledger_checkpoint *next; first; first = next) {
        next = first->next;
        first->next = NULL;
        if (l->waiting == LEDGER_MAX_CHECKPOINTS) {
            log_error("checkpoint not recorded: too many wait for the job database", "job=%s path=%s", l->oldest->job_id,
                      l->oldest->c.path);
            drop_oldest(l);
        }
        *(l->newest ? &l->newest->next : &l->oldest) = first;
        l->newest = first;
        l->waiting++;
    }
}

/* What a record holds stays to be written. */
static void keep(struct ledger *l, struct record *r) {
    for (int i = 0; i < r->n_jobs; i++)
        mark_unsaved(l, r->jobs[i]->id);
    keep_checkpoints(l, r->checkpoints);
    r->checkpoints = NULL;
}

static void written(void *ctx, void *what, int rc, const struct err *err) {
    struct ledger *l = ctx;
    struct record *r = what;
    struct job *starts = r->starts ? l->config.find(l->config.ctx, r->jobs[0]->id) : NULL;
    if (rc) {
        failed(l, err);
        keep(l, r);
    } else if (r->retries) {
        if (l->broken)
            log_info("the job database can be written again", NULL);
        l->broken = false;
    }
    l->retrying &= !r->retries;
    if (starts)
        l->config.started(l->config.ctx, starts, rc);
    if (r->n_gone)
        l->config.forgotten(l->config.ctx, (const char(*)[JOB_ID_SIZE])r->gone, r->n_gone, rc);
    record_done(r);
}

/* Takes what the record owns. On failure it is kept to be written later, and the ledger is broken. */
static int give(struct ledger *l, struct record *r, struct err *err) {
    const struct db_order order = {.write = write_record, .what = r, .size = sizeof *r, .ended = written, .ctx = l};
    struct err why;
    int rc = db_writer_post(l->writer, &order, &why);
    if (rc == 0)
        return 0;
    failed(l, &why);
    keep(l, r);
    record_done(r);
    if (err)
        *err = why;
    return rc;
}

/* A record with room for n jobs; false when out of memory. */
static bool record_new(struct record *r, int n) {
    *r = (struct record){.jobs = calloc((size_t)n, sizeof *r->jobs)};
    return r->jobs != NULL;
}

static int no_memory(struct ledger *l, struct record *r, struct err *err) {
    struct err why;
    err_set(&why, ERR_EXHAUSTED, "out of memory for the record of a job");
    record_done(r);
    failed(l, &why);
    if (err)
        *err = why;
    return ERR_EXHAUSTED;
}

/* A volume that answers again takes what is asked for; a full one has to show first that it can be written. */
static int check(const struct ledger *l, struct err *err) {
    const bool answers = l->why.code == ERR_UNAVAILABLE && !db_look(l->config.db, NULL) && !db_writer_late(l->writer);
    if (!l->broken || answers)
        return 0;
    if (err)
        *err = l->why;
    return l->why.code;
}

/* A change that is asked for; nothing has happened after an error. */
static int ask(struct ledger *l, struct job *job, int64_t next_sequence, bool starts, struct err *err) {
    struct record r;
    int rc = check(l, err);
    if (rc)
        return rc;
    if (!record_new(&r, 1) || !add_job(&r, job))
        return no_memory(l, &r, err);
    r.next_sequence = next_sequence;
    r.starts = starts;
    job->unsaved = false;
    return give(l, &r, err);
}

int ledger_commit(struct ledger *l, struct job *job, const struct job *before, struct err *err) {
    int rc = ask(l, job, 0, false, err);
    if (rc)
        *job = *before;
    return rc;
}

int ledger_start(struct ledger *l, struct job *job, const struct job *before, struct err *err) {
    int rc = ask(l, job, 0, true, err);
    if (rc)
        *job = *before;
    return rc;
}

int ledger_insert(struct ledger *l, struct job *job, int64_t next_sequence, struct err *err) {
    return ask(l, job, next_sequence, false, err);
}

void ledger_record(struct ledger *l, struct job *job) {
    struct record r;
    job->unsaved = l->broken;
    if (l->broken)
        return;
    if (record_new(&r, 1) && add_job(&r, job)) {
        give(l, &r, NULL);
        return;
    }
    no_memory(l, &r, NULL);
    job->unsaved = true;
}

void ledger_checkpoint(struct ledger *l, struct job *job, const struct task_checkpoint *c, int64_t now_ms) {
    struct ledger_checkpoint *w = malloc(sizeof *w);
    struct record r;
    if (!w) {
        log_error("checkpoint not recorded: out of memory", "job=%s path=%s", job->id, c->path);
        ledger_record(l, job);
        return;
    }
    *w = (struct ledger_checkpoint){.c = *c, .now_ms = now_ms};
    str_copy(w->job_id, sizeof w->job_id, job->id);
    job->unsaved = l->broken;
    if (l->broken) {
        keep_checkpoints(l, w);
    } else if (record_new(&r, 1) && add_job(&r, job)) {
        r.checkpoints = w;
        give(l, &r, NULL);
    } else {
        no_memory(l, &r, NULL);
        keep_checkpoints(l, w);
        job->unsaved = true;
    }
}

static int remove_all(struct ledger *l, struct job *const *jobs, int n, const char *folder, struct err *err) {
    struct record r = {.n_gone = n};
    int rc = check(l, err);
    if (rc)
        return rc;
    if (!(r.gone = calloc((size_t)n, sizeof *r.gone)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the record of a job");
    for (int i = 0; i < n; i++)
        str_copy(r.gone[i], sizeof r.gone[i], jobs[i]->id);
    str_copy(r.folder, sizeof r.folder, folder);
    return give(l, &r, err);
}

int ledger_forget(struct ledger *l, struct job *const *jobs, int n, struct err *err) { return remove_all(l, jobs, n, "", err); }

int ledger_remove(struct ledger *l, const struct job *job, const char *folder, struct err *err) {
    struct job *one = (struct job *)(uintptr_t)job;
    return remove_all(l, &one, 1, folder, err);
}

/* Gives all that waits, or at least something, so that success means that the database can be written. */
static void give_all(struct ledger *l, struct job *const *jobs, int count) {
    struct record r;
    int n = 0;
    for (int i = 0; i < count; i++)
        n += jobs[i]->unsaved;
    if (!record_new(&r, n + 1))
        return;
    r.retries = true;
    for (int i = 0; i < count; i++) {
        if (!jobs[i]->unsaved)
            continue;
        if (!add_job(&r, jobs[i])) {
            record_done(&r);
            return;
        }
    }
    for (int i = 0; i < count; i++)
        jobs[i]->unsaved = false;
    r.checkpoints = l->oldest;
    l->oldest = l->newest = NULL;
    l->waiting = 0;
    l->retrying = true;
    if (give(l, &r, NULL))
        l->retrying = false;
}

void ledger_retry(struct ledger *l, struct job *const *jobs, int count) {
    struct err err;
    if (l->config.lost)
        return;
    if (!l->broken && db_look(l->config.db, &err))
        failed(l, &err);
    if (!l->broken && db_writer_late(l->writer)) {
        err_set(&err, ERR_UNAVAILABLE, "the volume of the job database does not answer; try again when it does");
        failed(l, &err);
    }
    bool waits = l->broken || l->oldest;
    for (int i = 0; i < count && !waits; i++)
        waits = jobs[i]->unsaved;
    if (waits && !l->retrying && !db_writer_late(l->writer))
        give_all(l, jobs, count);
}

int ledger_open(struct ledger *l, const struct ledger_config *config, struct err *err) {
    *l = (struct ledger){.config = *config};
    int rc = db_writer_start(config->db, config->wake, config->wake_ctx, &l->writer, err);
    if (rc)
        return rc;
    if (config->lost) {
        l->broken = true;
        l->why = *config->lost;
        return 0;
    }
    give_all(l, NULL, 0);
    db_writer_settle(l->writer);
    return 0;
}

void ledger_close(struct ledger *l) {
    db_writer_stop(l->writer);
    free_checkpoints(l->oldest);
}
