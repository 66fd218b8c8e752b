#include "detect/modelfile.h"

#include "base/json.h"
#include "store/safetensors.h"

int modelfile_set_frontend(struct modelfile *m, const struct frontend_config *frontend, struct err *err) {
    m->frontend = *frontend;
    if (!str_copy(m->montage, sizeof m->montage, frontend->montage))
        return err_set(err, ERR_INVALID, "data.montage is longer than %d characters", MODELFILE_TEXT - 1);
    m->frontend.montage = m->montage;
    return 0;
}

const char *modelfile_note(const struct modelfile *m) {
    return m->had_rejecter ? "the model was tuned with a rejecter of events, which no version applies any more: its own thresholds "
                             "decide; `brrctl tune` chooses new ones"
                           : "";
}

int64_t modelfile_hop(const struct modelfile *m) { return seizure_step(&m->model) ? seizure_step(&m->model) : m->hop; }

int64_t modelfile_window(const struct modelfile *m) { return seizure_step(&m->model) ? seizure_step(&m->model) : m->model.window; }

static int read_notch(const struct json *j, double *ret, struct err *err) {
    bool list = json_kind(j) == JSON_KIND_ARRAY;
    if (list && (json_count(j) != 2 || json_f64(json_at(j, 0), 0) != 50 || json_f64(json_at(j, 1), 0) != 60))
        return err_set(err, ERR_INVALID, "the model's notch_hz is a list other than [50, 60]; expected a number or this list");
    *ret = list ? FRONTEND_BOTH_NOTCHES : json_f64(j, 0);
    return 0;
}

/* A JSON value of the metadata. */
static int parse(const struct safetensors *st, const char *key, const char *path, struct json **ret, struct err *err) {
    const char *text = safetensors_metadata(st, key);
    if (!text)
        return err_set(err, ERR_INVALID, "%s lacks the metadata '%s': it was not written by this program's training", path, key);
    return json_parse(text, strlen(text), key, ret, err);
}

/* A model file without "normalize" takes z-scored windows; one without "reference" takes channels as recorded,
 * and baselines follow from their prior on in one without "learn_background", through events without "hold_background". */
static int read_frontend(const struct json *j, const char *path, struct modelfile *m, struct err *err) {
    const struct json *band = json_get(j, "bandpass_hz");
    const char *normalize = json_str(json_get(j, "normalize"), frontend_normalize_name(FRONTEND_WINDOW));
    const char *reference = json_str(json_get(j, "reference"), frontend_reference_name(FRONTEND_REFERENCE_RECORDED));
    struct frontend_config f = {
        .montage = json_str(json_get(j, "montage"), ""),
        .bandpass_hz = {json_f64(json_at(band, 0), 0.5), json_f64(json_at(band, 1), 120)},
        .fill_gap_s = json_f64(json_get(j, "fill_gap_s"), 2),
        .normalize = frontend_normalize_from_name(normalize),
        .reference = frontend_reference_from_name(reference),
        .learn_background = json_bool(json_get(j, "learn_background"), false),
        .hold_background = json_bool(json_get(j, "hold_background"), false),
    };
    if (f.normalize < 0)
        return err_set(err, ERR_INVALID, "%s: brr.frontend says normalize '%.40s'; expected " FRONTEND_NORMALIZE_NAMES, path,
                       normalize);
    if (json_bool(json_get(j, "hold_baseline"), false))
        return err_set(err, ERR_INVALID, "%s: brr.frontend says hold_baseline, which no version has any more: train again", path);
    if (f.hold_background && (!f.learn_background || frontend_feature(f.normalize) != FRONTEND_WARD))
        return err_set(
            err, ERR_INVALID,
            "%s: brr.frontend says hold_background; expected it beside learn_background and normalize 'ward' or 'baselines'", path);
    if (f.reference < 0)
        return err_set(err, ERR_INVALID, "%s: brr.frontend says reference '%.40s'; expected " FRONTEND_REFERENCE_NAMES, path,
                       reference);
    int rc = read_notch(json_get(j, "notch_hz"), &f.notch_hz, err);
    return rc ? rc : modelfile_set_frontend(m, &f, err);
}

/* The montage must give the inputs that the network takes. */
static int check_inputs(const struct modelfile *m, const char *path, struct err *err) {
    const char *type = seizure_type_name(m->model.type), *normalize = frontend_normalize_name(m->frontend.normalize);
    bool feature = seizure_is_feature(m->model.type);
    int channels = 0;
    if (feature ? strcmp(type, normalize) != 0 : frontend_is_feature(m->frontend.normalize))
        return err_set(err, ERR_INVALID, "%s: a model of type '%s' cannot take normalize '%s'; expected %s", path, type, normalize,
                       feature ? type : FRONTEND_NORMALIZE_NAMES);
    int rc = montage_channels(m->montage, NULL, &channels, err);
    if (rc)
        return rc;
    if (m->model.skip != frontend_has_baseline(m->frontend.normalize))
        return err_set(err, ERR_INVALID, "%s: the network %s, and its input has normalize '%s'", path,
                       m->model.skip ? "adds its last input to the logit" : "has no way for the feature of normalize 'baseline'",
                       normalize);
    int inputs = frontend_inputs(m->frontend.normalize, channels);
    if (inputs != m->model.in_channels)
        return err_set(err, ERR_INVALID, "%s: the network takes %d channels, its montage '%s' has %d with normalize '%s'", path,
                       m->model.in_channels, m->montage, inputs, frontend_normalize_name(m->frontend.normalize));
    return 0;
}

static int read_objects(const struct safetensors *st, const char *path, struct modelfile *m, struct err *err) {
    OWNED_POINTER(json_free) struct json *model = NULL, *frontend = NULL, *events = NULL, *labels = NULL;
    int rc;
    if ((rc = parse(st, "brr.model", path, &model, err)) || (rc = parse(st, "brr.frontend", path, &frontend, err)) ||
        (rc = parse(st, "brr.events", path, &events, err)) || (rc = parse(st, "brr.labels", path, &labels, err)) ||
        (rc = seizure_config_from_json(model, &m->model, err)) || (rc = read_frontend(frontend, path, m, err)) ||
        (rc = events_config_from_json(events, &m->events, err)) || (rc = check_inputs(m, path, err)))
        return rc;
    str_copy(m->labels, sizeof m->labels, json_str(json_get(labels, "format"), "auto"));
    m->had_rejecter = json_get(events, "rejecter") != NULL;
    return 0;
}

/* A model file without alarm thresholds has no sets. */
static int read_alarms(const struct safetensors *st, const char *path, struct modelfile *m, struct err *err) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    if (!safetensors_metadata(st, MODELFILE_ALARMS))
        return 0;
    int rc = parse(st, MODELFILE_ALARMS, path, &json, err);
    if (rc)
        return rc;
    if ((rc = alarm_sets_from_json(json, &m->alarms, err)))
        err_wrap(err, "%s: " MODELFILE_ALARMS, path);
    return rc;
}

static int read_metadata(const struct safetensors *st, const char *path, struct modelfile *m, struct err *err) {
    const char *kind = safetensors_metadata(st, "brr.kind"), *hop = safetensors_metadata(st, "brr.hop");
    const char *step = safetensors_metadata(st, "brr.step"), *epoch = safetensors_metadata(st, "brr.epoch");
    const char *prior = safetensors_metadata(st, "brr.prior"), *manifest = safetensors_metadata(st, "brr.manifest");
    const char *from = safetensors_metadata(st, "brr.init_from"), *sha = safetensors_metadata(st, "brr.init_from_sha256");
    const char *notice = safetensors_metadata(st, MODELFILE_NOTICE), *missing = safetensors_metadata(st, MODELFILE_MOST_MISSING);
    if (!kind || strcmp(kind, "seizure"))
        return err_set(err, ERR_INVALID, "%s is not a seizure model (metadata brr.kind is '%s')", path, kind ? kind : "missing");
    int rc = read_objects(st, path, m, err);
    if (rc || (rc = read_alarms(st, path, m, err)))
        return rc;
    if (!hop || !str_to_i64(hop, &m->hop) || m->hop < 1 || m->hop > m->model.window)
        return err_set(err, ERR_INVALID, "%s: metadata brr.hop is '%s'; expected samples up to the window of %lld", path,
                       hop ? hop : "missing", (long long)m->model.window);
    m->prior = NAN;
    if (missing && (!str_to_i64(missing, &m->most_missing) || m->most_missing < 0 || m->most_missing >= FRONTEND_MAX_CHANNELS))
        return err_set(err, ERR_INVALID, "%s: metadata " MODELFILE_MOST_MISSING " is '%.40s'; expected 0 to %d", path, missing,
                       FRONTEND_MAX_CHANNELS - 1);
    if (step)
        str_to_i64(step, &m->step);
    if (epoch)
        str_to_i64(epoch, &m->epoch);
    if (prior)
        str_to_f64(prior, &m->prior);
    const char *card = safetensors_metadata(st, MODELFILE_CARD_KEY);
    if (card && strlen(card) < sizeof m->card) /* a longer one is not ours */
        str_copy(m->card, sizeof m->card, card);
    str_copy(m->manifest, sizeof m->manifest, manifest ? manifest : "");
    str_copy(m->init_from, sizeof m->init_from, from ? from : "");
    if (!str_copy(m->notice, sizeof m->notice, notice ? notice : ""))
        return err_set(err, ERR_INVALID, "%s: metadata " MODELFILE_NOTICE " is longer than %zu bytes", path, sizeof m->notice - 1);
    str_copy(m->init_from_sha256, sizeof m->init_from_sha256, sha ? sha : "");
    return 0;
}

/* A number above 0; a file without the key leaves *ret as it is. */
static int read_positive(const struct safetensors *st, const char *key, const char *path, double *ret, struct err *err) {
    const char *text = safetensors_metadata(st, key);
    return !text || (str_to_f64(text, ret) && isfinite(*ret) && *ret > 0)
               ? 0
               : err_set(err, ERR_INVALID, "%s: metadata %s is '%.40s'; expected a number above 0", path, key, text);
}

int modelfile_parse(const struct safetensors *st, const char *path, struct modelfile *ret, struct err *err) {
    struct modelfile m = {0};
    int rc = read_metadata(st, path, &m, err);
    m.bf16_bound = MODELFILE_BF16_BOUND_DEFAULT;
    m.temperature = 1;
    if (rc || (rc = read_positive(st, MODELFILE_BF16_BOUND, path, &m.bf16_bound, err)) ||
        (rc = read_positive(st, MODELFILE_TEMPERATURE, path, &m.temperature, err)))
        return rc;
    *ret = m;
    ret->frontend.montage = ret->montage;
    return 0;
}

int modelfile_parse_patients(const struct safetensors *st, const char *path, char **ret, struct err *err) {
    const char *text = safetensors_metadata(st, "brr.patients");
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the patients of %s", path);
    *ret = copy;
    return 0;
}

int modelfile_read(const char *path, struct modelfile *ret, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    int rc = safetensors_open_header(path, &st, err);
    return rc ? rc : modelfile_parse(st, path, ret, err);
}

int modelfile_patients(const char *path, char **ret, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    int rc = safetensors_open_header(path, &st, err);
    return rc ? rc : modelfile_parse_patients(st, path, ret, err);
}
