/* plot_operating: one picture of how a detector may be used: sensitivity over false alarms per 24 h for all thresholds and alarm
 * rules that were tried, with the chosen ones, and beside it the distribution of the alarms' delay. One thread per picture. */
#pragma once
#include "plot/plot.h"

struct plot_mark {
    const char *name;
    double false_alarms_per_24h, sensitivity; /* not finite: not drawn */
};
/* What was tried, and what was chosen of it. */
struct plot_choice {
    const char *name;                /* in the legend */
    const struct plot_point *points; /* x: false alarms per 24 h, y: sensitivity, in any order; not finite: left out */
    int n_points;
    const struct plot_mark *chosen;
    int n_chosen;
};
struct plot_delays {
    const char *name;
    const double *delays_s; /* ascending */
    int64_t n;
};
struct plot_operating {
    const char *title, *subtitle;
    struct plot_choice events, alarms;
    const struct plot_delays *delays;
    int n_delays;
    int64_t seizures; /* of which the delays are shares */
    bool of_events;   /* the delays are of events too, not of alarms alone */
};
/* Atomic. */
int plot_operating(const char *path, const struct plot_operating *p, struct err *err);
