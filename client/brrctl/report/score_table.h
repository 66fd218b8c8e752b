/* score_table: event scores with their 95 % intervals as the rows of a table, in CSV or LaTeX. Any thread. */
#pragma once

#include "score/score.h"

/* first: the heading of the first column, "patient". */
void score_table_begin(struct str *out, bool latex, const char *first);
void score_table_row(struct str *out, bool latex, const char *name, const struct score *s);
void score_table_end(struct str *out, bool latex);

/* Of the counts of a score: sensitivity and false alarms in 24 h, NaN where they are not defined. */
struct score_intervals {
    double sensitivity_low, sensitivity_high, rate_low, rate_high;
};
struct score_intervals score_intervals(const struct score *s);
