#include "tools/edfgen/writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum { ANNOTATION_SAMPLES = 16, HEADER_MAX = 256 * (WRITER_MAX_SIGNALS + 2) };

static void put_field(struct str *out, int width, const char *text) { str_printf(out, "%-*.*s", width, width, text); }

static void put_number(struct str *out, int width, int64_t number) { str_printf(out, "%-*lld", width, (long long)number); }

/* One column of the signal headers: the same text for all EEG signals, another for the annotations. */
static void put_column(struct str *out, int n_signals, int width, const char *eeg, const char *annotation) {
    for (int s = 0; s < n_signals; s++)
        put_field(out, width, eeg);
    put_field(out, width, annotation);
}

int writer_open(struct edf_writer *w, const struct writer_config *config, struct err *err) {
    struct str header;
    char text[96];
    int n = config->n_signals;
    str_init(&header, HEADER_MAX);
    put_field(&header, 8, "0");
    str_format(text, sizeof text, "%s X X %s", config->patient, config->patient);
    put_field(&header, 80, text);
    str_format(text, sizeof text, "Startdate %02d-JAN-2030 X X synthetic", config->start_day);
    put_field(&header, 80, text);
    str_format(text, sizeof text, "%02d.01.30%02d.00.00", config->start_day, config->start_hour);
    put_field(&header, 16, text);
    put_number(&header, 8, 256 * (n + 2));
    put_field(&header, 44, "EDF+C");
    put_number(&header, 8, config->records);
    put_number(&header, 8, 1);
    put_number(&header, 4, n + 1);
    for (int s = 0; s < n; s++)
        put_field(&header, 16, config->labels[s]);
    put_field(&header, 16, "EDF Annotations");
    put_column(&header, n, 80, "synthetic", "");
    put_column(&header, n, 8, "uV", "");
    put_column(&header, n, 8, "-3276.8", "-1");
    put_column(&header, n, 8, "3276.7", "1");
    put_column(&header, n, 8, "-32768", "-32768");
    put_column(&header, n, 8, "32767", "32767");
    put_column(&header, n, 80, "", "");
    str_format(text, sizeof text, "%d", RATE_HZ);
    char annotation[16];
    str_format(annotation, sizeof annotation, "%d", ANNOTATION_SAMPLES);
    put_column(&header, n, 8, text, annotation);
    put_column(&header, n, 32, "", "");
    *w = (struct edf_writer){.n_signals = n};
    int rc = fsio_writer_open(&w->file, config->path, err);
    if (!rc) {
        rc = fsio_writer_write(&w->file, str_cstr(&header), header.len, err);
        if (rc)
            fsio_writer_abort(&w->file);
    }
    str_done(&header);
    return rc;
}

int writer_second(struct edf_writer *w, const float *const *uv, struct err *err) {
    uint8_t record[(WRITER_MAX_SIGNALS * RATE_HZ + ANNOTATION_SAMPLES) * 2];
    size_t at = 0;
    for (int s = 0; s < w->n_signals; s++) {
        for (int i = 0; i < RATE_HZ; i++) {
            long digital = lrintf(fminf(32767, fmaxf(-32768, uv[s][i] * 10)));
            record[at++] = (uint8_t)(digital & 0xFF);
            record[at++] = (uint8_t)(digital >> 8 & 0xFF);
        }
    }
    memset(record + at, 0, ANNOTATION_SAMPLES * 2);
    char keeper[ANNOTATION_SAMPLES * 2];
    str_format(keeper, sizeof keeper, "+%lld\x14\x14", (long long)w->record++);
    memcpy(record + at, keeper, strlen(keeper));
    return fsio_writer_write(&w->file, record, at + ANNOTATION_SAMPLES * 2, err);
}

int writer_commit(struct edf_writer *w, struct err *err) { return fsio_writer_commit(&w->file, err); }

void writer_abort(struct edf_writer *w) { fsio_writer_abort(&w->file); }
