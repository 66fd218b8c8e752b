/* manifest: the recordings of a data source with patients, labels and window classes, and splits by patient. Opening reads headers
 * and labels (in parallel, with progress), or the facts that an earlier opening stored in the cache volume; samples are decoded and
 * filtered into the window cache at first use (recording_load). Errors of single files are kept in their entries and do not stop
 * the job unless fail_on_bad_file; a failed fetch always does. Immutable once open except for the loading of samples; any thread
 * may read it. */
#ifndef BRR_DATA_MANIFEST_H
#define BRR_DATA_MANIFEST_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/window.h"

/* Seizure share of a window's valid samples: 0, between, ≥ 0.99. */
enum window_class { WINDOW_NONE, WINDOW_PARTIAL, WINDOW_FULL };
enum { MANIFEST_MAX_FILES = 1 << 20, MANIFEST_MAX_WORKERS = 64 };

struct manifest_config {
    const char *root;      /* absolute local directory */
    struct mirror *mirror; /* the mirror that owns root, or NULL; must outlive the manifest */
    const char *cache_dir;
    struct frontend_config frontend;
    int64_t window, hop; /* samples */
    const char *labels, *unlabeled;
    bool fail_on_bad_file;
    int workers;
    int64_t max_files; /* 0 = all (first files in sorted order) */
    bool rebuild;
};

struct manifest_entry {
    const char *relative_path;   /* relative to root */
    const char *patient;         /* BIDS sub-, TUSZ directory, chbNN (chb21 = chb01), else the file */
    const char *split;           /* "train" "dev" "eval" when the path contains it (TUSZ), else "" */
    struct recording *recording; /* planned; NULL for a bad or skipped file */
    const char *error;           /* NULL, or why the file cannot be used */
    bool skipped;                /* unlabelled and the rule is skip: no recording and no error */
    int64_t windows[3];          /* per class, windows at least half valid */
};

struct manifest;
/* Called during opening from the opening thread, at least every 100 ms. Return false to stop (ERR_CANCELLED). */
typedef bool manifest_progress_fn(void *ctx, int64_t done, int64_t total, const char *path);
/* Opens every *.edf and *.bdf (any case) below root. Errors: NOT_FOUND (no such file), the first bad file's when fail_on_bad_file,
 * PRECONDITION when no file can be used (names some and their errors). */
int manifest_open(const struct manifest_config *config, manifest_progress_fn *progress, void *ctx, struct manifest **ret,
                  struct err *err);
void manifest_close(struct manifest *m);
int64_t manifest_count(const struct manifest *m);
const struct manifest_entry *manifest_entry(const struct manifest *m, int64_t index);
/* SHA-256 over the sorted cache keys, hex. */
const char *manifest_hash(const struct manifest *m);
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

/* Which entries are used for training and validation. */
struct split_config {
    const char *const *train; /* patient ids, or NULL */
    int n_train;
    const char *const *validation;
    int n_validation;
    bool official;              /* TUSZ train/dev */
    double validation_fraction; /* by patient, round(f·patients), at least 1 if f > 0, must contain a seizure */
    uint64_t seed;
};
/* Patient lists take precedence; without a train list all other patients train. Without lists, recordings below train/ and dev/ are
 * split by these folders (required by `official`), otherwise by fraction. Recordings below eval/ are unused unless a list names the
 * patient. role[i]: 0 unused, 1 train, 2 validation. Patients in both lists, no seizure in training, or no seizure in a required
 * validation set are errors that state what was found and the fix. */
int manifest_split(const struct manifest *m, const struct split_config *config, uint8_t *role, struct err *err);

#endif
