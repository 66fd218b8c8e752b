/* config_alarms: the list alarms.escalation and the roster `beds` of daemon.yaml. */
#pragma once
#include "daemon/config.h"

/* After the hooks, whose names the steps use. node: NULL or null = no escalation. */
int config_read_escalation(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret,
                           struct err *err);
int config_read_beds(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret, struct err *err);
