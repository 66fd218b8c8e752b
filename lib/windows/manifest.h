/* manifest: the recordings of a data source with patients, labels and window classes, and splits by patient. Opening reads headers
 * and labels (in parallel, with progress), or the facts that an earlier opening stored in the cache volume; samples are decoded and
 * filtered into the window cache at first use (recording_load). Errors of single files are kept in their entries and do not stop
 * the job unless fail_on_bad_file; a failed fetch always does. Immutable once open except for manifest_hide and the loading of
 * samples; any thread may read it. */
#pragma once

#include "eeg/labels.h"
#include "windows/patients.h"
#include "windows/window.h"

/* Seizure share of a window's valid samples: 0, between, ≥ 0.99. */
enum window_class { WINDOW_NONE, WINDOW_PARTIAL, WINDOW_FULL };
enum { MANIFEST_MAX_FILES = 1 << 20, MANIFEST_MAX_WORKERS = 64, MANIFEST_MAX_SOURCES = 16 };
/* A recording without samples, longer than this, or with a longer gap is a bad file: its clock is wrong, and scores are per hour.
 */
enum { MANIFEST_MAX_S = 60 * 24 * 3600 - 1, MANIFEST_MAX_GAP_S = 30 * 24 * 3600 };

/* One of several sources. Its recordings are NAME/path and its patients NAME/patient, so that those of different sources differ. */
struct manifest_source {
    const char *name;
    double weight; /* share of an epoch's windows in proportion to the other sources' (windows/sampler); 0: none of them has one */
    const char *root;      /* absolute local directory; in a job file as it says */
    struct mirror *mirror; /* that owns root, or NULL */
};

struct manifest_config {
    const char *root;                      /* absolute local directory */
    struct mirror *mirror;                 /* the mirror that owns root, or NULL; must outlive the manifest */
    const struct manifest_source *sources; /* (n_sources) in place of root and mirror; NULL: a single source without a name */
    int n_sources;
    const char *cache_dir;
    struct cache *cache; /* of windows, as in struct window_build; may be NULL */
    struct frontend_config frontend;
    int64_t window, hop; /* samples */
    const char *labels, *unlabeled;
    double hole_every_s; /* as in struct window_build */
    enum labels_patient_rule patient;
    const char *patient_by; /* in front of it, a pattern or a .csv (eeg/labels_path.h); NULL: none */
    bool fail_on_bad_file;
    int workers;
    int64_t max_files; /* of each source; 0 = all (first files in sorted order) */
    bool rebuild;
    void (*note)(void *ctx, const char *text); /* of what was left out (eeg/tree.h), with the ctx of the progress; may be NULL */
};

struct manifest_entry {
    const char *relative_path;   /* relative to root, with a source's name in front */
    const char *patient;         /* by the rule (labels_patient), with a source's name in front */
    const char *own_patient;     /* without it */
    int source;                  /* number of its source, 0 if there is one */
    bool lone;                   /* the path has no known form: the recording is a patient of its own */
    const char *split;           /* "train" "dev" "eval" when the path contains it (TUSZ), else "" */
    struct recording *recording; /* planned; NULL for a bad or skipped file */
    const char *error;           /* NULL, or why the file cannot be used */
    uint64_t device, inode;      /* of the file, the same for all names of it */
    bool skipped;                /* unlabelled and the rule is skip: no recording and no error */
    int64_t windows[3];          /* per class, windows at least half valid */
};

struct manifest;
/* Called during opening from the opening thread, at least every 100 ms. Return false to stop (ERR_CANCELLED). */
typedef bool manifest_progress_fn(void *ctx, int64_t done, int64_t total, const char *path);
/* Opens every *.edf and *.bdf (any case) below root. Errors: NOT_FOUND (no such file), the first bad file's when fail_on_bad_file,
 * PRECONDITION when no file can be used (names some and their errors). */
/* With sources: errors name the source, and all sources need a usable recording. */
int manifest_open(const struct manifest_config *config, manifest_progress_fn *progress, void *ctx, struct manifest **ret,
                  struct err *err);
void manifest_close(struct manifest *m);
int64_t manifest_count(const struct manifest *m);
const struct manifest_entry *manifest_entry(const struct manifest *m, int64_t index);
/* The entry with this relative path, or −1. */
int64_t manifest_find(const struct manifest *m, const char *relative_path);
/* recording_hide for an entry's recording, whose windows are counted anew. Once an entry, before anybody reads its samples. */
int manifest_hide(struct manifest *m, int64_t index, const struct window_span *spans, int n, struct err *err);
/* SHA-256 over the sorted cache keys, hex. */
const char *manifest_hash(const struct manifest *m);
/* The sources, 1 and *ret NULL without names; valid as long as the manifest. */
int manifest_sources(const struct manifest *m, const struct manifest_source **ret);
/* Window and hop in samples. */
void manifest_grid(const struct manifest *m, int64_t *ret_window, int64_t *ret_hop);
/* Values of a sample that a network takes (window_inputs); raw: windows are cut out of the rows as they are, not z-scored. */
int manifest_inputs(const struct manifest *m);
bool manifest_raw(const struct manifest *m);
/* Writes "N of M recordings cannot be used: NAME (why); and K more for the same reason; …" into buf, or "" if all can be used: at
 * most `most` different reasons, each with its first recording. Returns the number of bad files. */
int64_t manifest_describe_bad(const struct manifest *m, int most, char *buf, unsigned long size);

/* The class of the window at start of a recording, and how many of its samples are valid and seizure. */
struct window_count {
    enum window_class class;
    int64_t valid, seizure;
};
struct window_count manifest_count_window(const struct recording_info *info, int64_t start, int64_t window);

/* Which patients train, validate, and are kept for tests. */
struct split_config {
    const char *const *train; /* patient ids, or NULL */
    int n_train;
    const char *const *validation;
    int n_validation;
    const char *const *test; /* neither train nor validate, whatever the other rules say */
    int n_test;
    int64_t folds, fold;        /* folds > 0: without lists; the patients of fold 1 ≤ fold ≤ folds are kept for a test */
    bool official;              /* TUSZ train/dev */
    double validation_fraction; /* by patient, round(f·patients), at least 1 if f > 0, must contain a seizure */
    uint64_t seed;              /* of the draw by fraction */
    /* The roles of an earlier attempt, or NULL: its patients keep their roles, all others are unused. Nothing is drawn then, and
     * lists and fraction have no effect. */
    const struct known_patients *kept;
};
/* Patient lists take precedence; without a train list all other patients train. Without lists of training and validation,
 * recordings below train/ and dev/ are split by these folders (required by `official`), otherwise by fraction: the patients whose
 * patient_hash(SEED, name) is lowest validate, of several sources the fraction of each, so that patients who come or go leave the
 * role of most others as it was. Recordings
 * below eval/ are unused unless a list of training or validation is given. Folds take the patients in turn, those with seizures
 * first, in the order of patient_hash: every patient is in one fold, folders do not split, and the patients outside `fold` train
 * and validate by fraction. role[i] is an enum patient_role. Patients in two lists, no seizure in training, or no seizure in a
 * required validation set are errors that state what was found and the fix. */
int manifest_split(const struct manifest *m, const struct split_config *config, uint8_t *role, struct err *err);
