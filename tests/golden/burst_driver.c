/* burst_driver: runs a network file on the CPU, for the comparison with an independent program.
 *   burst_driver NETWORK TICKS INJECTIONS.tsv FIRED.npy MEMBRANES [every_tick]
 * MEMBRANES: the float32 of all neurons after the last tick. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "burst/burst.h"
#include "burst/netfile.h"
#include "burst/spikefile.h"

struct output {
    struct spikefile file;
    struct err *err;
    int rc;
};

static void put(void *ctx, const struct burst_frame *frame) {
    struct output *o = ctx;
    if (!o->rc)
        o->rc = spikefile_add(&o->file, frame, o->err);
}

static int load(const char *path, bool every_tick, struct stream *s, struct burst **ret, struct err *err) {
    struct connectome *c = NULL;
    struct burst_state state = {0};
    struct burst *b = NULL;
    int rc = netfile_load(path, 0, &c, &state, err);
    if (!rc)
        rc = burst_new(s, c, &(struct burst_options){.every_tick = every_tick}, &b, err);
    if (!rc && state.neurons)
        rc = burst_restore(b, &state, err);
    burst_state_done(&state);
    *ret = b;
    return rc;
}

static int run(struct burst *b, char **argv, struct err *err) {
    struct burst_injection *list = NULL;
    struct output out = {.err = err};
    int64_t n = 0, ticks = 0, neurons = burst_connectome(b)->net.n;
    float *v = malloc((size_t)neurons * sizeof *v);
    int rc = v && str_to_i64(argv[2], &ticks) ? 0 : err_set(err, ERR_INVALID, "%s ticks", argv[2]);
    if (!rc)
        rc = spikefile_read_injections(argv[3], &list, &n, err);
    if (!rc)
        rc = burst_inject(b, list, n, err);
    if (!rc)
        rc = spikefile_open(&out.file, argv[4], err);
    if (!rc)
        rc = burst_step(b, ticks, put, &out, err);
    if (!rc && !(rc = out.rc))
        rc = spikefile_close(&out.file, err);
    if (!rc)
        rc = burst_membranes(b, v, err);
    if (!rc)
        rc = fsio_write_atomic(argv[5], v, (size_t)neurons * sizeof *v, err);
    free(list);
    free(v);
    return rc;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct device *dev = NULL;
    struct stream *s = NULL;
    struct burst *b = NULL;
    if (argc < 6)
        return 2;
    int rc = device_open("cpu", 0, &dev, &err);
    if (!rc)
        rc = stream_open(dev, STREAM_NORMAL, &s, &err);
    if (!rc)
        rc = load(argv[1], argc > 6 && !strcmp(argv[6], "every_tick"), s, &b, &err);
    if (!rc)
        rc = run(b, argv, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    burst_free(b);
    stream_close(s);
    device_close(dev);
    return rc ? 1 : 0;
}
