#include "burst/spikefile.h"

#include "base/grow.h"
#include "burst/connectome.h"
#include "formats/npy.h"
#include "formats/table.h"

/* ---- injections ------------------------------------------------------------------------------------------------ */

/* A whole number of the row in low..high. */
static int read_whole(struct table *t, int column, double low, double high, double *ret, struct err *err) {
    double value = 0;
    int rc = table_number(t, column, false, &value, err);
    if (rc)
        return rc;
    if (value < low || value > high || value != floor(value))
        return err_set(err, ERR_INVALID, "%s:%d: %s is %s; expected a whole number from %.0f to %.0f", t->path, t->line,
                       t->names[column], table_field(t, column), low, high);
    *ret = value;
    return 0;
}

static int read_row(struct table *t, const int columns[3], struct burst_injection *ret, struct err *err) {
    double tick = 0, id = 0, potential = 0;
    int rc;
    if ((rc = read_whole(t, columns[0], 1, 9007199254740992.0, &tick, err)) ||
        (rc = read_whole(t, columns[1], 0, (double)SPIKE_MOST_NEURONS, &id, err)) ||
        (rc = table_number(t, columns[2], false, &potential, err)))
        return rc;
    if (!isfinite((float)potential))
        return err_set(err, ERR_INVALID, "%s:%d: potential is %s, which no float holds", t->path, t->line,
                       table_field(t, columns[2]));
    *ret = (struct burst_injection){(uint64_t)tick, (uint32_t)id, (float)potential};
    return 0;
}

static int read_rows(struct table *t, const int columns[3], struct burst_injection **list, int64_t *n, struct err *err) {
    int64_t room = 0;
    for (;;) {
        bool more = false;
        int rc = table_next(t, &more, err);
        if (rc || !more)
            return rc;
        if (!GROW(*list, *n, room))
            return err_set(err, ERR_EXHAUSTED, "%s: out of memory for %" PRId64 " injections", t->path, room);
        if ((rc = read_row(t, columns, &(*list)[*n], err)))
            return rc;
        ++*n;
    }
}

int spikefile_read_injections(const char *path, struct burst_injection **ret, int64_t *ret_n, struct err *err) {
    OWNED_MEMORY struct burst_injection *list = NULL;
    struct table t;
    int columns[3];
    int64_t n = 0;
    int rc = table_open(&t, path, '\t', NULL, NULL, err);
    if (rc)
        return rc;
    if (!(rc = table_require(&t, "tick", &columns[0], err)) && !(rc = table_require(&t, "id", &columns[1], err)) &&
        !(rc = table_require(&t, "potential", &columns[2], err)))
        rc = read_rows(&t, columns, &list, &n, err);
    table_close(&t);
    if (rc)
        return rc;
    *ret = list;
    list = NULL;
    *ret_n = n;
    return 0;
}

/* Line of a row of the table, from row 0; 0 when the file has changed. */
static int line_of(const char *path, int64_t row) {
    struct table t;
    bool more = true;
    if (table_open(&t, path, '\t', NULL, NULL, NULL))
        return 0;
    for (int64_t i = 0; i <= row && more; i++)
        if (table_next(&t, &more, NULL))
            more = false;
    int line = more ? t.line : 0;
    table_close(&t);
    return line;
}

int spikefile_check_injections(const char *path, const struct burst_injection *list, int64_t n, int64_t neurons, struct err *err) {
    for (int64_t i = 0; i < n; i++)
        if (list[i].id >= neurons)
            return err_set(err, ERR_INVALID, "%s:%d: neuron %" PRIu32 "; expected 0 to %" PRId64, path, line_of(path, i),
                           list[i].id, neurons - 1);
    return 0;
}

/* ---- fired neurons --------------------------------------------------------------------------------------------- */

int spikefile_open(struct spikefile *f, const char *path, struct err *err) {
    char header[NPY_HEADER_BYTES];
    *f = (struct spikefile){0};
    npy_header(header, "<i8", 0, 2);
    int rc = fsio_writer_open(&f->out, path, err);
    if (rc)
        return rc;
    if ((rc = fsio_writer_write(&f->out, header, sizeof header, err)))
        fsio_writer_abort(&f->out);
    return rc;
}

int spikefile_add(struct spikefile *f, const struct burst_frame *frame, struct err *err) {
    if (frame->fired > f->room) {
        int64_t *pairs = realloc(f->pairs, (size_t)frame->fired * 2 * sizeof *pairs);
        if (!pairs)
            return err_set(err, ERR_EXHAUSTED, "out of memory for %" PRId64 " fired neurons", frame->fired);
        f->pairs = pairs;
        f->room = frame->fired;
    }
    for (int64_t i = 0; i < frame->fired; i++) {
        f->pairs[2 * i] = (int64_t)frame->tick;
        f->pairs[2 * i + 1] = frame->ids[i];
    }
    f->rows += frame->fired;
    return frame->fired ? fsio_writer_write(&f->out, f->pairs, (size_t)frame->fired * 2 * sizeof *f->pairs, err) : 0;
}

int spikefile_add_row(struct spikefile *f, const float *row, int64_t columns, struct err *err) {
    f->rows++;
    return fsio_writer_write(&f->out, row, (size_t)columns * sizeof *row, err);
}

static int close_array(struct spikefile *f, const char *type, int64_t columns, struct err *err) {
    char header[NPY_HEADER_BYTES];
    npy_header(header, type, f->rows, columns);
    if (pwrite(f->out.fd, header, sizeof header, 0) != (ssize_t)sizeof header)
        return err_set(err, ERR_INTERNAL, "%s: the header could not be written", f->out.path);
    int rc = fsio_writer_commit(&f->out, err);
    free(f->pairs);
    f->pairs = NULL;
    return rc;
}

int spikefile_close(struct spikefile *f, struct err *err) { return close_array(f, "<i8", 2, err); }

int spikefile_close_rows(struct spikefile *f, int64_t columns, struct err *err) { return close_array(f, "<f4", columns, err); }

void spikefile_abort(struct spikefile *f) {
    fsio_writer_abort(&f->out);
    free(f->pairs);
    f->pairs = NULL;
}

/* ---- reading fired neurons ------------------------------------------------------------------------------------- */

/* The spikes of one tick, until the next tick begins. */
struct gathering {
    const char *path;
    spikefile_sink *sink;
    void *ctx;
    int64_t tick;
    uint32_t *ids;
    int64_t n, room;
};

static void give_tick(struct gathering *g) {
    if (g->n)
        g->sink(g->ctx, &(struct burst_frame){.tick = (uint64_t)g->tick, .ids = g->ids, .fired = g->n});
    g->n = 0;
}

static int gather_spike(struct gathering *g, int64_t row, int64_t tick, int64_t id, struct err *err) {
    if (tick < 1 || id < 0 || id > (int64_t)SPIKE_MOST_NEURONS)
        return err_set(err, ERR_INVALID,
                       "%s: row %" PRId64 " is tick %" PRId64 ", id %" PRId64 "; expected a tick from 1 and a neuron", g->path, row,
                       tick, id);
    if (tick < g->tick || (tick == g->tick && g->n && id <= g->ids[g->n - 1]))
        return err_set(err, ERR_INVALID, "%s: row %" PRId64 " (tick %" PRId64 ", id %" PRId64 ") is not above the row before it",
                       g->path, row, tick, id);
    if (tick > g->tick)
        give_tick(g);
    if (!GROW(g->ids, g->n, g->room))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for the spikes of a tick", g->path);
    g->tick = tick;
    g->ids[g->n++] = (uint32_t)id;
    return 0;
}

/* Where the data of an int64 array [n,2] begin, and n. numpy pads its header with blanks and may order its keys otherwise. */
static int npy_shape(const char *path, const struct fsio_map *map, size_t *ret_start, int64_t *ret_n, struct err *err) {
    char header[1024], count[32];
    const uint8_t *d = map->data;
    size_t lead = map->len > 12 && d[6] > 1 ? 12 : 10;
    if (map->len < lead || memcmp(d, "\x93NUMPY", 6) != 0)
        return err_set(err, ERR_INVALID, "%s is no .npy file", path);
    size_t len = d[8] | (size_t)d[9] << 8 | (lead == 12 ? (size_t)d[10] << 16 | (size_t)d[11] << 24 : 0);
    if (len >= sizeof header || map->len < lead + len)
        return err_set(err, ERR_INVALID, "%s: a header of %zu bytes; expected less than %zu", path, len, sizeof header);
    memcpy(header, d + lead, len);
    header[len] = '\0';
    const char *shape = strstr(header, "'shape': (");
    const char *comma = shape ? strchr(shape, ',') : NULL;
    int64_t n = -1;
    if (comma && (size_t)(comma - shape) < sizeof count + 10) {
        str_format(count, sizeof count, "%.*s", (int)(comma - shape - 10), shape + 10);
        str_to_i64(count, &n);
    }
    if (n < 0 || strncmp(comma, ", 2)", 4) != 0 || !strstr(header, "'<i8'") || !strstr(header, "'fortran_order': False"))
        return err_set(err, ERR_INVALID, "%s has the header %s; expected an int64 array [n,2] in C order", path, header);
    if ((map->len - lead - len) / 16 != (size_t)n || (map->len - lead - len) % 16)
        return err_set(err, ERR_INVALID, "%s has %zu bytes of data; expected 16 for each of %" PRId64 " rows", path,
                       map->len - lead - len, n);
    *ret_start = lead + len;
    *ret_n = n;
    return 0;
}

static int read_npy(struct gathering *g, struct err *err) {
    struct fsio_map map;
    size_t start = 0;
    int64_t n = 0;
    int rc = fsio_map_open(&map, g->path, err);
    if (rc)
        return rc;
    rc = npy_shape(g->path, &map, &start, &n, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        int64_t pair[2];
        memcpy(pair, map.data + start + 16 * (size_t)i, sizeof pair);
        rc = gather_spike(g, i, pair[0], pair[1], err);
    }
    fsio_map_close(&map);
    return rc;
}

static int read_tsv(struct gathering *g, struct err *err) {
    struct table t;
    int columns[2];
    bool more = true;
    int rc = table_open(&t, g->path, '\t', NULL, NULL, err);
    if (rc)
        return rc;
    if (!(rc = table_require(&t, "tick", &columns[0], err)))
        rc = table_require(&t, "id", &columns[1], err);
    for (int64_t row = 0; !rc && !(rc = table_next(&t, &more, err)) && more; row++) {
        double tick = 0, id = 0;
        if (!(rc = read_whole(&t, columns[0], 1, 9007199254740992.0, &tick, err)) &&
            !(rc = read_whole(&t, columns[1], 0, (double)SPIKE_MOST_NEURONS, &id, err)))
            rc = gather_spike(g, row, (int64_t)tick, (int64_t)id, err);
    }
    table_close(&t);
    return rc;
}

int spikefile_read_fired(const char *path, spikefile_sink *sink, void *ctx, struct err *err) {
    struct gathering g = {.path = path, .sink = sink, .ctx = ctx};
    int rc = str_ends(path, ".tsv") ? read_tsv(&g, err) : read_npy(&g, err);
    if (!rc)
        give_tick(&g);
    free(g.ids);
    return rc;
}
