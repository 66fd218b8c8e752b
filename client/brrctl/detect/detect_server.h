/* detect_server: detect store://NAME/prefix as a detect job on the daemon's machine, where the recordings are, with the event files
 * written here; and detect job:ID, the same for a job queued earlier. */
#pragma once
#include "client/brrctl/arguments.h"

/* The options of detect. */
struct detect_options {
    const char *model;
    double on;
    double off;
    const char *output;
    const char *format; /* NULL = tsv */
    struct argument_list rename;
    const char *unit;
    bool bids;
    double mains_hz;
    double alarm_hop_s;
    const char *alarm_rate;
    int64_t chunk_samples;
    int64_t partial;
    int64_t parallel;
    const char *id_file;
    const char *trends;
    const char *dataset; /* that the recordings are of; NULL: not stated */
    bool quiet;          /* for callers of detect: without the table of recordings */
};
/* As if no option was given. */
#define DETECT_OPTIONS_DEFAULT .on = NAN, .off = NAN, .mains_hz = NAN, .alarm_hop_s = NAN
/* The name of a folder for what a model finds: the last part of REF without what a file's name cannot have. */
enum { DETECT_NAME_SIZE = 256 };
const char *detect_folder_name(const char *ref, char ret[DETECT_NAME_SIZE]);
static inline const struct detect_options *detect_options_of(const struct arguments *o) { return o->own; }
/* The network that has seen patients, unless another model is named. */
static inline const char *detect_model(const struct arguments *o) {
    return detect_options_of(o)->model ? detect_options_of(o)->model : "ward";
}

/* The whole command, with progress, table or JSON; returns an exit code. */
int detect_on_server(const struct arguments *o);
/* The same for recordings of this machine (detect.c). */
int detect_local(const struct arguments *o);
