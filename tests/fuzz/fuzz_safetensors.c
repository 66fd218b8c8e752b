/* Any bytes as a safetensors file: refused, or every tensor is aligned and found by its name, and a copy that the writer makes of
 * them all reads back the same, byte for byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/str.h"
#include "store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const struct safetensors *st, const struct safetensors *copy) {
    if (safetensors_count(st) != safetensors_count(copy))
        abort();
    for (size_t i = 0; i < safetensors_count(st); i++) {
        const struct safetensors_entry *e = safetensors_at(st, i), *c = safetensors_find(copy, e->name);
        if (safetensors_find(st, e->name) != e || e->rank > SAFETENSORS_MAX_RANK)
            abort();
        if (e->bytes && (uintptr_t)e->data % safetensors_dtype_bytes(e->dtype))
            abort();
        if (!c || c->dtype != e->dtype || c->rank != e->rank || c->bytes != e->bytes || memcmp(c->data, e->data, e->bytes))
            abort();
    }
}

static void write_again(const struct safetensors *st) {
    size_t n = safetensors_count(st);
    struct safetensors_entry *entries = calloc(n + 1, sizeof *entries);
    struct safetensors *copy = NULL;
    char path[64], written[DIGEST_HEX_SIZE], read[DIGEST_HEX_SIZE];
    if (!entries)
        abort();
    for (size_t i = 0; i < n; i++)
        entries[i] = *safetensors_at(st, i);
    struct safetensors_content content = {.entries = entries, .n_entries = n};
    str_format(path, sizeof path, "%s/brr-fuzz-%ld", fsio_is_dir("/dev/shm") ? "/dev/shm" : "/tmp", (long)getpid());
    if (safetensors_write(path, &content, written, NULL) || digest_file(path, read, NULL) || strcmp(written, read) ||
        safetensors_open(path, &copy, NULL))
        abort();
    compare(st, copy);
    unlink(path);
    safetensors_close(copy);
    free(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors *st = NULL;
    struct err err = {0};
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    str_format(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = safetensors_open(path, &st, &err);
    if (rc ? st != NULL || err.code != rc || !err.message[0] : st == NULL)
        abort();
    if (!rc)
        write_again(st);
    safetensors_close(st);
    close(fd);
    return 0;
}
