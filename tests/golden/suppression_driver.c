/* suppression_driver: an EDF file of 256 Hz through lib/eeg's front end and the burst suppression detector. Arguments: FILE
 * MONTAGE ROWS. Writes the filtered rows (float32) to ROWS, and to standard output a line per report, "report SAMPLE OBSERVED RATIO
 * BURSTS", per suppression, "segment FIRST END", and "totals OBSERVED SUPPRESSED BURSTS". For
 * tests/golden/test_suppression_golden.py. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "detect/suppression.h"
#include "eeg/frontend.h"
#include "eeg/half.h"
#include "tests/edf_records.h"

struct run {
    struct suppression *suppression;
    FILE *rows;
    int channels;
};

static int on_report(void *ctx, const struct suppression_report *r, struct err *err) {
    (void)ctx;
    (void)err;
    printf("report %" PRId64 " %" PRId64 " %.9g %.9g\n", r->sample, r->observed, (double)r->ratio, (double)r->bursts_per_minute);
    return 0;
}

static int on_segment(void *ctx, int64_t first, int64_t end, struct err *err) {
    (void)ctx;
    (void)err;
    printf("segment %" PRId64 " %" PRId64 "\n", first, end);
    return 0;
}

static int on_rows(void *ctx, const uint16_t *rows, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    struct run *run = ctx;
    (void)segment_start;
    (void)held;
    for (int64_t i = 0; i < n * run->channels; i++) {
        float v = half_to_f32(rows[i]);
        if (fwrite(&v, sizeof v, 1, run->rows) != 1)
            return err_set(err, ERR_UNAVAILABLE, "cannot write the rows");
    }
    return suppression_push(run->suppression, rows, n, first, err);
}

static int feed(const struct eegfile *edf, struct frontend *f, struct err *err) {
    enum { CHUNK_S = 60 };
    const struct eeg_info *info = eegfile_info(edf);
    const int *used;
    int n = frontend_sources(f, &used), rc = 0;
    int64_t rate = info->signals[used[0]].samples_per_record;
    float **uv = calloc((size_t)n, sizeof *uv);
    for (int c = 0; c < n; c++)
        uv[c] = calloc((size_t)CHUNK_S * (size_t)rate, sizeof **uv);
    for (int64_t at = 0; !rc && at < info->n_records; at += CHUNK_S) {
        int64_t records = info->n_records - at < CHUNK_S ? info->n_records - at : CHUNK_S;
        for (int c = 0; !rc && c < n; c++)
            rc = edf_read(edf, used[c], at, records, uv[c], err);
        if (!rc)
            rc = frontend_push(f, (const float *const *)uv, records * rate, err);
    }
    for (int c = 0; c < n; c++)
        free(uv[c]);
    free(uv);
    return rc ? rc : frontend_finish(f, err);
}

int main(int argc, char **argv) {
    struct eegfile *edf = NULL;
    struct frontend *f = NULL;
    struct frontend_report report;
    struct run run = {0};
    struct err err = {0};
    const char *labels[64];
    const struct suppression_sink sink = {.report = on_report, .segment = on_segment};
    if (argc != 4 || !(run.rows = fopen(argv[3], "wb")))
        return 2;
    int rc = eegfile_open(argv[1], &edf, &err);
    int n = rc ? 0 : eegfile_info(edf)->n_signals;
    for (int i = 0; i < n && i < 64; i++)
        labels[i] = eegfile_info(edf)->signals[i].label;
    struct frontend_config config = {argv[2], 60,   {0.5, 120}, 2,    FRONTEND_WINDOW, FRONTEND_REFERENCE_RECORDED,
                                     NULL,    NULL, false,      false};
    struct frontend_source source = {labels, n, 256};
    if (!rc)
        rc = frontend_new(&config, &source, on_rows, &run, &f, &report, &err);
    run.channels = rc ? 0 : report.output_channels;
    if (!rc)
        rc = suppression_new(run.channels, &sink, &run.suppression, &err);
    if (!rc)
        rc = feed(edf, f, &err);
    if (!rc)
        rc = suppression_finish(run.suppression, &err);
    if (!rc)
        rc = suppression_give(run.suppression, INT64_MAX, &err);
    if (!rc) {
        struct suppression_totals totals;
        suppression_totals(run.suppression, &totals);
        printf("totals %" PRId64 " %" PRId64 " %" PRId64 "\n", totals.observed, totals.suppressed, totals.bursts);
    }
    if (fclose(run.rows))
        rc = 1;
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    suppression_free(run.suppression);
    frontend_free(f);
    eegfile_close(edf);
    return rc ? 1 : 0;
}
