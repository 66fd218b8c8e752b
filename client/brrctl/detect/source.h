/* source: where the samples of a stream come from: a recording, one that is still being written (a growing file or a pipe), or a
 * stream of the Lab Streaming Layer. Each kind gives samples in µV, in order, with the gaps between them. One thread per source. */
#pragma once

#include "client/brrctl/arguments.h"
#include "eeg/frontend.h"
#include "formats/eegfile.h"
#include "windows/missing.h"

/* Samples that follow each other, or news about time: first is their place in source samples from 0, −1 = right behind the block
 * before. What lies between them is a gap, also where n is 0. */
struct source_block {
    int64_t first, n;
    float *const *uv;  /* (channels): uv[c][i], valid until the next call */
    const char *cause; /* of the gap before it, NULL = the source is a file with gaps */
    bool end;          /* nothing follows */
};

struct source;
struct source_kind {
    /* The next block; n 0 when nothing came within a few hundredths of a second. */
    int (*next)(struct source *s, struct source_block *ret, struct err *err);
    /* Checks that the used rows are voltages; s->assumed receives what had to be assumed. */
    int (*check_units)(struct source *s, const int *used, int n, struct err *err);
    /* Why it ended: "file" (complete), "input", "idle", "interrupted", "changed" (another recording is there in its place); ""
     * before. */
    const char *(*ended)(const struct source *s);
    /* Bytes of an incomplete last record, which is left out; NULL: the kind has none. */
    int64_t (*left_bytes)(const struct source *s);
    /* What is to be said about it by now, or ""; NULL: nothing ever. */
    const char *(*remark)(struct source *s);
    void (*close)(struct source *s); /* frees it */
};

/* The first member of each kind's own struct. */
struct source {
    const struct source_kind *kind;
    const struct eeg_info *info; /* the recording as EDF describes it: signals, start, length so far */
    const struct eegfile *edf;   /* a complete recording, whose annotations may be labels; or NULL */
    const char *labels[FRONTEND_MAX_LABELS];
    int n; /* rows */
    double rate_hz;
    int64_t start_ms; /* Unix time of the first sample, where it is known without a calendar; else 0: info says the local time */
    char assumed[200];
    struct missing_count *missing; /* (n) of the samples so far, `read` of each row; NULL: not counted */
    int64_t read;
};

/* An EDF or BDF file; all usable signals of the rate at which most electrodes were recorded, else of most voltage signals. */
struct source_reading {
    const char *rename, *unit; /* as in struct frontend_config (eeg/frontend.h) */
};
int source_open_file(const char *path, const struct source_reading *reading, struct source **ret, struct err *err);
/* Standard input ("-") or a file that is being written; errors: feed_open's. */
int source_open_feed(const char *path, double idle_s, const struct source_reading *reading, struct source **ret, struct err *err);
/* The rules of --rename LABEL=NAME; "" without any. */
int source_rename(const struct argument_list *list, struct str *ret, struct err *err);
/* takes NULL */
void source_close(struct source *s);
