/* slurm_record: the files by which a job's directory and a Slurm cluster speak to each other. The daemon leaves the record of the
 * newest attempt (slurm) and, for a task of an array, what the batch script reads (job.yaml, sets); the batch script leaves the
 * exit code (exit) and how often it tried in vain (tries). Any thread; blocks. */
#pragma once

#include "base/base.h"

enum slurm_state {
    SLURM_NONE,   /* nothing was submitted yet */
    SLURM_BEGUN,  /* an attempt as a job of its own */
    SLURM_LISTED, /* a task of an array, which nobody has followed yet */
    SLURM_JOINED, /* the same, followed */
    SLURM_OVER    /* the attempt has ended */
};

struct slurm_record {
    int64_t attempt;
    enum slurm_state state;
    int task;             /* LISTED, JOINED: its index in the array */
    char array[80];       /* and the array's name */
    char directory[2048]; /* and the directory in which it was submitted */
};
/* A directory without a record, or with one that cannot be read: attempt 0, NONE. */
void slurm_record_read(const char *directory, struct slurm_record *ret);
int slurm_record_write(const char *directory, const struct slurm_record *record, struct err *err);

/* True for the states in which a job of Slurm never runs again. A state that this version does not know is none of them. */
bool slurm_state_is_over(const char *state);

/* Removes the marks of earlier attempts. */
int slurm_record_clear(const char *directory, struct err *err);
/* The exit code that the batch script has left; -1: none. */
int slurm_record_exit(const char *directory);
/* Writes job.yaml and sets. overrides: a JSON array of KEY=VALUE texts. */
int slurm_record_job(const char *directory, const char *yaml, const char *overrides, struct err *err);
