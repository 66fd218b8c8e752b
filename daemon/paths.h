/* paths: creates and locks the directories that the configuration names, and removes files that an earlier process left there. All
 * functions wait for the volumes of these directories: call them before the loop runs. */
#pragma once
#include "daemon/config.h"

/* Creates paths.cache and paths.results, locks the cache, empties its folder of networks and writes the built-in models there; logs
 * if they cannot be written or paths.data cannot be read. *ret_lock: the lock, a descriptor to close; written as soon as it is
 * held, also when a later step fails. PRECONDITION: another daemon holds the lock. */
int paths_open(const struct config *config, int *ret_lock, struct err *err);
/* The file in paths.results that says that a restore has begun and not ended; paths_open refuses to go on beside it. */
int paths_restoring(const struct config *config, char *buf, size_t size, struct err *err);
/* Creates paths.cache and paths.results and locks the cache. */
int paths_lock(const struct config *config, int *ret_lock, struct err *err);
/* Checks that paths.cache and paths.results are directories that this user can write or create. Creates nothing. */
int paths_check(const struct config *config, struct err *err);
