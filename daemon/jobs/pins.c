#include "daemon/jobs/pins.h"

#include "daemon/models/model_file.h"

/* The link that one thread records is not the one that another removes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct pin_change {
    char job_id[JOB_ID_SIZE], kept[CACHE_PATH_SIZE];
    int64_t step;
};

static int write_pin(struct db *db, void *what, struct err *err) {
    const struct pin_change *c = what;
    return jobdb_pin(db, c->job_id, c->step, c->kept, err);
}

static int write_unpin(struct db *db, void *what, struct err *err) {
    const struct pin_change *c = what;
    return jobdb_unpin(db, c->job_id, c->step, err);
}

static int record(const struct pins *pins, db_write_fn *write, const struct jobdb_checkpoint *c, const char *kept,
                  struct err *err) {
    struct pin_change change = {.step = c->c.step};
    str_copy(change.job_id, sizeof change.job_id, c->job_id);
    str_copy(change.kept, sizeof change.kept, kept);
    return db_writer_run(pins->writer, &(struct db_order){.write = write, .what = &change, .size = sizeof change}, err);
}

/* The owner of the links of a pin; no name of a model that serves. */
struct owner {
    char name[JOB_ID_SIZE + 32];
};
static struct owner owner_of(const struct jobdb_checkpoint *c) {
    struct owner owner;
    str_format(owner.name, sizeof owner.name, "%s@%lld", c->job_id, (long long)c->c.step);
    return owner;
}

int pins_add(const struct pins *pins, const struct jobdb_checkpoint *c, struct err *err) {
    LOCKED(&lock);
    struct model_file kept, before = model_file_recorded(pins->results_dir, c->kept);
    int rc = model_file_link(pins->results_dir, owner_of(c).name, c->c.path, &kept, err);
    if (rc)
        return rc;
    if (kept.hold == MODEL_FREE)
        return err_set(err, ERR_UNSUPPORTED,
                       "job:%s cannot be pinned: the volume of paths.results has no hard links; "
                       "`brrctl checkpoint get` copies it to a place of yours",
                       owner_of(c).name);
    rc = record(pins, write_pin, c, kept.path, err);
    if (rc == ERR_NOT_FOUND)
        model_file_release(&kept);
    if (rc || !strcmp(before.path, kept.path))
        return rc;
    model_file_release(&before); /* of an earlier version */
    return 0;
}

int pins_remove(const struct pins *pins, const struct jobdb_checkpoint *c, struct err *err) {
    LOCKED(&lock);
    struct model_file before = model_file_recorded(pins->results_dir, c->kept);
    int rc = record(pins, write_unpin, c, "", err);
    if (rc)
        return rc;
    model_file_release(&before); /* of an earlier version, whose links had other names */
    model_file_unlink(pins->results_dir, owner_of(c).name);
    return 0;
}
