#include "daemon/spare_memory.h"

#include <malloc.h>

enum { ARENAS = 4, GROWS_BYTES = 8 << 20 /* less is no growth */ };

void spare_memory_prepare(void) { mallopt(M_ARENA_MAX, ARENAS); }

static void trim_heap(uv_work_t *work) {
    (void)work;
    malloc_trim(0);
}

static void on_given_back(uv_work_t *work, int status) {
    struct spare_memory *m = work->data;
    (void)status;
    m->at_work = false;
    m->kept_bytes = m->most_bytes = 0;
}

bool spare_memory_look(struct spare_memory *m, uv_loop_t *loop, int64_t resident_bytes, int64_t now_ms) {
    if (m->at_work || resident_bytes <= 0)
        return false;
    if (!m->kept_bytes || resident_bytes < m->kept_bytes)
        m->kept_bytes = m->most_bytes = resident_bytes;
    if (resident_bytes > m->most_bytes + GROWS_BYTES) {
        m->most_bytes = resident_bytes;
        m->grown_ms = now_ms;
    }
    if (resident_bytes < m->kept_bytes + SPARE_MEMORY_BYTES || now_ms - m->grown_ms < SPARE_MEMORY_MS)
        return false;
    m->work.data = m;
    m->at_work = !uv_queue_work(loop, &m->work, trim_heap, on_given_back);
    return m->at_work;
}
