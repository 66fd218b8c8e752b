/* Types without a network: logit = weight · input + bias, sample by sample, where the input is a column of eeg/feature. It needs
 * no state of its own: the past is in the feature. */
#include "detect/seizure_net.h"

static int params(struct seizure_net *net, struct err *err) {
    return nn_affine_params(&net->params, "head.out", (int64_t[]){1, 1, 1}, 1, err);
}

static void bind(struct seizure_net *net) {
    net->out_w = param_find(&net->params, "head.out.weight");
    net->out_b = param_find(&net->params, "head.out.bias");
}

static int each_block(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx) {
    (void)net, (void)fn, (void)ctx;
    return 0;
}

static int forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, const struct tensor *state,
                   struct tensor *logits) {
    const struct param_set *set = p->params;
    (void)state;
    net->features = *x;
    struct linear_args map = {.x = *x,
                              .w = seizure_net_matrix(param_value(set, net->out_w)),
                              .bias = param_value(set, net->out_b),
                              .y = seizure_net_column(logits),
                              .weight_version = set->version};
    return p->dry ? 0 : op_linear(p->stream, &map, p->err);
}

static int backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    const struct param_set *set = p->params;
    struct linear_backward_args map = {.x = net->features,
                                       .w = seizure_net_matrix(param_value(set, net->out_w)),
                                       .dy = seizure_net_column(dlogits),
                                       .dw = seizure_net_matrix(param_grad(set, net->out_w)),
                                       .dbias = param_grad(set, net->out_b),
                                       .weight_version = set->version};
    return p->dry ? 0 : op_linear_backward(p->stream, &map, p->err);
}

const struct model_ops model_feature = {
    .params = params,
    .bind = bind,
    .each_block = each_block,
    .forward = forward,
    .backward = backward,
};
