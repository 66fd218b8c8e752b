/* columns: a bias added to the rows of a matrix, and its gradient, the sum over the rows. Internal to kernels/cpu. */
#pragma once
#include "kernels/cpu/cpu.h"

/* dbias[c] += Σ rows dy[r][c], in blocks of fixed size added in order; dy F32 or bf16. */
int cpu_column_sums(struct stream *s, const struct tensor *dy, float *dbias, struct err *err);

/* Writes one row into all rows of y, F32. */
void cpu_fill_rows(struct stream *s, const struct tensor *y, const float *row);
