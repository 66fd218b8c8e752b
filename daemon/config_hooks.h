/* config_hooks: the list alarms.hooks of daemon.yaml. */
#ifndef BRR_DAEMON_CONFIG_HOOKS_H
#define BRR_DAEMON_CONFIG_HOOKS_H
#include "base/yaml.h"
#include "daemon/config.h"

/* node: NULL or null = no hooks. */
int config_read_hooks(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret, struct err *err);

#endif
