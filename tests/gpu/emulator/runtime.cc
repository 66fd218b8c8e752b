/* runtime: the device and its errors; chance; and what stands in for cuBLASLt, whose products the plain kernel gives, and for
 * cuDNN, which is never there. */
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

/* BRR_EMULATED_MEMORY: what the device says it has, in MiB; 1024 without. */
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    const char *wanted = getenv("BRR_EMULATED_MEMORY");
    *free_bytes = *total_bytes = (size_t)(wanted ? atol(wanted) : 1024) << 20;
    return emulator_fault;
}

cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int *ordinal) { return *ordinal = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return emulator_fault; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated");
    p->totalGlobalMem = (size_t)1 << 30;
    p->major = 8;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *ret, int size, int) { return snprintf(ret, (size_t)size, "0000:3B:00.0"), cudaSuccess; }
/* BRR_EMULATED_DRIVER: the CUDA version that the driver serves, as cudaDriverGetVersion counts; 0 = there is none. */
cudaError_t cudaDriverGetVersion(int *version) {
    const char *wanted = getenv("BRR_EMULATED_DRIVER");
    return *version = wanted ? atoi(wanted) : CUDART_VERSION, cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0, cudaSuccess; }
cudaError_t cudaGetLastError(void) { return emulator_fault; }
cudaError_t cudaPeekAtLastError(void) { return emulator_fault; }
const char *cudaGetErrorString(cudaError_t code) {
    return code == cudaSuccess                 ? "no error"
           : code == cudaErrorIllegalAddress   ? "an illegal memory access was encountered"
           : code == cudaErrorMemoryAllocation ? "out of memory"
                                               : "another error";
}
const char *cudaGetErrorName(cudaError_t code) {
    return code == cudaSuccess                 ? "cudaSuccess"
           : code == cudaErrorIllegalAddress   ? "cudaErrorIllegalAddress"
           : code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                               : "cudaError";
}

/* ---- what products.cu does with cuBLASLt ---- */

struct cuda_products *cuda_products_open(struct device *, struct err *) {
    return (struct cuda_products *)malloc(1);
}
void cuda_products_close(struct cuda_products *p) { free(p); }
void cuda_products_version(int loaded[3], int compiled[3]) {
    for (int i = 0; i < 3; i++)
        loaded[i] = compiled[i] = i == 0 ? CUDART_VERSION / 1000 : 0;
}
int cuda_gemm(struct stream *s, const struct cuda_gemm *g, struct err *) {
    cuda_gemm_plain(s, g);
    return 0;
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
