#include "kernels/lanes.h"

#include <omp.h>

#include "kernels/backend.h"

/* In order on the calling thread. */
static int run_alone(const struct lanes_work *work, struct err *err) {
    int rc = 0, threads = omp_get_max_threads();
    omp_set_num_threads(1);
    for (int64_t i = 0; i < work->n && !rc; i++)
        rc = work->run(work->ctx, work->first + i, 0, err);
    omp_set_num_threads(threads);
    return rc;
}

int lanes_run(const struct lanes_work *work, struct err *err) {
    int rc = 0;
    if (work->lanes == 1)
        return run_alone(work, err);
#pragma omp parallel num_threads(work->lanes)
    {
        omp_set_num_threads(1); /* for regions inside a unit; oneDNN reads this number too */
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < work->n; i++) {
            struct err own = {0};
            int failed = work->run(work->ctx, work->first + i, omp_get_thread_num(), &own);
            if (failed) {
#pragma omp critical(brr_lanes)
                {
                    rc = failed;
                    if (err)
                        *err = own;
                }
            }
        }
    }
    return rc;
}

int lanes_run_as(struct stream *s, const struct lanes_work *work, struct err *err) {
    int rc = stream_enter(s, err);
    if (rc)
        return rc;
    rc = lanes_run(work, err);
    stream_leave(s, true);
    return rc;
}

void lanes_dismiss(void) { (void)omp_pause_resource(omp_pause_soft, omp_get_initial_device()); }
