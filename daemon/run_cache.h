/* run_cache: the folder of the cache that a process of `brrd run` works in: the configured one, or, while another process holds
 * that one's lock, a folder in it that is removed at the end. One thread. */
#pragma once

#include "base/base.h"

struct run_cache {
    char path[4096]; /* "": not open */
    int lock;        /* descriptor; −1: none */
    bool own;        /* a folder of this process, run-PID */
};

/* Makes the folder, takes its lock, and removes such folders of processes that were killed. */
int run_cache_open(const char *configured, struct run_cache *ret, struct err *err);
void run_cache_close(struct run_cache *c); /* one that was not opened too, if its lock is −1 */
