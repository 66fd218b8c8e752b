/* models: what a model REF means, and the models that serve under a name. REF is a served name, "job:…" (jobs/jobref.h), the name
 * of an upload, or a path the daemon may open (models/places.h). Served models stay loaded, survive a restart, and own a hard link
 * of their file, so that a job's pruning cannot remove it. A model to be served may lie in a store ("store://NAME/KEY"): it is
 * fetched first, on libuv's thread pool, and becomes the upload of the served name; other users of such a file lease it
 * (models/model_lease.h). Loop thread. */
#ifndef BRR_DAEMON_MODELS_MODELS_H
#define BRR_DAEMON_MODELS_MODELS_H
#include "daemon/db/db.h"
#include "daemon/live/live.h"
#include "daemon/models/places.h"

typedef struct uv_loop_s uv_loop_t;

/* Fetches hold threads that other work of the loop needs too, so few run at a time; as many as may serve can wait. */
enum { MODELS_MAX = LIVE_MAX_MODELS, MODELS_MAX_FETCHES = 2 };

struct models_config {
    struct db *db;      /* borrowed */
    live_post_fn *post; /* takes orders to load and unload models */
    void *post_ctx;
    uv_loop_t *loop;
    const struct places *places; /* borrowed */
    /* The model file that "job:…" means; path has LIVE_PATH bytes. */
    int (*job_model)(void *ctx, const char *ref, char *path, struct err *err);
    void *ctx;
};
struct models;
/* Loads what was served before. */
int models_new(const struct models_config *config, struct models **ret, struct err *err);
/* Gives up what is being fetched, whose done is told so; models_free only after the loop has run out. NULL is fine. */
void models_stop(struct models *m);
void models_free(struct models *m);

/* The file of a REF, and the bounded name its metrics go under. NOT_FOUND or DENIED say what was tried. */
int models_resolve(struct models *m, const char *ref, char path[LIVE_PATH], char name[LIVE_NAME], struct err *err);
/* Where uploads live: PATH of an upload's name. INVALID for a name other than [A-Za-z0-9._-]+. */
int models_upload_path(const struct models *m, const char *name, char path[LIVE_PATH], struct err *err);
/* Directory for links that keep a file alive: "served", "pinned". */
int models_keep(const struct models *m, const char *folder, const char *name, const char *from, char path[LIVE_PATH],
                struct err *err);

/* Serve REF under a name (replacing what had it, once it is there and a model); done(ctx, opened or NULL, err) is called once,
 * later, on the loop. */
typedef void models_done_fn(void *ctx, const struct live_opened *opened, const struct err *err);
int models_serve(struct models *m, const char *name, const char *ref, models_done_fn *done, void *ctx, struct err *err);
/* The caller of models_serve is gone: its done must not be called, and what it wanted fetched is given up. */
void models_forget(struct models *m, void *ctx);
int models_unserve(struct models *m, const char *name, struct err *err);

struct served_model {
    char name[LIVE_NAME], path[LIVE_PATH], ref[LIVE_PATH];
    struct live_opened *opened; /* NULL while it loads or after it failed */
    struct err err;             /* why it failed */
    models_done_fn *done;
    void *ctx;
};
int models_count(const struct models *m);
const struct served_model *models_at(const struct models *m, int index);
const struct served_model *models_find(const struct models *m, const char *name); /* NULL when nothing is served under it */
/* LOADED and UNLOADED of the worker. */
void models_report(struct models *m, const struct live_report *r);

#endif
