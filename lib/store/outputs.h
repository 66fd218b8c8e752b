/* outputs: the files that brrd wrote into a folder, listed with their SHA-256 in ".brrd-output.json" of that folder. A listed file
 * that somebody has changed since, such as corrected events, is no longer brrd's own: it is not replaced, and its events may be
 * labels. Any thread, any number of processes. */
#pragma once

#include "base/base.h"

#define OUTPUTS_LIST ".brrd-output.json"

/* The model whose events lie in a folder. */
struct outputs_model {
    char name[4096], sha256[72];
    int seen, patients; /* of the patients of the recordings, how many it was trained or selected on; -1 = not known */
};
/* Writes it into the list of the folder, in place of the one before. */
int outputs_set_model(const char *folder, const struct outputs_model *model, struct err *err);
/* The model of the folder, or of that of a file; false: none is listed. */
bool outputs_get_model(const char *path, struct outputs_model *ret);
/* True if brrd wrote the regular file at path and nobody has changed it since. */
bool outputs_own(const char *path);
/* EXISTS if there is a regular file at path that is neither brrd's own nor a listed copy; 0 with force, and for anything else at
 * path (a folder, a pipe, nothing). Call it before the work whose result goes there. */
int outputs_check(const char *path, bool force, struct err *err);
/* Lists the regular file at path as a copy of somebody else's, such as an object of a bucket: brrd may replace it, and what it
 * holds may be labels. */
int outputs_add_copy(const char *path, struct err *err);
/* Lists the regular file at path, which brrd has just written; anything else there is left out. */
int outputs_add(const char *path, struct err *err);
/* The same with the digest of a file that will be written now, so that the file is never there without its entry. */
int outputs_announce(const char *path, const char *sha256, struct err *err);
/* Lists the digest of a copy that will replace the present file, beside the digest of that one: whichever of the two files an
 * interrupted replacement leaves is listed. outputs_add_copy follows. */
int outputs_announce_copy(const char *path, const char *sha256, struct err *err);
