/* nccl: exchange with the GPUs of other ranks by NVIDIA's library NCCL (2.14 or newer), which is loaded when ranks first share a
 * job; programs start without it. Two ranks send and receive in one group; sums are made by the caller, in its own order, so that
 * the bits are those of every other transport. The communicator does not block: each call that a peer must answer is looked at
 * until it is done, late or failed, and one that failed is aborted. */
#include "kernels/cuda/cuda.cuh"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern "C" {
#include "base/str.h"
}

/* As nccl.h has them, which is not needed to build this. */
typedef struct ncclComm *nccl_comm;
struct nccl_id {
    char bytes[COMM_ID_BYTES];
};
struct nccl_config { /* the fields of version 2.14; later versions fill in the others */
    size_t size;
    unsigned magic, version;
    int blocking;
};
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1, NCCL_2_14 = 21400, NCCL_MAGIC = (int)0xcafebeefu };

/* Function of the library, type of its arguments. */
#define NCCL_FUNCTIONS(X)                                                                                                          \
    X(ncclGetVersion, (int *ret))                                                                                                  \
    X(ncclGetUniqueId, (struct nccl_id * ret))                                                                                     \
    X(ncclCommInitRankConfig, (nccl_comm * ret, int size, struct nccl_id id, int rank, struct nccl_config *config))                \
    X(ncclCommGetAsyncError, (nccl_comm comm, int *ret))                                                                           \
    X(ncclCommAbort, (nccl_comm comm))                                                                                             \
    X(ncclGroupStart, (void))                                                                                                      \
    X(ncclGroupEnd, (void))                                                                                                        \
    X(ncclSend, (const void *data, size_t count, int type, int peer, nccl_comm comm, cudaStream_t stream))                         \
    X(ncclRecv, (void *data, size_t count, int type, int peer, nccl_comm comm, cudaStream_t stream))

static struct {
    int version; /* 0: not there, or too old */
    const char *(*ncclGetErrorString)(int code);
#define NCCL_MEMBER(name, arguments) int(*name) arguments;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
} api; /* written once, under `once` */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    const char *wish = getenv("BRR_NCCL");
    setenv("NCCL_NVLS_ENABLE", "0", 0); /* memory for collectives that are not used */
    void *library = wish && !strcmp(wish, "0") ? NULL : dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
    int version = 0;
    if (!whole)
        return;
#define NCCL_FIND(name, arguments) whole = (*(void **)&api.name = dlsym(library, #name)) != NULL && whole;
    NCCL_FIND(ncclGetErrorString, )
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    if (whole && api.ncclGetVersion(&version) == NCCL_SUCCESS && version >= NCCL_2_14)
        api.version = version;
}

struct cuda_comm {
    struct device *device;
    nccl_comm comm; /* NULL: not open, or aborted */
    cudaEvent_t done;
};

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Ranks that wait sleep between looks: there may be more of them than processors. */
static void nap(void) {
    const struct timespec turn = {0, 50000};
    nanosleep(&turn, NULL);
}

static int nccl_failed(const struct cuda_comm *c, const char *what, int code, struct err *err) {
    return err_set(err, ERR_UNAVAILABLE, "%s: %s: NCCL: %s (%d)", c->device->info.name, what, api.ncclGetErrorString(code), code);
}

static int late(const struct cuda_comm *c, const char *what, int limit_ms, struct err *err) {
    return err_set(err, ERR_UNAVAILABLE, "%s: %s: another rank did not come within %d s", c->device->info.name, what,
                   limit_ms / 1000);
}

/* The state of the communicator once it is no longer in progress. */
static int settle(const struct cuda_comm *c, const char *what, int64_t until_ms, int limit_ms, struct err *err) {
    int state = NCCL_IN_PROGRESS;
    for (;; nap()) {
        int code = api.ncclCommGetAsyncError(c->comm, &state);
        if (code != NCCL_SUCCESS || (state != NCCL_SUCCESS && state != NCCL_IN_PROGRESS))
            return nccl_failed(c, what, code != NCCL_SUCCESS ? code : state, err);
        if (state == NCCL_SUCCESS)
            return 0;
        if (now_ms() > until_ms)
            return late(c, what, limit_ms, err);
    }
}

/* Until the event is reached. */
static int await_event(const struct cuda_comm *c, const char *what, int64_t until_ms, int limit_ms, struct err *err) {
    for (;; nap()) {
        int state = NCCL_SUCCESS;
        cudaError_t code = cudaEventQuery(c->done);
        if (code == cudaSuccess)
            return 0;
        if (code != cudaErrorNotReady)
            return cuda_failed(c->device, what, code, err);
        cudaGetLastError(); /* else the next op would take "not ready" for its own */
        if (api.ncclCommGetAsyncError(c->comm, &state) != NCCL_SUCCESS || (state != NCCL_SUCCESS && state != NCCL_IN_PROGRESS))
            return nccl_failed(c, what, state, err);
        if (now_ms() > until_ms)
            return late(c, what, limit_ms, err);
    }
}

/* A GPU of the machine, by the start of its system and its address. */
static void name_gpu(struct device *dev, char *ret, size_t size) {
    char boot[40] = "", bus[32] = "";
    int ordinal = 0;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f && !fgets(boot, sizeof boot, f))
        boot[0] = 0;
    if (f)
        fclose(f);
    boot[strcspn(boot, "\n")] = 0;
    if (cuda_enter(dev, "naming the device", NULL) || cudaGetDevice(&ordinal) != cudaSuccess ||
        cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) != cudaSuccess)
        cudaGetLastError();
    str_format(ret, size, "%s %s", boot, bus);
}

int cuda_comm_offer(struct device *dev, bool first, struct comm_offer *ret, struct err *err) {
    struct nccl_id id = {};
    pthread_once(&once, load);
    memset(ret, 0, sizeof *ret);
    if (!api.version)
        return 0;
    name_gpu(dev, ret->gpu, sizeof ret->gpu);
    if (first) {
        int code = api.ncclGetUniqueId(&id);
        if (code != NCCL_SUCCESS)
            return err_set(err, ERR_UNAVAILABLE, "%s: NCCL cannot begin an exchange: %s; BRR_NCCL=0 exchanges through host memory",
                           dev->info.name, api.ncclGetErrorString(code));
        memcpy(ret->id, &id, sizeof id);
    }
    ret->version = api.version;
    str_format(ret->name, sizeof ret->name, "NCCL %d.%d.%d", api.version / 10000, api.version / 100 % 100, api.version % 100);
    return 0;
}

void cuda_comm_close(void *comm) {
    struct cuda_comm *c = (struct cuda_comm *)comm;
    if (!c)
        return;
    cuda_enter(c->device, "closing an exchange", NULL);
    if (c->comm)
        api.ncclCommAbort(c->comm); /* waits for nobody; each exchange was waited for */
    if (c->done)
        cudaEventDestroy(c->done);
    free(c);
}

int cuda_comm_open(struct device *dev, const struct comm_place *place, void **ret, struct err *err) {
    struct nccl_config config = {sizeof config, (unsigned)NCCL_MAGIC, NCCL_2_14, 0};
    struct nccl_id id;
    int rc = cuda_enter(dev, "opening an exchange", err);
    struct cuda_comm *c = rc ? NULL : (struct cuda_comm *)calloc(1, sizeof *c);
    if (!c)
        return rc ? rc : err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
    c->device = dev;
    memcpy(&id, place->id, sizeof id);
    cudaError_t code = cudaEventCreateWithFlags(&c->done, cudaEventDisableTiming);
    int state = api.ncclCommInitRankConfig(&c->comm, place->size, id, place->rank, &config);
    if (code != cudaSuccess)
        rc = cuda_failed(dev, "opening an exchange", code, err);
    else if (state != NCCL_SUCCESS && state != NCCL_IN_PROGRESS)
        rc = nccl_failed(c, "opening an exchange", state, err);
    else
        rc = settle(c, "opening an exchange", now_ms() + place->limit_ms, place->limit_ms, err);
    if (rc) {
        cuda_comm_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

/* Both directions in one group. */
static int queue_group(struct cuda_comm *c, cudaStream_t stream, int peer, const struct world_parts *p) {
    int code = api.ncclGroupStart(), end;
    if (code != NCCL_SUCCESS)
        return code;
    if (p->out_bytes)
        code = api.ncclSend(p->out, p->out_bytes, NCCL_UINT8, peer, c->comm, stream);
    if (p->in_bytes && (code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS))
        code = api.ncclRecv(p->in, p->in_bytes, NCCL_UINT8, peer, c->comm, stream);
    end = api.ncclGroupEnd();
    return code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS ? end : code;
}

static int run_group(struct cuda_comm *c, cudaStream_t stream, int peer, const struct world_parts *p, int limit_ms,
                     struct err *err) {
    static const char what[] = "an exchange with another rank";
    const int64_t until_ms = now_ms() + limit_ms;
    int code = queue_group(c, stream, peer, p), rc;
    if (code != NCCL_SUCCESS && code != NCCL_IN_PROGRESS)
        return nccl_failed(c, what, code, err);
    if ((rc = settle(c, what, until_ms, limit_ms, err)))
        return rc;
    cudaError_t recorded = cudaEventRecord(c->done, stream);
    return recorded == cudaSuccess ? await_event(c, what, until_ms, limit_ms, err) : cuda_failed(c->device, what, recorded, err);
}

int cuda_comm_exchange(struct stream *s, void *comm, int peer, const struct world_parts *parts, int limit_ms, struct err *err) {
    struct cuda_comm *c = (struct cuda_comm *)comm;
    int rc = cuda_enter(c->device, "an exchange with another rank", err);
    if (rc)
        return rc;
    if (!c->comm)
        return err_set(err, ERR_UNAVAILABLE, "%s: an earlier exchange with other ranks has failed", c->device->info.name);
    if ((rc = run_group(c, cuda_stream(s)->stream, peer, parts, limit_ms, err))) {
        api.ncclCommAbort(c->comm); /* what waits on the device for the peer ends */
        c->comm = NULL;
    }
    return rc;
}
