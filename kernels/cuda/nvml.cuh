/* nvml: what the driver's management library tells of a device: temperature, power, memory errors, why its clocks are held down.
 * The library comes with the driver and is loaded when somebody asks. Devices are found by their address on the PCI bus, since NVML
 * counts all of a machine and CUDA those that CUDA_VISIBLE_DEVICES leaves. One thread at a time per handle. */
#pragma once
#include <stddef.h>

extern "C" {
#include "kernels/device.h"
}

struct nvml;
/* bus: "0000:3b:00.0". NULL: there is no such library, it does not start, or it does not know the device. */
struct nvml *nvml_open(const char *bus);
void nvml_close(struct nvml *n); /* NULL is fine */
/* Fills in what the driver reports and leaves the rest of *ret as it is. */
void nvml_read(struct nvml *n, struct device_health *ret);
/* The driver's own number ("580.159.03"); "" without. */
void nvml_driver_version(char *ret, size_t size);
