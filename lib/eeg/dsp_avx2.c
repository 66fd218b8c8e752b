#define DSP_KERNEL_BODY
#include "eeg/dsp_kernel.h"

const struct dsp_kernel dsp_kernel_avx2 = {.fir = fir, .cascade = cascade};
