/* op_geodesic: one launch for a step's whole forward and backward pass. A block of threads takes one wavelength of one group: the
 * metric at the nodes, lengths, all paths (forward, then forward again with gradients, tile by tile), the metric's gradient. The
 * formulas are those of kernels/cpu/geodesic_cells.h. Sums run in fixed order; each block's partial gradients are added in order
 * (+=). */
#include "kernels/cuda/geodesic_mlp.cuh"

enum { MAX_NODES = (GEODESIC_MAX_KNOTS - 1) * GEODESIC_MAX_ORDER, MAX_PAIRS = GEODESIC_MAX_KNOTS * (GEODESIC_MAX_KNOTS - 1) };

struct geodesic_job {
    struct geodesic_rule rule;
    const float *params, *metric_w2t, *head_w2t, *knots, *wavelengths, *spectra;
    const int32_t *rows;
    const struct geodesic_pair *pairs;
    float *prediction, *partial;
    double *losses; /* two of each block */
    int64_t ld, n_rows, width, n_pairs, count, metric_count;
    int n_knots, nodes, order;
    float floor, smoothness;
    bool flow, training;
};

/* What a block knows of its wavelength. */
struct geodesic_shared {
    struct mlp_shared m;
    float c[MAX_NODES], weight[MAX_NODES], w[MAX_NODES], slope[MAX_NODES], dw[MAX_NODES];
    float length[GEODESIC_MAX_KNOTS], dlength[GEODESIC_MAX_KNOTS];
    float value[MAX_PAIRS];             /* of each pair: the prediction, then 2·difference·scale */
    int pair[MLP_ROWS], node[MLP_ROWS]; /* of each row of the tile; −1: none */
    float s[MLP_ROWS], mean[MLP_ROWS], r[MLP_ROWS];
    int narrowest[MLP_ROWS];
    int next_pair, next_node;
};

struct path_ends {
    int low, high;
    float sign;
};
static __device__ struct path_ends ends_of(const struct geodesic_job &j, int pair) {
    struct geodesic_pair p = j.pairs[pair];
    struct path_ends e = {p.from < p.to ? p.from : p.to, p.from < p.to ? p.to : p.from, p.from < p.to ? 1.0f : -1.0f};
    return e;
}

/* The tile's rows from where the walk stands: a node each of the cells that a pair spans, or a pair each. Thread 0. */
static __device__ void walk(const struct geodesic_job &j, struct geodesic_shared &g) {
    for (int r = 0; r < MLP_ROWS; r++) {
        bool more = g.next_pair < j.n_pairs;
        g.pair[r] = more ? g.next_pair : -1;
        g.node[r] = 0;
        if (!more)
            continue;
        struct path_ends e = ends_of(j, g.next_pair);
        if (g.next_node < 0)
            g.next_node = e.low * j.order;
        g.node[r] = g.next_node++;
        if (!j.flow || g.next_node == e.high * j.order) {
            g.next_pair++;
            g.next_node = -1;
        }
    }
}

static __device__ void path_inputs(const struct geodesic_job &j, struct geodesic_shared &g, const float *knots, float wavelength,
                                   int r) {
    if (g.pair[r] < 0) {
        for (int k = 0; k < 5; k++)
            g.m.x[k][r] = 0;
        g.s[r] = 1;
        return;
    }
    struct path_ends e = ends_of(j, g.pair[r]);
    float s = 0, mean = 0;
    int narrowest = e.low * j.order;
    for (int k = e.low; k < e.high; k++)
        s += g.length[k];
    for (int q = e.low * j.order; !j.flow && q < e.high * j.order; q++) {
        mean += g.weight[q] * g.w[q] * g.c[q];
        narrowest = g.w[q] < g.w[narrowest] ? q : narrowest;
    }
    mean /= s;
    g.s[r] = s;
    g.mean[r] = mean;
    g.narrowest[r] = narrowest;
    int q = g.node[r], to = j.pairs[g.pair[r]].to;
    g.m.x[0][r] = j.flow ? g.c[q] : knots[to];
    g.m.x[1][r] = j.flow ? e.sign * s / g.w[q] : mean;
    g.m.x[2][r] = j.flow ? wavelength : knots[e.high] - knots[e.low];
    g.m.x[3][r] = s / g.w[narrowest];
    g.m.x[4][r] = wavelength;
}

/* The next tile of paths: rows, inputs, the head's values. false: there is none. */
template <bool X3>
static __device__ bool next_tile(const struct geodesic_job &j, struct geodesic_shared &g, struct mlp_weights head,
                                 const float *knots, float wavelength) {
    bool more = g.next_pair < j.n_pairs;
    __syncthreads();
    if (!more)
        return false;
    if (threadIdx.x == 0)
        walk(j, g);
    __syncthreads();
    if (threadIdx.x < MLP_ROWS)
        path_inputs(j, g, knots, wavelength, (int)threadIdx.x);
    __syncthreads();
    mlp_tile_forward<64, 128, X3>(head, g.m, MLP_ROWS);
    return true;
}

static __device__ void rewind(struct geodesic_shared &g) {
    if (threadIdx.x == 0) {
        g.next_pair = 0;
        g.next_node = -1;
    }
    __syncthreads();
}

/* Predictions of all pairs, and, training, their differences; thread 0 returns the sum of squares. */
template <bool X3>
static __device__ double paths_forward(const struct geodesic_job &j, struct geodesic_shared &g, struct mlp_weights head,
                                       const float *knots, float wavelength, const float *spectra) {
    int64_t group = blockIdx.y, at = blockIdx.x;
    double squares = 0;
    for (int m = (int)threadIdx.x; m < j.n_pairs; m += MLP_THREADS)
        g.value[m] = 0;
    rewind(g);
    while (next_tile<X3>(j, g, head, knots, wavelength)) {
        if (threadIdx.x == 0)
            for (int r = 0; r < MLP_ROWS; r++)
                if (g.pair[r] >= 0)
                    g.value[g.pair[r]] += j.flow ? g.m.y[r] * g.weight[g.node[r]] * g.w[g.node[r]] / g.s[r] : g.m.y[r];
        __syncthreads();
    }
    for (int m = (int)threadIdx.x; m < j.n_pairs; m += MLP_THREADS) {
        if (j.flow)
            g.value[m] += spectra[j.pairs[m].from * j.width];
        if (j.prediction)
            j.prediction[(group * j.n_pairs + m) * j.n_rows + at] = g.value[m];
        if (j.losses)
            g.value[m] -= spectra[j.pairs[m].to * j.width];
    }
    __syncthreads();
    if (j.losses && threadIdx.x == 0)
        for (int m = 0; m < j.n_pairs; m++)
            squares += (double)g.value[m] * (double)g.value[m];
    __syncthreads();
    return squares;
}

/* A tile's share of dw and dlength, from the head's dy and dx; a node and a cell belong to one thread each. */
static __device__ void collect(const struct geodesic_job &j, struct geodesic_shared &g) {
    int tid = (int)threadIdx.x;
    if (tid < MLP_ROWS)
        g.r[tid] = g.m.dy[tid] * g.m.y[tid] - g.m.x[1][tid] * g.m.dx[1][tid];
    __syncthreads();
    for (int r = 0; r < MLP_ROWS; r++) {
        if (g.pair[r] < 0)
            continue;
        struct path_ends e = ends_of(j, g.pair[r]);
        float narrow = j.flow ? 1.0f : g.w[g.narrowest[r]];
        if (tid < j.nodes && j.flow && tid == g.node[r])
            g.dw[tid] += g.r[r] / g.w[tid];
        if (tid < j.nodes && !j.flow && tid >= e.low * j.order && tid < e.high * j.order) {
            g.dw[tid] += g.m.dx[1][r] / g.s[r] * g.weight[tid] * (g.c[tid] - g.mean[r]);
            if (tid == g.narrowest[r])
                g.dw[tid] -= g.m.dx[3][r] * g.s[r] / (narrow * narrow);
        }
        if (tid >= e.low && tid < e.high)
            g.dlength[tid] += j.flow ? -g.r[r] / g.s[r] : g.m.dx[3][r] / narrow;
    }
    __syncthreads();
}

template <bool X3>
static __device__ void paths_backward(const struct geodesic_job &j, struct geodesic_shared &g, struct mlp_weights head,
                                      const float *knots, float wavelength, float *sums) {
    float scale = (float)(2.0 / ((double)j.n_pairs * (double)j.n_rows));
    bool first = true;
    rewind(g);
    while (next_tile<X3>(j, g, head, knots, wavelength)) {
        if (threadIdx.x < MLP_ROWS) {
            int r = (int)threadIdx.x, q = g.node[r];
            float dt = j.flow ? g.weight[q] * g.w[q] / g.s[r] : 1.0f;
            g.m.dy[r] = g.pair[r] < 0 ? 0.0f : g.value[g.pair[r]] * scale * dt;
        }
        __syncthreads();
        mlp_tile_backward<64, 128, X3>(head, g.m, MLP_ROWS, sums, first, true);
        collect(j, g);
        first = false;
    }
}

/* The metric's tile of nodes from `first` on. */
template <bool X3>
static __device__ void metric_tile(const struct geodesic_job &j, struct geodesic_shared &g, struct mlp_weights metric,
                                   float wavelength, int first) {
    int tid = (int)threadIdx.x;
    if (tid < MLP_ROWS) {
        g.m.x[0][tid] = first + tid < j.nodes ? g.c[first + tid] : 0.0f;
        g.m.x[1][tid] = wavelength;
    }
    __syncthreads();
    mlp_tile_forward<128, 256, X3>(metric, g.m, MLP_ROWS);
}

template <bool X3>
static __device__ void measure(const struct geodesic_job &j, struct geodesic_shared &g, struct mlp_weights metric,
                               const float *knots, float wavelength) {
    int tid = (int)threadIdx.x;
    if (tid < j.nodes) {
        double low = (double)knots[tid / j.order], width = (double)knots[tid / j.order + 1] - low;
        g.c[tid] = (float)(low + width * j.rule.node[tid % j.order]);
        g.weight[tid] = (float)(width * j.rule.weight[tid % j.order]);
        g.dw[tid] = 0;
    }
    __syncthreads();
    for (int first = 0; first < j.nodes; first += MLP_ROWS) {
        metric_tile<X3>(j, g, metric, wavelength, first);
        if (tid < MLP_ROWS && first + tid < j.nodes) {
            float z = g.m.y[tid], w = sqrtf(fmaxf(z, 0.0f) + log1pf(expf(-fabsf(z))) + j.floor);
            g.w[first + tid] = w;
            g.slope[first + tid] = sigmoid_of(z) / (2.0f * w);
        }
        __syncthreads();
    }
    if (tid < j.n_knots - 1) {
        float sum = 0;
        for (int q = tid * j.order; q < (tid + 1) * j.order; q++)
            sum += g.weight[q] * g.w[q];
        g.length[tid] = sum;
        g.dlength[tid] = 0;
    }
    __syncthreads();
}

/* Thread 0 returns the sum of the squared second differences of ln w, and adds their gradient to dw. */
static __device__ double roughness(const struct geodesic_job &j, struct geodesic_shared &g) {
    double sum = 0;
    float scale = j.nodes > 2 ? j.smoothness / ((float)(j.nodes - 2) * (float)j.n_rows) : 0.0f;
    if (threadIdx.x == 0)
        for (int q = 1; q + 1 < j.nodes; q++) {
            float up = g.c[q + 1] - g.c[q], down = g.c[q] - g.c[q - 1], wide = 2.0f / (up + down);
            float d = (logf(g.w[q + 1] / g.w[q]) / up - logf(g.w[q] / g.w[q - 1]) / down) * wide, r = 2.0f * scale * d * wide;
            sum += (double)d * (double)d;
            g.dw[q + 1] += r / up / g.w[q + 1];
            g.dw[q] -= r * (1.0f / up + 1.0f / down) / g.w[q];
            g.dw[q - 1] += r / down / g.w[q - 1];
        }
    __syncthreads();
    return sum;
}

template <bool X3>
static __device__ void metric_backward(const struct geodesic_job &j, struct geodesic_shared &g, struct mlp_weights metric,
                                       float wavelength, float *sums) {
    int tid = (int)threadIdx.x;
    for (int first = 0; first < j.nodes; first += MLP_ROWS) {
        metric_tile<X3>(j, g, metric, wavelength, first);
        if (tid < MLP_ROWS) {
            int q = first + tid;
            g.m.dy[tid] = q < j.nodes ? (g.dw[q] + g.weight[q] * g.dlength[q / j.order]) * g.slope[q] : 0.0f;
        }
        __syncthreads();
        mlp_tile_backward<128, 256, X3>(metric, g.m, MLP_ROWS, sums, first == 0, false);
    }
}

template <bool X3> static __global__ void __launch_bounds__(MLP_THREADS, 2) geodesic_kernel(struct geodesic_job j) {
    __shared__ struct geodesic_shared g;
    int64_t group = blockIdx.y, at = blockIdx.x, block = group * j.n_rows + at;
    struct mlp_shape metric_shape = {2, 128, 256}, head_shape = {j.flow ? 3 : 5, 64, 128};
    const float *row = j.params + group * j.ld, *knots = j.knots + group * j.n_knots;
    const float *spectra = j.spectra + group * j.n_knots * j.width + j.rows[at];
    struct mlp_weights metric = mlp_weights_of(metric_shape, row, j.metric_w2t + group * 128 * 256);
    struct mlp_weights head = mlp_weights_of(head_shape, row + j.metric_count, j.head_w2t + group * 64 * 128);
    float wavelength = j.wavelengths[j.rows[at]];
    measure<X3>(j, g, metric, knots, wavelength);
    double squares = paths_forward<X3>(j, g, head, knots, wavelength, spectra), rough = 0;
    if (j.training)
        paths_backward<X3>(j, g, head, knots, wavelength, j.partial + block * j.count + j.metric_count);
    if (j.losses)
        rough = roughness(j, g);
    if (j.training)
        metric_backward<X3>(j, g, metric, wavelength, j.partial + block * j.count);
    if (j.losses && threadIdx.x == 0) {
        j.losses[2 * block] = squares;
        j.losses[2 * block + 1] = rough;
    }
}

static __global__ void add_losses(const double *losses, int64_t blocks, double *out) {
    int64_t group = blockIdx.x;
    if (threadIdx.x >= 2)
        return;
    double sum = 0;
    for (int64_t b = 0; b < blocks; b++)
        sum += losses[2 * (group * blocks + b) + threadIdx.x];
    out[2 * group + threadIdx.x] = sum;
}

static struct geodesic_job job_of(const struct geodesic_args *a) {
    struct geodesic_job j = {};
    geodesic_rule_of(a->order, &j.rule);
    j.params = (const float *)a->params.data;
    j.ld = a->params.ld;
    j.knots = (const float *)a->knots.data;
    j.wavelengths = (const float *)a->wavelengths.data;
    j.spectra = (const float *)a->spectra.data;
    j.prediction = (float *)a->prediction.data;
    j.rows = a->rows;
    j.pairs = a->pairs;
    j.n_rows = a->n_rows;
    j.width = a->wavelengths.dim[0];
    j.n_pairs = a->n_pairs;
    j.count = a->params.dim[1];
    j.metric_count = mlp_count(GEODESIC_METRIC);
    j.n_knots = (int)a->knots.dim[1];
    j.order = a->order;
    j.nodes = (j.n_knots - 1) * a->order;
    j.floor = a->floor;
    j.smoothness = a->smoothness;
    j.flow = a->head == GEODESIC_FLOW;
    j.training = a->grads.data != NULL;
    return j;
}

extern "C" int cuda_geodesic(struct stream *s, const struct geodesic_args *a, struct err *err) {
    struct geodesic_job j = job_of(a);
    struct mlp_shape metric = GEODESIC_METRIC, head = geodesic_head_shape(a->head);
    int64_t groups = a->params.dim[0], blocks = groups * a->n_rows;
    struct cuda_area area = {};
    for (int pass = 0; pass < 2; pass++) {
        area.used = 0;
        j.metric_w2t = (const float *)cuda_take(&area, (size_t)(groups * metric.hidden1 * metric.hidden2) * sizeof(float));
        j.head_w2t = (const float *)cuda_take(&area, (size_t)(groups * head.hidden1 * head.hidden2) * sizeof(float));
        double *losses = (double *)cuda_take(&area, (size_t)blocks * 2 * sizeof(double));
        j.losses = a->loss ? losses : NULL;
        j.partial = (float *)cuda_take(&area, j.training ? (size_t)(blocks * j.count) * sizeof(float) : 0);
        int rc = pass ? 0 : cuda_scratch(s, area.used, (void **)&area.base, err);
        if (rc)
            return rc;
    }
    cudaStream_t stream = cuda_stream(s)->stream;
    mlp_transpose(s, metric, j.params, j.ld, groups, (float *)j.metric_w2t);
    mlp_transpose(s, head, j.params + mlp_count(metric), j.ld, groups, (float *)j.head_w2t);
    dim3 grid((unsigned)a->n_rows, (unsigned)groups);
    if (a->bf16x3)
        CUDA_LAUNCH(geodesic_kernel<true>, grid, MLP_THREADS, stream, j);
    else
        CUDA_LAUNCH(geodesic_kernel<false>, grid, MLP_THREADS, stream, j);
    if (a->loss)
        CUDA_LAUNCH(add_losses, (unsigned)groups, 32, stream, (const double *)j.losses, a->n_rows, a->loss);
    if (j.training)
        geodesic_add(s, j.partial, a->n_rows, j.count, groups, (float *)a->grads.data, a->grads.ld);
    return 0;
}
