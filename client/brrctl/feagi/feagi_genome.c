#include "client/brrctl/feagi/feagi_genome.h"

#include "base/json.h"

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

/* A flag that is neither true nor false counts as set, so that it is refused. */
static bool is_true(const struct json *j) {
    enum json_kind kind = json_kind(j);
    return kind == JSON_KIND_BOOL ? json_bool(j, false) : kind == JSON_KIND_NULL ? false : json_f64(j, 1) != 0;
}

/* FEAGI has areas of memory by a flag, by a group, or by both. */
static bool is_memory(const char *part, const struct json *value) {
    static const char *const FLAGS[] = {"cx-memory-b", "is_mem_type"}, *const GROUPS[] = {"cx-_group-t", "group_id",
                                                                                          "cortical_group"};
    if (STR_AMONG(part, FLAGS) >= 0)
        return is_true(value);
    return STR_AMONG(part, GROUPS) >= 0 && !strcasecmp(json_str(value, ""), "memory");
}

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
    if (is_memory(part, value))
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

/* The value of a gene; versions of FEAGI disagree on its scope, cx or nx, and on whether a number's gene ends in f or in i. */
static const struct json *gene_of(const struct feagi_genome *g, const char *area, const char *gene) {
    const struct json *value = NULL;
    for (int variant = 0; variant < 4 && !value; variant++) {
        char key[256];
        str_format(key, sizeof key, "%s%s-%s", GENE, area, gene);
        char *last = key + strlen(key) - 1, *scope = key + strlen(key) - strlen(gene);
        if (variant & 1)
            *last = *last == 'f' ? 'i' : *last == 'i' ? 'f' : *last;
        if (variant & 2)
            *scope = *scope == 'c' ? 'n' : 'c';
        value = json_get(g->blueprint, key);
    }
    return value;
}

/* By its gene or its name; NULL: neither. */
static const struct json *trait_of(const struct feagi_genome *g, const char *area, const char *gene, const char *name) {
    const struct json *value = gene_of(g, area, gene);
    return value ? value : json_get(json_get(g->blueprint, area), name);
}

/* Returns 0 or 1 for a flag, the value for a number that float32 holds, NAN for anything else. */
static double scalar_of(const struct json *value, bool flag) {
    double number = json_f64(value, NAN);
    if (flag)
        return json_kind(value) == JSON_KIND_BOOL ? (double)json_bool(value, false) : number == 0 || number == 1 ? number : NAN;
    return fabs(number) <= (double)FLT_MAX ? number : NAN;
}

struct property {
    const char *gene, *name;
    double absent, *ret;
};
static int read_property(const struct feagi_genome *g, const char *area, struct property p, struct err *err) {
    const struct json *value = trait_of(g, area, p.gene, p.name);
    *p.ret = value ? scalar_of(value, str_ends(p.gene, "-b")) : p.absent;
    if (isfinite(*p.ret))
        return 0;
    return value ? err_set(err, ERR_INVALID, "%s: %s (%s) of area %s is no %s", g->path, p.name, p.gene, area,
                           str_ends(p.gene, "-b") ? "flag" : "number of float32")
                 : err_set(err, ERR_INVALID, "%s: area %s has no %s (%s)", g->path, area, p.name, p.gene);
}

#define READ(field, gene, name, absent)                                                                                            \
    if ((rc = read_property(g, area, (struct property){gene, name, absent, &ret->field}, err)))                                    \
        return rc;

int feagi_genome_area(const struct feagi_genome *g, const char *area, struct feagi_properties *ret, struct err *err) {
    int rc;
    FEAGI_PROPERTIES(READ)
    return 0;
}

int feagi_genome_seeds(const struct feagi_genome *g, const char *area, struct feagi_seeds *ret, struct err *err) {
    static const char *const GENES[] = {"cx-___bbx-i", "cx-___bby-i", "cx-___bbz-i"};
    int rc;
    FEAGI_SEEDS(READ)
    const struct json *sizes = json_get(json_get(g->blueprint, area), "block_boundaries");
    for (size_t i = 0; i < 3; i++) {
        const struct json *gene = gene_of(g, area, GENES[i]);
        ret->size[i] = scalar_of(gene ? gene : json_at(sizes, i), false);
        if (!isfinite(ret->size[i]))
            return err_set(err, ERR_INVALID, "%s: area %s has no block_boundaries (%s)", g->path, area, GENES[i]);
    }
    ret->mappings = trait_of(g, area, "cx-dstmap-d", "cortical_mapping_dst");
    return 0;
}
#undef READ

const struct json *feagi_genome_morphologies(const struct feagi_genome *g) { return json_get(g->json, "neuron_morphologies"); }

/* The names found so far; genes of an area mostly lie side by side. */
struct names {
    char (*all)[FEAGI_NAME_SIZE];
    int n, room;
};
static int keep_name(struct names *names, const char *name, size_t len, struct err *err) {
    for (int i = names->n; i-- > 0;)
        if (!strncmp(names->all[i], name, len) && !names->all[i][len])
            return 0;
    if (!len || len >= FEAGI_NAME_SIZE)
        return err_set(err, ERR_UNSUPPORTED, "the name of area %.80s is empty or longer than %d letters", name,
                       FEAGI_NAME_SIZE - 1);
    if (names->n == names->room) {
        int room = names->room ? 2 * names->room : 64;
        void *more = realloc(names->all, (size_t)room * sizeof *names->all);
        if (!more)
            return err_set(err, ERR_EXHAUSTED, "out of memory for %d areas", room);
        names->all = more;
        names->room = room;
    }
    str_format(names->all[names->n++], FEAGI_NAME_SIZE, "%.*s", (int)len, name);
    return 0;
}

int feagi_genome_names(const struct feagi_genome *g, char (**ret)[FEAGI_NAME_SIZE], int *ret_n, struct err *err) {
    struct names names = {0};
    struct json_cursor at = {0};
    const char *key;
    const struct json *value;
    int rc = 0;
    while (!rc && json_next(g->blueprint, &at, &key, &value)) {
        size_t len;
        if (part_of(key, &len))
            rc = keep_name(&names, key + sizeof GENE - 1, len, err);
        else if (json_kind(value) == JSON_KIND_OBJECT)
            rc = keep_name(&names, key, strlen(key), err);
        else
            rc = err_set(err, ERR_UNSUPPORTED, "%s: %.80s in its blueprint is neither a gene nor an area", g->path, key);
    }
    if (rc) {
        free(names.all);
        return rc;
    }
    *ret = names.all;
    *ret_n = names.n;
    return 0;
}
