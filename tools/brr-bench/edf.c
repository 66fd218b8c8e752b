/* Cases of the data path: an hour of 23 channels at 256 Hz on one core, decoded alone and on its whole way into the window cache.
 * The recording is written to $TMPDIR (42 MB) and stays in the page cache, so that no disk is measured but for the cache file's own
 * fsync. */

#include "base/needed.h"
#include "bench.h"
#include "formats/eegfile.h"
#include "windows/window.h"

enum { CHANNELS = 23, SECONDS = 3600, PATH_SIZE = 256 };

struct edf_case {
    const char *montage; /* NULL: decoding alone */
    bool bipolar;        /* CHB-MIT's derivations instead of electrodes */
    int rate_hz, outputs;
};
static const struct edf_case DECODE = {NULL, false, 256, CHANNELS}, REFERENTIAL = {"referential-19", false, 256, 19},
                             BIPOLAR = {"bipolar-18", true, 256, 18}, INVERSE = {"referential-19", true, 256, 19},
                             RESAMPLED = {"referential-19", false, 250, 19};

static const char *const REFERENTIAL_LABELS[CHANNELS] = {
    "EEG FP1-REF", "EEG FP2-REF", "EEG F3-REF", "EEG F4-REF", "EEG C3-REF", "EEG C4-REF", "EEG P3-REF", "EEG P4-REF",
    "EEG O1-REF",  "EEG O2-REF",  "EEG F7-REF", "EEG F8-REF", "EEG T3-REF", "EEG T4-REF", "EEG T5-REF", "EEG T6-REF",
    "EEG FZ-REF",  "EEG CZ-REF",  "EEG PZ-REF", "EEG A1-REF", "EEG A2-REF", "EEG EKG1",   "PHOTIC-REF"};
static const char *const BIPOLAR_LABELS[CHANNELS] = {"FP1-F7", "F7-T7", "T7-P7", "P7-O1",  "FP1-F3",   "F3-C3",   "C3-P3", "P3-O1",
                                                     "FP2-F4", "F4-C4", "C4-P4", "P4-O2",  "FP2-F8",   "F8-T8",   "T8-P8", "P8-O2",
                                                     "FZ-CZ",  "CZ-PZ", "P7-T7", "T7-FT9", "FT9-FT10", "FT10-T8", "T8-P8"};

struct edf_state {
    const struct edf_case *c;
    char folder[PATH_SIZE], path[PATH_SIZE], cache[PATH_SIZE];
    struct eegfile *edf;
    float *uv[CHANNELS];
};

static struct rates_work edf_work(const struct bench_case *c, const struct bench_context *x) {
    const struct edf_case *p = c->parameters;
    double samples = (double)p->rate_hz * SECONDS;
    (void)x;
    if (!p->montage)
        return (struct rates_work){.bytes = samples * CHANNELS * (2 + 4)};
    /* The recording in, the cache file out; four sections of nine operations a sample. */
    return (struct rates_work){.bytes = samples * CHANNELS * 2 + 256.0 * SECONDS * p->outputs * 2,
                               .flops = 256.0 * SECONDS * p->outputs * 36};
}

static void put_header(FILE *out, const struct edf_case *c) {
    const char *const *labels = c->bipolar ? BIPOLAR_LABELS : REFERENTIAL_LABELS;
    fprintf(out, "%-8s%-80s%-80s%-8s%-8s%-8d%-44s%-8d%-8s%-4d", "0", "X X X X", "Startdate 01-JAN-2020 X X X", "01.01.20",
            "00.00.00", 256 * (CHANNELS + 1), "", SECONDS, "1", CHANNELS);
    static const struct {
        int width;
        const char *text; /* NULL: the label */
    } fields[] = {{16, NULL},   {80, ""},    {8, "uV"}, {8, "-800"}, {8, "800"},
                  {8, "-2048"}, {8, "2047"}, {80, ""},  {8, "rate"}, {32, ""}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (int s = 0; s < CHANNELS; s++)
            if (fields[f].text && !strcmp(fields[f].text, "rate"))
                fprintf(out, "%-8d", c->rate_hz);
            else
                fprintf(out, "%-*s", fields[f].width, fields[f].text ? fields[f].text : labels[s]);
}

static int write_recording(const char *path, const struct edf_case *c, struct err *err) {
    static int16_t record[CHANNELS * 256];
    FILE *out = fopen(path, "wb");
    uint64_t random = 1;
    if (!out)
        return err_errno(err, 0, "cannot write %s", path);
    put_header(out, c);
    for (int r = 0; r < SECONDS; r++) {
        for (int i = 0; i < CHANNELS * c->rate_hz; i++) {
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            record[i] = (int16_t)((int)(random >> 54) - 512);
        }
        fwrite(record, sizeof *record, (size_t)(CHANNELS * c->rate_hz), out);
    }
    bool failed = ferror(out);
    return fclose(out) || failed ? err_errno(err, 0, "cannot write %s", path) : 0;
}

static void edf_close_case(void *arg, struct device *dev) {
    struct edf_state *s = arg;
    (void)dev;
    if (!s)
        return;
    eegfile_close(s->edf);
    for (int i = 0; i < CHANNELS; i++)
        free(s->uv[i]);
    if (s->folder[0])
        fsio_remove_tree(s->folder, NULL);
    free(s);
}

static int edf_open_case(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    struct edf_state *s = needed(calloc(1, sizeof *s));
    const char *base = getenv("TMPDIR");
    int rc = 0;
    (void)x;
    s->c = c->parameters;
    if (!str_format(s->folder, sizeof s->folder - 32, "%s/brr-bench-XXXXXX", base && *base ? base : "/tmp") ||
        !mkdtemp(s->folder)) {
        s->folder[0] = 0;
        rc = err_set(err, ERR_INVALID, "bench: no folder can be made below TMPDIR");
    }
    str_format(s->path, sizeof s->path, "%s/hour.edf", s->folder);
    str_format(s->cache, sizeof s->cache, "%s/cache", s->folder);
    if (!rc)
        rc = write_recording(s->path, s->c, err);
    if (!rc && !s->c->montage) {
        size_t bytes = sizeof(float) * (size_t)s->c->rate_hz * SECONDS;
        rc = eegfile_open(s->path, &s->edf, err);
        for (int i = 0; i < CHANNELS; i++)
            s->uv[i] = needed(malloc(bytes));
    }
    if (rc)
        edf_close_case(s, NULL);
    else
        *ret = s;
    return rc;
}

static int run_decode(void *arg, struct stream *stream, struct err *err) {
    struct edf_state *s = arg;
    int signals[CHANNELS];
    (void)stream;
    for (int i = 0; i < CHANNELS; i++)
        signals[i] = i;
    return eegfile_read(s->edf, signals, CHANNELS, (struct eeg_range){.n = SECONDS * (int64_t)s->c->rate_hz}, s->uv, err);
}

static int run_pipeline(void *arg, struct stream *stream, struct err *err) {
    struct edf_state *s = arg;
    char path[4096];
    (void)stream;
    const struct window_build build = {
        .recording_path = s->path,
        .cache_dir = s->cache,
        .frontend = {.montage = s->c->montage, .notch_hz = 60, .bandpass_hz = {0.5, 120}, .fill_gap_s = 2},
        .labels = "auto",
        .unlabeled = "background",
        .rebuild = true};
    return window_build(&build, path, sizeof path, NULL, err);
}

const struct bench_case bench_edf_cases[] = {
    {"edf.decode", "hour 23ch", 1, true, BENCH_CPU, edf_work, edf_open_case, run_decode, edf_close_case, &DECODE},
    {"edf.pipeline", "hour referential-19", 1, true, BENCH_CPU, edf_work, edf_open_case, run_pipeline, edf_close_case,
     &REFERENTIAL},
    {"edf.pipeline", "hour bipolar-18", 1, true, BENCH_CPU, edf_work, edf_open_case, run_pipeline, edf_close_case, &BIPOLAR},
    {"edf.pipeline", "hour inverse", 1, true, BENCH_CPU, edf_work, edf_open_case, run_pipeline, edf_close_case, &INVERSE},
    {"edf.pipeline", "hour 250 Hz", 1, true, BENCH_CPU, edf_work, edf_open_case, run_pipeline, edf_close_case, &RESAMPLED},
    {0}};
