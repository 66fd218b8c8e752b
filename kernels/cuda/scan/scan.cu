/* scan: the ops scan1 and ssd as scan_jobs, and the sums that follow the backward kernel. Rows of the batch go in groups whose
 * states and partial sums fit ROOM_BYTES. Every sum runs in a fixed order. */
#include "kernels/cuda/scan/scan_tile.cuh"

enum { THREADS = 128, MOST_ROWS = 32768, FILLING_BLOCKS = 256 }; /* with fewer, more threads for each channel are faster */
static const size_t ROOM_BYTES = (size_t)1 << 30;

/* dB or dC of a group of rows: the blocks' shares added in order. */
static __global__ void states_kernel(struct scan_job j, const float *part, struct scan_view to) {
    int64_t count = j.rows * j.length * j.groups * j.states;
    for (int64_t i = cuda_index(); i < count; i += cuda_stride()) {
        int64_t n = i % j.states, g = i / j.states % j.groups, token = i / j.states / j.groups;
        float sum = 0;
        for (int64_t block = 0; block < j.blocks_per_group; block++)
            sum += part[block * count + i];
        act_put(to.act, (j.first_row * j.length + token) * to.act.ld + g * to.step + n, sum);
    }
}

/* to[c] += Σ over rows of part (rows, cols): one thread per column, */
static __global__ void add_rows_kernel(const float *part, int64_t rows, int64_t cols, float *to) {
    for (int64_t c = cuda_index(); c < cols; c += cuda_stride()) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += (double)part[r * cols + c];
        to[c] += (float)sum;
    }
}
/* or one block per `share` neighbouring columns. */
static __global__ void add_shares_kernel(const float *part, int64_t rows, int64_t cols, int64_t share, float *to) {
    __shared__ double room[THREADS];
    double sum = 0;
    for (int64_t e = threadIdx.x; e < rows * share; e += THREADS)
        sum += (double)part[e / share * cols + blockIdx.x * share + e % share];
    sum = cuda_block_sum(sum, room);
    if (threadIdx.x == 0)
        to[blockIdx.x] += (float)sum;
}

/* Per head: the channels' shares of dΔ added, through the step rule to ddelta and to `pre` (rows, L, H). */
static __global__ void head_kernel(struct scan_job j, float *pre) {
    int64_t heads = j.channels / j.share;
    for (int64_t i = cuda_index(); i < j.rows * j.length * heads; i += cuda_stride()) {
        int64_t local = i / heads, h = i - local * heads, token = j.first_row * j.length + local;
        float sum = 0;
        for (int64_t p = 0; p < j.head_shares; p++)
            sum += j.head_delta[(local * heads + h) * j.head_shares + p];
        int64_t row = token / j.length;
        sum = token - row * j.length < scan_length(j, row) ? sum * scan_step_grad(j, scan_pre(j, token, h * j.share)) : 0.0f;
        if (j.ddelta.data)
            act_put(j.ddelta, token * j.ddelta.ld + h, sum);
        pre[i] = sum;
    }
}

static struct scan_view states_of(const struct tensor *t, int64_t n) {
    struct scan_view v = {act_of(t), n};
    if (t->rank == 4) {
        v.step = t->ld;
        v.act.ld = t->dim[2] * t->ld;
    }
    return v;
}

static void cut(struct scan_job *j) {
    j->per_group = j->channels / j->groups;
    j->blocks_per_group = cuda_ceil(j->per_group, ssd_suits(j) ? (int64_t)SSD_CHANNELS : scan_channels(j->states));
    j->head_shares = ssd_suits(j) && j->share % 32 == 0 ? j->share / 32 : j->share;
    j->tiles = scan_tiles(j->length, j->states);
    j->segments = ssd_segments(j);
}

struct scan_job scan1_job(const struct scan1_args *a) {
    struct scan_job j = {};
    j.batch = a->u.dim[0];
    j.length = a->u.dim[1];
    j.channels = a->u.dim[2];
    j.states = a->A.dim[1];
    j.groups = a->Bm.rank == 4 ? a->Bm.dim[2] : a->Bm.dim[2] / j.states;
    j.share = 1;
    j.softplus = a->softplus;
    j.zoh = a->zoh;
    j.reverse = a->reverse;
    j.clamp = a->clamp_hi > 0;
    j.clamp_lo = a->clamp_lo;
    j.clamp_hi = a->clamp_hi;
    j.resets = (const uint8_t *)a->resets.data;
    j.x = act_of(&a->u);
    j.delta = act_of(&a->delta);
    j.z = act_of(&a->z);
    j.y = act_of(&a->out);
    j.bm = states_of(&a->Bm, j.states);
    j.cm = states_of(&a->Cm, j.states);
    j.a = (const float *)a->A.data;
    j.dskip = (const float *)a->Dskip.data;
    j.dbias = (const float *)a->dbias.data;
    j.h0 = (const float *)a->h0.data;
    j.ht = (float *)a->hT.data;
    cut(&j);
    return j;
}

struct scan_job ssd_job(const struct ssd_args *a) {
    struct scan_job j = {};
    j.batch = a->x.dim[0];
    j.length = a->x.dim[1];
    j.channels = a->x.dim[2];
    j.groups = a->groups;
    j.states = a->Bm.rank == 4 ? a->Bm.dim[3] : a->Bm.dim[2] / a->groups;
    j.share = a->x.dim[2] / a->heads;
    j.per_head = true;
    j.softplus = a->softplus;
    j.reverse = a->reverse;
    j.clamp = a->clamp_hi > 0;
    j.clamp_lo = a->clamp_lo;
    j.clamp_hi = a->clamp_hi;
    j.resets = (const uint8_t *)a->resets.data;
    j.x = act_of(&a->x);
    j.delta = act_of(&a->delta);
    j.y = act_of(&a->y);
    j.bm = states_of(&a->Bm, j.states);
    j.cm = states_of(&a->Cm, j.states);
    j.a = (const float *)a->A.data;
    j.dskip = (const float *)a->Dskip.data;
    j.dbias = (const float *)a->dbias.data;
    j.h0 = (const float *)a->h0.data;
    j.ht = (float *)a->hT.data;
    cut(&j);
    return j;
}

/* Room for the states that segments of `rows` rows hand on. */
static void take_segments(struct scan_job *j, int64_t rows, struct cuda_area *area) {
    size_t each = j->segments > 1 ? (size_t)(rows * j->segments * j->channels) * sizeof(float) : 0;
    j->begins = (float *)cuda_take(area, each * SSD_STATES);
    j->fades = (float *)cuda_take(area, each);
}

/* Lays the room of a forward pass of `rows` rows out; base NULL measures. */
static size_t lay_out_forward(struct scan_job *j, int64_t rows, char *base, void **ret_lengths) {
    struct cuda_area area = {base, 0};
    *ret_lengths = cuda_take(&area, (size_t)j->batch * sizeof(int32_t));
    take_segments(j, rows, &area);
    return area.used;
}

int scan_forward(struct stream *s, struct scan_job *j, const int32_t *host_lengths, struct err *err) {
    void *lengths = NULL, *scratch = NULL;
    int64_t rows = cuda_min(j->batch, MOST_ROWS);
    bool chunks = ssd_chunks_forward_suits(j); /* of any size: a row's bits do not depend on the batch */
    if (chunks)
        j->segments = 1;
    while (rows > 1 && lay_out_forward(j, rows, NULL, &lengths) > ROOM_BYTES)
        rows = (rows + 1) / 2;
    int rc = host_lengths || j->segments > 1 ? cuda_scratch(s, lay_out_forward(j, rows, NULL, &lengths), &scratch, err) : 0;
    if (rc)
        return rc;
    lay_out_forward(j, rows, (char *)scratch, &lengths);
    if (host_lengths) {
        if ((rc = cuda_upload(s, lengths, host_lengths, (size_t)j->batch * sizeof(int32_t), err)))
            return rc;
        j->lengths = (const int32_t *)lengths;
    }
    for (; j->first_row < j->batch; j->first_row += j->rows) {
        j->rows = cuda_min(rows, j->batch - j->first_row);
        if (chunks)
            ssd_chunks_forward_launch(s, j);
        else if (ssd_suits(j) && (j->segments > 1 || j->rows * j->groups * j->blocks_per_group >= FILLING_BLOCKS))
            ssd_forward_launch(s, j);
        else
            scan_forward_launch(s, j);
    }
    return 0;
}

/* Lays the room for `rows` rows out; base NULL measures. */
static size_t lay_out(struct scan_job *j, int64_t rows, char *base, void **ret_lengths, float **ret_pre) {
    struct cuda_area area = {base, 0};
    size_t tokens = (size_t)(rows * j->length), wide = (size_t)j->channels * sizeof(float),
           parts = (size_t)(rows * j->segments) * wide;
    *ret_lengths = cuda_take(&area, (size_t)j->batch * sizeof(int32_t));
    take_segments(j, rows, &area);
    j->lambdas = (float *)cuda_take(&area, j->segments > 1 ? parts * SSD_STATES : 0);
    j->starts = (float *)cuda_take(&area, (size_t)(rows * j->tiles * (ssd_suits(j) ? (int64_t)SSD_STATES : j->states)) * wide);
    j->part_b = (float *)cuda_take(&area, tokens * (size_t)(j->blocks_per_group * j->groups * j->states) * sizeof(float));
    j->part_c = (float *)cuda_take(&area, tokens * (size_t)(j->blocks_per_group * j->groups * j->states) * sizeof(float));
    j->part_a = (float *)cuda_take(&area, parts * (size_t)(j->per_head ? 1 : j->states));
    j->part_skip = (float *)cuda_take(&area, parts);
    j->part_bias = (float *)cuda_take(&area, parts);
    j->head_delta = (float *)cuda_take(&area, j->per_head ? tokens * wide / (size_t)(j->share / j->head_shares) : 0);
    *ret_pre = (float *)cuda_take(&area, j->per_head ? tokens * wide / (size_t)j->share : 0);
    return area.used;
}

static void add_rows(struct stream *s, const struct scan_job *j, const float *part, int64_t cols, float *to) {
    cudaStream_t stream = cuda_stream(s)->stream;
    if (!to)
        return;
    if (j->per_head)
        CUDA_LAUNCH(add_shares_kernel, (unsigned)(cols / j->share), THREADS, stream, part, j->rows * j->segments, cols, j->share,
                    to);
    else
        CUDA_LAUNCH(add_rows_kernel, cuda_blocks(cols, 32), 32, stream, part, j->rows, cols, to);
}

static void backward_in_chunks(struct stream *s, const struct scan_job *j, const struct scan_sums *to) {
    unsigned heads = (unsigned)(j->channels / j->share);
    const float *parts[] = {j->part_a, j->part_skip, j->part_bias};
    float *sums[] = {to->da, to->dskip, to->dbias};
    ssd_chunks_backward_launch(s, j);
    for (int i = 0; i < 3; i++)
        if (sums[i])
            CUDA_LAUNCH(add_shares_kernel, heads, THREADS, cuda_stream(s)->stream, parts[i], j->rows, (int64_t)heads, (int64_t)1,
                        sums[i]);
}

static void backward_rows(struct stream *s, const struct scan_job *j, float *pre, const struct scan_sums *to) {
    cudaStream_t stream = cuda_stream(s)->stream;
    struct scan_job forward = *j, gradient = *j;
    if (j->chunks) {
        backward_in_chunks(s, j, to);
        return;
    }
    if (ssd_suits(j)) {
        ssd_forward_launch(s, &forward);
        ssd_backward_launch(s, &gradient);
    } else {
        scan_forward_launch(s, &forward);
        scan_backward_launch(s, &gradient);
    }
    unsigned blocks = cuda_blocks(j->rows * j->length * j->groups * j->states, THREADS);
    if (j->dbm.act.data)
        CUDA_LAUNCH(states_kernel, blocks, THREADS, stream, *j, (const float *)j->part_b, j->dbm);
    if (j->dcm.act.data)
        CUDA_LAUNCH(states_kernel, blocks, THREADS, stream, *j, (const float *)j->part_c, j->dcm);
    add_rows(s, j, j->part_a, j->channels * (j->per_head ? 1 : j->states), to->da);
    add_rows(s, j, j->part_skip, j->channels, to->dskip);
    if (!j->per_head) {
        add_rows(s, j, j->part_bias, j->channels, to->dbias);
        return;
    }
    int64_t heads = j->channels / j->share, tokens = j->rows * j->length;
    CUDA_LAUNCH(head_kernel, cuda_blocks(tokens * heads, THREADS), THREADS, stream, *j, pre);
    if (to->dbias)
        CUDA_LAUNCH(add_shares_kernel, (unsigned)heads, THREADS, stream, (const float *)pre, tokens, heads, (int64_t)1, to->dbias);
}

int scan_backward(struct stream *s, struct scan_job *j, const int32_t *host_lengths, const struct scan_sums *to, struct err *err) {
    void *lengths = NULL;
    float *pre = NULL;
    int64_t rows = cuda_min(j->batch, MOST_ROWS);
    while (rows > 1 && lay_out(j, rows, NULL, &lengths, &pre) > ROOM_BYTES)
        rows = (rows + 1) / 2;
    void *scratch = NULL;
    int rc = cuda_scratch(s, lay_out(j, rows, NULL, &lengths, &pre), &scratch, err);
    if (rc)
        return rc;
    lay_out(j, rows, (char *)scratch, &lengths, &pre);
    if (host_lengths) {
        rc = cuda_upload(s, lengths, host_lengths, (size_t)j->batch * sizeof(int32_t), err);
        if (rc)
            return rc;
        j->lengths = (const int32_t *)lengths;
    }
    for (j->first_row = 0; j->first_row < j->batch; j->first_row += j->rows) {
        j->rows = cuda_min(rows, j->batch - j->first_row);
        backward_rows(s, j, pre, to);
    }
    return 0;
}

extern "C" int cuda_scan1(struct stream *s, const struct scan1_args *a, struct err *err) {
    struct scan_job j = scan1_job(a);
    return scan_forward(s, &j, a->lengths, err);
}

extern "C" int cuda_ssd(struct stream *s, const struct ssd_args *a, struct err *err) {
    struct scan_job j = ssd_job(a); /* the chunked form is the same function */
    return scan_forward(s, &j, a->lengths, err);
}

extern "C" int cuda_scan1_backward(struct stream *s, const struct scan1_backward_args *a, struct err *err) {
    struct scan_job j = scan1_job(&a->fwd);
    j.dy = act_of(&a->dout);
    j.dx = act_of(&a->du);
    j.ddelta = act_of(&a->ddelta);
    j.dz = act_of(&a->dz);
    j.dbm = states_of(&a->dBm, j.states);
    j.dcm = states_of(&a->dCm, j.states);
    j.dht = (const float *)a->dhT.data;
    j.dh0 = (float *)a->dh0.data;
    struct scan_sums to = {(float *)a->dA.data, (float *)a->dDskip.data, (float *)a->ddbias.data};
    return scan_backward(s, &j, a->fwd.lengths, &to, err);
}

extern "C" int cuda_ssd_backward(struct stream *s, const struct ssd_backward_args *a, struct err *err) {
    struct scan_job j = ssd_job(&a->fwd);
    j.dy = act_of(&a->dy);
    j.dx = act_of(&a->dx);
    j.ddelta = act_of(&a->ddelta);
    j.dbm = states_of(&a->dBm, j.states);
    j.dcm = states_of(&a->dCm, j.states);
    j.dht = (const float *)a->dhT.data;
    j.dh0 = (float *)a->dh0.data;
    j.chunks = ssd_chunks_suit(&j);
    if (j.chunks) {
        j.tiles = ssd_chunks_of(j.length);
        j.segments = 1;
    }
    struct scan_sums to = {(float *)a->dA.data, (float *)a->dDskip.data, (float *)a->ddbias.data};
    return scan_backward(s, &j, a->fwd.lengths, &to, err);
}
