/* Gated RMS norm on the CPU: rows on the thread pool; the weight's gradient as partial sums over slices of rows, added in order. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scan_job.h"

enum { ROWS = 16 }; /* rows of one forward work item */

struct rmsnorm_work {
    const struct scan_kernels *kernels;
    struct rmsnorm_job job;
    float *scratch; /* a row of each lane */
};

static void norm_rows(const void *ctx, int64_t i, int lane) {
    const struct rmsnorm_work *w = ctx;
    const struct rmsnorm_job *j = &w->job;
    const int64_t first = i * ROWS, left = j->rows - first;
    w->kernels->rmsnorm(j, first, left < ROWS ? left : ROWS, w->scratch + lane * j->channels);
}

static void norm_slice(const void *ctx, int64_t slice, int lane) {
    const struct rmsnorm_work *w = ctx;
    w->kernels->rmsnorm_backward(&w->job, slice, w->scratch + lane * w->job.channels);
}

static struct scan_view view_of(const struct tensor *t) { return (struct scan_view){t->data, t->ld, 0}; }

int cpu_rmsnorm_gated(struct stream *s, const struct rmsnorm_gated_args *a, struct err *err) {
    int threads = cpu_threads(s);
    struct rmsnorm_work w = {.kernels = scan_kernels()};
    w.job = (struct rmsnorm_job){
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
    w.scratch = cpu_scratch(s, (size_t)(threads * w.job.channels) * sizeof *w.scratch, err);
    if (!w.scratch)
        return ERR_EXHAUSTED;
    lanes_for(threads, (w.job.rows + ROWS - 1) / ROWS, norm_rows, &w);
    return 0;
}

int cpu_rmsnorm_gated_backward(struct stream *s, const struct rmsnorm_gated_backward_args *a, struct err *err) {
    struct rmsnorm_work w = {.kernels = scan_kernels()};
    struct rmsnorm_job *j = &w.job;
    *j = (struct rmsnorm_job){
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
    j->slices = j->rows < SCAN_SLICES ? j->rows : SCAN_SLICES;
    int threads = cpu_threads(s);
    j->part_w = cpu_scratch(s, (size_t)((j->slices + threads) * j->channels) * sizeof(float), err);
    if (!j->part_w)
        return ERR_EXHAUSTED;
    w.scratch = j->part_w + j->slices * j->channels;
    lanes_for(threads, j->slices, norm_slice, &w);
    for (int64_t c = 0; c < j->channels && tensor_present(&a->dweight); c++) {
        float sum = 0.0f;
        for (int64_t slice = 0; slice < j->slices; slice++)
            sum += j->part_w[slice * j->channels + c];
        mf(&a->dweight)[c] += sum;
    }
    return 0;
}
