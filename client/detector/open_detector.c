#include "client/detector/open_detector.h"

#include <dlfcn.h>

#include "detect/builtin.h"

const char *brr_detector_library_version(void) { return BRR_LIBRARY_VERSION; }

int detector_report(int rc, const struct err *err, struct brr_detector_error *to) {
    if (rc && to) {
        to->code = rc;
        err_text(err, to->message, sizeof to->message);
    }
    return rc;
}

int detector_arguments(const void *args, void *known, size_t known_bytes, struct err *err) {
    size_t bytes = 0;
    memset(known, 0, known_bytes);
    if (args)
        memcpy(&bytes, args, sizeof bytes);
    if (bytes < sizeof bytes || bytes > 1 << 16)
        return err_set(err, ERR_INVALID, "size is %zu; expected sizeof the structure, %zu", bytes, known_bytes);
    memcpy(known, args, bytes < known_bytes ? bytes : known_bytes);
    for (size_t i = known_bytes; i < bytes; i++)
        if (((const char *)args)[i])
            return err_set(err, ERR_UNSUPPORTED, "a member that this version of libbrr_detector does not know is set");
    return 0;
}

/* The installed model beside this library: share/brrd/models of its prefix, with or without a folder of the architecture. */
static bool find_installed(const char *name, char *ret, size_t size) {
    static const char *const shares[] = {"../share", "../../share"};
    char library[PATH_MAX];
    Dl_info own;
    if (!dladdr(shares, &own) || !own.dli_fname || !realpath(own.dli_fname, library))
        return false;
    char *slash = strrchr(library, '/');
    for (size_t i = 0; slash && i < sizeof shares / sizeof *shares; i++) {
        str_format(ret, size, "%.*s/%s/brrd/models/%s.safetensors", (int)(slash - library), library, shares[i], name);
        if (access(ret, R_OK) == 0)
            return true;
    }
    return false;
}

struct opening {
    brr_detector *to;
    const char *model;
    struct brr_detector_options options;
};

static int upload_model(struct opening *o, const char *path, struct err *err) {
    struct model_use use = {.max_batch = detector_best_batch(o->to->device), .precision = o->options.bf16 ? DTYPE_BF16 : DTYPE_F32};
    int rc = detector_open_for(o->to->stream, path, &use, &o->to->detector, err);
    if (rc)
        return rc;
    o->to->info = detector_info(o->to->detector);
    return detector_warm_up(o->to->detector, o->to->stream, 0, err);
}

/* A model without a network is made by its name, in a file that is gone once it has been read. */
static int open_made(struct opening *o, struct err *err) {
    struct modelfile file;
    const char *folder = getenv("TMPDIR");
    char path[4096];
    str_format(path, sizeof path, "%.4000s/brr-model-XXXXXX", folder && *folder ? folder : "/tmp");
    int rc = builtin_model(o->model, &file, err), fd = rc ? -1 : mkstemp(path);
    if (rc)
        return rc;
    if (fd < 0)
        return err_set(err, ERR_EXHAUSTED, "no file %s can be made for %s; TMPDIR names another folder", path, o->model);
    close(fd);
    if (!(rc = modelfile_save_initial(path, &file, err)))
        rc = upload_model(o, path, err);
    unlink(path);
    return rc;
}

static int open_model(void *context, struct err *err) {
    struct opening *o = context;
    char path[PATH_MAX + 64];
    int rc;
    if ((rc = device_open(o->options.device ? o->options.device : "cpu", o->options.threads, &o->to->device, err)) ||
        (rc = stream_open(o->to->device, STREAM_NORMAL, &o->to->stream, err)))
        return rc;
    if (!builtin_has(o->model) && (access(o->model, F_OK) == 0 || strchr(o->model, '/')))
        return upload_model(o, o->model, err);
    if (seizure_feature_from_name(o->model) < SEIZURE_TYPES)
        return open_made(o, err);
    if (find_installed(o->model, path, sizeof path))
        return upload_model(o, path, err);
    if (builtin_has(o->model))
        return err_set(err, ERR_NOT_FOUND, "%s is not installed in share/brrd/models beside this library; name its file", o->model);
    return err_set(err, ERR_NOT_FOUND, "%.200s is neither a model file nor ward, demo, line_length or band_power", o->model);
}

static int close_model(void *context, struct err *err) {
    brr_detector *d = context;
    (void)err;
    detector_close(d->detector);
    stream_close(d->stream);
    device_close(d->device);
    return 0;
}

static int open_on_thread(struct opening *o, const struct brr_detector_options *options, struct err *err) {
    int rc = 0;
    if (!o->to)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a detector");
    if (!o->model || !*o->model)
        return err_set(err, ERR_INVALID, "no model is named");
    if (options && (rc = detector_arguments(options, &o->options, sizeof o->options, err)))
        return rc;
    if (o->options.threads < 0)
        return err_set(err, ERR_INVALID, "%d threads; expected 0 (as many as the process may use) or more",
                       (int)o->options.threads);
    if ((rc = work_thread_start(&o->to->thread, err)))
        return rc;
    return work_thread_run(o->to->thread, open_model, o, err);
}

int brr_detector_open(const char *model, const struct brr_detector_options *options, brr_detector **ret,
                      struct brr_detector_error *err) {
    struct err e = {0};
    struct opening o = {.to = calloc(1, sizeof *o.to), .model = model};
    *ret = NULL;
    const int rc = open_on_thread(&o, options, &e);
    if (rc)
        brr_detector_close(o.to);
    else
        *ret = o.to;
    return detector_report(rc, &e, err);
}

void brr_detector_close(brr_detector *detector) {
    if (!detector)
        return;
    if (detector->thread)
        work_thread_run(detector->thread, close_model, detector, NULL);
    work_thread_stop(detector->thread);
    free(detector);
}

const char *brr_detector_type(const brr_detector *detector) { return seizure_type_name(detector->info->file.model.type); }
const char *brr_detector_montage(const brr_detector *detector) { return detector->info->file.frontend.montage; }
const char *brr_detector_sha256(const brr_detector *detector) { return detector->info->sha256; }
int64_t brr_detector_window(const brr_detector *detector) { return modelfile_window(&detector->info->file); }
int64_t brr_detector_hop(const brr_detector *detector) { return modelfile_hop(&detector->info->file); }
