/* brr_burst.h: brrd's engine of spiking networks in your own process. The whole promise of libbrr_burst; link with
 * `pkg-config --cflags --libs brr_burst`. No daemon is needed; fired neurons and membranes have the daemon's bits.
 *
 * A brr_burst is a network on a device: of a network file (docs/burst.md), or of a snapshot, where it goes on. Ticks count from 1.
 * Functions return 0 or a negative enum brr_burst_code; then *err, which the caller owns and which may be NULL, says why. Threads:
 * a brr_burst is used by one thread at a time. On a CPU it computes on the calling thread, whose settings are as before, and on
 * helpers that it starts. In a process that was forked after a network ran on several threads, only brr_burst_close works: start
 * such a process anew (spawn). The library never logs, exits or installs signal handlers. There is no ledger: callers
 * count the fired neurons that they are given; candidates (neurons with input that did not fire) are counted, not
 * listed.
 *
 *     brr_burst *net = NULL;
 *     struct brr_burst_error err;
 *     struct brr_burst_injection one = {.id = 0, .potential = 30};
 *     if (brr_burst_open(&(struct brr_burst_source){.path = "net.safetensors"}, &net, &err) ||
 *         brr_burst_inject(net, &one, 1, &err) || brr_burst_step(net, 100, on_tick, NULL, &err))
 *         fprintf(stderr, "%s\n", err.message);
 *     brr_burst_close(net);
 */
#ifndef BRR_BURST_H
#define BRR_BURST_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BRR_BURST_API __attribute__((visibility("default")))
#else
#define BRR_BURST_API
#endif

enum brr_burst_code { /* the numbers of enum brr_code */
                      BRR_BURST_OK = 0,
                      BRR_BURST_INVALID = -3,
                      BRR_BURST_NOT_FOUND = -5,
                      BRR_BURST_EXHAUSTED = -8,
                      BRR_BURST_RANGE = -11,
                      BRR_BURST_UNSUPPORTED = -12,
                      BRR_BURST_INTERNAL = -13,
};

struct brr_burst_error {
    int code;          /* enum brr_burst_code */
    char message[512]; /* one sentence for people: what, where, what was expected, the fix */
};

/* Where the network comes from: a file, or its bytes in memory, which are copied. */
struct brr_burst_source {
    const char *path;
    const void *data; /* with path NULL */
    size_t bytes;
    const char *device; /* NULL or "cpu", or "cuda:N" where libbrr_cuda.so is found */
    int threads;        /* of a CPU, 0 = as many as the process may use */
};

typedef struct brr_burst brr_burst;
/* After an error *ret is NULL. */
BRR_BURST_API int brr_burst_open(const struct brr_burst_source *source, brr_burst **ret, struct brr_burst_error *err);
BRR_BURST_API void brr_burst_close(brr_burst *net); /* takes NULL */
BRR_BURST_API int64_t brr_burst_neurons(const brr_burst *net);
BRR_BURST_API uint64_t brr_burst_tick(const brr_burst *net); /* the newest that has run; 0 before the first */

/* A potential for a neuron; several for one neuron and tick add up. All or none of a list: the message names the index. */
struct brr_burst_injection {
    uint64_t tick; /* that has not run; 0: the next one */
    uint32_t id;
    float potential;
};
BRR_BURST_API int brr_burst_inject(brr_burst *net, const struct brr_burst_injection *list, size_t n, struct brr_burst_error *err);

struct brr_burst_frame { /* a tick */
    uint64_t tick;
    const uint32_t *ids; /* (n_ids) of the neurons that fired, ascending; valid during the call */
    int64_t n_ids, candidates;
};
/* Runs so many ticks; on_tick (NULL: nobody) is called after each, in order, on the calling thread, and does not call the library.
 */
BRR_BURST_API int brr_burst_step(brr_burst *net, int64_t ticks, void (*on_tick)(void *ctx, const struct brr_burst_frame *frame),
                                 void *ctx, struct brr_burst_error *err);
/* ret: (brr_burst_neurons), as the newest tick left them. */
BRR_BURST_API int brr_burst_membranes(brr_burst *net, float *ret, struct brr_burst_error *err);

/* Writes a snapshot: network and state (atomic). */
BRR_BURST_API int brr_burst_save(brr_burst *net, const char *path, struct brr_burst_error *err);
/* The state of a snapshot of the same network; other synapses are refused. After an error nothing has changed. */
BRR_BURST_API int brr_burst_restore(brr_burst *net, const char *path, struct brr_burst_error *err);

#ifdef __cplusplus
}
#endif
#endif
