/* Event files as text for mne.read_annotations: a line "onset,duration,description" for each event, onsets in seconds from the
 * first sample (which MNE expects of a .txt, where a .csv has times of day). Declared in events.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fsio.h"
#include "eeg/events_formats.h"

static const size_t MAX_BYTES = (size_t)256 << 20;

void events_put_mne(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    (void)header;
    str_puts(out, "# MNE-Annotations\n# onset, duration, description\n");
    for (size_t i = 0; i < n_runs; i++)
        str_printf(out, "%.7f,%.7f,%s\n", runs[i].onset_s, runs[i].end_s - runs[i].onset_s, *runs[i].code ? runs[i].code : "sz");
}

/* The number before the next comma of *at, which moves behind it; false when there is none. */
static bool take_number(char **at, double *ret) {
    char *comma = strchr(*at, ',');
    if (!comma)
        return false;
    *comma = '\0';
    const char *text = *at + strspn(*at, " ");
    *at = comma + 1;
    return str_to_f64(text, ret) && fabs(*ret) <= EVENTS_MAX_SECONDS;
}

static int read_line(char *line, int number, struct events_file *events, const char *path, struct err *err) {
    struct event_row row = {.confidence = NAN, .line = number};
    char *at = line;
    if (!take_number(&at, &row.onset_s) || !take_number(&at, &row.duration_s) || row.duration_s < 0)
        return err_set(err, ERR_INVALID, "%s:%d: expected onset,duration,description with times in seconds", path, number);
    row.end_s = row.onset_s + row.duration_s;
    at += strspn(at, " ");
    at[strcspn(at, ",\r")] = '\0'; /* a fourth column names channels */
    str_copy(row.type, sizeof row.type, at);
    return events_add(events, &row, path, err);
}

static int read_lines(char *text, struct events_file *events, const char *path, struct err *err) {
    int number = 0;
    for (char *line = text, *next; line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = '\0';
        number++;
        if (*line == '#' || !line[strspn(line, " \t\r")])
            continue;
        int rc = read_line(line, number, events, path, err);
        if (rc)
            return rc;
    }
    return 0;
}

int events_read_mne(const char *path, struct events_file *ret, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t len;
    struct events_file events = {.recording_s = NAN, .start_text = "n/a"};
    int rc = fsio_read(path, MAX_BYTES, &text, &len, err);
    if (rc)
        return rc;
    if ((rc = read_lines(text, &events, path, err))) {
        events_done(&events);
        return rc;
    }
    *ret = events;
    return 0;
}
