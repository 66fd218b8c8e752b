/* fsio: files and directories with durable writes. Errors name the path and the fix. Any thread. */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Reads a whole file into malloc'd, NUL-terminated memory (the NUL is not counted). Error when it has more than max_bytes. */
int fsio_read(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err);
/* The same for what people name as data, such as labels: INVALID for a FIFO, which would have to be waited for, and for what else
 * is no regular file, except in /dev and /proc (standard input, and what a shell makes of <(…)). */
int fsio_read_file(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err);

/* DENIED with the chmod that helps when the file grants a right of `forbidden` (0077: nothing for group and others). */
int fsio_check_mode(const char *path, unsigned forbidden, struct err *err);

/* A number that changes when the file at path is changed or replaced; 0 when there is none. */
uint64_t fsio_stamp(const char *path);

struct str;

/* Replaces a file atomically and durably: writes PATH.tmp-PID-N, fsync, rename, fsync of the directory. On failure the
 * old file is unchanged and the temporary file is removed. */
int fsio_write_atomic(const char *path, const void *data, size_t len, struct err *err);
/* The same with a text. EXHAUSTED when the text did not fit its string (str_ok): nothing is written then. */
int fsio_write_text(const char *path, const struct str *text, struct err *err);

/* The same in steps, for large files. After open: write, then exactly one of commit, renew and abort, also after an error. */
struct fsio_writer {
    int fd;
    int64_t written_bytes;
    char path[4096];
    char tmp_path[4096 + 64];
};
int fsio_writer_open(struct fsio_writer *w, const char *path, struct err *err);
int fsio_writer_write(struct fsio_writer *w, const void *data, size_t len, struct err *err);
int fsio_writer_commit(struct fsio_writer *w, struct err *err);
/* As commit, but the new name is durable only after fsio_sync_folder: for many files. renew: only if the file exists; NOT_FOUND,
 * and nothing is written, if it was moved or removed. Atomic where the file system has RENAME_EXCHANGE; elsewhere (NFS, overlayfs)
 * the file is looked for just before the rename. */
int fsio_writer_place(struct fsio_writer *w, bool renew, struct err *err);
int fsio_sync_folder(const char *path, struct err *err);
void fsio_writer_abort(struct fsio_writer *w);
/* True if the file name is that of a temporary file of fsio_writer. */
bool fsio_is_temporary(const char *name);
/* Removes the temporaries that killed processes left below dir. Nobody may be writing files below dir meanwhile. A missing dir is
 * success. */
int fsio_remove_temporaries(const char *dir, struct err *err);

/* A durable copy of the regular file `from`; an existing file `to` is replaced atomically. */
int fsio_copy(const char *from, const char *to, struct err *err);

/* The regular file `from`, or that which it is a symbolic link to, under the name `to`, unless something is there: a hard link
 * where the volume allows, else a copy. */
int fsio_link_or_copy(const char *from, const char *to, struct err *err);

/* The same for a file that may be large and whose volume or owner may forbid hard links: a symbolic link then, and a copy only
 * where the volume has none. from is absolute. */
int fsio_link(const char *from, const char *to, struct err *err);

/* Renames durably within a folder; an existing file of the new name is replaced. */
int fsio_rename(const char *from, const char *to, struct err *err);
/* mkdir -p with mode 0755. fsio_mkdirs_above makes the parent directory of path. */
int fsio_mkdirs(const char *path, struct err *err);
int fsio_mkdirs_above(const char *path, struct err *err);
/* Checks that path is a directory this user may write to, or that fsio_mkdirs could create it. Creates nothing. */
int fsio_can_mkdirs(const char *path, struct err *err);
/* A directory of its own in one that exists, mode 0755, durable; EXISTS when something is there already. */
int fsio_mkdir_new(const char *path, struct err *err);
bool fsio_exists(const char *path);
bool fsio_is_dir(const char *path);
int fsio_size(const char *path, int64_t *ret_bytes, int64_t *ret_mtime_ns, struct err *err);
/* Removes a file, or dir/name. A missing one is success. */
int fsio_remove(const char *path, struct err *err);
int fsio_remove_in(const char *dir, const char *name, struct err *err);
/* rm -rf without following symbolic links. A missing path is success. */
int fsio_remove_tree(const char *path, struct err *err);
/* Writes "dir/name" into buf; ERR_RANGE when it does not fit. */
int fsio_join(char *buf, size_t size, const char *dir, const char *name, struct err *err);
/* Writes the absolute path, with "." and ".." resolved textually against the working directory; the file need not exist. */
int fsio_absolute(char *buf, size_t size, const char *path, struct err *err);
/* True for a relative path that stays below its directory: no "..", no leading "/", not "". */
bool fsio_is_below(const char *path);
const char *fsio_basename(const char *path);

/* The next entry of a directory in *ret, NULL after the last; an error of the volume is not taken for the end. */
int fsio_next_entry(DIR *dir, struct dirent **ret, struct err *err);

/* Visits every regular file below dir, sorted by relative path. Symbolic links to files are followed, links to directories are
 * not. visit returns 0 to continue; any other value ends the walk and is returned. */
typedef int fsio_visit_fn(void *ctx, const char *relative_path, int64_t size_bytes, struct err *err);
int fsio_walk(const char *dir, fsio_visit_fn *visit, void *ctx, struct err *err);
/* The same with what each name is; also links that lead to no file (`absent`), links to folders (`folder`), which are not
 * followed, and what has no content to read again (`special`). Folders whose name begins with a dot are skipped below dir. */
struct fsio_found {
    const char *path; /* relative */
    int64_t size_bytes;
    uint64_t device, inode;    /* of the file, the same for all names of it */
    bool link, absent, folder; /* the name is a symbolic link; to nothing that can be looked at; to a folder */
    bool special;              /* a FIFO, a socket or a device, or a link to one */
};
typedef int fsio_found_fn(void *ctx, const struct fsio_found *found, struct err *err);
int fsio_walk_names(const char *dir, fsio_found_fn *visit, void *ctx, struct err *err);

/* Opens a regular file for reading and tells its length; INVALID for a directory, a FIFO or a device, without waiting for it. */
int fsio_open_file(const char *path, int *ret_fd, size_t *ret_bytes, struct err *err);

/* Read-only mapping of a whole file, for files of our own cache that nobody cuts. length 0 gives data NULL. */
struct fsio_map {
    const uint8_t *data;
    size_t len;
};
int fsio_map_open(struct fsio_map *map, const char *path, struct err *err);
void fsio_map_close(struct fsio_map *map);

/* Exclusive advisory lock on PATH (created, holds the pid). ERR_PRECONDITION with the holder's pid when taken.
 * Returns the descriptor to close on release. */
int fsio_lock(const char *path, int *ret_fd, struct err *err);
int64_t fsio_free_bytes(const char *path); /* -1 when unknown */
int64_t fsio_size_bytes(const char *path); /* of the whole volume; -1 when unknown */
