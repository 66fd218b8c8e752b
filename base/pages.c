#include "base/pages.h"

#include <stdlib.h>
#include <sys/mman.h>

static void *aligned(size_t alignment, size_t bytes) {
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    return rounded < bytes ? NULL : aligned_alloc(alignment, rounded ? rounded : alignment);
}

void *pages_alloc(size_t bytes) {
    if (bytes < PAGES_HUGE)
        return aligned(PAGES_ALIGNMENT, bytes);
    void *p = aligned(PAGES_HUGE, bytes);
#ifdef MADV_HUGEPAGE
    if (p)
        madvise(p, bytes / PAGES_HUGE * PAGES_HUGE, MADV_HUGEPAGE); /* a wish: without it the memory is as good, only slower */
#endif
    return p;
}
