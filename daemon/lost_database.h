/* lost_database: whether the job database that the configuration names is the one of the results beside it. */
#pragma once
#include "daemon/config.h"

/* 0: there is such a database, or a new one may begin. DATA_LOSS, with the fix: it is malformed, or it is missing or empty beside
 * folders of jobs or models that serve. Reads the whole file; waits for its volume. */
int lost_database_look(const struct config *c, struct err *err);
