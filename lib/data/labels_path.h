/* labels_path: where the label file of a recording would be. Used by labels.c. Pure; any thread. */
#ifndef BRR_DATA_LABELS_PATH_H
#define BRR_DATA_LABELS_PATH_H
#include <stdbool.h>
#include <stddef.h>

#include "data/labels.h"

/* The file beside a recording that a source reads, into buf; false for a source that has none for this recording. *ret_fits tells
 * whether buf holds the whole path. */
bool labels_candidate(enum labels_source source, const char *edf_path, char *buf, size_t size, bool *ret_fits);

#endif
