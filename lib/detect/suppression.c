#include "detect/suppression.h"

#include "base/clones.h"
#include "eeg/half.h"
#include "eeg/half_rows.h"

/* BINS: seconds kept, more than a window and the seconds that may still be undecided. CHECK: samples between two looks at whether a
 * report can be given. */
enum { RATE = SUPPRESSION_RATE_HZ, SHORTEST = SUPPRESSION_SHORTEST, BINS = 64, CHECK = 32, ROWS = 32, WIDE = 8 };

/* Activity over time of one channel or of the recording. */
struct track {
    bool suppressed; /* in a suppression; else in activity */
    bool awaited;    /* this activity follows a suppression and is not long enough yet to be a burst */
    int quiet;       /* in activity: the newest samples without any, fewer than SHORTEST */
    int64_t since;   /* first sample of the suppression or activity */
    uint16_t suppressed_in[BINS];
    uint8_t bursts_in[BINS];
};

struct ready {
    int64_t sample, observed;
};

struct suppression {
    int channels, agreeing; /* how many channels make the recording active */
    struct suppression_sink sink;
    bool running; /* in a stretch of data */
    int64_t now;  /* one past the newest sample */
    int64_t next; /* sample of the next report */
    struct suppression_totals totals;
    uint16_t observed_in[BINS];
    double mean[SUPPRESSION_MAX_CHANNELS], variance[SUPPRESSION_MAX_CHANNELS];
    bool calm;                                         /* an active sample changes no channel's track */
    struct track tracks[SUPPRESSION_MAX_CHANNELS + 1]; /* [channels] is the recording's */
    struct ready *ready;                               /* reports that were not given out yet, oldest first */
    float *values;                                     /* of each: ratio and bursts per minute of every track */
    int64_t n_ready, room;
};

int suppression_new(int channels, const struct suppression_sink *sink, struct suppression **ret, struct err *err) {
    if (channels < 1 || channels > SUPPRESSION_MAX_CHANNELS)
        return err_set(err, ERR_INVALID, "burst suppression of %d channels; expected 1 to %d", channels, SUPPRESSION_MAX_CHANNELS);
    struct suppression *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the burst suppression of a stream");
    s->channels = channels;
    s->agreeing = (channels * SUPPRESSION_AGREE_PERCENT + 99) / 100;
    s->sink = *sink;
    *ret = s;
    return 0;
}

void suppression_free(struct suppression *s) {
    if (!s)
        return;
    FREE_MEMBERS(*s, ready, values);
    free(s);
}

/* ---- one track -------------------------------------------------------------------------------------------------- */

static int bin_of(int64_t sample) { return (int)(sample / RATE % BINS); }

static void add_suppressed(struct suppression *s, struct track *k, int64_t first, int64_t end) {
    for (int64_t at = first; at < end; at++)
        k->suppressed_in[bin_of(at)]++;
    if (k == &s->tracks[s->channels])
        s->totals.suppressed += end - first;
}

static int end_suppression(struct suppression *s, const struct track *k, int64_t end, struct err *err) {
    bool recording = k == &s->tracks[s->channels];
    return recording && s->sink.segment ? s->sink.segment(s->sink.ctx, k->since, end, err) : 0;
}

/* The activity up to `end` is certain: a burst once it is long enough. */
static void extend_activity(struct suppression *s, struct track *k, int64_t end) {
    k->quiet = 0;
    if (!k->awaited || end - k->since < SHORTEST)
        return;
    k->awaited = false;
    k->bursts_in[bin_of(k->since)]++;
    if (k == &s->tracks[s->channels])
        s->totals.bursts++;
}

/* Takes sample t. */
static int track_push(struct suppression *s, struct track *k, int64_t t, bool active, struct err *err) {
    if (k->suppressed && !active) {
        add_suppressed(s, k, t, t + 1);
    } else if (k->suppressed) {
        int rc = end_suppression(s, k, t, err);
        k->suppressed = false;
        k->awaited = true;
        k->since = t;
        k->quiet = 0;
        return rc;
    } else if (active) {
        extend_activity(s, k, t + 1);
    } else if (++k->quiet == SHORTEST) {
        k->suppressed = true;
        k->awaited = false;
        k->since = t + 1 - SHORTEST;
        k->quiet = 0;
        add_suppressed(s, k, k->since, t + 1);
    }
    return 0;
}

/* Data end: what is still undecided is too short to be a suppression or a burst. */
static int track_stop(struct suppression *s, struct track *k, struct err *err) {
    int rc = k->suppressed ? end_suppression(s, k, s->now, err) : 0;
    k->suppressed = k->awaited = false;
    k->quiet = 0;
    k->since = s->now;
    return rc;
}

/* Up to where the track's labels and bursts can no longer change. */
static int64_t decided(const struct track *k, int64_t now) {
    if (k->suppressed)
        return now;
    return k->awaited ? k->since : now - k->quiet;
}

/* ---- reports ---------------------------------------------------------------------------------------------------- */

static void value_of(const struct track *k, const struct ready *r, float *ret) {
    int64_t suppressed = 0, bursts = 0, second = r->sample / RATE;
    for (int64_t at = second > SUPPRESSION_WINDOW_S ? second - SUPPRESSION_WINDOW_S : 0; at < second; at++) {
        suppressed += k->suppressed_in[at % BINS];
        bursts += k->bursts_in[at % BINS];
    }
    ret[0] = (float)((double)suppressed / (double)r->observed);
    ret[1] = (float)((double)(bursts * SUPPRESSION_WINDOW_S * RATE) / (double)r->observed);
}

static size_t tracks_of(const struct suppression *s) { return (size_t)s->channels + 1; }

static int reserve_ready(struct suppression *s, int64_t n, struct err *err) {
    if (n <= s->room)
        return 0;
    int64_t room = 2 * n;
    struct ready *ready = realloc(s->ready, (size_t)room * sizeof *ready);
    s->ready = ready ? ready : s->ready;
    float *values = ready ? realloc(s->values, (size_t)room * tracks_of(s) * 2 * sizeof *values) : NULL;
    if (!values)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld reports of burst suppression", (long long)room);
    s->values = values;
    s->room = room;
    return 0;
}

static int add_report(struct suppression *s, int64_t sample, struct err *err) {
    int rc = reserve_ready(s, s->n_ready + 1, err);
    if (rc)
        return rc;
    struct ready *r = &s->ready[s->n_ready];
    float *values = s->values + (size_t)s->n_ready++ * tracks_of(s) * 2;
    int64_t second = sample / RATE;
    *r = (struct ready){.sample = sample};
    for (int64_t at = second > SUPPRESSION_WINDOW_S ? second - SUPPRESSION_WINDOW_S : 0; at < second; at++)
        r->observed += s->observed_in[at % BINS];
    for (int c = s->sink.whole_only ? s->channels : 0; c <= s->channels; c++)
        value_of(&s->tracks[c], r, values + 2 * c);
    return 0;
}

static int give_report(const struct suppression *s, int64_t i, struct err *err) {
    const float *values = s->values + (size_t)i * tracks_of(s) * 2;
    float ratio[SUPPRESSION_MAX_CHANNELS], bursts[SUPPRESSION_MAX_CHANNELS];
    const int channels = s->sink.whole_only ? 0 : s->channels;
    for (int c = 0; c < channels; c++) {
        ratio[c] = values[2 * c];
        bursts[c] = values[2 * c + 1];
    }
    const struct suppression_report r = {SAME_MEMBERS(s->ready[i], sample, observed),
                                         .ratio = values[2 * s->channels],
                                         .bursts_per_minute = values[2 * s->channels + 1],
                                         .channels = channels,
                                         .channel_ratio = ratio,
                                         .channel_bursts = bursts};
    return s->sink.report(s->sink.ctx, &r, err);
}

int suppression_give(struct suppression *s, int64_t sample, struct err *err) {
    int64_t n = 0;
    int rc = 0;
    for (; !rc && n < s->n_ready && s->ready[n].sample <= sample; n++)
        rc = s->sink.report ? give_report(s, n, err) : 0;
    s->n_ready -= n;
    if (n && s->n_ready) {
        memmove(s->ready, s->ready + n, (size_t)s->n_ready * sizeof *s->ready);
        memmove(s->values, s->values + (size_t)n * tracks_of(s) * 2, (size_t)s->n_ready * tracks_of(s) * 2 * sizeof *s->values);
    }
    return rc;
}

/* The reports of all seconds that are over and decided. */
static int add_reports(struct suppression *s, struct err *err) {
    int64_t until = s->now;
    int rc = 0;
    if (s->next > s->now)
        return 0;
    for (int c = 0; c <= s->channels; c++) {
        int64_t at = decided(&s->tracks[c], s->now);
        until = at < until ? at : until;
    }
    for (; s->next <= until; s->next += RATE)
        if ((rc = add_report(s, s->next, err)))
            return rc;
    return 0;
}

/* ---- samples ---------------------------------------------------------------------------------------------------- */

/* The bins of seconds [from, to) begin empty. */
static void clear_bins(struct suppression *s, int64_t from, int64_t to) {
    for (int64_t at = to - from > BINS ? to - BINS : from; at < to; at++) {
        s->observed_in[at % BINS] = 0;
        for (int c = 0; c <= s->channels; c++)
            s->tracks[c].suppressed_in[at % BINS] = s->tracks[c].bursts_in[at % BINS] = 0;
    }
}

static int stop(struct suppression *s, struct err *err) {
    int rc = 0;
    if (!s->running)
        return 0;
    s->running = false;
    for (int c = 0; c <= s->channels; c++)
        if ((rc = track_stop(s, &s->tracks[c], err)))
            return rc;
    return add_reports(s, err);
}

static void start(struct suppression *s, const uint16_t *row, int64_t first) {
    clear_bins(s, (s->now + RATE - 1) / RATE, (first + RATE - 1) / RATE);
    s->now = first;
    s->next = (first / RATE + 1) * RATE;
    s->running = true;
    for (int c = 0; c < s->channels; c++) {
        s->mean[c] = half_to_f32(row[c]);
        s->variance[c] = 0;
    }
    s->calm = false;
    for (int c = 0; c <= s->channels; c++)
        s->tracks[c].since = first;
}

/* Eight channels of a row, several in one instruction, each with the same operations. */
typedef double eight __attribute__((vector_size(64), aligned(8), may_alias));
typedef int8_t eight_bytes __attribute__((vector_size(8)));

/* Takes n rows of `wide` values: means and variances, and a byte of ones in active (n, wide) for each channel that is active. */
CLONES static void follow_signal(struct suppression *s, const double *x, int wide, int64_t n, uint8_t *active) {
    const double keep = SUPPRESSION_KEEP, take = 1 - SUPPRESSION_KEEP;
    for (int c = 0; c < wide; c += WIDE) {
        eight mean = *(const eight *)(const void *)(s->mean + c), variance = *(const eight *)(const void *)(s->variance + c);
        for (int64_t i = 0; i < n; i++) {
            const eight now = *(const eight *)(const void *)(x + i * wide + c);
            mean = keep * mean + take * now;
            variance = keep * variance + take * (now - mean) * (now - mean);
            const eight_bytes is = __builtin_convertvector(variance >= SUPPRESSION_THRESHOLD_UV2, eight_bytes);
            memcpy(active + i * wide + c, &is, sizeof is);
        }
        *(eight *)(void *)(s->mean + c) = mean;
        *(eight *)(void *)(s->variance + c) = variance;
    }
}

static int count_active(const uint8_t *active, int wide) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t n = 0, bits;
    for (int c = 0; c < wide; c += WIDE) {
        memcpy(&bits, active + c, sizeof bits);
        n += (bits & ones) * ones >> 56;
    }
    return (int)n;
}

/* The tracks of the channels take sample t. */
static int push_channels(struct suppression *s, int64_t t, const uint8_t *active, struct err *err) {
    int rc = 0;
    s->calm = true;
    for (int c = 0; !rc && c < s->channels; c++) {
        struct track *k = &s->tracks[c];
        rc = track_push(s, k, t, active[c], err);
        s->calm &= !k->suppressed && !k->awaited && !k->quiet;
    }
    return rc;
}

static int push_row(struct suppression *s, const uint8_t *of_channel, int active, struct err *err) {
    int64_t t = s->now;
    int rc = 0;
    if (t % RATE == 0)
        clear_bins(s, t / RATE, t / RATE + 1);
    s->observed_in[bin_of(t)]++;
    s->totals.observed++;
    if (!s->sink.whole_only && (!s->calm || active < s->channels)) /* else nearly all samples: no track changes */
        rc = push_channels(s, t, of_channel, err);
    if (!rc)
        rc = track_push(s, &s->tracks[s->channels], t, active >= s->agreeing, err);
    s->now = t + 1;
    return !rc && s->now % CHECK == 0 ? add_reports(s, err) : rc;
}

static int push_rows(struct suppression *s, const uint16_t *rows, int stride, int64_t n, struct err *err) {
    const int wide = (s->channels + WIDE - 1) / WIDE * WIDE; /* those behind the channels stay flat */
    const struct half_rows block = {(uint16_t *)(uintptr_t)rows, stride, s->channels, n};
    double x[ROWS * SUPPRESSION_MAX_CHANNELS];
    uint8_t active[ROWS * SUPPRESSION_MAX_CHANNELS];
    int rc = 0;
    half_rows_to_doubles(&block, x);
    follow_signal(s, x, wide, n, active);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = push_row(s, active + i * wide, count_active(active + i * wide, wide), err);
    return rc;
}

int suppression_push(struct suppression *s, const uint16_t *rows, int64_t n, int64_t first, struct err *err) {
    const int stride = s->sink.stride ? s->sink.stride : s->channels;
    int rc = 0;
    if (first < s->now)
        return err_set(err, ERR_INVALID, "burst suppression: samples from %lld on were pushed after those up to %lld",
                       (long long)first, (long long)s->now);
    if (n <= 0)
        return 0;
    if (first > s->now && (rc = stop(s, err)))
        return rc;
    if (!s->running)
        start(s, rows, first);
    for (int64_t i = 0; i < n && !rc; i += ROWS)
        rc = push_rows(s, rows + i * stride, stride, n - i < ROWS ? n - i : ROWS, err);
    return rc;
}

int suppression_finish(struct suppression *s, struct err *err) { return stop(s, err); }

void suppression_totals(const struct suppression *s, struct suppression_totals *ret) { *ret = s->totals; }

/* ---- snapshots -------------------------------------------------------------------------------------------------- */

static void pack_track(const struct suppression *s, struct track *k, struct packer *p) {
    PACKED_MEMBERS(p, *k, suppressed, awaited);
    PACKED(p, k->quiet, 0, SHORTEST - 1);
    PACKED(p, k->since, 0, s->now);
    packed_bytes(p, k->suppressed_in, sizeof k->suppressed_in);
    packed_bytes(p, k->bursts_in, sizeof k->bursts_in);
    packed_require(p, k->since + k->quiet <= s->now && (!k->suppressed || (!k->awaited && !k->quiet)));
    packed_require(p, s->running || (!k->suppressed && !k->awaited && !k->quiet));
    for (int i = 0; i < BINS; i++)
        packed_require(p, k->suppressed_in[i] <= s->observed_in[i] && k->bursts_in[i] <= RATE / SHORTEST);
}

static int pack_ready(struct suppression *s, struct packer *p, struct err *err) {
    int64_t n = s->n_ready;
    PACKED(p, n, 0, (int64_t)(p->from.left / (2 * sizeof(int64_t))));
    int rc = p->from.failed ? 0 : reserve_ready(s, n, err);
    if (rc)
        return rc;
    for (s->n_ready = 0; !p->from.failed && s->n_ready < n; s->n_ready++) {
        PACKED(p, s->ready[s->n_ready].sample, 0, s->now);
        PACKED(p, s->ready[s->n_ready].observed, 1, SUPPRESSION_WINDOW_S * RATE);
    }
    if (!p->from.failed)
        packed_bytes(p, s->values, (size_t)n * tracks_of(s) * 2 * sizeof *s->values);
    return 0;
}

int suppression_pack(struct suppression *s, struct packer *p, struct err *err) {
    packed_same(p, s->channels);
    PACKED_MEMBERS(p, *s, running);
    PACKED_COUNTS(p, *s, now, next);
    PACKED(p, s->totals.observed, 0, s->now);
    PACKED(p, s->totals.suppressed, 0, s->totals.observed);
    PACKED(p, s->totals.bursts, 0, s->totals.observed);
    packed_bytes(p, s->observed_in, sizeof s->observed_in);
    for (int i = 0; i < BINS; i++)
        packed_require(p, s->observed_in[i] <= RATE);
    for (int c = 0; c < s->channels; c++) {
        packed_double(p, &s->mean[c], sizeof *s->mean);
        packed_double(p, &s->variance[c], sizeof *s->variance);
        packed_require(p, isfinite(s->mean[c]) && isfinite(s->variance[c]) && s->variance[c] >= 0);
    }
    s->calm &= p->to != NULL;
    for (int c = 0; c <= s->channels; c++)
        pack_track(s, &s->tracks[c], p);
    packed_require(p, !s->running || (s->next % RATE == 0 && s->next >= s->now - SUPPRESSION_LATEST && s->next <= s->now + RATE));
    return pack_ready(s, p, err);
}
