/* Choice of the kernel table for the CPU at hand. */
#include <string.h>

#include "kernels/cpu/scan_job.h"
#include "kernels/device.h"

const struct scan_kernels *scan_kernels(void) {
    const char *isa = device_isa();
    if (!strcmp(isa, scan_kernels_avx512.isa))
        return &scan_kernels_avx512;
    return strcmp(isa, scan_kernels_avx2.isa) ? &scan_kernels_base : &scan_kernels_avx2;
}
