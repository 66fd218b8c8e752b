/* The phases of a geodesic job: which models each one trains, on which spectra, and what the selection has chosen for the last. */

#include "geodesic/geodesic_task.h"

bool geodesic_task_is_last(const struct geodesic_task *t) { return t->phase == t->phases - 1; }

bool geodesic_task_is_marked(const struct geodesic_task *t) {
    int64_t at = geodesic_fit_at(t->fit), epoch = at / geodesic_fit_epoch_steps(t->fit), epochs = t->config->epochs;
    if (!at || at % geodesic_fit_epoch_steps(t->fit))
        return false;
    return geodesic_task_is_last(t) ? epoch == epochs : epoch * GEODESIC_MARKS / epochs != (epoch - 1) * GEODESIC_MARKS / epochs;
}

geodesic_members geodesic_phase_members(int folds, bool last, int g) {
    geodesic_members all = ((geodesic_members)1 << folds) - 1;
    if (last)
        return g < folds ? all & ~((geodesic_members)1 << g) : all;
    for (int h = 0; h < folds; h++)
        for (int k = h + 1; k < folds; k++)
            if (g-- == 0)
                return all & ~((geodesic_members)1 << h) & ~((geodesic_members)1 << k);
    return all;
}

int geodesic_phase_groups(const struct geodesic_config *config, int folds, bool last) {
    return last ? folds + config->final_model : folds * (folds - 1) / 2;
}

int geodesic_phases(const struct geodesic_config *config) {
    if (config->selection == GEODESIC_SELECTION_NESTED)
        return 1 + (int)config->decays.count;
    return config->prior == GEODESIC_NO_PRIOR ? 1 : 2;
}

geodesic_members geodesic_task_members(const struct geodesic_task *t, int g) {
    return geodesic_phase_members(t->folds, geodesic_task_is_last(t), g);
}

struct geodesic_fit_config geodesic_phase_config(const struct geodesic_config *c, int phase) {
    bool tries = c->selection == GEODESIC_SELECTION_NESTED && phase < (int)c->decays.count;
    return (struct geodesic_fit_config){.head = (enum geodesic_head)c->head,
                                        .solver = (enum geodesic_solver)c->solver,
                                        .products = (enum geodesic_products)c->products,
                                        SAME_MEMBERS(*c, epochs, batch, ode_steps, metric_rate, head_rate),
                                        .decay = tries ? c->decays.items[phase] : c->decay,
                                        SAME_MEMBERS(*c, clip, smoothness, floor, head_gain),
                                        .seed = (uint64_t)c->seed};
}

/* Mean RMSE that models without fold h reached on its other spectra; h −1: over all folds. */
static double selection_score(const struct geodesic_task *t, int candidate, int h) {
    double sum = 0;
    int n = 0;
    for (int fold = 0; fold < t->folds; fold++)
        for (int k = 0; k < t->folds; k++)
            if (k != fold && (h < 0 || h == fold)) {
                sum += t->selection[((int64_t)candidate * t->folds + fold) * t->folds + k];
                n++;
            }
    return sum / n;
}

/* A mark that a training of few epochs does not have, and models that diverged, have no score. */
static bool is_better(double score, double than) { return !isnan(score) && !(score >= than); }

/* The decay and epochs of the best candidate, which is returned. */
static int choose_training(struct geodesic_task *t, int fold) {
    int h = fold < t->folds ? fold : -1, best = 0, candidates = (t->phases - 1) * GEODESIC_MARKS;
    if (t->config->selection != GEODESIC_SELECTION_NESTED)
        return candidates - 1;
    for (int c = 1; c < candidates; c++)
        if (is_better(selection_score(t, c, h), selection_score(t, best, h)))
            best = c;
    t->decay[fold] = t->config->decays.items[best / GEODESIC_MARKS];
    t->stop_epoch[fold] = (double)geodesic_mark_epoch(best % GEODESIC_MARKS, t->config->epochs);
    if (fold < t->folds)
        task_log(&t->env, TASK_INFO, "without %g: weight decay %g, %g epochs, chosen by an inner RMSE of %.5f",
                 t->spectra.concentrations[fold], t->decay[fold], t->stop_epoch[fold], selection_score(t, best, h));
    return best;
}

/* The share of the network's difference from the prior that brings models without fold h nearest to another of its spectra, none to
 * all of it; the smallest over these spectra, so that none of them speaks against it. The prior has the rest. */
static double inner_share(const struct geodesic_task *t, int candidate, int h) {
    int64_t n = t->folds;
    const double *along = t->agreement + 2 * candidate * n * n + h * n, *square = along + n * n;
    double least = 1;
    for (int64_t k = 0; k < n; k++)
        if (k != h)
            least = fmin(least, square[k] > 0 ? fmax(along[k] / square[k], 0) : 0);
    return least;
}

/* The model of all spectra takes the mean of the folds'. */
static void choose_prior_weight(struct geodesic_task *t, int candidate, int fold) {
    double share = 0;
    for (int h = 0; fold == t->folds && h < t->folds; h++)
        share += (1 - t->prior_weight[h]) / t->folds;
    if (fold < t->folds) {
        share = inner_share(t, candidate, fold);
        task_log(&t->env, TASK_INFO, "without %g: inner folds give the network's difference from the prior %.0f %%",
                 t->spectra.concentrations[fold], 100 * share);
    }
    t->prior_weight[fold] = 1 - share;
}

void geodesic_task_choose(struct geodesic_task *t) {
    for (int fold = 0; fold <= t->folds; fold++) {
        int candidate = choose_training(t, fold);
        if (t->agreement)
            choose_prior_weight(t, candidate, fold);
    }
}

void geodesic_task_limit(struct geodesic_task *t) {
    bool nested = t->config->selection == GEODESIC_SELECTION_NESTED, last = geodesic_task_is_last(t);
    for (int g = 0; g < t->groups && (last || !nested); g++)
        geodesic_fit_limit(t->fit, g, last ? t->decay[g] : t->config->decay,
                           last ? (int64_t)t->stop_epoch[g] : t->config->stop_epoch);
}

int geodesic_task_begin_phase(struct geodesic_task *t, struct err *err) {
    geodesic_members members[GEODESIC_MAX_GROUPS];
    bool last = geodesic_task_is_last(t);
    struct geodesic_fit_config config = geodesic_phase_config(t->config, t->phase);
    geodesic_fit_free(t->fit);
    geodesic_fit_state_done(&t->state);
    t->fit = NULL;
    t->groups = geodesic_phase_groups(t->config, t->folds, last);
    for (int g = 0; g < t->groups; g++)
        members[g] = geodesic_task_members(t, g);
    int rc;
    if ((rc = geodesic_fit_new(&config, &t->spectra, members, t->groups, t->stream, &t->fit, err)) ||
        (rc = geodesic_fit_state_new(t->fit, &t->state, err)))
        return rc;
    geodesic_task_limit(t);
    return 0;
}
