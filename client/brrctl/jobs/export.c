/* brrctl export: a model file for other runtimes. The Python package brr writes ONNX; this finds the model and the package and runs
 * it. */
#include <sys/wait.h>

#include "base/spawn.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "detect/builtin.h"

/* The options of export. */
struct export_options {
    const char *onnx, *int8;
    bool reduce_range;
};
#define OPTIONS struct export_options
static const struct argument rows[] = {
    OUTPUT("--onnx", onnx, "FILE", "the ONNX file to write"),
    TEXT("--int8", int8, "RECORDING", "in INT8, with the ranges of a recording that is not scored"),
    FLAG("--reduce-range", reduce_range, "7 bits, for processors without VNNI"),
};

enum { PATH_SIZE = 4096 };

/* The folder of the package: BRR_PYTHON, that of the installation, that of the clone. */
static int find_package(char *ret, size_t size, struct err *err) {
    static const char *const places[] = {"%s/../share/brrd/python", "%s/../../client/python"};
    const char *named = getenv("BRR_PYTHON");
    char program[PATH_SIZE], file[PATH_SIZE + 32];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = n > 0 ? (program[n] = '\0', strrchr(program, '/')) : NULL;
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i <= sizeof places / sizeof *places; i++) {
        if (i ? !slash || !str_format(ret, size, places[i - 1], program) : !named || !str_format(ret, size, "%s", named))
            continue;
        if (str_format(file, sizeof file, "%s/brr/onnx.py", ret) && fsio_exists(file))
            return 0;
    }
    return err_set(err, ERR_NOT_FOUND,
                   "the Python package brr, which writes ONNX, is not installed beside this program; install libbrr-dev, or name "
                   "the folder that has brr/onnx.py in BRR_PYTHON");
}

/* The model's file: a local one, that of a built-in name, or the daemon's, fetched beside the ONNX file (*ret_fetched). Returns an
 * exit code after printing the error. */
static int model_of_export(const struct arguments *o, const char *onnx, char *ret, size_t size, bool *ret_fetched) {
    struct brrctl_fetched fetched;
    *ret_fetched = false;
    const bool there = builtin_has(o->args[0]) ? !builtin_installed(o->args[0], ret, size, NULL) : str_copy(ret, size, o->args[0]);
    if (there && fsio_exists(ret) && !fsio_is_dir(ret))
        return 0;
    str_format(ret, size, "%.4000s.model-%ld", onnx, (long)getpid());
    const int code = brrctl_fetch_model(o, o->args[0], ret, &fetched);
    *ret_fetched = !code;
    return code;
}

/* Runs the writer; what it says goes to standard error. Debian's Python, which has Debian's NumPy, unless a virtual environment is
 * active. */
static int write_onnx(const struct export_options *own, const char *package, const char *model, struct err *err) {
    const char *words[10] = {getenv("VIRTUAL_ENV") ? "python3" : "/usr/bin/python3", "-m", "brr.onnx", model, own->onnx},
               *old = getenv("PYTHONPATH");
    OWNED(str_done) struct str path = str_of(1 << 20);
    int n = 5, status = 0;
    pid_t pid;
    str_printf(&path, "%s%s%s", package, old ? ":" : "", old ? old : "");
    if (own->int8) {
        words[n++] = "--int8";
        words[n++] = own->int8;
    }
    if (own->reduce_range)
        words[n++] = "--reduce-range";
    if (setenv("PYTHONPATH", str_cstr(&path), 1))
        return err_errno(err, errno, "cannot name the Python package brr");
    int rc = spawn_start(words, -1, STDERR_FILENO, &pid, err);
    if (rc)
        return rc;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return err_set(err, ERR_INTERNAL, "%s was not written: %s -m brr.onnx failed, see above", own->onnx, words[0]);
    return 0;
}

static int cmd_export(const struct arguments *o) {
    const struct export_options *own = o->own;
    char package[PATH_SIZE], model[PATH_SIZE];
    struct err err = {0};
    bool fetched;
    if (!own->onnx) {
        fputs("brrctl: export needs --onnx FILE\n", stderr);
        return EXIT_USAGE;
    }
    int code = model_of_export(o, own->onnx, model, sizeof model, &fetched);
    if (code)
        return code;
    int rc = find_package(package, sizeof package, &err);
    rc = rc ? rc : write_onnx(own, package, model, &err);
    if (fetched)
        unlink(model);
    if (rc)
        return brrctl_fail(&err);
    if (o->json)
        output_text("onnx", own->onnx);
    else
        printf("%s written\n", own->onnx);
    return 0;
}

BRRCTL_COMMAND(export, "MODEL", ARGUMENTS(rows), cmd_export, "write a network as ONNX, for other runtimes",
               "MODEL: a file or demo (both without a daemon), else a REF as in `brrctl checkpoint get`, which the daemon sends.\n"
               "The Python package brr writes it: python3 with NumPy, for --int8 also MNE. docs/scan.md says what is in the file.\n"
               "example: brrctl export job:train-260131-1 --onnx model.onnx --int8 other.edf");
