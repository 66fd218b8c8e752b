/* What opening a file finds in its records: how many there are, when each begins, and the annotations. */

#include "base/grow.h"
#include "base/order.h"
#include "formats/edf_state.h"
#include "formats/tal.h"

enum { MAX_ANNOTATIONS = 1000000, SMALL_RECORD_BYTES = 8 << 10 };
static const double MAX_DRIFT_S = 0.25; /* between a record's stated onset and its place in the segment */

static int move_window(struct edf *edf, size_t offset, size_t n, struct err *err) {
    struct edf_window *w = &edf->window;
    const uint8_t *data;
    size_t rest = edf->bytes.len - offset;
    if (edf->header.record_bytes <= SMALL_RECORD_BYTES && n < EDF_PIECE_BYTES) /* the next one is near */
        n = rest < EDF_PIECE_BYTES ? rest : EDF_PIECE_BYTES;
    w->len = 0;
    if (n > w->capacity) {
        uint8_t *grown = realloc(w->data, n);
        if (!grown)
            return edf_out_of_memory(edf, err);
        w->data = grown;
        w->capacity = n;
    }
    int rc = filebytes_get(&edf->bytes, offset, n, w->data, &data, err);
    w->first = offset;
    w->len = rc ? 0 : n;
    return rc;
}

/* A signal's bytes in a record, while the file is opened; they last until the next call. NULL after an error, which
 * edf->window.err keeps. */
static const uint8_t *signal_bytes(struct edf *edf, int64_t record, int signal) {
    const struct edf_header *h = &edf->header;
    struct edf_window *w = &edf->window;
    size_t at = edf_offset_of(edf, record) + (size_t)h->offset[signal];
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

/* Onset that the time-keeper of a record states; NaN without one, and of a record that is not there or cannot be read. */
static double keeper_onset(struct edf *edf, int signal, int64_t record) {
    double onset = NAN;
    const struct edf_header *h = &edf->header;
    const uint8_t *bytes = edf_record_there(edf, record) ? signal_bytes(edf, record, signal) : NULL;
    if (bytes)
        tal_parse(bytes, (size_t)(h->signals[signal].samples_per_record * h->sample_bytes), visit_keeper, &onset, NULL);
    return onset;
}

void edf_count_records(struct edf *edf) {
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
        edf->undecided |= keeper >= 0 && declared > 0 && !edf_record_there(edf, whole - 1);
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

static double segment_end_s(const struct edf *edf, const struct eeg_segment *s) {
    return s->start_s + (double)s->n_records * edf->header.info.record_s;
}

static int add_segment(struct edf *edf, struct eeg_segment segment, struct err *err) {
    struct eeg_info *info = &edf->header.info;
    if (!GROW(edf->segments, (size_t)info->n_segments, edf->segment_capacity))
        return edf_out_of_memory(edf, err);
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
        return add_segment(edf, (struct eeg_segment){0, 1, 0}, err);
    struct eeg_segment *last = &edf->segments[h->info.n_segments - 1];
    double expected = c->previous_s + h->info.record_s, onset = keeper_onset(edf, c->keeper, record) - c->first_onset_s;
    if (!isfinite(onset)) {
        c->missing++;
        onset = expected;
    } else if (onset < expected - c->tolerance_s && edf->len) {
        return err_set(err, ERR_INVALID, "%s: record %lld begins at %.6g s, the record in front of it ends at %.6g s: %s", h->name,
                       (long long)record + 1, onset, expected, format_steps_back(expected - onset));
    } else if (onset < expected - c->tolerance_s) { /* records that arrive are live */
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
    return add_segment(edf, (struct eeg_segment){record, 1, fmax(onset, end)}, err);
}

/* Put the records from this number on into segments. */
int edf_place_records(struct edf *edf, int64_t from, struct err *err) {
    struct eeg_info *info = &edf->header.info;
    int rc;
    if (!info->n_records || !info->duration_num)
        return 0;
    if (!info->discontinuous || edf->clock.keeper < 0) {
        if (!info->n_segments && (rc = add_segment(edf, (struct eeg_segment){0, 0, 0}, err)))
            return rc;
        edf->segments[0].n_records = info->n_records;
    } else {
        edf->undecided |= info->n_records > 1 && !edf_record_there(edf, info->n_records - 1);
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

/* Before the first record is placed. */
void edf_start_clock(struct edf *edf) {
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
void edf_see_first_record(struct edf *edf) {
    double first = edf->clock.keeper >= 0 ? keeper_onset(edf, edf->clock.keeper, 0) : NAN;
    edf->clock.first_onset_s = isfinite(first) ? first : 0;
    eeg_start_add(&edf->header.info.start, edf->clock.first_onset_s);
}

int edf_build_timeline(struct edf *edf, struct err *err) {
    edf_start_clock(edf);
    if (edf->header.info.n_records > 0)
        edf_see_first_record(edf);
    int rc = edf_place_records(edf, 0, err);
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
    struct eeg_info *info = &edf->header.info;
    if (!item->text_len)
        return 0;
    if (info->n_annotations >= MAX_ANNOTATIONS) {
        edf->annotations_cut = true;
        return 1;
    }
    if (!GROW(edf->annotations, info->n_annotations, edf->annotation_capacity)) {
        c->failed = true;
        return 1;
    }
    size_t size = item->text_len * 3 + 1;
    char *text = arena_alloc(&edf->arena, size);
    if (!text) {
        c->failed = true;
        return 1;
    }
    if (tal_text(text, size, item->text, item->text_len, NULL))
        edf->annotations[info->n_annotations++] = (struct eeg_annotation){item->onset_s - c->first_onset_s, item->duration_s, text};
    return 0;
}

ORDER_BY(by_onset, struct eeg_annotation, order_then(order_f64(x->onset_s, y->onset_s), strcmp(x->text, y->text)))

/* Files already in order keep the order of equal onsets. */
static void sort_annotations(struct eeg_annotation *items, size_t n) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = items[i - 1].onset_s <= items[i].onset_s;
    if (!sorted)
        SORT(items, n, by_onset);
}

int edf_read_annotations(struct edf *edf, struct err *err) {
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
        return edf_out_of_memory(edf, err);
    if (edf->annotations_cut)
        edf_header_repair(h, "only the first %d annotations are kept", MAX_ANNOTATIONS);
    if (faults)
        edf_header_repair(h, "%zu pieces of the annotation signals are no annotation and were skipped", faults);
    sort_annotations(edf->annotations, h->info.n_annotations);
    h->info.annotations = edf->annotations;
    return 0;
}
