/* Event files of the TUH seizure corpus: .csv_bi (seizure or background of the whole recording) and .csv (per channel). Declared in
 * events.h. */

#include "eeg/events_formats.h"
#include "formats/table.h"

static void visit_comment(void *ctx, const char *text) {
    double *recording_s = ctx, value;
    const char *at = strstr(text, "duration");
    if (!at || !(at = strchr(at, '=')))
        return;
    char number[32];
    at += 1 + strspn(at + 1, " ");
    size_t n = strspn(at, "0123456789.");
    if (n < sizeof number && str_format(number, sizeof number, "%.*s", (int)n, at) && str_to_f64(number, &value) &&
        value <= EVENTS_MAX_SECONDS)
        *recording_s = value;
}

static int read_times(const struct table *t, const int column[4], struct event_row *row, struct err *err) {
    int rc;
    if ((rc = table_number(t, column[0], false, &row->onset_s, err)) ||
        (rc = table_number(t, column[1], false, &row->end_s, err)) ||
        (column[3] >= 0 && (rc = table_number(t, column[3], true, &row->confidence, err))))
        return rc;
    if (!(row->onset_s < row->end_s) || fabs(row->onset_s) > EVENTS_MAX_SECONDS || fabs(row->end_s) > EVENTS_MAX_SECONDS)
        return err_set(err, ERR_INVALID, "%s:%d: start %s is not before stop %s", t->path, t->line, table_field(t, column[0]),
                       table_field(t, column[1]));
    row->duration_s = row->end_s - row->onset_s;
    return 0;
}

static int read_row(const struct table *t, const int column[4], struct events_file *events, struct err *err) {
    const char *code = table_field(t, column[2]);
    struct event_row row = {.confidence = NAN, .line = t->line};
    if (!*code)
        return err_set(err, ERR_INVALID, "%s:%d: column 'label' is blank; expected bckg, seiz or another TUSZ code", t->path,
                       t->line);
    str_copy(row.type, sizeof row.type, code);
    int rc = read_times(t, column, &row, err);
    if (rc)
        return events_is_seizure(code) ? rc : events_skip(events, &row, t->path, err);
    return events_add(events, &row, t->path, err);
}

static int read_rows(struct table *t, struct events_file *events, struct err *err) {
    static const char *const names[3] = {"start_time", "stop_time", "label"};
    int column[4], rc = 0;
    for (int i = 0; i < 3; i++)
        if ((rc = table_require(t, names[i], &column[i], err)))
            return rc;
    column[3] = table_column(t, "confidence");
    bool more = true;
    while (!rc && !(rc = table_next(t, &more, err)) && more)
        rc = read_row(t, column, events, err);
    return rc;
}

int events_read_csv_bi(const char *path, struct events_file *events, struct err *err) {
    struct table t;
    int rc = table_open(&t, path, ',', visit_comment, &events->recording_s, err);
    if (rc)
        return rc;
    rc = read_rows(&t, events, err);
    table_close(&t);
    return rc;
}

void events_put_csv_bi(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    str_printf(out, "# version = csv_v1.0.0\n# bname = %s\n# duration = %.4f secs\n#\n",
               header->record_name ? header->record_name : "n/a", header->recording_s);
    str_puts(out, "channel,start_time,stop_time,label,confidence\n");
    for (size_t i = 0; i < n_runs; i++)
        str_printf(out, "TERM,%.4f,%.4f,seiz,%.4f\n", runs[i].onset_s, runs[i].end_s,
                   isfinite(runs[i].confidence) ? runs[i].confidence : 1.0);
    if (!n_runs)
        str_printf(out, "TERM,0.0000,%.4f,bckg,1.0000\n", header->recording_s);
}
