/* train_roles: which patients train, validate and are kept for tests: drawn when a training begins, the same in all its attempts.
 * Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* Makes and sets t->split, t->role and t->left_out of every recording, as the newest checkpoint has them or else as the job asks,
 * and names the patients in the log. Patients that came after the beginning stay unused. Errors: manifest_split's. */
int train_roles_assign(struct train *t, struct err *err);
/* Goes on without a recording that could not be loaded, for the rest of the training; the error that ends it if the fault is not
 * the recording's own, or if it was the last that validates. The caller draws the windows anew. */
int train_roles_leave_out(struct train *t, int64_t entry, const struct err *why, struct err *err);
/* What the model files will say of the patients: those of this training, and those of the model it begins with (a path, or NULL).
 */
int train_roles_record(struct train *t, const char *origin, struct err *err);
/* The same for a training that goes on: as its checkpoint has it (t->patients). NULL: older versions did not record it. */
int train_roles_resume(struct train *t, struct err *err);
