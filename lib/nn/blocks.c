#include "nn/blocks.h"

#include "base/rng.h"
#include "nn/padded.h"

static const char *const conv_names[2] = {"conv1", "conv2"};
static const char *const bn_names[2] = {"bn1", "bn2"};

/* The two ConvBlocks of a stage. */
static int pair_params(struct param_set *set, const char *prefix, int64_t ci, int64_t co, struct err *err) {
    int rc;
    for (int i = 0; i < 2; i++)
        if ((rc = conv_block_params(set, &(struct block_names){prefix, conv_names[i], bn_names[i]}, i ? co : ci, co, STAGE_TAPS,
                                    err)))
            return rc;
    return 0;
}

static void pair_bind(struct conv_block pair[2], const struct param_set *set, const char *prefix) {
    for (int i = 0; i < 2; i++)
        conv_block_bind(&pair[i], set, &(struct block_names){prefix, conv_names[i], bn_names[i]});
}

static int pair_forward(struct conv_block pair[2], const struct pass *p, const struct tensor *x, struct tensor *y) {
    struct tensor first = {0};
    int rc = conv_block_forward(&pair[0], p, x, &first);
    return rc ? rc : conv_block_forward(&pair[1], p, &first, y);
}

enum { PREFIX_SIZE = 32 };

static void stage_names(const char *kind, int stage, const char *leaf, char prefix[PREFIX_SIZE], char name[PREFIX_SIZE + 8]) {
    str_format(prefix, PREFIX_SIZE, "%s.%d", kind, stage);
    str_format(name, PREFIX_SIZE + 8, "%s.%s", prefix, leaf);
}

int encoder_params(struct param_set *set, int stage, int64_t ci, int64_t co, struct err *err) {
    char prefix[PREFIX_SIZE], down[PREFIX_SIZE + 8];
    stage_names("encoder", stage, "down", prefix, down);
    int rc = pair_params(set, prefix, ci, co, err);
    return rc ? rc : resample_params(set, down, co, co, false, err);
}

void encoder_bind(struct encoder_stage *l, const struct param_set *set, int stage) {
    char prefix[PREFIX_SIZE], down[PREFIX_SIZE + 8];
    stage_names("encoder", stage, "down", prefix, down);
    pair_bind(l->conv, set, prefix);
    resample_bind(&l->down, set, down, false);
}

int encoder_forward(struct encoder_stage *l, const struct pass *p, const struct tensor *x, struct tensor *y) {
    int64_t b = x->dim[0], t = x->dim[1], co = l->conv[1].w->dim[0];
    *y = nn_tensor(p, b, t / 2, co);
    l->skip = nn_tensor(p, b, t, co); /* inference keeps these two */
    size_t mark = plan_mark(p->plan);
    int rc = pair_forward(l->conv, p, x, &l->skip);
    if (!p->training)
        plan_release(p->plan, mark);
    return rc ? rc : resample_forward(&l->down, p, &l->skip, y);
}

int encoder_backward(struct encoder_stage *l, const struct pass *p, const struct tensor *dy, const struct tensor *dskip,
                     const struct tensor *dx) {
    size_t mark = plan_mark(p->plan);
    struct tensor part = nn_like(p, dskip); /* the shape of the first ConvBlock's output too */
    plan_release(p->plan, mark);
    int rc;
    if ((rc = resample_backward(&l->down, p, dy, &part)) || (rc = nn_eltwise(p, ELTWISE_ADD, dskip, &part, dskip)) ||
        (rc = conv_block_backward(&l->conv[1], p, dskip, &part)))
        return rc;
    return conv_block_backward(&l->conv[0], p, &part, dx);
}

int decoder_params(struct param_set *set, int stage, const struct decoder_widths *w, struct err *err) {
    char prefix[PREFIX_SIZE], up[PREFIX_SIZE + 8];
    stage_names("decoder", stage, "up", prefix, up);
    int rc = resample_params(set, up, w->in, w->out, true, err);
    return rc ? rc : pair_params(set, prefix, w->out + w->skip, w->out, err);
}

void decoder_bind(struct decoder_stage *l, const struct param_set *set, int stage) {
    char prefix[PREFIX_SIZE], up[PREFIX_SIZE + 8];
    stage_names("decoder", stage, "up", prefix, up);
    resample_bind(&l->up, set, up, true);
    pair_bind(l->conv, set, prefix);
}

int decoder_forward(struct decoder_stage *l, const struct pass *p, const struct tensor *x, const struct tensor *skip,
                    struct tensor *y) {
    int64_t b = x->dim[0], t = 2 * x->dim[1], up = resample_channels(&l->up);
    l->x = *x;
    *y = l->y = nn_tensor(p, b, t, up);
    OWNED(plan_scope_end) struct plan_scope scope = {p->training ? NULL : p->plan, plan_mark(p->plan)};
    l->cat = nn_tensor(p, b, t, up + skip->dim[2]);
    struct tensor left = tensor_slice(&l->cat, 0, up), right = tensor_slice(&l->cat, up, skip->dim[2]);
    int rc;
    if ((rc = resample_forward(&l->up, p, x, &left)) || (rc = nn_eltwise(p, ELTWISE_COPY, skip, NULL, &right)))
        return rc;
    return pair_forward(l->conv, p, &l->cat, y);
}

int decoder_backward(struct decoder_stage *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx,
                     const struct tensor *dskip) {
    size_t mark = plan_mark(p->plan);
    struct tensor dfirst = nn_like(p, &l->y), dcat = nn_like(p, &l->cat);
    plan_release(p->plan, mark);
    int64_t up = l->y.dim[2];
    struct tensor left = tensor_slice(&dcat, 0, up), right = tensor_slice(&dcat, up, dcat.dim[2] - up);
    int rc;
    if ((rc = conv_block_backward(&l->conv[1], p, dy, &dfirst)) || (rc = conv_block_backward(&l->conv[0], p, &dfirst, &dcat)) ||
        (rc = nn_eltwise(p, ELTWISE_COPY, &right, NULL, dskip)))
        return rc;
    return resample_backward(&l->up, p, &left, dx);
}

static const int branch_taps[RESCNN_BRANCHES] = {3, 5, 7};
static const char *const branch_conv[RESCNN_BRANCHES] = {"branch3.conv", "branch5.conv", "branch7.conv"};
static const char *const branch_bn[RESCNN_BRANCHES] = {"branch3.bn", "branch5.bn", "branch7.bn"};

int rescnn_params(struct param_set *set, int index, int64_t d, struct err *err) {
    char prefix[PREFIX_SIZE];
    str_format(prefix, sizeof prefix, "rescnn.%d", index);
    int rc;
    for (int i = 0; i < RESCNN_BRANCHES; i++)
        if ((rc = conv_block_params(set, &(struct block_names){prefix, branch_conv[i], branch_bn[i]}, d,
                                    i < 2 ? d / 3 : d - 2 * (d / 3), branch_taps[i], err)))
            return rc;
    return conv_block_params(set, &(struct block_names){prefix, "fuse.conv", "fuse.bn"}, d, d, 1, err);
}

static void pad(struct rescnn *l) {
    int64_t channels[RESCNN_BRANCHES];
    for (int i = 0; i < RESCNN_BRANCHES; i++) {
        channels[i] = l->branch[i].co;
        padded_output(&l->branch[i]);
    }
    padded_input(&l->fuse, channels, RESCNN_BRANCHES);
}

void rescnn_bind(struct rescnn *l, const struct param_set *set, int index, bool padded) {
    char prefix[PREFIX_SIZE];
    str_format(prefix, sizeof prefix, "rescnn.%d", index);
    for (int i = 0; i < RESCNN_BRANCHES; i++)
        conv_block_bind(&l->branch[i], set, &(struct block_names){prefix, branch_conv[i], branch_bn[i]});
    conv_block_bind(&l->fuse, set, &(struct block_names){prefix, "fuse.conv", "fuse.bn"});
    l->fuse.linear = true;
    if (padded)
        pad(l);
    l->rng_stream = RNG_DROPOUT + (uint32_t)index;
}

int rescnn_forward(struct rescnn *l, const struct pass *p, const struct tensor *x, struct tensor *y) {
    *y = nn_like(p, x);
    OWNED(plan_scope_end) struct plan_scope scope = {p->training ? NULL : p->plan, plan_mark(p->plan)};
    struct tensor cat = nn_tensor(p, x->dim[0], x->dim[1], l->fuse.ci), fused = nn_like(p, x);
    int64_t first = 0;
    int rc;
    l->x = *x;
    l->y = *y;
    for (int i = 0; i < RESCNN_BRANCHES; i++) {
        struct tensor slice = tensor_slice(&cat, first, l->branch[i].co);
        first += slice.dim[2];
        if ((rc = conv_block_forward(&l->branch[i], p, x, &slice)))
            return rc;
    }
    if ((rc = conv_block_forward(&l->fuse, p, &cat, &fused)) || (rc = nn_dropout(p, &fused, l->rng_stream, true)))
        return rc;
    return nn_eltwise(p, ELTWISE_ADD_RELU, &fused, x, y);
}

int rescnn_backward(struct rescnn *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    OWNED(plan_scope_end) struct plan_scope scope = {p->plan, plan_mark(p->plan)};
    struct tensor g = nn_like(p, dy), dcat = nn_tensor(p, dy->dim[0], dy->dim[1], l->fuse.ci), part = nn_like(p, dy);
    int rc = nn_eltwise(p, ELTWISE_RELU_BACKWARD, dy, &l->y, dx); /* the residual path */
    if (rc || (rc = nn_eltwise(p, ELTWISE_COPY, dx, NULL, &g)) || (rc = nn_dropout(p, &g, l->rng_stream, true)) ||
        (rc = conv_block_backward(&l->fuse, p, &g, &dcat)))
        return rc;
    int64_t first = 0;
    for (int i = 0; i < RESCNN_BRANCHES; i++) {
        struct tensor slice = tensor_slice(&dcat, first, l->branch[i].co);
        first += slice.dim[2];
        if ((rc = conv_block_backward(&l->branch[i], p, &slice, &part)) || (rc = nn_eltwise(p, ELTWISE_ADD, dx, &part, dx)))
            return rc;
    }
    return 0;
}
