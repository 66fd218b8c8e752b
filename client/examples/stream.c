/* stream: EEG from standard input through a model, with libbrr alone.
 *
 *     cc stream.c $(pkg-config --cflags --libs brr) -o stream
 *     some-amplifier | BRR_ENDPOINT=unix:/run/brrd/brrd.sock ./stream MODEL RATE_HZ Fp1,F3,C3,…
 *
 * The input is frames of little-endian float32 in microvolt, one value per channel. Each seizure is printed as a line
 * "onset_s<TAB>end_s<TAB>confidence" as soon as it is final; alarms go to standard error at once. */
#include <brr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANNELS = 256, FRAMES = 64, RESULT_HZ = 256 };

static int fail(const struct brr_error *err) {
    fprintf(stderr, "stream: %s%s%s\n", err->message, *err->reason ? " " : "", err->reason);
    return 1;
}

static void show(const struct brr_message *m) {
    if (m->kind == BRR_RESULT)
        for (int i = 0; i < m->n_events; i++)
            printf("%.6f\t%.6f\t%.6f\n", (double)m->events[i].first / RESULT_HZ, (double)m->events[i].end / RESULT_HZ,
                   m->events[i].confidence);
    else if (m->kind == BRR_ALARM)
        fprintf(stderr, "alarm %s at %.2f s\n", m->alarm.on ? "on" : "off", (double)m->alarm.sample / RESULT_HZ);
    fflush(stdout);
}

/* Take what has come, waiting up to timeout_ms for the first of it. 0, BRR_END or an error. */
static int take(brr_stream *stream, int64_t timeout_ms, struct brr_error *err) {
    struct brr_message m;
    int rc;
    while (!(rc = brr_stream_next(stream, timeout_ms, &m, err))) {
        show(&m);
        timeout_ms = 0;
    }
    return rc == BRR_AGAIN ? 0 : rc;
}

/* Frames to rows: uv[c · n + i]. */
static void turn(const float *frames, int channels, int n, float *uv) {
    for (int i = 0; i < n; i++)
        for (int c = 0; c < channels; c++)
            uv[c * n + i] = frames[i * channels + c];
}

/* Pushes all of the rows, and prints what comes meanwhile. */
static int push(brr_stream *stream, const float *uv, size_t n, struct brr_error *err) {
    int rc;
    while ((rc = brr_stream_push(stream, uv, (int64_t)n, 0, err)) == BRR_AGAIN)
        if ((rc = take(stream, 100, err))) /* no room: let the daemon catch up, then push the same again */
            return rc;
    return rc ? rc : take(stream, 0, err);
}

static int run(brr_stream *stream, int channels, struct brr_error *err) {
    static float frames[FRAMES * MAX_CHANNELS], uv[FRAMES * MAX_CHANNELS];
    size_t n;
    int rc;
    while ((n = fread(frames, sizeof(float) * (size_t)channels, FRAMES, stdin)) > 0) {
        turn(frames, channels, (int)n, uv);
        if ((rc = push(stream, uv, n, err)))
            return rc;
    }
    if (ferror(stdin)) { /* not the end of the recording */
        snprintf(err->message, sizeof err->message, "cannot read the samples from standard input");
        return err->code = BRR_INTERNAL;
    }
    if ((rc = brr_stream_finish(stream, err)))
        return rc;
    do
        rc = take(stream, -1, err);
    while (rc == 0);
    return rc;
}

int main(int argc, char **argv) {
    const char *channels[MAX_CHANNELS];
    int n = 0;
    brr_client *client = NULL;
    brr_stream *stream = NULL;
    struct brr_error err = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL RATE_HZ CHANNEL,CHANNEL,… < frames.f32\n", argv[0]);
        return 2;
    }
    char *name = argv[3];
    do {
        channels[n++] = name;
        if ((name = strchr(name, ',')))
            *name++ = '\0';
    } while (name && n < MAX_CHANNELS);
    struct brr_stream_config config = {.model = argv[1],
                                       .channels = channels,
                                       .n_channels = n,
                                       .rate_hz = strtod(argv[2], NULL),
                                       .client_name = "example",
                                       .alarm_hop_s = -1}; /* 0 or more: alarms too */
    int rc;
    if ((rc = brr_connect(NULL, &client, &err)) == 0 && (rc = brr_stream_open(client, &config, &stream, &err)) == 0)
        rc = run(stream, n, &err);
    brr_stream_close(stream);
    brr_disconnect(client);
    return rc == BRR_END ? 0 : fail(&err);
}
