/* Gated RMS norm on the CPU: rows on the thread pool; the weight's gradient as partial sums over slices of rows, added in order. */
#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scan_job.h"

enum { ROWS = 16 }; /* rows of one forward work item */

static struct scan_view view_of(const struct tensor *t) { return (struct scan_view){t->data, t->ld, 0}; }

int cpu_rmsnorm_gated(struct stream *s, const struct rmsnorm_gated_args *a, struct err *err) {
    const struct scan_kernels *kernels = scan_kernels();
    int threads = cpu_threads(s);
    struct rmsnorm_job j = {
        .rows = tensor_rows(&a->y),
        .channels = a->y.dim[a->y.rank - 1],
        .groups = a->groups,
        .bf16 = a->y.dtype == DTYPE_BF16,
        .eps = a->eps,
        .y = view_of(&a->y),
        .z = view_of(&a->z),
        .out = view_of(&a->out),
        .weight = a->weight.data,
        .rstd = a->save_rstd.data,
    };
    float *scratch = cpu_scratch(s, (size_t)(threads * j.channels) * sizeof *scratch, err);
    if (!scratch)
        return ERR_EXHAUSTED;
#pragma omp parallel num_threads(threads)
    {
        CPU_TEAM_BEGIN;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < j.rows; first += ROWS)
            kernels->rmsnorm(&j, first, j.rows - first < ROWS ? j.rows - first : ROWS, scratch + omp_get_thread_num() * j.channels);
        CPU_TEAM_END(s);
    }
    return 0;
}

int cpu_rmsnorm_gated_backward(struct stream *s, const struct rmsnorm_gated_backward_args *a, struct err *err) {
    const struct scan_kernels *kernels = scan_kernels();
    struct rmsnorm_job j = {
        .rows = tensor_rows(&a->y),
        .channels = a->y.dim[a->y.rank - 1],
        .groups = a->groups,
        .bf16 = a->y.dtype == DTYPE_BF16,
        .y = view_of(&a->y),
        .z = view_of(&a->z),
        .dout = view_of(&a->dout),
        .dy = view_of(&a->dy),
        .dz = view_of(&a->dz),
        .weight = a->weight.data,
        .rstd = a->save_rstd.data,
    };
    j.slices = j.rows < SCAN_SLICES ? j.rows : SCAN_SLICES;
    int threads = cpu_threads(s);
    j.part_w = cpu_scratch(s, (size_t)((j.slices + threads) * j.channels) * sizeof(float), err);
    if (!j.part_w)
        return ERR_EXHAUSTED;
#pragma omp parallel num_threads(threads)
    {
        CPU_TEAM_BEGIN;
        float *own = j.part_w + (j.slices + omp_get_thread_num()) * j.channels;
#pragma omp for schedule(static)
        for (int64_t slice = 0; slice < j.slices; slice++)
            kernels->rmsnorm_backward(&j, slice, own);
        CPU_TEAM_END(s);
    }
    for (int64_t c = 0; c < j.channels && tensor_present(&a->dweight); c++) {
        float sum = 0.0f;
        for (int64_t slice = 0; slice < j.slices; slice++)
            sum += j.part_w[slice * j.channels + c];
        mf(&a->dweight)[c] += sum;
    }
    return 0;
}
