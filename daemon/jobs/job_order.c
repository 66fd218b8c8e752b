#include "daemon/jobs/job_order.h"

enum { ORDER_BYTES = 24 << 20, MAX_SETS = 256 };

#define O(member) offsetof(struct job_order, member)
static const struct {
    const char *name;
    size_t offset;
} texts[] = {{"id", O(job.id)},     {"directory", O(job.directory)}, {"data_root", O(job.data_root)},
             {"yaml", O(job.yaml)}, {"file", O(job.file)},           {"overrides", O(job.overrides)},
             {"config", O(config)}, {"device", O(device)},           {"cache", O(cache)},
             {"page", O(page)}},
  numbers[] = {{"place", O(place)},
               {"threads", O(threads)},
               {"memory_limit", O(memory_limit_bytes)},
               {"wall_clock_ms", O(default_wall_clock_ms)},
               {"price_micros", O(price_micros)},
               {"device_ms", O(job.device_ms)}};
enum { TEXTS = sizeof texts / sizeof *texts, NUMBERS = sizeof numbers / sizeof *numbers };

int job_order_write(const struct job_order *o, char path[4096], struct err *err) {
    OWNED(str_done) struct str text = str_of(ORDER_BYTES);
    struct json_writer w = json_to(&text);
    int rc = fsio_join(path, 4096, o->job.directory, "order.json", err);
    if (rc)
        return rc;
    json_begin_object(&w, NULL);
    for (int i = 0; i < TEXTS; i++)
        json_put_str(&w, texts[i].name, *(const char *const *)((const char *)o + texts[i].offset));
    for (int i = 0; i < NUMBERS; i++)
        json_put_i64(&w, numbers[i].name, *(const int64_t *)((const char *)o + numbers[i].offset));
    JSON_ARRAY(&w, "sets", o->sets, o->n_sets);
    json_end(&w, '}');
    return fsio_write_text(path, &text, err);
}

static int read_sets(const struct json *list, struct arena *arena, struct job_order *ret, struct err *err) {
    const size_t n = json_count(list);
    const char **sets = n <= MAX_SETS ? arena_alloc(arena, (n + 1) * sizeof *sets) : NULL;
    bool whole = sets != NULL;
    for (size_t i = 0; i < n && whole; i++)
        whole = (sets[i] = arena_strdup(arena, json_str(json_at(list, i), ""))) != NULL;
    ret->sets = sets;
    ret->n_sets = (int)n;
    return whole ? 0 : err_set(err, ERR_EXHAUSTED, "too many overrides in the order of a job");
}

int job_order_read(const char *path, struct arena *arena, struct job_order *ret, struct err *err) {
    OWNED_POINTER(json_free) struct json *tree = NULL;
    int rc = json_read(path, ORDER_BYTES, &tree, err);
    *ret = (struct job_order){0};
    if (rc)
        return rc;
    for (int i = 0; i < TEXTS; i++) {
        const char *value = json_str(json_get(tree, texts[i].name), NULL);
        if (!value)
            return err_set(err, ERR_INVALID, "%s: %s is missing; the daemon writes such files", path, texts[i].name);
        if (!(*(const char **)((char *)ret + texts[i].offset) = arena_strdup(arena, value)))
            return err_set(err, ERR_EXHAUSTED, "%s is too large", path);
    }
    for (int i = 0; i < NUMBERS; i++)
        *(int64_t *)((char *)ret + numbers[i].offset) = json_i64(json_get(tree, numbers[i].name), 0);
    return read_sets(json_get(tree, "sets"), arena, ret, err);
}
