#include "train/train_hard.h"

#include "base/order.h"
#include "kernels/op.h"
#include "train/train_ranks.h"
#include "windows/window.h"

enum { CANDIDATES = 8, BLOCK = 5 * 256, MOST = 1 << 16 }; /* candidates: scored windows, in background windows of an epoch */
static const double patient_share = 2;

static int64_t hard_wanted(const struct train *t) {
    int64_t wanted = sampler_hard_wanted(t->sampler);
    return wanted < MOST ? wanted : MOST;
}

struct candidate {
    struct window_ref ref;
    int64_t at; /* among the candidates: equal scores keep their order */
    float score;
};

/* Windows and answers of one pass. */
struct scoring {
    struct train *t;
    int64_t window, inputs, rows;
    float *x, *p;                     /* host */
    void *x_there, *logits, *answers; /* device */
    int64_t *valid;
};

static void scoring_done(struct scoring *s) {
    struct device *dev = s->t->env.device;
    FREE_MEMBERS(*s, x, p, valid);
    device_free(dev, s->x_there);
    device_free(dev, s->logits);
    device_free(dev, s->answers);
}

static int scoring_init(struct scoring *s, struct err *err) {
    struct device *dev = s->t->env.device;
    size_t samples = (size_t)(s->rows * s->window), wide = samples * (size_t)s->inputs;
    int rc;
    s->x = malloc(wide * sizeof *s->x);
    s->p = malloc(samples * sizeof *s->p);
    s->valid = malloc((size_t)s->rows * sizeof *s->valid);
    if (!s->x || !s->p || !s->valid)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a pass over background windows");
    if ((rc = device_alloc(dev, wide * sizeof(float), &s->x_there, err)) ||
        (rc = device_alloc(dev, samples * sizeof(float), &s->logits, err)))
        return rc;
    return device_alloc(dev, samples * sizeof(float), &s->answers, err);
}

static int infer(struct scoring *s, int64_t rows, struct err *err) {
    struct train *t = s->t;
    struct tensor x = tensor_3d(s->x_there, DTYPE_F32, rows, s->window, s->inputs),
                  logits = tensor_2d(s->logits, DTYPE_F32, rows, s->window);
    struct sigmoid_args sigmoid = {.x = logits, .y = tensor_2d(s->answers, DTYPE_F32, rows, s->window)};
    size_t out = (size_t)(rows * s->window) * sizeof(float);
    int rc;
    if ((rc = stream_to_device(t->stream, s->x_there, s->x, out * (size_t)s->inputs, err)) ||
        (rc = seizure_infer(t->net, t->stream, &x, &logits, err)) || (rc = op_sigmoid(t->stream, &sigmoid, err)) ||
        (rc = stream_to_host(t->stream, s->p, s->answers, out, err)))
        return rc;
    return stream_sync(t->stream, err);
}

/* The highest mean probability of BLOCK samples, which is what an alarm needs. */
static float worst_block(const float *p, int64_t valid) {
    double worst = 0;
    for (int64_t from = 0; from < valid; from += BLOCK) {
        int64_t end = from + BLOCK < valid ? from + BLOCK : valid;
        double sum = 0;
        for (int64_t i = from; i < end; i++)
            sum += (double)p[i];
        worst = fmax(worst, sum / (double)(end - from));
    }
    return (float)worst;
}

/* Scores the candidates [from, from + n); those whose recording cannot be read get −1, the feed will meet it. */
static int score_some(struct scoring *s, struct candidate *c, int64_t n, struct err *err) {
    for (int64_t i = 0; i < n; i++) {
        struct recording *rec = manifest_entry(s->t->manifest, c[i].ref.entry)->recording;
        float *x = s->x + i * s->window * s->inputs;
        if (window_read(rec, c[i].ref.start, s->window, x, NULL, &s->valid[i], NULL)) {
            memset(x, 0, (size_t)(s->window * s->inputs) * sizeof *x);
            s->valid[i] = -1;
        }
    }
    int rc = infer(s, n, err);
    for (int64_t i = 0; !rc && i < n; i++)
        c[i].score = s->valid[i] < 0 ? -1 : worst_block(s->p + i * s->window, s->valid[i]);
    return rc;
}

static int score_background(struct train *t, struct candidate *c, int64_t n, struct err *err) {
    OWNED(scoring_done)
    struct scoring s = {
        .t = t, .window = t->job->model.window, .inputs = t->job->model.in_channels, .rows = t->job->training.micro_batch_size};
    int rc = scoring_init(&s, err);
    for (int64_t from = 0; !rc && from < n; from += s.rows)
        if (!(rc = train_lone_point(t, err)))
            rc = score_some(&s, c + from, from + s.rows < n ? s.rows : n - from, err);
    return rc;
}

ORDER_BY(worst_first, struct candidate, order_then(order_f64(y->score, x->score), order_i64(x->at, y->at)))

static int by_patient(const void *a, const void *b, void *manifest) {
    return strcmp(manifest_entry(manifest, *(const int64_t *)a)->patient, manifest_entry(manifest, *(const int64_t *)b)->patient);
}

/* A number for the patient of each entry, with as much memory in order; returns how many patients train. */
static int64_t number_patients(const struct train *t, int64_t *of_entry, int64_t *order) {
    int64_t entries = manifest_count(t->manifest), n = 0, patients = 0;
    for (int64_t i = 0; i < entries; i++)
        if (t->role[i] == TRAIN_ROLE_TRAINING)
            order[n++] = i;
    qsort_r(order, (size_t)n, sizeof *order, by_patient, t->manifest);
    for (int64_t i = 0; i < n; i++) {
        patients += !i || by_patient(&order[i - 1], &order[i], t->manifest) != 0;
        of_entry[order[i]] = patients - 1;
    }
    return patients;
}

/* The worst of the sorted candidates become t->hard. */
static int keep_worst(struct train *t, const struct candidate *c, int64_t n, struct err *err) {
    int64_t entries = manifest_count(t->manifest), wanted = hard_wanted(t), kept = 0;
    OWNED_MEMORY int64_t *patient = malloc(sizeof *patient * (size_t)(entries + 1));
    OWNED_MEMORY int64_t *order = malloc(sizeof *order * (size_t)(entries + 1));
    OWNED_MEMORY int64_t *taken = calloc((size_t)entries + 1, sizeof *taken);
    struct window_ref *hard = malloc(sizeof *hard * (size_t)(wanted + 1));
    if (!patient || !order || !taken || !hard) {
        free(hard);
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld hard windows", (long long)wanted);
    }
    int64_t patients = number_patients(t, patient, order), most;
    most = (int64_t)ceil(patient_share * (double)wanted / (double)(patients ? patients : 1));
    for (int64_t i = 0; i < n && kept < wanted && c[i].score >= 0; i++)
        if (taken[patient[c[i].ref.entry]]++ < most)
            hard[kept++] = c[i].ref;
    SORT(hard, kept, window_ref_order);
    free(t->hard);
    t->hard = hard;
    t->n_hard = kept;
    task_log(&t->env, TASK_INFO, "%lld of %lld background windows scored are hard: highest means of 5 s from %.3f to %.3f",
             (long long)kept, (long long)n, n ? (double)c[0].score : NAN, kept ? (double)c[kept - 1].score : NAN);
    return 0;
}

/* With the weights that were validated, which are in the network until the end. */
static int find_hard(struct train *t, struct err *err) {
    int64_t found = 0, wanted = hard_wanted(t);
    const struct window_ref *background = sampler_background(t->sampler, &found);
    int64_t n = found < CANDIDATES / 2 * wanted ? found : CANDIDATES / 2 * wanted;
    OWNED_MEMORY struct candidate *c = malloc(sizeof *c * (size_t)(n + 1));
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld background windows", (long long)n);
    for (int64_t i = 0; i < n; i++)
        c[i] = (struct candidate){.ref = background[i * found / n], .at = i};
    int rc = optim_exchange_ema(&t->optim, t->stream, err);
    if (!rc)
        rc = score_background(t, c, n, err);
    if (t->optim.exchanged) {
        int back = optim_exchange_ema(&t->optim, t->stream, rc ? NULL : err);
        rc = rc ? rc : back;
    }
    if (rc)
        return rc;
    SORT(c, n, worst_first);
    return keep_worst(t, c, n, err);
}

/* Rank 0's windows. */
static int share_hard(struct train *t, struct err *err) {
    int64_t n = t->n_hard;
    int rc = world_broadcast(t->world, &n, sizeof n, RANKS_READY_MS, err);
    if (rc)
        return rc;
    if (!train_is_writer(t)) {
        struct window_ref *hard = malloc(sizeof *hard * (size_t)(n + 1));
        if (!hard)
            return err_set(err, ERR_EXHAUSTED, "out of memory for %lld hard windows", (long long)n);
        free(t->hard);
        t->hard = hard;
        t->n_hard = n;
    }
    return n ? world_broadcast(t->world, t->hard, sizeof *t->hard * (size_t)n, RANKS_READY_MS, err) : 0;
}

int train_hard_find(struct train *t, struct err *err) {
    int rc = 0;
    if (!hard_wanted(t))
        return 0;
    if (train_is_writer(t))
        rc = find_hard(t, err);
    return rc ? rc : share_hard(t, err);
}

int train_hard_apply(struct train *t, struct err *err) { return sampler_set_hard(t->sampler, t->hard, t->n_hard, err); }

/* Recordings by path: another attempt may find more of them, or fewer. The windows are pairs of a place in that list and a start.
 */
void train_hard_put(const struct train *t, struct json_writer *w) {
    if (!t->n_hard)
        return;
    json_begin_array(w, "hard_recordings"); /* the windows are in the order of recordings */
    for (int64_t i = 0; i < t->n_hard; i++)
        if (!i || t->hard[i].entry != t->hard[i - 1].entry)
            json_put_str(w, NULL, manifest_entry(t->manifest, t->hard[i].entry)->relative_path);
    json_end(w, ']');
    json_begin_array(w, "hard");
    for (int64_t i = 0, place = 0; i < t->n_hard; i++) {
        place += i && t->hard[i].entry != t->hard[i - 1].entry;
        json_put_i64(w, NULL, place);
        json_put_i64(w, NULL, t->hard[i].start);
    }
    json_end(w, ']');
}

/* The entry of a recording of the list, −1 if there is none any more. Checkpoints without a list name the entry itself. */
static int64_t entry_of(const struct train *t, const struct json *recordings, int64_t place) {
    if (!recordings)
        return place;
    return place < 0 ? -1 : manifest_find(t->manifest, json_str(json_at(recordings, (size_t)place), ""));
}

int train_hard_get(struct train *t, const struct json *counters, struct err *err) {
    const struct json *list = json_get(counters, "hard"), *recordings = json_get(counters, "hard_recordings");
    const int64_t n = (int64_t)json_count(list) / 2;
    int64_t found = 0;
    struct window_ref *hard = malloc(sizeof *hard * (size_t)(n + 1));
    if (!hard)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld hard windows", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = json_i64(json_at(list, (size_t)(2 * i)), -1), entry = entry_of(t, recordings, place);
        if (entry >= 0)
            hard[found++] = (struct window_ref){entry, json_i64(json_at(list, (size_t)(2 * i + 1)), 0)};
    }
    free(t->hard);
    t->hard = hard;
    t->n_hard = found;
    return 0;
}
