/* An open file, shared by edf.c (opening, feeding, reading samples) and edf_timeline.c (which records there are, when each begins,
 * and their annotations). While it is opened one thread has it. */
#pragma once
#include "base/arena.h"
#include "formats/edf_decode.h"
#include "formats/edf_header.h"
#include "formats/filebytes.h"
#include "formats/format.h"

enum { EDF_PIECE_BYTES = 96 << 10 /* read at once */ };

/* How the times of records were understood so far. */
struct edf_clock {
    int keeper; /* signal with the time-keepers, -1 = none */
    double first_onset_s, previous_s, tolerance_s;
    int64_t missing, backwards;
    int64_t drifted, overlapping; /* segments begun and records left out because the clock had drifted away */
    bool skipping;                /* the newest record was left out */
};

/* The newest piece that was read of a file while it is opened. */
struct edf_window {
    uint8_t *data;
    size_t first, len, capacity;
    struct err err; /* the first read that failed */
};

struct edf {
    struct eegfile base;
    struct edf_header header;
    struct arena arena;
    struct filebytes bytes; /* the file, or the records that were fed last */
    struct edf_window window;
    size_t len;           /* of the whole file, more than bytes.len when only its head is there; 0 when records are fed */
    size_t body;          /* where in bytes record number first_record begins */
    int64_t first_record; /* 0 unless records are fed */
    edf_decode_fn *decode;
    struct eeg_segment *segments;
    size_t segment_capacity;
    struct edf_clock clock;
    struct eeg_annotation *annotations;
    size_t annotation_capacity;
    bool annotations_cut;
    bool header_only; /* records are left alone unless they decide about time */
    bool undecided;   /* one that decides is not there */
};

/* Where a record begins in edf->bytes. */
static inline size_t edf_offset_of(const struct edf *edf, int64_t record) {
    return edf->body + (size_t)((record - edf->first_record) * edf->header.record_bytes);
}

static inline int edf_out_of_memory(const struct edf *edf, struct err *err) {
    return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", edf->header.name);
}

/* False of a record beyond the head of a file of which only that is there. */
static inline bool edf_record_there(const struct edf *edf, int64_t record) {
    size_t there = edf->bytes.len;
    return there == edf->len || edf->header.header_bytes + (record + 1) * edf->header.record_bytes <= (int64_t)there;
}

/* ---- edf_timeline.c ---- */

/* How many whole records the file holds, whatever its header says. */
void edf_count_records(struct edf *edf);
/* The clock, the first record, all records in segments, and what the user should know of their time-keepers. */
int edf_build_timeline(struct edf *edf, struct err *err);
/* The same by steps, for records that arrive: before the first one; with it; and the records from this number on into segments. */
void edf_start_clock(struct edf *edf);
void edf_see_first_record(struct edf *edf);
int edf_place_records(struct edf *edf, int64_t from, struct err *err);
/* All annotations, by onset. A read that failed stays in edf->window.err, and 0 is returned. */
int edf_read_annotations(struct edf *edf, struct err *err);
