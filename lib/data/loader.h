/* loader: one thread that makes planned recordings ready in a given order, ahead of the thread that reads them and must not wait
 * for decoding and filtering. Its faults are not kept: who reads a recording loads it again and gets the error. */
#ifndef BRR_DATA_LOADER_H
#define BRR_DATA_LOADER_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/recording.h"

struct loader;
/* The list is copied; the recordings must outlive the loader. Errors: EXHAUSTED, and those of starting a thread. */
int loader_start(struct recording *const *recordings, int64_t n, struct loader **ret, struct err *err);
/* Wait up to wait_ms until the loader has dealt with the i-th recording; whether it has. */
bool loader_wait(struct loader *l, int64_t i, int wait_ms);
/* Ends after the recording in hand. NULL is fine. */
void loader_stop(struct loader *l);

#endif
