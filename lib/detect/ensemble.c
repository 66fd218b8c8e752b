#include "detect/ensemble.h"

#include "base/json.h"
#include "detect/modelfile.h"
#include "nn/param.h"
#include "store/safetensors.h"

enum { MAX_METADATA = 64, TEXT_BYTES = 64 << 10 };

/* The members, and what the file will hold. */
struct ensemble {
    int n;
    struct safetensors *files[SEIZURE_MAX_MEMBERS];
    struct modelfile models[SEIZURE_MAX_MEMBERS];
    struct safetensors_entry *entries;
    char (*names)[PARAM_NAME_MAX];
    float *heads[3 * SEIZURE_MAX_MEMBERS]; /* tensors that are not as in the members' files */
    int n_heads;
    struct safetensors_pair pairs[MAX_METADATA + 4];
    size_t n_pairs;
    bool full;
    struct str model, events, patients, members;
};

static void ensemble_done(struct ensemble *e) {
    for (int k = 0; k < e->n; k++)
        safetensors_close(e->files[k]);
    for (int i = 0; i < e->n_heads; i++)
        free(e->heads[i]);
    FREE_MEMBERS(*e, entries, names);
    str_done(&e->model);
    str_done(&e->events);
    str_done(&e->patients);
    str_done(&e->members);
}

static bool same_text(const struct ensemble *e, int k, const char *key) {
    const char *first = safetensors_metadata(e->files[0], key), *own = safetensors_metadata(e->files[k], key);
    return first && own && !strcmp(first, own);
}

static int open_member(struct ensemble *e, const char *path, struct err *err) {
    static const char *const keys[] = {"brr.model", "brr.frontend", "brr.hop"};
    int k = e->n, rc = safetensors_open(path, &e->files[k], err);
    if (rc)
        return rc;
    e->n++;
    for (size_t i = 0; i < safetensors_count(e->files[k]); i++)
        if ((rc = safetensors_check_finite(safetensors_at(e->files[k], i), path, err)))
            return rc;
    if ((rc = modelfile_parse(e->files[k], path, &e->models[k], err)))
        return rc;
    if (e->models[k].model.members > 1 || seizure_is_feature(e->models[k].model.type))
        return err_set(err, ERR_INVALID, "%s is %s; expected a model of one network", path,
                       e->models[k].model.members > 1 ? "an ensemble" : "a model without a network");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!same_text(e, k, keys[i]))
            return err_set(err, ERR_INVALID,
                           "%s has another %s than the first model; expected trainings that differ in seed or data", path, keys[i]);
    if (e->models[k].most_missing != e->models[0].most_missing)
        return err_set(err, ERR_INVALID, "%s can miss %lld channels and the first model %lld; expected the same", path,
                       (long long)e->models[k].most_missing, (long long)e->models[0].most_missing);
    return 0;
}

static double mean_of(const struct ensemble *e, bool on) {
    double sum = 0;
    for (int k = 0; k < e->n; k++) {
        double p = on ? e->models[k].events.on : e->models[k].events.off;
        sum += log(p / (1 - p)) / e->n;
    }
    return 1 / (1 + exp(-sum));
}

/* The elements of all members' lists as one list; none if a member does not say its patients. */
static int put_patients(struct ensemble *e, struct err *err) {
    str_puts(&e->patients, "[");
    for (int k = 0; k < e->n; k++) {
        const char *text = safetensors_metadata(e->files[k], "brr.patients");
        OWNED_POINTER(json_free) struct json *list = NULL;
        int rc = text ? json_parse(text, strlen(text), "brr.patients", &list, err) : 0;
        if (rc)
            return rc;
        if (!text || json_kind(list) != JSON_KIND_ARRAY) {
            str_clear(&e->patients);
            return 0;
        }
        const char *first = strchr(text, '['), *last = strrchr(text, ']');
        if (json_count(list))
            str_printf(&e->patients, "%s%.*s", e->patients.len > 1 ? "," : "", (int)(last - first - 1), first + 1);
    }
    str_puts(&e->patients, "]");
    return str_ok(&e->patients) ? 0 : err_set(err, ERR_EXHAUSTED, "the patients of the members take too many bytes");
}

static void keep_pair(void *ctx, const char *key, const char *value) {
    static const char *const others[] = {"brr.model",    "brr.events",     "brr.patients",        "brr.tuned",
                                         "brr.ensemble", MODELFILE_ALARMS, MODELFILE_TEMPERATURE, MODELFILE_CARD_KEY};
    struct ensemble *e = ctx;
    if (STR_AMONG(key, others) >= 0)
        return;
    e->full |= e->n_pairs == MAX_METADATA;
    if (!e->full)
        e->pairs[e->n_pairs++] = (struct safetensors_pair){key, value};
}

static void put_pair(struct ensemble *e, const char *key, const struct str *text) {
    e->pairs[e->n_pairs++] = (struct safetensors_pair){key, str_cstr(text)};
}

static int write_metadata(struct ensemble *e, struct err *err) {
    struct seizure_config model = e->models[0].model;
    struct events_config events;
    struct json_writer w;
    int rc;
    model.members = e->n;
    if ((rc = seizure_config_check(&model, err)) ||
        (rc = events_config_with(&e->models[0].events, mean_of(e, true), mean_of(e, false), &events, err)) ||
        (rc = put_patients(e, err)))
        return rc;
    json_writer_init(&w, &e->model);
    seizure_config_to_json(&model, &w, NULL);
    json_writer_init(&w, &e->events);
    events_config_to_json(&events, &w, NULL);
    json_writer_init(&w, &e->members);
    json_begin_array(&w, NULL);
    for (int k = 0; k < e->n; k++) {
        char sha256[DIGEST_HEX_SIZE];
        if (!safetensors_digest(e->files[k], sha256))
            return err_set(err, ERR_INTERNAL, "OpenSSL could not compute the SHA-256 of a member");
        json_put_str(&w, NULL, sha256);
    }
    json_end(&w, ']');
    safetensors_each_metadata(e->files[0], keep_pair, e);
    if (e->full)
        return err_set(err, ERR_RANGE, "the first model has more than %d metadata keys", MAX_METADATA);
    put_pair(e, "brr.model", &e->model);
    put_pair(e, "brr.events", &e->events);
    put_pair(e, "brr.ensemble", &e->members);
    if (e->patients.len)
        put_pair(e, "brr.patients", &e->patients);
    return 0;
}

/* A member's temperature becomes part of its last layer, which the logits are linear in. */
static int scale_head(struct ensemble *e, int k, struct safetensors_entry *entry, struct err *err) {
    static const char *const head[] = {"head.out.weight", "head.out.bias", "head.skip.weight"};
    float scale = modelfile_logit_scale(&e->models[k]);
    size_t n = entry->bytes / sizeof(float), known = 0;
    while (known < 3 && strcmp(entry->name, head[known]) != 0)
        known++;
    if (scale == 1 || known == 3)
        return 0;
    float *to = e->heads[e->n_heads] = malloc(entry->bytes + 1);
    if (!to)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", entry->name);
    e->n_heads++;
    memcpy(to, entry->data, entry->bytes);
    for (size_t i = 0; i < n; i++)
        to[i] *= scale;
    entry->data = to;
    return 0;
}

static int name_tensors(struct ensemble *e, size_t *ret_n, struct err *err) {
    size_t n = 0;
    for (int k = 0; k < e->n; k++)
        n += safetensors_count(e->files[k]);
    e->entries = calloc(n + 1, sizeof *e->entries);
    e->names = calloc(n + 1, sizeof *e->names);
    if (!e->entries || !e->names)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu tensors", n);
    *ret_n = n;
    n = 0;
    for (int k = 0; k < e->n; k++)
        for (size_t i = 0; i < safetensors_count(e->files[k]); i++, n++) {
            e->entries[n] = *safetensors_at(e->files[k], i);
            int rc = scale_head(e, k, &e->entries[n], err);
            if (rc)
                return rc;
            if (!str_format(e->names[n], sizeof e->names[n], "member.%d.%s", k, e->entries[n].name))
                return err_set(err, ERR_RANGE, "the name of a tensor is too long: %s", e->entries[n].name);
            e->entries[n].name = e->names[n];
        }
    return 0;
}

int ensemble_write(const char *const *paths, int n, const char *to, char ret_sha256[DIGEST_HEX_SIZE], struct err *err) {
    OWNED(ensemble_done) struct ensemble e = {0};
    size_t tensors = 0;
    int rc = 0;
    if (n < 2 || n > SEIZURE_MAX_MEMBERS)
        return err_set(err, ERR_INVALID, "an ensemble of %d models; expected 2 to %d", n, SEIZURE_MAX_MEMBERS);
    str_init(&e.model, TEXT_BYTES);
    str_init(&e.events, TEXT_BYTES);
    str_init(&e.patients, SAFETENSORS_MAX_HEADER);
    str_init(&e.members, TEXT_BYTES);
    for (int k = 0; k < n; k++)
        if ((rc = open_member(&e, paths[k], err)))
            return rc;
    if ((rc = write_metadata(&e, err)) || (rc = name_tensors(&e, &tensors, err)))
        return rc;
    const struct safetensors_content content = {e.entries, tensors, e.pairs, e.n_pairs};
    return safetensors_write(to, &content, ret_sha256, err);
}
