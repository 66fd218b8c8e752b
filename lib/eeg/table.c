#include "eeg/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fsio.h"
#include "base/str.h"

static const size_t MAX_BYTES = (size_t)64 << 20;

static char *trim(char *text) {
    while (*text == ' ' || *text == '\t')
        text++;
    char *end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        *--end = '\0';
    return text;
}

/* Cut the next line that is not blank out of the text; NULL at the end. */
static char *next_line(struct table *t) {
    while (*t->next) {
        char *line = t->next, *end = strchr(line, '\n');
        t->next = end ? end + 1 : line + strlen(line);
        if (end)
            *end = '\0';
        t->line++;
        if (line[strspn(line, " \t\r")])
            return line;
    }
    return NULL;
}

/* Fields of a line; their number, or -1 when there are too many. */
static int split(char *line, char separator, const char **fields) {
    int n = 0;
    for (char *field = line; field; n++) {
        if (n == TABLE_MAX_COLUMNS)
            return -1;
        char *end = strchr(field, separator);
        if (end)
            *end++ = '\0';
        fields[n] = trim(field);
        field = end;
    }
    return n;
}

int table_open(struct table *t, const char *path, char separator, table_comment_fn *comment, void *ctx, struct err *err) {
    size_t len;
    *t = (struct table){.path = path, .separator = separator};
    int rc = fsio_read(path, MAX_BYTES, &t->text, &len, err);
    if (rc)
        return rc;
    if (strlen(t->text) != len) {
        rc = err_set(err, ERR_INVALID, "%s: byte %zu is NUL; expected a text file", path, strlen(t->text));
        table_close(t);
        return rc;
    }
    t->next = t->text + (strncmp(t->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0);
    char *line;
    while ((line = next_line(t)) && *line == '#')
        if (comment)
            comment(ctx, line + 1);
    t->n_names = line ? split(line, separator, t->names) : 0;
    if (t->n_names < 1) {
        rc = err_set(err, ERR_INVALID,
                     line ? "%s:%d: more than %d columns" : "%s:%d: no header row; expected column names (at most %d)", path,
                     t->line, TABLE_MAX_COLUMNS);
        table_close(t);
    }
    return rc;
}

void table_close(struct table *t) {
    free(t->text);
    t->text = NULL;
}

int table_column(const struct table *t, const char *names) {
    for (const char *name = names; *name;) {
        size_t len = strcspn(name, "|");
        for (int i = 0; i < t->n_names; i++)
            if (strlen(t->names[i]) == len && strncasecmp(t->names[i], name, len) == 0)
                return i;
        name += len + (name[len] == '|');
    }
    return -1;
}

int table_require(const struct table *t, const char *names, int *ret, struct err *err) {
    int column = table_column(t, names);
    if (column >= 0) {
        *ret = column;
        return 0;
    }
    struct str found;
    str_init(&found, 200);
    for (int i = 0; i < t->n_names; i++)
        str_printf(&found, "%s%s", i ? ", " : "", t->names[i]);
    int rc = err_set(err, ERR_INVALID, "%s:%d: no column '%s'; the header row has: %s", t->path, t->line, names, str_cstr(&found));
    str_done(&found);
    return rc;
}

int table_next(struct table *t, bool *ret_more, struct err *err) {
    char *line;
    do
        line = next_line(t);
    while (line && *line == '#');
    *ret_more = line != NULL;
    if (!line)
        return 0;
    t->n_fields = split(line, t->separator, t->fields);
    if (t->n_fields < 0 || t->n_fields > t->n_names)
        return err_set(err, ERR_INVALID, "%s:%d: more fields than the %d columns of the header row", t->path, t->line, t->n_names);
    return 0;
}

const char *table_field(const struct table *t, int column) { return column >= 0 && column < t->n_fields ? t->fields[column] : ""; }

int table_number(const struct table *t, int column, bool optional, double *ret, struct err *err) {
    const char *text = table_field(t, column);
    if (optional && (!*text || !strcasecmp(text, "n/a") || !strcasecmp(text, "none") || !strcasecmp(text, "nan"))) {
        *ret = NAN;
        return 0;
    }
    if (!str_to_f64(text, ret))
        return err_set(err, ERR_INVALID, "%s:%d: column '%s' holds '%s'; expected a number%s", t->path, t->line,
                       column >= 0 ? t->names[column] : "?", text, optional ? " or n/a" : "");
    return 0;
}
