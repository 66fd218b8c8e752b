/* dataset DIR: what a folder of recordings holds, from headers and label files alone; nothing is filtered or cached, so that a
 * corpus of thousands takes seconds. Window counts are those that training finds. */

#include "base/counted.h"
#include "base/needed.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/source.h"
#include "client/brrctl/output.h"
#include "eeg/channels.h"
#include "eeg/frontend.h"
#include "eeg/labels.h"
#include "eeg/tree.h"
#include "formats/amplitude.h"
#include "formats/eegfile.h"
#include "formats/letters.h"
#include "windows/bids.h"
#include "windows/manifest.h"
#include "windows/patients.h"
#include "windows/sampler.h"

/* The options of dataset. */
struct dataset_options {
    const char *montage;
    double window_s;
    double hop_s;
    const char *labels;
    struct argument_list seizure;
    const char *unlabeled;
    const char *patient, *unit;
    struct argument_list rename;
    bool bids;
};
#define OPTIONS struct dataset_options
static const struct argument rows[] = {
    TEXT("--montage", montage, "M", "referential-19, bipolar-18 or custom:LABEL,LABEL,...; default referential-19"),
    NUMBER("--window", window_s, "S", "length of a window in seconds, default 60", 1, 600),
    NUMBER("--hop", hop_s, "S", "seconds between window starts, default 10", 0.01, 600),
    CHOICE("--labels", labels, labels_names, "format of the labels; default auto"),
    LIST("--seizure", seizure, "PATTERN",
         "also a type or text of seizures, such as \"anfall*\", as data.seizure_labels; may be repeated"),
    CHOICE("--unlabeled", unlabeled, "error|background|skip", "treatment of recordings without labels; default error"),
    TEXT("--patient", patient, "RULE",
         "how a recording's path names its patient, as data.patient: auto (default), folder, prefix, a pattern or a .csv"),
    ASSIGNMENT("--rename", rename, "LABEL=NAME",
               "read a channel under another name, as data.rename: \"*-XY=*\", LOC=F7; may be repeated"),
    CHOICE("--unit", unit, "uV|mV|V", "unit of channels that state none, or one that is no voltage"),
    FLAG("--bids", bids, "list what the folder lacks to be a BIDS dataset"),
};

enum { LABEL_ROUNDING_S = 1, MAX_LINES = 100000, SHOWN_LINES = 20, MAX_TYPES = 64, SPLITS = 4, SOURCES = LABELS_SOURCES };
static const double fill_gap_s = 2;
static const char *const split_names[SPLITS] = {"", "train", "dev", "eval"};

/* Figures of one split. */
struct sum {
    int64_t recordings, seizures, windows[3];
    double seconds, seizure_s;
    struct str patients; /* "\npatient\n…" without doubles */
    int64_t n_patients;
};

struct lines {
    char **text;
    int n;
};

struct survey {
    const struct arguments *o;
    char root[4096]; /* the folder, or that of the file */
    bool alone;      /* one file */
    struct frontend_config frontend;
    struct patient_rule *patient_by; /* NULL: none */
    int64_t lone;                    /* recordings that name no patient */
    int64_t window, hop;
    struct sum splits[SPLITS];
    int64_t files, usable, unlabelled, repaired, discontinuous, inverse, interpolated, sources[SOURCES];
    double rates[16];
    int64_t rate_counts[16];
    int n_rates;
    char rule[LABEL_RULE_SIZE];         /* of the labels */
    struct lines problems, notes, bids; /* a note is no error; bids: what the folder lacks to be a BIDS dataset */
    struct {
        char name[LABELS_CODE_SIZE];
        int64_t count;
    } types[MAX_TYPES]; /* event types and annotations that are neither seizure nor background */
    int n_types;
    int64_t unsure; /* stretches that are masked */
    double unsure_s;
    bool terminal;
};

__attribute__((format(printf, 2, 3))) static void add_line(struct lines *l, const char *fmt, ...) {
    char *line = NULL;
    va_list args;
    va_start(args, fmt);
    int len = l->n < MAX_LINES ? vasprintf(&line, fmt, args) : -1;
    va_end(args);
    if (len < 0)
        return;
    char **more = realloc(l->text, sizeof *more * (size_t)(l->n + 1));
    if (!more) {
        free(line);
        return;
    }
    l->text = more;
    l->text[l->n++] = line;
}

static void lines_done(struct lines *l) {
    for (int i = 0; i < l->n; i++)
        free(l->text[i]);
    free(l->text);
}

/* True when the patient is new in this split. */
static bool note_patient(struct sum *sum, const char *patient) {
    char key[520];
    if (!str_format(key, sizeof key, "\n%.500s\n", patient))
        return false;
    if (strstr(str_cstr(&sum->patients), key))
        return false;
    str_puts(&sum->patients, sum->patients.len ? key + 1 : key);
    sum->n_patients++;
    return true;
}

static void note_rate(struct survey *s, double rate) {
    for (int i = 0; i < s->n_rates; i++)
        if (fabs(s->rates[i] - rate) < 1e-6) {
            s->rate_counts[i]++;
            return;
        }
    if (s->n_rates == (int)(sizeof s->rates / sizeof *s->rates))
        return;
    s->rates[s->n_rates] = rate;
    s->rate_counts[s->n_rates++] = 1;
}

/* ---- one recording ---- */

static enum labels_patient_rule path_rule(const struct dataset_options *o) {
    const char *name = o->patient ? o->patient : "auto";
    return !strcmp(name, "folder") ? LABELS_PATIENT_FOLDER : !strcmp(name, "prefix") ? LABELS_PATIENT_PREFIX : LABELS_PATIENT_AUTO;
}

/* EDF segments on the 256 Hz grid; gaps that the frontend fills are closed. Returns their number. */
static int grid_segments(const struct eeg_info *info, struct window_span *ret) {
    int n = 0;
    for (int i = 0; i < info->n_segments; i++) {
        const struct eeg_segment *e = &info->segments[i];
        double end_s = e->start_s + (double)e->n_records * info->record_s;
        int64_t end = (int64_t)ceil(end_s * FRONTEND_RATE_HZ - 1e-6);
        if (n && e->start_s - (double)ret[n - 1].end / FRONTEND_RATE_HZ <= fill_gap_s)
            ret[n - 1].end = end;
        else
            ret[n++] = (struct window_span){(int64_t)ceil(e->start_s * FRONTEND_RATE_HZ - 1e-6), end};
    }
    return n;
}

static void count_windows(struct survey *s, struct sum *sum, const struct recording_info *r) {
    int64_t n = window_grid(r->segments, r->n_segments, s->window, s->hop, NULL);
    OWNED_MEMORY int64_t *starts = needed(malloc(sizeof *starts * (size_t)(n + 1)));
    window_grid(r->segments, r->n_segments, s->window, s->hop, starts);
    for (int64_t i = 0; i < n; i++) {
        struct window_count count = manifest_count_window(r, starts[i], s->window);
        if (2 * count.valid >= s->window)
            sum->windows[count.class]++;
    }
}

static void count_recording(struct survey *s, struct sum *sum, const struct eeg_info *info, const struct labels *labels) {
    OWNED_MEMORY struct window_span *segments = needed(calloc((size_t)info->n_segments + 1, sizeof *segments));
    OWNED_MEMORY struct window_span *seizures = needed(calloc(labels->n_runs + 1, sizeof *seizures));
    struct recording_info r = {.segments = segments, .seizures = seizures};
    r.n_segments = grid_segments(info, segments);
    for (size_t i = 0; i < labels->n_runs; i++) {
        double onset_s = fmax(labels->runs[i].onset_s, 0), end_s = fmin(labels->runs[i].end_s, info->duration_s);
        if (end_s <= onset_s)
            continue;
        seizures[r.n_seizures++] = (struct window_span){llround(onset_s * FRONTEND_RATE_HZ), llround(end_s * FRONTEND_RATE_HZ)};
        sum->seizure_s += end_s - onset_s;
    }
    sum->seizures += r.n_seizures;
    count_windows(s, sum, &r);
}

/* ---- its labels ---- */

static void note_type(struct survey *s, const struct labels_other *other) {
    int i = 0;
    while (i < s->n_types && strcmp(s->types[i].name, other->text) != 0)
        i++;
    if (i == MAX_TYPES)
        return;
    if (i == s->n_types)
        str_copy(s->types[s->n_types++].name, sizeof s->types[i].name, other->text);
    s->types[i].count += (int64_t)other->count;
}

/* The event types and texts of label files that are no seizures. */
static void note_rest(struct survey *s, const struct labels *labels) {
    for (size_t i = 0; i < labels->n_others; i++)
        note_type(s, &labels->others[i]);
    s->unsure += (int64_t)labels->n_unknown;
    for (size_t i = 0; i < labels->n_unknown; i++)
        s->unsure_s += labels->unknown[i].end_s - labels->unknown[i].onset_s;
}

/* Lists a seizure outside the recording. line: of its row, 0 = unknown. */
static void check_span(struct survey *s, const char *file, int line, double onset_s, double end_s, double recording_s) {
    char at[16] = "";
    if (line)
        str_format(at, sizeof at, ":%d", line);
    if (onset_s < 0)
        add_line(&s->problems, "%s%s: seizure from %g s to %g s, the recording begins at 0 s", file, at, onset_s, end_s);
    else if (onset_s >= recording_s)
        add_line(&s->problems, "%s%s: seizure from %g s to %g s, the recording ends at %g s", file, at, onset_s, end_s,
                 recording_s);
    else if (end_s > recording_s + LABEL_ROUNDING_S)
        add_line(&s->notes, "%s%s: seizure from %g s to %g s is cut, the recording ends at %g s", file, at, onset_s, end_s,
                 recording_s);
}

/* Rows of an events file: seizures outside the recording, with their lines. */
static int check_events(struct survey *s, const char *path, const char *relative, double recording_s, struct err *err) {
    char tsv_path[8192], name[4096];
    OWNED(events_done) struct events_file file = {0};
    int rc;
    if ((rc = events_path(events_format_find("tsv"), path, tsv_path, sizeof tsv_path, err)) ||
        (rc = events_path(events_format_find("tsv"), relative, name, sizeof name, err)))
        return rc;
    (void)letters_find(tsv_path, sizeof tsv_path);
    if ((rc = events_read(tsv_path, &file, err)))
        return rc;
    for (size_t i = 0; i < file.n_rows; i++) {
        const struct event_row *row = &file.rows[i];
        if (label_rule_class(s->rule, row->type) == LABEL_SEIZURE)
            check_span(s, name, row->line, row->onset_s, row->onset_s + row->duration_s, recording_s);
    }
    return 0;
}

static int check_labels(struct survey *s, const char *path, const char *relative, const struct eeg_info *info,
                        const struct labels *labels, struct err *err) {
    if (labels->source == LABELS_BIDS_TSV)
        return check_events(s, path, relative, info->duration_s, err);
    for (size_t i = 0; i < labels->n_runs; i++)
        check_span(s, relative, 0, labels->runs[i].onset_s, labels->runs[i].end_s, info->duration_s);
    return 0;
}

static int split_of(const char *relative) {
    const int i = STR_AMONG(labels_split(relative), split_names);
    return i < 0 ? 0 : i;
}

static int survey_labels(struct survey *s, const char *path, const struct eegfile *edf, struct labels *labels, struct err *err) {
    char tried[LABELS_TRIED_SIZE];
    int rc = labels_load(path, s->rule, edf, labels, err);
    if (rc)
        return rc;
    if (labels->source == LABELS_NONE && (!own(s->o)->unlabeled || !strcmp(own(s->o)->unlabeled, "error")))
        return err_set(err, ERR_NOT_FOUND, "no labels (%s)", labels_tried(labels, tried));
    return 0;
}

/* Counts a recording that is usable. */
static void survey_count(struct survey *s, struct sum *sum, const struct eeg_info *info, const struct channels *use,
                         const struct labels *labels, const char *relative) {
    s->usable++;
    s->inverse += use->inverse;
    s->interpolated += use->interpolated > 0;
    s->unlabelled += labels->source == LABELS_NONE;
    s->sources[labels->source]++;
    s->repaired += info->n_repairs > 0;
    if (*labels->note)
        add_line(&s->notes, "%s: %s", relative, labels->note);
    if (*use->faults)
        add_line(&s->notes, "%s: %s", relative, use->faults);
    for (int i = 0; i < info->n_repairs; i++)
        add_line(&s->notes, "%s: %s", relative, info->repairs[i]);
    s->discontinuous += info->n_segments > 1;
    sum->recordings++;
    sum->seconds += eeg_recorded_s(info);
    note_rate(s, use->rate_hz);
}

static int survey_open(struct survey *s, const char *path, const char *relative, const struct eegfile *edf, struct err *err) {
    const struct eeg_info *info = eegfile_info(edf);
    OWNED(labels_done) struct labels labels = {0};
    OWNED(channels_done) struct channels use = {0};
    struct sum *sum = &s->splits[split_of(relative)];
    char patient[512];
    int rc = channels_choose(info, &s->frontend, &use, err);
    if (rc || (rc = amplitude_check(edf, use.signals, use.n, use.faults, sizeof use.faults, err)))
        return rc;
    rc = survey_labels(s, path, edf, &labels, err);
    note_rest(s, &labels);
    if (rc) {
        s->unlabelled += labels.source == LABELS_NONE;
        return rc;
    }
    if (labels.source == LABELS_NONE && !strcmp(own(s->o)->unlabeled, "skip")) {
        s->unlabelled++;
        return 0;
    }
    bool lone = false;
    if ((rc = patient_rule_or_name(s->patient_by, path_rule(own(s->o)), relative,
                                   &(struct patient_name){patient, sizeof patient, &lone}, err)))
        return rc;
    s->lone += lone;
    count_recording(s, sum, info, &labels);
    if ((rc = check_labels(s, path, relative, info, &labels, err)))
        return rc;
    survey_count(s, sum, info, &use, &labels, relative);
    note_patient(sum, patient);
    return 0;
}

static void add_lack(void *ctx, const char *text) {
    struct survey *s = ctx;
    add_line(&s->bids, "%s", text);
}

static void add_note(void *ctx, const char *text) {
    struct survey *s = ctx;
    add_line(&s->notes, "%s", text);
}

static int visit(void *ctx, const struct tree_recording *recording, struct err *err) {
    struct survey *s = ctx;
    const char *relative = recording->path;
    char path[8192];
    struct eegfile *edf = NULL;
    struct err why = {0};
    int rc = fsio_join(path, sizeof path, s->root, relative, err);
    if (rc)
        return rc;
    s->files++;
    if ((recording->absent ? tree_absent(path, &why) : eegfile_open(path, &edf, &why)) ||
        eegfile_assume_unit(edf, s->frontend.unit, &why) || survey_open(s, path, relative, edf, &why)) {
        char text[800];
        err_of_file(&why, path, relative);
        add_line(&s->problems, "%s", err_text(&why, text, sizeof text));
    }
    if (edf && !s->alone)
        bids_check_recording(s->root, relative, eegfile_info(edf), add_lack, s);
    eegfile_close(edf);
    if (s->terminal && s->files % 16 == 0) {
        str_format(path, sizeof path, "%lld recordings", (long long)s->files);
        output_progress(stderr, path);
    }
    return 0;
}

/* ---- the report ---- */

/* A patient in two splits would be trained on and tested with. */
static void check_overlap(struct survey *s) {
    for (int a = 1; a < SPLITS; a++)
        for (int b = a + 1; b < SPLITS; b++) {
            char *copy = strdup(str_cstr(&s->splits[a].patients)), *rest = NULL;
            for (char *p = copy ? strtok_r(copy, "\n", &rest) : NULL; p; p = strtok_r(NULL, "\n", &rest)) {
                char key[520];
                str_format(key, sizeof key, "\n%.500s\n", p);
                if (!strstr(str_cstr(&s->splits[b].patients), key))
                    continue;
                add_line(&s->problems, "%s: in both %s and %s", p, split_names[a], split_names[b]);
            }
            free(copy);
        }
}

static void put_sum(struct json_writer *w, const char *key, const struct sum *sum) {
    json_begin_object(w, key);
    json_put_i64(w, "recordings", sum->recordings);
    json_put_i64(w, "patients", sum->n_patients);
    json_put_f64(w, "hours", sum->seconds / 3600);
    JSON_MEMBERS(w, *sum, seizures, seizure_s);
    json_begin_object(w, "windows");
    json_put_i64(w, "none", sum->windows[WINDOW_NONE]);
    json_put_i64(w, "partial", sum->windows[WINDOW_PARTIAL]);
    json_put_i64(w, "full", sum->windows[WINDOW_FULL]);
    json_end(w, '}');
    json_end(w, '}');
}

static void put_lines(struct json_writer *w, const char *key, const struct lines *l) { JSON_ARRAY(w, key, l->text, l->n); }

static void print_json(const struct survey *s) {
    struct json_writer *w = output_begin();
    json_put_str(w, "dataset", s->o->args[0]);
    JSON_MEMBERS(w, *s, files, usable, unlabelled);
    json_put_str(w, "montage", s->frontend.montage);
    json_put_i64(w, "inverse_montage", s->inverse);
    JSON_MEMBERS(w, *s, interpolated, discontinuous, repaired);
    json_begin_object(w, "label_sources");
    for (int i = 0; i < SOURCES; i++)
        if (s->sources[i])
            json_put_i64(w, labels_source_name((enum labels_source)i), s->sources[i]);
    json_end(w, '}');
    json_begin_object(w, "splits");
    for (int i = 0; i < SPLITS; i++)
        if (s->splits[i].recordings)
            put_sum(w, i ? split_names[i] : "all", &s->splits[i]);
    json_end(w, '}');
    json_begin_object(w, "other_event_types");
    for (int i = 0; i < s->n_types; i++)
        json_put_i64(w, s->types[i].name, s->types[i].count);
    json_end(w, '}');
    put_lines(w, "notes", &s->notes);
    put_lines(w, "problems", &s->problems);
    put_lines(w, "not_bids", &s->bids);
    output_end(w);
}

static void print_balance(const struct sum *sum) {
    const struct balance_config config = {.full = 0.3, .none = 2.5};
    const struct balance_counts found = {
        .none = sum->windows[WINDOW_NONE], .partial = sum->windows[WINDOW_PARTIAL], .full = sum->windows[WINDOW_FULL]};
    struct balance_counts used;
    balance_plan(&found, &config, &used);
    int64_t all = used.none + used.partial + used.full;
    printf("%10s an epoch shows %lld windows: %lld partial, %lld full, %lld background (%.1f %% with seizure)\n", "",
           (long long)all, (long long)used.partial, (long long)used.full, (long long)used.none,
           all ? 100 * (double)(used.partial + used.full) / (double)all : 0);
}

/* Where the labels stand, rates, and how the montage is met. */
static void print_sources(const struct survey *s) {
    printf("labels    ");
    for (int i = 0; i < SOURCES; i++)
        if (s->sources[i])
            printf(" %s %lld", labels_source_name((enum labels_source)i), (long long)s->sources[i]);
    printf("\nrates     ");
    for (int i = 0; i < s->n_rates; i++)
        printf(" %g Hz %lld", s->rates[i], (long long)s->rate_counts[i]);
    printf("\nmontage    %lld direct, %lld through the inverse of a bipolar one, %lld interpolated; %lld with gaps, %lld corrected "
           "headers\n",
           (long long)(s->usable - s->inverse - s->interpolated), (long long)s->inverse, (long long)s->interpolated,
           (long long)s->discontinuous, (long long)s->repaired);
}

/* A misspelt seizure is found here. */
static void print_types(const struct survey *s) {
    if (s->unsure)
        printf("%-10s %s of unsure events, %.1f s: masked in training and scores\n", "unsure", counted(s->unsure, "span").text,
               s->unsure_s);
    if (s->n_types)
        printf("%-10s not counted as seizures:", "events");
    for (int i = 0; i < s->n_types; i++)
        printf("%s \"%s\" (%lld)", i ? "," : "", s->types[i].name, (long long)s->types[i].count);
    if (s->n_types)
        puts("; --seizure PATTERN (data.seizure_labels) counts more of them");
}

static void print_lines(const char *title, const struct lines *l) {
    if (l->n)
        printf("%-10s %d\n", title, l->n);
    for (int i = 0; i < l->n && i < SHOWN_LINES; i++)
        printf("  %s\n", l->text[i]);
    if (l->n > SHOWN_LINES)
        printf("  and %d more; --json lists all\n", l->n - SHOWN_LINES);
}

static void print_text(const struct survey *s) {
    int64_t windows = 0;
    output_clear();
    printf("%s: %lld recording%s, %lld usable with %s\n", s->o->args[0], (long long)s->files, s->files == 1 ? "" : "s",
           (long long)s->usable, s->frontend.montage);
    printf("%-10s %10s %8s %9s %8s %10s | windows: %9s %8s %8s\n", "split", "recordings", "patients", "hours", "seizures",
           "seizure s", "none", "partial", "full");
    for (int i = 0; i < SPLITS; i++) {
        const struct sum *x = &s->splits[i];
        if (!x->recordings)
            continue;
        printf("%-10s %10lld %8lld %9.2f %8lld %10.1f |          %9lld %8lld %8lld\n", i ? split_names[i] : "by patient",
               (long long)x->recordings, (long long)x->n_patients, x->seconds / 3600, (long long)x->seizures, x->seizure_s,
               (long long)x->windows[WINDOW_NONE], (long long)x->windows[WINDOW_PARTIAL], (long long)x->windows[WINDOW_FULL]);
        windows += x->windows[WINDOW_NONE] + x->windows[WINDOW_PARTIAL] + x->windows[WINDOW_FULL];
        if (i < 2 && x->seizures)
            print_balance(x);
    }
    if (s->usable)
        print_sources(s);
    print_types(s);
    if (s->usable && !windows)
        printf(
            "hint       no recording has half a window of %g s without a gap, so nothing can be learned here; lower data.window_s "
            "(--window)\n",
            (double)s->window / FRONTEND_RATE_HZ);
    print_lines("notes", &s->notes);
    print_lines("problems", &s->problems);
    if (s->unlabelled && !own(s->o)->unlabeled)
        printf("hint       %s no labels; out of one table of seizures: `brrctl labels import TABLE.csv %s`\n",
               s->unlabelled == 1 ? "a recording has" : "some recordings have", s->o->args[0]);
    if (s->bids.n && own(s->o)->bids)
        print_lines("not BIDS", &s->bids);
    else if (s->bids.n)
        printf("BIDS       no: %s; --bids lists them\n", counted(s->bids.n, "difference").text);
    else if (!s->alone)
        puts("BIDS       names and side files are those of a BIDS dataset");
}

static int survey_folder(struct survey *s, struct err *err) {
    const struct tree_config tree = {
        .root = s->root, .patient = path_rule(own(s->o)), .patient_by = s->patient_by, .note = add_note, .ctx = s};
    int rc = tree_walk(&tree, visit, err);
    if (rc)
        return rc;
    if (!s->files)
        return err_set(err, ERR_NOT_FOUND, "no .edf or .bdf file or other recording below %s", s->root);
    char unnamed[120];
    if (patients_unnamed_of(s->lone, s->usable, unnamed, sizeof unnamed))
        add_line(&s->notes, "%s", unnamed);
    check_overlap(s);
    bids_check_dataset(s->root, add_lack, s);
    return 0;
}

static int survey_file(struct survey *s, const char *path, struct err *err) {
    const char *name = fsio_basename(path);
    const int before = (int)(name - path);
    str_format(s->root, sizeof s->root, "%.*s", before ? before : 1, before ? path : ".");
    s->alone = true;
    return visit(s, &(struct tree_recording){.path = name}, err);
}

static int survey_all(struct survey *s, struct err *err) {
    const char *path = s->o->args[0];
    if (!str_copy(s->root, sizeof s->root, path))
        return err_set(err, ERR_RANGE, "%.60s…: the path is too long", path);
    if (!fsio_exists(path))
        return err_set(err, ERR_NOT_FOUND, "there is no %s; expected a recording, or a folder of them", path);
    int rc = fsio_is_dir(path) ? survey_folder(s, err) : survey_file(s, path, err);
    if (rc)
        return rc;
    (s->o->json ? print_json : print_text)(s);
    return 0;
}

static int cmd_dataset(const struct arguments *o) {
    struct survey s = {.o = o,
                       .frontend = {.montage = own(o)->montage ? own(o)->montage : "referential-19",
                                    .notch_hz = 60,
                                    .bandpass_hz = {0.5, 120},
                                    .fill_gap_s = fill_gap_s},
                       .window = llround(argument_or(own(o)->window_s, 60) * FRONTEND_RATE_HZ),
                       .hop = llround(argument_or(own(o)->hop_s, 10) * FRONTEND_RATE_HZ),
                       .terminal = output_redraws(stderr) && !o->json};
    struct err err;
    int channels, code;
    if (montage_channels(s.frontend.montage, NULL, &channels, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    if (label_rule_write(own(o)->labels ? own(o)->labels : "auto", own(o)->seizure.items, (size_t)own(o)->seizure.n, s.rule,
                         &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    OWNED(str_done) struct str rename = str_of(64 << 10);
    if (source_rename(&own(o)->rename, &rename, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    s.frontend.rename = rename.len ? str_cstr(&rename) : NULL;
    s.frontend.unit = own(o)->unit;
    for (int i = 0; i < SPLITS; i++)
        str_init(&s.splits[i].patients, 64 << 20);
    const char *by = own(o)->patient;
    int rc =
        by && strcmp(by, "auto") && strcmp(by, "folder") && strcmp(by, "prefix") ? patient_rule_open(by, &s.patient_by, &err) : 0;
    rc = rc ? rc : survey_all(&s, &err);
    patient_rule_free(s.patient_by);
    for (int i = 0; i < SPLITS; i++)
        str_done(&s.splits[i].patients);
    code = rc ? brrctl_fail(&err) : s.problems.n ? EXIT_FAILED : 0;
    lines_done(&s.problems);
    lines_done(&s.notes);
    lines_done(&s.bids);
    return code;
}

BRRCTL_COMMAND(
    dataset, "DIR|FILE", ARGUMENTS(rows, .local = true), cmd_dataset,
    "show what a folder of recordings, or one of them, contains; works without a daemon",
    "Recordings, patients, hours, seizures, montage coverage, window counts, balance, train/dev/eval folders, and problems\n"
    "(exit 1 if there are any); what the folder lacks to be a BIDS dataset. Only headers and labels are read. Defaults:\n"
    "referential-19, windows of 60 s every 10 s.\n"
    "example: brrctl dataset /data/eeg --montage bipolar-18");
