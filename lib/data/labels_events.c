/* Event files: the reader of events TSV and the writers of events TSV and csv_bi declared in labels.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fsio.h"
#include "data/labels.h"
#include "data/table.h"

static const size_t MAX_TEXT = (size_t)256 << 20;
static const double MAX_SECONDS = 1e10;

bool labels_is_seizure(const char *code) {
    static const char *const tusz[] = {"gnsz", "fnsz", "cpsz", "absz", "spsz", "tcsz", "tnsz", "mysz"};
    if (!strncasecmp(code, "sz", 2) || !strncasecmp(code, "seiz", 4))
        return true;
    for (size_t i = 0; i < sizeof tusz / sizeof *tusz; i++)
        if (!strcasecmp(code, tusz[i]))
            return true;
    return false;
}

struct event_columns {
    int onset, duration, type, confidence, recording, start;
};

static int find_columns(const struct table *t, struct event_columns *c, struct err *err) {
    int rc = table_require(t, "onset", &c->onset, err);
    if (!rc)
        rc = table_require(t, "duration", &c->duration, err);
    if (!rc)
        rc = table_require(t, "eventType|event_type|trial_type", &c->type, err);
    c->confidence = table_column(t, "confidence");
    c->recording = table_column(t, "recordingDuration");
    c->start = table_column(t, "dateTime");
    return rc;
}

static int read_row(const struct table *t, const struct event_columns *c, struct events_file *events, struct event_row *row,
                    struct err *err) {
    double recording = NAN;
    int rc = table_number(t, c->onset, false, &row->onset_s, err);
    if (!rc)
        rc = table_number(t, c->duration, true, &row->duration_s, err);
    row->confidence = NAN;
    if (!rc && c->confidence >= 0)
        rc = table_number(t, c->confidence, true, &row->confidence, err);
    if (!rc && c->recording >= 0)
        rc = table_number(t, c->recording, true, &recording, err);
    if (rc)
        return rc;
    if (row->duration_s < 0 || fabs(row->onset_s) > MAX_SECONDS || row->duration_s > MAX_SECONDS || recording < 0 ||
        recording > MAX_SECONDS)
        return err_set(err, ERR_INVALID, "%s:%d: onset %s and duration %s are no times of a recording", t->path, t->line,
                       table_field(t, c->onset), table_field(t, c->duration));
    if (!*table_field(t, c->type))
        return err_set(err, ERR_INVALID, "%s:%d: column '%s' is blank; expected sz, bckg or another event type", t->path, t->line,
                       t->names[c->type]);
    str_copy(row->type, sizeof row->type, table_field(t, c->type));
    row->line = t->line;
    if (isnan(events->recording_s))
        events->recording_s = recording;
    if (!events->n_rows && *table_field(t, c->start))
        str_copy(events->start_text, sizeof events->start_text, table_field(t, c->start));
    return 0;
}

int events_read_tsv(const char *path, struct events_file *ret, struct err *err) {
    struct table t;
    struct event_columns columns;
    struct events_file events = {.recording_s = NAN, .start_text = "n/a"};
    int rc = table_open(&t, path, '\t', NULL, NULL, err);
    if (rc)
        return rc;
    rc = find_columns(&t, &columns, err);
    size_t capacity = 0;
    while (!rc) {
        bool more;
        rc = table_next(&t, &more, err);
        if (rc || !more)
            break;
        if (events.n_rows == LABELS_MAX_ROWS) {
            rc = err_set(err, ERR_EXHAUSTED, "%s:%d: more than %d events", path, t.line, LABELS_MAX_ROWS);
            break;
        }
        if (events.n_rows == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            struct event_row *moved = realloc(events.rows, capacity * sizeof *moved);
            if (!moved) {
                rc = err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
                break;
            }
            events.rows = moved;
        }
        rc = read_row(&t, &columns, &events, &events.rows[events.n_rows], err);
        if (!rc)
            events.n_rows++;
    }
    table_close(&t);
    if (rc) {
        events_done(&events);
        return rc;
    }
    *ret = events;
    return 0;
}

void events_done(struct events_file *events) {
    free(events->rows);
    events->rows = NULL;
    events->n_rows = 0;
}

/* ---- writers ---- */

static void put_tsv_row(struct str *out, const struct label_run *run, const char *code, const struct events_header *header) {
    /* The end is rounded, not the duration, so that onset + duration reads back as the end. */
    double onset = round(run->onset_s * 100) / 100, end = round(run->end_s * 100) / 100;
    str_printf(out, "%.2f\t%.2f\t%s\t", onset, end - onset, code);
    if (isfinite(run->confidence))
        str_printf(out, "%.2f", run->confidence);
    else
        str_puts(out, "n/a");
    str_printf(out, "\tn/a\t%s\t%.2f\n", header->start_text ? header->start_text : "n/a", header->recording_s);
}

void labels_format_tsv(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    str_puts(out, "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n");
    for (size_t i = 0; i < n_runs; i++)
        put_tsv_row(out, &runs[i], *runs[i].code ? runs[i].code : "sz", header);
    if (!n_runs)
        put_tsv_row(out, &(struct label_run){.end_s = header->recording_s, .confidence = NAN}, "bckg", header);
}

void labels_format_csv_bi(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    str_printf(out, "# version = csv_v1.0.0\n# bname = %s\n# duration = %.4f secs\n#\n",
               header->record_name ? header->record_name : "n/a", header->recording_s);
    str_puts(out, "channel,start_time,stop_time,label,confidence\n");
    for (size_t i = 0; i < n_runs; i++)
        str_printf(out, "TERM,%.4f,%.4f,seiz,%.4f\n", runs[i].onset_s, runs[i].end_s,
                   isfinite(runs[i].confidence) ? runs[i].confidence : 1.0);
    if (!n_runs)
        str_printf(out, "TERM,0.0000,%.4f,bckg,1.0000\n", header->recording_s);
}

static int write_text(const char *path, struct str *text, struct err *err) {
    int rc = fsio_write_text(path, text, err);
    str_done(text);
    return rc;
}

int labels_write_bids_tsv(const char *path, const struct label_run *runs, size_t n_runs, const struct events_header *header,
                          struct err *err) {
    struct str text;
    str_init(&text, MAX_TEXT);
    labels_format_tsv(runs, n_runs, header, &text);
    return write_text(path, &text, err);
}

int labels_write_csv_bi(const char *path, const struct label_run *runs, size_t n_runs, const struct events_header *header,
                        struct err *err) {
    struct str text;
    str_init(&text, MAX_TEXT);
    labels_format_csv_bi(runs, n_runs, header, &text);
    return write_text(path, &text, err);
}
