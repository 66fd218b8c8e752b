#include "burst/burst_output.h"

#include "burst/spikefile.h"
#include "formats/npy.h"

enum { BUFFER_BYTES = 256 * 1024, MOST_AREAS_TOLD = 1000, MOST_LEDGER_SPIKES = 16 << 20 };

/* ---- a file that grows ----------------------------------------------------------------------------------------- */

static int open_growing(struct burst_growing *g, const struct task_env *env, const char *name, int64_t bytes, struct err *err) {
    struct stat st = {0};
    *g = (struct burst_growing){.fd = -1, .bytes = bytes};
    int rc = fsio_join(g->path, sizeof g->path, env->directory, name, err);
    if (rc)
        return rc;
    if (!str_format(g->part, sizeof g->part, "%s.part", g->path))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", env->directory);
    if (bytes && !fsio_exists(g->part) && fsio_exists(g->path) &&
        (rc = fsio_rename(g->path, g->part, err))) /* the job was killed after it had finished this file */
        return rc;
    if (!(g->buffer = malloc(BUFFER_BYTES)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", g->path);
    if ((g->fd = open(g->part, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0 || fstat(g->fd, &st))
        return err_errno(err, errno, "cannot open %s", g->part);
    if (st.st_size < bytes)
        return err_set(err, ERR_DATA_LOSS, "%s has %lld bytes and had %lld at the checkpoint", g->part, (long long)st.st_size,
                       (long long)bytes);
    if (ftruncate(g->fd, bytes) || lseek(g->fd, bytes, SEEK_SET) != bytes)
        return err_errno(err, errno, "cannot cut %s to %lld bytes", g->part, (long long)bytes);
    return 0;
}

static void close_growing(struct burst_growing *g) {
    if (g->part[0] && g->fd >= 0)
        close(g->fd);
    free(g->buffer);
    *g = (struct burst_growing){.fd = -1};
}

static bool is_open(const struct burst_growing *g) { return g->part[0] && g->fd >= 0; }

static int flush(struct burst_growing *g, struct err *err) {
    for (size_t at = 0; at < g->used;) {
        ssize_t n = write(g->fd, g->buffer + at, g->used - at);
        if (n < 0 && errno != EINTR)
            return err_errno(err, errno, "cannot write %s", g->part);
        at += n > 0 ? (size_t)n : 0;
    }
    g->used = 0;
    return 0;
}

static int append(struct burst_growing *g, const void *data, size_t len, struct err *err) {
    for (size_t at = 0; at < len;) {
        size_t room = BUFFER_BYTES - g->used, n = len - at < room ? len - at : room;
        memcpy(g->buffer + g->used, (const char *)data + at, n);
        g->used += n;
        g->bytes += (int64_t)n;
        at += n;
        int rc = g->used == BUFFER_BYTES ? flush(g, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

static int sync_growing(struct burst_growing *g, struct err *err) {
    if (!is_open(g))
        return 0;
    int rc = flush(g, err);
    return rc || !fdatasync(g->fd) ? rc : err_errno(err, errno, "cannot make %s durable", g->part);
}

static int finish_growing(struct burst_growing *g, const char *header, struct err *err) {
    if (!is_open(g))
        return 0;
    int rc;
    if ((rc = flush(g, err)))
        return rc;
    if (header && pwrite(g->fd, header, NPY_HEADER_BYTES, 0) != NPY_HEADER_BYTES)
        return err_errno(err, errno, "cannot write the header of %s", g->part);
    if (fsync(g->fd))
        return err_errno(err, errno, "cannot make %s durable", g->part);
    return fsio_rename(g->part, g->path, err);
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int64_t count_of(const struct json *counts, const char *key) { return json_i64(json_get(counts, key), 0); }

static void read_areas(const struct json *counts, const char *key, int64_t *ret, int n) {
    const struct json *list = json_get(counts, key);
    for (int i = 0; i < n; i++)
        ret[i] = json_i64(json_at(list, (size_t)i), 0);
}

/* Control characters in the name of an area would break the table. */
static int put_rates_header(struct burst_output *o, struct err *err) {
    int rc = append(&o->rates, "tick", 4, err);
    if (rc)
        return rc;
    for (int i = 0; i < o->net->n_areas; i++) {
        char name[CONNECTOME_NAME_SIZE + 1];
        str_format(name, sizeof name, "\t%s", o->net->areas[i].name);
        for (char *at = name + 1; *at; at++)
            *at = (unsigned char)*at < ' ' ? ' ' : *at;
        if ((rc = append(&o->rates, name, strlen(name), err)))
            return rc;
    }
    return append(&o->rates, "\n", 1, err);
}

static int open_files(struct burst_output *o, const struct task_env *env, const struct json *counts, struct err *err) {
    static const char blank[NPY_HEADER_BYTES];
    const struct burst_config *c = o->config;
    bool tsv = c->fired == BURST_FIRED_TSV;
    const char *fired = tsv ? "fired.tsv" : "fired.npy";
    int rc;
    if ((c->fired != BURST_FIRED_NONE && (rc = open_growing(&o->fired, env, fired, count_of(counts, "fired_bytes"), err))) ||
        (c->rates_every && (rc = open_growing(&o->rates, env, "rates.tsv", count_of(counts, "rates_bytes"), err))) ||
        (c->membranes_every && (rc = open_growing(&o->membranes, env, "membranes.npy", count_of(counts, "membranes_bytes"), err))))
        return rc;
    if (is_open(&o->fired) && !o->fired.bytes &&
        (rc = tsv ? append(&o->fired, "tick\tid\n", 8, err) : append(&o->fired, blank, sizeof blank, err)))
        return rc;
    if (is_open(&o->membranes) && !o->membranes.bytes && (rc = append(&o->membranes, blank, sizeof blank, err)))
        return rc;
    return is_open(&o->rates) && !o->rates.bytes ? put_rates_header(o, err) : 0;
}

int64_t burst_output_ledger_bytes(const struct burst_config *c, int64_t neurons) {
    int64_t most = c->ledger * neurons;
    return ledger_bytes(c->ledger, most < MOST_LEDGER_SPIKES ? most : MOST_LEDGER_SPIKES);
}

static int open_ledger(struct burst_output *o, const struct task_env *env, struct err *err) {
    if (!o->config->ledger)
        return 0;
    int rc = fsio_join(o->ledger_path, sizeof o->ledger_path, env->directory, "ledger.npy", err);
    return rc ? rc : ledger_init(&o->ledger, o->config->ledger, MOST_LEDGER_SPIKES, err);
}

int burst_output_open(struct burst_output *o, const struct task_env *env, const struct burst_config *config,
                      const struct connectome *net, const struct json *counts, struct err *err) {
    size_t n = (size_t)net->n_areas;
    *o = (struct burst_output){.config = config, .net = net, .fired.fd = -1, .rates.fd = -1, .membranes.fd = -1};
    o->area_neurons = calloc(3 * n, sizeof *o->area_neurons);
    o->v = config->membranes_every ? malloc((size_t)net->net.n * sizeof *o->v) : NULL;
    if (!o->area_neurons || (config->membranes_every && !o->v)) {
        burst_output_close(o);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the output of %zu areas", n);
    }
    o->area_spikes = o->area_neurons + n;
    o->row_spikes = o->area_spikes + n;
    for (uint32_t i = 0; i < net->net.n; i++)
        o->area_neurons[net->area[i]]++;
    JSON_TAKE(counts, *o, ticks, spikes, events, spike_rows, membrane_rows);
    read_areas(counts, "area_spikes", o->area_spikes, net->n_areas);
    read_areas(counts, "row_spikes", o->row_spikes, net->n_areas);
    int rc;
    if ((rc = open_files(o, env, counts, err)) || (rc = open_ledger(o, env, err)))
        burst_output_close(o);
    return rc;
}

void burst_output_close(struct burst_output *o) {
    close_growing(&o->fired);
    close_growing(&o->rates);
    close_growing(&o->membranes);
    FREE_MEMBERS(*o, area_neurons, v);
    ledger_done(&o->ledger);
    *o = (struct burst_output){.fired.fd = -1, .rates.fd = -1, .membranes.fd = -1};
}

/* ---- a tick ---------------------------------------------------------------------------------------------------- */

static int put_spikes(struct burst_output *o, const struct burst_frame *frame, struct err *err) {
    int rc = 0;
    for (int64_t i = 0; !rc && i < frame->fired; i++) {
        if (o->config->fired == BURST_FIRED_TSV) {
            char line[64];
            str_format(line, sizeof line, "%" PRIu64 "\t%" PRIu32 "\n", frame->tick, frame->ids[i]);
            rc = append(&o->fired, line, strlen(line), err);
        } else {
            const int64_t pair[2] = {(int64_t)frame->tick, frame->ids[i]};
            rc = append(&o->fired, pair, sizeof pair, err);
        }
    }
    o->spike_rows += frame->fired;
    return rc;
}

static int put_rates(struct burst_output *o, uint64_t tick, struct err *err) {
    char text[64];
    str_format(text, sizeof text, "%" PRIu64, tick);
    int rc = append(&o->rates, text, strlen(text), err);
    if (rc)
        return rc;
    for (int i = 0; i < o->net->n_areas; i++) {
        double members = (double)(o->area_neurons[i] ? o->area_neurons[i] : 1);
        str_format(text, sizeof text, "\t%.6g", (double)o->row_spikes[i] / members / (double)o->config->rates_every);
        o->row_spikes[i] = 0;
        if ((rc = append(&o->rates, text, strlen(text), err)))
            return rc;
    }
    return append(&o->rates, "\n", 1, err);
}

int burst_output_add(struct burst_output *o, const struct burst_frame *frame, struct err *err) {
    int rc = is_open(&o->fired) ? put_spikes(o, frame, err) : 0;
    rc = rc ? rc : ledger_add(&o->ledger, frame, err);
    o->ticks++;
    o->spikes += frame->fired;
    o->events += (int64_t)frame->events;
    for (int64_t i = 0; i < frame->fired; i++) {
        uint32_t area = o->net->area[frame->ids[i]];
        o->area_spikes[area]++;
        o->row_spikes[area]++;
    }
    return !rc && is_open(&o->rates) && o->ticks % o->config->rates_every == 0 ? put_rates(o, frame->tick, err) : rc;
}

int64_t burst_output_until_membranes(const struct burst_output *o, int64_t n) {
    int64_t every = o->config->membranes_every, left = every ? every - o->ticks % every : n;
    return left < n ? left : n;
}

int burst_output_membranes(struct burst_output *o, struct burst *b, struct err *err) {
    if (!is_open(&o->membranes) || o->ticks % o->config->membranes_every != 0)
        return 0;
    int rc = burst_membranes(b, o->v, err);
    o->membrane_rows++;
    return rc ? rc : append(&o->membranes, o->v, (size_t)o->net->net.n * sizeof *o->v, err);
}

/* ---- checkpoints and the end ----------------------------------------------------------------------------------- */

int burst_output_sync(struct burst_output *o, struct json_writer *w, struct err *err) {
    int rc;
    if ((rc = sync_growing(&o->fired, err)) || (rc = sync_growing(&o->rates, err)) || (rc = sync_growing(&o->membranes, err)))
        return rc;
    JSON_MEMBERS(w, *o, ticks, spikes, events, spike_rows, membrane_rows);
    json_put_i64(w, "fired_bytes", o->fired.bytes);
    json_put_i64(w, "rates_bytes", o->rates.bytes);
    json_put_i64(w, "membranes_bytes", o->membranes.bytes);
    JSON_ARRAY(w, "area_spikes", o->area_spikes, o->net->n_areas);
    JSON_ARRAY(w, "row_spikes", o->row_spikes, o->net->n_areas);
    return 0;
}

struct ledger_file {
    struct spikefile file;
    int rc;
    struct err *err;
};

static void write_ledger_tick(void *ctx, const struct burst_frame *frame) {
    struct ledger_file *f = ctx;
    f->rc = f->rc ? f->rc : spikefile_add(&f->file, frame, f->err);
}

static int write_ledger(const struct burst_output *o, struct err *err) {
    struct ledger_file f = {.err = err};
    int rc = spikefile_open(&f.file, o->ledger_path, err);
    if (rc)
        return rc;
    ledger_each(&o->ledger, o->ledger.ticks, write_ledger_tick, &f);
    if (!f.rc)
        return spikefile_close(&f.file, err);
    spikefile_abort(&f.file);
    return f.rc;
}

int burst_output_finish(struct burst_output *o, struct err *err) {
    char header[NPY_HEADER_BYTES];
    npy_header(header, "<i8", o->spike_rows, 2);
    int rc;
    if ((rc = finish_growing(&o->fired, o->config->fired == BURST_FIRED_NPY ? header : NULL, err)) ||
        (rc = finish_growing(&o->rates, NULL, err)) || (o->ledger_path[0] && (rc = write_ledger(o, err))))
        return rc;
    npy_header(header, "<f4", o->membrane_rows, o->net->net.n);
    return finish_growing(&o->membranes, header, err);
}

/* Spikes per neuron and tick. */
static double rate(int64_t spikes, int64_t neurons, int64_t ticks) {
    return neurons && ticks ? (double)spikes / (double)neurons / (double)ticks : 0;
}

void burst_output_result(const struct burst_output *o, struct json_writer *w) {
    const struct connectome *net = o->net;
    json_put_i64(w, "ticks", o->ticks);
    json_put_i64(w, "fired", o->spikes);
    json_put_i64(w, "events", o->events);
    json_put_f64(w, "mean_rate", rate(o->spikes, net->net.n, o->ticks));
    json_begin_array(w, "areas");
    for (int i = 0; i < net->n_areas && i < MOST_AREAS_TOLD; i++) {
        json_begin_object(w, NULL);
        json_put_str(w, "name", net->areas[i].name);
        json_put_i64(w, "neurons", o->area_neurons[i]);
        json_put_i64(w, "fired", o->area_spikes[i]);
        json_put_f64(w, "rate", rate(o->area_spikes[i], o->area_neurons[i], o->ticks));
        json_end(w, '}');
    }
    json_end(w, ']');
    json_begin_object(w, "files");
    const struct burst_growing *const files[] = {&o->fired, &o->rates, &o->membranes};
    static const char *const keys[] = {"fired", "rates", "membranes"};
    for (int i = 0; i < 3; i++)
        if (is_open(files[i]))
            json_put_str(w, keys[i], files[i]->path);
    if (o->ledger_path[0])
        json_put_str(w, "ledger", o->ledger_path);
    json_end(w, '}');
}
