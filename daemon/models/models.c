#include "daemon/models/models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/fsio.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/serveddb.h"

/* A model file on its way from a store, to be served then. */
struct fetching {
    uv_work_t work;
    struct models *models;
    struct model_fetch fetch;
    char name[LIVE_NAME], url[LIVE_PATH], path[LIVE_PATH];
    models_done_fn *done;
    void *ctx;
    bool started;
    struct err err;
};

struct models {
    struct models_config config;
    struct served_model *served[MODELS_MAX];
    int count;
    struct fetching *fetching[MODELS_MAX]; /* under way or waiting, oldest first */
    int n_fetching;
};

/* ---- REFs ---- */

static bool plain_name(const char *name) {
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return n > 0 && !name[n] && n < 65 && *name != '.';
}

static int check_name(const char *name, struct err *err) {
    return plain_name(name) ? 0 : err_set(err, ERR_INVALID, "'%s' is no model name; expected up to 64 of A-Z a-z 0-9 . _ -", name);
}

int models_upload_path(const struct models *m, const char *name, char path[LIVE_PATH], struct err *err) {
    int rc = check_name(name, err);
    if (!rc && !str_format(path, LIVE_PATH, "%s/uploads/%s.safetensors", m->config.places->results_dir, name))
        rc = err_set(err, ERR_RANGE, "paths.results is too long");
    return rc;
}

int models_resolve(struct models *m, const char *ref, char path[LIVE_PATH], char name[LIVE_NAME], struct err *err) {
    const struct served_model *served = models_find(m, ref);
    int rc = 0;
    if (!*ref)
        return err_set(err, ERR_INVALID, "no model named; expected a served name, job:ID or a model file");
    if (served) {
        str_copy(path, LIVE_PATH, served->path);
        str_copy(name, LIVE_NAME, ref);
        return 0;
    }
    if (str_starts(ref, "job:")) {
        if ((rc = m->config.job_model(m->config.ctx, ref, path, err)))
            return rc;
        size_t id = strcspn(ref, "@");
        str_format(name, LIVE_NAME, "%.*s", (int)(id < LIVE_NAME - 1 ? id : LIVE_NAME - 1), ref);
        return 0;
    }
    if (plain_name(ref) && !models_upload_path(m, ref, path, err) && fsio_exists(path)) {
        str_copy(name, LIVE_NAME, ref);
        return 0;
    }
    if (model_fetch_is_url(ref))
        return err_set(
            err, ERR_PRECONDITION,
            "model %.200s lies in a store, which jobs and streams alone can name; here serve it first: `brrctl checkpoint promote "
            "%.200s NAME`, and say NAME",
            ref, ref);
    if (!strchr(ref, '/'))
        return err_set(err, ERR_NOT_FOUND,
                       "there is no served or uploaded model '%s'; `brrctl models` lists them. Other forms: job:ID, /path/to/file",
                       ref);
    str_copy(name, LIVE_NAME, "file"); /* never a path in a metric */
    return places_model_file(m->config.places, ref, path, err);
}

int models_keep(const struct models *m, const char *folder, const char *name, const char *from, char path[LIVE_PATH],
                struct err *err) {
    char dir[LIVE_PATH], tmp[LIVE_PATH];
    if (!str_format(dir, sizeof dir, "%s/%s", m->config.places->results_dir, folder) ||
        !str_format(path, LIVE_PATH, "%.3900s/%s.safetensors", dir, name) || !str_format(tmp, sizeof tmp, "%.4000s.tmp", path))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    int rc = fsio_mkdirs(dir, err);
    if (rc)
        return rc;
    if (!strcmp(from, path))
        return 0;
    unlink(tmp);
    if (link(from, tmp) < 0) { /* another volume, or one without links: the file itself is used */
        if (errno == EXDEV || errno == EPERM || errno == EMLINK || errno == ENOTSUP) {
            str_copy(path, LIVE_PATH, from);
            return 0;
        }
        return err_errno(err, errno, "cannot keep %s", from);
    }
    rc = fsio_rename(tmp, path, err); /* durable before its name is recorded */
    unlink(tmp);                      /* rename does nothing when both are the same file already */
    return rc ? err_wrap(err, "cannot keep %s as %s", from, path) : 0;
}

/* ---- served names ---- */

const struct served_model *models_find(const struct models *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->served[i]->name, name))
            return m->served[i];
    return NULL;
}

int models_count(const struct models *m) { return m->count; }
const struct served_model *models_at(const struct models *m, int index) { return m->served[index]; }

static void served_free(struct served_model *s) {
    free(s->opened);
    free(s);
}

static bool order(struct models *m, enum live_order_kind kind, const char *path, const char *name) {
    struct live_order *o = live_order_new(kind, NULL);
    if (!o)
        return false;
    str_copy(o->checkpoint, sizeof o->checkpoint, path);
    str_copy(o->model, sizeof o->model, name);
    if (m->config.post(m->config.post_ctx, o))
        return true;
    live_order_free(o);
    return false;
}

static void drop(struct models *m, struct served_model *s) {
    int i = 0;
    while (m->served[i] != s)
        i++;
    memmove(m->served + i, m->served + i + 1, (size_t)(m->count - i - 1) * sizeof *m->served);
    m->count--;
    if (s->opened)
        order(m, LIVE_UNLOAD, s->path, s->name);
    served_free(s);
}

/* A row whose file is being loaded. */
static int add(struct models *m, const char *name, const char *path, const char *ref, struct served_model **ret, struct err *err) {
    struct served_model *s = m->count < MODELS_MAX ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "%d models are served already; unload one first", m->count);
    str_copy(s->name, sizeof s->name, name);
    str_copy(s->path, sizeof s->path, path);
    str_copy(s->ref, sizeof s->ref, ref);
    if (!order(m, LIVE_LOAD, path, name)) {
        free(s);
        return err_set(err, ERR_EXHAUSTED, "too much waits for the device; try again later");
    }
    m->served[m->count++] = s;
    *ret = s;
    return 0;
}

/* A name that is being loaded cannot be given to another file. */
static int check_settled(const struct models *m, const char *name, struct err *err) {
    const struct served_model *s = models_find(m, name);
    return s && !s->opened && !s->err.code
               ? err_set(err, ERR_UNAVAILABLE, "model '%s' is being loaded; try again in a moment", name)
               : 0;
}

/* The file `from`, which REF means. */
static int serve_file(struct models *m, const char *name, const char *ref, const char *from, models_done_fn *done, void *ctx,
                      struct err *err) {
    char path[LIVE_PATH];
    struct modelfile file;
    struct served_model *s = NULL;
    int rc = modelfile_read(from, &file, err); /* before anything that served is touched */
    if (!rc)
        rc = check_settled(m, name, err);
    if (!rc)
        rc = models_keep(m, "served", name, from, path, err);
    struct served_model *old = rc ? NULL : (struct served_model *)(uintptr_t)models_find(m, name);
    if (!rc && old)
        drop(m, old);
    if (!rc)
        rc = add(m, name, path, ref, &s, err);
    if (!rc)
        rc = serveddb_save(m->config.db, name, path, ref, err);
    if (rc)
        return rc;
    s->done = done;
    s->ctx = ctx;
    return 0;
}

static void fetch_work(uv_work_t *work) {
    struct fetching *f = work->data;
    model_fetch_run(&f->fetch, &f->err);
}

static void fetch_done(uv_work_t *work, int status);

static void start_fetches(struct models *m) {
    int running = 0;
    for (int i = 0; i < m->n_fetching; i++)
        running += m->fetching[i]->started;
    for (int i = 0; i < m->n_fetching && running < MODELS_MAX_FETCHES; i++) {
        struct fetching *f = m->fetching[i];
        if (f->started)
            continue;
        f->started = true;
        running++;
        uv_queue_work(m->config.loop, &f->work, fetch_work, fetch_done); /* fails for want of a function alone */
    }
}

static void fetch_done(uv_work_t *work, int status) {
    struct fetching *f = work->data;
    struct models *m = f->models;
    char text[800];
    (void)status;
    int i = 0;
    while (m->fetching[i] != f)
        i++;
    memmove(m->fetching + i, m->fetching + i + 1, (size_t)(--m->n_fetching - i) * sizeof *m->fetching);
    start_fetches(m);
    if (!f->err.code && atomic_load(&f->fetch.stop)) /* too late for the fetch, but nobody waits any more */
        err_set(&f->err, ERR_CANCELLED, "model %.200s was fetched, but is not served: given up meanwhile", f->url);
    if (!f->err.code)
        log_info("model fetched", "model=%s from=%s", f->name, f->url);
    if (f->err.code || serve_file(m, f->name, f->url, f->path, f->done, f->ctx, &f->err)) {
        log_warn("model cannot serve", "model=%s error=\"%s\"", f->name, err_text(&f->err, text, sizeof text));
        if (f->done)
            f->done(f->ctx, NULL, &f->err);
    }
    free(f);
}

/* The object of a store becomes the upload of this name; then that is served. */
static int serve_fetched(struct models *m, const char *name, const char *url, models_done_fn *done, void *ctx, struct err *err) {
    for (int i = 0; i < m->n_fetching; i++)
        if (!strcmp(m->fetching[i]->name, name))
            return !done && !strcmp(m->fetching[i]->url, url)
                       ? 0 /* the configuration was read again */
                       : err_set(err, ERR_UNAVAILABLE, "model '%s' is being fetched; try again in a moment", name);
    int rc = check_settled(m, name, err);
    if (!rc && m->n_fetching == MODELS_MAX)
        rc = err_set(err, ERR_EXHAUSTED, "%d models wait to be fetched already; try again later", m->n_fetching);
    struct fetching *f = rc ? NULL : calloc(1, sizeof *f);
    if (!rc && !f)
        rc = err_set(err, ERR_EXHAUSTED, "out of memory fetching a model");
    if (!rc && !str_copy(f->url, sizeof f->url, url))
        rc = err_set(err, ERR_RANGE, "model %.200s…: the URL is too long", url);
    if (!rc)
        rc = models_upload_path(m, name, f->path, err);
    if (!rc)
        rc = model_fetch_init(&f->fetch, m->config.places->stores, m->config.places->n_stores, f->url, f->path, err);
    if (rc) {
        free(f);
        return rc;
    }
    str_copy(f->name, sizeof f->name, name);
    f->models = m;
    f->done = done;
    f->ctx = ctx;
    f->work.data = f;
    m->fetching[m->n_fetching++] = f;
    start_fetches(m);
    return 0;
}

int models_serve(struct models *m, const char *name, const char *ref, models_done_fn *done, void *ctx, struct err *err) {
    char from[LIVE_PATH], label[LIVE_NAME];
    int rc = check_name(name, err);
    if (!rc && model_fetch_is_url(ref))
        return serve_fetched(m, name, ref, done, ctx, err);
    if (!rc)
        rc = models_resolve(m, ref, from, label, err);
    return rc ? rc : serve_file(m, name, ref, from, done, ctx, err);
}

void models_forget(struct models *m, void *ctx) {
    for (int i = 0; i < m->count; i++)
        if (m->served[i]->ctx == ctx)
            m->served[i]->done = NULL;
    for (int i = 0; i < m->n_fetching; i++)
        if (m->fetching[i]->ctx == ctx) {
            m->fetching[i]->done = NULL;
            atomic_store(&m->fetching[i]->fetch.stop, true);
        }
}

void models_stop(struct models *m) {
    for (int i = 0; m && i < m->n_fetching; i++)
        atomic_store(&m->fetching[i]->fetch.stop, true);
}

int models_unserve(struct models *m, const char *name, struct err *err) {
    struct served_model *s = (struct served_model *)(uintptr_t)models_find(m, name);
    if (!s)
        return err_set(err, ERR_NOT_FOUND, "no model is served as '%s'; `brrctl models` lists them", name);
    if (!s->opened && !s->err.code)
        return err_set(err, ERR_UNAVAILABLE, "model '%s' is being loaded; try again in a moment", name);
    int rc = serveddb_remove(m->config.db, name, err);
    if (rc)
        return rc;
    char kept[LIVE_PATH];
    if (str_format(kept, sizeof kept, "%s/served/%s.safetensors", m->config.places->results_dir, name))
        unlink(kept);
    drop(m, s);
    return 0;
}

void models_report(struct models *m, const struct live_report *r) {
    struct served_model *s = r->message.kind == LIVE_LOADED ? (struct served_model *)(uintptr_t)models_find(m, r->model) : NULL;
    if (!s)
        return;
    s->err = r->err;
    if (r->opened && (s->opened = malloc(sizeof *s->opened))) {
        *s->opened = *r->opened;
        s->opened->info.checkpoint = s->opened->checkpoint;
        s->opened->info.file.frontend.montage = s->opened->info.file.montage;
        log_info("model serves", "model=%s sha256=%.12s", s->name, s->opened->info.sha256);
    } else {
        if (!s->err.code)
            err_set(&s->err, ERR_EXHAUSTED, "out of memory for a model");
        log_error("model cannot serve", "model=%s error=\"%s\"", s->name, s->err.message);
    }
    models_done_fn *done = s->done;
    s->done = NULL;
    if (done)
        done(s->ctx, s->opened, s->opened ? NULL : &s->err);
}

static void reload(void *ctx, const char *name, const char *path, const char *ref) {
    struct models *m = ctx;
    struct served_model *s;
    struct err err;
    if (add(m, name, path, ref, &s, &err))
        log_error("model cannot serve", "model=%s error=\"%s\"", name, err.message);
}

int models_new(const struct models_config *config, struct models **ret, struct err *err) {
    struct models *m = calloc(1, sizeof *m);
    char uploads[LIVE_PATH];
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory for models");
    m->config = *config;
    if (str_format(uploads, sizeof uploads, "%s/uploads", config->places->results_dir))
        model_fetch_clean(uploads);
    int rc = serveddb_setup(config->db, err);
    if (!rc)
        rc = serveddb_load(config->db, reload, m, err);
    if (rc) {
        models_free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

void models_free(struct models *m) {
    if (!m)
        return;
    for (int i = 0; i < m->count; i++)
        served_free(m->served[i]);
    free(m);
}
