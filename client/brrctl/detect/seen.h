/* seen: how many of the people whose recordings a model runs on it has learned from, or was selected on, by the hashes in its file.
 * One thread. */
#pragma once
#include "base/json.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/detect_table.h"
#include "store/outputs.h"

/* Counts those of the n recordings; the daemon sends the head of the model's file. dataset: theirs, NULL = none.
 * The number stays unknown where the file names nobody or cannot be read (detections need no role that may read
 * models), and where none is seen but a recording names no patient. */
void seen_find(brr_client *client, const char *model, const char *dataset, const struct detect_item *items, int n,
               struct outputs_model *ret);
/* "seen: 2 of 12 patients", "seen: not known", or "" if the model has seen none of them. */
const char *seen_words(const struct outputs_model *m, char buf[64]);
/* Members patients_seen (null: not known) and patients. */
void seen_json(const struct outputs_model *m, struct json_writer *w);
