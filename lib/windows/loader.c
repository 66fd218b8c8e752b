#include "windows/loader.h"

#include "base/crew.h"

struct loader {
    struct crew *crew;
    struct loader_work work;
    struct recording *recordings[];
};

static int load(void *ctx, int64_t i, struct err *err) {
    const struct loader *l = ctx;
    int rc = recording_load(l->recordings[i], err);
    return rc || !l->work.loaded ? rc : l->work.loaded(l->work.ctx, i, err);
}

int loader_start(const struct loader_work *work, struct loader **ret, struct err *err) {
    struct loader *l = malloc(sizeof *l + sizeof *l->recordings * (size_t)work->n);
    const struct crew_work crew = {.n = work->n, .threads = work->workers, .run = load, .ctx = l};
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)work->n);
    l->work = *work;
    if (work->n)
        memcpy(l->recordings, work->recordings, sizeof *l->recordings * (size_t)work->n);
    int rc = crew_start(&crew, &l->crew, err);
    if (rc)
        free(l);
    else
        *ret = l;
    return rc;
}

bool loader_wait(struct loader *l, int64_t i, int wait_ms) { return crew_wait(l->crew, i, wait_ms); }
int loader_result(struct loader *l, int64_t i, struct err *err) { return crew_result(l->crew, i, err); }
int64_t loader_done(struct loader *l) { return crew_done(l->crew); }

void loader_stop(struct loader *l) {
    if (!l)
        return;
    crew_close(l->crew);
    free(l);
}
