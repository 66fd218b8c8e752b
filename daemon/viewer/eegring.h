/* eegring: the newest minutes of EEG of one stream, for people who look at it: the rows of its model's montage before the model's
 * filters, at 256 Hz, as 16-bit numbers of EEGRING_UV microvolts without what is slower than 0.1 Hz; the probability; alarms and
 * events; and the minute around each of the newest alarms, which outlives the ring, and the process where it is saved. Indices are
 * those of results and alarms: samples at 256 Hz from the beginning of the stream. One thread writes (the host of the stream) and
 * never waits: readers copy what is there, and notice what was overwritten meanwhile. Memory of all rings together is bounded by
 * struct eegring_limits. */
#pragma once

#include "base/base.h"

enum {
    EEGRING_NONE = INT16_MIN,       /* there is no such sample or probability */
    EEGRING_HELD = INT16_MIN + 1,   /* the sample was not measured: the value before it was held in its place */
    EEGRING_LOWEST = INT16_MIN + 2, /* of a measured sample */
    EEGRING_P_STEP = 64,            /* samples of one probability: the highest in a quarter of a second, in thousandths */
    EEGRING_MARKS = 64,
    EEGRING_PINS = 4,              /* alarms whose minute is kept */
    EEGRING_PIN_BEFORE = 30 * 256, /* of that minute, before the alarm */
    EEGRING_PIN = 60 * 256
};
#define EEGRING_UV 0.1

struct eegring;
struct eegring_limits {
    int64_t samples;   /* of one ring; 0: streams keep no EEG */
    int64_t max_bytes; /* of all rings */
    bool shared;       /* each owner has a share of it (base/principal.h) */
    uint32_t owner;    /* of this ring: as live_open.owner; owners whose hashes meet are one */
};
/* One reference. UNSUPPORTED: limits->samples is 0; EXHAUSTED: the rings of other streams take max_bytes, those of the
 * owner its share, or memory is out. */
int eegring_new(const char *montage, const struct eegring_limits *limits, struct eegring **ret, struct err *err);
struct eegring *eegring_share(struct eegring *r); /* NULL is fine */
void eegring_drop(struct eegring *r);             /* NULL is fine; the last reference frees the EEG */
/* A mention does not keep the EEG: a status that a slow reader holds has mentions of its rings, and no reference. Whoever has one
 * may ask for a reference; false: the EEG is gone. */
struct eegring *eegring_mention(struct eegring *r); /* NULL is fine */
void eegring_unmention(struct eegring *r);          /* NULL is fine */
bool eegring_hold(struct eegring *r);
int64_t eegring_bytes(void); /* of all rings */

/* ---- the writer's thread ---- */

/* n rows in microvolt, `stride` values apart; samples between the newest one and `first` are missing. held[i] is not 0 for samples
 * that are held in all rows; NULL: there are none. */
void eegring_put(struct eegring *r, const double *uv, int stride, int64_t n, int64_t first, const uint8_t *held);
/* Samples [first, end), which are still to be put and lie behind those of the call before, are held in the rows that have a bit in
 * `rows`. False when out of memory. */
bool eegring_hold_rows(struct eegring *r, uint64_t rows, int64_t first, int64_t end);
void eegring_put_p(struct eegring *r, int64_t first, const float *p, int64_t n);
enum eegring_kind { EEGRING_ALARM_ON, EEGRING_ALARM_OFF, EEGRING_EVENT };
struct eegring_mark {
    enum eegring_kind kind;
    int64_t first, end; /* end: of an event; else first */
    int64_t wall_ms;    /* when it became known */
};
/* An alarm that goes on keeps its minute. */
void eegring_put_mark(struct eegring *r, const struct eegring_mark *m);

/* ---- any thread ---- */

int eegring_rows(const struct eegring *r, const char *const **ret_names);
struct eegring_span {
    int64_t first, end;
};
/* Samples that the ring has, newest wall time, and the minutes of alarms: at most EEGRING_PINS, oldest first. */
struct eegring_state {
    struct eegring_span kept, pins[EEGRING_PINS];
    int n_pins;
    int64_t newest_wall_ms; /* Unix time at which sample kept.end was received; 0: none was */
};
void eegring_describe(const struct eegring *r, struct eegring_state *ret);
/* Samples [first, first + n) of a row, from the ring or the minute of an alarm; EEGRING_NONE where there is none, EEGRING_HELD
 * where it was held. */
void eegring_copy(const struct eegring *r, int row, int64_t first, int64_t n, int16_t *ret);
/* Probabilities of the steps [first, first + n), numbered by sample / EEGRING_P_STEP. */
void eegring_copy_p(const struct eegring *r, int64_t first, int64_t n, int16_t *ret);
/* The newest marks, oldest first; returns their number. */
int eegring_marks(const struct eegring *r, struct eegring_mark ret[EEGRING_MARKS]);

/* ---- across a restart: the minutes of alarms and the marks ---- */

/* A number that is another one once an alarm began, or EEGRING_SAVE_STEP more of its minute are there; 0: no alarm was kept. */
enum { EEGRING_SAVE_STEP = 10 * 256, EEGRING_SAVED_BYTES = 16 << 20 };
int64_t eegring_pinned(const struct eegring *r);
/* Appends the minutes and the marks as bytes. False when out of memory, or of the room of out. */
bool eegring_save(const struct eegring *r, struct str *out);
/* That number as it was when the bytes were saved last; 0 before. */
int64_t eegring_saved(const struct eegring *r);
void eegring_set_saved(struct eegring *r, int64_t pinned);
/* r shows what was saved beside its own. Once, in the thread that made r known to others. DATA_LOSS: other bytes, or of another
 * montage; EXHAUSTED: no room for the minutes. */
int eegring_inherit(struct eegring *r, const void *data, size_t len, struct err *err);
