/* scan: a brr_scan, a device with one stream. Internal to client/scan. */
#ifndef BRR_CLIENT_SCAN_SCAN_H
#define BRR_CLIENT_SCAN_SCAN_H
#include "client/scan/brr_scan.h"
#include "kernels/device.h"

struct brr_scan {
    struct device *device;
    struct stream *stream;
    char description[160];
};

#endif
