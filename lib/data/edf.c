#include "data/edf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/order.h"
#include "base/str.h"
#include "data/edf_bytes.h"
#include "data/edf_decode.h"
#include "data/edf_header.h"
#include "data/tal.h"

enum { MAX_ANNOTATIONS = 1000000, FIXED_HEADER_BYTES = 256, PIECE_BYTES = 96 << 10, SMALL_RECORD_BYTES = 8 << 10 };
static const double MAX_DRIFT_S = 0.25; /* between a record's stated onset and its place in the segment */
static const size_t ARENA_LIMIT_BYTES = (size_t)1 << 30;

/* How the times of records were understood so far. */
struct edf_clock {
    int keeper; /* signal with the time-keepers, -1 = none */
    double first_onset_s, previous_s, tolerance_s;
    int64_t missing, backwards;
    int64_t drifted, overlapping; /* segments begun and records left out because the clock had drifted away */
    bool skipping;                /* the newest record was left out */
};

/* The newest piece that was read of a file while it is opened. */
struct edf_window {
    uint8_t *data;
    size_t first, len, capacity;
    struct err err; /* the first read that failed */
};

struct edf {
    struct edf_header header;
    struct arena arena;
    struct edf_bytes bytes; /* the file, or the records that were fed last */
    struct edf_window window;
    size_t len;           /* of the whole file, more than bytes.len when only its head is there; 0 when records are fed */
    size_t base;          /* where in bytes record number first_record begins */
    int64_t first_record; /* 0 unless records are fed */
    edf_decode_fn *decode;
    struct edf_segment *segments;
    size_t segment_capacity;
    struct edf_clock clock;
    struct edf_annotation *annotations;
    size_t annotation_capacity;
    bool annotations_cut;
    bool header_only; /* records are left alone unless they decide about time */
    bool undecided;   /* one that decides is not there */
};

static size_t offset_of(const struct edf *edf, int64_t record) {
    return edf->base + (size_t)((record - edf->first_record) * edf->header.record_bytes);
}

static int out_of_memory(const struct edf *edf, struct err *err) {
    return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", edf->header.name);
}

static int move_window(struct edf *edf, size_t offset, size_t n, struct err *err) {
    struct edf_window *w = &edf->window;
    const uint8_t *data;
    size_t rest = edf->bytes.len - offset;
    if (edf->header.record_bytes <= SMALL_RECORD_BYTES && n < PIECE_BYTES) /* the next one is near */
        n = rest < PIECE_BYTES ? rest : PIECE_BYTES;
    w->len = 0;
    if (n > w->capacity) {
        uint8_t *grown = realloc(w->data, n);
        if (!grown)
            return out_of_memory(edf, err);
        w->data = grown;
        w->capacity = n;
    }
    int rc = edf_bytes_get(&edf->bytes, offset, n, w->data, &data, err);
    w->first = offset;
    w->len = rc ? 0 : n;
    return rc;
}

/* A signal's bytes in a record, while the file is opened; they last until the next call. NULL after an error, which
 * edf->window.err keeps. */
static const uint8_t *signal_bytes(struct edf *edf, int64_t record, int signal) {
    const struct edf_header *h = &edf->header;
    struct edf_window *w = &edf->window;
    size_t at = offset_of(edf, record) + (size_t)h->offset[signal];
    size_t n = (size_t)(h->signals[signal].samples_per_record * h->sample_bytes);
    if (edf->bytes.memory)
        return edf->bytes.memory + at;
    bool inside = at >= w->first && at + n <= w->first + w->len;
    if (w->err.code || (!inside && move_window(edf, at, n, &w->err)))
        return NULL;
    return w->data + (at - w->first);
}

/* First annotation signal, the one with the time-keepers; -1 without. */
static int keeper_signal(const struct edf *edf) {
    for (int i = 0; i < edf->header.info.n_signals; i++)
        if (edf->header.signals[i].annotation && edf->header.signals[i].samples_per_record > 0)
            return i;
    return -1;
}

static int visit_keeper(void *ctx, const struct tal_item *item) {
    if (item->list == 0 && item->first_text && item->text_len == 0)
        *(double *)ctx = item->onset_s;
    return 1;
}

static bool record_there(const struct edf *edf, int64_t record) {
    size_t there = edf->bytes.len;
    return there == edf->len || edf->header.header_bytes + (record + 1) * edf->header.record_bytes <= (int64_t)there;
}

/* Onset that the time-keeper of a record states; NaN without one, and of a record that is not there or cannot be read. */
static double keeper_onset(struct edf *edf, int signal, int64_t record) {
    double onset = NAN;
    const struct edf_header *h = &edf->header;
    const uint8_t *bytes = record_there(edf, record) ? signal_bytes(edf, record, signal) : NULL;
    if (bytes)
        tal_parse(bytes, (size_t)(h->signals[signal].samples_per_record * h->sample_bytes), visit_keeper, &onset, NULL);
    return onset;
}

/* How many whole records the file holds, whatever its header says. */
static void count_records(struct edf *edf) {
    struct edf_header *h = &edf->header;
    int64_t body = (int64_t)(edf->len - (size_t)h->header_bytes), whole = body / h->record_bytes, rest = body % h->record_bytes;
    int64_t declared = h->declared_records;
    h->info.n_records = whole;
    if (declared < 0) {
        edf_header_repair(h, "number of records is %lld; %lld from the file size are used", (long long)declared, (long long)whole);
    } else if (whole < declared) {
        edf_header_repair(h, "file ends early: %lld of %lld records are there%s", (long long)whole, (long long)declared,
                          rest ? ", the last one cut and left out" : "");
        return;
    } else if (whole > declared) {
        /* In a file with time-keepers only records that have one are taken; the rest is junk. */
        int keeper = keeper_signal(edf);
        int64_t taken = whole;
        edf->undecided |= keeper >= 0 && declared > 0 && !record_there(edf, whole - 1);
        if (keeper >= 0 && declared > 0 && isfinite(keeper_onset(edf, keeper, declared - 1)))
            for (taken = declared; taken < whole && isfinite(keeper_onset(edf, keeper, taken));)
                taken++;
        h->info.n_records = taken;
        rest += (whole - taken) * h->record_bytes;
        if (taken > declared)
            edf_header_repair(h, "header counts %lld records, the file holds %lld: all are used", (long long)declared,
                              (long long)taken);
    }
    if (rest)
        edf_header_repair(h, "%lld bytes after the last whole record are left out", (long long)rest);
}

/* ---- segments ---- */

static double segment_end_s(const struct edf *edf, const struct edf_segment *s) {
    return s->start_s + (double)s->n_records * edf->header.info.record_s;
}

static int add_segment(struct edf *edf, struct edf_segment segment, struct err *err) {
    struct edf_info *info = &edf->header.info;
    if ((size_t)info->n_segments == edf->segment_capacity) {
        size_t grown = edf->segment_capacity ? edf->segment_capacity * 2 : 4;
        struct edf_segment *moved = realloc(edf->segments, grown * sizeof *moved);
        if (!moved)
            return out_of_memory(edf, err);
        edf->segments = moved;
        edf->segment_capacity = grown;
    }
    edf->segments[info->n_segments++] = segment;
    return 0;
}

/* A record of a discontinuous file: one that starts where the one before it ended continues its segment. The tolerance covers
 * onsets rounded by the writer; where many of them add up to MAX_DRIFT_S, because the recorder's clock and its sampling rate
 * differ, a new segment begins at the stated time. If the segment before would overlap it, records are left out first. */
static int place_record(struct edf *edf, int64_t record, struct err *err) {
    struct edf_header *h = &edf->header;
    struct edf_clock *c = &edf->clock;
    if (!record)
        return add_segment(edf, (struct edf_segment){0, 1, 0}, err);
    struct edf_segment *last = &edf->segments[h->info.n_segments - 1];
    double expected = c->previous_s + h->info.record_s, onset = keeper_onset(edf, c->keeper, record) - c->first_onset_s;
    if (!isfinite(onset)) {
        c->missing++;
        onset = expected;
    } else if (onset < expected - c->tolerance_s) {
        c->backwards++;
        onset = expected;
    }
    c->previous_s = onset;
    double end = segment_end_s(edf, last), drift = onset - end;
    bool gap = onset > expected + c->tolerance_s;
    if (!gap && !c->skipping && fabs(drift) <= MAX_DRIFT_S) {
        last->n_records++;
        return 0;
    }
    c->skipping = drift < (c->skipping ? -c->tolerance_s : -MAX_DRIFT_S);
    c->overlapping += c->skipping;
    if (c->skipping)
        return 0;
    c->drifted += !gap;
    return add_segment(edf, (struct edf_segment){record, 1, fmax(onset, end)}, err);
}

/* Put the records from this number on into segments. */
static int place_records(struct edf *edf, int64_t from, struct err *err) {
    struct edf_info *info = &edf->header.info;
    int rc;
    if (!info->n_records || !info->duration_num)
        return 0;
    if (!info->discontinuous || edf->clock.keeper < 0) {
        if (!info->n_segments && (rc = add_segment(edf, (struct edf_segment){0, 0, 0}, err)))
            return rc;
        edf->segments[0].n_records = info->n_records;
    } else {
        edf->undecided |= info->n_records > 1 && !record_there(edf, info->n_records - 1);
        for (int64_t r = from; r < info->n_records && (!r || !edf->undecided); r++)
            if ((rc = place_record(edf, r, err)))
                return rc;
    }
    info->segments = edf->segments;
    info->duration_s = segment_end_s(edf, &edf->segments[info->n_segments - 1]);
    return 0;
}

/* Time-keepers worth a word. In a continuous file the header decides. */
static void judge_keepers(struct edf *edf) {
    struct edf_header *h = &edf->header;
    const struct edf_clock *c = &edf->clock;
    if (c->missing)
        edf_header_repair(h, "%lld records without a time-keeper are taken as following the one before", (long long)c->missing);
    if (c->backwards)
        edf_header_repair(h, "%lld time-keepers run backwards; their records are taken as following the one before",
                          (long long)c->backwards);
    if (c->drifted)
        edf_header_repair(h, "clock and samples drift apart: %lld times by %g s, where a new segment begins", (long long)c->drifted,
                          MAX_DRIFT_S);
    if (c->overlapping)
        edf_header_repair(h, "records left out because the samples before them cover their time: %lld", (long long)c->overlapping);
    if (c->keeper < 0 || !h->info.plus || h->info.discontinuous || !h->info.n_segments || edf->header_only)
        return;
    for (int64_t r = 1; r < h->info.n_records; r++) {
        double onset = keeper_onset(edf, c->keeper, r) - c->first_onset_s, expected = (double)r * h->info.record_s;
        if (fabs(onset - expected) > fmax(0.01, 1e-6 * expected)) {
            edf_header_repair(h,
                              "time-keeper of record %lld says %.6g s where %.6g s is due; the header says continuous and decides",
                              (long long)r, onset, expected);
            return;
        }
    }
}

/* Move the first time-keeper's onset into the start. */
static void shift_start(struct edf_start *start, double onset) {
    double whole = floor(onset);
    start->subsecond = onset - whole;
    if (whole == 0 || !start->known || fabs(whole) > 1e9)
        return;
    struct tm tm = {.tm_year = start->year - 1900,
                    .tm_mon = start->month - 1,
                    .tm_mday = start->day,
                    .tm_hour = start->hour,
                    .tm_min = start->minute,
                    .tm_sec = start->second};
    time_t at = timegm(&tm) + (time_t)whole;
    if (!gmtime_r(&at, &tm))
        return;
    start->year = tm.tm_year + 1900;
    start->month = tm.tm_mon + 1;
    start->day = tm.tm_mday;
    start->hour = tm.tm_hour;
    start->minute = tm.tm_min;
    start->second = tm.tm_sec;
}

/* Before the first record is placed. */
static void start_clock(struct edf *edf) {
    struct edf_header *h = &edf->header;
    double fastest = 0;
    for (int i = 0; i < h->info.n_signals; i++)
        if (!h->signals[i].annotation && h->signals[i].rate_hz > fastest)
            fastest = h->signals[i].rate_hz;
    edf->clock.tolerance_s = fmin(fmax(1e-3, fastest > 0 ? 1 / fastest : 0), h->info.record_s / 2);
    edf->clock.keeper = keeper_signal(edf);
    if (h->info.plus && edf->clock.keeper < 0)
        edf_header_repair(h, "marked EDF+/BDF+ but without an annotation signal%s",
                          h->info.discontinuous ? "; read as continuous" : "");
}

/* The first record is there: file time begins with it. */
static void see_first_record(struct edf *edf) {
    double first = edf->clock.keeper >= 0 ? keeper_onset(edf, edf->clock.keeper, 0) : NAN;
    edf->clock.first_onset_s = isfinite(first) ? first : 0;
    shift_start(&edf->header.info.start, edf->clock.first_onset_s);
}

static int build_timeline(struct edf *edf, struct err *err) {
    start_clock(edf);
    if (edf->header.info.n_records > 0)
        see_first_record(edf);
    int rc = place_records(edf, 0, err);
    if (rc)
        return rc;
    judge_keepers(edf);
    return 0;
}

/* ---- annotations ---- */

struct collector {
    struct edf *edf;
    double first_onset_s;
    bool keeper; /* the first list of these bytes is a time-keeper */
    bool failed;
};

static int visit_annotation(void *ctx, const struct tal_item *item) {
    struct collector *c = ctx;
    struct edf *edf = c->edf;
    struct edf_info *info = &edf->header.info;
    if (!item->text_len)
        return 0;
    if (info->n_annotations >= MAX_ANNOTATIONS) {
        edf->annotations_cut = true;
        return 1;
    }
    if (info->n_annotations == edf->annotation_capacity) {
        size_t grown = edf->annotation_capacity ? edf->annotation_capacity * 2 : 16;
        struct edf_annotation *moved = realloc(edf->annotations, grown * sizeof *moved);
        if (!moved) {
            c->failed = true;
            return 1;
        }
        edf->annotations = moved;
        edf->annotation_capacity = grown;
    }
    size_t size = item->text_len * 2 + 1;
    char *text = arena_alloc(&edf->arena, size);
    if (!text) {
        c->failed = true;
        return 1;
    }
    if (tal_text(text, size, item->text, item->text_len, NULL))
        edf->annotations[info->n_annotations++] = (struct edf_annotation){item->onset_s - c->first_onset_s, item->duration_s, text};
    return 0;
}

static int by_onset(const void *a, const void *b) {
    const struct edf_annotation *x = a, *y = b;
    return order_then(order_f64(x->onset_s, y->onset_s), strcmp(x->text, y->text));
}

/* Files already in order keep the order of equal onsets. */
static void sort_annotations(struct edf_annotation *items, size_t n) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = items[i - 1].onset_s <= items[i].onset_s;
    if (!sorted)
        qsort(items, n, sizeof *items, by_onset);
}

static int read_annotations(struct edf *edf, struct err *err) {
    struct edf_header *h = &edf->header;
    struct collector c = {.edf = edf, .first_onset_s = edf->clock.first_onset_s};
    size_t faults = 0;
    for (int64_t r = 0; r < h->info.n_records; r++) {
        for (int s = 0; s < h->info.n_signals && !c.failed && !edf->annotations_cut; s++) {
            if (!h->signals[s].annotation)
                continue;
            size_t found = 0;
            const uint8_t *bytes = signal_bytes(edf, r, s);
            if (!bytes)
                return 0; /* open_bytes returns the error */
            tal_parse(bytes, (size_t)(h->signals[s].samples_per_record * h->sample_bytes), visit_annotation, &c, &found);
            faults += found;
        }
    }
    if (c.failed)
        return out_of_memory(edf, err);
    if (edf->annotations_cut)
        edf_header_repair(h, "only the first %d annotations are kept", MAX_ANNOTATIONS);
    if (faults)
        edf_header_repair(h, "%zu pieces of the annotation signals are no annotation and were skipped", faults);
    sort_annotations(edf->annotations, h->info.n_annotations);
    h->info.annotations = edf->annotations;
    return 0;
}

/* ---- open and close ---- */

/* The header's bytes; *ret lives as long as edf. */
static int read_front(struct edf *edf, const uint8_t **ret, struct err *err) {
    size_t there = edf->bytes.len, n = there < FIXED_HEADER_BYTES ? there : FIXED_HEADER_BYTES;
    uint8_t fixed[FIXED_HEADER_BYTES], *front;
    int rc;
    if (edf->bytes.memory) {
        *ret = edf->bytes.memory;
        return 0;
    }
    if ((rc = edf_bytes_get(&edf->bytes, 0, n, fixed, ret, err)))
        return rc;
    int64_t whole = n < FIXED_HEADER_BYTES ? -1 : edf_header_bytes(fixed);
    n = whole > 0 && (uint64_t)whole <= there ? (size_t)whole : n;
    if (!(front = arena_alloc(&edf->arena, n + 1)))
        return out_of_memory(edf, err);
    return edf_bytes_get(&edf->bytes, 0, n, front, ret, err);
}

static int open_records(struct edf *edf, struct err *err) {
    struct edf_header *h = &edf->header;
    const uint8_t *front;
    int rc;
    if ((rc = read_front(edf, &front, err)) || (rc = edf_header_parse(h, front, edf->bytes.len, err)))
        return rc;
    edf->decode = edf_decoder(h->sample_bytes);
    edf->base = (size_t)h->header_bytes;
    count_records(edf);
    rc = build_timeline(edf, err);
    return rc || edf->header_only ? rc : read_annotations(edf, err);
}

static int open_bytes(struct edf *edf, struct err *err) {
    struct edf_window *w = &edf->window;
    int rc = open_records(edf, err);
    if (w->err.code && err)
        *err = w->err;
    free(w->data);
    w->data = NULL;
    return w->err.code ? w->err.code : rc;
}

static struct edf *edf_new(const char *name) {
    struct edf *edf = calloc(1, sizeof *edf);
    if (!edf)
        return NULL;
    arena_init(&edf->arena, ARENA_LIMIT_BYTES);
    edf->header.arena = &edf->arena;
    edf->header.name = arena_strdup(&edf->arena, name);
    edf_bytes_init(&edf->bytes, edf->header.name);
    if (!edf->header.name) {
        edf_close(edf);
        return NULL;
    }
    return edf;
}

/* file_bytes −1: the file at path is whole. */
static int open_path(const char *path, bool header_only, int64_t file_bytes, struct edf **ret, struct err *err) {
    OWNED_POINTER(edf_close) struct edf *edf = edf_new(path);
    int rc;
    if (!edf)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", path);
    edf->header_only = header_only;
    if ((rc = edf_bytes_open(&edf->bytes, path, err)))
        return rc;
    size_t there = edf->bytes.len;
    edf->len = file_bytes > (int64_t)there ? (size_t)file_bytes : there;
    edf_bytes_scattered(&edf->bytes, header_only); /* a header needs no megabytes read ahead of it */
    if ((rc = open_bytes(edf, err)))
        return rc;
    edf_bytes_scattered(&edf->bytes, false);
    *ret = edf;
    edf = NULL;
    return 0;
}

bool edf_named(const char *path) {
    static const char annotations[] = "_annotations.edf";
    size_t len = strlen(path), n = sizeof annotations - 1;
    bool named = len > 4 && (!strcasecmp(path + len - 4, ".edf") || !strcasecmp(path + len - 4, ".bdf"));
    return named && (len < n || strcasecmp(path + len - n, annotations) != 0);
}

int edf_open(const char *path, struct edf **ret, struct err *err) { return open_path(path, false, -1, ret, err); }

int edf_open_header(const char *path, struct edf **ret, struct err *err) { return open_path(path, true, -1, ret, err); }

int edf_open_head(const char *path, int64_t file_bytes, struct edf **ret, bool *ret_enough, struct err *err) {
    int rc = open_path(path, true, file_bytes, ret, err);
    if (rc)
        return rc;
    *ret_enough = !(*ret)->undecided;
    return 0;
}

int edf_open_memory(const void *data, size_t len, const char *name, struct edf **ret, struct err *err) {
    struct edf *edf = edf_new(name);
    if (!edf)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", name);
    edf->bytes.memory = data;
    edf->len = edf->bytes.len = len;
    int rc = open_bytes(edf, err);
    if (rc) {
        edf_close(edf);
        return rc;
    }
    *ret = edf;
    return 0;
}

/* ---- records that arrive ---- */

int edf_open_feed(const void *header, size_t len, const char *name, struct edf **ret, struct err *err) {
    struct edf *edf = edf_new(name);
    if (!edf)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", name);
    int rc = edf_header_parse(&edf->header, header, len, err);
    if (rc) {
        edf_close(edf);
        return rc;
    }
    edf->decode = edf_decoder(edf->header.sample_bytes);
    start_clock(edf);
    *ret = edf;
    return 0;
}

int edf_feed(struct edf *edf, const void *records, int64_t n, struct err *err) {
    int64_t first = edf->header.info.n_records;
    edf->bytes.memory = records;
    edf->first_record = first;
    edf->header.info.n_records += n;
    if (!first && n > 0)
        see_first_record(edf);
    return place_records(edf, first, err);
}

int64_t edf_record_bytes(const struct edf *edf) { return edf->header.record_bytes; }

void edf_close(struct edf *edf) {
    if (!edf)
        return;
    edf_bytes_close(&edf->bytes);
    free(edf->segments);
    free(edf->annotations);
    arena_done(&edf->arena);
    free(edf);
}

/* ---- access ---- */

const struct edf_info *edf_info(const struct edf *edf) { return &edf->header.info; }

bool edf_annotations_known(const struct edf *edf) {
    bool place = false;
    for (int i = 0; i < edf->header.info.n_signals; i++)
        place |= edf->header.signals[i].annotation;
    return !edf->header_only || !place;
}

const char *edf_path(const struct edf *edf) { return edf->header.name; }

int edf_segments(const struct edf *edf, const struct edf_segment **ret) {
    *ret = edf->header.info.segments;
    return edf->header.info.n_segments;
}

int edf_find(const struct edf *edf, const char *label) {
    for (int i = 0; i < edf->header.info.n_signals; i++)
        if (edf->header.signals[i].usable && !strcasecmp(edf->header.signals[i].label, label))
            return i;
    return -1;
}

const char *edf_start_text(const struct edf *edf, char *buf, size_t size) {
    return edf_start_text_of(&edf->header.info.start, buf, size);
}

const char *edf_start_text_of(const struct edf_start *s, char *buf, size_t size) {
    if (s->known)
        str_format(buf, size, "%04d-%02d-%02d %02d:%02d:%02d", s->year, s->month, s->day, s->hour, s->minute, s->second);
    else
        str_copy(buf, size, "n/a");
    return buf;
}

/* Which signals of which records are read, and where to. */
struct edf_request {
    const int *signals;
    int n_signals;
    struct edf_range records;
    float *const *uv;
};

static void decode(const struct edf *edf, int signal, const uint8_t *bytes, int64_t n, float *out) {
    const struct edf_signal *s = &edf->header.signals[signal];
    edf->decode(bytes, n, (struct edf_scale){s->gain, s->offset}, out);
}

/* Records whose wanted bytes [low, high) fit the buffer, or are in memory: as many at once as fit. */
static int read_groups(const struct edf *edf, const struct edf_request *q, size_t low, size_t high, uint8_t *buffer,
                       struct err *err) {
    const struct edf_header *h = &edf->header;
    int64_t n = q->records.n_records, most = buffer ? 1 + (int64_t)(PIECE_BYTES - (high - low)) / h->record_bytes : n;
    for (int64_t r = 0, group; r < n; r += group) {
        const uint8_t *bytes;
        group = n - r < most ? n - r : most;
        int rc = edf_bytes_get(&edf->bytes, offset_of(edf, q->records.first_record + r) + low,
                               (size_t)((group - 1) * h->record_bytes) + (high - low), buffer, &bytes, err);
        if (rc)
            return rc;
        for (int64_t k = 0; k < group; k++)
            for (int i = 0; i < q->n_signals; i++) {
                int64_t per_record = h->signals[q->signals[i]].samples_per_record;
                decode(edf, q->signals[i], bytes + k * h->record_bytes + (h->offset[q->signals[i]] - (int64_t)low), per_record,
                       q->uv[i] + (r + k) * per_record);
            }
    }
    return 0;
}

/* Longer records, and parts of records: each signal in pieces. */
static int read_pieces(const struct edf *edf, const struct edf_request *q, uint8_t *buffer, struct err *err) {
    const struct edf_header *h = &edf->header;
    int64_t most = PIECE_BYTES / h->sample_bytes;
    for (int64_t r = 0; r < q->records.n_records; r++)
        for (int i = 0; i < q->n_signals; i++) {
            int64_t part = q->records.n_samples, per_record = part ? part : h->signals[q->signals[i]].samples_per_record;
            size_t at = offset_of(edf, q->records.first_record + r) +
                        (size_t)(h->offset[q->signals[i]] + (part ? q->records.first_sample : 0) * h->sample_bytes);
            for (int64_t k = 0; k < per_record; k += most) {
                const uint8_t *bytes;
                int64_t n = per_record - k < most ? per_record - k : most;
                int rc = edf_bytes_get(&edf->bytes, at + (size_t)(k * h->sample_bytes), (size_t)(n * h->sample_bytes), buffer,
                                       &bytes, err);
                if (rc)
                    return rc;
                decode(edf, q->signals[i], bytes, n, q->uv[i] + r * per_record + k);
            }
        }
    return 0;
}

static int read_request(const struct edf *edf, const struct edf_request *q, struct err *err) {
    const struct edf_header *h = &edf->header;
    size_t low = SIZE_MAX, high = 0;
    for (int i = 0; i < q->n_signals; i++) {
        size_t first = (size_t)h->offset[q->signals[i]];
        size_t end = first + (size_t)(h->signals[q->signals[i]].samples_per_record * h->sample_bytes);
        low = first < low ? first : low;
        high = end > high ? end : high;
    }
    if (high <= low || !q->records.n_records)
        return 0;
    bool parts = q->records.n_samples > 0;
    if (edf->bytes.memory)
        return parts ? read_pieces(edf, q, NULL, err) : read_groups(edf, q, low, high, NULL, err);
    uint8_t *buffer = malloc(PIECE_BYTES);
    if (!buffer)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", h->name);
    int rc = high - low <= PIECE_BYTES && !parts ? read_groups(edf, q, low, high, buffer, err) : read_pieces(edf, q, buffer, err);
    free(buffer);
    return rc;
}

int edf_read_signals(const struct edf *edf, const int *signals, int n_signals, struct edf_range records, float *const *uv,
                     struct err *err) {
    const struct edf_header *h = &edf->header;
    if (records.first_record < 0 || records.n_records < 0 || records.n_records > h->info.n_records ||
        records.first_record > h->info.n_records - records.n_records)
        return err_set(err, ERR_RANGE, "%s: %lld records from number %lld on are wanted, there are %lld", h->name,
                       (long long)records.n_records, (long long)records.first_record, (long long)h->info.n_records);
    if (records.first_record < edf->first_record)
        return err_set(err, ERR_RANGE, "%s: record %lld is wanted, the records at hand begin with %lld", h->name,
                       (long long)records.first_record, (long long)edf->first_record);
    if (records.n_records && !record_there(edf, records.first_record + records.n_records - 1))
        return err_set(err, ERR_PRECONDITION, "%s: only the first %zu of %zu bytes are there", h->name, edf->bytes.len, edf->len);
    for (int i = 0; i < n_signals; i++) {
        if (signals[i] < 0 || signals[i] >= h->info.n_signals)
            return err_set(err, ERR_RANGE, "%s: signal %d is wanted, there are %d", h->name, signals[i], h->info.n_signals);
        const struct edf_signal *s = &h->signals[signals[i]];
        if (!s->usable)
            return err_set(err, ERR_PRECONDITION, "%s: signal %d '%s' cannot be read: %s", h->name, signals[i] + 1, s->label,
                           s->annotation ? "it holds annotations" : s->note);
        if (records.n_samples && (records.first_sample < 0 || records.n_samples < 0 || records.n_samples > s->samples_per_record ||
                                  records.first_sample > s->samples_per_record - records.n_samples))
            return err_set(err, ERR_RANGE, "%s: samples %lld to %lld of a record are wanted, signal %d has %lld", h->name,
                           (long long)records.first_sample, (long long)(records.first_sample + records.n_samples), signals[i] + 1,
                           (long long)s->samples_per_record);
    }
    return read_request(edf, &(struct edf_request){signals, n_signals, records, uv}, err);
}

int edf_read(const struct edf *edf, int signal, int64_t first_record, int64_t n_records, float *uv, struct err *err) {
    return edf_read_signals(edf, &signal, 1, (struct edf_range){.first_record = first_record, .n_records = n_records}, &uv, err);
}
