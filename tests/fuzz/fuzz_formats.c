/* Any bytes as a recording of a format that is not EDF, with companions: of the first two bytes, 14 bits are the length of the file
 * that names the recording and two the encoding; the rest is the contents of every companion. Open it or not, then read the first
 * and the last samples of every usable signal. */
#include <stdlib.h>
#include <string.h>

#include "formats/eegfile.h"
#include "fuzz_encoding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_MOST_SAMPLES = 4096 };

static void read_ends(const struct eegfile *file) {
    const struct eeg_info *info = eegfile_info(file);
    for (int s = 0; s < info->n_signals; s++) {
        int64_t spr = info->signals[s].samples_per_record, all;
        if (!info->signals[s].usable || __builtin_mul_overflow(spr, info->n_records, &all))
            continue;
        int64_t n = all < FUZZ_MOST_SAMPLES ? all : FUZZ_MOST_SAMPLES;
        float uv[FUZZ_MOST_SAMPLES];
        struct err err;
        (void)eegfile_read(file, &s, 1, (struct eeg_range){0, n}, (float *[]){uv}, &err);
        (void)eegfile_read(file, &s, 1, (struct eeg_range){all - n, n}, (float *[]){uv}, &err);
    }
}

static void check_order(const struct eeg_info *info) {
    int64_t record = 0;
    double end = 0;
    for (int i = 0; i < info->n_segments; i++) {
        const struct eeg_segment *s = &info->segments[i];
        if (s->first_record < record || s->n_records < 1 || s->start_s < end)
            abort();
        record = s->first_record + s->n_records;
        end = s->start_s;
    }
    if (record > info->n_records)
        abort();
    for (size_t i = 1; i < info->n_annotations; i++)
        if (info->annotations[i].onset_s < info->annotations[i - 1].onset_s)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"x.eeg", "x.eeg", "x.vmrk", "x.fdt", "x.dat", "x.21E", "x.PNT", "x.LOG"};
    enum { PARTS = sizeof names / sizeof *names };
    struct eegfile_part parts[PARTS];
    struct eegfile *file = NULL;
    struct err err;
    uint16_t first;
    if (size < sizeof first)
        return 0;
    memcpy(&first, data, sizeof first);
    data += sizeof first;
    size -= sizeof first;
    const size_t named = first & 0x3FFF, own = named < size ? named : size;
    fuzz_encoding(first >> 14);
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct eegfile_part){names[i], data + own, size - own};
    parts[0].data = data;
    parts[0].len = own;
    if (eegfile_open_memory(parts, PARTS, &file, &err))
        return 0;
    check_order(eegfile_info(file));
    read_ends(file);
    eegfile_close(file);
    return 0;
}
