/* burst: a network file run by brrd, its spikes as they come, with libbrr alone.
 *
 *     cc burst.c $(pkg-config --cflags --libs brr) -o burst
 *     echo "1 0 2000" | BRR_ENDPOINT=unix:/run/brrd/brrd.sock ./burst NETWORK.safetensors TICKS
 *
 * The input is injections as lines "tick id potential". Each spike is printed as a line "tick<TAB>id". */
#include <brr.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 10000, SLICE = 100 };

static int fail(const struct brr_error *err) {
    fprintf(stderr, "burst: %s%s%s\n", err->message, *err->reason ? " " : "", err->reason);
    return 1;
}

static int refuse(struct brr_error *err, long line, const char *what) {
    snprintf(err->message, sizeof err->message, "standard input, line %ld: %s", line, what);
    return err->code = BRR_INVALID;
}

/* Many at a time: each call is one message to the daemon. */
static int inject(brr_client *client, const char *name, struct brr_error *err) {
    static struct brr_injection list[MOST];
    char line[128], *at, *end;
    size_t n = 0;
    long lines = 0;
    int rc;
    while (fgets(line, sizeof line, stdin)) {
        lines++;
        list[n].tick = strtoll(line, &at, 10);
        list[n].id = (uint32_t)strtoul(at, &at, 10);
        list[n].potential = strtof(at, &end);
        if (end == at)
            return refuse(err, lines, "expected \"tick id potential\"");
        if (++n < MOST)
            continue;
        if ((rc = brr_network_inject(client, name, list, n, NULL, err)))
            return rc;
        n = 0;
    }
    if (ferror(stdin))
        return refuse(err, lines + 1, "cannot be read");
    return brr_network_inject(client, name, list, n, NULL, err);
}

/* Prints frames until that of the tick has come; frames of ticks without a spike come too. */
static int print_until(brr_observer *observer, int64_t tick, struct brr_error *err) {
    struct brr_frame frame = {0};
    int rc;
    while (frame.tick < tick) {
        if ((rc = brr_observer_next(observer, -1, &frame, err)))
            return rc;
        for (size_t i = 0; i < frame.n_ids; i++)
            printf("%" PRId64 "\t%" PRIu32 "\n", frame.tick, frame.ids[i]);
    }
    fflush(stdout);
    return 0;
}

/* Slices shorter than the observer's queue: nothing is missed. */
static int step_all(brr_client *client, const char *name, brr_observer *observer, int64_t ticks, struct brr_error *err) {
    struct brr_step step = {0};
    int rc;
    for (int64_t done = 0; done < ticks; done += SLICE) {
        struct brr_step_request request = {.name = name, .ticks = ticks - done < SLICE ? ticks - done : SLICE};
        if ((rc = brr_network_step(client, &request, &step, err)) || (rc = print_until(observer, step.tick, err)))
            return rc;
    }
    fprintf(stderr, "tick %" PRId64 ", %" PRId64 " frames missed\n", step.tick, brr_observer_missed(observer));
    return 0;
}

/* Injections from standard input, then the ticks. */
static int run(brr_client *client, const char *name, int64_t ticks, struct brr_error *err) {
    brr_observer *observer = NULL;
    int rc;
    if ((rc = inject(client, name, err)) || (rc = brr_network_observe(client, name, 0, &observer, err)))
        return rc;
    rc = step_all(client, name, observer, ticks, err);
    brr_observer_close(observer);
    return rc;
}

int main(int argc, char **argv) {
    brr_client *client = NULL;
    struct brr_network network;
    struct brr_error err = {0}, ignored;
    if (argc != 3) {
        fprintf(stderr, "usage: %s NETWORK.safetensors TICKS < injections\n", argv[0]);
        return 2;
    }
    if (brr_connect(NULL, &client, &err) || brr_network_create(client, argv[1], NULL, &network, &err)) {
        brr_disconnect(client);
        return fail(&err);
    }
    int rc = run(client, network.name, strtoll(argv[2], NULL, 10), &err);
    brr_network_destroy(client, network.name, &ignored);
    brr_disconnect(client);
    return rc ? fail(&err) : 0;
}
