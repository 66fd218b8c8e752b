#include "eeg/labels.h"

#include "base/counted.h"
#include "base/grow.h"
#include "base/order.h"
#include "eeg/labels_path.h"
#include "formats/eegfile.h"
#include "formats/text.h"
#include "store/outputs.h"

enum { PATH_SIZE = 4096 };

/* Query to one source of labels. */
struct request {
    const char *recording_path, *name; /* name: last part of the path */
    const struct eegfile *edf;         /* or NULL */
    const char *rule;
    char format[LABEL_FORMAT_SIZE]; /* of the rule */
    bool automatic;
    struct labels *out;
    size_t capacity;
    size_t known; /* rows that say something about seizures: one, unsure time, or background */
};

static const char UNKNOWN[] = "unknown"; /* code of the runs of LABEL_UNSURE */

/* ---- collecting runs ---- */

static int add_run(struct request *q, double onset, double end, double confidence, const char *code, struct err *err) {
    struct labels *out = q->out;
    if (out->n_runs == LABELS_MAX_ROWS || !GROW(out->runs, out->n_runs, q->capacity))
        return err_set(err, ERR_EXHAUSTED, "%s: too many seizure labels", q->recording_path);
    struct label_run *run = &out->runs[out->n_runs++];
    *run = (struct label_run){.onset_s = onset, .end_s = end, .confidence = confidence};
    str_copy(run->code, sizeof run->code, code);
    return 0;
}

static int by_onset(const void *a, const void *b) {
    const struct label_run *x = a, *y = b;
    int order = order_then(order_f64(x->onset_s, y->onset_s), order_f64(x->end_s, y->end_s));
    return order_then(order, strcmp(x->code, y->code));
}

/* Returns how many are left. */
static size_t sort_and_merge(struct label_run *runs, size_t n) {
    size_t last = 0;
    if (!n)
        return 0;
    SORT(runs, n, by_onset);
    for (size_t i = 1; i < n; i++) {
        struct label_run *into = &runs[last], *run = &runs[i];
        if (run->onset_s <= into->end_s) {
            into->end_s = fmax(into->end_s, run->end_s);
            into->confidence = fmax(into->confidence, run->confidence); /* fmax ignores NaN */
        } else {
            runs[++last] = *run;
        }
    }
    return last + 1;
}

/* ---- what is no seizure ---- */

ORDER_BY(by_count, struct labels_other, order_then(order_u64(y->count, x->count), strcmp(x->text, y->text)))

static int note_other(struct request *q, const char *text, struct err *err) {
    struct labels *out = q->out;
    char kind[LABELS_CODE_SIZE];
    size_t i = 0;
    if (label_is_background(text))
        return 0;
    str_copy(kind, sizeof kind, text);
    str_cut_utf8(kind);
    while (i < out->n_others && strcmp(out->others[i].text, kind) != 0)
        i++;
    if (i == LABELS_MAX_OTHERS)
        return 0;
    if (!out->others && !(out->others = calloc(LABELS_MAX_OTHERS, sizeof *out->others)))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for its labels", q->recording_path);
    if (i == out->n_others)
        str_copy(out->others[out->n_others++].text, LABELS_CODE_SIZE, kind);
    out->others[i].count++;
    return 0;
}

/* ---- the result ---- */

/* Takes what is unknown out of the runs. */
static int separate(struct request *q, struct err *err) {
    struct labels *out = q->out;
    size_t seizures = 0;
    if (!(out->unknown = calloc(out->n_runs + 1, sizeof *out->unknown)))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for its labels", q->recording_path);
    for (size_t i = 0; i < out->n_runs; i++)
        if (!strcmp(out->runs[i].code, UNKNOWN))
            out->unknown[out->n_unknown++] = out->runs[i];
        else
            out->runs[seizures++] = out->runs[i];
    out->n_runs = sort_and_merge(out->runs, seizures);
    out->n_unknown = sort_and_merge(out->unknown, out->n_unknown);
    return 0;
}

/* Remember what was looked for in vain. */
static void note_tried(struct request *q, const char *name) {
    OWNED(str_done) struct str text = str_of(sizeof q->out->tried - 1);
    str_printf(&text, "%s%s%s", q->out->tried, *q->out->tried ? ", " : "", name);
    str_copy(q->out->tried, sizeof q->out->tried, str_cstr(&text));
}

__attribute__((format(printf, 3, 4))) static void append(char *to, size_t size, const char *fmt, ...) {
    size_t used = strlen(to);
    va_list args;
    if (used && used + 2 < size)
        used += (size_t)snprintf(to + used, size - used, "; ");
    va_start(args, fmt);
    vsnprintf(to + used, size - used, fmt, args);
    va_end(args);
    str_cut_utf8(to);
}
#define add_note(q, ...)    append((q)->out->note, sizeof(q)->out->note, __VA_ARGS__)
#define add_without(q, ...) append((q)->out->without, sizeof(q)->out->without, __VA_ARGS__)

const char *labels_tried(const struct labels *labels, char buf[LABELS_TRIED_SIZE]) {
    enum { ROOM = 110 };
    OWNED(str_done) struct str text = str_of(LABELS_TRIED_SIZE - 1);
    str_printf(&text, "%s%slooked for ", labels->without, *labels->without ? "; " : "");
    str_put_list(&text, labels->tried, ", ", ROOM);
    str_copy(buf, LABELS_TRIED_SIZE, str_cstr(&text));
    return buf;
}

/* The source's file beside the recording in path, true when it is there; otherwise it is noted as tried. Events that
 * brrd found are no labels until somebody has changed them. */
static bool beside(struct request *q, enum labels_source source, char path[PATH_SIZE]) {
    bool fits = false;
    if (!labels_candidate(source, q->recording_path, path, PATH_SIZE, &fits) || !fits)
        return false;
    bool there = fsio_exists(path) && !fsio_is_dir(path), own = there && outputs_own(path);
    if (there && !own)
        return true;
    if (own)
        add_without(q, "%s was written by brrd and not changed since", fsio_basename(path));
    else
        note_tried(q, fsio_basename(path));
    return false;
}

/* ---- sources: 0 with *ret_found, or an error ---- */

static int add_row(struct request *q, const struct event_row *row, const char *path, struct err *err) {
    enum label_class class = label_rule_class(q->rule, row->type);
    q->known += class != LABEL_OTHER || label_is_background(row->type);
    if (class == LABEL_OTHER)
        return note_other(q, row->type, err);
    if (!(row->duration_s > 0) && class == LABEL_UNSURE) {
        add_note(q, "%s: '%s' at %.2f s has no duration and masks nothing", fsio_basename(path), row->type, row->onset_s);
        return 0;
    }
    if (!(row->duration_s > 0))
        return err_set(err, ERR_INVALID, "%s: the event %s at %.2f s has no duration above 0", path, row->type, row->onset_s);
    return add_run(q, row->onset_s, row->end_s, row->confidence, class == LABEL_UNSURE ? UNKNOWN : row->type, err);
}

/* The seizures among the rows of an event file, and what is unknown. */
static int add_rows(struct request *q, const struct events_file *events, const char *path, struct err *err) {
    int rc;
    for (size_t i = 0; i < events->n_rows; i++)
        if ((rc = add_row(q, &events->rows[i], path, err)))
            return rc;
    for (size_t i = 0; i < events->n_skipped; i++) {
        if (label_rule_class(q->rule, events->skipped[i].type) == LABEL_SEIZURE)
            return err_set(err, ERR_INVALID, "%s:%d: the times of '%s' cannot be read", path, events->skipped[i].line,
                           events->skipped[i].type);
        q->known += label_is_background(events->skipped[i].type);
    }
    if (events->n_skipped)
        add_note(q, "%s:%d: a row that is no seizure has no readable times and is skipped%s", fsio_basename(path),
                 events->skipped[0].line, events->n_skipped > 1 ? ", and others" : "");
    q->out->recording_s = events->recording_s;
    return 0;
}

/* Makes the times of a file with an origin of its own relative to the recording. */
static int relate(struct request *q, const char *path, struct events_file *events, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *opened = NULL;
    int rc = q->edf ? 0 : eegfile_open_header(q->recording_path, &opened, err);
    if (rc)
        return rc;
    bool doubtful = events->origin_doubtful;
    const struct eeg_info *info = eegfile_info(q->edf ? q->edf : opened);
    double shift_s = events_relate(events, info);
    if (shift_s != 0)
        add_note(q, "%s: its times are moved by %.6g s to the start of the recording", fsio_basename(path), shift_s);
    else if (!info->start.known && !doubtful)
        add_note(q, "%s: its times are taken from the first sample, since the start of the recording is unknown",
                 fsio_basename(path));
    return 0;
}

static int load_events(struct request *q, enum labels_source source, const struct events_format *format, bool *ret_found,
                       struct err *err) {
    char path[PATH_SIZE];
    *ret_found = beside(q, source, path);
    if (!*ret_found)
        return 0;
    OWNED(events_done) struct events_file events = EVENTS_FILE_EMPTY;
    int rc;
    q->known = 0;
    if ((rc = format->read(path, &events, err)) || (!isnan(events.origin_s) && (rc = relate(q, path, &events, err))) ||
        (rc = add_rows(q, &events, path, err)))
        return rc;
    const size_t n = events.n_rows + events.n_skipped;
    if (!q->automatic || !n || q->known)
        return 0;
    *ret_found = false; /* whoever wrote "chewing" need not have looked for seizures */
    q->out->recording_s = NAN;
    add_without(q, "%s has %s, none a seizure or bckg (data.labels: %s takes it for seizure-free)", fsio_basename(path),
                counted((int64_t)n, "event").text, labels_source_name(source));
    return 0;
}

/* ---- CHB-MIT summary ---- */

/* Value after "Key:" of a summary line when its key begins and ends as asked; NULL otherwise. */
static const char *summary_value(const char *line, const char *begins, const char *ends) {
    const char *colon = strchr(line, ':');
    size_t begin_len = strlen(begins), end_len = strlen(ends);
    if (!colon || (size_t)(colon - line) < begin_len || (size_t)(colon - line) < end_len ||
        strncasecmp(line, begins, begin_len) != 0 || strncasecmp(colon - end_len, ends, end_len) != 0)
        return NULL;
    return colon + 1 + strspn(colon + 1, " \t");
}

static bool leading_seconds(const char *text, double *ret) {
    char number[24];
    size_t n = strspn(text, "0123456789.");
    const char *rest = text + n + strspn(text + n, " \t\r");
    if (!n || n >= sizeof number || (*rest && strncasecmp(rest, "sec", 3) != 0))
        return false;
    return str_format(number, sizeof number, "%.*s", (int)n, text) && str_to_f64(number, ret) && *ret <= EVENTS_MAX_SECONDS;
}

/* The state of reading one summary. */
struct summary {
    const char *path;
    int line;
    bool ours, seen;
    double start;               /* NaN unless one waits for its end */
    double announced, seizures; /* of the current entry of this recording; announced NaN when not said */
};

static int end_of_entry(const struct summary *s, struct err *err) {
    if (!isnan(s->start))
        return err_set(err, ERR_INVALID, "%s:%d: a seizure start without its end before this line", s->path, s->line);
    if (s->ours && !isnan(s->announced) && s->announced != s->seizures)
        return err_set(err, ERR_INVALID, "%s:%d: %.0f seizures announced, %.0f listed before this line", s->path, s->line,
                       s->announced, s->seizures);
    return 0;
}

static int summary_line(struct request *q, struct summary *s, const char *line, struct err *err) {
    const char *value = summary_value(line, "File Name", "File Name");
    if (value) {
        int rc = end_of_entry(s, err);
        s->ours = !strcasecmp(value, q->name);
        s->seen |= s->ours;
        s->announced = NAN;
        s->seizures = 0;
        return rc;
    }
    if (!s->ours)
        return 0;
    double number;
    if ((value = summary_value(line, "Number of Seizures", "")) != NULL) {
        if (!leading_seconds(value, &s->announced))
            return err_set(err, ERR_INVALID, "%s:%d: '%s'; expected a number of seizures", s->path, s->line, line);
    } else if ((value = summary_value(line, "Seizure", "Start Time")) != NULL) {
        if (!isnan(s->start) || !leading_seconds(value, &s->start))
            return err_set(err, ERR_INVALID, "%s:%d: '%s'; expected one start in seconds, then its end", s->path, s->line, line);
    } else if ((value = summary_value(line, "Seizure", "End Time")) != NULL) {
        if (isnan(s->start) || !leading_seconds(value, &number) || number <= s->start)
            return err_set(err, ERR_INVALID, "%s:%d: '%s'; expected an end in seconds after the seizure's start", s->path, s->line,
                           line);
        int rc = add_run(q, s->start, number, NAN, "sz", err);
        s->start = NAN;
        s->seizures++;
        return rc;
    }
    return 0;
}

static int read_summary(struct request *q, const char *path, bool *ret_found, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t len;
    int rc;
    if ((rc = text_read(path, (size_t)16 << 20, &text, &len, err)))
        return rc;
    struct summary s = {.path = path, .start = NAN, .announced = NAN};
    for (char *next = text, *line; (line = text_line(&next));) {
        char *end = line + strlen(line);
        while (end > line && isspace((unsigned char)end[-1]))
            *--end = '\0';
        s.line++;
        if ((rc = summary_line(q, &s, line, err)))
            return rc;
    }
    if ((rc = end_of_entry(&s, err)))
        return rc;
    *ret_found = s.seen;
    if (!s.seen)
        add_without(q, "%s does not name this recording", fsio_basename(path));
    return 0;
}

static int load_summary(struct request *q, bool *ret_found, struct err *err) {
    char path[PATH_SIZE];
    bool fits;
    *ret_found = false;
    if (!labels_candidate(LABELS_CHBMIT_SUMMARY, q->recording_path, path, sizeof path, &fits)) {
        note_tried(q, "chbNN-summary.txt");
        return 0;
    }
    return beside(q, LABELS_CHBMIT_SUMMARY, path) ? read_summary(q, path, ret_found, err) : 0;
}

/* ---- EDF+ annotations ---- */

/* True if one of the words stands by itself in the text, letter case ignored. */
static bool has_word(const char *text, const char *const *words) {
    while (*text) {
        size_t len = 0;
        while (isalpha((unsigned char)text[len]))
            len++;
        for (const char *const *w = words; *w; w++)
            if (strlen(*w) == len && strncasecmp(text, *w, len) == 0)
                return true;
        text += len ? len : 1;
    }
    return false;
}

/* A seizure that began and has no end yet. */
struct open_seizure {
    const char *text; /* NULL: none */
    double onset_s;
    bool unsure;
};

/* An unsure point in time masks nothing. */
static void drop_unsure(struct request *q, struct open_seizure *open) {
    if (open->text && open->unsure) {
        add_note(q, "annotation '%.40s' at %.3f s has no duration and masks nothing", open->text, open->onset_s);
        open->text = NULL;
    }
}

/* One that has a duration, or is a start that a later "… end" closes. */
static int read_annotation(struct request *q, const struct eeg_annotation *a, enum label_class class, struct open_seizure *open,
                           struct err *err) {
    static const char *const end_words[] = {"end", "ends", "ended", "offset", "stop", "stops", "stopped", NULL};
    bool closes = has_word(a->text, end_words), unsure = class == LABEL_UNSURE;
    if (a->duration_s > 0)
        return add_run(q, a->onset_s, a->onset_s + a->duration_s, NAN, unsure ? UNKNOWN : "sz", err);
    if (closes && open->text && a->onset_s > open->onset_s) {
        bool masked = unsure || open->unsure;
        open->text = NULL;
        return add_run(q, open->onset_s, a->onset_s, NAN, masked ? UNKNOWN : "sz", err);
    }
    drop_unsure(q, open);
    struct open_seizure next = {a->text, a->onset_s, unsure};
    if (unsure && (closes || open->text)) {
        drop_unsure(q, &next);
        return 0;
    }
    if (closes || open->text)
        return err_set(err, ERR_INVALID, "annotation '%s' at %.3f s has no duration and no matching seizure %s", a->text,
                       a->onset_s, closes ? "start" : "end");
    *open = next;
    return 0;
}

static int read_annotations(struct request *q, const struct eeg_info *info, struct err *err) {
    struct open_seizure open = {0};
    int rc;
    for (size_t i = 0; i < info->n_annotations; i++) {
        const struct eeg_annotation *a = &info->annotations[i];
        enum label_class class = label_rule_class(q->rule, a->text);
        if ((rc = class == LABEL_OTHER ? note_other(q, a->text, err) : read_annotation(q, a, class, &open, err)))
            return rc;
    }
    drop_unsure(q, &open);
    if (open.text)
        return err_set(err, ERR_INVALID, "the seizure annotated at %.3f s has no duration and no end", open.onset_s);
    return 0;
}

static int load_annotations(struct request *q, bool *ret_found, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *opened = NULL;
    int rc;
    if (!q->edf && (rc = eegfile_open(q->recording_path, &opened, err)))
        return rc;
    const struct eegfile *edf = q->edf ? q->edf : opened;
    q->out->undecided = !eegfile_annotations_known(edf);
    const struct eeg_info *info = eegfile_info(edf);
    bool signal = false;
    for (int i = 0; i < info->n_signals; i++)
        signal |= info->signals[i].annotation;
    if ((rc = read_annotations(q, info, err)))
        return rc;
    *ret_found = q->out->n_runs || (signal && !q->automatic);
    if (*ret_found)
        q->out->recording_s = info->duration_s;
    else if (info->n_annotations)
        add_without(q, "%s of the recording, none a seizure", counted((int64_t)info->n_annotations, "annotation").text);
    else
        note_tried(q, "EDF+ annotations");
    return 0;
}

static bool asked(const struct request *q, const char *name, const char *other) {
    return q->automatic || !strcmp(q->format, name) || (other && !strcmp(q->format, other));
}

/* The first event format with a file beside the recording, of those that have no source of their own. */
static int load_formats(struct request *q, bool *ret_found, struct err *err) {
    int rc = 0;
    for (int i = 0; i < EVENTS_FORMATS && !rc && !*ret_found; i++) {
        const struct events_format *row = events_format_at(i);
        q->out->source = LABELS_FORMATS + (unsigned)i;
        if (i != EVENTS_INDEX_tsv && i != EVENTS_INDEX_csv_bi && asked(q, row->name, NULL))
            rc = load_events(q, q->out->source, row, ret_found, err);
    }
    return rc;
}

/* ---- the sources, in the order of "auto" ---- */

static const struct source {
    enum labels_source source;
    const char *other_name;                                           /* besides labels_source_name */
    int (*load)(struct request *q, bool *ret_found, struct err *err); /* NULL: a file of events */
    int format;
} SOURCES[] = {
    {LABELS_BIDS_TSV, "tsv", NULL, EVENTS_INDEX_tsv},
    {LABELS_TUSZ_CSV, "tusz_csv", NULL, EVENTS_INDEX_csv_bi},
    {LABELS_TUSZ_CSV_BI, "csv_bi", NULL, EVENTS_INDEX_csv_bi},
    {LABELS_CHBMIT_SUMMARY, "chbmit_summary", load_summary, 0},
    {LABELS_FORMATS, "", load_formats, 0}, /* it sets the source */
    {LABELS_EDF_ANNOTATIONS, "edf_annotations", load_annotations, 0},
};
enum { N_SOURCES = sizeof SOURCES / sizeof *SOURCES };

static int load_first(struct request *q, struct err *err) {
    bool found = false;
    int rc = 0;
    for (int i = 0; i < N_SOURCES && !rc && !found; i++) {
        const struct source *s = &SOURCES[i];
        if (s->source != LABELS_FORMATS && !asked(q, labels_source_name(s->source), s->other_name))
            continue;
        q->out->source = s->source;
        rc = s->load ? s->load(q, &found, err) : load_events(q, s->source, events_format_at(s->format), &found, err);
    }
    q->out->source = found ? q->out->source : LABELS_NONE;
    return rc;
}

int labels_load(const char *recording_path, const char *rule, const struct eegfile *edf, struct labels *ret, struct err *err) {
    struct labels out = {.source = LABELS_NONE, .recording_s = NAN};
    struct request q = {
        .recording_path = recording_path, .name = fsio_basename(recording_path), .edf = edf, .rule = rule, .out = &out};
    const char *format = label_rule_format(rule, q.format);
    q.automatic = !strcmp(format, "auto");
    if (strlen(recording_path) + sizeof "_annotations.json" > PATH_SIZE)
        return err_set(err, ERR_RANGE, "path of %zu bytes is too long", strlen(recording_path));
    if (strcmp(format, "none") != 0 && !labels_known(format))
        return err_set(err, ERR_INVALID, "label format '%s' is unknown; expected one of %s", format, labels_names);
    struct err why = {0}; /* the error of a place that has no labels is none of the caller's */
    int rc = load_first(&q, &why);
    if (rc || (rc = separate(&q, &why))) {
        labels_done(&out);
        if (err)
            *err = why;
        return rc;
    }
    SORT(out.others, out.n_others, by_count);
    *ret = out;
    return 0;
}

int labels_read_table(const char *path, const char *rule, struct labels *ret, struct err *err) {
    struct labels out = {.source = LABELS_TUSZ_CSV_BI, .recording_s = NAN};
    struct request q = {.recording_path = path, .name = fsio_basename(path), .rule = rule, .out = &out};
    OWNED(events_done) struct events_file events = {0};
    int rc;
    if ((rc = events_format_at(EVENTS_INDEX_csv_bi)->read(path, &events, err)) || (rc = add_rows(&q, &events, path, err)) ||
        (rc = separate(&q, err)))
        labels_done(&out);
    else
        *ret = out;
    return rc;
}

void labels_done(struct labels *labels) {
    FREE_MEMBERS(*labels, runs, unknown, others);
    labels->others = NULL;
    labels->runs = labels->unknown = NULL;
    labels->n_runs = labels->n_unknown = 0;
}
