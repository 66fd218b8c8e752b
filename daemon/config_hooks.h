/* config_hooks: the items of the list alarms.hooks of daemon.yaml. */
#pragma once
#include "daemon/config.h"

config_item_fn config_hook;
