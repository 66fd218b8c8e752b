/* geodesic_exact: predictions of a trained geodesic model, computed in double precision by plain loops: no device, no kernels, so
 * that the client can answer from a model file. geodesic_predict and geodesic_metric (geodesic_fit.h) give the same on a device in
 * single precision. Plain functions, any thread. */
#pragma once

#include "geodesic/spectra.h"
#include "kernels/op.h"

/* The spectra that a model learns from, by bit: bit k is concentration k. At least two. */
typedef uint32_t geodesic_members;
int geodesic_members_count(geodesic_members members);

/* A trained model without its training. Plain data, pointers borrowed. */
struct geodesic_model {
    enum geodesic_head head;
    double floor;
    int order; /* nodes of a cell */
    geodesic_members members;
    const float *params;
    double prior_weight; /* of the prior in its answers (geodesic_prior.h), 0 to 1; 0: none */
};

/* Concentrations and wavelengths scaled to −1..1 over the whole table, measured or held out. */
double geodesic_position(const struct spectra *spectra, double concentration);
double geodesic_wavelength(const struct spectra *spectra, double wavelength);
/* Mean and standard deviation of the members' absorbances alone. */
void geodesic_statistics(const struct spectra *s, geodesic_members members, double *ret_mean, double *ret_deviation);

/* The spectrum at a concentration from each of the members, (members, width), in absorbance. A member at that very concentration
 * answers with its own spectrum. */
int geodesic_exact_predict(const struct geodesic_model *model, const struct spectra *spectra, double at, double *ret,
                           struct err *err);
/* g at n concentrations for every wavelength, (n, width), scaled so that ∫√g dc = 2 over the table's range. */
int geodesic_exact_metric(const struct geodesic_model *model, const struct spectra *spectra, const double *at, int n, double *ret,
                          struct err *err);
