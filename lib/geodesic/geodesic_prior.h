/* geodesic_prior: what is to be expected of a spectrum before a network has learned: the process INTERPOLATE_GP_EVIDENCE through
 * the spectra that a model learns from. The model answers with weight·prior + (1 − weight)·network: the network's difference from
 * the prior is a residual that counts as much as inner folds bear out. Plain functions, any thread. */
#pragma once
#include "geodesic/geodesic_exact.h"
#include "geodesic/interpolate.h"

/* A rule through the members' spectra alone; of `rule` the rule, at, length and noise. ret: (width). */
int geodesic_interpolate(const struct spectra *spectra, geodesic_members members, const struct interpolate *rule, double *ret,
                         struct err *err);
/* The prior at a concentration. */
int geodesic_prior(const struct spectra *spectra, geodesic_members members, double at, double *ret, struct err *err);
/* Answers of the networks at a concentration (members, width) become answers of the model, in place. */
int geodesic_prior_blend(const struct geodesic_model *model, const struct spectra *spectra, double at, double *each,
                         struct err *err);
