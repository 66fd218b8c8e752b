/* table: reader of small delimited text tables (TSV, CSV) whose first row names the columns. Knows no meaning of any column.
 * Lines that begin with '#' are comments; blank lines are skipped; CRLF and a UTF-8 byte order mark are accepted; no quoting. One
 * thread per table. */
#ifndef BRR_DATA_TABLE_H
#define BRR_DATA_TABLE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { TABLE_MAX_COLUMNS = 64 };

struct table {
    const char *path; /* for messages; kept by the caller */
    char *text;       /* owned; cut into fields while reading */
    char *next;
    char separator;
    int line; /* of the row last read, from 1 */
    const char *names[TABLE_MAX_COLUMNS];
    int n_names;
    const char *fields[TABLE_MAX_COLUMNS]; /* of the row last read, blanks trimmed */
    int n_fields;
};

/* Called for each comment line before the header row, without its '#'. */
typedef void table_comment_fn(void *ctx, const char *text);

/* Load the file and read its header row. comment may be NULL. On an error nothing is left to close. */
int table_open(struct table *table, const char *path, char separator, table_comment_fn *comment, void *ctx, struct err *err);
void table_close(struct table *table);
/* Index of the first of the '|'-separated names (letter case ignored) that is a column; -1 when none is. */
int table_column(const struct table *table, const char *names);
/* The same, with an error that lists what was expected and what is there. */
int table_require(const struct table *table, const char *names, int *ret, struct err *err);
/* Next row. *ret_more false at the end. A row with more fields than columns is an error. */
int table_next(struct table *table, bool *ret_more, struct err *err);
/* Field of the row last read; "" when the row is short. */
const char *table_field(const struct table *table, int column);
/* A number from the row last read. "n/a", "none", "nan" and "" give NaN when optional; otherwise and for anything else an error
 * with file, line, column name and text. */
int table_number(const struct table *table, int column, bool optional, double *ret, struct err *err);

#endif
