/* edf_write: what all writers of EDF+C files share: the header and the time-keeping annotation of a record. Callers write samples
 * and other annotations. Plain functions. */
#pragma once

#include "base/base.h"

enum { EDF_WRITE_FIELD = 80, EDF_WRITE_TIME_SIZE = 32, EDF_WRITE_KEEPER_SIZE = EDF_WRITE_TIME_SIZE + 4 };

struct edf_write_signal {
    const char *label, *transducer, *unit;
    const char *physical_min, *physical_max; /* of the digital values -32768 and 32767 */
    int64_t samples;                         /* of a record */
    const char *prefilter;                   /* NULL: none is named */
};

/* Texts that are longer than their fields are cut. */
struct edf_write_file {
    const char *patient, *recording; /* the local identifications, with the subfields of EDF+ */
    const char *date, *time;         /* "dd.mm.yy", "hh.mm.ss" */
    int64_t records, record_s;       /* number of records, and seconds of each */
    const struct edf_write_signal *signals;
    int n_signals;
};

/* The signal "EDF Annotations"; a sample has two characters. */
struct edf_write_signal edf_write_annotations(int64_t samples);
void edf_write_header(struct str *out, const struct edf_write_file *file);
/* Seconds in steps of 100 ns, which is what readers keep, without trailing zeros. Returns buf. */
const char *edf_write_time(double seconds, char buf[EDF_WRITE_TIME_SIZE]);
/* The annotation that begins each record: when the record begins, in seconds from the start of the file, not negative. Returns its
 * number of bytes, the final NUL included. */
size_t edf_write_keeper(double seconds, char buf[EDF_WRITE_KEEPER_SIZE]);
