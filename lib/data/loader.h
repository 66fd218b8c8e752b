/* loader: threads that make planned recordings ready in a given order, ahead of those that read them: a thread that must not wait
 * for fetching, decoding and filtering, or a training whose data are still arriving. */
#ifndef BRR_DATA_LOADER_H
#define BRR_DATA_LOADER_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/recording.h"

struct loader;
enum { LOADER_MAX_WORKERS = 64 };
/* The list is copied; the recordings must outlive the loader. workers: how many threads, 1 to LOADER_MAX_WORKERS. Errors:
 * EXHAUSTED, and those of starting a thread. */
int loader_start(struct recording *const *recordings, int64_t n, int workers, struct loader **ret, struct err *err);
/* Wait up to wait_ms until the loader has dealt with the i-th recording; whether it has. */
bool loader_wait(struct loader *l, int64_t i, int wait_ms);
/* What came of a recording that it has dealt with: 0 when it is ready, else recording_load's error. */
int loader_result(struct loader *l, int64_t i, struct err *err);
/* How many it has dealt with. */
int64_t loader_done(struct loader *l);
/* Ends after the recordings in hand. NULL is fine. */
void loader_stop(struct loader *l);

#endif
