#include "client/brrctl/detect/trends_file.h"

#include <math.h>

#include "base/fsio.h"
#include "client/brrctl/detect/eeg_clip.h"
#include "eeg/trends.h"

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

/* The epochs of a piece of the recording. */
static int put_clip(const struct eegfile *file, const struct eeg_clip_config *config, double from_s, double seconds,
                    struct str *out, struct err *err) {
    OWNED(eeg_clip_done) struct eeg_clip clip = {0};
    double values[TRENDS_COLUMNS];
    int rc = eeg_clip_read(file, config, from_s, seconds, &clip, err);
    for (int64_t at = 0; !rc && at + TRENDS_EPOCH <= clip.n; at += TRENDS_EPOCH) {
        if ((rc = trends_epoch(clip.uv + at * clip.channels, values, err)))
            return rc;
        put_trends_row(out, from_s + (double)at / FRONTEND_RATE_HZ, values);
    }
    return rc;
}

int trends_write(const char *recording, const struct source_reading *reading, const char *path, struct err *err) {
    const struct eeg_clip_config config = {.montage = "bipolar-18", .bandpass_hz = {0.5, 120}, .rename = reading->rename};
    OWNED_POINTER(eegfile_close) struct eegfile *file = NULL;
    OWNED(str_done) struct str text;
    int rc;
    str_init(&text, MOST_TEXT_BYTES);
    if ((rc = eegfile_open_header(recording, &file, err)) || (rc = eegfile_assume_unit(file, reading->unit, err)))
        return rc;
    put_trends_head(&text);
    const int64_t epochs = (int64_t)(eegfile_info(file)->duration_s / TRENDS_EPOCH_S);
    for (int64_t at = 0, n; at < epochs; at += n) {
        n = epochs - at < CLIP_EPOCHS ? epochs - at : CLIP_EPOCHS;
        if ((rc = put_clip(file, &config, (double)at * TRENDS_EPOCH_S, (double)n * TRENDS_EPOCH_S, &text, err)))
            return rc;
    }
    return fsio_write_text(path, &text, err);
}
