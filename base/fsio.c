#include "base/fsio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/str.h"

enum { WALK_MAX_DEPTH = 64, WALK_MAX_FILES = 4 * 1000 * 1000, MAX_TEMPORARIES = 10000 };

/* Reads fd to its end; its size in stat is only a first guess (0 for pipes and /proc). */
static int read_all(int fd, const char *path, size_t max_bytes, struct str *out, struct err *err) {
    char block[64 * 1024];
    str_init(out, max_bytes);
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "cannot read %s", path);
        if (n == 0)
            return 0;
        bool room = (size_t)n <= max_bytes - out->len;
        str_append(out, block, (size_t)n);
        if (!str_ok(out))
            return room ? err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path)
                        : err_set(err, ERR_EXHAUSTED, "%s has more than the %zu bytes that are accepted", path, max_bytes);
    }
}

static int read_path(const char *path, bool stream, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | (stream ? 0 : O_NONBLOCK)); /* a FIFO is refused below, not waited for */
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    struct stat st;
    struct str text = {0};
    int rc;
    if (fstat(fd, &st) < 0)
        rc = err_errno(err, errno, "cannot read %s", path);
    else if (S_ISDIR(st.st_mode))
        rc = err_set(err, ERR_INVALID, "%s is a directory; expected a file", path);
    else if (!stream && !S_ISREG(st.st_mode))
        rc = err_set(err, ERR_INVALID, "%s is not a regular file", path);
    else if (st.st_size > 0 && (uint64_t)st.st_size > max_bytes)
        rc = err_set(err, ERR_EXHAUSTED, "%s has %lld bytes; at most %zu are accepted", path, (long long)st.st_size, max_bytes);
    else
        rc = read_all(fd, path, max_bytes, &text, err);
    close(fd);
    size_t len = text.len;
    char *data = rc ? NULL : str_take(&text);
    if (rc || !data) {
        str_done(&text);
        return rc ? rc : err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
    }
    *ret_data = data;
    *ret_len = len;
    return 0;
}

int fsio_read(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err) {
    return read_path(path, true, max_bytes, ret_data, ret_len, err);
}

int fsio_read_file(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len, struct err *err) {
    const bool stream =
        str_starts(path, "/dev/") || str_starts(path, "/proc/"); /* standard input, and what a shell makes of <(…) */
    return read_path(path, stream, max_bytes, ret_data, ret_len, err);
}

int fsio_check_mode(const char *path, unsigned forbidden, struct err *err) {
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(err, errno, "cannot open %s", path);
    unsigned mode = st.st_mode & 0777;
    if (!(mode & forbidden))
        return 0;
    return err_set(err, ERR_DENIED, "%s is open to other users (mode %04o); run: chmod %03o %s", path, mode, mode & ~forbidden,
                   path);
}

uint64_t fsio_stamp(const char *path) {
    struct stat st;
    if (stat(path, &st) < 0)
        return 0;
    const uint64_t parts[] = {(uint64_t)st.st_dev,         (uint64_t)st.st_ino,          (uint64_t)st.st_size,
                              (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec, (uint64_t)st.st_ctim.tv_sec,
                              (uint64_t)st.st_ctim.tv_nsec};
    uint64_t sum = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof parts; i++)
        sum = (sum ^ ((const unsigned char *)parts)[i]) * 1099511628211u;
    return sum ? sum : 1;
}

int fsio_writer_open(struct fsio_writer *w, const char *path, struct err *err) {
    w->fd = -1;
    w->written_bytes = 0;
    w->tmp_path[0] = '\0';
    if (!str_copy(w->path, sizeof w->path, path))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", path);
    struct stat st;
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) /* a rename would replace it */
        return err_set(err, ERR_INVALID, S_ISDIR(st.st_mode) ? "%s is a directory; expected a file" : "%s is not a regular file",
                       path);
    for (int n = 0; n < MAX_TEMPORARIES && w->fd < 0; n++) { /* a dead process of the same id may have left some */
        str_format(w->tmp_path, sizeof w->tmp_path, "%s.tmp-%ld-%d", path, (long)getpid(), n);
        w->fd = open(w->tmp_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (w->fd < 0 && errno != EEXIST)
            break;
    }
    if (w->fd < 0) {
        int saved = errno;
        w->tmp_path[0] = '\0';
        return err_errno(err, saved, "cannot create %s", path);
    }
    return 0;
}

int fsio_writer_write(struct fsio_writer *w, const void *data, size_t len, struct err *err) {
    const char *p = data;
    while (len) {
        ssize_t n = write(w->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "cannot write %s", w->path);
        p += n;
        len -= (size_t)n;
        w->written_bytes += n;
    }
    return 0;
}

int fsio_sync_folder(const char *dir, struct err *err) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "cannot open directory %s", dir);
    int rc = fsync(fd) < 0 && errno != EINVAL ? err_errno(err, errno, "cannot sync directory %s", dir) : 0;
    close(fd);
    return rc;
}

static int sync_directory_of(const char *path, struct err *err) {
    char dir[PATH_MAX];
    if (!str_copy(dir, sizeof dir, path))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", path);
    char *slash = strrchr(dir, '/');
    if (!slash)
        str_copy(dir, sizeof dir, ".");
    else
        slash[slash == dir] = '\0';
    return fsio_sync_folder(dir, err);
}

/* Renames like rename(2), but fails with ENOENT if there is no file `to`. */
static int rename_over(const char *from, const char *to) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return unlink(from);
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return access(to, F_OK) ? -1 : rename(from, to);
}

int fsio_writer_place(struct fsio_writer *w, bool renew, struct err *err) {
    int rc = 0;
    if (fsync(w->fd) < 0)
        rc = err_errno(err, errno, "cannot sync %s", w->path);
    if (close(w->fd) < 0 && !rc)
        rc = err_errno(err, errno, "cannot close %s", w->path);
    w->fd = -1;
    if (rc || ((renew ? rename_over : rename)(w->tmp_path, w->path) < 0 &&
               (rc = err_errno(err, errno, "cannot put %s in place", w->path)))) {
        fsio_writer_abort(w);
        return rc;
    }
    w->tmp_path[0] = '\0';
    return 0;
}

int fsio_writer_commit(struct fsio_writer *w, struct err *err) {
    int rc = fsio_writer_place(w, false, err);
    return rc ? rc : sync_directory_of(w->path, err);
}

void fsio_writer_abort(struct fsio_writer *w) {
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    if (w->tmp_path[0])
        unlink(w->tmp_path);
    w->tmp_path[0] = '\0';
}

int fsio_write_atomic(const char *path, const void *data, size_t len, struct err *err) {
    struct fsio_writer w;
    int rc = fsio_writer_open(&w, path, err);
    if (rc)
        return rc;
    if ((rc = fsio_writer_write(&w, data, len, err))) {
        fsio_writer_abort(&w);
        return rc;
    }
    return fsio_writer_commit(&w, err);
}

int fsio_write_text(const char *path, const struct str *text, struct err *err) {
    if (!str_ok(text))
        return err_set(err, ERR_EXHAUSTED, "%s is not written: its text needs more than %zu bytes, or memory ran out", path,
                       text->max);
    return fsio_write_atomic(path, str_cstr(text), text->len, err);
}

int fsio_link_or_copy(const char *from, const char *to, struct err *err) {
    if (fsio_exists(to) || !linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW))
        return 0;
    return fsio_copy(from, to, err);
}

int fsio_link(const char *from, const char *to, struct err *err) {
    if (fsio_exists(to) || !linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) || !symlink(from, to))
        return 0;
    return fsio_copy(from, to, err);
}

int fsio_rename(const char *from, const char *to, struct err *err) {
    if (rename(from, to) < 0)
        return err_errno(err, errno, "cannot put %s in place", to);
    return sync_directory_of(to, err);
}

int fsio_mkdirs(const char *path, struct err *err) {
    char part[PATH_MAX];
    if (!*path || !str_copy(part, sizeof part, path))
        return err_set(err, ERR_INVALID, "cannot create directory '%.200s': not a usable path", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char saved = *p;
        *p = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return err_errno(err, errno, "cannot create directory %s", part);
        *p = saved;
        if (!saved)
            break;
    }
    if (!fsio_is_dir(path))
        return err_set(err, ERR_EXISTS, "%s exists and is not a directory", path);
    return 0;
}

int fsio_can_mkdirs(const char *path, struct err *err) {
    char part[PATH_MAX];
    if (!*path || !str_copy(part, sizeof part, path))
        return err_set(err, ERR_INVALID, "cannot create directory '%.200s': not a usable path", path);
    while (access(part, F_OK) && (errno == ENOENT || errno == ENOTDIR)) { /* up to the nearest directory that exists */
        char *slash = strrchr(part, '/');
        if (!slash)
            str_copy(part, sizeof part, ".");
        else
            slash[slash == part] = '\0';
    }
    bool whole = !strcmp(part, path);
    if (whole && !fsio_is_dir(path))
        return err_set(err, ERR_EXISTS, "%s exists and is not a directory", path);
    errno = fsio_is_dir(part) ? 0 : ENOTDIR;
    if (errno || access(part, W_OK | X_OK))
        return err_errno(err, errno, whole ? "cannot write to directory %s" : "cannot create directory %s", path);
    return 0;
}

int fsio_mkdirs_above(const char *path, struct err *err) {
    char dir[PATH_MAX];
    if (!str_copy(dir, sizeof dir, path))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", path);
    char *slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return 0;
    *slash = '\0';
    return fsio_mkdirs(dir, err);
}

int fsio_mkdir_new(const char *path, struct err *err) {
    if (mkdir(path, 0755) < 0)
        return err_errno(err, errno, "cannot create directory %s", path);
    int rc = sync_directory_of(path, err);
    if (rc)
        rmdir(path);
    return rc;
}

bool fsio_exists(const char *path) { return access(path, F_OK) == 0; }

bool fsio_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int fsio_size(const char *path, int64_t *ret_bytes, int64_t *ret_mtime_ns, struct err *err) {
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(err, errno, "cannot read %s", path);
    if (ret_bytes)
        *ret_bytes = st.st_size;
    if (ret_mtime_ns)
        *ret_mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

static int remove_at(int parent, const char *name, int depth, struct err *err) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_errno(err, errno, "cannot remove %s", name);
    if (depth >= WALK_MAX_DEPTH)
        return err_set(err, ERR_RANGE, "cannot remove %s: directories nested deeper than %d", name, WALK_MAX_DEPTH);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        return err_errno(err, saved, "cannot open directory %s", name);
    }
    int rc = 0;
    for (struct dirent *e; !rc && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = remove_at(dirfd(dir), e->d_name, depth + 1, err);
    closedir(dir);
    if (rc)
        return rc;
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_errno(err, errno, "cannot remove directory %s", name);
    return 0;
}

int fsio_remove_tree(const char *path, struct err *err) {
    int rc = remove_at(AT_FDCWD, path, 0, err);
    if (rc)
        err_wrap(err, "cannot remove %s and what is below it", path);
    return rc;
}

int fsio_join(char *buf, size_t size, const char *dir, const char *name, struct err *err) {
    const char *separator = str_ends(dir, "/") ? "" : "/";
    if (!str_format(buf, size, "%s%s%s", dir, separator, name))
        return err_set(err, ERR_RANGE, "path too long: %.200s/%.100s", dir, name);
    return 0;
}

int fsio_absolute(char *buf, size_t size, const char *path, struct err *err) {
    char full[2 * PATH_MAX], cwd[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd(cwd, sizeof cwd))
        return err_errno(err, errno, "cannot tell the working directory");
    if (!str_format(full, sizeof full, "%s/%s", cwd, path))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", path);
    char out[2 * PATH_MAX];
    size_t len = 0;
    for (const char *p = full; *p;) {
        while (*p == '/')
            p++;
        size_t n = strcspn(p, "/");
        if (n == 2 && !strncmp(p, "..", 2)) {
            while (len && out[--len] != '/') {
            }
        } else if (n && !(n == 1 && *p == '.')) {
            out[len++] = '/';
            memcpy(out + len, p, n);
            len += n;
        }
        p += n;
    }
    out[len] = '\0';
    if (!str_copy(buf, size, len ? out : "/"))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", path);
    return 0;
}

bool fsio_is_below(const char *path) {
    return *path && *path != '/' && strcmp(path, "..") && !str_starts(path, "../") && !strstr(path, "/../") &&
           !str_ends(path, "/..");
}

const char *fsio_basename(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct walk {
    struct fsio_found *items; /* paths malloc'd */
    size_t count, cap;
    bool names; /* links that lead to no file are found too, hidden folders are not */
};

static int walk_add(struct walk *walk, const struct fsio_found *found, struct err *err) {
    if (walk->count >= WALK_MAX_FILES)
        return err_set(err, ERR_EXHAUSTED, "more than %d files below one directory", WALK_MAX_FILES);
    if (!GROW(walk->items, walk->count, walk->cap))
        return err_set(err, ERR_EXHAUSTED, "out of memory listing files");
    char *copy = strdup(found->path);
    if (!copy)
        return err_set(err, ERR_EXHAUSTED, "out of memory listing files");
    walk->items[walk->count] = *found;
    walk->items[walk->count++].path = copy;
    return 0;
}

int fsio_next_entry(DIR *dir, struct dirent **ret, struct err *err) {
    errno = 0;
    *ret = readdir(dir);
    return *ret || !errno ? 0 : err_errno(err, errno, "cannot list a directory");
}

static int walk_dir(struct walk *walk, const char *root, const char *relative, int depth, struct err *err);

/* One name of the open folder at path; name: relative to the root. */
static int walk_name(struct walk *walk, DIR *dir, const char *path, const char *root, const char *name, int depth,
                     struct err *err) {
    const char *own = fsio_basename(name);
    struct stat link, st = {0};
    struct fsio_found found = {.path = name};
    if (fstatat(dirfd(dir), own, &link, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || errno == EACCES ? 0 : err_errno(err, errno, "cannot look at %s/%s", path, own);
    found.link = S_ISLNK(link.st_mode);
    if (!found.link)
        st = link;
    found.absent = found.link && fstatat(dirfd(dir), own, &st, 0) < 0;
    if (found.absent && errno != ENOENT && errno != ELOOP && errno != EACCES && errno != ENOTDIR)
        return err_errno(err, errno, "cannot look at %s/%s", path, own);
    found.folder = found.link && !found.absent && S_ISDIR(st.st_mode);
    found.special = !found.absent && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    found.size_bytes = st.st_size;
    found.device = st.st_dev;
    found.inode = st.st_ino;
    if (S_ISDIR(link.st_mode)) {
        if (walk->names && *own == '.')
            return 0;
        return depth < WALK_MAX_DEPTH ? walk_dir(walk, root, name, depth + 1, err)
                                      : err_set(err, ERR_RANGE, "%s: directories nested deeper than %d", path, WALK_MAX_DEPTH);
    }
    return walk->names || (!found.absent && S_ISREG(st.st_mode)) ? walk_add(walk, &found, err) : 0;
}

static int walk_dir(struct walk *walk, const char *root, const char *relative, int depth, struct err *err) {
    char path[PATH_MAX];
    int rc = *relative ? fsio_join(path, sizeof path, root, relative, err) : fsio_join(path, sizeof path, root, "", err);
    if (rc)
        return rc;
    OWNED_DIR DIR *dir = opendir(path);
    if (!dir)
        return err_errno(err, errno, "cannot open directory %s", path);
    struct dirent *e;
    while (!rc && !(rc = fsio_next_entry(dir, &e, err)) && e) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        char name[PATH_MAX];
        if (!str_format(name, sizeof name, "%s%s%s", relative, *relative ? "/" : "", e->d_name)) {
            rc = err_set(err, ERR_RANGE, "path too long below %s", path);
            break;
        }
        rc = walk_name(walk, dir, path, root, name, depth, err);
    }
    return rc;
}

ORDER_BY(by_path, struct fsio_found, strcmp(x->path, y->path))

static void walk_done(struct walk *walk) {
    for (size_t i = 0; i < walk->count; i++)
        free((void *)(uintptr_t)walk->items[i].path);
    free(walk->items);
}

static int walk_sorted(struct walk *walk, const char *dir, struct err *err) {
    int rc = walk_dir(walk, dir, "", 0, err);
    if (rc)
        return rc;
    SORT(walk->items, walk->count, by_path);
    return 0;
}

int fsio_walk(const char *dir, fsio_visit_fn *visit, void *ctx, struct err *err) {
    OWNED(walk_done) struct walk walk = {0};
    int rc = walk_sorted(&walk, dir, err);
    for (size_t i = 0; !rc && i < walk.count; i++)
        rc = visit(ctx, walk.items[i].path, walk.items[i].size_bytes, err);
    return rc;
}

int fsio_walk_names(const char *dir, fsio_found_fn *visit, void *ctx, struct err *err) {
    OWNED(walk_done) struct walk walk = {.names = true};
    int rc = walk_sorted(&walk, dir, err);
    for (size_t i = 0; !rc && i < walk.count; i++)
        rc = visit(ctx, &walk.items[i], err);
    return rc;
}

bool fsio_is_temporary(const char *name) {
    static const char mark[] = ".tmp-";
    const char *end = NULL;
    for (const char *next = name; (next = strstr(next, mark));)
        end = next += sizeof mark - 1;
    size_t pid = end ? strspn(end, "0123456789") : 0, n = pid && end[pid] == '-' ? strspn(end + pid + 1, "0123456789") : 0;
    return n && !end[pid + 1 + n];
}

int fsio_remove(const char *path, struct err *err) {
    return unlink(path) < 0 && errno != ENOENT ? err_errno(err, errno, "cannot remove %s", path) : 0;
}

int fsio_remove_in(const char *dir, const char *name, struct err *err) {
    char path[PATH_MAX];
    int rc = fsio_join(path, sizeof path, dir, name, err);
    return rc ? rc : fsio_remove(path, err);
}

static int remove_temporary(void *ctx, const char *relative_path, int64_t size_bytes, struct err *err) {
    (void)size_bytes;
    if (!fsio_is_temporary(relative_path))
        return 0;
    return fsio_remove_in(ctx, relative_path, err);
}

int fsio_remove_temporaries(const char *dir, struct err *err) {
    return fsio_exists(dir) ? fsio_walk(dir, remove_temporary, (void *)(uintptr_t)dir, err) : 0;
}

int fsio_open_file(const char *path, int *ret_fd, size_t *ret_bytes, struct err *err) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO without a writer is refused below, not waited for */
    struct stat st;
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    int rc = fstat(fd, &st) < 0    ? err_errno(err, errno, "cannot read %s", path)
             : S_ISREG(st.st_mode) ? 0
                                   : err_set(err, ERR_INVALID, "%s is not a regular file", path);
    if (rc) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    *ret_bytes = (size_t)st.st_size;
    return 0;
}

int fsio_map_open(struct fsio_map *map, const char *path, struct err *err) {
    size_t len = 0;
    OWNED_FD int fd = -1;
    int rc = fsio_open_file(path, &fd, &len, err);
    if (rc)
        return rc;
    void *data = len ? mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    if (data == MAP_FAILED)
        return err_errno(err, errno, "cannot map %s", path);
    *map = (struct fsio_map){data, len};
    return 0;
}

void fsio_map_close(struct fsio_map *map) {
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->len);
    *map = (struct fsio_map){0};
}

int fsio_lock(const char *path, int *ret_fd, struct err *err) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(err, errno, "cannot open lock %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int saved = errno;
        char pid[32] = "";
        ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
        pid[n > 0 ? n : 0] = '\0';
        pid[strcspn(pid, "\n")] = '\0';
        close(fd);
        if (saved != EWOULDBLOCK)
            return err_errno(err, saved, "cannot lock %s", path);
        return err_set(err, ERR_PRECONDITION, "%s is held by process %s; stop it, or use another directory", path,
                       *pid ? pid : "(unknown)");
    }
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)len, 0) != len) {
        int saved = errno;
        close(fd);
        return err_errno(err, saved, "cannot write lock %s", path);
    }
    *ret_fd = fd;
    return 0;
}

static int copy_bytes(int fd, const char *from, struct fsio_writer *w, struct err *err) {
    char block[64 * 1024];
    ssize_t n;
    int rc;
    while ((n = read(fd, block, sizeof block)) > 0)
        if ((rc = fsio_writer_write(w, block, (size_t)n, err)))
            return rc;
    return n < 0 ? err_errno(err, errno, "%s: cannot be read", from) : 0;
}

int fsio_copy(const char *from, const char *to, struct err *err) {
    struct fsio_writer w;
    size_t len = 0;
    OWNED_FD int fd = -1;
    int rc;
    if ((rc = fsio_open_file(from, &fd, &len, err)) || (rc = fsio_writer_open(&w, to, err)))
        return rc;
    if ((rc = copy_bytes(fd, from, &w, err))) {
        fsio_writer_abort(&w);
        return rc;
    }
    return fsio_writer_commit(&w, err);
}

int64_t fsio_free_bytes(const char *path) {
    struct statvfs st;
    return statvfs(path, &st) < 0 ? -1 : (int64_t)st.f_bavail * (int64_t)st.f_frsize;
}

int64_t fsio_size_bytes(const char *path) {
    struct statvfs st;
    return statvfs(path, &st) < 0 ? -1 : (int64_t)st.f_blocks * (int64_t)st.f_frsize;
}
