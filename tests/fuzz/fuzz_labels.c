/* Any text as each of the label files: the first byte picks the format. Runs that come back are sorted and apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/str.h"
#include "eeg/labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct {
        const char *format, *file;
    } kinds[7] = {{"bids-tsv", "chb01_03_events.tsv"},  {"tusz-csv", "chb01_03.csv"},
                  {"csv_bi", "chb01_03.csv_bi"},        {"chbmit-summary", "chb01-summary.txt"},
                  {"edf+", "chb01_03_annotations.edf"}, {"mne", "chb01_03_annotations.txt"},
                  {"json", "chb01_03_annotations.json"}};
    static char dir[64];
    if (!*dir) {
        str_format(dir, sizeof dir, "/tmp/brr-fuzz-labels-%ld", (long)getpid());
        if (fsio_mkdirs(dir, NULL))
            abort();
    }
    if (!size)
        return 0;
    char path[128], edf[128];
    struct labels labels;
    struct err err;
    unsigned kind = data[0] % 7;
    str_format(path, sizeof path, "%s/%s", dir, kinds[kind].file);
    str_format(edf, sizeof edf, "%s/chb01_03.edf", dir);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data + 1, 1, size - 1, file) != size - 1)
        abort();
    fclose(file);
    if (labels_load(edf, kinds[kind].format, NULL, &labels, &err) == 0) {
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
