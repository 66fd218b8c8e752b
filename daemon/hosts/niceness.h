/* niceness: which thread of the daemon computes first when cores are few. The loop, which reads and writes sockets, keeps the
 * daemon's own niceness, which is that of the main thread; live windows come next, then all other work. The functions set the
 * niceness of the calling thread; threads that it starts later inherit it. */
#pragma once
#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Added to the daemon's own niceness. OTHER: jobs, replays, files that are read and checked, pages. NETWORKS: spiking networks,
 * which never get more than a job: a client can let them compute without an end. */
enum { NICENESS_LIVE = 5, NICENESS_OTHER = 10, NICENESS_NETWORKS = 12 };

/* Returns the daemon's own niceness plus `more`, at most 19. */
static inline int niceness_of(int more) {
    errno = 0;
    int own = getpriority(PRIO_PROCESS, (id_t)getpid()), sum = (own == -1 && errno ? 0 : own) + more;
    return sum < 19 ? sum : 19;
}

static inline void niceness_set(int more) { (void)setpriority(PRIO_PROCESS, (id_t)gettid(), niceness_of(more)); }

/* Sets the niceness, and a time slice that is so short that a woken thread computes at once: with the usual slice it waits until a
 * thread of jobs on its core has used up its own, some milliseconds. Linux 6.12 and later; earlier kernels and real-time priorities
 * have no such slice. */
static inline void niceness_set_prompt(int more) {
    enum { KEEP_POLICY = 0x08, SLICE_NS = 100 * 1000 };
    const struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t niceness;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attributes = {.size = sizeof attributes, .flags = KEEP_POLICY, .niceness = niceness_of(more), .runtime_ns = SLICE_NS};
    niceness_set(more);
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}
