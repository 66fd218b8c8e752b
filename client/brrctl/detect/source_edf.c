/* The sources that are EDF or BDF: complete files, and those that are still being written. Declared in source.h. */

#include "base/needed.h"
#include "client/brrctl/detect/feed.h"
#include "client/brrctl/detect/source.h"
#include "eeg/channels.h"
#include "eeg/montage.h"
#include "formats/amplitude.h"

enum { READ_BYTES = 4 << 20 };

struct source_edf {
    struct source base;
    struct eegfile *file; /* or NULL, and then */
    struct feed *feed;
    const struct eegfile *edf; /* of either */
    int signals[FRONTEND_MAX_LABELS];
    char (*names)[CHANNELS_LABEL_SIZE]; /* of all signals, renamed */
    int64_t per_record;                 /* samples of each signal */
    int64_t at, end, records;           /* the next record; one past the last record in the file; records of a block */
    int segment;                        /* of record `at` */
    float *samples, **uv;
};

/* The electrodes that are named by the signals with so many samples per record. */
static int electrodes_of(const struct source_edf *s, int64_t samples) {
    const struct eeg_info *info = s->base.info;
    const char *labels[FRONTEND_MAX_LABELS];
    int n = 0;
    for (int i = 0; i < info->n_signals && n < FRONTEND_MAX_LABELS; i++)
        if (channels_usable(&info->signals[i]) && info->signals[i].samples_per_record == samples)
            labels[n++] = s->names[i];
    return montage_electrodes(labels, n);
}

/* Samples per record of the signals that name most electrodes, as a montage takes them; 0 when none names any. */
static int64_t electrode_samples(const struct source_edf *source) {
    const struct eeg_info *info = source->base.info;
    int64_t best = 0, tried[16] = {0};
    int most = 0, n = 0;
    for (int i = 0; i < info->n_signals && n < 16; i++) {
        const struct eeg_signal *s = &info->signals[i];
        bool known = !channels_usable(s);
        for (int k = 0; k < n; k++)
            known |= tried[k] == s->samples_per_record;
        if (known)
            continue;
        tried[n++] = s->samples_per_record;
        int electrodes = electrodes_of(source, s->samples_per_record);
        if (electrodes > most) {
            most = electrodes;
            best = s->samples_per_record;
        }
    }
    return best;
}

/* Without electrodes: samples per record that most voltage signals have; without voltages, that most signals have. 0 = nothing to
 * send. */
static int64_t common_samples(const struct source_edf *source) {
    const struct eeg_info *info = source->base.info;
    int64_t best = electrode_samples(source);
    int most = 0;
    for (int volt = best ? -1 : 1; volt >= 0 && !most; volt--)
        for (int i = 0; i < info->n_signals; i++) {
            const struct eeg_signal *s = &info->signals[i];
            int same = 0;
            for (int k = 0; k < info->n_signals; k++)
                same += channels_usable(&info->signals[k]) && (!volt || info->signals[k].volt) &&
                        info->signals[k].samples_per_record == s->samples_per_record;
            if (channels_usable(s) && same > most) {
                most = same;
                best = s->samples_per_record;
            }
        }
    return best;
}

/* Chooses the rows, and makes room for a block of them. */
static int choose_signals(struct source_edf *s, const char *path, const char *rename, struct err *err) {
    struct source *base = &s->base;
    base->info = eegfile_info(s->edf);
    s->names = needed(calloc((size_t)base->info->n_signals + 1, sizeof *s->names));
    for (int i = 0; i < base->info->n_signals; i++)
        channels_rename(rename, base->info->signals[i].label, s->names[i]);
    s->per_record = common_samples(s);
    for (int i = 0; i < base->info->n_signals && base->n < FRONTEND_MAX_LABELS; i++) {
        const struct eeg_signal *signal = &base->info->signals[i];
        if (!channels_usable(signal) || signal->samples_per_record != s->per_record)
            continue;
        base->rate_hz = signal->rate_hz;
        base->labels[base->n] = s->names[i];
        s->signals[base->n++] = i;
    }
    if (!base->n || !s->per_record)
        return channels_none(base->info, path, err);
    s->records = READ_BYTES / (int64_t)sizeof(float) / base->n / s->per_record;
    s->records = s->records < 1 ? 1 : s->records;
    base->missing = calloc((size_t)base->n, sizeof *base->missing);
    s->uv = calloc((size_t)base->n, sizeof *s->uv);
    s->samples = malloc(sizeof *s->samples * (size_t)(s->records * s->per_record * base->n));
    if (!base->missing || !s->uv || !s->samples)
        return err_set(err, ERR_EXHAUSTED, "out of memory for samples of %s", path);
    for (int c = 0; c < base->n; c++)
        s->uv[c] = s->samples + (int64_t)c * s->records * s->per_record;
    return 0;
}

/* Waits for records of a feed, whose numbers go on. */
static int more_records(struct source_edf *s, bool *ret_end, struct err *err) {
    int64_t n = 0;
    *ret_end = !s->feed;
    if (!s->feed)
        return 0;
    int rc = feed_next(s->feed, &n, err);
    *ret_end = n < 0;
    s->end += n > 0 ? n : 0;
    return rc;
}

static int edf_next(struct source *base, struct source_block *ret, struct err *err) {
    struct source_edf *s = (struct source_edf *)base;
    const struct eeg_segment *segments;
    bool end = false;
    int rc = s->at < s->end ? 0 : more_records(s, &end, err), n = eegfile_segments(s->edf, &segments);
    if (rc)
        return rc;
    while (s->segment + 1 < n && segments[s->segment + 1].first_record <= s->at)
        s->segment++;
    const struct eeg_segment *segment = n ? &segments[s->segment] : NULL;
    *ret = (struct source_block){.first = -1, .end = end};
    if (!segment || s->at >= s->end)
        return 0;
    int64_t left = segment->first_record + segment->n_records - s->at, records = left < s->records ? left : s->records;
    const struct eeg_range range = {s->at * s->per_record, records * s->per_record};
    if ((rc = eegfile_read(s->edf, s->signals, base->n, range, s->uv, err)))
        return rc;
    *ret = (struct source_block){.first = -1, .n = records * s->per_record, .uv = s->uv};
    for (int c = 0; c < base->n; c++)
        (void)missing_look(&base->missing[c], s->uv[c], s->uv[c > 0 ? c - 1 : 0], ret->n);
    base->read += ret->n;
    if (s->at == segment->first_record)
        ret->first = llround(segment->start_s * base->rate_hz);
    s->at += records;
    return 0;
}

static int edf_check_units(struct source *base, const int *used, int n, struct err *err) {
    const struct source_edf *s = (struct source_edf *)base;
    int signals[FRONTEND_MAX_LABELS];
    for (int i = 0; i < n; i++)
        signals[i] = s->signals[used[i]];
    int rc = channels_check_units(base->info, signals, n, base->assumed, sizeof base->assumed, err);
    return rc || !s->file ? rc : amplitude_check(s->file, signals, n, base->assumed, sizeof base->assumed, err);
}

static const char *edf_ended(const struct source *base) {
    const struct source_edf *s = (const struct source_edf *)base;
    return s->feed ? feed_ended(s->feed) : "file";
}

static int64_t edf_left_bytes(const struct source *base) {
    const struct source_edf *s = (const struct source_edf *)base;
    return s->feed ? feed_left_bytes(s->feed) : 0;
}

static void edf_source_close(struct source *base) {
    struct source_edf *s = (struct source_edf *)base;
    eegfile_close(s->file);
    feed_close(s->feed);
    FREE_MEMBERS(*s, samples, names, uv, base.missing);
    free(s);
}

static const struct source_kind kind = {
    .next = edf_next,
    .check_units = edf_check_units,
    .ended = edf_ended,
    .left_bytes = edf_left_bytes,
    .close = edf_source_close,
};

static int open_input(struct source_edf *s, const char *path, double idle_s, const struct source_reading *reading,
                      struct err *err) {
    bool feed = idle_s >= 0;
    int rc = feed ? feed_open(path, idle_s, reading->unit, &s->feed, err) : eegfile_open(path, &s->file, err);
    if (rc || (!feed && (rc = eegfile_assume_unit(s->file, reading->unit, err))))
        return rc;
    s->edf = feed ? feed_edf(s->feed) : s->file;
    s->base.edf = s->file;
    s->end = feed ? 0 : eegfile_info(s->edf)->n_records;
    return choose_signals(s, path, reading->rename, err);
}

/* idle_s −1: a complete file. */
static int open_either(const char *path, double idle_s, const struct source_reading *reading, struct source **ret,
                       struct err *err) {
    struct source_edf *s = needed(calloc(1, sizeof *s));
    s->base.kind = &kind;
    int rc = open_input(s, path, idle_s, reading, err);
    if (rc) {
        edf_source_close(&s->base);
        return rc;
    }
    *ret = &s->base;
    return 0;
}

int source_open_file(const char *path, const struct source_reading *reading, struct source **ret, struct err *err) {
    return open_either(path, -1, reading, ret, err);
}

int source_open_feed(const char *path, double idle_s, const struct source_reading *reading, struct source **ret, struct err *err) {
    return open_either(path, idle_s, reading, ret, err);
}

int source_rename(const struct argument_list *list, struct str *ret, struct err *err) {
    for (int i = 0; i < list->n; i++) {
        char pattern[256];
        const char *equals = strrchr(list->items[i], '=');
        if (!equals || !str_format(pattern, sizeof pattern, "%.*s", (int)(equals - list->items[i]), list->items[i]))
            return err_set(err, ERR_INVALID, "--rename %.80s: expected LABEL=NAME", list->items[i]);
        int rc = channels_add_rename(ret, pattern, equals + 1, err);
        if (rc)
            return rc;
    }
    return 0;
}

void source_close(struct source *s) {
    if (s)
        s->kind->close(s);
}
