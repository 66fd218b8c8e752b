/* copies: what is copied and filled, and the calls for memory. From the time that a copy is asked for until it has run, the host
 * memory that it reads must not change: that ends the program. Host memory that it writes holds no values meanwhile, so that
 * whoever reads them before he has waited sees that. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>

enum { NO_VALUE = 0xe7 };

typedef std::lock_guard<std::recursive_mutex> gate;
static std::map<uintptr_t, size_t> pinned;      /* host memory that a GPU copies by itself: where it begins, bytes */
static std::multimap<uintptr_t, size_t> unread; /* host memory that copies on their way are to read */
static long pageable;

/* Copies of this process so far from or to host memory that is not pinned, outside recordings. A GPU makes the host wait in each.
 */
extern "C" __attribute__((visibility("default"))) long emulator_pageable(void) {
    gate lock(emulator_gate);
    return pageable;
}

static bool is_pinned(const void *p, size_t bytes) {
    auto next = pinned.upper_bound((uintptr_t)p);
    return next != pinned.begin() && (--next, (uintptr_t)p + bytes <= next->first + next->second);
}

static bool is_unread(uintptr_t from, size_t bytes) {
    for (const auto &[start, size] : unread)
        if (start < from + bytes && from < start + size)
            return true;
    return false;
}

static void check_range(const char *what, const void *p, size_t bytes) {
    if (memory_holds(p, bytes))
        return;
    fprintf(stderr, "emulator: %s of %zu bytes at %p, which is not all allocated\n", what, bytes, p);
    emulator_fault = cudaErrorIllegalAddress;
}

/* BRR_EMULATED_WRONG: the ordinal of a device that receives other bytes than lie in the memory of another one. */
static int owner_of(const void *p) { return memory_is_device(p) ? memory_owner[((uintptr_t)p - memory_base) / MEMORY_UNIT] : -1; }
static bool is_wrong(const void *dst, const void *src) {
    const char *wrong = getenv("BRR_EMULATED_WRONG");
    return wrong && owner_of(dst) == atoi(wrong) && owner_of(src) >= 0 && owner_of(src) != atoi(wrong);
}

static void move(void *dst, const void *src, size_t bytes) {
    check_range("copy", src, bytes);
    check_range("copy", dst, bytes);
    if (!emulator_fault)
        memmove(dst, src, bytes);
    if (!emulator_fault && bytes && is_wrong(dst, src))
        ((uint8_t *)dst)[bytes / 2] ^= 1;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
    gate lock(emulator_gate);
    return emulator_copy(stream, [=] {
        check_range("filling", p, bytes);
        if (!emulator_fault)
            memset(p, value, bytes);
    });
}

/* A copy from the host, which is to find there what is there now. */
static cudaError_t send(void *dst, const void *src, size_t bytes, cudaStream_t stream) {
    const char *from = (const char *)src;
    auto was = std::make_shared<std::vector<char>>(from, from + bytes);
    auto place = unread.insert({(uintptr_t)src, bytes});
    return emulator_copy(stream, [=] {
        if (!emulator_fault && memcmp(was->data(), src, bytes) != 0)
            emulator_die("host memory at %p changed before the copy of its %zu bytes had run", src, bytes);
        unread.erase(place);
        move(dst, src, bytes);
    });
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    gate lock(emulator_gate);
    const bool to_device = memory_is_device(dst), from_device = memory_is_device(src);
    if ((kind == cudaMemcpyHostToDevice && (!to_device || from_device)) ||
        (kind == cudaMemcpyDeviceToHost && (to_device || !from_device)))
        emulator_die("a copy's direction is not that of its addresses %p and %p", dst, src);
    const bool records = emulator_records(stream), plain = to_device != from_device && !is_pinned(to_device ? src : dst, bytes);
    if (plain && records && emulator_forbids(stream))
        return cudaErrorStreamCaptureUnsupported;
    pageable += plain;
    if (to_device && !from_device && !records && !emulator_fault)
        return send(dst, src, bytes, stream);
    if (from_device && !to_device && !records && !is_unread((uintptr_t)dst, bytes))
        memset(dst, NO_VALUE, bytes);
    return emulator_copy(stream, [=] { move(dst, src, bytes); });
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ret, size_t bytes) {
    if (emulator_forbids(NULL))
        return cudaErrorStreamCaptureUnsupported;
    emulator_use_device();
    return emulator_told(emulator_fault ? emulator_fault : memory_take(ret, bytes));
}
cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned) {
    gate lock(emulator_gate);
    if (emulator_forbids(NULL))
        return cudaErrorStreamCaptureUnsupported;
    *ret = emulator_fault ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*ret)
        pinned[(uintptr_t)*ret] = bytes;
    return emulator_told(emulator_fault ? emulator_fault : *ret ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *p) {
    if (emulator_forbids(NULL))
        return cudaErrorStreamCaptureUnsupported;
    memory_give(p);
    return emulator_fault;
}
cudaError_t cudaFreeHost(void *p) {
    gate lock(emulator_gate);
    auto block = pinned.find((uintptr_t)p);
    if (emulator_forbids(NULL))
        return cudaErrorStreamCaptureUnsupported;
    if (block == pinned.end())
        emulator_die("%p is freed and is no pinned memory", p);
    if (!emulator_fault && is_unread(block->first, block->second))
        emulator_die("pinned memory at %p is freed before a copy from it had run", p);
    pinned.erase(block);
    free(p);
    return emulator_fault;
}
cudaError_t cudaMemset(void *p, int value, size_t bytes) {
    gate lock(emulator_gate);
    if (emulator_forbids(NULL))
        return cudaErrorStreamCaptureUnsupported;
    memory_open();
    memset(p, value, bytes);
    memory_shut();
    return emulator_fault;
}
