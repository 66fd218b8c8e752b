/* geodesic: what every implementation of the geodesic ops shares: Gauss–Legendre rules and how the parameters of an MLP lie in a
 * row. Internal to kernels, and used by lib/model for the same quadrature. Plain functions, any thread. */
#ifndef BRR_KERNELS_GEODESIC_H
#define BRR_KERNELS_GEODESIC_H
#include "kernels/op.h"

/* Nodes and weights of the rule on [0, 1]; order 4 or 8. Weights sum to 1. Source: Abramowitz and Stegun, table 25.4. */
struct geodesic_rule {
    int order;
    double node[GEODESIC_MAX_ORDER], weight[GEODESIC_MAX_ORDER];
};
static inline void geodesic_rule_of(int order, struct geodesic_rule *ret) {
    static const double x4[2] = {0.339981043584856264802666, 0.861136311594052575223946};
    static const double w4[2] = {0.652145154862546142626936, 0.347854845137453857373064};
    static const double x8[4] = {0.183434642495649804939476, 0.525532409916328985817739, 0.796666477413626739591554,
                                 0.960289856497536231683561};
    static const double w8[4] = {0.362683783378361982965150, 0.313706645877887287337962, 0.222381034453374470544356,
                                 0.101228536290376259152531};
    const double *x = order == 4 ? x4 : x8, *w = order == 4 ? w4 : w8;
    int half = order / 2;
    ret->order = order;
    for (int i = 0; i < half; i++) {
        ret->node[half + i] = 0.5 * (1 + x[i]);
        ret->node[half - 1 - i] = 0.5 * (1 - x[i]);
        ret->weight[half + i] = ret->weight[half - 1 - i] = 0.5 * w[i];
    }
}

/* Where the parts of an MLP begin in its row of parameters. */
struct mlp_offsets {
    int64_t w1, b1, w2, b2, w3, b3;
};
static inline struct mlp_offsets mlp_offsets_of(struct mlp_shape n) {
    struct mlp_offsets o;
    o.w1 = 0;
    o.b1 = (int64_t)n.hidden1 * n.in;
    o.w2 = o.b1 + n.hidden1;
    o.b2 = o.w2 + (int64_t)n.hidden2 * n.hidden1;
    o.w3 = o.b2 + n.hidden2;
    o.b3 = o.w3 + n.hidden2;
    return o;
}

#endif
