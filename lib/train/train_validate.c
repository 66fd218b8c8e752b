/* Validation: an evaluation of the validation recordings, and the one number that says which weights are best. */
#include "train/train_validate.h"

#include "train/train_ranks.h"
#include "train/train_roles.h"

static int leave_out(void *ctx, int64_t entry, const struct err *why, struct err *err) {
    return train_roles_leave_out(ctx, entry, why, err);
}

/* training.early_stopping.metric of a result. An event F1, pooled or of patients, is partly chance, and AUROC breaks its ties;
 * AUROC and loss, of samples, are hardly, and sensitivities at a limit are taken as they are. */
static struct best_value value_of(const char *name, const struct evaluation_result *e) {
    static const char *const limits[SCORE_LIMITS] = {"sensitivity_at_10fa", "sensitivity_at_5fa", "sensitivity_at_2.5fa",
                                                     "sensitivity_at_1fa"};
    const struct score *event = &e->point.scores[SCORE_EVENT];
    bool of_subjects = !strcmp(name, "subject_f1");
    double f1 = of_subjects ? e->subject_f1 : event->f1;
    for (int i = 0; i < SCORE_LIMITS; i++)
        if (!strcmp(name, limits[i]))
            return (struct best_value){.metric = e->sensitivity_at[i], .rank = e->sensitivity_at[i]};
    if (!strcmp(name, "auroc"))
        return (struct best_value){.metric = e->auroc, .rank = e->auroc};
    if (!strcmp(name, "loss"))
        return (struct best_value){.metric = e->loss, .rank = -e->loss};
    f1 = isnan(f1) ? 0 : f1;
    return (struct best_value){
        .metric = f1, .rank = f1 + 1e-3 * (isnan(e->auroc) ? 0 : e->auroc), .chance = score_f1_chance(event->counts.ref)};
}

/* Scores the recordings of the validation, or only fits a temperature to their traces; e is valid after 0. */
static int evaluate(struct train *t, struct detector *detector, bool fit, struct evaluation_result *e, struct err *err) {
    char folder[4096];
    int rc = train_ranks_folder(t, folder, sizeof folder, err);
    if (rc)
        return rc;
    const struct evaluation_config config = {.detector = detector,
                                             SAME_MEMBERS(*t, stream, manifest, role, world),
                                             .wanted = TRAIN_ROLE_VALIDATION,
                                             .events = t->job->events,
                                             .temperature = fit,
                                             .auto_threshold = !fit && t->job->auto_threshold,
                                             .sweep = !fit && str_starts(t->job->training.stop_metric, "sensitivity_at"),
                                             .alarm_hop = fit ? 0 : modelfile_hop(&t->file),
                                             .alarm_sets = !fit,
                                             .latch_s = t->job->events.alarm_latch_s,
                                             .target_fa_per_24h = t->job->target_fa_per_24h,
                                             .bad = leave_out,
                                             .limit_ms = RANKS_READY_MS,
                                             .directory = folder,
                                             .memory_bytes = t->env.memory_limit_bytes,
                                             .ctx = t,
                                             .workers = (int)t->job->data.loader_workers};
    struct evaluation *evaluation = NULL;
    bool done = false;
    rc = evaluation_start(&config, &evaluation, err);
    str_copy(t->progress.phase, sizeof t->progress.phase, "validate");
    while (!rc && !done && !(rc = train_lone_point(t, err)) && !(rc = evaluation_step(evaluation, &done, e, err))) {
        t->progress.done = evaluation_current(evaluation);
        t->progress.total = evaluation_count(evaluation);
        task_progressed(&t->env, &t->progress);
    }
    evaluation_free(evaluation);
    if (!train_is_writer(t))
        fsio_remove_tree(folder, NULL);
    return rc;
}

/* The validation with logits that are divided by the temperature. */
static int evaluate_at(struct train *t, double temperature, bool fit, struct evaluation_result *e, struct err *err) {
    struct detector *detector = NULL;
    struct modelfile file = t->file;
    file.temperature = temperature;
    int rc = detector_wrap(t->env.device, t->net, &file, (int)t->job->training.micro_batch_size, &detector, err);
    rc = rc ? rc : evaluate(t, detector, fit, e, err);
    detector_close(detector);
    return rc;
}

/* The temperature that all ranks validate under. */
static int fit_temperature(struct train *t, double *ret, struct err *err) {
    struct evaluation_result e = {.temperature = 1};
    int rc = t->job->training.temperature ? evaluate_at(t, 1, true, &e, err) : 0;
    *ret = e.temperature;
    return rc || !t->job->training.temperature ? rc : world_broadcast(t->world, ret, sizeof *ret, RANKS_READY_MS, err);
}

/* With the weights that the model file will hold. */
static int judge(struct train *t, struct evaluation_result *e, double *ret_temperature, struct err *err) {
    int rc = optim_exchange_ema(&t->optim, t->stream, err);
    if (!rc)
        rc = fit_temperature(t, ret_temperature, err);
    if (!rc)
        rc = evaluate_at(t, *ret_temperature, false, e, err);
    if (t->optim.exchanged) {
        int back = optim_exchange_ema(&t->optim, t->stream, rc ? NULL : err);
        rc = rc ? rc : back;
    }
    return rc;
}

int train_validate(struct train *t, struct validation_result *ret, struct err *err) {
    struct evaluation_result e = {0};
    double temperature = 1;
    int rc = judge(t, &e, &temperature, err);
    if (rc)
        return rc;
    const struct score *event = &e.point.scores[SCORE_EVENT];
    *ret = (struct validation_result){.value = value_of(t->job->training.stop_metric, &e),
                                      .event_f1 = isnan(event->f1) ? 0 : event->f1,
                                      .false_alarms_per_24h = event->false_alarms_per_24h,
                                      .seizures = event->counts.ref,
                                      SAME_MEMBERS(e, auroc, loss, events),
                                      .alarms = e.sets,
                                      .temperature = temperature};
    return train_ranks_validated(t, ret, err);
}
