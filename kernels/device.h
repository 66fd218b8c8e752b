/* device: where tensors live and ops run; a stream is an ordered queue of ops on it with its own scratch.
 * One thread at a time per stream. CPU: ops run at once on the calling thread and the one OpenMP pool (oneDNN's).
 * Opening "cuda:N" in a build or on a machine without it is an error, never a CPU in disguise. */
#ifndef BRR_KERNELS_DEVICE_H
#define BRR_KERNELS_DEVICE_H
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
    int threads;  /* CPU */
    int has_bf16; /* bf16 arithmetic is native */
};

/* First thing in main of a program that computes beside others: its idle threads sleep instead of spinning, which costs a lone
 * program little and one beside others several times less. The OpenMP runtime reads this only when a process starts, so the
 * program executes itself once more; OMP_WAIT_POLICY or GOMP_SPINCOUNT in the environment stand. */
void device_share_processors(char **argv);
/* Lists what is usable: index 0 is always "cpu". Returns the number written. */
int device_list(struct device_info *infos, int max);
/* "cpu" or "cuda:N". threads: CPU threads, 0 = all; OMP_THREAD_LIMIT bounds them. */
int device_open(const char *name, int threads, struct device **ret, struct err *err);
void device_close(struct device *dev); /* streams and memory must be gone; NULL is fine */
void device_describe(const struct device *dev, struct device_info *ret);
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
/* Wait for all that was queued; reports asynchronous faults. */
int stream_sync(struct stream *s, struct err *err);

#endif
