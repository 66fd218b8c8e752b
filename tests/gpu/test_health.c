/* test_health: what a GPU tells of itself is plausible: a temperature and a power that chips have, memory and energy that move with
 * what is done. Exits 77 without a GPU, or where the driver's management library is missing (a container without it). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/device.h"

enum { MEBIBYTES = 1024 };

static int failures;

static void check(bool ok, const char *what, double value) {
    failures += !ok;
    printf("%-6s %s: %g\n", ok ? "ok" : "FAILED", what, value);
}

/* What is absent is said, and fails nothing: not every GPU tells everything. */
static void check_range(const char *what, double value, double least, double most) {
    if (isnan(value) || value == -1)
        printf("absent %s\n", what);
    else
        check(value >= least && value <= most, what, value);
}

static double clock_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Something to do for a second. */
static int work(struct stream *s, void *memory, struct err *err) {
    double end_s = clock_s() + 1;
    int rc = 0;
    while (!rc && clock_s() < end_s)
        if (!(rc = stream_zero(s, memory, (size_t)MEBIBYTES << 20, err)))
            rc = stream_sync(s, err);
    return rc;
}

static void compare(const struct device_health *before, const struct device_health *after) {
    check_range("chip, °C", after->temperature_c, 5, 110);
    check_range("power, W", after->power_w, 5, 2000);
    check_range("utilization", after->utilization, 0, 1);
    check_range("energy of a second, J", after->energy_j - before->energy_j, 1, 4000);
    if (after->memory_total_bytes > 0) {
        double total = (double)after->memory_total_bytes / 1048576;
        check(total >= MEBIBYTES, "memory, MiB", total);
        check_range("memory in use, MiB", (double)after->memory_used_bytes / 1048576, MEBIBYTES, total);
    }
    check_range("uncorrectable memory errors", (double)after->ecc_uncorrected, 0, 0);
    check_range("repair pending", after->repair_pending, 0, 0);
    for (int i = 0; after->slowed > 0 && i < DEVICE_SLOWDOWN_COUNT; i++)
        if (after->slowed >> i & 1)
            printf("       clocks held down: %s\n", device_slowdown_name((enum device_slowdown)i));
}

int main(void) {
    struct device *device = NULL;
    struct stream *s = NULL;
    struct device_health before, after;
    struct err err = {0};
    void *memory = NULL;
    if (device_open("cuda:0", 0, &device, &err)) {
        printf("skipped: hardware: no GPU: %s\n", err.message);
        return 77;
    }
    device_health(device, &before);
    if (!before.reported) {
        printf("skipped: hardware: no GPU management library (libnvidia-ml) here\n");
        device_close(device);
        return 77;
    }
    printf("%s, driver %s, number %d, %s\n", before.model, before.driver, before.index, before.uuid);
    check(*before.model && *before.uuid && *before.driver && before.index >= 0, "model, UUID, driver and number are told",
          before.index);
    int rc = stream_open(device, STREAM_NORMAL, &s, &err);
    if (!rc)
        rc = device_alloc(device, (size_t)MEBIBYTES << 20, &memory, &err);
    if (!rc)
        rc = work(s, memory, &err);
    if (rc)
        printf("FAILED %s\n", err.message);
    double start_s = clock_s();
    device_health(device, &after);
    check(clock_s() - start_s < 1, "seconds that the question takes", clock_s() - start_s);
    compare(&before, &after);
    device_free(device, memory);
    stream_close(s);
    device_close(device);
    printf("%d failed\n", failures);
    return rc || failures ? 1 : 0;
}
