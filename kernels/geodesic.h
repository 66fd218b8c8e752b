/* geodesic: what every implementation of the geodesic ops shares: Gauss–Legendre rules and how the parameters of an MLP lie in a
 * row. Internal to kernels, and used by lib/geodesic for the same quadrature. Plain functions, any thread. */
#pragma once
#include <stdbool.h>

#include "kernels/op.h"

/* The orders that have a rule, ascending. */
enum { GEODESIC_RULES = 4 };
static const int geodesic_orders[GEODESIC_RULES] = {4, 5, 6, GEODESIC_MAX_ORDER};
static inline bool geodesic_has_rule(int order) {
    bool found = false;
    for (int i = 0; i < GEODESIC_RULES; i++)
        found |= geodesic_orders[i] == order;
    return found;
}

/* Nodes and weights of a rule on [0, 1]. Weights sum to 1. Source: Abramowitz and Stegun, table 25.4; here the nodes x >= 0 of
 * [-1, 1] and their weights. */
struct geodesic_rule {
    int order;
    double node[GEODESIC_MAX_ORDER], weight[GEODESIC_MAX_ORDER];
};
static inline void geodesic_rule_of(int order, struct geodesic_rule *ret) {
    static const double x[GEODESIC_RULES][GEODESIC_MAX_ORDER / 2] = {
        {0.339981043584856264802666, 0.861136311594052575223946},
        {0, 0.538469310105683091036314, 0.906179845938663992797627},
        {0.238619186083196908630502, 0.661209386466264513661400, 0.932469514203152027812302},
        {0.183434642495649804939476, 0.525532409916328985817739, 0.796666477413626739591554, 0.960289856497536231683561}};
    static const double w[GEODESIC_RULES][GEODESIC_MAX_ORDER / 2] = {
        {0.652145154862546142626936, 0.347854845137453857373064},
        {0.568888888888888888888889, 0.478628670499366468041292, 0.236926885056189087514264},
        {0.467913934572691047389870, 0.360761573048138607569834, 0.171324492379170345040296},
        {0.362683783378361982965150, 0.313706645877887287337962, 0.222381034453374470544356, 0.101228536290376259152531}};
    int rule = 0;
    while (rule + 1 < GEODESIC_RULES && geodesic_orders[rule] != order)
        rule++;
    ret->order = order;
    for (int i = 0; i < (order + 1) / 2; i++) {
        ret->node[order / 2 + i] = 0.5 * (1 + x[rule][i]);
        ret->node[(order - 1) / 2 - i] = 0.5 * (1 - x[rule][i]);
        ret->weight[order / 2 + i] = ret->weight[(order - 1) / 2 - i] = 0.5 * w[rule][i];
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
