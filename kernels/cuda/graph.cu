/* graph: order between streams, and recorded work as CUDA graphs. Recording is that of the calling thread's stream alone: other
 * threads go on allocating and launching meanwhile. */
#include "kernels/cuda/cuda.cuh"

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
