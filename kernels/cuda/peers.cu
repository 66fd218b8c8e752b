/* peers: what kernels/peers.h needs of CUDA: kernels of one GPU that read the memory of another, and order between their streams.
 */
#include "kernels/cuda/cuda.cuh"

#include <stdlib.h>
#include <string.h>

static int ordinal_here(struct device *dev, int *ret, struct err *err) {
    int rc = cuda_enter(dev, "access to another device", err);
    cudaError_t code = rc ? cudaSuccess : cudaGetDevice(ret);
    return code == cudaSuccess ? rc : cuda_failed(dev, "access to another device", code, err);
}

int cuda_reach(struct device *dev, struct device *other, struct err *err) {
    const char *wish = getenv("BRR_PEERS");
    int from = 0, to = 0, can = 0, rc;
    if (wish && !strcmp(wish, "0"))
        return err_set(err, ERR_UNSUPPORTED, "BRR_PEERS=0");
    if (other->backend != dev->backend)
        return err_set(err, ERR_UNSUPPORTED, "%s and %s are of two kinds", dev->info.name, other->info.name);
    if ((rc = ordinal_here(other, &to, err)) || (rc = ordinal_here(dev, &from, err)) || from == to)
        return rc;
    cudaError_t code = cudaDeviceCanAccessPeer(&can, from, to);
    if (code == cudaSuccess && can)
        code = cudaDeviceEnablePeerAccess(to, 0);
    if (code != cudaSuccess)
        cudaGetLastError();
    if (code == cudaErrorPeerAccessAlreadyEnabled)
        code = cudaSuccess;
    if (code == cudaSuccess && can)
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "%s cannot access the memory of %s%s%s", dev->info.name, other->info.name,
                   code == cudaSuccess ? "" : ": ", code == cudaSuccess ? "" : cudaGetErrorString(code));
}

int cuda_signal(struct stream *s, void **signal, struct err *err) {
    int rc = cuda_enter(s->device, "a signal to other devices", err);
    cudaEvent_t event = (cudaEvent_t)*signal;
    cudaError_t code = rc || event ? cudaSuccess : cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (rc)
        return rc;
    if (code == cudaSuccess) {
        *signal = event;
        code = cudaEventRecord(event, cuda_stream(s)->stream);
    }
    return code == cudaSuccess ? 0 : cuda_failed(s->device, "a signal to other devices", code, err);
}

int cuda_await(struct stream *s, void *signal, struct err *err) {
    int rc = cuda_enter(s->device, "waiting for another device", err);
    cudaError_t code = rc ? cudaSuccess : cudaStreamWaitEvent(cuda_stream(s)->stream, (cudaEvent_t)signal, 0);
    return code == cudaSuccess ? rc : cuda_failed(s->device, "waiting for another device", code, err);
}
