#include "client/brrctl/sonata/hdf5_file.h"

#include <hdf5.h>

/* Sparse and compressed arrays may be larger than their file, but not without end: MOST_NUMBERS take 8 GiB. */
enum { FEW_NUMBERS = 1 << 24, MOST_NUMBERS = 1 << 30, MOST_NUMBERS_A_BYTE = 1024 };

struct hdf5_file {
    hid_t id;
    char path[4096];
};

/* Files come from anywhere: errors are reported by this module, not printed by the library. */
static void begin_library(void) {
    H5open();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

int hdf5_open(const char *path, struct hdf5_file **ret, struct err *err) {
    struct hdf5_file *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    begin_library();
    str_copy(f->path, sizeof f->path, path);
    f->id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (f->id < 0) {
        free(f);
        return fsio_exists(path) ? err_set(err, ERR_INVALID, "%s is no HDF5 file that can be read", path)
                                 : err_set(err, ERR_NOT_FOUND, "%s does not exist", path);
    }
    *ret = f;
    return 0;
}

void hdf5_close(struct hdf5_file *f) {
    if (f)
        H5Fclose(f->id);
    free(f);
}

/* Each link on the way is looked at: the library takes the absence of a middle one for an error. */
bool hdf5_has(const struct hdf5_file *f, const char *path) {
    char part[1024];
    if (!str_copy(part, sizeof part, path))
        return false;
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (H5Lexists(f->id, part, H5P_DEFAULT) <= 0)
            return false;
        *slash = '/';
    }
    return H5Lexists(f->id, part, H5P_DEFAULT) > 0;
}

int hdf5_entry(const struct hdf5_file *f, const char *group, int64_t i, char *buf, size_t size, struct err *err) {
    if (!hdf5_has(f, group))
        return err_set(err, ERR_INVALID, "%s has no group /%s", f->path, group);
    H5G_info_t info;
    if (H5Gget_info_by_name(f->id, group, &info, H5P_DEFAULT) < 0)
        return err_set(err, ERR_INVALID, "%s: /%s is no group that can be read", f->path, group);
    if ((hsize_t)i >= info.nlinks)
        return ERR_NOT_FOUND;
    ssize_t n = H5Lget_name_by_idx(f->id, group, H5_INDEX_NAME, H5_ITER_INC, (hsize_t)i, buf, size, H5P_DEFAULT);
    if (n < 0)
        return err_set(err, ERR_DATA_LOSS, "%s: entry %lld of /%s cannot be read", f->path, (long long)i, group);
    return (size_t)n < size
               ? 0
               : err_set(err, ERR_INVALID, "%s: a name in /%s has %zd bytes; expected at most %zu", f->path, group, n, size - 1);
}

/* A list of texts would be read as a whole. */
static bool is_single(hid_t attribute) {
    hid_t space = H5Aget_space(attribute);
    bool single = space >= 0 && H5Sget_simple_extent_npoints(space) == 1;
    if (space >= 0)
        H5Sclose(space);
    return single;
}

static bool take_text(hid_t attribute, hid_t type, char *buf, size_t size) {
    if (H5Tis_variable_str(type) > 0) {
        char *text = NULL;
        hid_t memory = H5Tcopy(type);
        bool good = H5Aread(attribute, memory, &text) >= 0 && text && str_copy(buf, size, text);
        H5Tclose(memory);
        H5free_memory(text);
        return good;
    }
    size_t n = H5Tget_size(type);
    if (!n || n >= size || H5Aread(attribute, type, buf) < 0)
        return false;
    buf[n] = '\0';
    return true;
}

int hdf5_text(const struct hdf5_file *f, const char *path, const char *name, char *buf, size_t size, struct err *err) {
    hid_t attribute = hdf5_has(f, path) ? H5Aopen_by_name(f->id, path, name, H5P_DEFAULT, H5P_DEFAULT) : -1;
    hid_t type = attribute < 0 ? -1 : H5Aget_type(attribute);
    bool good = type >= 0 && H5Tget_class(type) == H5T_STRING && is_single(attribute) && take_text(attribute, type, buf, size);
    if (type >= 0)
        H5Tclose(type);
    if (attribute >= 0)
        H5Aclose(attribute);
    return good ? 0 : err_set(err, ERR_INVALID, "%s: /%s has no single text as attribute %s", f->path, path, name);
}

static int check_numbers(const struct hdf5_file *f, const char *path, hid_t set, int64_t n, struct err *err) {
    uint64_t stored = H5Dget_storage_size(set);
    if (n <= FEW_NUMBERS || (n <= MOST_NUMBERS && (uint64_t)n / MOST_NUMBERS_A_BYTE <= stored))
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: /%s has %lld numbers in %llu bytes of the file; expected at most %d numbers, and at most %d in a byte",
                   f->path, path, (long long)n, (unsigned long long)stored, MOST_NUMBERS, MOST_NUMBERS_A_BYTE);
}

/* Eight bytes an element, in memory of the caller's. */
static int read_array(const struct hdf5_file *f, const char *path, hid_t memory_type, void **ret, int64_t *ret_n, struct err *err) {
    if (!hdf5_has(f, path))
        return err_set(err, ERR_INVALID, "%s has no array /%s", f->path, path);
    hid_t set = H5Dopen2(f->id, path, H5P_DEFAULT), space = set < 0 ? -1 : H5Dget_space(set),
          type = set < 0 ? -1 : H5Dget_type(set);
    H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    hssize_t n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    void *data = NULL;
    int rc = 0;
    if (n < 0 || H5Sget_simple_extent_ndims(space) != 1 || (class != H5T_INTEGER && class != H5T_FLOAT))
        rc = err_set(err, ERR_INVALID, "%s: /%s is no list of numbers", f->path, path);
    else if (!(rc = check_numbers(f, path, set, n, err)) && !(data = malloc((size_t)n * 8 + 1)))
        rc = err_set(err, ERR_EXHAUSTED, "%s: out of memory for the %lld numbers of /%s", f->path, (long long)n, path);
    else if (data && n && H5Dread(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        rc = err_set(err, ERR_DATA_LOSS, "%s: /%s cannot be read", f->path, path);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
    if (rc)
        free(data);
    else
        *ret = data, *ret_n = n;
    return rc;
}

int hdf5_whole(const struct hdf5_file *f, const char *path, int64_t **ret, int64_t *ret_n, struct err *err) {
    void *data = NULL;
    int rc = read_array(f, path, H5T_NATIVE_INT64, &data, ret_n, err);
    *ret = data;
    return rc;
}

int hdf5_optional(const struct hdf5_file *f, const char *path, int64_t n, int64_t **ret, struct err *err) {
    int64_t got = 0;
    if (!hdf5_has(f, path))
        return 0;
    int rc = hdf5_whole(f, path, ret, &got, err);
    return rc || got == n ? rc
                          : err_set(err, ERR_INVALID, "/%s has %lld elements; expected %lld", path, (long long)got, (long long)n);
}

int hdf5_real(const struct hdf5_file *f, const char *path, double **ret, int64_t *ret_n, struct err *err) {
    void *data = NULL;
    int rc = read_array(f, path, H5T_NATIVE_DOUBLE, &data, ret_n, err);
    *ret = data;
    return rc;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static bool put_attribute(hid_t object, const char *name, const char *text) {
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, strlen(text));
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, type, text) >= 0;
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    return good;
}

static bool put_array(hid_t group, const char *name, hid_t type, const void *data, int64_t n, const char *unit) {
    hsize_t extent = (hsize_t)n;
    hid_t space = H5Screate_simple(1, &extent, NULL),
          set = H5Dcreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    bool good = set >= 0 && (!n || H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0) &&
                (!unit || put_attribute(set, "units", unit));
    if (set >= 0)
        H5Dclose(set);
    H5Sclose(space);
    return good;
}

/* The numbers by which readers recognise SONATA, and its version 0.1. */
static bool put_magic(hid_t file) {
    const uint32_t magic = 0x0A7A, version[2] = {0, 1};
    hsize_t two = 2;
    hid_t one = H5Screate(H5S_SCALAR), pair = H5Screate_simple(1, &two, NULL);
    hid_t first = H5Acreate2(file, "magic", H5T_STD_U32LE, one, H5P_DEFAULT, H5P_DEFAULT);
    hid_t second = H5Acreate2(file, "version", H5T_STD_U32LE, pair, H5P_DEFAULT, H5P_DEFAULT);
    bool good = H5Awrite(first, H5T_NATIVE_UINT32, &magic) >= 0 && H5Awrite(second, H5T_NATIVE_UINT32, version) >= 0;
    H5Aclose(first);
    H5Aclose(second);
    H5Sclose(one);
    H5Sclose(pair);
    return good;
}

static bool put_population(hid_t spikes, const struct hdf5_spikes *p) {
    hid_t group = H5Gcreate2(spikes, p->population, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    bool good = group >= 0 && put_attribute(group, "sorting", "by_time") &&
                put_array(group, "node_ids", H5T_NATIVE_UINT64, p->ids, p->n, NULL) &&
                put_array(group, "timestamps", H5T_NATIVE_DOUBLE, p->times, p->n, "ms");
    if (group >= 0)
        H5Gclose(group);
    return good;
}

static bool put_populations(const char *path, const struct hdf5_spikes *populations, int n) {
    begin_library();
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0)
        return false;
    hid_t spikes = H5Gcreate2(file, "spikes", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    bool good = spikes >= 0 && put_magic(file);
    for (int i = 0; good && i < n; i++)
        good = put_population(spikes, &populations[i]);
    if (spikes >= 0)
        H5Gclose(spikes);
    return H5Fclose(file) >= 0 && good;
}

int hdf5_write_spikes(const char *path, const struct hdf5_spikes *populations, int n, struct err *err) {
    char part[4096 + 32];
    str_format(part, sizeof part, "%s.part-%d", path, (int)getpid());
    if (put_populations(part, populations, n))
        return fsio_rename(part, path, err);
    unlink(part);
    return err_set(err, ERR_INTERNAL, "%s cannot be written as an HDF5 file", path);
}
