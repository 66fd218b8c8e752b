/* Any bytes as a network file: an error that names the file, or a network that ticks, and whose snapshot reads back as the same
 * state. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/str.h"
#include "burst/burst.h"
#include "burst/netfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUDGET = 64 << 20, TICKS = 4 };

static struct stream *stream;

static void open_stream(void) {
    struct device *dev = NULL;
    if (!stream && (device_open("cpu", 1, &dev, NULL) || stream_open(dev, STREAM_NORMAL, &stream, NULL)))
        abort();
}

static void count(void *ctx, const struct burst_frame *f) {
    uint64_t *seen = ctx;
    for (int64_t i = 1; i < f->fired; i++)
        if (f->ids[i] <= f->ids[i - 1])
            abort();
    *seen = *seen * 31 + (uint64_t)f->fired + f->events;
}

/* The same ticks from a snapshot that went through a file. */
static void go_on(struct burst *b) {
    struct burst_state state, read;
    struct connectome *c = NULL;
    struct burst *again = NULL;
    struct err err = {0};
    char path[64], sha[DIGEST_HEX_SIZE];
    uint64_t seen = 0;
    str_format(path, sizeof path, "%s/brr-fuzz-net-%ld", fsio_is_dir("/dev/shm") ? "/dev/shm" : "/tmp", (long)getpid());
    if (burst_save(b, &state, &err) || netfile_save(path, burst_connectome(b), &state, sha, &err) ||
        netfile_load(path, 0, &c, &read, &err) || burst_new(stream, c, NULL, &again, &err) || burst_restore(again, &read, &err))
        abort();
    if (read.tick != state.tick || read.fired != state.fired)
        abort();
    burst_step(again, TICKS, count, &seen, &err);
    uint64_t first = 0;
    burst_step(b, TICKS, count, &first, &err);
    if (seen != first)
        abort();
    burst_free(again);
    burst_state_done(&state);
    burst_state_done(&read);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct connectome *c = NULL;
    struct burst_state state = {0};
    struct burst *b = NULL;
    struct err err = {0};
    char path[64];
    uint64_t seen = 0;
    open_stream();
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    str_format(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = netfile_load(path, BUDGET, &c, &state, &err);
    if (rc ? err.code != rc || !err.message[0] || c : c == NULL)
        abort();
    if (!rc && !burst_new(stream, c, NULL, &b, &err)) {
        if (!state.neurons || !burst_restore(b, &state, &err)) {
            const struct burst_injection one = {burst_tick(b) + 1, 0, 1000};
            if (burst_inject(b, &one, 1, &err) || burst_step(b, TICKS, count, &seen, &err))
                abort();
            go_on(b);
        }
        burst_free(b);
    }
    burst_state_done(&state);
    close(fd);
    return 0;
}
