#include "daemon/check.h"

#include "daemon/access.h"
#include "daemon/paths.h"
#include "daemon/server.h"

enum { MAX_SERIES = 1000 };

static int check_access(const struct config *config, struct err *err) {
    struct access access = {0};
    struct metrics *metrics = metrics_new(metrics_families, metrics_family_count, MAX_SERIES);
    if (!metrics)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    int rc = access_open(&access, config, metrics, err);
    access_close(&access);
    metrics_free(metrics);
    return rc;
}

int check_config(const struct config *config, struct err *err) {
    int rc = paths_check(config, err);
    return rc ? rc : check_access(config, err);
}
