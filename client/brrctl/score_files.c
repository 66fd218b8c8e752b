#include "client/brrctl/score_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fsio.h"
#include "base/str.h"
#include "data/edf.h"
#include "data/labels.h"

enum { PATH_SIZE = 4096 };

static const char *const RECORDINGS[] = {"_eeg.edf", "_eeg.bdf", ".edf", ".bdf", "_EEG.EDF", "_EEG.BDF", ".EDF", ".BDF"};
static const char *const LABEL_FILES[] = {"_events.tsv", ".csv", ".csv_bi"}; /* the first that exists counts */
enum { N_RECORDINGS = sizeof RECORDINGS / sizeof *RECORDINGS, N_LABEL_FILES = sizeof LABEL_FILES / sizeof *LABEL_FILES };

/* Length of the ending among these that the path has, 0 = none. */
static size_t ending(const char *path, const char *const *endings, int n) {
    size_t len = strlen(path);
    for (int i = 0; i < n; i++) {
        size_t cut = strlen(endings[i]);
        if (len > cut && !strcasecmp(path + len - cut, endings[i]))
            return cut;
    }
    return 0;
}

bool score_stem(const char *path, char *ret, size_t size) {
    size_t cut = ending(path, RECORDINGS, N_RECORDINGS);
    cut = cut ? cut : ending(path, LABEL_FILES, N_LABEL_FILES);
    return str_format(ret, size, "%.*s", (int)(strlen(path) - cut), path);
}

/* The first file that exists of the stem with one of these endings. */
static bool beside(const char *path, const char *const *endings, int n, char ret[PATH_SIZE]) {
    char stem[PATH_SIZE];
    bool found = false;
    for (int i = 0; i < n && !found && score_stem(path, stem, sizeof stem); i++)
        found = str_format(ret, PATH_SIZE, "%s%s", stem, endings[i]) && fsio_exists(ret);
    return found;
}

/* A table of another origin has the ending of TUSZ labels too; theirs begin with their version. */
static bool is_tusz(const char *path) {
    char start[32] = "";
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool read = fgets(start, sizeof start, f) != NULL;
    fclose(f);
    return read && strstr(start, "version = ");
}

bool score_is_reference(const char *path) {
    char other[PATH_SIZE];
    if (ending(path, LABEL_FILES, 1))
        return true;
    bool recording = edf_named(path), table = ending(path, LABEL_FILES, N_LABEL_FILES) && is_tusz(path);
    if ((!recording && !table) || beside(path, LABEL_FILES, 1, other))
        return false;
    return recording || (!beside(path, RECORDINGS, N_RECORDINGS, other) && beside(path, LABEL_FILES, N_LABEL_FILES, other) &&
                         !strcmp(other, path));
}

static int read_tsv(const char *path, struct score_labels *ret, struct err *err) {
    struct events_file file;
    int rc = events_read_tsv(path, &file, err);
    if (rc)
        return rc;
    struct score_event *events = calloc(file.n_rows + 1, sizeof *events);
    int n = 0;
    for (size_t i = 0; events && i < file.n_rows; i++)
        if (labels_is_seizure(file.rows[i].type) && !isnan(file.rows[i].duration_s))
            events[n++] = (struct score_event){file.rows[i].onset_s, file.rows[i].onset_s + file.rows[i].duration_s};
    *ret = (struct score_labels){events, n, file.recording_s};
    events_done(&file);
    return events ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
}

/* Labels as training finds them; edf may be NULL. */
static int read_labels(const char *edf_path, const char *format, const struct edf *edf, struct score_labels *ret, struct err *err) {
    struct labels labels;
    int rc = labels_load(edf_path, format, edf, &labels, err);
    if (rc)
        return rc;
    struct score_event *events = calloc(labels.n_runs + 1, sizeof *events);
    for (size_t i = 0; events && i < labels.n_runs; i++)
        events[i] = (struct score_event){labels.runs[i].onset_s, labels.runs[i].end_s};
    if (!events)
        rc = err_set(err, ERR_EXHAUSTED, "out of memory reading the labels of %s", edf_path);
    else if (labels.source == LABELS_NONE)
        rc = err_set(err, ERR_NOT_FOUND, "%s has no labels (looked for %.300s)", edf_path, labels.tried);
    else
        *ret = (struct score_labels){events, (int)labels.n_runs, labels.recording_s};
    if (rc)
        free(events);
    labels_done(&labels);
    return rc;
}

static int read_recording(const char *path, const char *format, struct score_labels *ret, struct err *err) {
    struct edf *edf = NULL;
    int rc = edf_open(path, &edf, err);
    if (rc)
        return rc;
    const double duration_s = edf_info(edf)->duration_s;
    rc = read_labels(path, format, edf, ret, err);
    edf_close(edf);
    if (rc)
        return rc;
    ret->duration_s = duration_s;
    return 0;
}

/* The recording beside a label file that does not state the length. */
static int add_length(const char *path, struct score_labels *labels, struct err *err) {
    char recording[PATH_SIZE];
    struct edf *edf = NULL;
    if (!isnan(labels->duration_s) || !beside(path, RECORDINGS, N_RECORDINGS, recording))
        return 0;
    int rc = edf_open_header(recording, &edf, err);
    if (rc)
        return rc;
    labels->duration_s = edf_info(edf)->duration_s;
    edf_close(edf);
    return 0;
}

/* By the file's name. */
static int read_any(const char *path, const char *format, struct score_labels *ret, struct err *err) {
    char stem[PATH_SIZE], name[PATH_SIZE + 8];
    bool tusz = ending(path, LABEL_FILES + 1, N_LABEL_FILES - 1) > 0;
    if (edf_named(path))
        return read_recording(path, format, ret, err);
    if (!tusz)
        return read_tsv(path, ret, err);
    if (!score_stem(path, stem, sizeof stem) || !str_format(name, sizeof name, "%s.edf", stem))
        return err_set(err, ERR_RANGE, "the path is too long: %.200s…", path);
    if (!fsio_exists(path))
        return err_set(err, ERR_NOT_FOUND, "there is no %s", path);
    return read_labels(name, str_ends(path, "_bi") ? "tusz-csv_bi" : "tusz-csv", NULL, ret, err);
}

int score_labels_read(const char *path, const char *format, struct score_labels *ret, struct err *err) {
    struct score_labels labels = {0};
    int rc = read_any(path, format, &labels, err);
    if (rc)
        return rc;
    if ((rc = add_length(path, &labels, err))) {
        free(labels.events);
        return rc;
    }
    *ret = labels;
    return 0;
}
