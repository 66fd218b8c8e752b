/* replay: an EDF or BDF file, whole or still being written, as a stream: all usable signals of the rate that most of its voltage
 * signals have, sent as they are. One thread per replay; several may share a client. */
#ifndef BRR_CLIENT_BRRCTL_REPLAY_H
#define BRR_CLIENT_BRRCTL_REPLAY_H
#include <stdbool.h>

#include "base/err.h"
#include "client/brr.h"
#include "data/edf.h"

struct replay;
int replay_open(const char *path, struct replay **ret, struct err *err);
/* What is still being written: standard input ("-") or a file that grows; see feed_open, whose errors they are. */
int replay_open_feed(const char *path, double idle_s, struct replay **ret, struct err *err);
/* NULL is fine. */
void replay_close(struct replay *r);
const struct edf *replay_edf(const struct replay *r);
double replay_rate_hz(const struct replay *r);
/* Labels of the rows that are sent. Returns their number. */
int replay_channels(const struct replay *r, const char *const **ret);
/* What ended it: "file" (all of it was there), or as feed_ended; and the bytes of a last record that was never finished. */
const char *replay_ended(const struct replay *r);
int64_t replay_left_bytes(const struct replay *r);

struct replay_config {
    const char *model;
    double pace;        /* 1 = as recorded, 10 = ten times as fast; 0 = as fast as it goes */
    double alarm_hop_s; /* as in brr_stream_config */
    bool want_probabilities;
    int64_t chunk_samples; /* 0 = the library's choice */
};
struct replay_sink {
    void *ctx;
    void (*opened)(void *ctx, const struct brr_stream_info *info);
    void (*message)(void *ctx, const struct brr_message *m);
    /* Raw µV before they are sent: uv[c · n + i], the first at source sample `first` of file time. May be NULL. */
    void (*samples)(void *ctx, const float *uv, int64_t first, int64_t n);
    /* Seconds of file time the daemon has taken in. May be NULL. */
    void (*progress)(void *ctx, double done_s);
};
/* The whole file, or what comes until the feed ends, to the summary. Gaps of a discontinuous file travel as gaps. */
int replay_run(struct replay *r, brr_client *client, const struct replay_config *config, const struct replay_sink *sink,
               struct brr_error *err);

#endif
