#include "daemon/live/claim.h"

#include "daemon/live/session.h"

enum { LOOKS = 2 }; /* a snapshot that moves between two other folders may be missed once */

/* The folder in which the daemons have theirs. */
static int root_of(const char *dir, char root[4096], struct err *err) {
    if (!str_copy(root, 4096, dir))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", dir);
    *strrchr(root, '/') = '\0';
    return 0;
}

/* The file of the model comes first, so that a snapshot in dir has its model there. */
static int take_model(const char *other, const char *dir, const char *id, struct err *err) {
    char sha256[DIGEST_HEX_SIZE], path[4096];
    OWNED_MEMORY char *state = NULL;
    size_t len = 0;
    int rc;
    if ((rc = snapshot_read(other, id, &state, &len, err)) || (rc = sessions_model_of(state, len, sha256, err)) || !*sha256)
        return rc;
    rc = snapshot_model_path(other, sha256, path, sizeof path, err);
    return rc ? rc : snapshot_keep_model(dir, sha256, path, err);
}

/* An alarm that the daemon before was handed over and has not taken; EEG, which people look at and without which a stream
 * goes on. */
static void take_beside(const char *other, const char *dir, const char *id, struct claim *ret) {
    if (!snapshot_read_beside(other, id, SNAPSHOT_ALARM, &ret->alarm, &ret->alarm_len, NULL) &&
        !snapshot_write_alarm(dir, id, ret->alarm, ret->alarm_len, NULL))
        snapshot_remove_beside(other, id, SNAPSHOT_ALARM, NULL);
    if (!snapshot_read_beside(other, id, SNAPSHOT_EEG, &ret->eeg, &ret->eeg_len, NULL) &&
        !snapshot_write_eeg(dir, id, ret->eeg, ret->eeg_len, NULL))
        snapshot_remove_beside(other, id, SNAPSHOT_EEG, NULL);
}

/* NOT_FOUND also if another daemon was faster. */
static int take_from(const char *other, const char *dir, const char *id, struct claim *ret, struct err *err) {
    char from[4096], to[4096];
    int rc;
    if ((rc = fsio_join(from, sizeof from, other, id, err)) || (rc = fsio_join(to, sizeof to, dir, id, err)))
        return rc;
    if (!fsio_exists(from))
        return err_set(err, ERR_NOT_FOUND, "%s: no such snapshot", from);
    bool ended = snapshot_ended(other, id);
    if ((rc = take_model(other, dir, id, err)) || (rc = ended ? snapshot_end(dir, id, err) : snapshot_unmark(dir, id, err)) ||
        (rc = fsio_rename(from, to, err)))
        return rc;
    snapshot_unmark(other, id, NULL);
    snapshot_note_moved(other, id, fsio_basename(dir), NULL);
    snapshot_note_moved(dir, id, NULL, NULL);
    take_beside(other, dir, id, ret);
    ret->moved = true;
    ret->ended = ended;
    return snapshot_read(dir, id, &ret->state, &ret->len, err);
}

static int look(const char *root, const char *own, const char *dir, const char *id, struct claim *ret, struct err *err) {
    OWNED_DIR DIR *d = opendir(root);
    struct dirent *e = NULL;
    int rc;
    if (!d)
        return err_errno(err, errno, "%s: cannot be read", root);
    while (!(rc = fsio_next_entry(d, &e, err)) && e) {
        char other[4096];
        if (e->d_name[0] == '.' || !strcmp(e->d_name, own) || fsio_join(other, sizeof other, root, e->d_name, NULL))
            continue;
        if ((rc = take_from(other, dir, id, ret, err)) != ERR_NOT_FOUND)
            return rc;
    }
    return rc ? rc : err_set(err, ERR_NOT_FOUND, "no daemon below %s has a snapshot of the stream", root);
}

/* Appends what another daemon's folder has, or was taken from the own one. */
static int add_entries(const char *folder, bool own, struct snapshot_entry **list, size_t *n, struct err *err) {
    OWNED_MEMORY struct snapshot_entry *some = NULL;
    size_t k = 0;
    int rc = snapshot_list(folder, own ? SNAPSHOTS_MOVED : SNAPSHOTS_HERE, &some, &k, err);
    struct snapshot_entry *more = rc || !k ? NULL : realloc(*list, (*n + k) * sizeof *more);
    if (rc || !k)
        return rc;
    if (!more)
        return err_set(err, ERR_EXHAUSTED, "out of memory listing snapshots");
    memcpy(more + *n, some, k * sizeof *more);
    *list = more;
    *n += k;
    return 0;
}

/* Of all folders below root that can be read; the first error of the others. */
static int add_all(const char *root, const char *own, struct snapshot_entry **list, size_t *n, struct err *err) {
    char other[4096];
    OWNED_DIR DIR *d = opendir(root);
    struct dirent *e = NULL;
    struct err next;
    int rc = d ? 0 : err_errno(err, errno, "%s: cannot be read", root), failed = 0;
    while (d && !(failed = fsio_next_entry(d, &e, rc ? &next : err)) && e)
        if (e->d_name[0] != '.' && strcmp(e->d_name, own) != 0 && !fsio_join(other, sizeof other, root, e->d_name, NULL) &&
            fsio_is_dir(other)) {
            failed = add_entries(other, false, list, n, rc ? &next : err);
            rc = rc ? rc : failed;
        }
    return rc ? rc : failed;
}

int claim_others(const char *dir, struct snapshot_entry **ret, size_t *ret_n, struct err *err) {
    char root[4096];
    struct err next;
    *ret = NULL;
    *ret_n = 0;
    int rc = root_of(dir, root, err);
    if (rc)
        return rc;
    rc = add_all(root, fsio_basename(dir), ret, ret_n, err);
    int own = add_entries(dir, true, ret, ret_n, rc ? &next : err); /* last: one that is taken meanwhile is found here or there */
    return rc ? rc : own;
}

int claim_take(const char *dir, const char *id, struct claim *ret, struct err *err) {
    char path[4096], root[4096];
    int rc = fsio_join(path, sizeof path, dir, id, err);
    *ret = (struct claim){0};
    if (rc || fsio_exists(path) || (rc = root_of(dir, root, err)))
        return rc;
    rc = ERR_NOT_FOUND;
    for (int i = 0; i < LOOKS && rc == ERR_NOT_FOUND; i++)
        rc = look(root, fsio_basename(dir), dir, id, ret, err);
    return rc;
}

/* ---- the alarm of a stream that another daemon has ---- */

/* The folder of the daemon, other than dir's, that has the snapshot, or else took it from dir. */
static int find_owner(const char *dir, const char *id, char ret[4096], struct err *err) {
    char root[4096], owner[256], path[4096];
    struct dirent *e = NULL;
    int rc = root_of(dir, root, err);
    if (rc)
        return rc;
    OWNED_DIR DIR *d = opendir(root);
    if (!d)
        return err_errno(err, errno, "%s: cannot be read", root);
    while (!(rc = fsio_next_entry(d, &e, err)) && e)
        if (e->d_name[0] != '.' && strcmp(e->d_name, fsio_basename(dir)) != 0 && !fsio_join(ret, 4096, root, e->d_name, NULL) &&
            !fsio_join(path, sizeof path, ret, id, NULL) && fsio_exists(path))
            return 0;
    if (rc || (rc = snapshot_moved_to(dir, id, owner, sizeof owner, err)) || (rc = fsio_join(ret, 4096, root, owner, err)))
        return rc;
    return fsio_is_dir(ret) ? 0 : err_set(err, ERR_NOT_FOUND, "%s: no daemon has this folder", ret);
}

int claim_hand(const char *dir, const char *id, const void *data, size_t len, struct err *err) {
    char other[4096];
    int rc = find_owner(dir, id, other, err);
    return rc ? rc : snapshot_write_alarm(other, id, data, len, err);
}

/* Whether it followed its stream to another daemon. */
static bool passes_on(const char *dir, const struct claim_alarm *a) {
    char path[4096];
    const bool here = !fsio_join(path, sizeof path, dir, a->id, NULL) && fsio_exists(path);
    return !here && !claim_hand(dir, a->id, a->data, a->len, NULL) && !snapshot_remove_beside(dir, a->id, SNAPSHOT_ALARM, NULL);
}

int claim_alarms(const char *dir, struct claim_alarm **ret, size_t *ret_n, struct err *err) {
    OWNED_MEMORY struct snapshot_entry *list = NULL;
    size_t n = 0;
    *ret = NULL;
    *ret_n = 0;
    int rc = snapshot_list(dir, SNAPSHOTS_ALARMED, &list, &n, err);
    if (rc || !n)
        return rc;
    if (!(*ret = calloc(n, sizeof **ret)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for alarms of other daemons");
    for (size_t i = 0; i < n; i++) {
        struct claim_alarm *a = &(*ret)[*ret_n];
        str_copy(a->id, sizeof a->id, list[i].id);
        struct err why;
        if (snapshot_read_beside(dir, a->id, SNAPSHOT_ALARM, &a->data, &a->len, &why)) {
            rc = rc ? rc : err_set(err, why.code, "%s", why.message);
            if (snapshot_is_useless(&why))
                (void)snapshot_remove_beside(dir, a->id, SNAPSHOT_ALARM, NULL);
        } else if (passes_on(dir, a)) {
            free(a->data);
            a->data = NULL;
        } else {
            ++*ret_n;
        }
    }
    return rc;
}

void claim_alarms_free(struct claim_alarm *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(list[i].data);
    free(list);
}
