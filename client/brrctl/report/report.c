/* report job:ID|DIR: a job, or a folder of detected events, as one HTML file: scores, curves, and a page of EEG for each event. */
#include "client/brrctl/report/report.h"

#include "base/counted.h"
#include "client/brrctl/detect/seen.h"
#include "client/brrctl/jobs/job_files.h"
#include "client/brrctl/output.h"
#include "eeg/frontend.h"
#include "store/outputs.h"

enum { REPORT_BYTES = 1 << 30, PICTURE_BYTES = 64 << 20, JSON_BYTES = 256 << 20, CONFIG_BYTES = 1 << 20, MOST_PAGES = 60 };

struct report_options {
    const char *output, *eeg, *reference, *montage, *notch;
    double seconds, low_hz, high_hz;
    int64_t most;
};
#define OPTIONS struct report_options
static const struct argument rows[] = {
    OUTPUT("--output", output, "FILE", "the HTML file, FILE.html or FILE.htm; default report.html", .alias = "--out"),
    TEXT("--eeg", eeg, "PATH", "folder of the recordings; without it the report has no pages of EEG"),
    TEXT("--reference", reference, "DIR", "folder of label files; default: the labels of the recordings"),
    TEXT("--montage", montage, "M",
         "of the pages: bipolar-18, referential-19 or custom:LABEL,LABEL,...; default bipolar-18, if the channels allow it"),
    NUMBER("--seconds", seconds, "S", "length of a page, default 15; a third of it is before the onset", 5, 60),
    NUMBER("--low", low_hz, "HZ", "high-pass filter of the pages, default 0.5", 0.1, 20),
    NUMBER("--high", high_hz, "HZ", "low-pass filter of the pages, default 70", 10, 120),
    CHOICE("--notch", notch, "both|50|60|none", "mains filter of the pages, default both"),
    INTEGER("--most", most, "N", "at most so many pages, default 60; 0 = none", 0, 10000),
};

/* What a report is made from. */
struct report_input {
    char folder[4096], title[256]; /* the job's files, or the folder that was named */
    char temporary[4096];          /* removed at the end; "" = none */
    char eeg[4096];                /* "" = none */
    struct json *report;
    char *picture, *job_file;
    char seen[64];
    bool picture_is_own; /* made from the events */
    struct report_data data;
};

static void input_done(struct report_input *in) {
    if (*in->temporary)
        fsio_remove_tree(in->temporary, NULL);
    json_free(in->report);
    FREE_MEMBERS(*in, picture, job_file);
    report_data_done(&in->data);
}

static int make_temporary(struct report_input *in, struct err *err) {
    const char *tmp = getenv("TMPDIR");
    if (str_format(in->temporary, sizeof in->temporary, "%s/brrctl-XXXXXX", tmp && *tmp ? tmp : "/tmp") && mkdtemp(in->temporary))
        return 0;
    *in->temporary = '\0';
    return err_set(err, ERR_UNAVAILABLE, "cannot make a temporary folder; set TMPDIR to one that can be written");
}

static int keep_job_file(struct report_input *in, const Brr__V1__JobFile *file, struct err *err) {
    struct str text = str_of(CONFIG_BYTES);
    str_puts(&text, file->yaml);
    for (size_t i = 0; i < file->n_overrides; i++)
        str_printf(&text, "%s--set %s\n", i ? "" : "\n", file->overrides[i]);
    in->job_file = str_take(&text);
    return in->job_file ? 0 : err_set(err, ERR_EXHAUSTED, "the job file takes more than %d bytes", CONFIG_BYTES);
}

/* A detect or evaluate job's own word about the people that its model has seen. */
static void take_seen(struct report_input *in, const char *result) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    if (!*result || json_parse(result, strlen(result), "result", &json, NULL) || !json_get(json, "patients"))
        return;
    const struct json *seen = json_get(json, "patients_seen");
    const struct outputs_model m = {.seen = (int)json_i64(seen ? seen : json_get(json, "seen_patients"), -1),
                                    .patients = (int)json_i64(json_get(json, "patients"), 0)};
    seen_words(&m, in->seen);
}

static int take_job(const struct arguments *o, struct report_input *in, struct err *err) {
    static const char *const wanted[] = {"report.json", "operating.svg", "training.svg", "events/*"};
    int code = 0;
    OWNED_ANSWER Brr__V1__Job *job = job_files_job(o, o->args[0], &code);
    if (!job)
        return code;
    str_format(in->title, sizeof in->title, "%s%s%s", job->id, *job->name ? ": " : "", job->name);
    take_seen(in, job->result_json);
    if (make_temporary(in, err) || (job->file && keep_job_file(in, job->file, err)))
        code = EXIT_FAILED;
    if (!code)
        code = job_files_fetch(o, job->id, wanted, sizeof wanted / sizeof *wanted, in->temporary);
    str_copy(in->folder, sizeof in->folder, in->temporary);
    return code;
}

static int take_folder(const struct arguments *o, struct report_input *in, struct err *err) {
    if (!fsio_is_dir(o->args[0]))
        return err_set(err, ERR_NOT_FOUND,
                       "there is no folder %s; expected job:ID, a job's folder or the output of `brrctl detect`", o->args[0]);
    str_copy(in->folder, sizeof in->folder, o->args[0]);
    str_copy(in->title, sizeof in->title, fsio_basename(o->args[0]));
    struct outputs_model m;
    if (outputs_get_model(o->args[0], &m))
        seen_words(&m, in->seen);
    return make_temporary(in, err);
}

static int read_json(struct report_input *in, struct err *err) {
    char path[4096 + 16];
    str_format(path, sizeof path, "%s/report.json", in->folder);
    return fsio_exists(path) ? json_read(path, JSON_BYTES, &in->report, err) : 0;
}

/* The job's own picture, else one made from the events. */
static int find_picture(struct report_input *in, struct err *err) {
    static const char *const names[] = {"operating.svg", "training.svg"};
    char path[4096 + 32];
    bool there = false;
    size_t len;
    for (size_t i = 0; i < sizeof names / sizeof *names && !there; i++) {
        str_format(path, sizeof path, "%s/%s", in->folder, names[i]);
        there = fsio_exists(path);
    }
    if (!there) {
        str_format(path, sizeof path, "%s/made.svg", in->temporary);
        in->picture_is_own = true;
        int rc = report_operating(&in->data, path, &there, err);
        if (rc)
            return rc;
    }
    return there ? fsio_read(path, PICTURE_BYTES, &in->picture, &len, err) : 0;
}

/* A training has no events of its own; a folder without any is an error. */
static int read_data(const struct arguments *o, struct report_input *in, struct err *err) {
    char events[4096 + 16];
    str_format(events, sizeof events, "%s/events", in->folder);
    const struct report_places places = {.events = fsio_is_dir(events) ? events : in->folder,
                                         .eeg = own(o)->eeg ? own(o)->eeg
                                                : *in->eeg  ? in->eeg
                                                            : NULL,
                                         .reference = own(o)->reference};
    if (places.eeg && !fsio_exists(places.eeg))
        return err_set(err, ERR_NOT_FOUND, "there is no %s; expected the folder of the recordings", places.eeg);
    int rc = report_data_read(&places, &in->data, err);
    if (rc == ERR_NOT_FOUND && !in->report && str_starts(o->args[0], "job:"))
        return err_set(err, ERR_NOT_FOUND,
                       "%s has neither a report nor events; expected a job that succeeded, which `brrctl jobs` lists", o->args[0]);
    if (rc != ERR_NOT_FOUND || !in->report)
        return rc;
    *err = (struct err){0};
    return 0;
}

/* Contents of a report without recordings: that of a training, whose report.json exists. */
static void tell_contents(const struct report_input *in, char *buf, size_t size) {
    str_format(buf, size, "the result%s of the job; it has no events, so no pages of EEG", in->picture ? " and the curves" : "");
}

/* Why a report with recordings has no page of EEG. */
static void tell_no_pages(const struct arguments *o, const struct report_input *in, char *buf, size_t size) {
    const struct report_data *d = &in->data;
    const char *eeg = own(o)->eeg ? own(o)->eeg : in->eeg;
    int events = 0;
    for (int i = 0; i < d->n; i++)
        events += d->recordings[i].n_detected + d->recordings[i].n_reference;
    if (!own(o)->most)
        str_copy(buf, size, "--most is 0");
    else if (!events)
        str_copy(buf, size, "nothing was detected, and no recording has a labelled seizure");
    else if (!*eeg)
        str_copy(buf, size, "the folder of the recordings is not known; name it with --eeg DIR");
    else if (d->n_without_eeg == d->n)
        str_format(buf, size,
                   "%.1500s has none of the recordings, such as %.1500s (.edf or _eeg.edf); name their folder with --eeg DIR", eeg,
                   d->recordings[0].name);
    else if (d->n_without_eeg)
        str_format(buf, size, "%.1500s has %d of the %d recordings, and no page could be made of them; the report lists its events",
                   eeg, d->n - d->n_without_eeg, d->n);
    else
        str_copy(buf, size, "the channels cannot be shown; the report says why at each event");
}

static void print_report(const struct arguments *o, const struct report_input *in, const char *path, size_t bytes, int pages) {
    char note[4096] = "";
    if (!in->data.n)
        tell_contents(in, note, sizeof note);
    else if (!pages)
        tell_no_pages(o, in, note, sizeof note);
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "report", path);
        json_put_i64(w, "bytes", (int64_t)bytes);
        json_put_i64(w, "recordings", in->data.n);
        json_put_i64(w, "pages", pages);
        json_put_str(w, "seen", in->seen);
        json_put_str(w, "note", note);
        output_end(w);
    } else if (!in->data.n) {
        printf("%s: %s, %.1f MB\n", path, note, (double)bytes / 1e6);
    } else {
        printf("%s: %s, %s of EEG%s%s%s, %.1f MB\n", path, counted(in->data.n, "recording").text, counted(pages, "page").text,
               *note ? " (" : "", note, *note ? ")" : "", (double)bytes / 1e6);
    }
}

static const char *output_of(const struct arguments *o) { return own(o)->output ? own(o)->output : "report.html"; }

static int write_report(const struct arguments *o, const struct report_input *in, struct err *err) {
    const char *path = output_of(o);
    struct str html = str_of(REPORT_BYTES);
    int pages = 0;
    const struct eeg_clip_config clip = {.montage = own(o)->montage,
                                         .bandpass_hz = {argument_or(own(o)->low_hz, 0.5), argument_or(own(o)->high_hz, 70)},
                                         .notch_hz = eeg_clip_notch(own(o)->notch)};
    const struct report_content content = {.title = in->title,
                                           .source = o->args[0],
                                           SAME_MEMBERS(*in, seen, report, picture, picture_is_own, job_file),
                                           .data = &in->data,
                                           .clip = &clip,
                                           .page_s = argument_or(own(o)->seconds, 15),
                                           .most_pages = own(o)->most >= 0 ? own(o)->most : MOST_PAGES};
    int rc = report_html(&content, &html, &pages, err);
    size_t bytes = html.len;
    rc = rc ? rc : fsio_write_text(path, &html, err);
    str_done(&html);
    if (rc || (rc = outputs_add(path, err)))
        return rc;
    print_report(o, in, path, bytes, pages);
    return 0;
}

/* The options, before anything is read. */
static bool check_options(const struct report_options *r, struct err *err) {
    int channels;
    if (r->output && !str_ends_nocase(r->output, ".html") && !str_ends_nocase(r->output, ".htm")) {
        err_set(err, ERR_INVALID, "--output %.300s: a report is HTML; expected a FILE.html, which browsers print as PDF",
                r->output);
        return false;
    }
    return !r->montage || !montage_channels(r->montage, NULL, &channels, err);
}

static int cmd_report(const struct arguments *o) {
    OWNED(input_done) struct report_input in = {0};
    struct err err = {0};
    int code = 0;
    if (!check_options(own(o), &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    if (outputs_check(output_of(o), o->force, &err))
        return brrctl_fail(&err);
    if (str_starts(o->args[0], "job:"))
        code = take_job(o, &in, &err);
    else if (take_folder(o, &in, &err))
        code = EXIT_FAILED;
    if (!code && (read_json(&in, &err) || read_data(o, &in, &err) || find_picture(&in, &err) || write_report(o, &in, &err)))
        code = EXIT_FAILED;
    return code && err.code ? brrctl_fail(&err) : code;
}

BRRCTL_COMMAND(
    report, "job:ID|DIR", ARGUMENTS(rows), cmd_report,
    "write a job or a folder of events as one HTML file, with a page of EEG an event",
    "DIR: the output of `brrctl detect`, or the folder of a job. Scores need labels, pages of EEG the recordings (--eeg).\n"
    "example: brrctl detect eeg --model demo --output found && brrctl report found --eeg eeg --output found.html\n"
    "example: brrctl report job:evaluate-260131-1");
