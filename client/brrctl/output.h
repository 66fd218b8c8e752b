/* output: JSON lines, and the one line of progress on a terminal. */
#ifndef BRR_CLIENT_BRRCTL_OUTPUT_H
#define BRR_CLIENT_BRRCTL_OUTPUT_H
#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

/* One object a line: output_begin opens it, output_end prints and frees. */
struct output {
    struct str text;
    struct json_writer json;
};
struct json_writer *output_begin(struct output *out);
void output_end(struct output *out);

/* "[####......]" of a share between 0 and 1 in buf. */
enum { OUTPUT_BAR_SIZE = 33 };
const char *output_bar(double share, char buf[OUTPUT_BAR_SIZE]);
/* "1:05", "2 h 03 min", "?" for NaN. */
const char *output_duration(double seconds, char *buf, size_t size);
/* "1:02:03.25" of a position in a recording. */
const char *output_clock(double seconds, char *buf, size_t size);
/* "1.5 GiB" */
const char *output_bytes(double bytes, char *buf, size_t size);
/* "2026-01-31 12:00:00" local time of a Unix time in ms, "-" for 0. */
const char *output_time(int64_t time_ms, char *buf, size_t size);

#endif
