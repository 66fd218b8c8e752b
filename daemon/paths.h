/* paths: creates and locks the directories that the configuration names, and removes files that an earlier process left there. All
 * functions wait for the volumes of these directories: call them before the loop runs. */
#pragma once
#include "daemon/config.h"

/* Descriptors; -1: not held. */
struct paths_locks {
    int cache, results;
};
void paths_unlock(struct paths_locks *locks);
/* Creates paths.cache and paths.results and locks both. PRECONDITION: another daemon uses one of them. Where a results volume has
 * no locks, or no room for one, that is logged. */
int paths_lock(const struct config *config, struct paths_locks *ret, struct err *err);
/* The same; then empties the folders of the cache that hold networks, and writes the built-in models; logs if they cannot be
 * written or paths.data cannot be read. */
int paths_open(const struct config *config, struct paths_locks *ret, struct err *err);
/* The file in paths.results that says that a restore has begun and not ended; paths_open refuses to go on beside it. */
int paths_restoring(const struct config *config, char *buf, size_t size, struct err *err);
/* Checks that this user can write or create the directories of the configuration, that those of databases and of the
 * socket are there, and that no restore has begun and not ended. Creates nothing. */
int paths_check(const struct config *config, struct err *err);
