#define WINDOW_KERNEL_BODY
#include "windows/window_kernel.h"

const struct window_kernel window_kernel_avx512 = {.sum = kernel_sum, .square = kernel_square, .apply = kernel_apply};
