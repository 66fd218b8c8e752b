/* backend: what a device implementation fills in. Internal to kernels/. The CPU backend always exists; cuda_backend() returns NULL
 * in a build without CUDA. */
#ifndef BRR_KERNELS_BACKEND_H
#define BRR_KERNELS_BACKEND_H
#include "kernels/device.h"
#include "kernels/op.h"

struct backend {
    const char *name;
    const struct op_table *ops;
    int (*describe)(int ordinal, int threads, struct device_info *ret, struct err *err);
    int (*open)(struct device *dev, int ordinal, int threads, struct err *err);
    void (*close)(struct device *dev);
    int (*alloc)(struct device *dev, size_t bytes, void **ret, struct err *err); /* zeroed, 64-byte aligned */
    void (*free)(struct device *dev, void *data);
    int (*alloc_host)(struct device *dev, size_t bytes, void **ret, struct err *err);
    void (*free_host)(struct device *dev, void *data);
    int (*stream_open)(struct stream *s, enum stream_priority priority, struct err *err);
    void (*stream_close)(struct stream *s);
    int (*copy)(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err); /* any direction */
    int (*zero)(struct stream *s, void *dst, size_t bytes, struct err *err);
    int (*sync)(struct stream *s, struct err *err);
};

struct device {
    const struct backend *backend;
    struct device_info info;
    void *state; /* the backend's own */
    int64_t live_bytes, allocations;
};

struct stream {
    struct device *device;
    void *state;
};

const struct backend *cpu_backend(void);
const struct backend *cuda_backend(void);

#endif
