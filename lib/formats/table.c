#include "formats/table.h"

#include "formats/text.h"

static const size_t MAX_BYTES = (size_t)64 << 20;

enum { MAX_QUOTED_BYTES = 64 << 10 };

static size_t blanks(const struct table *t, const char *at) { return strspn(at, t->separator == '\t' ? " " : " \t"); }

/* Behind a cell in quotes (RFC 4180), blanks included; NULL when the quote that begins it is one of the cell's characters. */
static char *quoted_end(const struct table *t, char *at) {
    for (char *c = at + 1; *c && c - at < MAX_QUOTED_BYTES; c++) {
        if (*c != '"')
            continue;
        if (c[1] == '"') {
            c++;
            continue;
        }
        char *after = c + 1 + blanks(t, c + 1);
        return !*after || *after == '\n' || *after == t->separator ? after : NULL;
    }
    return NULL;
}

/* Takes the quotes off; doubled ones stand for one. Line ends inside count. */
static void unquote(struct table *t, char *cell) {
    char *to = cell;
    for (const char *c = cell + 1; *c; c++) {
        if (*c == '"' && c[1] != '"')
            break;
        c += *c == '"';
        t->more_lines += *c == '\n';
        *to++ = *c;
    }
    *to = '\0';
}

static void trim_end(char *text) {
    char *end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
}

/* Cuts the next cell of a row; false behind the row's last one. */
static bool take_cell(struct table *t, const char **ret) {
    const char stops[] = {t->separator, '\n', '\0'};
    char *cell = t->next + blanks(t, t->next), *end = *cell == '"' ? quoted_end(t, cell) : NULL;
    bool quoted = end != NULL;
    end = end ? end : cell + strcspn(cell, stops);
    char stop = *end;
    *end = '\0';
    t->next = end + (stop != '\0');
    if (quoted)
        unquote(t, cell);
    trim_end(cell);
    *ret = cell;
    return stop == t->separator;
}

/* Cells of the next row; their number, or -1 when there are too many. */
static int take_row(struct table *t, const char **cells) {
    const char *surplus;
    int n = 0;
    bool more = true;
    t->line++;
    for (; more && n < TABLE_MAX_COLUMNS; n++)
        more = take_cell(t, &cells[n]);
    while (more) {
        more = take_cell(t, &surplus);
        n = *surplus ? -1 : n;
    }
    return n;
}

static bool is_comment(const char *line) { return *line == '#' || (*line == '"' && line[1] == '#'); }

/* Moves to the next line that is neither blank nor a comment, which its caller may want; false at the end. */
static bool find_row(struct table *t, table_comment_fn *comment, void *ctx) {
    t->line += t->more_lines;
    t->more_lines = 0;
    while (*t->next) {
        size_t n = strcspn(t->next, "\n");
        if (!is_comment(t->next) && strspn(t->next, " \t") < n)
            return true;
        t->line++;
        char *line = text_line(&t->next);
        if (comment && is_comment(line))
            comment(ctx, line + (*line == '"') + 1);
    }
    return false;
}

static int load(struct table *t, const char *path, char separator, struct err *err) {
    size_t len;
    *t = (struct table){.path = path, .separator = separator};
    int rc = text_read(path, MAX_BYTES, &t->text, &len, err);
    t->next = t->text;
    return rc;
}

static int read_header(struct table *t, table_comment_fn *comment, void *ctx, struct err *err) {
    int rc = 0;
    bool found = find_row(t, comment, ctx);
    t->n_names = found ? take_row(t, t->names) : 0;
    if (t->n_names < 1) {
        rc = err_set(err, ERR_INVALID,
                     found ? "%s:%d: more than %d columns" : "%s:%d: no header row; expected column names (at most %d)", t->path,
                     t->line, TABLE_MAX_COLUMNS);
        table_close(t);
    }
    return rc;
}

int table_open(struct table *t, const char *path, char separator, table_comment_fn *comment, void *ctx, struct err *err) {
    int rc = load(t, path, separator, err);
    return rc ? rc : read_header(t, comment, ctx, err);
}

/* The separator of a line: the one that it has most of outside of quotes. */
static char separator_of(const char *line) {
    static const char known[] = "\t;,";
    int counts[sizeof known] = {0}, best = 0;
    bool quoted = false;
    for (; *line && *line != '\n'; line++) {
        const char *at = quoted ? NULL : strchr(known, *line);
        quoted ^= *line == '"';
        counts[at ? at - known : (int)sizeof known - 1]++;
    }
    for (int i = 1; known[i]; i++)
        best = counts[i] > counts[best] ? i : best;
    return known[best];
}

int table_open_any(struct table *t, const char *path, struct err *err) {
    int rc = load(t, path, ',', err);
    if (rc)
        return rc;
    if (!strncasecmp(t->next, "sep=", 4) && t->next[4]) {
        t->separator = t->next[4];
        (void)text_line(&t->next);
        t->line++;
        return read_header(t, NULL, NULL, err);
    }
    (void)find_row(t, NULL, NULL);
    t->separator = separator_of(t->next);
    return read_header(t, NULL, NULL, err);
}

int table_open_plain(struct table *t, const char *path, const struct table_plain *plain, struct err *err) {
    int rc = load(t, path, plain->separator, err);
    if (rc)
        return rc;
    for (t->n_names = 0; t->n_names < TABLE_MAX_COLUMNS; t->n_names++)
        t->names[t->n_names] = t->n_names < plain->n_names ? plain->names[t->n_names] : "";
    (void)find_row(t, plain->comment, plain->ctx);
    return 0;
}

void table_close(struct table *t) {
    free(t->text);
    t->text = NULL;
}

/* Letter case does not count, and a blank or a hyphen is an underscore: "Seizure start" is seizure_start. */
static bool is_column(const char *name, const char *wanted, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const char c = name[i] == ' ' || name[i] == '-' ? '_' : (char)tolower((unsigned char)name[i]);
        const char w = wanted[i] == ' ' || wanted[i] == '-' ? '_' : (char)tolower((unsigned char)wanted[i]);
        if (c != w)
            return false;
    }
    return !name[len];
}

int table_column(const struct table *t, const char *names) {
    for (const char *name = names; *name;) {
        size_t len = strcspn(name, "|");
        for (int i = 0; i < t->n_names; i++)
            if (is_column(t->names[i], name, len))
                return i;
        name += len + (name[len] == '|');
    }
    return -1;
}

static const char *separator_name(char separator) {
    return separator == '\t' ? "tabs" : separator == ',' ? "commas" : "semicolons";
}

/* The character that seems to separate the columns of a header row in place of the expected one; 0 = none does. */
static char other_separator(const struct table *t) {
    static const char known[] = "\t;,";
    for (const char *c = known; t->n_names == 1 && *c; c++)
        if (*c != t->separator && strchr(t->names[0], *c))
            return *c;
    return 0;
}

int table_require(const struct table *t, const char *names, int *ret, struct err *err) {
    int column = table_column(t, names);
    if (column >= 0) {
        *ret = column;
        return 0;
    }
    char other = other_separator(t);
    if (other)
        return err_set(err, ERR_INVALID, "%s:%d: its columns are separated by %s; expected %s: save it with them", t->path, t->line,
                       separator_name(other), separator_name(t->separator));
    struct str found = str_of(200);
    for (int i = 0; i < t->n_names; i++)
        str_printf(&found, "%s%s", i ? ", " : "", t->names[i]);
    int rc = err_set(err, ERR_INVALID, "%s:%d: no column '%s'; the header row has: %s", t->path, t->line, names, str_cstr(&found));
    str_done(&found);
    return rc;
}

int table_next(struct table *t, bool *ret_more, struct err *err) {
    *ret_more = find_row(t, NULL, NULL);
    if (!*ret_more)
        return 0;
    t->n_fields = take_row(t, t->fields);
    while (t->n_fields > t->n_names && !*t->fields[t->n_fields - 1])
        t->n_fields--;
    if (t->n_fields < 0 || t->n_fields > t->n_names)
        return err_set(err, ERR_INVALID, "%s:%d: more fields than the %d columns of the header row", t->path, t->line, t->n_names);
    return 0;
}

const char *table_field(const struct table *t, int column) { return column >= 0 && column < t->n_fields ? t->fields[column] : ""; }

bool table_is_blank(const char *text) {
    return !*text || !strcasecmp(text, "n/a") || !strcasecmp(text, "none") || !strcasecmp(text, "nan");
}

/* "60,5" as 60.5. "1,234" may be either 1.234 or 1234 and is no number. */
static bool decimal_comma(const char *text, double *ret) {
    char copy[64];
    const char *digits = text + strspn(text, "+-"), *comma = strchr(text, ',');
    size_t whole = strspn(digits, "0123456789"), part = comma ? strspn(comma + 1, "0123456789") : 0;
    if (!comma || comma != digits + whole || !whole || !part || comma[1 + part] || !str_copy(copy, sizeof copy, text))
        return false;
    copy[comma - text] = '.';
    return (part != 3 || whole > 3 || *digits == '0') && str_to_f64(copy, ret);
}

bool table_parse_number(const char *text, double *ret) { return str_to_f64(text, ret) || decimal_comma(text, ret); }

int table_number(const struct table *t, int column, bool optional, double *ret, struct err *err) {
    const char *text = table_field(t, column);
    if (optional && table_is_blank(text)) {
        *ret = NAN;
        return 0;
    }
    if (!table_parse_number(text, ret))
        return err_set(err, ERR_INVALID, "%s:%d: column '%s' holds '%s'; expected a number%s%s", t->path, t->line,
                       column >= 0 ? t->names[column] : "?", text, optional ? " or n/a" : "",
                       strchr(text, ',') ? " with a decimal point" : "");
    return 0;
}
