#include "base/world_mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

static const struct world_mpi *mpi; /* of the process; MPI can be opened once */

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

static bool is_rank(void) { return is_set("PMIX_RANK") || is_set("PMI_RANK") || is_set("OMPI_COMM_WORLD_SIZE"); }

bool world_is_batch(void) { return is_rank() || is_set("SLURM_JOB_ID"); }

/* How many ranks were started; 0 = nobody says. mpirun below srun leaves Slurm's number of its own daemons in the environment, so
 * that mpirun's number comes first. */
static int64_t expected_size(void) {
    int64_t n = 0;
    const char *ompi = getenv("OMPI_COMM_WORLD_SIZE"), *slurm = getenv("SLURM_STEP_NUM_TASKS");
    if (ompi && str_to_i64(ompi, &n))
        return n;
    return slurm && str_to_i64(slurm, &n) ? n : 0;
}

static int mpi_exchange(void *ctx, int peer, const struct world_parts *parts, int limit_ms, struct err *err) {
    (void)ctx;
    char why[WORLD_MPI_ERROR] = "";
    int rc = mpi->exchange(peer, parts, limit_ms, why);
    if (!rc)
        return 0;
    return rc == 1 ? err_set(err, ERR_UNAVAILABLE, "rank %d did not come to an exchange within %d s", peer, limit_ms / 1000)
                   : err_set(err, ERR_UNAVAILABLE, "an exchange with rank %d failed: %s", peer, why);
}

static void mpi_close(void *ctx, bool clean) {
    (void)ctx;
    if (clean)
        mpi->close(); /* would wait for ranks that have failed */
}

static const struct world_transport mpi_transport = {.exchange = mpi_exchange, .close = mpi_close};

/* BRR_MPI_LIBRARY, or libbrr_mpi.so beside the program, in ../lib or ../lib/brrd. */
static void find_library(char *path, size_t size) {
    static const char *const places[] = {"", "../lib/", "../lib/brrd/"};
    const char *named = getenv("BRR_MPI_LIBRARY");
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    str_copy(path, size, named && *named ? named : "libbrr_mpi.so");
    if ((named && *named) || n <= 0)
        return;
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
        if (str_format(path, size, "%s%slibbrr_mpi.so", self, places[i]) && access(path, R_OK) == 0)
            return;
    str_copy(path, size, "libbrr_mpi.so");
}

static int load_library(struct err *err) {
    char path[PATH_MAX + 32];
    find_library(path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* MPI's own plug-ins look for its symbols */
    if (!library)
        return err_set(err, ERR_UNAVAILABLE,
                       "this process was started as a rank, and libbrr_mpi.so cannot be loaded (%.300s); install the package "
                       "brrd-mpi, or build brrd where Debian's libopenmpi-dev or the site's own mpicc (BRR_MPICC) is",
                       dlerror());
    const struct world_mpi *found = dlsym(library, WORLD_MPI_SYMBOL);
    if (!found || found->version != WORLD_MPI_VERSION)
        return err_set(err, ERR_UNAVAILABLE, "%.300s belongs to another build of this program; install both from the same", path);
    mpi = found;
    return 0;
}

static int check_size(int size, struct err *err) {
    int64_t expected = expected_size();
    if (expected && expected != size)
        return err_set(err, ERR_PRECONDITION,
                       "the launcher has started %lld ranks, and MPI's world has %d; start with `srun --mpi=pmix` (nodes need "
                       "libpmix-dev) or mpirun, and an MPI that has PMIx",
                       (long long)expected, size);
    if (size > WORLD_MAX)
        return err_set(err, ERR_PRECONDITION, "%d ranks were started; expected at most %d", size, WORLD_MAX);
    return 0;
}

int world_launched(struct world *ret, struct err *err) {
    char why[WORLD_MPI_ERROR] = "";
    int rc;
    world_alone(ret);
    if (!is_rank() || expected_size() == 1) /* a step of one task needs no MPI, such as a shell of `srun --pty` */
        return check_size(1, err);
    if ((rc = load_library(err)))
        return rc;
    if (mpi->open(&ret->rank, &ret->size, &ret->local_rank, why)) {
        world_alone(ret);
        return err_set(err, ERR_UNAVAILABLE, "MPI cannot be started: %s", why);
    }
    ret->transport = &mpi_transport;
    return check_size(ret->size, err);
}
