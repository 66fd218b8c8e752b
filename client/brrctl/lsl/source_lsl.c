#include "client/brrctl/lsl/source_lsl.h"

#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/interrupt.h"
#include "client/brrctl/lsl/lsl_library.h"
#include "client/brrctl/lsl/lsl_timeline.h"
#include "client/brrctl/output.h"

enum { MAX_FOUND = 64, TEXT = 64, SLEEP_MS = 10, MAX_BUFFER_S = 3600, MAX_RATE = 100000 };
static const double OPEN_S = 5, ANSWER_S = 2, CORRECTION_EVERY_S = 5, RETRY_S = 0.5, LAG_S = 1, MOST_LAG_S = 600, CHECKED_S = 1,
                    RATE_TOLERANCE = 0.005;
/* A stream that sends at another rate than it declares shows it in the first seconds; then some more decide at which. */
static const double LOOK_S = 2.5, MEASURE_S = 10, OTHER_RATE = 0.05;
static const double BUFFER_BYTES = 256 << 20, PULLED_BYTES = 16 << 20;

struct source_lsl {
    struct source base;
    struct source_lsl_config config;
    const struct lsl_library *lsl;
    struct eeg_info info;
    struct eeg_signal *signals;
    double declared_hz; /* base.rate_hz is what the stamps say, where that is another rate */
    char (*labels)[TEXT], (*units)[TEXT];
    double *scales; /* of each row, to µV; 0 = no unit is given, NaN = no voltage */
    int *places;    /* the sender's channel of each row, by its label */
    bool *used;     /* rows that the model reads */
    bool changed;   /* the sender came back with another recording */
    char name[256], source_id[256], uid[128];
    lsl_inlet inlet;       /* NULL: lost */
    lsl_resolver resolver; /* looks for a lost stream */
    struct lsl_timeline timeline;
    float *pulled; /* (n_pulled, channels): what the library gave; next: the first that is not handed on */
    double *stamps;
    int64_t n_pulled, next, room; /* room: samples that fit */
    float *held;                  /* (held, channels) as pulled: samples whose place is not decided */
    int64_t n_held, gap_first;    /* gap_first ≥ 0: the held ones begin the next block there */
    float *rows, **uv;            /* (channels)(rows_room): the block */
    int64_t rows_room;
    double correction_s, corrected_at_s, retried_at_s, lag_s, heard_s;
    bool silent_notified, lag_notified;
    char remark[400];
};

/* ---- units ---- */

/* Factor to µV of a unit as senders write it: "microvolts", "uV", "mV", "V", "-6" (a power of ten of volts); else 0. */
static double unit_factor(const char *text) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"uv", 1},     {"\u00b5v", 1},      {"\u03bcv", 1},     {"microvolts", 1}, {"microvolt", 1},
                 {"mv", 1e3},   {"millivolts", 1e3}, {"millivolt", 1e3}, {"v", 1e6},        {"volts", 1e6},
                 {"volt", 1e6}, {"nv", 1e-3},        {"nanovolts", 1e-3}};
    int64_t power;
    if (str_to_i64(*text == '+' ? text + 1 : text, &power)) /* as MNE writes them */
        return power >= -9 && power <= 0 ? pow(10, (double)power + 6) : 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcasecmp(units[i].name, text))
            return units[i].factor;
    return 0;
}

static const char *unit_text(const struct source_lsl *s, int c) { return s->config.unit ? s->config.unit : s->units[c]; }

/* ---- opening ---- */

static bool is_wanted(const struct lsl_library *lsl, lsl_streaminfo info, const char *name) {
    return !strcmp(lsl->get_name(info), name) || !strcmp(lsl->get_source_id(info), name) || !strcmp(lsl->get_uid(info), name);
}

/* The only stream of the name; the caller destroys it. */
static int find_stream(const struct source_lsl *s, lsl_streaminfo *ret, struct err *err) {
    lsl_streaminfo found[MAX_FOUND], wanted = NULL;
    int matches = 0, n = 0;
    for (int second = 0; !matches && second < s->config.wait_s && !interrupt_seen(); second++) {
        n = s->lsl->resolve_all(found, MAX_FOUND, 1);
        for (int i = 0; i < n; i++) {
            /* one that answers on two addresses is found twice */
            bool match = is_wanted(s->lsl, found[i], s->config.name) &&
                         !(wanted && !strcmp(s->lsl->get_uid(found[i]), s->lsl->get_uid(wanted)));
            matches += match;
            if (match && !wanted)
                wanted = found[i];
            else
                s->lsl->destroy_streaminfo(found[i]);
        }
    }
    if (matches == 1) {
        *ret = wanted;
        return 0;
    }
    if (wanted)
        s->lsl->destroy_streaminfo(wanted);
    return matches ? err_set(err, ERR_INVALID, "%d streams are called %s; name one by its source_id or uid (brrctl lsl list)",
                             matches, s->config.name)
                   : err_set(err, ERR_NOT_FOUND, "no stream %s within %g s; `brrctl lsl list` shows those there are",
                             s->config.name, s->config.wait_s);
}

static void lose_inlet(struct source_lsl *s) {
    s->lsl->destroy_inlet(s->inlet);
    s->inlet = NULL;
}

/* An inlet that receives nothing yet; false: there is none. */
static bool make_inlet(struct source_lsl *s, lsl_streaminfo info) {
    double second_bytes = s->base.rate_hz * s->base.n * (double)sizeof(float);
    double buffer_s = fmin(MAX_BUFFER_S, fmax(60, BUFFER_BYTES / second_bytes));
    /* Without recovery: a recovering inlet of a killed sender is silent for ever and reports nothing. */
    s->inlet = s->lsl->create_inlet(info, (int32_t)buffer_s, 0, 0);
    return s->inlet != NULL;
}

/* From now on it receives. On an error there is no inlet any more. */
static int start_inlet(struct source_lsl *s, lsl_streaminfo info, double timeout_s, struct err *err) {
    int32_t code = 0;
    s->lsl->open_stream(s->inlet, timeout_s, &code);
    if (code) {
        lose_inlet(s);
        return err_set(err, ERR_UNAVAILABLE, "the stream %s is announced, but does not answer (code %d)", s->config.name, code);
    }
    str_copy(s->uid, sizeof s->uid, s->lsl->get_uid(info));
    return 0;
}

static int open_inlet(struct source_lsl *s, lsl_streaminfo info, double timeout_s, struct err *err) {
    return make_inlet(s, info) ? start_inlet(s, info, timeout_s, err)
                               : err_set(err, ERR_UNAVAILABLE, "no inlet can be made for the stream %s", s->config.name);
}

/* Labels and units from desc/channels/channel. */
static void read_texts(const struct source_lsl *s, lsl_streaminfo full, char (*labels)[TEXT], char (*units)[TEXT]) {
    const struct lsl_library *lsl = s->lsl;
    lsl_xml channel = lsl->child(lsl->child(lsl->get_desc(full), "channels"), "channel");
    for (int c = 0; c < s->base.n; c++) {
        const char *label = lsl->empty(channel) ? "" : lsl->child_value_n(channel, "label");
        str_copy(units[c], TEXT, lsl->empty(channel) ? "" : lsl->child_value_n(channel, "unit"));
        if (*label)
            str_copy(labels[c], TEXT, label);
        else
            str_format(labels[c], TEXT, "channel %d", c + 1);
        if (!lsl->empty(channel))
            channel = lsl->next_sibling_n(channel, "channel");
    }
}

static double scale_of(const char *unit) {
    const double scale = unit_factor(unit);
    return scale > 0 ? scale : *unit && strcasecmp(unit, "n/a") != 0 && strcasecmp(unit, "unknown") != 0 ? (double)NAN : 0;
}

static void read_channels(struct source_lsl *s, lsl_streaminfo full) {
    read_texts(s, full, s->labels, s->units);
    for (int c = 0; c < s->base.n; c++) {
        s->scales[c] = scale_of(unit_text(s, c));
        s->places[c] = c;
        s->base.labels[c] = s->labels[c];
        s->signals[c] = (struct eeg_signal){.label = s->labels[c],
                                            .unit = s->units[c],
                                            .transducer = "",
                                            .prefilter = "",
                                            .rate_hz = s->base.rate_hz,
                                            .volt = !isnan(s->scales[c]),
                                            .unit_assumed = s->scales[c] == 0,
                                            .usable = true,
                                            .note = ""};
    }
}

static void allocate(struct source_lsl *s) {
    size_t n = (size_t)s->base.n;
    const double most = PULLED_BYTES / ((double)n * sizeof(float));
    s->room = llround(fmax(fmax(2 * s->base.rate_hz, fmin((MEASURE_S + 2) * s->base.rate_hz, most)), 512));
    s->rows_room = 3 * s->room;
    s->signals = needed(calloc(n, sizeof *s->signals));
    s->labels = needed(calloc(n, sizeof *s->labels));
    s->units = needed(calloc(n, sizeof *s->units));
    s->scales = needed(calloc(n, sizeof *s->scales));
    s->places = needed(calloc(n, sizeof *s->places));
    s->used = needed(calloc(n, sizeof *s->used));
    s->stamps = needed(calloc((size_t)s->room, sizeof *s->stamps));
    s->pulled = needed(calloc((size_t)s->room * n, sizeof *s->pulled));
    s->held = needed(calloc((size_t)s->room * n, sizeof *s->held));
    s->rows = needed(calloc((size_t)s->rows_room * n, sizeof *s->rows));
    s->uv = needed(calloc(n, sizeof *s->uv));
    for (size_t c = 0; c < n; c++)
        s->uv[c] = s->rows + c * (size_t)s->rows_room;
}

/* Now as the start of the recording: as Unix time, and in local time as EDF has it. */
static void set_start(struct eeg_start *start, int64_t *ret_ms) {
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    localtime_r(&now.tv_sec, &tm);
    *start = (struct eeg_start){.year = tm.tm_year + 1900,
                                .month = tm.tm_mon + 1,
                                .day = tm.tm_mday,
                                .hour = tm.tm_hour,
                                .minute = tm.tm_min,
                                .second = tm.tm_sec,
                                .subsecond = (double)now.tv_nsec / 1e9,
                                .known = true};
}

static int check_info(struct source_lsl *s, lsl_streaminfo info, struct err *err) {
    s->base.n = s->lsl->get_channel_count(info);
    s->base.rate_hz = s->declared_hz = s->lsl->get_nominal_srate(info);
    if (s->lsl->get_channel_format(info) == LSL_STRING || !(s->base.rate_hz > 0) || s->base.rate_hz > MAX_RATE)
        return err_set(err, ERR_INVALID, "the stream %s has %s; expected numbers at a fixed rate", s->config.name,
                       s->lsl->get_channel_format(info) == LSL_STRING ? "texts" : "no usable rate");
    if (s->base.n < 1 || s->base.n > FRONTEND_MAX_LABELS)
        return err_set(err, ERR_INVALID, "the stream %s has %d channels; expected 1 to %d", s->config.name, s->base.n,
                       FRONTEND_MAX_LABELS);
    str_copy(s->name, sizeof s->name, s->lsl->get_name(info));
    str_copy(s->source_id, sizeof s->source_id, s->lsl->get_source_id(info));
    return 0;
}

static int open_stream(struct source_lsl *s, lsl_streaminfo info, struct err *err) {
    int32_t code = 0;
    int rc;
    if ((rc = check_info(s, info, err)))
        return rc;
    allocate(s);
    if ((rc = open_inlet(s, info, OPEN_S, err)))
        return rc;
    lsl_streaminfo full = s->lsl->get_fullinfo(s->inlet, OPEN_S, &code);
    if (!full || code)
        return err_set(err, ERR_UNAVAILABLE, "the stream %s did not describe itself within %g s", s->config.name, OPEN_S);
    read_channels(s, full);
    s->lsl->destroy_streaminfo(full);
    double correction_s = s->lsl->time_correction(s->inlet, OPEN_S, &code);
    s->correction_s = code ? 0 : correction_s;
    s->heard_s = s->corrected_at_s = s->lsl->local_clock();
    s->info = (struct eeg_info){.plus = true, .patient = "", .recording = "", .n_signals = s->base.n, .signals = s->signals};
    set_start(&s->info.start, &s->base.start_ms);
    return 0;
}

/* ---- samples ---- */

__attribute__((format(printf, 1, 2))) static void tell(const char *fmt, ...) {
    char text[256];
    STR_ARGUMENTS(text, fmt);
    output_clear();
    fprintf(stderr, "brrctl: %s\n", text);
}

static int pull(struct source_lsl *s, struct err *err) {
    int32_t code = 0;
    unsigned long n = (unsigned long)(s->room - s->n_pulled), at = (unsigned long)(s->n_pulled * s->base.n);
    if (!s->inlet)
        return 0;
    unsigned long got =
        s->lsl->pull_chunk_f(s->inlet, s->pulled + at, s->stamps + s->n_pulled, n * (unsigned long)s->base.n, n, 0, &code);
    if (code == LSL_LOST)
        lose_inlet(s);
    else if (code && code != LSL_TIMED_OUT)
        return err_set(err, ERR_UNAVAILABLE, "the stream %s: liblsl error %d", s->name, code);
    s->n_pulled += (int64_t)(got / (unsigned long)s->base.n);
    return 0;
}

/* Pulls for so long; the samples stay the first ones. */
static int pull_for(struct source_lsl *s, double seconds, struct err *err) {
    const double until_s = s->lsl->local_clock() + seconds;
    while (s->n_pulled < s->room && s->lsl->local_clock() < until_s && !interrupt_seen()) {
        int rc = pull(s, err);
        if (rc)
            return rc;
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_MS * 1000000L}, NULL);
    }
    return 0;
}

/* The rate that the stamps say is used where it is another one than the stream declares: taken as declared, half the samples would
 * be gaps, or the EEG would run too fast. */
static int check_rate(struct source_lsl *s, struct err *err) {
    int rc = pull_for(s, LOOK_S, err);
    double rate_hz = lsl_timeline_measure(s->stamps, s->n_pulled, s->declared_hz);
    if (rc)
        return rc;
    if (fabs(rate_hz / s->declared_hz - 1) > OTHER_RATE) { /* false for NaN */
        if ((rc = pull_for(s, MEASURE_S - LOOK_S, err)))
            return rc;
        rate_hz = lsl_timeline_measure(s->stamps, s->n_pulled, s->declared_hz);
    }
    if (fabs(rate_hz / s->declared_hz - 1) > OTHER_RATE && rate_hz >= 1 && rate_hz <= MAX_RATE) {
        tell("the stream %s declares %g Hz, its time stamps say %.4g Hz: it is read as %.4g Hz", s->name, s->declared_hz, rate_hz,
             rate_hz);
        s->base.rate_hz = rate_hz;
        for (int c = 0; c < s->base.n; c++)
            s->signals[c].rate_hz = rate_hz;
    }
    lsl_timeline_init(&s->timeline, s->base.rate_hz);
    return 0;
}

/* Another sender has the name: is it the same recording, with a channel for each row by its label? It may have other units. */
static bool map_channels(struct source_lsl *s, char (*labels)[TEXT], char (*units)[TEXT]) {
    bool taken[FRONTEND_MAX_LABELS] = {false};
    int places[FRONTEND_MAX_LABELS];
    double scales[FRONTEND_MAX_LABELS];
    for (int c = 0; c < s->base.n; c++) {
        int k = 0;
        while (k < s->base.n && (taken[k] || strcmp(labels[k], s->labels[c]) != 0))
            k++;
        if (k == s->base.n)
            return false;
        taken[places[c] = k] = true;
        scales[c] = scale_of(s->config.unit ? s->config.unit : units[k]);
        scales[c] = scales[c] == 0 ? s->scales[c] : scales[c]; /* it does not say: as before */
        if (isnan(scales[c]) && s->used[c])
            return false;
    }
    memcpy(s->places, places, (size_t)s->base.n * sizeof *places);
    memcpy(s->scales, scales, (size_t)s->base.n * sizeof *scales);
    return true;
}

/* True if the sender announces the channels of our rows. *ret_silent: it does not answer. */
static bool has_our_rows(struct source_lsl *s, bool *ret_silent) {
    char(*labels)[TEXT] = calloc((size_t)s->base.n, sizeof *labels), (*units)[TEXT] = calloc((size_t)s->base.n, sizeof *units);
    int32_t code = 0;
    lsl_streaminfo full = labels && units ? s->lsl->get_fullinfo(s->inlet, ANSWER_S, &code) : NULL;
    *ret_silent = !full || code;
    if (!*ret_silent)
        read_texts(s, full, labels, units);
    const bool same = !*ret_silent && map_channels(s, labels, units);
    if (full)
        s->lsl->destroy_streaminfo(full);
    free(labels);
    free(units);
    return same;
}

/* The sender is back as this stream, which is asked what it is before it sends. A sender that does not say it is looked for again.
 */
static void take_back(struct source_lsl *s, lsl_streaminfo info) {
    bool silent = false;
    s->changed = s->lsl->get_channel_count(info) != s->base.n || s->lsl->get_nominal_srate(info) != s->declared_hz;
    if (!s->changed && make_inlet(s, info)) {
        const bool same = has_our_rows(s, &silent);
        s->changed = !same && !silent;
        if (!same)
            lose_inlet(s);
        else if (!start_inlet(s, info, 1, NULL))
            s->corrected_at_s = 0;
    }
    if (s->changed)
        tell("the stream %s is back with other channels or another rate: this recording ends", s->name);
    else if (s->inlet)
        tell("the stream %s is back", s->name);
}

/* Looks for a stream that was lost, or that is another one than ours by now. Samples that wait for their place are of the old one.
 */
static void find_again(struct source_lsl *s, double now_s) {
    lsl_streaminfo found[MAX_FOUND];
    if (now_s - s->retried_at_s < RETRY_S || s->n_held || s->changed)
        return;
    s->retried_at_s = now_s;
    if (!s->resolver) {
        bool id = *s->source_id != '\0';
        s->resolver = s->lsl->create_continuous_resolver_byprop(id ? "source_id" : "name", id ? s->source_id : s->name, 3);
        return;
    }
    int n = s->lsl->resolver_results(s->resolver, found, MAX_FOUND);
    bool back = false;
    for (int i = 0; i < n; i++) {
        bool ours = !back && !strcmp(s->lsl->get_name(found[i]), s->name) && strcmp(s->lsl->get_uid(found[i]), s->uid) != 0;
        if (ours && s->inlet)
            lose_inlet(s);
        if (ours)
            take_back(s, found[i]);
        back |= ours && (s->inlet || s->changed);
        s->lsl->destroy_streaminfo(found[i]);
    }
}

/* Follows the offset between the sender's clock and ours. A step of it is the clock's, not the signal's. */
static void follow_clock(struct source_lsl *s, double now_s) {
    int32_t code = 0;
    if (!s->inlet || now_s - s->corrected_at_s < CORRECTION_EVERY_S)
        return;
    double correction_s = s->lsl->time_correction(s->inlet, s->corrected_at_s > 0 ? 0.001 : 1, &code);
    s->corrected_at_s = now_s;
    if (code)
        return;
    if (fabs(correction_s - s->correction_s) > 0.25)
        lsl_timeline_shift(&s->timeline, correction_s - s->correction_s);
    s->correction_s = correction_s;
}

static void note_lag(struct source_lsl *s, double lag_s) {
    if (lag_s > MOST_LAG_S) /* another clock */
        return;
    s->lag_s = fmax(s->lag_s, lag_s);
    if (lag_s <= LAG_S || s->lag_notified)
        return;
    s->lag_notified = true;
    tell("the samples of %s arrive %.1f s late", s->name, lag_s);
}

static void append(struct source_lsl *s, struct source_block *block, const float *sample) {
    for (int c = 0; c < s->base.n; c++)
        s->uv[c][block->n] = s->scales[c] == 1 ? sample[s->places[c]] : (float)((double)sample[s->places[c]] * s->scales[c]);
    block->n++;
}

static void append_held(struct source_lsl *s, struct source_block *block) {
    for (int64_t i = 0; i < s->n_held; i++)
        append(s, block, s->held + i * s->base.n);
    s->n_held = 0;
}

static void keep_held(struct source_lsl *s, const float *sample) {
    memcpy(s->held + s->n_held++ * s->base.n, sample, (size_t)s->base.n * sizeof *sample);
}

static void tell_gap(struct source_lsl *s, int64_t gap) {
    if (s->silent_notified)
        tell("samples of %s again", s->name);
    else
        tell("%.2f s of %s are missing (a gap)", (double)gap / s->base.rate_hz, s->name);
    s->silent_notified = false;
}

/* Hands on what was pulled, up to the next gap. */
static void take_pulled(struct source_lsl *s, double now_s, struct source_block *ret) {
    *ret = (struct source_block){.first = s->gap_first, .uv = s->uv, .cause = "lsl"};
    if (s->gap_first >= 0)
        append_held(s, ret);
    s->gap_first = -1;
    while (s->next < s->n_pulled) {
        const float *sample = s->pulled + s->next * s->base.n;
        int64_t gap;
        enum lsl_result result = lsl_timeline_add(&s->timeline, s->stamps[s->next++] + s->correction_s, now_s, &gap);
        if (result == LSL_FOLLOWS || result == LSL_LATE) {
            if (result == LSL_LATE)
                continue;
            if (s->silent_notified)
                tell_gap(s, 0);
            append_held(s, ret);
            append(s, ret, sample);
            continue;
        }
        keep_held(s, sample);
        if (result == LSL_HOLDS)
            continue;
        tell_gap(s, gap);
        int64_t first = s->timeline.position - s->n_held;
        if (!ret->n) {
            ret->first = first;
            append_held(s, ret);
            continue;
        }
        s->gap_first = first; /* in the next block */
        return;
    }
    s->n_pulled = s->next = 0;
}

/* Nothing came. A silence by which the stream ends is no gap. */
static void watch(struct source_lsl *s, double now_s, bool ends, struct source_block *ret) {
    *ret = (struct source_block){.first = -1, .uv = s->uv, .cause = "lsl"};
    if (s->timeline.held && now_s - s->timeline.held_since_s > 1) {
        int64_t gap = lsl_timeline_settle(&s->timeline);
        tell_gap(s, gap);
        ret->first = s->timeline.position - s->n_held;
        append_held(s, ret);
        return;
    }
    int64_t gap = ends ? 0 : lsl_timeline_silence(&s->timeline, now_s);
    if (gap && !s->silent_notified)
        tell("no samples of %s for %.1f s: a gap", s->name, (double)gap / s->base.rate_hz);
    s->silent_notified |= gap > 0;
    if (gap)
        ret->first = s->timeline.position;
    if (!s->inlet || s->silent_notified)
        find_again(s, now_s);
}

static int lsl_next(struct source *base, struct source_block *ret, struct err *err) {
    struct source_lsl *s = (struct source_lsl *)base;
    int rc = s->next < s->n_pulled || s->gap_first >= 0 ? 0 : pull(s, err);
    double now_s = s->lsl->local_clock();
    bool ends = false;
    if (rc)
        return rc;
    follow_clock(s, now_s);
    if (s->next < s->n_pulled || s->gap_first >= 0) {
        s->heard_s = now_s;
        if (s->n_pulled)
            note_lag(s, now_s - s->stamps[s->n_pulled - 1] - s->correction_s);
        take_pulled(s, now_s, ret);
    } else {
        ends = s->config.idle_s > 0 && now_s - s->heard_s > s->config.idle_s;
        watch(s, now_s, ends, ret);
    }
    if (!ret->n)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_MS * 1000000L}, NULL);
    s->info.duration_s = (double)s->timeline.position / base->rate_hz;
    ret->end = s->changed || interrupt_seen() || ends;
    return 0;
}

/* ---- units, once it is known which channels are read ---- */

/* Root mean square about the mean of a channel of what was pulled. */
static double amplitude(const struct source_lsl *s, int c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < s->n_pulled; i++)
        sum += (double)s->pulled[i * s->base.n + c];
    for (int64_t i = 0; i < s->n_pulled; i++)
        squares += pow((double)s->pulled[i * s->base.n + c] - sum / (double)s->n_pulled, 2);
    return s->n_pulled ? sqrt(squares / (double)s->n_pulled) : 0;
}

/* The median over the used channels of a second of samples, which stay the first ones; 0 = none came. */
static int measure(struct source_lsl *s, const int *used, int n, double *ret, struct err *err) {
    double sizes[FRONTEND_MAX_LABELS];
    int rc = (double)s->n_pulled < CHECKED_S * s->base.rate_hz ? pull_for(s, OPEN_S, err) : 0;
    if (rc)
        return rc;
    for (int i = 0; i < n; i++)
        sizes[i] = amplitude(s, used[i]);
    SORT(sizes, n, order_f64s);
    *ret = n ? sizes[n / 2] : 0;
    return 0;
}

static int lsl_check_units(struct source *base, const int *used, int n, struct err *err) {
    struct source_lsl *s = (struct source_lsl *)base;
    bool missing = false;
    double size = 0;
    for (int i = 0; i < n; i++) {
        s->used[used[i]] = true;
        if (isnan(s->scales[used[i]]))
            return err_set(err, ERR_PRECONDITION, "channel %s of %s is in '%s', no voltage; --unit says what it is in",
                           s->labels[used[i]], s->name, unit_text(s, used[i]));
        missing |= s->scales[used[i]] == 0;
    }
    if (!missing)
        return 0;
    int rc = measure(s, used, n, &size, err);
    if (rc)
        return rc;
    if (!(size >= 0.5 && size <= 5000))
        return err_set(err, ERR_PRECONDITION,
                       "the channels of %s have no unit, and an amplitude of %.3g is none of EEG in uV%s; say --unit uV, mV or V",
                       s->name, size, size > 1e-7 && size < 0.005 ? " (it looks like V)" : "");
    for (int c = 0; c < base->n; c++)
        s->scales[c] = s->scales[c] == 0 ? 1 : s->scales[c];
    str_format(base->assumed, sizeof base->assumed, "the stream states no unit; uV is assumed, the amplitude is %.3g", size);
    return 0;
}

/* ---- the end ---- */

static const char *lsl_ended(const struct source *base) {
    return interrupt_seen() ? "interrupted" : ((const struct source_lsl *)base)->changed ? "changed" : "idle";
}

static const char *lsl_remark(struct source *base) {
    struct source_lsl *s = (struct source_lsl *)base;
    const struct lsl_timeline *t = &s->timeline;
    double rate_hz = lsl_timeline_rate(t);
    OWNED(str_done) struct str text = str_of(sizeof s->remark - 1);
    if (base->rate_hz < s->declared_hz || base->rate_hz > s->declared_hz)
        str_printf(&text, "the stream declares %g Hz and sends %.4g Hz, which was used; ", s->declared_hz, base->rate_hz);
    str_printf(&text, "%lld gap%s, %.2f s", (long long)t->gaps, t->gaps == 1 ? "" : "s", (double)t->gap_samples / base->rate_hz);
    if (t->late)
        str_printf(&text, "; %lld samples came after their gap was declared and were left out", (long long)t->late);
    if (isfinite(rate_hz) && fabs(rate_hz / base->rate_hz - 1) > RATE_TOLERANCE)
        str_printf(&text, "; the stream declares %g Hz, its time stamps say %.2f Hz", base->rate_hz, rate_hz);
    if (s->lag_s > LAG_S)
        str_printf(&text, "; samples came up to %.1f s late", s->lag_s);
    str_copy(s->remark, sizeof s->remark, str_cstr(&text));
    return s->remark;
}

/* Frees what `allocate` has allocated. */
static void free_rows(struct source_lsl *s) {
    if (s->inlet)
        lose_inlet(s);
    FREE_MEMBERS(*s, signals, labels, units, scales, places, used, stamps, pulled, held, rows, uv);
    s->signals = NULL;
    s->labels = s->units = NULL;
    s->scales = s->stamps = NULL;
    s->places = NULL;
    s->used = NULL;
    s->pulled = s->held = s->rows = NULL;
    s->uv = NULL;
}

static void lsl_close(struct source *base) {
    OWNED_MEMORY struct source_lsl *s = (struct source_lsl *)base;
    free_rows(s);
    if (s->resolver)
        s->lsl->destroy_continuous_resolver(s->resolver);
}

static const struct source_kind kind = {
    .next = lsl_next, .check_units = lsl_check_units, .ended = lsl_ended, .remark = lsl_remark, .close = lsl_close};

/* The network may still list a sender that has just ended, and that does not answer: the search begins again. */
static int find_and_open(struct source_lsl *s, struct err *err) {
    int rc = lsl_library_load(&s->lsl, err);
    if (rc)
        return rc;
    const double until_s = s->lsl->local_clock() + s->config.wait_s;
    do {
        lsl_streaminfo info = NULL;
        free_rows(s);
        if ((rc = find_stream(s, &info, err)))
            return rc;
        rc = open_stream(s, info, err);
        s->lsl->destroy_streaminfo(info);
    } while (rc == ERR_UNAVAILABLE && s->lsl->local_clock() < until_s && !interrupt_seen());
    return rc ? rc : check_rate(s, err);
}

int source_open_lsl(const struct source_lsl_config *config, struct source **ret, struct err *err) {
    struct source_lsl *s = needed(calloc(1, sizeof *s));
    *s = (struct source_lsl){.config = *config, .gap_first = -1};
    s->base.kind = &kind;
    s->base.info = &s->info;
    interrupt_catch();
    int rc = find_and_open(s, err);
    if (rc) {
        lsl_close(&s->base);
        return rc;
    }
    *ret = &s->base;
    return 0;
}
