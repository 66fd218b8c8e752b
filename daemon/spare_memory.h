/* spare_memory: gives what the daemon has freed back to the system. The C library keeps it for later; after a burst of calls that
 * would be gigabytes, for ever. Loop thread; the work itself is done on a thread of the pool. */
#pragma once
#include <uv.h>

#include "base/base.h"

enum { SPARE_MEMORY_BYTES = 64 << 20 /* a burst takes more */, SPARE_MEMORY_MS = 60 * 1000 /* after it grew last */ };

struct spare_memory { /* zeroed before */
    uv_work_t work;
    bool at_work;
    int64_t kept_bytes, most_bytes; /* resident: the least since the newest time, and the most after that */
    int64_t grown_ms;               /* when it last grew; monotonic */
};
/* Few arenas: each thread may allocate from one of its own, which keeps what is freed there. Before other threads begin. */
void spare_memory_prepare(void);
/* Once a second, with the bytes that are resident. True: it gives memory back now. */
bool spare_memory_look(struct spare_memory *m, uv_loop_t *loop, int64_t resident_bytes, int64_t now_ms);
