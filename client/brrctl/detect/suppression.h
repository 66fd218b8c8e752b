/* suppression: burst suppression of one recording as a stream reports it, second by second: a table, the highest minute, and the
 * trace of a plot. One thread per object. */
#pragma once

#include "client/brr.h"
#include "plot/plot.h"

enum { SUPPRESSION_FULL_S = 60 };

/* Zeroed = empty. */
struct suppression_table {
    bool begun;
    struct str text;          /* once begun: the rows so far */
    float largest;            /* ratio among whole minutes */
    struct plot_trace *trace; /* NULL = no plot; owned by the caller */
};
void suppression_table_done(struct suppression_table *t);
/* Begins the rows, which are kept for suppression_table_write from now on. */
void suppression_table_begin(struct suppression_table *t, const struct brr_stream_info *info);
/* Takes the reports of a RESULT. */
void suppression_table_add(struct suppression_table *t, const struct brr_message *m);
/* time_s (end of the minute), observed_s, ratio, bursts_per_minute, then ratio and bursts_per_minute of every channel. Atomic. */
int suppression_table_write(const struct suppression_table *t, const char *path, struct err *err);
