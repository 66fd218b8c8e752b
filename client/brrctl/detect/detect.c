/* detect FILE|DIR …: many recordings through a model, an events TSV for each; a few in flight at a time. Those of a store are done
 * by the daemon (detect_server.c). */

#include "base/container.h"
#include "base/counted.h"
#include "base/crew.h"
#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/detect_server.h"
#include "client/brrctl/detect/seen.h"
#include "client/brrctl/interrupt.h"
#include "client/brrctl/output.h"
#include "eeg/events.h"
#include "eeg/tree.h"
#include "formats/eegfile.h"
#include "store/outputs.h"
#include "windows/bids.h"

#define OPTIONS struct detect_options
static const struct argument rows[] = {
    TEXT("--model", model, "REF", "served or built-in name, job:ID, store://NAME/KEY or a model file; default ward"),
    NUMBER("--on", on, "P", "probability that begins an event or alarm; default: the model's", 0.0001, 0.9999),
    NUMBER("--off", off, "P", "probability that ends it; default: the model's, but at most --on", 0.0001, 0.9999),
    OUTPUT("--output", output, "DIR", "folder for the events files", .alias = "--out"),
    ASSIGNMENT("--rename", rename, "LABEL=NAME",
               "read a channel under another name, as data.rename: \"*-XY=*\", LOC=F7; may be repeated"),
    CHOICE("--unit", unit, "uV|mV|V", "unit of channels that state none, or one that is no voltage"),
    CHOICE("--format", format, EVENTS_NAMES, "format of the events files; default tsv"),
    FLAG("--bids", bids, "make --output a BIDS dataset of the recordings (linked or copied) and their events"),
    NUMBER("--mains", mains_hz, "HZ", "mains frequency for the BIDS dataset; default: not stated", 50, 60),
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
    OUTPUT("--trends", trends, "FILE",
           "of one recording: write a table of trends (aEEG, spectrum, asymmetry, suppression) for each 10 s, or draw them if FILE "
           "ends "
           "in .svg, .png or .pdf; docs/trends.md"),
    INTEGER("--chunk-samples", chunk_samples, "N", "samples per message; default 8 s", 1, 1e7),
    INTEGER("--parallel", parallel, "N", "recordings processed at the same time; default: one for each processor, 2 to 8", 1, 16),
    TEXT("--id-file", id_file, "FILE", "write the job's id to this file"),
    TEXT("--dataset", dataset, "NAME", "the dataset of the recordings, as data.dataset: people of another one are others"),
};

enum { MAX_RECORDINGS = 1 << 20, LEAST_PARALLEL = 2, MOST_PARALLEL = 8 };

struct batch {
    const struct arguments *o;
    char model[4096]; /* REF */
    brr_client *client;
    const char *root; /* of the folder being searched */
    struct detect_item *items;
    struct bids_name *names; /* of the items, with --bids */
    int n, capacity;
    int finished, failed;
    double hours; /* of signal in the recordings that did not fail */
    bool terminal;
    struct outputs_model seen;
    struct source_reading reading;
};

/* ---- which recordings ---- */

/* The BIDS name of recording b->n. Recordings that have the same name are the runs of their subject and task. */
static int name_recording(struct batch *b, const char *relative, struct err *err) {
    struct bids_name *name = &b->names[b->n];
    int rc = bids_name_of(relative, name, err), run = 1;
    if (rc || *name->run)
        return rc;
    for (int i = 0; i < b->n; i++)
        run += !strcmp(b->names[i].subject, name->subject) && !strcmp(b->names[i].session, name->session) &&
               !strcmp(b->names[i].task, name->task) && !strcmp(b->names[i].acquisition, name->acquisition);
    str_format(name->run, sizeof name->run, "%02d", run);
    return 0;
}

static int output_of(struct batch *b, const char *relative, char *buf, size_t size, struct err *err) {
    const struct events_format *format = events_format_find(detect_options_of(b->o)->format);
    char name[4096];
    int rc;
    if (b->names &&
        ((rc = name_recording(b, relative, err)) || (rc = bids_path(&b->names[b->n], "_events.tsv", name, sizeof name, err))))
        return rc;
    if (!b->names && (rc = events_path(format, relative, name, sizeof name, err)))
        return rc;
    return fsio_join(buf, size, detect_options_of(b->o)->output, name, err);
}

static int grow(struct batch *b, struct err *err) {
    if (b->n == MAX_RECORDINGS)
        return err_set(err, ERR_EXHAUSTED, "more than %d recordings; process them in several runs", MAX_RECORDINGS);
    if (b->n < b->capacity)
        return 0;
    int capacity = b->capacity ? 2 * b->capacity : 64;
    b->items = needed(realloc(b->items, sizeof *b->items * (size_t)capacity));
    if (detect_options_of(b->o)->bids)
        b->names = needed(realloc(b->names, sizeof *b->names * (size_t)capacity));
    b->capacity = capacity;
    return 0;
}

static int add(struct batch *b, const char *path, const char *relative, struct err *err) {
    char output[8192];
    int rc;
    if ((rc = grow(b, err)) || (rc = output_of(b, relative, output, sizeof output, err)))
        return rc;
    struct detect_item *item = &b->items[b->n++];
    *item = (struct detect_item){.path = needed(strdup(path)), .output = needed(strdup(output))};
    item->relative = item->path + strlen(path) - strlen(relative);
    return 0;
}

static int visit(void *ctx, const struct tree_recording *recording, struct err *err) {
    struct batch *b = ctx;
    char path[8192];
    int rc = fsio_join(path, sizeof path, b->root, recording->path, err);
    return rc ? rc : add(b, path, recording->path, err);
}

ORDER_BY(by_output, struct detect_item, strcmp(x->output, y->output))

static void left_out(void *ctx, const char *text) {
    const struct batch *b = ctx;
    if (!detect_options_of(b->o)->quiet)
        fprintf(stderr, "brrctl: note: %s\n", text);
}

/* Two recordings that would write the same file are a mistake. */
static int check_outputs(const struct batch *b, struct err *err) {
    OWNED_MEMORY struct detect_item *sorted = needed(malloc(sizeof *sorted * (size_t)b->n));
    memcpy(sorted, b->items, sizeof *sorted * (size_t)b->n);
    SORT(sorted, b->n, by_output);
    for (int i = 1; i < b->n; i++)
        if (!strcmp(sorted[i - 1].output, sorted[i].output))
            return err_set(err, ERR_INVALID, "%s and %s would both be written to %s; give them in separate runs",
                           sorted[i - 1].path, sorted[i].path, sorted[i].output);
    return 0;
}

static int collect(struct batch *b, struct err *err) {
    for (int i = 0; i < b->o->n_args; i++) {
        const char *path = b->o->args[i];
        b->root = path;
        if (!fsio_exists(path))
            return err_set(err, ERR_NOT_FOUND,
                           "there is no %s; expected a recording, a folder of them, store://NAME/prefix or job:ID", path);
        const struct tree_config tree = {.root = path, .all_names = true, .one_header = true, .note = left_out, .ctx = b};
        int rc = fsio_is_dir(path) ? tree_walk(&tree, visit, err) : add(b, path, fsio_basename(path), err);
        if (rc)
            return rc;
    }
    if (detect_options_of(b->o)->trends && b->n > 1)
        return err_set(err, ERR_INVALID, "--trends takes one recording; %s has %d", b->o->args[0], b->n);
    if (!b->n)
        return err_set(err, ERR_NOT_FOUND, "no .edf or .bdf file or other recording below %s", b->o->args[0]);
    return check_outputs(b, err);
}

/* ---- the work ---- */

/* A recording of a format that BIDS does not take, or of several files, whose names the header states, cannot be put into a
 * dataset. */
static int check_copy(const char *path, struct err *err) {
    static const char *const taken[] = {".edf", ".bdf", ".set"};
    struct eegfile_companions parts;
    bool alone = false;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        alone = alone || !strcasecmp(eegfile_ending(path), taken[i]);
    int rc = alone ? eegfile_list_companions(path, &parts, err) : 0;
    if (rc || (alone && !parts.n))
        return rc;
    return err_set(err, ERR_UNSUPPORTED, "%s cannot be put into a BIDS dataset as it is (%s); convert it to EDF first", path,
                   alone || !strcasecmp(eegfile_ending(path), ".vhdr") ? "its files name each other, and BIDS has other names"
                                                                       : "BIDS takes EDF, BDF, BrainVision and EEGLAB");
}

/* The recording and its side files in the dataset. */
static int add_to_dataset(const struct batch *b, const struct detect_item *item, const struct eeg_info *info, struct err *err) {
    const struct bids_name *name = &b->names[item - b->items];
    const char *root = detect_options_of(b->o)->output;
    double mains_hz = isnan(detect_options_of(b->o)->mains_hz) ? 0 : detect_options_of(b->o)->mains_hz;
    char relative[4096], path[8192];
    int rc;
    if ((rc = bids_path(name, bids_suffix(item->path, info), relative, sizeof relative, err)) ||
        (rc = fsio_join(path, sizeof path, root, relative, err)) || (rc = fsio_mkdirs_above(path, err)))
        return rc;
    if ((rc = fsio_link_or_copy(item->path, path, err)))
        return rc;
    return bids_write_recording(root, name, info, mains_hz, err);
}

static struct detection_config config_of(const struct batch *b) {
    const struct arguments *o = b->o;
    return (struct detection_config){
        .format = events_format_find(detect_options_of(o)->format),
        .force = o->force,
        .want_trace = detect_options_of(o)->trends != NULL,
        .playback = {.model = b->model,
                     .client = "brrctl detect",
                     .split_gaps = true,
                     .no_resume = true, /* as fast as the device: nothing waits to be durable */
                     .alarm_hop_s = !isnan(detect_options_of(o)->alarm_hop_s) ? detect_options_of(o)->alarm_hop_s
                                    : detect_options_of(o)->alarm_rate        ? 0
                                                                              : -1,
                     .partial = detect_options_of(o)->partial > 0 ? (int)detect_options_of(o)->partial : 0,
                     .alarm_rate = detect_options_of(o)->alarm_rate ? strtod(detect_options_of(o)->alarm_rate, NULL) : 0,
                     .on = isnan(detect_options_of(o)->on) ? 0 : detect_options_of(o)->on,
                     .off = isnan(detect_options_of(o)->off) ? 0 : detect_options_of(o)->off,
                     .chunk_samples = detect_options_of(o)->chunk_samples > 0 ? detect_options_of(o)->chunk_samples : 0}};
}

static void detect_one(struct batch *b, struct detect_item *item) {
    const struct detection_config config = config_of(b);
    struct detection d;
    struct err err = {0};
    struct source *source = NULL;
    if ((b->names && check_copy(item->path, &err)) || source_open_file(item->path, &b->reading, &source, &err) ||
        detection_open(&d, item->path, source, &config, &err)) {
        brrctl_keep_error(&item->err, &err);
        return;
    }
    if (!detection_run(&d, b->client, &item->err) &&
        ((d.mostly_missing && err_set(&err, ERR_INVALID, "%s", d.missing)) || fsio_mkdirs_above(item->output, &err) ||
         detection_write_events(&d, item->output, &err) ||
         (b->names && add_to_dataset(b, item, playback_source(d.playback)->info, &err))))
        brrctl_keep_error(&item->err, &err);
    item->no_model = item->err.code == BRR_NOT_FOUND && !*d.session;
    item->note = detection_note(&d);
    str_copy(item->model_sha256, sizeof item->model_sha256, d.model_sha256);
    item->n_events = d.n_events;
    if (detect_options_of(b->o)->trends && !item->err.code)
        item->answers = trends_summarise(&d);
    item->duration_s = d.duration_s;
    item->recorded_s = eeg_recorded_s(playback_source(d.playback)->info);
    COPY_MEMBERS(*item, d.end.summary, seizure_s, suppressed_s);
    item->highest = d.highest;
    item->learning_s = d.end.learning_s;
    item->threshold_on = d.on;
    item->bursts = d.end.summary.bursts;
    item->largest_suppression = (double)d.suppression.largest;
    detection_done(&d);
}

static void report(struct batch *b, const struct detect_item *item) {
    char bar[OUTPUT_BAR_SIZE], line[512];
    if (b->o->json && !detect_options_of(b->o)->quiet) {
        detect_item_json(item, &b->seen);
    } else if (b->terminal) {
        str_format(line, sizeof line, "%s %d/%d  %s", output_bar((double)b->finished / b->n, bar), b->finished, b->n,
                   fsio_basename(item->path));
        output_progress(stderr, line);
    } else {
        fprintf(stderr, "%d/%d %s%s\n", b->finished, b->n, item->path, item->err.code ? ": failed" : "");
    }
}

/* An error that every other recording would meet too. */
static bool hopeless(const struct detect_item *item) {
    const int code = item->err.code;
    return item->no_model || code == BRR_UNAVAILABLE || code == BRR_UNAUTHENTICATED || code == BRR_DENIED ||
           !strcmp(item->err.reason, "OPTION_INVALID") || !strcmp(item->err.reason, "ALARM_RULE_MISSING");
}

static int detect_item(void *ctx, int64_t i, struct err *err) {
    struct batch *b = ctx;
    (void)err; /* the item keeps it */
    detect_one(b, &b->items[i]);
    return 0;
}

static void move_aside(const char *path) {
    char aside[8192];
    struct err err;
    if (!outputs_own(path) || !str_format(aside, sizeof aside, "%s.earlier", path))
        return;
    if (fsio_rename(path, aside, &err))
        fprintf(stderr, "brrctl: %s is of an earlier run: %s\n", path, err.message);
    else
        fprintf(stderr, "brrctl: %s is of an earlier run and was moved to %s\n", path, aside);
}

/* Moves the events file of an earlier run aside when its recording fails now, so that nobody takes it for a result of this run. */
static void set_earlier_aside(const struct detect_item *item) {
    char alarms[8192];
    size_t len = strlen(item->output);
    if (!item->err.code || hopeless(item) || interrupt_seen())
        return;
    move_aside(item->output);
    if (str_ends(item->output, "_events.tsv") && str_format(alarms, sizeof alarms, "%.*s_alarms.tsv", (int)len - 11, item->output))
        move_aside(alarms);
}

static bool item_finished(void *ctx, int64_t i, int rc) {
    struct batch *b = ctx;
    struct detect_item *item = &b->items[i];
    (void)rc;
    item->done = true;
    b->finished++;
    b->failed += item->err.code != 0;
    b->hours += item->err.code ? 0 : item->recorded_s / 3600;
    set_earlier_aside(item);
    report(b, item);
    return hopeless(item) || interrupt_seen();
}

static int finish(const struct batch *b) {
    int code = b->failed ? EXIT_FAILED : 0;
    output_clear();
    for (int i = 0; i < b->n; i++)
        if (b->items[i].no_model)
            return brrctl_fail_call(&b->items[i].err);
    if (!b->o->json && !detect_options_of(b->o)->quiet)
        detect_table_print(b->items, b->n, b->hours);
    detect_table_notes(b->items, b->n);
    for (int i = 0; i < b->n; i++)
        if (hopeless(&b->items[i]))
            return brrctl_fail_call(&b->items[i].err);
    if (interrupt_seen()) {
        fprintf(stderr, "brrctl: interrupted; %d of %s done\n", b->finished - b->failed, counted(b->n, "recording").text);
        return interrupt_exit();
    }
    for (int i = 0, said = 0; detect_options_of(b->o)->quiet && i < b->n && said < 5; i++) /* there is no table that says why */
        if (b->items[i].err.code && ++said) {
            const char *path = b->items[i].path, *why = b->items[i].err.message;
            const bool named = str_starts(why, path);
            fprintf(stderr, "brrctl: %s%s%s\n", named ? "" : path, named ? "" : ": ", why);
        }
    if (b->failed)
        fprintf(stderr, "brrctl: %d of %s failed\n", b->failed, counted(b->n, "recording").text);
    return code;
}

/* Beside the events, for those who score them later. */
static int note_model(struct batch *b) {
    struct err err;
    char words[64];
    for (int i = 0; i < b->n && !*b->seen.sha256; i++)
        str_copy(b->seen.sha256, sizeof b->seen.sha256, b->items[i].model_sha256);
    if (b->seen.seen > 0)
        fprintf(stderr, "brrctl: note: %s was trained or selected on people of these recordings (%s)\n", detect_model(b->o),
                seen_words(&b->seen, words));
    return outputs_set_model(detect_options_of(b->o)->output, &b->seen, &err) ? brrctl_fail(&err) : 0;
}

static int run(struct batch *b) {
    const int64_t parallel = detect_options_of(b->o)->parallel;
    const int cpus = container_processors_here(), most = cpus < MOST_PARALLEL ? cpus : MOST_PARALLEL;
    const struct crew_work work = {.n = b->n,
                                   .threads = parallel > 0            ? (int)parallel
                                              : most < LEAST_PARALLEL ? LEAST_PARALLEL
                                                                      : most,
                                   .run = detect_item,
                                   .finished = item_finished,
                                   .ctx = b};
    struct crew *crew = NULL;
    struct err err;
    int code = 0;
    if (!(b->client = brrctl_connect(b->o, &code)))
        return code;
    interrupt_catch();
    seen_find(b->client, b->model, detect_options_of(b->o)->dataset, b->items, b->n, &b->seen);
    if (crew_start(&work, &crew, &err)) {
        code = brrctl_fail(&err);
    } else {
        crew_follow(crew, NULL, NULL);
        code = finish(b);
        if (!code)
            code = note_model(b);
    }
    crew_close(crew);
    brr_disconnect(b->client);
    return code;
}

/* Detections beside the recordings, under the names of their labels, would be mistaken for labels when the folder is copied. */
static int check_beside(const struct detect_item *item, struct err *err) {
    char path[8192], output[8192];
    int rc;
    if ((rc = fsio_absolute(path, sizeof path, item->path, err)) || (rc = fsio_absolute(output, sizeof output, item->output, err)))
        return rc;
    size_t folder = (size_t)(fsio_basename(path) - path);
    if (folder != (size_t)(fsio_basename(output) - output) || memcmp(path, output, folder) != 0)
        return 0;
    return err_set(
        err, ERR_INVALID,
        "--output is the folder of the recordings: %s would lie where labels are expected; take another folder, or --force",
        item->output);
}

/* Before the first recording is sent: no file of others is replaced. */
static int check_files(const struct batch *b, struct err *err) {
    const struct detection_config config = config_of(b);
    for (int i = 0; i < b->n; i++) {
        int rc;
        if ((rc = detection_check_events(&config, b->items[i].output, err)) ||
            (!b->o->force && (rc = check_beside(&b->items[i], err))))
            return rc;
    }
    return 0;
}

/* True if both files begin alike and have the same length: an EDF header holds patient, time and signals. */
static bool same_recording(const char *a, const char *b) {
    enum { COMPARED = 64 << 10 };
    OWNED_FILE FILE *fa = fopen(a, "re"), *fb = fopen(b, "re");
    OWNED_MEMORY char *bytes = malloc((size_t)2 * COMPARED);
    int64_t size_a = -1, size_b = -2;
    if (!fa || !fb || !bytes || fsio_size(a, &size_a, NULL, NULL) || fsio_size(b, &size_b, NULL, NULL) || size_a != size_b)
        return false;
    size_t n = fread(bytes, 1, COMPARED, fa);
    return n == fread(bytes + COMPARED, 1, COMPARED, fb) && !memcmp(bytes, bytes + COMPARED, n);
}

/* A recording of an earlier run is never replaced by another one that would have its name. */
static int check_dataset(const struct batch *b, struct err *err) {
    static const char *const endings[] = {"_eeg.edf", "_eeg.bdf"};
    char relative[4096], path[8192];
    for (int i = 0; i < b->n; i++) {
        if (eegfile_has_parts(b->items[i].path))
            return err_set(err, ERR_UNSUPPORTED,
                           "%s: --bids gives recordings new names, which only EDF and BDF can take; leave --bids out",
                           b->items[i].path);
        for (int k = 0; k < 2; k++) {
            int rc;
            if ((rc = bids_path(&b->names[i], endings[k], relative, sizeof relative, err)) ||
                (rc = fsio_join(path, sizeof path, detect_options_of(b->o)->output, relative, err)))
                return rc;
            if (fsio_exists(path) && !same_recording(path, b->items[i].path))
                return err_set(err, ERR_EXISTS,
                               "%s exists and is another recording than %s; take another --output, or name recordings "
                               "sub-LABEL_task-LABEL_run-NN_eeg.edf",
                               path, b->items[i].path);
        }
    }
    return 0;
}

static int begin_dataset(const struct batch *b, struct err *err) {
    char about[600];
    int rc;
    if (!b->names)
        return 0;
    if ((rc = check_dataset(b, err)))
        return rc;
    str_format(about, sizeof about, "Events found by brrd with the model %.400s; not reviewed by people.", fsio_basename(b->model));
    return bids_write_dataset(detect_options_of(b->o)->output, about, err);
}

const char *detect_folder_name(const char *ref, char ret[DETECT_NAME_SIZE]) {
    str_copy(ret, DETECT_NAME_SIZE, fsio_basename(ref));
    for (char *c = ret; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("-_.@", *c)))
            *c = '-';
    return ret;
}

int detect_local(const struct arguments *o) {
    struct batch b = {.o = o, .terminal = output_redraws(stderr) && !o->json};
    struct err err;
    int code;
    if (!detect_options_of(o)->output) {
        fputs("brrctl: detect needs --output: the folder for the events files\n", stderr);
        return EXIT_USAGE;
    }
    if (detect_options_of(o)->bids && detect_options_of(o)->format && strcmp(detect_options_of(o)->format, "tsv") != 0) {
        fputs("brrctl: the events of a BIDS dataset are TSV; remove --format or --bids\n", stderr);
        return EXIT_USAGE;
    }
    OWNED(str_done) struct str rename = str_of(64 << 10);
    if (source_rename(&detect_options_of(o)->rename, &rename, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    b.reading = (struct source_reading){rename.len ? str_cstr(&rename) : NULL, detect_options_of(o)->unit};
    brrctl_ref(detect_model(o), b.model, sizeof b.model);
    if (collect(&b, &err) || check_files(&b, &err) || fsio_mkdirs(detect_options_of(o)->output, &err) || begin_dataset(&b, &err))
        code = brrctl_fail(&err);
    else
        code = run(&b);
    if (code == EXIT_SUCCESS && detect_options_of(o)->trends &&
        trends_write(b.items[0].path, &b.reading, &b.items[0].answers, detect_options_of(o)->trends, &err))
        code = brrctl_fail(&err);
    for (int i = 0; i < b.n; i++) {
        FREE_MEMBERS(b.items[i], path, output, note, answers.values);
    }
    FREE_MEMBERS(b, items, names);
    return code;
}

static int cmd_detect(const struct arguments *o) {
    const struct detect_options *options = detect_options_of(o);
    if (options->off > options->on) { /* NAN: not given */
        fprintf(stderr, "brrctl: --off is %g; expected at most --on (%g)\n", options->off, options->on);
        return EXIT_USAGE;
    }
    for (int i = 0; i < o->n_args; i++)
        if (str_starts(o->args[i], "store://") || str_starts(o->args[i], "job:"))
            return detect_on_server(o);
    return detect_local(o);
}

BRRCTL_COMMAND(
    detect, "FILE|DIR...|URL|job:ID", ARGUMENTS(rows), cmd_detect,
    "run many recordings through a model; write one events file each",
    "Folders are searched; OUTPUT/<path below the folder> with _eeg.edf (or .edf) replaced by _events.tsv is written;\n"
    "other --formats write _annotations.edf (EDF+), _annotations.txt (MNE), .csv_bi, _annotations.json.\n"
    "--bids makes OUTPUT a BIDS dataset: sub-LABEL/eeg/sub-LABEL_task-LABEL_run-NN_eeg.edf (linked or copied), events, "
    "side files.\n"
    "Recordings that cannot be read are listed at the end (exit 1); all others are processed.\n"
    "URL     store://NAME/prefix of the daemon's stores, or one recording there: the daemon runs them as a job, and "
    "brrctl writes\n"
    "        the same files here\n"
    "job:ID  wait for such a job again after Ctrl-C or a lost connection (the job continues), and write its files\n"
    "example: brrctl detect /data/eeg --model best --output /data/hypothesis && brrctl score /data/eeg /data/hypothesis");
