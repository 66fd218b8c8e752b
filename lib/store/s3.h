/* s3: a bucket, or a prefix of it, as a store. Objects whose names are not valid store keys (empty parts, "..", a final '/') are
 * not listed. get writes PATH.part with PATH.part.journal beside it and renames at the end; the next get of the same object
 * continues from them. put of a large file is a multipart upload. */
#pragma once
#include "store/store.h"

int s3_open(const struct store_config *config, struct store **ret, struct err *err);
