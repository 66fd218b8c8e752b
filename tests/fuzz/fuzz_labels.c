/* Any text as each of the label files, and as a table of the seizures of many recordings: the first byte picks the format and the
 * encoding. Runs that come back are sorted and apart; rows of a table lie in their recording. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/str.h"
#include "eeg/label_table.h"
#include "eeg/labels.h"
#include "formats/eegfile.h"
#include "fuzz_encoding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_table(const char *path) {
    static const struct label_table_columns usual;
    const struct eeg_info recording = {.duration_s = 7200, .start = {2020, 2, 1, 23, 30, 0, 0.5, true}};
    struct label_table table;
    struct label_table_row row;
    struct err err;
    double span_s[2];
    bool more = true;
    if (label_table_open(&table, path, &usual, &err))
        return;
    while (more)
        if (!label_table_next(&table, &more, &row, &err) && more)
            for (int clock = 0; clock < 2; clock++)
                if (!label_table_place(&table, &row, &recording, clock, span_s, &err) && !isnan(span_s[0]) &&
                    !(span_s[0] >= 0 && span_s[0] < 7200 && span_s[0] < span_s[1]))
                    abort();
    label_table_close(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct {
        const char *format, *file;
    } kinds[8] = {{"bids-tsv", "chb01_03_events.tsv"},   {"tusz-csv", "chb01_03.csv"},
                  {"csv_bi", "chb01_03.csv_bi"},         {"chbmit-summary", "chb01-summary.txt"},
                  {"edf+", "chb01_03_annotations.edf"},  {"mne", "chb01_03_annotations.txt"},
                  {"json", "chb01_03_annotations.json"}, {"table", "chb01_03.table"}};
    static char dir[64];
    if (!*dir) {
        str_format(dir, sizeof dir, "%s/brr-fuzz-labels-%ld", fsio_is_dir("/dev/shm") ? "/dev/shm" : "/tmp", (long)getpid());
        if (fsio_mkdirs(dir, NULL))
            abort();
    }
    if (!size)
        return 0;
    char path[128], edf[128];
    struct labels labels;
    struct err err;
    unsigned kind = data[0] % 8;
    fuzz_encoding(data[0] / 8U);
    str_format(path, sizeof path, "%s/%s", dir, kinds[kind].file);
    str_format(edf, sizeof edf, "%s/chb01_03.edf", dir);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data + 1, 1, size - 1, file) != size - 1)
        abort();
    fclose(file);
    if (!strcmp(kinds[kind].format, "table"))
        read_table(path);
    else if (labels_load(edf, kinds[kind].format, NULL, &labels, &err) == 0) {
        for (size_t i = 0; i < labels.n_runs; i++)
            if (!(labels.runs[i].onset_s < labels.runs[i].end_s) || (i && !(labels.runs[i - 1].end_s < labels.runs[i].onset_s)))
                abort();
        labels_done(&labels);
    }
    unlink(path);
    rmdir(dir);
    *dir = '\0';
    return 0;
}
