#include "client/brrctl/report/score_pairs.h"

#include "base/counted.h"
#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/report/score_files.h"
#include "client/brrctl/report/stems.h"
#include "eeg/labels.h"
#include "eeg/tree.h"
#include "formats/eegfile.h"
#include "store/outputs.h"

/* The recording's patient, by the rule that trainings use. */
static char *subject_of(const char *path) {
    char patient[4096], stem[4096];
    const char *name = score_stem(path, stem, sizeof stem) ? stem : path;
    return strdup(labels_patient(name, LABELS_PATIENT_AUTO, patient, sizeof patient, NULL, NULL) ? name : patient);
}

static int note_recording(void *ctx, const struct tree_recording *recording, struct err *err) {
    struct score_pairs *p = ctx;
    char path[4096], stem[4096] = "";
    int rc = fsio_join(path, sizeof path, p->ref, recording->path, err);
    if (rc)
        return rc;
    (void)score_stem(path, stem, sizeof stem);
    p->recordings = needed(realloc(p->recordings, (size_t)(p->n_recordings + 2) * sizeof *p->recordings));
    p->recordings[p->n_recordings++] = needed(strdup(path));
    p->recordings[p->n_recordings++] = needed(strdup(stem));
    return 0;
}

static void say_left_out(void *ctx, const char *text) {
    const struct score_pairs *p = ctx;
    if (!p->quiet)
        fprintf(stderr, "brrctl: note: %s\n", text);
}

/* The recordings of which each counts once, as `dataset` and `detect` count them. */
static int find_recordings(struct score_pairs *p, struct err *err) {
    const struct tree_config tree = {.root = p->ref, .all_names = true, .one_header = true, .note = say_left_out, .ctx = p};
    int rc = tree_walk(&tree, note_recording, err);
    SORT(p->recordings, p->n_recordings, order_strings);
    return rc;
}

/* False for the labels of a recording that does not count, which was noted. */
static bool is_counted(const struct score_pairs *p, const char *path) {
    char stem[4096], recording[4096];
    const bool own = eegfile_named(path);
    const char *key = own ? path : stem;
    if (!score_stem(path, stem, sizeof stem) || (!own && !eegfile_beside(stem, recording, sizeof recording)))
        return true;
    if (!own)
        (void)score_stem(recording, stem, sizeof stem);
    return p->n_recordings && bsearch(&key, p->recordings, (size_t)p->n_recordings, sizeof *p->recordings, order_strings);
}

/* The hypothesis of a reference: the same relative path, else the same name anywhere where both folders have it once. *ret NULL
 * without one. */
static int find_hypothesis(struct score_pairs *p, const char *relative, const char **ret, struct err *err) {
    char stem[4096];
    *ret = p->hyp;
    if (!p->directory)
        return 0;
    if (!score_stem(relative, stem, sizeof stem))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", relative);
    if ((*ret = stems_path(p->hypotheses, stem)))
        return 0;
    int rc = stems_find(p->hypotheses, fsio_basename(stem), ret, err);
    return rc || !*ret ? rc : stems_check_alone(p->references, stem, p->hyp, err);
}

/* A hypothesis that cannot be read or has another length in whole seconds counts as no event, as in SzCORE. Returns false, after
 * printing why, for such a file. A length that the reference lacks is the hypothesis's. */
static bool read_hypothesis(const char *path, const char *rule, struct score_recording *r) {
    struct score_labels hyp = {.duration_s = NAN};
    struct err err = {0};
    int rc = score_labels_read(path, rule, &hyp, &err);
    if (rc == 0 && isnan(r->duration_s))
        r->duration_s = hyp.duration_s;
    if (rc == 0 && !isnan(hyp.duration_s) && floor(hyp.duration_s) != floor(r->duration_s)) {
        rc = err_set(&err, ERR_INVALID, "%s: recordingDuration is %.2f s, the reference's %.2f s", path, hyp.duration_s,
                     r->duration_s);
        hyp.n = 0;
    }
    if (rc)
        fprintf(stderr, "brrctl: counted as a recording without events: %s\n", err.message);
    FREE_MEMBERS(hyp, unsure, gaps);
    r->hyp = hyp.events;
    r->n_hyp = hyp.n;
    return !rc;
}

static int add_pair(struct score_pairs *p, const char *ref_path, const char *relative, struct err *err) {
    const char *hyp_path;
    struct score_labels ref;
    p->own += outputs_own(ref_path);
    int rc = score_labels_read(ref_path, p->rule, &ref, err);
    if (rc == ERR_NOT_FOUND && p->directory) { /* a recording that nobody has labelled */
        if (!p->quiet)
            fprintf(stderr, "brrctl: left out: %s\n", err->message);
        *err = (struct err){0};
        return 0;
    }
    if (rc)
        return rc;
    p->others_alone += ref.others_alone;
    p->items = needed(realloc(p->items, (size_t)(p->n + 1) * sizeof *p->items));
    struct score_recording *r = &p->items[p->n++];
    *r = (struct score_recording){.name = strdup(relative),
                                  .subject = subject_of(relative),
                                  SAME_MEMBERS(ref, duration_s, unsure, n_unsure, gaps),
                                  .ref = ref.events,
                                  .n_ref = ref.n,
                                  .n_gaps = ref.n_gaps};
    if ((rc = find_hypothesis(p, relative, &hyp_path, err)))
        return rc;
    if (hyp_path)
        p->unusable += !read_hypothesis(hyp_path, p->rule, r);
    else
        p->missing++; /* counts as no event */
    score_note_beyond(relative, &ref, r->duration_s);
    if (isnan(r->duration_s))
        return err_set(err, ERR_INVALID,
                       "%s: no recordingDuration, in the hypothesis neither; scores need the recording's length: put the recording "
                       "beside the reference",
                       ref_path);
    return 0;
}

/* Detections are often written into a folder of the recordings. */
static void find_inside(struct score_pairs *p) {
    OWNED_MEMORY char *ref = realpath(p->ref, NULL);
    OWNED_MEMORY char *hyp = realpath(p->hyp, NULL);
    const size_t n = ref ? strlen(ref) : 0;
    if (n && hyp && !strncmp(ref, hyp, n) && hyp[n] == '/')
        str_format(p->inside, sizeof p->inside, "%s/", hyp + n + 1);
}

static int visit(void *ctx, const struct fsio_found *found, struct err *err) {
    struct score_pairs *p = ctx;
    char path[4096];
    if (*p->inside && str_starts(found->path, p->inside))
        return 0;
    int rc = fsio_join(path, sizeof path, p->ref, found->path, err);
    if (rc || found->folder)
        return rc;
    if (!found->special && !found->absent)
        return tree_is_apple_double(path) || !score_is_reference(path) || !is_counted(p, path)
                   ? 0
                   : add_pair(p, path, found->path, err);
    if (!p->quiet && score_is_labels_name(path)) /* by its name: a FIFO is not opened */
        stems_say_stranger(path);
    return 0;
}

/* Two files or two folders, and a hypothesis that is there: what is missing counts as no event, but not everything. */
static int check_pair(const struct score_pairs *p, struct err *err) {
    if (!fsio_exists(p->hyp))
        return err_set(err, ERR_NOT_FOUND, "there is no %s; expected the events TSV files to be scored", p->hyp);
    if (fsio_is_dir(p->hyp) != p->directory && fsio_exists(p->ref))
        return err_set(err, ERR_INVALID, "%s is a %s and %s a %s; expected two files or two folders", p->ref,
                       p->directory ? "folder" : "file", p->hyp, p->directory ? "file" : "folder");
    return 0;
}

void score_pairs_done(struct score_pairs *p) {
    stems_free(p->references);
    stems_free(p->hypotheses);
    for (int i = 0; i < p->n_recordings; i++)
        free(p->recordings[i]);
    free(p->recordings);
    for (int i = 0; i < p->n; i++) {
        free((void *)(uintptr_t)p->items[i].name);
        free((void *)(uintptr_t)p->items[i].subject);
        free((void *)(uintptr_t)p->items[i].ref);
        free((void *)(uintptr_t)p->items[i].hyp);
        free((void *)(uintptr_t)p->items[i].unsure);
        free((void *)(uintptr_t)p->items[i].gaps);
    }
    free(p->items);
}

int score_pairs_find(struct score_pairs *p, struct err *err) {
    int rc;
    p->directory = fsio_is_dir(p->ref);
    find_inside(p);
    if ((rc = check_pair(p, err)) ||
        (p->directory &&
         ((rc = find_recordings(p, err)) || (rc = stems_read(p->ref, score_is_reference, NULL, &p->references, err)) ||
          (rc = stems_read(p->hyp, score_is_labels, p->quiet ? NULL : stems_say_stranger, &p->hypotheses, err)))) ||
        (rc = p->directory ? fsio_walk_names(p->ref, visit, p, err) : add_pair(p, p->ref, fsio_basename(p->ref), err)))
        return rc;
    if (!p->n)
        return err_set(err, ERR_NOT_FOUND,
                       "no labelled recording and no event file (*_events.tsv, *.csv, *.csv_bi, *_annotations.*) below %s", p->ref);
    if (p->own && !p->quiet)
        fprintf(stderr,
                "brrctl: note: %d of %s written by brrd and not changed since: a comparison of detections, not with labels\n",
                p->own, counted(p->n, "reference").text);
    if (p->others_alone && !p->quiet)
        fprintf(stderr,
                "brrctl: note: %d of %s with other events alone, neither a seizure nor bckg: counted as seizure-free; did anybody "
                "look for seizures there? --seizure PATTERN names some\n",
                p->others_alone, counted(p->n, "reference").text);
    if (p->missing)
        fprintf(stderr, "brrctl: %d of %d recording%s no file below %s: counted as without events\n", p->missing, p->n,
                p->n == 1 ? " has" : "s have", p->hyp);
    return 0;
}
