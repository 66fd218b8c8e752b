/* model_loader: reads and checks model files for the hosts of a device, which open no files themselves. Each file is read by a
 * thread of its own, so that a volume that does not answer holds up only the callers who wait for that file. The hosts bound how
 * many files are read at a time (live/live_loads.h). Owned by the loop thread; functions may be called on any thread. */
#pragma once
#include "daemon/live/live_message.h"

/* A file that is being read for longer than MODEL_LOADER_SLOW_MS is reported by model_loader_waits; model_loader_stop waits
 * MODEL_LOADER_STOP_MS for files that are being read. */
enum { MODEL_LOADER_SLOW_MS = 10 * 1000, MODEL_LOADER_STOP_MS = 1000, MODEL_LOADER_TEXT = LIVE_PATH + 64 };

struct model_loader;
/* precision of models; memory_limit_bytes: of one model on the device, 0 = no limit. NULL when out of memory. */
struct model_loader *model_loader_new(enum dtype precision, int64_t memory_limit_bytes);
/* Reads the file of a LIVE_PREPARED order, fills in order->prepared and hands the order to post, which may wait for room and
 * returns false when nobody takes orders any more. Takes the order unless it fails (EXHAUSTED: no thread can be started). */
int model_loader_read(struct model_loader *l, struct live_order *order, live_post_fn *post, void *ctx, struct err *err);
/* "waits for PATH since TIME" of the file that has been read for longest; false if none takes longer than MODEL_LOADER_SLOW_MS. */
bool model_loader_waits(struct model_loader *l, char ret_text[MODEL_LOADER_TEXT]);
/* Nothing is posted once it has returned; files that were to be read are dropped. A thread whose volume does not answer is left
 * behind: it uses only memory of the loader. */
void model_loader_stop(struct model_loader *l);
/* After model_loader_stop. The last thread that was left behind frees the memory. Takes NULL. */
void model_loader_free(struct model_loader *l);
