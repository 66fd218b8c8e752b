/* A binary file begins with "FEAGI" and the version; from version 2 on flags and the size before compression follow; then FNV-1a of
 * the rest, which is the snapshot as bincode 1 writes it: fields in their order, little-endian, lengths as 64-bit numbers. It does
 * not describe itself, so a layout is taken for that of another version unless all lengths fit and the file ends where the snapshot
 * does. */
#include "client/brrctl/feagi/feagi_file.h"

#ifdef BRR_LZ4
#include <lz4.h>
#endif

#include "base/json.h"

static const char MAGIC[] = "FEAGI";
enum { NEWEST_VERSION = 2, COMPRESSED = 1, MOST_FILE_BYTES = INT32_MAX };

/* One array of a connectome. */
struct feagi_array {
    const char *name, *other_name; /* other_name: of later JSON; NULL: none */
    void **data;
    size_t bytes, each; /* of an element; elements of a neuron or synapse */
    char kind;          /* 'f': float, 'i': signed, 'u': unsigned */
};
enum { MOST_ARRAYS = 16 };

#define KIND_OF(type) _Generic((type)0, float : 'f', int32_t : 'i', default : 'u')
#define ROW(type, field, count)                                                                                                    \
    ret[n++] = (struct feagi_array){#field, NULL, (void **)&c->group.field, sizeof(type), count, KIND_OF(type)};

static int arrays_of_neurons(struct feagi_connectome *c, struct feagi_array ret[MOST_ARRAYS]) {
    int n = 0;
#define group neurons
    FEAGI_NEURONS(ROW)
#undef group
    return n;
}

static int arrays_of_synapses(struct feagi_connectome *c, struct feagi_array ret[MOST_ARRAYS]) {
    int n = 0;
#define group synapses
    FEAGI_SYNAPSES(ROW)
#undef group
    for (int i = 0; i < n; i++)
        if (!strcmp(ret[i].name, "conductances"))
            ret[i].other_name = "postsynaptic_potentials";
    return n;
}

static int area_new(struct feagi_connectome *c, int64_t n, struct err *err) {
    c->areas = calloc((size_t)n + 1, sizeof *c->areas);
    return c->areas ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %lld areas", (long long)n);
}

/* ---- binary ----------------------------------------------------------------------------------------------------- */

struct bincode {
    const uint8_t *at;
    size_t left;
    bool bad; /* it has ended, or a length is impossible */
};

static uint64_t take_number(struct bincode *b, size_t bytes) {
    uint64_t value = 0;
    if (b->left < bytes) {
        b->bad = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)b->at[i] << 8 * i;
    b->at += bytes;
    b->left -= bytes;
    return value;
}

static const uint8_t *take_bytes(struct bincode *b, uint64_t n, size_t each) {
    const uint8_t *at = b->at;
    if (n > b->left / each) {
        b->bad = true;
        return NULL;
    }
    b->at += n * each;
    b->left -= n * each;
    return at;
}

/* The array has room for the used elements at least; the rest is spare. */
static int take_array(struct bincode *b, const struct feagi_array *a, int64_t n, struct err *err) {
    uint64_t length = take_number(b, 8);
    const uint8_t *from = take_bytes(b, length, a->bytes);
    size_t used = (size_t)n * a->each;
    if (b->bad || length < used) {
        b->bad = true;
        return 0;
    }
    if (!(*a->data = malloc(used * a->bytes + 1)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu elements of %s", used, a->name);
    memcpy(*a->data, from, used * a->bytes);
    return 0;
}

static int take_group(struct bincode *b, const struct feagi_array *arrays, int n_arrays, int64_t *ret_n, struct err *err) {
    uint64_t n = take_number(b, 8), capacity = take_number(b, 8);
    int rc = 0;
    b->bad |= n > capacity || n > UINT32_MAX;
    *ret_n = (int64_t)n;
    for (int i = 0; !b->bad && !rc && i < n_arrays; i++)
        rc = take_array(b, &arrays[i], *ret_n, err);
    return rc;
}

static void skip_text(struct bincode *b) { (void)take_bytes(b, take_number(b, 8), 1); }

static int take_areas(struct bincode *b, struct feagi_connectome *c, struct err *err) {
    uint64_t n = take_number(b, 8);
    b->bad |= n > b->left / 12;
    int rc = b->bad ? 0 : area_new(c, (int64_t)n, err);
    for (uint64_t i = 0; !b->bad && !rc && i < n; i++) {
        struct feagi_area *area = &c->areas[c->n_areas++];
        area->id = (uint32_t)take_number(b, 4);
        uint64_t length = take_number(b, 8);
        const uint8_t *text = take_bytes(b, length, 1);
        if (length >= sizeof area->name)
            return err_set(err, ERR_UNSUPPORTED, "the name of area %u has %llu bytes; expected at most %zu", area->id,
                           (unsigned long long)length, sizeof area->name - 1);
        if (text)
            memcpy(area->name, text, length);
    }
    return rc;
}

static int take_snapshot(struct bincode *b, struct feagi_connectome *c, struct err *err) {
    struct feagi_array arrays[MOST_ARRAYS];
    int rc;
    (void)take_number(b, 4); /* a version that is 1 in all of them */
    if ((rc = take_group(b, arrays, arrays_of_neurons(c, arrays), &c->n_neurons, err)) ||
        (rc = take_group(b, arrays, arrays_of_synapses(c, arrays), &c->n_synapses, err)))
        return rc;
    for (uint64_t n = take_number(b, 8); !b->bad && n; n--) { /* synapses by source */
        (void)take_number(b, 4);
        (void)take_bytes(b, take_number(b, 8), 8);
    }
    if ((rc = take_areas(b, c, err)))
        return rc;
    c->burst_count = take_number(b, 8);
    uint32_t power = (uint32_t)take_number(b, 4);
    memcpy(&c->power_amount, &power, sizeof power);
    (void)take_number(b, 8); /* ticks of its ledger */
    (void)take_number(b, 8); /* time */
    skip_text(b);
    skip_text(b);
    for (uint64_t n = take_number(b, 8); !b->bad && n; n--) {
        skip_text(b);
        skip_text(b);
    }
    return b->bad || b->left ? err_set(err, ERR_UNSUPPORTED, "its arrays are laid out as another version of FEAGI writes them") : 0;
}

static uint64_t fnv1a(const uint8_t *data, size_t n) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ data[i]) * UINT64_C(1099511628211);
    return hash;
}

static int decompress(struct bincode *b, uint64_t size, struct feagi_connectome *c, struct err *err) {
#ifdef BRR_LZ4
    if (size > INT32_MAX || b->left > INT32_MAX)
        return err_set(err, ERR_UNSUPPORTED, "it has %llu bytes before compression; expected fewer than 2 GiB",
                       (unsigned long long)size);
    OWNED_MEMORY uint8_t *data = malloc(size + 1);
    if (!data)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %llu bytes", (unsigned long long)size);
    int got = LZ4_decompress_safe((const char *)b->at, (char *)data, (int)b->left, (int)size);
    if (got < 0 || (uint64_t)got != size)
        return err_set(err, ERR_DATA_LOSS, "its LZ4 data do not give the %llu bytes that its header names",
                       (unsigned long long)size);
    struct bincode whole = {data, size, false};
    return take_snapshot(&whole, c, err);
#else
    (void)b, (void)size, (void)c;
    return err_set(err, ERR_UNSUPPORTED,
                   "it is compressed, and this brrctl was built without liblz4: install liblz4-dev and build it again");
#endif
}

static int load_binary(const char *data, size_t len, struct feagi_connectome *c, struct err *err) {
    struct bincode b = {(const uint8_t *)data + strlen(MAGIC), len - strlen(MAGIC), false};
    uint64_t version = take_number(&b, 4), flags = 0, size = 0;
    if (b.bad || version < 1 || version > NEWEST_VERSION)
        return err_set(err, ERR_UNSUPPORTED, "it is a connectome file of version %llu; expected 1 or 2",
                       (unsigned long long)version);
    if (version > 1) {
        flags = take_number(&b, 1);
        size = take_number(&b, 8);
    }
    uint64_t sum = take_number(&b, 8);
    if (b.bad || sum != fnv1a(b.at, b.left))
        return err_set(err, ERR_DATA_LOSS, "its checksum is not that of its data; download it again");
    return flags & COMPRESSED ? decompress(&b, size, c, err) : take_snapshot(&b, c, err);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

/* Only masks have elements that are true or false. */
static double number_of_json(const struct feagi_array *a, const struct json *j) {
    return json_kind(j) == JSON_KIND_BOOL && !strcmp(a->name, "valid_mask") ? (double)json_bool(j, false) : json_f64(j, NAN);
}

static bool element_fits(const struct feagi_array *a, double value) {
    const double half = ldexp(1, (int)(8 * a->bytes) - 1);
    if (a->kind == 'f')
        return fabs(value) <= 3.4e38;
    return value == floor(value) && (a->kind == 'i' ? value >= -half && value < half : value >= 0 && value < 2 * half);
}

static bool put_element(const struct feagi_array *a, size_t i, double value) {
    if (!element_fits(a, value))
        return false;
    float real = (float)value;
    uint32_t whole = (uint32_t)(int64_t)value;
    memcpy((char *)*a->data + i * a->bytes, a->kind == 'f' ? (const void *)&real : (const void *)&whole, a->bytes);
    return true;
}

static int read_list(const struct json *group, const struct feagi_array *a, int64_t n, struct err *err) {
    const struct json *list = json_get(group, a->name);
    size_t used = (size_t)n * a->each;
    list = list || !a->other_name ? list : json_get(group, a->other_name);
    if (json_kind(list) != JSON_KIND_ARRAY || json_count(list) < used)
        return err_set(err, ERR_INVALID, "%s has %zu elements; expected %zu", a->name, json_count(list), used);
    if (!(*a->data = calloc(used + 1, a->bytes)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu elements of %s", used, a->name);
    for (size_t i = 0; i < used; i++)
        if (!put_element(a, i, number_of_json(a, json_at(list, i))))
            return err_set(err, ERR_UNSUPPORTED, "%s[%zu] is no number of %zu bytes as FEAGI's first version has them", a->name, i,
                           a->bytes);
    return 0;
}

static int read_group(const struct json *group, const struct feagi_array *arrays, int n_arrays, int64_t *ret_n, struct err *err) {
    int rc = 0;
    *ret_n = json_i64(json_get(group, "count"), -1);
    if (*ret_n < 0 || *ret_n > UINT32_MAX)
        return err_set(err, ERR_INVALID, "its neurons or synapses have no count");
    for (int i = 0; !rc && i < n_arrays; i++)
        rc = read_list(group, &arrays[i], *ret_n, err);
    return rc;
}

static int read_area_names(const struct json *names, struct feagi_connectome *c, struct err *err) {
    struct json_cursor at = {0};
    const char *key;
    const struct json *value;
    int rc = area_new(c, (int64_t)json_count(names), err);
    while (!rc && json_next(names, &at, &key, &value)) {
        struct feagi_area *area = &c->areas[c->n_areas++];
        int64_t id;
        if (!str_to_i64(key, &id) || id < 0 || id > UINT32_MAX || !json_str(value, NULL) ||
            !str_copy(area->name, sizeof area->name, json_str(value, "")))
            return err_set(err, ERR_INVALID, "cortical_area_names: '%s' is no id of an area with a name of at most %zu bytes", key,
                           sizeof area->name - 1);
        area->id = (uint32_t)id;
    }
    return rc;
}

/* Parts of later versions that change what a network does. */
static int check_later(const struct json *root, struct err *err) {
    static const char *const later[] = {"lite_synapses", "long_term_memory_neurons", "plastic_mappings"};
    const struct json *delays = json_get(json_get(root, "synapses"), "delay_bursts"), *version = json_get(root, "version");
    if (version && (json_i64(version, 0) < 1 || json_i64(version, 0) > NEWEST_VERSION))
        return err_set(err, ERR_UNSUPPORTED, "its version is not 1 or %d", NEWEST_VERSION);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (json_count(json_get(root, later[i])))
            return err_set(err, ERR_UNSUPPORTED, "it has %s, which the engine has not", later[i]);
    if (json_count(delays))
        return err_set(err, ERR_UNSUPPORTED, "it has synapses.delay_bursts, which belong to a later version of FEAGI");
    return 0;
}

static int load_json(const char *text, size_t len, const char *path, struct feagi_connectome *c, struct err *err) {
    struct feagi_array arrays[MOST_ARRAYS];
    OWNED_POINTER(json_free) struct json *root = NULL;
    int rc;
    if ((rc = json_parse(text, len, path, &root, err)) || (rc = check_later(root, err)) ||
        (rc = read_group(json_get(root, "neurons"), arrays, arrays_of_neurons(c, arrays), &c->n_neurons, err)) ||
        (rc = read_group(json_get(root, "synapses"), arrays, arrays_of_synapses(c, arrays), &c->n_synapses, err)))
        return rc;
    const struct json *count = json_get(root, "burst_count"), *power = json_get(root, "power_amount");
    int64_t bursts = count ? json_i64(count, -1) : 0;
    double amount = power ? json_f64(power, NAN) : 1;
    if (bursts < 0)
        return err_set(err, ERR_INVALID, "its burst_count is no whole number from 0 up, or one beyond 2^63");
    if (!(fabs(amount) <= 3.4e38))
        return err_set(err, ERR_INVALID, "its power_amount is no number of float32");
    c->burst_count = (uint64_t)bursts;
    c->power_amount = (float)amount;
    return read_area_names(json_get(root, "cortical_area_names"), c, err);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

int feagi_file_load(const char *path, struct feagi_connectome *ret, struct err *err) {
    struct feagi_connectome c = {0};
    OWNED_MEMORY char *data = NULL;
    size_t len = 0;
    int rc = fsio_read(path, MOST_FILE_BYTES, &data, &len, err);
    if (rc)
        return rc;
    rc = len >= strlen(MAGIC) && !memcmp(data, MAGIC, strlen(MAGIC)) ? load_binary(data, len, &c, err)
                                                                     : load_json(data, len, path, &c, err);
    if (rc) {
        feagi_connectome_done(&c);
        return err_wrap(err, "%s cannot be imported", path);
    }
    *ret = c;
    return 0;
}

void feagi_connectome_done(struct feagi_connectome *c) {
    struct feagi_array arrays[MOST_ARRAYS];
    for (int i = arrays_of_neurons(c, arrays) - 1; i >= 0; i--)
        free(*arrays[i].data);
    for (int i = arrays_of_synapses(c, arrays) - 1; i >= 0; i--)
        free(*arrays[i].data);
    free(c->areas);
    *c = (struct feagi_connectome){0};
}
