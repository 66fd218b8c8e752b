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

/* The patients of an earlier training or attempt, from what patients_put_hashes wrote. */
struct known_patients;
/* INVALID for JSON of another form. */
int known_patients_read(const struct json *j, struct known_patients **ret, struct err *err);
void known_patients_free(struct known_patients *k); /* takes NULL */
/* The role that the patient had then, an enum patient_role; −1 if he was not there. */
int known_patients_role(const struct known_patients *k, const char *name);
int64_t known_patients_count(const struct known_patients *k, enum patient_role role);

/* Recordings that count as patients of their own although they share a folder. */
struct lone_patients {
    const char *first;         /* path of such a recording */
    int64_t folders, patients; /* folders with at least two of them, and how many there are */
};
bool patients_lone(const struct manifest *m, struct lone_patients *ret);
