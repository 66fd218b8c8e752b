/* md5_crowd: MD5 of whole files that several threads want at about the same time, computed side by side (store/md5_lanes.h): one of
 * the threads works for all. Any thread. */
#ifndef BRR_STORE_MD5_CROWD_H
#define BRR_STORE_MD5_CROWD_H
#include <stdint.h>

#include "base/err.h"

struct md5_crowd;
struct md5_crowd *md5_crowd_new(void); /* NULL when out of memory */
/* Nobody may be inside. NULL is fine. */
void md5_crowd_free(struct md5_crowd *c);
/* A thread will want a file before long; the others may wait for it a moment. Each needs one md5_crowd_leave. */
void md5_crowd_enter(struct md5_crowd *c);
void md5_crowd_leave(struct md5_crowd *c);
/* MD5 of all that fd holds, read with pread, as 32 hex digits. Between enter and leave. name: of the file, for errors. */
int md5_crowd_file(struct md5_crowd *c, int fd, const char *name, char ret[33], struct err *err);

#endif
