#include "daemon/config.h"

#include "daemon/config_alarms.h"
#include "daemon/config_executors.h"
#include "daemon/config_hooks.h"
#include "kernels/device.h"
#include "store/store_options.h"

struct raw {
    struct config c;
    const struct yaml_node *stores, *serve, *hooks, *executors, *escalation, *beds;
    struct option_list devices, http_names;
    const char *memory, *networks_memory, *unix_mode;
    int64_t message_control, message_data;
};

#define C(field) offsetof(struct raw, c.field)
#define R(field) offsetof(struct raw, field)

static const struct option rows[] = {
    {"listen.unix", OPTION_STRING, C(unix_path), "/run/brrd/brrd.sock", 0, 0, NULL, "local RPC socket; none = off"},
    {"listen.unix_group", OPTION_STRING, C(unix_group), "null", 0, 0, NULL,
     "members of this group have the role submit on the unix socket; the daemon's own user and root have the role admin"},
    {"listen.unix_mode", OPTION_STRING, R(unix_mode), "null", 0, 0, NULL,
     "octal mode of the socket; default 0600, with a group 0660"},
    {"listen.tcp", OPTION_STRING, C(tcp), "none", 0, 0, NULL,
     "host:port; addresses other than loopback need tls.cert, tls.key and auth.tokens_file"},
    {"tls.cert", OPTION_STRING, C(tls_cert), "null", 0, 0, NULL, "PEM file: the daemon's certificate and its chain"},
    {"tls.key", OPTION_STRING, C(tls_key), "null", 0, 0, NULL, "PEM file: the private key of tls.cert"},
    {"tls.client_ca", OPTION_STRING, C(tls_client_ca), "null", 0, 0, NULL,
     "PEM file: callers of listen.tcp need a certificate of one of these CAs in addition to a token"},
    {"auth.tokens_file", OPTION_STRING, C(tokens_file), "null", 0, 0, NULL,
     "lines `role name sha256-of-token`; reloaded when the file changes"},
    {"http.listen", OPTION_STRING, C(http), "127.0.0.1:9464", 0, 0, NULL,
     "/metrics /healthz /readyz and the status page; none = off"},
    {"http.names", OPTION_STRINGS, R(http_names), "[]", 0, 0, NULL,
     "names by which browsers may ask for the pages, beside addresses, localhost and the machine's name"},
    {"http.pages", OPTION_ENUM, C(http_pages), "link", 0, 0, "link|open",
     "without auth.tokens_file: pages open by a link of `brrctl page`, or to everybody who reaches http.listen"},
    {"devices", OPTION_STRINGS, R(devices), "[auto]", 0, 0, NULL,
     "auto (cuda:0, else cpu), or a list of cpu, cuda:N and cpu:N; cpu:0, cpu:1, … share threads and memory evenly"},
    {"devices_price_per_hour", OPTION_F64, C(price_per_hour), "0", 0, 1e6, NULL,
     "what an hour of a device costs, for estimates, `brrctl usage` and limits.cost of jobs; 0 = not known"},
    {"devices_currency", OPTION_STRING, C(currency), "EUR", 0, 0, NULL, "of devices_price_per_hour"},
    {"devices_cpu_threads", OPTION_I64, C(cpu_threads), "0", 0, 1024, NULL, "threads of all CPU devices together; 0 = all"},
    {"paths.data", OPTION_STRING, C(data), "/data", 0, 0, NULL, "read-only recordings"},
    {"paths.cache", OPTION_STRING, C(cache), "/cache", 0, 0, NULL, "cache volume"},
    {"paths.results", OPTION_STRING, C(results), "/results", 0, 0, NULL, "job output and checkpoints"},
    {"cache.max_size", OPTION_BYTES, C(cache_max), "none", 1, 0, NULL,
     "size limit for cached objects of stores and windows of recordings, the least recently used are evicted first; none = four "
     "fifths of the volume"},
    {"stores", OPTION_NODE, R(stores), "null", 0, 0, NULL,
     "NAME: {url: file:///dir or s3://bucket/prefix, …} for store://NAME/prefix; docs/stores.md"},
    {"local_paths", OPTION_BOOL, C(local_paths), "false", 0, 0, NULL,
     "the daemon's own user and root may name any path it can read, over the unix socket"},
    {"jobs.database", OPTION_STRING, C(database), "null", 0, 0, NULL, "SQLite file; default paths.results/jobs.sqlite"},
    {"jobs.max_queued", OPTION_I64, C(max_queued), "1000", 1, 100000, NULL, "maximum number of queued jobs"},
    {"jobs.default_wall_clock", OPTION_DURATION, C(default_wall_clock_ms), "none", 1000, 0, NULL,
     "limits.wall_clock of jobs that do not set it"},
    {"jobs.stop_wait", OPTION_DURATION, C(stop_wait_ms), "100s", 1000, 0, NULL,
     "how long a stop of the daemon waits for the running job; a job that still waits for a file then is left to the next start"},
    {"jobs.keep_finished", OPTION_DURATION, C(keep_finished_ms), "90d", 1000, 0, NULL,
     "how long ended jobs are listed; their files stay unless jobs.keep_files or jobs.max_size is set; none = forever"},
    {"jobs.keep_files", OPTION_DURATION, C(keep_files_ms), "none", 1000, 0, NULL,
     "how long the folders of ended jobs are kept; older jobs are deleted, as by `brrctl delete`; none = forever"},
    {"jobs.max_size", OPTION_BYTES, C(max_files_bytes), "none", 1, 0, NULL,
     "limit for the folders of ended jobs; above it the oldest jobs are deleted; none = no limit"},
    {"executors", OPTION_NODE, R(executors), "null", 0, 0, NULL,
     "NAME: {kind: slurm, partition, template, config, jobs}: clusters that run the jobs whose file says executor: NAME; local: "
     "{kind: process}: jobs of this machine run in processes of their own; docs/scaling.md"},
    {"journal.file", OPTION_STRING, C(journal), "null", 0, 0, NULL,
     "SQLite file of what happened to each stream: alarms, events, gaps, quality, connections; default "
     "paths.results/journal.sqlite"},
    {"journal.retention.age", OPTION_DURATION, C(journal_keep_ms), "365d", 1000, 0, NULL,
     "how long entries of the journal are kept; none = forever"},
    {"journal.retention.size", OPTION_BYTES, C(journal_max_bytes), "1GiB", 1 << 20, 0, NULL,
     "limit for the journal; above it the oldest entries are deleted; none = no limit"},
    {"journal.onsets", OPTION_BYTES, C(onsets_bytes), "0", 0, 1e15, NULL,
     "EEG of the minute before and after each alarm's onset is kept in files, of this size in all, as long as the journal's "
     "entries; "
     "0 = none is written; docs/alarms.md"},
    {"serve", OPTION_NODE, R(serve), "null", 0, 0, NULL,
     "list of {name, checkpoint, device}, checkpoint as `brrctl load` takes it: job:ID, upload:NAME, line_length, a file, "
     "store://NAME/KEY; served under names that never had a model; a name keeps what was promoted later, and stays unloaded"},
    {"serve_precision", OPTION_ENUM, C(serve_precision), "fp32", 0, 0, "fp32|bf16|auto",
     "of all models of streams; bf16: a model whose logits differ more from fp32 than its file allows is refused; auto: bf16 on a "
     "GPU, but fp32 for such a model"},
    {"alarms.rejoin", OPTION_DURATION, C(rejoin_ms), "60s", 0, 3600 * 1000, NULL,
     "an alarm of a bed that begins so soon after the one before ended is the same alarm: people are told of its end only when it "
     "did not go on"},
    {"alarms.url", OPTION_STRING, C(alarms_url), "null", 0, 0, NULL,
     "address of the pages as people reach them, such as https://eeg.example:8443, for the links that hooks get"},
    {"alarms.hooks", OPTION_NODE, R(hooks), "null", 0, 0, NULL,
     "list of {name, command: [words…]} or {name, url, secret_file}: whom to tell about alarms; docs/operations.md"},
    {"alarms.escalation", OPTION_NODE, R(escalation), "null", 0, 0, NULL,
     "list of {after, hooks: [names]}: hooks that are told when nobody has acknowledged an alarm for so long, and of nothing else; "
     "the last step is repeated; docs/alarms.md"},
    {"alarms.repeat", OPTION_DURATION, C(escalation.repeat_ms), "5m", 1000, 0, NULL, "between repeats of the last step"},
    {"beds", OPTION_NODE, R(beds), "null", 0, 0, NULL,
     "list of names of beds, or of {name, alarms: off} or {name, least: 10s} (docs/alarms.md): the roster and the order of the "
     "tiles on "
     "the pages; a bed without a stream is shown as not connected"},
    {"viewer.minutes", OPTION_I64, C(viewer_minutes), "2", 0, 60, NULL,
     "EEG of each stream that is kept in memory for its page, and the minute of each of its newest alarms; 0 = none"},
    {"viewer.memory", OPTION_BYTES, C(viewer_bytes), "1GiB", 1 << 20, 1e15, NULL,
     "limit for that EEG, over all streams; above it the streams that are opened last keep none"},
    {"viewer.corrections", OPTION_STRING, C(corrections), "null", 0, 0, NULL,
     "folder for the answers of readers about recordings, which is a data source; default paths.results/corrections"},
    {"sessions.shared", OPTION_STRING, C(shared_sessions), "null", 0, 0, NULL,
     "folder that several daemons share for snapshots of streams, so that a stream goes on at another daemon; default: "
     "paths.results/sessions, which belongs to one daemon"},
    {"sessions.name", OPTION_STRING, C(session_folder), "null", 0, 0, NULL,
     "the folder of this daemon in sessions.shared; default: the name of the machine"},
    {"limits.sessions", OPTION_I64, C(max_sessions), "1000", 1, 10000, NULL,
     "maximum number of open streams; docs/operations.md says what one costs"},
    {"limits.session_idle", OPTION_DURATION, C(session_idle_ms), "5m", 1000, 0, NULL,
     "a stream ends when its client sends or reads nothing for this long; none = never"},
    {"limits.calls", OPTION_I64, C(max_calls), "2000", 8, 100000, NULL,
     "maximum number of open calls, including streams and watches"},
    {"limits.validate", OPTION_DURATION, C(validate_ms), "10m", 1000, 0, NULL,
     "how long a job's files are looked at before it is queued; none = as long as it takes"},
    {"limits.unread", OPTION_BYTES, C(unread_bytes), "512MiB", 1 << 20, 0, NULL,
     "limit for answers that clients have not read, over all calls; above it the call that holds most is ended"},
    {"limits.backlog", OPTION_BYTES, C(backlog_bytes), "1GiB", 1 << 20, 0, NULL,
     "limit for samples waiting for the device, over all streams; above it streams are read more slowly"},
    {"limits.resume_ttl", OPTION_DURATION, C(resume_ttl_ms), "120s", 1000, 3600 * 1000, NULL,
     "how long a resumable stream waits for its client after a cut, and after a restart of the daemon"},
    {"limits.patient_memory", OPTION_DURATION, C(patient_memory_ms), "none", 1000, 24 * 3600 * 1000, NULL,
     "how long what was learned of a patient is kept in memory for the next stream that names the same one (Open.patient); none = "
     "nothing goes from one stream to another"},
    {"limits.lag", OPTION_DURATION, C(lag_ms), "30s", 1000, 0, NULL,
     "a live stream whose samples have waited longer for the device is sent away with OVERLOADED; none = never"},
    {"limits.message_control", OPTION_BYTES, R(message_control), "256KiB", 1, 0, NULL, "only the default is supported"},
    {"limits.message_data", OPTION_BYTES, R(message_data), "4MiB", 1, 0, NULL, "only the default is supported"},
    {"limits.memory", OPTION_STRING, R(memory), "auto", 0, 0, NULL, "device memory one job may use; auto = nine tenths"},
    {"limits.device_jobs", OPTION_I64, C(device_jobs), "2", 1, TURNS_MAX, NULL,
     "how many jobs may share a device by turns: one of any kind, and others that infer (detect, evaluate); 1: each job has its "
     "device for itself"},
    {"limits.networks", OPTION_I64, C(max_networks), "64", 1, 10000, NULL, "maximum number of spiking networks of the Burst calls"},
    {"limits.network_memory", OPTION_BYTES, C(network_bytes), "2GiB", 1 << 20, 1e15, NULL,
     "memory one spiking network may use, host and device; a client may ask for less"},
    {"limits.networks_memory", OPTION_STRING, R(networks_memory), "auto", 0, 0, NULL,
     "memory of all spiking networks of a device; auto = half of the device's"},
    {"log.level", OPTION_ENUM, C(log_level), "info", 0, 0, "debug|info|warn|error", "minimum severity of log lines"},
    {"log.names", OPTION_BOOL, C(log_names), "true", 0, 0, NULL, "names of beds and patients in the log; false: ids alone"},
    {"log.format", OPTION_ENUM, C(log_format), "text", 0, 0, "text|json", "key=value text or JSON"},
};
static const struct option_table table = OPTION_TABLE(rows);

struct serve_raw {
    const char *name, *checkpoint, *device;
    int64_t max_delay_ms;
    const struct yaml_node *alarm_hop_s;
};
#define V(field) offsetof(struct serve_raw, field)
static const struct option serve_rows[] = {
    {"name", OPTION_STRING, V(name), NULL, 0, 0, NULL, "served name"},
    {"checkpoint", OPTION_STRING, V(checkpoint), NULL, 0, 0, NULL,
     "job:ID, upload:NAME, a built-in model such as line_length, a model file, or store://NAME/KEY"},
    {"device", OPTION_STRING, V(device), "null", 0, 0, NULL, "the device that serves it, such as cuda:1; default: every device"},
    {"max_delay_ms", OPTION_I64, V(max_delay_ms), "-1", -1, 1000, NULL,
     "for how long live streams of the model wait for one another, to be computed together; -1 = 5 on a GPU, 0 on a CPU"},
    {"alarm_hop_s", OPTION_NODE, V(alarm_hop_s), "null", 0, 0, NULL, "unsupported yet: streams choose it"},
};
static const struct option_table serve_table = OPTION_TABLE(serve_rows);

static int refuse(const struct yaml_node *node, const char *file, const char *key, struct err *err) {
    if (!node || yaml_is_null(node))
        return 0;
    options_error(node, file, err, "%s is unsupported yet; leave it out", key);
    return err->code = ERR_UNSUPPORTED;
}

/* An error that points at the key where it stands. */
static int blame(const struct yaml_node *root, const char *file, const char *key, int code, const char *text, struct err *err) {
    const struct yaml_node *node = yaml_path(root, key);
    if (!node)
        return err_set(err, code, "%s: %s: %s", file, key, text);
    options_error(node, file, err, "%s: %s", key, text);
    if (err)
        err->code = code;
    return code;
}

static bool secured(const struct config *c) { return c->tls_cert && c->tls_key && c->tokens_file; }

static int check_address(const struct yaml_node *root, const char *file, const char *key, const struct config *c, struct err *err) {
    const char *address = !strcmp(key, "listen.tcp") ? c->tcp : c->http;
    const char *colon = address ? strrchr(address, ':') : NULL;
    char text[300];
    int64_t port;
    if (!address)
        return 0;
    if (!colon || colon == address || !str_to_i64(colon + 1, &port) || port < 0 || port > 65535) {
        str_format(text, sizeof text, "'%.100s'; expected host:port with a port up to 65535", address);
        return blame(root, file, key, ERR_INVALID, text, err);
    }
    if (str_is_loopback(address) || secured(c))
        return 0;
    str_format(text, sizeof text,
               "%.100s is not a loopback address; listening on it needs tls.cert, tls.key and auth.tokens_file (`brrctl tls init "
               "DIR` makes all three)",
               address);
    return blame(root, file, key, ERR_PRECONDITION, text, err);
}

/* Keys that need one another. */
static int check_access(struct raw *raw, const struct yaml_node *root, const char *file, struct err *err) {
    struct config *c = &raw->c;
    char *end = NULL;
    if (!c->tls_cert != !c->tls_key)
        return blame(root, file, c->tls_cert ? "tls.cert" : "tls.key", ERR_INVALID, "tls.cert and tls.key must be set together",
                     err);
    if (c->tls_client_ca && !c->tls_cert)
        return blame(root, file, "tls.client_ca", ERR_INVALID, "it does nothing without tls.cert and tls.key", err);
    if (c->tls_client_ca && !c->tcp)
        return blame(root, file, "tls.client_ca", ERR_INVALID, "it does nothing without listen.tcp", err);
    c->unix_mode = c->unix_group ? 0660 : 0600;
    if (!raw->unix_mode)
        return 0;
    unsigned long mode = strtoul(raw->unix_mode, &end, 8);
    if (!*raw->unix_mode || *end || mode > 0777 || (mode & 0600) != 0600)
        return blame(root, file, "listen.unix_mode", ERR_INVALID,
                     "expected an octal mode such as 0660 that lets the owner read and write", err);
    c->unix_mode = (unsigned)mode;
    return 0;
}

static int check_sessions(const struct config *c, const struct yaml_node *root, const char *file, struct err *err) {
    const char *name = c->session_folder;
    if (!name)
        return 0;
    if (!c->shared_sessions)
        return blame(root, file, "sessions.name", ERR_INVALID, "it does nothing without sessions.shared", err);
    if (*name && *name != '.' && strlen(name) <= 128 && !strchr(name, '/'))
        return 0;
    return blame(root, file, "sessions.name", ERR_INVALID,
                 "expected the name of a folder, without '/' and without '.' at its start", err);
}

/* A device of the list that is usable here. */
static int add_device(struct config *c, const char *name, const struct yaml_node *root, const char *file, struct arena *arena,
                      struct err *err) {
    struct device_info info;
    struct err why = {0};
    char text[300];
    if (device_probe(name, &info, &why)) {
        bool unknown = why.code == ERR_INVALID;
        str_format(text, sizeof text,
                   unknown ? "'%.100s'; expected auto, cpu, cpu:N or cuda:N" : "%.60s is not usable here: %.230s", name,
                   why.message);
        return blame(root, file, "devices", unknown ? ERR_INVALID : ERR_UNSUPPORTED, text, err);
    }
    for (int i = 0; i < c->n_devices; i++) {
        bool all = !strcmp(name, "cpu") || !strcmp(c->devices[i], "cpu");
        if (!strcmp(name, c->devices[i]))
            str_format(text, sizeof text, "%.60s is listed twice", name);
        else if (all && !strncmp(name, "cpu", 3) && !strncmp(c->devices[i], "cpu", 3))
            str_format(text, sizeof text, "cpu is all processors; beside other CPU devices name it cpu:%d", i);
        else
            continue;
        return blame(root, file, "devices", ERR_INVALID, text, err);
    }
    c->devices[c->n_devices] = arena_strdup(arena, name);
    return c->devices[c->n_devices++] ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
}

static int pick_devices(struct raw *raw, const struct yaml_node *root, const char *file, struct arena *arena, struct err *err) {
    const struct option_list *list = &raw->devices;
    struct device_info info;
    char text[100];
    if (list->count < 1 || list->count > CONFIG_MAX_DEVICES) {
        str_format(text, sizeof text, "%d devices; expected 1 to %d", (int)list->count, CONFIG_MAX_DEVICES);
        return blame(root, file, "devices", ERR_INVALID, text, err);
    }
    if (list->count == 1 && !strcmp(list->items[0], "auto"))
        return add_device(&raw->c, !device_probe("cuda:0", &info, NULL) ? "cuda:0" : "cpu", root, file, arena, err);
    for (size_t i = 0; i < (size_t)list->count; i++) {
        int rc = add_device(&raw->c, list->items[i], root, file, arena, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Models are served on devices of the list. */
static int check_served_devices(const struct raw *raw, const char *file, struct err *err) {
    const struct config *c = &raw->c;
    const struct yaml_node *node = raw->serve ? raw->serve->child : NULL;
    for (int i = 0; i < c->n_served; i++, node = node->next) {
        int at = 0;
        while (c->served[i].device && at < c->n_devices && strcmp(c->served[i].device, c->devices[at]) != 0)
            at++;
        if (at == c->n_devices)
            return options_error(node, file, err, "serve: model '%.60s': device '%.40s' is not in devices", c->served[i].name,
                                 c->served[i].device);
    }
    return 0;
}

static int read_store(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err) {
    struct source_store store = {.name = node->key};
    if (c->n_stores == CONFIG_MAX_STORES)
        return options_error(node, file, err, "more than %d stores", CONFIG_MAX_STORES);
    int rc = store_options_read(node, file, arena, &store.config, err);
    if (rc)
        return rc;
    if (str_starts(store.config.url, "file://"))
        store.dir = store.config.url + strlen("file://");
    c->stores[c->n_stores++] = store;
    return 0;
}

static int read_served(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err) {
    struct serve_raw served = {0};
    int rc;
    if (c->n_served == CONFIG_MAX_SERVED)
        return options_error(node, file, err, "more than %d models to serve", CONFIG_MAX_SERVED);
    if (node->type != YAML_MAPPING)
        return options_error(node, file, err, "serve: expected a list of {name, checkpoint}");
    if (options_read(&serve_table, node, file, arena, &served, err))
        return err_wrap(err, "serve");
    if ((rc = refuse(served.alarm_hop_s, file, "serve[].alarm_hop_s", err)))
        return rc;
    for (int i = 0; i < c->n_served; i++)
        if (!strcmp(c->served[i].name, served.name))
            return options_error(node, file, err, "serve: the name %.60s stands twice", served.name);
    c->served[c->n_served++] = (struct config_served){served.name, served.checkpoint, served.device, served.max_delay_ms};
    return 0;
}

/* The lists, in this order, and what reads an item of each. Escalation comes after the hooks, whose names its steps use. */
static const struct {
    size_t at;
    enum yaml_type type;
    const char *expected;
    config_item_fn *read;
} lists[] = {
    {R(stores), YAML_MAPPING, "stores: expected NAME: {url: …}", read_store},
    {R(serve), YAML_SEQUENCE, "serve: expected a list of {name, checkpoint}", read_served},
    {R(executors), YAML_MAPPING, "executors: expected NAME: {kind: slurm, …}", config_executor},
    {R(hooks), YAML_SEQUENCE, "alarms.hooks: expected a list of {name, command} or {name, url, secret_file}", config_hook},
    {R(escalation), YAML_SEQUENCE, "alarms.escalation: expected a list of {after, hooks}", config_step},
};

static int read_lists(struct raw *raw, const char *file, struct arena *arena, struct err *err) {
    struct config *c = &raw->c;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const struct yaml_node *list = *(const struct yaml_node *const *)((const char *)raw + lists[i].at);
        const bool some = list && !yaml_is_null(list);
        int rc = some && list->type != lists[i].type ? options_error(list, file, err, "%s", lists[i].expected) : 0;
        for (const struct yaml_node *n = some ? list->child : NULL; n && !rc; n = n->next)
            rc = lists[i].read(n, file, arena, c, err);
        if (rc)
            return rc;
    }
    for (int i = 0; i < c->n_hooks; i++)
        if (c->hooks[i].steps >> c->escalation.n & 1)
            c->hooks[i].steps |= ~0u << c->escalation.n; /* the repeats of the last step */
    return 0;
}

/* Values that are accepted because they are what the daemon does anyway. */
static int check_fixed(const struct raw *raw, const struct yaml_node *root, const char *file, struct err *err) {
    const struct {
        const char *key;
        int64_t value, only;
    } fixed[] = {{"limits.message_control", raw->message_control, 256 * 1024},
                 {"limits.message_data", raw->message_data, 4 * 1024 * 1024}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fixed[i].value != fixed[i].only)
            return blame(root, file, fixed[i].key, ERR_UNSUPPORTED,
                         "values other than the default are unsupported yet; leave it out", err);
    return 0;
}

/* A size in bytes; "auto" and a key that is not given leave *bytes as it is. */
static bool read_size(const char *text, int64_t *bytes) {
    return !text || !strcmp(text, "auto") || (str_to_bytes(text, bytes) && *bytes >= 1);
}

static int check_sizes(struct raw *raw, const struct yaml_node *root, const char *file, struct err *err) {
    struct config *c = &raw->c;
    if (!read_size(raw->memory, &c->memory_bytes))
        return blame(root, file, "limits.memory", ERR_INVALID, "expected auto or a size such as 8GiB", err);
    if (!read_size(raw->networks_memory, &c->networks_bytes))
        return blame(root, file, "limits.networks_memory", ERR_INVALID, "expected auto or a size such as 8GiB", err);
    if (c->network_bytes < 0)
        return blame(root, file, "limits.network_memory", ERR_INVALID, "expected a size such as 2GiB", err);
    return 0;
}

/* Paths of pages follow it, which begin with one. */
static const char *without_slashes(const char *url, struct arena *arena) {
    size_t n = strlen(url);
    while (n && url[n - 1] == '/')
        n--;
    return arena_printf(arena, "%.*s", (int)n, url);
}

static int check(struct raw *raw, const struct yaml_node *root, const char *file, struct arena *arena, struct err *err) {
    struct config *c = &raw->c;
    const char **addresses[] = {&c->tcp, &c->http, &c->unix_path};
    int rc;
    if ((rc = check_fixed(raw, root, file, err)) || (rc = read_lists(raw, file, arena, err)) ||
        (rc = config_read_beds(raw->beds, file, arena, &raw->c, err)))
        return rc;
    for (int i = 0; i < 3; i++)
        if (*addresses[i] && !strcmp(*addresses[i], "none"))
            *addresses[i] = NULL;
    c->http_names = (const char *const *)raw->http_names.items;
    c->n_http_names = (int)raw->http_names.count;
    if ((rc = check_access(raw, root, file, err)) || (rc = check_sessions(c, root, file, err)) ||
        (rc = check_address(root, file, "listen.tcp", c, err)) || (rc = check_address(root, file, "http.listen", c, err)))
        return rc;
    if (c->alarms_url && !hook_url_is_secure(c->alarms_url))
        return blame(root, file, "alarms.url", ERR_INVALID, "expected https://…, or http:// of this machine", err);
    if (c->alarms_url && !(c->alarms_url = without_slashes(c->alarms_url, arena)))
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    if (!c->tcp && !c->unix_path)
        return err_set(err, ERR_INVALID, "%s: listen.unix and listen.tcp are both none; nobody could reach the daemon", file);
    if ((rc = check_sizes(raw, root, file, err)) || (rc = pick_devices(raw, root, file, arena, err)) ||
        (rc = check_served_devices(raw, file, err)))
        return rc;
    if (c->onsets_bytes && (c->onsets_bytes < 16 << 20 || !c->viewer_minutes))
        return blame(root, file, "journal.onsets", ERR_INVALID, "expected 0, or at least 16MiB beside viewer.minutes above 0", err);
    if (!c->database && !(c->database = arena_printf(arena, "%s/jobs.sqlite", c->results)))
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    if (!c->journal && !(c->journal = arena_printf(arena, "%s/journal.sqlite", c->results)))
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    return 0;
}

int config_parse(const struct config_source *source, const char *text, size_t len, struct arena *arena, struct config *ret,
                 struct err *err) {
    struct yaml_node *root = NULL;
    struct raw *raw = arena_alloc(arena, sizeof *raw);
    int rc;
    if (!raw)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", source->path);
    if ((rc = yaml_parse(arena, text, len, source->path, &root, err)))
        return rc;
    for (int i = 0; i < source->n_overrides; i++)
        if ((rc = yaml_set(arena, root, source->overrides[i], err)))
            return rc;
    if ((rc = options_read(&table, root, source->path, arena, raw, err)) || (rc = check(raw, root, source->path, arena, err)))
        return rc;
    *ret = raw->c;
    return 0;
}

int config_read(const struct config_source *source, struct arena *arena, struct config *ret, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(source->path, CONFIG_MAX_BYTES, &text, &len, err);
    return rc ? rc : config_parse(source, text, len, arena, ret, err);
}

void config_print_keys(FILE *out) { options_print(&table, out); }
