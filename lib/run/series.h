/* series: the checkpoints of a task that are one file each: DIRECTORY/checkpoints/WORD-NUMBER.safetensors, numbered by step or
 * tick. A file is either whole or not there (safetensors_save). One thread per folder. */
#ifndef BRR_RUN_SERIES_H
#define BRR_RUN_SERIES_H
#include <stdint.h>

#include "base/err.h"
#include "run/task.h"
#include "store/digest.h"

struct series {
    const struct task_env *env; /* its directory */
    const char *word;           /* "step", "tick" */
    int digits;                 /* at least so many */
};

/* Has `write` make the file of c->step, completes *c, tells the owner of the task, and removes all but the `keep` greatest
 * numbers. On an error the files before are unchanged. */
int series_write(const struct series *s, struct task_checkpoint *c, int64_t keep,
                 int (*write)(void *task, const char *path, char sha256[DIGEST_HEX_SIZE], struct err *err), void *task,
                 struct err *err);

/* Offers the files to `restore`, greatest number first, until it takes one; a file that it refuses is named in the job's log with
 * the reason. *ret_found: one was taken. RANGE: the path is too long. */
int series_restore(const struct series *s, int (*restore)(void *task, const char *path, struct err *err), void *task,
                   bool *ret_found, struct err *err);

#endif
