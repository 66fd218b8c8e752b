/* jobfile: a job file (brrctl submit FILE) as plain data. The table of keys in jobfile.c is the only list of them; unknown keys,
 * wrong types and values out of range are errors with file:line:column and the nearest known key. Everything lives in
 * the arena given. Any thread. */
#ifndef BRR_RUN_JOBFILE_H
#define BRR_RUN_JOBFILE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/options.h"
#include "data/frontend.h"
#include "kernels/op.h"
#include "model/events.h"
#include "model/seizure.h"

enum job_kind { JOB_KIND_TRAIN, JOB_KIND_EVALUATE, JOB_KIND_DETECT, JOB_KIND_BURST, JOB_KIND_GEODESIC };
enum job_precision { JOB_PRECISION_AUTO, JOB_PRECISION_FP32, JOB_PRECISION_BF16 };

struct jobfile {
    const char *file;             /* name for messages */
    const char *yaml;             /* the text it was read from, before overrides */
    const struct yaml_node *root; /* the tree, overrides applied */
    int kind;                     /* enum job_kind */
    const char *kind_name;
    const char *name;
    int64_t priority;
    struct {
        const char *source, *labels, *unlabeled;
        const char *montage; /* frontend_config form */
        bool fail_on_bad_file, official_split, redraw_each_epoch, rebuild;
        struct option_list split_train, split_validation;
        double window_s, hop_s, notch_hz, fill_gap_s, validation_fraction, balance_full, balance_none;
        struct option_numbers bandpass_hz;
        int64_t loader_workers, max_files;
        int resident; /* enum feed_residence */
    } data;
    struct seizure_config model; /* preset and overrides applied; in_channels from the montage */
    const char *preset, *init_from;
    bool forced_conv; /* BRR_MAMBA_FORCE_FALLBACK chose the conv mixer: to be logged and stored */
    struct {
        int64_t epochs, max_steps, batch_size, micro_batch_size, seed;
        int precision; /* enum job_precision */
        double learning_rate, weight_decay, warmup_ratio, gradient_clip, ema;
        int schedule;                    /* "cosine|constant" */
        int loss;                        /* enum loss_kind */
        double alpha, gamma, pos_weight; /* pos_weight: 0 = auto, 1 = none */
        const char *stop_metric;
        int64_t patience;       /* validations without a better metric; 0 = never */
        int64_t validate_every; /* steps; 0 = each epoch */
    } training;
    struct {
        int64_t every_ms, keep;
        const char *upload;
    } checkpoint;
    struct {
        int64_t wall_clock_ms, restarts;
        bool auto_resume;
    } limits;
    struct events_config events;
    bool auto_threshold;
    double target_fa_per_24h;
    struct {
        const char *checkpoint; /* the model REF, resolved to a path by the owner */
        int split;              /* "all|train|dev|eval" */
        double alarm_hop_s;
        int64_t plots;
    } evaluate;
    struct {
        const char *model; /* as evaluate.checkpoint */
    } detect;
};

/* text + overrides ("a.b=value") → *ret. Errors: INVALID (keys), UNSUPPORTED (burst, geodesic: not yet). */
int jobfile_parse(const char *text, const char *file, const char *const *overrides, int n_overrides, struct arena *arena,
                  struct jobfile *ret, struct err *err);
/* Texts for keys that are accepted but do nothing. */
void jobfile_notices(const struct jobfile *job, void (*visit)(void *ctx, const char *text), void *ctx);
void jobfile_print_keys(FILE *out, bool json);
/* How recordings are read for the job; strings are the job's. */
void jobfile_frontend(const struct jobfile *job, struct frontend_config *ret);
enum dtype jobfile_precision(const struct jobfile *job, const struct device_info *device);

#endif
