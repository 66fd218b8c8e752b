/* test_fault: an op that reads where nothing is: the fault is reported with the op's stream, the device is lost and says so,
 * nothing hangs, and the process can still end. Exits 77 without a GPU (or library). */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/op.h"

static int failures;

static void check(bool ok, const char *what, const struct err *err) {
    failures += !ok;
    printf("%-6s %s%s%s\n", ok ? "ok" : "FAILED", what, err->code ? ": " : "", err->code ? err->message : "");
    fflush(stdout);
}

int main(void) {
    struct device *device = NULL;
    struct stream *s = NULL, *other = NULL;
    struct device_info info;
    struct err err = {0};
    void *y = NULL, *later = NULL;
    if (device_probe("cuda:0", &info, &err)) {
        printf("skipped: hardware: no GPU: %s\n", err.message);
        return 77;
    }
    printf("%s: %s\n", info.name, info.description);
    int rc = device_open("cuda:0", 0, &device, &err);
    if (!rc)
        rc = stream_open(device, STREAM_NORMAL, &s, &err);
    if (!rc)
        rc = device_alloc(device, 4096, &y, &err);
    check(!rc && !device_lost(device), "a device that works is not lost", &err);
    if (rc)
        return 1;
    struct eltwise_args a = {
        .kind = ELTWISE_COPY, .a = tensor_1d((void *)(uintptr_t)4096, DTYPE_F32, 1024), .y = tensor_1d(y, DTYPE_F32, 1024)};
    rc = op_eltwise(s, &a, &err);
    rc = rc ? rc : stream_sync(s, &err);
    check(rc == ERR_INTERNAL && strstr(err.message, "cudaErrorIllegalAddress") && strstr(err.message, "start it again"),
          "an illegal address is reported with what to do", &err);
    check(device_lost(device), "the device is lost", &err);
    err = (struct err){0};
    check(device_alloc(device, 64, &later, &err) != 0, "memory is refused from then on", &err);
    err = (struct err){0};
    check(stream_open(device, STREAM_NORMAL, &other, &err) != 0, "streams are refused", &err);
    err = (struct err){0};
    device_free(device, y);
    stream_close(s);
    device_close(device);
    check(true, "everything closes", &err);
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
