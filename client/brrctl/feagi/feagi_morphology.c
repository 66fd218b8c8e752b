#include "client/brrctl/feagi/feagi_morphology.h"

enum kind { VECTORS, PATTERNS, PROJECTOR, SWEEPER, LAST_TO_FIRST, FIRST_TO_LAST, ENCODER, DECODER, TILE };
enum { FAR = 1 << 24 /* beyond every area */ };

/* Values from low to high along an axis: of the area, or counted from the source's; without the source's own where it has a hole.
 */
struct span {
    bool relative, hole;
    int32_t low, high;
};
/* A vector keeps its components in `low` of `to`. */
struct part {
    struct span from[3], to[3];
};

struct feagi_morphology {
    enum kind kind;
    int axis;        /* of a bitmask */
    uint8_t turn[3]; /* the axis of the source that lies along x, y, z of the target */
    int n_parts;
    struct part parts[];
};

static const struct function {
    const char *name;
    enum kind kind;
    int axis;
    uint8_t turn[3];
} FUNCTIONS[] = {
    {"block_to_block", VECTORS, 0, {0}},       {"projector", PROJECTOR, 0, {0, 1, 2}},    {"transpose_xy", PROJECTOR, 0, {1, 0, 2}},
    {"transpose_yz", PROJECTOR, 0, {0, 2, 1}}, {"transpose_xz", PROJECTOR, 0, {2, 1, 0}}, {"sweeper", SWEEPER, 0, {0}},
    {"last_to_first", LAST_TO_FIRST, 0, {0}},  {"first_to_last", FIRST_TO_LAST, 0, {0}},  {"bitmask_encoder_x", ENCODER, 0, {0}},
    {"bitmask_encoder_y", ENCODER, 1, {0}},    {"bitmask_encoder_z", ENCODER, 2, {0}},    {"bitmask_decoder_x", DECODER, 0, {0}},
    {"bitmask_decoder_y", DECODER, 1, {0}},    {"bitmask_decoder_z", DECODER, 2, {0}},    {"tile", TILE, 0, {0}},
};

static int alloc_parts(size_t n, const char *name, struct feagi_morphology **ret, struct err *err) {
    *ret = n < FAR ? calloc(1, sizeof **ret + n * sizeof(struct part)) : NULL;
    if (!*ret)
        return err_set(err, ERR_EXHAUSTED, "morphology %s: out of memory for %zu parts", name, n);
    (*ret)->n_parts = (int)n;
    return 0;
}

static int function_new(const char *name, struct feagi_morphology **ret, struct err *err) {
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (!strcmp(FUNCTIONS[i].name, name)) {
            int rc = alloc_parts(1, name, ret, err);
            if (rc)
                return rc;
            (*ret)->kind = FUNCTIONS[i].kind;
            (*ret)->axis = FUNCTIONS[i].axis;
            memcpy((*ret)->turn, FUNCTIONS[i].turn, sizeof(*ret)->turn);
            return 0;
        }
    return err_set(
        err, ERR_UNSUPPORTED,
        "the function %s is not one of FEAGI's whose synapses are determined: vectors, patterns, block_to_block, projector, "
        "transpose_*, sweeper, last_to_first, first_to_last, bitmask_*, tile",
        name);
}

static bool parse_component(const struct json *j, int32_t *ret) {
    int64_t value = json_i64(j, FAR);
    *ret = (int32_t)value;
    return json_kind(j) == JSON_KIND_INTEGER && value > -FAR && value < FAR;
}

static bool parse_offset(const char *text, int32_t *ret) {
    int64_t value;
    if (!str_to_i64(text, &value) || value <= -FAR || value >= FAR)
        return false;
    *ret = (int32_t)value;
    return true;
}

/* The two numbers of "LOW" separator "HIGH", each after the prefix. */
static bool parse_pair(const char *text, const char *separator, const char *prefix, struct span *ret) {
    char low[16];
    const char *at = strstr(text, separator);
    if (!at || (size_t)(at - text) >= sizeof low)
        return false;
    memcpy(low, text, (size_t)(at - text));
    low[at - text] = '\0';
    const char *high = at + strlen(separator);
    return str_starts(low, prefix) && str_starts(high, prefix) && parse_offset(low + strlen(prefix), &ret->low) &&
           parse_offset(high + strlen(prefix), &ret->high);
}

/* An element of a pattern: a number, or one of FEAGI's signs. */
static bool parse_span(const struct json *j, struct span *ret) {
    static const struct {
        const char *sign;
        struct span span;
    } SIGNS[] = {{"*", {false, false, 0, FAR}},  {"?", {true, false, 0, 0}},      {"!", {false, true, 0, FAR}},
                 {"?+", {true, false, 1, FAR}},  {"?-", {true, false, -FAR, -1}}, {"?+=", {true, false, 0, FAR}},
                 {"?-=", {true, false, -FAR, 0}}};
    const char *text = json_str(j, NULL);
    *ret = (struct span){0};
    if (!text) {
        bool ok = parse_component(j, &ret->low) && ret->low >= 0;
        ret->high = ret->low;
        return ok;
    }
    for (size_t i = 0; i < sizeof SIGNS / sizeof *SIGNS; i++)
        if (!strcmp(SIGNS[i].sign, text)) {
            *ret = SIGNS[i].span;
            return true;
        }
    if (parse_pair(text, "..", "", ret))
        return true;
    ret->relative = *text == '?';
    if (parse_pair(text, ":", "?", ret))
        return true;
    bool ok = parse_offset(text + ret->relative, &ret->low) && (ret->relative || ret->low >= 0);
    ret->high = ret->low;
    return ok;
}

static bool parse_spans(const struct json *list, struct span ret[3]) {
    return json_count(list) == 3 && parse_span(json_at(list, 0), &ret[0]) && parse_span(json_at(list, 1), &ret[1]) &&
           parse_span(json_at(list, 2), &ret[2]);
}

static bool parse_part(enum kind kind, const struct json *j, struct part *ret) {
    if (kind == PATTERNS)
        return json_count(j) == 2 && parse_spans(json_at(j, 0), ret->from) && parse_spans(json_at(j, 1), ret->to);
    bool ok = json_count(j) == 3;
    for (size_t axis = 0; axis < 3; axis++)
        ok = ok && parse_component(json_at(j, axis), &ret->to[axis].low);
    return ok;
}

static int list_new(const struct json *list, enum kind kind, const char *name, struct feagi_morphology **ret, struct err *err) {
    int rc = json_kind(list) == JSON_KIND_ARRAY
                 ? alloc_parts(json_count(list), name, ret, err)
                 : err_set(err, ERR_INVALID, "morphology %s has no %s", name, kind == VECTORS ? "vectors" : "patterns");
    if (rc)
        return rc;
    (*ret)->kind = kind;
    for (int i = 0; i < (*ret)->n_parts; i++)
        if (!parse_part(kind, json_at(list, (size_t)i), &(*ret)->parts[i])) {
            feagi_morphology_free(*ret);
            *ret = NULL;
            return err_set(err, ERR_INVALID, "morphology %s: its %s %d is malformed; expected %s", name,
                           kind == VECTORS ? "vector" : "pattern", i,
                           kind == VECTORS
                               ? "three whole numbers"
                               : "two lists of three, of numbers, *, ?, !, ?+, ?-, ?+=, ?-=, ?+N, ?-N, ?-N:?+M or N..M");
        }
    return 0;
}

int feagi_morphology_new(const struct json *all, const char *name, struct feagi_morphology **ret, struct err *err) {
    const struct json *definition = json_get(all, name), *parameters = json_get(definition, "parameters");
    const char *type = json_str(json_get(definition, "type"), "");
    *ret = NULL;
    if (!strcmp(type, "vectors"))
        return list_new(json_get(parameters, "vectors"), VECTORS, name, ret, err);
    if (!strcmp(type, "patterns"))
        return list_new(json_get(parameters, "patterns"), PATTERNS, name, ret, err);
    if (definition && strcmp(type, "functions") != 0 && strcmp(type, "composite") != 0)
        return err_set(err, ERR_INVALID, "morphology %s is of type \"%s\"; expected vectors, patterns, functions or composite",
                       name, type);
    return function_new(name, ret, err);
}

void feagi_morphology_free(struct feagi_morphology *m) { free(m); }
int feagi_morphology_parts(const struct feagi_morphology *m) { return m->n_parts; }
bool feagi_morphology_unites(const struct feagi_morphology *m) { return m->kind == PATTERNS; }

static void put_target(struct feagi_targets *t, int axis, uint32_t value) { t->along[axis][t->n[axis]++] = value; }
static uint32_t lower_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void aim_vector(const struct part *p, const struct feagi_voxel *to, const struct feagi_voxel *source,
                       struct feagi_targets *ret) {
    for (int i = 0; i < 3; i++) {
        int64_t at = (int64_t)source->at[i] + p->to[i].low, last = (int64_t)to->at[i] - 1;
        put_target(ret, i, (uint32_t)(at < 0 ? 0 : at > last ? last : at));
    }
}

/* On the side of the source only absolute spans choose. */
static void aim_pattern(const struct part *p, const struct feagi_voxel *to, const struct feagi_voxel *source,
                        struct feagi_targets *ret) {
    for (int i = 0; i < 3; i++) {
        int64_t at = source->at[i];
        if (!p->from[i].relative && (at < p->from[i].low || at > p->from[i].high))
            return;
    }
    for (int i = 0; i < 3; i++) {
        int64_t base = p->to[i].relative ? source->at[i] : 0, low = base + p->to[i].low, high = base + p->to[i].high;
        for (int64_t v = low < 0 ? 0 : low; v <= high && v < to->at[i]; v++)
            if (!p->to[i].hole || v != source->at[i])
                put_target(ret, i, (uint32_t)v);
    }
}

/* FEAGI divides in float32. A longer target has several voxels for one of the source, side by side. */
static void aim_projector(const struct feagi_morphology *m, const struct feagi_voxel *from, const struct feagi_voxel *to,
                          const struct feagi_voxel *source, struct feagi_targets *ret) {
    for (int i = 0; i < 3; i++) {
        uint32_t size = from->at[m->turn[i]], at = source->at[m->turn[i]];
        if (size >= to->at[i]) {
            uint32_t v = (uint32_t)((float)at / ((float)size / (float)to->at[i]));
            if (v < to->at[i])
                put_target(ret, i, v);
            continue;
        }
        float ratio = (float)to->at[i] / (float)size;
        uint32_t v = (uint32_t)((float)at * ratio);
        for (v = v > 2 ? v - 2 : 0; v < to->at[i] && (uint32_t)((float)v / ratio) <= at; v++)
            if ((uint32_t)((float)v / ratio) == at)
                put_target(ret, i, v);
    }
}

static void put_voxel(struct feagi_targets *t, uint32_t x, uint32_t y, uint32_t z) {
    put_target(t, 0, x);
    put_target(t, 1, y);
    put_target(t, 2, z);
}

/* The next voxel, x first; the last has none. */
static void aim_sweeper(const struct feagi_voxel *to, const struct feagi_voxel *source, struct feagi_targets *ret) {
    uint32_t at[3];
    for (int i = 0; i < 3; i++)
        at[i] = lower_of(source->at[i], to->at[i] - 1);
    if (at[0] + 1 < to->at[0])
        put_voxel(ret, at[0] + 1, at[1], at[2]);
    else if (at[1] + 1 < to->at[1])
        put_voxel(ret, 0, at[1] + 1, at[2]);
    else if (at[2] + 1 < to->at[2])
        put_voxel(ret, 0, 0, at[2] + 1);
}

/* Bit `index` of a number of `width` bits, the highest first. */
static bool has_bit(uint32_t value, uint32_t index, uint32_t width) {
    return index < width && width - 1 - index < 32 && (value >> (width - 1 - index) & 1);
}

static void aim_bitmask(const struct feagi_morphology *m, const struct feagi_voxel *from, const struct feagi_voxel *to,
                        const struct feagi_voxel *source, struct feagi_targets *ret) {
    for (int i = 0; i < 3; i++) {
        uint32_t at = source->at[i], size = to->at[i];
        if (i != m->axis)
            put_target(ret, i, lower_of(at, size - 1));
        else
            for (uint32_t v = m->kind == DECODER && size > 32 ? size - 32 : 0; v < size; v++)
                if (m->kind == ENCODER ? has_bit(v, at, from->at[i]) : has_bit(at, v, size))
                    put_target(ret, i, v);
    }
}

static double voxels(const struct feagi_voxel *size) { return (double)size->at[0] * size->at[1] * size->at[2]; }

/* A larger source is folded into the target, another one repeated in it. */
static void aim_tile(const struct feagi_voxel *from, const struct feagi_voxel *to, const struct feagi_voxel *source,
                     struct feagi_targets *ret) {
    for (int i = 0; i < 3; i++)
        if (voxels(from) > voxels(to))
            put_target(ret, i, source->at[i] % to->at[i]);
        else
            for (uint32_t v = source->at[i]; v < to->at[i]; v += from->at[i])
                put_target(ret, i, v);
}

static bool is_last(const struct feagi_voxel *source, const struct feagi_voxel *size) {
    return source->at[0] + 1 == size->at[0] && source->at[1] + 1 == size->at[1] && source->at[2] + 1 == size->at[2];
}

void feagi_morphology_aim(const struct feagi_morphology *m, int part, const struct feagi_voxel *from, const struct feagi_voxel *to,
                          const struct feagi_voxel *source, struct feagi_targets *ret) {
    memset(ret->n, 0, sizeof ret->n);
    switch (m->kind) {
    case VECTORS:
        aim_vector(&m->parts[part], to, source, ret);
        break;
    case PATTERNS:
        aim_pattern(&m->parts[part], to, source, ret);
        break;
    case PROJECTOR:
        aim_projector(m, from, to, source, ret);
        break;
    case SWEEPER:
        aim_sweeper(to, source, ret);
        break;
    case LAST_TO_FIRST:
        if (is_last(source, from))
            put_voxel(ret, 0, 0, 0);
        break;
    case FIRST_TO_LAST:
        if (!source->at[0] && !source->at[1] && !source->at[2])
            put_voxel(ret, to->at[0] - 1, to->at[1] - 1, to->at[2] - 1);
        break;
    case ENCODER:
    case DECODER:
        aim_bitmask(m, from, to, source, ret);
        break;
    case TILE:
        aim_tile(from, to, source, ret);
        break;
    }
}
