/* The phases of a geodesic job: which models each one trains, on which spectra, and what the selection has chosen for the last. */
#include <math.h>

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
    return 1 + (config->selection == GEODESIC_SELECTION_NESTED ? (int)config->decays.count : 0);
}

geodesic_members geodesic_task_members(const struct geodesic_task *t, int g) {
    return geodesic_phase_members(t->folds, geodesic_task_is_last(t), g);
}

struct geodesic_fit_config geodesic_phase_config(const struct geodesic_config *c, int decay) {
    return (struct geodesic_fit_config){.head = (enum geodesic_head)c->head,
                                        .solver = (enum geodesic_solver)c->solver,
                                        .epochs = c->epochs,
                                        .batch = c->batch,
                                        .ode_steps = c->ode_steps,
                                        .metric_rate = c->metric_rate,
                                        .head_rate = c->head_rate,
                                        .decay = decay < 0 ? c->decay : c->decays.items[decay],
                                        .clip = c->clip,
                                        .smoothness = c->smoothness,
                                        .floor = c->floor,
                                        .head_gain = c->head_gain,
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

void geodesic_task_choose(struct geodesic_task *t) {
    int candidates = (int)t->config->decays.count * GEODESIC_MARKS;
    for (int fold = 0; fold <= t->folds; fold++) {
        int h = fold < t->folds ? fold : -1, best = 0;
        for (int c = 1; c < candidates; c++)
            if (is_better(selection_score(t, c, h), selection_score(t, best, h)))
                best = c;
        t->decay[fold] = t->config->decays.items[best / GEODESIC_MARKS];
        t->stop_epoch[fold] = (double)geodesic_mark_epoch(best % GEODESIC_MARKS, t->config->epochs);
        if (fold < t->folds)
            task_log(&t->env, TASK_INFO, "without %g: weight decay %g, %g epochs, chosen by an inner RMSE of %.5f",
                     t->spectra.concentrations[fold], t->decay[fold], t->stop_epoch[fold], selection_score(t, best, h));
    }
}

int geodesic_task_begin_phase(struct geodesic_task *t, struct err *err) {
    geodesic_members members[GEODESIC_MAX_GROUPS];
    bool last = geodesic_task_is_last(t);
    struct geodesic_fit_config config = geodesic_phase_config(t->config, last ? -1 : t->phase);
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
    for (int g = 0; last && g < t->groups; g++)
        geodesic_fit_limit(t->fit, g, t->decay[g], (int64_t)t->stop_epoch[g]);
    return 0;
}
