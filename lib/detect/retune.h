/* retune: a copy of a model file with other thresholds of events and alarms, and whom they were chosen on; tensors and
 * all other metadata stay as they are. Needs no network, so that brrctl can do it. Any thread. */
#pragma once
#include "store/digest.h"

struct retune {
    double on, off;                  /* 0 = as events_config_with says */
    double lookback_s;               /* of events */
    const struct alarm_sets *alarms; /* NULL: those of the model; none in the copy where n is 0 */
    const char *origin;              /* a JSON object that says where they come from, kept as `brr.tuned` */
    const char *patients;            /* whom they were chosen on, as patients_put_dataset writes it; NULL: not known */
};
/* Writes `to` atomically, also over `from`. INVALID: not a seizure model, or no thresholds. */
int retune_model(const char *from, const char *to, const struct retune *retune, char ret_sha256[DIGEST_HEX_SIZE], struct err *err);
