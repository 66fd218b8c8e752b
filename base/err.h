/* err: how a fallible function reports an error to its caller.
 *
 * Functions return 0 or a negative code of ERR_MAP; each code is the negated number of the gRPC status
 * it is sent as. The last parameter `struct err *err` is owned by the caller, of fixed size, never
 * allocates and may be NULL when the caller needs only the code. Any thread, one owner at a time.
 * A good message says what went wrong, where (file, line, column, channel, index), what was expected, and the fix. */
#pragma once

#define ERR_MAP(X)                                                                                                                 \
    X(CANCELLED, 1, "cancelled")                                                                                                   \
    X(UNKNOWN, 2, "unknown")                                                                                                       \
    X(INVALID, 3, "invalid_argument")                                                                                              \
    X(DEADLINE, 4, "deadline_exceeded")                                                                                            \
    X(NOT_FOUND, 5, "not_found")                                                                                                   \
    X(EXISTS, 6, "already_exists")                                                                                                 \
    X(DENIED, 7, "permission_denied")                                                                                              \
    X(EXHAUSTED, 8, "resource_exhausted")                                                                                          \
    X(PRECONDITION, 9, "failed_precondition")                                                                                      \
    X(ABORTED, 10, "aborted")                                                                                                      \
    X(RANGE, 11, "out_of_range")                                                                                                   \
    X(UNSUPPORTED, 12, "unsupported")                                                                                              \
    X(INTERNAL, 13, "internal")                                                                                                    \
    X(UNAVAILABLE, 14, "unavailable")                                                                                              \
    X(DATA_LOSS, 15, "data_loss")                                                                                                  \
    X(UNAUTHENTICATED, 16, "unauthenticated")

enum err_code {
    ERR_OK = 0,
#define ERR_ENUM(name, grpc, text) ERR_##name = -(grpc),
    ERR_MAP(ERR_ENUM)
#undef ERR_ENUM
};

/* The resource that ran out when a call failed: room on a volume, or file descriptors. The same call may succeed later. A job that
 * cannot write to a full cache may wait until other jobs free room. */
enum err_room { ERR_ROOM_ENOUGH, ERR_ROOM_NONE, ERR_ROOM_NONE_IN_CACHE, ERR_ROOM_NO_DESCRIPTOR };

struct err {
    int code;          /* 0 or a value of enum err_code */
    char message[512]; /* one sentence for people, no trailing newline */
    char origin[48];   /* "edf.c:120": where it was first set */
    char cause[256];   /* message of the error below it, or "" */
    enum err_room room;
};

/* Returns the stable name of a code ("invalid_argument"), "ok" for 0, "unknown" for any other value. */
const char *err_name(int code);

/* Fills *err (unless NULL) and returns code. Use the macro: it records the origin. */
int err_set_at(struct err *err, const char *file, int line, int code, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define err_set(err, code, ...) err_set_at((err), __FILE__, __LINE__, (code), __VA_ARGS__)

/* Like err_set, from an errno value: chooses the code (ENOENT → NOT_FOUND, ENOSPC → EXHAUSTED, EACCES → DENIED, EEXIST → EXISTS
 * and similar, else INTERNAL) and appends ": strerror". For a full volume it also appends the fix; sets `room`. */
int err_errno_at(struct err *err, const char *file, int line, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
#define err_errno(err, errnum, ...) err_errno_at((err), __FILE__, __LINE__, (errnum), __VA_ARGS__)

/* Replaces the message by a new sentence: the old message becomes the cause; code and origin stay. Returns the code. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Wraps an error about a file into the file's name, which takes the place of its path if the message begins with that. Returns the
 * code. */
int err_of_file(struct err *err, const char *path, const char *name);

/* Marks the failed write as one to a cache: ERR_ROOM_NONE becomes ERR_ROOM_NONE_IN_CACHE. Returns the code. */
int err_in_cache(struct err *err);

/* Writes "message (cause)" into buf, always NUL-terminated. Returns buf. */
const char *err_text(const struct err *err, char *buf, unsigned long size);
