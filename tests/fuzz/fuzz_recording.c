/* Any bytes as a cached recording. One that opens gives its facts, and windows from every segment without touching what is not
 * there. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/str.h"
#include "windows/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { WINDOW = 64 };
    static char path[64];
    static float x[WINDOW * FRONTEND_MAX_CHANNELS];
    static uint8_t labels[WINDOW];
    struct recording *rec = NULL;
    struct recording_info info;
    struct err err;
    if (!*path)
        str_format(path, sizeof path, "%s/brr-fuzz-recording-%ld", fsio_is_dir("/dev/shm") ? "/dev/shm" : "/tmp", (long)getpid());
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
    if (recording_open(path, &rec, &err) == 0) {
        recording_info(rec, &info);
        for (int s = 0; s < info.n_segments && s < 8; s++) {
            int64_t valid = 0, last = info.segments[s].end - 1;
            if (info.segments[s].first < 0 || info.segments[s].end > info.samples || !recording_ready(rec) ||
                window_read(rec, info.segments[s].first, WINDOW, x, labels, &valid, &err) || valid < 1 ||
                window_read(rec, last, WINDOW, x, labels, &valid, &err) || valid != 1)
                abort();
        }
        recording_close(rec);
    }
    unlink(path);
    return 0;
}
