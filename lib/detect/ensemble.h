/* ensemble: one model file of several, of one shape and one input, whose networks answer together: the mean of their logits
 * (seizure_config.members). Needs no network, so that brrctl can write it. Any thread. */
#pragma once
#include "store/digest.h"

/* Writes `to` atomically from 2 to SEIZURE_MAX_MEMBERS model files. Thresholds are the means of the members' log-odds; rules for
 * alarms are left out, as those of the members say nothing about the mean: tune the file. A member's
 * temperature is multiplied into its last layer. The patients of all members are named (modelfile_patients), and in `brr.ensemble`
 * their SHA-256. INVALID: files that differ in network, input or hop, or are ensembles.
 */
int ensemble_write(const char *const *paths, int n, const char *to, char ret_sha256[DIGEST_HEX_SIZE], struct err *err);
