#include "detect/builtin.h"

static const double ON = 0.75, OFF = 0.5, MIN_DURATION_S = 5;

int builtin_model(const char *name, struct modelfile *ret, struct err *err) {
    enum seizure_type type = seizure_feature_from_name(name);
    if (type == SEIZURE_TYPES)
        return err_set(err, ERR_INVALID, "there is no built-in model '%.40s'", name);
    const struct frontend_config frontend = {.montage = "bipolar-18",
                                             .notch_hz = FRONTEND_BOTH_NOTCHES,
                                             .bandpass_hz = {0.5, 120},
                                             .fill_gap_s = 2,
                                             .learn_background = true,
                                             .normalize = frontend_normalize_from_name(name)};
    struct modelfile m = {.hop = SEIZURE_STEP, .prior = 0.5};
    int rc = seizure_preset(type, "", 1, &m.model, err);
    events_config_default(&m.events);
    m.events.on = ON;
    m.events.off = OFF;
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

bool builtin_has(const char *name) { return seizure_feature_from_name(name) < SEIZURE_TYPES || builtin_is_trained(name); }

const char *builtin_nearest(const char *name) {
    enum { TYPING_ERRORS = 2 };
    const char *nearest = NULL;
    int least = TYPING_ERRORS + 1;
    for (int i = 0; i < SEIZURE_TYPES + BUILTIN_TRAINED; i++) {
        const char *other = i < SEIZURE_TYPES ? seizure_type_name((enum seizure_type)i) : builtin_trained[i - SEIZURE_TYPES];
        const int distance = builtin_has(other) ? str_distance(name, other) : least;
        nearest = distance < least ? other : nearest;
        least = distance < least ? distance : least;
    }
    return nearest;
}

static int write_trained(const char *cache, const char *name, struct err *err) {
    char from[4096 + 64], to[4096];
    int rc;
    if ((rc = builtin_installed(name, from, sizeof from, err)) || (rc = builtin_path(cache, name, to, sizeof to, err)))
        return rc;
    if (fsio_exists(from)) {
        if ((rc = fsio_copy(from, to, err)))
            return rc;
        str_copy(strrchr(from, '.'), sizeof ".md", ".md"); /* its page, for people: what it has learned from */
        str_copy(strrchr(to, '.'), sizeof ".md", ".md");
        return fsio_exists(from) ? fsio_copy(from, to, err) : 0;
    }
    return unlink(to) && errno != ENOENT ? err_errno(err, errno, "cannot remove %s", to) : 0;
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
    for (int i = 0; i < BUILTIN_TRAINED; i++) {
        int rc = write_trained(cache, builtin_trained[i], err);
        if (rc)
            return rc;
    }
    return 0;
}
