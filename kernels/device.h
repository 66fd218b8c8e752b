/* device: where tensors live and ops run; a stream is an ordered queue of ops on it with its own scratch.
 * One thread at a time per stream. CPU: ops run at once on the calling thread and the one OpenMP pool (oneDNN's).
 * Opening "cuda:N" in a build or on a machine without it is an error, never a CPU in disguise. */
#ifndef BRR_KERNELS_DEVICE_H
#define BRR_KERNELS_DEVICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct device;
struct stream;
struct op_table;

struct device_info {
    char name[32];         /* "cpu", "cuda:0" */
    char description[128]; /* "AMD EPYC …, avx512 avx512_bf16, 2 threads", "NVIDIA H200, sm_90" */
    int64_t total_bytes, free_bytes;
    int threads;    /* CPU */
    int has_bf16;   /* bf16 arithmetic is native */
    int is_async;   /* ops are queued and run beside the caller, in memory of the device's own */
    int has_graphs; /* work can be recorded and run again; BRR_CUDA_GRAPHS=0 in the environment takes it away */
};

/* Something that devices need beside this program: a driver, a library. */
struct device_part {
    char name[24], version[64]; /* version: what was found, "" when absent */
    bool fits;
    char mend[256]; /* what to do when it does not fit, else "" */
};

/* What can hold a device's clocks down; several may at once. */
#define DEVICE_SLOWDOWNS(X)                                                                                                        \
    X(IDLE, "idle")                           /* nothing runs */                                                                   \
    X(CLOCK_SETTING, "clock_setting")         /* somebody set them lower */                                                        \
    X(DISPLAY_CLOCK, "display_clock_setting") /* those of a display */                                                             \
    X(SYNC_BOOST, "sync_boost")               /* another device of its group */                                                    \
    X(POWER_CAP, "power_cap")                 /* it draws as much as it may */                                                     \
    X(THERMAL, "thermal")                     /* too warm, the driver lowers them */                                               \
    X(HW_THERMAL, "hw_thermal")               /* too hot, the chip halves them or worse */                                         \
    X(HW_POWER_BRAKE, "hw_power_brake")       /* the machine's power supply asks for it */                                         \
    X(HW_SLOWDOWN, "hw_slowdown")             /* the chip does it, for one of the two above or another */
enum device_slowdown {
#define DEVICE_SLOWDOWN_ENUM(name, text) DEVICE_SLOWDOWN_##name,
    DEVICE_SLOWDOWNS(DEVICE_SLOWDOWN_ENUM)
#undef DEVICE_SLOWDOWN_ENUM
        DEVICE_SLOWDOWN_COUNT
};

/* Errors that the driver reports, by NVIDIA's number of their kind. */
enum { DEVICE_ERROR_KINDS = 16, DEVICE_ERROR_OTHER = -1 };
struct device_errors {
    int xid; /* DEVICE_ERROR_OTHER: all kinds for which there was no more room */
    int64_t count;
};

/* What a device tells of its own condition. What it does not tell is NaN, -1 or "", never 0. */
struct device_health {
    bool told;            /* false: it tells nothing (the CPU, a machine without the driver's library) */
    bool unreachable;     /* the driver has lost it: it fell off the bus, or wants a reset before anything else */
    int index;            /* the driver's number of it; CUDA's differs where CUDA_VISIBLE_DEVICES chooses */
    char model[96];       /* "NVIDIA H200" */
    char uuid[96];        /* "GPU-…" */
    char driver[80];      /* its version */
    char reset[96];       /* the command that resets it, for people */
    double temperature_c; /* of the chip */
    double power_w;       /* drawn now */
    double energy_j;      /* drawn since the driver was loaded; goes back to 0 with it */
    double utilization;   /* share of the last second or less in which something ran, 0..1 */
    int64_t memory_used_bytes, memory_total_bytes;
    int64_t ecc_corrected, ecc_uncorrected; /* memory errors since the driver was loaded or the device reset */
    int repair_pending;                     /* 1: it will replace bad memory at its next reset */
    int repair_failed;                      /* 1: bad memory, and nothing left to replace it by */
    int slowed;                             /* bit i: enum device_slowdown i holds its clocks down */
    int error_kinds;                        /* how many of errors[] there are: those seen since it was first asked */
    struct device_errors errors[DEVICE_ERROR_KINDS];
};

/* First thing in main of a program that computes beside others: its idle threads sleep instead of spinning, which costs a lone
 * program little and one beside others several times less. The OpenMP runtime reads this only when a process starts, so the
 * program executes itself once more; OMP_WAIT_POLICY or GOMP_SPINCOUNT in the environment stand. */
void device_share_processors(char **argv);
/* Lists what is usable: index 0 is always "cpu". Returns the number written. */
int device_list(struct device_info *infos, int max);
/* What CUDA devices stand on here, fit or not; the rows written. No row: this build has no CUDA backend. */
int device_parts(struct device_part *parts, int max);
/* Whether `name` can be opened, and what it is; the error says what is missing and the mend. */
int device_probe(const char *name, struct device_info *ret, struct err *err);
/* "cpu" or "cuda:N". threads: CPU threads, 0 = all; OMP_THREAD_LIMIT bounds them. */
int device_open(const char *name, int threads, struct device **ret, struct err *err);
void device_close(struct device *dev); /* streams and memory must be gone; NULL is fine */
void device_describe(const struct device *dev, struct device_info *ret);
/* A fault of the kind that no call survives (an illegal address, an uncorrectable memory error) has happened: everything on this
 * device fails until the process is started again. Any thread. */
bool device_lost(const struct device *dev);
/* Asks how the device is: milliseconds, at the first call more, and whatever its streams do meanwhile. Any thread. */
void device_health(struct device *dev, struct device_health *ret);
/* Joules drawn between two reports; NaN when either has no energy counter, or the counter was reset in between. */
double device_health_energy(const struct device_health *before, const struct device_health *after);
const char *device_slowdown_name(enum device_slowdown reason);
/* The instruction set the CPU kernels chose: "scalar", "avx2", "avx512". BRR_ISA in the environment lowers it. */
const char *device_isa(void);

/* Device memory, 64-byte aligned, zeroed. EXHAUSTED names the bytes wanted and free. */
int device_alloc(struct device *dev, size_t bytes, void **ret, struct err *err);
void device_free(struct device *dev, void *data);
/* Host memory that the device copies from at full speed (pinned on CUDA). */
int device_alloc_host(struct device *dev, size_t bytes, void **ret, struct err *err);
void device_free_host(struct device *dev, void *data);
/* Bytes and number of allocations made so far through this device (tests prove that steps allocate nothing). */
void device_alloc_stats(const struct device *dev, int64_t *ret_live_bytes, int64_t *ret_allocations);

enum stream_priority { STREAM_NORMAL, STREAM_HIGH };
/* Open a stream on the thread that will use it. On the CPU that thread and its pool flush subnormal floats from then on. */
int stream_open(struct device *dev, enum stream_priority priority, struct stream **ret, struct err *err);
void stream_close(struct stream *s);
struct device *stream_device(const struct stream *s);
/* Copies are ordered with the ops of the stream; host memory must stay until stream_sync. */
int stream_to_device(struct stream *s, void *dst, const void *host_src, size_t bytes, struct err *err);
int stream_to_host(struct stream *s, void *host_dst, const void *src, size_t bytes, struct err *err);
int stream_zero(struct stream *s, void *dst, size_t bytes, struct err *err);
int stream_copy(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err); /* device to device */
/* What is queued on s from now on runs after all that is queued on `earlier`, of the same device, by now. */
int stream_wait(struct stream *s, struct stream *earlier, struct err *err);
/* Wait for all that was queued; reports asynchronous faults. */
int stream_sync(struct stream *s, struct err *err);

/* Recording: between stream_record and stream_record_end ops and device copies are noted down and do not run; graph_run queues the
 * whole sequence as one. Addresses, shapes and plain arguments are those of the recording; what changes between runs lies in
 * device memory. The same sequence must have run once on the stream before, so that memory has grown and algorithms are chosen. Ops
 * with host arguments (lengths) cannot be recorded. UNSUPPORTED on a device without has_graphs. */
struct graph;
int stream_record(struct stream *s, struct err *err);
/* keep false: drop it, and *ret may be NULL. The stream records no longer, whatever is returned. */
int stream_record_end(struct stream *s, bool keep, struct graph **ret, struct err *err);
/* On the stream it was recorded on; PRECONDITION when that stream's working memory has moved since (stream_epoch). */
int graph_run(struct graph *g, struct stream *s, struct err *err);
/* Nothing of it may be running. NULL is fine. */
void graph_free(struct graph *g);
/* Names a stream and the place of its working memory: another number for another stream, and after its memory has grown. */
uint64_t stream_epoch(const struct stream *s);

#endif
