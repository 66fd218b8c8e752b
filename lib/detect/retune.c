#include "detect/retune.h"

#include "base/json.h"
#include "detect/events.h"
#include "detect/modelfile.h"
#include "store/safetensors.h"
#include "windows/patients.h"

#define EVENTS_KEY   "brr.events"
#define TUNED_KEY    "brr.tuned"
#define PATIENTS_KEY "brr.patients"
enum { MAX_METADATA = 64, EVENTS_BYTES = 64 << 10 };

/* The metadata of the copy. */
struct pairs {
    struct safetensors_pair items[MAX_METADATA + 4];
    size_t n;
    bool full, other_alarms, other_patients;
};

static void keep_pair(void *ctx, const char *key, const char *value) {
    struct pairs *p = ctx;
    if (!strcmp(key, EVENTS_KEY) || !strcmp(key, TUNED_KEY) || (p->other_alarms && !strcmp(key, MODELFILE_ALARMS)) ||
        (p->other_patients && !strcmp(key, PATIENTS_KEY)))
        return;
    if (p->n == MAX_METADATA)
        p->full = true;
    else
        p->items[p->n++] = (struct safetensors_pair){key, value};
}

static int other_events(const struct safetensors *st, const char *path, const struct retune *retune, struct str *ret,
                        struct err *err) {
    const char *text = safetensors_metadata(st, EVENTS_KEY);
    struct events_config events;
    struct json_writer w = json_to(ret);
    OWNED_POINTER(json_free) struct json *json = NULL;
    if (!text)
        return err_set(err, ERR_INVALID, "%s has no metadata '%s'; expected a seizure model", path, EVENTS_KEY);
    int rc;
    if ((rc = json_parse(text, strlen(text), EVENTS_KEY, &json, err)) || (rc = events_config_from_json(json, &events, err)))
        return rc;
    if ((rc = events_config_with(&events, retune->on, retune->off, &events, err)))
        return rc;
    events.lookback_s = retune->lookback_s;
    events_config_to_json(&events, &w, NULL);
    return 0;
}

/* The list of the model, with those whom the thresholds were chosen on in front. */
static int other_patients(const struct safetensors *st, const char *path, const struct retune *retune, struct str *ret,
                          struct err *err) {
    OWNED_MEMORY char *earlier = NULL;
    struct json_writer w = json_to(ret);
    int rc = modelfile_parse_patients(st, path, &earlier, err);
    json_begin_array(&w, NULL);
    json_put_raw(&w, NULL, retune->patients);
    if (rc || (rc = patients_put_earlier(&w, path, earlier, err)))
        return rc;
    json_end(&w, ']');
    return str_ok(ret) ? 0 : err_set(err, ERR_EXHAUSTED, "the patients of %s take too many bytes", path);
}

static int write_copy(const struct safetensors *st, const char *to, const struct retune *retune, const char *events,
                      const char *patients, char ret_sha256[DIGEST_HEX_SIZE], struct err *err) {
    struct pairs pairs = {.other_alarms = retune->alarms != NULL, .other_patients = *patients};
    struct str alarms = str_of(EVENTS_BYTES);
    struct json_writer w = json_to(&alarms);
    size_t n = safetensors_count(st);
    safetensors_each_metadata(st, keep_pair, &pairs);
    if (pairs.full)
        return err_set(err, ERR_RANGE, "%s: the model has more than %d metadata keys", to, MAX_METADATA);
    OWNED_MEMORY struct safetensors_entry *entries = calloc(n + 1, sizeof *entries);
    if (!entries)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", to);
    for (size_t i = 0; i < n; i++)
        entries[i] = *safetensors_at(st, i);
    pairs.items[pairs.n++] = (struct safetensors_pair){EVENTS_KEY, events};
    pairs.items[pairs.n++] = (struct safetensors_pair){TUNED_KEY, retune->origin};
    if (*patients)
        pairs.items[pairs.n++] = (struct safetensors_pair){PATIENTS_KEY, patients};
    if (retune->alarms && retune->alarms->n) {
        alarm_sets_to_json(retune->alarms, &w, NULL);
        pairs.items[pairs.n++] = (struct safetensors_pair){MODELFILE_ALARMS, str_cstr(&alarms)};
    }
    const struct safetensors_content content = {entries, n, pairs.items, pairs.n};
    int rc = safetensors_write(to, &content, ret_sha256, err);
    str_done(&alarms);
    return rc;
}

int retune_model(const char *from, const char *to, const struct retune *retune, char ret_sha256[DIGEST_HEX_SIZE], struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    int rc = safetensors_open(from, &st, err);
    for (size_t i = 0; !rc && i < safetensors_count(st); i++)
        rc = safetensors_check_finite(safetensors_at(st, i), from, err);
    if (rc)
        return rc;
    OWNED(str_done) struct str events = str_of(EVENTS_BYTES), patients = str_of(SAFETENSORS_MAX_HEADER);
    if ((rc = other_events(st, from, retune, &events, err)) ||
        (retune->patients && (rc = other_patients(st, from, retune, &patients, err))))
        return rc;
    return write_copy(st, to, retune, str_cstr(&events), str_cstr(&patients), ret_sha256, err);
}
