/* config_executors: the items of the mapping `executors` of daemon.yaml: clusters that run jobs, and whether
 * jobs of this machine run in processes. */
#pragma once
#include "daemon/config.h"

config_item_fn config_executor;
