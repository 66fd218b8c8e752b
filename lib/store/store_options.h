/* store_options: one entry of `stores:` in daemon.yaml as a store_config. Any thread. */
#pragma once
#include "base/arena.h"
#include "base/yaml.h"
#include "store/store.h"

/* node: the mapping {url, endpoint, …}; its key is the store's name. Strings live in the arena. Errors point into the file. */
int store_options_read(const struct yaml_node *node, const char *file, struct arena *arena, struct store_config *ret,
                       struct err *err);
