/* loader: threads that load planned recordings in a given order, ahead of their readers: for a reader that must not wait for
 * fetching, decoding and filtering, or a training whose data are still arriving. */
#ifndef BRR_WINDOWS_LOADER_H
#define BRR_WINDOWS_LOADER_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "windows/recording.h"

struct loader;
/* The list is copied; the recordings must outlive the loader. workers: number of threads, 1 to CREW_MAX_THREADS
 * (base/crew.h). Errors: those of crew_start. */
int loader_start(struct recording *const *recordings, int64_t n, int workers, struct loader **ret, struct err *err);
/* Waits up to wait_ms until the loader has finished with the i-th recording; returns true if it has. */
bool loader_wait(struct loader *l, int64_t i, int wait_ms);
/* The outcome of a finished recording: 0 when it is loaded, else recording_load's error. */
int loader_result(struct loader *l, int64_t i, struct err *err);
/* The number of finished recordings. */
int64_t loader_done(struct loader *l);
/* Finishes the recordings in progress and ends; blocks while a reader waits for its volume. Takes NULL. */
void loader_stop(struct loader *l);

#endif
