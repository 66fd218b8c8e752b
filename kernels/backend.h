/* backend: the functions of a device implementation. Internal to kernels/. The CPU backend always exists; cuda_backend() returns
 * NULL in a build without CUDA. */
#pragma once
#include <pthread.h>

#include "base/world.h"
#include "kernels/device.h"
#include "kernels/op.h"

enum { COMM_ID_BYTES = 128 };

/* Each rank's description of its library and GPU; the ranks compare these before they open a communicator. */
struct comm_offer {
    int version;            /* of the library; 0: it is not there */
    char name[32];          /* "NCCL 2.28.3" */
    char gpu[96];           /* differs between the GPUs of all machines */
    char id[COMM_ID_BYTES]; /* rank 0's: of the communicator to be opened */
};
struct comm_place {
    const char *id;
    int rank, size, limit_ms;
};

struct rates;
struct backend {
    const char *name;
    const struct op_table *ops;
    int (*describe)(int ordinal, int threads, struct device_info *ret, struct err *err);
    int (*open)(struct device *dev, int ordinal, int threads, struct err *err);
    void (*close)(struct device *dev);
    int (*alloc)(struct device *dev, size_t bytes, void **ret, struct err *err); /* zeroed, 64-byte aligned */
    void (*free)(struct device *dev, void *data);
    int (*alloc_host)(struct device *dev, size_t bytes, void **ret, struct err *err);
    void (*free_host)(struct device *dev, void *data);
    int (*stream_open)(struct stream *s, enum stream_priority priority, struct err *err);
    int (*stream_adopt)(struct stream *s, uintptr_t handle, struct err *err); /* NULL in a backend without queues */
    /* Around ops that a guest of a program computes (stream_borrow); NULL where threads have no settings. */
    void (*borrow)(struct stream *s, struct stream_loan *ret);
    void (*give_back)(const struct stream_loan *loan);
    void (*stream_close)(struct stream *s);
    int (*copy)(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err); /* any direction */
    int (*zero)(struct stream *s, void *dst, size_t bytes, struct err *err);
    int (*sync)(struct stream *s, struct err *err);
    int (*wait)(struct stream *s, struct stream *earlier, struct err *err);
    /* INTERNAL when the calling thread cannot compute on the stream; NULL where every thread can. */
    int (*check)(struct stream *s, struct err *err);
    /* NULL in a backend without graphs. record_end with keep false drops the recording. */
    int (*record)(struct stream *s, struct err *err);
    int (*record_end)(struct stream *s, bool keep, void **ret, struct err *err);
    int (*replay)(struct stream *s, void *recorded, struct err *err);
    void (*forget)(struct device *dev, void *recorded);
    /* Fills in the device's report; *ret is initialised to "unknown" values. Any thread. NULL in a backend without reports. */
    void (*health)(struct device *dev, struct device_health *ret);
    int (*rates)(struct stream *s, struct rates *ret, struct err *err); /* NULL: as any user of its ops would measure them */
    /* An event of the stream, made if *mark is NULL, and the time between two of them, for which it waits. NULL in a backend that
     * computes at once. unmark takes NULL. */
    int (*mark)(struct stream *s, void **mark, struct err *err);
    int (*between)(struct device *dev, void *from, void *to, double *ret_s, struct err *err);
    void (*unmark)(struct device *dev, void *mark);
    /* Names what the calling thread does from now on, for the maker's profiler; ranges nest, NULL ends the newest. NULL in a
     * backend without one. */
    void (*range)(const char *name);
    int (*parts)(struct device_part *parts, int max); /* NULL in a backend that does not need it */
    /* Exchange with the devices of other ranks by a library of the device's maker; NULL in a backend without one. */
    int (*comm_offer)(struct device *dev, bool first, struct comm_offer *ret, struct err *err); /* first: this is rank 0 */
    /* All ranks of the world call it; UNAVAILABLE: another one did not come within the limit. */
    int (*comm_open)(struct device *dev, const struct comm_place *place, void **ret, struct err *err);
    /* As comm_exchange (kernels/comm.h); returns when the data have arrived. */
    int (*comm_exchange)(struct stream *s, void *comm, int peer, const struct world_parts *parts, int limit_ms, struct err *err);
    void (*comm_close)(void *comm); /* takes NULL; waits for no other rank */
    /* For kernels/peers.h; NULL in a backend that computes in host memory. Kernels of dev can read the memory of other, a device of
     * this process, from now on; UNSUPPORTED with the reason where they cannot. */
    int (*reach)(struct device *dev, struct device *other, struct err *err);
    /* Marks a place in the stream's work, and lets another stream, of any device, wait for the newest place marked before the call.
     * The signal is made if *signal is NULL; unmark ends it. */
    int (*signal)(struct stream *s, void **signal, struct err *err);
    int (*await)(struct stream *s, void *signal, struct err *err);
};

struct device {
    const struct backend *backend;
    struct device_info info;
    void *state; /* private to the backend */
    int64_t live_bytes, allocations;
    uint64_t epochs; /* allocated so far */
    bool lost;
    int own_batches, *live_batches; /* device_live_begin less device_live_end; own_batches, unless processes share the count */
    bool polls;                     /* another process counts: nobody here says when the count has become 0 */
    pthread_mutex_t lock;           /* of the streams' list, and of parking */
    pthread_cond_t resumed;         /* live_batches has become 0 */
    struct stream *streams;         /* open ones */
};

/* Working memory that a caller lends: scratch of the backend comes from here, and `needed` says how much an op asked for. */
struct stream_memory {
    bool lent;
    void *data;
    size_t bytes, needed;
};

struct stream {
    struct device *device;
    enum stream_priority priority;
    void *state;
    uint64_t epoch; /* changed by stream_new_epoch when working memory moves */
    bool recording;
    struct profile *profile;            /* NULL: nobody times its ops */
    const char *phase;                  /* static text; NULL: outside of any */
    struct stream *next, **link;        /* of the device's list */
    int64_t busy_since_ms;              /* 0: no call is at work */
    double second_s, slept_s, parked_s; /* the second that parking counts in, the sleep within it, and all sleep */
    struct stream_memory memory;        /* stream_lend */
    struct turn_at turn;                /* stream_share */
    bool queued;                        /* calls have begun since the stream was waited for */
};

/* Must be equal in the program and in a loaded library: the sizes of all structures that cross the boundary, in order. A library of
 * another build is refused by comparing them. */
static inline uint64_t backend_layout(void) {
    uint64_t layout = sizeof(struct backend);
#define BACKEND_MIX(op, args) layout = layout * 31 + sizeof(struct args);
    OP_MAP(BACKEND_MIX)
#undef BACKEND_MIX
    layout = layout * 31 + sizeof(struct tensor);
    layout = layout * 31 + sizeof(struct device_info);
    layout = layout * 31 + sizeof(struct comm_offer) + sizeof(struct comm_place) + sizeof(struct world_parts);
    layout = layout * 31 + sizeof(struct device_health) + sizeof(struct stream);
    return layout * 31 + sizeof(struct device_part);
}

struct graph {
    struct device *device;
    uint64_t epoch;
    void *recorded;
};
/* For backends: announces that the stream's working memory has moved; recordings that use it are invalid. */
static inline void stream_new_epoch(struct stream *s) { s->epoch = __atomic_add_fetch(&s->device->epochs, 1, __ATOMIC_RELAXED); }

/* For backends: scratch of `bytes` out of lent memory; EXHAUSTED when that is smaller. */
static inline int stream_take_lent(struct stream *s, size_t bytes, void **ret, struct err *err) {
    s->memory.needed = bytes;
    if (bytes > s->memory.bytes)
        return err_set(err, ERR_EXHAUSTED, "this call needs a workspace of %zu bytes; %zu were given", bytes, s->memory.bytes);
    *ret = s->memory.data;
    return 0;
}

/* Around each call of a backend that computes, copies or waits: waits for the turn of the stream's job, parks a normal stream of a
 * CPU, and keeps account of the time (device_busy_ms). drained: the call has waited for the stream. Errors of stream_enter are
 * those of earlier calls. */
int stream_enter(struct stream *s, struct err *err);
void stream_leave(struct stream *s, bool drained);

const struct backend *cpu_backend(void);
const struct backend *cuda_backend(void);
/* Why cuda_backend is NULL: the loader's message, or "" when there is no library to load. */
const char *cuda_backend_error(void);
