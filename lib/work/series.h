/* series: the checkpoints of a task that are one file each: DIRECTORY/checkpoints/WORD-NUMBER.safetensors, numbered by step or
 * tick. A file is either whole or not there (safetensors_save). One thread per folder. */
#pragma once

#include "store/digest.h"
#include "work/task.h"

/* True if an error means that the files of a checkpoint cannot be used, now or later. Others, such as no memory, say nothing about
 * them. */
static inline bool checkpoint_is_broken(int rc) { return rc == ERR_INVALID || rc == ERR_DATA_LOSS || rc == ERR_NOT_FOUND; }

struct series {
    const struct task_env *env; /* of the task; borrowed */
    const char *word;           /* "step", "tick" */
    int digits;                 /* at least so many */
};

typedef int series_write_fn(void *task, const char *path, char sha256[DIGEST_HEX_SIZE], struct err *err);
/* Calls `write` for the file of c->step, fills in path, sha256, bytes and write_s of *c, reports it, then removes all
 * but the `keep` files of the greatest numbers. Errors of `write` and of the file system are returned; earlier files are unchanged
 * then. */
int series_write(const struct series *s, struct task_checkpoint *c, int64_t keep, series_write_fn *write, void *task,
                 struct err *err);

/* Calls `restore`, with an err that is never NULL, for each file, greatest number first, until it returns 0.
 * A file that cannot be used (INVALID, DATA_LOSS) is named in the job's log and removed; other errors, such as no memory, say
 * nothing about the file and are returned. *ret_found is true if one was restored. RANGE: the path is too long. */
int series_restore(const struct series *s, int (*restore)(void *task, const char *path, struct err *err), void *task,
                   bool *ret_found, struct err *err);
