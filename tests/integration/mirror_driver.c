/* What a daemon does with a bucket, without the daemon, to be killed at any moment: mirrors prefixes into a tree over a cache, one
 * after the other, looks at every file of the tree while it is pinned, and tells.
 *
 *     mirror_driver URL ENDPOINT DIRECTORY MAX_BYTES PREFIX…
 *
 * Objects begin with the SHA-256 of the rest, as 64 hex digits. Prints "PREFIX FILES" for each prefix that is whole; exit 1 with a
 * line on stderr when a mirror fails, 3 when a file is torn. With MIRROR_LOOK=0 in the environment files are counted only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/str.h"
#include "store/mirror.h"
#include "windows/mirrored.h"

struct look {
    const char *dir;
    int files;
};

static bool go_on(void *ctx, const struct mirror_progress *p) {
    (void)ctx, (void)p;
    return true;
}

static int look_at(void *ctx, const char *relative, int64_t size, struct err *err) {
    struct look *l = ctx;
    const char *wanted = getenv("MIRROR_LOOK");
    char path[8192], hex[DIGEST_HEX_SIZE], *data = NULL;
    size_t len = 0;
    (void)size;
    l->files++;
    if (wanted && !strcmp(wanted, "0"))
        return 0;
    str_format(path, sizeof path, "%s/%s", l->dir, relative);
    int rc = fsio_read(path, 1u << 30, &data, &len, err);
    if (!rc && (len < 64 || !digest_bytes(data + 64, len - 64, hex) || strncmp(data, hex, 64) != 0))
        rc = err_set(err, ERR_DATA_LOSS, "%s is torn", path);
    free(data);
    return rc;
}

static int run(char **argv, const char *prefix, struct store *store, struct cache *cache, struct err *err) {
    char tree[4096];
    struct mirror *mirror = NULL;
    str_format(tree, sizeof tree, "%s/tree", argv[3]);
    struct look look = {.dir = tree};
    struct cache_stats stats;
    const struct mirror_config config = {
        .rules = &mirrored_recordings, .store = store, .cache = cache, .prefix = prefix, .directory = tree};
    int rc = mirror_open(&config, go_on, NULL, &mirror, err);
    if (!rc)
        rc = fsio_walk(tree, look_at, &look, err);
    cache_stats(cache, &stats);
    if (!rc && stats.used_bytes > stats.capacity_bytes)
        rc = err_set(err, ERR_DATA_LOSS, "the cache holds %lld bytes", (long long)stats.used_bytes);
    if (!rc) {
        printf("%s %d\n", prefix, look.files);
        fflush(stdout);
    }
    mirror_close(mirror);
    return rc;
}

int main(int argc, char **argv) {
    struct store *store = NULL;
    struct cache *cache = NULL;
    struct err err = {0};
    char objects[4096];
    int64_t max_bytes = 0;
    if (argc < 6 || !str_to_i64(argv[4], &max_bytes) || !str_format(objects, sizeof objects, "%s/objects", argv[3]))
        return 2;
    const struct store_config config = {.url = argv[1], .endpoint = argv[2]};
    int rc = store_open(&config, &store, &err);
    if (!rc)
        rc = cache_open(objects, NULL, max_bytes, &cache, &err);
    for (int i = 5; !rc && i < argc; i++)
        rc = run(argv, argv[i], store, cache, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    cache_close(cache);
    store_close(store);
    return rc == ERR_DATA_LOSS ? 3 : rc != 0;
}
