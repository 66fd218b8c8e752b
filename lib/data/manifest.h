/* manifest: the recordings of a data source with patients, labels and window classes; splits by patient; balance.
 * sampler: which windows an epoch shows, redrawn from a seeded generator. prefetch: reader threads that fill a bounded ring of
 * ready batches in the sampler's order. Opening builds the window cache for recordings that lack it (in parallel, with
 * progress); faults of single files are listed in the report and do not stop the job unless on_bad_file is fail. */
#ifndef BRR_DATA_MANIFEST_H
#define BRR_DATA_MANIFEST_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/window.h"

enum window_class { WINDOW_NONE, WINDOW_PARTIAL, WINDOW_FULL }; /* seizure share of valid samples: 0, between, ≥ 0.99 */

struct manifest_config {
    const char *root; /* absolute local directory */
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
    const char *relative_path;   /* to root */
    const char *patient;         /* contracts: BIDS sub-, TUSZ directory, chbNN (chb21 = chb01), else the file */
    const char *split;           /* "train" "dev" "eval" when the path says so (TUSZ), else "" */
    struct recording *recording; /* open; NULL for a bad file */
    const char *error;           /* NULL, or why the file cannot be used */
    int64_t windows[3];          /* per class, windows at least half valid */
};

struct manifest;
/* Progress of opening; called from the opening thread. Return false to stop (ERR_CANCELLED). */
typedef bool manifest_progress_fn(void *ctx, int64_t done, int64_t total, const char *path);
int manifest_open(const struct manifest_config *config, manifest_progress_fn *progress, void *ctx, struct manifest **ret,
                  struct err *err);
void manifest_close(struct manifest *m);
int64_t manifest_count(const struct manifest *m);
const struct manifest_entry *manifest_entry(const struct manifest *m, int64_t index);
/* SHA-256 over the sorted cache keys, hex. */
const char *manifest_hash(const struct manifest *m);

/* Which entries belong to training and validation. */
struct split_config {
    const char *const *train; /* patient ids, or NULL */
    int n_train;
    const char *const *validation;
    int n_validation;
    bool official;              /* TUSZ train/dev */
    double validation_fraction; /* by patient, round(f·patients), at least 1 if f > 0, must contain a seizure */
    uint64_t seed;
};
/* role[i]: 0 unused, 1 train, 2 validation. Overlap of patients, no seizure in training, or none in a wanted validation set
 * are errors that say what was found and the mend. */
int manifest_split(const struct manifest *m, const struct split_config *config, uint8_t *role, struct err *err);

struct balance_config {
    double full, none;
    bool redraw_each_epoch;
};
struct balance_counts {
    int64_t partial, full, none;
};
/* all partial + full·P full + none·P none (P = partial; if P = 0 full ones take its place). */
void balance_plan(const struct balance_counts *found, const struct balance_config *config, struct balance_counts *ret_used);

struct sampler;
int sampler_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
                struct sampler **ret, struct err *err);
void sampler_free(struct sampler *s);
int64_t sampler_epoch_windows(const struct sampler *s);
void sampler_counts(const struct sampler *s, struct balance_counts *ret_found, struct balance_counts *ret_used);
/* Share of seizure samples in one epoch's windows (the prior), and of windows that hold a seizure. */
void sampler_ratios(const struct sampler *s, double *ret_sample_prior, double *ret_window_ratio);
/* i-th window of an epoch, a pure function of (seed, epoch, i). */
struct window_ref {
    int64_t entry, start;
};
struct window_ref sampler_at(struct sampler *s, int64_t epoch, int64_t i);

/* A batch ready for the device: x (B,T,C) F32, labels (B,T) U8, valid (B). */
struct batch {
    float *x;
    uint8_t *labels;
    int32_t *valid;
    int64_t epoch, first_index; /* position in the sampler's order */
    int size;
};
struct prefetch_config {
    int batch_size, workers, depth; /* depth = batches in the ring */
    int64_t window;
    int channels;
    void *(*alloc)(void *ctx, unsigned long bytes); /* host memory for x (pinned on CUDA) */
    void (*free)(void *ctx, void *data);
    void *alloc_ctx;
};
struct prefetch;
/* Starts readers at window `index` of `epoch`; an epoch's last partial batch is dropped (or kept when it is the only one). */
int prefetch_start(const struct manifest *m, struct sampler *s, const struct prefetch_config *config, int64_t epoch, int64_t index,
                   struct prefetch **ret, struct err *err);
/* Next batch, in order; *ret_wait_s = time spent waiting. The batch is the caller's until prefetch_release. */
int prefetch_next(struct prefetch *p, const struct batch **ret, double *ret_wait_s, struct err *err);
void prefetch_release(struct prefetch *p, const struct batch *b);
void prefetch_stop(struct prefetch *p);

#endif
