/* away_driver MODEL [MS] < commands: a stream of a client whose daemon goes away. It keeps at most 64 KiB and tries for MS, 3 s.
 *   push N   N chunks of 64 samples of a fixed signal; prints how many were accepted, the first BRR_AGAIN ends it
 *   drain    takes messages until everything that was pushed is durable; prints "durable"
 *   wait     takes messages until the stream ends; prints the error's code, reason and text
 *   finish   ends the recording and takes the rest; prints samples, windows and reconnects of the summary
 * Run by test_stream_away.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/brr.h"

enum { CHANNELS = 19, CHUNK = 64, RATE_HZ = 256, KEEP_BYTES = 64 << 10, RESUME_MS = 3000, POLL_MS = 20 };

static const char *const labels[CHANNELS] = {"Fp1", "F3",  "C3", "P3", "F7", "T3", "T5", "O1", "Fz", "Cz",
                                             "Pz",  "Fp2", "F4", "C4", "P4", "F8", "T4", "T6", "O2"};

static int fail(const struct brr_error *err) {
    printf("error %s %s: %s\n", brr_code_name(err->code), *err->reason ? err->reason : "-", err->message);
    fflush(stdout);
    return 1;
}

/* Takes messages for a while; BRR_AGAIN, BRR_END or an error. */
static int take(brr_stream *s, int64_t timeout_ms, int64_t *samples, struct brr_error *err) {
    struct brr_message m;
    int rc;
    while (!(rc = brr_stream_next(s, timeout_ms, &m, err))) {
        if (m.kind == BRR_SUMMARY)
            *samples = m.summary.source_samples;
        timeout_ms = 0;
    }
    return rc;
}

static int push(brr_stream *s, int64_t *position, int n, struct brr_error *err) {
    float uv[CHANNELS * CHUNK];
    int rc = 0, done = 0;
    for (; done < n && !rc; done += !rc) {
        for (int c = 0; c < CHANNELS; c++)
            for (int i = 0; i < CHUNK; i++)
                uv[c * CHUNK + i] = 20.0f * (float)sin(0.05 * (double)(*position + i) * (c + 1));
        rc = brr_stream_push(s, uv, CHUNK, 0, err);
        *position += rc ? 0 : CHUNK;
    }
    if (rc < 0)
        return fail(err);
    printf("accepted %d%s\n", done, rc == BRR_AGAIN ? ", then full" : "");
    return 0;
}

static int drain(brr_stream *s, int64_t position, struct brr_error *err) {
    struct brr_stream_counts counts;
    int64_t samples = 0;
    do {
        int rc = take(s, POLL_MS, &samples, err);
        if (rc < 0)
            return fail(err);
        brr_stream_counts(s, &counts);
    } while (counts.consumed < position);
    puts("durable");
    return 0;
}

static int wait_end(brr_stream *s, struct brr_error *err) {
    int64_t samples = 0;
    int rc;
    while ((rc = take(s, POLL_MS, &samples, err)) == BRR_AGAIN) {
    }
    return rc < 0 ? fail(err) : 0;
}

static int finish(brr_stream *s, struct brr_error *err) {
    struct brr_stream_counts counts;
    int64_t samples = 0;
    int rc = brr_stream_finish(s, err);
    while (!rc || rc == BRR_AGAIN)
        rc = take(s, POLL_MS, &samples, err);
    if (rc != BRR_END)
        return fail(err);
    brr_stream_counts(s, &counts);
    printf("finished %lld samples, %lld reconnects\n", (long long)samples, (long long)counts.reconnects);
    return 0;
}

int main(int argc, char **argv) {
    char line[64];
    int64_t position = 0;
    int rc = 0;
    brr_client *client = NULL;
    brr_stream *stream = NULL;
    struct brr_error err = {0};
    if (argc < 2)
        return 2;
    const struct brr_stream_config config = {.model = argv[1],
                                             .channels = labels,
                                             .n_channels = CHANNELS,
                                             .rate_hz = RATE_HZ,
                                             .realtime = 1,
                                             .alarm_hop_s = -1,
                                             .resume_ms = argc > 2 ? strtol(argv[2], NULL, 10) : RESUME_MS,
                                             .buffer_bytes = KEEP_BYTES};
    if (brr_connect(NULL, &client, &err) || brr_stream_open(client, &config, &stream, &err))
        rc = fail(&err);
    while (!rc && fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "push ", 5))
            rc = push(stream, &position, (int)strtol(line + 5, NULL, 10), &err);
        else if (!strcmp(line, "drain\n"))
            rc = drain(stream, position, &err);
        else if (!strcmp(line, "wait\n"))
            rc = wait_end(stream, &err);
        else if (!strcmp(line, "finish\n"))
            rc = finish(stream, &err);
        fflush(stdout);
    }
    brr_stream_close(stream);
    brr_disconnect(client);
    return rc;
}
