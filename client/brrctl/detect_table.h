/* detect_table: what detect says of its recordings, wherever they were done. */
#ifndef BRR_CLIENT_BRRCTL_DETECT_TABLE_H
#define BRR_CLIENT_BRRCTL_DETECT_TABLE_H
#include <stdbool.h>

#include "client/brr.h"

struct detect_item {
    char *path, *output; /* malloc'd; output: below --output */
    bool done;           /* looked at, whether it went well or not */
    int n_events;
    double duration_s, seizure_s;
    struct brr_error err; /* code 0 = fine */
};
/* One JSON line. */
void detect_item_json(const struct detect_item *item);
/* A line for each that was looked at, and their sums. */
void detect_table_print(const struct detect_item *items, int n);

#endif
