/* stream FILE, stream -, stream FILE --follow: one recording, whole or still being written, through a model; events as they become
 * final. */

#include "client/brrctl/detect/stream.h"
#include "base/counted.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/detection.h"
#include "client/brrctl/interrupt.h"
#include "client/brrctl/output.h"
#include "formats/eegfile.h"
#include "plot/picture.h"

#define OPTIONS struct stream_options
static const struct argument rows[] = {
    TEXT("--model", model, "REF", "served or built-in name, job:ID, store://NAME/KEY or a model file"),
    NUMBER("--on", on, "P", "probability that begins an event or alarm; default: the model's", 0.0001, 0.9999),
    NUMBER("--off", off, "P", "probability that ends it; default: the model's, but at most --on", 0.0001, 0.9999),
    OUTPUT(
        "--output", output, "PATH",
        "events of the recording: a FILE with the ending of --format (.tsv, .json), or a folder for NAME_events.tsv and the like",
        .alias = "--out"),
    OUTPUT("--probabilities", probabilities, "FILE", "write the record trace at 256 Hz: .npy (float32) or .tsv",
           .alias = "--probs"),
    OUTPUT("--suppression", suppression, "FILE.tsv",
           "write burst suppression, once a second: of the recording and of each channel"),
    OUTPUT("--plot", plot, "FILE", "draw the recording with probability, events and alarms; .svg, .png or .pdf"),
    TEXT("--reference", reference, "FILE", "reference events in any format of --format; default: the labels beside the recording"),
    ASSIGNMENT("--rename", rename, "LABEL=NAME",
               "read a channel under another name, as data.rename: \"*-XY=*\", LOC=F7; may be repeated"),
    CHOICE("--unit", unit, "uV|mV|V", "unit of channels that state none, or one that is no voltage"),
    CHOICE("--format", format, EVENTS_NAMES, "format of the events file; default tsv"),
    FLAG("--alarms", alarms, "print alarms as they go on and off"),
    NUMBER(
        "--alarm-hop", alarm_hop_s, "S",
        "seconds between alarm decisions: a divisor of the model's hop; of ward and others that compute in steps, the hop itself",
        0.25, 3600),
    CHOICE("--alarm-rate", alarm_rate, "1|5|10",
           "alarms by the model's rule for so many false alarms in 24 h; default: by --on and --off"),
    INTEGER("--partial", partial, "N",
            "run on the channels there are: models without a network if they can use N of the recording's electrodes or "
            "derivations, networks "
            "that can miss the others if N of their montage can be made",
            1, 64),
    TEXT("--device", device, "NAME",
         "the daemon's device that computes it, such as cuda:1; default: the one with the fewest streams"),
    NUMBER("--realtime", realtime, "FACTOR", "speed: 1 = as recorded, 10 = ten times as fast; default: as fast as possible", 0.001,
           1e6),
    FLAG("--live", live, "standard input is the EEG of a patient now: hooks are told of alarms"),
    FLAG("--replay", replay, "standard input is a recording: nobody is told"),
    FLAG("--as-live", as_live, "with --realtime: a drill; alarms count as those of a patient now, and hooks hear them"),
    INTEGER("--chunk-samples", chunk_samples, "N", "samples per message; default 8 s, with --realtime 0.25 s", 1, 1e7),
    TEXT("--client", client, "NAME", "name of this stream in `brrctl sessions`, such as a bed; never a patient's; default brrctl"),
    TEXT("--patient", patient, "CODE",
         "the same text for the same patient, never a name: the daemon's limits.patient_memory keeps what was learned for the next "
         "stream"),
    FLAG("--follow", follow, "FILE is still being written: go on until --idle-timeout"),
    NUMBER("--idle-timeout", idle_s, "S",
           "end after this many seconds without new data; default 120 with --follow, never on standard input", 0.1, 86400),
    FLAG("--no-resume", no_resume, "end at the first cut of the connection"),
    NUMBER("--move-after", move_after_s, "S",
           "with several endpoints: seconds for which a lost daemon is tried before the next one; default 10", 0.01, 3600),
};

enum { FOLLOW_IDLE_S = 120 }; /* below the daemon's limits.session_idle */

/* State of the screen. */
struct view {
    struct detection *d;
    const struct arguments *o;
    const struct stream_input *input;
    bool terminal, head;
    int shown_percent;
    double start_s, done_s;
};

static double seconds_of(int64_t samples) { return (double)samples / DETECTION_RATE_HZ; }

static void show_progress(void *ctx, double done_s) {
    struct view *v = ctx;
    v->done_s = done_s;
    double share = v->d->duration_s > 0 ? done_s / v->d->duration_s : 1;
    int percent = (int)(share * 100);
    char bar[OUTPUT_BAR_SIZE], at[32], of[32], line[128];
    if (v->d->config->endless) /* nobody knows how much will come */
        percent = (int)fmin(done_s, 1e9);
    if (!v->terminal || v->o->json || percent == v->shown_percent)
        return;
    v->shown_percent = percent;
    output_duration(done_s, at, sizeof at);
    str_format(line, sizeof line, "%s %3d%%  %s of %s", output_bar(share, bar), percent, at,
               output_duration(v->d->duration_s, of, sizeof of));
    output_progress(stderr, v->d->config->endless ? at : line);
}

static void show_opened(void *ctx) {
    const struct view *v = ctx;
    const struct detection *d = v->d;
    const struct source *source = playback_source(d->playback);
    const char *unused = own(v->o)->patient ? strstr(d->note, "Open.patient") : NULL;
    if (unused)
        fprintf(stderr, "brrctl: note: %s\n", unused);
    if (v->o->json)
        return;
    char length[32] = "as it comes";
    const char *told = d->config->playback.live      ? "live: hooks are told"
                       : d->config->playback.as_live ? "live, a drill: hooks are told"
                                                     : "replay: nobody is told";
    if (!d->config->endless)
        snprintf(length, sizeof length, "%.1f s", d->duration_s);
    printf("%s; %s: %s, %d signals of %g Hz; model %.12s, windows of %g s every %g s, thresholds %.3g/%.3g%s%s\n", told,
           fsio_basename(d->path), length, source->n, source->rate_hz, d->model_sha256, d->window_s, d->hop_s, d->on, d->off,
           *d->note ? "; " : "", d->note);
    fflush(stdout);
}

static void put_reference(struct json_writer *w, const struct detection *d, const char *key, int i) {
    json_begin_object(w, key);
    JSON_MEMBERS(w, d->reference.runs[i], onset_s, end_s);
    json_put_str(w, "type", d->reference.runs[i].code);
    json_end(w, '}');
}

/* null: not known. */
static void put_where(struct json_writer *w, const char *channels) {
    json_put_str(w, "channels", *channels ? channels : NULL);
    json_put_str(w, "side", *channels ? side_of(channels) : NULL);
}

/* One of the detection's events. */
static void put_event(struct json_writer *w, const char *key, const struct detection *d, const struct brr_event *e) {
    json_begin_object(w, key);
    json_put_f64(w, "onset_s", seconds_of(e->first));
    json_put_f64(w, "end_s", seconds_of(e->end));
    json_put_f64(w, "confidence", e->confidence);
    json_put_i64(w, "first_sample", e->first);
    json_put_i64(w, "end_sample", e->end);
    put_where(w, d->channels[e - d->events]);
    json_end(w, '}');
}

static void print_event_json(const struct detection *d, const struct brr_event *e, int match) {
    struct json_writer *w = output_begin();
    put_event(w, "event", d, e);
    if (match >= 0)
        put_reference(w, d, "reference", match);
    output_end(w);
}

static void show_event(void *ctx, const struct brr_event *e) {
    struct view *v = ctx;
    char start[32], end[32], from[32], to[32], text[SIDE_TEXT];
    double onset_s = seconds_of(e->first), end_s = seconds_of(e->end);
    int match = detection_match(v->d, onset_s, end_s);
    if (v->o->json) {
        print_event_json(v->d, e, match);
        return;
    }
    output_clear();
    if (!v->head)
        printf("%-12s %-12s %9s %10s%s\n", "start", "end", "seconds", "confidence", v->d->has_reference ? "  reference" : "");
    v->head = true;
    printf("%-12s %-12s %9.2f %10.3f", output_clock(onset_s, start, sizeof start), output_clock(end_s, end, sizeof end),
           end_s - onset_s, e->confidence);
    if (match >= 0)
        printf("  %s to %s", output_clock(v->d->reference.runs[match].onset_s, from, sizeof from),
               output_clock(v->d->reference.runs[match].end_s, to, sizeof to));
    else if (v->d->has_reference)
        fputs("  none", stdout);
    side_text(v->d->channels[e - v->d->events], text);
    printf("%s%s\n", *text ? "  " : "", text);
    fflush(stdout);
    v->shown_percent = -1;
}

static void show_alarm(void *ctx, const struct brr_message *m) {
    struct view *v = ctx;
    char at[32], channels[SIDE_LIST], text[SIDE_TEXT];
    side_list(v->d->info->montage, v->d->info->n_montage, m->alarm.channels, channels);
    if (!own(v->o)->alarms)
        return;
    if (v->o->json) {
        struct json_writer *w = output_begin();
        json_begin_object(w, "alarm");
        json_put_bool(w, "on", m->alarm.on);
        json_put_str(w, "reason", *brr_message_reason(m) ? brr_message_reason(m) : NULL);
        json_put_f64(w, "time_s", seconds_of(m->alarm.sample));
        JSON_MEMBERS(w, m->alarm, sample, probability, wall_time_ms);
        put_where(w, channels);
        json_end(w, '}');
        output_end(w);
        return;
    }
    output_clear();
    printf("%-12s alarm %s", output_clock(seconds_of(m->alarm.sample), at, sizeof at), m->alarm.on ? "on" : "off");
    printf(isfinite(m->alarm.probability) ? " (%.3f)" : "", m->alarm.probability); /* none where the record ends */
    side_text(channels, text);
    printf("%s%s%s\n", output_alarm_reason(brr_message_reason(m)), *text ? ", " : "", text);
    fflush(stdout);
    v->shown_percent = -1;
}

static void show_lost(void *ctx) {
    struct view *v = ctx;
    output_clear();
    fprintf(stderr, v->d->config->playback.live ? "brrctl: no connection to the daemon; trying until there is one\n"
                                                : "brrctl: connection lost, reconnecting\n");
    v->shown_percent = -1;
}

static void show_reconnected(void *ctx, const struct brr_message *m) {
    struct view *v = ctx;
    output_clear();
    fprintf(stderr, "brrctl: connected again after %.1f s; the stream goes on\n", (double)m->reconnected.away_ms / 1000);
    v->shown_percent = -1;
}

static void show_unsaved(void *ctx, bool unsaved) {
    struct view *v = ctx;
    output_clear();
    fprintf(stderr, unsaved ? "brrctl: the daemon cannot write snapshots of the stream (see its log); the stream goes on, but "
                              "would not survive a crash of the daemon\n"
                            : "brrctl: the daemon writes snapshots of the stream again\n");
    v->shown_percent = -1;
}

/* ---- the end ---- */

static bool found(const struct detection *d, const struct label_run *run) {
    for (int i = 0; i < d->n_events; i++)
        if (seconds_of(d->events[i].first) < run->end_s && seconds_of(d->events[i].end) > run->onset_s)
            return true;
    return false;
}

static void print_summary_json(const struct view *v, const char *output) {
    const struct detection *d = v->d;
    struct json_writer *w = output_begin();
    json_put_str(w, "recording", d->path);
    json_put_bool(w, "live", d->config->playback.live || d->config->playback.as_live);
    JSON_MEMBERS(w, *d, duration_s, model_sha256);
    char *note = detection_note(d);
    json_put_str(w, "note", note ? note : "");
    free(note);
    json_put_str(w, "mislabelled", *d->mislabelled ? d->mislabelled : NULL);
    json_begin_array(w, "events");
    for (int i = 0; i < d->n_events; i++)
        put_event(w, NULL, d, &d->events[i]);
    json_end(w, ']');
    if (d->has_reference) {
        json_begin_array(w, "reference");
        for (size_t i = 0; i < d->reference.n_runs; i++)
            put_reference(w, d, NULL, (int)i);
        json_end(w, ']');
    } else {
        json_put_null(w, "reference");
    }
    json_put_i64(w, "samples", d->end.samples);
    JSON_MEMBERS(w, d->end.summary, source_samples, windows, gaps, duplicate_samples, seizure_s);
    json_put_i64(w, "learning_s", d->end.learning_s);
    json_put_f64(w, "threshold_on", d->on);
    json_put_f64(w, "threshold_off", d->off);
    json_put_f64(w, "highest_probability", d->highest);
    json_put_f64(w, "highest_s", d->highest_s);
    json_begin_object(w, "suppression");
    JSON_MEMBERS(w, d->end.summary, observed_s, suppressed_s, bursts);
    json_put_f64(w, "largest_ratio", (double)d->suppression.largest);
    json_end(w, '}');
    json_put_i64(w, "alarms", d->n_alarms);
    json_put_f64(w, "alarm_threshold_on", d->alarm_on);
    json_put_f64(w, "alarm_threshold_off", d->alarm_off);
    json_put_f64(w, "highest_alarm_probability", d->highest_alarm);
    json_put_i64(w, "reconnects", playback_reconnects(d->playback));
    json_put_str(w, "ended", playback_ended(d->playback));
    json_put_i64(w, "unfinished_bytes", playback_left_bytes(d->playback));
    json_put_str(w, "remark", playback_remark(d->playback));
    json_put_str(w, "output", output);
    output_end(w);
}

static void print_summary(const struct view *v, const char *output) {
    const struct detection *d = v->d;
    char from[32], to[32];
    output_clear();
    double took = clock_s() - v->start_s;
    printf("%d event%s, %.1f s of seizure in %.1f s; %lld window%s, %lld gap%s; %.1f s (%.0f times real time)\n", d->n_events,
           d->n_events == 1 ? "" : "s", d->end.summary.seizure_s, d->duration_s, (long long)d->end.summary.windows,
           d->end.summary.windows == 1 ? "" : "s", (long long)d->end.summary.gaps, d->end.summary.gaps == 1 ? "" : "s", took,
           took > 0 ? d->duration_s / took : 0);
    if (!d->n_events && !isnan(d->highest))
        printf("highest    probability %.3f at %s; an event begins at %.3g, if it lasts long enough; `brrctl "
               "tune` chooses thresholds on labelled recordings, --on sets one\n",
               d->highest, output_clock(d->highest_s, from, sizeof from), d->on);
    if (d->config->playback.alarm_hop_s >= 0 && d->n_alarms)
        printf("alarms     %d\n", d->n_alarms);
    else if (d->config->playback.alarm_hop_s >= 0 && !isnan(d->highest_alarm))
        printf("alarms     none; the highest probability of the newest seconds is %.3f, an alarm begins at %.3g\n",
               d->highest_alarm, d->alarm_on);
    if (d->end.summary.suppressed_s > 0)
        printf("suppressed %.1f s of %.1f s, %lld burst%s; at most %.0f %% of a minute\n", d->end.summary.suppressed_s,
               d->end.summary.observed_s, (long long)d->end.summary.bursts, d->end.summary.bursts == 1 ? "" : "s",
               100 * (double)d->suppression.largest);
    if (*d->mislabelled)
        printf("channels   %s\n", d->mislabelled);
    if (d->config->endless && playback_source(d->playback)->kind->left_bytes) {
        int64_t left = playback_left_bytes(d->playback);
        printf("ended      %s", playback_ended(d->playback));
        if (left)
            printf("; %s of an incomplete record ignored", counted(left, "byte").text);
        putchar('\n');
    }
    if (*playback_remark(d->playback))
        printf("source     %s\n", playback_remark(d->playback));
    for (size_t i = 0; d->has_reference && i < d->reference.n_runs; i++) {
        const struct label_run *run = &d->reference.runs[i];
        printf("reference  %s to %s  %s\n", output_clock(run->onset_s, from, sizeof from), output_clock(run->end_s, to, sizeof to),
               found(d, run) ? "found" : "missed");
    }
    if (d->has_reference && !d->reference.n_runs)
        puts("reference  no seizure");
    if (output)
        printf("events     %s%s\n", output, d->config->playback.alarm_hop_s >= 0 ? "; alarms in a file beside it" : "");
    if (own(v->o)->probabilities)
        printf("trace      %s\n", own(v->o)->probabilities);
    if (own(v->o)->suppression)
        printf("per second %s\n", own(v->o)->suppression);
    if (own(v->o)->plot)
        printf("plot       %s\n", own(v->o)->plot);
}

/* --output: a file with the ending of its format, or a folder that receives NAME_events.tsv and the like. */
static int output_path(const struct arguments *o, const char *recording, char *buf, size_t size, struct err *err) {
    char name[4096];
    int rc;
    const struct events_format *format = events_format_find(own(o)->format);
    if (str_ends(own(o)->output, events_extension(format)))
        return str_copy(buf, size, own(o)->output) ? 0 : err_set(err, ERR_RANGE, "the path of --output is too long");
    if ((rc = events_path(format, recording, name, sizeof name, err)) || (rc = fsio_mkdirs(own(o)->output, err)))
        return rc;
    return fsio_join(buf, size, own(o)->output, name, err);
}

/* An --output with the ending of another format would become a folder of that name. */
static bool check_output(const struct stream_options *s) {
    const struct events_format *format = events_format_find(s->format);
    if (!s->output || str_ends(s->output, events_extension(format)) || fsio_is_dir(s->output))
        return true;
    for (int i = 0; i < EVENTS_FORMATS; i++) {
        const struct events_format *other = events_format_at(i);
        if (!str_ends_nocase(s->output, events_extension(other)))
            continue;
        if (other == format)
            fprintf(stderr, "brrctl: --output %s: expected the ending %s in small letters, or a folder\n", s->output,
                    events_extension(format));
        else
            fprintf(stderr,
                    "brrctl: --output %s has the ending of the format %s, but --format is %s; expected --format %s, a FILE%s or a "
                    "folder\n",
                    s->output, other->name, format->name, other->name, events_extension(format));
        return false;
    }
    return true;
}

static int write_files(const struct arguments *o, const struct detection *d, const char *to, struct err *err) {
    int rc;
    if ((rc = own(o)->output ? detection_write_events(d, to, err) : 0) ||
        (own(o)->probabilities && (rc = detection_write_probabilities(d, own(o)->probabilities, err))) ||
        (own(o)->suppression && (rc = suppression_table_write(&d->suppression, own(o)->suppression, err))) ||
        (own(o)->plot && (rc = detection_write_plot(d, own(o)->plot, err))))
        return rc;
    return 0;
}

/* The folders of what will be written, and whether files of others lie there, before an hour of EEG is sent for nothing. */
static int make_folders(const struct arguments *o, const struct detection_config *config, const char *recording, char *to,
                        size_t size, struct err *err) {
    const char *const others[] = {own(o)->probabilities, own(o)->suppression, own(o)->plot};
    int rc;
    if (own(o)->output && ((rc = output_path(o, recording, to, size, err)) || (rc = detection_check_events(config, to, err)) ||
                           (rc = fsio_mkdirs_above(to, err))))
        return rc;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] && (rc = fsio_mkdirs_above(others[i], err)))
            return rc;
    return 0;
}

static void print_repairs(const struct detection *d) {
    const struct eeg_info *info = playback_source(d->playback)->info;
    for (int i = 0; i < info->n_repairs; i++)
        fprintf(stderr, "brrctl: note: %s: %s\n", d->path, info->repairs[i]);
}

/* A part of the events would look like all of them. */
static int interrupted(const struct view *v) {
    output_clear();
    fprintf(stderr, "brrctl: %s: interrupted after %.0f s of %.0f s; the session is closed, and no file was written\n", v->d->path,
            v->done_s, v->d->duration_s);
    return interrupt_exit();
}

/* The daemon does not know the recording's name; errors of its channels name it. */
static int failed_stream(const struct view *v, struct brr_error *err) {
    const struct brr_error bare = *err;
    if (interrupt_seen() && err->code == BRR_CANCELLED)
        return interrupted(v);
    if (err->code == BRR_PRECONDITION && str_starts(err->message, "montage "))
        str_format(err->message, sizeof err->message, "%.200s: %s", v->input->name, bare.message);
    return brrctl_fail_call(err);
}

static int run(const struct arguments *o, struct view *v, struct detection_config *config) {
    struct detection d;
    struct err err;
    struct brr_error failed;
    char output[4096 + 64] = "";
    int code = 0;
    const struct stream_input *input = v->input;
    const char *recording = strcmp(input->name, "stdin") != 0 ? fsio_basename(input->name) : "stdin.edf";
    struct source *source = NULL;
    if (make_folders(o, config, recording, output, sizeof output, &err) || input->open(o, &source, &err) ||
        detection_open(&d, input->name, source, config, &err))
        return brrctl_fail(&err);
    v->d = &d;
    print_repairs(&d);
    brr_client *client = brrctl_connect(o, &code);
    v->start_s = clock_s();
    if (!input->endless) /* the others end with what they have by then */
        interrupt_catch();
    if (client && detection_run(&d, client, &failed))
        code = failed_stream(v, &failed);
    else if (client && write_files(o, &d, output, &err))
        code = brrctl_fail(&err);
    else if (client && o->json)
        print_summary_json(v, own(o)->output ? output : NULL);
    else if (client)
        print_summary(v, own(o)->output ? output : NULL);
    brr_disconnect(client);
    if (input->ended)
        *input->ended = playback_ended(d.playback);
    detection_done(&d);
    v->d = NULL;
    return code;
}

static int usage(const char *text) {
    fprintf(stderr, "brrctl: %s\n", text);
    return EXIT_USAGE;
}

/* What somebody is told of needs alarms; --alarms prints them. */
static void set_playback(const struct stream_options *s, bool live, struct playback_config *p) {
    bool alarms = s->alarms || s->alarm_rate || live || s->as_live;
    *p = (struct playback_config){.pace = isnan(s->realtime) ? 0 : s->realtime,
                                  .alarm_hop_s = !isnan(s->alarm_hop_s) ? s->alarm_hop_s
                                                 : alarms               ? 0
                                                                        : -1,
                                  .partial = s->partial > 0 ? (int)s->partial : 0,
                                  .alarm_rate = s->alarm_rate ? strtod(s->alarm_rate, NULL) : 0,
                                  SAME_MEMBERS(*s, device, patient, no_resume, as_live),
                                  .client = s->client ? s->client : "brrctl",
                                  .on = isnan(s->on) ? 0 : s->on,
                                  .off = isnan(s->off) ? 0 : s->off,
                                  .live = live,
                                  .move_after_s = s->move_after_s > 0 ? s->move_after_s : 0,
                                  .chunk_samples = s->chunk_samples > 0 ? s->chunk_samples : 0};
}

/* NULL, or what is wrong with the options. */
static const char *check_options(const struct stream_options *s) {
    if (s->as_live && isnan(s->realtime))
        return "--as-live needs --realtime, such as --realtime 1";
    if (s->plot && !picture_known(s->plot))
        return "--plot writes a picture; expected a FILE.svg, FILE.png or FILE.pdf";
    if (s->probabilities && !str_ends(s->probabilities, ".npy") && !str_ends(s->probabilities, ".tsv"))
        return "--probabilities writes a FILE.npy (float32) or a FILE.tsv; expected one of these endings";
    if (s->suppression && !str_ends(s->suppression, ".tsv"))
        return "--suppression writes a table; expected a FILE.tsv";
    if (s->client && !*s->client)
        return "--client is empty; expected the name of a bed, or leave it out";
    if (!s->model)
        return "a stream needs --model: a served or built-in name (ward, line_length), job:ID, store://NAME/KEY or a model file";
    return NULL;
}

int stream_play(const struct arguments *o, const struct stream_input *input) {
    const struct stream_options *s = o->own;
    char model[4096];
    struct view view = {.o = o, .input = input, .terminal = output_redraws(stderr), .shown_percent = -1};
    struct detection_config config = {.format = events_format_find(s->format),
                                      .force = o->force,
                                      .reference = s->reference,
                                      .want_reference = !input->endless || s->reference,
                                      .want_trace = s->probabilities != NULL,
                                      .want_plot = s->plot != NULL,
                                      .want_suppression = s->suppression != NULL,
                                      .endless = input->endless,
                                      .ctx = &view,
                                      .opened = show_opened,
                                      .event = show_event,
                                      .alarm = show_alarm,
                                      .lost = show_lost,
                                      .reconnected = show_reconnected,
                                      .unsaved = show_unsaved,
                                      .progress = show_progress};
    const char *wrong = check_options(s);
    if (wrong)
        return usage(wrong);
    if (!check_output(s))
        return EXIT_USAGE;
    set_playback(s, input->live, &config.playback);
    config.playback.model = brrctl_ref(s->model, model, sizeof model);
    return run(o, &view, &config);
}

static int open_input(const struct arguments *o, struct source **ret, struct err *err) {
    bool input = !strcmp(o->args[0], "-");
    double idle_s = isnan(own(o)->idle_s) ? (input ? 0 : FOLLOW_IDLE_S) : own(o)->idle_s;
    OWNED(str_done) struct str rename = str_of(64 << 10);
    int rc = source_rename(&own(o)->rename, &rename, err);
    if (rc)
        return rc;
    const struct source_reading reading = {rename.len ? str_cstr(&rename) : NULL, own(o)->unit};
    return input || own(o)->follow ? source_open_feed(o->args[0], idle_s, &reading, ret, err)
                                   : source_open_file(o->args[0], &reading, ret, err);
}

/* NULL, or what is wrong with --live and --replay. */
static const char *check_live(const struct stream_options *s, bool piped) {
    if (piped && s->live == s->replay)
        return "standard input needs --live or --replay, for brrctl cannot tell a recorder from a recording:\n"
               "  --live    the EEG of a patient now: hooks are told of alarms, which escalate; a lost connection is an alarm too\n"
               "  --replay  a recording: nobody is told";
    if (s->live && !piped)
        return "--live is for standard input; a file that is still being written is live by --follow, and --realtime 1 --as-live "
               "makes a drill of a finished one";
    return NULL;
}

static int cmd_stream(const struct arguments *o) {
    bool piped = !strcmp(o->args[0], "-"), endless = piped || own(o)->follow;
    const struct stream_input input = {.name = piped ? "stdin" : o->args[0],
                                       .endless = endless,
                                       .live = piped ? own(o)->live : own(o)->follow && !own(o)->replay,
                                       .open = open_input};
    const char *wrong = own(o)->model ? check_live(own(o), piped) : NULL;
    if (wrong)
        return usage(wrong);
    if (endless && own(o)->plot && own(o)->model)
        return usage("--plot needs a finished recording; plot the file when it is complete: brrctl stream FILE --plot");
    if (!endless && !isnan(own(o)->idle_s) && own(o)->model)
        return usage("--idle-timeout needs --follow or standard input (-)");
    if (fsio_is_dir(o->args[0])) {
        struct err err;
        err_set(&err, ERR_INVALID,
                "%.300s is a folder; expected a recording. For all recordings of a folder: brrctl detect %.300s --model NAME "
                "--output DIR",
                o->args[0], o->args[0]);
        return brrctl_fail(&err);
    }
    return stream_play(o, &input);
}

BRRCTL_COMMAND(
    stream, "FILE|-", ARGUMENTS(rows), cmd_stream, "run a recording through a model; print events as they become final",
    "FILE is EDF, EDF+ or BDF; its samples are sent unmodified. --output is a file or a folder (NAME_events.tsv).\n"
    "--format: tsv; edf+ or mne: annotations; csv_bi: for TUSZ tools; json: for programs.\n"
    "A finished file is a replay: nobody is told of its alarms. --follow is live: hooks are told, whether or not --alarms "
    "prints\n"
    "them. The first line says which.\n"
    "-       read the same formats from standard input, record by record, until the input ends; it needs --live (a recorder) "
    "or\n"
    "        --replay (a recording). A live input is read on while the daemon is away: 150 s are kept, what comes then is a "
    "gap\n"
    "--follow  FILE is still being written: complete records are sent as they are added, whatever record count the header\n"
    "        has, until the file has not grown for --idle-timeout seconds (120). Ctrl-C ends both with the results so far;\n"
    "        a second Ctrl-C kills. Results are bit-identical to those of the finished file.\n"
    "        The daemon ends a stream without samples after its limits.session_idle (5m): a longer pause is an error.\n"
    "        Reference events come only from --reference, and --plot needs a finished file.\n"
    "A stream outlives a cut connection and a restart of the daemon for the daemon's limits.resume_ttl (2 min), and then "
    "writes\n"
    "the files of an undisturbed run; with --no-resume it ends at the first cut. A live source tries for ever, also before "
    "its\n"
    "first connection, and goes on in another stream where the daemon no longer has this one (systemd: brrd-bed@.service).\n"
    "example: recorder | brrctl stream - --live --model ward --client icu-7\n"
    "example: brrctl stream sub-01_run-01_eeg.edf --model job:train-260131-1 --plot trace.svg");
