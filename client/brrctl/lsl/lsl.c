/* lsl list, in, out: streams of the Lab Streaming Layer on the network; one of them through a model; the results of a session as
 * streams that other programs record. */

#include "brr/v1/sessions.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/stream.h"
#include "client/brrctl/interrupt.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/lsl/lsl_library.h"
#include "client/brrctl/lsl/lsl_timeline.h"
#include "client/brrctl/lsl/source_lsl.h"
#include "client/brrctl/output.h"
#include "eeg/events.h"
#include "store/outputs.h"

enum { MOST_NAN_S = 60, MAX_STREAMS = 256, RATE_HZ = 256, BUFFER_S = 360, PATH_SIZE = 4096, NAME_SIZE = 256 };
static const double DEFAULT_WAIT_S = 5, LIST_WAIT_S = 2;

struct lsl_options {
    struct stream_options stream;
    const char *unit;
    double wait_s;
    bool yes;
};
#define OPTIONS struct lsl_options
static const struct argument list_rows[] = {
    NUMBER("--wait", wait_s, "S", "seconds to look for streams, default 2", 0.1, 60),
};
static const struct argument in_rows[] = {
    TEXT("--model", stream.model, "REF", "as in brrctl stream"),
    CHOICE("--unit", unit, "uV|mV|V", "what the samples are in; default: as the stream says"),
    NUMBER("--wait", wait_s, "S", "seconds to wait for the stream to appear, default 5", 0.1, 86400),
    NUMBER("--idle-timeout", stream.idle_s, "S", "end after so many seconds without samples; default never", 0.1, 86400),
    NUMBER("--on", stream.on, "P", "probability that begins an event or alarm", 0.0001, 0.9999),
    NUMBER("--off", stream.off, "P", "probability that ends it", 0.0001, 0.9999),
    FLAG("--alarms", stream.alarms, "print alarms as they go on and off"),
    NUMBER(
        "--alarm-hop", stream.alarm_hop_s, "S",
        "seconds between alarm decisions: a divisor of the model's hop; of ward and others that compute in steps, the hop itself",
        0.25, 3600),
    CHOICE("--alarm-rate", stream.alarm_rate, "1|5|10", "alarms by the model's rule for so many false alarms in 24 h"),
    INTEGER("--partial", stream.partial, "N",
            "run on the channels there are: models without a network if they can use N of the recording's electrodes or "
            "derivations, networks "
            "that can miss the others if N of their montage can be made",
            1, 64),
    OUTPUT("--output", stream.output, "PATH", "write the events at the end: a file or a folder", .alias = "--out"),
    CHOICE("--format", stream.format, EVENTS_NAMES, "format of the events file; default tsv"),
    OUTPUT("--probabilities", stream.probabilities, "FILE", "write the record trace at the end: .npy or .tsv", .alias = "--probs"),
    TEXT("--client", stream.client, "NAME", "name in `brrctl sessions`; default: of the stream"),
    TEXT("--device", stream.device, "NAME", "the daemon's device that computes it, such as cuda:1"),
    FLAG("--no-resume", stream.no_resume, "end at the first cut of the connection to the daemon"),
};
static const struct argument out_rows[] = {
    FLAG("--yes", yes, "outlets may listen on all addresses of this machine"),
};

/* ---- list ---- */

static void add_stream(const struct arguments *o, struct listing *l, const struct lsl_library *lsl, lsl_streaminfo info) {
    if (!o->json) {
        listing_row(l, "%s|%s|%d|%g|%s|%s|%s", lsl->get_name(info), lsl->get_type(info), lsl->get_channel_count(info),
                    lsl->get_nominal_srate(info), lsl->get_hostname(info), lsl->get_source_id(info), lsl->get_uid(info));
        return;
    }
    struct json_writer *w = output_begin();
    json_put_str(w, "name", lsl->get_name(info));
    json_put_str(w, "type", lsl->get_type(info));
    json_put_i64(w, "channels", lsl->get_channel_count(info));
    json_put_f64(w, "rate_hz", lsl->get_nominal_srate(info));
    json_put_str(w, "host", lsl->get_hostname(info));
    json_put_str(w, "source_id", lsl->get_source_id(info));
    json_put_str(w, "uid", lsl->get_uid(info));
    output_end(w);
}

static int lsl_list(const struct arguments *o) {
    const struct lsl_library *lsl;
    lsl_streaminfo found[MAX_STREAMS];
    struct err err;
    if (lsl_library_load(&lsl, &err))
        return brrctl_fail(&err);
    int n = lsl->resolve_all(found, MAX_STREAMS, isnan(own(o)->wait_s) ? LIST_WAIT_S : own(o)->wait_s);
    if (!o->json && n <= 0)
        puts("no stream; the sender must be in the same network and session (LSLAPICFG)");
    struct listing listing;
    listing_begin(&listing, "name|type|>channels|>rate Hz|host|source_id|uid");
    for (int i = 0; i < n; i++) {
        add_stream(o, &listing, lsl, found[i]);
        lsl->destroy_streaminfo(found[i]);
    }
    listing_end(&listing);
    return 0;
}

/* ---- in ---- */

static int open_source(const struct arguments *o, struct source **ret, struct err *err) {
    const struct source_lsl_config config = {.name = o->args[1],
                                             .unit = own(o)->unit,
                                             .wait_s = isnan(own(o)->wait_s) ? DEFAULT_WAIT_S : own(o)->wait_s,
                                             .idle_s = isnan(own(o)->stream.idle_s) ? 0 : own(o)->stream.idle_s};
    return source_open_lsl(&config, ret, err);
}

/* "FILE.npy" → "FILE-2.npy"; a folder stays. */
static const char *number_file(const char *path, int part, char ret[PATH_SIZE]) {
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (!dot || strchr(dot, '/') || fsio_is_dir(path))
        return path;
    str_format(ret, PATH_SIZE, "%.*s-%d%s", (int)(dot - path), path, part, dot);
    return ret;
}

/* Another one's file, which is not replaced. */
static bool is_taken(const struct arguments *o, const char *path) { return path && outputs_check(path, o->force, NULL) != 0; }

/* The same of the events that the part of this name writes, in a folder or alone. */
static bool is_taken_by(const struct arguments *o, const char *output, const char *name) {
    char file[PATH_SIZE], path[PATH_SIZE];
    if (!output || !fsio_is_dir(output))
        return is_taken(o, output);
    return !events_path(events_format_find(own(o)->stream.format), fsio_basename(name), file, sizeof file, NULL) &&
           !fsio_join(path, sizeof path, output, file, NULL) && is_taken(o, path);
}

/* Names the part after `part` and its files, with the first number whose files may be written: nobody is there to choose another
 * name. Returns the number. */
static int name_part(const struct arguments *o, int part, struct lsl_options *to, char name[NAME_SIZE], char output[PATH_SIZE],
                     char probabilities[PATH_SIZE]) {
    do {
        part++;
        str_format(name, NAME_SIZE, "%s-%d", o->args[1], part);
        to->stream.output = number_file(own(o)->stream.output, part, output);
        to->stream.probabilities = number_file(own(o)->stream.probabilities, part, probabilities);
    } while (is_taken_by(o, to->stream.output, name) || is_taken(o, to->stream.probabilities));
    return part;
}

/* A sender that comes back with other channels is another recording: another stream, with files of its own. */
static int lsl_in(const struct arguments *o) {
    struct lsl_options numbered = *own(o);
    struct arguments again = *o;
    char name[NAME_SIZE], output[PATH_SIZE], probabilities[PATH_SIZE];
    struct err err;
    for (int part = 1;;) {
        const char *ended = "", *trace = part > 1 ? numbered.stream.probabilities : NULL;
        const struct stream_input input = {
            .name = part == 1 ? o->args[1] : name, .endless = true, .live = true, .open = open_source, .ended = &ended};
        int code = stream_play(part == 1 ? o : &again, &input);
        if (!code && trace && outputs_add(trace, &err))
            return brrctl_fail(&err);
        if (code || strcmp(ended, "changed") != 0)
            return code;
        part = name_part(o, part, &numbered, name, output, probabilities);
        again.own = &numbered;
    }
}

/* ---- out ---- */

struct outlets {
    const struct lsl_library *lsl;
    lsl_outlet probability, markers;
    bool began, provisional; /* provisional: the alarm trace is sent, else the record trace */
    int64_t next;            /* sample that is sent next */
    double anchor_s;         /* stamp of sample 0 */
};

static lsl_outlet make_outlet(const struct lsl_library *lsl, const char *session, const char *what, double rate_hz) {
    char name[96], id[160];
    str_format(name, sizeof name, "brrd %s", what);
    str_format(id, sizeof id, "brrd-%s-%s", session, what);
    lsl_streaminfo info = lsl->create_streaminfo(name, rate_hz > 0 ? "Probability" : "Markers", 1, rate_hz,
                                                 rate_hz > 0 ? LSL_FLOAT32 : LSL_STRING, id);
    lsl_xml channel = lsl->append_child(lsl->append_child(lsl->get_desc(info), "channels"), "channel");
    lsl->append_child_value(channel, "label", what);
    lsl->append_child_value(channel, "type", rate_hz > 0 ? "Probability" : "Markers");
    lsl_outlet outlet = lsl->create_outlet(info, 0, BUFFER_S);
    lsl->destroy_streaminfo(info);
    return outlet;
}

static double stamp_of(const struct outlets *s, int64_t sample) { return s->anchor_s + (double)sample / RATE_HZ; }

/* Samples from `first` on; what was sent before stays as it was, and what is missing is NaN, of a long gap its last minute. The
 * newest sample is now. */
static void send_probabilities(struct outlets *s, int64_t first, const ProtobufCBinaryData *p) {
    int64_t n = (int64_t)(p->len / sizeof(float)), end = first + n;
    double now_s = s->lsl->local_clock();
    if (!n || end <= s->next)
        return;
    if (!s->began) {
        s->began = true;
        s->next = first;
    }
    s->next = lsl_timeline_resume(s->next, first, MOST_NAN_S * RATE_HZ);
    if (fabs(now_s - stamp_of(s, end)) > 1)
        s->anchor_s = now_s - (double)end / RATE_HZ;
    for (; s->next < end; s->next++) {
        float value = NAN;
        if (s->next >= first)
            memcpy(&value, p->data + (size_t)(s->next - first) * sizeof value, sizeof value);
        s->lsl->push_sample_ftp(s->probability, &value, stamp_of(s, s->next), s->next + 1 == end);
    }
}

static void send_marker(const struct outlets *s, const char *text, int64_t sample) {
    double now_s = s->lsl->local_clock();
    s->lsl->push_sample_strtp(s->markers, &text, s->began ? fmin(stamp_of(s, sample), now_s) : now_s, 1);
}

static bool on_update(void *ctx, const void *message) {
    struct outlets *s = ctx;
    const Brr__V1__SessionUpdate *m = message;
    if (m->kind_case == BRR__V1__SESSION_UPDATE__KIND_PROVISIONAL) {
        s->provisional = true;
        send_probabilities(s, m->provisional->first_sample, &m->provisional->probabilities);
    } else if (m->kind_case == BRR__V1__SESSION_UPDATE__KIND_RESULT) {
        if (!s->provisional)
            send_probabilities(s, m->result->first_sample, &m->result->probabilities);
        for (size_t i = 0; i < m->result->n_events; i++) {
            send_marker(s, "sz_on", m->result->events[i]->first_sample);
            send_marker(s, "sz_off", m->result->events[i]->end_sample);
        }
    } else if (m->kind_case == BRR__V1__SESSION_UPDATE__KIND_ALARM) {
        send_marker(s, m->alarm->on ? "alarm_on" : "alarm_off", m->alarm->sample);
    }
    return !interrupt_seen();
}

static int lsl_out(const struct arguments *o) {
    Brr__V1__ObserveSessionRequest in = BRR__V1__OBSERVE_SESSION_REQUEST__INIT;
    struct outlets s = {0};
    struct err err;
    if (!own(o)->yes) {
        fputs("brrctl: an outlet of the Lab Streaming Layer listens on all addresses of this machine and asks nobody who they are: "
              "anyone in its networks can read the probabilities and alarms. --yes says that this is wanted.\n",
              stderr);
        return EXIT_USAGE;
    }
    if (lsl_library_load(&s.lsl, &err))
        return brrctl_fail(&err);
    in.session_id = (char *)(uintptr_t)o->args[1];
    s.probability = make_outlet(s.lsl, o->args[1], "probability", RATE_HZ);
    s.markers = make_outlet(s.lsl, o->args[1], "events", 0);
    if (!o->json)
        printf("streams `brrd probability` and `brrd events` of session %s; Ctrl-C ends them\n", o->args[1]);
    fflush(stdout);
    interrupt_catch();
    int code = brrctl_follow(o, "/brr.v1.Sessions/Observe", &in.base, on_update, &s);
    s.lsl->destroy_outlet(s.probability);
    s.lsl->destroy_outlet(s.markers);
    return interrupt_seen() ? 0 : code;
}

static const struct command_verb lsl_verbs[] = {
    {"list", "", ARGUMENTS(list_rows, .local = true), lsl_list, 1},
    {"in", "STREAM", ARGUMENTS(in_rows), lsl_in, 2},
    {"out", "SESSION", ARGUMENTS(out_rows), lsl_out, 2},
    {.name = NULL},
};

BRRCTL_COMMAND(
    lsl, "list|in|out [STREAM|SESSION]", &arguments_none, NULL,
    "streams of the Lab Streaming Layer: list, run through a model, send",
    "Needs liblsl, which is no package of Debian: LSL_LIBRARY names its file.\n"
    "  list           streams in the network; works without a daemon\n"
    "  in STREAM      an EEG stream (its name, source_id or uid) through a model, like `brrctl stream --follow`: live, until\n"
    "                 Ctrl-C; channels and units are the stream's, gaps are those of its time stamps, and it may vanish and "
    "come back\n"
    "  out SESSION    probability and alarms of an open stream as two LSL streams, `brrd probability` (256 Hz) and `brrd "
    "events`\n"
    "                 (markers alarm_on, alarm_off, sz_on, sz_off), for LabRecorder and others; needs --yes, as every outlet\n"
    "                 listens on all addresses of the machine\n"
    "example: brrctl lsl in EEG-amplifier --model ward --alarms",
    .verbs = lsl_verbs);
