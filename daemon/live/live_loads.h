/* live_loads: orders of a host that wait for the contents of a model file, which a loader reads (live/model_loader.h). A file is
 * read once for all orders that name it. Bounded: LIVE_MAX_LOADS files for streams; the owner of served models bounds their LOAD
 * orders. The host's thread. */
#pragma once
#include "daemon/live/model_loader.h"

enum { LIVE_MAX_LOADS = LIVE_MAX_MODELS };

/* A file that is being read, or is about to be. */
struct live_load {
    struct live_load *next;
    char path[LIVE_PATH];
    struct message *asked; /* orders that came before the file was read */
    struct message *later; /* orders that came since: the file may have been replaced meanwhile, so it is looked at again */
};

struct live_loads {
    struct model_loader *loader;
    live_post_fn *post; /* hands PREPARED to the host; called on the loader's threads */
    void *ctx;
    struct live_load *first;
};

/* The file that an OPEN or LOAD order names. */
const char *live_load_path(const struct live_order *o);
/* Keeps the order until its file has been read. *ret_ask: live_loads_ask must follow; NULL: the file is being read. EXHAUSTED: too
 * many files are being read; the order stays the caller's. */
int live_loads_add(struct live_loads *w, struct live_order *o, struct live_load **ret_ask, struct err *err);
/* Has the file read. known_bytes and known_mtime_ns: as in struct live_prepared. */
int live_loads_ask(struct live_loads *w, const struct live_load *load, int64_t known_bytes, int64_t known_mtime_ns,
                   struct err *err);
/* The file has been read: *ret_due are the orders that asked for it, linked by message.next; later ones are in `asked` now. The
 * caller then calls live_loads_ask or live_loads_remove. NULL: it is not known. */
struct live_load *live_loads_take(struct live_loads *w, const char *path, struct message **ret_due);
/* Forgets a file that is not being read, and returns its orders. */
struct message *live_loads_remove(struct live_loads *w, struct live_load *load);
/* Drops the OPEN order of this stream, if it waits. */
void live_loads_drop(struct live_loads *w, const struct live_stream *stream);
void live_loads_done(struct live_loads *w); /* drops all orders */
