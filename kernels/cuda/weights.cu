#include "kernels/cuda/weights.cuh"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 256 };

struct pack_job {
    const float *w;
    struct act packed;
    int64_t a, c, taps, rows;
    bool flip;
};

static __global__ void pack_kernel(struct pack_job j) {
    int64_t width = j.flip ? j.a : j.c;
    for (int64_t i = cuda_index(); i < j.rows * j.packed.ld; i += cuda_stride()) {
        int64_t row = i / j.packed.ld, col = i - row * j.packed.ld, k = col / width, n = col - k * width;
        float v = 0;
        if (k < j.taps)
            v = j.flip ? j.w[(n * j.c + row) * j.taps + j.taps - 1 - k] : j.w[(row * j.c + n) * j.taps + k];
        act_put(j.packed, i, v);
    }
}

/* ---- one copy ---- */

static bool has_bias(const struct weights_job *j) { return j->bias && tensor_present(j->bias); }

static int64_t rows_of(const struct weights_job *j) { return j->flip ? j->w->dim[1] : j->w->dim[0]; }

/* A projection's weights in F32 serve as they are. */
static bool serves(const struct weights_job *j) {
    return !j->bf16 && !j->flip && (j->w->rank == 2 || j->w->dim[2] == 1) && j->pitch == j->w->dim[1];
}

static size_t area_of(const struct weights_job *j, char *base, void **ret_w, void **ret_bias) {
    struct cuda_area area = {base, 0};
    size_t each = j->bf16 ? 2 : 4;
    *ret_w = cuda_take(&area, serves(j) ? 0 : (size_t)(rows_of(j) * j->pitch) * each);
    *ret_bias = cuda_take(&area, has_bias(j) && j->bf16 ? (size_t)j->bias->dim[0] * each : 0);
    return area.used;
}

static void launch(struct stream *s, const struct pack_job *j) {
    CUDA_LAUNCH(pack_kernel, cuda_blocks(j->rows * j->packed.ld, THREADS), THREADS, cuda_stream(s)->stream, *j);
}

/* Where the copy is, or will be, in `room`. */
static struct weights lie(const struct weights_job *j, void *room) {
    struct weights to = {{j->w->data, j->pitch, j->bf16}, has_bias(j) ? j->bias->data : NULL};
    void *w = NULL, *bias = NULL;
    area_of(j, (char *)room, &w, &bias);
    to.w.data = serves(j) ? to.w.data : w;
    to.bias = to.bias && j->bf16 ? bias : to.bias;
    return to;
}

static void fill(struct stream *s, const struct weights_job *j, const struct weights *to) {
    struct pack_job w = {(const float *)j->w->data,         to->w,      j->w->dim[0], j->w->dim[1],
                         j->w->rank > 2 ? j->w->dim[2] : 1, rows_of(j), j->flip};
    if (!serves(j))
        launch(s, &w);
    if (!has_bias(j) || !j->bf16)
        return;
    int64_t n = j->bias->dim[0];
    struct pack_job bias = {(const float *)j->bias->data, {(void *)to->bias, 1, true}, n, 1, 1, n, false};
    launch(s, &bias);
}

/* ---- copies that are kept ---- */

struct kept {
    struct kept *next;
    const struct device *device;
    const struct stream *stream;
    const void *w, *bias;
    uint64_t version;
    int64_t pitch;
    bool flip, bf16;
    void *block; /* NULL: nothing had to be copied */
};
static struct kept *copies;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_constant(const struct weights_job *j) { return (j->version & WEIGHTS_CONSTANT) != 0; }

static bool is_of(const struct kept *k, const struct stream *s, const struct weights_job *j) {
    return k->stream == s && k->w == j->w->data && k->bias == (has_bias(j) ? j->bias->data : NULL) && k->pitch == j->pitch &&
           k->flip == j->flip && k->bf16 == j->bf16;
}

static struct kept *find(const struct stream *s, const struct weights_job *j) {
    pthread_mutex_lock(&lock);
    struct kept *k = copies;
    while (k && !is_of(k, s, j))
        k = k->next;
    pthread_mutex_unlock(&lock);
    return k;
}

static int keep(struct stream *s, const struct weights_job *j, struct kept **ret, struct err *err) {
    void *w, *bias;
    size_t bytes = area_of(j, NULL, &w, &bias);
    struct kept *k = (struct kept *)calloc(1, sizeof *k);
    if (!k)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->device->info.name);
    if (s->recording) {
        free(k);
        return err_set(err, ERR_PRECONDITION, "%s: recorded work must have run once before: it meets new weights",
                       s->device->info.name);
    }
    int rc = bytes ? s->device->backend->alloc(s->device, bytes, &k->block, err) : 0;
    if (rc) {
        free(k);
        return rc;
    }
    k->device = s->device;
    k->stream = s;
    k->w = j->w->data;
    k->bias = has_bias(j) ? j->bias->data : NULL;
    k->pitch = j->pitch;
    k->flip = j->flip;
    k->bf16 = j->bf16;
    pthread_mutex_lock(&lock);
    k->next = copies;
    copies = k;
    pthread_mutex_unlock(&lock);
    *ret = k;
    return 0;
}

void cuda_weights_forget(struct device *dev, const struct stream *s, const void *from, size_t bytes) {
    struct kept *gone = NULL;
    pthread_mutex_lock(&lock);
    for (struct kept **at = &copies; *at;) {
        struct kept *k = *at;
        bool goes = s ? k->stream == s : k->device == dev && (uintptr_t)k->w - (uintptr_t)from < bytes;
        if (!goes) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        k->next = gone;
        gone = k;
    }
    pthread_mutex_unlock(&lock);
    while (gone) {
        struct kept *k = gone;
        gone = k->next;
        if (k->block)
            dev->backend->free(dev, k->block);
        free(k);
    }
}

size_t cuda_weights_bytes(const struct weights_job *j) {
    void *w, *bias;
    return is_constant(j) ? 0 : area_of(j, NULL, &w, &bias);
}

int cuda_weights(struct stream *s, const struct weights_job *j, void *room, struct weights *ret, struct err *err) {
    if (!is_constant(j)) {
        *ret = lie(j, room);
        fill(s, j, ret);
        return 0;
    }
    struct kept *k = find(s, j);
    int rc = k ? 0 : keep(s, j, &k, err);
    if (rc)
        return rc;
    *ret = lie(j, k->block);
    if (k->version == j->version)
        return 0;
    fill(s, j, ret);
    k->version = j->version;
    return 0;
}
