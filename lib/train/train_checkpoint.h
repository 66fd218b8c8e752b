/* train_checkpoint: the durable state of a training task, pairs of a model and a state file in checkpoints/ of the job's folder, or
 * where another attempt may still write (task_env.contended) in checkpoints/aN of attempt N, which reads those of the others.
 * A training that was killed at any moment is restored from the newest usable pair and ends with the same bits. The thread that
 * drives the task; nobody else writes into the folder. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* Writes the pair of the present step, reports it, and removes the files that are no longer wanted. After
 * an error the checkpoints before are untouched. */
int train_checkpoint_save(struct train *t, struct err *err);
/* The role that each patient has in this training, and t->left_out, from its newest state file; NULL before the first
 * checkpoint. */
struct known_patients;
int train_checkpoint_roles(struct train *t, struct known_patients **ret, struct err *err);
/* Loads the newest usable pair into network, optimizer, counters and t->patients; announces the best model and the newest one
 * again, and removes the files that a kill left behind. *ret_found is false when there is no usable pair; the weights are undefined
 * then. Errors that say nothing about the files, such as no memory, are returned: the training must not restart from step 0 because
 * of them. */
int train_checkpoint_restore(struct train *t, bool *ret_found, struct err *err);
/* Loads the pair of this step and attempt, which rank 0 has restored, and changes no file; step −1: there is none, and nothing is
 * loaded. */
int train_checkpoint_follow(struct train *t, int64_t step, int64_t attempt, bool *ret_found, struct err *err);
