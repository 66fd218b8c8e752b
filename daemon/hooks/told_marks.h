/* told_marks: what daemons that share the snapshots of streams have told people: a file of fixed size in their common folder, in
 * which each delivery that was taken has a place in the bucket of its id, which keeps its newest eight. A daemon looks before each
 * attempt, so what another one has told is not told again, whichever of them computed it. The folder may be gone, full or silent:
 * then nothing counts as told, which the log says once, and people may hear of it twice. A thread of its own reads and writes, so
 * that a folder that hangs keeps no other. Any thread. */
#pragma once
#include "base/err.h"
#include "daemon/journal/journal_line.h"

struct told_marks;
int told_marks_open(const char *folder, struct told_marks **ret, struct err *err);
/* NULL is fine. Marks on their way are written, for VOLUME_WAIT_MS at most. */
void told_marks_close(struct told_marks *m);
/* Waits for a folder that does not answer once, VOLUME_WAIT_MS at most. */
bool told_marks_has(struct told_marks *m, const char id[LINE_DELIVERY]);
/* Waits for nothing. */
void told_marks_put(struct told_marks *m, const char id[LINE_DELIVERY]);
