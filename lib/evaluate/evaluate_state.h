/* evaluate_state: the inside of an evaluate task, shared by its steps (evaluate) and its output files (evaluate_report). Internal
 * to lib/train. */
#pragma once
#include "detect/detect_list.h"
#include "evaluate/baseline.h"
#include "evaluate/evaluate_kind.h"
#include "evaluate/evaluate_patients.h"
#include "evaluate/evaluation.h"
#include "work/task.h"

struct evaluate {
    const struct jobfile *job;
    const struct evaluate_config *config;
    struct task_env env;
    struct stream *stream;
    struct manifest *manifest;
    uint8_t *role; /* PATIENT_VALIDATION = evaluated */
    struct detector *detector;
    struct evaluation *evaluation;
    struct evaluation_result found;
    struct seen_patients seen;
    struct score_report scores;
    struct baseline *baselines[EVALUATE_MAX_BASELINES]; /* as config->baselines */
    struct task_progress progress;
    struct detect_list *list; /* recordings whose trace is complete */
    uint8_t *kept;            /* per entry: 1 = an earlier attempt computed its trace */
    char **mislabelled;       /* per entry that was kept: what its samples said (recording_mislabelled), or NULL */
    char **errors;            /* per entry: why a recording was left out once its samples were wanted, or NULL */
};
