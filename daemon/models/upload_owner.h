/* upload_owner: to whom an uploaded model file belongs: the principal who was the first to give it its name. The name lies in a
 * file beside the upload. They touch files: on the pool. */
#pragma once

#include "base/base.h"

/* True if the upload at this path is the principal's, or nobody's: one of an earlier version. */
bool upload_owner_is(const char *path, const char *principal);
/* Makes the principal its owner unless it is another's whose file is there: DENIED then. any: of a caller who may replace every
 * upload; an owner stays. */
int upload_owner_claim(const char *path, const char *principal, bool any, struct err *err);
/* Forgets the owner of an upload that was deleted. */
void upload_owner_forget(const char *path);
