/* stream: one source of samples through a model, with events, alarms and files as the options say; the command `stream`, and others
 * whose samples come from elsewhere. */
#pragma once

#include "client/brrctl/arguments.h"
#include "client/brrctl/detect/source.h"

/* The options of stream; the first member of the options of every command that plays one. */
struct stream_options {
    const char *model;
    struct argument_list rename;
    const char *unit;
    double on;
    double off;
    const char *output;
    const char *probabilities;
    const char *format;
    const char *suppression;
    const char *plot;
    const char *reference;
    bool alarms;
    double alarm_hop_s;
    int64_t partial;
    const char *alarm_rate, *device;
    double realtime;
    int64_t chunk_samples;
    const char *client, *patient;
    bool follow, live, replay;
    double idle_s;
    bool no_resume, as_live;
    double move_after_s;
};

/* The whole command; returns an exit code. name: of the recording, for people and for names of files. endless: it grows while it is
 * read. live: it is the EEG of a patient now. */
struct stream_input {
    const char *name;
    bool endless, live;
    int (*open)(const struct arguments *o, struct source **ret, struct err *err);
    const char **ended; /* receives why its source ended; NULL: nobody asks */
};
int stream_play(const struct arguments *o, const struct stream_input *input);
