#include "eeg/feature.h"

#include "base/clones.h"
#include "base/grow.h"
#include "eeg/background.h"
#include "eeg/dsp.h"
#include "eeg/frontend.h"
#include "eeg/half.h"
#include "eeg/half_rows.h"

enum {
    BLOCKS_PER_S = DSP_RATE_HZ / FEATURE_BLOCK,
    MOST_FLAT = 4, /* channels, as detect/contact.h */
    EVENT_BEGINS = 10 * BLOCKS_PER_S,
    EVENT_ENDS = 60 * BLOCKS_PER_S,
    EVENT_HOLDS = 1800 * BLOCKS_PER_S,
    FIRST = FRONTEND_LINE_LENGTH
};

/* What a feature measures of a filtered channel: a whole number of steps per sample, so that running sums are exact. */
static const struct measure {
    double band_hz[2];
    int seconds;           /* of the mean */
    bool square;           /* y² and the root of its mean; false: |y[t] − y[t−1]| */
    double steps_per_unit; /* of µV, or of µV² */
    double prior_uv;       /* of M and b */
    double flat_uv;        /* below it M is no signal */
} measures[] = {
    [FRONTEND_LINE_LENGTH - FIRST] = {{1, 25}, 1, false, 4096, 4, 0.2},
    [FRONTEND_BAND_POWER - FIRST] = {{2.5, 8}, 2, true, 256, 20, 0.4},
};
static const float BESIDE = 0.6F;                                        /* the slopes of the models are 6 and 10 */
static const float EVENT = 0.28F;                                        /* p of ward is 0.41 */
static const double LARGEST_UV = 1 << 17, OFFSET_UV = 0.3, LOUDEST = 25; /* of the prior */
_Static_assert((int)BLOCKS_PER_S == (int)BACKGROUND_BLOCKS_PER_S, "a background takes a value a block");

struct feature {
    const struct measure *measure;
    int channels, lanes, blocks; /* blocks of the mean */
    struct dsp_cascade band;
    double *banded, *before;      /* (DSP_BLOCK, lanes); (lanes) the newest row */
    int64_t *block, *ring, *sum;  /* (lanes) of the present block; (blocks, channels) of those before; (lanes) their sums */
    int64_t at, filled;           /* the oldest block in the ring; samples in the present block */
    struct background background; /* ln(b + OFFSET_UV) */
    bool learns, hears;           /* feature_learn; the newest block was heard */
    int64_t learned;              /* blocks that came while the background was not the person's own */
    int64_t fresh;                /* blocks until the means hold nothing but this segment; of one that learns */
    bool holds;                   /* feature_hold */
    int64_t evidence, calm;       /* blocks in an event, less those out of one; since the newest of them */
    int64_t lasts;                /* blocks that the event lasts; -1: none can begin yet in this segment */
    uint16_t value;
    struct feature *beside;       /* the second of two, whose mean is given; or NULL */
    struct feature_blocks *noted; /* feature_note, in its first segment; or NULL */
    const double *given;          /* feature_give: its next block; or NULL */
};

static int feature_one(int normalize, int channels, struct feature **ret, struct err *err) {
    struct dsp_section sections[3];
    struct feature *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the feature of %d channels", channels);
    size_t n = (size_t)channels;
    f->measure = &measures[normalize - FIRST];
    f->channels = channels;
    f->lanes = dsp_lanes(channels);
    f->blocks = f->measure->seconds * BLOCKS_PER_S;
    f->banded = dsp_rows(DSP_BLOCK, f->lanes);
    f->before = dsp_rows(1, f->lanes);
    f->block = calloc((size_t)f->lanes, sizeof *f->block);
    f->ring = calloc(n * (size_t)f->blocks, sizeof *f->ring);
    f->sum = calloc((size_t)f->lanes, sizeof *f->sum);
    int rc = f->banded && f->before && f->block && f->ring && f->sum
                 ? dsp_bandpass(f->measure->band_hz[0], f->measure->band_hz[1], DSP_RATE_HZ, sections, err)
                 : err_set(err, ERR_EXHAUSTED, "out of memory for the feature of %d channels", channels);
    if (rc || (rc = dsp_cascade_init(&f->band, sections, 3, f->lanes, err))) {
        feature_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

int feature_new(int normalize, int channels, struct feature **ret, struct err *err) {
    struct feature *f = NULL;
    const bool both = normalize == FRONTEND_WARD || normalize == FRONTEND_BASELINES;
    int rc = feature_one(normalize == FRONTEND_BAND_POWER ? FRONTEND_BAND_POWER : FRONTEND_LINE_LENGTH, channels, &f, err);
    if (rc)
        return rc;
    if (both && (rc = feature_one(FRONTEND_BAND_POWER, channels, &f->beside, err))) {
        feature_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

void feature_free(struct feature *f) {
    if (!f)
        return;
    feature_free(f->beside);
    dsp_cascade_done(&f->band);
    FREE_MEMBERS(*f, banded, before, block, ring, sum);
    free(f);
}

void feature_learn(struct feature *f) {
    f->learns = f->background.learns = true;
    if (f->beside)
        feature_learn(f->beside);
}

void feature_hold(struct feature *f) { f->holds = true; }

void feature_note(struct feature *f, struct feature_blocks to[FEATURE_MEASURES]) {
    f->noted = f->learns ? &to[f->measure - measures] : NULL;
    if (f->beside)
        feature_note(f->beside, to);
}

void feature_give(struct feature *f, const double *m) { f->given = m; }

int feature_learning_s(const struct feature *f) {
    const int own = background_left_s(&f->background), other = f->beside ? feature_learning_s(f->beside) : 0;
    return own > other ? own : other;
}

double feature_learned_s(const struct feature *f) {
    const double own = (double)f->learned / BLOCKS_PER_S, other = f->beside ? feature_learned_s(f->beside) : 0;
    return own > other ? own : other;
}

bool feature_hears(const struct feature *f) { return !f->learns || f->hears; }

int64_t feature_ahead(const struct feature *f) { return FEATURE_BLOCK - f->filled; }

static void unpack_rows(const struct feature *f, const uint16_t *rows, int stride, int64_t n) {
    half_rows_to_doubles(&(struct half_rows){(uint16_t *)(uintptr_t)rows, stride, f->channels, n}, f->banded);
}

/* The segment's first row; the background is there. */
static void begin_segment(struct feature *f, const uint16_t *row) {
    const double b = f->learns ? fmax(exp(f->background.level) - OFFSET_UV, 0) : f->measure->prior_uv;
    const int64_t steps = FEATURE_BLOCK * (int64_t)((f->measure->square ? b * b : b) * f->measure->steps_per_unit);
    unpack_rows(f, row, f->channels, 1);
    dsp_cascade_settle(&f->band, f->banded);
    for (int i = 0; i < f->blocks * f->channels; i++)
        f->ring[i] = steps;
    for (int c = 0; c < f->channels; c++) {
        f->before[c] = 0; /* what the band-pass gives for a constant */
        f->block[c] = 0;
        f->sum[c] = f->blocks * steps;
    }
    f->at = f->filled = f->evidence = f->calm = 0;
    f->lasts = -1;
    f->background.holds = false;
    f->fresh = f->blocks;
    f->hears = false;
    f->value = half_from_f32(0);
    f->given = NULL;
    f->noted = f->noted && !f->noted->begun ? f->noted : NULL;
    if (f->noted)
        f->noted->begun = true;
}

static void start_background(struct feature *f) {
    background_start(&f->background, log(f->measure->prior_uv + OFFSET_UV), f->learns);
}

void feature_start(struct feature *f, const uint16_t *row) {
    start_background(f);
    begin_segment(f, row);
    if (f->beside)
        feature_start(f->beside, row);
}

void feature_resume(struct feature *f, const uint16_t *row, double gap_s) {
    background_resume(&f->background, gap_s);
    begin_segment(f, row);
    if (f->beside)
        feature_resume(f->beside, row, gap_s);
}

/* Adds a banded row to the present block; square: y², else |y − before|. Rounds to whole numbers as llrint does, several at once:
 * they are the low bits of their sum with 1.5 · 2⁵². */
__attribute__((always_inline)) static inline void count_row(const double *restrict y, const double *restrict before, double steps,
                                                            bool square, int n, int64_t *restrict block) {
    const double magic = 0x1.8p52;
    int64_t base;
    memcpy(&base, &magic, sizeof base);
#pragma omp simd
    for (int c = 0; c < n; c++) {
        double v = fabs(square ? y[c] : y[c] - before[c]);
        v = v < LARGEST_UV ? v : LARGEST_UV; /* also in place of NaN, as fmin does */
        const double rounded = (square ? v * v : v) * steps + magic;
        int64_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        block[c] += bits - base;
    }
}

CLONES static void count_rows(const struct feature *f, const double *y, int64_t rows) {
    const struct measure *m = f->measure;
    const double *before = f->before;
    for (int64_t i = 0; i < rows; i++, before = y, y += f->lanes)
        if (m->square)
            count_row(y, before, m->steps_per_unit, true, f->lanes, f->block);
        else
            count_row(y, before, m->steps_per_unit, false, f->lanes, f->block);
}

typedef int64_t eight __attribute__((vector_size(64), aligned(8), may_alias));

/* The sums that stand at three places `at` of all channels in ascending order: each is the largest one that has no more below it.
 */
CLONES static void find_places(const struct feature *f, const int at[3], int64_t ret[3]) {
    eight found[3] = {0};
    for (int c = 0; c < f->channels; c += 8) {
        const eight sums = *(const eight *)(const void *)(f->sum + c);
        eight below = {0};
        for (int d = 0; d < f->channels; d++)
            below -= f->sum[d] < sums;
        for (int k = 0; k < 3; k++) {
            const eight may = sums & (below <= at[k]), more = may > found[k];
            found[k] = (may & more) | (found[k] & ~more);
        }
    }
    for (int k = 0; k < 3; k++)
        for (int c = ret[k] = 0; c < 8; c++)
            ret[k] = found[k][c] > ret[k] ? found[k][c] : ret[k];
}

/* The median of m over the channels; *ret_hears: whether it says something of a person. */
static double median(const struct feature *f, bool *ret_hears) {
    const struct measure *measure = f->measure;
    const double flat = measure->flat_uv, of_channel = flat / 4;
    const double samples = (double)f->blocks * FEATURE_BLOCK * measure->steps_per_unit;
    const int n = f->channels, middle = (n - 1) / 2, few = n < 2 * MOST_FLAT ? middle : MOST_FLAT - 1;
    int64_t sums[3];
    double means[3]; /* of the lower and the upper channel in the middle, and of one of few */
    find_places(f, (int[]){middle, n / 2, few}, sums);
    for (int k = 0; k < 3; k++) {
        means[k] = (double)sums[k] / samples;
        if (measure->square && (k < 2 || few == middle))
            means[k] = sqrt(means[k]);
    }
    const double m = (means[0] + means[1]) / 2;
    *ret_hears = !f->fresh && m >= flat && m <= LOUDEST * measure->prior_uv &&
                 means[2] >= (measure->square && few < middle ? of_channel * of_channel : of_channel);
    return m;
}

/* The newest block measured m. */
static void take_block(struct feature *f, double m, bool heard) {
    const double now = log(m + OFFSET_UV);
    f->filled = 0;
    f->hears = heard;
    f->learned += background_left_s(&f->background) > 0;
    if (feature_hears(f))
        background_hear(&f->background, now);
    f->value = half_from_f32((float)(now - f->background.level));
}

static void note_block(struct feature_blocks *to, double m) {
    if (to->failed || !GROW(to->m, to->n, to->capacity))
        to->failed = true;
    else
        to->m[to->n++] = m;
}

static void measure_block(struct feature *f) {
    int64_t *oldest = f->ring + f->at * f->channels;
    for (int c = 0; c < f->channels; c++) {
        f->sum[c] += f->block[c] - oldest[c];
        oldest[c] = f->block[c];
        f->block[c] = 0;
    }
    f->at = (f->at + 1) % f->blocks;
    f->fresh -= f->fresh > 0;
    bool heard;
    const double m = median(f, &heard);
    if (f->noted)
        note_block(f->noted, heard ? m : -m);
    take_block(f, m, heard);
}

static void end_block(struct feature *f) {
    if (!f->given) {
        measure_block(f);
        return;
    }
    take_block(f, fabs(*f->given), !signbit(*f->given));
    f->given++;
}

/* Of rows whose channels are in f->banded, unless what they measure is given. */
static void run_block(struct feature *f, const struct feature_rows *in, const struct feature_output *out) {
    if (!f->given)
        dsp_cascade_run(&f->band, f->banded, in->n);
    for (int64_t i = 0, n; i < in->n; i += n) {
        const double *y = f->banded + i * f->lanes;
        uint16_t *to = out->to + i * out->stride;
        const int64_t left = in->n - i, most = in->held ? left : feature_ahead(f);
        n = left < most ? left : most;
        if (!in->held && !f->given)
            count_rows(f, y, n);
        memcpy(f->before, y + (n - 1) * f->lanes, (size_t)f->lanes * sizeof *y);
        for (int64_t k = 0; k < n - 1; k++)
            to[k * out->stride] = f->value;
        f->filled += in->held ? 0 : n;
        if (f->filled == FEATURE_BLOCK)
            end_block(f);
        to[(n - 1) * out->stride] = f->value;
    }
}

/* The mean of what out holds and of the feature beside. */
static void join_block(struct feature *beside, const struct feature_rows *in, const struct feature_output *out) {
    uint16_t other[DSP_BLOCK];
    run_block(beside, in, &(struct feature_output){other, 1});
    uint16_t own = 0, mean = 0;
    for (int64_t i = 0; i < in->n; i++) {
        uint16_t *to = out->to + i * out->stride;
        if (!i || *to != own || other[i] != other[i - 1])
            mean = half_from_f32((half_to_f32(*to) + BESIDE * half_to_f32(other[i])) / 2);
        own = *to;
        *to = mean;
    }
}

static void hold_backgrounds(struct feature *f) {
    f->background.holds = f->beside->background.holds = f->lasts > 0 && f->lasts <= EVENT_HOLDS;
}

/* A block of both has given this value. */
static void follow_event(struct feature *f, float value) {
    const bool in_event = value >= EVENT;
    f->evidence += in_event ? f->evidence < EVENT_BEGINS : -(f->evidence > 0);
    f->calm = in_event ? 0 : f->calm + 1;
    if (f->lasts < 0)
        f->lasts = f->evidence || background_left_s(&f->background) ? -1 : 0;
    else
        f->lasts = (f->lasts ? f->calm < EVENT_ENDS : f->evidence == EVENT_BEGINS) ? f->lasts + 1 : 0;
    hold_backgrounds(f);
}

void feature_run(struct feature *f, struct feature_rows in, struct feature_output out) {
    for (int64_t left = in.n; left > 0; left -= in.n) {
        const int64_t most =
            f->holds && !in.held ? feature_ahead(f) : DSP_BLOCK; /* what one block does, the next one of both sees */
        in.n = left < most ? left : most;
        if (!f->given)
            unpack_rows(f, in.rows, in.stride, in.n);
        if (f->beside)
            memcpy(f->beside->banded, f->banded, sizeof *f->banded * (size_t)(in.n * f->lanes));
        run_block(f, &in, &out);
        if (f->beside)
            join_block(f->beside, &in, &out);
        if (f->holds && !in.held && !f->filled)
            follow_event(f, half_to_f32(out.to[(in.n - 1) * out.stride]));
        in.rows += in.n * in.stride;
        out.to += in.n * out.stride;
    }
}

void feature_pack_background(struct feature *f, struct packer *p) {
    if (!p->to)
        start_background(f);
    PACKED_MEMBERS(p, f->background, level);
    packed_require(p, isfinite(f->background.level));
    if (f->beside)
        feature_pack_background(f->beside, p);
}

/* What blocks can hold, so that no sum overflows. */
static bool within(const int64_t *steps, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (steps[i] < 0 || steps[i] > INT64_C(1) << 46)
            return false;
    return true;
}

/* What follows from the state that was read. */
static void check_loaded(struct feature *f, struct packer *p) {
    const size_t n = (size_t)f->channels, ring = (size_t)f->blocks * n;
    memset(f->sum, 0, n * sizeof *f->sum);
    packed_require(p, within(f->block, n) && within(f->ring, ring));
    for (size_t i = 0; !p->from.failed && i < ring; i++)
        f->sum[i % n] += f->ring[i];
}

void feature_pack(struct feature *f, struct packer *p) {
    const size_t n = (size_t)f->channels;
    if (!p->to) {
        start_background(f);
        f->learned = f->fresh = f->evidence = f->calm = 0;
        f->hears = false;
        f->lasts = -1;
    }
    dsp_cascade_pack(&f->band, p);
    packed_bytes(p, f->before, n * sizeof *f->before);
    packed_bytes(p, f->block, n * sizeof *f->block);
    packed_bytes(p, f->ring, (size_t)f->blocks * n * sizeof *f->ring);
    PACKED(p, f->at, 0, f->blocks - 1);
    PACKED(p, f->filled, 0, FEATURE_BLOCK - 1);
    background_pack(&f->background, p);
    if (f->learns) {
        PACKED_COUNTS(p, *f, learned);
        PACKED(p, f->fresh, 0, f->blocks);
        PACKED_MEMBERS(p, *f, hears);
    }
    if (f->holds) {
        PACKED(p, f->evidence, 0, EVENT_BEGINS);
        PACKED_COUNTS(p, *f, calm);
        PACKED(p, f->lasts, -1, PACKED_FAR);
    }
    PACKED(p, f->value, 0, UINT16_MAX);
    if (!p->to)
        check_loaded(f, p);
    if (f->beside && !p->from.failed)
        feature_pack(f->beside, p);
    if (f->holds && !p->to)
        hold_backgrounds(f);
}
