/* store ls|get|put|check: a directory or bucket by its URL, without a daemon. */

#include "store/store.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "store/outputs.h"
#include "store/store_options.h"

/* The options of store. */
struct store_options {
    const char *endpoint;
    const char *config;
    const char *region;
    const char *credentials;
    const char *ca_file;
    bool anonymous;
    bool path_style;
    bool requester_pays;
    int64_t stall_s;
    const char *output;
};
#define OPTIONS struct store_options
static const struct argument rows[] = {
    TEXT("--endpoint", endpoint, "URL", "the S3 server: https://HOST[:PORT]; default AWS_ENDPOINT_URL, else Amazon's"),
    TEXT("--config", config, "FILE", "daemon.yaml, for store://NAME URLs"),
    TEXT("--region", region, "R", "region of the bucket; default AWS_REGION, else us-east-1"),
    TEXT("--credentials", credentials, "FROM", "env, imds, file:PATH#profile or systemd:NAME; docs/stores.md"),
    TEXT("--ca-file", ca_file, "FILE",
         "PEM file of the CA that signed the server's certificate; default AWS_CA_BUNDLE, else those of the system"),
    FLAG("--anonymous", anonymous, "unsigned requests, for public buckets"),
    FLAG("--path-style", path_style, "ENDPOINT/BUCKET instead of BUCKET.ENDPOINT"),
    FLAG("--requester-pays", requester_pays, "agree to pay for requests and transfers"),
    INTEGER("--stall", stall_s, "S", "restart a transfer after this many seconds without data, default 20", 1, 3600),
    OUTPUT("--output", output, "PATH", "get: the file or folder to write", .alias = "--out"),
};
static const struct argument_table store_arguments = {
    .rows = rows, .n = sizeof rows / sizeof *rows, .size = sizeof(struct store_options), .local = true, .fetches = true};

enum { PATH_BYTES = 4096, CONFIG_MAX = 1 << 20 };

struct place {
    struct arena memory;
    struct store *store;
    char key[PATH_BYTES]; /* what the URL names in the store: an object or the start of some; may be "" */
};

struct meter {
    const char *name;
    double shown_s;
    bool terminal;
};

static bool show(void *ctx, int64_t done, int64_t total) {
    struct meter *m = ctx;
    char bar[OUTPUT_BAR_SIZE], a[32], line[PATH_BYTES];
    double now = clock_s();
    if (m->terminal && now - m->shown_s >= 0.2 && total > 0) {
        str_format(line, sizeof line, "%s of %s  %s", output_bar((double)done / (double)total, bar),
                   output_bytes((double)total, a, sizeof a), m->name);
        output_progress(stderr, line);
        m->shown_s = now;
    }
    return true;
}

/* The entry NAME of `stores` in the file --config names. */
static int read_config(const struct arguments *o, const char *name, struct place *p, struct store_config *ret, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    struct yaml_node *root = NULL;
    int rc;
    if (!own(o)->config)
        return err_set(err, ERR_INVALID, "store://%s: name the daemon's file with --config daemon.yaml", name);
    if ((rc = fsio_read(own(o)->config, CONFIG_MAX, &text, &len, err)) ||
        (rc = yaml_parse(&p->memory, text, len, own(o)->config, &root, err)))
        return rc;
    const struct yaml_node *stores = yaml_get(root, "stores");
    for (const struct yaml_node *n = stores ? stores->child : NULL; n; n = n->next)
        if (n->key && !strcmp(n->key, name))
            return store_options_read(n, own(o)->config, &p->memory, ret, err);
    return err_set(err, ERR_NOT_FOUND, "%s has no store '%s'; add it under stores", own(o)->config, name);
}

/* The last part of a file:// URL may be no directory yet: the store is the deepest directory above it. */
static int split_local(const char *path, struct place *p, char url[PATH_BYTES], struct err *err) {
    char dir[PATH_BYTES];
    if (!str_copy(dir, sizeof dir, path))
        return err_set(err, ERR_RANGE, "%.100s...: the path is too long", path);
    size_t len = strlen(dir);
    while (len > 1 && !fsio_is_dir(dir)) {
        while (len > 1 && dir[len - 1] != '/')
            len--;
        len -= len > 1;
        dir[len] = '\0';
    }
    str_copy(p->key, sizeof p->key, path + len + (path[len] == '/'));
    return str_format(url, PATH_BYTES, "file://%s", dir) ? 0 : err_set(err, ERR_RANGE, "%.100s...: the path is too long", path);
}

/* The folder of what a file:// URL names, for commands that read. */
static int check_folder(const char *url, struct err *err) {
    char dir[PATH_BYTES];
    const char *path = url + strlen("file://"), *slash = strrchr(path, '/');
    if (!str_starts(url, "file:///"))
        return 0;
    str_format(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return fsio_is_dir(dir) ? 0 : err_set(err, ERR_NOT_FOUND, "there is no folder %s", dir);
}

static int open_place(const struct arguments *o, const char *text, struct place *p, struct err *err) {
    struct store_config config = {
        SAME_MEMBERS(*own(o), endpoint, region, credentials, ca_file, path_style, anonymous, requester_pays),
        .stall_s = own(o)->stall_s > 0 ? (int)own(o)->stall_s : 0};
    char url[PATH_BYTES], name[256];
    const char *rest = "";
    int rc = 0;
    arena_init(&p->memory, 8u << 20);
    if (str_starts(text, "store://")) {
        size_t len = strcspn(text + 8, "/");
        str_format(name, sizeof name, "%.*s", (int)len, text + 8);
        rc = read_config(o, name, p, &config, err);
        rest = text[8 + len] ? text + 8 + len + 1 : "";
        str_copy(p->key, sizeof p->key, rest);
    } else if (str_starts(text, "s3://")) {
        size_t len = strcspn(text + 5, "/");
        if (!str_format(url, sizeof url, "s3://%.*s", (int)len, text + 5) ||
            !str_copy(p->key, sizeof p->key, text[5 + len] ? text + 5 + len + 1 : ""))
            rc = err_set(err, ERR_RANGE, "%.100s...: the URL is too long", text);
        config.url = url;
    } else if (str_starts(text, "file:///")) {
        rc = split_local(text + 7, p, url, err);
        config.url = url;
    } else {
        rc = err_set(err, ERR_INVALID, "'%.200s' is not a store URL; expected s3://BUCKET/KEY, file:///PATH or store://NAME/KEY",
                     text);
    }
    return rc ? rc : store_open(&config, &p->store, err);
}

static void close_place(struct place *p) {
    store_close(p->store);
    arena_done(&p->memory);
}

/* visit gives 0 to go on. */
typedef int visit_fn(void *ctx, const struct store_item *item, struct err *err);

static int each_of_page(const struct store_page *page, visit_fn *visit, void *ctx, struct err *err) {
    int rc;
    for (size_t i = 0; i < page->count; i++)
        if ((rc = visit(ctx, &page->items[i], err)))
            return rc;
    return 0;
}

/* Every object below the place's key. */
static int each(const struct place *p, visit_fn *visit, void *ctx, struct err *err) {
    char after[STORE_KEY_SIZE] = "";
    for (bool more = true; more;) {
        struct store_page page;
        int rc = store_list(p->store, p->key, after, &page, err);
        if (rc)
            return rc;
        more = page.more && page.count;
        if (page.count)
            str_copy(after, sizeof after, page.items[page.count - 1].key);
        rc = each_of_page(&page, visit, ctx, err);
        store_page_done(&page);
        if (rc)
            return rc;
    }
    return 0;
}

struct totals {
    const struct arguments *o;
    const struct place *place;
    const char *output;
    int64_t objects, bytes;
};

static void print_item(const struct arguments *o, const char *key, const struct store_item *item) {
    char when[32];
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "key", key);
        json_put_i64(w, "bytes", item->size_bytes);
        json_put_i64(w, "modified_ms", item->mtime_ns / 1000000);
        json_put_str(w, "tag", item->tag);
        output_end(w);
    } else {
        printf("%s %14" PRId64 " B  %s\n", output_time(item->mtime_ns / 1000000, when, sizeof when), item->size_bytes, key);
    }
}

static int list_item(void *ctx, const struct store_item *item, struct err *err) {
    struct totals *t = ctx;
    (void)err;
    print_item(t->o, item->key, item);
    t->objects++;
    t->bytes += item->size_bytes;
    return 0;
}

static int fetch(const struct place *p, const char *key, const char *path, struct err *err) {
    struct meter m = {.name = key, .terminal = output_redraws(stderr)};
    const struct store_watch watch = {.progress = show, .ctx = &m};
    int rc = store_get(p->store, key, path, &watch, err);
    output_clear();
    return rc;
}

/* Below the output folder, under what follows the last '/' of the URL's key. */
static int fetch_item(void *ctx, const struct store_item *item, struct err *err) {
    struct totals *t = ctx;
    char path[PATH_BYTES], dir[PATH_BYTES];
    const char *slash = strrchr(t->place->key, '/');
    size_t skip = slash ? (size_t)(slash - t->place->key) + 1 : 0;
    int rc = fsio_join(path, sizeof path, t->output, item->key + skip, err);
    if (rc)
        return rc;
    str_copy(dir, sizeof dir, path);
    *strrchr(dir, '/') = '\0';
    if ((*dir && (rc = fsio_mkdirs(dir, err))) || (rc = outputs_check(path, t->o->force, err)) ||
        (rc = fetch(t->place, item->key, path, err)) || (rc = outputs_add_copy(path, err)))
        return rc;
    print_item(t->o, path, item);
    t->objects++;
    t->bytes += item->size_bytes;
    return 0;
}

static void print_totals(const struct totals *t) {
    char size[32];
    if (!t->o->json)
        printf("%" PRId64 " object%s, %s\n", t->objects, t->objects == 1 ? "" : "s",
               output_bytes((double)t->bytes, size, sizeof size));
}

static int run_ls(const struct arguments *o, struct place *p, struct err *err) {
    struct totals t = {.o = o, .place = p};
    int rc = each(p, list_item, &t, err);
    if (rc)
        return rc;
    print_totals(&t);
    return 0;
}

static int get_folder(const struct arguments *o, struct totals *t, struct err *err) {
    int rc = each(t->place, fetch_item, t, err);
    if (rc)
        return rc;
    if (!t->objects)
        return err_set(err, ERR_NOT_FOUND, "there is no object below %s", o->args[1]);
    print_totals(t);
    return 0;
}

static int run_get(const struct arguments *o, struct place *p, struct err *err) {
    const char *output = own(o)->output ? own(o)->output : o->n_args == 3 ? o->args[2] : NULL;
    struct totals t = {.o = o, .place = p, .output = output ? output : "."};
    struct store_item item;
    char path[PATH_BYTES];
    int rc;
    if (!*p->key || str_ends(p->key, "/"))
        return get_folder(o, &t, err);
    if (output && !fsio_is_dir(output))
        str_copy(path, sizeof path, output);
    else if ((rc = fsio_join(path, sizeof path, t.output, fsio_basename(p->key), err)))
        return rc;
    if ((rc = outputs_check(path, o->force, err)) || (rc = fetch(p, p->key, path, err)) || (rc = outputs_add_copy(path, err)) ||
        (rc = store_stat(p->store, p->key, &item, NULL, err)))
        return rc;
    print_item(o, path, &item);
    return 0;
}

static int run_put(const struct arguments *o, struct place *p, struct err *err) {
    struct store_item item;
    const char *file = o->args[1];
    if ((!*p->key || str_ends(p->key, "/")) && strlen(p->key) + strlen(fsio_basename(file)) < sizeof p->key)
        str_format(p->key + strlen(p->key), sizeof p->key - strlen(p->key), "%s", fsio_basename(file));
    struct meter m = {.name = p->key, .terminal = output_redraws(stderr)};
    const struct store_watch watch = {.progress = show, .ctx = &m};
    int rc = store_put(p->store, file, p->key, &watch, err);
    output_clear();
    if (rc || (rc = store_stat(p->store, p->key, &item, NULL, err)))
        return rc;
    print_item(o, p->key, &item);
    return 0;
}

/* What a check of a store found; each time in seconds. */
struct check {
    struct store_page page;
    const char *identity;
    double list_s, read_s;
};

static void check_done(struct check *c) { store_page_done(&c->page); }

static void print_check(const struct arguments *o, const struct check *c) {
    const struct store_page *page = &c->page;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "store", c->identity);
        json_put_i64(w, "objects", (int64_t)page->count);
        json_put_bool(w, "more", page->more);
        json_put_f64(w, "list_s", c->list_s);
        json_put_f64(w, "read_s", page->count ? c->read_s : NAN);
        output_end(w);
        return;
    }
    printf("PASS list  %.0f ms, %zu%s objects\n", 1e3 * c->list_s, page->count, page->more ? " and more" : "");
    if (page->count)
        printf("PASS read  %.0f ms, %s\n", 1e3 * c->read_s, page->items[0].key);
}

/* That it can be listed, and the first object's first byte be read. */
static int run_check(const struct arguments *o, struct place *p, struct err *err) {
    OWNED(check_done) struct check c = {.identity = store_identity(p->store)};
    double begun_s = clock_s();
    int rc = store_list(p->store, p->key, "", &c.page, err);
    if (rc)
        return rc;
    c.list_s = clock_s() - begun_s;
    char byte;
    struct store_piece first = {.buf = &byte, .len = 1};
    begun_s = clock_s();
    if (c.page.count && (rc = store_read(p->store, c.page.items[0].key, &first, NULL, err)))
        return rc;
    c.read_s = clock_s() - begun_s;
    print_check(o, &c);
    return 0;
}

static int cmd_store(const struct arguments *o) {
    static const struct {
        const char *name;
        int (*run)(const struct arguments *o, struct place *p, struct err *err);
        int n_args, most;
    } verbs[] = {{"ls", run_ls, 2, 2}, {"get", run_get, 2, 3}, {"put", run_put, 3, 3}, {"check", run_check, 2, 2}};
    OWNED(close_place) struct place place = {0};
    struct err err = {0};
    size_t v = 0;
    while (v < sizeof verbs / sizeof *verbs && strcmp(o->args[0], verbs[v].name) != 0)
        v++;
    if (v == sizeof verbs / sizeof *verbs || o->n_args < verbs[v].n_args || o->n_args > verbs[v].most ||
        (verbs[v].run == run_get && o->n_args == 3 && own(o)->output)) {
        fprintf(stderr,
                "brrctl: 'store %s' with %d more word%s; expected store ls|check URL, store get URL [FILE] or store put FILE URL\n",
                o->args[0], o->n_args - 1, o->n_args == 2 ? "" : "s");
        return EXIT_USAGE;
    }
    const char *url = o->args[verbs[v].run == run_put ? 2 : 1];
    if ((verbs[v].run != run_put && check_folder(url, &err)) || open_place(o, url, &place, &err) || verbs[v].run(o, &place, &err))
        return brrctl_fail(&err);
    return 0;
}

BRRCTL_COMMAND(
    store, "ls|get|put|check URL|FILE", &store_arguments, cmd_store,
    "list, read, write or check a directory or bucket; works without a daemon",
    "URL: s3://BUCKET/KEY, file:///PATH, or store://NAME/KEY of the daemon.yaml that --config names.\n"
    "--endpoint is the S3 server here (https://HOST[:PORT]; default AWS_ENDPOINT_URL, else Amazon's).\n"
    "  ls URL             list objects whose URLs start with URL\n"
    "  get URL [FILE]     fetch one object, or everything below a URL that ends with '/'; FILE: a file or folder, as --out\n"
    "  put FILE URL       upload one file\n"
    "  check URL          test listing, and reading one byte\n"
    "example: brrctl store ls s3://physionet-open/chbmit/1.0.0/chb01/ --anonymous",
    .min_args = 2, .max_args = 3);
