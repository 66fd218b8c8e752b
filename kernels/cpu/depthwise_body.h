/* depthwise_body: y[t,c] = act(bias[c] + Σ_k w[k,c]·x[t + k − pad, c]) and its gradients. Reverse is the same sum with the taps
 * flipped (the caller packs them so), only the carried state then lies at the other end. A tap outside the row reads the
 * carried state or zero; a tap in another segment reads zero. Interior rows take the path without questions. */
#pragma once
#include "kernels/cpu/scan_job.h"
#include "kernels/cpu/scan_simd.h"

enum {
    DEPTHWISE_TILE = 16,   /* time steps of a backward tile */
    DEPTHWISE_RING = 32,   /* rows of gp kept: a tile and K − 1 before it */
    DEPTHWISE_AT_ONCE = 4, /* outputs that share their loads */
};

static int64_t row_length(const struct depthwise_job *j, int64_t row) { return j->lengths ? j->lengths[row] : j->length; }

/* True if tokens t and u belong to one segment. They may lie outside the row, in the carried state. */
static bool same_segment(const struct depthwise_job *j, int64_t row, int64_t t, int64_t u) {
    if (!j->resets)
        return true;
    int64_t low = t < u ? t : u, high = t < u ? u : t, len = row_length(j, row);
    for (int64_t i = low + 1 < 0 ? 0 : low + 1; i <= high && i < len; i++)
        if (j->resets[row * j->length + i])
            return false;
    return true;
}

/* Row of the carried state that stands for time u outside [0, len), or −1. */
static int64_t state_row(const struct depthwise_job *j, int64_t row, int64_t u) {
    int64_t len = row_length(j, row), i = j->reverse ? j->taps - 2 - (u - len) : u + j->taps - 1;
    bool outside = j->reverse ? u >= len : u < 0;
    return outside && i >= 0 && i < j->taps - 1 ? i : -1;
}

/* Input at time u as output t sees it. */
static vf tap_at(const struct depthwise_job *j, int64_t row, int64_t t, int64_t u, int64_t c) {
    int64_t left = j->channels - c;
    if (!same_segment(j, row, t, u))
        return (vf){0};
    if (u >= 0 && u < row_length(j, row))
        return act_load(j->x.data, j->bf16, (row * j->length + u) * j->x.row + c, left);
    int64_t i = state_row(j, row, u);
    if (i < 0 || !j->state0)
        return (vf){0};
    return act_load(j->state0, false, (row * (j->taps - 1) + i) * j->channels + c, left);
}

static vf sum_taps_careful(const struct depthwise_job *j, int64_t row, int64_t t, int64_t c) {
    vf sum = j->bias ? act_load(j->bias, false, c, j->channels - c) : (vf){0};
    for (int k = 0; k < j->taps; k++)
        sum += act_load(j->w, false, k * j->channels + c, j->channels - c) * tap_at(j, row, t, t + k - j->pad, c);
    return sum;
}

/* True if `DEPTHWISE_AT_ONCE` outputs from t on lie in the row, and all that they read. */
static bool reads_inside(const struct depthwise_job *j, int64_t len, int64_t t) {
    int64_t last = t + DEPTHWISE_AT_ONCE - 1, read = last + j->taps - 1 - j->pad;
    return !j->resets && t - j->pad >= 0 && read < len && last < len;
}

/* `DEPTHWISE_AT_ONCE` interior outputs from t on. */
INLINE void sum_taps(const struct depthwise_job *j, int64_t row, int64_t t, int64_t c, const int taps, const bool bf16,
                     vf ret[DEPTHWISE_AT_ONCE]) {
    int64_t left = j->channels - c, at = (row * j->length + t - j->pad) * j->x.row + c;
    vf bias = j->bias ? act_load(j->bias, false, c, left) : (vf){0}, w[8];
#pragma GCC unroll 8
    for (int k = 0; k < taps; k++)
        w[k] = act_load(j->w, false, k * j->channels + c, left);
#pragma GCC unroll 4
    for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
        ret[r] = bias;
#pragma GCC unroll 11
    for (int i = 0; i < taps + DEPTHWISE_AT_ONCE - 1; i++) {
        vf x = act_load(j->x.data, bf16, at + i * j->x.row, left);
#pragma GCC unroll 4
        for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
            if (i - r >= 0 && i - r < taps)
                ret[r] += w[i - r] * x;
    }
}

INLINE void outputs_inside(const struct depthwise_job *job, int64_t row, int64_t t, const int taps, const bool bf16) {
    const struct depthwise_job own = *job, *j = &own; /* so that no store can be thought to change it */
    for (int64_t c = 0; c < j->channels; c += VW) {
        vf sum[DEPTHWISE_AT_ONCE];
        sum_taps(j, row, t, c, taps, bf16, sum);
#pragma GCC unroll 4
        for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
            act_store(j->y.data, bf16, (row * j->length + t + r) * j->y.row + c, j->channels - c,
                      j->silu ? vf_silu(sum[r]) : sum[r]);
    }
}

static void output_careful(const struct depthwise_job *j, int64_t row, int64_t t) {
    bool inside = t < row_length(j, row);
    for (int64_t c = 0; c < j->channels; c += VW) {
        vf y = inside ? sum_taps_careful(j, row, t, c) : (vf){0};
        if (inside && j->silu)
            y = vf_silu(y);
        act_store(j->y.data, j->bf16, (row * j->length + t) * j->y.row + c, j->channels - c, y);
    }
}

/* call(j->taps): known to the compiler, so that taps stay in registers. */
#define WITH_TAPS(j, call)                                                                                                         \
    switch ((j)->taps) {                                                                                                           \
    case 1:                                                                                                                        \
        call(1);                                                                                                                   \
        break;                                                                                                                     \
    case 2:                                                                                                                        \
        call(2);                                                                                                                   \
        break;                                                                                                                     \
    case 3:                                                                                                                        \
        call(3);                                                                                                                   \
        break;                                                                                                                     \
    case 4:                                                                                                                        \
        call(4);                                                                                                                   \
        break;                                                                                                                     \
    case 5:                                                                                                                        \
        call(5);                                                                                                                   \
        break;                                                                                                                     \
    case 6:                                                                                                                        \
        call(6);                                                                                                                   \
        break;                                                                                                                     \
    case 7:                                                                                                                        \
        call(7);                                                                                                                   \
        break;                                                                                                                     \
    default:                                                                                                                       \
        call(8);                                                                                                                   \
        break;                                                                                                                     \
    }

static void outputs_fast(const struct depthwise_job *j, int64_t row, int64_t t) {
#define CALL(taps)                                                                                                                 \
    if (j->bf16)                                                                                                                   \
        outputs_inside(j, row, t, taps, true);                                                                                     \
    else                                                                                                                           \
        outputs_inside(j, row, t, taps, false)
    WITH_TAPS(j, CALL)
#undef CALL
}

/* Time of row i of the final state: the last K−1 inputs in processing order; may lie outside the row. */
static int64_t state_time(const struct depthwise_job *j, int64_t row, int64_t i) {
    int64_t step = row_length(j, row) - (j->taps - 1) + i;
    return j->reverse ? row_length(j, row) - 1 - step : step;
}

static void write_state(const struct depthwise_job *j, int64_t row) {
    int64_t last = j->reverse ? 0 : row_length(j, row) - 1;
    for (int64_t i = 0; i < j->taps - 1; i++)
        for (int64_t c = 0; c < j->channels; c += VW)
            act_store(j->state, false, (row * (j->taps - 1) + i) * j->channels + c, j->channels - c,
                      tap_at(j, row, last, state_time(j, row, i), c));
}

/* Item: batch row × a stretch of DEPTHWISE_ROWS time steps. */
static void depthwise_item(const void *ctx, int64_t item, int lane) {
    const struct depthwise_job *j = ((const struct scan_lanes *)ctx)->job;
    (void)lane;
    int64_t per_row = (j->length + DEPTHWISE_ROWS - 1) / DEPTHWISE_ROWS, row = item / per_row, t = item % per_row * DEPTHWISE_ROWS;
    int64_t end = t + DEPTHWISE_ROWS < j->length ? t + DEPTHWISE_ROWS : j->length, len = row_length(j, row);
    bool first = t == 0;
    while (t < end) {
        bool inside = t + DEPTHWISE_AT_ONCE <= end && reads_inside(j, len, t);
        if (inside)
            outputs_fast(j, row, t);
        else
            output_careful(j, row, t);
        t += inside ? DEPTHWISE_AT_ONCE : 1;
    }
    if (first && j->state) /* after the outputs that read state0, which may be the same memory */
        write_state(j, row);
}

static size_t depthwise_bytes(const struct depthwise_job *j) {
    (void)j;
    return (size_t)DEPTHWISE_RING * DEPTHWISE_BLOCK * sizeof(float);
}

/* Where the gradients of one vector of channels go: shares of dw and dbias, and gp = dy·act'(pre) in the ring. */
struct gradient_sums {
    float *w, *bias, *ring;
};

/* `DEPTHWISE_AT_ONCE` interior times from t on. */
INLINE void gradients_inside(const struct depthwise_job *j, int64_t row, int64_t t, int64_t c, const int taps, const bool bf16,
                             vf dw[8], vf *db, float *ring) {
    int64_t left = j->channels - c, at = (row * j->length + t - j->pad) * j->x.row + c;
    vf g[DEPTHWISE_AT_ONCE], pre[DEPTHWISE_AT_ONCE];
#pragma GCC unroll 4
    for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
        g[r] = act_load(j->dy.data, bf16, (row * j->length + t + r) * j->dy.row + c, left);
#pragma GCC unroll 4
    for (int r = 0; r < DEPTHWISE_AT_ONCE; r++) { /* rows of a tile lie too far apart for the processor to see them coming */
        int64_t next = row * j->length + t + r + DEPTHWISE_TILE;
        __builtin_prefetch(act_address(j->dy.data, bf16, next * j->dy.row + c));
        __builtin_prefetch(act_address(j->x.data, bf16, next * j->x.row + c));
    }
    if (j->silu) {
        sum_taps(j, row, t, c, taps, bf16, pre);
#pragma GCC unroll 4
        for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
            g[r] *= vf_silu_grad(pre[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < DEPTHWISE_AT_ONCE; r++) {
        *db += g[r];
        vf_store(ring + (t + r) % DEPTHWISE_RING * DEPTHWISE_BLOCK, g[r]);
    }
#pragma GCC unroll 11
    for (int i = 0; i < taps + DEPTHWISE_AT_ONCE - 1; i++) {
        vf x = act_load(j->x.data, bf16, at + i * j->x.row, left);
#pragma GCC unroll 4
        for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
            if (i - r >= 0 && i - r < taps)
                dw[i - r] += g[r] * x;
    }
}

static vf gradient_careful(const struct depthwise_job *j, int64_t row, int64_t t, int64_t c) {
    vf g = act_load(j->dy.data, j->bf16, (row * j->length + t) * j->dy.row + c, j->channels - c);
    return j->silu ? g * vf_silu_grad(sum_taps_careful(j, row, t, c)) : g;
}

/* One vector for the times of a tile. */
INLINE void pre_gradients(const struct depthwise_job *j, int64_t row, const int64_t times[2], int64_t c,
                          const struct gradient_sums *to, const int taps, const bool bf16) {
    const struct depthwise_job own = *j; /* so that no store can be thought to change it */
    int64_t left = j->channels - c, len = row_length(j, row);
    float *const ring = to->ring;
    vf dw[8], db = act_load(to->bias, false, c, left);
#pragma GCC unroll 8
    for (int k = 0; k < taps; k++)
        dw[k] = act_load(to->w, false, k * j->channels + c, left);
    for (int64_t t = times[0]; t < times[1];) {
        if (t + DEPTHWISE_AT_ONCE <= times[1] && reads_inside(j, len, t)) {
            gradients_inside(&own, row, t, c, taps, bf16, dw, &db, ring);
            t += DEPTHWISE_AT_ONCE;
            continue;
        }
        vf g = gradient_careful(j, row, t, c);
#pragma GCC unroll 8
        for (int k = 0; k < taps; k++)
            dw[k] += g * tap_at(j, row, t, t + k - j->pad, c);
        db += g;
        vf_store(ring + t % DEPTHWISE_RING * DEPTHWISE_BLOCK, g);
        t++;
    }
    act_store(to->bias, false, c, left, db);
#pragma GCC unroll 8
    for (int k = 0; k < taps; k++)
        act_store(to->w, false, k * j->channels + c, left, dw[k]);
}

static void pre_gradients_tile(const struct depthwise_job *j, int64_t row, const int64_t times[2], int64_t c,
                               const struct gradient_sums *to) {
#define CALL(taps)                                                                                                                 \
    if (j->bf16)                                                                                                                   \
        pre_gradients(j, row, times, c, to, taps, true);                                                                           \
    else                                                                                                                           \
        pre_gradients(j, row, times, c, to, taps, false)
    WITH_TAPS(j, CALL)
#undef CALL
}

/* Gradient of the input at time u (inside the row or in the carried state). */
static vf input_gradient(const struct depthwise_job *j, int64_t row, int64_t u, int64_t c, const float *ring_column) {
    int64_t len = row_length(j, row), left = j->channels - c, last = j->reverse ? 0 : len - 1;
    vf g = {0};
    for (int k = 0; k < j->taps; k++) {
        int64_t t = u - k + j->pad;
        if (t >= 0 && t < len && same_segment(j, row, t, u))
            g += act_load(j->w, false, k * j->channels + c, left) * vf_load(ring_column + t % DEPTHWISE_RING * DEPTHWISE_BLOCK);
    }
    int64_t step = j->reverse ? len - 1 - u : u,
            i = step - (len - (j->taps - 1)); /* row of the final state that holds this input */
    if (j->dstate && i >= 0 && i < j->taps - 1 && same_segment(j, row, last, u))
        g += act_load(j->dstate, false, (row * (j->taps - 1) + i) * j->channels + c, left);
    return g;
}

/* True if inputs u to u + `DEPTHWISE_AT_ONCE` − 1 are read only by outputs inside the row. */
static bool read_inside(const struct depthwise_job *j, int64_t len, int64_t u) {
    int64_t first = u - (j->taps - 1) + j->pad, last = u + DEPTHWISE_AT_ONCE - 1;
    return !j->resets && !j->dstate && first >= 0 && last + j->pad < len && u >= 0 && last < len;
}

/* Their gradients. */
INLINE void inputs_inside(const struct depthwise_job *job, int64_t row, int64_t u, const int64_t channels[2], const float *ring,
                          const int taps) {
    const struct depthwise_job own = *job, *j = &own; /* so that no store can be thought to change it */
    for (int64_t c = channels[0]; c < channels[1]; c += VW) {
        vf g[DEPTHWISE_AT_ONCE] = {{0}}, w[8];
#pragma GCC unroll 8
        for (int k = 0; k < taps; k++)
            w[k] = act_load(j->w, false, k * j->channels + c, channels[1] - c);
#pragma GCC unroll 11
        for (int i = taps + DEPTHWISE_AT_ONCE - 2; i >= 0; i--) { /* downwards: each sum begins with its first tap */
            int64_t t = u + i - (taps - 1) + j->pad;
            vf gp = vf_load(ring + t % DEPTHWISE_RING * DEPTHWISE_BLOCK + (c - channels[0]));
#pragma GCC unroll 4
            for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
                if (r + taps - 1 - i >= 0 && r + taps - 1 - i < taps)
                    g[r] += w[r + taps - 1 - i] * gp;
        }
#pragma GCC unroll 4
        for (int r = 0; r < DEPTHWISE_AT_ONCE; r++)
            act_store(j->dx.data, j->bf16, (row * j->length + u + r) * j->dx.row + c, channels[1] - c, g[r]);
    }
}

static void inputs_careful(const struct depthwise_job *j, int64_t row, int64_t u, const int64_t channels[2], const float *ring) {
    int64_t carried = state_row(j, row, u);
    bool inside = u >= 0 && u < row_length(j, row);
    if (!(inside && j->dx.data) && !(carried >= 0 && j->dstate0))
        return;
    for (int64_t c = channels[0]; c < channels[1]; c += VW) {
        vf g = input_gradient(j, row, u, c, ring + (c - channels[0]));
        if (inside)
            act_store(j->dx.data, j->bf16, (row * j->length + u) * j->dx.row + c, channels[1] - c, g);
        else
            act_store(j->dstate0, false, (row * (j->taps - 1) + carried) * j->channels + c, channels[1] - c, g);
    }
}

static void input_gradients(const struct depthwise_job *j, int64_t row, const int64_t times[2], const int64_t channels[2],
                            const float *ring) {
    for (int64_t u = times[0]; u < times[1];) {
        bool inside = j->dx.data && u + DEPTHWISE_AT_ONCE <= times[1] && read_inside(j, row_length(j, row), u);
#define CALL(taps) inputs_inside(j, row, u, channels, ring, taps)
        if (inside)
            WITH_TAPS(j, CALL)
        else
            inputs_careful(j, row, u, channels, ring);
#undef CALL
        u += inside ? DEPTHWISE_AT_ONCE : 1;
    }
}

static void depthwise_backward_row(const struct depthwise_job *j, int64_t row, const int64_t channels[2], int64_t slice,
                                   float *ring) {
    int64_t len = row_length(j, row), reach = j->taps - 1, done = -reach;
    for (int64_t t = 0; t < len; t += DEPTHWISE_TILE) {
        int64_t end = t + DEPTHWISE_TILE < len ? t + DEPTHWISE_TILE : len;
        for (int64_t c = channels[0]; c < channels[1]; c += VW) {
            struct gradient_sums to = {j->part_w + slice * j->taps * j->channels, j->part_bias + slice * j->channels,
                                       ring + (c - channels[0])};
            pre_gradients_tile(j, row, (int64_t[]){t, end}, c, &to);
        }
        int64_t ready = end == len ? len + reach : end - j->pad; /* inputs whose last reader has been seen */
        if (ready > done)
            input_gradients(j, row, (int64_t[]){done, ready}, channels, ring);
        done = ready > done ? ready : done;
    }
    if (len == 0)
        input_gradients(j, row, (int64_t[]){-reach, reach}, channels, ring);
    size_t bytes = j->bf16 ? sizeof(uint16_t) : sizeof(float);
    for (int64_t t = len; t < j->length && j->dx.data; t++)
        memset((char *)j->dx.data + (size_t)((row * j->length + t) * j->dx.row + channels[0]) * bytes, 0,
               (size_t)(channels[1] - channels[0]) * bytes);
}

/* Item: slice of the batch × a block of channels. */
static void depthwise_backward_item(const void *ctx, int64_t item, int lane) {
    const struct scan_lanes *w = ctx;
    const struct depthwise_job *j = w->job;
    int64_t blocks = (j->channels + DEPTHWISE_BLOCK - 1) / DEPTHWISE_BLOCK, slice = item / blocks,
            first = item % blocks * DEPTHWISE_BLOCK;
    int64_t channels[2] = {first, first + DEPTHWISE_BLOCK < j->channels ? first + DEPTHWISE_BLOCK : j->channels};
    size_t count = (size_t)(channels[1] - first) * sizeof(float);
    memset(j->part_bias + slice * j->channels + first, 0, count);
    for (int k = 0; k < j->taps; k++)
        memset(j->part_w + (slice * j->taps + k) * j->channels + first, 0, count);
    for (int64_t row = slice * j->batch / j->slices; row < (slice + 1) * j->batch / j->slices; row++)
        depthwise_backward_row(j, row, channels, slice, lane_scratch(w, lane));
}
