#include "store/local.h"

#include "base/grow.h"
#include "base/order.h"

enum { MAX_DEPTH = 64, MAX_ENTRIES = 4 * 1000 * 1000, COPY_BLOCK = 1 << 20 };

struct local {
    struct store base;
    char root[PATH_MAX];
};

static struct local *local_of(struct store *store) { return (struct local *)(void *)store; }

static int path_of(struct store *store, const char *key, char path[PATH_MAX], struct err *err) {
    return fsio_join(path, PATH_MAX, local_of(store)->root, key, err);
}

static void describe(const struct stat *st, struct store_item *item) {
    item->size_bytes = st->st_size;
    item->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    str_format(item->tag, sizeof item->tag, "%llx-%llx-%llx", (unsigned long long)st->st_ino, (unsigned long long)item->size_bytes,
               (unsigned long long)item->mtime_ns);
}

/* The object opened for reading and its state; NOT_FOUND also for a directory. */
static int open_object(struct store *store, const char *key, int *ret_fd, struct stat *st, struct err *err) {
    char path[PATH_MAX];
    int rc = path_of(store, key, path, err);
    if (rc)
        return rc;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    if (fstat(fd, st) < 0)
        rc = err_errno(err, errno, "cannot read %s", path);
    else if (!S_ISREG(st->st_mode))
        rc = err_set(err, ERR_NOT_FOUND, "%s is not a file", path);
    return GIVEN(ret_fd, fd, close, rc);
}

/* Entries of one directory. Names of directories end in '/', so that sorted names give keys in byte order. */
struct names {
    char **items;
    size_t count, cap;
};

static void names_done(struct names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static bool names_add(struct names *names, const char *name, bool directory) {
    if (names->count == MAX_ENTRIES || !GROW(names->items, names->count, names->cap))
        return false;
    char *copy = malloc(strlen(name) + 2);
    if (!copy)
        return false;
    str_format(copy, strlen(name) + 2, "%s%s", name, directory ? "/" : "");
    names->items[names->count++] = copy;
    return true;
}

static int read_names(const char *path, struct names *names, struct err *err) {
    DIR *dir = opendir(path);
    if (!dir)
        return err_errno(err, errno, "cannot open directory %s", path);
    struct dirent *e;
    int rc = 0;
    while (!rc && !(rc = fsio_next_entry(dir, &e, err)) && e) {
        struct stat link, st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || fsio_is_temporary(e->d_name))
            continue;
        if (fstatat(dirfd(dir), e->d_name, &link, AT_SYMLINK_NOFOLLOW) < 0 || fstatat(dirfd(dir), e->d_name, &st, 0) < 0)
            continue; /* it vanished, or points nowhere */
        if ((S_ISREG(st.st_mode) || S_ISDIR(link.st_mode)) && !names_add(names, e->d_name, S_ISDIR(link.st_mode)))
            rc = err_set(err, ERR_EXHAUSTED, "%s: out of memory, or more than %d names", path, MAX_ENTRIES);
    }
    closedir(dir);
    SORT(names->items, names->count, order_strings);
    return rc;
}

struct listing {
    struct store *store;
    const char *prefix, *after;
    struct store_page *page;
    struct err *err;
};

/* True if a directory ("a/b/") can hold keys that are wanted: not all before `after`, and not all outside the prefix. */
static bool worth_entering(const struct listing *l, const char *dir) {
    size_t n = strlen(dir), m = strlen(l->prefix);
    return !strncmp(dir, l->prefix, n < m ? n : m) && strncmp(dir, l->after, n) >= 0;
}

static int add_item(struct listing *l, const char *key) {
    char path[PATH_MAX];
    struct stat st;
    if (l->page->count == STORE_PAGE_MAX) {
        l->page->more = true;
        return 0;
    }
    int rc = path_of(l->store, key, path, l->err);
    if (rc || stat(path, &st) < 0)
        return rc; /* or it vanished */
    struct store_item *item = &l->page->items[l->page->count];
    describe(&st, item);
    if (!(item->key = arena_strdup(&l->page->memory, key)))
        return err_set(l->err, ERR_EXHAUSTED, "%s: out of memory listing keys", local_of(l->store)->root);
    l->page->count++;
    return 0;
}

static int list_dir(struct listing *l, const char *dir, int depth) {
    char path[PATH_MAX];
    OWNED(names_done) struct names names = {0};
    if (depth > MAX_DEPTH)
        return err_set(l->err, ERR_RANGE, "%s/%s: directories nested deeper than %d", local_of(l->store)->root, dir, MAX_DEPTH);
    int rc;
    if ((rc = path_of(l->store, dir, path, l->err)) || (rc = read_names(path, &names, l->err)))
        return rc;
    for (size_t i = 0; !l->page->more && i < names.count; i++) {
        char key[STORE_KEY_SIZE];
        if (!str_format(key, sizeof key, "%s%s", dir, names.items[i]))
            return err_set(l->err, ERR_RANGE, "%s: a path below it has more than %d bytes", path, STORE_KEY_SIZE - 1);
        if (str_ends(key, "/"))
            rc = worth_entering(l, key) ? list_dir(l, key, depth + 1) : 0;
        else if (str_starts(key, l->prefix) && strcmp(key, l->after) > 0)
            rc = add_item(l, key);
        if (rc)
            return rc;
    }
    return 0;
}

static int local_list(struct store *store, const char *prefix, const char *after, struct store_page *page, struct err *err) {
    struct listing l = {store, prefix, after, page, err};
    return list_dir(&l, "", 0);
}

static int local_stat(struct store *store, const char *key, struct store_item *ret, const struct store_watch *watch,
                      struct err *err) {
    struct stat st;
    (void)watch; /* a directory answers at once */
    int fd, rc = open_object(store, key, &fd, &st, err);
    if (rc)
        return rc;
    close(fd);
    describe(&st, ret);
    ret->key = key;
    return 0;
}

/* ABORTED when an open object is not the version that is wanted. */
static int check_version(const struct store *store, const char *key, const struct stat *st, const struct store_watch *watch,
                         struct err *err) {
    struct store_item item = {0};
    describe(st, &item);
    if (!watch->tag || !*watch->tag || !strcmp(watch->tag, item.tag))
        return 0;
    return err_set(err, ERR_ABORTED, "%s/%s changed since it was listed; list it again", store->identity, key);
}

static int local_read(struct store *store, const char *key, struct store_piece *piece, const struct store_watch *watch,
                      struct err *err) {
    struct stat st;
    size_t done = 0;
    OWNED_FD int fd = -1;
    int rc;
    if ((rc = open_object(store, key, &fd, &st, err)) || (rc = check_version(store, key, &st, watch, err)))
        return rc;
    while (done < piece->len) {
        ssize_t n = pread(fd, (char *)piece->buf + done, piece->len - done, (off_t)(piece->offset + (int64_t)done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "cannot read %s/%s", local_of(store)->root, key);
        if (n == 0)
            break;
        done += (size_t)n;
    }
    piece->len = done;
    return 0;
}

/* Everything of fd into w; total is what stat said. Ends soon after it, however long the file grows meanwhile. */
static int copy_all(int fd, const char *from, int64_t total, struct fsio_writer *w, const struct store_watch *watch,
                    struct err *err) {
    OWNED_MEMORY char *block = malloc(COPY_BLOCK);
    int rc = block ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory copying %s", from);
    while (!rc && w->written_bytes <= total) {
        if (watch->progress && !watch->progress(watch->ctx, w->written_bytes, total)) {
            rc = err_set(err, ERR_CANCELLED, "copying %s was cancelled at byte %lld", from, (long long)w->written_bytes);
            break;
        }
        ssize_t n = read(fd, block, COPY_BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_errno(err, errno, "cannot read %s", from);
        if (n <= 0)
            break;
        rc = fsio_writer_write(w, block, (size_t)n, err);
    }
    return rc;
}

/* Durable copy of an open file; ABORTED when it changed under the copy. */
static int copy_file(int fd, const struct stat *before, const char *from, const char *to, const struct store_watch *watch,
                     struct err *err) {
    struct fsio_writer w;
    struct stat after;
    int rc = fsio_writer_open(&w, to, err);
    if (rc)
        return rc;
    if ((rc = copy_all(fd, from, before->st_size, &w, watch, err))) {
        fsio_writer_abort(&w);
        return rc;
    }
    if (fstat(fd, &after) < 0 || after.st_size != before->st_size || w.written_bytes != before->st_size ||
        after.st_mtim.tv_sec != before->st_mtim.tv_sec || after.st_mtim.tv_nsec != before->st_mtim.tv_nsec) {
        fsio_writer_abort(&w);
        return err_set(err, ERR_ABORTED, "%s changed while it was copied; try again when nobody writes it", from);
    }
    return fsio_writer_commit(&w, err);
}

static int local_get(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err) {
    struct stat st;
    OWNED_FD int fd = -1;
    int rc;
    if ((rc = open_object(store, key, &fd, &st, err)) || (rc = check_version(store, key, &st, watch, err)))
        return rc;
    return copy_file(fd, &st, key, path, watch, err);
}

static int local_put(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err) {
    char to[PATH_MAX];
    struct stat st;
    int rc = path_of(store, key, to, err);
    if (rc || (rc = fsio_mkdirs_above(to, err)))
        return rc;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    if (fstat(fd, &st) < 0)
        rc = err_errno(err, errno, "cannot read %s", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_INVALID, "%s is not a file", path);
    else
        rc = copy_file(fd, &st, path, to, watch, err);
    close(fd);
    return rc;
}

static void local_close(struct store *store) { free(local_of(store)); }

static const struct store_ops local_ops = {
    .list = local_list, .stat = local_stat, .read = local_read, .get = local_get, .put = local_put, .close = local_close};

int local_open(const char *directory, struct store **ret, struct err *err) {
    struct local *local = calloc(1, sizeof *local);
    if (!local)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", directory);
    local->base.ops = &local_ops;
    local->base.identity = local->root;
    int rc;
    if ((rc = fsio_absolute(local->root, sizeof local->root, directory, err)) ||
        (!fsio_is_dir(local->root) &&
         (rc = err_set(err, ERR_NOT_FOUND, "%s is not a directory; create it, or correct the store's url", directory)))) {
        free(local);
        return rc;
    }
    *ret = &local->base;
    return 0;
}
