#include "evaluate/evaluate_patients.h"

static int64_t count(const struct seen_patients *s, const struct manifest *m, enum patient_role role) {
    struct str names = str_of(1024);
    int64_t n = patients_list(m, s->role, role, 0, &names);
    str_done(&names);
    return n;
}

int seen_patients_init(struct seen_patients *s, const struct seen_question *q, struct err *err) {
    const struct manifest *m = q->manifest;
    int64_t n = manifest_count(m);
    struct model_patients *of_model = NULL;
    *s = (struct seen_patients){.role = calloc((size_t)n + 1, 1)};
    int rc = s->role ? model_patients_read(q->patients, &of_model, err)
                     : err_set(err, ERR_EXHAUSTED, "out of memory for the patients of %lld recordings", (long long)n);
    for (int64_t i = 0; !rc && i < n; i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        bool chosen = q->chosen ? q->chosen[i] : e->recording != NULL;
        s->role[i] = !chosen       ? PATIENT_UNUSED
                     : q->not_seen ? PATIENT_TEST
                                   : model_patients_role(of_model, q->dataset, e->own_patient);
        s->unsure |= s->role[i] == PATIENT_TEST && e->lone && !q->not_seen && !model_patients_nobody(of_model);
    }
    if (rc) {
        seen_patients_done(s);
        return rc;
    }
    s->known = model_patients_known(of_model) || q->not_seen;
    model_patients_free(of_model);
    s->training = count(s, m, PATIENT_TRAINING);
    s->validation = count(s, m, PATIENT_VALIDATION);
    s->unseen = count(s, m, PATIENT_TEST);
    return 0;
}

void seen_patients_done(struct seen_patients *s) {
    free(s->role);
    *s = (struct seen_patients){0};
}

void seen_patients_count_json(const struct seen_patients *s, bool left_out, struct json_writer *w, const char *seen_key) {
    const int64_t seen = left_out ? 0 : s->training + s->validation;
    if (s->known && (seen || !s->unsure))
        json_put_i64(w, seen_key, seen);
    else
        json_put_null(w, seen_key);
    json_put_i64(w, "patients", seen + s->unseen);
}

void seen_patients_json(const struct seen_patients *s, const struct manifest *m, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
    json_put_bool(w, "known", s->known);
    patients_put_role(m, s->role, PATIENT_TRAINING, w, "training");
    patients_put_role(m, s->role, PATIENT_VALIDATION, w, "validation");
    patients_put_role(m, s->role, PATIENT_TEST, w, "unseen");
    json_end(w, '}');
}
