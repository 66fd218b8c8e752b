#include "train/train_roles.h"
#include "evaluate/task_eeg.h"

#include "base/counted.h"
#include "store/safetensors.h"
#include "train/train_checkpoint.h"
#include "train/train_estimate.h"

OWNABLE(struct known_patients, known_patients_free)

enum { NAMES_BYTES = 800 };

static int64_t tell_role(struct train *t, enum patient_role role) {
    struct str names = str_of(16384);
    int64_t n = patients_list(t->manifest, t->split, role, NAMES_BYTES, &names);
    if (n)
        task_log(&t->env, TASK_INFO, "%s patients: %s", patient_role_name(role), str_cstr(&names));
    str_done(&names);
    return n;
}

/* Patients whom the first attempt did not find, and those whom this one does not find. */
static int tell_changes(struct train *t, const struct known_patients *kept, int64_t used, struct err *err) {
    int64_t n = manifest_count(t->manifest), began = 0, fresh;
    uint8_t *is_new = calloc((size_t)n + 1, 1);
    if (!is_new)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the patients of %lld recordings", (long long)n);
    for (int64_t i = 0; i < n; i++)
        is_new[i] = known_patients_role(kept, manifest_entry(t->manifest, i)->patient) < 0;
    struct str names = str_of(16384);
    if ((fresh = patients_list(t->manifest, is_new, 1, NAMES_BYTES, &names)))
        task_log(&t->env, TASK_WARN, "%s came after this training began and are not used: %s; submit a new job to train on them",
                 counted(fresh, "patient").text, str_cstr(&names));
    for (int r = PATIENT_TRAINING; r < PATIENT_ROLES; r++)
        began += known_patients_count(kept, (enum patient_role)r);
    if (used < began)
        task_log(&t->env, TASK_WARN, "no usable recording is left of %lld of %s that this training began with",
                 (long long)(began - used), counted(began, "patient").text);
    str_done(&names);
    free(is_new);
    return 0;
}

static void tell_lone(struct train *t) {
    struct lone_patients lone;
    char unnamed[120];
    if (patients_unnamed(t->manifest, unnamed, sizeof unnamed))
        task_log(&t->env, TASK_INFO, "%s", unnamed);
    if (patients_lone(t->manifest, &lone))
        task_log(&t->env, TASK_WARN,
                 "%s in %s count as a patient each, such as %.300s; if those of a folder are one patient's, they may train and "
                 "validate: set data.patient to folder or prefix",
                 counted(lone.patients, "recording").text, counted(lone.folders, "folder").text, lone.first);
}

int train_roles_assign(struct train *t, struct err *err) {
    OWNED_POINTER(known_patients_free) struct known_patients *kept = NULL;
    int64_t used = 0;
    size_t n = (size_t)manifest_count(t->manifest) + 1;
    int rc;
    t->split = calloc(n, 1);
    t->role = calloc(n, 1);
    t->left_out = calloc(n, 1);
    if (!t->split || !t->role || !t->left_out)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the roles of %zu recordings", n);
    if ((rc = train_checkpoint_roles(t, &kept, err)) || (rc = train_split(t->job, t->manifest, kept, t->split, err)))
        return rc;
    for (int r = PATIENT_TRAINING; r < PATIENT_ROLES; r++)
        used += tell_role(t, (enum patient_role)r);
    if (kept && (rc = tell_changes(t, kept, used, err)))
        return rc;
    tell_lone(t);
    for (int64_t i = 0; i < manifest_count(t->manifest); i++) {
        t->role[i] = t->left_out[i] ? PATIENT_UNUSED : t->split[i];
        t->validation_recordings += t->role[i] == PATIENT_VALIDATION && manifest_entry(t->manifest, i)->recording;
        if (t->left_out[i])
            task_log(&t->env, TASK_WARN, "%.300s stays left out: its samples could not be read before",
                     manifest_entry(t->manifest, i)->relative_path);
    }
    return 0;
}

int train_roles_leave_out(struct train *t, int64_t entry, const struct err *why, struct err *err) {
    char text[800];
    if (entry < 0 || !task_goes_on_without(&t->env, t->jobfile, why)) {
        if (err)
            *err = *why;
        return why->code;
    }
    t->validation_recordings -= t->role[entry] == PATIENT_VALIDATION;
    if (t->role[entry] == PATIENT_VALIDATION && !t->validation_recordings)
        return err_set(err, why->code, "no validation recording can be read; the last one: %s", err_text(why, text, sizeof text));
    t->role[entry] = PATIENT_UNUSED;
    t->left_out[entry] = 1;
    task_log(&t->env, TASK_WARN, "the training goes on without a recording: %s", err_text(why, text, sizeof text));
    return 0;
}

int train_roles_record(struct train *t, const char *origin, struct err *err) {
    OWNED_MEMORY char *patients = NULL; /* of the origin */
    int rc;
    OWNED(str_done) struct str text = str_of(SAFETENSORS_MAX_HEADER);
    if (origin && (rc = modelfile_patients(origin, &patients, err)))
        return rc;
    struct json_writer w = json_to(&text);
    json_begin_array(&w, NULL);
    patients_put_dataset(t->manifest, t->split, manifest_hash(t->manifest), t->job->data.dataset, &w);
    if (origin && (rc = patients_put_earlier(&w, origin, patients, err)))
        return rc;
    json_end(&w, ']');
    free(t->patients);
    t->file.patients = t->patients = str_take(&text);
    if (!t->patients)
        return err_set(err, ERR_EXHAUSTED, "the hashes of the patients take more than %d bytes", SAFETENSORS_MAX_HEADER);
    return 0;
}

int train_roles_resume(struct train *t, struct err *err) {
    t->file.patients = t->patients;
    return t->patients ? 0 : train_roles_record(t, NULL, err);
}
