/* models: resolves model REFs and manages the models served under a name. A REF is a served name, the name of a built-in model
 * (detect/builtin.h) that no served model has, "job:…" (jobs/jobref.h), "upload:NAME", or a path that the daemon may open
 * (models/places.h); a bare name is only ever that of a served or built-in model. Served models stay loaded and are loaded again
 * after a restart, each from a link of its own (models/model_file.h), whose SHA-256 is in the record: weights that have changed do
 * not serve. A model to be served may be in a store ("store://NAME/KEY"): it is fetched first, on libuv's thread pool, and becomes
 * the upload of the served name; all other uses of such a file lease it. Loop thread. */
#pragma once
#include "base/metrics.h"
#include "daemon/db/db_writer.h"
#include "daemon/models/model_ref.h"
#include "daemon/models/serveddb.h"

typedef struct uv_loop_s uv_loop_t;

/* File work occupies threads that the loop needs for other work, so only a few pieces run at a time, and fewer fetches from stores;
 * up to MODELS_MAX pieces can wait. */
enum { MODELS_MAX = LIVE_MAX_MODELS, MODELS_MAX_WORK = 4, MODELS_MAX_FETCHES = 2, MODELS_MAX_DEVICES = 16 };

struct models_config {
    struct db *db;            /* to read; borrowed */
    struct db_writer *writer; /* the same file */
    live_post_fn *post;       /* posts orders to load and unload models */
    void *post_ctx;
    const char *const *devices; /* their names; borrowed; NULL: one without a name */
    int n_devices;              /* at most MODELS_MAX_DEVICES; 0: one */
    uv_loop_t *loop;
    const struct places *places; /* borrowed */
    const char *cache;           /* directory with the built-in models; NULL: there are none */
    /* Resolves "job:…": fills path, spare and absent. */
    int (*job_model)(void *ctx, const char *ref, struct model_ref *ret, struct err *err);
    /* For how many milliseconds live streams of the model of this name wait for one another; -1: the device's default. NULL: that
     * is so for all. */
    int64_t (*max_delay_ms)(void *ctx, const char *name);
    void *ctx;
};
struct models;
/* Loads the models that were served before. The tables are there (serveddb_setup). */
int models_new(const struct models_config *config, struct models **ret, struct err *err);
/* Cancels running fetches; their done callbacks get the error. Call models_free only after the loop has run out. NULL is allowed.
 */
void models_stop(struct models *m);
void models_free(struct models *m);

/* Looks a REF up for the current caller (places) in the tables alone; no file is read. NOT_FOUND, also for a job that the caller
 * may not see. model_resolve finds the file. */
int models_refer(struct models *m, const char *ref, struct model_ref *ret, struct err *err);
/* model_upload_path in this daemon's folder. */
int models_upload_path(const struct models *m, const char *name, char path[LIVE_PATH], struct err *err);
/* Serves REF under a name; replaces the model of that name once the new one is fetched and loaded. done(ctx, opened or NULL, err)
 * is called once, later, on the loop. NOT_FOUND: the name has no previous load, or its weights are there no more. */
typedef void models_done_fn(void *ctx, const struct live_opened *opened, const struct err *err);
struct models_request {
    const char *name, *ref;
    const char *device;    /* the name of a device; "" or NULL: every device of the daemon serves the model */
    const char *principal; /* whose load it is; NULL: that of the configuration */
    bool previous;         /* the weights of the newest load that had others than the newest of all; ref is not read */
};
int models_serve(struct models *m, const struct models_request *request, models_done_fn *done, void *ctx, struct err *err);
/* For the configuration: serves REF if the name has no record and was not unloaded. A failure is logged, and makes models_state
 * FAILED. */
void models_seed(struct models *m, const struct models_request *request);
/* Call if the caller of models_serve goes away: its done is not called, and its fetch is cancelled unless the configuration names
 * the same model. A cancelled fetch leaves models_state as it was. */
void models_forget(struct models *m, void *ctx);
/* Also for a name whose model could not be had, so that models_state is no longer FAILED for it. */
int models_unserve(struct models *m, const char *name, struct err *err);

struct served_model {
    char name[LIVE_NAME], path[LIVE_PATH], ref[LIVE_PATH];
    struct live_opened *opened; /* NULL while the model loads or after loading failed on every device */
    char sha256[DIGEST_HEX_SIZE];
    char device[32];  /* the name of its device; "" = every device */
    uint32_t devices; /* bit i: device i serves the model, or loads it now */
    uint32_t loading; /* bit i: device i has not answered yet */
    bool changed;     /* loading failed because the file has changed since it was served: it must not be opened */
    struct err err;   /* why loading failed, on some device */
    models_done_fn *done;
    void *ctx;
    /* For each device, until they are due; made with the row, so that they cannot fail for want of memory. */
    struct live_order *load[MODELS_MAX_DEVICES], *unload[MODELS_MAX_DEVICES];
};
/* The newest loads of the name, the newest first; returns their number. They are borrowed until the next one. */
int models_loads(const struct models *m, const char *name, const struct served_load *ret[SERVEDDB_LOADS]);
int models_count(const struct models *m);
/* Number of names whose model could not be had or loaded. */
int models_failed(const struct models *m);
/* LOADING while a model is being fetched, looked for or loaded; else FAILED when one could not be loaded; else WARM. */
enum models_state { MODELS_LOADING, MODELS_FAILED, MODELS_WARM };
enum models_state models_state(const struct models *m);
const struct served_model *models_at(const struct models *m, int index);
const struct served_model *models_find(const struct models *m, const char *name); /* NULL if no model is served under this name */
/* Handles the worker's LOADED and UNLOADED reports; takes r->opened (and leaves NULL) if it is the first of its model. */
void models_report(struct models *m, struct live_report *r);
/* Once a second: hands over orders that the worker had no room for. */
void models_tick(struct models *m);
