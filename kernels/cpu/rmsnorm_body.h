/* rmsnorm_body: q = y·silu(z), out = weight·q·rs, rs = 1/sqrt(mean q² + eps) within each channel group; and its gradients
 * dq = rs·(t − q̂·mean(t·q̂)), t = dout·weight, q̂ = q·rs; dy = dq·silu(z), dz = dq·y·silu'(z), dweight = Σ dout·q̂. */
#pragma once
#include <math.h>

#include "kernels/cpu/scan_job.h"
#include "kernels/cpu/scan_simd.h"

INLINE void norm_row(const struct rmsnorm_job *j, int64_t row, float *q, const bool bf16) {
    int64_t width = j->channels / j->groups;
    for (int64_t g = 0; g < j->groups; g++) {
        int64_t first = g * width;
        vf squares = {0};
        for (int64_t c = 0; c < width; c += VW) {
            vf v = act_load(j->y.data, bf16, row * j->y.row + first + c, width - c) *
                   vf_silu(act_load(j->z.data, bf16, row * j->z.row + first + c, width - c));
            act_store(q, false, first + c, width - c, v);
            squares += v * v;
        }
        float rs = 1.0f / sqrtf(vf_sum(squares) / (float)width + j->eps);
        if (j->rstd)
            j->rstd[row * j->groups + g] = rs;
        for (int64_t c = 0; c < width; c += VW) {
            vf v = act_load(q, false, first + c, width - c) * act_load(j->weight, false, first + c, width - c) * rs;
            act_store(j->out.data, bf16, row * j->out.row + first + c, width - c, v);
        }
    }
}

static void rmsnorm_rows(const void *ctx, int64_t item, int lane) {
    const struct scan_lanes *w = ctx;
    const struct rmsnorm_job own = *(const struct rmsnorm_job *)w->job,
                             *j = &own; /* so that no store can be thought to change it */
    const int64_t first = item * RMSNORM_ROWS, end = first + RMSNORM_ROWS < j->rows ? first + RMSNORM_ROWS : j->rows;
    float *scratch = lane_scratch(w, lane);
    for (int64_t row = first; row < end; row++)
        if (j->bf16)
            norm_row(j, row, scratch, true);
        else
            norm_row(j, row, scratch, false);
}

/* gates: silu(z) of the row, for its second pass. */
INLINE void norm_row_backward(const struct rmsnorm_job *j, int64_t row, float *part, float *gates, const bool bf16) {
    int64_t width = j->channels / j->groups;
    for (int64_t g = 0; g < j->groups; g++) {
        int64_t first = g * width;
        float rs = j->rstd[row * j->groups + g];
        vf dot = {0};
        for (int64_t c = 0; c < width; c += VW) {
            int64_t d = first + c, left = width - c;
            vf y = act_load(j->y.data, bf16, row * j->y.row + d, left), z = act_load(j->z.data, bf16, row * j->z.row + d, left);
            vf go = act_load(j->dout.data, bf16, row * j->dout.row + d, left), gate = vf_silu(z), unit = y * gate * rs;
            act_store(gates, false, d, left, gate);
            dot += go * act_load(j->weight, false, d, left) * unit;
            act_store(part, false, d, left, act_load(part, false, d, left) + go * unit);
        }
        float mean = vf_sum(dot) / (float)width;
        for (int64_t c = 0; c < width; c += VW) {
            int64_t d = first + c, left = width - c;
            vf y = act_load(j->y.data, bf16, row * j->y.row + d, left), z = act_load(j->z.data, bf16, row * j->z.row + d, left);
            vf go = act_load(j->dout.data, bf16, row * j->dout.row + d, left), gate = act_load(gates, false, d, left);
            vf dq = (go * act_load(j->weight, false, d, left) - y * gate * (rs * mean)) * rs;
            if (j->dy.data)
                act_store(j->dy.data, bf16, row * j->dy.row + d, left, dq * gate);
            if (j->dz.data)
                act_store(j->dz.data, bf16, row * j->dz.row + d, left, dq * y * vf_silu_grad(z));
        }
    }
}

static void rmsnorm_backward_slice(const void *ctx, int64_t slice, int lane) {
    const struct scan_lanes *w = ctx;
    const struct rmsnorm_job own = *(const struct rmsnorm_job *)w->job,
                             *j = &own; /* so that no store can be thought to change it */
    float *part = j->part_w + slice * j->channels, *scratch = lane_scratch(w, lane);
    memset(part, 0, (size_t)j->channels * sizeof(float));
    for (int64_t row = slice * j->rows / j->slices; row < (slice + 1) * j->rows / j->slices; row++)
        if (j->bf16)
            norm_row_backward(j, row, part, scratch, true);
        else
            norm_row_backward(j, row, part, scratch, false);
}
