/* geodesic_kind: the configuration of a job of kind geodesic, as its keys write it (geodesic_kind.c). */
#pragma once

#include "base/base.h"
#include "base/options.h"

enum geodesic_prior_kind { GEODESIC_NO_PRIOR, GEODESIC_GAUSSIAN_PROCESS };
/* Places of task_progress.figures. */
enum geodesic_figure { GEODESIC_PATHS_PER_S, GEODESIC_CONVERGED, GEODESIC_NODES, GEODESIC_FIGURES };
enum geodesic_selection { GEODESIC_SELECTION_FIXED, GEODESIC_SELECTION_NESTED };

struct geodesic_config {
    const char *csv;                                    /* NULL: the built-in formula */
    int head, solver, selection;                        /* enum geodesic_head, geodesic_solver, geodesic_selection */
    int prior, products;                                /* enum geodesic_prior_kind, geodesic_products */
    int64_t epochs, stop_epoch, batch, ode_steps, seed; /* stop_epoch 0: the last */
    double metric_rate, head_rate, decay, clip, smoothness, floor, head_gain, gp_length, gp_noise;
    struct option_numbers decays; /* tried by selection nested */
    bool final_model;
};
