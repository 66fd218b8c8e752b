/* device: memory, streams, copies and the op table of the CUDA backend. */
#include "kernels/cuda/cudnn.cuh"
#include "kernels/cuda/nvml.cuh"
#include "kernels/cuda/weights.cuh"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/str.h"
}

static unsigned long opened; /* bit i: this process has opened device i, which has a context then */

/* Every block handed out, so that freeing knows its size. */
struct cuda_block {
    struct cuda_block *next;
    void *data;
    size_t bytes;
};

struct cuda_device {
    int ordinal;
    pthread_mutex_t lock;
    struct cuda_block *blocks;
    char bus[32];          /* its address, "" when CUDA does not tell */
    pthread_mutex_t asked; /* guards what follows */
    bool has_asked;
    struct nvml *nvml; /* from the first question on; NULL: it tells nothing */
};
static struct cuda_device *state_of(const struct device *dev) { return (struct cuda_device *)dev->state; }

int cuda_enter(struct device *dev, const char *what, struct err *err) {
    cudaError_t code = cudaSetDevice(state_of(dev)->ordinal);
    return code == cudaSuccess ? 0 : cuda_failed(dev, what, code, err);
}

/* The same for what is queued on s. A stream that records was entered when it began to, by the same thread, and until it ends no
 * call is made that is not work for it. */
static int enter_stream(struct stream *s, const char *what, struct err *err) {
    return s->recording ? 0 : cuda_enter(s->device, what, err);
}

/* Free bytes, and the total that is the process's own: from CUDA where the process uses the device already, else from the driver's
 * management library. A context, which CUDA would make to answer, takes half a gigabyte on each device of the machine. */
static void free_memory(int ordinal, struct device_info *ret) {
    size_t free_bytes = 0, total_bytes = 0;
    int before = 0;
    if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE) >> ordinal & 1) {
        cudaGetDevice(&before);
        if (cudaSetDevice(ordinal) == cudaSuccess && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
            ret->free_bytes = (int64_t)free_bytes;
            ret->total_bytes = (int64_t)total_bytes;
        }
        cudaSetDevice(before);
        cudaGetLastError();
        return;
    }
    char bus[32];
    struct device_health health = {};
    struct nvml *nvml = cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) == cudaSuccess ? nvml_open(bus) : NULL;
    health.memory_used_bytes = health.memory_total_bytes = -1;
    if (nvml)
        nvml_read(nvml, &health);
    nvml_close(nvml);
    if (health.memory_used_bytes >= 0 && health.memory_total_bytes > 0)
        ret->free_bytes = health.memory_total_bytes - health.memory_used_bytes;
}

static int cuda_describe(int ordinal, int threads, struct device_info *ret, struct err *err) {
    (void)threads;
    int count = 0, rc = cuda_check_driver(err);
    if (rc)
        return rc;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || ordinal >= count) {
        cudaGetLastError();
        return err_set(err, ERR_NOT_FOUND, "device cuda:%d is not there: %s", ordinal,
                       code == cudaSuccess ? (count ? "the machine has fewer GPUs" : "the machine has no GPU")
                                           : cudaGetErrorString(code));
    }
    struct cudaDeviceProp p;
    if ((code = cudaGetDeviceProperties(&p, ordinal)) != cudaSuccess)
        return err_set(err, ERR_INTERNAL, "cuda:%d: reading its properties: %s", ordinal, cudaGetErrorString(code));
    if (p.major < 8)
        return err_set(err, ERR_UNSUPPORTED, "cuda:%d is %s, sm_%d%d; sm_80 or newer is needed", ordinal, p.name, p.major, p.minor);
    memset(ret, 0, sizeof *ret);
    str_format(ret->name, sizeof ret->name, "cuda:%d", ordinal);
    str_format(ret->description, sizeof ret->description, "%s, sm_%d%d", p.name, p.major, p.minor);
    ret->total_bytes = ret->free_bytes = (int64_t)p.totalGlobalMem;
    free_memory(ordinal, ret);
    ret->has_bf16 = 1;
    ret->is_async = 1;
    const char *graphs = getenv("BRR_CUDA_GRAPHS");
    ret->has_graphs = !graphs || strcmp(graphs, "0") != 0;
    return 0;
}

static int cuda_open(struct device *dev, int ordinal, int threads, struct err *err) {
    (void)threads;
    struct cuda_device *d = (struct cuda_device *)calloc(1, sizeof *d);
    if (!d)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
    d->ordinal = ordinal;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->asked, NULL);
    dev->state = d;
    int rc = cuda_enter(dev, "opening the device", err);
    if (!rc && cudaDeviceGetPCIBusId(d->bus, sizeof d->bus, ordinal) != cudaSuccess) {
        cudaGetLastError();
        d->bus[0] = 0;
    }
    if (rc) {
        pthread_mutex_destroy(&d->lock);
        pthread_mutex_destroy(&d->asked);
        free(d);
        return rc;
    }
    __atomic_or_fetch(&opened, 1UL << ordinal, __ATOMIC_RELEASE);
    return 0;
}

static void cuda_close(struct device *dev) {
    pthread_mutex_destroy(&state_of(dev)->lock);
    pthread_mutex_destroy(&state_of(dev)->asked);
    nvml_close(state_of(dev)->nvml);
    free(dev->state);
}

/* A program that never asks pays nothing for it. */
static void cuda_health(struct device *dev, struct device_health *ret) {
    struct cuda_device *d = state_of(dev);
    pthread_mutex_lock(&d->asked);
    if (!d->has_asked && d->bus[0])
        d->nvml = nvml_open(d->bus);
    d->has_asked = true;
    if (d->nvml)
        nvml_read(d->nvml, ret);
    pthread_mutex_unlock(&d->asked);
}

static int take_memory(struct device *dev, size_t bytes, bool host, void **ret, struct err *err) {
    int rc = cuda_enter(dev, "allocating memory", err);
    if (rc)
        return rc;
    size_t size = bytes ? bytes : 1;
    struct cuda_block *block = (struct cuda_block *)malloc(sizeof *block);
    if (!block)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
    cudaError_t code = host ? cudaHostAlloc(&block->data, size, cudaHostAllocDefault) : cudaMalloc(&block->data, size);
    if (code != cudaSuccess) {
        free(block);
        size_t free_bytes = 0, total_bytes = 0;
        cudaGetLastError();
        if (code != cudaErrorMemoryAllocation || cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
            return cuda_failed(dev, "allocating memory", code, err);
        return err_set(err, ERR_EXHAUSTED, "%s: %zu MiB of %s memory wanted; %zu of %zu MiB of the device are free", dev->info.name,
                       bytes >> 20, host ? "pinned host" : "device", free_bytes >> 20, total_bytes >> 20);
    }
    if (host)
        memset(block->data, 0, size);
    else if ((code = cudaMemset(block->data, 0, size)) != cudaSuccess || (code = cudaStreamSynchronize(0)) != cudaSuccess) {
        cudaFree(block->data);
        free(block);
        return cuda_failed(dev, "zeroing memory", code, err);
    }
    struct cuda_device *d = state_of(dev);
    block->bytes = bytes;
    pthread_mutex_lock(&d->lock);
    block->next = d->blocks;
    d->blocks = block;
    pthread_mutex_unlock(&d->lock);
    __atomic_add_fetch(&dev->live_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    *ret = block->data;
    return 0;
}

static void give_memory(struct device *dev, void *data, bool host) {
    struct cuda_device *d = state_of(dev);
    pthread_mutex_lock(&d->lock);
    struct cuda_block **at = &d->blocks, *block;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    block = *at;
    if (block)
        *at = block->next;
    pthread_mutex_unlock(&d->lock);
    if (!block)
        return;
    __atomic_sub_fetch(&dev->live_bytes, (int64_t)block->bytes, __ATOMIC_RELAXED);
    size_t bytes = block->bytes;
    free(block);
    if (!host)
        cuda_weights_forget(dev, NULL, data, bytes);
    cudaSetDevice(d->ordinal);
    if (host)
        cudaFreeHost(data);
    else
        cudaFree(data);
}

static int cuda_alloc(struct device *dev, size_t bytes, void **ret, struct err *err) {
    return take_memory(dev, bytes, false, ret, err);
}
static void cuda_free(struct device *dev, void *data) { give_memory(dev, data, false); }
static int cuda_alloc_host(struct device *dev, size_t bytes, void **ret, struct err *err) {
    return take_memory(dev, bytes, true, ret, err);
}
static void cuda_free_host(struct device *dev, void *data) { give_memory(dev, data, true); }

static void cuda_stream_close(struct stream *s) {
    struct cuda_stream *cs = cuda_stream(s);
    cudaSetDevice(state_of(s->device)->ordinal);
    if (cs->own)
        cudaStreamSynchronize(cs->own);
    cudnn_close(cs->cudnn);
    if (cs->own)
        cudaStreamDestroy(cs->own);
    if (cs->reached)
        cudaEventDestroy(cs->reached);
    if (cs->done)
        cudaEventDestroy(cs->done);
    cuda_weights_forget(s->device, s, NULL, 0);
    if (cs->products)
        cuda_products_close(cs->products);
    if (cs->scratch)
        cuda_free(s->device, cs->scratch);
    if (cs->workspace)
        cuda_free(s->device, cs->workspace);
    if (cs->staging)
        cuda_free_host(s->device, cs->staging);
    free(cs);
    s->state = NULL;
}

static int cuda_stream_open(struct stream *s, enum stream_priority priority, struct err *err) {
    struct device *dev = s->device;
    int rc = cuda_enter(dev, "opening a stream", err), least = 0, greatest = 0;
    struct cuda_stream *cs = rc ? NULL : (struct cuda_stream *)calloc(1, sizeof *cs);
    if (!cs)
        return rc ? rc : err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
    s->state = cs;
    cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (code == cudaSuccess)
        code = cudaStreamCreateWithPriority(&cs->own, cudaStreamNonBlocking, priority == STREAM_HIGH ? greatest : least);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&cs->reached, cudaEventDisableTiming);
    if (code == cudaSuccess && priority == STREAM_NORMAL)
        code = cudaEventCreateWithFlags(&cs->done, cudaEventDisableTiming | cudaEventBlockingSync);
    cs->stream = cs->own;
    if (code != cudaSuccess)
        rc = cuda_failed(dev, "opening a stream", code, err);
    if (!rc)
        rc = cuda_alloc(dev, CUDA_WORKSPACE_BYTES, &cs->workspace, err);
    if (!rc)
        rc = cuda_alloc_host(dev, CUDA_STAGING_BYTES, (void **)&cs->staging, err);
    if (!rc && !(cs->products = cuda_products_open(dev, err)))
        rc = err ? err->code : ERR_INTERNAL;
    if (rc)
        cuda_stream_close(s);
    return rc;
}

static int cuda_stream_adopt(struct stream *s, uintptr_t handle, struct err *err) {
    (void)err;
    cuda_stream(s)->stream = (cudaStream_t)handle;
    return 0;
}

/* More scratch than there is. */
static int grow_scratch(struct stream *s, size_t bytes, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    if (s->recording)
        return err_set(err, ERR_PRECONDITION, "%s: recorded work must have run once before: it asks for new scratch",
                       s->device->info.name);
    cudaError_t code = cudaStreamSynchronize(cs->stream); /* earlier ops may still use what is given back */
    if (code != cudaSuccess)
        return cuda_failed(s->device, "growing scratch", code, err);
    if (cs->scratch)
        cuda_free(s->device, cs->scratch);
    cs->scratch = NULL;
    cs->scratch_bytes = 0;
    stream_new_epoch(s);
    int rc = cuda_alloc(s->device, bytes, &cs->scratch, err);
    if (rc)
        return rc;
    __atomic_add_fetch(&s->device->allocations, 1, __ATOMIC_RELAXED);
    cs->scratch_bytes = bytes;
    return 0;
}

int cuda_scratch(struct stream *s, size_t bytes, void **ret, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    if (s->memory.lent)
        return stream_take_lent(s, bytes, ret, err);
    int rc = bytes > cs->scratch_bytes ? grow_scratch(s, bytes, err) : 0;
    *ret = cs->scratch;
    return rc;
}

static int cuda_copy(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err) {
    int rc = enter_stream(s, "copying", err);
    cudaError_t code = rc ? cudaSuccess : cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, cuda_stream(s)->stream);
    return code == cudaSuccess ? rc : cuda_failed(s->device, "copying", code, err);
}

static int cuda_zero(struct stream *s, void *dst, size_t bytes, struct err *err) {
    int rc = enter_stream(s, "zeroing", err);
    cudaError_t code = rc ? cudaSuccess : cudaMemsetAsync(dst, 0, bytes, cuda_stream(s)->stream);
    return code == cudaSuccess ? rc : cuda_failed(s->device, "zeroing", code, err);
}

/* The thread of a live stream spins, which is the faster; that of a job sleeps, and leaves the processor to the readers. */
static cudaError_t wait_for(struct cuda_stream *cs) {
    if (!cs->done)
        return cudaStreamSynchronize(cs->stream);
    cudaError_t code = cudaEventRecord(cs->done, cs->stream);
    return code == cudaSuccess ? cudaEventSynchronize(cs->done) : code;
}

static int cuda_sync(struct stream *s, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    int rc = cuda_enter(s->device, "waiting for the stream", err);
    if (rc)
        return rc;
    cudaError_t code = wait_for(cs);
    cs->staging_used = 0;
    if (code != cudaSuccess)
        return cuda_failed(s->device, "waiting for the stream: an op queued before failed", code, err);
    return 0;
}

int cuda_upload(struct stream *s, void *dst, const void *host, size_t bytes, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    if (s->recording)
        return err_set(err, ERR_PRECONDITION, "%s: an op with host arguments cannot be recorded", s->device->info.name);
    for (size_t done = 0; done < bytes;) {
        if (cs->staging_used >= CUDA_STAGING_BYTES) {
            cudaError_t code = cudaStreamSynchronize(cs->stream);
            if (code != cudaSuccess)
                return cuda_failed(s->device, "copying arguments", code, err);
            cs->staging_used = 0;
        }
        size_t room = CUDA_STAGING_BYTES - cs->staging_used, n = bytes - done < room ? bytes - done : room;
        char *from = cs->staging + cs->staging_used;
        memcpy(from, (const char *)host + done, n);
        cudaError_t code = cudaMemcpyAsync((char *)dst + done, from, n, cudaMemcpyHostToDevice, cs->stream);
        if (code != cudaSuccess)
            return cuda_failed(s->device, "copying arguments", code, err);
        cs->staging_used += (n + 63) / 64 * 64;
        done += n;
    }
    return 0;
}

/* The table's entries: the device made current before, launch faults collected after. */
static int leave(struct stream *s, const char *op, int rc, struct err *err) {
    cudaError_t code = cudaGetLastError();
    return rc || code == cudaSuccess ? rc : cuda_failed(s->device, op, code, err);
}
#define CUDA_ENTRY(op, args)                                                                                                       \
    static int enter_##op(struct stream *s, const struct args *a, struct err *err) {                                               \
        int rc = enter_stream(s, "op " #op, err);                                                                                  \
        return rc ? rc : leave(s, "op " #op, cuda_##op(s, a, err), err);                                                           \
    }
OP_MAP(CUDA_ENTRY)
#undef CUDA_ENTRY

static const struct op_table cuda_ops = {.name = "cuda",
#define CUDA_ROW(op, args) .op = enter_##op,
                                         OP_MAP(CUDA_ROW)
#undef CUDA_ROW
};

extern "C" __attribute__((visibility("default"))) uint64_t brr_cuda_layout(void) { return backend_layout(); }

extern "C" __attribute__((visibility("default"))) const struct backend *brr_cuda_backend(void) {
    static const struct backend backend = {
        .name = "cuda",
        .ops = &cuda_ops,
        .describe = cuda_describe,
        .open = cuda_open,
        .close = cuda_close,
        .alloc = cuda_alloc,
        .free = cuda_free,
        .alloc_host = cuda_alloc_host,
        .free_host = cuda_free_host,
        .stream_open = cuda_stream_open,
        .stream_adopt = cuda_stream_adopt,
        .borrow = nullptr, // threads have no settings here
        .give_back = nullptr,
        .stream_close = cuda_stream_close,
        .copy = cuda_copy,
        .zero = cuda_zero,
        .sync = cuda_sync,
        .wait = cuda_wait,
        .check = nullptr, // any thread may enqueue
        .record = cuda_record,
        .record_end = cuda_record_end,
        .replay = cuda_replay,
        .forget = cuda_forget,
        .health = cuda_health,
        .rates = nullptr, // measured as any user of its ops would
        .mark = cuda_mark,
        .between = cuda_between,
        .unmark = cuda_unmark,
        .range = cuda_range,
        .parts = cuda_parts,
        .comm_offer = cuda_comm_offer,
        .comm_open = cuda_comm_open,
        .comm_exchange = cuda_comm_exchange,
        .comm_close = cuda_comm_close,
        .reach = cuda_reach,
        .signal = cuda_signal,
        .await = cuda_await,
    };
    return &backend;
}
