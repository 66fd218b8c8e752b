/* events_driver: an event file for a recording, for the tests with readers of other programs.
 * usage: events_driver FORMAT RECORDING N OUT: N events every 20 s from 77/256 s on, each 11.421875 s long. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fsio.h"
#include "base/str.h"
#include "eeg/events.h"
#include "formats/eegfile.h"

static int write_events(char **argv, int64_t n, struct err *err) {
    const struct events_format *format = events_format_find(argv[1]);
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    OWNED_MEMORY struct label_run *runs = calloc((size_t)n + 1, sizeof *runs);
    if (!format || !runs)
        return err_set(err, ERR_INVALID, "unknown format");
    int rc = eegfile_open_header(argv[2], &edf, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++)
        runs[i] = (struct label_run){
            .onset_s = 77.0 / 256 + 20 * (double)i, .end_s = 3001.0 / 256 + 20 * (double)i, .confidence = 0.75, .code = "sz"};
    const struct events_header header = {
        .recording_s = eegfile_info(edf)->duration_s, .record_name = fsio_basename(argv[2]), .source = eegfile_info(edf)};
    return events_write(format, argv[4], runs, (size_t)n, &header, err);
}

int main(int argc, char **argv) {
    struct err err = {0};
    int64_t n;
    char text[1024];
    if (argc != 5 || !str_to_i64(argv[3], &n) || n < 0) {
        fputs("usage: events_driver FORMAT RECORDING N OUT\n", stderr);
        return 2;
    }
    if (!write_events(argv, n, &err))
        return 0;
    fprintf(stderr, "events_driver: %s\n", err_text(&err, text, sizeof text));
    return 1;
}
