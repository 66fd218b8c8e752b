#include "daemon/live/snapshot.h"

#include "base/order.h"
#include "base/pack.h"

static const char magic[] = "brrsnap1";
enum { MAGIC = sizeof magic - 1, HEAD = MAGIC + 8, TAIL = DIGEST_HEX_SIZE - 1 };

static int make_private(const char *dir, struct err *err) {
    int rc = fsio_mkdirs(dir, err);
    if (rc)
        return rc;
    if (chmod(dir, 0700))
        return err_errno(err, errno, "%s: cannot be closed to other users", dir);
    return 0;
}

int snapshot_prepare(const char *dir, struct err *err) {
    int rc = make_private(dir, err);
    return rc ? rc : fsio_remove_temporaries(dir, err);
}

static const char ended_ending[] = ".ended", moved_ending[] = ".moved", alarm_ending[] = ".alarm", eeg_ending[] = ".eeg";

static int path_beside(const char *dir, const char *id, const char *ending, char path[4096], struct err *err) {
    const bool fits = str_format(path, 4096, "%s/%s%s", dir, id, ending);
    return fits ? 0 : err_set(err, ERR_RANGE, "path too long: %.200s…", dir);
}

int snapshot_end(const char *dir, const char *id, struct err *err) {
    char path[4096];
    int rc = path_beside(dir, id, ended_ending, path, err);
    return rc ? rc : fsio_write_atomic(path, "", 0, err);
}

bool snapshot_ended(const char *dir, const char *id) {
    char path[4096];
    return !path_beside(dir, id, ended_ending, path, NULL) && fsio_exists(path);
}

int snapshot_unmark(const char *dir, const char *id, struct err *err) {
    char path[4096];
    int rc = path_beside(dir, id, ended_ending, path, err);
    return rc ? rc : fsio_remove(path, err);
}

struct parts {
    const char *head, *state, *hex;
    size_t head_len, state_len;
};

static int write_parts(struct fsio_writer *w, const char *path, const struct parts *p, struct err *err) {
    int rc;
    if (fchmod(w->fd, 0600))
        return err_errno(err, errno, "%s: cannot be closed to other users", path);
    if ((rc = fsio_writer_write(w, p->head, p->head_len, err)) || (rc = fsio_writer_write(w, p->state, p->state_len, err)))
        return rc;
    return fsio_writer_write(w, p->hex, TAIL, err);
}

/* The words around a state: head and digest. */
static int frame(const void *state, size_t len, struct str *head, char hex[DIGEST_HEX_SIZE], struct err *err) {
    struct digest *digest = digest_new();
    str_puts(head, magic);
    pack_i64(head, (int64_t)len);
    digest_update(digest, str_cstr(head), head->len);
    digest_update(digest, state, len);
    if (!digest_finish(digest, hex) || !str_ok(head))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a snapshot");
    return 0;
}

/* A temporary file that holds the snapshot. */
static int prepare_file(const char *dir, const char *id, const struct parts *p, struct fsio_writer *w, struct err *err) {
    char path[4096];
    int rc;
    if ((rc = fsio_join(path, sizeof path, dir, id, err)) || (rc = fsio_writer_open(w, path, err)))
        return rc;
    if ((rc = write_parts(w, path, p, err)))
        fsio_writer_abort(w);
    return rc;
}

static int write_framed(const char *dir, const struct snapshot_file *f, struct err *err) {
    char hex[DIGEST_HEX_SIZE];
    OWNED(str_done) struct str head = str_of(HEAD);
    struct fsio_writer w;
    int rc = frame(f->state, f->len, &head, hex, err);
    const struct parts all = {head.data, f->state, hex, head.len, f->len};
    if (rc || (rc = snapshot_unmark(dir, f->id, err)) || (rc = prepare_file(dir, f->id, &all, &w, err)))
        return rc;
    rc = fsio_writer_place(&w, f->renew, err);
    return rc == ERR_NOT_FOUND && f->renew ? err_set(err, ERR_ABORTED, "another daemon has taken the stream over") : rc;
}

void snapshot_write_all(const char *dir, struct snapshot_file *files, size_t n) {
    struct err err = {0};
    int written = 0;
    for (size_t i = 0; i < n; i++)
        written += !files[i].err.code && !write_framed(dir, &files[i], &files[i].err);
    if (!written || !fsio_sync_folder(dir, &err))
        return;
    for (size_t i = 0; i < n; i++)
        files[i].err = files[i].err.code ? files[i].err : err;
}

int snapshot_write(const char *dir, const char *id, const void *state, size_t len, struct err *err) {
    struct snapshot_file file = {.id = id, .state = state, .len = len};
    snapshot_write_all(dir, &file, 1);
    if (file.err.code && err)
        *err = file.err;
    return file.err.code;
}

int snapshot_read(const char *dir, const char *id, char **ret, size_t *ret_len, struct err *err) {
    char path[4096], hex[DIGEST_HEX_SIZE], *data = NULL;
    size_t len = 0;
    int rc;
    if ((rc = fsio_join(path, sizeof path, dir, id, err)) ||
        (rc = fsio_read(path, SNAPSHOT_MAX_BYTES + HEAD + TAIL, &data, &len, err)))
        return rc;
    struct unpack head = unpack_of(data + MAGIC, len >= HEAD ? HEAD - MAGIC : 0);
    int64_t state = unpack_i64(&head, 0, SNAPSHOT_MAX_BYTES);
    if (head.failed || memcmp(data, magic, MAGIC) || len != HEAD + (size_t)state + TAIL ||
        !digest_bytes(data, HEAD + (size_t)state, hex) || memcmp(hex, data + HEAD + state, TAIL)) {
        free(data);
        return err_set(err, ERR_DATA_LOSS, "%s: not a whole snapshot of this version", path);
    }
    memmove(data, data + HEAD, (size_t)state);
    *ret = data;
    *ret_len = (size_t)state;
    return 0;
}

enum { NAME = SNAPSHOT_ID_SIZE + 8 };
static void name_beside(const char *id, enum snapshot_beside what, char ret[NAME]) {
    str_format(ret, NAME, "%s%s", id, what == SNAPSHOT_EEG ? eeg_ending : alarm_ending);
}

int snapshot_read_beside(const char *dir, const char *id, enum snapshot_beside what, char **ret, size_t *ret_len, struct err *err) {
    char name[NAME];
    name_beside(id, what, name);
    return snapshot_read(dir, name, ret, ret_len, err);
}

int snapshot_remove_beside(const char *dir, const char *id, enum snapshot_beside what, struct err *err) {
    char name[NAME];
    name_beside(id, what, name);
    return fsio_remove_in(dir, name, err);
}

int snapshot_write_alarm(const char *dir, const char *id, const void *data, size_t len, struct err *err) {
    char name[NAME];
    name_beside(id, SNAPSHOT_ALARM, name);
    return snapshot_write(dir, name, data, len, err);
}

/* Whoever removes a snapshot removes its EEG afterwards, so that none is left by a writer that has not noticed. */
int snapshot_write_eeg(const char *dir, const char *id, const void *data, size_t len, struct err *err) {
    char name[NAME], path[4096];
    name_beside(id, SNAPSHOT_EEG, name);
    int rc = fsio_join(path, sizeof path, dir, id, err);
    if (rc || (rc = snapshot_write(dir, name, data, len, err)))
        return rc;
    return fsio_exists(path) ? 0 : snapshot_remove_beside(dir, id, SNAPSHOT_EEG, err);
}

bool snapshot_is_useless(const struct err *why) {
    return why->code == ERR_DATA_LOSS || why->code == ERR_INVALID || why->code == ERR_EXISTS;
}

int snapshot_remove(const char *dir, const char *id, struct err *err) {
    int rc;
    if ((rc = snapshot_unmark(dir, id, err)) || (rc = fsio_remove_in(dir, id, err)))
        return rc;
    return snapshot_remove_beside(dir, id, SNAPSHOT_EEG, err);
}

int snapshot_reject(const char *dir, const char *id, struct err *err) {
    char from[4096], folder[4096], to[4096];
    int rc;
    if ((rc = snapshot_unmark(dir, id, err)) || (rc = fsio_join(from, sizeof from, dir, id, err)) ||
        (rc = fsio_join(folder, sizeof folder, dir, "rejected", err)) || (rc = fsio_join(to, sizeof to, folder, id, err)) ||
        (rc = make_private(folder, err)))
        return rc;
    if (rename(from, to) && errno != ENOENT)
        return err_errno(err, errno, "%s: cannot be moved to %s", from, to);
    return snapshot_remove_beside(dir, id, SNAPSHOT_EEG, err);
}

static bool is_id(const char *name) {
    return strlen(name) == SNAPSHOT_ID_SIZE - 1 && strspn(name, "0123456789abcdef") == SNAPSHOT_ID_SIZE - 1;
}

ORDER_BY(by_end_and_id, struct snapshot_entry, order_then(x->ended - y->ended, strcmp(x->id, y->id)))

/* Appends to a malloc'd array of n elements. */
static int append(void **items, size_t n, size_t size, const void *item, struct err *err) {
    char *more = realloc(*items, (n + 1) * size);
    if (!more)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the list of snapshots");
    memcpy(more + n * size, item, size);
    *items = more;
    return 0;
}

int snapshot_note_moved(const char *dir, const char *id, const char *owner, struct err *err) {
    char path[4096], text[512], utc[32];
    int rc = path_beside(dir, id, moved_ending, path, err);
    if (rc || !owner)
        return rc ? rc : fsio_remove(path, err);
    str_format(text, sizeof text, "%s %s\n", clock_utc(clock_wall_ms(), "%FT%TZ", utc, sizeof utc), owner);
    return fsio_write_atomic(path, text, strlen(text), err);
}

int snapshot_moved_to(const char *dir, const char *id, char *ret_owner, size_t size, struct err *err) {
    char path[4096];
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    int rc = path_beside(dir, id, moved_ending, path, err);
    if (rc || (rc = fsio_read(path, 4096, &text, &len, err)))
        return rc;
    const char *owner = strchr(text, ' ');
    return owner && str_format(ret_owner, size, "%.*s", (int)strcspn(owner + 1, "\n"), owner + 1)
               ? 0
               : err_set(err, ERR_DATA_LOSS, "%s: names no owner", path);
}

/* The id of the snapshot beside which a file of this name lies. */
static bool lies_beside(const char *name, const char *ending, char ret_id[SNAPSHOT_ID_SIZE]) {
    return str_ends(name, ending) && str_format(ret_id, SNAPSHOT_ID_SIZE, "%.*s", (int)(strlen(name) - strlen(ending)), name) &&
           is_id(ret_id);
}

/* EEG whose snapshot another daemon has taken, or that a killed daemon was about to write; and what says that a snapshot was taken
 * long ago, once it has been read: a clock that is wrong must not make an alarm that moved one that nobody has. */
static void drop_orphan(const char *dir, const char *name, bool read) {
    char id[SNAPSHOT_ID_SIZE], path[4096];
    int64_t bytes, written_ns;
    if (lies_beside(name, eeg_ending, id) && !fsio_join(path, sizeof path, dir, id, NULL) && !fsio_exists(path))
        (void)snapshot_remove_beside(dir, id, SNAPSHOT_EEG, NULL);
    else if (read && lies_beside(name, moved_ending, id) && !path_beside(dir, id, moved_ending, path, NULL) &&
             !fsio_size(path, &bytes, &written_ns, NULL) && clock_wall_ms() / 1000 - written_ns / 1000000000 > SNAPSHOT_MOVED_S)
        (void)snapshot_note_moved(dir, id, NULL, NULL);
}

/* Another daemon has taken the snapshot, and has it or had its end. */
static bool is_moved(const char *dir, const char *name, char ret_id[SNAPSHOT_ID_SIZE]) {
    char path[4096];
    return lies_beside(name, moved_ending, ret_id) && !fsio_join(path, sizeof path, dir, ret_id, NULL) && !fsio_exists(path);
}

static int list_ids(const char *dir, DIR *d, enum snapshots what, void **entries, size_t *n, struct err *err) {
    struct dirent *e = NULL;
    int rc;
    while (!(rc = fsio_next_entry(d, &e, err)) && e) {
        struct snapshot_entry entry = {.ended = false};
        const bool wanted = what == SNAPSHOTS_MOVED     ? is_moved(dir, e->d_name, entry.id)
                            : what == SNAPSHOTS_ALARMED ? lies_beside(e->d_name, alarm_ending, entry.id)
                                                        : is_id(e->d_name);
        if (what != SNAPSHOTS_ALARMED && wanted == (what == SNAPSHOTS_MOVED))
            drop_orphan(dir, e->d_name, what == SNAPSHOTS_MOVED);
        if (!wanted)
            continue;
        if (what == SNAPSHOTS_HERE) {
            memcpy(entry.id, e->d_name, sizeof entry.id);
            entry.ended = snapshot_ended(dir, entry.id);
        }
        if ((rc = append(entries, *n, sizeof entry, &entry, err)))
            return rc;
        ++*n;
    }
    return rc;
}

int snapshot_list(const char *dir, enum snapshots what, struct snapshot_entry **ret, size_t *ret_n, struct err *err) {
    void *entries = NULL;
    size_t n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return err_errno(err, errno, "%s: cannot be read", dir);
    int rc = list_ids(dir, d, what, &entries, &n, err);
    closedir(d);
    if (rc) {
        free(entries);
        return err_wrap(err, "%s: cannot be read", dir);
    }
    if (n)
        qsort(entries, n, sizeof(struct snapshot_entry), by_end_and_id);
    *ret = entries;
    *ret_n = n;
    return 0;
}

/* ---- rejected ones ---- */

struct rejected {
    char id[SNAPSHOT_ID_SIZE];
    int64_t written_s, bytes;
};

ORDER_BY(newest_first, struct rejected, order_then(order_i64(y->written_s, x->written_s), strcmp(x->id, y->id)))

static int list_rejected(DIR *d, struct rejected **ret, size_t *ret_n, struct err *err) {
    void *items = NULL;
    struct dirent *e = NULL;
    int rc;
    while (!(rc = fsio_next_entry(d, &e, err)) && e) {
        struct rejected item;
        struct stat st;
        if (!is_id(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        memcpy(item.id, e->d_name, sizeof item.id);
        item.written_s = st.st_mtime;
        item.bytes = st.st_size;
        if ((rc = append(&items, *ret_n, sizeof item, &item, err)))
            break;
        *ret = items;
        ++*ret_n;
    }
    return rc;
}

int snapshot_prune_rejected(const char *dir, struct err *err) {
    char folder[4096];
    struct rejected *items = NULL;
    size_t n = 0;
    int64_t bytes = 0, oldest_s = clock_wall_ms() / 1000 - SNAPSHOT_REJECTED_S;
    int rc = fsio_join(folder, sizeof folder, dir, "rejected", err);
    if (rc)
        return rc;
    OWNED_DIR DIR *d = opendir(folder);
    if (!d)
        return errno == ENOENT ? 0 : err_errno(err, errno, "%s: cannot be read", folder);
    rc = list_rejected(d, &items, &n, err);
    SORT(items, n, newest_first);
    for (size_t i = 0; i < n; i++) {
        bytes += items[i].bytes;
        if (bytes <= SNAPSHOT_REJECTED_BYTES && items[i].written_s >= oldest_s)
            continue;
        if (unlinkat(dirfd(d), items[i].id, 0) && errno != ENOENT && rc == 0)
            rc = err_errno(err, errno, "%s/%s: cannot be removed", folder, items[i].id);
    }
    free(items);
    return rc;
}

/* ---- models ---- */

static const char model_ending[] = ".safetensors";

int snapshot_model_path(const char *dir, const char *sha256, char *path, size_t size, struct err *err) {
    return str_format(path, size, "%s/models/%s%s", dir, sha256, model_ending)
               ? 0
               : err_set(err, ERR_RANGE, "path too long: %.200s…", dir);
}

/* A second name of the file, or its copy. */
static int link_or_copy(const char *from, const char *to, struct err *err) {
    unlink(to);
    return link(from, to) ? fsio_copy(from, to, err) : 0; /* an error of link that is no matter of volumes comes again */
}

/* Gives the copy its name when it is the file that was meant. */
static int keep_fresh(const char *fresh, const char *kept, const char *sha256, const char *path, struct err *err) {
    char found[DIGEST_HEX_SIZE];
    int rc = digest_file(fresh, found, err);
    if (rc)
        return rc;
    if (strcmp(found, sha256) != 0)
        return err_set(err, ERR_PRECONDITION, "%.300s: the file was replaced since the stream has loaded its model", path);
    return fsio_rename(fresh, kept, err);
}

int snapshot_keep_model(const char *dir, const char *sha256, const char *path, struct err *err) {
    char folder[4096], kept[4096], fresh[4096 + 8];
    int rc = snapshot_model_path(dir, sha256, kept, sizeof kept, err);
    if (rc || fsio_exists(kept))
        return rc;
    str_format(fresh, sizeof fresh, "%s.new", kept);
    if (fsio_join(folder, sizeof folder, dir, "models", err) || make_private(folder, err) || link_or_copy(path, fresh, err))
        return err_wrap(err, "the model of a snapshot cannot be kept");
    if ((rc = keep_fresh(fresh, kept, sha256, path, err)))
        unlink(fresh);
    return rc;
}

int snapshot_remove_model(const char *dir, const char *sha256, struct err *err) {
    char path[4096];
    int rc = snapshot_model_path(dir, sha256, path, sizeof path, err);
    return rc ? rc : fsio_remove(path, err);
}

int snapshot_list_models(const char *dir, struct snapshot_model **ret, size_t *ret_n, struct err *err) {
    char folder[4096];
    void *items = NULL;
    *ret = NULL;
    *ret_n = 0;
    int rc = fsio_join(folder, sizeof folder, dir, "models", err);
    if (rc)
        return rc;
    OWNED_DIR DIR *d = opendir(folder);
    struct dirent *e = NULL;
    if (!d)
        return errno == ENOENT ? 0 : err_errno(err, errno, "%s: cannot be read", folder);
    while (!(rc = fsio_next_entry(d, &e, err)) && e) {
        struct snapshot_model item = {""};
        if (strlen(e->d_name) != DIGEST_HEX_SIZE - 1 + strlen(model_ending) || !str_ends(e->d_name, model_ending))
            continue;
        memcpy(item.sha256, e->d_name, DIGEST_HEX_SIZE - 1);
        if (!digest_is_hex(item.sha256))
            continue;
        if ((rc = append(&items, *ret_n, sizeof item, &item, err)))
            break;
        *ret = items;
        ++*ret_n;
    }
    return rc;
}
