/* plot_compare: the courses of two trainings in one picture: losses in one panel, scores between 0 and 1 in another, a colour for
 * each quantity, A drawn through and B dashed. One thread per picture. */
#pragma once

#include "plot/plot.h"

enum { PLOT_COMPARE_MOST = 8 };

struct plot_quantity {
    const char *name;
    bool score;                    /* of the panel of scores */
    const struct plot_point *x[2]; /* of A and B; ascending x, points that are not finite are skipped */
    int n[2];
};
struct plot_compare {
    const char *title, *subtitle;
    const struct plot_quantity *quantities; /* at most PLOT_COMPARE_MOST */
    int n;
};
/* Atomic. INVALID when no quantity has a point behind step 0. */
int plot_compare_draw(const char *path, const struct plot_compare *p, struct err *err);
