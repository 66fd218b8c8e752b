/* labels_path: the expected path of a recording's label file. Used by labels.c. Pure; any thread. */
#pragma once

#include "eeg/labels.h"

/* Writes the path of a source's label file into buf; false if the source has none for this recording. *ret_fits is false when buf
 * is too small. */
bool labels_candidate(enum labels_source source, const char *recording_path, char *buf, size_t size, bool *ret_fits);

/* Patients that neither a folder nor a known form of name gives: by a pattern with one group, such as "(Subject\d+)_", or by a CSV
 * with the columns file and patient. Immutable after patient_rule_open; any thread. */
struct patient_rule;
/* text: a POSIX extended regular expression with one group, in which \d is a digit, or the path of a .csv. INVALID for anything
 * else. */
int patient_rule_open(const char *text, struct patient_rule **ret, struct err *err);
/* INVALID: text is neither a pattern with one group nor the name of a .csv. Opens no file. */
int patient_rule_check(const char *text, struct err *err);
void patient_rule_free(struct patient_rule *r); /* takes NULL */

/* Where the name goes; lone (may be NULL): as of labels_patient. */
struct patient_name {
    char *buf;
    size_t size;
    bool *lone;
};
/* The patient by r, where it is not NULL and names one, else by the other rule (labels_patient). */
int patient_rule_or_name(const struct patient_rule *r, enum labels_patient_rule otherwise, const char *path,
                         const struct patient_name *ret, struct err *err);
