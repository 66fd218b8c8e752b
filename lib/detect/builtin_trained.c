/* The names of built-in models, and where the trained one lies. Apart from builtin.c, so that programs which only look link no
 * kernels. */

#include "detect/builtin.h"

bool builtin_has(const char *name) { return seizure_feature_from_name(name) < SEIZURE_TYPES || !strcmp(name, BUILTIN_TRAINED); }

int builtin_installed(const char *name, char *ret, size_t size, struct err *err) {
    char program[4096];
    if (strcmp(name, BUILTIN_TRAINED) != 0)
        return err_set(err, ERR_NOT_FOUND, "there is no trained built-in model '%.40s'", name);
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return err_errno(err, errno, "cannot find the folder of this program");
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    return str_format(ret, size, "%s/../share/brrd/models/%s.safetensors", program, name)
               ? 0
               : err_set(err, ERR_RANGE, "the path of this program is too long: %.200s…", program);
}
