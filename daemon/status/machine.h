/* machine: how busy the processors and the memory of this machine are, and what the daemon takes of them, read from /proc. One
 * thread per object. */
#pragma once
#include "base/base.h"

/* Zeroed before the first look. Unknown: NaN, -1. */
struct machine {
    double busy;                       /* share of all processors since the look before, 0..1 */
    int64_t memory_used, memory_total; /* bytes */
    double cpu;                        /* processors that this process used since the look before */
    int64_t resident_bytes;            /* memory of this process */
    uint64_t ticks, idle_ticks;
    double cpu_s, at_s;
};
void machine_look(struct machine *m);
