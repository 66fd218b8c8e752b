#include "evaluate/evaluate_patients.h"

#include "base/base.h"

/* Marks the patients of one training; in another one a patient may have trained who validates here: training counts. */
static int mark(struct seen_patients *s, const struct manifest *m, const struct json *training, struct err *err) {
    struct known_patients *known = NULL;
    if (json_kind(training) == JSON_KIND_NULL) {
        s->known = false;
        return 0;
    }
    int rc = known_patients_read(training, &known, err);
    for (int64_t i = 0; !rc && i < manifest_count(m); i++) {
        int role = s->role[i] ? known_patients_role(known, manifest_entry(m, i)->own_patient) : -1;
        if ((role == PATIENT_TRAINING || role == PATIENT_VALIDATION) && role < s->role[i])
            s->role[i] = (uint8_t)role;
    }
    known_patients_free(known);
    return rc;
}

static int64_t count(const struct seen_patients *s, const struct manifest *m, enum patient_role role) {
    struct str names = str_of(1024);
    int64_t n = patients_list(m, s->role, role, 0, &names);
    str_done(&names);
    return n;
}

int seen_patients_init(struct seen_patients *s, const struct manifest *m, const uint8_t *chosen, const char *patients,
                       struct err *err) {
    int64_t n = manifest_count(m);
    struct json *trainings = NULL;
    *s = (struct seen_patients){.known = patients != NULL, .role = calloc((size_t)n + 1, 1)};
    int rc = s->role ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the patients of %lld recordings", (long long)n);
    for (int64_t i = 0; !rc && i < n; i++)
        s->role[i] = chosen[i] ? PATIENT_TEST : PATIENT_UNUSED;
    if (!rc && patients)
        rc = json_parse(patients, strlen(patients), "brr.patients", &trainings, err);
    for (size_t i = 0; !rc && i < json_count(trainings); i++)
        rc = mark(s, m, json_at(trainings, i), err);
    json_free(trainings);
    if (rc) {
        seen_patients_done(s);
        return rc;
    }
    s->training = count(s, m, PATIENT_TRAINING);
    s->validation = count(s, m, PATIENT_VALIDATION);
    s->unseen = count(s, m, PATIENT_TEST);
    return 0;
}

void seen_patients_done(struct seen_patients *s) {
    free(s->role);
    *s = (struct seen_patients){0};
}

void seen_patients_json(const struct seen_patients *s, const struct manifest *m, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
    json_put_bool(w, "known", s->known);
    patients_put_role(m, s->role, PATIENT_TRAINING, w, "training");
    patients_put_role(m, s->role, PATIENT_VALIDATION, w, "validation");
    patients_put_role(m, s->role, PATIENT_TEST, w, "unseen");
    json_end(w, '}');
}
