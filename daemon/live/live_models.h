/* live_models: the detectors that are loaded on one device, each by its file and shared by all who ask for it. One that nothing
 * pins and no stream uses stays until another needs its place; the longest unused goes first. Device worker's thread. */
#pragma once
#include "base/metrics.h"
#include "daemon/live/live_message.h"

struct live_model {
    struct detector *detector; /* NULL: a free place */
    char path[LIVE_PATH], name[LIVE_NAME];
    int64_t bytes, mtime_ns; /* of the file when it was loaded; another file under the same path is another detector */
    char alias[LIVE_PATH];   /* another file of the same contents, and its size and time */
    int64_t alias_bytes, alias_mtime_ns;
    int most;           /* windows of its batches */
    bool steps;         /* it computes in steps */
    double max_delay_s; /* for which its live streams wait for one another; < 0: as those of the device */
    int pins, streams;  /* the owner's counts: orders to keep it, streams that use it */
    int64_t used;       /* turn of the newest use */
    struct metric *windows, *dropped, *compute, *batch, *lag, *suppressed, *bursts;
};

struct live_models {
    struct device *device;
    char device_name[32];       /* label of the metrics */
    struct stream *stream;      /* that the detectors run on */
    struct metrics *metrics;    /* may be NULL */
    int64_t memory_limit_bytes; /* of one model; 0 = no limit */
    int batch, batch_steps;     /* windows, as of struct live_config */
    bool alone;                 /* one thread computes steps */
    bool may_be_fp32;           /* as of struct live_config */
    struct live_model items[LIVE_MAX_MODELS];
    struct live_order *served[LIVE_MAX_MODELS]; /* of the host of replays: SERVED orders, whose models are uploaded on demand */
};

/* The pinned detector of this path, which serves whatever its file is: its owner says when the file is another. NULL: none. */
struct live_model *live_models_pinned(struct live_models *s, const char *path);
/* Size and time of the file when its detector was loaded, for struct live_prepared; -1 if there is none. The detector may be that
 * of another file of the same contents. */
void live_models_known(const struct live_models *s, const char *path, int64_t *ret_bytes, int64_t *ret_mtime_ns);
/* The detector of a file that the loader has read without error; NULL: it is not loaded, or no longer. */
struct live_model *live_models_find(struct live_models *s, const struct live_prepared *p, bool shared);
/* Uploads the image. EXHAUSTED when every place is in use. name: its label in metrics. */
int live_models_load(struct live_models *s, const struct live_prepared *p, const char *name, struct live_model **ret,
                     struct err *err);
/* Keeps a SERVED order until live_models_unserve. A host with too many drops it: the loader reads the file then. */
void live_models_serve(struct live_models *s, struct live_order *served);
void live_models_unserve(struct live_models *s, const char *path);
struct live_prepared *live_models_served(const struct live_models *s, const char *path); /* NULL: the model does not serve */
/* One pin less for the pinned detector of this path; without pins and streams it is unloaded. True if that was the last pin. */
bool live_models_unpin(struct live_models *s, const char *path);
void live_models_done(struct live_models *s);
/* A description of the model for OPENED and LOADED reports; free() it. NULL when out of memory. */
struct live_opened *live_model_describe(const struct live_model *m);
