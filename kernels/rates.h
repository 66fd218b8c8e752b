/* rates: how fast a device copies, exponentiates, multiplies and adds, and the floors of work that follow from it. Plain data. */
#pragma once
#include "kernels/tensor.h"

/* Per second. */
struct rates {
    double bytes;                 /* of a copy in the device's memory, read and written */
    double exponentials;          /* fp32; 0: unknown */
    double flops;                 /* multiplications and additions in fp32 */
    double flops_bf16;            /* the same in bf16; 0 where there is no such instruction */
    double host_bytes;            /* between pinned host memory and a device's own; 0 where there is only one memory */
    const char *bf16_instruction; /* static text: what the bf16 rate was measured with; NULL where there is none */
};
/* Work that cannot be avoided. */
struct rates_work {
    double bytes, exponentials, flops;
    double flops_act; /* those at the bf16 rate when activations are bf16 */
    double host_bytes;
};
/* Seconds: the slowest of bytes, exponentials and operations, and then the copies between host and device. */
double rates_floor(const struct rates *rates, const struct rates_work *work, enum dtype activations);
