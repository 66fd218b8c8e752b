/* task_eeg: what the tasks that read EEG recordings share: their manifest, the reports on recordings that cannot be used or look
 * mislabelled, and the detector of a model that the job names. The task's thread. */
#pragma once

#include "detect/detector.h"
#include "windows/manifest.h"
#include "work/task.h"

/* How the job's recordings are read for a model: where they are from env, labels and limits from the job, montage, filters and
 * windows from the file. The result borrows from all three. */
struct manifest_config task_manifest_config(const struct jobfile *job, const struct task_env *env, const struct modelfile *file);
/* manifest_open, with its progress reported as the phase "cache" and recordings that cannot be used named in the log. */
int task_open_manifest(const struct task_env *env, struct task_progress *p, const struct manifest_config *config,
                       struct manifest **ret, struct err *err);

/* Names a recording in the log when its samples, now loaded, show mislabelled channels or are no numbers: each once. PRECONDITION
 * when data.on_mislabelled is `fail`. task_check_labelling looks at all recordings of the manifest that are loaded by now. */
int task_check_recording(const struct task_env *env, const struct jobfile *job, const struct manifest_entry *entry,
                         struct err *err);
int task_check_labelling(const struct task_env *env, const struct jobfile *job, const struct manifest *manifest, struct err *err);

/* True if the job goes on without a recording that could not be loaded: the fault is the recording's own, and data.on_bad_file is
 * report. DATA_LOSS means that it is no longer what it was when the job began: another attempt looks at it anew. */
bool task_goes_on_without(const struct task_env *env, const struct jobfile *job, const struct err *why);

/* The detector of such a model for stream s, with the batches that suit the device, within the memory limit of env; it and its
 * precision are named in the log. TASK_AUTO: bf16 on a device that queues its work where the model's bound allows it, else fp32.
 * EXHAUSTED when it needs more than memory_limit_bytes, and what task_model_find and detector_open (detect/detector.h) answer. */
enum task_precision { TASK_FP32, TASK_BF16, TASK_AUTO };
#define TASK_PRECISIONS "fp32|bf16|auto"
int task_open_detector(const struct task_env *env, const char *ref, enum task_precision precision, struct stream *s,
                       struct detector **ret, struct err *err);
