/* checker: the compiler (-fsanitize=thread) calls here at every access of kernels/cuda to memory, in place of the thread
 * sanitizer's own library. Of each word of device and shared memory it is known who wrote and who read last: `when` counts
 * barriers, blocks and launches, which run one after another, so a number tells whether that was since the last barrier, in this
 * block, in this launch.
 *   - A kernel goes to memory that is allocated, of its own device or one that it was given access to, to the variables of its
 * block, to its stack; else it is an illegal address.
 *   - Two threads at one place, one of them writing, with no barrier between them; or two blocks of one launch. Atomic operations
 *     may meet one another, but no plain access.
 *   - Shared memory read before anything was written there in this block. */
#include "emulator.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORD = 4, NOBODY = 0xfffe, SEVERAL = 0xffff };
enum way { READ, WRITE, ADD }; /* ADD: an atomic operation, which comes in any order with others of its kind */

/* Of a word, byte by byte: the thread of interval `when` that was there (16 bits each), and whether any was in its block or launch.
 */
struct access {
    uint64_t threads;
    uint32_t when;
    uint8_t in_block, in_launch; /* bits: in the block of `when`; in earlier ones of its launch */
};
struct word {
    struct access wrote, read, added;
};

static struct {
    const char *kernel;
    int device;                  /* whose kernel */
    uint32_t now, launch, block; /* now, and when this launch and this block began */
    uintptr_t stacks, library, data;
    size_t stacks_bytes, library_bytes, data_bytes;
    struct word *global, *shared;
} seen;

/* The library that the kernels lie in: its variables are the blocks' shared memory, but for the emulator's own. */
static int find_library(struct dl_phdr_info *info, size_t, void *) {
    uintptr_t here = (uintptr_t)&seen, from = UINTPTR_MAX, to = 0;
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type != PT_LOAD)
            continue;
        from = start < from ? start : from;
        to = end > to ? end : to;
        if (here >= start && here < end) {
            ours = true;
            seen.data = start / WORD * WORD;
            seen.data_bytes = end - seen.data;
        }
    }
    if (ours) {
        seen.library = from;
        seen.library_bytes = to - from;
    }
    return ours;
}

static struct word *shadow(size_t bytes) {
    void *p =
        mmap(NULL, bytes / WORD * sizeof(struct word), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        emulator_die("no memory to note accesses in");
    madvise(p, bytes / WORD * sizeof(struct word), MADV_HUGEPAGE);
    return (struct word *)p;
}

void checker_kernel(const char *name, int device) {
    if (!seen.global) {
        block_stacks(&seen.stacks, &seen.stacks_bytes);
        dl_iterate_phdr(find_library, NULL);
        seen.global = shadow(memory_bytes);
        seen.shared = shadow(seen.data_bytes + WORD);
    }
    seen.kernel = name;
    seen.device = device;
    seen.launch = ++seen.now;
    if (seen.now > UINT32_MAX - (1U << 24)) { /* before the count begins anew, all is forgotten */
        madvise(seen.global, memory_bytes / WORD * sizeof(struct word), MADV_DONTNEED);
        memset(seen.shared, 0, seen.data_bytes / WORD * sizeof(struct word));
        seen.launch = seen.now = 1;
    }
}
void checker_block(void) { seen.block = ++seen.now; }
void checker_barrier(void) { seen.now++; }

[[noreturn]] static void report(enum way way, uintptr_t at, size_t n, bool global, const char *why) {
    emulator_die("%s: thread %u of block (%u,%u,%u) %s %zu bytes of %s memory at +%zu %s", seen.kernel, emulator_place.thread.x,
                 emulator_place.block.x, emulator_place.block.y, emulator_place.block.z,
                 way == ADD     ? "adds to"
                 : way == WRITE ? "writes"
                                : "reads",
                 n, global ? "device" : "shared", (size_t)(at - (global ? memory_base : seen.data)), why);
}

static inline uint64_t for_all(uint16_t thread) { return thread * 0x0001000100010001ull; }
static inline uint64_t bits_of(uint8_t bytes) { /* 16 for each byte */
    uint64_t spread = (bytes & 1) | (uint64_t)(bytes & 2) << 15 | (uint64_t)(bytes & 4) << 30 | (uint64_t)(bytes & 8) << 45;
    return spread * 0xffff;
}

/* What was there before `now` is put where it belongs by now. */
static inline void age(struct access *a) {
    if (a->when == seen.now)
        return;
    if (a->when < seen.launch)
        a->in_block = a->in_launch = 0;
    else if (a->when < seen.block) {
        a->in_launch |= a->in_block;
        a->in_block = 0;
    }
    a->threads = for_all(NOBODY);
    a->when = seen.now;
}

/* Whether nobody but this thread was there since the last barrier. */
static inline bool is_ours(const struct access *a, uint8_t bytes) {
    uint64_t bits = bits_of(bytes), there = a->threads & bits;
    if (there == (for_all(NOBODY) & bits) || there == (for_all((uint16_t)emulator_place.thread.x) & bits))
        return true;
    for (int i = 0; i < WORD; i++) {
        uint16_t thread = (uint16_t)(a->threads >> 16 * i);
        if (bytes >> i & 1 && thread != NOBODY && thread != emulator_place.thread.x)
            return false;
    }
    return true;
}

static inline void note(struct access *a, uint8_t bytes) {
    uint16_t me = (uint16_t)emulator_place.thread.x, first = (uint16_t)a->threads;
    uint64_t bits = bits_of(bytes);
    if (!~bits && a->threads == for_all(first)) /* a whole word, all of whose bytes the same thread touched last */
        a->threads = for_all(first == NOBODY || first == me ? me : (uint16_t)SEVERAL);
    else if (is_ours(a, bytes))
        a->threads = (a->threads & ~bits) | (for_all(me) & bits);
    else
        for (int i = 0; i < WORD; i++) {
            uint16_t was = (uint16_t)(a->threads >> 16 * i), is = was == NOBODY || was == me ? me : (uint16_t)SEVERAL;
            if (bytes >> i & 1)
                a->threads = (a->threads & ~(0xffffull << 16 * i)) | (uint64_t)is << 16 * i;
        }
    a->in_block |= bytes;
}

/* Ends the program when what was done there before, and what is done now, may come in either order. */
static inline void check_order(const struct access *a, const char *did, uint8_t bytes, enum way way, uintptr_t at, size_t n,
                               bool global) {
    bool ours = is_ours(a, bytes);
    if (ours && !(global && a->in_launch & bytes))
        return;
    char why[96];
    snprintf(why, sizeof why, ours ? "that another block of this launch %s" : "that another thread %s since the last barrier", did);
    report(way, at, n, global, why);
}

template <enum way way, bool global> static inline void check_word(struct word *w, uintptr_t at, size_t n, uint8_t bytes) {
    age(&w->wrote);
    age(&w->read);
    age(&w->added);
    check_order(&w->wrote, "wrote", bytes, way, at, n, global);
    if (way != READ)
        check_order(&w->read, "read", bytes, way, at, n, global);
    if (way != ADD)
        check_order(&w->added, "added to", bytes, way, at, n, global);
    if (way != WRITE && !global && ((w->wrote.in_block | w->added.in_block) & bytes) != bytes)
        report(way, at, n, global, "where nothing was written before");
    note(way == WRITE ? &w->wrote : way == READ ? &w->read : &w->added, bytes);
}

template <enum way way, bool global> static inline void check_words(struct word *words, uintptr_t offset, uintptr_t at, size_t n) {
    if (offset % WORD == 0 && n % WORD == 0) { /* most accesses are to whole words */
        for (struct word *w = &words[offset / WORD], *end = w + n / WORD; w < end; w++)
            check_word<way, global>(w, at, n, (1U << WORD) - 1);
        return;
    }
    for (uintptr_t from = offset, end = offset + n; from < end;) {
        uintptr_t stop = (from / WORD + 1) * WORD;
        stop = stop < end ? stop : end;
        uint8_t bytes = (uint8_t)(((1U << (stop - from)) - 1) << from % WORD);
        check_word<way, global>(&words[from / WORD], at, n, bytes);
        from = stop;
    }
}

template <enum way way> static inline void touch(const void *p, size_t n) {
    uintptr_t at = (uintptr_t)p, frame = (uintptr_t)__builtin_frame_address(0);
    if (!emulator_place.in_kernel || frame - seen.stacks >= seen.stacks_bytes || at - seen.stacks < seen.stacks_bytes)
        return; /* not a kernel; its own variables */
    if (at - (uintptr_t)&emulator_place < sizeof emulator_place && way == READ)
        return;
    if (at - memory_base < memory_bytes) {
        size_t offset = at - memory_base;
        bool there = at % n == 0 && offset % MEMORY_UNIT + n <= memory_valid[offset / MEMORY_UNIT];
        if (there && emulator_reaches(seen.device, memory_owner[offset / MEMORY_UNIT])) {
            check_words<way, true>(seen.global, offset, at, n);
            return;
        }
    } else if (at - seen.data < seen.data_bytes) {
        check_words<way, false>(seen.shared, at - seen.data, at, n);
        return;
    } else if (at - seen.library < seen.library_bytes && way == READ) {
        return; /* constants */
    }
    fprintf(stderr, "emulator: %s: thread %u of block (%u,%u,%u) %s %zu bytes at %p, where no device memory of that alignment is\n",
            seen.kernel, emulator_place.thread.x, emulator_place.block.x, emulator_place.block.y, emulator_place.block.z,
            way == READ ? "reads" : "writes", n, p);
    block_fault();
}

static bool checks; /* this library is the checked one */

#define ACCESS(n)                                                                                                                  \
    void __tsan_read##n(const void *p) { touch<READ>(p, n); }                                                                      \
    void __tsan_write##n(const void *p) { touch<WRITE>(p, n); }
#define UNALIGNED(n)                                                                                                               \
    void __tsan_unaligned_read##n(const void *p) { touch<READ>(p, n); }                                                            \
    void __tsan_unaligned_write##n(const void *p) { touch<WRITE>(p, n); }
/* Structs: element by element as wide as the range allows. */
template <enum way way> static void touch_range(const void *p, size_t n) {
    for (size_t i = 0, step = n % WORD || (uintptr_t)p % WORD ? 1 : WORD; i < n; i += step)
        touch<way>((const char *)p + i, step);
}
extern "C" {
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)
void __tsan_read_range(const void *p, size_t n) { touch_range<READ>(p, n); }
void __tsan_write_range(const void *p, size_t n) { touch_range<WRITE>(p, n); }
void __tsan_init(void) { checks = true; }
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
}

/* One thread of the emulator runs at a time, so that these need not be more than plain ones; only their order is free. */
int atomicAdd(int *p, int v) {
    if (checks)
        touch<ADD>(p, sizeof *p);
    int was = *p;
    *p = (int)((unsigned)was + (unsigned)v);
    return was;
}
unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {
    if (checks)
        touch<ADD>(p, sizeof *p);
    unsigned long long was = *p;
    *p = was + v;
    return was;
}
unsigned atomicOr(unsigned *p, unsigned v) {
    if (checks)
        touch<ADD>(p, sizeof *p);
    unsigned was = *p;
    *p = was | v;
    return was;
}
unsigned __nv_atomic_load_n(const unsigned *p, int, int) {
    if (checks)
        touch<ADD>(p, sizeof *p);
    return *p;
}
