/* train_began: the recordings and labels that a training began with, in its state files, so that a resumed one draws the same
 * windows or none. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* {"relative path": "0123456789abcdef", …}: what the windows of each recording that trains or validates follow from: its length,
 * its segments, its labels. */
void train_began_put(const struct train *t, struct json_writer *w);
/* Compares the recordings and labels with t->began: what came later is not used, what is gone is named. PRECONDITION: labels
 * changed; the recordings are named. */
int train_began_compare(struct train *t, struct err *err);
