#include "client/brrctl/report/score_files.h"

#include "base/counted.h"
#include "base/needed.h"
#include "eeg/labels.h"
#include "formats/eegfile.h"
#include "formats/letters.h"

enum { PATH_SIZE = 4096 };

/* The endings of label files, the first that exists counts: TSV, those of TUSZ, the other formats of events. NULL past the end. */
static const char *label_ending(int i) {
    static const char *const first[] = {"_events.tsv", "_eeg.csv", ".csv", "_eeg.csv_bi", ".csv_bi"};
    enum { N_FIRST = sizeof first / sizeof *first };
    const struct events_format *format = i < N_FIRST ? NULL : events_format_at(i - N_FIRST);
    return i < N_FIRST ? first[i] : format ? format->ending : NULL;
}

static size_t cut_of(const char *path, const char *ending) {
    size_t len = strlen(path), cut = strlen(ending);
    return len > cut && !strcasecmp(path + len - cut, ending) ? cut : 0;
}

/* Length of the ending that says that the file holds labels; 0 = it holds none. */
static size_t labels_cut(const char *path) {
    size_t cut = 0;
    for (int i = 0; !cut && label_ending(i); i++)
        cut = cut_of(path, label_ending(i));
    return cut;
}

bool score_stem(const char *path, char *ret, size_t size) {
    size_t stem = eegfile_named(path) ? eegfile_stem(path, true) : strlen(path) - labels_cut(path);
    return str_format(ret, size, "%.*s", (int)stem, path);
}

/* The first file with labels whose path is the stem and an ending of theirs. */
static bool labels_beside(const char *stem, char *ret, size_t size) {
    for (int i = 0; label_ending(i); i++)
        if (str_format(ret, size, "%s%s", stem, label_ending(i)) && letters_find(ret, size))
            return true;
    return false;
}

bool score_is_labels(const char *path) {
    char stem[PATH_SIZE], first[PATH_SIZE];
    return labels_cut(path) && score_stem(path, stem, sizeof stem) && labels_beside(stem, first, sizeof first) &&
           !strcmp(first, path);
}

bool score_is_labels_name(const char *path) { return labels_cut(path) != 0; }

/* The recording of a file with labels. */
static bool recording_beside(const char *path, char ret[PATH_SIZE]) {
    char stem[PATH_SIZE];
    return score_stem(path, stem, sizeof stem) && eegfile_beside(stem, ret, PATH_SIZE);
}

/* A table of another origin has the ending of TUSZ labels too; theirs begin with their version. */
static bool is_tusz(const char *path) {
    char start[32] = "";
    size_t bytes;
    OWNED_FD int fd = -1;
    return !fsio_open_file(path, &fd, &bytes, NULL) && read(fd, start, sizeof start - 1) > 0 && strstr(start, "version = ");
}

bool score_is_reference(const char *path) {
    char other[PATH_SIZE], stem[PATH_SIZE];
    if (cut_of(path, "_events.tsv"))
        return true;
    bool recording = eegfile_named(path), table = cut_of(path, ".csv") || cut_of(path, ".csv_bi");
    if ((!recording && !labels_cut(path)) || (table && !is_tusz(path)) || !score_stem(path, stem, sizeof stem) ||
        (str_format(other, sizeof other, "%s_events.tsv", stem) && letters_find(other, sizeof other)))
        return false;
    return recording || (!recording_beside(path, other) && labels_beside(stem, other, sizeof other) && !strcmp(other, path));
}

/* Times that the file counts from something else than the recording's first sample. */
static int relate(const char *path, struct events_file *file, struct err *err) {
    char recording[PATH_SIZE];
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    if (isnan(file->origin_s) || !recording_beside(path, recording))
        return 0;
    int rc = eegfile_open_header(recording, &edf, err);
    if (rc)
        return rc;
    (void)events_relate(file, eegfile_info(edf));
    return 0;
}

void score_labels_done(struct score_labels *labels) {
    FREE_MEMBERS(*labels, events, unsure, gaps);
    *labels = (struct score_labels){0};
}

int score_gaps(const struct eeg_info *info, struct score_event **ret) {
    struct score_event *gaps = *ret = needed(calloc((size_t)info->n_segments + 1, sizeof *gaps));
    int n = 0;
    for (int i = 1; i < info->n_segments; i++)
        if (eeg_gap_before(info, i, &gaps[n].onset_s) > 0)
            gaps[n++].end_s = info->segments[i].start_s;
    return n;
}

static void make_room(struct score_labels *labels, size_t n) {
    labels->events = needed(calloc(n + 1, sizeof *labels->events));
    labels->unsure = needed(calloc(n + 1, sizeof *labels->unsure));
}

static int read_events(const char *path, const char *rule, struct score_labels *ret, struct err *err) {
    OWNED(events_done) struct events_file file = {0};
    struct score_labels labels = {0};
    int rc;
    if ((rc = events_read(path, &file, err)) || (rc = relate(path, &file, err)))
        return rc;
    make_room(&labels, file.n_rows);
    size_t others = 0;
    for (size_t i = 0; i < file.n_rows; i++) {
        const struct event_row *row = &file.rows[i];
        const struct score_event event = {row->onset_s, row->end_s};
        const enum label_class class = label_rule_class(rule, row->type);
        others += class == LABEL_OTHER && !label_is_background(row->type);
        if (isnan(row->duration_s) && class != LABEL_OTHER) {
            score_labels_done(&labels);
            return err_set(err, ERR_INVALID, "%s: the event %s at %.2f s has no duration", path, row->type, row->onset_s);
        }
        if (class == LABEL_SEIZURE)
            labels.events[labels.n++] = event;
        else if (class == LABEL_UNSURE)
            labels.unsure[labels.n_unsure++] = event;
    }
    labels.duration_s = file.recording_s;
    labels.others_alone = others && others == file.n_rows;
    *ret = labels;
    return 0;
}

static struct score_labels labels_of(const struct labels *found) {
    struct score_labels labels = {0};
    make_room(&labels, found->n_runs + found->n_unknown);
    for (size_t i = 0; i < found->n_runs; i++)
        labels.events[labels.n++] = (struct score_event){found->runs[i].onset_s, found->runs[i].end_s};
    for (size_t i = 0; i < found->n_unknown; i++)
        labels.unsure[labels.n_unsure++] = (struct score_event){found->unknown[i].onset_s, found->unknown[i].end_s};
    labels.duration_s = found->recording_s;
    return labels;
}

/* Labels as training finds them. */
static int read_labels(const char *recording_path, const char *rule, const struct eegfile *edf, struct score_labels *ret,
                       struct err *err) {
    OWNED(labels_done) struct labels found = {0};
    char tried[LABELS_TRIED_SIZE];
    int rc = labels_load(recording_path, rule, edf, &found, err);
    if (rc)
        return err_of_file(err, recording_path, recording_path);
    if (found.source == LABELS_NONE)
        return err_set(err, ERR_NOT_FOUND, "%s has no labels (%s)", recording_path, labels_tried(&found, tried));
    *ret = labels_of(&found);
    return 0;
}

static int read_table(const char *path, const char *rule, struct score_labels *ret, struct err *err) {
    OWNED(labels_done) struct labels found = {0};
    int rc = labels_read_table(path, rule, &found, err);
    if (rc)
        return rc;
    *ret = labels_of(&found);
    return 0;
}

static int read_recording(const char *path, const char *rule, struct score_labels *ret, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    int rc;
    if ((rc = eegfile_open(path, &edf, err)) || (rc = read_labels(path, rule, edf, ret, err)))
        return rc;
    ret->duration_s = eegfile_info(edf)->duration_s;
    ret->n_gaps = score_gaps(eegfile_info(edf), &ret->gaps);
    return 0;
}

/* From the recording beside a label file: its length and its gaps. */
static int add_length(const char *path, struct score_labels *labels, struct err *err) {
    char recording[PATH_SIZE];
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    struct err why = {0};
    if (eegfile_named(path) || !recording_beside(path, recording))
        return 0;
    int rc = eegfile_open_header(recording, &edf, &why);
    if (rc && isnan(labels->duration_s))
        return err_set(err, rc, "%s", why.message);
    if (rc) {
        fprintf(stderr, "brrctl: note: gaps count as hours, the recording cannot be read: %s\n", why.message);
        return 0;
    }
    const double own_s = eegfile_info(edf)->duration_s;
    if (fabs(own_s - labels->duration_s) >= 1)
        fprintf(stderr, "brrctl: note: %s: it says that the recording lasts %.2f s, and %s lasts %.2f s, which counts\n", path,
                labels->duration_s, fsio_basename(recording), own_s);
    labels->duration_s = own_s;
    labels->n_gaps = score_gaps(eegfile_info(edf), &labels->gaps);
    return 0;
}

/* By the file's name. */
static int read_any(const char *path, const char *rule, struct score_labels *ret, struct err *err) {
    if (eegfile_named(path))
        return read_recording(path, rule, ret, err);
    if (!cut_of(path, ".csv") && !cut_of(path, ".csv_bi"))
        return read_events(path, rule, ret, err);
    return fsio_exists(path) ? read_table(path, rule, ret, err) : err_set(err, ERR_NOT_FOUND, "there is no %s", path);
}

int score_labels_read(const char *path, const char *rule, struct score_labels *ret, struct err *err) {
    struct score_labels labels = {0};
    int rc = read_any(path, rule, &labels, err);
    if (rc)
        return rc;
    if ((rc = add_length(path, &labels, err)))
        score_labels_done(&labels);
    else
        *ret = labels;
    return rc;
}

void score_note_beyond(const char *name, const struct score_labels *reference, double recording_s) {
    enum { ROUNDING_S = 1 }; /* of lengths in label files */
    char stated[64] = "";
    double last_s = 0;
    int beyond = 0;
    for (int i = 0; i < reference->n; i++)
        if (reference->events[i].end_s > recording_s + ROUNDING_S) {
            last_s = fmax(last_s, reference->events[i].end_s);
            beyond++;
        }
    if (!beyond)
        return;
    if (fabs(reference->duration_s - recording_s) >= 0.01)
        str_format(stated, sizeof stated, ", the reference's %.2f s", reference->duration_s);
    fprintf(stderr,
            "brrctl: note: %s: %d of %s end%s after the end of the recording, at %.2f s at the latest (the recording lasts %.2f "
            "s%s); expected the labels of this recording\n",
            name, beyond, counted(reference->n, "reference event").text, beyond == 1 ? "s" : "", last_s, recording_s, stated);
}
