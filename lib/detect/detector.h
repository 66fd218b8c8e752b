/* detector: a loaded model, immutable and shared by any number of timelines (detect/timeline.h), on one device. Runs waiting
 * windows of many timelines in batches; on the CPU a result does not depend on the other windows of its batch. The device's thread.
 */
#pragma once
#include "detect/model_image.h"

struct device;
struct stream;
struct timeline;
struct detector;

struct detector_info {
    struct modelfile file;
    const char *checkpoint; /* path; "" for a wrapped net */
    const char *patients;   /* modelfile_patients; NULL: not known, or a wrapped net */
    char sha256[65];
    int64_t parameters, memory_bytes;
    enum dtype precision;   /* DTYPE_BF16: within the bound of its file of fp32 */
    double bf16_difference; /* greatest, of its logits (detect/precision.h); 0 in F32 */
    char device[32];
};
/* Windows of a batch with which recordings are analysed: a GPU needs many to be busy, a CPU gains nothing from more. */
enum { DETECTOR_BATCH_GPU = 64, DETECTOR_BATCH_CPU = 8 };
int detector_best_batch(struct device *dev);

/* A detector with the weights of the image, which stays the caller's. Opens no file. In bf16: UNSUPPORTED on a device without it,
 * PRECONDITION if the logits differ more from fp32 than the file allows. */
int detector_upload(struct device *dev, const struct model_image *image, struct detector **ret, struct err *err);
/* Loads a model file; errors as of model_image_open, and of the device. */
int detector_open(struct device *dev, const char *checkpoint, const struct model_use *use, struct detector **ret, struct err *err);
/* Tries to load a model file: its content, and its answers to two windows, on one processor. Any thread. Errors as of
 * detector_open: INVALID for the file, others of the moment. */
int detector_check(const char *path, struct err *err);
/* Wraps a net owned by the caller (validation inside training); the net must outlive it. */
int detector_wrap(struct device *dev, struct seizure_net *net, const struct modelfile *file, int max_batch, struct detector **ret,
                  struct err *err);
/* Runs a window of zeros, so that the first real one finds kernels, memory and caches ready. recordings > 0, on a device that
 * queues: runs as many windows as the first batch of so many recordings has, which may take as long as that batch. */
int detector_warm_up(struct detector *d, struct stream *s, int64_t recordings, struct err *err);
/* Windows that wait together run side by side on a CPU, on lanes of one thread each (detect/lanes.h): of a model that
 * looks at whole windows where they are no fewer than threads, of one that computes in steps always, several at once.
 * The networks of the lanes must give the same bits as this one, else nothing changes. image: what the detector was
 * uploaded from. The thread that calls it is the one that runs the detector. */
struct lane_use {
    int64_t memory_limit_bytes; /* of this network and those of the lanes; 0 = no limit */
    bool alone;                 /* steps on the calling thread, as features are; else on at most max_batch threads */
};
int detector_spread(struct detector *d, const struct model_image *image, struct stream *s, const struct lane_use *use,
                    struct err *err);
/* As detector_open, for a thread with this one stream: a network of steps is spread. */
int detector_open_for(struct stream *s, const char *checkpoint, const struct model_use *use, struct detector **ret,
                      struct err *err);
void detector_close(struct detector *d); /* takes NULL; its timelines must have been freed */
const struct detector_info *detector_info(const struct detector *d);
/* How many recordings side by side keep its batches full, at least 1, and how many windows are some batches. */
int detector_side_by_side(const struct detector *d, int64_t *ret_windows);

/* Runs at most max_windows waiting windows (0 = all) of the timelines, in order, and calls their sinks. On a device that queues,
 * the host fills a batch while the device computes the one before, and the steps of a model with state run many in one launch
 * where so many wait: the device is waited for once for each batch. The bits do not depend on it. */
int detector_run(struct detector *d, struct stream *s, struct timeline *const *timelines, int n, int64_t max_windows,
                 int64_t *ret_windows, struct err *err);
