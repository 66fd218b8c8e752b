/* container: what this process may use: the limits of its control groups (v1 and v2, with those above them) and of the process
 * itself. A container shows the memory and processors of the whole machine everywhere else. Any thread; reads a few small files. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* -1, and NaN for processors: no limit, or an unknown value. */
struct container_limits {
    int64_t memory_bytes, memory_used;                        /* the tightest of the groups, and what that group uses now */
    int64_t processes, processes_used;                        /* threads count, too */
    double processors;                                        /* quota: 1.5 */
    int64_t address_bytes, user_processes, files, file_bytes; /* RLIMIT_AS, NPROC, NOFILE, FSIZE */
};
/* root: "" or the folder in which a test keeps its own /proc and /sys. */
void container_read(const char *root, struct container_limits *ret);
/* The memory that a process may have on a machine with so much: the smallest of all limits. */
int64_t container_memory(const struct container_limits *limits, int64_t machine_bytes);
/* The processors that it may use of so many, at least 1. */
int container_processors(const struct container_limits *limits, int processors);
int container_processors_here(void); /* container_processors of the processors that the calling thread may run on */
/* "memory 500 MiB, 1.5 processors, 100 processes (12 in use), 1024 open files"; "no limits" if there are none. Returns buf. */
const char *container_text(const struct container_limits *limits, char *buf, size_t size);
