#include "daemon/models/served_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/str.h"
#include "detect/model_image.h"

enum { MAX_NAME = 64 };
static const char folder_name[] = "served", extension[] = ".safetensors";

bool served_file_name(const char *name) {
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return n > 0 && !name[n] && n <= MAX_NAME && *name != '.';
}

int served_file_link(const char *results_dir, const char *folder, const char *name, const char *from, char ret_path[SERVED_PATH],
                     struct err *err) {
    char dir[SERVED_PATH], path[SERVED_PATH], tmp[SERVED_PATH];
    if (!str_format(dir, sizeof dir, "%s/%s", results_dir, folder) ||
        !str_format(path, sizeof path, "%.3900s/%s%s", dir, name, extension) || !str_format(tmp, sizeof tmp, "%.4000s.tmp", path))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    int rc = fsio_mkdirs(dir, err);
    if (rc)
        return rc;
    if (!strcmp(from, path)) {
        str_copy(ret_path, SERVED_PATH, path);
        return 0;
    }
    unlink(tmp);
    if (link(from, tmp) < 0) { /* another volume, or one without links: the file itself is used */
        if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != ENOTSUP)
            return err_errno(err, errno, "cannot keep %s", from);
        str_copy(ret_path, SERVED_PATH, from);
        return 0;
    }
    rc = fsio_rename(tmp, path, err); /* durable before its name is recorded */
    unlink(tmp);                      /* rename does nothing when both are the same file already */
    if (rc)
        return err_wrap(err, "cannot keep %s as %s", from, path);
    str_copy(ret_path, SERVED_PATH, path);
    return 0;
}

int served_file_make(const char *results_dir, const char *name, const char *from, struct served_file *ret, struct err *err) {
    struct served_file made;
    char unique[MAX_NAME + DIGEST_HEX_SIZE + 2];
    int rc;
    if ((rc = model_image_check(from, err)) || (rc = digest_file(from, made.sha256, err)))
        return rc;
    str_format(unique, sizeof unique, "%s-%s", name, made.sha256);
    if ((rc = served_file_link(results_dir, folder_name, unique, from, made.path, err)))
        return rc;
    *ret = made;
    return 0;
}

/* True if the file is NAME-SHA256.safetensors, or NAME.safetensors as earlier versions had it. */
static bool belongs(const char *file, const char *name) {
    char sha256[DIGEST_HEX_SIZE];
    size_t len = strlen(name);
    if (strncmp(file, name, len) != 0)
        return false;
    const char *rest = file + len;
    if (*rest != '-' || strlen(rest) < DIGEST_HEX_SIZE)
        return !strcmp(rest, extension);
    str_format(sha256, sizeof sha256, "%.*s", DIGEST_HEX_SIZE - 1, rest + 1);
    return digest_is_hex(sha256) && !strcmp(rest + DIGEST_HEX_SIZE, extension);
}

void served_file_remove(const char *results_dir, const char *name, const char *keep) {
    char dir[SERVED_PATH], path[SERVED_PATH];
    struct dirent *e = NULL;
    DIR *d = str_format(dir, sizeof dir, "%s/%s", results_dir, folder_name) ? opendir(dir) : NULL;
    while (d && !fsio_next_entry(d, &e, NULL) && e)
        if (belongs(e->d_name, name) && !fsio_join(path, sizeof path, dir, e->d_name, NULL) && strcmp(path, keep) != 0)
            unlink(path);
    if (d)
        closedir(d);
}
