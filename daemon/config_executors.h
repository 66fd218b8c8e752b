/* config_executors: the mapping `executors` of daemon.yaml: clusters that run jobs, and whether
 * jobs of this machine run in processes. */
#pragma once
#include "base/yaml.h"
#include "daemon/config.h"

/* node: NULL or null = none. */
int config_read_executors(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret, struct err *err);
