/* sweep: a sweep of jobs as its files see it: what is tried, the jobs, their scores. Private to sweep*.c. */
#pragma once
#include "base/arena.h"
#include "client/brrctl/brrctl.h"
#include "work/estimate.h"

enum { SWEEP_MAX_KEYS = 8, SWEEP_MAX_VALUES = 64, SWEEP_TABLE_BYTES = 8 << 20 };

struct axis {
    const char *key;
    char *values[SWEEP_MAX_VALUES];
    int n;
};

/* A training, and the evaluation of its model. */
struct member {
    char job[64], evaluation[64];
    int point, fold; /* of the grid; -1: no folds */
    Brr__V1__JobState state;
    double seizures, found, false_events, hours, f1, false_alarms, auroc, sample_f1; /* NaN: not known */
};

struct sweep {
    const struct arguments *o;
    struct arena arena;
    struct brrctl_job_file file;
    size_t n_common; /* overrides of all jobs */
    struct axis axes[SWEEP_MAX_KEYS];
    int n_axes, n_points;
    const char *name; /* of the job file, with its overrides; NULL: none */
    char **patients;
    int n_patients, n_folds;   /* 0: no folds */
    struct estimate_cost cost; /* of one training */
    char currency[24];
    bool in_array; /* a cluster gets the trainings as arrays */
    struct member *members;
    int n_members;
};

/* sweep_table.c: the value of an axis at a point: the last axis changes fastest. */
const char *sweep_value(const struct sweep *s, int point, int axis);
/* "a, b": the patients of a fold, each in `quote`; group f has every n_folds-th. */
void sweep_fold_text(const struct sweep *s, int fold, const char *quote, struct str *out);
/* The table: a row for each job, and for each combination the mean of its folds and their pooled counts. */
void sweep_table(const struct sweep *s, struct str *out); /* tab-separated, with a line of headings */
void sweep_json(const struct sweep *s);                   /* to stdout, an object a line; a grid alone has no pooled row */

/* sweep_record.c: the jobs of a sweep in a file, so that the same command, given again, goes on with them. */

/* Writes the jobs of all members, replacing the file. */
int sweep_record_write(const struct sweep *s, const char *path, struct err *err);
/* Gives the first `n` members the jobs of the file; a file that is not there gives none. PRECONDITION: it is of another sweep,
 * whose job file, overrides, grid or patients differ. */
int sweep_record_read(struct sweep *s, int n, const char *path, struct err *err);
