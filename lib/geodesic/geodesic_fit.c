#include "geodesic/geodesic_fit.h"

#include "base/rng.h"
#include "geodesic/geodesic_fit_ode.h"
#include "geodesic/geodesic_fit_state.h"
#include "geodesic/geodesic_params.h"

/* ---- setting up ------------------------------------------------------------------------------------------------ */

static int take(struct geodesic_fit *f, size_t bytes, void *ret, struct err *err) {
    return device_alloc(stream_device(f->stream), bytes, (void **)ret, err);
}

static int put(struct geodesic_fit *f, void *dst, const void *src, size_t bytes, struct err *err) {
    int rc = stream_to_device(f->stream, dst, src, bytes, err);
    return rc ? rc : stream_sync(f->stream, err);
}

/* Knots and normalised spectra of one group, for the device. */
static int put_group(struct geodesic_fit *f, const struct fit_run *run, int group, struct err *err) {
    const struct spectra *s = f->spectra;
    int64_t width = s->width, n = run->n, at = group - run->first;
    OWNED_MEMORY float *host = malloc((size_t)(n * width) * sizeof *host);
    float knots[GEODESIC_MAX_KNOTS];
    double mean, deviation;
    int knot = 0;
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld spectra", (long long)n);
    geodesic_statistics(s, f->members[group], &mean, &deviation);
    for (int k = 0; k < s->n; k++) {
        if (!(f->members[group] >> k & 1))
            continue;
        knots[knot] = (float)geodesic_position(s, s->concentrations[k]);
        for (int64_t i = 0; i < width; i++)
            host[knot * width + i] = (float)((s->absorbance[k * width + i] - mean) / deviation);
        knot++;
    }
    int rc = put(f, run->knots + at * n, knots, (size_t)n * sizeof *knots, err);
    return rc ? rc : put(f, run->spectra + at * n * width, host, (size_t)(n * width) * sizeof *host, err);
}

/* Groups [first, end), all of n spectra. */
static int add_run(struct geodesic_fit *f, int first, int end, struct err *err) {
    struct fit_run *run = &f->runs[f->n_runs++];
    struct geodesic_pair pairs[GEODESIC_MAX_KNOTS * GEODESIC_MAX_KNOTS];
    int n = geodesic_members_count(f->members[first]), count = end - first, n_pairs = 0;
    *run = (struct fit_run){.first = first, .end = end, .n = n};
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (a != b)
                pairs[n_pairs++] = (struct geodesic_pair){a, b};
    run->n_pairs = n_pairs;
    f->paths += (int64_t)count * n_pairs * f->spectra->width;
    int rc;
    if ((rc = take(f, (size_t)(count * n) * sizeof(float), &run->knots, err)) ||
        (rc = take(f, (size_t)(count * n) * (size_t)f->spectra->width * sizeof(float), &run->spectra, err)) ||
        (rc = take(f, sizeof *pairs * (size_t)n_pairs, &run->pairs, err)) ||
        (rc = put(f, run->pairs, pairs, sizeof *pairs * (size_t)n_pairs, err)))
        return rc;
    for (int g = first; g < end; g++)
        if ((rc = put_group(f, run, g, err)))
            return rc;
    return fit_orders_new(f, run, err);
}

static size_t place_bytes(const struct geodesic_fit *f) { return (size_t)f->groups * 2 * sizeof(struct train_place); }

static struct fit_travel travel_in(const struct geodesic_fit *f, void *memory) {
    return (struct fit_travel){memory, (int32_t *)((char *)memory + place_bytes(f))};
}

static int allocate_travel(struct geodesic_fit *f, struct err *err) {
    size_t bytes = place_bytes(f) + (size_t)f->config.batch * sizeof(int32_t);
    void *host = NULL, *there = NULL;
    int rc = device_alloc_host(stream_device(f->stream), bytes, &host, err);
    if (rc)
        return rc;
    f->host = travel_in(f, host);
    if ((rc = take(f, bytes, &there, err)))
        return rc;
    f->there = travel_in(f, there);
    return 0;
}

static int allocate(struct geodesic_fit *f, struct err *err) {
    size_t row = (size_t)f->count * sizeof(float), all = row * (size_t)f->groups, width = (size_t)f->spectra->width;
    void *host_loss = NULL;
    int rc;
    if ((rc = take(f, all, &f->params, err)) || (rc = take(f, all, &f->grads, err)) || (rc = take(f, all, &f->m, err)) ||
        (rc = take(f, all, &f->v, err)) || (rc = take(f, (size_t)f->count, &f->decay, err)) ||
        (rc = take(f, width * sizeof(float), &f->wavelengths, err)) || (rc = allocate_travel(f, err)) ||
        (rc = take(f, (size_t)f->groups * 3 * sizeof(double), &f->loss, err)) ||
        (rc = device_alloc_host(stream_device(f->stream), (size_t)f->groups * 5 * sizeof *f->host_loss, &host_loss, err)))
        return rc;
    f->host_loss = host_loss;
    f->order = malloc(width * sizeof *f->order);
    f->orders = calloc((size_t)f->groups, sizeof *f->orders);
    if (!f->order || !f->orders)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d models", f->groups);
    f->squares = f->loss + 2 * f->groups;
    f->epoch_loss = f->host_loss + 3 * f->groups;
    f->running = f->host_loss + 4 * f->groups;
    for (int g = 0; g < f->groups; g++) {
        f->orders[g] = 4;
        f->epoch_loss[g] = NAN;
    }
    return stream_zero(f->stream, f->loss, (size_t)f->groups * 3 * sizeof(double), err);
}

static int fill(struct geodesic_fit *f, struct err *err) {
    int64_t width = f->spectra->width;
    OWNED_MEMORY float *row = malloc((size_t)(f->count > width ? f->count : width) * sizeof *row);
    OWNED_MEMORY uint8_t *ones = malloc((size_t)f->count);
    int rc;
    if (!row || !ones)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a model");
    for (int g = 0; g < f->groups; g++) {
        /* Drawn by its members, so that a model is the same whatever stands beside it. */
        struct geodesic_draw draw = {f->config.head, f->config.head_gain, f->config.seed, f->members[g] & 0x0fffffff};
        geodesic_params_draw(&draw, row);
        if ((rc = put(f, f->params + g * f->count, row, (size_t)f->count * sizeof *row, err)))
            return rc;
    }
    for (int64_t i = 0; i < width; i++)
        row[i] = (float)geodesic_wavelength(f->spectra, f->spectra->wavelengths[i]);
    if ((rc = put(f, f->wavelengths, row, (size_t)width * sizeof *row, err)))
        return rc;
    memset(ones, 1, (size_t)f->count);
    return put(f, f->decay, ones, (size_t)f->count, err);
}

static int check_members(const struct geodesic_fit *f, struct err *err) {
    for (int g = 0; g < f->groups; g++) {
        geodesic_members m = f->members[g];
        if (geodesic_members_count(m) < 2 || (f->spectra->n < 32 && m >> f->spectra->n))
            return err_set(err, ERR_INVALID, "model %d learns from spectra 0x%x of %d; expected at least two that there are", g,
                           (unsigned)m, f->spectra->n);
    }
    return 0;
}

/* Groups with as many members run together. */
static int add_runs(struct geodesic_fit *f, const geodesic_members *members, struct err *err) {
    for (int g = 0, end, rc; g < f->groups; g = end) {
        for (end = g + 1; end < f->groups && geodesic_members_count(members[end]) == geodesic_members_count(members[g]); end++)
            ;
        if ((rc = add_run(f, g, end, err)))
            return rc;
    }
    return 0;
}

int geodesic_fit_check(const struct geodesic_fit_config *c, const struct device_info *device, struct err *err) {
    if (c->products == GEODESIC_BF16X3 && !device->is_async)
        return err_set(err, ERR_UNSUPPORTED, "training.products bf16x3 runs on GPUs only, not on %s; use f32", device->name);
    if (c->solver != GEODESIC_ODE)
        return 0;
    if (c->head != GEODESIC_FLOW)
        return err_set(err, ERR_UNSUPPORTED, "training.solver ode supports only the flow head; set model.head to flow");
    if (c->smoothness > 0)
        return err_set(err, ERR_UNSUPPORTED, "training.solver ode does not support training.smoothness; set it to 0");
    if (device->is_async)
        return err_set(err, ERR_UNSUPPORTED, "training.solver ode runs on the CPU only, not on %s; use closed_form", device->name);
    return 0;
}

int geodesic_fit_new(const struct geodesic_fit_config *config, const struct spectra *spectra, const geodesic_members *members,
                     int groups, struct stream *s, struct geodesic_fit **ret, struct err *err) {
    struct device_info info;
    int rc;
    if (groups < 1 || groups > GEODESIC_MAX_GROUPS)
        return err_set(err, ERR_RANGE, "%d models at once; expected 1 to %d", groups, GEODESIC_MAX_GROUPS);
    device_describe(stream_device(s), &info);
    if ((rc = geodesic_fit_check(config, &info, err)))
        return rc;
    struct geodesic_fit *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a training");
    f->config = *config;
    f->spectra = spectra;
    f->groups = groups;
    f->stream = s;
    f->count = geodesic_params_count(config->head);
    memcpy(f->members, members, (size_t)groups * sizeof *members);
    f->epoch_steps = (spectra->width + config->batch - 1) / config->batch;
    for (int g = 0; g < groups; g++)
        geodesic_fit_limit(f, g, config->decay, 0);
    if ((rc = check_members(f, err)) || (rc = allocate(f, err)) || (rc = add_runs(f, members, err)) || (rc = fill(f, err)) ||
        (config->solver == GEODESIC_ODE && (rc = fit_ode_new(f, &f->ode, err))))
        geodesic_fit_free(f);
    else
        *ret = f;
    return rc;
}

void geodesic_fit_free(struct geodesic_fit *f) {
    if (!f)
        return;
    struct device *dev = stream_device(f->stream);
    replay_done(&f->replay);
    fit_ode_free(f->ode);
    for (int r = 0; r < f->n_runs; r++) {
        device_free(dev, f->runs[r].knots);
        device_free(dev, f->runs[r].spectra);
        device_free(dev, f->runs[r].pairs);
        device_free(dev, f->runs[r].check_x);
        device_free(dev, f->runs[r].check_z);
        free(f->runs[r].check_host);
    }
    void *all[] = {f->params, f->grads, f->m, f->v, f->decay, f->wavelengths, f->there.place, f->loss};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(dev, all[i]);
    free(f->order);
    device_free_host(dev, f->host_loss);
    device_free_host(dev, f->host.place);
    free(f->orders);
    free(f);
}

/* ---- one step -------------------------------------------------------------------------------------------------- */

/* The order of wavelengths in this epoch, the same for all models. */
static void shuffle(struct geodesic_fit *f) {
    struct rng rng;
    for (int64_t i = 0; i < f->spectra->width; i++)
        f->order[i] = (uint32_t)i;
    rng_init(&rng, f->config.seed, RNG_SAMPLER, (uint32_t)(f->step / f->epoch_steps));
    rng_shuffle_u32(&rng, f->order, (size_t)f->spectra->width);
    f->shuffled = f->step / f->epoch_steps;
}

/* The step's wavelengths within the epoch's order. */
struct span {
    int64_t from, n;
};
static struct span span_of(const struct geodesic_fit *f) {
    int64_t b = f->step % f->epoch_steps, width = f->spectra->width, from = b * width / f->epoch_steps;
    return (struct span){from, (b + 1) * width / f->epoch_steps - from};
}

/* Gradients and losses of groups [first, end) of a run, alike in their order of quadrature. */
static int gradients(struct geodesic_fit *f, const struct fit_run *run, int first, int end, struct err *err) {
    int64_t width = f->spectra->width, at = first - run->first, n = end - first;
    struct span span = span_of(f);
    struct geodesic_args a = {.head = f->config.head,
                              .order = f->orders[first],
                              .floor = (float)f->config.floor,
                              .smoothness = (float)f->config.smoothness,
                              .bf16x3 = f->config.products == GEODESIC_BF16X3,
                              .params = tensor_2d(f->params + first * f->count, DTYPE_F32, n, f->count),
                              .grads = tensor_2d(f->grads + first * f->count, DTYPE_F32, n, f->count),
                              .knots = tensor_2d(run->knots + at * run->n, DTYPE_F32, n, run->n),
                              .wavelengths = tensor_1d(f->wavelengths, DTYPE_F32, width),
                              .spectra = tensor_3d(run->spectra + at * run->n * width, DTYPE_F32, n, run->n, width),
                              .rows = f->there.rows,
                              .n_rows = span.n,
                              SAME_MEMBERS(*run, pairs, n_pairs),
                              .loss = f->loss + 2 * first};
    return f->ode ? fit_ode_gradients(f->ode, &a, (const int32_t *)f->order + span.from, err) : op_geodesic(f->stream, &a, err);
}

void geodesic_fit_limit(struct geodesic_fit *f, int group, double decay, int64_t stop_epoch) {
    f->limit[group].decay = decay;
    f->limit[group].stop_epoch = stop_epoch ? stop_epoch : f->config.epochs;
}

static bool learns(const struct geodesic_fit *f, int g) { return f->step < f->limit[g].stop_epoch * f->epoch_steps; }

/* The metrics (0) or heads (1) of groups [first, end), which learn and have the same decay. */
/* Cosine from the peak to FIT_LAST_RATE. */
static double fit_rate(const struct geodesic_fit *f, double peak) {
    double t = (double)f->step / (double)geodesic_fit_steps(f);
    return FIT_LAST_RATE + (peak - FIT_LAST_RATE) * 0.5 * (1 + cos(M_PI * t));
}

static struct adamw_args update_of(const struct geodesic_fit *f, int first, int end, int head) {
    int64_t metric = mlp_count(GEODESIC_METRIC), at = first * f->count, rows = end - first;
    int64_t from = head ? metric : 0, n = head ? f->count - metric : metric;
    struct tensor param = tensor_2d(f->params + at, DTYPE_F32, rows, f->count);
    struct tensor grad = tensor_2d(f->grads + at, DTYPE_F32, rows, f->count);
    struct tensor m = tensor_2d(f->m + at, DTYPE_F32, rows, f->count), v = tensor_2d(f->v + at, DTYPE_F32, rows, f->count);
    return (struct adamw_args){.param = tensor_slice(&param, from, n),
                               .grad = tensor_slice(&grad, from, n),
                               .m = tensor_slice(&m, from, n),
                               .v = tensor_slice(&v, from, n),
                               .decay = tensor_1d(f->decay, DTYPE_U8, n),
                               .lr = (float)fit_rate(f, head ? f->config.head_rate : f->config.metric_rate),
                               .beta1 = 0.9f,
                               .beta2 = 0.999f,
                               .eps = 1e-8f,
                               .weight_decay = (float)f->limit[first].decay,
                               .step = f->step + 1,
                               .clip = f->config.clip,
                               .sum_squares = f->squares + first,
                               .place = f->there.place + 2 * first + head};
}

static int update_groups(struct geodesic_fit *f, int first, int end, struct err *err) {
    struct norm_args norm = {tensor_2d(f->grads + first * f->count, DTYPE_F32, end - first, f->count), f->squares + first};
    int rc = op_norm(f->stream, &norm, err);
    for (int head = 0; !rc && head < 2; head++) {
        struct adamw_args a = update_of(f, first, end, head);
        rc = op_adamw(f->stream, &a, err);
    }
    return rc;
}

/* The end of the neighbours of g that learn, or do not, as g does, and have the same decay. */
static int alike(const struct geodesic_fit *f, int g) {
    int end = g + 1;
    while (end < f->groups && learns(f, end) == learns(f, g) && f->limit[end].decay == f->limit[g].decay)
        end++;
    return end;
}

static int update(struct geodesic_fit *f, struct err *err) {
    int rc;
    for (int g = 0, end; g < f->groups; g = end) {
        end = alike(f, g);
        if (learns(f, g) && (rc = update_groups(f, g, end, err)))
            return rc;
    }
    return 0;
}

/* The values of this step, to the device. */
static int send_values(struct geodesic_fit *f, struct err *err) {
    struct span span = span_of(f);
    for (int g = 0; g < f->groups; g = alike(f, g))
        for (int head = 0; head < 2; head++) {
            struct adamw_args a = update_of(f, g, g + 1, head);
            adamw_place(&a, f->host.place + 2 * g + head);
        }
    memcpy(f->host.rows, f->order + span.from, (size_t)span.n * sizeof *f->host.rows);
    return stream_to_device(f->stream, f->there.place, f->host.place, place_bytes(f) + (size_t)span.n * sizeof *f->host.rows, err);
}

/* Losses of the step into the epoch's sums; at its end the epoch's means. */
static int account(struct geodesic_fit *f, struct err *err) {
    int rc;
    if ((rc = stream_to_host(f->stream, f->host_loss, f->loss, (size_t)f->groups * 3 * sizeof(double), err)) ||
        (rc = stream_sync(f->stream, err)))
        return rc;
    for (int r = 0; r < f->n_runs; r++)
        for (int g = f->runs[r].first; g < f->runs[r].end; g++) {
            double loss = f->host_loss[2 * g];
            if (!isfinite(loss))
                return err_set(err, ERR_INTERNAL,
                               "the loss of model %d is no finite number at step %lld; try a smaller learning rate", g,
                               (long long)f->step);
            f->running[g] += loss / ((double)f->runs[r].n_pairs * (double)f->spectra->width);
            if ((f->step + 1) % f->epoch_steps)
                continue;
            f->epoch_loss[g] = f->running[g];
            f->running[g] = 0;
        }
    return 0;
}

/* The gradients of all groups, runs of groups with the same order of quadrature together. */
static int all_gradients(struct geodesic_fit *f, struct err *err) {
    int rc;
    for (int r = 0; r < f->n_runs; r++)
        for (int g = f->runs[r].first, end; g < f->runs[r].end; g = end) {
            for (end = g + 1; end < f->runs[r].end && f->orders[end] == f->orders[g]; end++)
                ;
            if ((rc = gradients(f, &f->runs[r], g, end, err)))
                return rc;
        }
    return 0;
}

/* The device's work of a step. */
static int device_work(void *ctx, struct err *err) {
    struct geodesic_fit *f = ctx;
    int rc = stream_zero(f->stream, f->grads, (size_t)(f->groups * f->count) * sizeof(float), err);
    if (rc || (rc = all_gradients(f, err)))
        return rc;
    return update(f, err);
}

/* Recordings of another form will not be needed again. */
static void keep_form(struct geodesic_fit *f) {
    bool same = true, warned = f->replay.warned;
    for (int g = 0; g < f->groups; g++) {
        struct fit_form now = {f->limit[g].decay, f->orders[g], learns(f, g)}, *before = &f->form[g];
        same = same && now.decay == before->decay && now.order == before->order && now.learns == before->learns;
        *before = now;
    }
    if (same)
        return;
    replay_done(&f->replay);
    f->replay.warned = warned;
}

const struct geodesic_convergence *geodesic_fit_convergence(const struct geodesic_fit *f) {
    return f->ode ? fit_ode_convergence(f->ode) : NULL;
}

int geodesic_fit_step(struct geodesic_fit *f, struct err *err) {
    bool starts = f->step % f->epoch_steps == 0;
    const struct replay_key key = {.in = f->params, .rows = span_of(f).n};
    int rc;
    if (starts || f->shuffled != f->step / f->epoch_steps)
        shuffle(f);
    if (starts && (rc = fit_choose_orders(f, err)))
        return rc;
    keep_form(f);
    if ((rc = send_values(f, err)) || (rc = replay_run(&f->replay, f->stream, &key, &(struct replay_body){device_work, f}, err)) ||
        (rc = account(f, err)))
        return rc;
    f->step++;
    return 0;
}

bool geodesic_fit_warning(struct geodesic_fit *f, struct err *ret) { return replay_warning(&f->replay, ret); }

/* ---- questions ------------------------------------------------------------------------------------------------- */

int64_t geodesic_fit_steps(const struct geodesic_fit *f) { return f->config.epochs * f->epoch_steps; }
int64_t geodesic_fit_at(const struct geodesic_fit *f) { return f->step; }
int64_t geodesic_fit_epoch_steps(const struct geodesic_fit *f) { return f->epoch_steps; }
int64_t geodesic_fit_paths(const struct geodesic_fit *f) { return f->paths; }

double geodesic_fit_loss(const struct geodesic_fit *f, int group) {
    double sum = 0;
    for (int g = 0; group < 0 && g < f->groups; g++)
        sum += f->epoch_loss[g] / f->groups;
    return group < 0 ? sum : f->epoch_loss[group];
}

double geodesic_fit_gradient_norm(const struct geodesic_fit *f) {
    double most = 0;
    for (int g = 0; g < f->groups; g++)
        most = fmax(most, f->host_loss[2 * f->groups + g]);
    return sqrt(most);
}

int geodesic_fit_nodes(const struct geodesic_fit *f) {
    int most = 0;
    for (int g = 0; g < f->groups; g++)
        most = f->orders[g] > most ? f->orders[g] : most;
    return most;
}

double geodesic_fit_rate(const struct geodesic_fit *f) { return fit_rate(f, f->config.head_rate); }

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

void geodesic_fit_state_done(struct geodesic_fit_state *state) {
    FREE_MEMBERS(*state, params, orders, losses);
    *state = (struct geodesic_fit_state){0};
}

int geodesic_fit_state_new(const struct geodesic_fit *f, struct geodesic_fit_state *ret, struct err *err) {
    size_t all = (size_t)f->groups * (size_t)f->count;
    struct geodesic_fit_state s = {.groups = f->groups, .count = f->count};
    s.params = calloc(3 * all, sizeof *s.params);
    s.orders = calloc((size_t)f->groups, sizeof *s.orders);
    s.losses = calloc((size_t)f->groups * 2, sizeof *s.losses);
    if (!s.params || !s.orders || !s.losses) {
        geodesic_fit_state_done(&s);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a checkpoint of %d models", f->groups);
    }
    s.m = s.params + all;
    s.v = s.m + all;
    *ret = s;
    return 0;
}

int geodesic_fit_save(struct geodesic_fit *f, struct geodesic_fit_state *to, struct err *err) {
    size_t bytes = (size_t)(f->groups * f->count) * sizeof(float);
    to->step = f->step;
    memcpy(to->orders, f->orders, (size_t)f->groups * sizeof *f->orders);
    memcpy(to->losses, f->epoch_loss, (size_t)f->groups * 2 * sizeof(double));
    int rc;
    if ((rc = stream_to_host(f->stream, to->params, f->params, bytes, err)) ||
        (rc = stream_to_host(f->stream, to->m, f->m, bytes, err)) || (rc = stream_to_host(f->stream, to->v, f->v, bytes, err)))
        return rc;
    return stream_sync(f->stream, err);
}

int geodesic_fit_load(struct geodesic_fit *f, const struct geodesic_fit_state *from, struct err *err) {
    size_t bytes = (size_t)(f->groups * f->count) * sizeof(float);
    int rc;
    if (from->groups != f->groups || from->count != f->count)
        return err_set(err, ERR_INVALID, "the checkpoint holds %d models of %lld parameters; expected %d of %lld", from->groups,
                       (long long)from->count, f->groups, (long long)f->count);
    if ((rc = put(f, f->params, from->params, bytes, err)) || (rc = put(f, f->m, from->m, bytes, err)) ||
        (rc = put(f, f->v, from->v, bytes, err)))
        return rc;
    f->step = from->step;
    f->shuffled = -1;
    memcpy(f->orders, from->orders, (size_t)f->groups * sizeof *f->orders);
    memcpy(f->epoch_loss, from->losses, (size_t)f->groups * 2 * sizeof(double));
    return 0;
}

void geodesic_fit_model(const struct geodesic_fit_state *state, const struct geodesic_fit *f, int group,
                        struct geodesic_model *ret) {
    *ret = (struct geodesic_model){SAME_MEMBERS(f->config, head, floor), .order = state->orders[group],
                                   .members = f->members[group], .params = state->params + group * state->count};
}
