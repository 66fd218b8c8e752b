/* live: the streams of one device and whose turn it is. The owner of the streams (the loop) sends orders, the host
 * (hosts/host.h) carries them out between batches of windows and answers with reports (live/live_message.h). A detector is loaded
 * on first use and shared by all streams of the same checkpoint; its file is read by a loader (live/model_loader.h), and only the
 * streams of this model wait for that. Every order of a stream (live/live_stream.h) after OPEN names it; CLOSE is the last one and
 * is answered by CLOSED, the last report. Live streams run before replays: the one that has waited longest is next; replays run in
 * turn, and live streams whose samples run ahead of real time are among them. It does not know what a stream's samples mean, and
 * never waits for its owner, but for room in the mailbox of the reports. Thread: all functions belong to the host. A device has two
 * of these: one for realtime streams, and one for replays, which gets the contents of served models from the first (SERVED).
 */
#pragma once
#include "base/metrics.h"
#include "daemon/live/model_loader.h"
#include "kernels/device.h"

struct live;

/* For how long live streams of a model wait for others to share a batch, once the model has so many streams. */
struct live_delay {
    int64_t windows_ms, steps_ms; /* steps: of a model that computes in steps */
    int least_streams;
};

struct live_config {
    struct device *device;
    struct mailbox *reports;    /* where answers go */
    struct metrics *metrics;    /* may be NULL */
    int64_t memory_limit_bytes; /* of one model with its lanes, 0 = no limit */
    int batch;                  /* windows of one model that are computed together, at most LIVE_MAX_BATCH; fewer if a model of
                                 * so many would take more than a sixteenth of the device; 0 = LIVE_BATCH_CPU */
    int batch_steps;            /* of a model that computes in steps; 0 = as batch */
    int lanes;               /* threads that take samples of several streams in (filters, quality, suppression); 0 and 1: the host's
                              * own, which then computes steps alone. A stream is taken in by one thread at a time */
    struct live_delay delay; /* of models for which LOAD names none */
    bool may_be_fp32; /* a model that the loader has read for bf16 computes in fp32 where its file allows bf16 no such difference */
    struct model_loader *loader; /* reads the files of models */
    live_post_fn *post; /* gives the loader's orders to live_order, on the host's thread; called on a thread of the loader */
    void *post_ctx;
    enum stream_priority priority; /* NORMAL: windows give way to live ones of other hosts of the device */
    live_post_fn *serve;           /* passes SERVED and UNSERVED to the host of replays; NULL: there is none */
    void *serve_ctx;
    struct eegring_limits viewer; /* of the EEG that streams keep for people */
};
struct live *live_new(const struct live_config *config); /* NULL when out of memory */
void live_free(struct live *l); /* NULL is fine; streams that were not closed are let go without a report */
/* Carry out or queue one order; owns it from now on. */
void live_order(struct live *l, struct live_order *o);
/* Run one batch of windows, of live streams if one waits, else of replays. */
enum live_step { LIVE_IDLE, LIVE_RAN_REALTIME, LIVE_RAN_REPLAY };
enum live_step live_step(struct live *l);
/* After LIVE_IDLE: when to step again though no order came, as live streams wait for others; -1: never. */
int64_t live_pause_ms(const struct live *l);
