/* runtime: the devices and their errors; chance; and what stands in for cuDNN, which is never there. */
#include "emulator.h"

#include "kernels/cuda/cudnn.cuh"
#include "tests/seed.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cudaError_t emulator_fault;

static const uint64_t seed = test_seed();

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t emulator_chance(uint64_t n) {
    static uint64_t state = seed;
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % n;
}

void emulator_die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("emulator: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (BRR_TEST_SEED=%llu)\n", (unsigned long long)seed);
    va_end(args);
    fflush(stderr);
    _exit(2);
}

/* ---- devices ---- */

static thread_local int current;
static thread_local cudaError_t refused;
static unsigned long contexts; /* bit i: device i has one */

int emulator_devices(void) {
    static const char *wanted = getenv("BRR_EMULATED_DEVICES");
    return wanted ? atoi(wanted) : 1;
}
int emulator_current(void) { return current; }
void emulator_use_device(void) { __atomic_or_fetch(&contexts, 1UL << current, __ATOMIC_RELAXED); }
cudaError_t emulator_told(cudaError_t code) {
    if (code != cudaSuccess)
        refused = code;
    return code;
}
/* Of the process so far: the devices on which it has made a context. */
extern "C" __attribute__((visibility("default"))) unsigned long emulator_contexts(void) {
    return __atomic_load_n(&contexts, __ATOMIC_RELAXED);
}

/* BRR_EMULATED_MEMORY: what a device says it has, in MiB; 1024 without. */
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    const char *wanted = getenv("BRR_EMULATED_MEMORY");
    emulator_use_device();
    *free_bytes = *total_bytes = (size_t)(wanted ? atol(wanted) : 1024) << 20;
    return emulator_fault;
}

cudaError_t cudaGetDeviceCount(int *count) { return *count = emulator_devices(), cudaSuccess; }
cudaError_t cudaGetDevice(int *ordinal) { return *ordinal = current, cudaSuccess; }
cudaError_t cudaSetDevice(int ordinal) {
    if (ordinal < 0 || ordinal >= emulator_devices())
        return emulator_told(cudaErrorInvalidDevice);
    current = ordinal;
    emulator_use_device();
    return emulator_fault;
}
/* BRR_EMULATED_OLD: the ordinal of a device that is too old. */
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int ordinal) {
    const char *old = getenv("BRR_EMULATED_OLD"), *memory = getenv("BRR_EMULATED_MEMORY");
    if (ordinal < 0 || ordinal >= emulator_devices())
        return emulator_told(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated");
    p->totalGlobalMem = (size_t)(memory ? atol(memory) : 1024) << 20;
    p->major = old && atoi(old) == ordinal ? 7 : 8;
    return cudaSuccess;
}
/* BRR_EMULATED_APART: the ordinal of a device that reaches no other one, and that none reaches. */
static unsigned long reached[64]; /* bit i of a device: it may go to memory of device i */
bool emulator_reaches(int device, int other) {
    return device == other || __atomic_load_n(&reached[device], __ATOMIC_RELAXED) >> other & 1;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    const char *apart = getenv("BRR_EMULATED_APART");
    if (device < 0 || device >= emulator_devices() || peer < 0 || peer >= emulator_devices())
        return emulator_told(cudaErrorInvalidDevice);
    *can = device != peer && !(apart && (atoi(apart) == device || atoi(apart) == peer));
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, current, peer) != cudaSuccess || !can)
        return emulator_told(cudaErrorPeerAccessUnsupported);
    emulator_use_device();
    if (__atomic_fetch_or(&reached[current], 1UL << peer, __ATOMIC_RELAXED) >> peer & 1)
        return emulator_told(cudaErrorPeerAccessAlreadyEnabled);
    return emulator_fault;
}
cudaError_t cudaDeviceGetPCIBusId(char *ret, int size, int ordinal) {
    return snprintf(ret, (size_t)size, "0000:%02X:00.0", 0x3b + ordinal), cudaSuccess;
}
/* BRR_EMULATED_DRIVER: the CUDA version that the driver serves, as cudaDriverGetVersion counts; 0 = there is none. */
cudaError_t cudaDriverGetVersion(int *version) {
    const char *wanted = getenv("BRR_EMULATED_DRIVER");
    return *version = wanted ? atoi(wanted) : CUDART_VERSION, cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0, cudaSuccess; }
cudaError_t cudaPeekAtLastError(void) { return emulator_fault ? emulator_fault : refused; }
cudaError_t cudaGetLastError(void) {
    cudaError_t code = cudaPeekAtLastError();
    refused = cudaSuccess;
    return code;
}
const char *cudaGetErrorString(cudaError_t code) {
    return code == cudaSuccess                      ? "no error"
           : code == cudaErrorIllegalAddress        ? "an illegal memory access was encountered"
           : code == cudaErrorMemoryAllocation      ? "out of memory"
           : code == cudaErrorInvalidResourceHandle ? "invalid resource handle"
                                                    : "another error";
}
const char *cudaGetErrorName(cudaError_t code) {
    return code == cudaSuccess                 ? "cudaSuccess"
           : code == cudaErrorIllegalAddress   ? "cudaErrorIllegalAddress"
           : code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                               : "cudaError";
}

/* ---- cuDNN: never there ---- */

int cudnn_takes(struct stream *, const struct cudnn_convolution *, bool *ret, size_t *ret_workspace, struct err *) {
    *ret = false;
    *ret_workspace = 0;
    return 0;
}
int cudnn_run(struct stream *, const struct cudnn_convolution *, void *, struct err *) { return ERR_UNSUPPORTED; }
void cudnn_close(struct cudnn *) {}
void cudnn_describe(struct device_part *part) {
    snprintf(part->name, sizeof part->name, "cuDNN");
    snprintf(part->version, sizeof part->version, "none, emulated");
    part->fits = true;
}
