/* table: reader of small delimited text tables (TSV, CSV) whose first row names the columns. Columns have no meaning here. Lines
 * that begin with '#' are comments; blank lines are skipped; line ends and encodings are those of formats/text.h. A cell may stand
 * in quotes as in RFC 4180, also with separators and line ends inside; a quote that does not end a cell is one of its characters.
 * One thread per table. */
#pragma once

#include "base/base.h"

enum { TABLE_MAX_COLUMNS = 64 };

struct table {
    const char *path; /* for messages; borrowed */
    char *text;       /* owned; cut into fields while reading */
    char *next;
    char separator;
    int line;       /* of the row last read, from 1 */
    int more_lines; /* that the row last read has behind its first one */
    const char *names[TABLE_MAX_COLUMNS];
    int n_names;
    const char *fields[TABLE_MAX_COLUMNS]; /* of the row last read, blanks trimmed */
    int n_fields;
};

/* Called for each comment line before the header row, without its '#'. */
typedef void table_comment_fn(void *ctx, const char *text);

/* Loads the file and reads its header row. comment may be NULL. After an error nothing needs closing. */
int table_open(struct table *table, const char *path, char separator, table_comment_fn *comment, void *ctx, struct err *err);
/* The same for a table without a header row, whose first columns have these names and the others none. */
struct table_plain {
    char separator;
    const char *const *names;
    int n_names;
    table_comment_fn *comment;
    void *ctx;
};
int table_open_plain(struct table *table, const char *path, const struct table_plain *plain, struct err *err);
/* The same for a table whose columns are separated by tabs, semicolons or commas: that which its header row has most of, or which a
 * first line "sep=;" states, as spreadsheets write it. */
int table_open_any(struct table *table, const char *path, struct err *err);
void table_close(struct table *table);
/* Returns the index of the first of the '|'-separated names (letter case ignored) that is a column; -1 when there is none. */
int table_column(const struct table *table, const char *names);
/* The same, with an error that lists the expected and the existing columns, or names the separator that the file seems to have. */
int table_require(const struct table *table, const char *names, int *ret, struct err *err);
/* Reads the next row. *ret_more false at the end. A row with more fields than columns is an error, unless those are blank. */
int table_next(struct table *table, bool *ret_more, struct err *err);
/* A field of the row last read; "" when the row is short. */
const char *table_field(const struct table *table, int column);
/* True for "n/a", "none", "nan" and "". */
bool table_is_blank(const char *text);
/* Reads a number with a decimal point or an unambiguous decimal comma ("60,5", but not "1,234"). */
bool table_parse_number(const char *text, double *ret);
/* A number of the row last read. A blank one (table_is_blank) gives NaN when optional; anything else that is not a number is an
 * error with file, line, column name and text. */
int table_number(const struct table *table, int column, bool optional, double *ret, struct err *err);
