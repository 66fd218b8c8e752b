/* writer: one EDF+C file of one-second records, microvolt in steps of 0.1, with a time-keeping annotation signal. One thread per
 * writer. */
#pragma once

#include "base/base.h"
#include "tools/edfgen/scalp.h"

enum { WRITER_MAX_SIGNALS = ELECTRODES };

struct edf_writer {
    struct fsio_writer file;
    int n_signals;
    int64_t record;
};

struct writer_config {
    const char *path, *patient; /* patient: code without blanks */
    int64_t records;
    int start_day, start_hour; /* January 2030 */
    int n_signals;
    const char *labels[WRITER_MAX_SIGNALS];
};

int writer_open(struct edf_writer *w, const struct writer_config *config, struct err *err);
/* The next second: RATE_HZ samples of each signal; values beyond ±3276.7 µV are clipped. */
int writer_second(struct edf_writer *w, const float *const *uv, struct err *err);
/* The file appears under its name only here. */
int writer_commit(struct edf_writer *w, struct err *err);
void writer_abort(struct edf_writer *w);
