/* lsl_driver: what brrctl makes of a stream of the Lab Streaming Layer, without a daemon.
 * usage: lsl_driver STREAM UNIT IDLE_S OUT: a line on stdout for each gap ("gap POSITION SAMPLES UNIX_TIME") and each block
 * ("samples POSITION N"); OUT receives the samples (N, channels) of the blocks in order, binary32 in µV. UNIT "": as the stream
 * says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "client/brrctl/lsl/source_lsl.h"

static double unix_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int put_blocks(struct source *source, FILE *out, struct err *err) {
    struct source_block block = {0};
    int64_t position = 0;
    while (!block.end) {
        int rc = source->kind->next(source, &block, err);
        if (rc)
            return rc;
        if (block.first > position)
            printf("gap %lld %lld %.3f\n", (long long)position, (long long)(block.first - position), unix_time());
        position = block.first > position ? block.first : position;
        if (block.n)
            printf("samples %lld %lld\n", (long long)position, (long long)block.n);
        for (int64_t i = 0; i < block.n; i++)
            for (int c = 0; c < source->n; c++)
                fwrite(&block.uv[c][i], sizeof(float), 1, out);
        position += block.n;
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    int used[FRONTEND_MAX_LABELS];
    char text[1024];
    struct err err = {0};
    struct source *source = NULL;
    double idle_s;
    if (argc != 5 || !str_to_f64(argv[3], &idle_s))
        return 2;
    const struct source_lsl_config config = {.name = argv[1], .unit = *argv[2] ? argv[2] : NULL, .wait_s = 60, .idle_s = idle_s};
    OWNED_FILE FILE *out = fopen(argv[4], "we");
    int rc = out ? source_open_lsl(&config, &source, &err) : err_set(&err, ERR_NOT_FOUND, "%s", argv[4]);
    for (int c = 0; !rc && c < source->n; c++)
        used[c] = c;
    if (!rc && !(rc = source->kind->check_units(source, used, source->n, &err)) && !(rc = put_blocks(source, out, &err)))
        printf("remark %s; %s\n", source->kind->remark(source), source->assumed);
    if (source)
        source->kind->close(source);
    if (rc)
        fprintf(stderr, "lsl_driver: %s\n", err_text(&err, text, sizeof text));
    return rc ? 1 : 0;
}
