/* op: the one table of operations. Each op is validated once here (shape, dtype, device, aliasing), then runs on the
 * stream's backend; the CPU backend is complete and is the reference. Layers are written once over these calls.
 *
 * Letters: B batch, T samples, L tokens, C/D channels, N state, H heads, P head width, K taps. Channel-last
 * (kernels/tensor.h). Unless said otherwise activations are F32 or BF16 (all activations of one call alike),
 * parameters, statistics and states F32, and arithmetic accumulates in F32 or wider.
 * Gradient rule: gradients of activations are written (=), gradients of parameters are accumulated (+=), so
 * micro-batches sum. An absent (data NULL) gradient output is not computed.
 * Determinism: fixed-order reductions; the same inputs give the same bits. On the CPU a forward result of one batch row
 * does not depend on the other rows or on B.
 * Every function: 0 or negative ERR_*; INVALID names op, argument, shape found and shape expected. Asynchronous on
 * CUDA: faults may surface at stream_sync. */
#pragma once
#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "kernels/device.h"
#include "kernels/spike.h"
#include "kernels/tensor.h"

/* ---- convolution and projection -------------------------------------------------------------------------------- */

/* y[b,t,o] = bias[o] + Σ_{i,k} w[o,i,k]·x[b, t·stride + k − pad, i], zero outside; optional ReLU.
 * x (B,T,Ci) · w (Co,Ci,K) in PyTorch order · bias (Co) optional · y (B,To,Co), To = (T + 2·pad − K)/stride + 1; stride 1 or 2.
 * x and y may be channel slices (ld). weight_version: 0 = w may change any time; else the backend may keep a packed copy of w until
 * a call with the same w.data and another version. Two bits, described at the end, say when recorded work may rely on it. */
#define WEIGHTS_CONSTANT ((uint64_t)1 << 63)
struct conv1d_args {
    struct tensor x, w, bias, y;
    int stride, pad;
    bool relu;
    uint64_t weight_version;
};
int op_conv1d(struct stream *s, const struct conv1d_args *a, struct err *err);
/* dy (B,To,Co) → dx (=), dw (+=), dbias (+=). No ReLU here (see op_relu_backward, op_batchnorm_backward). */
struct conv1d_backward_args {
    struct tensor x, w, dy, dx, dw, dbias;
    int stride, pad;
    uint64_t weight_version;
};
int op_conv1d_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err);

/* Transposed convolution, K = stride = 2: y[b,2t+k,o] = bias[o] + Σ_i x[b,t,i]·w[i,o,k]. w (Ci,Co,2), y (B,2T,Co). */
struct convt1d_args {
    struct tensor x, w, bias, y;
    uint64_t weight_version;
};
int op_convt1d(struct stream *s, const struct convt1d_args *a, struct err *err);
struct convt1d_backward_args {
    struct tensor x, w, dy, dx, dw, dbias;
    uint64_t weight_version;
};
int op_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err);

/* y (R,Co) = x (R,Ci)·wᵀ + bias, w (Co,Ci); x, y any rank ≥ 2, rows = product of all but the last dim.
 * accumulate: y += instead of =. */
struct linear_args {
    struct tensor x, w, bias, y;
    bool accumulate;
    uint64_t weight_version;
};
int op_linear(struct stream *s, const struct linear_args *a, struct err *err);
/* accumulate_dx: dx += (two consumers of one activation). */
struct linear_backward_args {
    struct tensor x, w, dy, dx, dw, dbias;
    bool accumulate_dx;
    uint64_t weight_version;
};
int op_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err);

/* Depthwise: y[b,t,c] = act(bias[c] + Σ_k w[c,k]·x[b, t + k − pad_left, c]), zero outside; K 1..8.
 * Causal (Mamba): pad_left = K−1, the last tap meets the newest sample. "Same" (conv mixer): pad_left = K/2.
 * reverse: the sequence is read from the end (equal to flip, op, flip). act = SiLU when silu.
 * w (D,K), bias (D) optional. state0/state (B,K−1,D), optional: the K−1 inputs before/after the block (causal only); the same
 * memory unless reverse. lengths: host array of B row lengths or NULL; beyond a row's length y = 0 and reverse starts at the
 * length. resets (B,L) U8, optional: 1 starts a new segment, taps do not reach across it (reverse: at its other end). */
struct conv1d_depthwise_args {
    struct tensor x, w, bias, y, state0, state, resets;
    int pad_left;
    bool silu, reverse;
    const int32_t *lengths;
};
int op_conv1d_depthwise(struct stream *s, const struct conv1d_depthwise_args *a, struct err *err);
/* dstate0 (=) optional; dstate = gradient of the final state, optional. */
struct conv1d_depthwise_backward_args {
    struct tensor x, w, bias, dy, dx, dw, dbias, state0, dstate0, dstate, resets;
    int pad_left;
    bool silu, reverse;
    const int32_t *lengths;
};
int op_conv1d_depthwise_backward(struct stream *s, const struct conv1d_depthwise_backward_args *a, struct err *err);

/* ---- norms ----------------------------------------------------------------------------------------------------- */

/* Training batch norm over all rows of x (B,T,C): y = (x − m)·rs·weight + bias, optional ReLU; m, rs from biased variance
 * (eps inside the root), written to save_mean, save_rstd (C). running_* (C) F32 are updated in place with `momentum`
 * (running variance unbiased), except in channels whose mean or variance is not finite. y may be a channel slice. y may equal x.
 * leaf_mean, leaf_var (C) F32, optional, both or neither: they receive the mean and the unbiased variance, NaN in such channels,
 * and running_* stay as they are; op_running_statistics applies them later. */
struct batchnorm_args {
    struct tensor x, weight, bias, y, save_mean, save_rstd, running_mean, running_var, leaf_mean, leaf_var;
    float eps, momentum;
    bool relu;
};
int op_batchnorm(struct stream *s, const struct batchnorm_args *a, struct err *err);
/* Running statistics from those of leaves, row by row: running[i] += momentum·(leaves[v,i] − running[i]) for v = 0 to V − 1, except
 * where leaves[v,i] is not finite. running (N), leaves (V,N), F32. The bits of V calls of op_batchnorm without leaf statistics. */
struct running_statistics_args {
    struct tensor running, leaves;
    float momentum;
};
int op_running_statistics(struct stream *s, const struct running_statistics_args *a, struct err *err);
/* y: the forward output, needed only with relu (its mask). dx may equal dy. */
struct batchnorm_backward_args {
    struct tensor x, y, weight, save_mean, save_rstd, dy, dx, dweight, dbias;
    bool relu;
};
int op_batchnorm_backward(struct stream *s, const struct batchnorm_backward_args *a, struct err *err);

/* r = x + residual (residual optional); y = (r − mean r)·rs·weight + bias over the last dim. save_mean, save_rstd (rows).
 * sum (optional output) receives r. */
struct layernorm_args {
    struct tensor x, residual, weight, bias, y, sum, save_mean, save_rstd;
    float eps;
};
int op_layernorm(struct stream *s, const struct layernorm_args *a, struct err *err);
/* sum: r of the forward pass. dx = gradient of r (goes to both x and residual). */
struct layernorm_backward_args {
    struct tensor sum, weight, save_mean, save_rstd, dy, dx, dweight, dbias;
};
int op_layernorm_backward(struct stream *s, const struct layernorm_backward_args *a, struct err *err);

/* Gated RMS norm: q = y·silu(z); out = weight·q·rsqrt(mean(q², within each of `groups` equal channel groups) + eps).
 * save_rstd (rows, groups). */
struct rmsnorm_gated_args {
    struct tensor y, z, weight, out, save_rstd;
    int groups;
    float eps;
};
int op_rmsnorm_gated(struct stream *s, const struct rmsnorm_gated_args *a, struct err *err);
struct rmsnorm_gated_backward_args {
    struct tensor y, z, weight, save_rstd, dout, dy, dz, dweight;
    int groups;
};
int op_rmsnorm_gated_backward(struct stream *s, const struct rmsnorm_gated_backward_args *a, struct err *err);

/* ---- selective scans ------------------------------------------------------------------------------------------- */

/* Mamba-1. u, delta, z, out (B,L,D); A (D,N) negative; Bm, Cm (B,L,G,N) or, as channel slices, (B,L,G·N), channel d uses group
 * d/(D/G); Dskip, dbias (D) optional; z optional (gate silu(z)); h0, hT (B,D,N) F32 optional. N ≤ 256.
 * Δ = softplus(delta + dbias) (or the value itself), clamped to [clamp_lo, clamp_hi] when clamp_hi > 0;
 * a = exp(ΔA); b = Δ·B·u (zoh: Δ·φ(ΔA)·B·u, φ(v) = (e^v − 1)/v); h = a·h + b; y = C·h + Dskip·u; out = y·silu(z).
 * lengths, resets, reverse as in conv1d_depthwise: out is 0 and the state rests past a row's length. */
struct scan1_args {
    struct tensor u, delta, A, Bm, Cm, Dskip, dbias, z, h0, out, hT, resets;
    bool softplus, zoh, reverse;
    float clamp_lo, clamp_hi;
    const int32_t *lengths;
};
int op_scan1(struct stream *s, const struct scan1_args *a, struct err *err);
/* Gradients of everything; dA is the gradient of A itself (dA_log = dA·A). dhT = gradient of hT, optional.
 * du, ddelta, dBm, dCm, dz, dh0 (=); dA, dDskip, ddbias (+=). The forward pass is recomputed in chunks. */
struct scan1_backward_args {
    struct scan1_args fwd; /* out and hT unused */
    struct tensor dout, dhT, du, ddelta, dA, dBm, dCm, dDskip, ddbias, dz, dh0;
};
int op_scan1_backward(struct stream *s, const struct scan1_backward_args *a, struct err *err);

/* Mamba-2 (SSD). x, y (B,L,H·P) with `heads` H; delta (B,L,H); A (H) negative; Bm, Cm (B,L,G·N) with `groups` G;
 * Dskip, dbias (H) optional; h0, hT (B,H·P,N) F32 optional. Δ = softplus(delta + dbias), clamped as in scan1;
 * h = exp(ΔA)·h + (Δ·x) ⊗ B; y = h·C + Dskip·x. reverse: from the end, without a flip. P ≤ 256, N ≤ 256.
 * chunk: 0 = direct recurrence, else the chunked matrix form of that length (the same function; forward only, the gradient is
 * always the direct form's). x, delta, Bm, Cm, y may be channel slices. lengths, resets as in scan1. */
struct ssd_args {
    struct tensor x, delta, A, Bm, Cm, Dskip, dbias, h0, y, hT, resets;
    int heads, groups, chunk;
    bool softplus, reverse;
    float clamp_lo, clamp_hi;
    const int32_t *lengths;
};
int op_ssd(struct stream *s, const struct ssd_args *a, struct err *err);
struct ssd_backward_args {
    struct ssd_args fwd; /* y and hT unused */
    struct tensor dy, dhT, dx, ddelta, dA, dBm, dCm, dDskip, ddbias, dh0;
};
int op_ssd_backward(struct stream *s, const struct ssd_backward_args *a, struct err *err);

/* ---- element-wise ---------------------------------------------------------------------------------------------- */

enum eltwise_kind {
    ELTWISE_COPY,          /* y = a (concatenates through slices; F32 and BF16 may differ: converts) */
    ELTWISE_ADD,           /* y = a + b */
    ELTWISE_ADD_RELU,      /* y = max(a + b, 0) */
    ELTWISE_RELU,          /* y = max(a, 0) */
    ELTWISE_RELU_BACKWARD, /* y = a where b > 0 else 0: a = dy, b = the forward output */
    ELTWISE_SCALE,         /* y = alpha·a */
    ELTWISE_FILL,          /* y = alpha */
    ELTWISE_NEG_EXP,       /* y = −exp(a): A from A_log */
    ELTWISE_MUL_ADD,       /* y += a·b: the gradient of A_log from that of A */
};
/* Shapes equal, slices allowed, y may equal a or b. */
struct eltwise_args {
    enum eltwise_kind kind;
    struct tensor a, b, y;
    float alpha;
};
int op_eltwise(struct stream *s, const struct eltwise_args *a, struct err *err);

/* The position of a training: every value that changes from one micro-batch to the next while addresses, shapes and the other
 * arguments stay the same. Ops read it from device memory, so that recorded work can run at another position. */
struct train_place {
    uint32_t step;                               /* dropout's */
    float loss_scale;                            /* of op_loss */
    int64_t row0;                                /* dropout's: the batch's first row */
    float rate, decay_rate, correct2, ema_decay; /* AdamW's; adamw_place knows the formulas */
};

/* y = x·mask/(1 − p); mask from Philox(seed, stream, step, index): element index, or (b, c) when per_channel (drops whole
 * channels of (B,T,C)). Its own gradient: apply it to dy with the same arguments. p = 0 copies. Row b of the batch
 * draws as row row0 + b, so micro-batches continue one another. place (device memory, optional): its step and row0 hold instead. */
struct dropout_args {
    struct tensor x, y;
    float p;
    bool per_channel;
    uint64_t seed;
    uint32_t rng_stream, step;
    int64_t row0;
    const struct train_place *place;
};
int op_dropout(struct stream *s, const struct dropout_args *a, struct err *err);

/* ---- training -------------------------------------------------------------------------------------------------- */

/* Per-sample loss from logits (B,T) F32 against labels (B,T) U8 in {0,1}; samples t ≥ valid[b] and those with
 * mask (B,T) U8 = 0 (optional) do not count. bce = softplus-stable cross entropy with pos_weight on positives;
 * focal: alpha_t·(1 − p_t)^gamma·bce, alpha_t = alpha for positives, 1 − alpha for negatives, p_t from the logit.
 * sums receives (=) the sum over the counted samples and their number. Labels > 1 do not count either (samples held over a short
 * gap). dlogits (=, optional) is the gradient of sum·scale. place (optional): its loss_scale holds instead of scale.
 * valid (B), sums (2) and place: device memory. */
enum loss_kind { LOSS_BCE, LOSS_FOCAL };
struct loss_args {
    enum loss_kind kind;
    struct tensor logits, labels, mask, dlogits;
    const int32_t *valid;
    float alpha, gamma, pos_weight, scale;
    const struct train_place *place;
    double *sums;
};
int op_loss(struct stream *s, const struct loss_args *a, struct err *err);

/* Sum of squares (F64, fixed order) of x (n), or of each row of x (G,n), to device memory (=); not finite if an element is not. */
struct norm_args {
    struct tensor x;
    double *sum_squares;
};
int op_norm(struct stream *s, const struct norm_args *a, struct err *err);

/* AdamW on F32 arrays of n: m = b1·m + (1−b1)·g; v = b2·v + (1−b2)·g²; p −= lr·(m̂/(√v̂ + eps) + wd·p); g = grad·grad_scale.
 * `decay` (n) U8: 1 where weight decay applies. ema (n) optional: ema = d·ema + (1−d)·p. step from 1. sum_squares (device memory,
 * optional): of grad, as op_norm gives it. If it is not finite nothing changes; else grad_scale is min(1, clip/√sum_squares), or 1
 * when clip is 0. place (device memory, optional): holds instead of lr, weight_decay, ema_decay and step. Arrays may be (G,n), also
 * slices, with one `decay` (n) and a sum_squares for each row: the bits of G calls. */
struct adamw_args {
    struct tensor param, grad, m, v, decay, ema;
    float lr, beta1, beta2, eps, weight_decay, grad_scale, ema_decay;
    int64_t step;
    double clip;
    const double *sum_squares;
    const struct train_place *place;
};
int op_adamw(struct stream *s, const struct adamw_args *a, struct err *err);
/* Fills in AdamW's part of *place from a's lr, weight_decay, betas, ema_decay and step: lr/(1 − b1ᵗ), lr·wd, 1/√(1 − b2ᵗ), d. */
static inline void adamw_place(const struct adamw_args *a, struct train_place *place) {
    place->rate = (float)((double)a->lr / (1.0 - pow((double)a->beta1, (double)a->step)));
    place->decay_rate = a->lr * a->weight_decay;
    place->ema_decay = a->ema_decay;
    place->correct2 = (float)(1.0 / sqrt(1.0 - pow((double)a->beta2, (double)a->step)));
}

/* Probabilities: y = 1/(1 + exp(−x)), F32. */
struct sigmoid_args {
    struct tensor x, y;
};
int op_sigmoid(struct stream *s, const struct sigmoid_args *a, struct err *err);

/* ---- geodesics ------------------------------------------------------------------------------------------------- */

/* A network of two tanh layers: y = b3 + w3·tanh(b2 + w2·tanh(b1 + w1·x)). A row of parameters holds w1 (H1,I), b1, w2 (H2,H1), b2,
 * w3 (H2), b3 in this order. I is 1..MLP_MAX_INPUTS; (H1,H2) is (128,256) or (64,128). */
enum { MLP_MAX_INPUTS = 8 };
struct mlp_shape {
    int in, hidden1, hidden2;
};
static inline int64_t mlp_count(struct mlp_shape n) {
    return (int64_t)n.hidden1 * (n.in + 1) + (int64_t)n.hidden2 * (n.hidden1 + 2) + 1;
}
/* x (G,R,I) · params (G,P), P = mlp_count, may be a slice · y (G,R). tangent (G,R), optional: ∂y/∂x₀. */
struct mlp_args {
    struct mlp_shape shape;
    struct tensor params, x, y, tangent;
};
int op_mlp(struct stream *s, const struct mlp_args *a, struct err *err);
/* dy (G,R) and dtangent (G,R), optional, are the gradients of y and of tangent. dx (G,R,I) (=) optional, dparams (G,P) (+=). */
struct mlp_backward_args {
    struct mlp_shape shape;
    struct tensor params, x, dy, dtangent, dx, dparams;
};
int op_mlp_backward(struct stream *s, const struct mlp_backward_args *a, struct err *err);

/* Spectra transported along geodesics of learned metrics g(c, λ) = softplus(metric(c, λ)) + floor on a line of concentrations, for
 * G independent groups at once. With w = √g the length of a path from knot a to knot b is S = ∫ w dc, its velocity v = ±|S|/w, and
 * time passes as dt = w dc/S, so that no differential equation is solved. Integrals are Gauss–Legendre sums of `order` nodes in
 * each cell between neighbouring knots.
 *
 * GEODESIC_FLOW: A(b) = A(a) + ∫ f(c, v, λ) dt, f an MLP of 3 inputs.
 *
 * GEODESIC_DECODER: A(b) = d(b, c̄, |b − a|, max|v|, λ), d an MLP of 5 inputs; c̄ is the mean over time of c, max|v| that over the
 * nodes.
 *
 * params (G,P): the metric's parameters, then the head's. knots (G,N) ascending, N 2..GEODESIC_MAX_KNOTS. wavelengths (W). spectra
 * (G,N,W): A at the knots; only sources are read unless loss is given. rows: B indices into W. pairs: n_pairs paths. prediction
 * (G,n_pairs,B), optional.
 *
 * loss (G,2), optional (=): the sums of (prediction − target)² and of d², d the second divided differences of ln w over
 * neighbouring nodes. grads (G,P), optional (+=), needs loss: of loss₀/(n_pairs·B) + smoothness·loss₁/((nodes − 2)·B).
 *
 * rows, pairs and loss: device memory. A group's results do not depend on the other groups.
 *
 * bf16x3: products of the hidden layers on tensor cores, each as three of bfloat16, within 2^-16 of it; a CPU does not heed it. */
enum geodesic_head { GEODESIC_FLOW, GEODESIC_DECODER };
enum { GEODESIC_MAX_KNOTS = 32, GEODESIC_MAX_ORDER = 8 };
static const struct mlp_shape GEODESIC_METRIC = {2, 128, 256};
static inline struct mlp_shape geodesic_head_shape(enum geodesic_head head) {
    struct mlp_shape shape = {head == GEODESIC_FLOW ? 3 : 5, 64, 128};
    return shape;
}
struct geodesic_pair {
    int32_t from, to; /* knots, different */
};
struct geodesic_args {
    enum geodesic_head head;
    int order; /* 4, 5, 6 or 8 */
    float floor, smoothness;
    bool bf16x3;
    struct tensor params, knots, wavelengths, spectra, prediction, grads;
    const int32_t *rows;
    int64_t n_rows;
    const struct geodesic_pair *pairs;
    int64_t n_pairs;
    double *loss;
};
int op_geodesic(struct stream *s, const struct geodesic_args *a, struct err *err);

/* ---- data ------------------------------------------------------------------------------------------------------ */

/* Windows out of recordings that lie in device memory as binary16 rows of C channels (µV), with one label a row. Window b begins at
 * row first[b] and has valid[b] ≤ T rows: x = clip((v − m)/max(s, WINDOWS_FLOOR_UV)) per channel, m and s (population) over the
 * valid rows, two passes in double; raw: x = v, for up to WINDOWS_MAX_COLUMNS channels; beyond them x and labels are 0. The same
 * bits on every device, and as lib/windows/window.c gives.
 * rows, row_labels, first, valid: device memory; the caller vouches for first + valid. x (B,T,C) F32, labels (B,T) U8. */
#define WINDOWS_FLOOR_UV 0.1
#define WINDOWS_CLIP     10.0
enum { WINDOWS_MAX_CHANNELS = 64, WINDOWS_MAX_COLUMNS = 5 * 64 + 1, WINDOWS_GROUP = 8 }; /* group: rows whose sums are kept apart */
struct windows_args {
    const uint16_t *rows;
    const uint8_t *row_labels;
    const int64_t *first;
    const int32_t *valid;
    bool raw;
    struct tensor x, labels;
};
int op_windows(struct stream *s, const struct windows_args *a, struct err *err);

/* Training windows are changed in place: the first pad[b] samples of window b become 0 with a label that no loss counts; in the
 * others, inputs c and partner[c] are exchanged if mirrored[b], then input c is multiplied by factor[b][c]. x (B,T,C) F32, labels
 * (B,T) U8, factor (B,C) F32. partner (C), its own inverse; mirrored, pad (B): device memory. C ≤ WINDOWS_MAX_COLUMNS. The same
 * bits on every device. */
enum { AUGMENT_PAD_LABEL = 2 };
struct augment_args {
    struct tensor x, labels, factor;
    const int32_t *partner, *mirrored, *pad;
};
int op_augment(struct stream *s, const struct augment_args *a, struct err *err);

/* ---- post-processing ------------------------------------------------------------------------------------------- */

/* ---- spiking networks ------------------------------------------------------------------------------------------ */

/* One tick of a network (kernels/spike.h): what `before` fired is delivered, injections join, neurons with an input advance. after:
 * the neurons that fired, ascending, and the counts of this tick; its tick is before's + 1. The lists of the two differ in memory.
 * inject_ids: n_inject neurons below n, ascending, each once; inject_sums: in units of 2^-f. No thread count, instruction set or
 * device changes a bit of membranes or lists. */
struct spike_tick_args {
    struct spike_net net;
    struct spike_fired before, after;
    const uint32_t *inject_ids;
    const int64_t *inject_sums;
    int64_t n_inject;
};
int op_spike_tick(struct stream *s, const struct spike_tick_args *a, struct err *err);
/* The lists that ranks have of one tick, in the order of their neurons, become the list of all of them; its counts are the sums.
 * Where psp follows the membrane, a neuron's comes from its list and is kept in psp, else it is the one in psp. A part may be the
 * list itself but for its counts, and lie on another device that this one reaches (kernels/peers.h). n: neurons; flags, psp:
 * theirs. */
struct spike_merge_args {
    struct spike_fired parts[SPIKE_MOST_LISTS], after;
    int n_parts;
    int64_t n;
    const uint8_t *flags;
    uint8_t *psp;
};
int op_spike_merge(struct stream *s, const struct spike_merge_args *a, struct err *err);

/* One row per op: what a backend implements. Same signatures as above, arguments already validated. */
struct op_table {
    const char *name; /* "cpu", "cuda" */
#define OP_MAP(X)                                                                                                                  \
    X(conv1d, conv1d_args)                                                                                                         \
    X(conv1d_backward, conv1d_backward_args)                                                                                       \
    X(convt1d, convt1d_args)                                                                                                       \
    X(convt1d_backward, convt1d_backward_args)                                                                                     \
    X(linear, linear_args)                                                                                                         \
    X(linear_backward, linear_backward_args)                                                                                       \
    X(conv1d_depthwise, conv1d_depthwise_args)                                                                                     \
    X(conv1d_depthwise_backward, conv1d_depthwise_backward_args)                                                                   \
    X(batchnorm, batchnorm_args)                                                                                                   \
    X(running_statistics, running_statistics_args)                                                                                 \
    X(batchnorm_backward, batchnorm_backward_args)                                                                                 \
    X(layernorm, layernorm_args)                                                                                                   \
    X(layernorm_backward, layernorm_backward_args)                                                                                 \
    X(rmsnorm_gated, rmsnorm_gated_args)                                                                                           \
    X(rmsnorm_gated_backward, rmsnorm_gated_backward_args)                                                                         \
    X(scan1, scan1_args)                                                                                                           \
    X(scan1_backward, scan1_backward_args)                                                                                         \
    X(ssd, ssd_args)                                                                                                               \
    X(ssd_backward, ssd_backward_args)                                                                                             \
    X(eltwise, eltwise_args)                                                                                                       \
    X(dropout, dropout_args)                                                                                                       \
    X(loss, loss_args)                                                                                                             \
    X(norm, norm_args)                                                                                                             \
    X(adamw, adamw_args)                                                                                                           \
    X(sigmoid, sigmoid_args)                                                                                                       \
    X(mlp, mlp_args)                                                                                                               \
    X(mlp_backward, mlp_backward_args)                                                                                             \
    X(geodesic, geodesic_args)                                                                                                     \
    X(windows, windows_args)                                                                                                       \
    X(augment, augment_args)                                                                                                       \
    X(spike_tick, spike_tick_args)                                                                                                 \
    X(spike_merge, spike_merge_args)
#define OP_SLOT(op, args) int (*op)(struct stream * s, const struct args *a, struct err *err);
    OP_MAP(OP_SLOT)
#undef OP_SLOT
};

/* ---- versions of weights --------------------------------------------------------------------------------------- */

/* Recorded work makes its own copies of weights, as they may have changed when it runs, unless their version has one of these bits:
 * WEIGHTS_CONSTANT, they will not have changed; WEIGHTS_UNCHANGED, whenever it runs, work with the same weights has run before it
 * on the same stream since they changed last. Neither makes it another version. */
#define WEIGHTS_UNCHANGED          ((uint64_t)1 << 62)
#define WEIGHTS_VERSION_OF(number) ((number) & ~(WEIGHTS_CONSTANT | WEIGHTS_UNCHANGED))
