/* nvml (emulated): the management library of a machine with two GPUs, its answers read from the file that BRR_FAKE_NVML names at
 * every question: lines "KEY VALUE"; a key that is not there is NOT_SUPPORTED, and "lost 1" is GPU_IS_LOST to everything. The
 * script speaks of the GPU at 0000:3b:00.0, which this library counts as its number 5; the other one is number 0, at 0000:1a:00.0,
 * and everything about it is 99. "events 1": errors can be waited for; each line "xid N" is one, told once. With FAKE_NVML_OLD the
 * library lacks what came late. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, LOST = 15 };
static char ours, other; /* their addresses are the handles */

static int answer(const void *gpu, const char *key, unsigned long long *ret) {
    const char *path = getenv("BRR_FAKE_NVML");
    char name[40];
    unsigned long long value;
    int code = NOT_SUPPORTED;
    if (gpu == &other)
        return *ret = 99, SUCCESS;
    FILE *f = path ? fopen(path, "re") : NULL;
    while (f && fscanf(f, "%39s %llu", name, &value) == 2) {
        if (!strcmp(name, "lost") && value)
            code = LOST;
        if (!strcmp(name, key) && code != LOST) {
            *ret = value;
            code = SUCCESS;
        }
    }
    if (f)
        fclose(f);
    return code;
}

static int answer_unsigned(const void *gpu, const char *key, unsigned *ret) {
    unsigned long long value = 0;
    int code = answer(gpu, key, &value);
    if (code == SUCCESS)
        *ret = (unsigned)value;
    return code;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void) { return getenv("BRR_FAKE_NVML") ? SUCCESS : DRIVER_NOT_LOADED; }
int nvmlShutdown(void);
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlSystemGetDriverVersion(char *text, unsigned size) { return snprintf(text, size, "999.01.02") > 0 ? SUCCESS : NOT_FOUND; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **ret);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **ret) {
    *ret = !strcasecmp(bus, "0000:3b:00.0") ? &ours : !strcasecmp(bus, "0000:1a:00.0") ? &other : NULL;
    return *ret ? SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetIndex(const void *gpu, unsigned *ret);
int nvmlDeviceGetIndex(const void *gpu, unsigned *ret) { return *ret = gpu == &ours ? 5 : 0, SUCCESS; }
int nvmlDeviceGetName(const void *gpu, char *text, unsigned size);
int nvmlDeviceGetName(const void *gpu, char *text, unsigned size) {
    return snprintf(text, size, gpu == &ours ? "Scripted GPU" : "Other GPU") > 0 ? SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetUUID(const void *gpu, char *text, unsigned size);
int nvmlDeviceGetUUID(const void *gpu, char *text, unsigned size) {
    return snprintf(text, size, gpu == &ours ? "GPU-3b" : "GPU-1a") > 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetTemperature(const void *gpu, int sensor, unsigned *ret);
int nvmlDeviceGetTemperature(const void *gpu, int sensor, unsigned *ret) {
    return sensor == 0 ? answer_unsigned(gpu, "temperature_c", ret) : NOT_SUPPORTED;
}
int nvmlDeviceGetPowerUsage(const void *gpu, unsigned *ret);
int nvmlDeviceGetPowerUsage(const void *gpu, unsigned *ret) { return answer_unsigned(gpu, "power_mw", ret); }
int nvmlDeviceGetUtilizationRates(const void *gpu, unsigned *ret);
int nvmlDeviceGetUtilizationRates(const void *gpu, unsigned *ret) {
    ret[1] = 99; /* of the memory */
    return answer_unsigned(gpu, "utilization", &ret[0]);
}
int nvmlDeviceGetMemoryInfo(const void *gpu, unsigned long long *ret);
int nvmlDeviceGetMemoryInfo(const void *gpu, unsigned long long *ret) {
    int code = answer(gpu, "memory_total", &ret[0]);
    return code == SUCCESS && answer(gpu, "memory_used", &ret[2]) == SUCCESS ? (ret[1] = ret[0] - ret[2], SUCCESS) : code;
}
int nvmlDeviceGetTotalEccErrors(const void *gpu, int kind, int counter, unsigned long long *ret);
int nvmlDeviceGetTotalEccErrors(const void *gpu, int kind, int counter, unsigned long long *ret) {
    if (counter)
        return *ret = 77, SUCCESS; /* of the chip's life */
    return answer(gpu, kind ? "ecc_uncorrected" : "ecc_corrected", ret);
}
int nvmlDeviceGetRetiredPagesPendingStatus(const void *gpu, unsigned *ret);
int nvmlDeviceGetRetiredPagesPendingStatus(const void *gpu, unsigned *ret) { return answer_unsigned(gpu, "pages_pending", ret); }

#ifndef FAKE_NVML_OLD
static char event_set;
static int told, sets; /* lines "xid N" that have been told; sets that are open */

int nvmlEventSetCreate(void **ret);
int nvmlEventSetCreate(void **ret) { return told = 0, sets++, *ret = &event_set, SUCCESS; }
int nvmlEventSetFree(void *set);
int nvmlEventSetFree(void *set) { return set == &event_set && sets-- > 0 ? SUCCESS : NOT_FOUND; }
int nvmlDeviceRegisterEvents(const void *gpu, unsigned long long kinds, const void *set);
int nvmlDeviceRegisterEvents(const void *gpu, unsigned long long kinds, const void *set) {
    unsigned supported = 0;
    return gpu == &ours && kinds == 8 && set == &event_set && answer_unsigned(gpu, "events", &supported) == SUCCESS && supported
               ? SUCCESS
               : NOT_SUPPORTED;
}
struct event {
    const void *gpu;
    unsigned long long kind, data;
};
int nvmlEventSetWait(const void *set, struct event *ret, unsigned timeout_ms);
int nvmlEventSetWait(const void *set, struct event *ret, unsigned timeout_ms) {
    const char *path = getenv("BRR_FAKE_NVML");
    FILE *f = path ? fopen(path, "re") : NULL;
    char name[40];
    unsigned long long value;
    int line = 0, code = set == &event_set && !timeout_ms ? TIMEOUT : NOT_FOUND;
    while (f && code == TIMEOUT && fscanf(f, "%39s %llu", name, &value) == 2) {
        if (!strcmp(name, "lost") && value)
            code = LOST;
        if (strcmp(name, "xid") != 0 || line++ < told)
            continue;
        told++;
        *ret = (struct event){&ours, 8, value};
        code = SUCCESS;
    }
    if (f)
        fclose(f);
    return code;
}
int nvmlDeviceGetTotalEnergyConsumption(const void *gpu, unsigned long long *ret);
int nvmlDeviceGetTotalEnergyConsumption(const void *gpu, unsigned long long *ret) { return answer(gpu, "energy_mj", ret); }
int nvmlDeviceGetCurrentClocksThrottleReasons(const void *gpu, unsigned long long *ret);
int nvmlDeviceGetCurrentClocksThrottleReasons(const void *gpu, unsigned long long *ret) { return answer(gpu, "throttle", ret); }
int nvmlDeviceGetRemappedRows(const void *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed);
int nvmlDeviceGetRemappedRows(const void *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = 3; /* earlier ones, corrected */
    int code = answer_unsigned(gpu, "rows_pending", pending);
    return code == SUCCESS ? answer_unsigned(gpu, "rows_failed", failed) : code;
}
#endif
