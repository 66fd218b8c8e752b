#include "daemon/server_open.h"

#include "base/log.h"
#include "base/principal.h"
#include "daemon/devices.h"
#include "daemon/hosts/thread_room.h"
#include "daemon/jobs/jobref.h"
#include "daemon/live/onsets.h"
#include "daemon/live/snapshot.h"
#include "daemon/lost_database.h"
#include "daemon/models/serveddb.h"
#include "daemon/rpc/errands.h"
#include "daemon/server_watch.h"
#include "daemon/versions.h"
#include "daemon/viewer/recordings.h"
#include "store/s3_credentials.h"

enum { MEASURE_MS = 60 * 1000, RPC_END_MS = 3000, STALE_MS = 10 * 60 * 1000 };

/* True if the folders of ended jobs stay for ever. */
static bool keeps_files(const struct config *c) { return c->keep_files_ms < 0 && c->max_files_bytes < 0; }

static void on_job_changed(void *ctx, const struct job *job) {
    struct daemon *d = ctx;
    meters_job_changed(&d->meters, job);
    if (job_is_active(job->state))
        svc_validate_yield(&d->services);
    svc_jobs_changed(&d->services, job);
}

/* The text, which may name recordings, stands in the job's own log alone. */
static void on_job_log(void *ctx, const struct job *job, const char *level, const char *text) {
    struct daemon *d = ctx;
    joblog_append(d->services.joblog, job->directory, level, text);
    if (strcmp(level, "info") != 0)
        log_warn("a job has a warning", "job=%s fix=\"brrctl logs %s\"", job->id, job->id);
}

static void on_caller(void *ctx, const struct auth_caller *caller) { services_enter(ctx, caller); }

static void on_call_begun(void *ctx, const char *path) { meters_call_begun(&daemon_of(ctx)->meters, path); }

static void on_call_ended(void *ctx, const char *path, int code, const char *reason, double seconds) {
    meters_call_ended(&daemon_of(ctx)->meters, path, code, reason, seconds);
}

static void wake_loop(void *ctx) { uv_async_send(ctx); }

void server_seed_models(struct services *s, const struct config *c) {
    for (int i = 0; i < c->n_served; i++) {
        const struct models_request request = {SAME_MEMBERS(c->served[i], name, device), .ref = c->served[i].checkpoint};
        models_seed(s->models, &request);
    }
}

static int open_retention(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    int64_t age_ms = c->keep_finished_ms; /* the files of a job go with its record */
    if (c->keep_files_ms >= 0 && (age_ms < 0 || c->keep_files_ms < age_ms))
        age_ms = c->keep_files_ms;
    if (keeps_files(c))
        age_ms = -1;
    const struct retention_config config = {.loop = &d->loop,
                                            .removal = {SAME_MEMBERS(d->services, sched, db, models)},
                                            .age_ms = age_ms,
                                            .max_bytes = c->max_files_bytes};
    return retention_new(&config, &d->retention, err);
}

/* As the configuration says now; a name that has a record need not be in it. */
static int64_t max_delay_of(void *ctx, const char *name) {
    const struct config *c = daemon_of(ctx)->config;
    for (int i = 0; i < c->n_served; i++)
        if (!strcmp(c->served[i].name, name))
            return c->served[i].max_delay_ms;
    return -1;
}

static int job_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    const struct services *s = ctx;
    struct jobref found;
    int rc = jobref_resolve(s->sched, s->db, ref, &found, err);
    if (!rc && !places_show(&s->places, found.owner))
        rc = err_set(err, ERR_NOT_FOUND, "%s: there is no job of this id that this caller may see; `brrctl jobs` lists them", ref);
    str_copy(ret->path, sizeof ret->path, rc ? "" : found.path);
    str_copy(ret->spare, sizeof ret->spare, rc ? "" : found.spare);
    ret->absent = found.absent;
    return rc;
}

static bool post_order(void *ctx, struct live_order *o) { return stream_places_post(ctx, o); }

static void on_kept(void *ctx, const char *id, const struct err *err) {
    struct daemon *d = ctx;
    sessions_kept(d->services.sessions, id, err);
    server_watch_models(d);
}

/* The folder of this daemon among those of others, which no other daemon may use. */
static int lock_shared(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    char host[256] = "", lock[4096];
    int rc;
    if (!c->session_folder && gethostname(host, sizeof host - 1))
        return err_errno(err, errno, "sessions.name is not set, and the name of the machine is unknown");
    if ((rc =
             fsio_join(d->snapshots, sizeof d->snapshots, c->shared_sessions, c->session_folder ? c->session_folder : host, err)) ||
        (rc = fsio_mkdirs(d->snapshots, err)) || (rc = fsio_join(lock, sizeof lock, d->snapshots, ".lock", err)))
        return rc;
    return fsio_lock(lock, &d->sessions_lock, err) ? err_wrap(err, "sessions.shared: another daemon has this sessions.name") : 0;
}

static int open_snapshot_store(struct daemon *d, struct err *err) {
    const bool shared = d->config->shared_sessions;
    int rc = shared ? lock_shared(d, err) : fsio_join(d->snapshots, sizeof d->snapshots, d->config->results, "sessions", err);
    if (rc || (rc = snapshot_prepare(d->snapshots, err)))
        return rc;
    d->snapshot_store = snapshot_store_new(&d->loop, d->snapshots, shared, on_kept, d);
    return d->snapshot_store ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for streams");
}

struct streamer {
    const struct alarms *alarms;
    const char *bed;
    char principal[RESUME_PRINCIPAL_SIZE];
    bool found;
};

/* Of a bed of the roster, only what its holder streams. */
static bool is_streamer_of(const struct streamer *look, const char *principal, const char *bed) {
    return !strcmp(bed, look->bed) && !alarms_is_anothers(look->alarms, principal, bed);
}

static void look_at_session(void *ctx, const struct session *s) {
    struct streamer *look = ctx;
    struct session_state state;
    session_describe(s, &state);
    if (look->found || !is_streamer_of(look, state.principal, state.client))
        return;
    look->found = true;
    str_copy(look->principal, sizeof look->principal, state.principal);
}

/* desk_config.streamer: of a stream, of an alarm that is remembered, or of the roster. */
static const char *streamer_of(void *ctx, const char *bed) {
    static struct streamer look; /* the loop's */
    const struct daemon *d = ctx;
    struct alarms_cursor cursor = {0};
    look = (struct streamer){.alarms = desk_alarms(d->services.desk), .bed = bed};
    sessions_visit(d->services.sessions, look_at_session, &look);
    if (look.found)
        return look.principal;
    for (const struct alarm *a; (a = alarms_next(look.alarms, &cursor));)
        if (is_streamer_of(&look, a->principal, a->bed))
            return a->principal;
    return alarms_holds(look.alarms, "", bed) ? "" : NULL;
}

/* alarms_plan.named */
static int token_names(void *ctx, const char *principal, const char *bed) {
    const struct daemon *d = ctx;
    return d->access.auth ? auth_names_bed(d->access.auth, principal, bed) : -1;
}

/* Before streams go on from their snapshots, so that their alarms are known. */
static int open_desk(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    struct alarms_plan plan = d->config->escalation;
    plan.rejoin_ms = d->config->rejoin_ms;
    plan.roster = d->config->beds;
    plan.n_roster = d->config->n_beds;
    plan.named = token_names;
    plan.named_ctx = d;
    plan.hold_ms = d->config->resume_ttl_ms;
    const struct desk_config config = {.plan = plan,
                                       .journal = s->journal,
                                       .wake = wake_loop,
                                       .wake_ctx = &d->reports,
                                       .streamer = streamer_of,
                                       .streamer_ctx = d};
    int rc = desk_new(&config, &s->desk, err);
    if (rc)
        return rc;
    desk_restore(s->desk);
    journal_observe(s->journal, desk_note, s->desk);
    return 0;
}

static int open_journal(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    struct services *s = &d->services;
    const struct hooks_config hooks = {.list = c->hooks,
                                       .n = c->n_hooks,
                                       .rejoin_ms = c->rejoin_ms,
                                       .stale_ms = c->resume_ttl_ms + STALE_MS,
                                       .shared = c->shared_sessions,
                                       .page = c->alarms_url,
                                       .metrics = s->metrics,
                                       .wake = wake_loop,
                                       .wake_ctx = &d->reports};
    struct err why;
    int rc = hooks_new(&hooks, &s->hooks, err);
    if (rc)
        return rc;
    for (int i = 0; i < c->n_hooks; i++)
        if (hook_check_roster(&c->hooks[i], c->beds, c->n_beds, &why))
            log_warn("a hook is for no bed of the roster", "error=\"%s\"", why.message);
    const struct journal_config config = {.path = c->journal,
                                          .keep_ms = c->journal_keep_ms,
                                          .max_bytes = c->journal_max_bytes,
                                          .metrics = s->metrics,
                                          .outlet = hooks_outlet(s->hooks),
                                          .wake = wake_loop,
                                          .wake_ctx = &d->reports};
    if ((rc = journal_start(&config, &s->journal, err)) || (rc = hooks_start(s->hooks, s->journal, err)))
        return rc;
    return open_desk(d, err);
}

/* With a size of 0 what is there goes by its age. */
static int open_onsets(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    const struct onsets_config config = {
        .results = c->results, .max_bytes = c->onsets_bytes, .keep_ms = c->journal_keep_ms, .metrics = d->services.metrics};
    char folder[ONSETS_PATH];
    int rc = fsio_join(folder, sizeof folder, c->results, ONSETS_FOLDER, err);
    if (rc || (!c->onsets_bytes && !fsio_is_dir(folder)) || (rc = snapshot_prepare(folder, err)))
        return rc;
    return onsets_start(&config, &d->services.onsets, err);
}

static bool names_file(void *db, const char *below) { return serveddb_names_file(db, below); }

static int open_streams(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct config *c = d->config;
    int rc = open_snapshot_store(d, err);
    if (rc)
        return rc;
    struct models_config models = {.db = s->db,
                                   .writer = sched_writer(s->sched),
                                   .post = post_order,
                                   .post_ctx = &s->streams,
                                   SAME_MEMBERS(*c, devices, n_devices, cache),
                                   .loop = &d->loop,
                                   .places = &s->places,
                                   .job_model = job_model,
                                   .max_delay_ms = max_delay_of,
                                   .ctx = s};
    struct sessions_config sessions = {.post = post_order,
                                       .post_ctx = &s->streams,
                                       .place = devices_place_stream,
                                       .place_ctx = s,
                                       SAME_MEMBERS(*s, metrics, journal, onsets),
                                       .max_sessions = (int)c->max_sessions,
                                       .shared = c->tokens_file != NULL,
                                       .idle_ms = c->session_idle_ms,
                                       SAME_MEMBERS(*c, resume_ttl_ms, patient_memory_ms, lag_ms),
                                       .measure_ms = MEASURE_MS,
                                       .store = snapshot_store_for_sessions(d->snapshot_store),
                                       .alarms = desk_register(s->desk),
                                       .max_waiting_bytes = c->backlog_bytes};
    if (!(s->sessions = sessions_new(&sessions)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for streams");
    if ((rc = models_new(&models, &s->models, err)))
        return rc;
    if (!d->lost_database.code)
        model_file_sweep(c->results, names_file, s->db);
    server_seed_models(s, c);
    snapshot_store_restore(d->snapshot_store, s->sessions, s->metrics, c->resume_ttl_ms);
    return 0;
}

static int refer_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    return models_refer(((const struct services *)ctx)->models, ref, ret, err);
}

/* The files that are read again while the daemon runs. */
static int open_files(struct daemon *d, struct err *err) {
    const struct reload_file configuration = {.path = d->source->path, .max_bytes = CONFIG_MAX_BYTES};
    int rc;
    if ((rc = access_open(&d->access, d->config, d->services.metrics, err)) ||
        (rc = access_start(&d->access, wake_loop, &d->reports, err)) ||
        (rc = reload_new(&configuration, 1, false, &d->configuration, err)))
        return rc;
    return reload_start(d->configuration, wake_loop, &d->reports, err);
}

static int open_status(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct gather_source source = {
        SAME_MEMBERS(*s, version, revision, notice, start_ms, sessions, sched, models, devices, journal, hooks),
        SAME_MEMBERS(*s, desk, metrics),
        .watches = s->device_watches,
        SAME_MEMBERS(*d->config, beds, n_beds),
        .volumes = {{"results", d->config->results, d->results}, {"cache", d->config->cache, sched_cache(s->sched)}},
        .n_volumes = 2,
        .wake = wake_loop,
        .wake_ctx = &d->reports};
    if (!(d->board = status_board_new()))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the status pages");
    int rc = gather_new(&source, d->board, &d->gather, err);
    s->gather = d->gather;
    return rc;
}

static int page_url(struct services *s, const char *path, char *ret, size_t size, struct err *err) {
    return http_page_url(daemon_of(s)->http, path, ret, size, err);
}

/* The key of cookies lies beside the job database. */
static int open_http(struct daemon *d, struct err *err) {
    const char *slash = strrchr(d->config->database, '/');
    char key[4096];
    if (!(d->services.recordings = recordings_new()) || !(d->errands = errands_new(wake_loop, &d->reports)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the pages");
    str_format(key, sizeof key, "%.*spage.key", slash ? (int)(slash + 1 - d->config->database) : 0, d->config->database);
    const struct http_state state = {.ready = &d->services.ready,
                                     .watches = d->services.device_watches,
                                     .n_watches = device_set_count(d->services.devices),
                                     .devices = d->services.devices,
                                     SAME_MEMBERS(d->access, auth, tls),
                                     .metrics = d->services.metrics,
                                     SAME_MEMBERS(*d, board, errands, methods),
                                     SAME_MEMBERS(d->services, desk, recordings),
                                     SAME_MEMBERS(*d->config, journal, database),
                                     .cookie_key = key,
                                     .names = d->config->http_names,
                                     .n_names = d->config->n_http_names,
                                     .open = d->config->http_pages == 1,
                                     .n_methods = d->n_methods};
    d->services.page_url = page_url;
    if (!d->config->http || !http_start(d->config->http, &state, &d->http, err))
        return 0;
    return err_wrap(err, "%.400s: http.listen cannot be used", d->source->path);
}

/* Without tokens a listener on a loopback address trusts every user of this machine. */
static void describe_listeners(const struct daemon *d, struct rpc_config *rpc) {
    const struct config *c = d->config;
    rpc->auth = d->access.auth;
    rpc->listeners =
        (struct listeners_config){SAME_MEMBERS(*c, unix_path, unix_group, unix_mode, tcp), .tls = d->access.tls,
                                  .certificate = c->tls_client_ca != NULL, .tcp_role = c->tokens_file ? ROLE_NONE : ROLE_ADMIN};
}

/* Streams go on without the job database. Another one, which ends with the process, takes its place meanwhile. */
static int open_database(struct daemon *d, struct err *err) {
    char path[4096], text[800];
    int rc;
    if (!lost_database_look(d->config, &d->lost_database)) {
        d->lost_database.code = 0;
        return db_open(d->config->database, &d->database, err);
    }
    log_error("no job runs and none is taken: the job database is lost", "error=\"%s\"",
              err_text(&d->lost_database, text, sizeof text));
    if ((rc = fsio_join(path, sizeof path, d->config->cache, "jobs-lost", err)) || (rc = fsio_remove_tree(path, err)) ||
        (rc = fsio_mkdirs(path, err)) || (rc = fsio_join(path, sizeof path, d->config->cache, "jobs-lost/jobs.sqlite", err)))
        return rc;
    return db_open(path, &d->database, err);
}

static int open_scheduler(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct config *c = d->config;
    s->rules = (struct submission_rules){.places = &s->places,
                                         .refer_model = refer_model,
                                         .ctx = s,
                                         .kept_most = c->max_files_bytes > 0 ? c->max_files_bytes : 0,
                                         .shared = c->tokens_file != NULL};
    devices_fill_rules(s, &s->rules);
    versions_describe(s->libraries, s->n_libraries, d->versions, sizeof d->versions);
    struct sched_config sched = {.db = d->database,
                                 .lost = d->lost_database.code ? &d->lost_database : NULL,
                                 .wake = wake_loop,
                                 .wake_ctx = &d->reports,
                                 .rules = s->rules,
                                 .cache_dir = c->cache,
                                 .keep_finished_ms = keeps_files(c) ? c->keep_finished_ms : -1,
                                 .max_queued = c->max_queued,
                                 .apart = c->jobs_in_processes,
                                 .versions = d->versions,
                                 .changed = on_job_changed,
                                 .logged = on_job_log,
                                 .ctx = d};
    devices_fill_sched(s, &sched);
    int rc;
    if ((rc = serveddb_setup(d->database, err)) || (rc = sched_open(&sched, &s->sched, err)))
        return rc;
    if (d->lost_database.code || db_is_alone(d->database) || jobdb_open_reader(c->database, &s->db, NULL))
        s->db = d->database;
    return 0;
}

static int start_rpc(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    struct rpc_config rpc = {SAME_MEMBERS(*d, methods, n_methods),
                             .limits = {(int)c->max_calls, (int)principal_share(c->max_sessions, c->tokens_file != NULL)},
                             .max_unsent_bytes = (size_t)c->unread_bytes,
                             .ctx = &d->services,
                             .enter = on_caller,
                             .begun = on_call_begun,
                             .observe = on_call_ended};
    describe_listeners(d, &rpc);
    return rpc_server_start(&d->loop, &rpc, &d->rpc, err);
}

/* Whose identity a bucket sees. A store whose credentials are missing is an error of the jobs that use it. */
static void log_credentials(const struct source_store *store) {
    const struct store_config *c = &store->config;
    struct s3_credentials found;
    struct err err = {0};
    if (!str_starts(c->url, "s3://") || c->anonymous)
        return;
    if (s3_credentials_load(c->credentials, &found, &err))
        log_warn("a store has no credentials", "store=%s error=\"%s\"", store->name, err.message);
    else
        log_info("credentials of a store", "store=%s source=\"%s\"", store->name, found.source);
    explicit_bzero(&found, sizeof found);
}

int server_open(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct config *c = d->config;
    int rc = thread_room_check(thread_room_needed(), err);
    if (rc || (rc = paths_open(c, &d->locks, err)))
        return rc;
    for (int i = 0; i < c->n_stores; i++) {
        d->stores[i] = c->stores[i];
        d->stores[i].config.metrics = s->metrics;
        log_credentials(&d->stores[i]);
    }
    COPY_MEMBERS(*s, *c, local_paths, corrections, price_per_hour, validate_ms, currency);
    s->places = (struct places){.data_dir = c->data,
                                .results_dir = c->results,
                                .local_paths = c->local_paths,
                                .stores = d->stores,
                                .n_stores = c->n_stores};
    d->n_methods = services_methods(d->methods, SERVER_MAX_METHODS);
    s->burst.frames.most = OBSERVER_SHARED_BYTES;
    s->wake = wake_loop;
    s->wake_ctx = &d->reports;
    s->source = (struct source_config){.stores = d->stores, .n_stores = c->n_stores, .cache_dir = c->cache};
    if ((rc = object_cache_new(c->cache, c->cache_max, s->metrics, &s->source.objects, err)) ||
        (rc = devices_open(s, c, d->source, err)) || (rc = open_database(d, err)) || (rc = joblog_start(&s->joblog, err)) ||
        (rc = open_scheduler(d, err)) || (rc = open_journal(d, err)) || (rc = open_onsets(d, err)) || (rc = open_streams(d, err)) ||
        (rc = open_retention(d, err)) || (rc = volume_open(c->results, &d->results, err)) || (rc = open_files(d, err)) ||
        (rc = open_status(d, err)) || (rc = open_http(d, err)))
        return rc;
    return start_rpc(d, err);
}

/* SQLite writes the file when it is closed. On a volume that does not answer the database stays open until the process ends; every
 * write that returned is safe there. */
static void close_database(struct db *db) {
    static struct db *volatile left_open; /* keeps it reachable for leak checkers */
    struct err err;
    if (!db || !db_check(db, &err)) {
        db_close(db);
        return;
    }
    left_open = db;
    (void)left_open;
    log_warn("the job database is not closed", "error=\"%s\"", err.message);
}

void server_close(struct daemon *d) {
    desk_stop(d->services.desk);
    errands_stop(d->errands);
    http_stop(d->http);
    errands_free(d->errands);
    recordings_free(d->services.recordings);
    devices_close(&d->services);
    retention_free(d->retention);
    gather_free(d->gather);
    status_board_free(d->board);
    volume_close(d->results);
    sessions_free(d->services.sessions);
    onsets_stop(d->services.onsets);
    hooks_stop(d->services.hooks);
    if (journal_stop(d->services.journal))
        hooks_free(d->services.hooks);
    desk_free(d->services.desk);
    snapshot_store_free(d->snapshot_store);
    sched_close(d->services.sched); /* records of models are written until then */
    models_free(d->services.models);
    if (d->services.db != d->database)
        db_close(d->services.db);
    close_database(d->database);
    joblog_stop(d->services.joblog);
    object_cache_free(d->services.source.objects);
    if (d->rpc) {
        deadline_shorten(&d->deadline, RPC_END_MS); /* its library waits for ever for threads that could not be started */
        rpc_server_free(d->rpc);
    }
    reload_stop(d->configuration);
    access_close(&d->access);
    paths_unlock(&d->locks);
    if (d->sessions_lock >= 0)
        close(d->sessions_lock);
}
