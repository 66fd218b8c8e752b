/* memory: the device's lies in one range of addresses that nobody but kernels and copies can touch, and is not given out again soon
 * after it was freed. Allocations are byte-exact: what a kernel does behind one's end is an illegal address. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

const size_t memory_bytes = (size_t)8 << 30;
uintptr_t memory_base;
uint16_t *memory_valid;
uint8_t *memory_owner;
static std::map<size_t, size_t> taken; /* units: from, how many */
static size_t cursor;
static int opened;
static bool readable;

static void *reserve(size_t bytes, int protection) {
    void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        emulator_die("no addresses for device memory");
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void prepare(void) {
    if (memory_base)
        return;
    memory_valid = (uint16_t *)reserve(memory_bytes / MEMORY_UNIT * sizeof *memory_valid, PROT_READ | PROT_WRITE);
    memory_owner = (uint8_t *)reserve(memory_bytes / MEMORY_UNIT, PROT_READ | PROT_WRITE);
    memory_base = (uintptr_t)reserve(memory_bytes, PROT_NONE);
}

/* It is shut once in a while only: that costs time, and a host that goes where it must not does so again. */
void memory_open(void) {
    if (!opened++ && !readable)
        mprotect((void *)memory_base, memory_bytes, PROT_READ | PROT_WRITE);
    readable = true;
}
void memory_shut(void) {
    if (--opened || emulator_chance(8))
        return;
    mprotect((void *)memory_base, memory_bytes, PROT_NONE);
    readable = false;
}

bool memory_holds(const void *p, size_t bytes) {
    if (!memory_is_device(p))
        return true;
    for (size_t from = (uintptr_t)p - memory_base, end = from + bytes; from < end;) {
        size_t stop = (from / MEMORY_UNIT + 1) * MEMORY_UNIT;
        stop = stop < end ? stop : end;
        if (stop > memory_bytes || from % MEMORY_UNIT + (stop - from) > memory_valid[from / MEMORY_UNIT])
            return false;
        from = stop;
    }
    return true;
}

/* The first gap from the cursor on, a unit free on both sides. */
static bool find_gap(size_t units, size_t from, size_t *ret) {
    auto next = taken.lower_bound(from);
    if (next != taken.begin()) {
        auto before = std::prev(next);
        from = std::max(from, before->first + before->second + 1);
    }
    for (; next != taken.end(); next++) {
        if (from + units + 1 <= next->first)
            break;
        from = next->first + next->second + 1;
    }
    *ret = from;
    return from + units + 1 <= memory_bytes / MEMORY_UNIT;
}

cudaError_t memory_take(void **ret, size_t bytes) {
    std::lock_guard<std::recursive_mutex> lock(emulator_gate);
    prepare();
    size_t units = (bytes + MEMORY_UNIT - 1) / MEMORY_UNIT, at;
    if (bytes > memory_bytes || (!find_gap(units, cursor, &at) && !find_gap(units, 1, &at)))
        return cudaErrorMemoryAllocation;
    taken[at] = units;
    cursor = at + units + 1;
    memset(memory_owner + at, emulator_current(), units);
    for (size_t i = 0; i < units; i++)
        memory_valid[at + i] = (uint16_t)(i + 1 < units ? (size_t)MEMORY_UNIT : bytes - i * MEMORY_UNIT);
    *ret = (void *)(memory_base + at * MEMORY_UNIT);
    memory_open();
    memset(*ret, 0xff, bytes); /* NaN, whatever is read before it was written */
    memory_shut();
    return cudaSuccess;
}

void memory_give(void *p) {
    std::lock_guard<std::recursive_mutex> lock(emulator_gate);
    auto block = taken.find(((uintptr_t)p - memory_base) / MEMORY_UNIT);
    if (!memory_is_device(p) || block == taken.end())
        emulator_die("%p is freed and is no allocation of the device", p);
    memset(memory_valid + block->first, 0, block->second * sizeof *memory_valid);
    /* Whole pages only: a page at either end may hold a neighbour's bytes. */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)p + block->second * MEMORY_UNIT) / page * page;
    if (from < end)
        madvise((void *)from, end - from, MADV_DONTNEED);
    taken.erase(block);
}
