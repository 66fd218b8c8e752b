/* labels import TABLE [DIR]: label files of recordings out of one table of seizures, as people keep it in a spreadsheet. Runs here,
 * without a daemon. Nothing is written if a row cannot be used. */

#include "base/counted.h"
#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "client/brrctl/report/score_files.h"
#include "client/brrctl/report/stems.h"
#include "eeg/events.h"
#include "eeg/label_rule.h"
#include "eeg/label_table.h"
#include "formats/eegfile.h"
#include "store/outputs.h"

struct labels_options {
    struct label_table_columns columns;
    struct argument_list seizure;
    bool clock, complete, ignore_missing;
    const char *output;
};
#define OPTIONS struct labels_options
static const struct argument rows[] = {
    TEXT("--file", columns.file, "COLUMN", "names of the recordings; default file, filename or recording"),
    TEXT("--onset", columns.onset, "COLUMN", "begin of the seizures; default onset, start or begin"),
    TEXT("--end", columns.end, "COLUMN", "their end; default end or stop"),
    TEXT("--duration", columns.duration, "COLUMN", "or their length; default duration"),
    TEXT("--type", columns.type, "COLUMN",
         "what each row is; default type, label, event or a name below, if there is one; none: each row is a seizure"),
    LIST("--seizure", seizure, "PATTERN", "also a type of seizures, such as \"focal*\", as data.seizure_labels; may be repeated"),
    FLAG("--clock", clock, "hours:minutes:seconds are times of day, not of the recording"),
    FLAG("--complete", complete, "recordings that the table does not name have no seizure"),
    FLAG("--ignore-missing", ignore_missing, "leave out rows whose recording is not below DIR"),
    OUTPUT("--output", output, "DIR", "write the files there, under the recordings' paths below DIR", .alias = "--out"),
};

enum { PATH_SIZE = 8192, SHOWN = 20, TOLD = 4096, MAX_TYPES = 64 };

/* A recording and what the table says about it. */
struct labelled {
    const char *path; /* of the stems */
    bool named;       /* the table has a row of it */
    bool unread;      /* --complete leaves it out */
    bool again;       /* the one before it has the same label file: a recording in two formats */
    double duration_s;
    struct eeg_start start;
    struct label_run *runs; /* malloc'd */
    size_t n;
};

struct import {
    const struct arguments *o;
    const char *root;
    char rule[LABEL_RULE_SIZE];
    struct stems *stems;
    struct labelled *items; /* one of each stem, in their order */
    size_t n;
    int problems, missing, seizures, unsure, others, written;
    int denied, untyped; /* rows that say they are no seizure, and that have no type */
    bool typed;          /* a row has one */
    struct {
        char name[LABELS_CODE_SIZE];
        int count;
    } types[MAX_TYPES]; /* that are no seizure */
    int n_types;
};

static void import_done(struct import *m) {
    for (size_t i = 0; m->items && i < m->n; i++)
        free(m->items[i].runs);
    free(m->items);
    stems_free(m->stems);
}

/* The first ones are printed. */
static void tell_problem(int *count, const char *text) {
    if ((*count)++ < SHOWN)
        fprintf(stderr, "brrctl: %s\n", text);
}

/* ---- which recordings ---- */

/* True if a recording has the label file of the one before it; stems are in order, and a row of the table is the first one's. */
static bool same_labels(const struct import *m, size_t i) {
    const char *a = stems_at(m->stems, i - 1), *b = stems_at(m->stems, i);
    const size_t n = eegfile_stem(a, true);
    return n == eegfile_stem(b, true) && !strncmp(a, b, n);
}

static int read_recordings(struct import *m, struct err *err) {
    if (!fsio_exists(m->root))
        return err_set(err, ERR_NOT_FOUND, "there is no folder or recording %s", m->root);
    int rc = stems_read(m->root, eegfile_named, NULL, &m->stems, err);
    if (rc)
        return rc;
    m->n = stems_count(m->stems);
    if (!m->n)
        return err_set(err, ERR_NOT_FOUND, "no .edf or .bdf file below %s", m->root);
    m->items = needed(calloc(m->n, sizeof *m->items));
    for (size_t i = 0; i < m->n; i++)
        m->items[i] = (struct labelled){.path = stems_at(m->stems, i), .again = i && same_labels(m, i), .duration_s = NAN};
    return 0;
}

/* A file name of the table as a stem: with or without folders of this or another system, and with or without an ending. */
static bool stem_of_cell(const char *cell, char stem[PATH_SIZE]) {
    char path[PATH_SIZE];
    if (!str_copy(path, sizeof path, cell))
        return false;
    for (char *c = path; *c; c++)
        if (*c == '\\')
            *c = '/';
    if (!score_stem(str_starts(path, "./") ? path + 2 : path, stem, PATH_SIZE))
        return false;
    if (str_ends_nocase(stem, "_eeg")) /* "night_eeg" for night_eeg.edf */
        stem[strlen(stem) - 4] = '\0';
    return true;
}

static int find_item(struct import *m, const struct label_table *table, const struct label_table_row *row, struct labelled **ret,
                     struct err *err) {
    char stem[PATH_SIZE];
    const char *path = NULL;
    *ret = table->file < 0 ? m->items : NULL;
    if (*ret)
        return 0;
    if (!stem_of_cell(row->file, stem))
        return err_set(err, ERR_RANGE, "%s:%d: the file name is too long", m->o->args[1], row->line);
    int rc = (path = stems_path(m->stems, stem)) ? 0 : stems_find(m->stems, fsio_basename(stem), &path, err);
    for (size_t i = 0; !rc && path && i < m->n && !*ret; i++)
        if (m->items[i].path == path)
            *ret = &m->items[i];
    return rc;
}

static int read_head(struct labelled *item, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    if (!isnan(item->duration_s))
        return 0;
    int rc = eegfile_open_header(item->path, &edf, err);
    if (rc)
        return rc;
    item->start = eegfile_info(edf)->start;
    item->duration_s = eegfile_info(edf)->duration_s;
    return 0;
}

/* ---- the rows ---- */

static void count_other(struct import *m, const char *type) {
    m->others++;
    for (int i = 0; i < m->n_types; i++)
        if (!strcmp(m->types[i].name, type)) {
            m->types[i].count++;
            return;
        }
    if (m->n_types == MAX_TYPES)
        return;
    str_copy(m->types[m->n_types].name, LABELS_CODE_SIZE, type);
    m->types[m->n_types++].count = 1;
}

static void keep_run(struct labelled *item, const double span_s[2], const char *code) {
    item->runs = needed(realloc(item->runs, sizeof *item->runs * (item->n + 1)));
    struct label_run *run = &item->runs[item->n++];
    *run = (struct label_run){.onset_s = span_s[0], .end_s = span_s[1], .confidence = NAN};
    str_copy(run->code, sizeof run->code, code);
}

static enum label_class class_of(struct import *m, const struct label_table_row *row) {
    const enum label_class class = *row->type ? label_rule_class(m->rule, row->type) : LABEL_SEIZURE;
    m->denied += row->answer < 0;
    m->untyped += !*row->type && !row->answer;
    m->typed |= *row->type;
    if (row->answer < 0)
        return LABEL_OTHER;
    return row->answer && class == LABEL_OTHER ? LABEL_SEIZURE : class;
}

static int take_row(struct import *m, const struct label_table *table, const struct label_table_row *row, struct err *err) {
    struct labelled *item;
    double span_s[2];
    int rc = find_item(m, table, row, &item, err);
    if (rc)
        return rc;
    if (!item && own(m->o)->ignore_missing) {
        m->missing++;
        return 0;
    }
    if (!item)
        return err_set(err, ERR_NOT_FOUND, "%s:%d: there is no recording %s below %s", m->o->args[1], row->line, row->file,
                       m->root);
    if ((rc = read_head(item, err)))
        return rc;
    const struct eeg_info info = {.start = item->start, .duration_s = item->duration_s};
    item->named = true;
    if ((rc = label_table_place(table, row, &info, own(m->o)->clock, span_s, err)) || isnan(span_s[0]))
        return rc;
    const enum label_class class = class_of(m, row);
    if (class == LABEL_OTHER) {
        count_other(m, row->answer ? row->said : row->type);
        return 0;
    }
    *(class == LABEL_SEIZURE ? &m->seizures : &m->unsure) += 1;
    if (!events_is_plain(row->type))
        return err_set(err, ERR_INVALID, "%s:%d: the type has a line end, a tab or another control character; expected plain text",
                       m->o->args[1], row->line);
    const char *code = class == LABEL_UNSURE ? "unknown" : events_is_seizure(row->type) ? row->type : "sz";
    keep_run(item, span_s, code);
    return 0;
}

static void tell_unused(const struct label_table *table) {
    struct str list = str_of(TOLD);
    for (int i = 0; i < table->table.n_names; i++)
        if (*table->table.names[i] && !label_table_reads(table, i))
            str_printf(&list, "%s%s", list.len ? ", " : "", table->table.names[i]);
    if (list.len) {
        output_clean(list.data);
        fprintf(stderr, "brrctl: note: columns not used: %s\n", list.data);
    }
    str_done(&list);
}

static int read_table(struct import *m, struct err *err) {
    struct label_table table;
    struct label_table_row row;
    bool more = true;
    struct label_table_columns columns = own(m->o)->columns;
    columns.one = m->n == 1;
    int rc = label_table_open(&table, m->o->args[1], &columns, err);
    if (rc)
        return rc;
    tell_unused(&table);
    while (more) { /* every row is looked at, so that all that is wrong is said at once */
        if ((rc = label_table_next(&table, &more, &row, err)) || (more && (rc = take_row(m, &table, &row, err))))
            tell_problem(&m->problems, err->message);
        if (rc && rc != ERR_INVALID && rc != ERR_NOT_FOUND)
            break;
        more = more || rc;
    }
    label_table_close(&table);
    return 0;
}

/* A column of types in which none is known as a seizure is a table that was not understood. */
static int check_rows(const struct import *m, struct err *err) {
    if (m->problems)
        return err_set(err, ERR_INVALID, "%s of %s cannot be used%s; nothing was written", counted(m->problems, "row").text,
                       m->o->args[1], m->problems > SHOWN ? ", of which the first are listed" : "");
    if (m->others && !m->seizures && !m->unsure && !m->denied)
        return err_set(err, ERR_INVALID,
                       "no row of %s has a type that is a seizure (the first one is '%s'); name seizures with --seizure PATTERN, "
                       "or add --type none if each row is a seizure",
                       m->o->args[1], m->types[0].name);
    return 0;
}

/* ---- the files ---- */

static bool wanted(const struct import *m, const struct labelled *item) {
    return !item->again && !item->unread && (item->named || own(m->o)->complete);
}

static int path_of(const struct import *m, const struct labelled *item, char buf[PATH_SIZE], struct err *err) {
    char name[PATH_SIZE];
    const char *below = item->path;
    if (fsio_is_dir(m->root) && str_starts(below, m->root))
        below += strlen(m->root);
    below += strspn(below, "/");
    const char *from = own(m->o)->output ? below : item->path;
    int rc = events_path(events_format_find("tsv"), from, own(m->o)->output ? name : buf, PATH_SIZE, err);
    return rc || !own(m->o)->output ? rc : fsio_join(buf, PATH_SIZE, own(m->o)->output, name, err);
}

static int check_files(struct import *m, struct err *err) {
    char path[PATH_SIZE];
    for (size_t i = 0; i < m->n; i++) {
        struct labelled *item = &m->items[i];
        int rc = 0;
        if (wanted(m, item) && !item->named && read_head(item, err)) { /* nothing is known of it */
            fprintf(stderr, "brrctl: note: no label file: %s\n", err->message);
            item->unread = true;
        }
        if (wanted(m, &m->items[i]) && ((rc = path_of(m, &m->items[i], path, err)) || (rc = read_head(&m->items[i], err)) ||
                                        (rc = outputs_check(path, m->o->force, err))))
            return rc;
    }
    return 0;
}

ORDER_BY(by_onset, struct label_run, order_f64(x->onset_s, y->onset_s))

static void tell_file(const struct import *m, const struct labelled *item, const char *path) {
    if (!m->o->json)
        return;
    struct json_writer *w = output_begin();
    json_put_str(w, "recording", item->path);
    json_put_str(w, "labels", path);
    json_put_i64(w, "seizures", (int64_t)item->n);
    output_end(w);
}

static int write_file(struct import *m, struct labelled *item, struct err *err) {
    char path[PATH_SIZE], start[32];
    int rc;
    if ((rc = path_of(m, item, path, err)) || (rc = fsio_mkdirs_above(path, err)))
        return rc;
    SORT(item->runs, item->n, by_onset);
    const char *text = eeg_start_text(&item->start, start, sizeof start);
    const struct events_header header = {
        .recording_s = item->duration_s, .record_name = fsio_basename(item->path), .start_text = strcmp(text, "n/a") ? text : NULL};
    if ((rc = events_write(events_format_find("tsv"), path, item->runs, item->n, &header, err)) ||
        (rc = outputs_add_copy(path, err))) /* what people said: brrd may replace it, and it holds labels */
        return rc;
    m->written++;
    tell_file(m, item, path);
    return 0;
}

static int write_files(struct import *m, struct err *err) {
    int rc = check_files(m, err);
    for (size_t i = 0; !rc && i < m->n; i++)
        rc = wanted(m, &m->items[i]) ? write_file(m, &m->items[i], err) : 0;
    return rc;
}

/* ---- what was done ---- */

static void print_sum(const struct import *m) {
    int without = 0, unnamed = 0;
    const char *first = NULL;
    for (size_t i = 0; i < m->n; i++) {
        without += wanted(m, &m->items[i]) && !m->items[i].n;
        const bool absent = !m->items[i].named && !m->items[i].again;
        unnamed += absent;
        first = !absent || first ? first : m->items[i].path;
    }
    if (!m->o->json) {
        printf("%s in %s; %s without", counted(m->seizures, "seizure").text, counted(m->written - without, "recording").text,
               counted(without, "recording").text);
        printf(m->unsure ? "; %d unsure\n" : "\n", m->unsure);
        for (int i = 0; i < m->n_types; i++)
            printf("  ignored, no seizure: %s %d\n", m->types[i].name, m->types[i].count);
        printf("%s written %s %s\n", counted(m->written, "label file").text,
               own(m->o)->output ? "below" : "beside the recordings of", own(m->o)->output ? own(m->o)->output : m->root);
    }
    if (m->typed && m->untyped)
        fprintf(stderr, "brrctl: note: %s without a type, taken as %s\n", counted(m->untyped, "row").text,
                m->untyped == 1 ? "a seizure" : "seizures");
    if (m->missing)
        fprintf(stderr, "brrctl: note: %s left out, whose recordings are not below %s\n", counted(m->missing, "row").text, m->root);
    if (unnamed && !own(m->o)->complete)
        fprintf(stderr, "brrctl: note: the table does not name %s (such as %s); if there is no seizure in them, add --complete\n",
                counted(unnamed, "recording").text, first);
}

/* "." of a table in the working directory. */
static const char *folder_of(const char *table, char buf[PATH_SIZE]) {
    size_t len = (size_t)(fsio_basename(table) - table);
    str_format(buf, PATH_SIZE, "%.*s", len > 1 ? (int)len - 1 : 1, len ? table : ".");
    return buf;
}

static int cmd_labels(const struct arguments *o) {
    OWNED(import_done) struct import m = {.o = o};
    char folder[PATH_SIZE];
    struct err err = {0};
    if (strcmp(o->args[0], "import") != 0) {
        fprintf(stderr, "brrctl: unknown labels command '%s'; expected import\n", o->args[0]);
        return EXIT_USAGE;
    }
    m.root = o->n_args > 2 ? o->args[2] : folder_of(o->args[1], folder);
    if (fsio_is_dir(o->args[1])) {
        err_set(&err, ERR_INVALID, "%s is a folder; expected `brrctl labels import TABLE [DIR]`", o->args[1]);
        return brrctl_fail(&err);
    }
    if (label_rule_write("auto", own(o)->seizure.items, (size_t)own(o)->seizure.n, m.rule, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    if (read_recordings(&m, &err) || read_table(&m, &err) || check_rows(&m, &err) || write_files(&m, &err))
        return brrctl_fail(&err);
    print_sum(&m);
    return 0;
}

BRRCTL_COMMAND(
    labels, "import TABLE [DIR]", ARGUMENTS(rows, .local = true), cmd_labels,
    "make label files of one table of seizures, such as a spreadsheet saved as CSV; works without a daemon",
    "TABLE has a row for each seizure: the recording's file name, onset, end or duration. Columns are separated by commas,\n"
    "semicolons or tabs. Times are seconds, or hours:minutes:seconds of the recording (--clock: of the day), or YYYY-MM-DD\n"
    "hh:mm:ss. A row without times says that its recording has no seizure. The recordings are those below DIR (default: the\n"
    "table's folder), and NAME_events.tsv is written beside each, or below --output.\n"
    "Names of the column of types: type, eventType, trial_type, label, event, description, Typ, Ereignis, Art, Anfallstyp,\n"
    "Seizure type, Kind of event, Kategorie, category, class, annotation, tipo, événement, evento, catégorie, categoría,\n"
    "anotación. A column seizure, is_seizure, Anfall, crise or crisis may say yes or no (1 or 0, ja or nein, …).\n"
    "A note lists the columns that are not used.\n"
    "example: brrctl labels import seizures.csv /data/my-eeg --file Recording --onset Start --end Stop");
