/* geodesic_task: the state of a job of kind geodesic. Internal to geodesic_{task,phase,checkpoint,report}.c; driving thread only.
 *
 * A job goes through phases. With selection nested one for each weight decay that is tried: models of all spectra but two, scored
 * on both at a quarter, half, three quarters and all of the epochs; with a prior and no selection, one such phase. Then the folds:
 * a model without each spectrum in turn, and, if wanted, one of all. A held-out spectrum has no part in the choice made for its own
 * fold. */
#pragma once
#include "geodesic/geodesic_file.h"
#include "geodesic/geodesic_fit.h"
#include "geodesic/geodesic_kind.h"
#include "geodesic/geodesic_prior.h"
#include "geodesic/spectrum_score.h"
#include "work/estimate.h"
#include "work/task.h"

enum { GEODESIC_MARKS = 4 };
/* The epoch after which the models of a mark are scored. Of few epochs several marks are the same; the last of them has scores. */
static inline int64_t geodesic_mark_epoch(int mark, int64_t epochs) {
    return ((mark + 1) * epochs + GEODESIC_MARKS - 1) / GEODESIC_MARKS;
}

/* Result of a fold. */
struct geodesic_fold {
    struct spectrum_score all, near; /* the mean over sources, and the nearest source alone */
    struct spectrum_score network;   /* all, without the prior */
    double *predicted, *spread;      /* (width) each: mean and standard deviation over sources */
};

struct geodesic_task {
    const struct jobfile *job;
    const struct geodesic_config *config;
    struct task_env env;
    struct task_progress progress;
    struct stream *stream;
    struct spectra spectra;
    struct geodesic_fit *fit; /* of the phase */
    struct geodesic_fit_state state;
    int phase, phases, folds, groups; /* groups: models of the phase */
    double *figures;                  /* one array, cut up below; in every checkpoint */
    int64_t n_figures;
    double *curve;     /* (epochs, folds + 1): losses of the folds' phase, NaN where there is none */
    double *selection; /* (decays, GEODESIC_MARKS, folds, folds): RMSE of k, held out from the models of fold h */
    double *agreement; /* NULL without a prior; as selection, twice: Σ(A − P)(N − P) and Σ(N − P)² of k over the wavelengths,
                        * A measured, P the prior, N the network; NaN where there is none */
    double *decay, *stop_epoch; /* (folds + 1): of each model of the last phase */
    double *prior_weight;       /* (folds + 1): the same */
    double *train_s, *wall_s;   /* one each: seconds in steps of the last phase, and in all */
    double begun_s;             /* clock of this attempt */
    struct geodesic_fold fold[SPECTRA_MAX_CONCENTRATIONS];
};

/* geodesic_phase.c. The models that each phase of a job trains; known before a task is open. Selection: models of all spectra but
 * two, in the order of the pairs h < k. last: models of all spectra but g, and, if the job wants it, one of all. */
int geodesic_phase_groups(const struct geodesic_config *config, int folds, bool last);
geodesic_members geodesic_phase_members(int folds, bool last, int g);
struct geodesic_fit_config geodesic_phase_config(const struct geodesic_config *config, int phase);
int geodesic_phases(const struct geodesic_config *config);
/* INVALID when the job needs more spectra than there are. */
int geodesic_check_spectra(const struct geodesic_config *config, const struct spectra *spectra, struct err *err);

bool geodesic_task_is_last(const struct geodesic_task *t);
/* True if the models as they stand are to be scored: the end of the folds' training, or a quarter of a selection's. */
bool geodesic_task_is_marked(const struct geodesic_task *t);
/* The spectra of model g of the phase. */
geodesic_members geodesic_task_members(const struct geodesic_task *t, int g);
/* Decay, epochs and weight of the prior of each model of the last phase, by the scores of the phases before. */
void geodesic_task_choose(struct geodesic_task *t);
/* Tells the phase's fit the decay and epochs of its models. */
void geodesic_task_limit(struct geodesic_task *t);
/* Begins the fit of t->phase; the last one with what the selection chose (geodesic_task_choose). */
int geodesic_task_begin_phase(struct geodesic_task *t, struct err *err);

/* geodesic_checkpoint.c. Restore: the newest checkpoint that is whole and of this job; *ret_found false when there is none. It sets
 * the phase and begins its fit. */
void geodesic_task_file(const struct geodesic_task *t, struct geodesic_file *ret); /* of t->state; borrows */
int geodesic_task_save(struct geodesic_task *t, struct err *err);
int geodesic_task_restore(struct geodesic_task *t, bool *ret_found, struct err *err);

/* geodesic_estimate.c, for the kind's row. */
int estimate_geodesic(const struct estimate_config *config, struct estimate *ret, struct err *err);

/* geodesic_report.c: report.json, predictions.csv, spectra.svg, metric.svg and model.safetensors in the job's directory. picture:
 * spectra.svg alone, of the folds' last scores. */
int geodesic_task_picture(const struct geodesic_task *t, struct err *err);
int geodesic_task_report(struct geodesic_task *t, struct err *err);
void geodesic_task_result(void *task, struct json_writer *w, const char *key);
