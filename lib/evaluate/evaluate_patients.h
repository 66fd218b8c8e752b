/* evaluate_patients: which of the evaluated patients a model has seen in its training, from the hashes in its file. Internal to
 * lib/train. */
#pragma once
#include "base/json.h"
#include "windows/manifest.h"

struct seen_patients {
    bool known;    /* the model's file names its patients, and those of every model that it was fine-tuned from */
    uint8_t *role; /* malloc'd, per entry: PATIENT_TRAINING or _VALIDATION as the model knows him, PATIENT_TEST if it does not, */
                   /* PATIENT_UNUSED if the entry is not evaluated */
    int64_t training, validation, unseen; /* patients of the evaluated recordings */
    bool unsure; /* an unseen one is named by his recording's path, which may have been another in the training */
};
/* Which recordings are asked for, and whose they are. */
struct seen_question {
    const struct manifest *manifest;
    const uint8_t *chosen; /* per entry, 1 = evaluated; NULL: all that have a recording */
    const char *dataset;   /* data.dataset */
    const char *patients;  /* modelfile_patients, may be NULL */
    bool not_seen;         /* somebody declares that the model has seen none of them */
};
int seen_patients_init(struct seen_patients *s, const struct seen_question *q, struct err *err);
void seen_patients_done(struct seen_patients *s);
/* Members seen_key, null where that is not known, and "patients"; left_out: those seen are not among them. */
void seen_patients_count_json(const struct seen_patients *s, bool left_out, struct json_writer *w, const char *seen_key);
/* {"known": true, "training": ["sub-01", …], "validation": […], "unseen": […]}: names of the patients evaluated. */
void seen_patients_json(const struct seen_patients *s, const struct manifest *m, struct json_writer *w, const char *key);
