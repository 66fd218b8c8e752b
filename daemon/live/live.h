/* live: detectors and the streams that run under them on one device. The owner of the streams (the loop) sends orders, the device
 * worker carries them out between the steps of its job and answers with reports. A detector is loaded on first use and shared by
 * all streams of the same checkpoint. Every order of a stream after OPEN names it; CLOSE is the last one and is answered by CLOSED,
 * the last report. Bounded: the owner limits the orders that wait (live/session.h); a stream whose reports reach LIVE_CREDIT_BYTES
 * does not run again until its owner has released some of them. The contents and the number of a result or
 * an alarm depend on the samples alone.
 * Thread: live_stream_new, _free, _owner, _abandon and _release belong to the owner's thread; live_new, _free, _order, _step,
 * _waiting to the device worker's. */
#ifndef BRR_DAEMON_LIVE_LIVE_H
#define BRR_DAEMON_LIVE_LIVE_H
#include "base/metrics.h"
#include "daemon/live/live_message.h"

struct live;

enum live_format { LIVE_F32_UV, LIVE_I16 };

/* Parameters of a stream; live_stream_new copies them. */
struct live_open {
    const char *checkpoint; /* model file */
    const char *model;      /* its name in metrics, bounded in number */
    const char *const *labels;
    int n_labels;
    double rate_hz;
    enum live_format format;
    double scale_uv;    /* I16: microvolt per unit */
    double alarm_hop_s; /* 0 = default of the device, negative = no alarms */
    bool realtime, want_probabilities;
};
/* NULL when out of memory. */
struct live_stream *live_stream_new(const struct live_open *open, void *owner);
void live_stream_free(struct live_stream *s); /* before OPEN was posted, or after CLOSED */
void *live_stream_owner(const struct live_stream *s);
const struct live_open *live_stream_open(const struct live_stream *s); /* its parameters; any thread */
/* Its client is gone: what waits is dropped and counted as soon as the worker looks. CLOSE must follow. */
void live_stream_abandon(struct live_stream *s);
/* Reports of `bytes` in all (live_report.bytes) have left the owner. True when the stream had no credit and has some now: the
 * worker sleeps, so a WAKE must follow. */
bool live_stream_release(struct live_stream *s, int64_t bytes);

/* reports: where answers go. metrics may be NULL. */
struct live *live_new(struct device *device, struct mailbox *reports, struct metrics *metrics, int64_t memory_limit_bytes);
void live_free(struct live *l); /* NULL is fine; streams that were not closed are let go without a report */
/* Carry out or queue one order; owns it from now on. */
void live_order(struct live *l, struct live_order *o);
/* Run one batch of windows, of live streams if one waits, else of replays. */
enum live_step { LIVE_IDLE, LIVE_RAN_REALTIME, LIVE_RAN_REPLAY };
enum live_step live_step(struct live *l);
bool live_step_realtime(struct live *l); /* one batch of live streams alone; false when none waits */
bool live_waiting(const struct live *l); /* another step would find work */

#endif
