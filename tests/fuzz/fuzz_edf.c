/* Any bytes as an EDF or BDF file: open or refuse, then decode the first and the last record of every usable signal. */
#include <stdlib.h>

#include "tests/edf_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_SAMPLES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct eegfile *edf;
    struct err err;
    if (edf_open_memory(data, size, "fuzz", &edf, &err))
        return 0;
    const struct eeg_info *info = eegfile_info(edf);
    for (int s = 0; s < info->n_signals; s++) {
        int64_t n = info->signals[s].samples_per_record;
        if (!info->n_records || n > MAX_SAMPLES)
            continue;
        float *uv = malloc((size_t)n * sizeof *uv + 1);
        if (uv && edf_read(edf, s, 0, 1, uv, &err) == 0 && edf_read(edf, s, info->n_records - 1, 1, uv, &err) != 0)
            abort();
        free(uv);
    }
    double end = 0;
    for (int i = 0; i < info->n_segments; i++) {
        if (info->segments[i].start_s < end || info->segments[i].n_records < 1)
            abort();
        end = info->segments[i].start_s;
    }
    for (size_t i = 1; i < info->n_annotations; i++)
        if (info->annotations[i].onset_s < info->annotations[i - 1].onset_s)
            abort();
    eegfile_close(edf);
    return 0;
}
