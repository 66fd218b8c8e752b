/* The selective scans on the CPU: both ops become one scan_job (scan_job.h), whose blocks of channels run on the thread pool. */
#include "base/members.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scan_job.h"

enum { MAX_STATES = 256 };

/* Scratch cut into 64-byte aligned pieces; base NULL only measures. */
struct area {
    char *base;
    size_t used;
};
static void *take(struct area *a, size_t bytes) {
    char *p = a->base ? a->base + a->used : NULL;
    a->used += (bytes + 63) / 64 * 64;
    return p;
}

/* (B,L,C), groups of `per_group` channels; or (B,L,G,N). */
static struct scan_view view_of(const struct tensor *t, int64_t per_group) {
    if (t->rank == 4)
        return (struct scan_view){t->data, t->dim[2] * t->ld, t->ld};
    return (struct scan_view){t->data, t->ld, per_group};
}

static const float *floats(const struct tensor *t) { return t->data; }

static void cut_blocks(struct scan_job *j, int lanes) {
    int64_t per_group = j->channels / j->groups, most = j->share < SCAN_BLOCK ? SCAN_BLOCK / j->share * j->share : j->share;
    j->block_channels = most < per_group ? most : per_group;
    j->blocks_per_group = (per_group + j->block_channels - 1) / j->block_channels;
    j->blocks = j->blocks_per_group * j->groups;
    j->block_vectors = (j->block_channels + lanes - 1) / lanes;
    j->states_padded = (j->states + SCAN_NB - 1) / SCAN_NB * SCAN_NB;
    j->slices = j->batch < SCAN_SLICES ? j->batch : SCAN_SLICES;
}

static struct scan_job job_of_scan1(const struct scan1_args *a, int lanes) {
    int64_t n = a->A.dim[1];
    struct scan_job j = {
        .batch = a->u.dim[0],
        .length = a->u.dim[1],
        .channels = a->u.dim[2],
        .groups = a->Bm.rank == 4 ? a->Bm.dim[2] : a->Bm.dim[2] / n,
        .states = n,
        .share = 1,
        .bf16 = a->u.dtype == DTYPE_BF16,
        SAME_MEMBERS(*a, softplus, zoh, reverse),
        .clamp = a->clamp_hi > 0,
        SAME_MEMBERS(*a, clamp_lo, clamp_hi, lengths),
        .resets = a->resets.data,
        .x = view_of(&a->u, 0),
        .delta = view_of(&a->delta, 0),
        .bm = view_of(&a->Bm, n),
        .cm = view_of(&a->Cm, n),
        .z = view_of(&a->z, 0),
        .y = view_of(&a->out, 0),
        .a = floats(&a->A),
        .dskip = floats(&a->Dskip),
        .dbias = floats(&a->dbias),
        .h0 = floats(&a->h0),
        .ht = a->hT.data,
    };
    cut_blocks(&j, lanes);
    return j;
}

static struct scan_job job_of_ssd(const struct ssd_args *a, int lanes) {
    int64_t n = a->Bm.rank == 4 ? a->Bm.dim[3] : a->Bm.dim[2] / a->groups;
    struct scan_job j = {
        .batch = a->x.dim[0],
        .length = a->x.dim[1],
        .channels = a->x.dim[2],
        .groups = a->groups,
        .states = n,
        .share = a->x.dim[2] / a->heads,
        .per_head = true,
        .bf16 = a->x.dtype == DTYPE_BF16,
        .softplus = a->softplus,
        .reverse = a->reverse,
        .clamp = a->clamp_hi > 0,
        SAME_MEMBERS(*a, clamp_lo, clamp_hi, lengths),
        .resets = a->resets.data,
        .x = view_of(&a->x, 0),
        .delta = view_of(&a->delta, 0),
        .bm = view_of(&a->Bm, n),
        .cm = view_of(&a->Cm, n),
        .y = view_of(&a->y, 0),
        .a = floats(&a->A),
        .dskip = floats(&a->Dskip),
        .dbias = floats(&a->dbias),
        .h0 = floats(&a->h0),
        .ht = a->hT.data,
    };
    cut_blocks(&j, lanes);
    return j;
}

static size_t packed_a_bytes(const struct scan_job *j, int lanes) {
    return j->per_head ? 0 : (size_t)(j->blocks * j->block_vectors * j->states_padded * lanes) * sizeof(float);
}

static void pack(struct scan_job *j, const struct scan_kernels *kernels, float *packed) {
    if (j->per_head)
        return;
    for (int64_t i = 0; i < j->blocks; i++)
        kernels->pack_a(j, i, packed);
    j->packed_a = packed;
}

/* Where the reduced gradients go. */
struct sums {
    const struct scan_kernels *kernels;
    const struct scan_job *job;
    const struct tensor *db, *dc, *da, *dskip, *dbias;
};

static size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

static int run_forward(struct stream *s, struct scan_job *j, struct err *err) {
    const struct scan_kernels *kernels = scan_kernels();
    struct scan_lanes w = {.job = j, .each = whole_pages(kernels->forward_bytes(j))};
    size_t threads = (size_t)cpu_threads(s);
    w.scratch = cpu_scratch(s, w.each * threads + packed_a_bytes(j, kernels->lanes), err);
    if (!w.scratch)
        return ERR_EXHAUSTED;
    pack(j, kernels, (float *)(void *)(w.scratch + w.each * threads));
    lanes_for((int)threads, j->batch * j->blocks, kernels->forward, &w); /* an item prepares the next one */
    return 0;
}

int cpu_scan1(struct stream *s, const struct scan1_args *a, struct err *err) {
    struct scan_job j = job_of_scan1(a, scan_kernels()->lanes);
    return run_forward(s, &j, err);
}

static int run_chunked(struct stream *s, const struct scan_job *j, int64_t chunk, struct err *err) {
    struct scan_lanes w = {.job = j, .each = whole_pages(scan_kernels()->chunked_bytes(j, chunk)), .chunk = chunk};
    w.scratch = cpu_scratch(s, w.each * (size_t)cpu_threads(s), err);
    if (!w.scratch)
        return ERR_EXHAUSTED;
    lanes_for(cpu_threads(s), j->batch * (j->channels / j->share), scan_kernels()->chunked, &w);
    return 0;
}

int cpu_ssd(struct stream *s, const struct ssd_args *a, struct err *err) {
    struct scan_job j = job_of_ssd(a, scan_kernels()->lanes);
    return a->chunk > 0 ? run_chunked(s, &j, a->chunk, err) : run_forward(s, &j, err);
}

/* Lays the shared partial sums and the threads' scratch out; base NULL measures. */
static size_t lay_out(struct scan_job *j, const struct scan_kernels *kernels, char *base, float **ret_packed) {
    struct area area = {base, 0};
    size_t state_share = (size_t)(j->blocks_per_group * j->batch * j->length * j->groups * j->states) * sizeof(float);
    size_t width = (size_t)(j->slices * j->blocks * j->block_vectors * kernels->lanes) * sizeof(float);
    j->part_b = take(&area, state_share);
    j->part_c = take(&area, state_share);
    j->part_skip = take(&area, width);
    j->part_bias = take(&area, width);
    j->part_a = take(&area, j->per_head ? width : width * (size_t)j->states_padded);
    *ret_packed = take(&area, packed_a_bytes(j, kernels->lanes));
    return whole_pages(area.used);
}

/* dB and dC: the blocks' shares added in order, one token and group at a time. */
static void reduce_states(const void *ctx, int64_t t, int lane) {
    const struct sums *to = ctx;
    const struct scan_job *j = to->job;
    struct scan_view db = view_of(to->db, j->states), dc = view_of(to->dc, j->states);
    int64_t stride = j->batch * j->length * j->groups * j->states;
    (void)lane;
    for (int64_t g = 0; g < j->groups; g++) {
        float row[MAX_STATES];
        int64_t at = (t * j->groups + g) * j->states;
        if (db.data) {
            to->kernels->sum_parts(j->part_b + at, j->blocks_per_group, stride, j->states, row);
            to->kernels->write_row(row, j->states, j->bf16, db.data, t * db.row + g * db.step);
        }
        if (dc.data) {
            to->kernels->sum_parts(j->part_c + at, j->blocks_per_group, stride, j->states, row);
            to->kernels->write_row(row, j->states, j->bf16, dc.data, t * dc.row + g * dc.step);
        }
    }
}

/* to[i / share] += Σ over slices of the blocks' per-lane (or, with share 1 and per_head, per-head) sums, block by block. */
static void reduce_lanes(const struct scan_job *j, const float *part, int lanes, bool per_head_lanes, const struct tensor *to) {
    if (!tensor_present(to))
        return;
    int64_t width = j->block_vectors * lanes, per_group = j->channels / j->groups;
    for (int64_t block = 0; block < j->blocks; block++) {
        int64_t inside = block % j->blocks_per_group * j->block_channels, first = block / j->blocks_per_group * per_group + inside;
        int64_t channels = per_group - inside < j->block_channels ? per_group - inside : j->block_channels;
        int64_t count = per_head_lanes ? channels / j->share : channels;
        for (int64_t i = 0; i < count; i++) {
            float sum = 0.0f;
            for (int64_t slice = 0; slice < j->slices; slice++)
                sum += part[(slice * j->blocks + block) * width + i];
            mf(to)[per_head_lanes ? first / j->share + i : (first + i) / j->share] += sum;
        }
    }
}

static void unpack_block(const void *ctx, int64_t block, int lane) {
    const struct sums *to = ctx;
    (void)lane;
    to->kernels->unpack_a(to->job, block, mf(to->da));
}

static int run_backward(struct stream *s, struct scan_job *j, struct sums *to, struct err *err) {
    const struct scan_kernels *kernels = to->kernels = scan_kernels();
    struct scan_lanes w = {.job = to->job = j, .each = whole_pages(kernels->backward_bytes(j))};
    int threads = cpu_threads(s);
    float *packed = NULL;
    size_t shared = lay_out(j, kernels, NULL, &packed);
    char *scratch = cpu_scratch(s, shared + w.each * (size_t)threads, err);
    if (!scratch)
        return ERR_EXHAUSTED;
    w.scratch = scratch + shared;
    lay_out(j, kernels, scratch, &packed);
    pack(j, kernels, packed);
    lanes_for(threads, j->slices * j->blocks, kernels->backward, &w);
    lanes_for(threads, j->batch * j->length, reduce_states, to);
    if (j->per_head)
        reduce_lanes(j, j->part_a, kernels->lanes, true, to->da);
    else if (tensor_present(to->da))
        lanes_for(threads, j->blocks, unpack_block, to);
    reduce_lanes(j, j->part_skip, kernels->lanes, false, to->dskip);
    reduce_lanes(j, j->part_bias, kernels->lanes, j->per_head, to->dbias);
    return 0;
}

int cpu_scan1_backward(struct stream *s, const struct scan1_backward_args *a, struct err *err) {
    struct scan_job j = job_of_scan1(&a->fwd, scan_kernels()->lanes);
    j.dy = view_of(&a->dout, 0);
    j.dx = view_of(&a->du, 0);
    j.ddelta = view_of(&a->ddelta, 0);
    j.dz = view_of(&a->dz, 0);
    j.dht = floats(&a->dhT);
    j.dh0 = a->dh0.data;
    return run_backward(s, &j, &(struct sums){NULL, NULL, &a->dBm, &a->dCm, &a->dA, &a->dDskip, &a->ddbias}, err);
}

int cpu_ssd_backward(struct stream *s, const struct ssd_backward_args *a, struct err *err) {
    struct scan_job j = job_of_ssd(&a->fwd, scan_kernels()->lanes);
    j.dy = view_of(&a->dy, 0);
    j.dx = view_of(&a->dx, 0);
    j.ddelta = view_of(&a->ddelta, 0);
    j.dht = floats(&a->dhT);
    j.dh0 = a->dh0.data;
    return run_backward(s, &j, &(struct sums){NULL, NULL, &a->dBm, &a->dCm, &a->dA, &a->dDskip, &a->ddbias}, err);
}
