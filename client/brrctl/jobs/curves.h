/* curves: the course of a training, read from its metrics.jsonl: a table of its lines as CSV, and single figures over steps. After
 * a kill the steps since the newest checkpoint stand in the file twice; the later ones count. One thread per object. */
#pragma once
#include "client/brrctl/jobs/job_files.h"
#include "plot/plot.h"

struct curves {
    struct json **lines;
    size_t n;
};
/* Fetches them from the daemon. Exit code after printing the error, which names a job without curves. */
int curves_fetch(const struct arguments *o, const char *id, struct curves *ret);
void curves_done(struct curves *c);

/* One row a line, one column a key, in the order of their first appearance; missing values are empty. */
void curves_print_csv(const struct curves *c, FILE *out);

/* One figure: "loss" of the lines of kind "step". points: malloc'd, ascending steps. */
struct curve {
    const char *name, *kind, *key;
    bool largest_is_best;
};
enum { CURVES_SHOWN = 4 };
extern const struct curve curves_shown[CURVES_SHOWN]; /* training loss, validation loss, event F1, AUROC */
struct curve_points {
    struct plot_point *points;
    int n, best; /* best: index; -1 = none */
};
struct curve_points curves_points(const struct curves *c, const struct curve *which);
