/* loader: threads that load planned recordings in a given order, ahead of their readers: for a reader that must not wait for
 * fetching, decoding and filtering, or a training whose data are still arriving. */
#pragma once

#include "windows/recording.h"

/* The list is copied; the recordings must outlive the loader. */
struct loader_work {
    struct recording *const *recordings;
    int64_t n;
    int workers; /* threads, 1 to CREW_MAX_THREADS (base/crew.h) */
    /* May be NULL. Called on a thread of the loader after the i-th recording was loaded; an error is the recording's outcome. */
    int (*loaded)(void *ctx, int64_t i, struct err *err);
    void *ctx;
};
struct loader;
/* Errors: those of crew_start. */
int loader_start(const struct loader_work *work, struct loader **ret, struct err *err);
/* Waits up to wait_ms until the loader has finished with the i-th recording; returns true if it has. */
bool loader_wait(struct loader *l, int64_t i, int wait_ms);
/* The outcome of a finished recording: 0 when it is loaded, else recording_load's error. */
int loader_result(struct loader *l, int64_t i, struct err *err);
/* The number of finished recordings. */
int64_t loader_done(struct loader *l);
/* Finishes the recordings in progress and ends; blocks while a reader waits for its volume. Takes NULL. */
void loader_stop(struct loader *l);
