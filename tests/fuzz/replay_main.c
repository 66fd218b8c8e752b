/* replay: feed the files named as arguments (directories: every file in them) to a fuzz target, one call each. For builds without
 * libFuzzer, so that every corpus is replayed by ctest. Exits 1 when it found nothing to feed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fsio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 64 << 20 };

struct replay {
    const char *directory; /* NULL: paths stand as given */
    int fed;
};

static int feed(void *ctx, const char *name, int64_t size, struct err *err) {
    (void)size;
    struct replay *r = ctx;
    char path[4096], *text;
    size_t len;
    int rc = fsio_join(path, sizeof path, r->directory ? r->directory : ".", name, err);
    if (!rc)
        rc = fsio_read(r->directory || name[0] != '/' ? path : name, MAX_BYTES, &text, &len, err);
    if (rc)
        return rc;
    uint8_t *exact = malloc(len ? len : 1); /* no NUL behind it: a sanitizer sees a read past the end */
    if (!exact)
        abort();
    for (size_t i = 0; i < len; i++)
        exact[i] = (uint8_t)text[i];
    free(text);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    r->fed++;
    return 0;
}

int main(int argc, char **argv) {
    struct replay r = {0};
    struct err err = {0};
    for (int i = 1; i < argc; i++) {
        r.directory = fsio_is_dir(argv[i]) ? argv[i] : NULL;
        int rc = r.directory ? fsio_walk(argv[i], feed, &r, &err) : feed(&r, argv[i], 0, &err);
        if (rc) {
            fprintf(stderr, "%s: %s\n", argv[i], err.message);
            return 1;
        }
    }
    printf("%d inputs replayed\n", r.fed);
    return r.fed ? 0 : 1;
}
