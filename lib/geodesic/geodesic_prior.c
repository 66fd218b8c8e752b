#include "geodesic/geodesic_prior.h"

int geodesic_interpolate(const struct spectra *s, geodesic_members members, const struct interpolate *rule, double *ret,
                         struct err *err) {
    struct interpolate a = *rule;
    double x[SPECTRA_MAX_CONCENTRATIONS];
    size_t width = (size_t)s->width;
    OWNED_MEMORY double *y = malloc((size_t)geodesic_members_count(members) * width * sizeof *y);
    if (!y)
        return err_set(err, ERR_EXHAUSTED, "out of memory to interpolate spectra of %zu wavelengths", width);
    a.n = 0;
    for (int k = 0; k < s->n; k++)
        if (members >> k & 1) {
            x[a.n] = s->concentrations[k];
            memcpy(y + (size_t)a.n++ * width, s->absorbance + (size_t)k * width, width * sizeof *y);
        }
    a.x = x;
    a.y = y;
    a.width = s->width;
    return interpolate(&a, ret, err);
}

int geodesic_prior(const struct spectra *s, geodesic_members members, double at, double *ret, struct err *err) {
    const struct interpolate rule = {.rule = INTERPOLATE_GP_EVIDENCE, .at = at};
    return geodesic_interpolate(s, members, &rule, ret, err);
}

int geodesic_prior_blend(const struct geodesic_model *model, const struct spectra *s, double at, double *each, struct err *err) {
    if (model->prior_weight == 0)
        return 0;
    OWNED_MEMORY double *prior = malloc((size_t)s->width * sizeof *prior);
    int rc = prior ? geodesic_prior(s, model->members, at, prior, err)
                   : err_set(err, ERR_EXHAUSTED, "out of memory for a prior of %lld wavelengths", (long long)s->width);
    for (int k = 0; !rc && k < geodesic_members_count(model->members); k++)
        for (int64_t i = 0; i < s->width; i++)
            each[k * s->width + i] += model->prior_weight * (prior[i] - each[k * s->width + i]);
    return rc;
}
