/* output: JSON lines, the line of progress on a terminal, and figures for people. */
#ifndef BRR_CLIENT_BRRCTL_OUTPUT_H
#define BRR_CLIENT_BRRCTL_OUTPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/json.h"

/* One object a line: output_begin opens it, output_end prints and frees. */
struct output {
    struct str text;
    struct json_writer json;
};
struct json_writer *output_begin(struct output *out);
void output_end(struct output *out);

/* Everything printed on standard output has arrived; else false, after saying so. */
bool output_arrived(void);

/* Whether a line can be redrawn there: a terminal, and not one with TERM=dumb. */
bool output_redraws(FILE *out);
/* The line of progress, over the one before and cut to the terminal's width. output_clear takes it away where one stands; due
 * before anything else is printed. One thread at a time. */
void output_progress(FILE *out, const char *line);
void output_clear(void);

/* "[####......]" of a share between 0 and 1 in buf. */
enum { OUTPUT_BAR_SIZE = 33 };
const char *output_bar(double share, char buf[OUTPUT_BAR_SIZE]);
/* "5 s", "1 min 05 s", "2 h 03 min", "?" for NaN. */
const char *output_duration(double seconds, char *buf, size_t size);
/* "1:02:03.25" of a position in a recording. */
const char *output_clock(double seconds, char *buf, size_t size);
/* "1.5 GiB" */
const char *output_bytes(double bytes, char *buf, size_t size);
/* "2026-01-31 12:00:00" local time of a Unix time in ms, "-" for 0. */
const char *output_time(int64_t time_ms, char *buf, size_t size);

#endif
