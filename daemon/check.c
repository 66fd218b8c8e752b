#include "daemon/check.h"

#include "daemon/access.h"
#include "daemon/lost_database.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/places.h"
#include "daemon/paths.h"
#include "daemon/rpc/unix_listener.h"
#include "daemon/server.h"
#include "detect/builtin.h"
#include "detect/model_image.h"

enum { MAX_SERIES = 1000 };

static int check_access(const struct config *config, struct err *err) {
    const struct unix_listener_config own = {.path = config->unix_path, .group = config->unix_group};
    struct access access = {0};
    int rc = own.path ? unix_listener_check(&own, err) : 0;
    if (rc)
        return rc;
    struct metrics *metrics = metrics_new(metrics_families, metrics_family_count, MAX_SERIES);
    if (!metrics)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    rc = access_open(&access, config, metrics, err);
    access_close(&access);
    metrics_free(metrics);
    return rc;
}

/* The model file that `serve` names. Where only the running daemon can tell the file ("job:…"), the REF is not looked at, and of
 * the URL of a store only the store's name. */
static int check_model(const struct config *c, const char *ref, struct err *err) {
    const struct places places = {.data_dir = c->data, .results_dir = c->results, .local_paths = c->local_paths};
    const struct source_store *store;
    const char *key;
    char named[4096], path[4096];
    if (model_fetch_is_url(ref))
        return model_fetch_locate(c->stores, c->n_stores, ref, &store, &key, err);
    if (str_starts(ref, "job:") || builtin_has(ref))
        return 0;
    if (!str_starts(ref, "upload:"))
        str_copy(named, sizeof named, ref);
    else if (!str_format(named, sizeof named, "%s/uploads/%s.safetensors", c->results, ref + strlen("upload:")))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    int rc = places_model_file(&places, named, path, err);
    return rc ? rc : model_image_check(path, err);
}

static int check_served(const struct config *c, struct err *err) {
    for (int i = 0; i < c->n_served; i++) {
        int rc = check_model(c, c->served[i].checkpoint, err);
        if (rc)
            return err_wrap(err, "serve: model '%s' cannot be served", c->served[i].name);
    }
    return 0;
}

/* A daemon starts with a hook whose files cannot be read, and says so each minute, and with one for no bed: better to
 * hear of it before. */
static int check_hooks(const struct config *c, struct err *err) {
    for (int i = 0; i < c->n_hooks; i++) {
        const struct hook *h = &c->hooks[i];
        struct hook_files files;
        int rc;
        if ((rc = hook_check_roster(h, c->beds, c->n_beds, err)) || (rc = hook_read_files(h, &files, err)))
            return rc;
        hook_files_done(&files);
        if (h->command && (access(h->command[0], X_OK) || (fsio_is_dir(h->command[0]) && (errno = EISDIR))))
            return err_errno(err, errno, "alarms.hooks: %s: %s cannot be run", h->name, h->command[0]);
    }
    return 0;
}

int check_config(const struct config *config, struct err *err) {
    int rc;
    if ((rc = paths_check(config, err)) || (rc = check_access(config, err)) || (rc = check_hooks(config, err)))
        return rc;
    return (rc = lost_database_look(config, err)) ? rc : check_served(config, err);
}
