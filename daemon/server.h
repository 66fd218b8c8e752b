/* server: the daemon's loop and everything that runs on it: worker, scheduler, RPC, HTTP, signals. Loop thread. */
#pragma once
#include "base/metrics.h"
#include "daemon/config.h"

#define BRR_NOTICE "not a medical device: nothing here has been evaluated for clinical use"

/* Result of server_run, and exit code of the process, after a fault that another start of the process repairs: the device is
 * unusable (device_lost), or the TCP port accepts no connections. */
enum { SERVER_RESTART = 70 };
/* Runs until SIGTERM, SIGINT, Admin.Drain or such a fault; returns 0 after a clean shutdown. On SIGHUP, log.* and serve
 * are read again from the source; other keys need a restart. */
int server_run(const struct config *config, const struct config_source *source, struct err *err);

/* Families of /metrics. */
extern const struct metric_family metrics_families[];
extern const size_t metrics_family_count;
