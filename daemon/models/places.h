/* places: the directories and stores that the daemon opens for its clients, and the file or directory that a client's path refers
 * to. Any thread. */
#pragma once
#include "daemon/models/source.h"

enum { PLACES_VIEWER = 256 };

/* Users borrow this struct. */
struct places {
    const char *data_dir, *results_dir; /* paths.data, paths.results */
    bool local_paths;                   /* the current caller may open any path */
    bool limited;               /* the current caller sees the models of its own jobs and uploads alone, and of those that serve */
    char viewer[PLACES_VIEWER]; /* limited: its principal */
    const struct source_store *stores;
    int n_stores;
};

/* Returns the job's data.source as an absolute directory, or unchanged as "store://NAME/prefix" if it is in a bucket or is one file
 * of a store that a detect job names (both are fetched when the job runs). With several sources: one of these for each, separated
 * by line ends; errors name the source. Errors: INVALID, DENIED, NOT_FOUND, RANGE. */
int places_source(const struct places *p, const struct jobfile *job, char *buf, size_t size, struct err *err);
/* The file that a job names by a key: an absolute path, a file:// URL, or a path below the data directory; path has 4096 bytes.
 * DENIED outside the data directory unless local_paths; NOT_FOUND. */
int places_file(const struct places *p, const char *key, const char *ref, char path[4096], struct err *err);
/* False: what belongs to this principal, "" = to nobody, is not for the current caller. */
bool places_show(const struct places *p, const char *owner);
/* The model file at a path or file:// URL, with symbolic links resolved; path has 4096 bytes. DENIED outside the results and the
 * data directory unless local_paths, and for a limited caller in the results directory; NOT_FOUND. */
int places_model_file(const struct places *p, const char *ref, char path[4096], struct err *err);
