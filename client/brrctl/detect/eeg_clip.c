#include "client/brrctl/detect/eeg_clip.h"

#include "base/needed.h"
#include "eeg/channels.h"
#include "eeg/half.h"
#include "eeg/montage.h"

enum { WARM_UP_S = 10, CUSTOM_CHANNELS = 24, PIECE = 4096 /* samples that are read at once */ };

struct reading {
    const struct eegfile *edf;
    const struct frontend_config *config;
    struct channels channels;
    struct eeg_clip *clip;
    int64_t first;  /* sample at 256 Hz of file time at which the clip begins */
    int64_t offset; /* of the piece that is read: its first output in file time */
    uint64_t *held; /* of each sample of the clip: bits of the channels that are held there, not measured */
};

static int take_rows(void *ctx, const uint16_t *rows, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    struct reading *r = ctx;
    (void)segment_start, (void)held, (void)err;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = r->offset + first + i - r->first;
        for (int c = 0; at >= 0 && at < r->clip->n && c < r->clip->channels; c++)
            r->clip->uv[at * r->clip->channels + c] = half_to_f32(rows[i * r->clip->channels + c]);
    }
    return 0;
}

/* Replaces samples of a channel that are no numbers by its last one, as a stream does, and marks the clip's: those of `rows` from
 * sample `at` of the piece on. */
static void hold_missing(struct reading *r, float *uv, int64_t n, int64_t at, uint64_t rows, float *last) {
    const double per = FRONTEND_RATE_HZ / r->channels.rate_hz;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(uv[i])) {
            *last = uv[i];
            continue;
        }
        uv[i] = *last;
        for (int64_t k = (int64_t)ceil((double)(at + i) * per - 1e-9); (double)k < (double)(at + i + 1) * per - 1e-9; k++)
            if (r->offset + k >= r->first && r->offset + k < r->first + r->clip->n)
                r->held[r->offset + k - r->first] |= rows;
    }
}

/* Pushes samples [from, to) of a segment. */
static int push_samples(struct reading *r, struct frontend *f, const struct eeg_segment *segment, int64_t from, int64_t to,
                        struct err *err) {
    OWNED_POINTER(montage_free) struct montage *m = NULL;
    const int *used;
    int n_used = frontend_sources(f, &used), signals[FRONTEND_MAX_LABELS];
    int64_t spr = r->channels.samples_per_record, most = to - from < PIECE ? to - from : PIECE;
    OWNED_MEMORY float **uv = needed(calloc((size_t)n_used + 1, sizeof *uv));
    OWNED_MEMORY float *samples = needed(calloc((size_t)((most + 1) * n_used + 1), sizeof *samples));
    int rc = montage_new(r->config->montage, r->channels.labels, r->channels.n, &m, err);
    for (int c = 0; c < n_used; c++) {
        signals[c] = r->channels.signals[used[c]];
        uv[c] = samples + (int64_t)c * most;
    }
    for (int64_t at = from, n; !rc && at < to; at += n) {
        n = to - at < most ? to - at : most;
        const struct eeg_range range = {segment->first_record * spr + at, n};
        rc = eegfile_read(r->edf, signals, n_used, range, uv, err);
        for (int c = 0; !rc && c < n_used; c++)
            hold_missing(r, uv[c], n, at - from, montage_rows_of(m, c), &samples[most * n_used + c]);
        rc = rc ? rc : frontend_push(f, (const float *const *)uv, n, err);
    }
    return rc ? rc : frontend_finish(f, err);
}

/* What of a segment lies in [from_s, to_s). */
static int read_segment(struct reading *r, const struct eeg_segment *segment, double from_s, double to_s, struct err *err) {
    double rate = r->channels.rate_hz;
    int64_t length = segment->n_records * r->channels.samples_per_record;
    int64_t from = llround(fmax(0, from_s - segment->start_s) * rate),
            to = llround(fmin((double)length, (to_s - segment->start_s) * rate));
    struct frontend *frontend = NULL;
    int rc;
    if (from >= to)
        return 0;
    r->offset = llround((segment->start_s + (double)from / rate) * FRONTEND_RATE_HZ);
    const struct frontend_source source = {r->channels.labels, r->channels.n, rate};
    if ((rc = frontend_new(r->config, &source, take_rows, r, &frontend, NULL, err)))
        return rc;
    rc = push_samples(r, frontend, segment, from, to, err);
    frontend_free(frontend);
    return rc;
}

/* "custom:A,B,…" of the file's first voltages. */
static bool own_montage(const struct eeg_info *info, char *ret, size_t size) {
    struct str text = str_of(size - 1);
    int n = 0;
    for (int i = 0; i < info->n_signals && n < CUSTOM_CHANNELS; i++)
        if (info->signals[i].usable && info->signals[i].volt && !info->signals[i].annotation &&
            !strchr(info->signals[i].label, ',') && *info->signals[i].label && info->signals[i].rate_hz >= 64)
            str_printf(&text, "%s%s", n++ ? "," : "custom:", info->signals[i].label);
    bool good = n && str_ok(&text) && str_copy(ret, size, str_cstr(&text));
    str_done(&text);
    return good;
}

/* The first montage of these that the channels allow. */
static int choose(struct reading *r, struct frontend_config *config, const char *wanted, struct err *err) {
    const struct eeg_info *info = eegfile_info(r->edf);
    const char *const tries[] = {wanted ? wanted : "bipolar-18", wanted ? NULL : "referential-19", r->clip->custom};
    int rc = ERR_PRECONDITION;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        if (!tries[i] || (tries[i] == r->clip->custom && (wanted || !own_montage(info, r->clip->custom, sizeof r->clip->custom))))
            continue;
        config->montage = r->clip->montage = tries[i];
        if (!(rc = channels_choose(info, config, &r->channels, err)) || wanted)
            return rc;
        channels_done(&r->channels);
        r->channels = (struct channels){0};
    }
    return rc;
}

static int allocate(struct eeg_clip *clip, double seconds, struct err *err) {
    int rc = montage_channels(clip->montage, &clip->names, &clip->channels, err);
    if (rc)
        return rc;
    clip->n = llround(seconds * FRONTEND_RATE_HZ);
    clip->uv = needed(malloc((size_t)(clip->n * clip->channels + 1) * sizeof *clip->uv));
    for (int64_t i = 0; i < clip->n * clip->channels; i++)
        clip->uv[i] = NAN;
    return 0;
}

static int read_all(struct reading *r, struct frontend_config *frontend, const struct eeg_clip_config *config, double from_s,
                    double seconds, struct err *err) {
    const struct eeg_segment *segments;
    int n = eegfile_segments(r->edf, &segments), rc;
    if ((rc = choose(r, frontend, config->montage, err)) || (rc = allocate(r->clip, seconds, err)))
        return rc;
    const struct eeg_clip *clip = r->clip;
    OWNED_MEMORY uint64_t *held = r->held = needed(calloc((size_t)clip->n + 1, sizeof *held));
    for (int i = 0; i < n; i++)
        if ((rc = read_segment(r, &segments[i], from_s - WARM_UP_S, from_s + seconds, err)))
            return rc;
    for (int64_t i = 0; i < clip->n; i++)
        for (int c = 0; held[i] && c < clip->channels; c++)
            if (held[i] >> c & 1)
                clip->uv[i * clip->channels + c] = NAN;
    return 0;
}

int eeg_clip_read(const struct eegfile *edf, const struct eeg_clip_config *config, double from_s, double seconds,
                  struct eeg_clip *ret, struct err *err) {
    *ret = (struct eeg_clip){0};
    struct frontend_config frontend = {.notch_hz = config->notch_hz,
                                       .bandpass_hz = {config->bandpass_hz[0], config->bandpass_hz[1]},
                                       .fill_gap_s = 0,
                                       .rename = config->rename};
    struct reading r = {.edf = edf, .config = &frontend, .clip = ret, .first = llround(from_s * FRONTEND_RATE_HZ)};
    int rc = read_all(&r, &frontend, config, from_s, seconds, err);
    channels_done(&r.channels);
    if (rc)
        eeg_clip_done(ret);
    return rc;
}

void eeg_clip_done(struct eeg_clip *c) {
    montage_channels_free(c->names);
    free(c->uv);
    *c = (struct eeg_clip){0};
}

double eeg_clip_notch(const char *text) {
    if (!text || !strcmp(text, "both"))
        return FRONTEND_BOTH_NOTCHES;
    return !strcmp(text, "50") ? 50 : !strcmp(text, "60") ? 60 : 0;
}

const char *eeg_clip_notch_text(double notch_hz) {
    return notch_hz == FRONTEND_BOTH_NOTCHES ? "notches 50 and 60 Hz"
           : notch_hz > 55                   ? "notch 60 Hz"
           : notch_hz > 0                    ? "notch 50 Hz"
                                             : "no notch";
}
