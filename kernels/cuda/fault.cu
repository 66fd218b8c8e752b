/* fault: what a failing call of the CUDA runtime means, and whether the device can still be used. */
#include "kernels/cuda/cuda.cuh"

/* Faults after which every call of the process on this device fails (CUDA runtime API, descriptions of cudaError). */
static bool cannot_be_survived(cudaError_t code) {
    static const cudaError_t faults[] = {cudaErrorIllegalAddress,     cudaErrorMisalignedAddress,   cudaErrorInvalidAddressSpace,
                                         cudaErrorInvalidPc,          cudaErrorIllegalInstruction,  cudaErrorHardwareStackError,
                                         cudaErrorLaunchFailure,      cudaErrorLaunchTimeout,       cudaErrorAssert,
                                         cudaErrorECCUncorrectable,   cudaErrorNvlinkUncorrectable, cudaErrorUnknown,
                                         cudaErrorContextIsDestroyed, cudaErrorExternalDevice};
    enum { CONTAINED = 226, MPS_CLIENT_TERMINATED = 810 }; /* by number: not in every header that this is built with */
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (code == faults[i])
            return true;
    return (int)code == CONTAINED || (int)code == MPS_CLIENT_TERMINATED;
}

int cuda_failed(struct device *dev, const char *what, cudaError_t code, struct err *err) {
    bool memory = code == cudaErrorMemoryAllocation, lost = cannot_be_survived(code);
    cudaGetLastError(); /* what can be cleared is cleared */
    if (lost)
        __atomic_store_n(&dev->lost, true, __ATOMIC_RELEASE);
    return err_set(err, memory ? ERR_EXHAUSTED : ERR_INTERNAL, "%s: %s: %s (%s)%s", dev->info.name, what, cudaGetErrorString(code),
                   cudaGetErrorName(code), lost ? "; the device is lost to this process: start it again" : "");
}
