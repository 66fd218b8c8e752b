#include "eeg/label_table.h"

#include "formats/civil.h"
#include "formats/eegfile.h"

static const double DAY_S = 86400, MAX_SECONDS = 1e9;
static const double ROUNDING_S = 1; /* by which an end that people wrote down may lie behind the recording's */

/* ---- columns ---- */

/* The unit with which the name of a column ends, in brackets or behind a blank or "_", in seconds: 1 without any, 0 for samples.
 * *ret_len: of the name in front of it. */
static double unit_of(const char *name, size_t *ret_len) {
    static const struct {
        const char *const spellings[7];
        double seconds;
    } units[] = {{{"s", "sec", "secs", "seconds", "sek", "sekunden", NULL}, 1},
                 {{"ms", "msec", "milliseconds", "millisekunden", NULL}, 1e-3},
                 {{"min", "mins", "minutes", "minuten", NULL}, 60},
                 {{"h", "hr", "hours", "stunden", NULL}, 3600},
                 {{"sample", "samples", "frames", "points", NULL}, 0}};
    size_t end = strlen(name), begin;
    *ret_len = end;
    end -= end && strchr(")]", name[end - 1]);
    for (begin = end; begin && !strchr("([_ ", name[begin - 1]);)
        begin--;
    size_t before = begin;
    while (before && strchr("([_ ", name[before - 1]))
        before--;
    for (size_t i = 0; before && i < sizeof units / sizeof *units; i++)
        for (const char *const *s = units[i].spellings; *s; s++)
            if (strlen(*s) == end - begin && !strncasecmp(*s, name + begin, end - begin)) {
                *ret_len = before;
                return units[i].seconds;
            }
    return 1;
}

/* One of the usual names, as it stands or in front of a unit; −1: none is there. */
static int usual_column(const struct table *t, const char *usual) {
    int column = table_column(t, usual);
    for (int i = 0; column < 0 && i < t->n_names; i++) {
        char name[64];
        size_t len;
        (void)unit_of(t->names[i], &len);
        const struct table one = {.n_names = 1, .names = {name}};
        if (t->names[i][len] && str_format(name, sizeof name, "%.*s", (int)len, t->names[i]) && !table_column(&one, usual))
            column = i;
    }
    return column;
}

/* `option`: the one that names the column, where none of the usual names is there. */
static int require_column(const struct table *t, const char *name, const char *usual, const char *option, int *ret,
                          struct err *err) {
    char said[sizeof err->message];
    if (!name && (*ret = usual_column(t, usual)) >= 0)
        return 0;
    const int rc = table_require(t, name ? name : usual, ret, err);
    if (rc && !name) {
        str_copy(said, sizeof said, err->message);
        err_set(err, rc, "%.900s; name it with %s COLUMN", said, option);
    }
    return rc;
}

static int optional_column(const struct table *t, const char *name, const char *usual, int *ret, struct err *err) {
    *ret = usual_column(t, name ? name : usual);
    return name ? table_require(t, name, ret, err) : 0;
}

/* The header of a file that is no text: what a spreadsheet program saves unless told otherwise. */
static int check_text(const char *path, struct err *err) {
    static const char *const endings[] = {".xlsx", ".xls", ".xlsm", ".ods", ".numbers"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (str_ends_nocase(path, endings[i]))
            return err_set(err, ERR_INVALID, "%s is a workbook; open it, save its sheet as CSV, and give that file", path);
    return 0;
}

/* The column of types, and one that says whether a row is a seizure. */
static int find_types(struct label_table *l, const char *type, struct err *err) {
    const struct table *t = &l->table;
    const int answers = usual_column(t, "seizure|is_seizure|anfall|crise|crisis");
    l->type = l->seizure = -1;
    const bool taken = label_table_reads(l, answers);
    if (type && !strcmp(type, "none"))
        return 0;
    int rc =
        optional_column(t, type,
                        "type|eventType|event_type|trial_type|label|event|description|typ|ereignis|art|anfallstyp|seizure_type|"
                        "kind_of_event|kategorie|category|class|annotation|tipo|événement|Événement|evenement|evento|"
                        "catégorie|categorie|categoría|categoria|anotación|anotacion",
                        &l->type, err);
    l->seizure = !taken && (!type || answers == l->type) ? answers : -1;
    l->type = l->type < 0 ? l->seizure : l->type;
    return rc;
}

static int find_columns(struct label_table *l, const struct label_table_columns *names, struct err *err) {
    const struct table *t = &l->table;
    int rc;
    if ((rc = require_column(t, names->file, "file|filename|file_name|recording|edf|path|name|datei|aufnahme|fichier|archivo",
                             "--file", &l->file, err)) &&
        !(names->one && !names->file))
        return rc;
    l->file = rc ? -1 : l->file;
    if ((rc = require_column(t, names->onset,
                             "onset|start|start_time|begin|seizure_start|seizure_onset|beginn|anfang|début|debut|inicio", "--onset",
                             &l->onset, err)) ||
        (rc = optional_column(t, names->end,
                              names->duration ? "" : "end|stop|stop_time|end_time|seizure_end|seizure_offset|ende|fin", &l->end,
                              err)) ||
        (rc = optional_column(t, names->duration, names->end ? "" : "duration|length|dauer|durée|duree|duración|duracion",
                              &l->duration, err)))
        return rc;
    if (l->end < 0 && l->duration < 0)
        return require_column(t, NULL, "end|stop|duration", "--end or --duration", &l->end, err);
    return find_types(l, names->type, err);
}

int label_table_open(struct label_table *l, const char *path, const struct label_table_columns *columns, struct err *err) {
    int rc;
    if ((rc = check_text(path, err)) || (rc = table_open_any(&l->table, path, err)))
        return rc;
    if ((rc = find_columns(l, columns, err)))
        table_close(&l->table);
    return rc;
}

void label_table_close(struct label_table *l) { table_close(&l->table); }

bool label_table_reads(const struct label_table *l, int column) {
    return column == l->file || column == l->onset || column == l->end || column == l->duration || column == l->type ||
           column == l->seizure;
}

/* ---- times ---- */

/* "12.5", "12,5". In a table that commas do not separate, a comma is that of a decimal number. */
static bool read_number(const struct table *t, const char *text, double *ret) {
    char copy[64];
    if (t->separator == ',' || !str_copy(copy, sizeof copy, text))
        return table_parse_number(text, ret);
    char *comma = strchr(copy, ',');
    if (comma && !strpbrk(comma + 1, ",.") && !strchr(text, '.'))
        *comma = '.';
    return str_to_f64(copy, ret);
}

/* "1:02:03.5", or "02:03" as minutes and seconds; *ret_two: it has two parts. */
static bool read_clock(const struct table *t, const char *text, double *ret, bool *ret_two) {
    double total = 0, part;
    char copy[64], *at = copy;
    int n = 0;
    if (!str_copy(copy, sizeof copy, text))
        return false;
    for (char *next; at && n < 3; at = next, n++) {
        next = strchr(at, ':');
        if (next)
            *next++ = '\0';
        if (!*at || at[strspn(at, next ? "0123456789" : "0123456789.,")] || !read_number(t, at, &part) || (n && part >= 60))
            return false;
        total = 60 * total + part;
    }
    *ret = total;
    *ret_two = n == 2;
    return !at && n >= 2;
}

static int read_time(const struct label_table *l, int column, struct label_time *ret, struct err *err) {
    const struct table *t = &l->table;
    const char *text = table_field(t, column);
    *ret = (struct label_time){.kind = LABEL_TIME_NONE};
    if (column < 0 || table_is_blank(text))
        return 0;
    size_t len;
    const double unit_s = unit_of(t->names[column], &len);
    if (!(unit_s > 0))
        return err_set(err, ERR_INVALID, "%s:1: column '%s' counts samples; expected seconds", t->path, t->names[column]);
    if (read_number(t, text, &ret->value_s)) {
        ret->kind = LABEL_TIME_SECONDS;
        ret->value_s *= unit_s;
    } else if (read_clock(t, text, &ret->value_s, &ret->two)) {
        ret->kind = LABEL_TIME_CLOCK;
    } else if (civil_parse(text, &ret->value_s)) {
        ret->kind = LABEL_TIME_DATE;
    } else {
        return err_set(err, ERR_INVALID,
                       "%s:%d: column '%s' holds '%s'; expected seconds (12.5), hours:minutes:seconds or YYYY-MM-DD hh:mm:ss",
                       t->path, t->line, t->names[column], text);
    }
    if (ret->kind == LABEL_TIME_DATE && civil_has_zone(text))
        return err_set(
            err, ERR_INVALID,
            "%s:%d: column '%s' holds '%s', a time with a zone; recordings have no zone: write the recorder's clock time", t->path,
            t->line, t->names[column], text);
    if (ret->kind != LABEL_TIME_DATE && fabs(ret->value_s) > MAX_SECONDS)
        return err_set(err, ERR_INVALID, "%s:%d: column '%s' holds '%s', which is no time of a recording", t->path, t->line,
                       t->names[column], text);
    return 0;
}

/* What a cell of the column `seizure` says: 1 yes, -1 no, 0 neither. */
static int seizure_said(const struct table *t, const char *text) {
    const struct table cell = {.n_names = 1, .names = {text}};
    double number;
    if (read_number(t, text, &number))
        return number != 0 ? 1 : -1;
    return !table_column(&cell, "yes|y|true|ja|j|wahr|oui|o|vrai|si|sí|s")      ? 1
           : !table_column(&cell, "no|n|false|nein|falsch|non|faux|falso|none") ? -1
                                                                                : 0;
}

int label_table_next(struct label_table *l, bool *ret_more, struct label_table_row *ret, struct err *err) {
    const struct table *t = &l->table;
    int rc;
    do {
        rc = table_next(&l->table, ret_more, err);
    } while (!rc && *ret_more && (l->file < 0 || !*table_field(t, l->file)) &&
             !*table_field(t, l->onset)); /* rows that a spreadsheet left blank */
    if (rc || !*ret_more)
        return rc;
    *ret = (struct label_table_row){.file = l->file < 0 ? "the recording" : table_field(t, l->file),
                                    .type = table_field(t, l->type),
                                    .said = table_field(t, l->seizure),
                                    .line = t->line};
    ret->answer = seizure_said(t, ret->said);
    if (!*ret->file)
        return err_set(err, ERR_INVALID, "%s:%d: column '%s' is blank; expected the name of a recording", t->path, t->line,
                       t->names[l->file]);
    if ((rc = read_time(l, l->onset, &ret->onset, err)) || (rc = read_time(l, l->end, &ret->end, err)) ||
        (rc = read_time(l, l->duration, &ret->duration, err)))
        return rc;
    if (l->seizure >= 0 && l->seizure == l->type && ret->onset.kind != LABEL_TIME_NONE && !*ret->said)
        return err_set(err, ERR_INVALID, "%s:%d: column '%s' is blank; expected yes or no (--type none: each row is a seizure)",
                       t->path, t->line, t->names[l->seizure]);
    bool length = ret->end.kind != LABEL_TIME_NONE || ret->duration.kind != LABEL_TIME_NONE;
    if ((ret->onset.kind != LABEL_TIME_NONE) == length)
        return 0;
    return err_set(err, ERR_INVALID, "%s:%d: the row of %s has %s; expected both, or neither for a recording without a seizure",
                   t->path, t->line, ret->file, length ? "an end and no onset" : "an onset and no end");
}

/* ---- in a recording ---- */

/* Civil seconds of the first sample. */
static double start_of(const struct eeg_start *s) {
    const struct civil at = {s->year, s->month, s->day, s->hour, s->minute, s->second};
    return civil_seconds(&at) + s->subsecond;
}

/* Seconds that a time of day lies behind another one, at most a day. */
static double behind(double clock_s, double from_s) {
    double distance = fmod(clock_s - from_s, DAY_S);
    return distance < 0 ? distance + DAY_S : distance;
}

static double place(const struct label_time *time, const struct eeg_info *recording, bool clock) {
    if (time->kind == LABEL_TIME_DATE)
        return time->value_s - start_of(&recording->start);
    if (time->kind == LABEL_TIME_CLOCK && clock)
        return behind(time->value_s * (time->two ? 60 : 1), start_of(&recording->start));
    return time->value_s;
}

static bool needs_start(const struct label_time *time, bool clock) {
    return time->kind == LABEL_TIME_DATE || (time->kind == LABEL_TIME_CLOCK && clock);
}

int label_table_place(const struct label_table *l, const struct label_table_row *row, const struct eeg_info *recording, bool clock,
                      double ret_span_s[2], struct err *err) {
    const struct table *t = &l->table;
    ret_span_s[0] = ret_span_s[1] = NAN;
    if (row->onset.kind == LABEL_TIME_NONE)
        return 0;
    if ((needs_start(&row->onset, clock) || needs_start(&row->end, clock)) && !recording->start.known)
        return err_set(err, ERR_INVALID, "%s:%d: the times need the start of %s, which the recording does not state", t->path,
                       row->line, row->file);
    if (clock && row->onset.kind == LABEL_TIME_CLOCK && recording->duration_s > DAY_S)
        return err_set(err, ERR_INVALID,
                       "%s:%d: %s lasts longer than a day; expected times with their date, as YYYY-MM-DD hh:mm:ss", t->path,
                       row->line, row->file);
    double onset_s = place(&row->onset, recording, clock);
    double end_s = row->end.kind == LABEL_TIME_NONE ? onset_s + row->duration.value_s : place(&row->end, recording, clock);
    const double stated_s = row->end.kind != LABEL_TIME_NONE && row->duration.kind != LABEL_TIME_NONE ? row->duration.value_s : NAN;
    if (fabs(end_s - onset_s - stated_s) > ROUNDING_S)
        return err_set(err, ERR_INVALID, "%s:%d: the seizure of %s lasts %.1f s by its end and %.1f s by its duration", t->path,
                       row->line, row->file, end_s - onset_s, stated_s);
    if (onset_s < 0 || onset_s >= recording->duration_s)
        return err_set(err, ERR_INVALID, "%s:%d: the onset is second %.1f of %s, which lasts %.1f s%s", t->path, row->line, onset_s,
                       row->file, recording->duration_s,
                       row->onset.kind == LABEL_TIME_CLOCK && !clock ? "; if it is a time of day, add --clock" : "");
    if (end_s > recording->duration_s + ROUNDING_S)
        return err_set(err, ERR_INVALID, "%s:%d: the seizure ends at second %.1f of %s, which lasts %.1f s", t->path, row->line,
                       end_s, row->file, recording->duration_s);
    end_s = end_s < recording->duration_s ? end_s : recording->duration_s;
    if (!(end_s > onset_s) || end_s - onset_s > DAY_S)
        return err_set(err, ERR_INVALID, "%s:%d: the seizure of %s would last %.1f s", t->path, row->line, row->file,
                       end_s - onset_s);
    ret_span_s[0] = onset_s;
    ret_span_s[1] = end_s;
    return 0;
}
