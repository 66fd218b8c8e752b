#include "geodesic/geodesic_params.h"

#include "base/rng.h"

int64_t geodesic_params_count(enum geodesic_head head) { return mlp_count(GEODESIC_METRIC) + mlp_count(geodesic_head_shape(head)); }

void geodesic_params_parts(enum geodesic_head head, struct geodesic_part ret[GEODESIC_PARTS]) {
    int64_t offset = 0;
    for (int net = 0; net < 2; net++) {
        struct mlp_shape n = net ? geodesic_head_shape(head) : GEODESIC_METRIC;
        const int64_t width[4] = {n.in, n.hidden1, n.hidden2, 1};
        for (int layer = 0; layer < 3; layer++)
            for (int bias = 0; bias < 2; bias++) {
                struct geodesic_part *p = &ret[6 * net + 2 * layer + bias];
                str_format(p->name, sizeof p->name, "%s.%d.%s", net ? "head" : "metric", layer, bias ? "bias" : "weight");
                p->rank = bias ? 1 : 2;
                p->dim[0] = width[layer + 1];
                p->dim[1] = bias ? 0 : width[layer];
                p->count = bias ? width[layer + 1] : width[layer] * width[layer + 1];
                p->offset = offset;
                offset += p->count;
            }
    }
}

void geodesic_params_draw(const struct geodesic_draw *d, float *row) {
    struct geodesic_part parts[GEODESIC_PARTS];
    geodesic_params_parts(d->head, parts);
    for (int i = 0; i < GEODESIC_PARTS; i++) {
        const struct geodesic_part *p = &parts[i];
        struct rng rng;
        double gain = i < GEODESIC_PARTS / 2 ? 1 : d->head_gain;
        double bound = p->rank == 2 ? gain * sqrt(6.0 / (double)(p->dim[0] + p->dim[1])) : 0;
        rng_init(&rng, d->seed, RNG_INIT, d->group * GEODESIC_PARTS + (uint32_t)i);
        for (int64_t k = 0; k < p->count; k++)
            row[p->offset + k] = (float)(bound * (2 * rng_uniform(&rng) - 1));
    }
}
