/* niceness: which thread of the daemon computes first when cores are few. The loop, which reads and writes sockets, keeps the
 * daemon's own niceness; live windows follow it; all other work comes after them. */
#ifndef BRR_BASE_NICENESS_H
#define BRR_BASE_NICENESS_H
#include <sys/resource.h>
#include <unistd.h>

/* OTHER: jobs, replays, spiking networks, files that are read and checked, pages. */
enum { NICENESS_LIVE = 5, NICENESS_OTHER = 10 };

/* For the calling thread and those that it will start. Without effect where a thread is less urgent already. */
static inline void niceness_set(int niceness) {
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), niceness);
}

#endif
