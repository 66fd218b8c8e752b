#include "daemon/models/models.h"

#include <uv.h>

#include "base/log.h"
#include "daemon/models/model_fetch.h"
#include "detect/builtin.h"

/* File work for a served name, on libuv's thread pool: a model that is found, or fetched, and linked, to be served then; or the
 * file that a record no longer names, removed. */
struct fetching {
    uv_work_t work;
    struct models *models;
    bool removes;
    struct model_ref from;  /* unless it removes */
    struct model_file file; /* that is linked, or removed */
    atomic_bool stop;
    char name[LIVE_NAME], ref[LIVE_PATH], device[32], principal[PLACES_VIEWER];
    int64_t time_ms;
    char sha256[DIGEST_HEX_SIZE]; /* of the weights that are wanted; "": those of the REF */
    char before[LIVE_PATH];       /* the file that the record named */
    bool adopted;                 /* the file of a record of an earlier version */
    bool named;                   /* the configuration or a record names the model: the name is missing if this fails */
    struct served_model *row;     /* once the file is there: what is to be served */
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
    struct message *due, **due_end;      /* orders that the worker has not taken yet, oldest first */
    char missing[MODELS_MAX][LIVE_NAME]; /* of the configuration or the database: no row, as the model could not be had */
    int n_missing;
    struct named_load *loads[SERVEDDB_MOST_LOADS]; /* what the database has of them, the oldest first */
    int n_loads;
    bool stopping; /* nothing new serves */
};

struct named_load {
    char name[LIVE_NAME];
    struct served_load load;
};

/* ---- REFs ---- */

static const char upload_prefix[] = "upload:";

int models_upload_path(const struct models *m, const char *name, char path[LIVE_PATH], struct err *err) {
    return model_upload_path(m->config.places->results_dir, name, path, err);
}

static int refer_upload(struct models *m, const char *ref, struct model_ref *ret, struct err *err) {
    str_copy(ret->name, sizeof ret->name, ref);
    ret->origin = MODEL_UPLOAD;
    err_set(&ret->absent, ERR_NOT_FOUND, "there is no upload '%s' that this caller may see; `brrctl checkpoints` lists them",
            ref + strlen(upload_prefix));
    return models_upload_path(m, ref + strlen(upload_prefix), ret->path, err);
}

/* Its file was written when the daemon started. */
static int refer_builtin(const struct models *m, const char *ref, struct model_ref *ret, struct err *err) {
    char installed[LIVE_PATH];
    str_copy(ret->name, sizeof ret->name, ref);
    if (!builtin_installed(ref, installed, sizeof installed, NULL) && !fsio_exists(installed))
        err_set(&ret->absent, ERR_NOT_FOUND, "the built-in model '%s' is not installed: there is no %s", ref, installed);
    else
        err_set(&ret->absent, ERR_NOT_FOUND,
                "the file of the built-in model '%s' is not in the cache: it was removed, or the model was installed after the "
                "start; restart brrd",
                ref);
    return builtin_path(m->config.cache, ref, ret->path, sizeof ret->path, err);
}

static int refer_file(const char *ref, struct model_ref *ret, struct err *err) {
    if (!strchr(ref, '/')) {
        const char *nearest = builtin_nearest(ref);
        return err_set(
            err, ERR_NOT_FOUND,
            "no model is served as '%s'; `brrctl models` lists them. Other forms: upload:NAME, job:ID, /path/to/file%s%s%s", ref,
            nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    }
    str_copy(ret->name, sizeof ret->name, "file"); /* never a path in a metric */
    ret->origin = MODEL_OF_CALLER;
    return str_copy(ret->path, sizeof ret->path, ref) ? 0 : err_set(err, ERR_RANGE, "the path of the model is too long");
}

int models_refer(struct models *m, const char *ref, struct model_ref *ret, struct err *err) {
    const struct served_model *served = models_find(m, ref);
    *ret = (struct model_ref){.origin = served ? MODEL_SERVED : MODEL_OF_DAEMON, .places = *m->config.places};
    if (!*ref)
        return err_set(err, ERR_INVALID, "no model named; expected a served name, job:ID or a model file");
    if (served && served->changed) {
        if (err)
            *err = served->err;
        return served->err.code;
    }
    if (served) {
        str_copy(ret->path, sizeof ret->path, served->path);
        str_copy(ret->name, sizeof ret->name, ref);
        return 0;
    }
    if (str_starts(ref, upload_prefix))
        return refer_upload(m, ref, ret, err);
    if (model_fetch_is_url(ref))
        return model_ref_object(m->config.places, ref, ret, err);
    if (m->config.cache && builtin_has(ref))
        return refer_builtin(m, ref, ret, err);
    if (!str_starts(ref, "job:"))
        return refer_file(ref, ret, err);
    size_t id = strcspn(ref, "@");
    str_format(ret->name, sizeof ret->name, "%.*s", (int)(id < LIVE_NAME - 1 ? id : LIVE_NAME - 1), ref);
    return m->config.job_model(m->config.ctx, ref, ret, err);
}

/* ---- served names ---- */

const struct served_model *models_find(const struct models *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->served[i]->name, name))
            return m->served[i];
    return NULL;
}

int models_count(const struct models *m) { return m->count; }

enum models_state models_state(const struct models *m) {
    bool failed = m->n_missing > 0;
    for (int i = 0; i < m->n_fetching; i++)
        if (!m->fetching[i]->removes)
            return MODELS_LOADING;
    for (int i = 0; i < m->count; i++) {
        if (m->served[i]->loading)
            return MODELS_LOADING;
        failed = failed || !m->served[i]->opened;
    }
    return failed ? MODELS_FAILED : MODELS_WARM;
}

int models_failed(const struct models *m) {
    int n = m->n_missing;
    for (int i = 0; i < m->count; i++)
        n += !m->served[i]->loading && !m->served[i]->opened;
    return n;
}

const struct served_model *models_at(const struct models *m, int index) { return m->served[index]; }

/* True if the name is missing; `found`: it no longer is. */
static bool find_missing(struct models *m, const char *name, bool found) {
    int i = 0;
    while (i < m->n_missing && strcmp(m->missing[i], name) != 0)
        i++;
    if (i == m->n_missing)
        return false;
    if (found)
        memmove(m->missing + i, m->missing + i + 1, (size_t)(--m->n_missing - i) * sizeof *m->missing);
    return true;
}

/* There can be no more names than places for models. */
static void miss(struct models *m, const char *name) {
    if (!find_missing(m, name, false) && m->n_missing < MODELS_MAX)
        str_copy(m->missing[m->n_missing++], sizeof *m->missing, name);
}

static void served_free(struct served_model *s) {
    for (int i = 0; i < MODELS_MAX_DEVICES; i++) {
        live_order_free(s->load[i]);
        live_order_free(s->unload[i]);
    }
    free(s->opened);
    free(s);
}

static struct live_order *order_new(enum live_order_kind kind, const struct served_model *s, int device) {
    struct live_order *o = live_order_new(kind, NULL);
    if (!o)
        return NULL;
    o->device = device;
    str_copy(o->checkpoint, sizeof o->checkpoint, s->path);
    str_copy(o->model, sizeof o->model, s->name);
    return o;
}

void models_tick(struct models *m) {
    for (struct message *o; (o = m->due);) {
        struct message *next = o->next;
        if (!m->config.post(m->config.post_ctx, (struct live_order *)o))
            return;
        m->due = next;
        if (!next)
            m->due_end = &m->due;
    }
}

/* In order: a model must not be loaded again before it was let go. At most two wait per name and device, as a name is settled
 * before it is given again. */
static void hand_over(struct models *m, struct live_order **order) {
    (*order)->message.next = NULL;
    *m->due_end = &(*order)->message;
    m->due_end = &(*order)->message.next;
    *order = NULL;
    models_tick(m);
}

static void drop(struct models *m, struct served_model *s) {
    int i = 0;
    while (m->served[i] != s)
        i++;
    memmove(m->served + i, m->served + i + 1, (size_t)(m->count - i - 1) * sizeof *m->served);
    m->count--;
    for (int device = 0; device < MODELS_MAX_DEVICES; device++)
        if (s->opened && s->devices >> device & 1)
            hand_over(m, &s->unload[device]);
    served_free(s);
}

static int device_count(const struct models *m) { return m->config.n_devices ? m->config.n_devices : 1; }

/* The device of this name as a bit; every device for "". NOT_FOUND. */
static int find_devices(const struct models *m, const char *name, uint32_t *ret, struct err *err) {
    *ret = (1u << device_count(m)) - 1;
    if (!*name)
        return 0;
    for (int i = 0; i < m->config.n_devices; i++)
        if (!strcmp(m->config.devices[i], name)) {
            *ret = 1u << i;
            return 0;
        }
    return err_set(err, ERR_NOT_FOUND, "device: this daemon has no device '%.40s'; `brrctl devices` lists them", name);
}

/* A record may name a device that the configuration no longer has. */
static void choose_devices(const struct models *m, struct served_model *s, const char *device) {
    struct err err;
    str_copy(s->device, sizeof s->device, device);
    if (!find_devices(m, device, &s->devices, &err))
        return;
    log_warn("a served model names a device that is not there: every device serves it", "model=%s device=%s", s->name, device);
    find_devices(m, "", &s->devices, NULL);
}

/* The orders of each of its devices. */
static bool make_orders(struct served_model *s, int64_t max_delay_ms) {
    for (int i = 0; i < MODELS_MAX_DEVICES; i++)
        if (s->devices >> i & 1 && (!(s->load[i] = order_new(LIVE_LOAD, s, i)) || !(s->unload[i] = order_new(LIVE_UNLOAD, s, i))))
            return false;
        else if (s->load[i])
            s->load[i]->max_delay_ms = max_delay_ms;
    return true;
}

/* A row beside those there are, or in the place of `old`, with all that it needs to be served and to be dropped. */
static int new_row(const struct models *m, const struct served_model *old, const struct served_record *record,
                   struct served_model **ret, struct err *err) {
    if (!old && m->count == MODELS_MAX)
        return err_set(err, ERR_EXHAUSTED, "%d models are served already; unload one first", m->count);
    struct served_model *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a model");
    COPY_TEXTS(*s, *record, name, path, ref, sha256);
    choose_devices(m, s, record->device);
    if (!make_orders(s, m->config.max_delay_ms ? m->config.max_delay_ms(m->config.ctx, s->name) : -1)) {
        served_free(s);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a model");
    }
    *ret = s;
    return 0;
}

/* The row is in the table and its file is being loaded. */
static void add(struct models *m, struct served_model *s) {
    m->served[m->count++] = s;
    s->loading = s->devices;
    for (int i = 0; i < MODELS_MAX_DEVICES; i++)
        if (s->devices >> i & 1)
            hand_over(m, &s->load[i]);
}

/* A name that is being loaded cannot be given to another file. */
static int check_settled(const struct models *m, const char *name, struct err *err) {
    const struct served_model *s = models_find(m, name);
    return s && s->loading ? err_set(err, ERR_UNAVAILABLE, "model '%s' is being loaded; try again in a moment", name) : 0;
}

/* What a record says of the model that was fetched. */
static struct served_record record_of(const struct fetching *f) {
    return (struct served_record){f->name, f->file.path, f->ref, f->file.sha256, f->device};
}

static struct served_load load_of(const struct fetching *f) {
    struct served_load load = {.time_ms = f->time_ms};
    str_copy(load.ref, sizeof load.ref, f->ref);
    str_copy(load.sha256, sizeof load.sha256, f->file.sha256);
    str_copy(load.principal, sizeof load.principal, f->principal);
    return load;
}

static int write_record(struct db *db, void *what, struct err *err) {
    struct fetching *f = *(struct fetching **)what;
    const struct served_record record = record_of(f);
    const struct served_load load = load_of(f);
    int rc;
    if ((rc = serveddb_path(db, f->name, f->before, err)) || (rc = serveddb_save(db, &record, err)) || f->adopted)
        return rc;
    return serveddb_add_load(db, f->name, &load, err);
}

/* Forgets the oldest loads of this name, until it has fewer than `most`, and the oldest of all where there is no room. */
static void forget_loads(struct models *m, const char *name, int most) {
    int of_name = 0, kept = 0;
    for (int i = 0; i < m->n_loads; i++)
        of_name += !strcmp(m->loads[i]->name, name);
    for (int i = 0; i < m->n_loads; i++) {
        const bool own = !strcmp(m->loads[i]->name, name), full = !i && m->n_loads == SERVEDDB_MOST_LOADS;
        if (full || (own && of_name >= most))
            free(m->loads[i]);
        else
            m->loads[kept++] = m->loads[i];
        of_name -= own;
    }
    m->n_loads = kept;
}

/* The newest load of the name is noted once, however often these weights were loaded. */
static void forget_same(struct models *m, const char *name, const char *sha256) {
    int i = m->n_loads;
    while (i > 0 && strcmp(m->loads[i - 1]->name, name) != 0)
        i--;
    if (!i || strcmp(m->loads[i - 1]->load.sha256, sha256) != 0)
        return;
    free(m->loads[i - 1]);
    for (m->n_loads--; i <= m->n_loads; i++)
        m->loads[i - 1] = m->loads[i];
}

static void note_load(void *ctx, const char *name, const struct served_load *load) {
    struct models *m = ctx;
    struct named_load *l = calloc(1, sizeof *l);
    forget_same(m, name, load->sha256);
    forget_loads(m, name, SERVEDDB_LOADS);
    if (!l)
        return;
    str_copy(l->name, sizeof l->name, name);
    l->load = *load;
    m->loads[m->n_loads++] = l;
}

static void fetch_work(uv_work_t *work) {
    struct fetching *f = work->data;
    const struct model_wish wish = {.owner = f->name, .stop = &f->stop, .sha256 = *f->sha256 ? f->sha256 : NULL};
    if (f->removes)
        model_file_release(&f->file);
    else if (model_resolve(&f->from, &wish, &f->file, &f->err) && wish.sha256)
        err_wrap(&f->err, "the weights before, those of %s with SHA-256 %.12s…, cannot be had", f->ref, f->sha256);
}

static bool from_store(const struct fetching *f) { return !f->removes && f->from.origin == MODEL_OBJECT; }

static void fetch_done(uv_work_t *work, int status);

static void start_fetches(struct models *m) {
    int running = 0, from_stores = 0;
    for (int i = 0; i < m->n_fetching; i++) {
        running += m->fetching[i]->started;
        from_stores += m->fetching[i]->started && from_store(m->fetching[i]);
    }
    for (int i = 0; i < m->n_fetching && running < MODELS_MAX_WORK; i++) {
        struct fetching *f = m->fetching[i];
        if (f->started || (from_store(f) && from_stores >= MODELS_MAX_FETCHES))
            continue;
        f->started = true;
        running++;
        from_stores += from_store(f);
        uv_queue_work(m->config.loop, &f->work, fetch_work, fetch_done); /* fails for want of a function alone */
    }
}

static void queue_fetch(struct models *m, struct fetching *f) {
    f->started = false;
    m->fetching[m->n_fetching++] = f;
    start_fetches(m);
}

/* The model of a record, or of the configuration. */
static void cannot_serve(struct models *m, const char *name, const struct err *err) {
    char text[800];
    log_error("model cannot serve", "model=%s error=\"%s\"", name, err_text(err, text, sizeof text));
    miss(m, name);
}

/* The model of the configuration or a record, or one that a caller wants or wanted to serve. */
static void fetch_failed(struct models *m, const struct fetching *f) {
    char text[800];
    if (f->named)
        cannot_serve(m, f->name, &f->err);
    else
        log_warn("model cannot serve", "model=%s error=\"%s\"", f->name, err_text(&f->err, text, sizeof text));
    if (f->done)
        f->done(f->ctx, NULL, &f->err);
}

static void leave_list(struct models *m, const struct fetching *f) {
    int i = 0;
    while (m->fetching[i] != f)
        i++;
    memmove(m->fetching + i, m->fetching + i + 1, (size_t)(--m->n_fetching - i) * sizeof *m->fetching);
}

/* Its change of a record has ended, and others may take its turn. */
static void leave_recording(struct models *m, const struct fetching *f) {
    leave_list(m, f);
    if (!m->stopping)
        start_fetches(m);
}

/* The file that the record named goes; at the end of the daemon at once, as no thread may be left to do it. */
static void remove_before(struct models *m, struct fetching *f) {
    f->removes = true;
    f->file = model_file_recorded(m->config.places->results_dir, f->before);
    if (!m->stopping) {
        queue_fetch(m, f);
        return;
    }
    model_file_release(&f->file);
    free(f);
}

/* The record names the file, which takes the name and is loaded next. The file before it goes last. */
static void serve_kept(struct models *m, struct fetching *f) {
    struct served_model *old = (struct served_model *)(uintptr_t)models_find(m, f->name), *s = f->row;
    const struct served_load load = load_of(f);
    if (!f->adopted)
        note_load(m, f->name, &load);
    if (old)
        drop(m, old);
    COPY_MEMBERS(*s, *f, done, ctx);
    add(m, s);
    if (f->adopted || !strcmp(s->path, f->before)) /* adopted: snapshots of streams may still name the file */
        free(f);
    else
        remove_before(m, f);
}

static void recorded(void *ctx, void *what, int rc, const struct err *err) {
    struct models *m = ctx;
    struct fetching *f = *(struct fetching **)what;
    leave_recording(m, f);
    if (!rc && !m->stopping) {
        serve_kept(m, f);
        return;
    }
    served_free(f->row);
    f->err = *err;
    if (rc)
        fetch_failed(m, f);
    free(f);
}

/* The file of the fetch is recorded under its name. What was served under the name stays until nothing can fail any more. */
static int record_kept(struct models *m, struct fetching *f, struct err *err) {
    const struct served_record record = record_of(f);
    const struct db_order order = {.write = write_record, .what = &f, .size = sizeof f, .ended = recorded, .ctx = m};
    const struct served_model *old = models_find(m, f->name);
    int rc;
    if ((rc = check_settled(m, f->name, err)) || (rc = new_row(m, old, &record, &f->row, err)))
        return rc;
    if ((rc = db_writer_post(m->config.writer, &order, err))) {
        served_free(f->row);
        return rc;
    }
    m->fetching[m->n_fetching++] = f; /* no other work for the name meanwhile */
    return 0;
}

static void fetch_done(uv_work_t *work, int status) {
    struct fetching *f = work->data;
    struct models *m = f->models;
    (void)status;
    leave_list(m, f);
    start_fetches(m);
    if (from_store(f) && !f->err.code)
        log_info("model fetched", "model=%s from=%s", f->name, f->ref);
    if (f->removes) {
        free(f);
    } else if (f->err.code || record_kept(m, f, &f->err)) {
        fetch_failed(m, f);
        free(f);
    }
}

/* File work for this name; one piece at a time. */
static int new_fetch(struct models *m, const char *name, const char *ref, struct fetching **ret, struct err *err) {
    for (int i = 0; i < m->n_fetching; i++)
        if (!strcmp(m->fetching[i]->name, name))
            return err_set(err, ERR_UNAVAILABLE, "model '%s' is being %s; try again in a moment", name,
                           from_store(m->fetching[i]) ? "fetched" : "loaded or unloaded");
    int rc = check_settled(m, name, err);
    if (rc)
        return rc;
    if (m->n_fetching == MODELS_MAX)
        return err_set(err, ERR_EXHAUSTED, "%d models are already waiting to be fetched; try again later", m->n_fetching);
    struct fetching *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "out of memory loading a model");
    if (!str_copy(f->ref, sizeof f->ref, ref)) {
        free(f);
        return err_set(err, ERR_RANGE, "model %.200s…: the name is too long", ref);
    }
    str_copy(f->name, sizeof f->name, name);
    f->time_ms = clock_wall_ms();
    f->models = m;
    f->work.data = f;
    *ret = f;
    return 0;
}

/* Finds the model that a request wants. The REF of an earlier load that names a built-in model means that model, even if a
 * served one has the name now; one that is gone is an error only if no link has the weights. */
static int refer_request(struct models *m, struct fetching *f, struct err *err) {
    struct err gone = {0};
    if (!*f->sha256)
        return models_refer(m, f->ref, &f->from, err);
    f->from = (struct model_ref){.origin = MODEL_OF_DAEMON, .places = *m->config.places};
    const bool builtin = m->config.cache && builtin_has(f->ref);
    if (builtin ? refer_builtin(m, f->ref, &f->from, &gone) : models_refer(m, f->ref, &f->from, &gone))
        f->from = (struct model_ref){.origin = MODEL_OF_DAEMON, .places = *m->config.places, .absent = gone};
    return 0;
}

int models_loads(const struct models *m, const char *name, const struct served_load *ret[SERVEDDB_LOADS]) {
    int n = 0;
    for (int i = m->n_loads; i-- > 0 && n < SERVEDDB_LOADS;)
        if (!strcmp(m->loads[i]->name, name))
            ret[n++] = &m->loads[i]->load;
    return n;
}

static int find_before(const struct models *m, const char *name, struct served_load *ret, struct err *err) {
    const struct served_load *loads[SERVEDDB_LOADS];
    const int n = models_loads(m, name, loads);
    int i = 1;
    while (i < n && !strcmp(loads[i]->sha256, loads[0]->sha256))
        i++;
    if (i >= n)
        return err_set(err, ERR_NOT_FOUND, "no last load of '%s' had other weights than the newest", name);
    *ret = *loads[i];
    return 0;
}

int models_serve(struct models *m, const struct models_request *request, models_done_fn *done, void *ctx, struct err *err) {
    const char *name = request->name, *ref = request->ref, *device = request->device ? request->device : "";
    struct served_load before = {0};
    struct fetching *f = NULL;
    char upload[LIVE_PATH];
    uint32_t devices;
    int rc;
    if ((rc = models_upload_path(m, name, upload, err)) || (rc = find_devices(m, device, &devices, err)))
        return rc;
    if (request->previous && (rc = find_before(m, name, &before, err)))
        return rc;
    ref = request->previous ? before.ref : ref;
    if (strchr(ref, '\n'))
        return err_set(err, ERR_INVALID, "the name of a model or of its file has line ends");
    for (int i = 0; !done && i < m->n_fetching; i++)
        if (!strcmp(m->fetching[i]->name, name) && !strcmp(m->fetching[i]->ref, ref)) {
            m->fetching[i]->named = true; /* the configuration was read again, or a caller was faster */
            return 0;
        }
    if ((rc = new_fetch(m, name, ref, &f, err)))
        return rc;
    str_copy(f->sha256, sizeof f->sha256, before.sha256);
    if ((rc = refer_request(m, f, err))) {
        free(f);
        return rc;
    }
    str_copy(f->device, sizeof f->device, device);
    str_copy(f->principal, sizeof f->principal, request->principal ? request->principal : "");
    f->named = !done;
    f->done = done;
    f->ctx = ctx;
    queue_fetch(m, f);
    return 0;
}

void models_seed(struct models *m, const struct models_request *request) {
    const char *name = request->name, *ref = request->ref;
    const struct served_model *now = models_find(m, name);
    bool recorded = now != NULL;
    struct err err;
    if (now && strcmp(now->ref, ref) != 0)
        log_warn("serve: the name has a model already, which stays; `brrctl load` serves another one", "model=%s serves=%s ref=%s",
                 name, now->ref, ref);
    if (!recorded && !serveddb_find(m->config.db, name, &recorded, &err) && recorded && !find_missing(m, name, false))
        log_warn("serve: the name was unloaded and stays so; `brrctl load` serves a model under it", "model=%s ref=%s", name, ref);
    if (recorded)
        return;
    if (models_serve(m, request, NULL, NULL, &err))
        cannot_serve(m, name, &err);
}

void models_forget(struct models *m, void *ctx) {
    for (int i = 0; i < m->count; i++)
        if (m->served[i]->ctx == ctx)
            m->served[i]->done = NULL;
    for (int i = 0; i < m->n_fetching; i++)
        if (m->fetching[i]->ctx == ctx) {
            m->fetching[i]->done = NULL;
            if (!m->fetching[i]->named)
                atomic_store(&m->fetching[i]->stop, true);
        }
}

void models_stop(struct models *m) {
    if (m)
        m->stopping = true;
    for (int i = 0; m && i < m->n_fetching; i++)
        atomic_store(&m->fetching[i]->stop, true);
}

static int remove_record(struct db *db, void *what, struct err *err) {
    struct fetching *f = *(struct fetching **)what;
    int rc = serveddb_path(db, f->name, f->before, err);
    return rc ? rc : serveddb_remove(db, f->name, err);
}

/* A file that a record names stays. */
static void unrecorded(void *ctx, void *what, int rc, const struct err *err) {
    struct models *m = ctx;
    struct fetching *f = *(struct fetching **)what;
    char text[800];
    leave_recording(m, f);
    if (rc)
        log_error("a model that was unloaded is served again after a restart: its record cannot be removed",
                  "model=%s error=\"%s\"", f->name, err_text(err, text, sizeof text));
    if (rc)
        free(f);
    else
        remove_before(m, f);
}

int models_unserve(struct models *m, const char *name, struct err *err) {
    struct served_model *s = (struct served_model *)(uintptr_t)models_find(m, name);
    struct fetching *f = NULL;
    if (!s && !find_missing(m, name, false))
        return err_set(err, ERR_NOT_FOUND, "no model is served as '%s'; `brrctl models` lists them", name);
    const struct db_order order = {.write = remove_record, .what = &f, .size = sizeof f, .ended = unrecorded, .ctx = m};
    int rc;
    if ((rc = new_fetch(m, name, "", &f, err)) || (rc = db_writer_post(m->config.writer, &order, err))) {
        free(f);
        return rc;
    }
    f->removes = f->started = true;
    m->fetching[m->n_fetching++] = f; /* no other work for the name meanwhile */
    if (s)
        drop(m, s);
    find_missing(m, name, true);
    return 0;
}

/* The answer of one device. Weights other than those that were promoted never serve. */
static void take_answer(struct models *m, struct served_model *s, struct live_report *r) {
    const uint32_t bit = 1u << r->device;
    if (r->opened && strcmp(r->opened->info.sha256, s->sha256) != 0) {
        s->changed = true;
        err_set(&r->err, ERR_DATA_LOSS,
                "%.600s has changed since it was served as '%s': its SHA-256 is %.12s…, expected %.12s…; load it again", s->path,
                s->name, r->opened->info.sha256, s->sha256);
        hand_over(m, &s->unload[r->device]);
    } else if (r->opened && !s->opened) {
        s->opened = r->opened;
        r->opened = NULL;
    }
    if (r->err.code) {
        s->devices &= ~bit;
        s->err = r->err;
        log_error("model cannot serve", "model=%s device=%s error=\"%s\"", s->name,
                  m->config.devices ? m->config.devices[r->device] : "", s->err.message);
    }
    s->loading &= ~bit;
}

void models_report(struct models *m, struct live_report *r) {
    struct served_model *s = r->message.kind == LIVE_LOADED ? (struct served_model *)(uintptr_t)models_find(m, r->model) : NULL;
    if (!s || !(s->loading >> r->device & 1))
        return;
    take_answer(m, s, r);
    if (s->loading)
        return;
    if (s->opened) {
        find_missing(m, s->name, true);
        const struct detector_info *info = &s->opened->info;
        log_info("model serves", "model=%s sha256=%.12s precision=%s bf16_difference=%.3g", s->name, info->sha256,
                 dtype_name(info->precision), info->bf16_difference);
        if (*s->opened->note)
            log_warn("model serves with a note", "model=%s note=\"%s\"", s->name, s->opened->note);
    }
    models_done_fn *done = s->done;
    s->done = NULL;
    if (done)
        done(s->ctx, s->opened, s->opened ? NULL : &s->err);
}

/* A file served/NAME.safetensors of an earlier version gets a link that no other model can take. */
static int adopt(struct models *m, const struct served_record *r, struct err *err) {
    struct fetching *f = NULL;
    int rc = new_fetch(m, r->name, r->ref, &f, err);
    if (rc)
        return rc;
    f->adopted = f->named = true;
    f->from = (struct model_ref){.origin = MODEL_SERVED, .places = *m->config.places};
    str_copy(f->from.path, sizeof f->from.path, r->path);
    str_copy(f->device, sizeof f->device, r->device);
    queue_fetch(m, f);
    return 0;
}

static void reload(void *ctx, const struct served_record *r) {
    struct models *m = ctx;
    struct served_model *s = NULL;
    struct err err;
    if (*r->sha256 ? new_row(m, NULL, r, &s, &err) : adopt(m, r, &err))
        cannot_serve(m, r->name, &err);
    else if (s)
        add(m, s);
}

int models_new(const struct models_config *config, struct models **ret, struct err *err) {
    struct models *m = calloc(1, sizeof *m);
    char uploads[LIVE_PATH];
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory for models");
    m->config = *config;
    m->due_end = &m->due;
    if (str_format(uploads, sizeof uploads, "%s/uploads", config->places->results_dir))
        model_fetch_clean(uploads);
    int rc = serveddb_loads(config->db, note_load, m, err);
    rc = rc ? rc : serveddb_load(config->db, reload, m, err);
    return GIVEN(ret, m, models_free, rc);
}

void models_free(struct models *m) {
    if (!m)
        return;
    for (int i = 0; i < m->count; i++)
        served_free(m->served[i]);
    for (int i = 0; i < m->n_loads; i++)
        free(m->loads[i]);
    for (struct message *o = m->due, *next; o; o = next) {
        next = o->next;
        live_order_free((struct live_order *)o);
    }
    free(m);
}
