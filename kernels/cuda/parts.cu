/* parts: the driver and libraries that CUDA devices stand on, their versions, and what to do where they do not fit. A CUDA runtime
 * of one major number runs on every driver that serves that number: 580 for CUDA 13, 525 for CUDA 12 (CUDA release notes, table of
 * minor version compatibility). */
#include "kernels/cuda/cudnn.cuh"
#include "kernels/cuda/nvml.cuh"

#include <string.h>

extern "C" {
#include "base/str.h"
}

enum { OLDEST_DRIVER = CUDART_VERSION >= 13000 ? 580 : 525, CUDA_MAJOR = CUDART_VERSION / 1000 };

/* The CUDA version that the driver serves, as 1000·major + 10·minor; 0 without a driver. */
static int driver_serves(void) {
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess) {
        cudaGetLastError();
        version = 0;
    }
    return version;
}

int cuda_check_driver(struct err *err) {
    int serves = driver_serves();
    if (!serves)
        return err_set(err, ERR_NOT_FOUND, "the machine has no NVIDIA driver; install %d or newer, or use cpu", OLDEST_DRIVER);
    if (serves / 1000 < CUDA_MAJOR) {
        char number[64];
        nvml_driver_version(number, sizeof number);
        return err_set(
            err, ERR_UNSUPPORTED,
            "the NVIDIA driver %s serves CUDA %d.%d, and this build needs CUDA %d: install driver %d or newer, or use cpu", number,
            serves / 1000, serves % 1000 / 10, CUDA_MAJOR, OLDEST_DRIVER);
    }
    return 0;
}

static void describe_driver(struct device_part *part) {
    int serves = driver_serves();
    struct err err = {};
    char number[64];
    str_copy(part->name, sizeof part->name, "NVIDIA driver");
    nvml_driver_version(number, sizeof number);
    if (serves)
        str_format(part->version, sizeof part->version, "%.32s%sserves CUDA %d.%d", number, number[0] ? ", " : "", serves / 1000,
                   serves % 1000 / 10);
    part->fits = !cuda_check_driver(&err);
    str_copy(part->fix, sizeof part->fix, part->fits ? "" : err.message);
}

static void describe_runtime(struct device_part *part) {
    int version = CUDART_VERSION;
    str_copy(part->name, sizeof part->name, "CUDA runtime");
    part->fits = cudaRuntimeGetVersion(&version) == cudaSuccess;
    str_format(part->version, sizeof part->version, "%d.%d, part of this build", version / 1000, version % 1000 / 10);
    if (!part->fits)
        str_format(part->fix, sizeof part->fix, "the CUDA runtime does not answer: install NVIDIA driver %d or newer",
                   OLDEST_DRIVER);
}

static void describe_products(struct device_part *part) {
    int loaded[3], compiled[3];
    struct cuda_product_counts counts;
    cuda_products_version(loaded, compiled);
    str_copy(part->name, sizeof part->name, "cuBLASLt");
    cuda_products_count(&counts);
    str_format(part->version, sizeof part->version, "%d.%d.%d", loaded[0], loaded[1], loaded[2]);
    if (counts.shapes)
        str_format(part->version, sizeof part->version, "%d.%d.%d; %ld of %ld shapes declined, %ld without epilogue", loaded[0],
                   loaded[1], loaded[2], counts.declined, counts.shapes, counts.apart);
    part->fits = loaded[0] == compiled[0]; /* every function that is used was found when this library was loaded */
    if (!part->fits)
        str_format(part->fix, sizeof part->fix, "this build was made with cuBLASLt %d.%d.%d: install one of major number %d",
                   compiled[0], compiled[1], compiled[2], compiled[0]);
}

int cuda_parts(struct device_part *parts, int max) {
    static void (*const describe[])(struct device_part *) = {describe_driver, describe_runtime, describe_products, cudnn_describe};
    int n = 0;
    for (; n < max && n < (int)(sizeof describe / sizeof *describe); n++) {
        memset(&parts[n], 0, sizeof parts[n]);
        describe[n](&parts[n]);
    }
    return n;
}
