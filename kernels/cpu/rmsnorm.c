/* Gated RMS norm on the CPU: rows on the thread pool; the weight's gradient as partial sums over slices of rows, added in order. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scan_job.h"

int cpu_rmsnorm_gated(struct stream *s, const struct rmsnorm_gated_args *a, struct err *err) {
    int threads = cpu_threads(s);
    const struct rmsnorm_job j = {
        .rows = tensor_rows(&a->y),
        .channels = a->y.dim[a->y.rank - 1],
        .groups = a->groups,
        .bf16 = a->y.dtype == DTYPE_BF16,
        .eps = a->eps,
        .y = scan_view_of(&a->y),
        .z = scan_view_of(&a->z),
        .out = scan_view_of(&a->out),
        .weight = a->weight.data,
        .rstd = a->save_rstd.data,
    };
    struct scan_lanes w = {.job = &j, .each = (size_t)j.channels * sizeof(float)};
    w.scratch = cpu_scratch(s, (size_t)threads * w.each, err);
    if (!w.scratch)
        return ERR_EXHAUSTED;
    lanes_for(threads, (j.rows + RMSNORM_ROWS - 1) / RMSNORM_ROWS, scan_kernels()->rmsnorm, &w);
    return 0;
}

int cpu_rmsnorm_gated_backward(struct stream *s, const struct rmsnorm_gated_backward_args *a, struct err *err) {
    struct rmsnorm_job j = {
        .rows = tensor_rows(&a->y),
        .channels = a->y.dim[a->y.rank - 1],
        .groups = a->groups,
        .bf16 = a->y.dtype == DTYPE_BF16,
        .y = scan_view_of(&a->y),
        .z = scan_view_of(&a->z),
        .dout = scan_view_of(&a->dout),
        .dy = scan_view_of(&a->dy),
        .dz = scan_view_of(&a->dz),
        .weight = a->weight.data,
        .rstd = a->save_rstd.data,
    };
    j.slices = j.rows < SCAN_SLICES ? j.rows : SCAN_SLICES;
    int threads = cpu_threads(s);
    j.part_w = cpu_scratch(s, (size_t)((j.slices + threads) * j.channels) * sizeof(float), err);
    if (!j.part_w)
        return ERR_EXHAUSTED;
    const struct scan_lanes w = {&j, (char *)(j.part_w + j.slices * j.channels), (size_t)j.channels * sizeof(float), 0};
    lanes_for(threads, j.slices, scan_kernels()->rmsnorm_backward, &w);
    for (int64_t c = 0; c < j.channels && tensor_present(&a->dweight); c++) {
        float sum = 0.0f;
        for (int64_t slice = 0; slice < j.slices; slice++)
            sum += j.part_w[slice * j.channels + c];
        mf(&a->dweight)[c] += sum;
    }
    return 0;
}
