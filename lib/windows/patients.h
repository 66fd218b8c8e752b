/* patients: the roles of patients in a training (trains, validates, is kept for tests), as names for people and as salted hashes
 * for files that leave the site. Hashes tell whether a patient took part, without his name; they hide names that cannot be guessed,
 * not a numbering such as sub-01. Pure; any thread. */
#pragma once

#include "base/base.h"
#include "base/json.h"

enum patient_role { PATIENT_UNUSED, PATIENT_TRAINING, PATIENT_VALIDATION, PATIENT_TEST, PATIENT_ROLES };
/* "unused" "training" "validation" "test". */
const char *patient_role_name(enum patient_role role);

/* The first 64 bits of the SHA-256 of "SALT:NAME". */
uint64_t patient_hash(const char *salt, const char *name);

struct manifest;
/* Patients of a role (an element of role[], as of manifest_split) in order of name, each once: "sub-03, sub-07", at most `max`
 * bytes of names, then ", … and N more". Returns their number. */
int64_t patients_list(const struct manifest *m, const uint8_t *role, enum patient_role wanted, size_t max, struct str *out);
/* ["sub-01", …]: the names of a role in order, each once. */
void patients_put_role(const struct manifest *m, const uint8_t *role, enum patient_role wanted, struct json_writer *w,
                       const char *key);
/* {"training": ["sub-01", …], "validation": […], "test": […]}, names in order, each once. */
void patients_put_names(const struct manifest *m, const uint8_t *role, struct json_writer *w, const char *key);
/* {"salt": SALT, "training": ["0123456789abcdef", …], "validation": […], "test": […]}: patient_hash in hex, ascending; with
 * "unused" in front if `all`. With several sources `all` hashes NAME/patient; otherwise the patient alone, in the first of the
 * roles that the patients of this name have, so that a model also knows patients of a source that is evaluated without the others.
 */
void patients_put_hashes(const struct manifest *m, const uint8_t *role, const char *salt, bool all, struct json_writer *w);
/* The same for a model file, with "in_dataset": [patient_hash of "DATASET/patient", …] of all of them, unless dataset is NULL or
 * "". */
void patients_put_dataset(const struct manifest *m, const uint8_t *role, const char *salt, const char *dataset,
                          struct json_writer *w);
/* The elements of a model's list (modelfile_patients; used up) behind those of the array that is open; null for NULL.
 * path: for errors. */
int patients_put_earlier(struct json_writer *w, const char *path, char *list, struct err *err);

/* The patients of an earlier training or attempt, from what patients_put_hashes wrote. */
struct known_patients;
/* INVALID for JSON of another form. */
int known_patients_read(const struct json *j, struct known_patients **ret, struct err *err);
void known_patients_free(struct known_patients *k); /* takes NULL */
/* The role that the patient had then, an enum patient_role; −1 if he was not there. */
int known_patients_role(const struct known_patients *k, const char *name);
int64_t known_patients_count(const struct known_patients *k, enum patient_role role);

/* The patients of a model: of its training and of those of the models that it began with. */
struct model_patients;
/* text: of modelfile_patients; NULL = the file does not say. INVALID for JSON of another form. */
int model_patients_read(const char *text, struct model_patients **ret, struct err *err);
void model_patients_free(struct model_patients *m); /* takes NULL */
/* True if the file names the patients of all these trainings. */
bool model_patients_known(const struct model_patients *m);
/* True if the file names nobody: no training is known. */
bool model_patients_nobody(const struct model_patients *m);
/* How the model has seen the patient: PATIENT_TRAINING, PATIENT_VALIDATION, or PATIENT_TEST if it has not. dataset: that of the
 * recordings, NULL or "" = none. The same name is the same patient, unless both sides state a dataset and the two differ. */
enum patient_role model_patients_role(const struct model_patients *m, const char *dataset, const char *name);

/* Recordings that count as patients of their own although they share a folder. */
struct lone_patients {
    const char *first;         /* path of such a recording */
    int64_t folders, patients; /* folders with at least two of them, and how many there are */
};
bool patients_lone(const struct manifest *m, struct lone_patients *ret);
/* "2 of 5 recordings name no patient: each counts as one", false if all do. */
bool patients_unnamed(const struct manifest *m, char *buf, size_t size);
/* The same of counts. */
bool patients_unnamed_of(int64_t lone, int64_t all, char *buf, size_t size);
