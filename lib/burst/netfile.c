#include "burst/netfile.h"

#include "base/json.h"
#include "store/safetensors.h"

enum { MOST_ARRAYS = 40 };
static const char KIND[] = "burst-network", KIND_STATE[] = "burst-state", NOTE_KEY[] = "brr.note",
                  EVERY_TICK_KEY[] = "brr.every_tick", SEED_KEY[] = "brr.seed";

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* One array of the format. Its length is that of its group: the first array of the group that the file has. */
enum group { NEURON, SYNAPSE, STATE, FIRED, PENDING, ARRIVING, LEDGER, LEDGER_IDS, GROUPS };
struct wanted {
    const char *name;
    enum group group;
    enum safetensors_dtype dtype;
    const void **data; /* where to; */
    const void *value; /* what is there, to be written: NULL: no such array */
};

struct reader {
    const char *path;
    struct safetensors *file;
    int64_t length[GROUPS];
    const char *first[GROUPS]; /* the array that gave the length */
    struct err *err;
};

static int read_array(struct reader *r, const struct wanted *w) {
    const struct safetensors_entry *e = safetensors_find(r->file, w->name);
    if (!e)
        return 0;
    if (e->dtype != w->dtype)
        return err_set(r->err, ERR_INVALID, "%s: %s has dtype %s; expected %s", r->path, w->name, safetensors_dtype_name(e->dtype),
                       safetensors_dtype_name(w->dtype));
    if (e->rank != 1)
        return err_set(r->err, ERR_INVALID, "%s: %s has %d dimensions; expected 1", r->path, w->name, e->rank);
    if (!r->first[w->group]) {
        r->first[w->group] = w->name;
        r->length[w->group] = e->shape[0];
    }
    if (e->shape[0] != r->length[w->group])
        return err_set(r->err, ERR_INVALID, "%s: %s has %" PRId64 " elements; expected %" PRId64 ", as %s has", r->path, w->name,
                       e->shape[0], r->length[w->group], r->first[w->group]);
    *w->data = e->data;
    return 0;
}

/* The arrays of the file in *ret; areas are apart. */
static int read_arrays(struct reader *r, const struct wanted *wanted, size_t n) {
    int rc;
    for (size_t i = 0; i < n; i++)
        if ((rc = read_array(r, &wanted[i])))
            return rc;
    for (size_t k = 0; k < safetensors_count(r->file); k++) {
        const char *name = safetensors_at(r->file, k)->name;
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= !strcmp(wanted[i].name, name);
        if (!known)
            return err_set(r->err, ERR_INVALID, "%s: array '%s' is unknown; docs/burst.md lists those of a network", r->path, name);
    }
    return 0;
}

#define WANT(group, dtype, name, to)                                                                                               \
    { name, group, SAFETENSORS_##dtype, (const void **)&(to), to }
#define NETWORK_ARRAYS(a)                                                                                                          \
    WANT(NEURON, F32, "neuron.threshold", a.threshold), WANT(NEURON, F32, "neuron.v", a.v),                                        \
        WANT(NEURON, F32, "neuron.threshold_limit", a.threshold_limit), WANT(NEURON, F32, "neuron.leak", a.leak),                  \
        WANT(NEURON, F32, "neuron.excitability", a.excitability), WANT(NEURON, U16, "neuron.refractory", a.refractory),            \
        WANT(NEURON, U16, "neuron.fire_limit", a.fire_limit), WANT(NEURON, U16, "neuron.snooze", a.snooze),                        \
        WANT(NEURON, U8, "neuron.accumulate", a.accumulate), WANT(NEURON, U32, "neuron.area", a.area),                             \
        WANT(NEURON, F32, "neuron.current", a.current), WANT(NEURON, F32, "neuron.current_leak", a.current_leak),                  \
        WANT(NEURON, F32, "neuron.current_gain", a.current_gain), WANT(SYNAPSE, U32, "synapse.src", a.src),                        \
        WANT(SYNAPSE, U32, "synapse.dst", a.dst), WANT(SYNAPSE, U8, "synapse.weight", a.weight),                                   \
        WANT(SYNAPSE, U8, "synapse.psp", a.psp), WANT(SYNAPSE, U8, "synapse.type", a.type),                                        \
        WANT(SYNAPSE, U8, "synapse.delay", a.delay)

/* Arrays of a state in a file. */
struct state_arrays {
    const float *v, *current, *potential; /* current: missing without exponential synapses */
    const uint16_t *countdown, *fire_count;
    const uint8_t *psp, *alive;
    const uint32_t *divisor, *fired, *id;
    const uint64_t *tick;
    const int64_t *arriving;                   /* missing without delays */
    const uint32_t *ledger_fired, *ledger_ids; /* missing without a ledger */
};
#define STATE_ARRAYS(a)                                                                                                            \
    WANT(STATE, F32, "state.v", a.v), WANT(STATE, U16, "state.countdown", a.countdown),                                            \
        WANT(STATE, U16, "state.fire_count", a.fire_count), WANT(STATE, U8, "state.psp", a.psp),                                   \
        WANT(STATE, U8, "state.alive", a.alive), WANT(STATE, U32, "state.divisor", a.divisor),                                     \
        WANT(FIRED, U32, "state.fired", a.fired), WANT(PENDING, U64, "state.pending.tick", a.tick),                                \
        WANT(PENDING, U32, "state.pending.id", a.id), WANT(PENDING, F32, "state.pending.potential", a.potential),                  \
        WANT(STATE, F32, "state.current", a.current), WANT(ARRIVING, I64, "state.arriving", a.arriving),                           \
        WANT(LEDGER, U32, "state.ledger.fired", a.ledger_fired), WANT(LEDGER_IDS, U32, "state.ledger.ids", a.ledger_ids)

/* Whether the key is that of a number. */
static bool read_area_number(const char *key, double value, struct connectome_area *area) {
    if (!strcmp(key, "poisson")) {
        area->events = value;
        return true;
    }
    float *to = !strcmp(key, "power")               ? &area->power
                : !strcmp(key, "constant")          ? &area->constant
                : !strcmp(key, "poisson_potential") ? &area->event
                                                    : NULL;
    if (to)
        *to = (float)value;
    return to;
}

static int read_area(const char *path, const struct json *j, int index, struct connectome_area *ret, struct err *err) {
    struct connectome_area area = {0};
    struct json_cursor cursor = {0};
    const struct json *value;
    const char *key;
    if (json_kind(j) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "%s: brr.areas[%d] is not an object", path, index);
    str_format(area.name, sizeof area.name, "area-%d", index);
    while (json_next(j, &cursor, &key, &value)) {
        enum json_kind kind = json_kind(value);
        const char *expected = NULL;
        if (!strcmp(key, "name")) {
            if (kind != JSON_KIND_STRING || !str_copy(area.name, sizeof area.name, json_str(value, "")))
                expected = "a text of at most 63 bytes";
        } else if (!strcmp(key, "psp_divide") || !strcmp(key, "mp_driven_psp")) {
            expected = kind == JSON_KIND_BOOL ? NULL : "true or false";
            *(!strcmp(key, "psp_divide") ? &area.psp_divide : &area.mp_driven_psp) = json_bool(value, false);
        } else if (read_area_number(key, json_f64(value, 0), &area)) {
            expected = kind == JSON_KIND_REAL || kind == JSON_KIND_INTEGER ? NULL : "a number";
        } else if (strcmp(key, "geometry") != 0) {
            return err_set(err, ERR_INVALID,
                           "%s: brr.areas[%d] has '%s', which is unknown; expected name, psp_divide, mp_driven_psp, power, "
                           "constant, poisson, poisson_potential, geometry",
                           path, index, key);
        }
        if (expected)
            return err_set(err, ERR_INVALID, "%s: brr.areas[%d].%s is wrong; expected %s", path, index, key, expected);
    }
    *ret = area;
    return 0;
}

static int read_areas(struct reader *r, struct connectome_area **ret, int *ret_n) {
    const char *text = safetensors_metadata(r->file, "brr.areas");
    struct json *list = NULL;
    if (!text)
        return err_set(r->err, ERR_INVALID, "%s: __metadata__ lacks brr.areas: a JSON list with an object for each area", r->path);
    int rc = json_parse(text, strlen(text), "brr.areas", &list, r->err);
    if (rc)
        return err_wrap(r->err, "%s: brr.areas in __metadata__ is no JSON", r->path);
    size_t n = json_count(list);
    if (json_kind(list) != JSON_KIND_ARRAY || n < 1 || n > CONNECTOME_MOST_AREAS) {
        json_free(list);
        return err_set(r->err, ERR_INVALID, "%s: brr.areas must be a list of 1 to %d areas", r->path, CONNECTOME_MOST_AREAS);
    }
    struct connectome_area *areas = calloc(n, sizeof *areas);
    rc = areas ? 0 : err_set(r->err, ERR_EXHAUSTED, "%s: out of memory for %zu areas", r->path, n);
    for (size_t i = 0; !rc && i < n; i++)
        rc = read_area(r->path, json_at(list, i), (int)i, &areas[i], r->err);
    json_free(list);
    if (rc) {
        free(areas);
        return rc;
    }
    *ret = areas;
    *ret_n = (int)n;
    return 0;
}

static int check_kind(struct reader *r, const char *expected) {
    const char *kind = safetensors_metadata(r->file, "brr.kind");
    if (!kind)
        return err_set(r->err, ERR_INVALID, "%s: __metadata__ lacks brr.kind; expected '%s'", r->path, expected);
    return strcmp(kind, expected) == 0
               ? 0
               : err_set(r->err, ERR_INVALID, "%s: brr.kind is '%s'; expected '%s'", r->path, kind, expected);
}

/* A number of the metadata in 0..most. */
static int read_number(struct reader *r, const char *key, uint64_t most, uint64_t *ret) {
    const char *text = safetensors_metadata(r->file, key);
    uint64_t value = 0;
    if (!text || !str_to_u64(text, &value) || value > most)
        return err_set(r->err, ERR_INVALID, "%s: %s in __metadata__ is '%s'; expected a number from 0 to %" PRIu64, r->path, key,
                       text ? text : "missing", most);
    *ret = value;
    return 0;
}

static int copy_state(struct reader *r, const struct state_arrays *a, struct burst_state *ret) {
    size_t n = (size_t)r->length[STATE], fired = (size_t)r->length[FIRED], pending = (size_t)r->length[PENDING];
    struct burst_state s = {.neurons = (uint32_t)n, .fired = (uint32_t)fired, .n_pending = (int64_t)pending};
    uint64_t fraction = 0, every_tick = 0;
    int rc;
    if ((rc = read_number(r, "brr.tick", BURST_MOST_TICK, &s.tick)) ||
        (rc = read_number(r, "brr.fraction_bits", SPIKE_MOST_FRACTION, &fraction)) ||
        (safetensors_metadata(r->file, EVERY_TICK_KEY) && (rc = read_number(r, EVERY_TICK_KEY, 1, &every_tick))))
        return rc;
    s.fraction_bits = (int)fraction;
    s.every_tick = every_tick;
    s.v = connectome_copy(a->v, n * sizeof *s.v);
    s.countdown = connectome_copy(a->countdown, n * sizeof *s.countdown);
    s.fire_count = connectome_copy(a->fire_count, n * sizeof *s.fire_count);
    s.psp = connectome_copy(a->psp, n);
    s.alive = connectome_copy(a->alive, n);
    s.divisor = a->divisor ? connectome_copy(a->divisor, n * sizeof *s.divisor) : NULL;
    s.current = a->current ? connectome_copy(a->current, n * sizeof *s.current) : NULL;
    s.fired_ids = connectome_copy(a->fired, fired * sizeof *s.fired_ids);
    s.n_ledger_ticks = r->length[LEDGER];
    s.n_ledger_ids = r->length[LEDGER_IDS];
    s.ledger_fired = connectome_copy(a->ledger_fired, (size_t)s.n_ledger_ticks * sizeof *s.ledger_fired);
    s.ledger_ids = connectome_copy(a->ledger_ids, (size_t)s.n_ledger_ids * sizeof *s.ledger_ids);
    s.pending = calloc(pending + 1, sizeof *s.pending);
    s.n_arriving = r->length[ARRIVING];
    s.arriving = connectome_copy(a->arriving, (size_t)s.n_arriving * sizeof *s.arriving);
    if (!s.v || !s.countdown || !s.fire_count || !s.psp || !s.alive || (a->divisor && !s.divisor) || (a->current && !s.current) ||
        !s.fired_ids || !s.pending || !s.arriving || !s.ledger_fired || !s.ledger_ids) {
        burst_state_done(&s);
        return err_set(r->err, ERR_EXHAUSTED, "%s: out of memory for the state of %zu neurons", r->path, n);
    }
    for (size_t i = 0; i < pending; i++)
        s.pending[i] = (struct burst_injection){a->tick[i], a->id[i], a->potential[i]};
    *ret = s;
    return 0;
}

/* Nothing of a state: neurons stay 0. All or nothing, but for divisor. */
static int read_state(struct reader *r, const struct state_arrays *a, struct burst_state *ret) {
    const struct {
        const char *name;
        const void *data;
    } parts[] = {{"v", a->v},
                 {"countdown", a->countdown},
                 {"fire_count", a->fire_count},
                 {"psp", a->psp},
                 {"alive", a->alive},
                 {"fired", a->fired},
                 {"pending.tick", a->tick},
                 {"pending.id", a->id},
                 {"pending.potential", a->potential}};
    *ret = (struct burst_state){0};
    if (!r->first[STATE] && !r->first[FIRED] && !r->first[PENDING])
        return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!parts[i].data)
            return err_set(r->err, ERR_INVALID, "%s: state.%s is missing, and other arrays of a state are there", r->path,
                           parts[i].name);
    if (r->length[STATE] < 1 || r->length[STATE] > (int64_t)SPIKE_MOST_NEURONS || r->length[FIRED] > r->length[STATE])
        return err_set(r->err, ERR_INVALID,
                       "%s: a state of %" PRId64 " neurons of which %" PRId64 " fired; expected 1 or more, and fewer", r->path,
                       r->length[STATE], r->length[FIRED]);
    return copy_state(r, a, ret);
}

/* Room in safetensors for an array of no elements: an address that is not NULL. */
static int load_network(struct reader *r, int64_t max_bytes, struct connectome_shard shard, struct connectome **ret,
                        struct burst_state *ret_state) {
    struct connectome_arrays a = {.shard = shard};
    struct state_arrays s = {0};
    const struct wanted wanted[] = {NETWORK_ARRAYS(a), STATE_ARRAYS(s)};
    OWNED_MEMORY struct connectome_area *areas = NULL;
    OWNED(burst_state_done) struct burst_state state = {0};
    struct err inner = {0};
    int rc;
    if ((rc = check_kind(r, KIND)) || (rc = read_arrays(r, wanted, sizeof wanted / sizeof *wanted)) ||
        (rc = read_areas(r, &areas, &a.n_areas)) ||
        (safetensors_metadata(r->file, SEED_KEY) && (rc = read_number(r, SEED_KEY, UINT64_MAX, &a.seed))) ||
        (ret_state && (rc = read_state(r, &s, &state))))
        return rc;
    a.areas = areas;
    a.neurons = r->length[NEURON];
    a.synapses = r->length[SYNAPSE];
    if ((rc = connectome_new(&a, max_bytes, ret, &inner)))
        return err_set(r->err, rc, "%s: %s", r->path, inner.message);
    if (ret_state) {
        *ret_state = state;
        state = (struct burst_state){0};
    }
    return 0;
}

int netfile_load(const char *path, int64_t max_bytes, struct connectome **ret, struct burst_state *ret_state, struct err *err) {
    return netfile_load_shard(path, max_bytes, (struct connectome_shard){0}, ret, ret_state, err);
}

int netfile_load_shard(const char *path, int64_t max_bytes, struct connectome_shard shard, struct connectome **ret,
                       struct burst_state *ret_state, struct err *err) {
    struct reader r = {.path = path, .err = err};
    int rc = safetensors_open(path, &r.file, err);
    if (rc)
        return rc;
    rc = load_network(&r, max_bytes, shard, ret, ret_state);
    safetensors_close(r.file);
    return rc;
}

/* area: NULL = all neurons are in area 0. */
static int copy_areas(struct reader *r, const uint32_t *area, struct netfile_areas *ret) {
    int64_t n = r->length[NEURON];
    if (!r->first[NEURON] || n < 1 || n > (int64_t)SPIKE_MOST_NEURONS)
        return err_set(r->err, ERR_INVALID, "%s: %" PRId64 " neurons; expected 1 to %" PRId64, r->path, n,
                       (int64_t)SPIKE_MOST_NEURONS);
    for (int64_t i = 0; area && i < n; i++)
        if (area[i] >= (uint32_t)ret->n_areas)
            return err_set(r->err, ERR_INVALID, "%s: neuron.area[%" PRId64 "] is %u; expected less than the %d areas of brr.areas",
                           r->path, i, area[i], ret->n_areas);
    ret->neurons = n;
    ret->synapses = r->length[SYNAPSE];
    ret->area_of = area ? connectome_copy(area, (size_t)n * sizeof *area) : calloc((size_t)n, sizeof *area);
    return ret->area_of ? 0 : err_set(r->err, ERR_EXHAUSTED, "%s: out of memory for %" PRId64 " neurons", r->path, n);
}

int netfile_read_areas(const char *path, struct netfile_areas *ret, struct err *err) {
    struct reader r = {.path = path, .err = err};
    struct connectome_arrays a = {0};
    struct state_arrays s = {0};
    const struct wanted wanted[] = {NETWORK_ARRAYS(a), STATE_ARRAYS(s)};
    struct netfile_areas found = {0};
    int rc = safetensors_open(path, &r.file, err);
    if (rc)
        return rc;
    if ((rc = check_kind(&r, KIND)) || (rc = read_arrays(&r, wanted, sizeof wanted / sizeof *wanted)) ||
        (rc = read_areas(&r, &found.areas, &found.n_areas)) || (rc = copy_areas(&r, a.area, &found)))
        netfile_areas_done(&found);
    else
        *ret = found;
    safetensors_close(r.file);
    return rc;
}

void netfile_areas_done(struct netfile_areas *areas) {
    FREE_MEMBERS(*areas, area_of, areas);
    *areas = (struct netfile_areas){0};
}

int netfile_load_state(const char *path, struct burst_state *ret, char **ret_note, struct err *err) {
    struct reader r = {.path = path, .err = err};
    struct state_arrays s = {0};
    const struct wanted wanted[] = {STATE_ARRAYS(s)};
    OWNED_POINTER(safetensors_close) struct safetensors *file = NULL;
    OWNED(burst_state_done) struct burst_state state = {0};
    char *note = NULL;
    int rc = safetensors_open(path, &file, err);
    r.file = file;
    if (rc || (rc = check_kind(&r, KIND_STATE)) || (rc = read_arrays(&r, wanted, sizeof wanted / sizeof *wanted)) ||
        (rc = read_state(&r, &s, &state)))
        return rc;
    if (!state.neurons)
        return err_set(err, ERR_INVALID, "%s: state.v is missing", path);
    const char *text = safetensors_metadata(r.file, NOTE_KEY);
    if (text && !(note = strdup(text)))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    *ret = state;
    state = (struct burst_state){0};
    *ret_note = note;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

struct writer {
    struct safetensors_entry entries[MOST_ARRAYS];
    struct safetensors_pair metadata[8];
    struct safetensors_content content;
    int64_t length[GROUPS];
    char tick[32], fraction[16], seed[32];
    uint64_t *pending_ticks;
    uint32_t *pending_ids;
    float *pending_potentials;
    struct str areas;
};

static const uint32_t nothing[2]; /* arrays without elements need an address */

/* Those of the arrays that are there. */
static void put_arrays(struct writer *w, const struct wanted *arrays, size_t n) {
    for (const struct wanted *a = arrays; a < arrays + n; a++) {
        const int64_t len = w->length[a->group];
        if (a->value)
            w->entries[w->content.n_entries++] = (struct safetensors_entry){
                SAME_MEMBERS(*a, name, dtype), .rank = 1, .shape = {len}, .data = len ? a->value : nothing,
                .bytes = (size_t)len * safetensors_dtype_bytes(a->dtype)};
    }
}

static void add_metadata(struct writer *w, const char *key, const char *value) {
    w->metadata[w->content.n_metadata++] = (struct safetensors_pair){key, value};
}

static void put_areas(struct writer *w, const struct connectome *c) {
    str_init(&w->areas, NETFILE_MOST_AREAS_BYTES);
    struct json_writer j = json_to(&w->areas);
    json_begin_array(&j, NULL);
    for (int i = 0; i < c->n_areas; i++) {
        json_begin_object(&j, NULL);
        JSON_MEMBERS(&j, c->areas[i], name, psp_divide, mp_driven_psp);
        if (c->areas[i].power != 0)
            json_put_f64(&j, "power", (double)c->areas[i].power);
        if (c->areas[i].constant != 0)
            json_put_f64(&j, "constant", (double)c->areas[i].constant);
        if (c->areas[i].events > 0) {
            json_put_f64(&j, "poisson", c->areas[i].events);
            json_put_f64(&j, "poisson_potential", (double)c->areas[i].event);
        }
        json_end(&j, '}');
    }
    json_end(&j, ']');
}

static int put_state(struct writer *w, const struct burst_state *s, struct err *err) {
    const int64_t pending = s->n_pending;
    w->pending_ticks = malloc(((size_t)pending + 1) * sizeof *w->pending_ticks);
    w->pending_ids = malloc(((size_t)pending + 1) * sizeof *w->pending_ids);
    w->pending_potentials = malloc(((size_t)pending + 1) * sizeof *w->pending_potentials);
    if (!w->pending_ticks || !w->pending_ids || !w->pending_potentials)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %" PRId64 " injections", pending);
    for (int64_t i = 0; i < pending; i++) {
        w->pending_ticks[i] = s->pending[i].tick;
        w->pending_ids[i] = s->pending[i].id;
        w->pending_potentials[i] = s->pending[i].potential;
    }
    const bool ledger = s->n_ledger_ticks > 0;
    struct state_arrays a = {SAME_MEMBERS(*s, v, countdown, fire_count, psp, alive, divisor, current),
                             .fired = s->fired ? s->fired_ids : nothing,
                             .tick = w->pending_ticks,
                             .id = w->pending_ids,
                             .potential = w->pending_potentials,
                             .arriving = s->n_arriving ? s->arriving : NULL,
                             .ledger_fired = ledger ? s->ledger_fired : NULL,
                             .ledger_ids = !ledger           ? NULL
                                           : s->n_ledger_ids ? s->ledger_ids
                                                             : nothing};
    const struct wanted arrays[] = {STATE_ARRAYS(a)};
    w->length[STATE] = s->neurons;
    w->length[FIRED] = s->fired;
    w->length[PENDING] = pending;
    w->length[ARRIVING] = s->n_arriving;
    w->length[LEDGER] = s->n_ledger_ticks;
    w->length[LEDGER_IDS] = s->n_ledger_ids;
    put_arrays(w, arrays, sizeof arrays / sizeof *arrays);
    str_format(w->tick, sizeof w->tick, "%" PRIu64, s->tick);
    str_format(w->fraction, sizeof w->fraction, "%d", s->fraction_bits);
    add_metadata(w, "brr.tick", w->tick);
    add_metadata(w, "brr.fraction_bits", w->fraction);
    if (s->every_tick)
        add_metadata(w, EVERY_TICK_KEY, "1");
    return 0;
}

static void put_network(struct writer *w, struct connectome_arrays a) {
    if (!a.current_gain)
        a.current = a.current_leak = NULL;
    const struct wanted arrays[] = {NETWORK_ARRAYS(a)};
    w->length[NEURON] = a.neurons;
    w->length[SYNAPSE] = a.synapses;
    put_arrays(w, arrays, sizeof arrays / sizeof *arrays);
}

static struct writer *writer_new(const char *kind) {
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->content = (struct safetensors_content){SAME_MEMBERS(*w, entries, metadata)};
    add_metadata(w, "brr.kind", kind);
    return w;
}

static void writer_free(struct writer *w) {
    FREE_MEMBERS(*w, pending_ticks, pending_ids, pending_potentials);
    str_done(&w->areas);
    free(w);
}

OWNABLE(struct writer, writer_free)

int netfile_save(const char *path, const struct connectome *c, const struct burst_state *state, char ret_sha256[DIGEST_HEX_SIZE],
                 struct err *err) {
    struct connectome_arrays a;
    OWNED_MEMORY void *memory = NULL;
    OWNED_POINTER(writer_free) struct writer *w = writer_new(KIND);
    int rc = w ? connectome_export(c, &a, &memory, err) : err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    if (rc)
        return rc;
    put_areas(w, c);
    add_metadata(w, "brr.areas", str_cstr(&w->areas));
    str_format(w->seed, sizeof w->seed, "%" PRIu64, a.seed);
    if (a.seed)
        add_metadata(w, SEED_KEY, w->seed);
    put_network(w, a);
    if (state && (rc = put_state(w, state, err)))
        return rc;
    return safetensors_write(path, &w->content, ret_sha256, err);
}

int netfile_save_state(const char *path, const struct burst_state *state, const char *note, char ret_sha256[DIGEST_HEX_SIZE],
                       struct err *err) {
    OWNED_POINTER(writer_free) struct writer *w = writer_new(KIND_STATE);
    int rc = w ? put_state(w, state, err) : err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    if (rc)
        return rc;
    if (note)
        add_metadata(w, NOTE_KEY, note);
    return safetensors_write(path, &w->content, ret_sha256, err);
}
