#include "run/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fsio.h"
#include "base/str.h"
#include "data/edf.h"
#include "data/labels.h"
#include "data/montage.h"
#include "data/sampler.h"
#include "run/step.h"

enum { MEASURED_STEPS = 2, DETECT_BATCH = 8 };

/* ---- memory ---- */

int estimate_memory(const struct jobfile *job, enum dtype precision, int64_t limit, int64_t *ret_bytes, int64_t *ret_largest,
                    struct err *err) {
    struct seizure_options options = {.training = true, .precision = precision};
    struct seizure_memory m;
    *ret_largest = 0;
    for (int64_t b = job->training.batch_size; b > 0; b--) {
        bool asked = b == job->training.micro_batch_size;
        if (job->training.batch_size % b || (*ret_largest && !asked))
            continue;
        options.max_batch = (int)b;
        int rc = seizure_memory(&job->model, &options, &m, err);
        if (rc)
            return rc;
        int64_t bytes = m.total + 2 * m.parameters; /* the optimizer's moments */
        if (asked)
            *ret_bytes = bytes;
        if (!*ret_largest && (!limit || bytes <= limit))
            *ret_largest = b;
    }
    return 0;
}

/* ---- data ---- */

struct survey {
    const struct estimate_config *config;
    struct estimate *e;
    struct balance_counts windows;
};

static void count_windows(struct survey *s, int64_t samples, const struct labels *labels) {
    const struct jobfile *job = s->config->job;
    int64_t hop = (int64_t)llround(job->data.hop_s * FRONTEND_RATE_HZ), window = job->model.window;
    struct window_span segment = {0, samples}, *seizures = calloc(labels->n_runs + 1, sizeof *seizures);
    int64_t n = window_grid(&segment, 1, window, hop, NULL);
    if (!seizures)
        return;
    for (size_t i = 0; i < labels->n_runs; i++)
        seizures[i] = (struct window_span){(int64_t)llround(labels->runs[i].onset_s * FRONTEND_RATE_HZ),
                                           (int64_t)llround(labels->runs[i].end_s * FRONTEND_RATE_HZ)};
    struct recording_info info = {
        .samples = samples, .segments = &segment, .n_segments = 1, .seizures = seizures, .n_seizures = (int)labels->n_runs};
    for (int64_t i = 0; i < n; i++) {
        struct window_count count = manifest_count_window(&info, i * hop, window);
        if (2 * count.valid < window)
            continue;
        s->windows.partial += count.class == WINDOW_PARTIAL;
        s->windows.full += count.class == WINDOW_FULL;
        s->windows.none += count.class == WINDOW_NONE;
    }
    free(seizures);
}

/* Header and labels of one file; a file that cannot be used is counted, as training would leave it out. */
static int look_at(void *ctx, const char *relative_path, int64_t size_bytes, struct err *err) {
    struct survey *s = ctx;
    const struct jobfile *job = s->config->job;
    char path[4096];
    struct edf *edf = NULL;
    struct labels labels;
    (void)size_bytes;
    if (!edf_named(relative_path) || (job->data.max_files && s->e->recordings >= job->data.max_files))
        return 0;
    int rc = fsio_join(path, sizeof path, s->config->data_root, relative_path, err);
    if (rc)
        return rc;
    s->e->recordings++;
    if (edf_open(path, &edf, NULL)) {
        s->e->unreadable++;
        return 0;
    }
    double seconds = edf_info(edf)->duration_s;
    if (labels_load(path, job->data.labels, edf, &labels, NULL)) {
        s->e->unreadable++;
    } else {
        if (labels.source == LABELS_NONE && strcmp(job->data.unlabeled, "background") != 0) {
            s->e->unreadable++;
        } else {
            s->e->hours += seconds / 3600;
            s->e->seizures += (int64_t)labels.n_runs;
            count_windows(s, (int64_t)llround(seconds * FRONTEND_RATE_HZ), &labels);
        }
        labels_done(&labels);
    }
    edf_close(edf);
    return 0;
}

static int plan_steps(const struct estimate_config *c, struct estimate *e, struct err *err) {
    const struct jobfile *job = c->job;
    struct survey s = {.config = c, .e = e};
    struct balance_config balance = {job->data.balance_full, job->data.balance_none, job->data.redraw_each_epoch};
    struct balance_counts used;
    int rc = fsio_walk(c->data_root, look_at, &s, err);
    if (rc)
        return rc;
    balance_plan(&s.windows, &balance, &used);
    /* which patients validate is drawn when the job runs; their share of the windows is close to their share of patients */
    e->windows_per_epoch = (int64_t)llround((double)(used.partial + used.full + used.none) * (1 - job->data.validation_fraction));
    e->steps_per_epoch = e->windows_per_epoch / job->training.batch_size;
    e->steps = job->training.max_steps ? job->training.max_steps : job->training.epochs * e->steps_per_epoch;
    return 0;
}

/* ---- time ---- */

struct trial {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    struct optim optim;
    struct step *work;
    void *x, *labels;
    int32_t *valid;
    int64_t batch;
};

static int open_trial(const struct estimate_config *c, struct trial *t, struct err *err) {
    const struct seizure_config *model = &c->job->model;
    struct device_info info;
    struct optim_config optim = {.learning_rate = 1e-6, .total_steps = 100, .constant = true};
    int rc = device_open(c->device, c->threads, &t->device, err);
    if (rc)
        return rc;
    device_describe(t->device, &info);
    struct seizure_options options = {.max_batch = (int)t->batch, .training = true, .precision = jobfile_precision(c->job, &info)};
    struct step_config work = {.optim = &t->optim, .rows = (int)t->batch, .seed = 1, .alpha = 0.5f, .gamma = 2, .pos_weight = 1};
    size_t n = (size_t)t->batch * (size_t)model->window;
    t->valid = calloc((size_t)t->batch, sizeof *t->valid);
    if (!t->valid)
        return err_set(err, ERR_EXHAUSTED, "out of memory measuring a step");
    if ((rc = stream_open(t->device, STREAM_NORMAL, &t->stream, err)) ||
        (rc = seizure_new(t->device, model, &options, &t->net, err)) || (rc = seizure_init(t->net, t->stream, 1, 0.1, err)) ||
        (rc = optim_init(&t->optim, seizure_params(t->net), &optim, t->stream, err)) ||
        (rc = device_alloc(t->device, n * (size_t)model->in_channels * sizeof(float), &t->x, err)))
        return rc;
    work.net = t->net;
    rc = device_alloc(t->device, n, &t->labels, err);
    return rc ? rc : step_new(t->device, &work, &t->work, err);
}

static void close_trial(struct trial *t) {
    step_free(t->work);
    optim_done(&t->optim);
    device_free(t->device, t->x);
    device_free(t->device, t->labels);
    seizure_free(t->net);
    stream_close(t->stream);
    device_close(t->device);
    free(t->valid);
}

/* A whole step over zeros: the same arithmetic as with data. */
static int one_step(const struct estimate_config *c, struct trial *t, int64_t step, struct err *err) {
    const struct seizure_config *model = &c->job->model;
    struct step_input input = {.x = tensor_3d(t->x, DTYPE_F32, t->batch, model->window, model->in_channels),
                               .labels = tensor_2d(t->labels, DTYPE_U8, t->batch, model->window),
                               .valid = t->valid,
                               .step = step,
                               .loss_scale = 1,
                               .first = true,
                               .last = true};
    struct step_result result;
    int rc = step_queue(t->work, t->stream, &input, err);
    return rc ? rc : step_wait(t->work, t->stream, &result, err);
}

/* On the CPU the time of a step is that of its windows, so one window is measured. */
static int measure(const struct estimate_config *c, struct estimate *e, struct err *err) {
    bool cpu = !strcmp(c->device, "cpu");
    struct trial t = {.batch = cpu ? 1 : c->job->training.micro_batch_size};
    double best = INFINITY;
    int rc = open_trial(c, &t, err);
    for (int64_t i = 0; !rc && i <= MEASURED_STEPS; i++) { /* the first warms up */
        double start = clock_s();
        if (!(rc = one_step(c, &t, i, err)) && i)
            best = fmin(best, clock_s() - start);
    }
    close_trial(&t);
    if (!rc)
        e->seconds_per_step = best * (double)(c->job->training.batch_size / t.batch);
    return rc;
}

int estimate_train(const struct estimate_config *c, struct estimate *ret, struct err *err) {
    struct device_info infos[17], *device = NULL;
    int n = device_list(infos, 17), rc = 0;
    *ret = (struct estimate){0};
    for (int i = 0; i < n; i++)
        if (!strcmp(infos[i].name, c->device))
            device = &infos[i];
    if (!device)
        return err_set(err, ERR_UNSUPPORTED, "device %s is not usable here", c->device);
    ret->parameters = seizure_parameter_count(&c->job->model);
    rc = estimate_memory(c->job, jobfile_precision(c->job, device), c->memory_limit_bytes, &ret->memory_bytes,
                         &ret->largest_micro_batch, err);
    if (!rc && c->data_root)
        rc = plan_steps(c, ret, err);
    else if (!rc)
        ret->steps = c->job->training.max_steps;
    if (!rc && c->measure && ret->largest_micro_batch)
        rc = measure(c, ret, err);
    ret->seconds_total = ret->seconds_per_step * (double)ret->steps;
    return rc;
}

/* ---- detection ---- */

struct count {
    const struct estimate_config *config;
    const char *montage;
    struct estimate *e;
};

/* Whether the recording has the channels that the montage asks for. */
static bool fits_montage(const struct edf_info *info, const char *name) {
    const char **labels = calloc((size_t)info->n_signals + 1, sizeof *labels);
    struct montage *montage = NULL;
    int n = 0;
    for (int i = 0; labels && i < info->n_signals && n < FRONTEND_MAX_LABELS; i++)
        if (!info->signals[i].annotation && info->signals[i].usable && info->signals[i].rate_hz > 0)
            labels[n++] = info->signals[i].label;
    bool fits = n && !montage_new(name, labels, n, &montage, NULL);
    montage_free(montage);
    free(labels);
    return fits;
}

static int count_recording(void *ctx, const char *relative_path, int64_t size_bytes, struct err *err) {
    struct count *c = ctx;
    const struct jobfile *job = c->config->job;
    struct edf *edf = NULL;
    char path[4096];
    (void)size_bytes;
    if (!edf_named(relative_path) || (job->data.max_files && c->e->recordings >= job->data.max_files))
        return 0;
    int rc = fsio_join(path, sizeof path, c->config->data_root, relative_path, err);
    if (rc)
        return rc;
    c->e->recordings++;
    if (edf_open_header(path, &edf, NULL) || !fits_montage(edf_info(edf), c->montage))
        c->e->unreadable++;
    else
        c->e->hours += edf_info(edf)->duration_s / 3600;
    edf_close(edf);
    return 0;
}

int estimate_detect(const struct estimate_config *c, const struct modelfile *model, struct estimate *ret, struct err *err) {
    struct seizure_options options = {.max_batch = DETECT_BATCH, .precision = DTYPE_F32};
    struct seizure_memory memory;
    struct count count = {.config = c, .montage = model->montage, .e = ret};
    *ret = (struct estimate){.parameters = seizure_parameter_count(&model->model)};
    int rc = seizure_memory(&model->model, &options, &memory, err);
    if (rc)
        return rc;
    ret->memory_bytes = memory.total;
    rc = c->data_root ? fsio_walk(c->data_root, count_recording, &count, err) : 0;
    if (!rc && c->data_root && !ret->recordings)
        rc = err_set(err, ERR_NOT_FOUND, "no *.edf or *.bdf file below %s", c->data_root);
    return rc;
}

/* "26s", "9m00s", "23h41m". */
static const char *duration_text(double seconds, char *buf, size_t size) {
    int64_t s = seconds < 1e9 ? llround(seconds) : 1000000000;
    if (s < 60)
        str_format(buf, size, "%llds", (long long)s);
    else if (s < 3600)
        str_format(buf, size, "%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
    else
        str_format(buf, size, "%lldh%02lldm", (long long)(s / 3600), (long long)(s % 3600 / 60));
    return buf;
}

bool estimate_past_limit(const struct jobfile *job, int64_t default_limit_ms, double seconds, char *buf, size_t size) {
    char needs[32], limit[32];
    bool own = job->limits.wall_clock_ms > 0;
    int64_t limit_ms = own ? job->limits.wall_clock_ms : default_limit_ms;
    if (limit_ms <= 0 || !(seconds * 1000 > (double)limit_ms))
        return false;
    str_format(buf, size, "it needs about %s and %s is %s: the job will stop at the limit, be checkpointed, and go on %s",
               duration_text(seconds, needs, sizeof needs), own ? "limits.wall_clock" : "the daemon's jobs.default_wall_clock",
               duration_text((double)limit_ms / 1000, limit, sizeof limit),
               job->limits.auto_resume ? "by itself (limits.auto_resume)"
                                       : "by `brrctl resume`, or by itself with limits.auto_resume: true");
    return true;
}
