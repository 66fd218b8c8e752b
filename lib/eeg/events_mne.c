/* Event files as text for mne.read_annotations: a line "onset,duration,description" for each event, onsets in seconds from the
 * first sample (which MNE expects of a .txt, where a .csv has times of day). Declared in events.h. */

#include "eeg/events_formats.h"
#include "formats/civil.h"
#include "formats/table.h"

void events_put_mne(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    (void)header;
    str_puts(out, "# MNE-Annotations\n# onset, duration, description\n");
    for (size_t i = 0; i < n_runs; i++)
        str_printf(out, "%.7f,%.7f,%s\n", runs[i].onset_s, runs[i].end_s - runs[i].onset_s, *runs[i].code ? runs[i].code : "sz");
}

/* "orig_time : 2020-02-01 09:59:30.000000+00:00": what the onsets are relative to, instead of the recording's first sample. */
static void visit_comment(void *ctx, const char *text) {
    struct events_file *events = ctx;
    const char *key = strstr(text, "orig_time"), *at = key ? strchr(key, ':') : NULL;
    double seconds;
    if (at && civil_parse(at + 1, &seconds))
        events->origin_s = seconds;
}

static int read_row(const struct table *t, struct events_file *events, struct err *err) {
    struct event_row row = {.confidence = NAN, .line = t->line};
    if (!strcasecmp(table_field(t, 1), "nan")) /* a point in time */
        row.duration_s = NAN;
    else if (!table_parse_number(table_field(t, 1), &row.duration_s))
        row.duration_s = -1;
    if (!table_parse_number(table_field(t, 0), &row.onset_s) || row.duration_s < 0 || fabs(row.onset_s) > EVENTS_MAX_SECONDS ||
        row.duration_s > EVENTS_MAX_SECONDS)
        return err_set(err, ERR_INVALID, "%s:%d: expected onset,duration,description with times in seconds", t->path, t->line);
    row.end_s = row.onset_s + row.duration_s;
    str_copy(row.type, sizeof row.type, table_field(t, 2));
    return events_add(events, &row, t->path, err);
}

int events_read_mne(const char *path, struct events_file *events, struct err *err) {
    static const char *const names[] = {"onset", "duration", "description"}; /* a fourth column names channels */
    struct table t;
    const struct table_plain plain = {',', names, 3, visit_comment, events};
    int rc = table_open_plain(&t, path, &plain, err);
    if (rc)
        return rc;
    bool more = true;
    while (!rc && !(rc = table_next(&t, &more, err)) && more)
        rc = read_row(&t, events, err);
    table_close(&t);
    return rc;
}
