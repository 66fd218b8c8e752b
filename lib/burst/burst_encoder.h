/* burst_encoder: an EEG recording as injections. Level crossing: channel c of the montage has a level, at first that of the first
 * sample of a segment. When the signal rises by delta_uv above it, the level follows by delta_uv and neuron 2c receives an
 * injection; when it falls by as much, neuron 2c + 1. Several crossings within a tick add up. Samples are those of the window
 * cache: filtered, 256 Hz; gaps inject nothing. Any thread. */
#pragma once
#include "burst/burst_data.h"
#include "burst/burst_kind.h"
#include "work/task.h"

/* Injections of the first config->ticks ticks, which count from 1, sorted by tick; *ret is malloc'd. env: whose
 * window cache is used. ret_channels: of the montage. EXHAUSTED when there are too many to wait in a network. */
int burst_encoder_read(const struct burst_config *config, const struct task_env *env, struct burst_injection **ret, int64_t *ret_n,
                       int *ret_channels, struct err *err);
