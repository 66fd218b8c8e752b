#include "geodesic/geodesic_file.h"

#include "geodesic/geodesic_params.h"
#include "kernels/geodesic.h"

enum { EXTRA = 11, NAME = 64 };

/* Entries being laid out; `names` holds those of the parameters. */
struct layout {
    struct safetensors_entry *entries;
    char (*names)[NAME];
    size_t n;
};

static void add(struct layout *l, const char *name, enum safetensors_dtype dtype, int64_t rows, int64_t columns, const void *data) {
    struct safetensors_entry *e = &l->entries[l->n++];
    *e = (struct safetensors_entry){.name = name, .dtype = dtype, .rank = columns ? 2 : 1, .data = data};
    e->shape[0] = rows;
    e->shape[1] = columns;
    e->bytes = (size_t)(rows * (columns ? columns : 1)) * safetensors_dtype_bytes(dtype);
}

static void add_params(struct layout *l, const struct geodesic_file *file) {
    struct geodesic_part parts[GEODESIC_PARTS];
    int64_t count = geodesic_params_count(file->head);
    geodesic_params_parts(file->head, parts);
    for (int g = 0; g < file->groups; g++)
        for (int i = 0; i < GEODESIC_PARTS; i++) {
            const struct geodesic_part *p = &parts[i];
            str_format(l->names[l->n], NAME, "model.%d.%s", g, p->name);
            add(l, l->names[l->n], SAFETENSORS_F32, p->dim[0], p->rank == 2 ? p->dim[1] : 0, file->params + g * count + p->offset);
        }
}

static void layout_done(struct layout *l) { FREE_MEMBERS(*l, entries, names); }

int geodesic_file_write(const char *path, const struct geodesic_file *file, const struct geodesic_file_state *state,
                        char ret_sha256[DIGEST_HEX_SIZE], struct err *err) {
    size_t most = (size_t)file->groups * GEODESIC_PARTS + EXTRA;
    OWNED(layout_done)
    struct layout l = {.entries = calloc(most, sizeof *l.entries), .names = calloc(most, sizeof *l.names)};
    const struct spectra *s = &file->spectra;
    char floor[40];
    bool blends = false;
    for (int g = 0; g < file->groups; g++)
        blends |= file->prior_weights[g] != 0;
    if (!l.entries || !l.names)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a model file");
    add_params(&l, file);
    add(&l, "members", SAFETENSORS_U32, file->groups, 0, file->members);
    add(&l, "orders", SAFETENSORS_I32, file->groups, 0, file->orders);
    add(&l, "concentrations", SAFETENSORS_F64, s->n, 0, s->concentrations);
    add(&l, "wavelengths", SAFETENSORS_F64, s->width, 0, s->wavelengths);
    add(&l, "absorbance", SAFETENSORS_F64, s->n, s->width, s->absorbance);
    if (blends)
        add(&l, "prior_weights", SAFETENSORS_F64, file->groups, 0, file->prior_weights);
    if (state) {
        add(&l, "optimizer.m", SAFETENSORS_F32, file->groups, state->fit->count, state->fit->m);
        add(&l, "optimizer.v", SAFETENSORS_F32, file->groups, state->fit->count, state->fit->v);
        add(&l, "state.losses", SAFETENSORS_F64, 2 * (int64_t)file->groups, 0, state->fit->losses);
        add(&l, "state.figures", SAFETENSORS_F64, state->n_figures, 0, state->figures);
    }
    str_format(floor, sizeof floor, "%.17g", file->floor);
    struct safetensors_pair metadata[] = {{"brr.kind", "geodesic"},
                                          {"head", file->head == GEODESIC_FLOW ? "flow" : "decoder"},
                                          {"metric_floor", floor},
                                          {"spectra_sha256", s->sha256},
                                          {"counters", state ? state->counters : ""}};
    struct safetensors_content content = {l.entries, l.n, metadata, sizeof metadata / sizeof *metadata - !state};
    return safetensors_write(path, &content, ret_sha256, err);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* The tensor of that name, dtype and size; rows or columns −1: any. */
static const struct safetensors_entry *find(const struct safetensors *st, const char *path, const char *name,
                                            enum safetensors_dtype dtype, int64_t rows, int64_t columns, struct err *err) {
    const struct safetensors_entry *e = safetensors_find(st, name);
    int rank = columns ? 2 : 1;
    bool fits =
        e && e->dtype == dtype && e->rank == rank && (rows < 0 || e->shape[0] == rows) && (columns <= 0 || e->shape[1] == columns);
    if (!e)
        err_set(err, ERR_INVALID, "%s: no tensor %s; expected a geodesic model", path, name);
    else if (!fits)
        err_set(err, ERR_INVALID, "%s: tensor %s has another type or shape than a geodesic model's", path, name);
    return fits ? e : NULL;
}

static int copy(void *dst, const struct safetensors_entry *e) {
    if (e)
        memcpy(dst, e->data, e->bytes);
    return e ? 0 : ERR_INVALID;
}

static int read_spectra(const struct safetensors *st, const char *path, struct spectra *s, struct err *err) {
    const struct safetensors_entry *c = find(st, path, "concentrations", SAFETENSORS_F64, -1, 0, err);
    const struct safetensors_entry *w = c ? find(st, path, "wavelengths", SAFETENSORS_F64, -1, 0, err) : NULL;
    const struct safetensors_entry *a = w ? find(st, path, "absorbance", SAFETENSORS_F64, c->shape[0], w->shape[0], err) : NULL;
    if (!a || safetensors_check_finite(c, path, err) || safetensors_check_finite(w, path, err) ||
        safetensors_check_finite(a, path, err))
        return ERR_INVALID;
    if (c->shape[0] < 2 || c->shape[0] > SPECTRA_MAX_CONCENTRATIONS || w->shape[0] < 2 || w->shape[0] > SPECTRA_MAX_WAVELENGTHS)
        return err_set(err, ERR_INVALID, "%s: %lld concentrations and %lld wavelengths are no table of spectra", path,
                       (long long)c->shape[0], (long long)w->shape[0]);
    s->n = (int)c->shape[0];
    s->width = w->shape[0];
    s->concentrations = malloc(c->bytes);
    s->wavelengths = malloc(w->bytes);
    s->absorbance = malloc(a->bytes);
    if (!s->concentrations || !s->wavelengths || !s->absorbance)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for its spectra", path);
    const char *sha = safetensors_metadata(st, "spectra_sha256");
    str_copy(s->sha256, sizeof s->sha256, sha ? sha : "");
    copy(s->concentrations, c);
    copy(s->wavelengths, w);
    copy(s->absorbance, a);
    for (int k = 1; k < s->n; k++)
        if (!(s->concentrations[k - 1] < s->concentrations[k]))
            return err_set(err, ERR_INVALID, "%s: its concentrations are not in ascending order", path);
    return 0;
}

static int read_params(const struct safetensors *st, const char *path, struct geodesic_file *f, struct err *err) {
    struct geodesic_part parts[GEODESIC_PARTS];
    int64_t count = geodesic_params_count(f->head);
    int rc = 0;
    char name[NAME];
    geodesic_params_parts(f->head, parts);
    f->params = malloc((size_t)(f->groups * count) * sizeof *f->params);
    if (!f->params)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for %d models", path, f->groups);
    for (int g = 0; g < f->groups; g++) {
        int members = geodesic_members_count(f->members[g]);
        if (members < 2 || f->members[g] >> f->spectra.n || !geodesic_has_rule(f->orders[g]))
            return err_set(err, ERR_INVALID, "%s: model %d names spectra or a quadrature that there are not", path, g);
        for (int i = 0; !rc && i < GEODESIC_PARTS; i++) {
            const struct geodesic_part *p = &parts[i];
            str_format(name, sizeof name, "model.%d.%s", g, p->name);
            const struct safetensors_entry *e = find(st, path, name, SAFETENSORS_F32, p->dim[0], p->rank == 2 ? p->dim[1] : 0, err);
            if (!(rc = e ? safetensors_check_finite(e, path, err) : ERR_INVALID))
                copy(f->params + g * count + p->offset, e);
        }
    }
    return rc;
}

/* Files of models without a prior have none. */
static int read_prior_weights(const struct safetensors *st, const char *path, struct geodesic_file *f, struct err *err) {
    if (!safetensors_find(st, "prior_weights"))
        return 0;
    const struct safetensors_entry *e = find(st, path, "prior_weights", SAFETENSORS_F64, f->groups, 0, err);
    if (copy(f->prior_weights, e))
        return ERR_INVALID;
    for (int g = 0; g < f->groups; g++)
        if (!(f->prior_weights[g] >= 0 && f->prior_weights[g] <= 1))
            return err_set(err, ERR_INVALID, "%s: prior_weights[%d] is %g; expected a number from 0 to 1", path, g,
                           f->prior_weights[g]);
    return 0;
}

static int read_all(const struct safetensors *st, const char *path, struct geodesic_file *f, struct err *err) {
    const char *kind = safetensors_metadata(st, "brr.kind"), *head = safetensors_metadata(st, "head");
    const char *floor = safetensors_metadata(st, "metric_floor");
    if (!kind || strcmp(kind, "geodesic") || !head || !floor || !str_to_f64(floor, &f->floor) || !(f->floor > 0))
        return err_set(err, ERR_INVALID, "%s is no geodesic model; expected the file of a job of kind geodesic", path);
    f->head = strcmp(head, "flow") ? GEODESIC_DECODER : GEODESIC_FLOW;
    int rc = read_spectra(st, path, &f->spectra, err);
    const struct safetensors_entry *members = rc ? NULL : find(st, path, "members", SAFETENSORS_U32, -1, 0, err);
    if (!members)
        return rc ? rc : ERR_INVALID;
    if (members->shape[0] < 1 || members->shape[0] > GEODESIC_MAX_GROUPS)
        return err_set(err, ERR_INVALID, "%s: %lld models; expected 1 to %d", path, (long long)members->shape[0],
                       GEODESIC_MAX_GROUPS);
    f->groups = (int)members->shape[0];
    copy(f->members, members);
    if ((rc = copy(f->orders, find(st, path, "orders", SAFETENSORS_I32, f->groups, 0, err))) ||
        (rc = read_prior_weights(st, path, f, err)))
        return rc;
    return read_params(st, path, f, err);
}

void geodesic_file_done(struct geodesic_file *f) {
    spectra_done(&f->spectra);
    free(f->params);
    f->params = NULL;
}

int geodesic_file_read(const char *path, struct geodesic_file *ret, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    struct geodesic_file f = {0};
    int rc;
    if ((rc = safetensors_open(path, &st, err)) || (rc = read_all(st, path, &f, err)))
        geodesic_file_done(&f);
    else
        *ret = f;
    return rc;
}

int geodesic_file_read_state(const char *path, struct geodesic_fit_state *fit, double *figures, int64_t n_figures,
                             char **ret_counters, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    OWNED(geodesic_file_done) struct geodesic_file f = {0};
    int rc;
    if ((rc = safetensors_open(path, &st, err)) || (rc = read_all(st, path, &f, err)))
        return rc;
    if (f.groups != fit->groups || geodesic_params_count(f.head) != fit->count)
        return err_set(err, ERR_INVALID, "%s: %d models of %lld parameters; expected %d of %lld", path, f.groups,
                       (long long)geodesic_params_count(f.head), fit->groups, (long long)fit->count);
    if ((rc = copy(fit->m, find(st, path, "optimizer.m", SAFETENSORS_F32, fit->groups, fit->count, err))) ||
        (rc = copy(fit->v, find(st, path, "optimizer.v", SAFETENSORS_F32, fit->groups, fit->count, err))) ||
        (rc = copy(fit->losses, find(st, path, "state.losses", SAFETENSORS_F64, 2 * (int64_t)fit->groups, 0, err))) ||
        (rc = copy(figures, find(st, path, "state.figures", SAFETENSORS_F64, n_figures, 0, err))))
        return rc;
    const char *counters = safetensors_metadata(st, "counters");
    if (!counters || !(*ret_counters = strdup(counters)))
        return err_set(err, ERR_INVALID, "%s: no counters of a training", path);
    memcpy(fit->params, f.params, (size_t)(fit->groups * fit->count) * sizeof *fit->params);
    memcpy(fit->orders, f.orders, (size_t)fit->groups * sizeof *fit->orders);
    return 0;
}

int geodesic_file_best(const struct geodesic_file *file) {
    int best = 0;
    for (int g = 1; g < file->groups; g++)
        if (geodesic_members_count(file->members[g]) > geodesic_members_count(file->members[best]))
            best = g;
    return best;
}

void geodesic_file_model(const struct geodesic_file *file, int group, struct geodesic_model *ret) {
    *ret = (struct geodesic_model){SAME_MEMBERS(*file, head, floor), .order = file->orders[group], .members = file->members[group],
                                   .prior_weight = file->prior_weights[group],
                                   .params = file->params + group * geodesic_params_count(file->head)};
}
