#include "windows/prefetch.h"

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_HELD };

struct slot {
    struct batch batch; /* first: a batch pointer is its slot's */
    enum slot_state state;
    int64_t sequence;
    struct window_ref *refs; /* (batch_size) */
    int64_t failed;          /* entry of the recording that `error` is about */
    int code;
    struct err error;
};

struct prefetch {
    const struct manifest *manifest;
    struct sampler *sampler;
    struct prefetch_config config;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any slot changed state, or stop; monotonic clock */
    pthread_t threads[PREFETCH_MAX_WORKERS];
    int n_threads;
    struct slot slots[PREFETCH_MAX_DEPTH];
    bool stop;
    int64_t epoch, index; /* of the next batch to be read */
    int64_t next_fill, next_out;
    int64_t failed; /* −1: none */
};

static void *plain_alloc(void *ctx, unsigned long bytes) {
    (void)ctx;
    return aligned_alloc(64, (bytes + 63) & ~63UL);
}

static void plain_free(void *ctx, void *data) {
    (void)ctx;
    free(data);
}

/* Give the slot the next batch of the order. Lock held: the sampler is used by one thread at a time. */
static void plan(struct prefetch *p, struct slot *slot) {
    int64_t total = sampler_epoch_windows(p->sampler), size = p->config.batch_size;
    if (p->index + size > total && !(p->index == 0 && total < size)) {
        p->epoch++;
        p->index = 0;
    }
    size = total < size ? total : size;
    slot->batch.epoch = p->epoch;
    slot->batch.first_index = p->index;
    slot->batch.size = (int)size;
    for (int64_t i = 0; i < size; i++)
        slot->refs[i] = sampler_at(p->sampler, p->epoch, p->index + i);
    p->index += size;
    slot->sequence = p->next_fill++;
    slot->state = SLOT_FILLING;
    slot->code = 0;
}

/* The number of valid samples follows from the segments of a recording; its samples are not read. */
static void measure(const struct prefetch *p, struct slot *slot, int i) {
    struct recording_info info;
    recording_info(manifest_entry(p->manifest, slot->refs[i].entry)->recording, &info);
    slot->batch.valid[i] = (int32_t)window_valid(info.segments, info.n_segments, slot->refs[i].start, p->config.window);
}

static void fill(const struct prefetch *p, struct slot *slot) {
    int64_t window = p->config.window, row = window * p->config.channels;
    for (int i = 0; i < slot->batch.size && !slot->code; i++) {
        const struct manifest_entry *entry = manifest_entry(p->manifest, slot->refs[i].entry);
        int64_t valid = 0, at = i - p->config.first_row;
        if (at < 0 || at >= p->config.rows) {
            measure(p, slot, i);
            continue;
        }
        slot->code = window_read(entry->recording, slot->refs[i].start, window, slot->batch.x + at * row,
                                 slot->batch.labels + at * window, &valid, &slot->error);
        slot->batch.valid[i] = (int32_t)valid;
        if (!slot->code)
            continue;
        slot->failed = slot->refs[i].entry;
        err_wrap(&slot->error, "%s", entry->relative_path);
    }
}

static struct slot *find_free(struct prefetch *p) {
    for (int i = 0; i < p->config.depth; i++)
        if (p->slots[i].state == SLOT_FREE)
            return &p->slots[i];
    return NULL;
}

static void *reader(void *arg) {
    struct prefetch *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct slot *slot = find_free(p);
        if (!slot) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        plan(p, slot);
        pthread_mutex_unlock(&p->lock);
        fill(p, slot);
        pthread_mutex_lock(&p->lock);
        slot->state = SLOT_READY;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int check_config(const struct manifest *m, const struct prefetch_config *c, int64_t epoch, int64_t index, struct err *err) {
    if (c->batch_size < 1 || c->workers < 1 || c->workers > PREFETCH_MAX_WORKERS || c->depth < 1 || c->depth > PREFETCH_MAX_DEPTH)
        return err_set(err, ERR_INVALID, "prefetch of batches of %d with %d readers and %d in the ring; expected ≥ 1, 1..%d, 1..%d",
                       c->batch_size, c->workers, c->depth, PREFETCH_MAX_WORKERS, PREFETCH_MAX_DEPTH);
    if (c->first_row < 0 || c->rows < 0 || c->first_row + c->rows > c->batch_size)
        return err_set(err, ERR_INVALID, "prefetch of rows %d to %d of batches of %d", c->first_row, c->first_row + c->rows,
                       c->batch_size);
    if (c->channels != manifest_inputs(m) || c->window < 1 || epoch < 0 || index < 0 || !c->alloc != !c->free)
        return err_set(
            err, ERR_INVALID,
            "prefetch of %d channels, window %lld, epoch %lld, index %lld; expected %d channels, the others not negative",
            c->channels, (long long)c->window, (long long)epoch, (long long)index, manifest_inputs(m));
    return 0;
}

static bool make_slots(struct prefetch *p) {
    const struct prefetch_config *c = &p->config;
    size_t samples = (size_t)c->rows * (size_t)c->window;
    for (int i = 0; i < c->depth; i++) {
        struct slot *s = &p->slots[i];
        s->batch.x = c->alloc(c->alloc_ctx, samples * (unsigned long)c->channels * sizeof(float));
        s->batch.labels = malloc(samples);
        s->batch.valid = calloc((size_t)c->batch_size, sizeof *s->batch.valid);
        s->refs = calloc((size_t)c->batch_size, sizeof *s->refs);
        if (!s->batch.x || !s->batch.labels || !s->batch.valid || !s->refs)
            return false;
    }
    return true;
}

int prefetch_start(const struct manifest *m, struct sampler *s, const struct prefetch_config *config, int64_t epoch, int64_t index,
                   struct prefetch **ret, struct err *err) {
    int rc = check_config(m, config, epoch, index, err);
    if (rc)
        return rc;
    struct prefetch *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(err, ERR_EXHAUSTED, "out of memory for prefetch");
    p->manifest = m;
    p->sampler = s;
    p->config = *config;
    p->config.rows = config->rows ? config->rows : config->batch_size;
    if (!config->alloc) {
        p->config.alloc = plain_alloc;
        p->config.free = plain_free;
    }
    p->epoch = epoch;
    p->index = index;
    p->failed = -1;
    pthread_mutex_init(&p->lock, NULL);
    clock_cond_init(&p->changed);
    if (!make_slots(p)) {
        rc = err_set(err, ERR_EXHAUSTED, "out of host memory for %d batches of %d windows (%lld samples, %d channels)",
                     config->depth, config->batch_size, (long long)config->window, config->channels);
        prefetch_stop(p);
        return rc;
    }
    for (; p->n_threads < config->workers; p->n_threads++) {
        int errnum = pthread_create(&p->threads[p->n_threads], NULL, reader, p);
        if (errnum && p->n_threads == 0) {
            rc = err_errno(err, errnum, "cannot start a reader thread");
            prefetch_stop(p);
            return rc;
        }
        if (errnum)
            break; /* fewer readers, the same batches */
    }
    *ret = p;
    return 0;
}

/* The slot that is next to go out, if it is ready, and how many are held. Lock held. */
static struct slot *next_ready(struct prefetch *p, int *ret_held) {
    struct slot *ready = NULL;
    *ret_held = 0;
    for (int i = 0; i < p->config.depth; i++) {
        *ret_held += p->slots[i].state == SLOT_HELD;
        if (p->slots[i].state == SLOT_READY && p->slots[i].sequence == p->next_out)
            ready = &p->slots[i];
    }
    return ready;
}

bool prefetch_poll(struct prefetch *p, int wait_ms) {
    int held, timeout = 0;
    struct timespec until = clock_after_ms(wait_ms);
    LOCKED(&p->lock);
    bool ready = next_ready(p, &held) || held == p->config.depth;
    while (!ready && !timeout) {
        timeout = pthread_cond_timedwait(&p->changed, &p->lock, &until);
        ready = next_ready(p, &held) || held == p->config.depth;
    }
    return ready;
}

int prefetch_next(struct prefetch *p, const struct batch **ret, double *ret_wait_s, struct err *err) {
    double began = clock_s();
    int rc = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        int held;
        struct slot *ready = next_ready(p, &held);
        if (held == p->config.depth) {
            rc = err_set(err, ERR_EXHAUSTED, "all %d batches are held; release one before asking for the next", held);
            break;
        }
        if (ready && ready->code) {
            rc = ready->code;
            p->failed = ready->failed;
            if (err)
                *err = ready->error;
            break;
        }
        if (ready) {
            ready->state = SLOT_HELD;
            p->next_out++;
            *ret = &ready->batch;
            break;
        }
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    if (rc)
        return rc;
    if (ret_wait_s)
        *ret_wait_s = clock_s() - began;
    return 0;
}

int64_t prefetch_failed(const struct prefetch *p) { return p->failed; }

void prefetch_release(struct prefetch *p, const struct batch *b) {
    LOCKED(&p->lock);
    for (int i = 0; i < p->config.depth; i++)
        if (&p->slots[i].batch == b && p->slots[i].state == SLOT_HELD)
            p->slots[i].state = SLOT_FREE;
    pthread_cond_broadcast(&p->changed);
}

void prefetch_stop(struct prefetch *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    for (int i = 0; i < p->config.depth; i++) {
        struct slot *s = &p->slots[i];
        if (s->batch.x)
            p->config.free(p->config.alloc_ctx, s->batch.x);
        free(s->batch.labels);
        free(s->batch.valid);
        free(s->refs);
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
