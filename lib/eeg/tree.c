#include "eeg/tree.h"

#include "base/counted.h"
#include "base/grow.h"
#include "base/order.h"
#include "formats/eegfile.h"
#include "formats/filebytes.h"
#include "store/digest.h"

enum { PATH_BYTES = 4096 };

struct name {
    struct tree_recording recording;
    char *patient;           /* malloc'd */
    bool link, lone, header; /* header: the recording's inode is that of its samples */
};

struct tree {
    const struct tree_config *config;
    struct name *names;
    size_t n, capacity;
    int64_t derivatives, unread; /* recordings below derivatives/; files of formats that are not read */
};

static void drop_from(struct tree *t, size_t kept) {
    for (size_t i = kept; i < t->n; i++) {
        free((void *)(uintptr_t)t->names[i].recording.path);
        free(t->names[i].patient);
    }
    t->n = kept;
}

static void tree_done(struct tree *t) {
    drop_from(t, 0);
    free(t->names);
}

__attribute__((format(printf, 2, 3))) static void note(const struct tree *t, const char *fmt, ...) {
    char text[2 * PATH_BYTES];
    if (!t->config->note)
        return;
    STR_ARGUMENTS(text, fmt);
    str_cut_utf8(text);
    t->config->note(t->config->ctx, text);
}

/* The first bytes of a file; their number. */
static size_t head_of(const char *path, char *buf, size_t size) {
    OWNED_FILE FILE *f = fopen(path, "rbe");
    return f ? fread(buf, 1, size, f) : 0;
}

bool tree_is_apple_double(const char *path) {
    char magic[4];
    return !strncmp(fsio_basename(path), "._", 2) && head_of(path, magic, sizeof magic) == 4 && !memcmp(magic, "\0\x05\x16\x07", 4);
}

bool tree_is_pointer(const char *path) { return filebytes_is_pointer(path); }

int tree_absent(const char *path, struct err *err) {
    return err_set(err, ERR_NOT_FOUND,
                   "%s: its content is not here; fetch it (datalad get, git annex get, git lfs pull), or remove the name", path);
}

/* True below a folder "derivatives". */
static bool is_derivative(const char *path) {
    for (const char *part = path, *slash; (slash = strchr(part, '/')); part = slash + 1)
        if (slash - part == 11 && !strncmp(part, "derivatives", 11))
            return true;
    return false;
}

/* Two headers on one file of samples are one recording. In a mirror that file may not be here yet. */
static void identify_samples(const struct tree *t, const char *path, struct name *name) {
    struct tree_recording *r = &name->recording;
    char samples[PATH_BYTES], hex[DIGEST_HEX_SIZE];
    struct stat st;
    const bool counts = !t->config->all_names || t->config->one_header;
    if (r->absent || !counts || !eegfile_samples_path(path, samples, sizeof samples))
        return;
    name->header = true;
    digest_bytes(samples, strlen(samples), hex);
    hex[15] = '\0';
    const bool here = !stat(samples, &st);
    r->device = here ? st.st_dev : UINT64_MAX; /* of no file system */
    r->inode = here ? st.st_ino : strtoull(hex, NULL, 16);
}

static int add_name(struct tree *t, const char *path, const struct fsio_found *found, bool absent, struct err *err) {
    char patient[PATH_BYTES];
    bool lone = false;
    int rc = patient_rule_or_name(t->config->patient_by, t->config->patient, found->path,
                                  &(struct patient_name){patient, sizeof patient, &lone}, err);
    if (rc)
        return rc;
    if (!GROW(t->names, t->n, t->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu recordings", t->capacity);
    struct name *name = &t->names[t->n];
    *name = (struct name){.recording = {strdup(found->path), found->device, found->inode, absent},
                          .patient = strdup(patient),
                          .link = found->link,
                          .lone = lone};
    t->n++;
    identify_samples(t, path, name);
    return name->recording.path && name->patient ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %zu recordings", t->n);
}

static int look(void *ctx, const struct fsio_found *found, struct err *err) {
    struct tree *t = ctx;
    char path[PATH_BYTES];
    if (found->special && eegfile_kind(found->path) == EEGFILE_RECORDING)
        note(t, "%s is left out: it is a FIFO, a socket or a device, and no file", found->path);
    if (found->special)
        return 0;
    if (found->folder)
        note(t, "%s is a link to a folder, which is not followed", found->path);
    enum eegfile_kind kind = found->folder ? EEGFILE_NONE : eegfile_kind(found->path);
    const char *unread = found->folder || kind ? NULL : eegfile_unread(found->path);
    if (unread && !t->unread++)
        note(t, "%s is %s", found->path, unread);
    if (kind != EEGFILE_RECORDING && kind != EEGFILE_EITHER)
        return 0;
    int rc = fsio_join(path, sizeof path, t->config->root, found->path, err);
    if (rc || (kind == EEGFILE_EITHER && !eegfile_named(path)))
        return rc;
    if (is_derivative(found->path)) {
        t->derivatives++;
        return 0;
    }
    if (!found->absent && tree_is_apple_double(path))
        return 0;
    return add_name(t, path, found, found->absent || (filebytes_is_pointer(path)), err);
}

/* Names of one file stand together, the best first. */
static int by_file(const void *a, const void *b) {
    const struct name *x = a, *y = b;
    const struct tree_recording *p = &x->recording, *q = &y->recording;
    int order = order_then(p->absent - q->absent, (p->device > q->device) - (p->device < q->device));
    order = order_then(order, (p->inode > q->inode) - (p->inode < q->inode));
    order = order_then(order, x->lone - y->lone);
    order = order_then(order, x->link - y->link);
    return order_then(order, strcmp(p->path, q->path));
}

ORDER_BY(by_path, struct name, strcmp(x->recording.path, y->recording.path))

static bool same_file(const struct tree_recording *a, const struct tree_recording *b) {
    return !a->absent && !b->absent && a->device == b->device && a->inode == b->inode;
}

/* Keeps the best name of each file. */
static int keep_one_name(struct tree *t, struct err *err) {
    size_t kept = 0;
    SORT(t->names, t->n, by_file);
    for (size_t i = 0; i < t->n; i++) {
        struct name *name = &t->names[i], *best = kept ? &t->names[kept - 1] : NULL;
        const bool counts = !t->config->all_names || (best && best->header && name->header);
        if (!best || !counts || !same_file(&best->recording, &name->recording)) {
            struct name moved = *name;
            *name = t->names[kept];
            t->names[kept++] = moved;
            continue;
        }
        if (!name->lone && strcmp(best->patient, name->patient) != 0)
            return err_set(err, ERR_INVALID, "%s and %s are one file under two patients (%s, %s); remove one of them",
                           best->recording.path, name->recording.path, best->patient, name->patient);
        note(t, "%s and %s are one file: it is one recording", best->recording.path, name->recording.path);
    }
    drop_from(t, kept);
    return 0;
}

static bool is_edf(const char *path) { return str_ends_nocase(path, ".edf") || str_ends_nocase(path, ".bdf"); }

/* Names that differ in their endings alone stand together, EDF and BDF first. */
static int by_stem(const void *a, const void *b) {
    const char *p = ((const struct name *)a)->recording.path, *q = ((const struct name *)b)->recording.path;
    const size_t m = eegfile_stem(p, false), n = eegfile_stem(q, false);
    int order = strncmp(p, q, m < n ? m : n);
    order = order_then(order, (m > n) - (m < n));
    order = order_then(order, is_edf(q) - is_edf(p));
    return order_then(order, strcmp(p, q));
}

/* A recording that is there in two formats would teach and count twice. EDF beside BDF stays two recordings. */
static void keep_one_format(struct tree *t) {
    size_t kept = 0;
    SORT(t->names, t->n, by_stem);
    for (size_t i = 0; i < t->n; i++) {
        struct name *name = &t->names[i], *first = kept ? &t->names[kept - 1] : NULL;
        const char *path = name->recording.path, *other = first ? first->recording.path : "";
        const size_t stem = eegfile_stem(path, false);
        if (stem == eegfile_stem(other, false) && !strncmp(path, other, stem) && !is_edf(path)) {
            note(t, "%s is left out: %s is the same recording in another format", path, other);
            continue;
        }
        struct name moved = *name;
        *name = t->names[kept];
        t->names[kept++] = moved;
    }
    drop_from(t, kept);
}

int tree_walk(const struct tree_config *config, tree_visit_fn *visit, struct err *err) {
    OWNED(tree_done) struct tree t = {.config = config};
    int rc = fsio_walk_names(config->root, look, &t, err);
    if (rc || (t.n && (!config->all_names || config->one_header) && (rc = keep_one_name(&t, err))))
        return rc;
    if (t.n)
        keep_one_format(&t);
    if (t.unread > 1)
        note(&t, "%s of formats that are not read", counted(t.unread, "file").text);
    if (t.derivatives)
        note(&t, "%s below derivatives/ left out: name that folder itself to read it", counted(t.derivatives, "recording").text);
    SORT(t.names, t.n, by_path);
    for (size_t i = 0; i < t.n; i++)
        if ((rc = visit(config->ctx, &t.names[i].recording, err)))
            return rc;
    return 0;
}
