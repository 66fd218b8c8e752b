#include "kernels/cpu/cpu.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "base/pages.h"
#include "base/str.h"
#include "base/subnormals.h"

static const struct op_table cpu_ops = {.name = "cpu",
#define CPU_ROW(op, args) .op = cpu_##op,
                                        OP_MAP(CPU_ROW)
#undef CPU_ROW
};

/* Memory blocks remember their size for the statistics. */
struct block {
    size_t bytes;
    char pad[56];
};

static const char *const isas[] = {"scalar", "avx2", "avx512"};

/* The best the processor has, as an index of isas. */
static int best_isa(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return 1;
#endif
    return 0;
}

const char *device_isa(void) {
    int isa = best_isa();
    const char *wanted = getenv("BRR_ISA");
    for (int i = 0; wanted && i < isa; i++)
        if (!strcmp(wanted, isas[i]))
            isa = i;
    return isas[isa];
}

/* bf16 dot products in hardware, and not switched off through BRR_ISA. */
static bool has_bf16(void) {
#if defined(__x86_64__)
    return !strcmp(device_isa(), "avx512") && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

/* The value of a line "key : value" of a /proc file; an empty string where it is not to be read. */
static void read_proc(const char *path, const char *key, char *buf, size_t size) {
    *buf = '\0';
    FILE *f = fopen(path, "re");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strncmp(line, key, strlen(key)) ? NULL : strchr(line, ':');
        if (!colon)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        str_copy(buf, size, colon + 1 + strspn(colon + 1, " \t"));
        break;
    }
    if (f)
        fclose(f);
}

/* Memory that can be had without swapping: what is free and what the page cache would give back, at most what the container's limit
 * leaves. */
static int64_t available_bytes(const struct container_limits *limits) {
    char kib[32];
    read_proc("/proc/meminfo", "MemAvailable", kib, sizeof kib);
    int64_t machine = *kib ? strtoll(kib, NULL, 10) * 1024 : sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t used = limits->memory_used > 0 ? limits->memory_used : 0, own = limits->memory_bytes - used;
    return limits->memory_bytes >= 0 && own < machine ? (own > 0 ? own : 0) : machine;
}

enum { MOST_THREADS = 1024 };

static int cpu_describe(int ordinal, int threads, struct device_info *ret, struct err *err) {
    (void)ordinal;
    if (threads > MOST_THREADS)
        return err_set(err, ERR_INVALID, "%d threads; expected at most %d", threads, MOST_THREADS);
    *ret = (struct device_info){.name = "cpu"};
    char name[80];
    read_proc("/proc/cpuinfo", "model name", name, sizeof name);
    struct container_limits limits;
    container_read("", &limits);
    ret->total_bytes = container_memory(&limits, (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    ret->free_bytes = available_bytes(&limits);
    ret->threads = threads > 0 ? threads : container_processors(&limits, omp_get_num_procs());
    if (ret->threads > omp_get_thread_limit()) /* OMP_THREAD_LIMIT */
        ret->threads = omp_get_thread_limit();
    ret->has_bf16 = has_bf16();
    char of_container[64] = "";
    if (limits.memory_bytes >= 0 || limits.processors < omp_get_num_procs())
        str_copy(of_container, sizeof of_container, " (limited by its container)");
    str_format(ret->description, sizeof ret->description, "%s, %s%s, %d thread%s%s", *name ? name : "CPU", device_isa(),
               ret->has_bf16 ? " avx512_bf16" : "", ret->threads, ret->threads == 1 ? "" : "s", of_container);
    return 0;
}

static int cpu_open(struct device *dev, int ordinal, int threads, struct err *err) {
    (void)dev, (void)ordinal, (void)threads, (void)err;
    return 0;
}

static void cpu_close(struct device *dev) { (void)dev; }

static int cpu_alloc(struct device *dev, size_t bytes, void **ret, struct err *err) {
    size_t total = (bytes + sizeof(struct block) + 63) / 64 * 64;
    struct block *block = pages_alloc(total);
    if (!block)
        return err_set(err, ERR_EXHAUSTED, "cpu: %zu MiB of memory wanted, not to be had", bytes >> 20);
    memset(block, 0, total);
    block->bytes = bytes;
    __atomic_add_fetch(&dev->live_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    *ret = block + 1;
    return 0;
}

static void cpu_free(struct device *dev, void *data) {
    struct block *block = (struct block *)data - 1;
    __atomic_sub_fetch(&dev->live_bytes, (int64_t)block->bytes, __ATOMIC_RELAXED);
    free(block);
}

static int cpu_stream_open(struct stream *s, enum stream_priority priority, struct err *err) {
    (void)priority; /* ops run on the calling thread: its priority is the caller's affair */
    struct cpu_stream *cs = calloc(1, sizeof *cs);
    if (cs)
        cs->dnn = dnn_cache_new(s->device->info.threads);
    if (!cs || !cs->dnn) {
        free(cs);
        return err_set(err, ERR_EXHAUSTED, "cpu: out of memory opening a stream");
    }
    cs->threads = s->device->info.threads;
    lanes_set_here(cs->threads);
    /* They cost a hundred times a normal float, and a trained network's gradients are full of them. Helpers do as this thread. */
    (void)subnormals_flush();
    s->state = cs;
    return 0;
}

static void cpu_stream_close(struct stream *s) {
    struct cpu_stream *cs = s->state;
    dnn_cache_free(cs->dnn);
    device_free(s->device, cs->scratch.data);
    device_free(s->device, cs->sums.data);
    free(cs);
}

static void cpu_borrow(struct stream *s, struct stream_loan *ret) {
    ret->threads = lanes_set_here(cpu_threads(s));
    ret->subnormals = subnormals_flush();
}

static void cpu_give_back(const struct stream_loan *loan) {
    lanes_set_here(loan->threads);
    subnormals_restore(loan->subnormals);
}

static void *grown(struct stream *s, struct scratch *scratch, size_t bytes, struct err *err) {
    if (bytes <= scratch->bytes)
        return scratch->data;
    device_free(s->device, scratch->data);
    *scratch = (struct scratch){0};
    if (device_alloc(s->device, bytes, &scratch->data, err))
        return NULL;
    scratch->bytes = bytes;
    return scratch->data;
}

void *cpu_scratch(struct stream *s, size_t bytes, struct err *err) {
    void *data = NULL;
    if (!s->memory.lent)
        return grown(s, &cpu_stream(s)->scratch, bytes, err);
    return stream_take_lent(s, bytes, &data, err) ? NULL : data;
}

void *cpu_sums(struct stream *s, size_t bytes, struct err *err) { return grown(s, &cpu_stream(s)->sums, bytes, err); }

/* The lanes of the calling thread are those of the stream it opened last: a thread that opened no stream of this
 * size computes with subnormal floats. */
static int cpu_check(struct stream *s, struct err *err) {
    if (lanes_here() == cpu_threads(s))
        return 0;
    return err_set(err, ERR_INTERNAL,
                   "cpu: an op of a stream with %d threads on a thread that computes with %d; use a stream on the thread that "
                   "opened it, and streams of one device there",
                   cpu_threads(s), lanes_here());
}

static int cpu_copy(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err) {
    (void)s, (void)err;
    memcpy(dst, src, bytes);
    return 0;
}

static int cpu_zero(struct stream *s, void *dst, size_t bytes, struct err *err) {
    (void)s, (void)err;
    memset(dst, 0, bytes);
    return 0;
}

static int cpu_sync(struct stream *s, struct err *err) {
    (void)s, (void)err;
    return 0;
}

static int cpu_wait(struct stream *s, struct stream *earlier, struct err *err) {
    (void)s, (void)earlier, (void)err; /* ops have run when they return */
    return 0;
}

const struct backend *cpu_backend(void) {
    static const struct backend backend = {
        .name = "cpu",
        .ops = &cpu_ops,
        .describe = cpu_describe,
        .open = cpu_open,
        .close = cpu_close,
        .alloc = cpu_alloc,
        .free = cpu_free,
        .alloc_host = cpu_alloc,
        .free_host = cpu_free,
        .stream_open = cpu_stream_open,
        .borrow = cpu_borrow,
        .give_back = cpu_give_back,
        .stream_close = cpu_stream_close,
        .copy = cpu_copy,
        .zero = cpu_zero,
        .sync = cpu_sync,
        .wait = cpu_wait,
        .check = cpu_check,
        .rates = cpu_rates,
    };
    return &backend;
}
