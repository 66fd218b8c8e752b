/* bids: names and side files of a dataset in the Brain Imaging Data Structure (EEG; bids-specification.readthedocs.io, version
 * 1.9.0), and what a folder lacks to be one. Knows no events: those are eeg/events. Pure functions over files; any thread. */
#pragma once

#include "formats/eegfile.h"

#define BIDS_TASK "szMonitoring" /* the task of recordings whose names have none, as in SzCORE's datasets */

/* The entities of a recording's name; "" = it has none. */
struct bids_name {
    char subject[64], session[32], task[64], acquisition[32], run[16];
};

/* Reads the entities of a recording's path; where it has none, subject is the patient as labels_patient finds him (letters and
 * digits only) and task BIDS_TASK. ERR_RANGE when a part is too long. */
int bids_name_of(const char *relative_path, struct bids_name *ret, struct err *err);
/* "sub-01[/ses-1]/eeg/sub-01[_ses-1]_task-T[_acq-A][_run-01]" and the suffix, such as "_eeg.edf". */
int bids_path(const struct bids_name *name, const char *suffix, char *buf, size_t size, struct err *err);
/* "_eeg.edf", "_eeg.bdf" and so on: the suffix of a recording with the format of this one, or of EDF where BIDS takes none of its
 * own. */
const char *bids_suffix(const char *path, const struct eeg_info *info);

/* Writes dataset_description.json and README below root, unless they exist. about: a sentence on where the data come from. */
int bids_write_dataset(const char *root, const char *about, struct err *err);
/* Writes _eeg.json, _channels.tsv and _events.json of a recording below root. mains_hz: 0 = unknown. */
int bids_write_recording(const char *root, const struct bids_name *name, const struct eeg_info *info, double mains_hz,
                         struct err *err);

/* Called for each thing that is missing or wrong, with one sentence. */
typedef void bids_lack_fn(void *ctx, const char *text);
void bids_check_dataset(const char *root, bids_lack_fn *lack, void *ctx);
void bids_check_recording(const char *root, const char *relative_path, const struct eeg_info *info, bids_lack_fn *lack, void *ctx);
