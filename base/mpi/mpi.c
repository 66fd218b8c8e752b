/* libbrr_mpi.so: the ranks of a launcher, joined by MPI (base/world_mpi.h). Compiled with a site's mpicc; the only file that knows
 * MPI. Waiting ranks sleep between looks, as there may be more of them than processors. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/world_mpi.h"

enum { TAG = 1, SPINS = 200, NAP_NS = 50000 };
enum { LATE = 1, FAILED = 2 };
static const size_t piece_bytes = (size_t)1 << 28; /* counts of MPI are int */

static int explain(int code, char error[WORLD_MPI_ERROR]) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    MPI_Error_string(code, text, &len);
    snprintf(error, WORLD_MPI_ERROR, "%.*s", WORLD_MPI_ERROR - 1, text);
    return FAILED;
}

static int find_local_rank(int rank, int *ret) {
    MPI_Comm node;
    int rc = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    if (rc == MPI_SUCCESS && (rc = MPI_Comm_rank(node, ret)) == MPI_SUCCESS)
        rc = MPI_Comm_free(&node);
    return rc;
}

static int mpi_open(int *ret_rank, int *ret_size, int *ret_local_rank, char error[WORLD_MPI_ERROR]) {
    int provided, rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (rc != MPI_SUCCESS)
        return explain(rc, error);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if ((rc = MPI_Comm_rank(MPI_COMM_WORLD, ret_rank)) != MPI_SUCCESS ||
        (rc = MPI_Comm_size(MPI_COMM_WORLD, ret_size)) != MPI_SUCCESS ||
        (rc = find_local_rank(*ret_rank, ret_local_rank)) != MPI_SUCCESS)
        return explain(rc, error);
    return 0;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int await_all(MPI_Request *requests, int n, int limit_ms, char error[WORLD_MPI_ERROR]) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    double until = now_s() + limit_ms / 1e3;
    for (int done = 0, looks = 0;; looks++) {
        int rc = MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        if (rc != MPI_SUCCESS)
            return explain(rc, error);
        if (done)
            return 0;
        if (looks < SPINS) {
            sched_yield();
            continue;
        }
        if (now_s() > until)
            return LATE;
        nanosleep(&nap, NULL);
    }
}

/* The next pieces of both directions. */
static int exchange_pieces(int peer, const struct world_parts *p, size_t at, int limit_ms, char error[WORLD_MPI_ERROR]) {
    MPI_Request requests[2];
    int n = 0, rc = MPI_SUCCESS;
    size_t in = p->in_bytes > at ? p->in_bytes - at : 0, out = p->out_bytes > at ? p->out_bytes - at : 0;
    in = in < piece_bytes ? in : piece_bytes;
    out = out < piece_bytes ? out : piece_bytes;
    if (in)
        rc = MPI_Irecv((char *)p->in + at, (int)in, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[n++]);
    if (rc == MPI_SUCCESS && out)
        rc = MPI_Isend((const char *)p->out + at, (int)out, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[n++]);
    return rc == MPI_SUCCESS ? await_all(requests, n, limit_ms, error) : explain(rc, error);
}

static int mpi_exchange(int peer, const struct world_parts *parts, int limit_ms, char error[WORLD_MPI_ERROR]) {
    size_t most = parts->in_bytes > parts->out_bytes ? parts->in_bytes : parts->out_bytes;
    int rc = 0;
    for (size_t at = 0; !rc && at < most; at += piece_bytes)
        rc = exchange_pieces(peer, parts, at, limit_ms, error);
    return rc;
}

static void mpi_close(void) { MPI_Finalize(); }

extern const struct world_mpi brr_mpi __attribute__((visibility("default")));
const struct world_mpi brr_mpi = {WORLD_MPI_VERSION, mpi_open, mpi_exchange, mpi_close};
