/* Validation: an evaluation of the validation recordings, and the one number that says which weights are best. */
#include "run/train_validate.h"

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "run/train_roles.h"

static int leave_out(void *ctx, int64_t entry, const struct err *why, struct err *err) {
    return train_roles_leave_out(ctx, entry, why, err);
}

int train_validate_start(struct train *t, struct err *err) {
    struct evaluation_config config = {.stream = t->stream,
                                       .manifest = t->manifest,
                                       .role = t->role,
                                       .wanted = TRAIN_ROLE_VALIDATION,
                                       .events = t->job->events,
                                       .auto_threshold = t->job->auto_threshold,
                                       .sweep = str_starts(t->job->training.stop_metric, "sensitivity_at"),
                                       .target_fa_per_24h = t->job->target_fa_per_24h,
                                       .bad = leave_out,
                                       .ctx = t,
                                       .workers = (int)t->job->data.loader_workers,
                                       .windows_per_step = (int)t->job->training.micro_batch_size};
    int rc = optim_exchange_ema(&t->optim, t->stream, err); /* judged are the weights that the model file will hold */
    if (!rc)
        rc = detector_wrap(t->env.device, t->net, &t->file, config.windows_per_step, &t->detector, err);
    config.detector = t->detector;
    if (!rc)
        rc = evaluation_start(&config, &t->validation, err);
    if (rc) {
        train_validate_end(t, NULL);
        return rc;
    }
    str_copy(t->progress.phase, sizeof t->progress.phase, "validate");
    t->progress.done = 0;
    t->progress.total = evaluation_count(t->validation);
    return 0;
}

int train_validate_end(struct train *t, struct err *err) {
    evaluation_free(t->validation);
    detector_close(t->detector);
    t->validation = NULL;
    t->detector = NULL;
    return t->optim.exchanged ? optim_exchange_ema(&t->optim, t->stream, err) : 0;
}

/* training.early_stopping.metric of a result. An event F1 is partly chance, and AUROC breaks its ties; AUROC and loss, of samples,
 * are hardly, and sensitivities at a limit are taken as they are. */
static struct best_value value_of(const char *name, const struct evaluation_result *e) {
    static const char *const limits[SCORE_LIMITS] = {"sensitivity_at_10fa", "sensitivity_at_5fa", "sensitivity_at_2.5fa",
                                                     "sensitivity_at_1fa"};
    const struct score *event = &e->point.scores[SCORE_EVENT];
    double f1 = isnan(event->f1) ? 0 : event->f1;
    for (int i = 0; i < SCORE_LIMITS; i++)
        if (!strcmp(name, limits[i]))
            return (struct best_value){.metric = e->sensitivity_at[i], .rank = e->sensitivity_at[i]};
    if (!strcmp(name, "auroc"))
        return (struct best_value){.metric = e->auroc, .rank = e->auroc};
    if (!strcmp(name, "loss"))
        return (struct best_value){.metric = e->loss, .rank = -e->loss};
    return (struct best_value){
        .metric = f1, .rank = f1 + 1e-3 * (isnan(e->auroc) ? 0 : e->auroc), .chance = score_f1_chance(event->counts.ref)};
}

int train_validate_step(struct train *t, bool *ret_done, struct validation_result *ret, struct err *err) {
    struct evaluation_result e;
    int rc = evaluation_step(t->validation, ret_done, &e, err);
    t->progress.done = evaluation_current(t->validation);
    t->progress.total = evaluation_count(t->validation);
    if (rc || !*ret_done)
        return rc;
    const struct score *event = &e.point.scores[SCORE_EVENT];
    *ret = (struct validation_result){.value = value_of(t->job->training.stop_metric, &e),
                                      .event_f1 = isnan(event->f1) ? 0 : event->f1,
                                      .false_alarms_per_24h = event->false_alarms_per_24h,
                                      .auroc = e.auroc,
                                      .loss = e.loss,
                                      .events = e.events};
    return 0;
}
