/* device: where tensors live and ops run; a stream is an ordered queue of ops on it with its own scratch. One thread at a time per
 * stream. CPU: ops run at once on the calling thread and the one OpenMP pool (oneDNN's). Opening "cuda:N" in a build or on a
 * machine without it is an error; there is no silent substitute. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/turns.h"

struct device;
struct stream;
struct op_table;

struct device_info {
    char name[32];         /* "cpu", "cpu:1", "cuda:0" */
    char description[128]; /* "AMD EPYC …, avx512 avx512_bf16, 2 threads", "NVIDIA H200, sm_90" */
    int64_t total_bytes, free_bytes;
    int threads;    /* CPU */
    int has_bf16;   /* bf16 arithmetic is native */
    int is_async;   /* ops are queued and run asynchronously, in the device's own memory */
    int has_graphs; /* work can be recorded and replayed; BRR_CUDA_GRAPHS=0 in the environment disables it */
};

/* A component that devices need beside this program: a driver, a library. */
struct device_part {
    char name[24], version[64]; /* version: the version found, "" when absent */
    bool fits;
    char fix[256]; /* the fix when it is unsuitable, else "" */
};

/* Reasons for reduced clocks; several may apply at once. */
#define DEVICE_SLOWDOWNS(X)                                                                                                        \
    X(IDLE, "idle")                           /* idle */                                                                           \
    X(CLOCK_SETTING, "clock_setting")         /* lowered by a setting */                                                           \
    X(DISPLAY_CLOCK, "display_clock_setting") /* limited by a display's clocks */                                                  \
    X(SYNC_BOOST, "sync_boost")               /* limited by another device of its group */                                         \
    X(POWER_CAP, "power_cap")                 /* at the power limit */                                                             \
    X(THERMAL, "thermal")                     /* too warm: lowered by the driver */                                                \
    X(HW_THERMAL, "hw_thermal")               /* too hot: halved or more by the chip */                                            \
    X(HW_POWER_BRAKE, "hw_power_brake")       /* requested by the machine's power supply */                                        \
    X(HW_SLOWDOWN, "hw_slowdown")             /* by the chip, for one of the two above or another reason */
enum device_slowdown {
#define DEVICE_SLOWDOWN_ENUM(name, text) DEVICE_SLOWDOWN_##name,
    DEVICE_SLOWDOWNS(DEVICE_SLOWDOWN_ENUM)
#undef DEVICE_SLOWDOWN_ENUM
        DEVICE_SLOWDOWN_COUNT
};

/* Errors reported by the driver, with NVIDIA's number of their kind. */
enum { DEVICE_ERROR_KINDS = 16, DEVICE_ERROR_OTHER = -1 };
struct device_errors {
    int xid; /* DEVICE_ERROR_OTHER: all kinds beyond the array's size */
    int64_t count;
};

/* The device's report of its condition. Unknown values are NaN, -1 or "", never 0. */
struct device_health {
    bool reported;        /* false: no report (the CPU, a machine without the driver's library) */
    bool unreachable;     /* lost to the driver: off the bus, or in need of a reset */
    int index;            /* the driver's number of the device; CUDA's differs under CUDA_VISIBLE_DEVICES */
    char model[96];       /* "NVIDIA H200" */
    char uuid[96];        /* "GPU-…" */
    char driver[80];      /* the driver's version */
    char reset[96];       /* the command that resets the device, for people */
    double temperature_c; /* of the chip */
    double power_w;       /* present power */
    double energy_j;      /* energy since the driver was loaded; restarts at 0 with it */
    double utilization;   /* share of the last second or less in which something ran, 0..1 */
    int64_t memory_used_bytes, memory_total_bytes;
    int64_t ecc_corrected, ecc_uncorrected; /* memory errors since the driver was loaded or the device reset */
    int repair_pending;                     /* 1: bad memory will be replaced at the next reset */
    int repair_failed;                      /* 1: bad memory, and no spare memory to replace it */
    int slowed;                             /* bit i: enum device_slowdown i reduces its clocks */
    int error_kinds;                        /* number of errors[] seen since the first report */
    struct device_errors errors[DEVICE_ERROR_KINDS];
};

/* Lists the usable devices (no GPU that is too old): index 0 is "cpu", for every "cpu:N". Returns the number written. */
int device_list(struct device_info *infos, int max);
/* Lists the components that CUDA devices need here, suitable or not; returns the number of rows. None: this build has no CUDA
 * backend. */
int device_parts(struct device_part *parts, int max);
/* Describes `name` if it can be opened; otherwise the error states what is missing and the fix. */
int device_probe(const char *name, struct device_info *ret, struct err *err);
/* "cpu", "cpu:N" or "cuda:N". "cpu" and every "cpu:N" are the processors of the machine: each is a device of its own, with its own
 * streams, parking and count of threads. threads: CPU threads, 0 = all; OMP_THREAD_LIMIT bounds them. */
int device_open(const char *name, int threads, struct device **ret, struct err *err);
/* The same for one of `shares` CPU devices of a process: total_bytes and free_bytes of its info are its share of the memory. */
int device_open_share(const char *name, int threads, int shares, struct device **ret, struct err *err);
void device_close(struct device *dev); /* streams and memory must be freed before; takes NULL */
void device_describe(const struct device *dev, struct device_info *ret);
/* True after a fault that no later call survives (an illegal address, an uncorrectable memory error): everything on this device
 * fails until the process restarts. Any thread. */
bool device_lost(const struct device *dev);
/* Reads the device's condition: takes milliseconds, more at the first call; streams may run meanwhile. Any thread. */
void device_health(struct device *dev, struct device_health *ret);
/* Joules drawn between two reports; NaN when either has no energy counter, or the counter was reset in between. */
double device_health_energy(const struct device_health *before, const struct device_health *after);
const char *device_slowdown_name(enum device_slowdown reason);
/* The instruction set of the CPU kernels: "scalar", "avx2", "avx512". BRR_ISA in the environment lowers it. */
const char *device_isa(void);

/* Device memory, 64-byte aligned, zeroed. EXHAUSTED states the bytes requested and free. */
int device_alloc(struct device *dev, size_t bytes, void **ret, struct err *err);
void device_free(struct device *dev, void *data);
/* Host memory from which the device copies at full speed (pinned on CUDA). */
int device_alloc_host(struct device *dev, size_t bytes, void **ret, struct err *err);
void device_free_host(struct device *dev, void *data);
/* Bytes and number of allocations made through this device so far (tests prove that steps allocate nothing). */
void device_alloc_stats(const struct device *dev, int64_t *ret_live_bytes, int64_t *ret_allocations);

/* The work of a STREAM_HIGH stream runs before that of normal streams; on the CPU device_live_begin makes normal streams wait. */
enum stream_priority { STREAM_NORMAL, STREAM_HIGH };
/* Open a stream on the thread that will use it. On the CPU that thread and its pool then flush subnormal
 * floats, and its parallel regions have the device's threads: ops on a thread with another number of threads are refused
 * (INTERNAL). */
int stream_open(struct device *dev, enum stream_priority priority, struct stream **ret, struct err *err);
/* Between device_live_begin and device_live_end the normal streams of a CPU park: each sleeps before its next op, so that live
 * windows share the processors with one op at most. A stream sleeps at most nine tenths of each second, so that a job goes on
 * whatever arrives. Calls nest. Devices with queues of their own (is_async) run streams by priority, and both calls do nothing. Any
 * thread. */
void device_live_begin(struct device *dev);
void device_live_end(struct device *dev);
/* The count of live batches lies in memory that processes share, from before any stream is opened. counts: this process begins and
 * ends live batches; else its streams park for those of the other. */
void device_share_live(struct device *dev, int *count, bool counts);
/* The stream computes in turns with those of other jobs (kernels/turns.h). */
void stream_share(struct stream *s, struct turn_at turn);
/* Sleeps while live windows run, as an op of this stream would; for work that runs elsewhere in its place. */
void stream_give_way(struct stream *s);
/* How long the oldest call at work on the device (an op, a copy, a wait for the stream) has taken, in milliseconds; 0 when there is
 * none. Any thread. */
int64_t device_busy_ms(struct device *dev);
void stream_close(struct stream *s);
double stream_parked_s(const struct stream *s); /* seconds that the stream has slept for live windows so far */
struct device *stream_device(const struct stream *s);
/* Copies are ordered with the ops of the stream; host memory must stay valid until stream_sync. */
int stream_to_device(struct stream *s, void *dst, const void *host_src, size_t bytes, struct err *err);
int stream_to_host(struct stream *s, void *host_dst, const void *src, size_t bytes, struct err *err);
int stream_zero(struct stream *s, void *dst, size_t bytes, struct err *err);
int stream_copy(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err); /* device to device */
/* Work queued on s from now on runs after all work now queued on `earlier`, a stream of the same device. */
int stream_wait(struct stream *s, struct stream *earlier, struct err *err);
/* Waits for all queued work; reports asynchronous faults. */
int stream_sync(struct stream *s, struct err *err);

/* Names what the ops from now on are for, for profiles and profilers; NULL: nothing. name: static text. */
void stream_phase(struct stream *s, const char *name);

/* Recording: between stream_record and stream_record_end ops and device copies are recorded and do not run; graph_run queues the
 * whole sequence at once. Addresses, shapes and plain arguments are those of the recording; values that change between runs lie in
 * device memory. The same sequence must have run once on the stream before, so that memory has grown and algorithms are chosen. Ops
 * with host arguments (lengths) cannot be recorded. UNSUPPORTED where stream_records is false: on a device without has_graphs, and
 * while ops are timed one by one (kernels/profile.h). */
struct graph;
bool stream_records(const struct stream *s);
int stream_record(struct stream *s, struct err *err);
/* keep false: drops the recording, and *ret may be NULL. The stream stops recording in every case. */
int stream_record_end(struct stream *s, bool keep, struct graph **ret, struct err *err);
/* Runs on the stream of the recording; PRECONDITION when that stream's working memory has moved since (stream_epoch). */
int graph_run(struct graph *g, struct stream *s, struct err *err);
/* It must not be running. Takes NULL. */
void graph_free(struct graph *g);
/* ---- in a program that is not ours (client/scan) ---- */

/* The stream's ops queue on this stream of the program from now on: a cudaStream_t as a number, 0 and 2 (per thread) as CUDA has
 * them. It must outlive the ops. UNSUPPORTED on the CPU, whose ops have run when they return. */
int stream_adopt(struct stream *s, uintptr_t handle, struct err *err);
/* Ops take their working memory from the caller's `bytes` at `data`, aligned to 256 bytes, and allocate none; an op that needs more
 * fails with EXHAUSTED before it computes, and stream_needed says how much. lend false: the stream's own memory again. */
void stream_lend(struct stream *s, bool lend, void *data, size_t bytes);
size_t stream_needed(const struct stream *s);
/* The calling thread, which opened no stream, computes until stream_give_back as the stream's own: its parallel regions have the
 * stream's threads, and it flushes subnormal floats. The threads of its team do so only while they compute a selective scan, a
 * depthwise convolution or a row norm; other ops are not for borrowed threads. */
struct stream_loan {
    struct stream *stream;
    int threads, dynamic;
    unsigned subnormals;
};
void stream_borrow(struct stream *s, struct stream_loan *ret);
void stream_give_back(const struct stream_loan *loan);

/* Identifies a stream and its working memory: differs between streams and after the memory has grown. */
uint64_t stream_epoch(const struct stream *s);
