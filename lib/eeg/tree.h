/* tree: the recordings below a folder, each once. Folders whose name begins with a dot (.git, .snapshot) and the folder
 * "derivatives" are left out below the one that is named, as are the "._" files in which macOS keeps attributes. Several names of
 * one file, by links of both kinds, are one recording, several headers on one file of samples are
 * one, and so are files of two formats whose names differ in their endings alone, of which EDF
 * counts; links to folders are not followed. One thread. */
#pragma once

#include "eeg/labels.h"
#include "eeg/labels_path.h"

struct tree_config {
    const char *root;
    enum labels_patient_rule patient;
    const struct patient_rule *patient_by;     /* in front of it; NULL: none */
    bool all_names;                            /* every name is a recording of its own */
    bool one_header;                           /* with all_names: but not headers on one file of samples */
    void (*note)(void *ctx, const char *text); /* a sentence on what was left out; may be NULL */
    void *ctx;
};
/* A recording: of its names the one that names a patient, then one that is no link, then the first. absent: it is a link to a file
 * that is not here, or stands for one (git-annex, git-lfs). Returns 0 to continue. */
struct tree_recording {
    const char *path; /* relative to root */
    uint64_t device, inode;
    bool absent;
};
typedef int tree_visit_fn(void *ctx, const struct tree_recording *recording, struct err *err);
/* Visits the recordings in order of path. INVALID: a file has names of two patients, which are both named. */
int tree_walk(const struct tree_config *config, tree_visit_fn *visit, struct err *err);
/* Sets the error of an absent recording: what it is, and how to fetch it. */
int tree_absent(const char *path, struct err *err);
/* True for a file "._NAME" that begins with the magic of AppleDouble: attributes that macOS keeps of NAME. */
bool tree_is_apple_double(const char *path);
/* True for a small text file that stands for content elsewhere. */
bool tree_is_pointer(const char *path);
