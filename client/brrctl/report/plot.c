/* plot FILE: some seconds of a recording as a picture, with its labels. Runs here, without a daemon and without a model. */

#include "base/needed.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/eeg_clip.h"
#include "client/brrctl/output.h"
#include "eeg/labels.h"
#include "eeg/montage.h"
#include "plot/eeg_page.h"
#include "plot/picture.h"
#include "store/outputs.h"

struct plot_options {
    double from_s, seconds, low_hz, high_hz;
    const char *montage, *notch, *output;
};
#define OPTIONS struct plot_options
static const struct argument rows[] = {
    NUMBER("--from", from_s, "S", "second of the recording at which the picture begins, default 0", 0, 1e9),
    NUMBER("--seconds", seconds, "S", "length of the picture, default 15", 1, 120),
    TEXT("--montage", montage, "M",
         "bipolar-18, referential-19 or custom:LABEL,LABEL,...; default bipolar-18, if the channels allow it"),
    NUMBER("--low", low_hz, "HZ", "high-pass filter, default 0.5", 0.1, 20),
    NUMBER("--high", high_hz, "HZ", "low-pass filter, default 70", 10, 120),
    CHOICE("--notch", notch, "both|50|60|none", "mains filter, default both"),
    OUTPUT("--output", output, "FILE", "FILE.svg, FILE.png or FILE.pdf; default: the recording's name and .svg", .alias = "--out"),
};

enum { PATH_SIZE = 4096, PICTURE_BYTES = 64 << 20 };

/* "night_eeg.edf" → "night_eeg.svg" here. */
static const char *output_of(const struct arguments *o, char buf[PATH_SIZE]) {
    if (own(o)->output)
        return own(o)->output;
    str_copy(buf, PATH_SIZE - 8, fsio_basename(o->args[0]));
    char *dot = strrchr(buf, '.');
    str_copy(dot ? dot : buf + strlen(buf), 5, ".svg");
    return buf;
}

static int write_picture(const char *path, const struct str *svg, struct err *err) {
    return picture_named(path) ? picture_write(path, str_cstr(svg), svg->len, err) : fsio_write_text(path, svg, err);
}

/* The labels, as far as there are any, without which a recording can be looked at as well. */
static int take_labels(const char *path, const struct eegfile *edf, struct labels *labels, struct plot_span **ret,
                       struct err *err) {
    if (labels_load(path, "auto", edf, labels, err)) {
        fprintf(stderr, "brrctl: note: the labels are not shown: %s\n", err->message);
        *err = (struct err){0};
        *labels = (struct labels){.source = LABELS_NONE};
    }
    struct plot_span *spans = needed(calloc(labels->n_runs + 1, sizeof *spans));
    for (size_t i = 0; i < labels->n_runs; i++)
        spans[i] = (struct plot_span){labels->runs[i].onset_s, labels->runs[i].end_s};
    *ret = spans;
    return 0;
}

static int draw(const struct arguments *o, const struct eegfile *edf, const struct eeg_clip *clip, const struct labels *labels,
                const struct plot_span *spans, const char *path, struct err *err) {
    OWNED(str_done) struct str svg = str_of(PICTURE_BYTES);
    const struct eeg_start *start = &eegfile_info(edf)->start;
    char subtitle[512];
    struct eeg_page page = {.title = fsio_basename(o->args[0]),
                            .subtitle = subtitle,
                            .from_s = argument_or(own(o)->from_s, 0),
                            .seconds = argument_or(own(o)->seconds, 15),
                            .has_clock = start->known,
                            .clock_s = start->hour * 3600 + start->minute * 60 + start->second,
                            SAME_MEMBERS(*clip, channels, names, uv, n),
                            .rate_hz = FRONTEND_RATE_HZ,
                            .reference = spans,
                            .n_reference = (int)labels->n_runs,
                            .has_reference = labels->source != LABELS_NONE};
    str_format(subtitle, sizeof subtitle, "%g to %g Hz, %s; montage %.40s; %g µV between channels, negative up",
               argument_or(own(o)->low_hz, 0.5), argument_or(own(o)->high_hz, 70),
               eeg_clip_notch_text(eeg_clip_notch(own(o)->notch)),
               str_starts(clip->montage, "custom:") ? "of the recording" : clip->montage, eeg_page_spacing_uv(&page));
    int rc = eeg_page_draw(&page, &svg, err);
    return rc ? rc : write_picture(path, &svg, err);
}

static int plot(const struct arguments *o, const char *path, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    OWNED(labels_done) struct labels labels = {.source = LABELS_NONE};
    OWNED_MEMORY struct plot_span *spans = NULL;
    const struct eeg_clip_config config = {.montage = own(o)->montage,
                                           .bandpass_hz = {argument_or(own(o)->low_hz, 0.5), argument_or(own(o)->high_hz, 70)},
                                           .notch_hz = eeg_clip_notch(own(o)->notch)};
    struct eeg_clip clip;
    int rc = eegfile_open(o->args[0], &edf, err);
    if (rc)
        return rc;
    double from_s = argument_or(own(o)->from_s, 0), length_s = eegfile_info(edf)->duration_s;
    if (from_s >= length_s)
        return err_set(err, ERR_INVALID, "--from %g: %s lasts %.1f s", from_s, o->args[0], length_s);
    if ((rc = take_labels(o->args[0], edf, &labels, &spans, err)) ||
        (rc = eeg_clip_read(edf, &config, from_s, argument_or(own(o)->seconds, 15), &clip, err)))
        return rc;
    rc = draw(o, edf, &clip, &labels, spans, path, err);
    eeg_clip_done(&clip);
    return rc;
}

static int cmd_plot(const struct arguments *o) {
    char buf[PATH_SIZE];
    const char *path = output_of(o, buf);
    struct err err = {0};
    int channels;
    if (!picture_known(path)) {
        fputs("brrctl: plot writes a picture; expected --output FILE.svg, FILE.png or FILE.pdf\n", stderr);
        return EXIT_USAGE;
    }
    if (own(o)->montage && montage_channels(own(o)->montage, NULL, &channels, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    if (outputs_check(path, o->force, &err) || plot(o, path, &err) || outputs_add(path, &err))
        return brrctl_fail(&err);
    if (o->json)
        output_text("plot", path);
    else
        puts(path);
    return 0;
}

BRRCTL_COMMAND(plot, "FILE", ARGUMENTS(rows, .local = true), cmd_plot,
               "draw some seconds of a recording with its labels; works without a daemon and a model",
               "example: brrctl plot night_eeg.edf --from 3600 --seconds 20 --montage bipolar-18 --output page.png");
