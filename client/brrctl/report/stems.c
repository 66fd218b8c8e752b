#include "client/brrctl/report/stems.h"

#include "base/needed.h"
#include "client/brrctl/report/score_files.h"
#include "eeg/tree.h"
#include "formats/letters.h"

enum { PATH_SIZE = 4096 };

struct item {
    char *path, *stem; /* whole path; below the root, as a key */
};

/* In one way of writing, by which stems are compared. */
static const char *stem_key(const char *stem, char buf[PATH_SIZE]) { return letters_apart(stem, buf, PATH_SIZE) ? buf : stem; }

struct stems {
    const char *root;
    bool (*wanted)(const char *path);
    void (*stranger)(const char *path);
    struct item *items;
    size_t n;
};

static int by_last_part(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    int order = strcmp(fsio_basename(x->stem), fsio_basename(y->stem));
    return order ? order : strcmp(x->stem, y->stem);
}

static void add(struct stems *s, const char *path, const char *relative) {
    char stem[PATH_SIZE], key[PATH_SIZE];
    if (tree_is_apple_double(path) || !s->wanted(path) || !score_stem(relative, stem, sizeof stem))
        return;
    if ((s->n & (s->n + 1)) == 0) /* room for 1, 3, 7, … doubles */
        s->items = needed(realloc(s->items, sizeof *s->items * (2 * s->n + 2)));
    s->items[s->n++] = (struct item){needed(strdup(path)), needed(strdup(stem_key(stem, key)))};
}

static int look(void *ctx, const struct fsio_found *found, struct err *err) {
    struct stems *s = ctx;
    char path[PATH_SIZE];
    if (found->absent || found->folder)
        return 0;
    int rc = fsio_join(path, sizeof path, s->root, found->path, err);
    if (rc)
        return rc;
    if (!found->special)
        add(s, path, found->path);
    else if (s->stranger && s->wanted(path))
        s->stranger(path);
    return 0;
}

void stems_say_stranger(const char *path) { fprintf(stderr, "brrctl: left out: %s is no file that can be read\n", path); }

int stems_read(const char *root, bool (*wanted)(const char *path), void (*stranger)(const char *path), struct stems **ret,
               struct err *err) {
    OWNED_POINTER(stems_free) struct stems *s = needed(calloc(1, sizeof *s));
    s->root = root;
    s->wanted = wanted;
    s->stranger = stranger;
    int rc = fsio_is_dir(root) ? fsio_walk_names(root, look, s, err) : 0;
    if (rc)
        return rc;
    if (!fsio_is_dir(root))
        add(s, root, fsio_basename(root));
    if (s->n)
        qsort(s->items, s->n, sizeof *s->items, by_last_part);
    *ret = s;
    s = NULL;
    return 0;
}

void stems_free(struct stems *s) {
    for (size_t i = 0; s && i < s->n; i++) {
        free(s->items[i].path);
        free(s->items[i].stem);
    }
    if (s)
        free(s->items);
    free(s);
}

size_t stems_count(const struct stems *s) { return s->n; }
const char *stems_at(const struct stems *s, size_t i) { return s->items[i].path; }

/* The first item with this last part, n when there is none. */
static size_t first_of(const struct stems *s, const char *last_part) {
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(fsio_basename(s->items[middle].stem), last_part) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n && !strcmp(fsio_basename(s->items[low].stem), last_part) ? low : s->n;
}

const char *stems_path(const struct stems *s, const char *wanted) {
    char key[PATH_SIZE];
    const char *stem = stem_key(wanted, key);
    for (size_t i = first_of(s, fsio_basename(stem)); i < s->n && !strcmp(fsio_basename(s->items[i].stem), fsio_basename(stem));
         i++)
        if (!strcmp(s->items[i].stem, stem))
            return s->items[i].path;
    return NULL;
}

/* Two different stems with the same last part. */
static const struct item *other_of(const struct stems *s, size_t first) {
    for (size_t i = first + 1; i < s->n && !strcmp(fsio_basename(s->items[i].stem), fsio_basename(s->items[first].stem)); i++)
        if (strcmp(s->items[i].stem, s->items[first].stem) != 0)
            return &s->items[i];
    return NULL;
}

int stems_check_alone(const struct stems *s, const char *stem, const char *where, struct err *err) {
    char key[PATH_SIZE];
    size_t first = first_of(s, fsio_basename(stem_key(stem, key)));
    const struct item *other = first < s->n ? other_of(s, first) : NULL;
    if (!other)
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s and %s have one name, and %s has no file of either path; give the folders that have the same paths",
                   s->items[first].stem, other->stem, where);
}

int stems_find(const struct stems *s, const char *last_part, const char **ret, struct err *err) {
    char key[PATH_SIZE];
    size_t first = first_of(s, stem_key(last_part, key));
    *ret = first < s->n ? s->items[first].path : NULL;
    const struct item *other = first < s->n ? other_of(s, first) : NULL;
    if (!other)
        return 0;
    return err_set(err, ERR_INVALID, "%s and %s both have the name %s; give the folders that have the same paths",
                   s->items[first].path, other->path, last_part);
}
