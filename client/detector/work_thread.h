/* work_thread: a thread that computes for callers who wait, one after the other. A stream of the CPU belongs to the thread that
 * opened it, and a program's own threads are not to be changed by it. Internal to client/detector. */
#pragma once
#include "base/base.h"

struct work_thread;
int work_thread_start(struct work_thread **ret, struct err *err);
/* Runs work(context, err) on the thread and returns what it returns. Any thread but this one. */
int work_thread_run(struct work_thread *t, int (*work)(void *context, struct err *err), void *context, struct err *err);
void work_thread_stop(struct work_thread *t); /* takes NULL; nobody may wait */
