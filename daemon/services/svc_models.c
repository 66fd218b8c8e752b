/* brr.v1.Models: which models serve and what they are. */

#include "brr/v1/checkpoints.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

static void describe_alarms(const struct alarm_sets *alarms, struct arena *arena, Brr__V1__ModelDescription *m) {
    m->alarm_rates = arena_alloc(arena, ALARM_RATES * sizeof *m->alarm_rates);
    m->alarm_false_high = arena_alloc(arena, ALARM_RATES * sizeof *m->alarm_false_high);
    for (int i = 0; i < alarms->n && m->alarm_rates && m->alarm_false_high; i++) {
        m->alarm_rates[m->n_alarm_rates++] = alarms->sets[i].rate;
        m->alarm_false_high[m->n_alarm_false_high++] = alarms->sets[i].false_alarms_high;
        m->alarm_hours = alarms->sets[i].hours;
    }
}

/* The description in a model file. */
static Brr__V1__ModelDescription *describe(struct arena *arena, const char *name, const char *path, const struct modelfile *file) {
    Brr__V1__ModelDescription *m = arena_alloc(arena, sizeof *m);
    const char *const *labels = NULL;
    int n = 0;
    if (!m)
        return NULL;
    brr__v1__model_description__init(m);
    m->name = arena_strdup(arena, name);
    m->checkpoint = arena_strdup(arena, path);
    m->type = (char *)(uintptr_t)seizure_type_name(file->model.type);
    m->preset = (char *)(uintptr_t)seizure_preset_name(&file->model);
    if (!seizure_is_feature(file->model.type))
        m->mixer = file->model.mixer == SEIZURE_MIXER_CONV ? "conv" : "mamba2";
    m->parameters = seizure_parameter_count(&file->model);
    m->montage = arena_strdup(arena, file->montage);
    m->rate_hz = FRONTEND_RATE_HZ;
    m->window_s = (double)modelfile_window(file) / FRONTEND_RATE_HZ;
    m->hop_s = (double)modelfile_hop(file) / FRONTEND_RATE_HZ;
    m->threshold_on = file->events.on;
    m->threshold_off = file->events.off;
    m->step = file->step;
    m->card = arena_strdup(arena, file->card);
    describe_alarms(&file->alarms, arena, m);
    if (!montage_channels(file->montage, &labels, &n, NULL) && (m->channels = arena_alloc(arena, (size_t)n * sizeof *m->channels)))
        for (int i = 0; i < n; i++)
            if ((m->channels[m->n_channels] = arena_strdup(arena, labels[i])))
                m->n_channels++;
    montage_channels_free(labels);
    m->most_missing = frontend_is_feature(file->frontend.normalize) ? n - 1 : (int32_t)file->most_missing;
    return m->name && m->checkpoint && m->montage && m->card ? m : NULL;
}

/* The loads of the description's name; false without memory. */
static bool put_loads(struct rpc_call *call, Brr__V1__ModelDescription *m) {
    const struct served_load *loads[SERVEDDB_LOADS];
    struct arena *arena = rpc_arena(call);
    const int n = models_loads(services_of(call)->models, m->name, loads);
    if (!(m->loads = arena_alloc(arena, SERVEDDB_LOADS * sizeof *m->loads)))
        return false;
    for (; (int)m->n_loads < n; m->n_loads++) {
        const struct served_load *load = loads[m->n_loads];
        Brr__V1__ModelLoad *out = m->loads[m->n_loads] = arena_alloc(arena, sizeof *out);
        if (!out)
            return false;
        brr__v1__model_load__init(out);
        out->time_ms = load->time_ms;
        out->ref = arena_strdup(arena, load->ref);
        out->sha256 = arena_strdup(arena, load->sha256);
        out->principal = arena_strdup(arena, auth_sees(rpc_caller(call), load->principal) ? load->principal : "");
        if (!out->ref || !out->sha256 || !out->principal)
            return false;
    }
    return true;
}

static void put_test(const struct job *job, struct json_writer *w) {
    static const char *const figures[] = {"recordings", "hours", "event_f1", "event_sensitivity", "false_alarms_per_24h", "auroc"};
    OWNED_POINTER(json_free) struct json *result = NULL;
    if (json_parse(job->result, strlen(job->result), "result", &result, NULL))
        return;
    json_begin_object(w, NULL);
    json_put_str(w, "job", job->id);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_put_f64(w, figures[i], json_f64(json_get(result, figures[i]), NAN));
    json_put_i64(w, "seen_patients", json_i64(json_get(result, "seen_patients"), -1));
    json_end(w, '}');
}

/* The evaluations of this file among the jobs that are listed, the newest first. */
static char *tests_of(struct rpc_call *call, const char *sha256) {
    enum { MOST = 10, BYTES = 64 << 10 };
    const struct sched *sched = services_of(call)->sched;
    OWNED(str_done) struct str text = str_of(BYTES);
    struct json_writer w = json_to(&text);
    int n = 0;
    json_begin_array(&w, NULL);
    for (int i = sched_count(sched) - 1; i >= 0 && n < MOST; i--) {
        const struct job *job = sched_at(sched, i);
        if (job->result && !strcmp(job->kind, "evaluate") && strstr(job->result, sha256)) {
            put_test(job, &w);
            n++;
        }
    }
    json_end(&w, ']');
    return arena_strdup(rpc_arena(call), str_cstr(&text));
}

static Brr__V1__ModelDescription *describe_served(struct rpc_call *call, const struct served_model *s) {
    struct arena *arena = rpc_arena(call);
    if (!s->opened) { /* loads, or could not be loaded */
        Brr__V1__ModelDescription *m = arena_alloc(arena, sizeof *m);
        if (m) {
            brr__v1__model_description__init(m);
            m->name = arena_strdup(arena, s->name);
            m->checkpoint = arena_strdup(arena, s->path);
            m->ref = arena_strdup(arena, s->ref);
        }
        return m && m->name && m->checkpoint && m->ref && put_loads(call, m) ? m : NULL;
    }
    const struct detector_info *info = &s->opened->info;
    Brr__V1__ModelDescription *m = describe(arena, s->name, s->path, &info->file);
    if (!m)
        return NULL;
    m->sha256 = arena_strdup(arena, info->sha256);
    m->device = device_set_names(services_of(call)->devices, s->devices, arena);
    m->memory_bytes = info->memory_bytes;
    m->precision = (char *)(uintptr_t)dtype_name(info->precision);
    m->bf16_difference = info->bf16_difference;
    m->tests = tests_of(call, info->sha256);
    m->ref = arena_strdup(arena, s->ref);
    m->sessions = sessions_of_model(services_of(call)->sessions, s->name);
    return m->sha256 && m->device && m->tests && m->ref && put_loads(call, m) ? m : NULL;
}

/* NULL: there was no memory for the description. */
static int answer(struct rpc_call *call, const Brr__V1__ModelDescription *m, struct err *err) {
    return m ? convert_answer(call, &m->base) : err_set(err, ERR_EXHAUSTED, "out of memory describing a model");
}

static int list(struct rpc_call *call, const void *message, struct err *err) {
    (void)message;
    struct models *models = services_of(call)->models;
    Brr__V1__ModelDescription *items[MODELS_MAX];
    Brr__V1__ListModelsResponse out = BRR__V1__LIST_MODELS_RESPONSE__INIT;
    out.models = items;
    for (; (int)out.n_models < models_count(models); out.n_models++)
        if (!(items[out.n_models] = describe_served(call, models_at(models, (int)out.n_models))))
            return answer(call, NULL, err);
    return convert_answer(call, &out.base);
}

/* A model that does not serve: its file is read on libuv's thread pool. */
struct description {
    struct offload work;
    const char *name;       /* in the request */
    char served[LIVE_PATH]; /* the reference that the name serves, while it loads */
    struct model_ref ref;
    struct model_file found;
    struct modelfile file;
};

static void read_model(struct offload *work) {
    struct description *d = (struct description *)work;
    if (!model_resolve(&d->ref, NULL, &d->found, &work->err))
        modelfile_read(d->found.path, &d->file, &work->err);
}

static void answer_description(struct offload *work) {
    struct description *d = (struct description *)work;
    if (!offload_good(work))
        return;
    struct arena *arena = rpc_arena(work->call);
    Brr__V1__ModelDescription *m = describe(arena, d->name, d->found.path, &d->file);
    if (m && (!(m->ref = arena_strdup(arena, d->served)) || !put_loads(work->call, m)))
        m = NULL;
    offload_answer(work, m, "a model");
}

static int describe_one(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__DescribeModelRequest *in = message;
    struct model_ref ref;
    const struct served_model *served = models_find(services_of(call)->models, in->name);
    if (served && served->opened)
        return answer(call, describe_served(call, served), err);
    int rc = models_refer(services_of(call)->models, in->name, &ref, err);
    if (rc)
        return rc;
    struct description *d = offload_new(call, OFFLOAD_FILES, sizeof *d, NULL, err);
    if (!d)
        return err->code;
    d->name = in->name;
    str_copy(d->served, sizeof d->served, served ? served->ref : "");
    d->ref = ref;
    offload_start(&d->work, read_model, answer_description);
    return 0;
}

static void on_loaded(void *ctx, const struct live_opened *opened, const struct err *err) {
    struct rpc_call *call = ctx;
    const char *name = rpc_state(call);
    const struct served_model *served = name ? models_find(services_of(call)->models, name) : NULL;
    struct err why = err ? *err : (struct err){0};
    if (!why.code && !(opened && served))
        err_set(&why, ERR_UNAVAILABLE, "model '%s' was unloaded while it was loading; load it again", name ? name : "");
    if (why.code || answer(call, describe_served(call, served), &why))
        rpc_finish(call, &why);
}

/* A served name from a REF: "job:train-1@best" → "train-1-best", "upload:net" or "/a/b/net.safetensors" → "net". */
static char *name_of_ref(struct arena *arena, const char *ref) {
    const char *slash = strrchr(ref, '/');
    size_t class = str_starts(ref, "job:") || str_starts(ref, "upload:") ? strcspn(ref, ":") + 1 : 0;
    char *name = arena_strdup(arena, slash ? slash + 1 : ref + class);
    if (!name)
        return NULL;
    if (slash && str_ends(name, ".safetensors"))
        name[strlen(name) - strlen(".safetensors")] = '\0';
    for (char *p = name; *p; p++)
        if (*p == '@')
            *p = '-';
    return name;
}

int svc_models_load(struct rpc_call *call, const struct models_request *request, struct err *err) {
    struct models_request own = *request;
    char *name = *own.name ? arena_strdup(rpc_arena(call), own.name) : name_of_ref(rpc_arena(call), own.ref);
    if (!name)
        return err_set(err, ERR_EXHAUSTED, "out of memory loading a model");
    own.name = name;
    own.principal = rpc_caller(call)->name;
    rpc_set_state(call, name);
    return models_serve(services_of(call)->models, &own, on_loaded, call, err);
}

void svc_models_load_end(struct rpc_call *call) { models_forget(services_of(call)->models, call); }

static int load(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__LoadModelRequest *in = message;
    if (in->previous && *in->ref)
        return err_set(err, ERR_INVALID, "a load has a ref or is that of the previous one, not both");
    return svc_models_load(call, &(struct models_request){SAME_MEMBERS(*in, name, ref, device, previous)}, err);
}

struct unloading {
    struct offload work;
    Brr__V1__ModelDescription *message; /* the model as it was, in the call's arena */
};

static void unloaded(struct offload *work) { offload_answer(work, ((struct unloading *)work)->message, "a model"); }

static int unload_now(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__UnloadModelRequest *in = message;
    const struct served_model *served = models_find(services_of(call)->models, in->name);
    struct unloading *u = offload_new(call, OFFLOAD_RECORD, sizeof *u, NULL, err);
    if (!u)
        return err->code;
    u->message = served ? describe_served(call, served) : NULL;
    int rc = models_unserve(services_of(call)->models, in->name, err);
    if (rc)
        return rc;
    offload_recorded(&u->work, services_of(call)->sched, unloaded);
    return 0;
}

static int unload(struct rpc_call *call, const void *message, struct err *err) {
    return offload_record(call, message, unload_now, err);
}

const struct rpc_method svc_models[] = {
    {RPC_METHOD("/brr.v1.Models/List", ROLE_READ, brr__v1__list_models_request, list),
     RPC_ROUTE("/api/v1/models", brr__v1__list_models_response)},
    {RPC_METHOD("/brr.v1.Models/Load", ROLE_ADMIN, brr__v1__load_model_request, load), .end = svc_models_load_end},
    {RPC_METHOD("/brr.v1.Models/Unload", ROLE_ADMIN, brr__v1__unload_model_request, unload), .end = offload_end},
    {RPC_METHOD("/brr.v1.Models/Describe", ROLE_READ, brr__v1__describe_model_request, describe_one), .end = offload_end},
    {.path = NULL},
};
