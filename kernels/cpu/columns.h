/* columns: a bias added to the rows of a matrix, and its gradient, the sum over the rows. Internal to kernels/cpu. */
#pragma once
#include "kernels/cpu/cpu.h"

/* dbias[c] += Σ rows dy[r][c], in blocks of fixed size added in order; dy F32 or bf16. Nothing where dbias is absent. */
int cpu_column_sums(struct stream *s, const struct tensor *dy, const struct tensor *dbias, struct err *err);

/* Writes the bias into all rows of y, F32, unless it is absent. Returns the beta with which a product is then written to y: 1, or 0
 * without a bias. */
float cpu_fill_rows(struct stream *s, const struct tensor *y, const struct tensor *bias);
