/* world_mpi: the world of a process that a launcher (mpirun, srun) has started. MPI is in libbrr_mpi.so, which is loaded only then,
 * so that programs start on machines without it. */
#pragma once
#include "base/world.h"

/* Joins the ranks of the launcher that the environment names; without one the world has one rank. UNAVAILABLE: libbrr_mpi.so is
 * missing or cannot be used. PRECONDITION: MPI's world has another size than the launcher has started, as without PMIx, or no power
 * of two. Call once per process, on the thread that will use the world. */
int world_launched(struct world *ret, struct err *err);
/* True if a launcher or a batch system has started this process: another attempt may still run elsewhere. */
bool world_is_batch(void);

/* ---- what libbrr_mpi.so implements (base/mpi/mpi.c), a plain interface without types of this program ---- */

#define WORLD_MPI_SYMBOL "brr_mpi"
enum { WORLD_MPI_VERSION = 1, WORLD_MPI_ERROR = 200 };
struct world_mpi {
    int version;
    /* 0, or 1 with the reason in error. */
    int (*open)(int *ret_rank, int *ret_size, int *ret_local_rank, char error[WORLD_MPI_ERROR]);
    /* 0; 1: late; 2: MPI's error, which is in error. */
    int (*exchange)(int peer, const struct world_parts *parts, int limit_ms, char error[WORLD_MPI_ERROR]);
    void (*close)(void); /* collective */
};
