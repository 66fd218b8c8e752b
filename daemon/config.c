#include "daemon/config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/options.h"
#include "base/str.h"

struct raw {
    struct config c;
    const struct yaml_node *tls, *auth, *stores, *serve, *limits;
    struct option_list devices;
    int64_t cache_max, wall_clock, keep_finished;
};

#define C(field) offsetof(struct raw, c.field)
#define R(field) offsetof(struct raw, field)

static const struct option rows[] = {
    {"listen.unix", OPTION_STRING, C(unix_path), "/run/brrd/brrd.sock", 0, 0, NULL, "local RPC socket, mode 0600"},
    {"listen.tcp", OPTION_STRING, C(tcp), "none", 0, 0, NULL, "host:port of a loopback address; elsewhere needs tls and auth"},
    {"tls", OPTION_NODE, R(tls), "null", 0, 0, NULL, "cert, key, client_ca (unsupported yet)"},
    {"auth", OPTION_NODE, R(auth), "null", 0, 0, NULL, "tokens_file (unsupported yet)"},
    {"http.listen", OPTION_STRING, C(http), "127.0.0.1:9464", 0, 0, NULL,
     "/metrics /healthz /readyz and the status page; none = off"},
    {"devices", OPTION_STRINGS, R(devices), "[auto]", 0, 0, NULL, "auto, cpu, or one cuda:N"},
    {"devices_cpu_threads", OPTION_I64, C(cpu_threads), "0", 0, 1024, NULL, "threads of the CPU device; 0 = all"},
    {"paths.data", OPTION_STRING, C(data), "/data", 0, 0, NULL, "read-only recordings"},
    {"paths.cache", OPTION_STRING, C(cache), "/cache", 0, 0, NULL, "cache volume"},
    {"paths.results", OPTION_STRING, C(results), "/results", 0, 0, NULL, "job output and checkpoints"},
    {"cache.max_size", OPTION_BYTES, R(cache_max), "none", 1, 0, NULL, "eviction threshold (unsupported yet: nothing is evicted)"},
    {"stores", OPTION_NODE, R(stores), "null", 0, 0, NULL, "object stores (unsupported yet)"},
    {"local_paths", OPTION_BOOL, C(local_paths), "false", 0, 0, NULL, "jobs may name any file:// path the daemon can read"},
    {"jobs.database", OPTION_STRING, C(database), "null", 0, 0, NULL, "SQLite file; default paths.results/jobs.sqlite"},
    {"jobs.max_queued", OPTION_I64, C(max_queued), "1000", 1, 100000, NULL, "jobs that may wait"},
    {"jobs.default_wall_clock", OPTION_DURATION, R(wall_clock), "none", 1000, 0, NULL,
     "limit of jobs without one (unsupported yet)"},
    {"jobs.keep_finished", OPTION_DURATION, R(keep_finished), "90d", 1000, 0, NULL, "how long ended jobs are listed"},
    {"serve", OPTION_NODE, R(serve), "null", 0, 0, NULL, "models loaded at start (unsupported yet)"},
    {"limits", OPTION_NODE, R(limits), "null", 0, 0, NULL,
     "sessions, session_idle, resume_ttl, message sizes, memory (unsupported yet)"},
    {"log.level", OPTION_ENUM, C(log_level), "info", 0, 0, "debug|info|warn|error", "least severe line that is written"},
    {"log.format", OPTION_ENUM, C(log_format), "text", 0, 0, "text|json", "key=value text or JSON"},
};
static const struct option_table table = {rows, sizeof rows / sizeof *rows};

static int refuse(const struct yaml_node *node, const char *file, const char *key, struct err *err) {
    if (!node || yaml_is_null(node))
        return 0;
    options_error(node, file, err, "%s is unsupported yet; leave it out", key);
    return err->code = ERR_UNSUPPORTED;
}

static bool loopback(const char *address) {
    return str_starts(address, "127.") || str_starts(address, "localhost:") || str_starts(address, "[::1]:");
}

static int check_address(const char *key, const char *address, struct err *err) {
    const char *colon = address ? strrchr(address, ':') : NULL;
    int64_t port;
    if (!address)
        return 0;
    if (!colon || !str_to_i64(colon + 1, &port) || port < 0 || port > 65535)
        return err_set(err, ERR_INVALID, "%s is '%s'; expected host:port with a port up to 65535", key, address);
    if (!loopback(address))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s %s is not a loopback address; listening there needs tls and auth, which are unsupported yet", key,
                       address);
    return 0;
}

static int pick_device(struct raw *raw, struct err *err) {
    if (raw->devices.count != 1)
        return err_set(err, ERR_UNSUPPORTED, "devices: %zu devices; one is supported yet", raw->devices.count);
    raw->c.device = raw->devices.items[0];
    if (!strcmp(raw->c.device, "auto"))
        raw->c.device = "cpu";
    if (strcmp(raw->c.device, "cpu") && !str_starts(raw->c.device, "cuda:"))
        return err_set(err, ERR_INVALID, "devices is '%s'; expected auto, cpu or cuda:N", raw->c.device);
    return 0;
}

static int check(struct raw *raw, const struct yaml_node *root, const char *file, struct arena *arena, struct err *err) {
    struct config *c = &raw->c;
    int rc = refuse(raw->tls, file, "tls", err);
    if (!rc)
        rc = refuse(raw->auth, file, "auth", err);
    if (!rc)
        rc = refuse(raw->stores, file, "stores", err);
    if (!rc)
        rc = refuse(raw->serve, file, "serve", err);
    if (!rc)
        rc = refuse(raw->limits, file, "limits", err);
    if (!rc && raw->cache_max >= 0)
        rc = refuse(yaml_path(root, "cache.max_size"), file, "cache.max_size", err);
    if (!rc && raw->wall_clock >= 0)
        rc = refuse(yaml_path(root, "jobs.default_wall_clock"), file, "jobs.default_wall_clock", err);
    const char **addresses[] = {&c->tcp, &c->http, &c->unix_path};
    for (int i = 0; i < 3; i++)
        if (*addresses[i] && !strcmp(*addresses[i], "none"))
            *addresses[i] = NULL;
    if (!rc)
        rc = check_address("listen.tcp", c->tcp, err);
    if (!rc)
        rc = check_address("http.listen", c->http, err);
    if (!rc && !c->tcp && !c->unix_path)
        rc = err_set(err, ERR_INVALID, "%s: listen.unix and listen.tcp are both none; nobody could reach the daemon", file);
    if (!rc)
        rc = pick_device(raw, err);
    if (!rc && !c->database && !(c->database = arena_printf(arena, "%s/jobs.sqlite", c->results)))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    return rc;
}

int config_read(const char *path, const char *const *overrides, int n, struct arena *arena, struct config *ret, struct err *err) {
    char *text = NULL;
    size_t len = 0;
    struct yaml_node *root = NULL;
    struct raw *raw = arena_alloc(arena, sizeof *raw);
    int rc = raw ? fsio_read(path, 1 << 20, &text, &len, err) : err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
    if (!rc)
        rc = yaml_parse(arena, text, len, path, &root, err);
    for (int i = 0; !rc && i < n; i++)
        rc = yaml_set(arena, root, overrides[i], err);
    free(text);
    if (!rc)
        rc = options_read(&table, root, path, arena, raw, err);
    if (!rc)
        rc = check(raw, root, path, arena, err);
    if (!rc)
        *ret = raw->c;
    return rc;
}

void config_print_keys(FILE *out) { options_print(&table, out); }
