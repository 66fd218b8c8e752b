/* Reading of EDF files record by record, as their writers think of them. */
#pragma once
#include "formats/eegfile.h"

/* n whole records of one signal. */
static inline int edf_read(const struct eegfile *file, int signal, int64_t first, int64_t n, float *uv, struct err *err) {
    const struct eeg_info *info = eegfile_info(file);
    int64_t spr = signal >= 0 && signal < info->n_signals ? info->signals[signal].samples_per_record : 1;
    int64_t most = INT64_MAX / (spr > 0 ? spr : 1);
    first = first > most ? most : first;
    n = n > most ? most : n;
    return eegfile_read(file, &signal, 1, (struct eeg_range){first * spr, n * spr}, &uv, err);
}

/* A file in memory without companions. */
static inline int edf_open_memory(const void *data, size_t len, const char *name, struct eegfile **ret, struct err *err) {
    return eegfile_open_memory(&(struct eegfile_part){name, data, len}, 1, ret, err);
}

/* A head whose whole file has as many bytes. */
static inline int64_t edf_whole_bytes(void *ctx, const char *path) {
    (void)path;
    return *(const int64_t *)ctx;
}

static inline int edf_open_head(const char *path, int64_t whole_bytes, struct eegfile **ret, bool *ret_enough, struct err *err) {
    return eegfile_open_head(path, (struct eegfile_sizes){edf_whole_bytes, &whole_bytes}, ret, ret_enough, err);
}
