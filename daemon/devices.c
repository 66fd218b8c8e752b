#include "daemon/devices.h"

#include "daemon/versions.h"

enum { WATCH_MS = 10 * 1000 };

/* ---- life ---- */

static void ask_health(void *ctx, struct device_health *ret) { device_hosts_health(ctx, ret); }

static int open_watch(struct services *s, int device, struct err *err) {
    const struct device_watch_config watch = {.device = device_set_name(s->devices, device),
                                              .ask = ask_health,
                                              .ctx = device_set_at(s->devices, device),
                                              SAME_MEMBERS(*s, metrics, wake),
                                              .interval_ms = WATCH_MS,
                                              .wake_ctx = s->wake_ctx};
    return device_watch_start(&watch, &s->device_watches[device], err);
}

/* How the jobs of a device take turns: in memory that their processes share with the daemon, or among threads. */
static int open_turns(struct services *s, int device, const struct config *config, struct err *err) {
    int rc;
    s->jobs.turns[device] = &s->jobs.own_turns[device];
    turns_init(s->jobs.turns[device]);
    if (!config->jobs_in_processes)
        return 0;
    if ((rc = job_page_new(&s->jobs.pages[device].page, s->jobs.pages[device].path, err)))
        return rc;
    s->jobs.turns[device] = &s->jobs.pages[device].page->turns;
    device_share_live(device_hosts_device(device_set_at(s->devices, device)), &s->jobs.pages[device].page->live_batches, true);
    return 0;
}

/* The configuration of the processes of jobs on this place of the device. */
static int open_process(struct services *s, int place, int number, const struct config *config, const struct config_source *source,
                        struct err *err) {
    const int device = s->jobs.devices[place];
    char *cache = s->jobs.processes[place].cache;
    struct device_info info;
    device_hosts_describe(device_set_at(s->devices, device), &info);
    s->jobs.processes[place].config = (struct process_config){.config = source->path,
                                                              .sets = source->overrides,
                                                              .n_sets = source->n_overrides,
                                                              .device = device_set_name(s->devices, device),
                                                              .cache = cache,
                                                              .page = s->jobs.pages[device].path,
                                                              .threads = info.threads};
    if (!str_format(cache, sizeof s->jobs.processes[place].cache, number ? "%s/jobs/%s.%d" : "%s/jobs/%s", config->cache,
                    s->jobs.processes[place].config.device, number + 1))
        return err_set(err, ERR_RANGE, "paths.cache is too long");
    return 0;
}

/* The thread of jobs of the device's place with this number. */
static int open_worker(struct services *s, int device, int number, const struct config *config, const struct config_source *source,
                       struct err *err) {
    struct device_hosts *hosts = device_set_at(s->devices, device);
    const int place = s->jobs.n;
    int rc;
    s->jobs.devices[place] = device;
    if (config->jobs_in_processes && (rc = open_process(s, place, number, config, source, err)))
        return rc;
    const struct worker_config worker = {.executor = config->jobs_in_processes ? &executor_process : &executor_local,
                                         .places.process = &s->jobs.processes[place].config,
                                         .file = config->jobs_in_processes ? &s->jobs.pages[device].page->files[number] : NULL,
                                         .runner = {.version = versions_own(),
                                                    .device = device_hosts_device(hosts),
                                                    .source = s->source,
                                                    .default_wall_clock_ms = config->default_wall_clock_ms,
                                                    SAME_MEMBERS(*config, price_per_hour, currency),
                                                    .memory_limit_bytes = device_hosts_memory_limit(hosts),
                                                    .turn = {s->jobs.turns[device], number},
                                                    .metrics = s->metrics},
                                         SAME_MEMBERS(*s, wake, wake_ctx)};
    if ((rc = worker_start(&worker, &s->jobs.workers[place], err)))
        return rc;
    s->jobs.n++;
    return 0;
}

/* A thread for each job that a cluster may have at a time, and the last one for jobs that are to be cancelled. */
static int open_clusters(struct services *s, const struct config *config, struct err *err) {
    int rc;
    for (int i = 0; i < config->n_clusters; i++)
        for (int64_t k = 0; k <= config->clusters[i].jobs; k++) {
            const struct worker_config worker = {
                .executor = &executor_slurm, .places.cluster = &config->clusters[i], .wake = s->wake, .wake_ctx = s->wake_ctx};
            if ((rc = worker_start(&worker, &s->jobs.workers[s->jobs.n], err)))
                return rc;
            s->jobs.is_for_cancel[s->jobs.n] = k == config->clusters[i].jobs;
            s->jobs.devices[s->jobs.n] = DEVICE_ANY;
            s->jobs.clusters[s->jobs.n++] = &config->clusters[i];
        }
    return 0;
}

int devices_open(struct services *s, const struct config *config, const struct config_source *source, struct err *err) {
    const struct device_set_config set = {.names = config->devices,
                                          .n = config->n_devices,
                                          .threads = (int)config->cpu_threads,
                                          .jobs_in_processes = config->jobs_in_processes,
                                          .hosts = {.memory_limit_bytes = config->memory_bytes,
                                                    .rows = {[HOST_LIVE] = live_host_row(&s->live_hosts),
                                                             [HOST_REPLAYS] = live_host_replays_row(&s->live_hosts),
                                                             [HOST_NETWORKS] = network_host_row(&s->network_hosts)},
                                                    SAME_MEMBERS(*s, metrics, wake, wake_ctx)}};
    struct device_info info;
    int rc;
    s->live_hosts.precision = config->serve_precision == SERVE_BF16 ? DTYPE_BF16 : DTYPE_F32;
    s->live_hosts.automatic = config->serve_precision == SERVE_AUTO;
    s->live_hosts.viewer = (struct eegring_limits){.samples = config->viewer_minutes * 60 * FRONTEND_RATE_HZ,
                                                   .max_bytes = config->viewer_bytes,
                                                   .shared = config->tokens_file != NULL};
    s->network_hosts = (struct network_host_config){(int)config->max_networks, config->networks_bytes, config->tokens_file != NULL};
    if ((rc = device_set_start(&set, &s->devices, err)))
        return rc;
    s->streams.set = s->devices;
    s->burst.devices = s->devices;
    s->burst.most = (int)config->max_networks;
    s->burst.shared = config->tokens_file != NULL;
    s->burst.network_bytes = config->network_bytes;
    COPY_MEMBERS(s->burst, *s, wake, wake_ctx);
    if ((rc = burst_service_open(&s->burst, err)))
        return rc;
    s->place_stream = devices_place_stream;
    for (int i = 0; i < config->n_devices; i++) {
        device_hosts_describe(device_set_at(s->devices, i), &info);
        str_format(s->jobs.described[i], sizeof s->jobs.described[i], "%s: %s", info.name, info.description);
        if ((rc = open_turns(s, i, config, err)) || (rc = open_watch(s, i, err)))
            return rc;
    }
    for (int number = 0; number < config->device_jobs; number++)
        for (int i = 0; i < config->n_devices; i++)
            if ((rc = open_worker(s, i, number, config, source, err)))
                return rc;
    return open_clusters(s, config, err);
}

void devices_close(struct services *s) {
    for (int i = 0; i < DEVICE_SET_MAX; i++)
        device_watch_stop(s->device_watches[i]);
    for (int i = 0; i < SLOTS_MAX; i++)
        worker_stop(s->jobs.workers[i]);
    burst_service_end_orders(&s->burst);
    device_set_stop(s->devices);
    burst_service_close(&s->burst);
}

/* ---- jobs ---- */

static int find_device(void *ctx, const char *name, struct err *err) {
    int device;
    return device_set_find(((const struct services *)ctx)->devices, name, &device, err);
}

static int find_executor(void *ctx, const char *name, struct err *err) {
    const struct services *s = ctx;
    for (int i = 0; i < s->jobs.n; i++)
        if (s->jobs.clusters[i] && !strcmp(s->jobs.clusters[i]->name, name))
            return 0;
    return err_set(err, ERR_NOT_FOUND, "executor: '%.60s' is no entry of executors in daemon.yaml", name);
}

/* What a cluster's devices are and cost, it knows itself. */
static int check_job(void *ctx, const struct jobfile *job, struct err *err) {
    const struct services *s = ctx;
    struct device_info info;
    int device = DEVICE_ANY, rc = 0;
    if (job->executor)
        return task_check(job, NULL, (int)job->resources.ranks, err);
    if (job->limits.cost > 0 && !(s->price_per_hour > 0))
        return runner_price_unknown(err);
    device_set_find(s->devices, job->device ? job->device : "", &device, NULL);
    for (int i = 0; i < device_set_count(s->devices); i++) {
        if (device != DEVICE_ANY && device != i)
            continue;
        device_hosts_describe(device_set_at(s->devices, i), &info);
        if (!(rc = task_check(job, &info, (int)job->devices, err)))
            return 0;
    }
    return rc;
}

/* Alone, or with the other jobs of its array. */
static int run_in_cluster(const struct services *s, int place, const struct job *job, struct err *err) {
    const struct job *members[JOBFILE_MAX_ARRAY], *head = NULL;
    const char *directories[JOBFILE_MAX_ARRAY];
    const int n = sched_array(s->sched, job, members, &head);
    if (!n)
        return worker_run(s->jobs.workers[place], job, err);
    for (int i = 0; i < n; i++)
        directories[i] = members[i] ? members[i]->directory : NULL;
    const struct runner_array array = {head->id, head->directory, job->array.index, n, directories};
    return worker_run_array(s->jobs.workers[place], job, &array, err);
}

/* The job has its first place, and others if it wants several devices. */
static int run_job(void *ctx, int place, const struct job *job, struct err *err) {
    struct services *s = ctx;
    struct worker *team[DEVICE_SET_MAX] = {s->jobs.workers[place]};
    int n = 1, rc;
    if (s->jobs.clusters[place])
        return run_in_cluster(s, place, job, err);
    for (int i = 0; i < s->jobs.n; i++) {
        if (sched_on(s->sched, i) != job)
            continue;
        device_set_reserve(s->devices, s->jobs.devices[i], job->memory_bytes);
        if (i != place)
            team[n++] = s->jobs.workers[i];
    }
    if (!(rc = worker_run_shared(team, n, job, err)))
        return 0;
    for (int i = 0; i < s->jobs.n; i++)
        if (sched_on(s->sched, i) == job)
            device_set_release(s->devices, s->jobs.devices[i], job->memory_bytes);
    return rc;
}

static void interrupt_job(void *ctx, int place, enum stop_reason why) {
    worker_interrupt(((const struct services *)ctx)->jobs.workers[place], why);
}

static void job_ended(void *ctx, int place) {
    const struct services *s = ctx;
    if (!s->jobs.clusters[place])
        device_set_release(s->devices, s->jobs.devices[place], sched_on(s->sched, place)->memory_bytes);
}

static void room_for_job(void *ctx, int device, int64_t *ret_limit, int64_t *ret_free) {
    struct device_room room;
    device_set_room(((const struct services *)ctx)->devices, device, &room);
    *ret_limit = room.limit_bytes;
    *ret_free = room.limit_bytes - room.used_bytes - room.reserved_bytes;
}

void devices_fill_sched(struct services *s, struct sched_config *sched) {
    sched->worker = s;
    sched->run = run_job;
    sched->interrupt = interrupt_job;
    sched->ended = job_ended;
    sched->room = room_for_job;
    sched->n_places = s->jobs.n;
    for (int i = 0; i < s->jobs.n; i++) {
        const int device = s->jobs.devices[i];
        sched->places[i].remote = s->jobs.clusters[i] != NULL;
        sched->places[i].for_cancel = s->jobs.is_for_cancel[i];
        sched->places[i].name = s->jobs.clusters[i] ? s->jobs.clusters[i]->name : device_set_name(s->devices, device);
        sched->places[i].description = s->jobs.clusters[i] ? s->jobs.clusters[i]->name : s->jobs.described[device];
        sched->places[i].further = device != DEVICE_ANY && i != device;
        sched->places[i].device = device;
    }
}

static int most_of_one_kind(const struct device_set *devices) {
    const int n = device_set_count(devices);
    int most = 0;
    for (int i = 0; i < n; i++) {
        int same = 0;
        for (int k = 0; k < n; k++)
            same += slots_same_kind(device_set_name(devices, i), device_set_name(devices, k));
        most = same > most ? same : most;
    }
    return most;
}

void devices_fill_rules(struct services *s, struct submission_rules *rules) {
    struct device_info info;
    rules->find_device = find_device;
    rules->find_executor = find_executor;
    rules->check = check_job;
    rules->n_devices = most_of_one_kind(s->devices);
    if (s->jobs.n < 2 || s->jobs.devices[1] == DEVICE_ANY) /* the only place: nothing to choose */
        return;
    device_hosts_describe(device_set_at(s->devices, 0), &info);
    rules->estimate_device = device_set_name(s->devices, 0);
    rules->estimate_threads = info.threads;
}

const char *devices_jobs(const struct services *s, int device, char buf[DEVICES_JOBS_TEXT]) {
    struct str text = str_of(DEVICES_JOBS_TEXT - 1);
    for (int i = 0; i < s->jobs.n; i++)
        if (s->jobs.devices[i] == device && sched_on(s->sched, i))
            str_printf(&text, "%s%s", text.len ? "," : "", sched_on(s->sched, i)->id);
    str_copy(buf, DEVICES_JOBS_TEXT, text.len ? str_cstr(&text) : "none");
    str_done(&text);
    return buf;
}

/* ---- streams ---- */

int devices_place_stream(void *ctx, const char *wanted, const char *model, int *ret, struct err *err) {
    const struct services *s = ctx;
    const struct served_model *served = s->models ? models_find(s->models, model) : NULL;
    uint32_t devices = served ? served->devices : 0;
    int rc = stream_places_choose(&s->streams, wanted, devices, ret, err);
    if (rc != ERR_INVALID)
        return rc;
    return err_set(err, ERR_INVALID, "model '%s' does not serve on device %s; `brrctl models` shows where it does", model, wanted);
}

/* ---- metrics ---- */

static void put(struct services *s, const char *family, int device, const char *use, double value) {
    char labels[64];
    str_format(labels, sizeof labels, *use ? "%s\x1f%s" : "%s%s", device_set_name(s->devices, device), use);
    metric_set(metrics_series(s->metrics, family, labels), value);
}

static void put_more(struct services *s, const char *family, int device, double value) {
    struct metric *series = metrics_series(s->metrics, family, device_set_name(s->devices, device));
    metric_add(series, value);
}

static void count_turns(struct services *s, int device) {
    int64_t turns = 0, waited_ms = 0;
    turns_take_counts(s->jobs.turns[device], &turns, &waited_ms);
    put_more(s, "brrd_device_turns_total", device, (double)turns);
    put_more(s, "brrd_device_turn_wait_seconds_total", device, (double)waited_ms / 1000);
}

void devices_measure(struct services *s) {
    for (int i = 0; i < device_set_count(s->devices); i++) {
        struct device_room room;
        device_set_room(s->devices, i, &room);
        put(s, "brrd_device_ready", i, "", device_watch_fault(s->device_watches[i]) == NULL);
        put(s, "brrd_device_jobs", i, "", sched_jobs_on(s->sched, i));
        count_turns(s, i);
        put(s, "brrd_device_streams", i, "", s->streams.streams[i]);
        put(s, "brrd_device_memory_bytes", i, "limit", (double)room.limit_bytes);
        put(s, "brrd_device_memory_bytes", i, "used", (double)room.used_bytes);
        put(s, "brrd_device_memory_bytes", i, "reserved", (double)room.reserved_bytes);
    }
}
