/* detection: one recording through a model and all its results: events, alarms, probabilities, envelopes for a plot, and the
 * reference events beside it. Writes events TSV, traces and plots. One thread per detection. */
#pragma once
#include "client/brrctl/detect/playback.h"
#include "client/brrctl/detect/suppression.h"
#include "eeg/labels.h"
#include "plot/plot.h"
#include "windows/missing.h"

enum { DETECTION_RATE_HZ = 256, DETECTION_MAX_ALARMS = 10000 };

struct detection_config {
    const struct events_format *format; /* of the events file */
    bool force;                         /* replace events files that are not brrd's own */
    struct playback_config playback;
    const char *reference;          /* TSV, or NULL: the file beside the recording */
    bool want_trace;                /* the record trace, for detection_write_probabilities */
    bool want_suppression;          /* rows of the table of burst suppression */
    bool want_reference, want_plot; /* plot only for recordings that are complete */
    bool endless;                   /* nobody knows how long it will be: a growing file, standard input, a live stream */
    /* Called for immediate output; may be NULL. */
    void *ctx;
    void (*opened)(void *ctx);
    void (*event)(void *ctx, const struct brr_event *e); /* one of the detection's events */
    void (*alarm)(void *ctx, const struct brr_message *m);
    void (*lost)(void *ctx);
    void (*reconnected)(void *ctx, const struct brr_message *m);
    void (*unsaved)(void *ctx, bool unsaved); /* as in playback_sink */
    void (*progress)(void *ctx, double done_s);
};

struct detection {
    const struct detection_config *config;
    struct playback *playback;
    const char *path;
    double duration_s, on, off, window_s, hop_s, alarm_hop_s;
    char model_sha256[72], note[512], session[64], mislabelled[200];
    char gap[200], unread[256];   /* "" or a gap of days; why labels are left out */
    char missing[256];            /* "" or which samples are no numbers */
    bool mostly_missing;          /* a channel that the model reads has more than half of them */
    struct missing_channel *rows; /* of the channels that the model reads */
    int n_rows;
    const struct brr_stream_info *info; /* while it runs */
    struct brr_event *events;
    char (*channels)[SIDE_LIST]; /* of each event: which carry it, or "" */
    int n_events;
    struct label_run *alarms; /* from on to off */
    int n_alarms;
    double alarm_on, alarm_off, highest_alarm; /* thresholds; highest value of the alarm trace, NaN without one */
    double highest, highest_s;                 /* highest probability and its time; NaN = none yet */
    float *probabilities;                      /* (n_probabilities) at 256 Hz from 0, NaN where none */
    int64_t n_probabilities, capacity;
    struct labels reference;
    bool has_reference;
    struct plot_trace *probability, *traces;
    struct suppression_table suppression;
    int shown[PLOT_MAX_CHANNELS], n_shown; /* rows that are plotted */
    struct brr_message end;                /* numbers of the summary; no pointers */
};

/* Takes the source, also when it fails, and reads the reference events of the recording at path, which names it. An unreadable
 * reference is an error when it was named; otherwise it counts as absent. */
int detection_open(struct detection *d, const char *path, struct source *source, const struct detection_config *config,
                   struct err *err);
/* Streams it. Returns errors of the file, of memory and of the daemon. */
int detection_run(struct detection *d, brr_client *client, struct brr_error *err);
void detection_done(struct detection *d);

/* Notes of the daemon and about the recording's header, joined by "; ", malloc'd; NULL: there are none, or memory is short. */
char *detection_note(const struct detection *d);

/* Returns the index of the first reference event that overlaps [first, end) seconds, -1 = none. */
int detection_match(const struct detection *d, double onset_s, double end_s);
/* EXISTS when detection_write_events would replace a file that is not brrd's own; for before the work. */
int detection_check_events(const struct detection_config *config, const char *path, struct err *err);
/* Write the events file (with alarms, also X_alarms.tsv beside X_events.tsv or X.tsv, and so in the other formats); FILE.npy or
 * FILE.tsv of the record trace; SVG. */
int detection_write_events(const struct detection *d, const char *path, struct err *err);
int detection_write_probabilities(const struct detection *d, const char *path, struct err *err);
int detection_write_plot(const struct detection *d, const char *path, struct err *err);
