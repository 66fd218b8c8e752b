/* plot_intervals: estimates with their intervals side by side: a row for each thing that is compared, a column for each figure. One
 * thread per picture. */
#pragma once
#include "base/base.h"

enum { PLOT_MAX_INTERVALS = 64, PLOT_MAX_INTERVAL_COLUMNS = 4 };

struct plot_interval {
    double value, low, high; /* NaN: not defined, left out */
};
struct plot_interval_column {
    const char *name;
    const struct plot_interval *rows;
    double most; /* the axis goes from 0 to this; NaN: to the largest bound */
    int digits;  /* of the figures, behind the point */
};
struct plot_intervals {
    const char *title, *subtitle;
    const char *const *names; /* (n): of the rows */
    int n;
    const struct plot_interval_column *columns;
    int n_columns;
};
/* Atomic. INVALID for no row or column, or for more than the most. */
int plot_intervals(const char *path, const struct plot_intervals *p, struct err *err);
