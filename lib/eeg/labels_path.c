/* Patient, split and label files derived from a recording's path; declared in labels.h and labels_path.h. */

#include "eeg/labels_path.h"
#include <regex.h>

#include "base/order.h"
#include "formats/eegfile.h"
#include "formats/letters.h"
#include "formats/text.h"
#include "store/outputs.h"

const char *labels_source_name(enum labels_source source) {
    static const char *const names[LABELS_FORMATS] = {[LABELS_NONE] = "none",
                                                      [LABELS_BIDS_TSV] = "bids-tsv",
                                                      [LABELS_TUSZ_CSV] = "tusz-csv",
                                                      [LABELS_TUSZ_CSV_BI] = "tusz-csv_bi",
                                                      [LABELS_CHBMIT_SUMMARY] = "chbmit-summary",
                                                      [LABELS_EDF_ANNOTATIONS] = "edf-annotations"};
    if (source >= LABELS_FORMATS && source < LABELS_SOURCES)
        return events_format_at((int)source - LABELS_FORMATS)->name;
    return names[source < LABELS_FORMATS ? source : LABELS_NONE];
}

#define EVENTS_FORMAT(id, name, ending) "|" name
const char labels_names[] = "auto|bids-tsv|tusz-csv|tusz-csv_bi|chbmit-summary|edf-annotations"
#include "eeg/events_formats.def"
    ;
#undef EVENTS_FORMAT

bool labels_known(const char *format) {
    size_t len = strlen(format), n;
    for (const char *at = labels_names; *at; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        if (n == len && !strncmp(at, format, len))
            return true;
    }
    return false;
}

/* Of the name of a subject: letters beyond ASCII too. */
static bool is_of_name(char c) { return isalnum((unsigned char)c) || (unsigned char)c >= 0x80; }

static const char *const SPLITS[] = {"train", "dev", "eval"};

/* The split a path part of len bytes names, or NULL. */
static const char *split_of(const char *part, size_t len) {
    for (size_t i = 0; i < sizeof SPLITS / sizeof *SPLITS; i++)
        if (strlen(SPLITS[i]) == len && !strncmp(part, SPLITS[i], len))
            return SPLITS[i];
    return NULL;
}

const char *labels_split(const char *relative_path) {
    const char *found = "";
    for (const char *part = relative_path, *slash; (slash = strchr(part, '/')); part = slash + 1) {
        const char *split = split_of(part, (size_t)(slash - part));
        if (split)
            found = split;
    }
    return found;
}

/* A name is the same in either way of writing its letters. */
static int give(char *buf, size_t size, const char *text, size_t len, struct err *err) {
    char name[PATH_MAX];
    if (!str_format(name, sizeof name, "%.*s", (int)len, text) || !letters_joined(name, buf, size))
        return err_set(err, ERR_RANGE, "patient id '%.64s…' of %zu bytes is too long; at most %zu", text, len, size - 1);
    return 0;
}

/* TUSZ file names: eight letters, _sNNN, _tNNN. Length of the patient, or 0. */
static size_t tusz_patient(const char *name) {
    size_t n = 0;
    while (islower((unsigned char)name[n]))
        n++;
    return n == 8 && name[8] == '_' && name[9] == 's' && isdigit((unsigned char)name[10]) ? n : 0;
}

/* The patient that a known form of corpus names, and his length; NULL for other paths. */
static const char *known_patient(const char *relative_path, size_t *ret_len) {
    const char *name = fsio_basename(relative_path), *found = NULL;
    /* BIDS: the last part that begins with sub-, up to the next entity. */
    for (const char *part = relative_path; *part; part += strcspn(part, "/")) {
        part += strspn(part, "/");
        if (!strncmp(part, "sub-", 4) && is_of_name(part[4]))
            found = part;
    }
    if (found) {
        for (*ret_len = 4; is_of_name(found[*ret_len]);)
            ++*ret_len;
        return found;
    }
    /* CHB-MIT: chbNN… */
    *ret_len = 5;
    if (!strncasecmp(name, "chb", 3) && isdigit((unsigned char)name[3]) && isdigit((unsigned char)name[4]))
        return name;
    if ((*ret_len = tusz_patient(name)))
        return name;
    /* TUSZ layout with other file names: the folder below train, dev or eval. */
    for (const char *part = relative_path, *slash; (slash = strchr(part, '/')); part = slash + 1) {
        const char *next = strchr(slash + 1, '/');
        *ret_len = next ? (size_t)(next - slash - 1) : 0;
        if (next && split_of(part, (size_t)(slash - part)))
            return slash + 1;
    }
    return NULL;
}

/* CHB-MIT in lower case; case 21 is case 01, 1.5 years later (PhysioNet's description of the corpus). */
static void fold_chb(char *patient) {
    if (strlen(patient) != 5 || strncasecmp(patient, "chb", 3) || strspn(patient + 3, "0123456789") != 2)
        return;
    bool twenty_first = !strcmp(patient + 3, "21");
    for (int i = 0; i < 5; i++)
        patient[i] = twenty_first ? "chb01"[i] : (char)tolower((unsigned char)patient[i]);
}

int labels_patient(const char *relative_path, enum labels_patient_rule rule, char *buf, size_t size, bool *ret_lone,
                   struct err *err) {
    const char *patient = relative_path, *slash = strchr(relative_path, '/');
    size_t len = 0;
    if (rule == LABELS_PATIENT_AUTO) {
        const char *known = known_patient(relative_path, &len);
        patient = known ? known : relative_path;
        len = known ? len : 0;
    } else if (rule == LABELS_PATIENT_FOLDER) {
        len = slash ? (size_t)(slash - relative_path) : 0;
    } else {
        patient = fsio_basename(relative_path);
        len = strncmp(patient, "sub-", 4) ? 0 : 4;
        len += strcspn(patient + len, "-_. ");
    }
    if (ret_lone)
        *ret_lone = rule == LABELS_PATIENT_AUTO && !len;
    if (!len) {
        patient = relative_path;
        len = eegfile_kind(relative_path) ? eegfile_stem(relative_path, false) : strlen(relative_path);
    }
    int rc = give(buf, size, patient, len, err);
    if (rc)
        return rc;
    if (rule == LABELS_PATIENT_AUTO)
        fold_chb(buf);
    return 0;
}

bool labels_candidate(enum labels_source source, const char *recording_path, char *buf, size_t size, bool *ret_fits) {
    const char *name = fsio_basename(recording_path);
    *ret_fits = true;
    if (source == LABELS_CHBMIT_SUMMARY) {
        if (strncasecmp(name, "chb", 3) != 0 || !isdigit((unsigned char)name[3]) || !isdigit((unsigned char)name[4]))
            return false;
        *ret_fits = str_format(buf, size, "%.*s%.5s-summary.txt", (int)(name - recording_path), recording_path, name);
        return true;
    }
    if (source == LABELS_TUSZ_CSV) {
        *ret_fits = str_format(buf, size, "%.*s.csv", (int)eegfile_stem(recording_path, false), recording_path);
        (void)(*ret_fits && letters_find(buf, size));
        return true;
    }
    int format = source == LABELS_BIDS_TSV      ? EVENTS_INDEX_tsv
                 : source == LABELS_TUSZ_CSV_BI ? EVENTS_INDEX_csv_bi
                                                : (int)source - LABELS_FORMATS;
    if (format < 0)
        return false;
    *ret_fits = !events_path(events_format_at(format), recording_path, buf, size, NULL);
    (void)(*ret_fits && letters_find(buf, size));
    return true;
}

/* True if labels_load with this format would look for the file of the source. */
static bool may_read(enum labels_source source, const char *format) {
    const char *name = labels_source_name(source);
    return !strcmp(format, "auto") || !strcmp(format, name) || (source < LABELS_FORMATS && !strncasecmp(format, name, 4)) ||
           (source == LABELS_BIDS_TSV && !strcmp(format, "tsv")) || (source == LABELS_TUSZ_CSV_BI && strstr(format, "csv_bi"));
}

int labels_stamp(const char *recording_path, const char *rule, char ret[LABELS_STAMP_SIZE], struct err *err) {
    char asked[LABEL_FORMAT_SIZE];
    const char *format = label_rule_format(rule, asked);
    char path[4096], part[64];
    size_t used = 0;
    ret[0] = '\0';
    for (enum labels_source source = LABELS_BIDS_TSV; source < LABELS_SOURCES; source++) {
        bool fits;
        int64_t size, mtime_ns;
        if (source == LABELS_FORMATS + EVENTS_INDEX_tsv || source == LABELS_FORMATS + EVENTS_INDEX_csv_bi ||
            !may_read(source, format) || !labels_candidate(source, recording_path, path, sizeof path, &fits))
            continue;
        if (!fits)
            return err_set(err, ERR_RANGE, "the path of the labels of %s does not fit %zu bytes", fsio_basename(recording_path),
                           sizeof path);
        if (fsio_size(path, &size, &mtime_ns, NULL) || outputs_own(path))
            continue;
        str_format(part, sizeof part, "%d %lld %lld;", (int)source - 1, (long long)size, (long long)mtime_ns);
        str_copy(ret + used, LABELS_STAMP_SIZE - used, part); /* each at most 45 bytes */
        used += strlen(part);
    }
    return 0;
}

/* ---- patients by a pattern or a table ---- */

enum { CSV_BYTES = 64 << 20, PATTERN_BYTES = 1000 };

struct row {
    const char *file, *patient; /* in text */
};
struct patient_rule {
    regex_t pattern;
    bool is_pattern;
    char *text; /* of the CSV; lines and cells end with '\0' */
    struct row *rows;
    size_t n;
};

static bool is_patient_table(const char *text) { return str_ends_nocase(text, ".csv"); }

/* \d, which POSIX lacks, as [0-9]. */
static int compile_patients(const char *text, regex_t *ret, struct err *err) {
    OWNED(str_done) struct str pattern = str_of(4 * PATTERN_BYTES);
    char why[160];
    for (const char *at = text; *at; at++) {
        const bool digit = at[0] == '\\' && at[1] == 'd', escaped = at[0] == '\\' && at[1];
        str_printf(&pattern, digit ? "[0-9]" : escaped ? "\\%c" : "%c", escaped ? at[1] : at[0]);
        at += escaped;
    }
    int code = strlen(text) > PATTERN_BYTES ? REG_ESPACE : regcomp(ret, str_cstr(&pattern), REG_EXTENDED);
    if (code) {
        regerror(code, ret, why, sizeof why);
        return err_set(err, ERR_INVALID, "the pattern of patients '%.200s' cannot be used: %s", text, why);
    }
    if (ret->re_nsub == 1)
        return 0;
    regfree(ret);
    return err_set(
        err, ERR_INVALID,
        "patients by '%.200s': expected auto, folder, prefix, a pattern with one group such as '(Subject\\d+)_', or a .csv "
        "with the columns file and patient",
        text);
}

int patient_rule_check(const char *text, struct err *err) {
    regex_t pattern;
    if (is_patient_table(text))
        return 0;
    int rc = compile_patients(text, &pattern, err);
    if (rc)
        return rc;
    regfree(&pattern);
    return 0;
}

void patient_rule_free(struct patient_rule *r) {
    if (!r)
        return;
    if (r->is_pattern)
        regfree(&r->pattern);
    FREE_MEMBERS(*r, text, rows);
    free(r);
}

/* The next cell of a line, without its quotes; *at moves behind it. */
static char *next_cell(char **at, const char *separator) {
    char *cell = *at, *end, *to;
    if (*cell != '"') {
        end = cell + strcspn(cell, separator);
    } else {
        for (end = ++cell, to = cell; *end && (*end != '"' || end[1] == '"'); *to++ = *end++)
            end += *end == '"';
        char *rest = *end ? end + 1 : end;
        *to = '\0';
        end = rest + strcspn(rest, separator);
    }
    *at = *end ? end + 1 : end;
    *end = '\0';
    return cell;
}

ORDER_BY(by_file, struct row, strcmp(x->file, y->file))

static int check_patients(const struct patient_rule *r, const char *path, struct err *err) {
    for (size_t i = 1; i < r->n; i++)
        if (!strcmp(r->rows[i - 1].file, r->rows[i].file) && strcmp(r->rows[i - 1].patient, r->rows[i].patient) != 0)
            return err_set(err, ERR_INVALID, "%s: %.200s has two patients, %.80s and %.80s", path, r->rows[i].file,
                           r->rows[i - 1].patient, r->rows[i].patient);
    return 0;
}

/* The columns may stand in any order beside others, between commas, semicolons or tabs, as the first line has them. */
static int read_patients(struct patient_rule *r, const char *path, struct err *err) {
    const char *first = r->text + strcspn(r->text, ",;\t\n");
    const char separator[2] = {*first == '\n' || !*first ? ',' : *first};
    int file = -1, patient = -1, number = 0;
    size_t lines = 1;
    for (const char *at = r->text; *at; at++)
        lines += *at == '\n';
    if (!(r->rows = calloc(lines, sizeof *r->rows)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the patients in %s", path);
    for (char *line = r->text, *next; *line; line = next, number++) {
        struct row row = {0};
        size_t len = strcspn(line, "\r\n");
        next = line + len + strspn(line + len, "\r\n");
        line[len] = '\0';
        if (!*line)
            continue;
        char *at = line;
        for (int column = 0; *at; column++) {
            char *cell = next_cell(&at, separator);
            if (!number && !strcasecmp(cell, "file"))
                file = column;
            if (!number && !strcasecmp(cell, "patient"))
                patient = column;
            if (column == file)
                (void)letters_joined(cell, cell, strlen(cell) + 1);
            row.file = column == file ? cell : row.file;
            row.patient = column == patient ? cell : row.patient;
        }
        if (file < 0 || patient < 0)
            return err_set(err, ERR_INVALID, "%s: expected the columns file and patient, separated by commas, semicolons or tabs",
                           path);
        if (number && (!row.file || !*row.file || !row.patient || !*row.patient))
            return err_set(err, ERR_INVALID, "%s: row %d has no %s", path, number + 1, row.file && *row.file ? "patient" : "file");
        if (number)
            r->rows[r->n++] = row;
    }
    SORT(r->rows, r->n, by_file);
    return check_patients(r, path, err);
}

int patient_rule_open(const char *text, struct patient_rule **ret, struct err *err) {
    struct patient_rule *r = calloc(1, sizeof *r);
    size_t len;
    int rc;
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a rule of patients");
    if (is_patient_table(text))
        rc = (rc = text_read(text, CSV_BYTES, &r->text, &len, err)) ? rc : read_patients(r, text, err);
    else
        r->is_pattern = !(rc = compile_patients(text, &r->pattern, err));
    if (rc)
        patient_rule_free(r);
    else
        *ret = r;
    return rc;
}

static const char *find_row(const struct patient_rule *r, const char *file) {
    char name[PATH_MAX];
    const struct row key = {letters_joined(file, name, sizeof name) ? name : file, NULL},
                     *found = r->n ? bsearch(&key, r->rows, r->n, sizeof key, by_file) : NULL;
    return found ? found->patient : NULL;
}

/* The patient of a recording by its path: what the group matched, or the row of the table whose file is the path or its last part.
 * False: the rule names none. RANGE when the name does not fit. */
static int patient_rule_find(const struct patient_rule *r, const char *path, char *buf, size_t size, bool *ret_found,
                             struct err *err) {
    const char *patient = NULL;
    size_t len = 0;
    regmatch_t match[2];
    if (r->is_pattern && !regexec(&r->pattern, path, 2, match, 0) && match[1].rm_so >= 0) {
        patient = path + match[1].rm_so;
        len = (size_t)(match[1].rm_eo - match[1].rm_so);
    } else if (!r->is_pattern && ((patient = find_row(r, path)) || (patient = find_row(r, fsio_basename(path))))) {
        len = strlen(patient);
    }
    *ret_found = patient && len;
    return *ret_found ? give(buf, size, patient, len, err) : 0;
}

int patient_rule_or_name(const struct patient_rule *r, enum labels_patient_rule otherwise, const char *path,
                         const struct patient_name *ret, struct err *err) {
    bool found = false;
    int rc = r ? patient_rule_find(r, path, ret->buf, ret->size, &found, err) : 0;
    if (found && ret->lone)
        *ret->lone = false;
    return rc || found ? rc : labels_patient(path, otherwise, ret->buf, ret->size, ret->lone, err);
}
