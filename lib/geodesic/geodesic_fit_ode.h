/* geodesic_fit_ode: gradients of a step by Runge–Kutta and shooting instead of quadratures: the same arguments and results as
 * op_geodesic with the flow head, on the CPU, and some hundred times the work. Internal to geodesic_fit.c. */
#pragma once
#include "kernels/op.h"

struct geodesic_fit;
struct fit_ode;
/* UNSUPPORTED for the decoder head and for other devices than the CPU. */
int fit_ode_new(struct geodesic_fit *f, struct fit_ode **ret, struct err *err);
void fit_ode_free(struct fit_ode *o); /* NULL is fine */
/* rows: a host copy of a->rows. */
int fit_ode_gradients(struct fit_ode *o, const struct geodesic_args *a, const int32_t *rows, struct err *err);
struct geodesic_convergence;
const struct geodesic_convergence *fit_ode_convergence(const struct fit_ode *o); /* of all its calls */
