/* loader: finds the CUDA backend, which lives in libbrr_cuda.so so that programs start on machines without CUDA. Looked for
 * once, in this order: the file named by BRR_CUDA_LIBRARY (and nowhere else), beside the program, ../lib and ../lib/brrd of the
 * program; then the same places of the library that this file is part of (libbrr_scan in another program), and its brrd. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "kernels/backend.h"

static char failure[200]; /* of the last library that did not open; written once, under `once` */

static const struct backend *open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: the backend's tables live in it */
    if (!library) {
        str_copy(failure, sizeof failure, dlerror());
        return NULL;
    }
    uint64_t (*layout)(void) = NULL;
    const struct backend *(*entry)(void) = NULL;
    *(void **)&layout = dlsym(library, "brr_cuda_layout");
    *(void **)&entry = dlsym(library, "brr_cuda_backend");
    const struct backend *backend = layout && layout() == backend_layout() && entry ? entry() : NULL;
    if (!backend) {
        str_format(failure, sizeof failure,
                   entry ? "%.120s belongs to another build of this program; install both from the same"
                         : "%.150s is not a CUDA backend",
                   path);
        dlclose(library);
    }
    return backend;
}

static const struct backend *find_around(const char *file) {
    static const char *const places[] = {"", "../lib/", "../lib/brrd/", "../brrd/"};
    char path[PATH_MAX + 32];
    const char *slash = strrchr(file, '/');
    const struct backend *found = NULL;
    for (size_t i = 0; slash && !found && i < sizeof places / sizeof *places; i++) {
        str_format(path, sizeof path, "%.*s/%slibbrr_cuda.so", (int)(slash - file), file, places[i]);
        if (access(path, R_OK) == 0)
            found = open_library(path);
    }
    return found;
}

static const struct backend *find_backend(void) {
    const char *named = getenv("BRR_CUDA_LIBRARY");
    if (named && *named)
        return open_library(named);
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    const struct backend *found = find_around(program);
    Dl_info own;
    char library[PATH_MAX];
    if (!found && dladdr(failure, &own) && own.dli_fname && realpath(own.dli_fname, library))
        found = find_around(library);
    return found;
}

static const struct backend *loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void load(void) { loaded = find_backend(); }

const struct backend *cuda_backend(void) {
    pthread_once(&once, load);
    return loaded;
}

const char *cuda_backend_error(void) { return cuda_backend() ? "" : failure; }
