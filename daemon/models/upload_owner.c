#include "daemon/models/upload_owner.h"

#include "base/principal.h"

enum { PATH_BYTES = 4096, OWNER_BYTES = 1024 };

/* "uploads/.NAME.safetensors.owner" */
static bool file_of(const char *path, char ret[PATH_BYTES]) {
    const char *base = fsio_basename(path);
    return str_format(ret, PATH_BYTES, "%.*s.%s.owner", (int)(base - path), path, base);
}

/* The owner, malloc'd; NULL if none is known. */
static char *read_owner(const char *path) {
    char file[PATH_BYTES], *text = NULL;
    size_t len;
    if (!file_of(path, file) || fsio_read(file, OWNER_BYTES, &text, &len, NULL))
        return NULL;
    return text;
}

bool upload_owner_is(const char *path, const char *principal) {
    OWNED_MEMORY char *owner = read_owner(path);
    return !owner || principal_is_same(owner, principal);
}

int upload_owner_claim(const char *path, const char *principal, bool any, struct err *err) {
    OWNED_MEMORY char *owner = read_owner(path);
    const bool there = owner && fsio_exists(path);
    char file[PATH_BYTES];
    if (there && !any && !principal_is_same(owner, principal))
        return err_set(err, ERR_DENIED, "the upload %s belongs to %s; choose another name", fsio_basename(path), owner);
    if (there || !file_of(path, file))
        return 0;
    OWNED(str_done) struct str text = str_of(OWNER_BYTES);
    str_puts(&text, principal);
    return fsio_write_text(file, &text, err);
}

void upload_owner_forget(const char *path) {
    char file[PATH_BYTES];
    if (file_of(path, file))
        unlink(file);
}
