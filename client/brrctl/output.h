/* output: JSON lines, the progress line on a terminal, and numbers for people. */
#pragma once

#include "base/base.h"
#include "base/json.h"

typedef struct ProtobufCMessage ProtobufCMessage;

/* One object per line: output_begin opens it, output_end prints it and frees the writer. brrctl ends when memory is out. */
struct json_writer *output_begin(void);
void output_end(struct json_writer *w);
/* These fields of a message in the open object, as proto/json.h names them; NULL: all. A wrong name ends the program. */
void output_fields(struct json_writer *w, const ProtobufCMessage *message, const char *fields);
/* A line with them. */
void output_message(const ProtobufCMessage *message, const char *fields);
/* A line with one text. */
void output_text(const char *name, const char *value);

/* Texts of the daemon and of its callers are shown on terminals, which obey control characters: each of them but line feed, tab and
 * a carriage return before a line feed becomes a question mark. Every answer and error of a call passes here before a command sees
 * it. */
void output_clean(char *text);
/* All texts of the message and of those within it. */
void output_clean_message(ProtobufCMessage *message);

/* Flushes standard output; false, after printing the error, when some of it could not be written. */
bool output_arrived(void);

/* True if a line can be redrawn there: a terminal without TERM=dumb. */
bool output_redraws(FILE *out);
/* Draws the progress line over the previous one, cut to the terminal's width. output_clear removes it; call it before printing
 * anything else. One thread at a time. */
void output_progress(FILE *out, const char *line);
void output_clear(void);

/* Clears the terminal and writes these lines, cut to its width and height; the last line is `foot`. */
void output_picture(FILE *out, const char *lines, const char *foot);

/* Writes "[####......]" for a share between 0 and 1 into buf. */
enum { OUTPUT_BAR_SIZE = 33 };
const char *output_bar(double share, char buf[OUTPUT_BAR_SIZE]);
/* Formats "5 s", "1 min 05 s", "2 h 03 min", "?" for NaN. */
const char *output_duration(double seconds, char *buf, size_t size);
/* Formats "1:02:03.25", a position in a recording. */
const char *output_clock(double seconds, char *buf, size_t size);
/* Formats "0.01181" (four digits), "7006000" (whole numbers, and figures from 1,000 on), "?" for NaN. */
const char *output_figure(double value, char *buf, size_t size);
/* Formats "0.412", "-" for NaN. */
const char *output_probability(double p, char buf[16]);
/* Alarm.reason for people, with the words before it: ", monitoring stopped: electrodes came off"; "" for "". */
const char *output_alarm_reason(const char *reason);
/* "1.5 GiB" */
const char *output_bytes(double bytes, char *buf, size_t size);
/* "a, b", or `none`. */
const char *output_names(char *const *names, size_t n, const char *none, char *buf, size_t size);
/* Formats a Unix time in ms as "2026-01-31 13:00:00 CET", local time, "-" for 0. */
const char *output_time(int64_t time_ms, char *buf, size_t size);
