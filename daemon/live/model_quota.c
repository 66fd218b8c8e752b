#include "daemon/live/model_quota.h"

static void forget_old(struct model_quota *q, int64_t now_ms) {
    int kept = 0;
    for (int i = 0; i < q->n; i++)
        if (now_ms - q->rows[i].used_ms < MODEL_QUOTA_MS)
            q->rows[kept++] = q->rows[i];
    q->n = kept;
}

int model_quota_take(struct model_quota *q, const char *principal, const char *path, int64_t now_ms, struct err *err) {
    struct model_quota_row row = {.used_ms = now_ms};
    int own = 0;
    str_copy(row.principal, sizeof row.principal, principal);
    if (!digest_bytes(path, strlen(path), row.path))
        return err_set(err, ERR_INTERNAL, "OpenSSL could not compute a SHA-256");
    forget_old(q, now_ms);
    for (int i = 0; i < q->n; i++) {
        if (strcmp(q->rows[i].principal, row.principal) != 0)
            continue;
        if (!strcmp(q->rows[i].path, row.path)) {
            q->rows[i].used_ms = now_ms;
            return 0;
        }
        own++;
    }
    if (own >= MODEL_QUOTA)
        return err_set(err, ERR_EXHAUSTED,
                       "%s has opened streams of %d models that do not serve within %d s, which is the most; wait, or ask for the "
                       "models to be served (`brrctl load`)",
                       principal, own, MODEL_QUOTA_MS / 1000);
    if (q->n == MODEL_QUOTA_ROWS)
        return err_set(err, ERR_EXHAUSTED, "streams of %d models that do not serve were opened within %d s; try again later", q->n,
                       MODEL_QUOTA_MS / 1000);
    q->rows[q->n++] = row;
    return 0;
}
