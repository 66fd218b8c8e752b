/* stems: the files of a folder that belong to recordings, as paths without the ending that says what a file holds. Files of two
 * folders belong together when their stems are equal, in either way of writing é (formats/letters.h); when only the last parts are
 * equal, if no other file has that part. One thread. */
#pragma once

#include "base/base.h"

struct stems;
/* The stems of the files below root, or of the file root, for which wanted(path) is true; wanted gets whole paths. */
/* stranger gets the path of each FIFO, socket or device, which is left out unread; it may be NULL. */
int stems_read(const char *root, bool (*wanted)(const char *path), void (*stranger)(const char *path), struct stems **ret,
               struct err *err);
void stems_say_stranger(const char *path); /* on stderr */
void stems_free(struct stems *s);          /* takes NULL */
OWNABLE(struct stems, stems_free)
/* How many there are, and their whole paths, 0 ≤ i < n. */
size_t stems_count(const struct stems *s);
const char *stems_at(const struct stems *s, size_t i);
/* The whole path of the file with this stem, NULL without one. */
const char *stems_path(const struct stems *s, const char *stem);
/* 0 if `stem` is the only one here with its last part. Otherwise INVALID names two of them, and the folder `where` in which the
 * file was looked for by that part alone. */
int stems_check_alone(const struct stems *s, const char *stem, const char *where, struct err *err);
/* The whole path of the only file with this last part; NULL without one. INVALID names two of them. */
int stems_find(const struct stems *s, const char *last_part, const char **ret, struct err *err);
