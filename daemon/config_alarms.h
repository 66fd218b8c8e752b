/* config_alarms: the steps of alarms.escalation and the roster `beds` of daemon.yaml. */
#pragma once
#include "daemon/config.h"

config_item_fn config_step;
int config_read_beds(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret, struct err *err);
