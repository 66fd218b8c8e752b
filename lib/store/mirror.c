#include "store/mirror.h"

#include "base/crew.h"
#include "base/grow.h"
#include "base/order.h"
#include "store/cached.h"

enum { THREADS = 16, MAX_FILES = 2 << 20, PATH_BYTES = 4096 };
static const char WHOLE[] = ".whole";

struct file {
    struct cached_object object; /* its key is the mirror's */
    enum mirror_kind kind;
    bool recording, pinned; /* recording: or a part of one, of which the head is enough at first */
    atomic_int refetched;
    int n_parts; /* under the mirror's lock; set when it is first taken */
    struct file *parts[MIRROR_PARTS];
};

struct mirror {
    struct mirror_config config;
    char prefix[STORE_KEY_SIZE + 1], directory[PATH_BYTES]; /* recordings with parts stand whole in directory + WHOLE */
    struct file *files;
    int64_t n_files, n_labels, n_bytes, capacity; /* the lister's, then constant */
    pthread_mutex_t lock;                         /* everything below */
    pthread_cond_t turned;
    struct mirror_progress progress;
    struct err err; /* of the first failed take */
    int taken;      /* files on their way to a taker, or with one */
    uint64_t drops; /* how often that became less */
    atomic_bool stop;
};

static int out_of_memory(const struct mirror *m, struct err *err) {
    return err_set(err, ERR_EXHAUSTED, "%s: out of memory listing %lld files", store_identity(m->config.store),
                   (long long)m->n_files);
}

static int add_file(struct mirror *m, const struct store_item *item, struct err *err) {
    if (m->n_files == MAX_FILES)
        return err_set(err, ERR_RANGE, "%s: more than %d files below '%s'; name a narrower prefix", store_identity(m->config.store),
                       MAX_FILES, m->prefix);
    if (!GROW(m->files, m->n_files, m->capacity))
        return out_of_memory(m, err);
    struct file *f = &m->files[m->n_files];
    struct store_item own = *item;
    if (!(own.key = strdup(item->key)))
        return out_of_memory(m, err);
    enum mirror_kind kind = m->config.rules->kind(item->key);
    *f = (struct file){.kind = kind, .recording = kind != MIRROR_LABEL, .n_parts = -1};
    m->n_files++; /* its key is freed with the others */
    m->n_bytes += item->size_bytes;
    return cached_object_init(&f->object, m->config.store, &own, err);
}

static bool go_on(void *ctx, int64_t done, int64_t total) {
    const struct mirror *m = ctx;
    (void)done;
    (void)total;
    return !atomic_load(&m->stop);
}

static struct cached_place place_of(struct mirror *m) {
    return (struct cached_place){.store = m->config.store, .cache = m->config.cache, .progress = go_on, .ctx = m};
}

/* The tree of whole files names a file. A link to its place in the cache stays right: the key decides the place. */
static int link_whole(const struct mirror *m, const char *key, const char *target, char path[CACHE_PATH_SIZE], struct err *err) {
    char fresh[PATH_BYTES];
    int rc;
    if (!str_format(path, CACHE_PATH_SIZE, "%s%s/%s", m->directory, WHOLE, key + strlen(m->prefix)) ||
        !str_format(fresh, sizeof fresh, "%s.%llx", path, (unsigned long long)(uintptr_t)&fresh))
        return err_set(err, ERR_RANGE, "%s: the path is too long", key);
    if ((rc = fsio_mkdirs_above(path, err)))
        return rc;
    (void)unlink(fresh);
    if (symlink(target, fresh) || rename(fresh, path))
        return err_errno(err, errno, "cannot link %s", path);
    return 0;
}

/* The parts of a recording that is listed alone. */
static int list_parts(struct mirror *m, const struct file *recording, struct err *err) {
    char path[CACHE_PATH_SIZE], names[MIRROR_PARTS][MIRROR_NAME_SIZE], key[STORE_KEY_SIZE];
    const struct store_watch watch = {.progress = go_on, .ctx = m};
    const struct cached_place place = place_of(m);
    const struct cached_object object = recording->object; /* the array may move */
    char target[CACHE_PATH_SIZE];
    int n = 0, rc = cached_fetch(&place, &object, target, err);
    if (rc)
        return rc;
    if (!(rc = link_whole(m, object.key, target, path, err)))
        rc = m->config.rules->parts(path, names, &n, err);
    cache_unpin(m->config.cache, object.cache_key);
    for (int i = 0; i < n && !rc; i++) {
        struct store_item item;
        if (str_format(key, sizeof key, "%s%s", m->prefix, names[i]) &&
            !(rc = store_stat(m->config.store, key, &item, &watch, err)))
            rc = add_file(m, &item, err);
        rc = rc == ERR_NOT_FOUND ? 0 : rc; /* its reader says so */
    }
    return rc;
}

/* The recording that the prefix is the key of; none is no error. */
static int list_one(struct mirror *m, struct err *err) {
    struct store_item item;
    const struct store_watch watch = {.progress = go_on, .ctx = m};
    int rc = store_stat(m->config.store, m->config.prefix, &item, &watch, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? 0 : rc;
    char *slash = strrchr(m->config.prefix, '/');
    str_format(m->prefix, sizeof m->prefix, "%.*s", slash ? (int)(slash + 1 - m->config.prefix) : 0, m->config.prefix);
    rc = add_file(m, &item, err);
    rc = rc || m->files[0].kind == MIRROR_RECORDING ? rc : list_parts(m, &m->files[0], err);
    LOCKED(&m->lock);
    m->progress.files = m->n_files;
    m->progress.bytes = m->n_bytes;
    return rc;
}

/* One page of the listing. */
/* What was taken so far. The parts of a recording stand beside it in the order of keys: so many for each recording are enough. */
struct taken {
    int64_t recordings, parts;
};

static int add_page(struct mirror *m, const struct store_page *page, struct taken *taken, struct err *err) {
    const int64_t most = m->config.max_recordings;
    for (size_t i = 0; i < page->count; i++) {
        enum mirror_kind kind = m->config.rules->kind(page->items[i].key);
        bool recording = kind == MIRROR_RECORDING || kind == MIRROR_HEADER, part = kind == MIRROR_EITHER || kind == MIRROR_PART;
        if (kind == MIRROR_OTHER ||
            (most && ((recording && taken->recordings >= most) || (part && taken->parts >= MIRROR_PARTS * most))))
            continue;
        taken->recordings += recording;
        taken->parts += part;
        int rc = add_file(m, &page->items[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

static size_t folder_bytes(const struct file *f) {
    const char *slash = strrchr(f->object.key, '/');
    return slash ? (size_t)(slash + 1 - f->object.key) : 0;
}

static int by_folder(const void *a, const void *b) {
    const struct file *x = *(struct file *const *)a, *y = *(struct file *const *)b;
    size_t n = folder_bytes(x), k = folder_bytes(y);
    int order = memcmp(x->object.key, y->object.key, n < k ? n : k);
    return order ? order : (n > k) - (n < k);
}

/* Leaves out parts in folders where no recording can have them. Returns how many recordings there may be. */
static int64_t drop_lone_parts(struct mirror *m, struct err *err) {
    int64_t recordings = 0, kept = 0;
    size_t n = 0;
    OWNED_MEMORY struct file **headers = malloc((size_t)(m->n_files + 1) * sizeof *headers);
    if (!headers)
        return out_of_memory(m, err);
    for (int64_t i = 0; i < m->n_files; i++) {
        enum mirror_kind kind = m->files[i].kind;
        recordings += kind == MIRROR_RECORDING || kind == MIRROR_HEADER || kind == MIRROR_EITHER;
        if (kind == MIRROR_HEADER || kind == MIRROR_EITHER)
            headers[n++] = &m->files[i];
    }
    SORT(headers, n, by_folder);
    OWNED_MEMORY bool *lone = calloc((size_t)m->n_files + 1, sizeof *lone);
    if (!lone)
        return out_of_memory(m, err);
    for (int64_t i = 0; i < m->n_files; i++) {
        const struct file *f = &m->files[i];
        lone[i] = f->kind == MIRROR_PART && !(n && bsearch(&f, headers, n, sizeof *headers, by_folder));
    }
    for (int64_t i = 0; i < m->n_files; i++) {
        if (!lone[i]) {
            m->files[kept++] = m->files[i];
            continue;
        }
        m->n_bytes -= m->files[i].object.bytes;
        free((void *)(uintptr_t)m->files[i].object.key);
    }
    m->n_files = kept;
    return recordings;
}

static int list_files(struct mirror *m, struct err *err) {
    char after[STORE_KEY_SIZE] = "";
    struct taken taken = {0};
    int64_t recordings;
    enum mirror_kind kind = m->config.rules->kind(m->config.prefix);
    bool alone = m->config.or_recording && (kind == MIRROR_RECORDING || kind == MIRROR_HEADER || kind == MIRROR_EITHER);
    int rc = alone ? list_one(m, err) : 0;
    if (rc || m->n_files)
        return rc;
    for (bool more = true; more;) {
        OWNED(store_page_done) struct store_page page = {0};
        if ((rc = store_list(m->config.store, m->prefix, after, &page, err)) || (rc = add_page(m, &page, &taken, err)))
            return rc;
        more = page.more && page.count;
        if (page.count)
            str_copy(after, sizeof after, page.items[page.count - 1].key);
        pthread_mutex_lock(&m->lock);
        m->progress.files = m->n_files;
        m->progress.bytes = m->n_bytes;
        pthread_mutex_unlock(&m->lock);
        if (atomic_load(&m->stop))
            return err_set(err, ERR_CANCELLED, "listing %s was cancelled", store_identity(m->config.store));
    }
    if ((recordings = drop_lone_parts(m, err)) < 0)
        return (int)recordings;
    if (!recordings)
        return err_set(err, ERR_NOT_FOUND, "%s has no *.edf or *.bdf or other recording below '%s'; correct data.source",
                       store_identity(m->config.store), m->prefix);
    return 0;
}

static int list_all(void *ctx, int64_t item, struct err *err) {
    (void)item;
    return list_files(ctx, err);
}

/* The object into the cache, pinned; path is where it stands. */
static int fetch(struct mirror *m, const struct file *f, char path[CACHE_PATH_SIZE], struct err *err) {
    const struct cached_place place = place_of(m);
    return cached_fetch(&place, &f->object, path, err);
}

static bool only_head(const struct mirror *m, const struct file *f) {
    return f->recording && m->config.head_bytes && f->object.bytes > (int64_t)m->config.head_bytes;
}

/* Under which key the start of a recording is kept. */
static bool head_key(const struct mirror *m, const struct file *f, char ret[DIGEST_HEX_SIZE]) {
    char text[DIGEST_HEX_SIZE + 40];
    str_format(text, sizeof text, "head %zu %s", m->config.head_bytes, f->object.cache_key);
    return digest_bytes(text, strlen(text), ret);
}

static int read_start(const char *path, size_t bytes, void *buf, struct err *err) {
    FILE *file = fopen(path, "rbe");
    if (!file)
        return err_errno(err, errno, "cannot open %s", path);
    bool whole = fread(buf, 1, bytes, file) == bytes;
    fclose(file);
    return whole ? 0 : err_set(err, ERR_DATA_LOSS, "%s has fewer than %zu bytes; delete it", path, bytes);
}

/* The first bytes of a recording: of the whole file, if that is in the cache, else of the object. */
static int read_head(struct mirror *m, const struct file *f, void *buf, struct err *err) {
    char path[CACHE_PATH_SIZE];
    const struct store_watch watch = {.progress = go_on, .ctx = m, .tag = f->object.tag};
    struct store_piece piece = {.buf = buf, .len = m->config.head_bytes};
    const struct cached_place place = place_of(m);
    if (cached_find(&place, &f->object, path)) {
        int rc = read_start(path, piece.len, buf, err);
        cache_unpin(m->config.cache, f->object.cache_key);
        return rc;
    }
    int rc = store_read(m->config.store, f->object.key, &piece, &watch, err);
    if (rc)
        return rc;
    if (piece.len != m->config.head_bytes)
        return err_set(err, ERR_ABORTED, "%s changed since it was listed; start the job again", f->object.key);
    return 0;
}

/* The start of a recording into the cache, pinned; path is where it stands. */
static int fetch_head(struct mirror *m, const struct file *f, char path[CACHE_PATH_SIZE], struct err *err) {
    char key[DIGEST_HEX_SIZE];
    struct cache_slot slot;
    int64_t bytes = 0;
    size_t wanted = m->config.head_bytes;
    if (!head_key(m, f, key))
        return out_of_memory(m, err);
    if (!cache_lookup(m->config.cache, key, path, NULL)) {
        if (!fsio_size(path, &bytes, NULL, NULL) && bytes == (int64_t)wanted)
            return 0;
        cache_discard(m->config.cache, key);
    }
    OWNED_MEMORY void *buf = malloc(wanted);
    int rc;
    if ((rc = buf ? read_head(m, f, buf, err) : out_of_memory(m, err)) ||
        (rc = cache_reserve(m->config.cache, key, (int64_t)wanted, &slot, err)))
        return rc;
    if ((rc = fsio_write_atomic(slot.path, buf, wanted, err))) {
        cache_abort(m->config.cache, &slot);
        return rc;
    }
    return cache_commit(m->config.cache, &slot, path, err);
}

static int link_file(const struct mirror *m, const struct file *f, const char *target, struct err *err) {
    char path[PATH_BYTES];
    int rc = fsio_join(path, sizeof path, m->directory, f->object.key + strlen(m->prefix), err);
    if (rc || (rc = fsio_mkdirs_above(path, err)))
        return rc;
    return symlink(target, path) ? err_errno(err, errno, "cannot link %s", path) : 0;
}

static int transfer_file(void *ctx, int64_t item, struct err *err) {
    struct mirror *m = ctx;
    struct file *f = &m->files[item];
    char target[CACHE_PATH_SIZE];
    int rc = only_head(m, f) ? fetch_head(m, f, target, err) : fetch(m, f, target, err);
    f->pinned = !rc;
    if (rc || (rc = link_file(m, f, target, err)))
        return rc;
    LOCKED(&m->lock);
    m->progress.done_files++;
    m->progress.done_bytes += f->object.bytes;
    return 0;
}

/* The first error ends the transfers of other files too. */
static bool stop_on_error(void *ctx, int64_t item, int rc) {
    struct mirror *m = ctx;
    (void)item;
    if (rc)
        atomic_store(&m->stop, true);
    return rc != 0;
}

struct mirror_watch {
    struct mirror *mirror;
    mirror_progress_fn *progress;
    void *ctx;
};

static bool report_progress(void *ctx, int64_t done, int64_t newest) {
    const struct mirror_watch *w = ctx;
    (void)done, (void)newest;
    pthread_mutex_lock(&w->mirror->lock);
    const struct mirror_progress p = w->mirror->progress;
    pthread_mutex_unlock(&w->mirror->lock);
    const bool wanted = w->progress(w->ctx, &p);
    if (!wanted)
        atomic_store(&w->mirror->stop, true);
    return wanted;
}

/* Has threads run n items. This thread reports their progress, so that it never waits for a server. */
static int drive(struct mirror *m, int (*run)(void *ctx, int64_t item, struct err *err), int64_t n, mirror_progress_fn *progress,
                 void *ctx, struct err *err) {
    const struct crew_work work = {.n = n, .threads = THREADS, .run = run, .finished = stop_on_error, .ctx = m};
    struct mirror_watch watch = {m, progress, ctx};
    OWNED_POINTER(crew_close) struct crew *crew = NULL;
    int rc = crew_start(&work, &crew, err);
    if (rc)
        return rc;
    if (!crew_follow(crew, report_progress, &watch))
        return err_set(err, ERR_CANCELLED, "fetching from %s was cancelled", store_identity(m->config.store));
    return crew_failure(crew, err);
}

/* Labels, which are small, first; recordings in order of their keys. */
ORDER_BY(by_kind, struct file, order_then(x->recording - y->recording, strcmp(x->object.key, y->object.key)))

static int transfer(struct mirror *m, mirror_progress_fn *progress, void *ctx, struct err *err) {
    SORT(m->files, m->n_files, by_kind);
    while (m->n_labels < m->n_files && !m->files[m->n_labels].recording)
        m->n_labels++;
    return drive(m, transfer_file, m->n_files, progress, ctx, err);
}

/* The tree, and that of whole recordings with parts beside it. */
static int remove_trees(const struct mirror *m, struct err *err) {
    char whole[PATH_BYTES];
    int rc = fsio_remove_tree(m->directory, err);
    return rc || !str_format(whole, sizeof whole, "%s%s", m->directory, WHOLE) ? rc : fsio_remove_tree(whole, err);
}

int mirror_open(const struct mirror_config *config, mirror_progress_fn *progress, void *ctx, struct mirror **ret, struct err *err) {
    struct mirror *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", config->prefix);
    m->config = *config;
    pthread_mutex_init(&m->lock, NULL);
    clock_cond_init(&m->turned);
    size_t len = strlen(config->prefix);
    while (len && config->prefix[len - 1] == '/')
        len--;
    bool fits = str_format(m->prefix, sizeof m->prefix, "%.*s%s", (int)len, config->prefix, len ? "/" : "");
    int rc;
    if ((rc = fits ? fsio_absolute(m->directory, sizeof m->directory, config->directory, err)
                   : err_set(err, ERR_RANGE, "%.100s…: the prefix is too long", config->prefix)) ||
        (rc = remove_trees(m, err)) || (rc = fsio_mkdirs(m->directory, err)) || (rc = drive(m, list_all, 1, progress, ctx, err)) ||
        (rc = transfer(m, progress, ctx, err)))
        mirror_close(m);
    else
        *ret = m;
    return rc;
}

void mirror_close(struct mirror *m) {
    if (!m)
        return;
    for (int64_t i = 0; i < m->n_files; i++) {
        const struct file *f = &m->files[i];
        char key[DIGEST_HEX_SIZE];
        if (f->pinned && !only_head(m, f))
            cache_unpin(m->config.cache, f->object.cache_key);
        else if (f->pinned && head_key(m, f, key))
            cache_unpin(m->config.cache, key);
        free((void *)(uintptr_t)f->object.key);
    }
    free(m->files);
    if (*m->directory)
        (void)remove_trees(m, NULL);
    pthread_cond_destroy(&m->turned);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

const char *mirror_directory(const struct mirror *m) { return m->directory; }

/* ---- whole recordings, one at a time ---- */

static struct file *find(const struct mirror *m, const char *path, struct err *err) {
    size_t len = strlen(m->directory);
    const char *relative = str_starts(path, m->directory) && path[len] == '/' ? path + len + 1 : NULL;
    int64_t low = m->n_labels, high = m->n_files;
    while (relative && low < high) {
        int64_t middle = (low + high) / 2;
        int order = strcmp(m->files[middle].object.key + strlen(m->prefix), relative);
        if (!order)
            return &m->files[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    err_set(err, ERR_NOT_FOUND, "%s is no recording of %s", path, store_identity(m->config.store));
    return NULL;
}

int mirror_stat(const struct mirror *m, const char *path, struct mirror_file *ret, struct err *err) {
    const struct file *f = find(m, path, err);
    if (!f)
        return ERR_NOT_FOUND;
    ret->bytes = f->object.bytes;
    ret->refetched = atomic_load(&f->refetched);
    str_copy(ret->version, sizeof ret->version, f->object.cache_key);
    return 0;
}

int64_t mirror_bytes(void *mirror, const char *path) {
    const struct file *f = find(mirror, path, NULL);
    return f ? f->object.bytes : -1;
}

static bool has_parts(const struct file *f) { return f->kind == MIRROR_HEADER || f->kind == MIRROR_EITHER; }

/* Finds the parts of a recording whose whole file is at path. After an error they are still unknown. */
static int find_parts(struct mirror *m, struct file *f, const char *path, struct err *err) {
    char names[MIRROR_PARTS][MIRROR_NAME_SIZE], place[PATH_BYTES];
    struct file *parts[MIRROR_PARTS];
    pthread_mutex_lock(&m->lock);
    const bool known = f->n_parts >= 0;
    pthread_mutex_unlock(&m->lock);
    int named, n = 0, rc = known ? 0 : m->config.rules->parts(path, names, &named, err);
    if (known || rc)
        return rc;
    for (int i = 0; i < named; i++) {
        struct file *part = str_format(place, sizeof place, "%s/%.*s%s", m->directory, (int)(folder_bytes(f) - strlen(m->prefix)),
                                       f->object.key + strlen(m->prefix), names[i])
                                ? find(m, place, NULL)
                                : NULL;
        if (part)
            parts[n++] = part;
    }
    LOCKED(&m->lock);
    if (f->n_parts < 0) { /* no other thread did; takers read them without the lock */
        memcpy(f->parts, parts, (size_t)n * sizeof *parts);
        f->n_parts = n;
    }
    return 0;
}

/* The whole file, pinned, and the parts of a recording with it; path is then where all of them stand under their names. */
static int fetch_with_parts(struct mirror *m, struct file *f, char path[CACHE_PATH_SIZE], struct err *err) {
    char target[CACHE_PATH_SIZE];
    int rc = fetch(m, f, target, err), n = 0;
    if (rc)
        return rc;
    str_copy(path, CACHE_PATH_SIZE, target);
    if (!has_parts(f))
        return 0;
    if (!(rc = link_whole(m, f->object.key, target, path, err)))
        rc = find_parts(m, f, path, err); /* under its own name, which may be part of theirs */
    while (!rc && n < f->n_parts) {
        char part[CACHE_PATH_SIZE];
        if (!(rc = fetch(m, f->parts[n], target, err)))
            rc = link_whole(m, f->parts[n++]->object.key, target, part, err);
    }
    if (rc == 0)
        return 0;
    while (n > 0)
        cache_unpin(m->config.cache, f->parts[--n]->object.cache_key);
    cache_unpin(m->config.cache, f->object.cache_key);
    return rc;
}

/* fetch_with_parts, which waits for other takers' room. */
static int fetch_in_turn(struct mirror *m, struct file *f, char path[CACHE_PATH_SIZE], struct err *err) {
    for (;;) {
        pthread_mutex_lock(&m->lock);
        uint64_t drops = m->drops;
        m->taken++;
        pthread_mutex_unlock(&m->lock);
        int rc = atomic_load(&m->stop) ? ERR_CANCELLED : fetch_with_parts(m, f, path, err);
        if (!rc)
            return 0;
        if (atomic_load(&m->stop))
            rc = err_set(err, ERR_CANCELLED, "fetching %s was cancelled", f->object.key);
        pthread_mutex_lock(&m->lock);
        m->taken--;
        m->drops += rc != ERR_EXHAUSTED; /* who found no room gives none back */
        pthread_cond_broadcast(&m->turned);
        while (rc == ERR_EXHAUSTED && m->taken && m->drops == drops && !atomic_load(&m->stop))
            pthread_cond_wait(&m->turned, &m->lock);
        bool again = rc == ERR_EXHAUSTED && (m->drops != drops || atomic_load(&m->stop));
        pthread_mutex_unlock(&m->lock);
        if (!again)
            return rc;
    }
}

/* The head begins as the whole file does from now on, whatever arrived before. */
static int check_head(struct mirror *m, struct file *f, struct file *recording, const char *path, struct err *err) {
    char key[DIGEST_HEX_SIZE], head_path[CACHE_PATH_SIZE];
    size_t n = m->config.head_bytes;
    if (!only_head(m, f))
        return 0;
    OWNED_MEMORY char *buf = malloc(2 * n);
    if (!buf || !head_key(m, f, key))
        return out_of_memory(m, err);
    int rc = cache_lookup(m->config.cache, key, head_path, err);
    if (rc)
        return rc;
    if (!(rc = read_start(head_path, n, buf, err)) && !(rc = read_start(path, n, buf + n, err)) && memcmp(buf, buf + n, n) != 0 &&
        !(rc = fsio_write_atomic(head_path, buf + n, n, err)))
        atomic_fetch_add(&recording->refetched, 1);
    cache_unpin(m->config.cache, key);
    return rc;
}

int mirror_take(struct mirror *m, const char *path, char *ret_path, struct err *err) {
    struct err why = {0};
    struct file *f = find(m, path, err);
    if (!f)
        return ERR_NOT_FOUND;
    int rc = fetch_in_turn(m, f, ret_path, &why);
    bool taken = !rc;
    rc = rc ? rc : check_head(m, f, f, ret_path, &why);
    for (int i = 0; !rc && has_parts(f) && i < f->n_parts; i++) {
        char part[CACHE_PATH_SIZE];
        str_format(part, sizeof part, "%s%s/%s", m->directory, WHOLE, f->parts[i]->object.key + strlen(m->prefix));
        rc = check_head(m, f->parts[i], f, part, &why);
    }
    if (taken && rc)
        mirror_drop(m, path);
    if (rc == ERR_ABORTED)
        err_wrap(&why, "%s was replaced after the job had listed it; submit the job again", f->object.key);
    pthread_mutex_lock(&m->lock);
    if (rc && rc != ERR_CANCELLED && !m->err.code)
        m->err = why;
    pthread_mutex_unlock(&m->lock);
    if (rc && err)
        *err = why;
    return rc;
}

void mirror_drop(struct mirror *m, const char *path) {
    const struct file *f = find(m, path, NULL);
    if (!f)
        return;
    for (int i = 0; has_parts(f) && i < f->n_parts; i++)
        cache_unpin(m->config.cache, f->parts[i]->object.cache_key);
    cache_unpin(m->config.cache, f->object.cache_key);
    LOCKED(&m->lock);
    m->taken--;
    m->drops++;
    pthread_cond_broadcast(&m->turned);
}

void mirror_stop(struct mirror *m) {
    LOCKED(&m->lock);
    atomic_store(&m->stop, true);
    pthread_cond_broadcast(&m->turned);
}

int mirror_failure(struct mirror *m, struct err *err) {
    LOCKED(&m->lock);
    int code = m->err.code;
    if (code && err)
        *err = m->err;
    return code;
}
