#include "client/scan/scan.h"

#include "base/base.h"

const char *brr_scan_library_version(void) { return BRR_LIBRARY_VERSION; }

static int report(const struct err *err, struct brr_scan_error *to) {
    if (to) {
        to->code = err->code;
        err_text(err, to->message, sizeof to->message);
    }
    return err->code;
}

struct opening {
    brr_scan *scan;
    const char *device;
    int threads;
    struct err err;
};

/* On a thread of its own: a stream of the CPU takes the thread that opens it for its own, and this one is the caller's. */
static void *open_device(void *p) {
    struct opening *o = p;
    if (device_open(o->device, o->threads, &o->scan->device, &o->err) ||
        stream_open(o->scan->device, STREAM_NORMAL, &o->scan->stream, &o->err))
        return NULL;
    struct device_info info;
    device_describe(o->scan->device, &info);
    str_copy(o->scan->description, sizeof o->scan->description, info.description);
    return NULL;
}

int brr_scan_open(const char *device, int threads, brr_scan **ret, struct brr_scan_error *err) {
    struct opening o = {.scan = calloc(1, sizeof *o.scan), .device = device ? device : "cpu", .threads = threads};
    pthread_t thread;
    *ret = NULL;
    if (!o.scan)
        err_set(&o.err, ERR_EXHAUSTED, "brr_scan_open: out of memory");
    else if (threads < 0)
        err_set(&o.err, ERR_INVALID, "brr_scan_open: %d threads; expected 0 (as many as the process may use) or more", threads);
    else if (pthread_create(&thread, NULL, open_device, &o))
        err_set(&o.err, ERR_EXHAUSTED, "brr_scan_open: no thread can be started");
    else
        pthread_join(thread, NULL);
    if (o.err.code) {
        brr_scan_close(o.scan);
        return report(&o.err, err);
    }
    *ret = o.scan;
    return 0;
}

void brr_scan_close(brr_scan *scan) {
    if (!scan)
        return;
    stream_close(scan->stream);
    device_close(scan->device);
    free(scan);
}

const char *brr_scan_device(const brr_scan *scan) { return scan->description; }

int brr_scan_use_stream(brr_scan *scan, uintptr_t stream, struct brr_scan_error *err) {
    struct err e = {0};
    return stream_adopt(scan->stream, stream, &e) ? report(&e, err) : 0;
}

int brr_scan_wait(brr_scan *scan, struct brr_scan_error *err) {
    struct err e = {0};
    return stream_sync(scan->stream, &e) ? report(&e, err) : 0;
}
