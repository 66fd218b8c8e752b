/* course: the course of a training, read from its metrics.jsonl. A line whose step or a later one comes again after a kill counts
 * no more: later lines of any kind go, and of its own step those of its kind. One thread per object. */
#pragma once
#include "base/base.h"
#include "plot/plot.h"

/* loss: of the lines of kind "step"; the others of kind "validation". */
enum { COURSE_LOSS, COURSE_VALIDATION_LOSS, COURSE_EVENT_F1, COURSE_AUROC, COURSE_FIGURES };
extern const struct course_figure {
    const char *name, *kind, *key;
    bool largest_is_best;
} course_figures[COURSE_FIGURES];

struct course_line {
    double step;                   /* NaN: it has none */
    double values[COURSE_FIGURES]; /* NaN: it has none */
    char kind[16];
    struct json *json; /* the whole line, or NULL */
};
struct course {
    struct course_line *lines; /* ascending steps */
    int n, size;
    bool whole; /* set by the caller: all lines are kept, with their JSON; else those with a figure */
};
/* Adds the lines of the file, but torn ones. EXHAUSTED without memory, with the lines before. */
int course_read(struct course *c, const char *text, size_t len, struct err *err);
void course_done(struct course *c); /* zeroes are fine */
/* The values of a figure over their steps; points is malloc'd, NULL without memory. */
struct course_points {
    struct plot_point *points;
    int n, best; /* best: index; -1 = none */
};
struct course_points course_points_of(const struct course *c, int figure);
