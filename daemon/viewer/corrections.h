/* corrections: the answers of readers about a recording that is shown (viewer/recordings.h), for the script of its page: one line
 * of JSON with `revision`, `file` and `answers`. Waits for the volumes of the recording and of the answers. Any thread. */
#pragma once
#include "daemon/viewer/recordings.h"
#include "eeg/correction.h"

/* A correction as a form sends it, with the revision of the answers that the reader saw. */
struct correction_form {
    struct correction correction;
    correction_revision seen;
};
/* Saves the correction, or none if form is NULL, and writes the answers as they are then. Errors of correction_save; PRECONDITION:
 * the recording takes no answers. */
int corrections_answer(struct recording_entry *r, const struct correction_form *form, struct str *out, struct err *err);
/* Writes the label file itself. NOT_FOUND: there is none yet. */
int corrections_export(struct recording_entry *r, struct str *out, struct err *err);
