#include "kernels/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "kernels/backend.h"

void device_share_processors(char **argv) {
    char self[4096];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0 || setenv("OMP_WAIT_POLICY", "passive", 1))
        return;
    self[n] = '\0';
    execv(self, argv); /* returns only when it failed: then threads spin */
}

int device_list(struct device_info *infos, int max) {
    int n = 0;
    if (n < max && cpu_backend()->describe(0, 0, &infos[n], NULL) == 0)
        n++;
    const struct backend *cuda = cuda_backend();
    for (int i = 0; cuda && n < max && cuda->describe(i, 0, &infos[n], NULL) == 0; i++)
        n++;
    return n;
}

/* "cpu" → cpu backend, "cuda:N" → cuda backend and N. */
static int find_backend(const char *name, const struct backend **ret, int *ret_ordinal, struct err *err) {
    int64_t ordinal = 0;
    if (!strcmp(name, "cpu")) {
        *ret = cpu_backend();
    } else if (str_starts(name, "cuda:") && str_to_i64(name + 5, &ordinal) && ordinal >= 0 && ordinal < 64) {
        *ret = cuda_backend();
        if (!*ret)
            return err_set(err, ERR_UNSUPPORTED, "device %s: this build has no CUDA backend; use the device cpu", name);
    } else {
        return err_set(err, ERR_INVALID, "device '%s' is unknown; expected cpu or cuda:N", name);
    }
    *ret_ordinal = (int)ordinal;
    return 0;
}

int device_open(const char *name, int threads, struct device **ret, struct err *err) {
    const struct backend *backend = NULL;
    int ordinal = 0, rc = find_backend(name, &backend, &ordinal, err);
    if (rc)
        return rc;
    struct device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return err_set(err, ERR_EXHAUSTED, "device %s: out of memory", name);
    dev->backend = backend;
    if ((rc = backend->describe(ordinal, threads, &dev->info, err)) || (rc = backend->open(dev, ordinal, threads, err))) {
        free(dev);
        return rc;
    }
    *ret = dev;
    return 0;
}

void device_close(struct device *dev) {
    if (!dev)
        return;
    dev->backend->close(dev);
    free(dev);
}

void device_describe(const struct device *dev, struct device_info *ret) { *ret = dev->info; }

int device_alloc(struct device *dev, size_t bytes, void **ret, struct err *err) {
    int rc = dev->backend->alloc(dev, bytes, ret, err);
    if (!rc)
        __atomic_add_fetch(&dev->allocations, 1, __ATOMIC_RELAXED);
    return rc;
}

void device_free(struct device *dev, void *data) {
    if (data)
        dev->backend->free(dev, data);
}

int device_alloc_host(struct device *dev, size_t bytes, void **ret, struct err *err) {
    return dev->backend->alloc_host(dev, bytes, ret, err);
}

void device_free_host(struct device *dev, void *data) {
    if (data)
        dev->backend->free_host(dev, data);
}

void device_alloc_stats(const struct device *dev, int64_t *ret_live_bytes, int64_t *ret_allocations) {
    *ret_live_bytes = __atomic_load_n(&dev->live_bytes, __ATOMIC_RELAXED);
    *ret_allocations = __atomic_load_n(&dev->allocations, __ATOMIC_RELAXED);
}

int stream_open(struct device *dev, enum stream_priority priority, struct stream **ret, struct err *err) {
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
    s->device = dev;
    int rc = dev->backend->stream_open(s, priority, err);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void stream_close(struct stream *s) {
    if (!s)
        return;
    s->device->backend->stream_close(s);
    free(s);
}

struct device *stream_device(const struct stream *s) {
    return s->device;
}

int stream_to_device(struct stream *s, void *dst, const void *host_src, size_t bytes, struct err *err) {
    return s->device->backend->copy(s, dst, host_src, bytes, err);
}

int stream_to_host(struct stream *s, void *host_dst, const void *src, size_t bytes, struct err *err) {
    return s->device->backend->copy(s, host_dst, src, bytes, err);
}

int stream_copy(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err) {
    return s->device->backend->copy(s, dst, src, bytes, err);
}

int stream_zero(struct stream *s, void *dst, size_t bytes, struct err *err) { return s->device->backend->zero(s, dst, bytes, err); }

int stream_sync(struct stream *s, struct err *err) { return s->device->backend->sync(s, err); }
