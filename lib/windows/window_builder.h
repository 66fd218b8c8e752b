/* One recording on its way into the cache, shared by window_build.c (which builds it) and window_plan.c (which says beforehand what
 * it will hold). */
#pragma once
#include "eeg/channels.h"
#include "eeg/feature.h"
#include "eeg/frontend.h"
#include "eeg/labels.h"
#include "formats/eegfile.h"
#include "store/cache.h"
#include "store/digest.h"
#include "windows/missing.h"
#include "windows/recording.h"
#include "windows/window.h"

enum { BUILDER_TRIES = 3, BUILDER_FAULTS_BYTES = 640, BUILDER_PATH_BYTES = 4096 };

/* One recording on its way into the cache. */
struct builder {
    const struct window_build *request;
    char recording_path[BUILDER_PATH_BYTES]; /* of edf: the request's, or where the mirror has the whole file */
    struct eegfile *edf;
    const struct eeg_info *info;
    const struct eeg_segment *segments; /* what is read of the file: its segments, or those without holes */
    struct eeg_segment *cut;            /* the latter, owned */
    int n_segments;
    bool head;     /* edf is no more than the head */
    bool taken;    /* from the mirror */
    int refetched; /* of its head, when it was first looked at */
    bool again;    /* the head was damaged: all that it said is to be asked anew */
    struct labels labels;
    struct window_span *spans; /* of the labels, as in the facts */
    char key[DIGEST_HEX_SIZE];
    struct frontend *frontend;
    struct frontend_part *part[2]; /* of a piece that is filtered, and of the one before it, which is given to the writer */
    pthread_t giver;               /* the thread that gives part[given] */
    bool gives;                    /* it runs */
    int given, gave;               /* gave: its result */
    struct err give_error;
    struct frontend_report report;
    struct recording_writer *writer;
    struct feature_blocks measured[FEATURE_MEASURES];  /* by the front end, for the writer */
    struct cache_slot slot;                            /* of the writer, with a cache */
    bool reserved, pinned;                             /* the slot; the cache's file of the key */
    int64_t end;                                       /* 256 Hz samples written so far in file time */
    struct missing_count missing[FRONTEND_MAX_LABELS]; /* of the used channels */
    char assumed[200];                                 /* channels.faults */
    char faults[BUILDER_FAULTS_BYTES];
};

/* Labels, the decision about unlabelled files, and the key. */
int builder_prepare(struct builder *b, bool *ret_skipped, struct err *err);
/* Opens the whole file in place of a head, from the mirror if there is one. */
int builder_open_whole(struct builder *b, bool annotations, struct err *err);
/* Sets info and the channels that the request wants of the open file. */
int builder_choose(struct builder *b, struct channels *c, struct err *err);
/* Sets the segments: the file's, or, with hole_every_s and no seizure, those without the records of the holes. */
int builder_cut_holes(struct builder *b, struct err *err);
/* What is known of the recording beside its segments and channels; its spans are valid until the next call or builder_done. */
int builder_facts(struct builder *b, const char *note, struct recording_facts *ret, struct err *err);
void builder_done(struct builder *b);

/* window_build whose errors do not name the recording. ret_pinned receives the key that the caller unpins, or "". */
int builder_run(const struct window_build *request, char *ret_path, unsigned long size, bool *ret_skipped,
                char ret_pinned[DIGEST_HEX_SIZE], struct err *err);
/* cache_dir/windows/ab/<key>.win, its folder made. */
int builder_path(const char *cache_dir, const char *key, char *ret_path, unsigned long size, struct err *err);
/* True if the file is a recording of this key. */
bool builder_is_cached(const char *path, const char *key);
/* First source sample of a segment in file time; `position` is where the one before it ended. */
int builder_segment_start(const struct eeg_segment *segment, double rate_hz, int64_t position, int64_t *ret, struct err *err);
/* First output at or after source sample `at`. */
static inline int64_t builder_output_at(int64_t at, int64_t up, int64_t down) {
    return (int64_t)(((__int128)at * up + down - 1) / down);
}
