/* open_detector: a brr_detector: a model on a device, and the thread that computes. Internal to client/detector. */
#ifndef BRR_CLIENT_DETECTOR_OPEN_DETECTOR_H
#define BRR_CLIENT_DETECTOR_OPEN_DETECTOR_H
#include "client/detector/brr_detector.h"
#include "client/detector/work_thread.h"
#include "detect/detector.h"
#include "kernels/device.h"

struct brr_detector {
    struct work_thread *thread;
    struct device *device;
    struct stream *stream;
    struct detector *detector;
    const struct detector_info *info;
};

/* Copies the caller's structure, whose first member is its size, into *known: members that it does not have are 0. */
int detector_arguments(const void *args, void *known, size_t known_bytes, struct err *err);
/* Returns rc, for the caller of the library; unless it is 0, *to has the text of *err. */
int detector_report(int rc, const struct err *err, struct brr_detector_error *to);

#endif
