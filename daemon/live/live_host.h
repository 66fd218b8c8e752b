/* live_host: live windows and replays (streams that are not realtime) as the work of two hosts of a device. The host of live
 * windows loads the models that serve and passes their contents to that of replays. */
#pragma once
#include "daemon/hosts/device_hosts.h"
#include "daemon/live/live.h"

struct live_host_config {
    enum dtype precision; /* of models of streams */
    bool automatic;       /* in its place: bf16 on a device that queues its work, for models whose bound it keeps, else fp32 */
    struct eegring_limits viewer;
};
/* The rows of HOST_LIVE and HOST_REPLAYS; the config outlives the hosts. Orders are struct live_order, answers struct live_report.
 */
struct host_row live_host_row(const struct live_host_config *config);
struct host_row live_host_replays_row(const struct live_host_config *config);
