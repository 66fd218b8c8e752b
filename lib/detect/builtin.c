#include "detect/builtin.h"

/* How such a model hears and decides: chosen, never trained (models/ward.md). */
static const struct hearing {
    double highest_hz, fill_gap_s, on, off, lookback_s, alarm_latch_s, temperature;
    int most_missing;
} of_one = {120, 2, 0.75, 0.5, 0, 0, 1, 0}, of_ward = {40, 10, 0.6, 0.4, 60, 60, 0.58, 10};
static const double MIN_DURATION_S = 5;

int builtin_model(const char *name, struct modelfile *ret, struct err *err) {
    enum seizure_type type = seizure_feature_from_name(name);
    if (type == SEIZURE_TYPES)
        return err_set(err, ERR_INVALID, "there is no built-in model '%.40s'", name);
    const struct hearing *own = type == SEIZURE_TYPE_WARD ? &of_ward : &of_one;
    const struct frontend_config frontend = {.montage = "bipolar-18",
                                             .notch_hz = FRONTEND_BOTH_NOTCHES,
                                             .bandpass_hz = {0.5, own->highest_hz},
                                             .fill_gap_s = own->fill_gap_s,
                                             .learn_background = true,
                                             .hold_background = type == SEIZURE_TYPE_WARD,
                                             .normalize = frontend_normalize_from_name(name)};
    struct modelfile m = {.hop = SEIZURE_STEP, .prior = 0.5, SAME_MEMBERS(*own, temperature, most_missing)};
    int rc = seizure_preset(type, "", 1, &m.model, err);
    events_config_default(&m.events);
    COPY_MEMBERS(m.events, *own, on, off, lookback_s, alarm_latch_s);
    m.events.min_duration_s = MIN_DURATION_S;
    m.patients = "[]"; /* trained on nobody */
    str_copy(m.labels, sizeof m.labels, "auto");
    if (rc)
        return rc;
    *ret = m;
    return modelfile_set_frontend(ret, &frontend, err);
}

int builtin_path(const char *cache, const char *name, char *ret, size_t size, struct err *err) {
    return str_format(ret, size, "%s/builtin/%s.safetensors", cache, name)
               ? 0
               : err_set(err, ERR_RANGE, "the path of the cache directory is too long: %.200s…", cache);
}

const char *builtin_nearest(const char *name) {
    enum { TYPING_ERRORS = 2 };
    const char *nearest = NULL;
    int least = TYPING_ERRORS + 1;
    for (int i = 0; i <= SEIZURE_TYPES; i++) {
        const char *other = i < SEIZURE_TYPES ? seizure_type_name((enum seizure_type)i) : BUILTIN_TRAINED;
        const int distance = builtin_has(other) ? str_distance(name, other) : least;
        nearest = distance < least ? other : nearest;
        least = distance < least ? distance : least;
    }
    return nearest;
}

static int write_trained(const char *cache, struct err *err) {
    char from[4096 + 64], to[4096];
    int rc;
    if ((rc = builtin_installed(BUILTIN_TRAINED, from, sizeof from, err)) ||
        (rc = builtin_path(cache, BUILTIN_TRAINED, to, sizeof to, err)))
        return rc;
    if (fsio_exists(from)) {
        if ((rc = fsio_copy(from, to, err)))
            return rc;
        str_copy(strrchr(from, '.'), sizeof ".md", ".md"); /* its page, for people: what it has learned from */
        str_copy(strrchr(to, '.'), sizeof ".md", ".md");
        return fsio_exists(from) ? fsio_copy(from, to, err) : 0;
    }
    return fsio_remove(to, err);
}

int builtin_write(const char *cache, struct err *err) {
    char path[4096];
    for (int type = 0; type < SEIZURE_TYPES; type++) {
        const char *name = seizure_type_name((enum seizure_type)type);
        struct modelfile m;
        int rc;
        if (!seizure_is_feature((enum seizure_type)type))
            continue;
        if ((rc = builtin_model(name, &m, err)) || (rc = builtin_path(cache, name, path, sizeof path, err)) ||
            (rc = fsio_mkdirs_above(path, err)) || (rc = modelfile_save_initial(path, &m, err)))
            return rc;
    }
    return write_trained(cache, err);
}
