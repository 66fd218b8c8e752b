/* train_card: where a model comes from, as its file says it: {"version", "source", "training": {"patients", "hours", "seizures"},
 * "validation": {the same, and the scores of this step's validation}}. Counts, never names of patients; no date and no job, since
 * trainings of the same job file leave the same bytes. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* Writes the card of the training as it is now into its model file's metadata. */
void train_card_update(struct train *t);
/* The scores of a card's step. NaN: the card does not say, as those of earlier versions say no loss. */
void train_card_scores(const char *card, struct validation_result *ret);
