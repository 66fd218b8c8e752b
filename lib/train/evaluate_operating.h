/* evaluate_operating: operating.svg of an evaluate job: what the thresholds and alarm rules that were tried achieve, which of them
 * were chosen, and how late the alarms are. The device's thread. Internal to lib/train. */
#ifndef BRR_TRAIN_EVALUATE_OPERATING_H
#define BRR_TRAIN_EVALUATE_OPERATING_H
#include "train/evaluate_state.h"

int evaluate_operating(const struct evaluate *e, struct err *err);

#endif
