#include "kernels/cuda/weights.cuh"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 256 };

/* An array in F32 and its copy: rows of packed.ld. */
struct pack_job {
    const float *w;
    struct act packed;
    int64_t a, c, taps, rows, width; /* width: elements of a tap, some of them zeros */
    bool flip;
};

static __global__ void pack_kernel(struct pack_job j) {
    int64_t wanted = j.flip ? j.a : j.c;
    for (int64_t i = cuda_index(); i < j.rows * j.packed.ld; i += cuda_stride()) {
        int64_t row = i / j.packed.ld, col = i - row * j.packed.ld, k = col / j.width, n = col - k * j.width;
        float v = 0;
        if (k < j.taps && n < wanted)
            v = j.flip ? j.w[(n * j.c + row) * j.taps + j.taps - 1 - k] : j.w[(row * j.c + n) * j.taps + k];
        act_put(j.packed, i, v);
    }
}

static size_t packed_bytes(const struct pack_job *j) { return (size_t)(j->rows * j->packed.ld) * (j->packed.bf16 ? 2 : 4); }

static void pack(struct stream *s, const struct pack_job *j) {
    CUDA_LAUNCH(pack_kernel, cuda_blocks(j->rows * j->packed.ld, THREADS), THREADS, cuda_stream(s)->stream, *j);
}

/* ---- what a product needs ---- */

/* A projection's weights in F32 serve as they are. */
static bool serves(const struct weights_job *j) {
    return !j->bf16 && !j->flip && (j->w->rank == 2 || j->w->dim[2] == 1) && j->pitch == j->w->dim[1];
}
static struct pack_job weights_of(const struct weights_job *j) {
    int64_t a = j->w->dim[0], c = j->w->dim[1], taps = j->w->rank > 2 ? j->w->dim[2] : 1;
    int64_t width = j->width ? j->width : j->flip ? a : c;
    return {(const float *)j->w->data, {NULL, j->pitch, j->bf16}, a, c, taps, j->flip ? c : a, width, j->flip};
}

static bool bias_serves(const struct weights_job *j) { return !j->bf16 || !j->bias || !tensor_present(j->bias); }
static struct pack_job bias_of(const struct weights_job *j) {
    int64_t n = j->bias->dim[0];
    return {(const float *)j->bias->data, {NULL, 1, true}, n, 1, 1, n, 1, false};
}

/* ---- copies that are kept ---- */

struct kept {
    struct kept *next;
    const struct device *device;
    const struct stream *stream;
    struct pack_job job;
    uint64_t version, recording; /* of the last copying, 0: not known; recording 0: outside of all */
};
static struct kept *copies;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_of(const struct kept *k, const struct stream *s, const struct pack_job *j) {
    return k->stream == s && k->job.w == j->w && k->job.packed.ld == j->packed.ld && k->job.rows == j->rows &&
           k->job.width == j->width && k->job.flip == j->flip && k->job.packed.bf16 == j->packed.bf16;
}

static struct kept *find(const struct stream *s, const struct pack_job *j) {
    pthread_mutex_lock(&lock);
    struct kept *k = copies;
    while (k && !is_of(k, s, j))
        k = k->next;
    pthread_mutex_unlock(&lock);
    return k;
}

static int keep(struct stream *s, const struct pack_job *j, struct kept **ret, struct err *err) {
    if (s->recording)
        return err_set(err, ERR_PRECONDITION, "%s: recorded work must have run once before: it meets new weights",
                       s->device->info.name);
    struct kept *k = (struct kept *)calloc(1, sizeof *k);
    if (!k)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->device->info.name);
    k->device = s->device;
    k->stream = s;
    k->job = *j;
    int rc = s->device->backend->alloc(s->device, packed_bytes(j), &k->job.packed.data, err);
    if (rc) {
        free(k);
        return rc;
    }
    pthread_mutex_lock(&lock);
    k->next = copies;
    copies = k;
    pthread_mutex_unlock(&lock);
    *ret = k;
    return 0;
}

/* True if the copy will hold this version when the work that is queued now runs. A recording is replayed after the weights have
 * changed, so it packs copies of its own and uses only those, unless other work always packs them before. */
static bool is_current(const struct kept *k, struct stream *s, uint64_t version) {
    if (s->recording && version & WEIGHTS_UNCHANGED)
        return true;
    if (k->version != WEIGHTS_VERSION_OF(version))
        return false;
    return k->recording == cuda_recording(s) || (s->recording && version & WEIGHTS_CONSTANT && !k->recording);
}

static int kept_copy(struct stream *s, struct pack_job *j, uint64_t version, struct err *err) {
    struct kept *k = find(s, j);
    int rc = k ? 0 : keep(s, j, &k, err);
    if (rc)
        return rc;
    *j = k->job;
    if (is_current(k, s, version))
        return 0;
    pack(s, j);
    k->version = WEIGHTS_VERSION_OF(version);
    k->recording = cuda_recording(s);
    return 0;
}

void cuda_weights_forget(struct device *dev, const struct stream *s, const void *from, size_t bytes) {
    struct kept *gone = NULL;
    pthread_mutex_lock(&lock);
    for (struct kept **at = &copies; *at;) {
        struct kept *k = *at;
        bool goes = s ? k->stream == s : k->device == dev && (uintptr_t)k->job.w - (uintptr_t)from < bytes;
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
        dev->backend->free(dev, k->job.packed.data);
        free(k);
    }
}

/* ---- both ---- */

size_t cuda_weights_bytes(const struct weights_job *j) {
    struct cuda_area area = {NULL, 0};
    if (j->version)
        return 0;
    if (!serves(j)) {
        struct pack_job w = weights_of(j);
        cuda_take(&area, packed_bytes(&w));
    }
    if (!bias_serves(j)) {
        struct pack_job bias = bias_of(j);
        cuda_take(&area, packed_bytes(&bias));
    }
    return area.used;
}

/* Into the area, or into a copy that is kept. */
static int copy(struct stream *s, struct pack_job *j, uint64_t version, struct cuda_area *area, struct err *err) {
    if (version)
        return kept_copy(s, j, version, err);
    j->packed.data = cuda_take(area, packed_bytes(j));
    pack(s, j);
    return 0;
}

int cuda_weights(struct stream *s, const struct weights_job *j, void *room, struct weights *ret, struct err *err) {
    struct cuda_area area = {(char *)room, 0};
    struct weights to = {{j->w->data, j->pitch, j->bf16}, j->bias ? j->bias->data : NULL};
    int rc;
    if (!serves(j)) {
        struct pack_job w = weights_of(j);
        if ((rc = copy(s, &w, j->version, &area, err)))
            return rc;
        to.w.data = w.packed.data;
    }
    if (!bias_serves(j)) {
        struct pack_job bias = bias_of(j);
        if ((rc = copy(s, &bias, j->version, &area, err)))
            return rc;
        to.bias = bias.packed.data;
    }
    *ret = to;
    return 0;
}
