/* sweep_table: what a sweep has found: a row for each job, and for each combination of values the mean of its folds and their
 * pooled counts, as text and as JSON. */
#pragma once
#include "client/brrctl/jobs/sweep_state.h"

void sweep_table(const struct sweep *s, struct str *out); /* tab-separated, with a line of headings */
void sweep_json(const struct sweep *s);                   /* to stdout, an object a line; without the pooled row for a grid alone */
