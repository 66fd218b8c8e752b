#include "train/train_card.h"

enum { MOST_SOURCE = 1000 };
#define SCORES event_f1, false_alarms_per_24h, auroc, loss

/* Patients, hours and seizures of a role; of several recordings of a patient each counts. */
static void put_role(const struct train *t, enum patient_role role, struct json_writer *w) {
    double seconds = 0;
    int64_t seizures = 0;
    struct str names = str_of(1);
    json_put_i64(w, "patients", patients_list(t->manifest, t->split, role, 0, &names));
    str_done(&names);
    for (int64_t i = 0; i < manifest_count(t->manifest); i++) {
        struct recording_info info;
        const struct recording *recording = manifest_entry(t->manifest, i)->recording;
        if (t->split[i] != role || !recording)
            continue;
        recording_info(recording, &info);
        seconds += recording_recorded_s(&info);
        seizures += info.n_seizures;
    }
    json_put_f64(w, "hours", seconds / 3600);
    json_put_i64(w, "seizures", seizures);
}

static void put_scores(const struct train *t, struct json_writer *w) {
    if (t->at.validated_step == STEP_NONE)
        json_put_bool(w, "ran", false);
    if (t->at.validated_step != t->at.step)
        return;
    json_put_str(w, "metric", t->job->training.stop_metric);
    json_put_f64(w, "value", t->newest.value.metric);
    JSON_MEMBERS(w, t->newest, SCORES);
    json_put_f64(w, "scored_seizures", t->newest.seizures);
}

void train_card_scores(const char *card, struct validation_result *ret) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    (void)json_parse(card, strlen(card), "card", &json, NULL);
    const struct json *role = json_get(json, "validation");
    JSON_TAKE(role, *ret, SCORES);
    ret->seizures = json_f64(json_get(role, "scored_seizures"), json_f64(json_get(role, "seizures"), NAN));
}

/* The text of data.source; several sources on one line. */
static void put_source(const struct train *t, struct json_writer *w) {
    char text[MOST_SOURCE];
    str_copy(text, sizeof text, t->job->data.source ? t->job->data.source : "");
    for (char *at = text; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    json_put_str(w, "source", text);
}

void train_card_update(struct train *t) {
    OWNED(str_done) struct str text = str_of(MODELFILE_CARD - 1);
    struct json_writer w = json_object_to(&text);
    if (t->env.version)
        json_put_str(&w, "version", t->env.version);
    put_source(t, &w);
    json_begin_object(&w, "training");
    put_role(t, PATIENT_TRAINING, &w);
    json_end(&w, '}');
    json_begin_object(&w, "validation");
    put_role(t, PATIENT_VALIDATION, &w);
    put_scores(t, &w);
    json_end(&w, '}');
    json_end(&w, '}');
    str_copy(t->file.card, sizeof t->file.card, str_ok(&text) ? str_cstr(&text) : "");
}
