/* volume: whether the volume of a directory answers. A network file system whose server is gone makes every call on it wait, maybe
 * for hours; a thread of this module makes the call that may wait, so that a thread that must not wait can ask first. What answers
 * now may still be gone a moment later: the answer narrows the risk to the time between it and the caller's own call. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A call that takes longer than this counts as unanswered. */
enum { VOLUME_WAIT_MS = 1000 };

struct volume;
/* Starts the thread. The directory may be missing: what counts is that there is an answer. */
int volume_open(const char *directory, struct volume **ret, struct err *err);
/* No other thread may use the volume any more. Waits for a call that is on its way until it is VOLUME_WAIT_MS old; the thread of
 * an older one frees everything when it is answered. NULL is allowed. */
void volume_close(struct volume *v);
/* True if the volume answers now. Usually takes microseconds; waits until a call is VOLUME_WAIT_MS old, and not at all while an
 * older one is unanswered, so that a volume that hangs delays the caller once. Any thread. */
bool volume_answers(struct volume *v);
/* Same without waiting, for callers that look at intervals: the call that it begins is judged by later ones. */
bool volume_look(struct volume *v);
/* Waits until the volume answers, however long that takes. Any thread that may wait. */
void volume_wait(struct volume *v);
/* Free bytes of the volume by its newest answer; never waits, and begins a call as volume_look does, so that whoever asks at
 * intervals gets the answer to the call before. -1 before the first answer, while a call is unanswered for longer than
 * VOLUME_WAIT_MS, or when they are unknown. Any thread. */
int64_t volume_free_bytes(struct volume *v);
/* Size of the volume, by its newest answer; never waits. -1 before the first answer, or when it is unknown. Any thread. */
int64_t volume_size_bytes(struct volume *v);
