/* model_quota: how many different models that do not serve a principal opens streams of. Loading such a model costs the device time
 * and may unload the model of others, so a client that goes from model to model must not be faster than this. Loop thread. */
#pragma once

#include "daemon/live/resume_token.h"
#include "store/digest.h"

enum { MODEL_QUOTA = 8, MODEL_QUOTA_MS = 60 * 1000, MODEL_QUOTA_ROWS = 512 };

/* A model that a principal has opened within MODEL_QUOTA_MS. */
struct model_quota_row {
    char principal[RESUME_PRINCIPAL_SIZE], path[DIGEST_HEX_SIZE]; /* path: its SHA-256 */
    int64_t used_ms;
};
struct model_quota {
    struct model_quota_row rows[MODEL_QUOTA_ROWS];
    int n;
};
/* EXHAUSTED if the model would be one more than MODEL_QUOTA, or if there are MODEL_QUOTA_ROWS of all principals. */
int model_quota_take(struct model_quota *q, const char *principal, const char *path, int64_t now_ms, struct err *err);
