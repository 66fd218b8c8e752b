/* EDF files made in memory (unit/edf_writer.h), opened, and opened again after a test changed their bytes. */
#pragma once

#include "base/base.h"
#include "tests/edf_records.h"
#include "unit/edf_writer.h"

enum { MAX_BYTES = 1 << 22 };

static const struct written_signal __attribute__((unused))
PLAIN[2] = {{.label = "EEG Fp1-REF", .samples = 8}, {.label = "EEG F3-REF", .samples = 8}};
static const struct written_signal __attribute__((unused)) PLUS[2] = {{.label = "EEG Fp1-REF", .samples = 8},
                                                                      {.label = "EDF Annotations",
                                                                       .samples = 40,
                                                                       .tal = "+1.25\x15"
                                                                              "2\x14seizure\x14@"}};

struct opened {
    struct str bytes;
    struct eegfile *edf;
    const struct eeg_info *info;
    struct err err;
};

static inline int open_written(struct opened *o, const struct written_file *f, bool bdf) {
    str_init(&o->bytes, MAX_BYTES);
    memset(&o->err, 0, sizeof o->err);
    o->edf = NULL;
    edf_write(f, bdf, &o->bytes);
    int rc = edf_open_memory(o->bytes.data, o->bytes.len, "written.edf", &o->edf, &o->err);
    o->info = rc ? NULL : eegfile_info(o->edf);
    return rc;
}

/* Open again after the test changed the bytes. */
static inline int reopen(struct opened *o, size_t len) {
    eegfile_close(o->edf);
    o->edf = NULL;
    int rc = edf_open_memory(o->bytes.data, len, "damaged.edf", &o->edf, &o->err);
    o->info = rc ? NULL : eegfile_info(o->edf);
    return rc;
}

static inline void done(struct opened *o) {
    eegfile_close(o->edf);
    str_done(&o->bytes);
}

static inline bool repaired(const struct eeg_info *info, const char *word) {
    for (int i = 0; i < info->n_repairs; i++)
        if (strstr(info->repairs[i], word))
            return true;
    return false;
}

static inline void put(struct opened *o, size_t at, const char *text, size_t width) {
    memset(o->bytes.data + at, ' ', width);
    memcpy(o->bytes.data + at, text, strlen(text));
}
