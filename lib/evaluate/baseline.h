/* baseline: a built-in model without a network (detect/builtin.h) over the recordings of an evaluation, so that every score can be
 * read beside one of arithmetic. Its feature is computed from the filtered µV that the evaluated model's recordings hold, with that
 * model's montage, and its probabilities, thresholds and events are the built-in model's. */
#pragma once
#include "evaluate/evaluation.h"

struct baseline;
/* INVALID: there is no built-in model of this name. */
int baseline_new(const char *name, int64_t entries, struct baseline **ret, struct err *err);
void baseline_free(struct baseline *b); /* takes NULL */
/* Adds an entry, one of `entries` of a manifest, whose samples are loaded. Several threads at a time, each entry once; the results
 * do not depend on the order. */
int baseline_add(struct baseline *b, int64_t i, const struct manifest_entry *entry, struct err *err);
/* An object: name, auroc, auroc_error_most, on, off, and the scores of its events. */
void baseline_json(const struct baseline *b, struct json_writer *w);
