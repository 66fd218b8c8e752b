/* joblog: the log files of jobs (log.txt in the directory of each), written by a thread of its own, so that a volume that does not
 * answer delays nobody else. Bounded: JOBLOG_MAX lines wait; further ones are dropped, and the log says how many once it can be
 * written again. joblog_written is for any thread, the rest for the loop thread. */
#pragma once

#include "base/base.h"

enum { JOBLOG_MAX = 8192 };

struct joblog;
int joblog_start(struct joblog **ret, struct err *err);
/* Writes what waits; gives up after a few seconds when the volume does not answer. NULL is fine. */
void joblog_stop(struct joblog *log);
/* One line "time level text"; control characters in text become blanks. */
void joblog_append(struct joblog *log, const char *directory, const char *level, const char *text);
/* Every line appended so far is in its file, or could not be written. */
bool joblog_written(const struct joblog *log);
