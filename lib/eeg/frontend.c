#include "eeg/frontend.h"

#include "base/clones.h"
#include "base/grow.h"
#include "eeg/background.h"
#include "eeg/dsp.h"
#include "eeg/feature.h"
#include "eeg/half_rows.h"
#include "eeg/history.h"
#include "eeg/montage.h"
#include "eeg/quality.h"

#define NOBODY (-(INT64_C(1) << 60)) /* frontend.ended */
enum { FOUR = 4 };                   /* channels that are mixed before they become values of rows */
static const double NOTCH_Q = 30, CLAMP_UV = 60000, LONGEST_GAP_S = 1e6;
static const float FLAT_UV = 0.5F;

/* Sums over a loop's residual and its channels, for the check of the double banana. */
struct loop_sums {
    double residual, residual_square;
    double channel[MONTAGE_LOOP_EDGES], channel_square[MONTAGE_LOOP_EDGES];
};

/* Filtered rows on their way to the sink, the first at output index `first`. */
struct block {
    uint16_t *halves; /* (DSP_BLOCK, columns) */
    uint8_t *marks;   /* (DSP_BLOCK) */
    /* What the columns are made of: the filtered rows and the channels of halves, or both against the average. */
    double *measured;          /* (DSP_BLOCK, lanes); NULL where only the halves count */
    uint16_t *measured_halves; /* rows of measured_stride values */
    int64_t n, first;
    bool starts; /* a segment */
};

/* Blocks in order; those behind n are kept for later. */
struct frontend_part {
    struct block *blocks;
    int n, made, capacity;
};

struct frontend {
    struct montage *montage;
    struct resampler *resampler;
    struct dsp_cascade cascade;
    struct history *history; /* NULL: none of its columns are wanted */
    struct feature *feature; /* NULL: its column is not wanted */
    bool learn_background;
    int64_t ended; /* output index behind the newest row, below 0 where another recording had it; NOBODY: there was none */
    frontend_sink_fn *sink;
    void *ctx;
    frontend_look_fn *look; /* NULL: nobody looks */
    void *look_ctx;
    double rate_hz;
    int channels, columns, lanes;
    int64_t fill_gap; /* longest gap to hold over, in source samples */
    int64_t position; /* source samples since file time 0, gaps included */
    int64_t missing;  /* gap reported since the last sample */
    bool in_segment;  /* source samples were pushed since the last segment end */
    bool announced;   /* the segment's first output went out */
    int failed;       /* the sink's or a push's error: nothing more is accepted */
    double *mixed;    /* (DSP_BLOCK, lanes) the newest row over a gap */
    double *planar;   /* (FOUR, DSP_BLOCK) output channels while mixing */
    double *last;     /* (lanes) newest mixed row */
    double *filtered; /* (DSP_BLOCK, lanes); NULL: they are in the block */
    bool average;     /* the reference of what the columns are made of */
    int measured_stride;
    struct frontend_part own, *part; /* part: where filtered rows wait; own: they do not */
    struct loop_sums loops[2];
    double loop_samples[2]; /* in which none of its channels was flat */
};

static const char *const normalize_names[] = {
#define NAME(id, name) name,
    FRONTEND_NORMALIZE_ROWS(NAME)
#undef NAME
};
static const char *const reference_names[] = {[FRONTEND_REFERENCE_RECORDED] = "recorded", [FRONTEND_REFERENCE_AVERAGE] = "average"};

bool frontend_is_feature(int normalize) { return normalize >= FRONTEND_LINE_LENGTH; }

bool frontend_has_baseline(int normalize) { return normalize == FRONTEND_BASELINE || normalize == FRONTEND_BASELINES; }

int frontend_feature(int normalize) {
    if (frontend_has_baseline(normalize))
        return normalize == FRONTEND_BASELINE ? FRONTEND_LINE_LENGTH : FRONTEND_WARD;
    return frontend_is_feature(normalize) ? normalize : -1;
}

int frontend_rows(int normalize) {
    if (frontend_is_feature(normalize))
        return 0;
    return normalize == FRONTEND_WINDOW || normalize == FRONTEND_CAUSAL ? 1 : 2;
}

int frontend_inputs(int normalize, int channels) {
    bool in_all = frontend_is_feature(normalize) || frontend_has_baseline(normalize);
    return frontend_rows(normalize) * channels + in_all;
}

int frontend_columns(int normalize, int channels) {
    return normalize == FRONTEND_WINDOW ? channels : channels + frontend_inputs(normalize, channels);
}

const char *frontend_normalize_name(int normalize) { return normalize_names[normalize]; }

int frontend_normalize_from_name(const char *name) { return STR_AMONG(name, normalize_names); }

const char *frontend_reference_name(int reference) { return reference_names[reference]; }

int frontend_reference_from_name(const char *name) { return STR_AMONG(name, reference_names); }

/* Differences of electrodes have no common reference, and z-scored windows are cut from the channels themselves. */
static int check_reference(const struct frontend_config *c, struct err *err) {
    if (c->reference == FRONTEND_REFERENCE_RECORDED)
        return 0;
    if (c->normalize == FRONTEND_WINDOW || frontend_is_feature(c->normalize))
        return err_set(err, ERR_INVALID, "reference average needs normalize causal, envelope, baseline or baselines; it is %s",
                       frontend_normalize_name(c->normalize));
    const char *const *names = NULL;
    int n = 0, rc = montage_channels(c->montage, &names, &n, err);
    for (int i = 0; i < n && !rc; i++)
        if (strchr(names[i], '-'))
            rc = err_set(err, ERR_INVALID,
                         "reference average needs a montage of electrodes, such as referential-19; %.60s has the difference %s",
                         c->montage, names[i]);
    montage_channels_free(names);
    return rc;
}

static int check_config(const struct frontend_config *c, struct err *err) {
    if (!c->montage)
        return err_set(err, ERR_INVALID, "no montage given; expected referential-19, bipolar-18 or custom:LABEL,…");
    if (!(c->fill_gap_s >= 0) || !(c->fill_gap_s <= 60))
        return err_set(err, ERR_INVALID, "fill_gap_s is %g; expected 0 to 60 seconds", c->fill_gap_s);
    if (c->notch_hz != 0 && c->notch_hz != 50 && c->notch_hz != 60 && c->notch_hz != FRONTEND_BOTH_NOTCHES)
        return err_set(err, ERR_INVALID, "notch_hz is %g; expected 0, 50, 60 or both", c->notch_hz);
    return check_reference(c, err);
}

static int design(const struct frontend_config *config, struct dsp_section sections[DSP_MAX_SECTIONS], int *ret_n,
                  struct err *err) {
    int rc = dsp_bandpass(config->bandpass_hz[0], config->bandpass_hz[1], FRONTEND_RATE_HZ, sections, err);
    *ret_n = 3;
    bool both = config->notch_hz == FRONTEND_BOTH_NOTCHES;
    const double notches[] = {both ? 50 : config->notch_hz, both ? 60 : 0};
    for (int i = 0; i < 2 && !rc; i++)
        if (notches[i] > 0)
            rc = dsp_notch(notches[i], NOTCH_Q, FRONTEND_RATE_HZ, &sections[(*ret_n)++], err);
    return rc;
}

int frontend_check(const struct frontend_config *config, struct err *err) {
    struct dsp_section sections[DSP_MAX_SECTIONS];
    int n, rc = check_config(config, err);
    return rc ? rc : design(config, sections, &n, err);
}

int64_t frontend_fill_gap(const struct frontend_config *config, double rate_hz) {
    return (int64_t)floor(config->fill_gap_s * rate_hz + 1e-9);
}

static int make_filters(struct frontend *f, const struct frontend_config *config, struct err *err) {
    struct dsp_section sections[DSP_MAX_SECTIONS];
    int n, rc = design(config, sections, &n, err);
    return rc ? rc : dsp_cascade_init(&f->cascade, sections, n, f->lanes, err);
}

/* The columns are made of the filtered rows, which wait with the block. */
static bool in_block(const struct frontend *f) { return f->history && !f->average; }

static void block_done(const struct frontend *f, struct block *b) {
    if (f->average)
        free(b->measured_halves);
    FREE_MEMBERS(*b, halves, marks, measured);
}

static bool make_block(const struct frontend *f, struct block *b) {
    *b = (struct block){.marks = calloc(DSP_BLOCK, 1), .halves = calloc((size_t)DSP_BLOCK * (size_t)f->columns, sizeof *b->halves)};
    b->measured = f->history ? dsp_rows(DSP_BLOCK, f->lanes) : NULL;
    b->measured_halves = f->average ? calloc((size_t)DSP_BLOCK * (size_t)f->channels, sizeof *b->measured_halves) : b->halves;
    return b->marks && b->halves && b->measured_halves && (b->measured || !f->history);
}

/* The next block of a part; NULL: out of memory. */
static struct block *next_block(const struct frontend *f, struct frontend_part *part) {
    if (part->n < part->made)
        return &part->blocks[part->n];
    if (!GROW(part->blocks, part->made, part->capacity))
        return NULL;
    struct block *b = &part->blocks[part->made];
    if (make_block(f, b)) {
        part->made++;
        return b;
    }
    block_done(f, b);
    return NULL;
}

static void part_done(const struct frontend *f, struct frontend_part *part) {
    for (int i = 0; i < part->made; i++)
        block_done(f, &part->blocks[i]);
    free(part->blocks);
}

struct frontend_part *frontend_part_new(void) {
    return calloc(1, sizeof(struct frontend_part));
}

void frontend_part_free(const struct frontend *f, struct frontend_part *part) {
    if (part)
        part_done(f, part);
    free(part);
}

static int make_buffers(struct frontend *f, struct err *err) {
    f->mixed = dsp_rows(DSP_BLOCK, f->lanes);
    f->filtered = in_block(f) ? NULL : dsp_rows(DSP_BLOCK, f->lanes);
    f->last = dsp_rows(1, f->lanes);
    f->planar = dsp_rows(FOUR, DSP_BLOCK);
    f->own = (struct frontend_part){.blocks = calloc(1, sizeof *f->own.blocks), .capacity = 1};
    f->part = &f->own;
    if (!f->mixed || (!f->filtered && !in_block(f)) || !f->last || !f->planar || !f->own.blocks || !next_block(f, f->part))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a frontend of %d channels", f->channels);
    return 0;
}

/* What gives the columns behind the channels. */
static int make_columns(struct frontend *f, const struct frontend_config *config, struct err *err) {
    int normalize = config->normalize, rc = 0;
    if (normalize == FRONTEND_WINDOW)
        return 0;
    f->learn_background = config->learn_background;
    if (frontend_is_feature(normalize) || frontend_has_baseline(normalize))
        rc = feature_new(normalize, f->channels, &f->feature, err);
    if (f->feature && config->learn_background)
        feature_learn(f->feature);
    if (f->feature && config->hold_background)
        feature_hold(f->feature);
    if (rc || frontend_is_feature(normalize))
        return rc;
    return history_new(f->channels, f->lanes, normalize != FRONTEND_CAUSAL, &f->history, err);
}

int frontend_new(const struct frontend_config *config, const struct frontend_source *source, frontend_sink_fn *sink, void *ctx,
                 struct frontend **ret, struct frontend_report *report, struct err *err) {
    int rc = check_config(config, err);
    if (rc)
        return rc;
    struct frontend *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a frontend");
    if ((rc = montage_new(config->montage, source->labels, source->n_labels, &f->montage, err)))
        goto fail;
    f->channels = f->montage->n_outputs;
    f->columns = frontend_columns(config->normalize, f->channels);
    f->lanes = dsp_lanes(f->channels);
    f->sink = sink;
    f->ctx = ctx;
    f->rate_hz = source->rate_hz;
    f->ended = NOBODY;
    f->average = config->reference == FRONTEND_REFERENCE_AVERAGE;
    f->measured_stride = f->average ? f->channels : f->columns;
    if ((rc = resampler_new(source->rate_hz, f->lanes, &f->resampler, err)) || (rc = make_filters(f, config, err)) ||
        (rc = make_columns(f, config, err)) || (rc = make_buffers(f, err)))
        goto fail;
    f->fill_gap = frontend_fill_gap(config, source->rate_hz);
    if (report) {
        *report = (struct frontend_report){.output_channels = f->channels,
                                           .output_columns = f->columns,
                                           .used_channels = f->montage->n_sources,
                                           .inverse_montage = f->montage->inverse,
                                           .interpolated = f->montage->interpolated};
        str_copy(report->note, sizeof report->note, f->montage->note);
    }
    *ret = f;
    return 0;
fail:
    frontend_free(f);
    return rc;
}

void frontend_free(struct frontend *f) {
    if (!f)
        return;
    montage_free(f->montage);
    resampler_free(f->resampler);
    dsp_cascade_done(&f->cascade);
    history_free(f->history);
    feature_free(f->feature);
    part_done(f, &f->own);
    FREE_MEMBERS(*f, mixed, last, planar, filtered);
    free(f);
}

void frontend_show(struct frontend *f, frontend_look_fn *look, void *ctx) {
    f->look = look;
    f->look_ctx = ctx;
}

void frontend_note(struct frontend *f, struct feature_blocks *to) {
    if (f->feature && !f->average)
        feature_note(f->feature, to);
}

int frontend_learning_s(const struct frontend *f) { return f->feature ? feature_learning_s(f->feature) : 0; }

double frontend_learned_s(const struct frontend *f) { return f->feature ? feature_learned_s(f->feature) : 0; }

int64_t frontend_position(const struct frontend *f) { return f->position + f->missing; }

int frontend_sources(const struct frontend *f, const int **ret_indices) {
    if (ret_indices)
        *ret_indices = f->montage->sources;
    return f->montage->n_sources;
}

uint64_t frontend_rows_of(const struct frontend *f, int source) { return montage_rows_of(f->montage, source); }

/* The filtered rows against the mean of each; the filters are linear, so this is the average reference of what was recorded. */
static void subtract_average(const struct frontend *f, struct block *b) {
    for (int64_t i = 0; i < b->n; i++) {
        const double *from = f->filtered + i * f->lanes;
        double *to = b->measured + i * f->lanes, mean = 0;
        for (int c = 0; c < f->channels; c++)
            mean += from[c] / f->channels;
        for (int c = 0; c < f->channels; c++)
            to[c] = from[c] - mean;
    }
    half_rows_clamped(b->measured, CLAMP_UV, &(struct half_rows){b->measured_halves, f->measured_stride, f->channels, b->n});
}

/* The columns of n rows of equal mark, the first of them at `from` of the block. */
static void run_columns(struct frontend *f, const struct block *b, int64_t from, int64_t n) {
    uint16_t *columns = b->halves + from * f->columns + f->channels;
    bool held = b->marks[from];
    if (f->history && f->feature)
        history_keep(f->history, !feature_hears(f->feature));
    if (f->history)
        history_run(f->history, b->measured + from * f->lanes, n, held, (struct history_output){columns, f->columns});
    if (f->feature)
        feature_run(f->feature, (struct feature_rows){b->measured_halves + from * f->measured_stride, n, f->measured_stride, held},
                    (struct feature_output){f->history ? columns + (f->columns - f->channels) - 1 : columns, f->columns});
}

/* A segment begins with the rows at hand. */
static void start_columns(struct frontend *f, const struct block *b) {
    const bool known = f->learn_background && f->ended != NOBODY;
    const double gap_s = known ? (double)(b->first - f->ended) / FRONTEND_RATE_HZ : 0;
    if (f->history)
        history_start(f->history, b->measured, known ? background_worth_s(gap_s) : 0);
    if (f->feature && known)
        feature_resume(f->feature, b->measured_halves, gap_s);
    else if (f->feature)
        feature_start(f->feature, b->measured_halves);
}

/* Hand filtered rows over in runs of equal mark. */
static int emit(struct frontend *f, const struct block *b, struct err *err) {
    if (b->starts)
        start_columns(f, b);
    f->ended = b->first + b->n;
    for (int64_t from = 0, to; from < b->n; from = to) {
        for (to = from + 1; to < b->n && b->marks[to] == b->marks[from];)
            to++;
        for (int64_t at = from, most; at < to; at += most) { /* the history holds from one change of the feature to the next */
            most = f->history && f->feature && f->learn_background && !b->marks[from] ? feature_ahead(f->feature) : to - at;
            most = most < to - at ? most : to - at;
            run_columns(f, b, at, most);
        }
        int rc =
            f->sink(f->ctx, b->halves + from * f->columns, to - from, b->first + from, b->starts && !from, b->marks[from], err);
        if (rc)
            return rc;
    }
    return 0;
}

void frontend_wait(struct frontend *f, struct frontend_part *part) { f->part = part ? part : &f->own; }

int frontend_give(struct frontend *f, struct frontend_part *part, struct err *err) {
    int rc = 0;
    for (int i = 0; i < part->n && !rc; i++)
        rc = emit(f, &part->blocks[i], err);
    part->n = 0;
    return rc;
}

/* The rows of a block through the filters. */
static void filter(struct frontend *f, struct block *b, double *rows) {
    if (f->look)
        f->look(f->look_ctx, rows, f->lanes, b->n, b->first, b->marks);
    if (b->starts)
        dsp_cascade_settle(&f->cascade, rows);
    dsp_cascade_run(&f->cascade, rows, b->n);
    half_rows_clamped(rows, CLAMP_UV, &(struct half_rows){b->halves, f->columns, f->channels, b->n});
    if (f->average)
        subtract_average(f, b);
}

/* The rows of a block through the filters to the sink, or they wait. */
static int process(struct frontend *f, struct block *b, double *rows, struct err *err) {
    b->starts = !f->announced;
    f->announced = true;
    filter(f, b, rows);
    f->part->n++;
    return f->part == &f->own ? frontend_give(f, f->part, err) : 0;
}

static int no_block(const struct frontend *f, struct err *err) {
    return err_set(err, ERR_EXHAUSTED, "out of memory for a frontend of %d channels", f->channels);
}

/* Everything the resampler has ready. */
static int drain(struct frontend *f, struct err *err) {
    for (;;) {
        struct block *b = next_block(f, f->part);
        if (!b)
            return no_block(f, err);
        double *rows = in_block(f) ? b->measured : f->filtered;
        b->n = resampler_pull(f->resampler, rows, b->marks, DSP_BLOCK, &b->first);
        int rc = b->n ? process(f, b, rows, err) : 0;
        if (rc || !b->n)
            return rc;
    }
}

static int end_segment(struct frontend *f, struct err *err) {
    if (!f->in_segment)
        return 0;
    f->in_segment = false;
    resampler_end(f->resampler);
    return drain(f, err);
}

/* Act on a reported gap, now that a sample follows it. */
static int pass_gap(struct frontend *f, struct err *err) {
    int64_t missing = f->missing;
    int rc = 0;
    f->missing = 0;
    if (f->in_segment && missing > f->fill_gap)
        rc = end_segment(f, err);
    for (int64_t done = 0; f->in_segment && done < missing && !rc;) {
        int64_t n = missing - done < DSP_BLOCK ? missing - done : DSP_BLOCK;
        for (int64_t i = 0; i < n; i++)
            memcpy(f->mixed + i * f->lanes, f->last, sizeof *f->last * (size_t)f->lanes);
        resampler_push(f->resampler, f->mixed, n, true);
        rc = drain(f, err);
        done += n;
    }
    f->position += missing;
    return rc;
}

/* sum + w·x; `first`: of a sum that is 0. */
CLONES static void add_weighted(double *restrict sum, const float *restrict x, double w, int64_t n, bool first) {
    if (first) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] = 0 + w * (double)x[i]; /* never −0 */
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += w * (double)x[i];
}

typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

/* FOUR channels of n values, DSP_BLOCK apart, become values of rows `stride` apart; in whole fours. */
CLONES static void turn(const double *from, int64_t n, double *to, int stride) {
    for (int64_t i = 0; i < n; i += FOUR, from += FOUR, to += (int64_t)FOUR * stride) {
        four in[FOUR], at[FOUR];
        for (int c = 0; c < FOUR; c++)
            memcpy(&in[c], from + (int64_t)c * DSP_BLOCK, sizeof in[c]);
        for (int c = 0; c < FOUR; c += 2) {
            at[c] = __builtin_shufflevector(in[c], in[c + 1], 0, 4, 2, 6);
            at[c + 1] = __builtin_shufflevector(in[c], in[c + 1], 1, 5, 3, 7);
        }
        for (int k = 0; k < 2; k++) {
            *(four *)(void *)(to + k * stride) = __builtin_shufflevector(at[k], at[k + 2], 0, 1, 4, 5);
            *(four *)(void *)(to + (k + 2) * stride) = __builtin_shufflevector(at[k], at[k + 2], 2, 3, 6, 7);
        }
    }
}

/* The least of the absolute values so far and those of x. */
CLONES static void lessen(float *restrict least, const float *restrict x, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = fabsf(x[i]);
        least[i] = v < least[i] ? v : least[i];
    }
}

typedef double edges __attribute__((vector_size(8 * MONTAGE_LOOP_EDGES), aligned(8), may_alias));

/* Adds samples in their order; a flat channel does not show what it is. Returns how many it took. */
CLONES static int64_t add_loop(struct loop_sums *sums, const double *rows, const double *residual, const float *least, int64_t n) {
    edges channel = *(const edges *)(const void *)sums->channel, square = *(const edges *)(const void *)sums->channel_square;
    int64_t taken = 0;
    for (int64_t i = 0; i < n; i++) {
        const edges v = ((const edges *)(const void *)rows)[i];
        if (!(least[i] > FLAT_UV))
            continue;
        taken++;
        channel += v;
        square += v * v;
        sums->residual += residual[i];
        sums->residual_square += residual[i] * residual[i];
    }
    *(edges *)(void *)sums->channel = channel;
    *(edges *)(void *)sums->channel_square = square;
    return taken;
}

static void check_loops(struct frontend *f, const float *const *uv, int64_t from, int64_t n) {
    double rows[DSP_BLOCK * MONTAGE_LOOP_EDGES], residual[DSP_BLOCK];
    float least[DSP_BLOCK];
    for (int l = 0; l < f->montage->n_loops; l++) {
        const struct montage_loop *loop = &f->montage->loops[l];
        for (int64_t i = 0; i < n; i++)
            least[i] = INFINITY;
        for (int k = 0; k < MONTAGE_LOOP_EDGES; k++) {
            const float *x = uv[loop->source[k]] + from;
            lessen(least, x, n);
            add_weighted(residual, x, loop->sign[k], n, !k);
            add_weighted(f->planar + k % FOUR * DSP_BLOCK, x, 1, n, true);
            if (k % FOUR == FOUR - 1)
                turn(f->planar, n, rows + k - k % FOUR, MONTAGE_LOOP_EDGES);
        }
        f->loop_samples[l] += (double)add_loop(&f->loops[l], rows, residual, least, n);
    }
}

/* n ≤ DSP_BLOCK samples from `from` on through the matrix into channel-last rows. */
static int mix(struct frontend *f, const float *const *uv, int64_t from, int64_t n, double *rows, struct err *err) {
    const struct montage *m = f->montage;
    for (int s = 0; s < m->n_sources; s++) {
        if (!quality_finite(uv[s] + from, n))
            return err_set(err, ERR_INVALID, "channel %s of the samples pushed holds NaN or infinity; expected finite µV",
                           m->labels[s]);
    }
    for (int o = 0; o < f->lanes; o++) {
        const double *weights = m->matrix + (int64_t)o * m->n_sources;
        double *sum = f->planar + o % FOUR * DSP_BLOCK;
        bool some = false;
        for (int s = 0; o < m->n_outputs && s < m->n_sources; s++)
            if (weights[s] != 0) {
                add_weighted(sum, uv[s] + from, weights[s], n, !some);
                some = true;
            }
        if (!some)
            memset(sum, 0, sizeof *sum * (size_t)n);
        if (o % FOUR == FOUR - 1)
            turn(f->planar, n, rows + o - o % FOUR, f->lanes);
    }
    return 0;
}

static int push_block(struct frontend *f, const float *const *uv, int64_t from, int64_t n, struct err *err) {
    struct block *b = next_block(f, f->part);
    if (!b)
        return no_block(f, err);
    double *rows = in_block(f) ? b->measured : f->filtered;
    int rc = mix(f, uv, from, n, rows, err);
    if (rc)
        return rc;
    check_loops(f, uv, from, n);
    if (!f->in_segment) {
        resampler_start(f->resampler, f->position);
        f->in_segment = true;
        f->announced = false;
    }
    memcpy(f->last, rows + (n - 1) * f->lanes, sizeof *f->last * (size_t)f->lanes);
    f->position += n;
    if (!resampler_pass(f->resampler, n, &b->first)) {
        resampler_push(f->resampler, rows, n, false);
        return drain(f, err);
    }
    b->n = n;
    memset(b->marks, 0, (size_t)n);
    return process(f, b, rows, err);
}

static int already_failed(const struct frontend *f, struct err *err) {
    return err_set(err, ERR_PRECONDITION, "the frontend stopped after an earlier error (%s)", err_name(f->failed));
}

int frontend_push(struct frontend *f, const float *const *uv, int64_t n, struct err *err) {
    if (f->failed)
        return already_failed(f, err);
    if (n <= 0)
        return 0;
    int rc = f->missing ? pass_gap(f, err) : 0;
    for (int64_t from = 0; from < n && !rc; from += DSP_BLOCK)
        rc = push_block(f, uv, from, n - from < DSP_BLOCK ? n - from : DSP_BLOCK, err);
    f->failed = rc;
    return rc;
}

int frontend_gap(struct frontend *f, int64_t missing, struct err *err) {
    if (f->failed)
        return already_failed(f, err);
    if (missing < 0 || missing > INT64_C(1) << 40)
        return err_set(err, ERR_INVALID, "a gap of %lld samples; expected 0 or more", (long long)missing);
    f->missing += missing;
    return 0;
}

int frontend_finish(struct frontend *f, struct err *err) {
    if (f->failed)
        return already_failed(f, err);
    f->missing = 0;
    int rc = end_segment(f, err);
    f->failed = rc;
    return rc;
}

static double deviation(double sum, double square, double n) {
    double variance = square / n - sum / n * (sum / n);
    return variance > 0 ? sqrt(variance) : 0;
}

/* Rounding to the file's grid leaves a loop a residual of a few µV; a swapped or mislabelled channel one like the signal. */
bool frontend_loops_close(const struct frontend *f, char *note, unsigned long size) {
    static const double FLOOR_UV = 10, SHARE = 0.25;
    str_copy(note, size, "");
    for (int l = 0; l < f->montage->n_loops; l++) {
        const struct loop_sums *sums = &f->loops[l];
        double n = fmax(f->loop_samples[l], 1), signal = 0, residual = deviation(sums->residual, sums->residual_square, n);
        for (int k = 0; k < MONTAGE_LOOP_EDGES; k++)
            signal += deviation(sums->channel[k], sums->channel_square[k], n) / MONTAGE_LOOP_EDGES;
        if (residual <= FLOOR_UV || residual <= SHARE * signal)
            continue;
        str_format(note, size, "mislabelled channels: the loop of the %s does not close (residual %.1f µV, signal %.1f µV)",
                   f->montage->loops[l].name, residual, signal);
        return false;
    }
    return true;
}

static void pack_background(struct frontend *f, struct packer *p) {
    packed_same(p, f->channels);
    packed_same(p, f->columns);
    if (f->history)
        history_pack_means(f->history, p);
    if (f->feature)
        feature_pack_background(f->feature, p);
}

bool frontend_save_background(struct frontend *f, struct packer *p) {
    if (!f->learn_background || f->ended == NOBODY)
        return false;
    pack_background(f, p);
    return true;
}

bool frontend_load_background(struct frontend *f, struct packer *p, double gap_s) {
    packed_require(p, f->learn_background);
    pack_background(f, p);
    f->ended = -(int64_t)(fmin(fmax(gap_s, 0), LONGEST_GAP_S) * FRONTEND_RATE_HZ);
    return !p->from.failed;
}

int frontend_pack(struct frontend *f, struct packer *p, struct err *err) {
    double rate_hz = f->rate_hz;
    int64_t loops = -1; /* an earlier layout has one number for both loops here */
    if (p->to && f->failed)
        return already_failed(f, err);
    packed_same(p, f->channels);
    packed_double(p, &rate_hz, sizeof rate_hz);
    packed_require(p, rate_hz == f->rate_hz);
    PACKED_COUNTS(p, *f, position, missing);
    PACKED_MEMBERS(p, *f, in_segment, announced);
    packed_bytes(p, f->last, sizeof *f->last * (size_t)f->lanes);
    dsp_cascade_pack(&f->cascade, p);
    packed_bytes(p, f->loops, sizeof f->loops);
    PACKED(p, loops, -1, PACKED_FAR);
    if (loops < 0)
        packed_bytes(p, f->loop_samples, sizeof f->loop_samples);
    else
        f->loop_samples[0] = f->loop_samples[1] = (double)loops;
    if (f->learn_background)
        PACKED(p, f->ended, -PACKED_FAR, PACKED_FAR);
    resampler_pack(f->resampler, p);
    if (f->history)
        history_pack(f->history, p);
    if (f->feature)
        feature_pack(f->feature, p);
    f->failed = p->from.failed ? ERR_DATA_LOSS : 0;
    return p->from.failed ? err_set(err, ERR_DATA_LOSS, "the saved state of the filters is corrupt or of another source") : 0;
}
