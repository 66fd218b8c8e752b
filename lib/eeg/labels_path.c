/* Patient, split and label files derived from a recording's path; declared in labels.h and labels_path.h. */

#include "eeg/labels_path.h"
#include "formats/eegfile.h"
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

static int give(char *buf, size_t size, const char *text, size_t len, struct err *err) {
    if (!str_format(buf, size, "%.*s", (int)len, text))
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
        if (!strncmp(part, "sub-", 4) && isalnum((unsigned char)part[4]))
            found = part;
    }
    if (found) {
        for (*ret_len = 4; isalnum((unsigned char)found[*ret_len]);)
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
        return true;
    }
    int format = source == LABELS_BIDS_TSV      ? EVENTS_INDEX_tsv
                 : source == LABELS_TUSZ_CSV_BI ? EVENTS_INDEX_csv_bi
                                                : (int)source - LABELS_FORMATS;
    if (format < 0)
        return false;
    *ret_fits = !events_path(events_format_at(format), recording_path, buf, size, NULL);
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
