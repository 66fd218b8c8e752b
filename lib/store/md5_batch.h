/* md5_batch: MD5 of whole files for several threads at about the same time, computed in parallel lanes (store/md5_lanes.h): one of
 * the threads computes for all. Any thread. */
#pragma once

#include "base/base.h"

struct md5_batch;
struct md5_batch *md5_batch_new(void); /* NULL when out of memory */
/* No thread may be inside. Takes NULL. */
void md5_batch_free(struct md5_batch *b);
/* Announces that this thread will soon need a file's MD5; other threads may wait briefly for it. Each enter needs one leave. */
void md5_batch_enter(struct md5_batch *b);
void md5_batch_leave(struct md5_batch *b);
/* Returns the MD5 of the whole file, read with pread, as 32 hexadecimal digits. Call between enter and leave. name: the file's name
 * for errors. */
int md5_batch_file(struct md5_batch *b, int fd, const char *name, char ret[33], struct err *err);
