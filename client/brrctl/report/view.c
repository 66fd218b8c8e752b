/* view FILE: the page of the daemon that shows a recording, with its labels, the events of a file and those of a model. */

#include "base/needed.h"
#include "brr/v1/admin.pb-c.h"
#include "client/brrctl/detect/detection.h"
#include "client/brrctl/jobs/job_files.h"
#include "client/brrctl/report/viewing.h"
#include "eeg/events.h"
#include "formats/eegfile.h"

enum { MARKS = 1024 /* of a request */, P_MOST = 100000, P_UNITS = 200, P_NONE = 255 };

struct view_options {
    const char *model, *events;
    double at_s;
};
#define OPTIONS struct view_options
static const struct argument option_rows[] = {
    TEXT("--model", model, "REF", "run this model first, and mark its events and show its probability"),
    TEXT("--events", events, "FILE|job:ID",
         "mark the events of a file, such as detect writes, or those that job:ID found in the recording"),
    NUMBER("--at", at_s, "S", "the page opens at this second of the recording", 0, 1e9),
};

/* The request under construction. */
struct viewing {
    Brr__V1__ViewRequest request;
    Brr__V1__ViewMark marks[MARKS], *list[MARKS];
    char texts[MARKS + 1][VIEWING_TEXT], path[4096]; /* the last text: of marks that do not fit */
    size_t left_out;
    uint8_t *p;
};

struct viewing *viewing_new(const char *recording, struct err *err) {
    struct viewing *v = needed(calloc(1, sizeof *v));
    if (fsio_absolute(v->path, sizeof v->path, recording, err)) {
        free(v);
        return NULL;
    }
    brr__v1__view_request__init(&v->request);
    v->request.at_s = -1;
    return v;
}

void viewing_free(struct viewing *v) {
    if (v)
        free(v->p);
    free(v);
}

void viewing_answers(struct viewing *v, char *folder, char *relative) {
    v->request.review = folder;
    v->request.review_path = relative;
}

void viewing_at(struct viewing *v, double at_s) { v->request.at_s = at_s >= 0 ? at_s : -1; }

char *viewing_mark(struct viewing *v, double onset_s, double end_s) {
    const size_t n = v->request.n_marks;
    if (n == MARKS) {
        v->left_out++;
        return v->texts[MARKS];
    }
    v->request.n_marks++;
    brr__v1__view_mark__init(&v->marks[n]);
    v->marks[n].onset_s = onset_s;
    v->marks[n].end_s = end_s;
    v->marks[n].text = v->texts[n];
    v->list[n] = &v->marks[n];
    return v->texts[n];
}

static int mark_file(struct viewing *v, const char *path, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *recording = NULL;
    OWNED(events_done) struct events_file events = {0};
    int rc = eegfile_open_header(v->path, &recording, err);
    if (rc || (rc = events_read(path, &events, err)))
        return rc;
    events_relate(&events, eegfile_info(recording));
    for (size_t i = 0; i < events.n_rows; i++) {
        const struct event_row *e = &events.rows[i];
        if (!strcmp(e->type, "bckg"))
            continue;
        char *text = viewing_mark(v, e->onset_s, isfinite(e->end_s) ? e->end_s : e->onset_s);
        str_format(text, VIEWING_TEXT, isfinite(e->confidence) ? "%s %.2f" : "%s", e->type, e->confidence);
    }
    return 0;
}

/* Search for the events file of a recording among the files of a job: the file with the recording's name whose folders have most in
 * common with those of the recording. */
struct job_search {
    const char *recording;
    size_t stem, likeness; /* stem: length of the recording's path without its ending; likeness: of the best so far */
    struct str data;
};

static int compare_file(void *ctx, const struct job_file *file, struct err *err) {
    struct job_search *s = ctx;
    size_t n = 0, len = strlen(file->path) - strlen("_events.tsv");
    (void)err;
    while (n < len && n < s->stem && file->path[len - 1 - n] == s->recording[s->stem - 1 - n])
        n++;
    if (n > s->likeness) {
        s->likeness = n;
        str_clear(&s->data);
        str_append(&s->data, file->data, file->len);
    }
    return 0;
}

/* Returns an exit code, after printing the error. */
static int mark_job(const struct arguments *o, struct viewing *v, const char *id) {
    struct job_search s = {.recording = v->path, .stem = eegfile_stem(v->path, true)};
    const char *name = fsio_basename(v->path);
    const char *folder = getenv("TMPDIR");
    char pattern[512], path[4096];
    const char *const patterns[] = {pattern};
    struct err err = {0};
    str_format(pattern, sizeof pattern, "*%.*s_events.tsv", (int)(s.stem - (size_t)(name - v->path)), name);
    str_format(path, sizeof path, "%.4000s/brrctl-view-XXXXXX_events.tsv", folder && *folder ? folder : "/tmp");
    str_init(&s.data, 64 << 20);
    int code = job_files_each(o, id, patterns, 1, compare_file, &s), fd = -1;
    if (code == 0 && !s.likeness)
        err_set(&err, ERR_NOT_FOUND, "job %s has no events of %s", id, name);
    else if (code == 0 && ((fd = mkstemps(path, (int)strlen("_events.tsv"))) < 0 ||
                           write(fd, str_cstr(&s.data), s.data.len) != (ssize_t)s.data.len))
        err_errno(&err, errno, "cannot write %s", path);
    else if (code == 0)
        mark_file(v, path, &err);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    str_done(&s.data);
    return code || !err.code ? code : brrctl_fail(&err);
}

/* The highest probability of each step: as many as a request holds, at least a second long. */
static void keep_probabilities(struct viewing *v, const struct detection *d) {
    const int64_t step = DETECTION_RATE_HZ * (1 + d->n_probabilities / DETECTION_RATE_HZ / P_MOST),
                  n = (d->n_probabilities + step - 1) / step;
    v->p = needed(malloc((size_t)n + 1));
    for (int64_t i = 0; i < n; i++) {
        float most = NAN;
        for (int64_t k = i * step; k < (i + 1) * step && k < d->n_probabilities; k++)
            most = most >= d->probabilities[k] ? most : d->probabilities[k];
        v->p[i] = isnan(most) ? P_NONE : (uint8_t)lrintf(most * P_UNITS);
    }
    v->request.probabilities = (ProtobufCBinaryData){.len = (size_t)n, .data = v->p};
    v->request.step_s = (double)step / DETECTION_RATE_HZ;
}

static void mark_detections(struct viewing *v, const char *name, const struct detection *d) {
    for (int i = 0; i < d->n_events; i++) {
        char *text = viewing_mark(v, (double)d->events[i].first / DETECTION_RATE_HZ, (double)d->events[i].end / DETECTION_RATE_HZ);
        str_format(text, VIEWING_TEXT, "%.40s %.2f", name, d->events[i].confidence);
    }
    keep_probabilities(v, d);
}

/* Returns an exit code, after printing the error. */
static int run_model(const struct arguments *o, struct viewing *v, const char *model) {
    char ref[4096];
    const struct detection_config config = {
        .want_trace = true,
        .playback = {.model = brrctl_ref(model, ref, sizeof ref), .client = "brrctl view", .no_resume = true, .alarm_hop_s = -1}};
    const struct source_reading reading = {0};
    OWNED_POINTER(brr_disconnect) brr_client *client = NULL;
    struct source *source = NULL;
    struct detection d;
    struct brr_error failed = {0};
    struct err err = {0};
    int code = 0;
    if (!(client = brrctl_connect(o, &code)))
        return code;
    if (source_open_file(v->path, &reading, &source, &err) || detection_open(&d, v->path, source, &config, &err))
        return brrctl_fail(&err);
    if (detection_run(&d, client, &failed))
        code = brrctl_fail_call(&failed);
    else
        mark_detections(v, model, &d);
    detection_done(&d);
    return code;
}

int viewing_show(const struct arguments *o, struct viewing *v) {
    if (v->left_out)
        fprintf(stderr, "brrctl: note: the page shows %d marks at most; %zu are left out\n", MARKS, v->left_out);
    v->request.marks = v->list;
    v->request.recording = v->path;
    return brrctl_link(o, "/brr.v1.Admin/View", &v->request.base, true);
}

static int cmd_view(const struct arguments *o) {
    const struct view_options *own = own(o);
    struct err err;
    int code = 0;
    struct viewing *v = viewing_new(o->args[0], &err);
    if (!v)
        return brrctl_fail(&err);
    if (own->events && str_starts(own->events, "job:"))
        code = mark_job(o, v, own->events + strlen("job:"));
    else if (own->events && mark_file(v, own->events, &err))
        code = brrctl_fail(&err);
    code = code ? code : own->model ? run_model(o, v, own->model) : 0;
    viewing_at(v, own->at_s);
    code = code ? code : viewing_show(o, v);
    viewing_free(v);
    return code;
}

BRRCTL_COMMAND(view, "FILE", ARGUMENTS(option_rows), cmd_view,
               "show a recording's EEG, labels and events on a page of the daemon, where events are answered too",
               "The daemon reads FILE, by the rules for the files that jobs name. The address is a link as of `brrctl page`; a "
               "terminal on\n"
               "a desktop opens it in the browser (xdg-open).\n"
               "example: brrctl view recording.edf --model ward");
