/* feed: the source of a training's batches, and their way to the device. Either the recordings are resident in device memory and
 * windows are cut out there, or reader threads fill a ring of batches (windows/prefetch) in memory from which the device copies at
 * full speed; an asynchronous device copies the next micro-batch during the current one. Both give the same windows in the same
 * order with the same bits. One owner, the device's thread. */
#pragma once
#include "kernels/tensor.h"
#include "train/resident.h"
#include "windows/augment.h"
#include "windows/prefetch.h"

enum feed_residence {
    FEED_RESIDENT_AUTO, /* if the device has memory of its own and they fit */
    FEED_RESIDENT_ON,   /* resident, or an error */
    FEED_RESIDENT_OFF,
};

struct feed_config {
    struct resident_config recordings; /* device, manifest, role, progress */
    struct sampler *sampler;
    const struct augment *augment; /* NULL: windows stay as they are */
    int batch_size, micro_batch_size, workers, channels;
    int first_micro,
        micros; /* the micro-batches of a batch that are asked for: all, or a rank's share; valid is that of all windows */
    int64_t window;
    int residence;        /* enum feed_residence */
    bool arriving;        /* recordings are still arriving: FEED_RESIDENT_AUTO begins with readers */
    int64_t room_bytes;   /* limit of device memory for resident recordings */
    int64_t epoch, index; /* of the first batch, in the sampler's order */
};
/* An error of feed_open or feed_next that is one of a recording sets *recordings.failed to its entry. */
struct feed;
int feed_open(const struct feed_config *config, struct stream *s, struct feed **ret, struct err *err);
void feed_close(struct feed *f); /* takes NULL */
/* The source of the batches and the reason for it, for the log. */
const char *feed_description(const struct feed *f);

/* True if the recordings would be resident once all of them have been fetched; reopen the feed then. */
bool feed_waits(const struct feed *f);

/* Waits up to wait_ms for the next batch; true if feed_next would return at once (with a batch or an error). */
bool feed_poll(struct feed *f, int wait_ms);
/* Returns the next batch, owned by the caller until feed_release. With resident recordings only its array `valid` is set. */
int feed_next(struct feed *f, const struct batch **ret, struct err *err);
/* Micro-batch `micro` of the newest batch on the device, ready for ops queued on s: x (b,T,C) F32, labels (b,T) U8. Valid until the
 * second call after this one. */
int feed_micro(struct feed *f, struct stream *s, int64_t micro, struct tensor *ret_x, struct tensor *ret_labels, struct err *err);
/* Call after the work on a micro-batch was queued: starts the copy of the next one. */
int feed_ahead(struct feed *f, struct err *err);
void feed_release(struct feed *f, const struct batch *b);
