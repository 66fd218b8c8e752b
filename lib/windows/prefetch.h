/* prefetch: reader threads that fill a bounded ring of ready batches, delivered strictly in the sampler's order for any timing of
 * the threads. One consumer thread. */
#pragma once

#include "windows/manifest.h"
#include "windows/sampler.h"

enum { PREFETCH_MAX_DEPTH = 64, PREFETCH_MAX_WORKERS = 64 };

/* A batch ready for the device: x (R,T,C) F32 and labels (R,T) U8 of its rows that are read, valid (B) of all. */
struct batch {
    float *x;
    uint8_t *labels;
    int32_t *valid;
    int64_t epoch, first_index; /* position in the sampler's order */
    int size;
};
struct prefetch_config {
    int batch_size, workers, depth; /* depth = batches in the ring */
    int first_row, rows;            /* the rows of each batch that are read; rows 0 = all */
    int64_t window;
    int channels;
    void *(*alloc)(void *ctx, unsigned long bytes); /* host memory for x (pinned on CUDA); NULL = plain memory */
    void (*free)(void *ctx, void *data);
    void *alloc_ctx;
};
struct prefetch;
/* Starts readers at window `index` of `epoch`; an epoch's last partial batch is dropped (or kept when it is the only one), then the
 * next epoch begins. Manifest and sampler must outlive it; the sampler must not be used by others until prefetch_stop. */
int prefetch_start(const struct manifest *m, struct sampler *s, const struct prefetch_config *config, int64_t epoch, int64_t index,
                   struct prefetch **ret, struct err *err);
/* Returns the next batch in order; *ret_wait_s = time spent waiting (may be NULL). The caller owns the batch until
 * prefetch_release; asking for more while holding all `depth` batches is ERR_EXHAUSTED. A reader's error is returned in its batch's
 * place, and again by later calls. */
int prefetch_next(struct prefetch *p, const struct batch **ret, double *ret_wait_s, struct err *err);
/* The entry of the recording whose error prefetch_next has returned, −1 if it has returned none. The consumer's thread. */
int64_t prefetch_failed(const struct prefetch *p);
/* Waits up to wait_ms for the next batch; true if prefetch_next would return at once (with a batch or an error). For a thread with
 * other work while the data are decoded for the first time. */
bool prefetch_poll(struct prefetch *p, int wait_ms);
void prefetch_release(struct prefetch *p, const struct batch *b);
/* Joins the readers, which may wait for their volume, and frees everything, including batches still held. Takes NULL. */
void prefetch_stop(struct prefetch *p);
