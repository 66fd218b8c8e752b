/* geodesic_file: geodesic models in one safetensors file: the spectra they learned from, their parameters
 * ("model.0.metric.0.weight", …) and, in a checkpoint, the state of their training. One thread per object. */
#pragma once
#include "geodesic/geodesic_fit.h"
#include "store/safetensors.h"

/* Contents of a model file: borrowed when written, owned when read. */
struct geodesic_file {
    enum geodesic_head head;
    double floor;
    struct spectra spectra;
    int groups;
    geodesic_members members[GEODESIC_MAX_GROUPS];
    int32_t orders[GEODESIC_MAX_GROUPS];
    double prior_weights[GEODESIC_MAX_GROUPS];
    float *params; /* (groups, geodesic_params_count(head)) */
};

/* The training's part of a checkpoint; NULL to geodesic_file_write: a model alone. */
struct geodesic_file_state {
    const struct geodesic_fit_state *fit;
    const double *figures; /* whatever the task keeps: curves, the selection's scores */
    int64_t n_figures;
    const char *counters; /* JSON text */
};
/* Atomic and durable. */
int geodesic_file_write(const char *path, const struct geodesic_file *file, const struct geodesic_file_state *state,
                        char ret_sha256[DIGEST_HEX_SIZE], struct err *err);
/* INVALID names the tensor or key that is missing or has another shape. */
int geodesic_file_read(const char *path, struct geodesic_file *ret, struct err *err);
void geodesic_file_done(struct geodesic_file *file);
/* The training's part: fit's arrays filled (its sizes are checked), figures copied, the counters' text malloc'd for the caller. */
int geodesic_file_read_state(const char *path, struct geodesic_fit_state *fit, double *figures, int64_t n_figures,
                             char **ret_counters, struct err *err);
/* The model for predictions between measured spectra: that of most spectra, the first of several. */
int geodesic_file_best(const struct geodesic_file *file);
void geodesic_file_model(const struct geodesic_file *file, int group, struct geodesic_model *ret);
