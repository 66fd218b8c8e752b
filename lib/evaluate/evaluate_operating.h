/* evaluate_operating: operating.svg of an evaluate job: what the thresholds and alarm rules that were tried achieve, which of them
 * were chosen, and how late the alarms are. The device's thread. Internal to lib/train. */
#pragma once
#include "evaluate/evaluate_state.h"

int evaluate_operating(const struct evaluate *e, struct err *err);
