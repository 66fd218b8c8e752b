/* scan: a brr_scan, a device with one stream. Internal to client/scan. */
#pragma once
#include "client/scan/brr_scan.h"
#include "kernels/device.h"

struct brr_scan {
    struct device *device;
    struct stream *stream;
    char description[160];
};
