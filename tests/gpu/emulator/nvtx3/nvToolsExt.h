/* Ranges for a profiler: the emulator counts them. */
#pragma once
int nvtxRangePushA(const char *name);
int nvtxRangePop(void);
