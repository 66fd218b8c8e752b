/* Any bytes as the head of an EDF or BDF file, whose length the first ten bytes say. A head that is said to be enough must give the
 * facts that the whole file gives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "formats/edf.h"
#include "tests/edf_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PREFIX = 10, MOST = 1 << 20 };

struct file {
    int fd;
    char path[40];
};

static void put(struct file *f, const uint8_t *data, size_t size) {
    if (!f->fd) {
        if ((f->fd = memfd_create("head", MFD_CLOEXEC)) <= 0)
            abort();
        str_format(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
    }
    if (ftruncate(f->fd, 0) || pwrite(f->fd, data, size, 0) != (ssize_t)size)
        abort();
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool same_start(const struct eeg_start *a, const struct eeg_start *b) {
    return a->known == b->known && a->year == b->year && a->month == b->month && a->day == b->day && a->hour == b->hour &&
           a->minute == b->minute && a->second == b->second && same(a->subsecond, b->subsecond);
}

static bool same_signal(const struct eeg_signal *a, const struct eeg_signal *b) {
    return !strcmp(a->label, b->label) && !strcmp(a->unit, b->unit) && same(a->rate_hz, b->rate_hz) && same(a->gain, b->gain) &&
           same(a->offset, b->offset) && a->samples_per_record == b->samples_per_record && a->annotation == b->annotation &&
           a->volt == b->volt && a->usable == b->usable;
}

static bool same_facts(const struct eeg_info *a, const struct eeg_info *b) {
    bool equal = a->bdf == b->bdf && a->plus == b->plus && a->discontinuous == b->discontinuous && a->n_records == b->n_records &&
                 a->duration_num == b->duration_num && a->duration_den == b->duration_den && same(a->duration_s, b->duration_s) &&
                 a->n_signals == b->n_signals && a->n_segments == b->n_segments;
    for (int i = 0; equal && i < a->n_signals; i++)
        equal = same_signal(&a->signals[i], &b->signals[i]);
    for (int i = 0; equal && i < a->n_segments; i++)
        equal = a->segments[i].first_record == b->segments[i].first_record &&
                a->segments[i].n_records == b->segments[i].n_records && same(a->segments[i].start_s, b->segments[i].start_s);
    return equal;
}

/* Nothing of a file that is longer than what is there may be read beyond it. */
static void read_beyond(const struct file *head, int64_t file_bytes) {
    struct eegfile *edf = NULL;
    bool enough = false;
    struct err err;
    if (edf_open_head(head->path, file_bytes, &edf, &enough, &err))
        return;
    const struct eeg_info *info = eegfile_info(edf);
    for (int s = 0; s < info->n_signals; s++) {
        float *uv = info->signals[s].samples_per_record <= MOST && info->n_records > 0
                        ? malloc((size_t)info->signals[s].samples_per_record * sizeof *uv + 1)
                        : NULL;
        if (uv) {
            (void)edf_read(edf, s, 0, 1, uv, &err);
            (void)edf_read(edf, s, info->n_records - 1, 1, uv, &err);
        }
        free(uv);
    }
    eegfile_close(edf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct file whole, head;
    struct eegfile *a = NULL, *b = NULL;
    uint16_t head_bytes;
    int64_t file_bytes;
    bool enough = false;
    struct err err;
    if (size < PREFIX)
        return 0;
    memcpy(&head_bytes, data, sizeof head_bytes);
    memcpy(&file_bytes, data + sizeof head_bytes, sizeof file_bytes);
    data += PREFIX;
    size -= PREFIX;
    put(&whole, data, size);
    put(&head, data, head_bytes < size ? head_bytes : size);
    if (!edf_open_head(head.path, (int64_t)size, &a, &enough, &err) && enough) {
        if (eegfile_open_header(whole.path, &b, &err) || !same_facts(eegfile_info(a), eegfile_info(b)))
            abort();
        bool first_there = edf_header_bytes(data) + eegfile_record_bytes(a) <= (int64_t)head_bytes;
        if (first_there && !same_start(&eegfile_info(a)->start, &eegfile_info(b)->start))
            abort();
    }
    eegfile_close(a);
    eegfile_close(b);
    read_beyond(&head, file_bytes);
    return 0;
}
