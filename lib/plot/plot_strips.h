/* plot_strips: hours at a glance: strips below each other over one axis of time, of bands, curves or a map of colours, from rows of
 * numbers at equal steps. Rows that do not fit on the width share a pixel. One thread per picture. */
#pragma once

#include "base/base.h"

enum { PLOT_STRIP_COLUMNS = 32, PLOT_MAX_STRIPS = 16 };

enum plot_strip_kind {
    PLOT_STRIP_CURVES,
    PLOT_STRIP_BANDS, /* pairs of columns: the lower and the upper margin, on the axis of an aEEG: linear to 10, logarithmic to 100
                       */
    PLOT_STRIP_MAP    /* the columns from the bottom to the top, from pale (low) to dark (high) */
};
struct plot_strip {
    const char *title;
    enum plot_strip_kind kind;
    int columns[PLOT_STRIP_COLUMNS], n;
    const char *const *names; /* of the curves or bands, for a legend; NULL = none */
    double low, high;         /* of the axis, or of the colours; BANDS have their own */
};
struct plot_strips {
    const char *title;
    double step_s;        /* of a row */
    const double *values; /* (n, columns); not finite: left out */
    int64_t n;
    int columns;
    const struct plot_strip *strips;
    int n_strips;
};
/* Atomic; PNG or PDF where the name says so. INVALID for no rows, or for more strips than PLOT_MAX_STRIPS. */
int plot_strips_draw(const char *path, const struct plot_strips *p, struct err *err);
