/* process: an attempt at a job as a child of the daemon, `brrd run --order FILE`, on the calling thread. The child reports by lines
 * (work/report_line.h) on its standard output, and hears on its standard input how it is to end; when that pipe closes it saves and
 * ends. It holds the lock of the job's directory. A child that dies, or hangs in a cancel, ends its job alone. A child sends at
 * least an empty line every PROCESS_BEAT_MS; one that is stopped is killed at the limits of its job, by the clock of the daemon,
 * and after PROCESS_QUIET_MS in which the daemon itself was at work. */
#pragma once
#include "daemon/jobs/runner.h"

enum { PROCESS_CANCEL_MS = 10000 /* for a cancel, then the child is killed */, PROCESS_BEAT_MS = 5000, PROCESS_QUIET_MS = 60000 };

/* What children of a device get beside their job; borrowed. */
struct process_config {
    const char *config, *const *sets; /* daemon.yaml and its overrides */
    int n_sets;
    const char *device, *cache, *page;
    int threads;
};
/* Errors of a child that ended without a last report: UNAVAILABLE. */
void process_run(const struct process_config *config, const struct runner_config *runner, const struct runner_job *job,
                 const struct runner_owner *owner, struct runner_wish *wish);
