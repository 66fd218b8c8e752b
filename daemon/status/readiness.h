/* readiness: what /readyz and grpc.health are answered from. The loop writes it, any thread reads it. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>

struct readiness {
    atomic_bool serving, writable;         /* the daemon does not stop; the job database can be written */
    atomic_bool device_serves;             /* false while device_set_stalled */
    atomic_int models;                     /* enum models_state; WARM is final: models loaded later do not change it */
    atomic_bool results_full;              /* the volume of paths.results */
    atomic_bool journal_fails, hooks_fail; /* entries cannot be written; a hook does not deliver */
    atomic_int unsaved_streams;            /* that go on although their snapshots cannot be written */
};
