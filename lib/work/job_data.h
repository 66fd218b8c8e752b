/* job_data: the keys data.* that kinds of job share, and their meaning. A kind names the tables that it has a use for and calls
 * job_data_read from its config function. Any thread. */
#pragma once
#include "eeg/frontend.h"
#include "windows/augment.h"
#include "windows/manifest.h"
#include "windows/sampler.h"
#include "work/jobfile.h"

struct job_data {
    const char *source;              /* of several sources all URIs, for people */
    struct manifest_source *sources; /* where they lie is the owner's to change (job_source_place) */
    int n_sources;                   /* 0: one source without a name */
    const char *labels, *unlabeled;  /* labels: a rule (eeg/label_rule.h), with data.seizure_labels */
    struct option_list seizure_labels;
    const char *montage;       /* frontend_config form */
    const char *rename, *unit; /* of frontend_config; NULL: none */
    int fail_on_bad_file, fail_on_mislabelled;
    bool official_split, redraw_each_epoch, rebuild, learn_background, hold_background;
    struct option_list split_train, split_validation, split_test;
    double window_s, hop_s, fill_gap_s, hole_every_s, validation_fraction, balance_full, balance_none, balance_hard;
    struct option_numbers bandpass_hz;
    struct augment_config augment;
    int64_t loader_workers, max_files, split_seed, split_folds, split_fold, balance_per_patient, balance_most_shown;
    int notch;              /* index of data.notch_hz */
    int patient;            /* enum labels_patient_rule */
    const char *patient_by; /* a pattern or a .csv (eeg/labels_path.h); NULL: by patient alone */
    const char *dataset;    /* that a person says the patients are of; "" = none */
    int resident;           /* enum feed_residence */
    int normalize;          /* enum frontend_normalize */
    int reference;          /* enum frontend_reference */
    struct {                /* as written, for job_data_read */
        const struct yaml_node *montage, *rename;
        const char *patient;
        double sampling_rate_hz;
        int64_t num_workers;
    } written;
};

extern const struct option_table job_data_source_keys; /* which recordings, and how many readers */
extern const struct option_table job_data_label_keys;  /* where their labels stand */
extern const struct option_table job_data_window_keys; /* montage, filters, windows */
extern const struct option_table job_data_sample_keys; /* who trains, who validates, which windows */

/* Checks what the tables read into *data, fills in what follows from it, and makes it the job's data. Values of tables that the
 * kind does not name stay as they are. */
int job_data_read(struct jobfile *job, struct job_data *data, struct arena *arena, struct err *err);
/* Which windows a training shows. Needs job_data_sample_keys. */
struct balance_config job_data_balance(const struct job_data *data);
/* How recordings are read; strings are the job's. Needs job_data_window_keys. */
void job_data_frontend(const struct job_data *data, struct frontend_config *ret);
