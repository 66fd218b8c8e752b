/* edf: reader of EDF, EDF+C, EDF+D, BDF and BDF+ files, as the format "EDF" of eegfile.h; here, what only these files have: a
 * header that precedes records in a pipe. */
#pragma once
#include "formats/eegfile.h"

/* For records that arrive one after another, from a pipe or a growing file; the header's record count is ignored. edf_header_bytes:
 * the header's length, from its first 256 bytes; -1 when they do not state it. edf_open_feed: takes a complete header, which is
 * copied; there are no records yet, eegfile_feed takes them. */
int64_t edf_header_bytes(const void *data);
/* How many bytes behind that length still belong to the header by its own field, at most 64 KiB: padding if they are all blank. */
int64_t edf_header_padding(const void *data);
int edf_open_feed(const void *header, size_t len, const char *name, struct eegfile **ret, struct err *err);
