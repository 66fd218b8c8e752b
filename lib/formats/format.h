/* format: what a recording format is made of; for lib/formats only. A format is a file, a row of recordings.def, and its line in
 * docs/formats.md. */
#pragma once
#include "formats/eegfile.h"
#include "formats/filebytes.h"

enum { FORMAT_PROBE_BYTES = 512 };

struct recording_format;
struct matrix;

/* The first member of each format's own struct. */
struct eegfile {
    const struct recording_format *format;
    const char *path; /* for messages */
    const struct eeg_info *info;
    struct eeg_signal *signals; /* of info, for eegfile_assume_unit */
    bool annotations_known;
};

/* How a file is opened. */
enum format_depth { FORMAT_WHOLE, FORMAT_HEADER, FORMAT_HEAD };
struct format_source {
    const struct recording_format *format;
    struct filebytes bytes; /* of the file that names the recording; open takes them over and clears them */
    enum format_depth depth;
    size_t whole;                     /* its length in all: more than bytes.len when only its head is there */
    struct eegfile_sizes sizes;       /* of companions, for FORMAT_HEAD */
    const struct eegfile_part *parts; /* companions in memory, or NULL: they are files */
    int n_parts;
    struct eegfile_companions *listed; /* only list the companions that opening looks for: none of them is found; or NULL */
    struct eegfile_growth *growth;     /* open only the header, and say where the samples are being written; or NULL */
    bool enough;                       /* set to false by open when the head does not decide */
};

struct recording_format {
    const char *name;                /* for people */
    const char *const *endings;      /* of files that name a recording, each with its dot, NULL at the end */
    const char *const *part_endings; /* of files that are parts of one, likewise; NULL: none */
    /* True if a file that begins with these n bytes (at most FORMAT_PROBE_BYTES) has this format. */
    bool (*probe)(const uint8_t *start, size_t n);
    /* Opens the file; UNSUPPORTED with the export that works for a format that is only known by name. */
    int (*open)(struct format_source *source, struct eegfile **ret, struct err *err);
    /* For matrix_open (matrix.h): reads the source into a matrix. */
    int (*fill)(struct format_source *source, struct matrix *m, struct err *err);
    /* Signals and range are checked: see eegfile_read. */
    int (*read)(const struct eegfile *file, const int *signals, int n_signals, struct eeg_range range, float *const *uv,
                struct err *err);
    int (*feed)(struct eegfile *file, const void *records, int64_t n, struct err *err); /* NULL: cannot grow */
    int64_t (*record_bytes)(const struct eegfile *file);                                /* NULL: cannot grow */
    void (*close)(struct eegfile *file);                                                /* frees it */
};

#define RECORDING_FORMAT(id) extern const struct recording_format format_##id;
#include "formats/recordings.def"
#undef RECORDING_FORMAT

/* The end of a sentence about samples that begin back_s before those in front of them end. */
const char *format_steps_back(double back_s);

/* Opens the companion `name` (beside the source's file, or among its parts). *ret_whole: its length in all. path (size) receives
 * its path, which ret->name points to. NOT_FOUND names both files. */
enum { FORMAT_PATH_SIZE = 4096 };
int format_open_companion(const struct format_source *source, const char *name, char path[FORMAT_PATH_SIZE], struct filebytes *ret,
                          size_t *ret_whole, struct err *err);
