#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum { MOST_BEFORE_REASON = 380 }; /* bytes of a message */

const char *err_name(int code) {
    switch (code) {
    case ERR_OK:
        return "ok";
#define ERR_TEXT(name, grpc, text)                                                                                                 \
    case ERR_##name:                                                                                                               \
        return text;
        ERR_MAP(ERR_TEXT)
#undef ERR_TEXT
    default:
        return "unknown";
    }
}

static void set_origin(struct err *err, const char *file, int line) {
    const char *slash = strrchr(file, '/');
    snprintf(err->origin, sizeof err->origin, "%s:%d", slash ? slash + 1 : file, line);
}

int err_set_at(struct err *err, const char *file, int line, int code, const char *fmt, ...) {
    if (!err)
        return code;
    char text[sizeof err->message]; /* arguments may point into *err */
    STR_ARGUMENTS(text, fmt);
    str_cut_utf8(text);
    err->code = code;
    memcpy(err->message, text, sizeof text);
    err->cause[0] = '\0';
    err->room = ERR_ROOM_ENOUGH;
    set_origin(err, file, line);
    return code;
}

static int code_of_errno(int errnum) {
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return ERR_EXHAUSTED;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case EEXIST:
        return ERR_EXISTS;
    default:
        return ERR_INTERNAL;
    }
}

int err_errno_at(struct err *err, const char *file, int line, int errnum, const char *fmt, ...) {
    int code = code_of_errno(errnum);
    if (!err)
        return code;
    char text[MOST_BEFORE_REASON + 1];
    STR_ARGUMENTS(text, fmt);
    str_cut_utf8(text);
    char reason[128];
    const char *words = strerror_r(errnum, reason, sizeof reason);
    bool large = errnum == EFBIG; /* as on a full volume, for those who wait for room */
    bool full = errnum == ENOSPC || errnum == EDQUOT || large;
    const char *fix = large ? "; raise ulimit -f (LimitFSIZE)" : full ? "; free some space on that volume" : "";
    bool descriptors = errnum == EMFILE || errnum == ENFILE;
    err->room = full ? ERR_ROOM_NONE : descriptors ? ERR_ROOM_NO_DESCRIPTOR : ERR_ROOM_ENOUGH;
    err->code = code;
    snprintf(err->message, sizeof err->message, "%s: %.80s%s", text, words, fix);
    err->cause[0] = '\0';
    set_origin(err, file, line);
    return code;
}

int err_wrap(struct err *err, const char *fmt, ...) {
    if (!err)
        return ERR_UNKNOWN;
    char text[sizeof err->message];
    STR_ARGUMENTS(text, fmt);
    str_cut_utf8(text);
    char below[sizeof err->cause], upper[151], lower[101];
    str_copy(upper, sizeof upper, err->message);
    str_copy(lower, sizeof lower, err->cause);
    if (*lower)
        str_format(below, sizeof below, "%s: %s", upper, lower);
    else
        str_copy(below, sizeof below, err->message);
    memcpy(err->message, text, sizeof text);
    memcpy(err->cause, below, sizeof below);
    return err->code ? err->code : ERR_UNKNOWN;
}

int err_of_file(struct err *err, const char *path, const char *name) {
    if (!err)
        return ERR_UNKNOWN;
    size_t n = strlen(path);
    if (n && !strncmp(err->message, path, n) && (err->message[n] == ':' || err->message[n] == ' ')) {
        n += strspn(err->message + n, ": ");
        memmove(err->message, err->message + n, strlen(err->message + n) + 1);
    }
    return err_wrap(err, "%s", name);
}

int err_in_cache(struct err *err) {
    if (!err)
        return ERR_UNKNOWN;
    if (err->room == ERR_ROOM_NONE)
        err->room = ERR_ROOM_NONE_IN_CACHE;
    return err->code;
}

const char *err_text(const struct err *err, char *buf, unsigned long size) {
    if (err->cause[0])
        snprintf(buf, size, "%s (%s)", err->message, err->cause);
    else
        snprintf(buf, size, "%s", err->message);
    return buf;
}
