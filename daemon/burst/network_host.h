/* network_host: spiking networks (burst/networks.h) as the work of a host of a device. */
#pragma once
#include "daemon/burst/networks.h"
#include "daemon/hosts/device_hosts.h"

struct network_host_config {
    int most;           /* networks of a device */
    int64_t most_bytes; /* memory of all of them; 0 = half of the device */
    bool shared;        /* networks_config.shared */
};
/* The row of HOST_NETWORKS; the config outlives the hosts. An order is answered by the same order. */
struct host_row network_host_row(const struct network_host_config *config);
