/* edf_header: the fixed and per-signal header of EDF and BDF, checked and repaired in memory. Fills struct eeg_info and the layout
 * of a record; does not read records. Used by edf.c only. One thread per header. */
#pragma once

#include "base/arena.h"
#include "formats/edf.h"

enum { EDF_MAX_REPAIRS = 64 };

struct edf_header {
    struct eeg_info info;       /* n_records, segments, annotations are filled later */
    struct eeg_signal *signals; /* info.signals */
    int64_t *offset;            /* byte offset of each signal inside a record */
    int64_t record_bytes, header_bytes;
    int64_t stated_bytes;     /* header_bytes as the field says; -1 when it holds no number */
    int64_t declared_records; /* -1 when the header does not say */
    int sample_bytes;         /* 2 or 3 */
    const char **repairs;     /* info.repairs */
    struct arena *arena;      /* owns every text and table */
    const char *name;         /* for messages */
};

/* data holds the whole file. The caller sets header->arena and header->name and zeroes the rest. */
int edf_header_parse(struct edf_header *header, const uint8_t *data, size_t len, struct err *err);
/* Adds a sentence to the repairs; after EDF_MAX_REPAIRS the last one states how many more there are. */
void edf_header_repair(struct edf_header *header, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
