/* Event files as tables: the TSV of SzCORE and BIDS. Declared in events.h. */

#include "eeg/events_formats.h"
#include "formats/table.h"

struct event_columns {
    int onset, duration, type, confidence, recording, start, channels;
};

static int find_columns(const struct table *t, struct event_columns *c, struct err *err) {
    int rc;
    if ((rc = table_require(t, "onset", &c->onset, err)) || (rc = table_require(t, "duration", &c->duration, err)) ||
        (rc = table_require(t, "eventType|event_type|trial_type", &c->type, err)))
        return rc;
    c->confidence = table_column(t, "confidence");
    c->recording = table_column(t, "recordingDuration");
    c->start = table_column(t, "dateTime");
    c->channels = table_column(t, "channels");
    return 0;
}

static int read_times(const struct table *t, const struct event_columns *c, struct event_row *row, double *ret_recording,
                      struct err *err) {
    int rc;
    if ((rc = table_number(t, c->onset, false, &row->onset_s, err)) ||
        (rc = table_number(t, c->duration, true, &row->duration_s, err)) ||
        (c->confidence >= 0 && (rc = table_number(t, c->confidence, true, &row->confidence, err))) ||
        (c->recording >= 0 && (rc = table_number(t, c->recording, true, ret_recording, err))))
        return rc;
    if (*ret_recording < 0 || *ret_recording > EVENTS_MAX_SECONDS)
        return err_set(err, ERR_INVALID, "%s:%d: recordingDuration %s is no length of a recording", t->path, t->line,
                       table_field(t, c->recording));
    if (row->duration_s < 0 || fabs(row->onset_s) > EVENTS_MAX_SECONDS || row->duration_s > EVENTS_MAX_SECONDS)
        return err_set(err, ERR_INVALID, "%s:%d: onset %s and duration %s are no times of a recording", t->path, t->line,
                       table_field(t, c->onset), table_field(t, c->duration));
    row->end_s = row->onset_s + row->duration_s;
    return 0;
}

static int read_row(const struct table *t, const struct event_columns *c, struct events_file *events, struct err *err) {
    struct event_row row = {.confidence = NAN, .line = t->line};
    double recording = NAN;
    const char *type = table_field(t, c->type);
    if (!*type)
        return err_set(err, ERR_INVALID, "%s:%d: column '%s' is blank; expected sz, bckg or another event type", t->path, t->line,
                       t->names[c->type]);
    int rc = read_times(t, c, &row, &recording, err);
    str_copy(row.type, sizeof row.type, type);
    events_take_channels(&row, c->channels < 0 ? "" : table_field(t, c->channels));
    if (rc)
        return events_is_seizure(type) ? rc : events_skip(events, &row, t->path, err);
    if (fabs(recording - events->recording_s) >= 1)
        return err_set(err, ERR_INVALID,
                       "%s:%d: recordingDuration is %.2f s, and %.2f s above; expected the events of one recording", t->path,
                       t->line, recording, events->recording_s);
    if (isnan(events->recording_s))
        events->recording_s = recording;
    if (!events->n_rows && *table_field(t, c->start))
        str_copy(events->start_text, sizeof events->start_text, table_field(t, c->start));
    return events_add(events, &row, t->path, err);
}

static int read_rows(struct table *t, struct events_file *events, struct err *err) {
    struct event_columns columns;
    bool more = true;
    int rc = find_columns(t, &columns, err);
    while (!rc && !(rc = table_next(t, &more, err)) && more)
        rc = read_row(t, &columns, events, err);
    return rc;
}

int events_read_tsv(const char *path, struct events_file *events, struct err *err) {
    struct table t;
    int rc = table_open(&t, path, '\t', NULL, NULL, err);
    if (rc)
        return rc;
    rc = read_rows(&t, events, err);
    table_close(&t);
    return rc;
}

static void put_row(struct str *out, const struct label_run *run, const char *code, const struct events_header *header) {
    /* The end is rounded, not the duration, so that onset + duration reads back as the end. */
    double onset = round(run->onset_s * 100) / 100, end = round(run->end_s * 100) / 100;
    str_printf(out, "%.2f\t%.2f\t%s\t", onset, end - onset, code);
    if (isfinite(run->confidence))
        str_printf(out, "%.2f", run->confidence);
    else
        str_puts(out, "n/a");
    str_printf(out, "\t%s\t%s\t%.2f\t%s\n", *run->channels ? run->channels : "n/a", header->start_text ? header->start_text : "n/a",
               header->recording_s, code);
}

/* SzCORE's seven columns (2 decimals; without a run one bckg row over the whole recording), then the type again as BIDS names it.
 */
void events_put_tsv(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    str_puts(out, "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\ttrial_type\n");
    for (size_t i = 0; i < n_runs; i++)
        put_row(out, &runs[i], *runs[i].code ? runs[i].code : "sz", header);
    if (!n_runs)
        put_row(out, &(struct label_run){.end_s = header->recording_s, .confidence = NAN}, "bckg", header);
}
