#include "train/train_ranks.h"

int train_ranks_open(struct train *t, struct err *err) {
    int leaves = train_leaves(t->job);
    world_alone(&t->alone);
    t->world = t->env.world ? t->env.world : &t->alone;
    if (!train_is_shared(t))
        return 0;
    if (t->job->training.reduction != TRAIN_REDUCTION_TREE)
        return err_set(err, ERR_INVALID, "%d ranks need training.reduction: tree, and the job says chain", t->world->size);
    if (leaves % t->world->size)
        return err_set(err, ERR_INVALID,
                       "%d ranks cannot share batches of %d micro-batches (training.batch_size %lld / training.micro_batch_size "
                       "%lld); start at most %d ranks, or lower training.micro_batch_size",
                       t->world->size, leaves, (long long)t->job->training.batch_size, (long long)t->job->training.micro_batch_size,
                       leaves);
    return 0;
}

/* What rank 0 has prepared. */
struct beginning {
    int64_t step;
    char manifest[sizeof((struct modelfile *)0)->manifest];
};

int train_ranks_follow(struct train *t, struct ranks_origin *ret, struct err *err) {
    struct ranks_origin origin = {t->resumed ? t->at.step : -1, t->restored_attempt};
    int rc = world_broadcast(t->world, &origin, sizeof origin, RANKS_PREPARE_MS, err);
    if (!rc)
        *ret = origin;
    return rc;
}

int train_ranks_compare(struct train *t, struct err *err) {
    struct beginning own = {.step = t->resumed ? t->at.step : -1}, first;
    str_copy(own.manifest, sizeof own.manifest, t->file.manifest);
    first = own;
    int rc = world_broadcast(t->world, &first, sizeof first, RANKS_PREPARE_MS, err);
    if (rc)
        return rc;
    if (strcmp(first.manifest, own.manifest) != 0)
        return err_set(
            err, ERR_PRECONDITION,
            "rank %d finds other recordings than rank 0 (manifest %.12s, there %.12s); all nodes must see the same files in %.200s",
            t->world->rank, own.manifest, first.manifest, t->env.data_root);
    if (first.step != own.step)
        return err_set(err, ERR_PRECONDITION,
                       "rank %d begins at step %lld and rank 0 at step %lld; all nodes must see the same files in %.200s",
                       t->world->rank, (long long)own.step, (long long)first.step, t->env.directory);
    return world_barrier(t->world, RANKS_PREPARE_MS, err);
}

int train_point(struct train *t, struct err *err) { return task_point(&t->env, err); }

/* How one rank's piece of work ended. */
struct outcome {
    int rc;
    int64_t failed;
    struct err why;
};

int train_ranks_outcome(struct train *t, int rc, struct err *why, int *ret_outcome, struct err *err) {
    OWNED_MEMORY struct outcome *all = calloc((size_t)t->world->size, sizeof *all);
    *ret_outcome = rc;
    if (!train_is_shared(t))
        return 0;
    if (!all)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d ranks", t->world->size);
    all[t->world->rank] = (struct outcome){rc, t->failed, *why};
    if ((rc = world_gather(t->world, all, sizeof *all, RANKS_READY_MS, err)))
        return rc;
    for (int r = 0; r < t->world->size; r++)
        if (all[r].rc) {
            *ret_outcome = all[r].rc;
            t->failed = all[r].failed;
            *why = all[r].why;
            break;
        }
    return 0;
}

int train_ranks_folder(const struct train *t, char *ret, size_t size, struct err *err) {
    bool fits = train_is_writer(t)
                    ? str_copy(ret, size, t->env.directory)
                    : str_format(ret, size, "%s/ranks/%s-%d", t->env.cache_dir, fsio_basename(t->env.directory), t->world->rank);
    return fits ? 0 : err_set(err, ERR_RANGE, "path too long: %.200s…", t->env.cache_dir);
}

int train_ranks_losses(struct train *t, struct err *err) {
    int leaves = train_leaves(t->job);
    size_t share = (size_t)train_share(t) * sizeof *t->losses;
    int rc = world_gather(t->world, t->losses, share, RANKS_GRADIENT_MS, err);
    t->batch_loss = 0;
    t->batch_count = 0;
    for (int i = 0; !rc && i < leaves; i++) {
        t->batch_loss += t->losses[i].sum;
        t->batch_count += t->losses[i].count;
    }
    return rc;
}

int train_ranks_validated(struct train *t, struct validation_result *r, struct err *err) {
    return world_broadcast(t->world, r, sizeof *r, RANKS_READY_MS, err);
}

int train_ranks_saved(struct train *t, int rc, struct err *err) {
    char done = 1;
    if (rc) /* the process ends, and with it the others' wait */
        return rc;
    return world_broadcast(t->world, &done, sizeof done, RANKS_READY_MS, err);
}
