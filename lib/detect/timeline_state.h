/* timeline_state: the state of a timeline, shared by the files that implement it. One thread at a time. */
#pragma once
#include "detect/contact.h"
#include "detect/focus.h"
#include "detect/timeline.h"

/* QUEUE: room beyond its limit is for what the end of a segment adds: the resampler's tail, a padded window, marks.
 * SLACK: there is room for an eighth of a window more rows than are needed. */
enum { TIMELINE_QUEUE = TIMELINE_MAX_PENDING + 64, TIMELINE_SLACK = 8 };

/* Events in order: windows to be run, and marks that take effect when all windows before them are done. */
enum item_kind { ITEM_WINDOW, ITEM_SEGMENT_START, ITEM_SEGMENT_END };
struct item {
    enum item_kind kind;
    bool record, alarm, taken; /* window: which traces it serves */
    bool deaf;                 /* alarm window: too many channels have no usable signal */
    int64_t start;             /* window: first sample (may lie before the segment when left-padded); marks: the sample */
    int64_t valid, row;        /* window: samples of the segment in it, and where they begin among all rows ever received */
};

struct timeline {
    int channels, inputs, columns; /* of the montage; of the network; of a row that arrives */
    uint64_t absent;               /* channels of the network's montage that the recording lacks, a bit each */
    int64_t window, hop, alarm_hop;
    int64_t alarm_signal[2];   /* samples of a segment before an alarm; the same once all segments together have [0] */
    struct frontend *frontend; /* NULL for a cached recording */
    const struct recording *rec;
    int rec_segment;
    int64_t rec_at;
    struct timeline_sink sink;
    struct events *events;
    struct suppression *suppression; /* NULL: the sink has no use for it */
    struct alarm_rule alarm;
    struct contact *contact; /* NULL: no alarm trace */
    struct focus *focus;     /* NULL: a network, or more channels than it knows */
    int status;
    struct err error;

    int64_t deaf_end; /* one past the newest sample for which the alarm rule took 0; 0: there was none */

    bool in_segment, finished;
    bool finishing;                  /* timeline_finish was called */
    int64_t segment, now;            /* present segment's first sample; one past the newest sample */
    int64_t next_record, next_alarm; /* next window start of the grid; next end of an alarm window */
    uint16_t *rows;                  /* the inputs of rows [rows_first, rows_now) of all rows ever received; gaps have none */
    int64_t rows_first, rows_now, rows_capacity;
    int64_t segment_row; /* row of the segment's first sample */

    struct item items[TIMELINE_QUEUE];
    int n_items, n_waiting;
    float *state; /* of a model that carries one: after the steps completed so far of the present segment */
    int64_t n_state;
    bool stalled;        /* rows are here whose windows wait for room in the queue */
    float *sum;          /* record trace under construction: sums over [emitted, emitted + 2·window) */
    uint16_t *count;     /* of windows in each sum */
    int64_t emitted;     /* samples before this were given out */
    int64_t segment_out; /* first sample of the segment that is being given out */
    int64_t windows;
};

/* Row of a sample of the present segment. */
static inline int64_t timeline_row_of(const struct timeline *t, int64_t sample) { return t->segment_row + sample - t->segment; }

/* ---- timeline.c ---- */

/* Makes room for n more rows: where there is none, or n is 0, drops the rows that no queued or later window needs, then grows the
 * array. EXHAUSTED: no memory. */
int timeline_reserve_rows(struct timeline *t, int64_t n, struct err *err);

/* ---- timeline_outputs.c ---- */

/* The first error is the timeline's from then on. err is never NULL: the text is kept for timeline_status even when the caller did
 * not want it. */
int timeline_keep_status(struct timeline *t, int rc, struct err *err);
/* For events_new; ctx: the timeline. */
void timeline_give_event(void *ctx, const struct event *event);
/* Marks at the head of the queue take effect. */
int timeline_run_marks(struct timeline *t, struct err *err);
/* The newest probabilities of an alarm window, and all of a window of the grid; p: one for each sample of the window. */
int timeline_complete_alarm(struct timeline *t, const struct item *item, const float *p, struct err *err);
int timeline_complete_record(struct timeline *t, const struct item *item, const float *p, struct err *err);
