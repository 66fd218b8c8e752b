/* train_answers: the answers of readers (eeg/answers.h) among the labels that a training learns from, in the order in which the
 * points of its curve take them (train_curve). The order is a function of the answers and the seed: drawn, with the seizures spread
 * evenly and one of them first, so that each point has those of the point before. The task's thread. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

struct train_answer {
    int64_t entry; /* of the manifest */
    struct window_span span;
    bool seizure;
    uint64_t draw;
    double place; /* 0 to 1; the answers ascend by it */
};
struct train_answers {
    struct train_answer *items;
    int64_t n;
};
void train_answers_done(struct train_answers *a);

/* The answers about the recordings with role PATIENT_TRAINING. root: of the manifest, where its sources have no names. Errors:
 * those of label files, EXHAUSTED. */
int train_answers_read(const struct manifest *m, const uint8_t *role, const char *root, uint64_t seed, struct train_answers *ret,
                       struct err *err);
/* Makes unknown in the manifest what all answers but the first `counted` say; a recording none of whose answers counts is unknown
 * as a whole. */
int train_answers_hide(const struct train_answers *a, int64_t counted, struct manifest *m, struct err *err);

/* PRECONDITION where the job asks for a curve and has no answers to train on, or no recordings to score. */
int train_answers_check(const struct train_config *job, const struct manifest *m, const uint8_t *role, const char *root,
                        struct err *err);
/* The same for a training; for one that is a point of a curve, hides the answers that it does not count. */
int train_answers_apply(struct train *t, struct err *err);
