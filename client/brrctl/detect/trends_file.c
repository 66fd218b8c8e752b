#include "client/brrctl/detect/trends_file.h"

#include "base/needed.h"
#include "client/brrctl/detect/eeg_clip.h"
#include "plot/picture.h"
#include "plot/plot_strips.h"
#include "plot/trends.h"

enum { CLIP_EPOCHS = 60 /* ten minutes */, MOST_TEXT_BYTES = 512 << 20 };

static void put_trends_head(struct str *out) {
    str_puts(out, "onset\tduration");
    for (int i = 0; i < TRENDS_COLUMNS; i++)
        str_printf(out, "\t%s", trends_column(i));
    str_puts(out, "\n");
}

static void put_trends_row(struct str *out, double onset_s, const double values[TRENDS_COLUMNS]) {
    str_printf(out, "%.0f\t%d", onset_s, TRENDS_EPOCH_S);
    for (int i = 0; i < TRENDS_COLUMNS; i++)
        if (isnan(values[i]))
            str_puts(out, "\tn/a");
        else
            str_printf(out, "\t%.9g", values[i]);
    str_puts(out, "\n");
}

static int write_trends_table(const char *path, const double *values, int64_t epochs, struct err *err) {
    OWNED(str_done) struct str text = str_of(MOST_TEXT_BYTES);
    put_trends_head(&text);
    for (int64_t i = 0; i < epochs; i++)
        put_trends_row(&text, (double)i * TRENDS_EPOCH_S, values + i * TRENDS_COLUMNS);
    return fsio_write_text(path, &text, err);
}

struct trends_answers trends_summarise(const struct detection *d) {
    enum { EPOCH = TRENDS_EPOCH_S * DETECTION_RATE_HZ };
    struct trends_answers a = {.n = d->n_probabilities / EPOCH};
    a.values = needed(calloc((size_t)a.n + 1, 2 * sizeof *a.values));
    for (int64_t i = 0; i < a.n; i++) {
        double *of = a.values + 2 * i;
        of[0] = NAN;
        for (int64_t k = i * EPOCH; k < (i + 1) * EPOCH; k++)
            of[0] = fmax(of[0], (double)d->probabilities[k]);
    }
    for (int i = 0; i < d->n_events; i++)
        for (int64_t k = d->events[i].first; k < d->events[i].end && k < a.n * EPOCH; k++)
            a.values[2 * (k / EPOCH) + 1] += 1.0 / EPOCH;
    return a;
}

/* Rows of the trends with the answers behind them; epochs without an answer have none. */
static double *join_answers(const double *values, int64_t epochs, const struct trends_answers *answers) {
    enum { COLUMNS = TRENDS_COLUMNS + 2 };
    double *joined = needed(malloc((size_t)(epochs * COLUMNS + 1) * sizeof *joined));
    for (int64_t i = 0; i < epochs; i++) {
        memcpy(joined + i * COLUMNS, values + i * TRENDS_COLUMNS, TRENDS_COLUMNS * sizeof *joined);
        for (int k = 0; k < 2; k++)
            joined[i * COLUMNS + TRENDS_COLUMNS + k] = i < answers->n ? answers->values[2 * i + k] : NAN;
    }
    return joined;
}

static int draw_trends(const char *path, const char *title, const double *values, int64_t epochs, struct err *err) {
    static const char *const sides[] = {"left", "right"}, *const found[] = {"probability", "events"};
    struct plot_strip strips[] = {
        {.title = "Detection: highest probability, share of events",
         .columns = {TRENDS_COLUMNS, TRENDS_COLUMNS + 1},
         .n = 2,
         .names = found,
         .high = 1},
        {.title = "aEEG of C3-P3 and C4-P4, µV", .kind = PLOT_STRIP_BANDS, .columns = {0, 1, 2, 3}, .n = 4, .names = sides},
        {.title = "Spectrum of the head, Hz (−10 to 30 dB of µV²/Hz)",
         .kind = PLOT_STRIP_MAP,
         .n = TRENDS_CSA_HZ,
         .low = -10,
         .high = 30},
        {.title = "Rhythmicity", .columns = {TRENDS_RHYTHM, TRENDS_RHYTHM + 2}, .n = 2, .names = sides, .high = 1},
        {.title = "Asymmetry: −1 left, 1 right", .columns = {TRENDS_ASYMMETRY}, .n = 1, .low = -1, .high = 1},
        {.title = "Suppression ratio", .columns = {TRENDS_SUPPRESSION}, .n = 1, .high = 1}};
    for (int i = 0; i < TRENDS_CSA_HZ; i++)
        strips[2].columns[i] = TRENDS_CSA + i;
    const struct plot_strips picture = {.title = title,
                                        .step_s = TRENDS_EPOCH_S,
                                        .values = values,
                                        .n = epochs,
                                        .columns = TRENDS_COLUMNS + 2,
                                        .strips = strips,
                                        .n_strips = sizeof strips / sizeof *strips};
    return plot_strips_draw(path, &picture, err);
}

/* Writes the values of epochs first to first + n; those beyond the end of the samples stay as they are. */
static int find_trends(const struct eegfile *file, const struct eeg_clip_config *config, int64_t first, int64_t n, double *values,
                       struct err *err) {
    OWNED(eeg_clip_done) struct eeg_clip clip = {0};
    int rc = eeg_clip_read(file, config, (double)first * TRENDS_EPOCH_S, (double)n * TRENDS_EPOCH_S, &clip, err);
    for (int64_t i = 0; !rc && i < n && (i + 1) * TRENDS_EPOCH <= clip.n; i++)
        rc = trends_epoch(clip.uv + i * TRENDS_EPOCH * clip.channels, values + (first + i) * TRENDS_COLUMNS, err);
    return rc;
}

int trends_write(const char *recording, const struct source_reading *reading, const struct trends_answers *answers,
                 const char *path, struct err *err) {
    const struct eeg_clip_config config = {.montage = "bipolar-18", .bandpass_hz = {0.5, 120}, .rename = reading->rename};
    OWNED_POINTER(eegfile_close) struct eegfile *file = NULL;
    OWNED_MEMORY double *values = NULL;
    int rc;
    if ((rc = eegfile_open_header(recording, &file, err)) || (rc = eegfile_assume_unit(file, reading->unit, err)))
        return rc;
    const int64_t epochs = (int64_t)(eegfile_info(file)->duration_s / TRENDS_EPOCH_S);
    values = needed(malloc((size_t)(epochs + 1) * TRENDS_COLUMNS * sizeof *values));
    for (int64_t i = 0; i < epochs * TRENDS_COLUMNS; i++)
        values[i] = NAN;
    for (int64_t at = 0, n; at < epochs; at += n) {
        n = epochs - at < CLIP_EPOCHS ? epochs - at : CLIP_EPOCHS;
        if ((rc = find_trends(file, &config, at, n, values, err)))
            return rc;
    }
    if (!picture_known(path))
        return write_trends_table(path, values, epochs, err);
    OWNED_MEMORY double *joined = join_answers(values, epochs, answers);
    return draw_trends(path, fsio_basename(recording), joined, epochs, err);
}
