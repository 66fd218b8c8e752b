#include "nn/ckpt.h"

/* Host copies of whole flat arrays, freed together. */
static int fetch_flat(struct stream *s, const float *device, int64_t n, float **ret, struct err *err) {
    float *host = malloc((size_t)(n ? n : 1) * sizeof *host);
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory copying %lld parameters", (long long)n);
    int rc;
    if ((rc = n ? stream_to_host(s, host, device, (size_t)n * sizeof *host, err) : 0) || (rc = stream_sync(s, err)))
        free(host);
    else
        *ret = host;
    return rc;
}

/* Writes the entries and reads the file back. */
static int write_checked(const struct ckpt_file *file, const struct safetensors_entry *entries, size_t n, char sha[DIGEST_HEX_SIZE],
                         struct err *err) {
    const struct safetensors_content content = {entries, n, file->metadata, file->n_metadata};
    char back[DIGEST_HEX_SIZE];
    int rc;
    if ((rc = safetensors_write(file->path, &content, sha, err)) || (rc = digest_file(file->path, back, err)))
        return rc;
    if (strcmp(back, sha) != 0)
        return err_set(err, ERR_DATA_LOSS, "%s reads back with another SHA-256 than was written; the volume is not to be trusted",
                       file->path);
    return 0;
}

int ckpt_save_model(const struct ckpt_file *file, const struct param_set *set, const struct param_average *average,
                    struct stream *s, char sha[DIGEST_HEX_SIZE], struct err *err) {
    OWNED_MEMORY float *data = NULL;
    OWNED_MEMORY float *buffers = NULL;
    OWNED_MEMORY struct safetensors_entry *entries = calloc((size_t)set->count + 1, sizeof *entries);
    if (!entries)
        return err_set(err, ERR_EXHAUSTED, "out of memory writing %s", file->path);
    int rc;
    if ((rc = fetch_flat(s, average ? average->data : set->data, set->data_count, &data, err)) ||
        (rc = fetch_flat(s, average && average->buffers ? average->buffers : set->buffers, set->buffer_count, &buffers, err)))
        return rc;
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        struct safetensors_entry *e = &entries[i];
        *e = (struct safetensors_entry){
            .name = p->name, .dtype = SAFETENSORS_F32, .rank = p->rank, .bytes = (size_t)p->count * sizeof(float)};
        memcpy(e->shape, p->dim, sizeof p->dim);
        e->data = (p->kind == PARAM_BUFFER ? buffers : data) + p->offset;
    }
    return write_checked(file, entries, (size_t)set->count, sha, err);
}

static void shape_text(const int64_t *dim, int rank, char *buf, size_t size) {
    OWNED(str_done) struct str s = str_of(size - 1);
    for (int i = 0; i < rank; i++)
        str_printf(&s, "%s%lld", i ? "," : "", (long long)dim[i]);
    str_copy(buf, size, str_cstr(&s));
}

static bool fits(const struct param *p, const struct safetensors_entry *e) {
    bool same = e->dtype == SAFETENSORS_F32 && e->rank == p->rank;
    for (int i = 0; same && i < p->rank; i++)
        same = e->shape[i] == p->dim[i];
    return same;
}

static bool is_head(const struct param *p, bool head_may_differ) { return head_may_differ && str_starts(p->name, "head."); }

/* A network with such values answers NaN, or hides it: a ReLU makes 0 of it. */
static int check_values(const struct safetensors_entry *e, const char *path, struct err *err) {
    int rc = safetensors_check_finite(e, path, err);
    const float *x = e->data;
    if (rc || !x || e->dtype != SAFETENSORS_F32 || !str_ends(e->name, "running_var"))
        return rc;
    for (size_t i = 0; i < e->bytes / sizeof *x; i++)
        if (x[i] < 0)
            return err_set(err, ERR_INVALID, "%s: element %zu of the tensor '%s' is %g; expected a variance, 0 or more", path, i,
                           e->name, (double)x[i]);
    return 0;
}

/* Every tensor there, of the right shape, and no other: before anything is touched. */
static int check_tensors(const struct safetensors *st, const char *path, const struct param_set *set, bool head_may_differ,
                         struct err *err) {
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        const struct safetensors_entry *e = safetensors_find(st, p->name);
        if (is_head(p, head_may_differ) || (e && fits(p, e)))
            continue;
        if (!e)
            return err_set(err, ERR_INVALID, "%s has no tensor '%s': it holds another model", path, p->name);
        char want[64], have[64];
        shape_text(p->dim, p->rank, want, sizeof want);
        shape_text(e->shape, e->rank, have, sizeof have);
        return err_set(err, ERR_INVALID, "%s: tensor '%s' is %s (%s); the model needs F32 (%s)", path, p->name,
                       safetensors_dtype_name(e->dtype), have, want);
    }
    for (size_t i = 0; i < safetensors_count(st); i++) {
        const struct safetensors_entry *e = safetensors_at(st, i);
        const char *name = e->name;
        int rc = check_values(e, path, err);
        if (rc)
            return rc;
        if (!param_find(set, name) && !(head_may_differ && str_starts(name, "head.")))
            return err_set(err, ERR_INVALID, "%s holds the tensor '%s', which this model does not have", path, name);
    }
    return 0;
}

static int load_tensors(const struct safetensors *st, struct param_set *set, struct stream *s, bool head_may_differ,
                        struct err *err) {
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        const struct safetensors_entry *e = safetensors_find(st, p->name);
        if (is_head(p, head_may_differ) && (!e || !fits(p, e)))
            continue;
        struct tensor t = param_value(set, p);
        int rc = stream_to_device(s, t.data, e->data, e->bytes, err);
        if (rc)
            return rc;
    }
    return stream_sync(s, err);
}

int ckpt_check(const struct safetensors *st, const char *path, const struct param_set *set, struct err *err) {
    return check_tensors(st, path, set, false, err);
}

int ckpt_upload(const struct safetensors *st, struct param_set *set, struct stream *s, struct err *err) {
    set->version++;
    return load_tensors(st, set, s, false, err);
}

int ckpt_load_model(const char *path, struct param_set *set, struct stream *s, bool head_may_differ, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    int rc;
    if ((rc = safetensors_open(path, &st, err)) || (rc = check_tensors(st, path, set, head_may_differ, err)))
        return rc;
    set->version++;
    return load_tensors(st, set, s, head_may_differ, err);
}

static const char *const state_names[] = {"adam.m", "adam.v", "raw", "raw.buffers"};
enum { STATE_RAW = 2, STATE_RAW_BUFFERS, STATES };

int ckpt_save_state(const struct ckpt_file *file, const struct optim *o, struct stream *s, char sha[DIGEST_HEX_SIZE],
                    struct err *err) {
    const struct param_set *set = o->params;
    const float *sources[] = {o->m, o->v, o->ema ? set->data : NULL, o->ema_buffers ? set->buffers : NULL};
    float *host[STATES] = {NULL};
    struct safetensors_entry entries[STATES];
    size_t n = 0;
    int rc = 0;
    for (int i = 0; !rc && i < STATES; i++) {
        if (!sources[i])
            continue;
        int64_t count = i == STATE_RAW_BUFFERS ? set->buffer_count : set->data_count;
        rc = fetch_flat(s, sources[i], count, &host[i], err);
        entries[n++] = (struct safetensors_entry){.name = state_names[i],
                                                  .dtype = SAFETENSORS_F32,
                                                  .rank = 1,
                                                  .shape = {count},
                                                  .data = host[i],
                                                  .bytes = (size_t)count * sizeof(float)};
    }
    if (!rc)
        rc = write_checked(file, entries, n, sha, err);
    for (int i = 0; i < STATES; i++)
        free(host[i]);
    return rc;
}

static const struct safetensors_entry *find_state(const struct safetensors *st, const char *name, int64_t n) {
    const struct safetensors_entry *e = safetensors_find(st, name);
    return e && e->dtype == SAFETENSORS_F32 && e->rank == 1 && e->shape[0] == n ? e : NULL;
}

/* The states of a file, NULL where it has none: raw weights only beside an average, with their statistics unless it is older. */
static int find_states(const struct safetensors *st, const char *path, const struct param_set *set,
                       const struct safetensors_entry *ret[STATES], struct err *err) {
    for (int i = 0; i < STATES; i++) {
        const char *name = state_names[i];
        bool needed = i < STATE_RAW || safetensors_find(st, name);
        ret[i] = needed ? find_state(st, name, i == STATE_RAW_BUFFERS ? set->buffer_count : set->data_count) : NULL;
        if (needed && !ret[i])
            return err_set(err, ERR_INVALID, "%s: state '%s' is missing or of another size; it belongs to another model", path,
                           name);
    }
    return 0;
}

int ckpt_load_state(const struct safetensors *st, const char *path, struct optim *o, struct stream *s, struct err *err) {
    struct param_set *set = o->params;
    const struct safetensors_entry *entries[STATES];
    int64_t updates;
    const char *text = safetensors_metadata(st, "updates");
    int rc = find_states(st, path, set, entries, err);
    if (rc)
        return rc;
    if (!text || !str_to_i64(text, &updates))
        return err_set(err, ERR_INVALID, "%s: the number of updates is missing", path);
    if ((rc = optim_start_ema(o, s, err)))
        return rc;
    set->version++;
    float *targets[STATES] = {o->m, o->v, set->data, set->buffers};
    for (int i = 0; i < STATES; i++)
        if (entries[i] && (rc = stream_to_device(s, targets[i], entries[i]->data, entries[i]->bytes, err)))
            return rc;
    if ((rc = stream_sync(s, err)))
        return rc;
    o->updates = updates;
    return 0;
}
