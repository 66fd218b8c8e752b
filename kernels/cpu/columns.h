/* columns: sums over the rows of a matrix, the gradient of a bias. Internal to kernels/cpu. */
#ifndef BRR_KERNELS_CPU_COLUMNS_H
#define BRR_KERNELS_CPU_COLUMNS_H
#include "kernels/cpu/cpu.h"

/* dbias[c] += Σ rows dy[r][c], in blocks of fixed size added in order; dy F32 or bf16. */
int cpu_column_sums(struct stream *s, const struct tensor *dy, float *dbias, struct err *err);

#endif
