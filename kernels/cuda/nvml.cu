/* nvml: functions and their numbers as in NVIDIA's NVML reference, "Device Queries", "NvmlClocksEventReasons" and "Event Handling
 * Methods"; all but those of remapped rows (R450) and energy (R390) are older than any driver this backend runs on. The library's
 * header is not needed. */
#include "kernels/cuda/nvml.cuh"

#include <dlfcn.h>
#include <stdlib.h>

extern "C" {
#include "base/str.h"
}

enum { NVML_SUCCESS = 0, NVML_GPU_IS_LOST = 15, NVML_RESET_REQUIRED = 16 };
enum { NVML_EVENT_XID = 8, MOST_EVENTS = 64 }; /* MOST_EVENTS: taken at one question */
enum { NVML_TEMPERATURE_GPU = 0, NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};
typedef struct nvml_device *nvml_gpu;    /* the library's own */
typedef struct nvml_event_set *nvml_set; /* likewise */
struct nvml_event {
    nvml_gpu gpu;
    unsigned long long kind, data; /* data: the XID */
    unsigned gpu_instance, compute_instance;
};

/* Function of the library, type of its arguments; NULL in the struct where this library has it not. */
#define NVML_FUNCTIONS(X)                                                                                                          \
    X(nvmlShutdown, (void))                                                                                                        \
    X(nvmlSystemGetDriverVersion, (char *text, unsigned size))                                                                     \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, nvml_gpu *ret))                                                          \
    X(nvmlDeviceGetIndex, (nvml_gpu gpu, unsigned *ret))                                                                           \
    X(nvmlDeviceGetName, (nvml_gpu gpu, char *text, unsigned size))                                                                \
    X(nvmlDeviceGetUUID, (nvml_gpu gpu, char *text, unsigned size))                                                                \
    X(nvmlDeviceGetTemperature, (nvml_gpu gpu, int sensor, unsigned *ret_c))                                                       \
    X(nvmlDeviceGetPowerUsage, (nvml_gpu gpu, unsigned *ret_mw))                                                                   \
    X(nvmlDeviceGetTotalEnergyConsumption, (nvml_gpu gpu, unsigned long long *ret_mj))                                             \
    X(nvmlDeviceGetUtilizationRates, (nvml_gpu gpu, struct nvml_utilization * ret))                                                \
    X(nvmlDeviceGetMemoryInfo, (nvml_gpu gpu, struct nvml_memory * ret))                                                           \
    X(nvmlDeviceGetTotalEccErrors, (nvml_gpu gpu, int kind, int counter, unsigned long long *ret))                                 \
    X(nvmlDeviceGetRetiredPagesPendingStatus, (nvml_gpu gpu, int *ret))                                                            \
    X(nvmlDeviceGetRemappedRows, (nvml_gpu gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed))  \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvml_gpu gpu, unsigned long long *ret))                                          \
    X(nvmlDeviceGetCurrentClocksEventReasons, (nvml_gpu gpu, unsigned long long *ret)) /* its name since R535 */                   \
    X(nvmlEventSetCreate, (nvml_set * ret))                                                                                        \
    X(nvmlEventSetFree, (nvml_set set))                                                                                            \
    X(nvmlEventSetWait, (nvml_set set, struct nvml_event * ret, unsigned timeout_ms))                                              \
    X(nvmlDeviceRegisterEvents, (nvml_gpu gpu, unsigned long long kinds, nvml_set set))

struct nvml {
    void *library;
    nvml_gpu gpu;
    char bus[32];
    nvml_set events; /* NULL: it tells of no errors */
    int error_kinds;
    struct device_errors errors[DEVICE_ERROR_KINDS];
#define NVML_MEMBER(name, arguments) int(*name) arguments;
    NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
};

void nvml_close(struct nvml *n) {
    if (!n)
        return;
    if (n->events)
        n->nvmlEventSetFree(n->events);
    if (n->nvmlShutdown)
        n->nvmlShutdown();
    dlclose(n->library);
    free(n);
}

/* The library, started; NULL without. */
static struct nvml *start(void) {
    int (*begin)(void) = NULL;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    struct nvml *n = library ? (struct nvml *)calloc(1, sizeof *n) : NULL;
    if (library)
        *(void **)&begin = dlsym(library, "nvmlInit_v2");
    if (!n || !begin || begin() != NVML_SUCCESS) {
        if (library)
            dlclose(library);
        free(n);
        return NULL;
    }
    n->library = library;
#define NVML_FIND(name, arguments) *(void **)&n->name = dlsym(library, #name);
    NVML_FUNCTIONS(NVML_FIND)
#undef NVML_FIND
    return n;
}

/* From now on the driver keeps errors of the device for us. */
static void watch_errors(struct nvml *n) {
    nvml_set set = NULL;
    if (!n->nvmlEventSetCreate || !n->nvmlEventSetFree || !n->nvmlEventSetWait || !n->nvmlDeviceRegisterEvents ||
        n->nvmlEventSetCreate(&set) != NVML_SUCCESS)
        return;
    if (n->nvmlDeviceRegisterEvents(n->gpu, NVML_EVENT_XID, set) == NVML_SUCCESS)
        n->events = set;
    else
        n->nvmlEventSetFree(set);
}

struct nvml *nvml_open(const char *bus) {
    struct nvml *n = start();
    if (n && n->nvmlDeviceGetHandleByPciBusId_v2 && str_copy(n->bus, sizeof n->bus, bus) &&
        n->nvmlDeviceGetHandleByPciBusId_v2(bus, &n->gpu) == NVML_SUCCESS) {
        watch_errors(n);
        return n;
    }
    nvml_close(n);
    return NULL;
}

void nvml_driver_version(char *ret, size_t size) {
    char text[80] = "";
    struct nvml *n = start();
    if (!n || !n->nvmlSystemGetDriverVersion || n->nvmlSystemGetDriverVersion(text, sizeof text) != NVML_SUCCESS)
        text[0] = 0;
    nvml_close(n);
    str_copy(ret, size, text);
}

/* Whether the library has the function and the device answered it; a device that is gone is noted. */
#define ASK(function, ...) (n->function && answered(ret, n->function(n->gpu, __VA_ARGS__)))
static bool answered(struct device_health *ret, int code) {
    if (code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED)
        ret->unreachable = true;
    return code == NVML_SUCCESS;
}

/* Our bits for NVML's; reasons that came after this was written are left out. */
static int decode_slowdowns(unsigned long long reasons) {
    static const struct {
        unsigned long long theirs;
        enum device_slowdown ours;
    } table[] = {
        {0x1, DEVICE_SLOWDOWN_IDLE},        {0x2, DEVICE_SLOWDOWN_CLOCK_SETTING},   {0x4, DEVICE_SLOWDOWN_POWER_CAP},
        {0x8, DEVICE_SLOWDOWN_HW_SLOWDOWN}, {0x10, DEVICE_SLOWDOWN_SYNC_BOOST},     {0x20, DEVICE_SLOWDOWN_THERMAL},
        {0x40, DEVICE_SLOWDOWN_HW_THERMAL}, {0x80, DEVICE_SLOWDOWN_HW_POWER_BRAKE}, {0x100, DEVICE_SLOWDOWN_DISPLAY_CLOCK}};
    int bits = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        bits |= reasons & table[i].theirs ? 1 << table[i].ours : 0;
    return bits;
}

static void read_names(struct nvml *n, struct device_health *ret) {
    char text[96];
    unsigned index = 0;
    if (ASK(nvmlDeviceGetIndex, &index))
        ret->index = (int)index;
    if (ASK(nvmlDeviceGetName, text, sizeof text))
        str_copy(ret->model, sizeof ret->model, text);
    if (ASK(nvmlDeviceGetUUID, text, sizeof text))
        str_copy(ret->uuid, sizeof ret->uuid, text);
    if (n->nvmlSystemGetDriverVersion && n->nvmlSystemGetDriverVersion(text, 80) == NVML_SUCCESS)
        str_copy(ret->driver, sizeof ret->driver, text);
    str_format(ret->reset, sizeof ret->reset, "nvidia-smi --gpu-reset -i %s", n->bus);
}

static void read_memory(struct nvml *n, struct device_health *ret) {
    struct nvml_memory memory;
    unsigned long long errors = 0;
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    int pages = 0;
    if (ASK(nvmlDeviceGetMemoryInfo, &memory)) {
        ret->memory_used_bytes = (int64_t)memory.used;
        ret->memory_total_bytes = (int64_t)memory.total;
    }
    if (ASK(nvmlDeviceGetTotalEccErrors, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE, &errors))
        ret->ecc_corrected = (int64_t)errors;
    if (ASK(nvmlDeviceGetTotalEccErrors, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &errors))
        ret->ecc_uncorrected = (int64_t)errors;
    /* Chips retire pages or remap rows, and answer for what they do. */
    if (ASK(nvmlDeviceGetRemappedRows, &corrected, &uncorrected, &pending, &failed)) {
        ret->repair_pending = pending != 0;
        ret->repair_failed = failed != 0;
    }
    if (ASK(nvmlDeviceGetRetiredPagesPendingStatus, &pages))
        ret->repair_pending = ret->repair_pending == 1 || pages == 1;
}

static void count_error(struct nvml *n, int xid) {
    int i = 0;
    while (i < n->error_kinds && n->errors[i].xid != xid)
        i++;
    if (i == DEVICE_ERROR_KINDS) {
        i--;
        n->errors[i].xid = DEVICE_ERROR_OTHER; /* its own kind joins the others */
    }
    if (i == n->error_kinds) {
        n->errors[i] = (struct device_errors){xid, 0};
        n->error_kinds++;
    }
    n->errors[i].count++;
}

/* What the driver has kept since the last question. */
static void read_errors(struct nvml *n, struct device_health *ret) {
    struct nvml_event event;
    if (!n->events)
        return;
    for (int i = 0; i < MOST_EVENTS && answered(ret, n->nvmlEventSetWait(n->events, &event, 0)); i++)
        if (event.kind & NVML_EVENT_XID)
            count_error(n, (int)event.data);
    ret->error_kinds = n->error_kinds;
    for (int i = 0; i < n->error_kinds; i++)
        ret->errors[i] = n->errors[i];
}

void nvml_read(struct nvml *n, struct device_health *ret) {
    unsigned value = 0;
    unsigned long long large = 0;
    struct nvml_utilization utilization;
    ret->reported = true;
    read_names(n, ret);
    if (ASK(nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU, &value))
        ret->temperature_c = value;
    if (ASK(nvmlDeviceGetPowerUsage, &value))
        ret->power_w = value / 1e3;
    if (ASK(nvmlDeviceGetTotalEnergyConsumption, &large))
        ret->energy_j = (double)large / 1e3;
    if (ASK(nvmlDeviceGetUtilizationRates, &utilization))
        ret->utilization = utilization.gpu / 100.0;
    if (ASK(nvmlDeviceGetCurrentClocksThrottleReasons, &large) || ASK(nvmlDeviceGetCurrentClocksEventReasons, &large))
        ret->slowed = decode_slowdowns(large);
    read_memory(n, ret);
    read_errors(n, ret);
}
