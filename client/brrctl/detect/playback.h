/* playback: a source of samples as a stream of the daemon, sent unchanged. One thread per playback; several may share a client. */
#pragma once

#include "client/brr.h"
#include "client/brrctl/detect/source.h"

struct playback;
struct playback *playback_new(struct source *source); /* takes the source */
/* takes NULL */
void playback_close(struct playback *r);
/* Labels, rate and description; what was assumed about units is valid once the stream is open. */
const struct source *playback_source(const struct playback *r);
/* The source's ended, left_bytes (0 = it has none) and remark ("" = none). */
const char *playback_ended(const struct playback *r);
int64_t playback_left_bytes(const struct playback *r);
const char *playback_remark(const struct playback *r);
/* How often the connection was lost and came back. */
int64_t playback_reconnects(const struct playback *r);

struct playback_config {
    const char *model, *client; /* client: its name for those who look at sessions */
    double pace;                /* 1 = real time, 10 = ten times as fast; 0 = as fast as possible */
    double alarm_hop_s;         /* as in brr_stream_config */
    double on, off;             /* thresholds, 0 = the model's */
    int partial;
    const char *patient; /* or NULL */
    double alarm_rate;   /* as in brr_stream_config */
    const char *device;  /* the same */
    bool no_resume;
    /* The EEG of a patient now. Its source is read on while the daemon is away: 150 s are kept, the rest is a gap; it goes on in
     * another stream when the daemon has given up this one, and tries for ever unless no_resume says otherwise. Results are in the
     * time of the source throughout, the summary's counts are those of the last stream. */
    bool live;
    bool as_live;          /* a recording in real time counts as live */
    bool split_gaps;       /* gaps above 24 h are sent in parts, which daemons take; else they end the stream */
    double move_after_s;   /* with several endpoints; 0 = the library's choice */
    int64_t chunk_samples; /* 0 = the library's choice */
};
struct playback_sink {
    void *ctx;
    void (*opened)(void *ctx, const struct brr_stream_info *info);
    void (*message)(void *ctx, const struct brr_message *m);
    /* Called when the connection is lost; the message BRR_RECONNECTED follows when it is back. May be NULL. */
    void (*lost)(void *ctx);
    /* Called with raw µV before they are sent: uv[c · n + i], the first at source sample `first` of file time. May be NULL. */
    void (*samples)(void *ctx, const float *uv, int64_t first, int64_t n);
    /* Called with the seconds of file time that the daemon has received. May be NULL. */
    void (*progress)(void *ctx, double done_s);
    /* Called when the daemon can no longer write snapshots of the stream, and when it can again. May be NULL. */
    void (*unsaved)(void *ctx, bool unsaved);
};
/* Plays the source until it ends, up to the summary. Its gaps are sent as gaps. A complete recording ends at a signal that
 * interrupt.h has seen, with BRR_CANCELLED. After an error no session waits for its client. */
int playback_run(struct playback *r, brr_client *client, const struct playback_config *config, const struct playback_sink *sink,
                 struct brr_error *err);
