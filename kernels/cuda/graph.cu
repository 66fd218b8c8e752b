/* graph: order between streams, and recorded work as CUDA graphs. Recording is that of the calling thread's stream alone: other
 * threads go on allocating and launching meanwhile. */
#include "kernels/cuda/cuda.cuh"
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h> /* headers alone: the profiler brings the library */
#define HAS_RANGES 1
#else
#define HAS_RANGES 0
#endif

int cuda_wait(struct stream *s, struct stream *earlier, struct err *err) {
    int rc = cuda_enter(s->device, "waiting for another stream", err);
    cudaEvent_t reached = cuda_stream(earlier)->reached;
    cudaError_t code = rc ? cudaSuccess : cudaEventRecord(reached, cuda_stream(earlier)->stream);
    if (!rc && code == cudaSuccess)
        code = cudaStreamWaitEvent(cuda_stream(s)->stream, reached, 0);
    return code == cudaSuccess ? rc : cuda_failed(s->device, "waiting for another stream", code, err);
}

int cuda_record(struct stream *s, struct err *err) {
    int rc = cuda_enter(s->device, "recording", err);
    cudaError_t code = rc ? cudaSuccess : cudaStreamBeginCapture(cuda_stream(s)->stream, cudaStreamCaptureModeThreadLocal);
    cuda_stream(s)->recordings++;
    return code == cudaSuccess ? rc : cuda_failed(s->device, "recording", code, err);
}

int cuda_record_end(struct stream *s, bool keep, void **ret, struct err *err) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    cudaError_t code = cudaStreamEndCapture(cuda_stream(s)->stream, &graph);
    if (code == cudaSuccess && keep)
        code = cudaGraphInstantiate(&ready, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (code != cudaSuccess) {
        int rc = cuda_failed(s->device, "recording", code, err);
        return keep ? rc : 0; /* what spoiled a recording that is dropped has been reported */
    }
    *ret = ready;
    return 0;
}

int cuda_replay(struct stream *s, void *recorded, struct err *err) {
    int rc = cuda_enter(s->device, "running recorded work", err);
    cudaError_t code = rc ? cudaSuccess : cudaGraphLaunch((cudaGraphExec_t)recorded, cuda_stream(s)->stream);
    return code == cudaSuccess ? rc : cuda_failed(s->device, "running recorded work", code, err);
}

void cuda_forget(struct device *dev, void *recorded) {
    if (recorded && !cuda_enter(dev, "forgetting recorded work", NULL))
        cudaGraphExecDestroy((cudaGraphExec_t)recorded);
}

int cuda_mark(struct stream *s, void **mark, struct err *err) {
    int rc = cuda_enter(s->device, "an event", err);
    cudaEvent_t event = (cudaEvent_t)*mark;
    cudaError_t code = rc || event ? cudaSuccess : cudaEventCreateWithFlags(&event, cudaEventDefault);
    if (rc)
        return rc;
    if (code == cudaSuccess) {
        *mark = event;
        code = cudaEventRecord(event, cuda_stream(s)->stream);
    }
    return code == cudaSuccess ? 0 : cuda_failed(s->device, "an event", code, err);
}

int cuda_between(struct device *dev, void *from, void *to, double *ret_s, struct err *err) {
    float ms = 0;
    int rc = cuda_enter(dev, "the time between events", err);
    if (rc)
        return rc;
    cudaError_t code = cudaEventSynchronize((cudaEvent_t)to);
    code = code == cudaSuccess ? cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to) : code;
    *ret_s = ms * 1e-3;
    return code == cudaSuccess ? 0 : cuda_failed(dev, "the time between events", code, err);
}

void cuda_unmark(struct device *dev, void *mark) {
    if (mark && !cuda_enter(dev, "an event", NULL))
        cudaEventDestroy((cudaEvent_t)mark);
}

void cuda_range(const char *name) {
#if HAS_RANGES
    if (name)
        nvtxRangePushA(name);
    else
        nvtxRangePop();
#else
    (void)name;
#endif
}
