#include "evaluate/traces.h"

#include "store/safetensors.h"

enum { NAME_DIGITS = 32 };

int trace_path(const char *directory, const struct trace_origin *origin, char *ret, size_t size, struct err *err) {
    return str_format(ret, size, "%s/" TRACES_FOLDER "/%.*s-%.*s-%lld.safetensors", directory, NAME_DIGITS, origin->key,
                      NAME_DIGITS, origin->model, (long long)origin->alarm_hop)
               ? 0
               : err_set(err, ERR_RANGE, "path too long: %.200s…", directory);
}

int trace_write(const char *path, const struct trace_values *v, struct err *err) {
    const struct safetensors_entry entries[] = {
        {"alarm_p", SAFETENSORS_F32, 1, {v->alarm_p ? v->n : 0}, v->alarm_p, v->alarm_p ? (size_t)v->n * sizeof *v->alarm_p : 0},
        {"alarms_s", SAFETENSORS_F64, 1, {v->n_alarms}, v->alarms_s, (size_t)v->n_alarms * sizeof *v->alarms_s},
        {"p", SAFETENSORS_F32, 1, {v->n}, v->p, (size_t)v->n * sizeof *v->p},
    };
    const struct safetensors_content content = {.entries = entries, .n_entries = sizeof entries / sizeof *entries};
    return safetensors_write(path, &content, NULL, err);
}

static bool is_trace(const struct safetensors_entry *p, int64_t n) {
    return p && p->dtype == SAFETENSORS_F32 && p->rank == 1 && p->shape[0] == n;
}

static int check(const struct safetensors *st, const char *path, int64_t n, struct err *err) {
    const struct safetensors_entry *alarm_p = safetensors_find(st, "alarm_p"), *alarms = safetensors_find(st, "alarms_s");
    if (is_trace(safetensors_find(st, "p"), n) && (is_trace(alarm_p, n) || is_trace(alarm_p, 0)) && alarms &&
        alarms->dtype == SAFETENSORS_F64 && alarms->rank == 1)
        return 0;
    return err_set(err, ERR_DATA_LOSS, "%s does not hold traces of %lld samples", path, (long long)n);
}

int trace_read(const char *path, int64_t n, struct trace_values *ret, struct err *err) {
    struct safetensors *st = NULL;
    int rc = safetensors_open(path, &st, err);
    if (rc || (rc = check(st, path, n, err))) {
        safetensors_close(st);
        return rc;
    }
    const struct safetensors_entry *p = safetensors_find(st, "p"), *alarms = safetensors_find(st, "alarms_s");
    const struct safetensors_entry *alarm_p = safetensors_find(st, "alarm_p");
    *ret = (struct trace_values){.p = p->data,
                                 .alarm_p = alarm_p->shape[0] ? alarm_p->data : NULL,
                                 .n = n,
                                 .alarms_s = alarms->data,
                                 .n_alarms = alarms->shape[0],
                                 .file = st};
    return 0;
}

int trace_check(const char *path, int64_t n, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    int rc = safetensors_open_header(path, &st, err);
    return rc ? rc : check(st, path, n, err);
}

void trace_drop(struct trace_values *v) {
    safetensors_close(v->file);
    *v = (struct trace_values){0};
}
