/* feed: where a training's batches come from, and how they get to the device. Either the recordings lie in device memory (resident)
 * and windows are cut out there, or reader threads fill a ring of batches (data/prefetch) in memory that the device copies from at
 * full speed, and on a device that computes beside its caller the next micro-batch is copied while this one is worked on. Both show
 * the same windows in the same order with the same bits. One owner, the device's thread. */
#ifndef BRR_RUN_FEED_H
#define BRR_RUN_FEED_H
#include "data/prefetch.h"
#include "kernels/tensor.h"
#include "run/resident.h"

enum feed_residence {
    FEED_RESIDENT_AUTO, /* when the device has memory of its own and it fits */
    FEED_RESIDENT_ON,   /* or refuse */
    FEED_RESIDENT_OFF,
};

struct feed_config {
    struct resident_config recordings; /* device, manifest, role, progress */
    struct sampler *sampler;
    int batch_size, micro_batch_size, workers, channels;
    int64_t window;
    int residence;        /* enum feed_residence */
    bool arriving;        /* recordings are still on their way: FEED_RESIDENT_AUTO begins with readers */
    int64_t room_bytes;   /* device memory that resident recordings may take */
    int64_t epoch, index; /* of the first batch, in the sampler's order */
};
struct feed;
int feed_open(const struct feed_config *config, struct stream *s, struct feed **ret, struct err *err);
void feed_close(struct feed *f); /* NULL is fine */
/* Where batches come from and why, for the log. */
const char *feed_description(const struct feed *f);

/* Whether recordings would be resident had they been there: open another one when they are. */
bool feed_waits(const struct feed *f);

/* Wait up to wait_ms for the next batch; whether feed_next would return at once (with a batch or an error). */
bool feed_poll(struct feed *f, int wait_ms);
/* The next batch, the caller's until feed_release. Of its arrays only valid is set when recordings are resident. */
int feed_next(struct feed *f, const struct batch **ret, struct err *err);
/* Micro-batch `micro` of the newest batch on the device, ready for ops queued on s: x (b,T,C) F32, labels (b,T) U8. They stay until
 * the second call after this one. */
int feed_micro(struct feed *f, struct stream *s, int64_t micro, struct tensor *ret_x, struct tensor *ret_labels, struct err *err);
/* Call when the work on a micro-batch is queued: what comes after it starts on its way. */
int feed_ahead(struct feed *f, struct err *err);
void feed_release(struct feed *f, const struct batch *b);

#endif
