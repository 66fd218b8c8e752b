#include "eeg/events.h"

#include "base/grow.h"
#include "eeg/events_formats.h"
#include "eeg/label_rule.h"
#include "formats/civil.h"
#include "formats/eegfile.h"

static const size_t MAX_TEXT = (size_t)256 << 20;

static const struct events_format formats[EVENTS_FORMATS] = {
#define EVENTS_FORMAT(id, name, ending) {name, ending, events_put_##id, events_read_##id},
#include "eeg/events_formats.def"
#undef EVENTS_FORMAT
};

#define EVENTS_FORMAT(id, name, ending) "|" name
const char events_names[] =
#include "eeg/events_formats.def"
    ;
#undef EVENTS_FORMAT

bool events_is_seizure(const char *code) { return label_rule_class(NULL, code) == LABEL_SEIZURE; }

void events_done(struct events_file *events) {
    FREE_MEMBERS(*events, rows, skipped);
    events->rows = events->skipped = NULL;
    events->n_rows = events->capacity = events->n_skipped = events->skipped_capacity = 0;
}

static int append(struct event_row **rows, size_t *n, size_t *capacity, const struct event_row *row, const char *path,
                  struct err *err) {
    if (*n == LABELS_MAX_ROWS)
        return err_set(err, ERR_EXHAUSTED, "%s: more than %d events", path, LABELS_MAX_ROWS);
    if (!GROW(*rows, *n, *capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
    (*rows)[(*n)++] = *row;
    return 0;
}

int events_add(struct events_file *events, const struct event_row *row, const char *path, struct err *err) {
    return append(&events->rows, &events->n_rows, &events->capacity, row, path, err);
}

int events_skip(struct events_file *events, const struct event_row *row, const char *path, struct err *err) {
    return append(&events->skipped, &events->n_skipped, &events->skipped_capacity, row, path, err);
}

/* Rows that share time with the recording when they are moved. */
static size_t rows_inside(const struct events_file *events, double shift_s, double recording_s) {
    size_t n = 0;
    for (size_t i = 0; i < events->n_rows; i++) {
        const struct event_row *row = &events->rows[i];
        double end_s = row->onset_s + (row->duration_s > 0 ? row->duration_s : 0);
        n += row->onset_s + shift_s < recording_s && end_s + shift_s >= 0;
    }
    return n;
}

double events_relate(struct events_file *events, const struct eeg_info *recording) {
    const struct eeg_start *at = &recording->start;
    const struct civil start = {at->year, at->month, at->day, at->hour, at->minute, (double)at->second + at->subsecond};
    double shift_s = at->known ? events->origin_s - civil_seconds(&start) : NAN;
    events->origin_s = NAN;
    if (isnan(shift_s) || fabs(shift_s) < 1e-5 || (events->origin_doubtful && !rows_inside(events, shift_s, recording->duration_s)))
        return 0;
    for (size_t i = 0; i < events->n_rows; i++) {
        events->rows[i].onset_s += shift_s;
        events->rows[i].end_s += shift_s;
    }
    return shift_s;
}

const struct events_format *events_format_at(int index) { return index >= 0 && index < EVENTS_FORMATS ? &formats[index] : NULL; }

const struct events_format *events_format_find(const char *name) {
    if (!name || !*name)
        return &formats[0];
    for (int i = 0; i < EVENTS_FORMATS; i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

const struct events_format *events_format_of(const char *path) {
    for (int i = 0; i < EVENTS_FORMATS; i++)
        if (str_ends_nocase(path, formats[i].ending))
            return &formats[i];
    return NULL;
}

int events_read(const char *path, struct events_file *ret, struct err *err) {
    const struct events_format *format = events_format_of(path);
    struct events_file events = EVENTS_FILE_EMPTY;
    int rc = (format ? format : &formats[0])->read(path, &events, err);
    if (rc)
        events_done(&events);
    else
        *ret = events;
    return rc;
}

const char *events_extension(const struct events_format *format) { return strrchr(format->ending, '.'); }

int events_path(const struct events_format *format, const char *recording_path, char *buf, size_t size, struct err *err) {
    const size_t stem = eegfile_stem(recording_path, *format->ending != '.');
    if (!str_format(buf, size, "%.*s%s", (int)stem, recording_path, format->ending))
        return err_set(err, ERR_RANGE, "the path is too long: %.200s…", recording_path);
    return 0;
}

bool events_is_plain(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            return false;
    return true;
}

int events_put(const struct events_format *format, const struct label_run *runs, size_t n_runs, const struct events_header *header,
               struct str *out, struct err *err) {
    const bool commas = format == &formats[EVENTS_INDEX_mne] || format == &formats[EVENTS_INDEX_csv_bi];
    for (size_t i = 0; i < n_runs; i++)
        if (!events_is_plain(runs[i].code) || (commas && strchr(runs[i].code, ',')))
            return err_set(err, ERR_INVALID, "the type of the event at %.2f s has a line end, a tab%s; expected plain text",
                           runs[i].onset_s, commas ? " or a comma" : " or another control character");
    if (header->record_name && !events_is_plain(header->record_name))
        return err_set(err, ERR_INVALID, "the name of the recording has a control character; rename it");
    format->put(runs, n_runs, header, out);
    return 0;
}

int events_write(const struct events_format *format, const char *path, const struct label_run *runs, size_t n_runs,
                 const struct events_header *header, struct err *err) {
    OWNED(str_done) struct str text = str_of(MAX_TEXT);
    int rc = events_put(format, runs, n_runs, header, &text, err);
    return rc ? rc : fsio_write_text(path, &text, err);
}
