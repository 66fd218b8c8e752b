/* train_state: the inside of a training task, shared by its steps (train), its validations (train_validate), its checkpoints
 * (train_checkpoint) and the record of its course (train_course). Internal to lib/train. */
#pragma once
#include "evaluate/evaluation.h"
#include "nn/optim.h"
#include "train/best.h"
#include "train/feed.h"
#include "train/step.h"
#include "train/train_kind.h"
#include "windows/loader.h"
#include "windows/manifest.h"
#include "windows/sampler.h"
#include "work/task.h"

enum { TRAIN_ROLE_TRAINING = PATIENT_TRAINING, TRAIN_ROLE_VALIDATION = PATIENT_VALIDATION };

/* Result of a validation. */
struct validation_result {
    struct best_value value;                                      /* of training.early_stopping.metric */
    double event_f1, auroc, loss, false_alarms_per_24h, seizures; /* seizures: that the F1 counts */
    struct events_config events;                                  /* with the thresholds chosen */
    struct alarm_sets alarms;
    double temperature; /* of the model file */
};

/* Everything that must survive a kill, besides tensors. */
struct train_counters {
    int64_t step, epoch, index; /* optimizer steps done; position in the sampler's order */
    int64_t validated_step;     /* step of the newest validation; STEP_NONE: there was none */
    int64_t nonfinite, nonfinite_run, validations_without_gain;
    int64_t decay_from; /* where patience ended and the learning rate began to fall; STEP_NONE: it has not */
    struct best best;
    double loss_average;
    bool finished; /* early stopping or end of schedule, final validation done */
};

/* Of one micro-batch. */
struct leaf_loss {
    double sum;
    int64_t count;
};

/* A point of the curve over answers (train_curve). */
struct train_curve_point {
    int64_t answers, seizures;                    /* seizures among the answers */
    double event_f1, auroc, false_alarms_per_24h; /* NaN: no training is possible */
};

struct train {
    const struct train_config *job;
    const struct jobfile *jobfile;
    struct task_env env;
    struct world *world; /* the ranks of the training, or only this one: alone */
    struct world alone;
    bool resumed;                      /* began from a checkpoint */
    int64_t attempt, restored_attempt; /* whose folder of checkpoints this one writes, and has read; 0 = the only one */
    struct stream *stream;
    struct manifest *manifest;
    uint8_t *split;    /* per entry of the manifest, enum patient_role: as drawn */
    uint8_t *role;     /* the same, but PATIENT_UNUSED for recordings that are left out */
    uint8_t *left_out; /* per entry: its samples could not be read */
    struct json
        *began;     /* {"relative path": print of its windows}, of the first attempt (train_began); NULL: not known, or the first */
    int64_t failed; /* entry of the recording at fault for the newest error of the feed, or −1 */
    char *patients; /* for model files (modelfile_patients) */
    struct sampler *sampler;
    struct window_ref *hard; /* background windows that are shown more often (train_hard); NULL: none are known yet */
    int64_t n_hard;
    struct loader *arrival; /* fetches recordings in the order they are needed; NULL when all are here */
    int64_t arriving;       /* how many it has to fetch */
    struct augment augment;
    struct feed *feed;
    const struct batch *batch; /* being worked on, NULL between optimizer steps */
    int64_t micro;             /* next micro-batch of it */
    struct seizure_net *net;
    struct optim optim;
    struct modelfile file;       /* metadata of the next checkpoint */
    struct reduction *reduction; /* NULL: training.reduction is chain */
    struct step *work;
    struct step_result newest_work; /* of the newest micro-batch */
    int64_t steps_per_epoch, total_steps, validation_recordings;
    int64_t planned_steps; /* total_steps, unless patience ends before */
    double pos_weight, prior;
    struct train_counters at;
    struct validation_result newest, best; /* best: of at.best.step */
    struct task_progress progress;
    struct leaf_loss *losses; /* of the batch's micro-batches, all ranks' */
    double batch_loss, batch_wait_s, batch_start_s;
    double notified_s; /* of the newest report while a batch was awaited */
    int64_t batch_count;
    bool course_lost;    /* the newest line of metrics.jsonl could not be written */
    bool drawing;        /* the training is finished, and its curve over answers is drawn */
    struct train *point; /* of the curve, while it trains */
    struct train_curve_point points[TRAIN_CURVE_MOST + 1];
    int n_points;
    double started_s, trained_s; /* trained_s: of timed_steps steps since it was opened, all but the first */
    int64_t timed_steps;
    double first_step_s; /* from opening the task to the end of its first step, data decoded for the first time included */
};
