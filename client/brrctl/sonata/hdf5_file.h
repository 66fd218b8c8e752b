/* hdf5_file: HDF5 files as lists of numbers: arrays of one dimension by their path, and files of spikes written. The only module
 * that includes HDF5's header. Errors name the file and the array. One thread. */
#pragma once

#include "base/base.h"

struct hdf5_file;
int hdf5_open(const char *path, struct hdf5_file **ret, struct err *err);
void hdf5_close(struct hdf5_file *f);
OWNABLE(struct hdf5_file, hdf5_close)

/* True if the file has a group or an array at this path ("nodes/v1/node_id"). */
bool hdf5_has(const struct hdf5_file *f, const char *path);
/* The name of entry i of a group, in the order of names; NOT_FOUND, without a message, past the last. */
int hdf5_entry(const struct hdf5_file *f, const char *group, int64_t i, char *buf, size_t size, struct err *err);
/* An attribute that is one text, not a list of them. */
int hdf5_text(const struct hdf5_file *f, const char *path, const char *attribute, char *buf, size_t size, struct err *err);
/* A whole array, malloc'd. INVALID unless it has one dimension and holds numbers; UNSUPPORTED: it has too many. */
int hdf5_whole(const struct hdf5_file *f, const char *path, int64_t **ret, int64_t *ret_n, struct err *err);
/* The same where the file has one, which must have n elements. */
int hdf5_optional(const struct hdf5_file *f, const char *path, int64_t n, int64_t **ret, struct err *err);
int hdf5_real(const struct hdf5_file *f, const char *path, double **ret, int64_t *ret_n, struct err *err);

/* A file of spikes as SONATA has it, by time: /spikes/POPULATION with node_ids and timestamps in ms. */
struct hdf5_spikes {
    const char *population;
    const uint64_t *ids;
    const double *times;
    int64_t n;
};
/* Replaces the file at path when all of it is written. */
int hdf5_write_spikes(const char *path, const struct hdf5_spikes *populations, int n, struct err *err);
