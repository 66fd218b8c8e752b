/* local: a directory as a store. Files are objects, their paths below the directory are the keys. Symbolic links to files are
 * followed, links to directories are not listed; anyone who can write to the directory controls its content. */
#pragma once
#include "store/store.h"

/* directory must exist. */
int local_open(const char *directory, struct store **ret, struct err *err);
