/* matrix: a recording whose samples are a matrix in a file, sample after sample or signal after signal; what the formats share that
 * only add headers, segments and annotations to it. For lib/formats only. A format makes one, adds signals, blocks and annotations,
 * and finishes it; reading is the same for all. A record (eegfile.h) is one sample of each signal. */
#pragma once
#include "base/arena.h"
#include "formats/format.h"

/* Of a sample, little-endian. MATRIX_OFFSET_I16: 0x8000 stands for 0. */
enum matrix_type { MATRIX_I16, MATRIX_OFFSET_I16, MATRIX_I32, MATRIX_F32, MATRIX_F64, MATRIX_I8, MATRIX_U8, MATRIX_U16 };

/* Consecutive records of the file. */
struct matrix_block {
    size_t offset; /* byte of its first sample */
    int64_t first_record, n_records;
};

/* What a file says of the time of a record inside a block: the recorder's clock, or how much is missing before it. */
struct matrix_mark {
    int64_t record;
    double clock_s, gap_s; /* NaN: not stated */
    size_t order;          /* in the file */
};

struct matrix {
    struct eegfile base;
    struct eeg_info info;
    struct arena arena;
    struct filebytes data; /* the file of the samples, owned */
    size_t whole;          /* its length in all; data.len when all of it is there */
    enum matrix_type type;
    bool by_signal;   /* signal after signal; one block then */
    int columns;      /* samples that a record has in the file, of which the first n_signals are signals */
    int64_t fed_from; /* the first record of data, when records are fed */
    bool fed;
    /* For samples that a format makes when they are first read, from its own file. prepare: any thread. NULL: nothing to do. */
    int (*prepare)(struct matrix *m, struct err *err);
    void (*unprepare)(struct matrix *m);
    void *later;
    struct filebytes own;
    struct eeg_signal *signals;
    struct matrix_block *blocks;
    struct eeg_segment *segments;
    struct eeg_annotation *annotations;
    const char **repairs;
    struct matrix_mark *marks;
    size_t n_blocks, n_marks, capacities[5];
};

void matrix_close(struct eegfile *file);
static inline void matrix_free(struct matrix *m) { matrix_close(&m->base); }
OWNABLE(struct matrix, matrix_free)

/* The rate, or the interval in microseconds, that a text states (rate.h); that of a number in a binary file. */
int matrix_set_rate(struct matrix *m, const char *text, bool interval, struct err *err);
int matrix_set_rate_number(struct matrix *m, double hz, bool single, struct err *err);
/* A signal whose value is sample · scale in `unit`: µV for a unit of voltage. Texts of n bytes in UTF-8 or Latin-1. */
struct matrix_text {
    const char *bytes;
    size_t n;
};
int matrix_add_signal(struct matrix *m, struct matrix_text label, struct matrix_text unit, double scale, struct err *err);
/* The same in µV, which the file does not state. */
int matrix_add_microvolts(struct matrix *m, struct matrix_text label, double scale, struct err *err);
/* Blocks and segments in order. A block that begins where a segment ends, by time and to half a sample, continues it. */
int matrix_add_block(struct matrix *m, size_t offset, int64_t n_records, double start_s, struct err *err);
/* Keeps a mark, in any order. */
int matrix_add_mark(struct matrix *m, int64_t record, double clock_s, double gap_s, struct err *err);
/* Places the gaps of all marks, once the block is there: a segment begins at a mark whose clock is a quarter of a second or more
 * ahead of the samples since the mark before it. A clock that steps back is a repair up to most_back_s (the end of summer time),
 * and INVALID beyond; of_day: it begins again at midnight. A mark without a clock follows the samples before it. */
int matrix_place_marks(struct matrix *m, double most_back_s, bool of_day, struct err *err);
/* File time of a place that is counted in samples, once the segments are known. */
double matrix_file_time(const struct matrix *m, double sample);
/* Blank texts are ignored. duration_s NaN: not given. */
int matrix_annotate(struct matrix *m, double onset_s, double duration_s, struct matrix_text text, struct err *err);
void matrix_repair(struct matrix *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* UTF-8 of bytes in the arena; NULL without memory. */
const char *matrix_keep(struct matrix *m, struct matrix_text text);
/* Reads a companion or a file with text (text.h) as a whole into the arena, NUL-terminated. RANGE above `most` bytes. */
int matrix_read_text(struct matrix *m, const struct filebytes *bytes, size_t most, char **ret, struct err *err);
int64_t matrix_stride(const struct matrix *m);
/* Makes one, which the format's `fill` reads from the source; then sorts, checks and connects everything. INVALID without
 * signals. */
int matrix_open(struct format_source *source, struct eegfile **ret, struct err *err);

/* Opens the companion with the samples. */
int matrix_open_samples(struct format_source *source, struct matrix *m, const char *name, struct err *err);
/* The samples arrive: closes their file and says where it is. UNSUPPORTED for signal after signal. */
int matrix_follow(struct matrix *m, struct eegfile_growth *growth, size_t first, struct err *err);

/* Rows of struct recording_format. */
int matrix_read(const struct eegfile *file, const int *signals, int n_signals, struct eeg_range range, float *const *uv,
                struct err *err);
int matrix_feed(struct eegfile *file, const void *records, int64_t n, struct err *err);
int64_t matrix_record_bytes(const struct eegfile *file);
