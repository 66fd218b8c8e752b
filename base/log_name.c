#include "base/log_name.h"

#include <stdatomic.h>

static atomic_bool hidden;

void log_names(bool written) { atomic_store(&hidden, !written); }

const char *log_name(const char *name) { return atomic_load(&hidden) ? "-" : name; }
