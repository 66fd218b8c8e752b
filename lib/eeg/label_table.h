/* label_table: the seizures of many recordings in one table, as people keep them in a spreadsheet and save it as text: a row for
 * each seizure with the name of its recording, its onset, and its end or duration. A row without times says that its recording has
 * no seizure. Times are seconds from the first sample, hours:minutes:seconds, or dates with a time of day. One thread per table. */
#pragma once

#include "formats/table.h"

struct eeg_info;

/* Names of columns; NULL: one of the usual names. type "none": each row is a seizure, whatever a column says.
 * Without a type, a column such as "seizure" is read beside that of the types. */
struct label_table_columns {
    const char *file, *onset, *end, *duration, *type;
    bool one; /* all rows are of one recording: the table needs no column of files */
};

struct label_time {
    enum { LABEL_TIME_NONE, LABEL_TIME_SECONDS, LABEL_TIME_CLOCK, LABEL_TIME_DATE } kind;
    double value_s; /* CLOCK: hours, minutes and seconds as seconds; DATE: civil seconds (civil.h) */
    bool two;       /* CLOCK: two numbers, read as minutes:seconds; a time of day is hours:minutes then */
};

struct label_table {
    struct table table;
    int file, onset, end, duration, type; /* columns; -1 = none */
    int seizure;                          /* one that says yes or no; type too where the table has no other */
};

/* The row last read. Texts are valid until the next row. */
struct label_table_row {
    const char *file, *type; /* type "": none is stated */
    const char *said;        /* in the column `seizure` */
    int answer;              /* 1: yes, or a number that is not 0; -1: no, or 0; 0: neither, so that the type counts */
    struct label_time onset, end, duration;
    int line;
};

/* path is borrowed. INVALID names a missing column and those that the table has. After an error nothing needs closing. */
int label_table_open(struct label_table *table, const char *path, const struct label_table_columns *columns, struct err *err);
void label_table_close(struct label_table *table);
/* False for a column of the table that has no part in its rows. */
bool label_table_reads(const struct label_table *table, int column);
/* Reads the next row; *ret_more false at the end. INVALID names file:line and a text that is no time. */
int label_table_next(struct label_table *table, bool *ret_more, struct label_table_row *ret, struct err *err);

/* Converts a row to seconds of the recording's file time. clock: times without a date are times of day, not lengths of recording.
 * *ret_onset_s is NaN for a row without times. INVALID: times outside of the recording, or that need a start which it does not
 * state. */
int label_table_place(const struct label_table *table, const struct label_table_row *row, const struct eeg_info *recording,
                      bool clock, double ret_span_s[2], struct err *err);
