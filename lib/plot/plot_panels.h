/* plot_panels: several small diagrams of curves over a common kind of axis in one picture: spectra as measured and predicted, or a
 * metric at some wavelengths. One thread per picture. */
#pragma once

#include "base/base.h"

enum { PLOT_PANEL_CURVES = 8, PLOT_MAX_PANELS = 31 };

struct plot_panel_curve {
    const char *name;
    const double *y;      /* (n); not finite: left out */
    const double *spread; /* (n), drawn as a band of ± this much; NULL = none */
};
struct plot_panel {
    const char *title;
    const struct plot_panel_curve *curves;
    int n_curves; /* at most PLOT_PANEL_CURVES */
};
struct plot_panels {
    const char *title, *subtitle, *x_name, *y_name;
    const double *x; /* (n), ascending */
    int64_t n;
    const struct plot_panel *panels; /* three in a row */
    int n_panels;
};
/* Atomic. All panels have the same axes. INVALID without a finite value, or for more panels than PLOT_MAX_PANELS. */
int plot_panels(const char *path, const struct plot_panels *p, struct err *err);
