#include "windows/manifest.h"

#include "base/arena.h"
#include "base/crew.h"
#include "base/grow.h"
#include "base/order.h"
#include "eeg/labels.h"
#include "eeg/tree.h"
#include "formats/eegfile.h"
#include "store/digest.h"
#include "store/mirror.h"
#include "windows/manifest_index.h"
#include "windows/recording.h"

enum { TEXT_MAX_BYTES = 1 << 30, PATH_BYTES = 4096, HEAD_BYTES = 16 << 10 };

struct manifest {
    struct arena text; /* paths, patients, error texts; only the opening thread allocates */
    struct manifest_entry *entries;
    int64_t count, capacity, limit;
    enum labels_patient_rule patient_rule;
    struct patient_rule *patient_by; /* NULL: none */
    int64_t window, hop;
    int inputs;
    bool raw;
    char hash[DIGEST_HEX_SIZE];
    struct manifest *parts[MANIFEST_MAX_SOURCES]; /* one for each source, which own the recordings */
    struct manifest_source sources[MANIFEST_MAX_SOURCES];
    int n_sources; /* 0: the recordings are this manifest's own */
};

/* State of manifest_open that its crew of threads shares. */
struct opening {
    const struct manifest_config *config;
    struct manifest *manifest;
    struct crew *crew; /* an item for each entry */
    manifest_progress_fn *progress;
    void *ctx;
    const struct manifest_index *index;
    struct manifest_identity *identities; /* (count) */
    _Atomic int64_t known;                /* entries that the index had */
};

static void note_left_out(void *ctx, const char *text) {
    const struct opening *o = ctx;
    o->config->note(o->ctx, text);
}

static int collect(void *ctx, const struct tree_recording *recording, struct err *err) {
    struct manifest *m = ((struct opening *)ctx)->manifest;
    const char *relative_path = recording->path;
    if (m->limit && m->count == m->limit)
        return 0;
    if (m->count == MANIFEST_MAX_FILES)
        return err_set(err, ERR_EXHAUSTED, "more than %d recordings; split the data into several sources", MANIFEST_MAX_FILES);
    if (!GROW(m->entries, m->count, m->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)m->capacity);
    char patient[PATH_BYTES];
    bool lone = false;
    int rc = patient_rule_or_name(m->patient_by, m->patient_rule, relative_path,
                                  &(struct patient_name){patient, sizeof patient, &lone}, err);
    if (rc)
        return rc;
    struct manifest_entry *e = &m->entries[m->count++];
    *e = (struct manifest_entry){.relative_path = arena_strdup(&m->text, relative_path),
                                 .patient = arena_strdup(&m->text, patient),
                                 .lone = lone,
                                 SAME_MEMBERS(*recording, device, inode),
                                 .split = labels_split(relative_path)};
    e->own_patient = e->patient;
    return e->relative_path && e->patient ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the list of recordings");
}

struct window_count manifest_count_window(const struct recording_info *info, int64_t start, int64_t window) {
    struct window_count count = {.class = WINDOW_NONE};
    const int64_t there = window_valid(info->segments, info->n_segments, start, window);
    count.valid = there - window_overlap(info->unknown, info->n_unknown, start, there);
    count.seizure = window_overlap(info->seizures, info->n_seizures, start, there);
    if (count.seizure > 0)
        count.class = (double)count.seizure >= 0.99 * (double)count.valid ? WINDOW_FULL : WINDOW_PARTIAL;
    return count;
}

static int count_windows(struct manifest_entry *e, int64_t window, int64_t hop, struct err *err) {
    struct recording_info info;
    recording_info(e->recording, &info);
    int64_t n = window_grid(info.segments, info.n_segments, window, hop, NULL);
    OWNED_MEMORY int64_t *starts = malloc(sizeof *starts * (size_t)(n + 1));
    if (!starts)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld windows", (long long)n);
    window_grid(info.segments, info.n_segments, window, hop, starts);
    for (int64_t i = 0; i < n; i++) {
        struct window_count count = manifest_count_window(&info, starts[i], window);
        if (2 * count.valid >= window)
            e->windows[count.class]++;
    }
    return 0;
}

/* A mirror's recording is told by its version and by how it begins: facts of a head that was damaged do not hold for
 * the one that took its place. 60 bits of a checksum stand for the time. */
static int identify_mirrored(const struct manifest_config *c, const char *path, struct manifest_identity *ret, struct err *err) {
    struct mirror_file file;
    char hex[DIGEST_HEX_SIZE];
    OWNED_FILE FILE *start = NULL;
    OWNED_MEMORY char *head = NULL;
    int rc;
    if ((rc = mirror_stat(c->mirror, path, &file, err)))
        return rc;
    head = malloc(HEAD_BYTES);
    start = head ? fopen(path, "rbe") : NULL;
    struct digest *digest = start ? digest_new() : NULL;
    if (digest) {
        digest_update(digest, file.version, strlen(file.version));
        digest_update(digest, head, fread(head, 1, HEAD_BYTES, start));
    }
    if (!digest_finish(digest, hex))
        return err_set(err, ERR_INTERNAL, "%s: its beginning cannot be read", path);
    hex[15] = '\0';
    ret->size_bytes = file.bytes;
    ret->mtime_ns = (int64_t)strtoll(hex, NULL, 16);
    return 0;
}

/* The stamp that tells a changed file from an unchanged one. */
static int identify(const struct manifest_config *c, const char *path, struct manifest_identity *ret, struct err *err) {
    struct window_stamp parts;
    int rc = c->mirror ? identify_mirrored(c, path, ret, err) : fsio_size(path, &ret->size_bytes, &ret->mtime_ns, err);
    if (rc)
        return rc;
    if (eegfile_has_parts(path) && !(rc = window_stamp_parts(c->mirror, path, path, &parts, err))) {
        parts.hex[15] = '\0'; /* 60 bits of a checksum beside the time */
        ret->mtime_ns ^= (int64_t)strtoll(parts.hex, NULL, 16);
    }
    if (rc && !eegfile_is_bad_content(rc)) /* its reader says so */
        return rc;
    return labels_stamp(path, c->labels ? c->labels : "auto", ret->labels, err);
}

static int check_times(const struct manifest_entry *e, struct err *err) {
    struct recording_info info;
    const char *name = fsio_basename(e->relative_path);
    recording_info(e->recording, &info);
    if (info.samples < 1 || !info.n_segments || !(info.duration_s > 0))
        return err_set(err, ERR_INVALID, "%s: there are no samples: the recording was aborted, or its header is damaged", name);
    if (info.duration_s > MANIFEST_MAX_S)
        return err_set(err, ERR_INVALID, "%s: it lasts %.0f days by its clock; expected at most %d", name, info.duration_s / 86400,
                       MANIFEST_MAX_S / 86400);
    for (int i = 1; i < info.n_segments; i++) {
        double gap_s = (double)(info.segments[i].first - info.segments[i - 1].end) / FRONTEND_RATE_HZ;
        if (gap_s > MANIFEST_MAX_GAP_S)
            return err_set(err, ERR_INVALID, "%s: a gap of %.0f days at %.0f s by its clock; expected at most %d", name,
                           gap_s / 86400, (double)info.segments[i - 1].end / FRONTEND_RATE_HZ, MANIFEST_MAX_GAP_S / 86400);
    }
    return 0;
}

/* Fills one entry from the index, or from its header and labels. Its samples are not read. */
static int fill_entry(struct opening *o, int64_t i, struct err *err) {
    const struct manifest_config *c = o->config;
    struct manifest_entry *e = &o->manifest->entries[i];
    struct manifest_identity *identity = &o->identities[i];
    char recording_path[PATH_BYTES];
    struct window_build request = {.recording_path = recording_path,
                                   SAME_MEMBERS(*c, mirror, cache_dir, cache, frontend, labels, unlabeled, hole_every_s, rebuild)};
    int rc = fsio_join(recording_path, sizeof recording_path, c->root, e->relative_path, err);
    if (rc)
        return rc;
    if (!c->mirror && (!fsio_exists(recording_path) || tree_is_pointer(recording_path)))
        return tree_absent(fsio_basename(e->relative_path), err);
    if ((rc = identify(c, recording_path, identity, err)))
        return rc;
    const struct recording_facts *facts = manifest_index_find(o->index, e->relative_path, identity, &e->skipped);
    atomic_fetch_add(&o->known, facts != NULL);
    if (!facts)
        rc = window_plan(&request, &e->recording, &e->skipped, err);
    else if (!e->skipped)
        rc = window_replan(&request, facts, &e->recording, err);
    if (rc || e->skipped || (rc = check_times(e, err)))
        return rc;
    return count_windows(e, c->window, c->hop, err);
}

static int open_entry(void *ctx, int64_t i, struct err *err) {
    struct opening *o = ctx;
    struct manifest_entry *e = &o->manifest->entries[i];
    int rc = fill_entry(o, i, err);
    if (rc) {
        recording_close(e->recording);
        e->recording = NULL;
    }
    return rc;
}

static bool ends_opening(void *ctx, int64_t i, int rc) {
    const struct manifest_config *c = ((struct opening *)ctx)->config;
    (void)i;
    return rc && (c->fail_on_bad_file || (c->mirror && mirror_failure(c->mirror, NULL)));
}

static bool report_progress(void *ctx, int64_t done, int64_t newest) {
    const struct opening *o = ctx;
    const struct manifest *m = o->manifest;
    return !o->progress || o->progress(o->ctx, done, m->count, m->entries[newest].relative_path);
}

static int open_entries(struct opening *o, struct err *err) {
    const struct crew_work work = {
        .n = o->manifest->count, .threads = o->config->workers, .run = open_entry, .finished = ends_opening, .ctx = o};
    int rc = crew_start(&work, &o->crew, err);
    if (rc)
        return rc;
    if (!crew_follow(o->crew, report_progress, o))
        return err_set(err, ERR_CANCELLED, "opening the data was stopped after %lld of %lld recordings",
                       (long long)crew_done(o->crew), (long long)o->manifest->count);
    return o->config->mirror ? mirror_failure(o->config->mirror, err) : 0;
}

/* The hash, the channel count, and the texts of the bad files. */
static int finish(struct manifest *m, struct opening *o, struct err *err) {
    const char **keys = calloc((size_t)m->count + 1, sizeof *keys);
    int64_t n = 0;
    char text[800];
    struct err bad;
    if (!keys)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld cache keys", (long long)m->count);
    for (int64_t i = 0; i < m->count; i++) {
        struct manifest_entry *e = &m->entries[i];
        if (crew_result(o->crew, i, &bad))
            e->error = arena_strdup(&m->text, err_text(&bad, text, sizeof text));
        if (e->recording)
            keys[n++] = recording_key(e->recording);
    }
    SORT(keys, n, order_strings);
    struct digest *digest = digest_new();
    if (digest) {
        for (int64_t i = 0; i < n; i++)
            digest_update(digest, keys[i], strlen(keys[i]));
        digest_finish(digest, m->hash);
    }
    free(keys);
    return digest ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the manifest's hash");
}

/* Looks at every entry, and writes down what the index did not have. */
static int look_at_all(struct opening *o, struct err *err) {
    OWNED_POINTER(manifest_index_close) struct manifest_index *index = NULL;
    int rc;
    if ((rc = manifest_index_open(o->config, &index, err)))
        return rc;
    o->index = index;
    if ((rc = open_entries(o, err)))
        return rc;
    int64_t usable = 0;
    for (int64_t i = 0; i < o->manifest->count; i++)
        usable += o->manifest->entries[i].recording || o->manifest->entries[i].skipped;
    if (usable == o->known && usable == manifest_index_count(index))
        return 0;
    return manifest_index_write(index, &(struct manifest_index_content){o->manifest->entries, o->identities, o->manifest->count},
                                err);
}

static int open_all(struct manifest *m, const struct manifest_config *c, manifest_progress_fn *progress, void *ctx,
                    struct err *err) {
    struct opening o = {.config = c, .manifest = m, .progress = progress, .ctx = ctx};
    const bool objects = c->mirror != NULL; /* each name of a mirror is an object of its own */
    const struct tree_config tree = {SAME_MEMBERS(*c, root, patient),
                                     .patient_by = m->patient_by,
                                     .all_names = objects,
                                     .one_header = objects,
                                     .note = c->note ? note_left_out : NULL,
                                     .ctx = &o};
    int rc = tree_walk(&tree, collect, err);
    if (rc)
        return rc;
    if (m->count == 0)
        return err_set(err, ERR_NOT_FOUND, "no *.edf or *.bdf file or other recording below %s", c->root);
    OWNED_MEMORY struct manifest_identity *identities = o.identities = calloc((size_t)m->count, sizeof *o.identities);
    if (!identities)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)m->count);
    rc = look_at_all(&o, err);
    for (int64_t i = 0; i < m->count && c->fail_on_bad_file && !rc; i++)
        rc = crew_result(o.crew, i, err);
    if (!rc)
        rc = finish(m, &o, err);
    crew_close(o.crew);
    return rc;
}

/* Reads all recordings; at least one must be usable. */
static int open_usable(struct manifest *m, const struct manifest_config *c, manifest_progress_fn *progress, void *ctx,
                       struct err *err) {
    int channels = 0, rc;
    if ((rc = montage_channels(c->frontend.montage, NULL, &channels, err)))
        return rc;
    m->inputs = frontend_inputs(c->frontend.normalize, channels);
    m->raw = c->frontend.normalize != FRONTEND_WINDOW;
    if ((rc = open_all(m, c, progress, ctx, err)))
        return rc;
    for (int64_t i = 0; i < m->count; i++)
        if (m->entries[i].recording)
            return 0;
    char bad[500];
    if (manifest_describe_bad(m, 2, bad, sizeof bad))
        return err_set(err, ERR_PRECONDITION, "%s", bad);
    return err_set(err, ERR_PRECONDITION, "all %lld recordings below %s are unlabelled and skipped", (long long)m->count, c->root);
}

static int open_one(const struct manifest_config *config, manifest_progress_fn *progress, void *ctx, struct manifest **ret,
                    struct err *err); /* a source, or all of them */

/* ---- several sources ---- */

static int open_part(struct manifest *m, const struct manifest_config *config, int i, manifest_progress_fn *progress, void *ctx,
                     struct err *err) {
    const struct manifest_source *source = &config->sources[i];
    struct manifest_config part = *config;
    m->sources[i] = *source;
    m->sources[i].name = arena_strdup(&m->text, source->name);
    if (!m->sources[i].name)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the sources");
    COPY_MEMBERS(part, *source, root, mirror);
    part.n_sources = 0;
    int rc = open_one(&part, progress, ctx, &m->parts[i], err);
    return rc ? err_wrap(err, "data.source %s", source->name) : 0;
}

/* The entries of one source under its name. */
static int join_part(struct manifest *m, int i, struct err *err) {
    const struct manifest *part = m->parts[i];
    const char *name = m->sources[i].name;
    for (int64_t k = 0; k < part->count; k++) {
        struct manifest_entry *e = &m->entries[m->count++];
        *e = part->entries[k];
        e->source = i;
        e->relative_path = arena_printf(&m->text, "%s/%s", name, e->relative_path);
        e->patient = arena_printf(&m->text, "%s/%s", name, e->own_patient);
        if (e->error)
            e->error = arena_printf(&m->text, "%s/%s", name, e->error);
        if (!e->relative_path || !e->patient || (part->entries[k].error && !e->error))
            return err_set(err, ERR_EXHAUSTED, "out of memory for the list of recordings");
    }
    return 0;
}

ORDER_BY(by_path, struct manifest_entry, strcmp(x->relative_path, y->relative_path))

static int by_inode(const void *a, const void *b) {
    const struct manifest_entry *x = a, *y = b;
    int order = order_then((x->device > y->device) - (x->device < y->device), (x->inode > y->inode) - (x->inode < y->inode));
    return order_then(order, by_path(a, b));
}

/* A file of two sources would have two patients. Entries are in the order of their files. */
static int check_sources(const struct manifest *m, struct err *err) {
    for (int64_t i = 1; i < m->count; i++) {
        const struct manifest_entry *a = &m->entries[i - 1], *b = &m->entries[i];
        if (a->recording && b->recording && a->source != b->source && a->inode && a->inode == b->inode && a->device == b->device)
            return err_set(err, ERR_INVALID, "%s and %s are one file in two sources; take it out of one of them", a->relative_path,
                           b->relative_path);
    }
    return 0;
}

static int hash_parts(struct manifest *m, struct err *err) {
    struct digest *digest = digest_new();
    for (int i = 0; digest && i < m->n_sources; i++) {
        digest_update(digest, m->sources[i].name, strlen(m->sources[i].name) + 1);
        digest_update(digest, m->parts[i]->hash, strlen(m->parts[i]->hash));
    }
    return digest_finish(digest, m->hash) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the manifest's hash");
}

static int open_sources(struct manifest *m, const struct manifest_config *config, manifest_progress_fn *progress, void *ctx,
                        struct err *err) {
    int64_t total = 0;
    int rc = 0;
    for (m->n_sources = 0; m->n_sources < config->n_sources; m->n_sources++) {
        if ((rc = open_part(m, config, m->n_sources, progress, ctx, err)))
            return rc;
        total += m->parts[m->n_sources]->count;
    }
    COPY_MEMBERS(*m, *m->parts[0], inputs, raw);
    m->entries = calloc((size_t)total + 1, sizeof *m->entries);
    if (!m->entries)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)total);
    for (int i = 0; i < m->n_sources && !rc; i++)
        rc = join_part(m, i, err);
    if (rc)
        return rc;
    SORT(m->entries, m->count, by_inode);
    if ((rc = check_sources(m, err)))
        return rc;
    SORT(m->entries, m->count, by_path); /* manifest_find's order */
    return hash_parts(m, err);
}

int manifest_sources(const struct manifest *m, const struct manifest_source **ret) {
    *ret = m->n_sources ? m->sources : NULL;
    return m->n_sources ? m->n_sources : 1;
}

int manifest_open(const struct manifest_config *config, manifest_progress_fn *progress, void *ctx, struct manifest **ret,
                  struct err *err) {
    if (config->window < 1 || config->hop < 1 || config->workers < 1 || config->workers > MANIFEST_MAX_WORKERS)
        return err_set(err, ERR_INVALID, "window %lld, hop %lld, %d workers; expected windows and hops ≥ 1 and 1..%d workers",
                       (long long)config->window, (long long)config->hop, config->workers, MANIFEST_MAX_WORKERS);
    if (config->n_sources > MANIFEST_MAX_SOURCES)
        return err_set(err, ERR_INVALID, "%d sources; expected at most %d", config->n_sources, MANIFEST_MAX_SOURCES);
    return open_one(config, progress, ctx, ret, err);
}

static int open_one(const struct manifest_config *config, manifest_progress_fn *progress, void *ctx, struct manifest **ret,
                    struct err *err) {
    struct manifest *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a manifest");
    arena_init(&m->text, TEXT_MAX_BYTES);
    COPY_MEMBERS(*m, *config, window, hop);
    m->limit = config->max_files;
    m->patient_rule = config->patient;
    int rc = config->patient_by ? patient_rule_open(config->patient_by, &m->patient_by, err) : 0;
    if (rc) {
        manifest_close(m);
        return rc;
    }
    rc = config->n_sources ? open_sources(m, config, progress, ctx, err) : open_usable(m, config, progress, ctx, err);
    if (rc)
        manifest_close(m);
    else
        *ret = m;
    return rc;
}

void manifest_close(struct manifest *m) {
    if (!m)
        return;
    for (int64_t i = 0; i < m->count && !m->n_sources; i++)
        recording_close(m->entries[i].recording);
    for (int i = 0; i < MANIFEST_MAX_SOURCES; i++)
        manifest_close(m->parts[i]);
    free(m->entries);
    patient_rule_free(m->patient_by);
    arena_done(&m->text);
    free(m);
}

int64_t manifest_count(const struct manifest *m) { return m->count; }

const struct manifest_entry *manifest_entry(const struct manifest *m, int64_t index) { return &m->entries[index]; }

/* Entries are in order of their paths. */
int64_t manifest_find(const struct manifest *m, const char *relative_path) {
    int64_t low = 0, high = manifest_count(m);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(manifest_entry(m, middle)->relative_path, relative_path);
        if (!order)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

const char *manifest_hash(const struct manifest *m) { return m->hash; }

int manifest_hide(struct manifest *m, int64_t index, const struct window_span *spans, int n, struct err *err) {
    struct manifest_entry *e = &m->entries[index];
    int rc = recording_hide(e->recording, spans, n, err);
    memset(e->windows, 0, sizeof e->windows);
    return rc ? rc : count_windows(e, m->window, m->hop, err);
}

void manifest_grid(const struct manifest *m, int64_t *ret_window, int64_t *ret_hop) {
    *ret_window = m->window;
    *ret_hop = m->hop;
}

int manifest_inputs(const struct manifest *m) { return m->inputs; }

bool manifest_raw(const struct manifest *m) { return m->raw; }

/* The recording's name up to "_eeg.edf" or ".edf", which also begins the names of its label files; returns its length. */
static size_t stem_of(const char *relative_path, const char **ret) {
    *ret = fsio_basename(relative_path);
    return eegfile_stem(*ret, true);
}

/* True if the errors of two recordings differ only by their names. */
static bool same_error(const struct manifest_entry *a, const struct manifest_entry *b) {
    const char *x = a->error, *y = b->error, *a_stem, *b_stem;
    size_t n = stem_of(a->relative_path, &a_stem), m = stem_of(b->relative_path, &b_stem);
    while (*x && *y) {
        bool names = n && m && !strncmp(x, a_stem, n) && !strncmp(y, b_stem, m);
        if (!names && *x != *y)
            return false;
        x += names ? n : 1;
        y += names ? m : 1;
    }
    return *x == *y;
}

int64_t manifest_describe_bad(const struct manifest *m, int most, char *buf, unsigned long size) {
    enum { MOST = 8 };
    const struct manifest_entry *first[MOST];
    int64_t count[MOST] = {0}, bad = 0, others = 0;
    OWNED(str_done) struct str text = str_of(size ? size - 1 : 0);
    int n = 0;
    most = most < MOST ? most : MOST;
    for (int64_t i = 0; i < m->count; i++) {
        const struct manifest_entry *e = &m->entries[i];
        int k = 0;
        if (!e->error)
            continue;
        bad++;
        while (k < n && !same_error(first[k], e))
            k++;
        if (k == n && n < most)
            first[n++] = e;
        others += k == most;
        if (k < n)
            count[k]++;
    }
    if (bad)
        str_printf(&text, "%lld of %lld recordings cannot be used", (long long)bad, (long long)m->count);
    for (int k = 0; k < n; k++) {
        str_printf(&text, "%s %s", k ? ";" : ":", first[k]->error);
        if (count[k] > 1)
            str_printf(&text, " and %lld more for the same reason", (long long)count[k] - 1);
    }
    if (others)
        str_printf(&text, "; %lld for other reasons", (long long)others);
    if (size)
        str_copy(buf, size, str_cstr(&text));
    return bad;
}
