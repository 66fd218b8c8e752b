#include "kernels/cuda/taps.cuh"

/* Up to this many bytes of columns are laid (TAPS_COLUMNS): fewer launches, and L2 holds them. The emulator's tests set less. */
#ifndef TAPS_COLUMN_LIMIT
#define TAPS_COLUMN_LIMIT (12 << 20)
#endif

enum {
    THREADS = 256,
    COLUMN_BYTES = 24 << 20,  /* laid at a time: an L2 of 50 MiB holds them until the product has read them */
    SEGMENT_BYTES = 24 << 20, /* input and output of a batch of strided products that memory limits, likewise */
    SEGMENT_OUTPUTS = 256,    /* with so many outputs the arithmetic takes longer than reading the input `count` times */
    TILE_ROWS = 128,
    BLOCKS = 132,          /* tiles of 128×128 that keep a GPU busy */
    CHUNK_ROWS_LEAST = 256 /* of a sum over rows that is divided to get them */
};

static size_t bytes_of(const struct taps *t) { return dtype_bytes(t->x->dtype); }
static int64_t rows_of(const struct taps *t) { return t->x->dim[0] * t->t_out; }
static void *row_at(const struct tensor *t, int64_t row) { return (char *)t->data + (size_t)(row * t->ld) * dtype_bytes(t->dtype); }

/* ---- the sequence: which rows are strided products' and which are edges ---- */

/* Strided products make rows first..end of the sequence, `rows` of each remainder. Edges are the first `pad` and the last
 * count − 1 − pad rows of every window, `listed` in all, and then the rows from `end` on, of which some are listed already. */
struct sequence {
    int64_t n, t, count, pad;
    int64_t rows, end, listed, edges;
};

/* rows: a multiple of `chunks`. */
static struct sequence sequence_of(const struct taps *t, int64_t chunks) {
    struct sequence q = {rows_of(t), t->t_out, t->count, t->pad, 0, 0, 0, 0};
    q.rows = q.n < q.count ? 0 : (q.n - q.count + 1) / q.count / chunks * chunks;
    q.end = q.pad + q.count * q.rows;
    q.listed = t->x->dim[0] * (q.count - 1);
    q.edges = q.listed + q.n - q.end;
    return q;
}

static __device__ int64_t edge_row(const struct sequence &q, int64_t e) {
    if (e >= q.listed)
        return q.end + e - q.listed;
    uint32_t each = (uint32_t)q.count - 1, b = (uint32_t)e / each, j = (uint32_t)e - b * each;
    return (int64_t)b * q.t + (j < q.pad ? (int64_t)j : q.t - (int64_t)each + j);
}

/* Whether a row with this place in its window is listed. */
static __device__ bool is_listed(const struct sequence &q, int64_t place) {
    return place < q.pad || place >= q.t - (q.count - 1 - q.pad);
}

static bool strided_suits(const struct taps *t) {
    int64_t length = t->x->dim[1];
    return t->stride == 1 && t->count > 1 && t->t_out == length && t->pad < t->count && length >= t->count &&
           rows_of(t) < INT32_MAX && sequence_of(t, 1).rows > 0 && rows_of(t) * t->pitch * (int64_t)bytes_of(t) > TAPS_COLUMN_LIMIT;
}

struct taps taps_of(const struct tensor *x, int64_t t_out, int64_t count, int64_t stride, int64_t pad) {
    struct taps t = {x, t_out, count, stride, pad, x->dim[2], 0, TAPS_COLUMNS};
    if ((count == 1 && stride == 1) || (count == 2 && stride == 2 && pad == 0 && x->ld == x->dim[2])) {
        t.pitch = count * t.width;
        t.way = TAPS_INPUT;
        return t;
    }
    if (stride == 1)
        t.width = taps_padded(t.width);
    t.pitch = taps_padded(count * t.width);
    if (strided_suits(&t))
        t.way = TAPS_STRIDED;
    return t;
}

/* ---- rows of taps in scratch ---- */

/* Division of numbers below 2³¹ by a constant of the launch. */
struct divisor {
    uint32_t by, magic, shift;
};
static struct divisor divisor_of(int64_t by) {
    struct divisor d = {(uint32_t)by, 0, 31};
    while ((int64_t)1 << (d.shift - 31) < by)
        d.shift++;
    d.magic = (uint32_t)(((uint64_t)1 << d.shift) / (uint64_t)by + 1);
    return d;
}
static __device__ uint32_t divided(uint32_t n, const struct divisor &d) { return (uint32_t)((uint64_t)n * d.magic >> d.shift); }

struct alignas(16) piece {
    uint32_t parts[4];
};

/* `rows` rows of taps from row `first` on, `taps` taps of `width` elements; columns beyond C are zeros. */
struct laying {
    struct act x, out; /* out.ld = pitch */
    int64_t t_in, c, width, taps, stride, pad, first, rows;
    struct divisor pieces, tap, t_out; /* pieces of 16 bytes of a row; elements of a tap; output rows of a window */
};

/* A thread writes a piece. WHOLE: a piece never spans two taps or exceeds C, and the input's pieces are aligned. */
template <bool BF16, bool WHOLE> static __global__ void lay_kernel(struct laying j) {
    constexpr int W = BF16 ? 8 : 4;
    uint32_t all = (uint32_t)j.rows * j.pieces.by;
    for (uint32_t i = (uint32_t)cuda_index(); i < all; i += (uint32_t)cuda_stride()) {
        uint32_t r = divided(i, j.pieces), col = (i - r * j.pieces.by) * W, k = divided(col, j.tap), n = col - k * j.tap.by;
        uint32_t row = (uint32_t)j.first + r, b = divided(row, j.t_out);
        int64_t u = (int64_t)(row - b * j.t_out.by) * j.stride + k - j.pad, in = (int64_t)b * j.t_in;
        struct piece out = {{0, 0, 0, 0}};
        if (WHOLE) {
            if (k < j.taps && u >= 0 && u < j.t_in)
                out = ((const struct piece *)j.x.data)[((in + u) * j.x.ld + n) / W];
        } else {
#pragma unroll
            for (int e = 0; e < W; e++) {
                if (k < j.taps && u >= 0 && u < j.t_in && n < j.c) {
                    int64_t at = (in + u) * j.x.ld + n;
                    if (BF16)
                        out.parts[e / 2 % 4] |= (uint32_t)((const uint16_t *)j.x.data)[at] << e % 2 * 16;
                    else
                        out.parts[e % 4] = ((const uint32_t *)j.x.data)[at];
                }
                if (++n == j.width) {
                    n = 0;
                    k++;
                    u++;
                }
            }
        }
        ((struct piece *)j.out.data)[i] = out;
    }
}

static void lay(struct stream *s, const struct laying *j) {
    int64_t w = j->out.bf16 ? 8 : 4, all = j->rows * j->out.ld / w;
    bool whole = j->c == j->width && j->c % w == 0 && j->x.ld % w == 0 && (uintptr_t)j->x.data % sizeof(struct piece) == 0;
    unsigned blocks = cuda_blocks(all, THREADS);
    cudaStream_t stream = cuda_stream(s)->stream;
    if (j->out.bf16 && whole)
        CUDA_LAUNCH((lay_kernel<true, true>), blocks, THREADS, stream, *j);
    else if (j->out.bf16)
        CUDA_LAUNCH((lay_kernel<true, false>), blocks, THREADS, stream, *j);
    else if (whole)
        CUDA_LAUNCH((lay_kernel<false, true>), blocks, THREADS, stream, *j);
    else
        CUDA_LAUNCH((lay_kernel<false, false>), blocks, THREADS, stream, *j);
}

static void lay_rows(struct stream *s, const struct taps *t, void *columns, int64_t first, int64_t rows) {
    struct act x = act_of(t->x), out = {columns, t->pitch, x.bf16};
    struct laying j = {x, out, t->x->dim[1], t->x->dim[2], t->width, t->count, t->stride, t->pad, first, rows, {}, {}, {}};
    j.pieces = divisor_of(t->pitch / (x.bf16 ? 8 : 4));
    j.tap = divisor_of(t->width);
    j.t_out = divisor_of(t->t_out);
    lay(s, &j);
}

/* Copies x into rows of `width` elements, zeros behind its channels. */
static struct act copy_rows(struct stream *s, const struct tensor *x, int64_t width, void *room) {
    struct act from = act_of(x), to = {room, width, from.bf16};
    int64_t rows = tensor_rows(x), most = INT32_MAX / width / 2;
    for (int64_t first = 0; first < rows; first += most) {
        struct laying j = {from, to, x->dim[1], x->dim[2], width, 1, 1, 0, first, cuda_min(most, rows - first), {}, {}, {}};
        j.out.data = (char *)room + (size_t)(first * width) * dtype_bytes(x->dtype);
        j.pieces = divisor_of(width / (from.bf16 ? 8 : 4));
        j.tap = divisor_of(width);
        j.t_out = divisor_of(x->dim[1]);
        lay(s, &j);
    }
    return to;
}

/* TAPS_STRIDED needs rows of `width` elements without gaps: the input, or a copy. */
static bool is_compact(const struct taps *t) {
    return t->x->dim[2] == t->width && t->x->ld == t->width && (uintptr_t)t->x->data % sizeof(struct piece) == 0;
}
static size_t compact_bytes(const struct taps *t) { return is_compact(t) ? 0 : (size_t)(rows_of(t) * t->width) * bytes_of(t); }
static struct act compact(struct stream *s, const struct taps *t, void *room) {
    return is_compact(t) ? act_of(t->x) : copy_rows(s, t->x, t->width, room);
}

/* The library multiplies no matrix whose rows do not begin on 4 bytes: there a copy with rows of a multiple of 8 elements takes
 * part in the product. */
static bool rows_suit(const struct tensor *t) { return t->dtype != DTYPE_BF16 || ((uintptr_t)t->data % 4 == 0 && t->ld % 2 == 0); }
static size_t aligned_bytes(const struct tensor *t) {
    return rows_suit(t) ? 0 : (size_t)(tensor_rows(t) * taps_padded(t->dim[2])) * dtype_bytes(t->dtype);
}
static struct tensor aligned_of(const struct tensor *t, void *room) {
    struct tensor ret = *t;
    if (rows_suit(t))
        return ret;
    ret.data = room;
    ret.ld = taps_padded(t->dim[2]);
    return ret;
}

struct narrowing {
    struct act from, to;
    int64_t rows, cols;
};
static __global__ void narrow_kernel(struct narrowing j) {
    for (int64_t i = cuda_index(); i < j.rows * j.cols; i += cuda_stride()) {
        int64_t row = i / j.cols, col = i - row * j.cols;
        act_put(j.to, row * j.to.ld + col, act_get(j.from, row * j.from.ld + col));
    }
}

/* ---- edges ---- */

struct edge_laying {
    struct sequence q;
    struct act x; /* compact */
    struct piece *out;
    bool corrections;
};

/* The edges' rows of taps, zeros for taps outside of the window. corrections: what is to be added to strided sums over rows
 * instead. They hold an edge's row too, with the neighbouring windows' taps: here these taps negated and the others zeros. A row
 * that is listed twice counts once. */
template <bool BF16> static __global__ void lay_edges_kernel(struct edge_laying j) {
    constexpr uint32_t SIGNS = BF16 ? 0x80008000U : 0x80000000U;
    const struct sequence &q = j.q;
    uint32_t tap = (uint32_t)j.x.ld / (BF16 ? 8 : 4), pieces = tap * (uint32_t)q.count;
    for (uint32_t i = (uint32_t)cuda_index(); i < (uint32_t)q.edges * pieces; i += (uint32_t)cuda_stride()) {
        uint32_t e = i / pieces, col = i - e * pieces, k = col / tap;
        int64_t row = edge_row(q, e), shift = (int64_t)k - q.pad, u = (int64_t)((uint32_t)row % (uint32_t)q.t) + shift;
        bool inside = u >= 0 && u < q.t, wanted = inside, negated = false;
        if (j.corrections && e >= q.listed) {
            wanted = !is_listed(q, u - shift);
        } else if (j.corrections && row >= q.pad && row < q.end) {
            wanted = negated = !inside;
        }
        struct piece out = {{0, 0, 0, 0}};
        if (wanted)
            out = ((const struct piece *)j.x.data)[(row + shift) * tap + (col - k * tap)];
#pragma unroll
        for (int p = 0; p < 4; p++)
            out.parts[p] ^= negated ? SIGNS : 0;
        j.out[i] = out;
    }
}

static void lay_edges(struct stream *s, const struct sequence *q, struct act x, void *columns, bool corrections) {
    struct edge_laying j = {*q, x, (struct piece *)columns, corrections};
    unsigned blocks = cuda_blocks(q->edges * q->count * x.ld / (x.bf16 ? 8 : 4), THREADS);
    if (x.bf16)
        CUDA_LAUNCH(lay_edges_kernel<true>, blocks, THREADS, cuda_stream(s)->stream, j);
    else
        CUDA_LAUNCH(lay_edges_kernel<false>, blocks, THREADS, cuda_stream(s)->stream, j);
}

/* Edge e in its place in all rows, and in row e of a list. */
struct edge_move {
    struct sequence q;
    struct act all, list;
    int64_t cols;
    bool gathers;
};
static __global__ void move_edges_kernel(struct edge_move j) {
    uint32_t cols = (uint32_t)j.cols;
    for (uint32_t i = (uint32_t)cuda_index(); i < (uint32_t)j.q.edges * cols; i += (uint32_t)cuda_stride()) {
        uint32_t e = i / cols, col = i - e * cols;
        int64_t row = edge_row(j.q, e), at = row * j.all.ld + col, in_list = e * j.list.ld + col;
        if (j.gathers)
            act_put(j.list, in_list, act_get(j.all, at));
        else if (e < j.q.listed || !is_listed(j.q, (uint32_t)row % (uint32_t)j.q.t)) /* once */
            act_put(j.all, at, act_get(j.list, in_list));
    }
}
static void move_edges(struct stream *s, const struct edge_move *j) {
    CUDA_LAUNCH(move_edges_kernel, cuda_blocks(j->q.edges * j->cols, THREADS), THREADS, cuda_stream(s)->stream, *j);
}

/* ---- products ---- */

/* Equal pieces, whole tiles of the product's. */
static int64_t rows_at_once(const struct taps *t) {
    int64_t rows = rows_of(t), most = COLUMN_BYTES / (t->pitch * (int64_t)bytes_of(t));
    if (t->way == TAPS_INPUT || rows <= most)
        return rows;
    most = most / TILE_ROWS * TILE_ROWS > 0 ? most / TILE_ROWS * TILE_ROWS : (int64_t)TILE_ROWS;
    return cuda_ceil(cuda_ceil(rows, cuda_ceil(rows, most)), TILE_ROWS) * TILE_ROWS;
}

static size_t column_bytes(const struct taps *t, int64_t rows) { return (size_t)(rows * t->pitch) * bytes_of(t); }

struct product_room {
    void *compact, *columns, *edges, *aligned;
};
static size_t product_room(const struct taps *t, const struct tensor *y, void *base, struct product_room *ret) {
    struct cuda_area area = {(char *)base, 0};
    struct sequence q = sequence_of(t, 1);
    bool strided = t->way == TAPS_STRIDED;
    *ret = {};
    ret->aligned = cuda_take(&area, aligned_bytes(y));
    if (t->way == TAPS_INPUT)
        return area.used;
    if (strided)
        ret->compact = cuda_take(&area, compact_bytes(t));
    ret->columns = cuda_take(&area, column_bytes(t, strided ? q.edges : rows_at_once(t)));
    if (strided)
        ret->edges = cuda_take(&area, (size_t)(q.edges * taps_padded(y->dim[2])) * dtype_bytes(y->dtype));
    return area.used;
}
size_t taps_product_bytes(const struct taps *t, const struct tensor *y) {
    struct product_room room;
    return product_room(t, y, NULL, &room);
}

/* A product with rows of taps; m, A and C are still to be set. */
static struct cuda_gemm product_of(const struct taps *t, const struct tensor *y, const struct weights *w, bool relu) {
    struct cuda_gemm g = {};
    g.trans_b = true;
    g.bf16 = t->x->dtype == DTYPE_BF16;
    g.c_bf16 = y->dtype == DTYPE_BF16;
    g.n = y->dim[2];
    g.k = g.lda = t->pitch;
    g.b = w->w.data;
    g.ldb = w->w.ld;
    g.bias = w->bias;
    g.relu = relu;
    if (t->way != TAPS_INPUT && t->stride == 1) {
        g.like = y->data;
        g.like_ld = y->ld;
    }
    return g;
}

static int strided_product(struct stream *s, const struct taps *t, const struct tensor *y, const struct product_room *room,
                           struct cuda_gemm g, struct err *err) {
    struct sequence q = sequence_of(t, 1);
    struct act x = compact(s, t, room->compact);
    int64_t each = (int64_t)bytes_of(t), segment = q.rows, row_bytes = (t->width + g.n) * each * t->count;
    if (g.n < SEGMENT_OUTPUTS && segment * row_bytes > SEGMENT_BYTES) {
        segment = cuda_ceil(q.rows, cuda_ceil(q.rows * row_bytes, SEGMENT_BYTES));
        segment = cuda_ceil(segment, TILE_ROWS) * TILE_ROWS;
    }
    struct cuda_gemm part = g;
    part.batch = t->count;
    part.step_a = t->width;
    part.step_c = y->ld;
    part.ldc = t->count * y->ld;
    for (int64_t first = 0; first < q.rows; first += segment) {
        part.m = cuda_min(segment, q.rows - first);
        part.a = (const char *)x.data + (size_t)(first * t->pitch * each);
        part.c = row_at(y, q.pad + first * t->count);
        int rc = cuda_gemm(s, &part, err);
        if (rc)
            return rc;
    }
    lay_edges(s, &q, x, room->columns, false);
    g.m = q.edges;
    g.a = room->columns;
    g.c = room->edges;
    g.ldc = taps_padded(g.n);
    int rc = cuda_gemm(s, &g, err);
    if (rc)
        return rc;
    struct edge_move move = {q, act_of(y), {room->edges, g.ldc, g.c_bf16}, g.n, false};
    move_edges(s, &move);
    return 0;
}

static int summed_product(struct stream *s, const struct taps *t, const struct tensor *y, const struct product_room *room,
                          struct cuda_gemm g, struct err *err) {
    int64_t rows = rows_of(t), at_once = rows_at_once(t);
    for (int64_t first = 0; first < rows; first += at_once) {
        g.m = cuda_min(at_once, rows - first);
        g.a = room->columns;
        if (t->way == TAPS_INPUT) { /* all rows at once */
            g.a = t->x->data;
            g.lda = t->x->ld * t->stride;
        } else {
            lay_rows(s, t, room->columns, first, g.m);
        }
        g.c = row_at(y, first);
        g.ldc = y->ld;
        int rc = cuda_gemm(s, &g, err);
        if (rc)
            return rc;
    }
    return 0;
}

int taps_product(struct stream *s, const struct taps *t, const struct tensor *y, const struct weights *w, void *base, bool relu,
                 struct err *err) {
    struct product_room room;
    product_room(t, y, base, &room);
    struct tensor to = aligned_of(y, room.aligned);
    struct cuda_gemm g = product_of(t, &to, w, relu);
    int rc = t->way == TAPS_STRIDED ? strided_product(s, t, &to, &room, g, err) : summed_product(s, t, &to, &room, g, err);
    if (rc || rows_suit(y))
        return rc;
    struct narrowing j = {act_of(&to), act_of(y), tensor_rows(y), y->dim[2]};
    CUDA_LAUNCH(narrow_kernel, cuda_blocks(j.rows * j.cols, THREADS), THREADS, cuda_stream(s)->stream, j);
    return 0;
}

/* ---- the gradient of the weights ---- */

static __global__ void unpack_kernel(const float *packed, int64_t parts, int64_t part, int64_t pitch, int64_t width, float *dw,
                                     int64_t count, int64_t c, int64_t taps) {
    for (int64_t i = cuda_index(); i < count; i += cuda_stride()) {
        int64_t k = i % taps, pair = i / taps, a = pair / c, n = pair - a * c;
        const float *at = packed + a * pitch + k * width + n;
        float sum = 0;
#pragma unroll 16
        for (int64_t p = 0; p < parts; p++)
            sum += at[p * part];
        dw[i] += sum;
    }
}
void taps_unpack(struct stream *s, const float *packed, int64_t parts, int64_t pitch, int64_t width, const struct tensor *dw) {
    int64_t count = tensor_count(dw);
    CUDA_LAUNCH(unpack_kernel, cuda_blocks(count, THREADS), THREADS, cuda_stream(s)->stream, packed, parts, dw->dim[0] * pitch,
                pitch, width, (float *)dw->data, count, dw->dim[1], dw->dim[2]);
}

/* Where the sums over the rows of one remainder have few outputs they are divided into chunks, which run as a batch. */
static int64_t chunks_of(const struct taps *t, int64_t a) {
    int64_t tiles = cuda_ceil(a, TILE_ROWS) * cuda_ceil(t->pitch, TILE_ROWS), rows = sequence_of(t, 1).rows;
    if (tiles * t->count >= 2 * BLOCKS)
        return 1;
    int64_t chunks = cuda_min(BLOCKS / tiles, rows / CHUNK_ROWS_LEAST);
    return chunks > 1 ? chunks : 1;
}

struct gradient_room {
    float *sums; /* (parts,A,pitch) */
    int64_t parts;
    void *compact, *columns, *edges, *aligned;
};
static size_t gradient_room(const struct taps *t, const struct tensor *other, void *base, struct gradient_room *ret) {
    struct cuda_area area = {(char *)base, 0};
    int64_t a = other->dim[2];
    *ret = {};
    ret->aligned = cuda_take(&area, aligned_bytes(other));
    ret->parts = t->way == TAPS_STRIDED ? t->count * chunks_of(t, a) + 1 : 1;
    ret->sums = (float *)cuda_take(&area, (size_t)(ret->parts * a * t->pitch) * sizeof(float));
    if (t->way == TAPS_STRIDED) {
        struct sequence q = sequence_of(t, chunks_of(t, a));
        ret->compact = cuda_take(&area, compact_bytes(t));
        ret->columns = cuda_take(&area, column_bytes(t, q.edges));
        ret->edges = cuda_take(&area, (size_t)(q.edges * taps_padded(a)) * bytes_of(t));
    } else if (t->way == TAPS_COLUMNS) {
        ret->columns = cuda_take(&area, column_bytes(t, rows_at_once(t)));
    }
    return area.used;
}
size_t taps_gradient_bytes(const struct taps *t, const struct tensor *other) {
    struct gradient_room room;
    return gradient_room(t, other, NULL, &room);
}

/* Part r·chunks + i: chunk i of remainder r. The last part: what the edges add. */
static int strided_gradient(struct stream *s, const struct taps *t, const struct tensor *other, const struct gradient_room *room,
                            struct cuda_gemm g, struct err *err) {
    int64_t chunks = chunks_of(t, g.m), part = g.m * t->pitch, each = (int64_t)bytes_of(t);
    struct sequence q = sequence_of(t, chunks);
    struct act x = compact(s, t, room->compact);
    struct cuda_gemm bulk = g;
    bool divided_up = chunks > 1;
    bulk.k = q.rows / chunks;
    bulk.lda = t->count * other->ld;
    bulk.batch = divided_up ? chunks : t->count;
    bulk.step_a = divided_up ? bulk.k * bulk.lda : other->ld;
    bulk.step_b = divided_up ? bulk.k * t->pitch : t->width;
    bulk.step_c = part;
    for (int64_t r = 0; r < (divided_up ? t->count : 1); r++) {
        bulk.a = row_at(other, q.pad + r);
        bulk.b = (const char *)x.data + (size_t)(r * t->width * each);
        bulk.c = room->sums + r * chunks * part;
        int rc = cuda_gemm(s, &bulk, err);
        if (rc)
            return rc;
    }
    struct edge_move move = {q, act_of(other), {room->edges, taps_padded(g.m), g.bf16}, g.m, true};
    move_edges(s, &move);
    lay_edges(s, &q, x, room->columns, true);
    g.k = q.edges;
    g.a = room->edges;
    g.lda = taps_padded(g.m);
    g.b = room->columns;
    g.c = room->sums + (room->parts - 1) * part;
    return cuda_gemm(s, &g, err);
}

static int summed_gradient(struct stream *s, const struct taps *t, const struct tensor *other, const struct gradient_room *room,
                           struct cuda_gemm g, struct err *err) {
    int64_t rows = rows_of(t), at_once = rows_at_once(t);
    for (int64_t first = 0; first < rows; first += at_once) {
        g.k = cuda_min(at_once, rows - first);
        g.a = row_at(other, first);
        g.lda = other->ld;
        g.b = room->columns;
        if (t->way == TAPS_INPUT) { /* all rows at once */
            g.b = t->x->data;
            g.ldb = t->x->ld * t->stride;
        } else {
            lay_rows(s, t, room->columns, first, g.k);
        }
        g.beta = first ? 1.0f : 0.0f;
        g.c = room->sums;
        int rc = cuda_gemm(s, &g, err);
        if (rc)
            return rc;
    }
    return 0;
}

int taps_gradient(struct stream *s, const struct taps *t, const struct tensor *other, const struct tensor *dw, void *base,
                  struct err *err) {
    struct gradient_room room;
    struct cuda_gemm g = {};
    g.trans_a = true;
    g.bf16 = t->x->dtype == DTYPE_BF16;
    g.m = dw->dim[0];
    g.n = g.ldb = g.ldc = t->pitch;
    gradient_room(t, other, base, &room);
    struct tensor with = aligned_of(other, room.aligned);
    if (!rows_suit(other))
        copy_rows(s, other, with.ld, room.aligned);
    int rc = t->way == TAPS_STRIDED ? strided_gradient(s, t, &with, &room, g, err) : summed_gradient(s, t, &with, &room, g, err);
    if (rc)
        return rc;
    taps_unpack(s, room.sums, room.parts, t->pitch, t->width, dw);
    return 0;
}
