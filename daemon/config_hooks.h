/* config_hooks: the list alarms.hooks of daemon.yaml. */
#pragma once
#include "base/yaml.h"
#include "daemon/config.h"

/* node: NULL or null = no hooks. */
int config_read_hooks(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret, struct err *err);
