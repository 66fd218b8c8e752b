#include "client/brrctl/lsl/lsl_library.h"

#include <dlfcn.h>

static struct lsl_library library;
static struct err failure;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *open_library(void) {
    static const char *const names[] = {"liblsl.so.2", "liblsl.so.1.4", "liblsl.so.1", "liblsl.so", "liblsl64.so"};
    const char *given = getenv("LSL_LIBRARY");
    if (given && *given) {
        void *handle = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            err_set(&failure, ERR_NOT_FOUND, "LSL_LIBRARY: %s", dlerror());
        return handle;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle)
            return handle;
    }
    err_set(&failure, ERR_NOT_FOUND,
            "liblsl is not installed; take it from github.com/sccn/liblsl, or set LSL_LIBRARY to the file (pylsl brings one)");
    return NULL;
}

static void load(void) {
    void *handle = open_library();
    if (!handle)
        return;
        /* A pointer to a function is copied as bytes: C has no conversion from void *. */
#define LSL_LOAD(type, name, parameters)                                                                                           \
    {                                                                                                                              \
        void *symbol = dlsym(handle, "lsl_" #name);                                                                                \
        if (!symbol)                                                                                                               \
            err_set(&failure, ERR_UNSUPPORTED, "this liblsl has no lsl_" #name "; version 1.12 or newer is needed");               \
        memcpy(&library.name, &symbol, sizeof symbol);                                                                             \
    }
    LSL_FUNCTIONS(LSL_LOAD)
#undef LSL_LOAD
}

int lsl_library_load(const struct lsl_library **ret, struct err *err) {
    pthread_once(&once, load);
    if (failure.code) {
        if (err)
            *err = failure;
        return failure.code;
    }
    *ret = &library;
    return 0;
}
