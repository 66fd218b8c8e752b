/* series: the checkpoints of a task that are one file each: DIRECTORY/checkpoints/WORD-NUMBER.safetensors, numbered by step or
 * tick. A file is either whole or not there (safetensors_save). One thread per folder. */
#ifndef BRR_RUN_SERIES_H
#define BRR_RUN_SERIES_H
#include <stdint.h>

#include "base/err.h"

enum { SERIES_PATH = 4096, SERIES_MOST = 1024 };

struct series {
    const char *directory, *word; /* of the task; "step", "tick" */
    int digits;                   /* at least so many */
};

/* RANGE: the path is too long. */
int series_path(const struct series *s, int64_t number, char path[SERIES_PATH], struct err *err);
/* Numbers that have a file, greatest first; returns how many. */
int series_list(const struct series *s, int64_t numbers[SERIES_MOST]);
/* Removes all but the greatest `keep`. */
void series_retire(const struct series *s, int64_t keep);

#endif
