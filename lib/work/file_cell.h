/* file_cell: the file or folder in which a task is, for others to read while the task hangs there. It may lie in memory that
 * processes share: whoever dies or stops in it holds up nobody. Any thread. */
#pragma once
#include "base/base.h"

struct file_cell {
    pthread_mutex_t lock;
    char path[512];
    int64_t since_ms, since_wall_ms; /* since_ms 0: in none */
};
void file_cell_init(struct file_cell *cell);
/* NULL: the task is in no file any more. The path is copied. */
void file_cell_set(struct file_cell *cell, const char *path);
/* Writes "waits for PATH since TIME" if the task has been in the same file or folder for at_least_ms, else "". Never waits. */
void file_cell_describe(struct file_cell *cell, int64_t at_least_ms, char *buf, size_t size);
