/* windows FILE: what the network would be given for a recording, as safetensors. Runs here, without a daemon. */

#include "base/needed.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "store/safetensors.h"
#include "windows/recording.h"
#include "windows/window.h"

/* The options of windows. */
struct windows_options {
    const char *montage;
    const char *output;
    double notch_hz;
    double window_s;
    double hop_s;
    int64_t first;
    int64_t count;
};
#define OPTIONS struct windows_options
static const struct argument option_rows[] = {
    TEXT("--montage", montage, "M", "referential-19, bipolar-18 or custom:LABEL,LABEL,...; default referential-19"),
    OUTPUT("--output", output, "FILE.safetensors", "write the windows", .alias = "--out"),
    NUMBER("--notch", notch_hz, "HZ", "mains filter: 0, 50 or 60; default 60", 0, 60),
    NUMBER("--window", window_s, "S", "length of a window in seconds, default 60", 1, 600),
    NUMBER("--hop", hop_s, "S", "seconds between window starts, default 10", 0.01, 600),
    INTEGER("--first", first, "N", "first window, from 0", 0, 1e12),
    INTEGER("--count", count, "N", "number of windows", 1, 1e12),
};

static const int64_t max_bytes = INT64_C(16) << 30;

struct tensors {
    float *x; /* (n, C, T) */
    int64_t *start, *valid;
    int64_t n, first, total; /* windows written, the first of them, all there are */
    int64_t window;
    int channels;
};

/* The recording through the frontend, as training and streams see it. */
static int open_recording(const struct arguments *o, const char *dir, struct recording **ret, struct err *err) {
    char cache_file[4096];
    bool skipped = false;
    const struct window_build request = {.recording_path = o->args[0],
                                         .cache_dir = dir,
                                         .frontend = {.montage = own(o)->montage ? own(o)->montage : "referential-19",
                                                      .notch_hz = argument_or(own(o)->notch_hz, 60),
                                                      .bandpass_hz = {0.5, 120},
                                                      .fill_gap_s = 2},
                                         .labels = "none",
                                         .unlabeled = "background"};
    int rc = window_build(&request, cache_file, sizeof cache_file, &skipped, err);
    return rc ? rc : recording_open(cache_file, ret, err);
}

static int allocate(struct tensors *t, struct err *err) {
    double bytes = (double)t->n * (double)t->window * t->channels * sizeof *t->x;
    if (bytes > (double)max_bytes)
        return err_set(err, ERR_EXHAUSTED, "%lld windows are %.1f GiB; write them in parts with --first and --count",
                       (long long)t->n, bytes / 0x1p30);
    t->x = malloc((size_t)(t->n * t->window * t->channels + 1) * sizeof *t->x);
    t->valid = calloc((size_t)t->n + 1, sizeof *t->valid);
    return t->x && t->valid ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %lld windows", (long long)t->n);
}

static int read_windows(struct recording *rec, struct tensors *t, struct err *err) {
    int rc = allocate(t, err);
    if (rc)
        return rc;
    OWNED_MEMORY float *rows = needed(malloc((size_t)(t->window * t->channels) * sizeof *rows));
    for (int64_t i = 0; i < t->n; i++) {
        float *x = t->x + i * t->window * t->channels;
        if ((rc = window_read(rec, t->start[t->first + i], t->window, rows, NULL, &t->valid[i], err)))
            return rc;
        for (int64_t s = 0; s < t->window; s++)
            for (int c = 0; c < t->channels; c++)
                x[c * t->window + s] = rows[s * t->channels + c];
    }
    return 0;
}

static int write_file(const struct arguments *o, const struct tensors *t, struct err *err) {
    const struct safetensors_entry entries[] = {
        {"x", SAFETENSORS_F32, 3, {t->n, t->channels, t->window}, t->x, (size_t)(t->n * t->channels * t->window) * sizeof *t->x},
        {"start", SAFETENSORS_I64, 1, {t->n}, t->start + t->first, (size_t)t->n * sizeof *t->start},
        {"valid", SAFETENSORS_I64, 1, {t->n}, t->valid, (size_t)t->n * sizeof *t->valid}};
    const struct safetensors_pair metadata[] = {{"brr.montage", own(o)->montage ? own(o)->montage : "referential-19"}};
    const struct safetensors_content content = {entries, sizeof entries / sizeof *entries, metadata, 1};
    char sha256[DIGEST_HEX_SIZE];
    return safetensors_write(own(o)->output, &content, sha256, err);
}

static void report(const struct arguments *o, const struct tensors *t, const struct recording *rec) {
    struct recording_info facts, *info = &facts;
    OWNED(str_done) struct str text = str_of(2048);
    recording_info(rec, info);
    const char *const parts[] = {info->note, recording_mislabelled(rec), recording_missing(rec)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        str_printf(&text, "%s%s", text.len && *parts[i] ? "; " : "", parts[i]);
    const char *note = str_cstr(&text);
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "recording", o->args[0]);
        json_put_f64(w, "duration_s", info->duration_s);
        json_put_i64(w, "segments", info->n_segments);
        json_put_i64(w, "channels", t->channels);
        json_put_i64(w, "window_samples", t->window);
        json_put_i64(w, "windows", t->total);
        json_put_i64(w, "written", own(o)->output ? t->n : 0);
        json_put_str(w, "note", note);
        json_put_str(w, "output", own(o)->output);
        output_end(w);
        return;
    }
    printf("%s: %.1f s in %d segment%s, %lld window%s of %d channels and %lld samples%s%s\n", fsio_basename(o->args[0]),
           info->duration_s, info->n_segments, info->n_segments == 1 ? "" : "s", (long long)t->total, t->total == 1 ? "" : "s",
           t->channels, (long long)t->window, *note ? "; " : "", note);
    if (own(o)->output)
        printf("%lld written to %s\n", (long long)t->n, own(o)->output);
}

static void tensors_done(struct tensors *t) { FREE_MEMBERS(*t, x, start, valid); }

static int make(const struct arguments *o, struct recording *rec, struct err *err) {
    struct recording_info info;
    OWNED(tensors_done)
    struct tensors t = {.window = llround(argument_or(own(o)->window_s, 60) * FRONTEND_RATE_HZ)};
    int64_t hop = llround(argument_or(own(o)->hop_s, 10) * FRONTEND_RATE_HZ);
    int rc;
    recording_info(rec, &info);
    t.channels = info.channels;
    t.total = window_grid(info.segments, info.n_segments, t.window, hop, NULL);
    t.start = needed(calloc((size_t)t.total + 1, sizeof *t.start));
    window_grid(info.segments, info.n_segments, t.window, hop, t.start);
    t.first = own(o)->first > 0 ? own(o)->first : 0;
    t.n = t.total > t.first ? t.total - t.first : 0;
    if (t.first && !t.n)
        return err_set(err, ERR_INVALID, "--first %lld: there are %lld windows, from 0", (long long)t.first, (long long)t.total);
    t.n = own(o)->count > 0 && own(o)->count < t.n ? own(o)->count : t.n;
    if (own(o)->output && ((rc = read_windows(rec, &t, err)) || (rc = write_file(o, &t, err))))
        return rc;
    report(o, &t, rec);
    return 0;
}

static int cmd_windows(const struct arguments *o) {
    const char *tmp = getenv("TMPDIR");
    char dir[4096];
    struct recording *rec = NULL;
    struct err err;
    int channels;
    if (own(o)->montage && montage_channels(own(o)->montage, NULL, &channels, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    if (own(o)->output && !str_ends(own(o)->output, ".safetensors")) {
        fputs("brrctl: --out writes safetensors; expected FILE.safetensors\n", stderr);
        return EXIT_USAGE;
    }
    if (!str_format(dir, sizeof dir, "%s/brrctl-XXXXXX", tmp && *tmp ? tmp : "/tmp") || !mkdtemp(dir)) {
        fputs("brrctl: cannot make a temporary folder; set TMPDIR to one that can be written\n", stderr);
        return EXIT_FAILED;
    }
    bool failed = open_recording(o, dir, &rec, &err) || make(o, rec, &err);
    recording_close(rec);
    fsio_remove_tree(dir, NULL);
    return failed ? brrctl_fail(&err) : 0;
}

BRRCTL_COMMAND(
    windows, "FILE", ARGUMENTS(option_rows, .local = true), cmd_windows,
    "show or write the network's input for a recording; works without a daemon",
    "Writes safetensors: x F32 (n,C,T) normalised, start I64 (n) in 256 Hz samples of file time, valid I64 (n) samples.\n"
    "Without --out, windows are only counted. Defaults: referential-19, notch 60, windows of 60 s every 10 s.\n"
    "example: brrctl windows sub-01_eeg.edf --montage bipolar-18 --out windows.safetensors");
