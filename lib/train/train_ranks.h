/* train_ranks: what the ranks of a training agree on (base/world.h). They share each batch by whole micro-batches; rank 0 writes
 * all files, and its records decide. With one rank the functions do nothing. The task's thread. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* Limits of an exchange: until rank 0 has indexed the recordings; while others may read, save or validate; once all are ready. */
enum { RANKS_PREPARE_MS = 24 * 3600 * 1000, RANKS_READY_MS = 15 * 60 * 1000, RANKS_GRADIENT_MS = 60 * 1000 };

static inline bool train_is_shared(const struct train *t) { return t->world->size > 1; }
static inline bool train_is_writer(const struct train *t) { return t->world->rank == 0; }
/* Micro-batches of this rank, and the number of its first. */
static inline int train_share(const struct train *t) { return train_leaves(t->job) / t->world->size; }
static inline int train_first_leaf(const struct train *t) { return t->world->rank * train_share(t); }

/* Takes the world of the environment. INVALID: the ranks cannot share the batches of this job. */
int train_ranks_open(struct train *t, struct err *err);
/* Before the others look at recordings and checkpoints rank 0 has done so. Called by rank 0 when it has, and by the others before
 * they do. Returns the checkpoint that rank 0 has loaded. */
struct ranks_origin {
    int64_t step, attempt; /* step −1 = none */
};
int train_ranks_follow(struct train *t, struct ranks_origin *ret, struct err *err);
/* PRECONDITION: a rank has other recordings than rank 0, or another checkpoint. */
int train_ranks_compare(struct train *t, struct err *err);
/* A place where all ranks stand between two pieces of work: task_point. Elsewhere a shared training has no points, as ranks would
 * stop in different places. */
int train_point(struct train *t, struct err *err);
static inline int train_lone_point(struct train *t, struct err *err) { return train_is_shared(t) ? 0 : task_point(&t->env, err); }
/* Each rank comes with the result rc of a piece of work on recordings, *why and t->failed after an error. Returns the same on all
 * ranks: 0, or the error of the first rank that has one, with its *why and t->failed. Another error, in *err, ends the task. */
int train_ranks_outcome(struct train *t, int rc, struct err *why, int *ret_outcome, struct err *err);
/* A folder that no other rank and no other job uses, for files of one validation: the job's own of rank 0, one in the cache of the
 * others, which may not exist. RANGE. */
int train_ranks_folder(const struct train *t, char *ret, size_t size, struct err *err);
/* The losses of the batch's micro-batches in their order. */
int train_ranks_losses(struct train *t, struct err *err);
/* Rank 0's result of a validation. */
int train_ranks_validated(struct train *t, struct validation_result *r, struct err *err);
/* Rank 0 comes with the result of writing its files; the others return once it has. */
int train_ranks_saved(struct train *t, int rc, struct err *err);
