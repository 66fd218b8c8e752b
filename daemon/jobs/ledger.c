#include "daemon/jobs/ledger.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"

struct ledger_checkpoint {
    struct ledger_checkpoint *next;
    char job_id[JOB_ID_SIZE];
    struct task_checkpoint c;
    int64_t now_ms;
};

void ledger_init(struct ledger *l, struct db *db) { *l = (struct ledger){.db = db}; }

static void drop_oldest(struct ledger *l) {
    struct ledger_checkpoint *first = l->oldest;
    l->oldest = first->next;
    if (!l->oldest)
        l->newest = NULL;
    l->waiting--;
    free(first);
}

void ledger_done(struct ledger *l) {
    while (l->oldest)
        drop_oldest(l);
}

static void failed(struct ledger *l, const struct err *err) {
    if (!l->broken)
        log_error("the job database cannot be written: no job starts until it can", "error=\"%s\"", err->message);
    l->broken = true;
}

int ledger_commit(struct ledger *l, struct job *job, const struct job *before, struct err *err) {
    struct err why;
    int rc = jobdb_save(l->db, job, &why);
    if (rc) {
        *job = *before;
        failed(l, &why);
        if (err)
            *err = why;
        return rc;
    }
    job->unsaved = false;
    return 0;
}

/* Both rows in one transaction. */
static int insert(struct ledger *l, const struct job *job, int64_t next_sequence, struct err *err) {
    int rc = db_begin(l->db, err);
    if (rc)
        return rc;
    rc = jobdb_save(l->db, job, err);
    rc = rc ? rc : jobdb_save_sequence(l->db, next_sequence, err);
    return db_end(l->db, rc, err);
}

int ledger_insert(struct ledger *l, const struct job *job, int64_t next_sequence, struct err *err) {
    struct err why;
    int rc = insert(l, job, next_sequence, &why);
    if (rc) {
        failed(l, &why);
        if (err)
            *err = why;
    }
    return rc;
}

static int forget_all(struct ledger *l, struct job *const *jobs, int n, struct err *err) {
    int rc;
    for (int i = 0; i < n; i++)
        if ((rc = jobdb_remove_job(l->db, jobs[i]->id, err)))
            return rc;
    return 0;
}

int ledger_forget(struct ledger *l, struct job *const *jobs, int n, struct err *err) {
    int rc = db_begin(l->db, err);
    return rc ? rc : db_end(l->db, forget_all(l, jobs, n, err), err);
}

int ledger_remove(struct ledger *l, const struct job *job, const char *folder, struct err *err) {
    int rc = db_begin(l->db, err);
    if (rc)
        return rc;
    rc = jobdb_remove_job(l->db, job->id, err);
    rc = rc || !*folder ? rc : jobdb_add_removal(l->db, job->id, folder, err);
    return db_end(l->db, rc, err);
}

void ledger_record(struct ledger *l, struct job *job) {
    struct err err;
    job->unsaved = jobdb_save(l->db, job, &err) != 0;
    if (job->unsaved)
        failed(l, &err);
}

static int write_checkpoint(struct ledger *l, const struct job *job, const struct ledger_checkpoint *w, struct err *err) {
    int rc = db_begin(l->db, err);
    if (rc)
        return rc;
    rc = jobdb_add_checkpoint(l->db, w->job_id, &w->c, w->now_ms, err);
    rc = rc ? rc : jobdb_save(l->db, job, err);
    return db_end(l->db, rc, err);
}

void ledger_checkpoint(struct ledger *l, struct job *job, const struct task_checkpoint *c, int64_t now_ms) {
    struct ledger_checkpoint *w, new = {.c = *c, .now_ms = now_ms};
    struct err err;
    str_copy(new.job_id, sizeof new.job_id, job->id);
    job->unsaved = write_checkpoint(l, job, &new, &err) != 0;
    if (!job->unsaved)
        return;
    failed(l, &err);
    if (l->waiting == LEDGER_MAX_CHECKPOINTS) {
        log_error("checkpoint not recorded: too many wait for the job database", "job=%s path=%s", l->oldest->job_id,
                  l->oldest->c.path);
        drop_oldest(l);
    }
    if (!(w = malloc(sizeof *w))) {
        log_error("checkpoint not recorded: out of memory", "job=%s path=%s", job->id, c->path);
        return;
    }
    *w = new;
    *(l->newest ? &l->newest->next : &l->oldest) = w;
    l->newest = w;
    l->waiting++;
}

/* Writes all waiting records, or at least something, so that success means that the database can be written. */
static int write_all(struct ledger *l, struct job *const *jobs, int count, struct err *err) {
    int64_t next = 0;
    int rc;
    for (const struct ledger_checkpoint *w = l->oldest; w; w = w->next)
        if ((rc = jobdb_add_checkpoint(l->db, w->job_id, &w->c, w->now_ms, err)))
            return rc;
    for (int i = 0; i < count; i++)
        if (jobs[i]->unsaved && (rc = jobdb_save(l->db, jobs[i], err)))
            return rc;
    if ((rc = jobdb_sequence(l->db, &next, err)))
        return rc;
    return jobdb_save_sequence(l->db, next, err);
}

void ledger_probe(struct ledger *l) {
    struct err err;
    if (db_begin(l->db, &err) || db_end(l->db, write_all(l, NULL, 0, &err), &err))
        failed(l, &err);
}

void ledger_retry(struct ledger *l, struct job *const *jobs, int count) {
    struct err err;
    if (!l->broken && db_look(l->db, &err))
        failed(l, &err);
    if (!l->broken || db_begin(l->db, &err) || db_end(l->db, write_all(l, jobs, count, &err), &err))
        return;
    for (int i = 0; i < count; i++)
        jobs[i]->unsaved = false;
    ledger_done(l);
    l->broken = false;
    log_info("the job database can be written again", NULL);
}
