#include "client/brrctl/feagi/feagi_genome.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fsio.h"
#include "base/json.h"
#include "base/str.h"

enum { MOST_GENOME_BYTES = 256 << 20 };
static const char GENE[] = "_____10c-";

struct feagi_genome {
    char path[4096];
    struct json *json;
    const struct json *blueprint;
};

/* The part of a gene behind the area, "nx-snooze-f"; NULL: no gene. The area's length. */
static const char *part_of(const char *key, size_t *ret_area) {
    size_t n = strlen(key);
    if (!str_starts(key, GENE) || n < sizeof GENE - 1 + 5)
        return NULL;
    for (size_t i = n - 4; i > sizeof GENE - 1; i--)
        if (key[i] == '-' && (key[i + 1] == 'n' || key[i + 1] == 'c') && key[i + 2] == 'x' && key[i + 3] == '-') {
            *ret_area = i - (sizeof GENE - 1);
            return key + i + 1;
        }
    return NULL;
}

static bool is_true(const struct json *j) { return json_bool(j, false) || json_f64(j, 0) != 0; }

/* A rule of a mapping is a list whose fourth element says that it is plastic, or an object. */
static bool is_plastic(const struct json *rule) {
    return is_true(json_get(rule, "plasticity_flag")) || (json_kind(rule) == JSON_KIND_ARRAY && is_true(json_at(rule, 3)));
}

static int check_mappings(const struct feagi_genome *g, const char *from, const struct json *mappings, struct err *err) {
    struct json_cursor at = {0};
    const char *to;
    const struct json *rules;
    while (json_next(mappings, &at, &to, &rules))
        for (size_t i = 0; i < json_count(rules); i++)
            if (is_plastic(json_at(rules, i)))
                return err_set(err, ERR_UNSUPPORTED, "%s: the mapping %s to %s is plastic, which the engine's synapses are not",
                               g->path, from, to);
    return 0;
}

static int check_part(const struct feagi_genome *g, const char *area, const char *part, const struct json *value, struct err *err) {
    if (!strcmp(part, "cx-dstmap-d") || !strcmp(part, "cortical_mapping_dst"))
        return check_mappings(g, area, value, err);
    if ((!strcmp(part, "cx-memory-b") || !strcmp(part, "is_mem_type")) && is_true(value))
        return err_set(err, ERR_UNSUPPORTED, "%s: %s is an area of memory, which the engine has not", g->path, area);
    return 0;
}

static int check_genome(const struct feagi_genome *g, struct err *err) {
    struct json_cursor at = {0}, within;
    const char *key, *part;
    const struct json *value, *inner;
    int rc = 0;
    while (!rc && json_next(g->blueprint, &at, &key, &value)) {
        size_t area;
        if ((part = part_of(key, &area))) {
            rc = check_part(g, key, part, value, err);
            continue;
        }
        for (within = (struct json_cursor){0}; !rc && json_next(value, &within, &part, &inner);)
            rc = check_part(g, key, part, inner, err);
    }
    return rc;
}

static int genome_read(struct feagi_genome *g, const char *path, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    int rc;
    str_copy(g->path, sizeof g->path, path);
    if ((rc = fsio_read(path, MOST_GENOME_BYTES, &text, &len, err)) || (rc = json_parse(text, len, path, &g->json, err)))
        return rc;
    g->blueprint = json_get(g->json, "blueprint");
    return json_count(g->blueprint) ? check_genome(g, err)
                                    : err_set(err, ERR_INVALID, "%s has no blueprint: it is no genome", path);
}

int feagi_genome_load(const char *path, struct feagi_genome **ret, struct err *err) {
    struct feagi_genome *g = calloc(1, sizeof *g);
    int rc = g ? genome_read(g, path, err) : err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    if (rc)
        feagi_genome_free(g);
    else
        *ret = g;
    return rc;
}

void feagi_genome_free(struct feagi_genome *g) {
    if (!g)
        return;
    json_free(g->json);
    free(g);
}

/* The value of a gene; versions of FEAGI disagree on whether a number's gene ends in f or in i. */
static const struct json *gene_of(const struct feagi_genome *g, const char *area, const char *gene) {
    char key[256];
    str_format(key, sizeof key, "%s%s-%s", GENE, area, gene);
    const struct json *value = json_get(g->blueprint, key);
    char *last = key + strlen(key) - 1;
    *last = *last == 'f' ? 'i' : *last == 'i' ? 'f' : *last;
    return value ? value : json_get(g->blueprint, key);
}

static int property(const struct feagi_genome *g, const char *area, const char *gene, const char *name, double *ret,
                    struct err *err) {
    const struct json *value = gene_of(g, area, gene);
    value = value ? value : json_get(json_get(g->blueprint, area), name);
    *ret = json_kind(value) == JSON_KIND_BOOL ? (double)json_bool(value, false) : json_f64(value, NAN);
    return isfinite(*ret) ? 0 : err_set(err, ERR_INVALID, "%s: area %s has no %s (%s)", g->path, area, name, gene);
}

int feagi_genome_area(const struct feagi_genome *g, const char *area, struct feagi_properties *ret, struct err *err) {
    int rc;
#define READ(field, gene, name)                                                                                                    \
    if ((rc = property(g, area, gene, name, &ret->field, err)))                                                                    \
        return rc;
    FEAGI_PROPERTIES(READ)
#undef READ
    return 0;
}
