/* labels_path: the expected path of a recording's label file. Used by labels.c. Pure; any thread. */
#pragma once

#include "base/base.h"
#include "eeg/labels.h"

/* Writes the path of a source's label file into buf; false if the source has none for this recording. *ret_fits is false when buf
 * is too small. */
bool labels_candidate(enum labels_source source, const char *recording_path, char *buf, size_t size, bool *ret_fits);
